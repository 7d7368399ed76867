//! Replays the case files: histories with their right answers, each on an empty server whose clock is held. A row that
//! does not hold names its file, its line, what was expected and what came.

use std::fs;
use std::path::{Path, PathBuf};

use crate::expectation::Line;
use crate::harness::{Server, Setup, kind, say};

/// The files of tests/cases and the tests below: a file without a test fails.
const FILES: [&str; 5] = ["basics.txt", "change_and_clock.txt", "exactness.txt", "lifetime.txt", "verbs.txt"];

struct Row {
    number: usize,
    at_us: i64,
    text: String,
    line: Line,
}

struct Case {
    title: String,
    rows: Vec<Row>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn parse(file: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = vec![];
    for (at, raw) in text.lines().enumerate() {
        let number = at + 1;
        let row = raw.trim();
        if row.is_empty() || row.starts_with('#') {
            continue;
        }
        if let Some(title) = row.strip_prefix("case ") {
            cases.push(Case { title: title.to_owned(), rows: vec![] });
            continue;
        }
        let (time, command) = row.split_once(' ').unwrap_or_else(|| panic!("{file}:{number}: no command in {row:?}"));
        let line = Line::parse(command).unwrap_or_else(|e| panic!("{file}:{number}: {e}"));
        let case = cases.last_mut().unwrap_or_else(|| panic!("{file}:{number}: a row before the first case"));
        case.rows.push(Row { number, at_us: micros(file, number, time), text: row.to_owned(), line });
    }
    cases
}

/// Milliseconds with up to three decimals, in microseconds.
fn micros(file: &str, number: usize, time: &str) -> i64 {
    let (whole, decimals) = time.split_once('.').unwrap_or((time, ""));
    let bad = || panic!("{file}:{number}: {time:?} is no time in milliseconds");
    if decimals.len() > 3 {
        bad();
    }
    format!("{whole}{decimals:0<3}").parse().unwrap_or_else(|_| bad())
}

/// Replays cases on a held server. Answers how many rows ran and what failed.
fn replay(server: &Server, file: &str, cases: &[Case]) -> (usize, Vec<String>) {
    let (mut rows, mut failures) = (0, vec![]);
    for case in cases {
        server.clock().set_us(0);
        // A connection of its own: no MULTI or WATCH of the case before stays open.
        let mut conn = server.conn();
        conn.good("FLUSHALL");
        conn.good("DEBUG SET-ACTIVE-EXPIRE 1");
        for row in &case.rows {
            server.clock().set_us(row.at_us);
            let reply = conn.call(&row.line.words);
            rows += 1;
            if !row.line.accepts(&reply) {
                let title = &case.title;
                failures.push(format!("{file}:{} in {title:?}\n    {}\n    got {reply}", row.number, row.text));
            }
        }
    }
    (rows, failures)
}

fn replay_file(file: &str) {
    let Some(setup) = Setup::held(&format!("cases::{file}")) else {
        return;
    };
    let text = fs::read_to_string(folder().join(file)).unwrap();
    let cases = parse(file, &text);
    let (rows, failures) = replay(&setup.start(), file, &cases);
    let counted = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).count();
    assert_eq!(rows, counted, "{file}: every row that starts with a time is replayed");
    say(&format!(
        "{file}: {rows} rows of {} cases replayed on {}, {} failed",
        cases.len(),
        kind().name(),
        failures.len()
    ));
    assert!(failures.is_empty(), "{} of {rows} rows failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn basics() {
    replay_file("basics.txt");
}

#[test]
fn change_and_clock() {
    replay_file("change_and_clock.txt");
}

#[test]
fn exactness() {
    replay_file("exactness.txt");
}

#[test]
fn lifetime() {
    replay_file("lifetime.txt");
}

#[test]
fn verbs() {
    replay_file("verbs.txt");
}

#[test]
fn every_case_file_has_a_test() {
    let mut found: Vec<_> =
        fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, FILES);
}

/// A replayer that accepted everything would make every case file green.
#[test]
fn a_wrong_expectation_fails_and_is_named() {
    let text = "\
# a remark

case a server keeps what it is told
0      SET k 5 PX 1000         -> OK
0.25   GET k                   -> 5
999    PTTL k                  -> 1
1001   GET k                   -> nil
1001   GET k                   -> 5  # wrong
case the next case starts empty, at time 0
0      TIME                    -> 1767225600 0
0      DBSIZE                  -> 0
1.5    TIME                    -> 1767225600 1500
1.5    TIME                    -> 1767225600 1501
";
    let cases = parse("made.txt", text);
    assert_eq!(cases.iter().map(|case| case.rows.len()).collect::<Vec<_>>(), [5, 4]);
    assert_eq!(cases[0].rows[1].at_us, 250);
    let Some(setup) = Setup::held("cases::a_wrong_expectation_fails_and_is_named") else {
        return;
    };
    let (rows, failures) = replay(&setup.without_module().start(), "made.txt", &cases);
    assert_eq!(rows, 9);
    assert_eq!(failures.len(), 2, "{failures:?}");
    for (failure, parts) in failures.iter().zip([
        ["made.txt:8", "a server keeps what it is told", "-> 5", "got nil"],
        ["made.txt:13", "the next case starts empty", "-> 1767225600 1501", "got 1767225600 1500"],
    ]) {
        assert!(parts.iter().all(|part| failure.contains(part)), "{failure}");
    }
}
