//! The little language of the case files: words of a command, and what its reply must be.
//!
//! A reply is written as its elements: integers and texts as they are, nested arrays in brackets, `nil`, `*` for
//! anything, `3..5` for a number in that range, `ERR*words` for an error that contains those words in any case.

use crate::client::Reply;

/// One element of an expected reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    Anything,
    Nil,
    Range(i64, i64),
    /// An integer or a text that reads so.
    Word(String),
    Error(String),
    List(Vec<Expected>),
}

/// A command and, where it asserts something, the elements of its reply.
#[derive(Debug, Clone)]
pub struct Line {
    pub words: Vec<Vec<u8>>,
    pub expected: Option<Vec<Expected>>,
}

impl Line {
    /// Reads `command words -> reply  # remark`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = &text[..outside_quotes(text, "  #").unwrap_or(text.len())];
        let (command, reply) = match outside_quotes(text, "->") {
            Some(at) => (&text[..at], Some(text[at + 2..].trim())),
            None => (text, None),
        };
        let words = words(command)?;
        if words.is_empty() {
            return Err(format!("no command in {text:?}"));
        }
        let expected = match reply {
            None => None,
            Some("") => return Err(format!("nothing after -> in {text:?}")),
            Some(error) if error.starts_with("ERR*") => Some(vec![Expected::Error(error[4..].to_lowercase())]),
            Some(list) => Some(elements(list)?),
        };
        Ok(Self { words, expected })
    }

    /// Whether a reply is the expected one. An array is compared element by element, anything else as the only element.
    pub fn accepts(&self, reply: &Reply) -> bool {
        let Some(expected) = &self.expected else { return true };
        match reply {
            Reply::List(items) => all_match(expected, items),
            one => all_match(expected, std::slice::from_ref(one)),
        }
    }
}

fn all_match(expected: &[Expected], items: &[Reply]) -> bool {
    expected.len() == items.len() && expected.iter().zip(items).all(|(expected, item)| matches(expected, item))
}

fn matches(expected: &Expected, item: &Reply) -> bool {
    match (expected, item) {
        (Expected::Error(words), Reply::Error(text)) => text.to_lowercase().contains(words),
        (_, Reply::Error(_)) => false,
        (Expected::Anything, _) | (Expected::Nil, Reply::Nil) => true,
        (Expected::Range(low, high), Reply::Int(number)) => (low..=high).contains(&number),
        (Expected::Word(word), Reply::Int(number)) => *word == number.to_string(),
        (Expected::Word(word), Reply::Text(text)) => word.as_bytes() == text.as_slice(),
        (Expected::List(expected), Reply::List(items)) => all_match(expected, items),
        _ => false,
    }
}

/// The words of a command: separated by spaces, or in double quotes, with `\xhh` for any byte inside them.
pub fn words(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut words = vec![];
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').ok_or_else(|| format!("an open quote in {text:?}"))?;
            words.push(unescape(&quoted[..end])?);
            rest = &quoted[end + 1..];
        } else {
            let end = rest.find(' ').unwrap_or(rest.len());
            words.push(rest.as_bytes()[..end].to_vec());
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Ok(words)
}

fn unescape(quoted: &str) -> Result<Vec<u8>, String> {
    let mut pieces = quoted.split("\\x");
    let mut bytes = pieces.next().unwrap_or("").as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).ok_or_else(|| format!("half a byte in {quoted:?}"))?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|e| format!("{quoted:?}: {e}"))?);
        bytes.extend(rest.as_bytes());
    }
    Ok(bytes)
}

fn outside_quotes(text: &str, mark: &str) -> Option<usize> {
    text.match_indices(mark).map(|(at, _)| at).find(|&at| text[..at].matches('"').count().is_multiple_of(2))
}

fn elements(text: &str) -> Result<Vec<Expected>, String> {
    let spaced = text.replace('[', " [ ").replace(']', " ] ");
    let mut open: Vec<Vec<Expected>> = vec![vec![]];
    for word in spaced.split_whitespace() {
        let element = match word {
            "[" => {
                open.push(vec![]);
                continue;
            }
            "]" => Expected::List(open.pop().unwrap_or_default()),
            "*" => Expected::Anything,
            "nil" => Expected::Nil,
            word => match word.split_once("..") {
                Some((low, high)) => {
                    let number = |part: &str| part.parse().map_err(|e| format!("{word:?} in {text:?}: {e}"));
                    Expected::Range(number(low)?, number(high)?)
                }
                None => Expected::Word(word.to_owned()),
            },
        };
        open.last_mut().ok_or_else(|| format!("brackets do not match in {text:?}"))?.push(element);
    }
    match (open.pop(), open.is_empty()) {
        (Some(list), true) => Ok(list),
        _ => Err(format!("brackets do not match in {text:?}")),
    }
}

#[test]
fn an_expectation_accepts_what_it_says_and_nothing_else() {
    let list = |items: &[i64]| Reply::List(items.iter().copied().map(Reply::Int).collect());
    let five = list(&[1, 5, 4, 0, 60000]);
    let nested = Reply::List(vec![Reply::Int(1), Reply::List(vec![list(&[1, 2]), list(&[3])]), Reply::Nil]);
    let text = |text: &str| Reply::Text(text.as_bytes().to_vec());
    let error = Reply::Error("ERR the limit is wrong".to_owned());
    let rows = [
        ("PING -> 1 5 4 0 60000", &five, true),
        ("PING -> 1 5 * 0 59999..60000  # a remark", &five, true),
        ("PING", &five, true),
        ("PING -> 1 5 4 0", &five, false),
        ("PING -> 1 5 4 0 60000 7", &five, false),
        ("PING -> 1 5 4 0 60001", &five, false),
        ("PING -> 1 5 4 0 60001..60002", &five, false),
        ("PING -> 1 5 4 0 nil", &five, false),
        ("PING -> 1 [[1 2] [3]] nil", &nested, true),
        ("PING -> 1 [[1 2] [4]] nil", &nested, false),
        ("PING -> 1 [[1 2]] nil", &nested, false),
        ("PING -> 1 * *", &nested, true),
        ("PING -> ERR*LIMIT IS", &error, true),
        ("PING -> ERR*", &error, true),
        ("PING -> ERR*cost", &error, false),
        ("PING -> *", &error, false),
        ("PING -> ERR*", &five, false),
        ("PING -> PONG", &text("PONG"), true),
        ("PING -> PONG", &text("PANG"), false),
        ("PING -> nil", &Reply::Nil, true),
        ("PING -> nil", &text("nil"), false),
        ("GET \"a -> b  # c\" -> 5", &Reply::Int(5), true),
        ("GET \"a -> b  # c\" -> 6", &Reply::Int(5), false),
    ];
    for (row, reply, accepted) in rows {
        assert_eq!(Line::parse(row).unwrap().accepts(reply), accepted, "{row} against {reply}");
    }
    for bad in ["", "PING ->", "PING \"open", "PING -> [1", "PING -> 1]", "PING -> 1..x", "PING \"\\x1\""] {
        assert!(Line::parse(bad).is_err(), "{bad:?} is no row");
    }
    assert_eq!(words("a \"\" \"b c\" \"\\x00\\xffd\"").unwrap(), [&b"a"[..], b"", b"b c", b"\x00\xffd"]);
}
