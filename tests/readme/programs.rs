//! Programs of the documentation: run with the client of their language, on a server of their own.
//!
//! Two numbers are replaced before a program runs, and nothing else: `6379` by the port of the test's server and
//! `8080` by a free one. A program that names `8080` serves HTTP and is asked over it; any other runs to its end and
//! must print what the block behind it shows.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::blocks::{Block, Language};
use crate::harness::{PATIENCE, Server, free_port, say};
use crate::{clients, server};

/// Runs a program and judges it; skips it, by name, where its client cannot be had.
pub fn run(block: &Block, printed: Option<&Block>) {
    let place = block.place();
    let client = match block.language {
        Language::Python => clients::python(),
        Language::JavaScript => clients::node(),
        Language::Go => clients::go(),
        Language::Java => clients::java(),
        other => panic!("{place}: {other:?} is no language of programs"),
    };
    let client = match client {
        Ok(client) => client,
        Err(reason) => return say(&format!("SKIPPED {place} ({:?}): {}", block.language, reason.trim())),
    };
    let server = server::start();
    let http = free_port();
    let text = block.text();
    let serves = text.contains("8080");
    let text = text.replace("6379", &server.port().to_string()).replace("8080", &http.to_string());
    let mut command = prepared(block.language, &client, server.dir(), &text);
    command.current_dir(server.dir()).stdin(Stdio::null());
    if serves {
        let file = |name: &str| fs::File::create(server.dir().join(name)).unwrap();
        command.stdout(file("out")).stderr(file("err"));
        let running = Running(command.spawn().unwrap());
        limits_http(&place, running, http, &server);
        return;
    }
    let output = bounded(&command).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{place} failed:\n{shown}{complaint}");
    let printed = printed.unwrap_or_else(|| panic!("{place}: a block of `output` behind it has to say what it prints"));
    assert_eq!(shown, printed.text(), "{place} prints something else\n{complaint}");
}

/// The same command, ended when it takes too long.
pub fn bounded(command: &Command) -> Command {
    let mut bounded = Command::new("timeout");
    bounded.arg(PATIENCE.as_secs().to_string()).arg(command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        bounded.current_dir(dir);
    }
    bounded.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    bounded.stdin(Stdio::null());
    bounded
}

/// The command that runs a program's text, which is put into `dir`.
fn prepared(language: Language, client: &Path, dir: &Path, text: &str) -> Command {
    let file = |name: &str| -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    match language {
        Language::Python => {
            let mut python = Command::new(client.join("bin/python"));
            python.arg(file("program.py"));
            python
        }
        Language::JavaScript => {
            std::os::unix::fs::symlink(client.join("node_modules"), dir.join("node_modules")).unwrap();
            let mut node = Command::new("node");
            node.arg(file("program.mjs"));
            node
        }
        Language::Go => {
            for name in ["go.mod", "go.sum"] {
                fs::copy(client.join(name), dir.join(name)).unwrap();
            }
            file("main.go");
            let mut build = Command::new("go");
            let built = build.args(["build", "-mod=mod", "-o", "program", "."]).current_dir(dir).output().unwrap();
            assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            Command::new(dir.join("program"))
        }
        _ => {
            let mut path = OsString::from(client);
            path.push("/*");
            let mut java = Command::new("java");
            java.arg("-cp").arg(path).arg(file("Program.java"));
            java
        }
    }
}

/// A program that runs until this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Answer {
    status: u16,
    head: String,
}

impl Answer {
    fn number(&self, name: &str) -> Option<u64> {
        let line = self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })?;
        Some(line.parse().unwrap_or_else(|_| panic!("{name} is no number:\n{}", self.head)))
    }
}

fn get(port: u16) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).or_else(|_| TcpStream::connect(("::1", port)))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ann\r\nConnection: close\r\n\r\n")?;
    let mut text = Vec::new();
    // A server that closes hastily may reset the connection behind its answer.
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let head = text.split("\r\n\r\n").next().unwrap_or_default().to_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("no answer: {text:?}")))?;
    Ok(Answer { status, head })
}

/// Ten of a caller's requests pass and then one a second: the numbers in the headers, a 429 that says how long to
/// wait, and after that wait another 200.
fn limits_http(place: &str, mut running: Running, port: u16, server: &Server) {
    let deadline = Instant::now() + PATIENCE;
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (before, first) = loop {
        let before = seconds();
        if let Ok(answer) = get(port) {
            break (before, answer);
        }
        let ended = running.0.try_wait().unwrap();
        let said =
            || ["out", "err"].map(|name| fs::read_to_string(server.dir().join(name)).unwrap_or_default()).concat();
        assert!(ended.is_none(), "{place} ended: {}", said());
        assert!(Instant::now() < deadline, "{place} does not answer: {}", said());
        thread::sleep(Duration::from_millis(20));
    };
    let head = &first.head;
    assert_eq!(first.status, 200, "{place}: {head}");
    assert_eq!(first.number("X-RateLimit-Limit"), Some(10), "{place}: {head}");
    assert_eq!(first.number("X-RateLimit-Remaining"), Some(9), "{place}: {head}");
    assert_eq!(first.number("Retry-After"), None, "{place}: {head}");
    let reset = first.number("X-RateLimit-Reset").expect("the time at which the bucket is full again");
    // The bucket is full again a second after the request, rounded up.
    assert!((before + 1..=seconds() + 2).contains(&reset), "{place}: asked at {before}, {head}");
    let refused = (0..1000).map(|_| get(port).unwrap()).find(|answer| answer.status != 200);
    let refused = refused.unwrap_or_else(|| panic!("{place} lets everybody in"));
    let head = &refused.head;
    assert_eq!(refused.status, 429, "{place}: {head}");
    assert_eq!(refused.number("X-RateLimit-Remaining"), Some(0), "{place}: {head}");
    assert_eq!(refused.number("Retry-After"), Some(1), "{place}: {head}");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(get(port).unwrap().status, 200, "{place}: after the wait that it told");
}
