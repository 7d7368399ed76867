//! A bare connection: commands out, replies in, each on its own, so that a dead server is an error and not a panic.
//! Reads both protocols, strictly: bytes that are no reply end the test.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::client::pack;
use crate::harness::PATIENCE;

/// A reply; maps, sets and pushes read as lists, everything that is text as text.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    List(Vec<Answer>),
    Error(String),
}

impl Answer {
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            Self::Text(text) => {
                let text = std::str::from_utf8(text).ok();
                text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("a number, not {text:?}"))
            }
            other => panic!("a number, not {other}"),
        }
    }

    #[track_caller]
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            other => panic!("a list, not {other}"),
        }
    }

    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            other => panic!("a text, not {other}"),
        }
    }

    /// The first element, or the number itself: above 0 if the call did something.
    pub fn first(&self) -> i64 {
        match self {
            Self::List(items) => items.first().map_or(0, Self::int),
            other => other.int(),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => write!(f, "nil"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{}", String::from_utf8_lossy(text)),
            Self::Error(text) => write!(f, "{text}"),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(" "))
            }
        }
    }
}

/// A connection.
pub struct Pipe {
    reader: BufReader<UnixStream>,
}

impl Pipe {
    /// Connects; reads and writes are bounded.
    pub fn open(socket: &Path) -> Self {
        Self::try_open(socket).unwrap_or_else(|e| panic!("{}: {e}", socket.display()))
    }

    pub fn try_open(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { reader: BufReader::with_capacity(1 << 16, stream) })
    }

    /// The same, speaking RESP3.
    pub fn open3(socket: &Path) -> Self {
        let mut pipe = Self::open(socket);
        let hello = pipe.call(&["HELLO", "3"]);
        assert!(!hello.is_error(), "{hello}");
        pipe
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    pub fn send(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<()> {
        self.send_bytes(&pack(words))
    }

    /// The next reply.
    pub fn receive(&mut self) -> io::Result<Answer> {
        let line = self.line()?;
        let (kind, rest) = line.split_first().ok_or_else(|| bad("an empty line", &line))?;
        let number = || -> io::Result<i64> {
            let text = std::str::from_utf8(rest).map_err(|_| bad("a number", &line))?;
            text.parse().map_err(|_| bad("a number", &line))
        };
        let length = || usize::try_from(number()?).map_err(|_| bad("a length", &line));
        Ok(match kind {
            b'+' | b',' | b'(' => Answer::Text(rest.to_vec()),
            b'-' => Answer::Error(String::from_utf8_lossy(rest).into_owned()),
            b':' => Answer::Int(number()?),
            b'_' => Answer::Nil,
            b'#' => Answer::Int(i64::from(rest == b"t")),
            b'$' | b'*' if rest == b"-1" => Answer::Nil,
            b'$' | b'=' => Answer::Text(self.exactly(length()?)?),
            b'!' => Answer::Error(String::from_utf8_lossy(&self.exactly(length()?)?).into_owned()),
            b'*' | b'~' | b'>' => self.items(length()?)?,
            b'%' => self.items(length()? * 2)?,
            _ => return Err(bad("a reply", &line)),
        })
    }

    fn items(&mut self, count: usize) -> io::Result<Answer> {
        let items: io::Result<Vec<_>> = (0..count).map(|_| self.receive()).collect();
        Ok(Answer::List(items?))
    }

    /// A line without its end.
    pub fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }

    /// So many bytes and the end of line behind them.
    fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = self.raw(length + 2)?;
        if !bytes.ends_with(b"\r\n") {
            return Err(bad("an end of line", &bytes));
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    /// So many bytes.
    pub fn raw(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// One command and its reply from a server that lives.
    #[track_caller]
    pub fn call(&mut self, words: &[impl AsRef<[u8]>]) -> Answer {
        let shown = || crate::client::shown(words).chars().take(300).collect::<String>();
        self.send(words).unwrap_or_else(|e| panic!("{}: {e}", shown()));
        self.receive().unwrap_or_else(|e| panic!("{}: {e}", shown()))
    }

    /// One line of words without quotes.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> Answer {
        self.call(&line.split(' ').collect::<Vec<_>>())
    }

    /// A line that must not be answered with an error.
    #[track_caller]
    pub fn good(&mut self, line: &str) -> Answer {
        let answer = self.run(line);
        assert!(!answer.is_error(), "{line}: {answer}");
        answer
    }

    #[track_caller]
    pub fn int(&mut self, line: &str) -> i64 {
        self.good(line).int()
    }

    /// The error that a line must be answered with.
    #[track_caller]
    pub fn error(&mut self, line: &str) -> String {
        match self.run(line) {
            Answer::Error(text) => text,
            other => panic!("{line}: an error was due, not {other}"),
        }
    }

    /// Sends many commands at once and reads as many replies.
    #[track_caller]
    pub fn batch(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Answer> {
        let mut bytes = Vec::new();
        for words in commands {
            bytes.extend(pack(words));
        }
        self.send_bytes(&bytes).unwrap();
        commands.iter().map(|_| self.receive().unwrap()).collect()
    }

    /// A field of INFO.
    #[track_caller]
    pub fn info(&mut self, section: &str, field: &str) -> String {
        let text = self.good(&format!("INFO {section}")).to_string();
        crate::info::field(&text, field)
    }

    #[track_caller]
    pub fn info_number(&mut self, section: &str, field: &str) -> i64 {
        let value = self.info(section, field);
        value.parse().unwrap_or_else(|e| panic!("{field}: {value:?}: {e}"))
    }

    /// The server's clock in microseconds.
    pub fn time_us(&mut self) -> i64 {
        let time = self.good("TIME");
        time.list()[0].int() * 1_000_000 + time.list()[1].int()
    }
}

fn bad(wanted: &str, got: &[u8]) -> io::Error {
    let got = String::from_utf8_lossy(&got[..got.len().min(200)]).into_owned();
    io::Error::new(io::ErrorKind::InvalidData, format!("{wanted} was due, not {got:?}"))
}
