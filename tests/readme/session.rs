//! Sessions: what is typed behind a prompt, and what is printed below it.
//!
//! Behind `127.0.0.1:6379>` stand commands for redis-cli, behind `$` commands for bash. A line that starts with `#`
//! is a remark, and `# wait 1000 ms` one that the replay obeys; so is `# with rl.compat-cell yes`, a setting of the
//! server. Behind two spaces and `#` a printed line may have a remark of its own, which is not compared; a remark that
//! starts with `about` lets the line's number differ by as many milliseconds as have passed since the block began, and
//! one that starts with `varies` lets it be any number or text of its kind.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::blocks::Block;
use crate::harness::Server;
use crate::programs::bounded;
use crate::server;

/// Who is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    Redis,
    Shell,
}

/// The prompt that a line starts with, and what is typed behind it.
pub fn prompt(line: &str) -> Option<(Prompt, &str)> {
    if let Some(typed) = line.strip_prefix("$ ") {
        return Some((Prompt::Shell, typed));
    }
    let (address, typed) = line.split_once("> ")?;
    let (host, port) = address.split_once(':')?;
    let is_address = host == "127.0.0.1" && port.chars().all(|c| c.is_ascii_digit());
    is_address.then_some((Prompt::Redis, typed))
}

/// How closely a printed line is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closeness {
    Exact,
    /// Within the time that has passed since the block began.
    About,
    /// Anything of the same kind.
    Varies,
}

#[derive(Debug)]
struct Expected {
    text: String,
    closeness: Closeness,
}

/// Commands that are given in one go to one program, and what it prints for them.
struct Part {
    prompt: Prompt,
    typed: Vec<String>,
    printed: Vec<Expected>,
    /// How long to wait before.
    pause: Duration,
}

fn expected(line: &str) -> Expected {
    let (text, remark) = line.rsplit_once("  # ").unwrap_or((line, ""));
    let closeness = match remark.split([' ', ':', ',']).next() {
        Some("about") => Closeness::About,
        Some("varies") => Closeness::Varies,
        _ => Closeness::Exact,
    };
    Expected { text: text.trim_end().to_owned(), closeness }
}

fn parts(block: &Block) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut pause = Duration::ZERO;
    for line in block.lines.iter().filter(|line| !line.trim().is_empty()) {
        if let Some(remark) = line.strip_prefix("# ") {
            if let Some(ms) = remark.strip_prefix("wait ").and_then(|rest| rest.split(' ').next()?.parse().ok()) {
                pause += Duration::from_millis(ms);
            }
            continue;
        }
        if let Some((prompt, typed)) = prompt(line) {
            // One program takes all the commands that stand together.
            if let Some(part) = parts.last_mut().filter(|part| part.prompt == prompt && pause.is_zero()) {
                part.typed.push(typed.to_owned());
            } else {
                parts.push(Part { prompt, typed: vec![typed.to_owned()], printed: vec![], pause });
                pause = Duration::ZERO;
            }
            continue;
        }
        let part = parts.last_mut().unwrap_or_else(|| panic!("{}: {line:?} stands before any prompt", block.place()));
        part.printed.push(expected(line));
    }
    parts
}

/// Replays a session; an error shows what was expected and what came.
///
/// A machine that stands still for a second in the middle of a session makes a true one fail. What is true passes at
/// another attempt, and what is not never does.
pub fn replay(block: &Block) -> Result<(), String> {
    let parts = parts(block);
    assert!(!parts.is_empty(), "{}: a session without a command", block.place());
    let first = attempt(block, &parts);
    if first.is_ok() || attempt(block, &parts).is_ok() { Ok(()) } else { first }
}

/// Replays a session on a server of its own.
fn attempt(block: &Block, parts: &[Part]) -> Result<(), String> {
    let server = server::start_with(block.lines.iter().filter_map(|line| line.strip_prefix("# with ")));
    let begun = Instant::now();
    for part in parts {
        thread::sleep(part.pause);
        let printed = run(&server, part);
        // On a terminal redis-cli adds the time that a slow command took.
        let lines = printed.lines().map(str::trim_end);
        let actual: Vec<&str> = lines.filter(|line| !is_duration(line) && !line.is_empty()).collect();
        let passed = begun.elapsed();
        let mut pairs = part.printed.iter().zip(&actual);
        let fits = actual.len() == part.printed.len() && pairs.all(|(wanted, line)| agrees(wanted, line, passed));
        if !fits {
            return Err(shown(block, part, &actual, passed));
        }
    }
    Ok(())
}

fn run(server: &Server, part: &Part) -> String {
    let mut command = bounded(&match part.prompt {
        Prompt::Redis => Command::new("redis-cli"),
        Prompt::Shell => Command::new("bash"),
    });
    command.env("PATH", server::path_with_cli(server)).current_dir(server.dir());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all((part.typed.join("\n") + "\n").as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn is_duration(line: &str) -> bool {
    line.strip_prefix('(').and_then(|rest| rest.strip_suffix("s)")).is_some_and(|number| number.parse::<f64>().is_ok())
}

fn agrees(wanted: &Expected, line: &str, passed: Duration) -> bool {
    match wanted.closeness {
        Closeness::Exact => wanted.text == line,
        Closeness::About => match (split_number(&wanted.text), split_number(line)) {
            (Some((before, number)), Some((same, found))) => {
                let slack = u64::try_from(passed.as_millis()).unwrap() + 1;
                before == same && number.abs_diff(found) <= slack
            }
            _ => false,
        },
        Closeness::Varies => kind(&wanted.text) == kind(line),
    }
}

/// What a line is: its place in the list and its type, that is what stands in front of the quotes or of the number.
fn kind(line: &str) -> Option<&str> {
    line.split_once('"').or_else(|| split_number(line).map(|(before, _)| (before, ""))).map(|(before, _)| before)
}

/// A line's last number and what stands before it.
fn split_number(line: &str) -> Option<(&str, u64)> {
    let bare = line.trim_end_matches('"');
    let start = bare.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    bare[start..].parse().ok().map(|number| (&bare[..start], number))
}

fn shown(block: &Block, part: &Part, actual: &[&str], passed: Duration) -> String {
    let mut text = format!("{}: {}\n", block.place(), part.typed.join("\n    "));
    for index in 0..part.printed.len().max(actual.len()) {
        let wanted = part.printed.get(index);
        let line = actual.get(index).copied();
        let fits = matches!((wanted, line), (Some(wanted), Some(line)) if agrees(wanted, line, passed));
        let wanted = wanted.map_or("(nothing)", |wanted| wanted.text.as_str());
        let mark = if fits { ' ' } else { '!' };
        let _ = writeln!(text, "  {mark} {wanted:<44} | {}", line.unwrap_or("(nothing)"));
    }
    text
}

/// The comparison itself must be able to fail.
#[test]
fn a_session_that_lies_is_found() {
    let block = |lines: &[&str]| Block {
        document: "made up".to_owned(),
        line: 0,
        language: crate::blocks::Language::Console,
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
    };
    let truth = [
        "127.0.0.1:6379> RL.FIXED k 5 1m",
        "1) (integer) 1",
        "2) (integer) 5  # the limit",
        "3) (integer) 4",
        "4) (integer) 0",
        "5) (integer) 60000",
        "# wait 20 ms",
        "127.0.0.1:6379> PTTL k",
        "(integer) 60000  # about a minute",
        "$ redis-cli GET k",
        "\"1\"",
    ];
    replay(&block(&truth)).unwrap();
    for (line, lie) in [(1, "1) (integer) 0"), (8, "(integer) 90000  # about"), (8, "(integer) 60000"), (10, "\"2\"")] {
        let mut lines = truth;
        lines[line] = lie;
        assert!(replay(&block(&lines)).is_err(), "{lie} was believed");
    }
    assert!(replay(&block(&truth[..10])).is_err(), "a line too much was not seen");
}
