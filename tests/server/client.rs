//! A connection as the tests use it: one line in, one reply out, every read bounded.

use std::fmt;
use std::path::Path;

use redis::{
    ConnectionAddr, ConnectionInfo, ConnectionLike, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, Value,
};

use crate::expectation::{Line, words};
use crate::harness::PATIENCE;

/// A reply in the few kinds that matter here. Maps and sets read as lists, status lines as texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    List(Vec<Reply>),
    Error(String),
}

impl Reply {
    pub fn from_value(value: Value) -> Self {
        let list = |items: Vec<Value>| Self::List(items.into_iter().map(Self::from_value).collect());
        match value {
            Value::Nil => Self::Nil,
            Value::Int(number) => Self::Int(number),
            Value::BulkString(bytes) => Self::Text(bytes),
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => Self::Text(text.into_bytes()),
            Value::Okay => Self::Text(b"OK".to_vec()),
            Value::Double(number) => Self::Text(number.to_string().into_bytes()),
            Value::Boolean(yes) => Self::Int(i64::from(yes)),
            Value::Array(items) | Value::Set(items) | Value::Push { data: items, .. } => list(items),
            Value::Map(pairs) => list(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
            Value::ServerError(error) => Self::Error(match error.details() {
                Some(details) => format!("{} {details}", error.code()),
                None => error.code().to_owned(),
            }),
            other => panic!("a reply of an unforeseen kind: {other:?}"),
        }
    }

    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            Self::Text(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number"),
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
    pub fn ints(&self) -> Vec<i64> {
        self.list().iter().map(Self::int).collect()
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// The value that follows a name in a flat list of names and values.
    pub fn field(&self, name: &str) -> Option<&Self> {
        let Self::List(items) = self else { return None };
        items.chunks(2).find(|pair| pair[0].to_string() == name).and_then(|pair| pair.get(1))
    }
}

/// As the case files write it.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Int(number) => number.fmt(f),
            Self::Text(text) => String::from_utf8_lossy(text).fmt(f),
            Self::Error(text) => text.fmt(f),
            Self::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    let space = if at == 0 { "" } else { " " };
                    match item {
                        Self::List(_) => write!(f, "{space}[{item}]")?,
                        item => write!(f, "{space}{item}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// One connection to one server.
pub struct Conn(redis::Connection);

impl Conn {
    pub fn open(socket: &Path) -> redis::RedisResult<Self> {
        Self::connect(socket, ProtocolVersion::RESP2)
    }

    pub fn open3(socket: &Path) -> redis::RedisResult<Self> {
        Self::connect(socket, ProtocolVersion::RESP3)
    }

    fn connect(socket: &Path, protocol: ProtocolVersion) -> redis::RedisResult<Self> {
        let settings = RedisConnectionInfo::default().set_protocol(protocol).set_skip_set_lib_name();
        let info: ConnectionInfo = ConnectionAddr::Unix(socket.to_owned()).into_connection_info()?;
        let client = redis::Client::open(info.set_redis_settings(settings))?;
        let connection = client.get_connection()?;
        connection.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(connection))
    }

    /// Whether a server answers here. One that finds its port taken may go away in the middle of the question.
    pub fn answers(socket: &Path) -> bool {
        let ping = |mut conn: Self| conn.0.req_packed_command(&pack(&["PING"])).ok();
        Self::open(socket).ok().and_then(ping).is_some_and(|value| Reply::from_value(value).to_string() == "PONG")
    }

    /// The answer as the client library read it.
    #[track_caller]
    pub fn value(&mut self, words: &[impl AsRef<[u8]>]) -> Value {
        match self.0.req_packed_command(&pack(words)) {
            Ok(value) => value,
            Err(e) => panic!("{}: {e}", shown(words)),
        }
    }

    #[track_caller]
    pub fn call(&mut self, words: &[impl AsRef<[u8]>]) -> Reply {
        Reply::from_value(self.value(words))
    }

    /// Runs one line: words separated by spaces or in double quotes.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> Reply {
        self.call(&words(line).unwrap())
    }

    /// Runs a line that must not be answered with an error.
    #[track_caller]
    pub fn good(&mut self, line: &str) -> Reply {
        let reply = self.run(line);
        assert!(!reply.is_error(), "{line}: {reply}");
        reply
    }

    #[track_caller]
    pub fn int(&mut self, line: &str) -> i64 {
        self.good(line).int()
    }

    /// The integers of a decision.
    #[track_caller]
    pub fn ints(&mut self, line: &str) -> Vec<i64> {
        self.good(line).ints()
    }

    /// The text of the error that the line must be answered with.
    #[track_caller]
    pub fn error(&mut self, line: &str) -> String {
        match self.run(line) {
            Reply::Error(text) => text,
            reply => panic!("{line}: an error was due, not {reply}"),
        }
    }

    /// Runs a row of a case, `command -> reply`, and asserts the reply. Several rows stand on several lines.
    #[track_caller]
    pub fn expect(&mut self, rows: &str) {
        for row in rows.lines().map(str::trim).filter(|row| !row.is_empty()) {
            let line = Line::parse(row).unwrap_or_else(|e| panic!("{e}"));
            let reply = self.call(&line.words);
            assert!(line.accepts(&reply), "{row}\n  got {reply}");
        }
    }

    /// Sends without waiting for the reply.
    #[track_caller]
    pub fn send(&mut self, line: &str) {
        self.0.send_packed_command(&pack(&words(line).unwrap())).unwrap();
    }

    /// The next thing the server says, or the error of a connection that it closed.
    pub fn receive(&mut self) -> Result<Value, String> {
        self.0.recv_response().map_err(|e| e.to_string())
    }

    /// The next reply.
    #[track_caller]
    pub fn reply(&mut self) -> Reply {
        Reply::from_value(self.receive().unwrap())
    }

    /// What the server pushed to this connection before it answered this PING, each as a line of words.
    pub fn pushed(&mut self) -> Vec<String> {
        self.send("PING");
        let mut pushed = vec![];
        loop {
            match self.receive().unwrap() {
                Value::Push { kind, data } => {
                    pushed.push(format!("{kind:?} {}", Reply::List(data.into_iter().map(Reply::from_value).collect())));
                }
                _ => return pushed,
            }
        }
    }

    /// This connection's id, as CLIENT KILL and CLIENT UNBLOCK take it.
    pub fn id(&mut self) -> i64 {
        self.int("CLIENT ID")
    }
}

/// A command in the protocol's form.
pub fn pack(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut packed = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        packed.extend(format!("${}\r\n", word.len()).bytes());
        packed.extend(word);
        packed.extend(b"\r\n");
    }
    packed
}

pub fn shown(words: &[impl AsRef<[u8]>]) -> String {
    let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word.as_ref()).into_owned()).collect();
    words.join(" ")
}
