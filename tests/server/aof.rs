//! The append-only file as a witness: exactly which commands a call left for replicas and restarts.

use std::fs;
use std::path::PathBuf;

use crate::client::shown;
use crate::harness::Server;

/// A command as its words.
pub type Words = Vec<Vec<u8>>;

/// Reads what a server appended since the last look. The server writes before it replies, so what a received reply
/// caused is there.
pub struct Aof {
    file: PathBuf,
    read: usize,
}

impl Aof {
    /// Starts at the present end of the file.
    pub fn of(server: &Server) -> Self {
        let folder = server.dir().join("appendonlydir");
        let mut files: Vec<_> = fs::read_dir(&folder)
            .unwrap_or_else(|e| panic!("{}: {e}: start the server with an append-only file", folder.display()))
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
            .collect();
        assert_eq!(files.len(), 1, "one file of increments: {files:?}");
        let file = files.remove(0);
        let read = fs::read(&file).unwrap().len();
        Self { file, read }
    }

    /// The commands appended since the last look, without the SELECT that opens a file.
    pub fn commands(&mut self) -> Vec<Words> {
        let bytes = fs::read(&self.file).unwrap();
        let mut commands = parse(&bytes[self.read..]);
        self.read = bytes.len();
        commands.retain(|words| !words[0].eq_ignore_ascii_case(b"SELECT"));
        commands
    }

    /// The same as lines of text.
    pub fn lines(&mut self) -> Vec<String> {
        self.commands().iter().map(|words| shown(words)).collect()
    }
}

fn parse(mut bytes: &[u8]) -> Vec<Words> {
    let mut commands = vec![];
    while !bytes.is_empty() {
        let (count, rest) = header(bytes, b'*');
        bytes = rest;
        let mut words = vec![];
        for _ in 0..count {
            let (length, rest) = header(bytes, b'$');
            words.push(rest[..length].to_vec());
            bytes = &rest[length + 2..];
        }
        commands.push(words);
    }
    commands
}

/// The number of a line that opens an array or a text, and what follows the line.
fn header(bytes: &[u8], kind: u8) -> (usize, &[u8]) {
    let end = bytes.windows(2).position(|two| two == b"\r\n").expect("a whole line");
    assert_eq!(bytes[0], kind, "{:?}", String::from_utf8_lossy(&bytes[..end]));
    (std::str::from_utf8(&bytes[1..end]).unwrap().parse().unwrap(), &bytes[end + 2..])
}
