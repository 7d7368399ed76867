//! The operator's guide against the tests: what it promises names a test that exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The tests of a binary as `module::name`.
fn tests_of(binary: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(binary);
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let module = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let mut marked = false;
        for line in text.lines().map(str::trim) {
            if line == "#[test]" {
                marked = true;
            } else if let Some(rest) = line.strip_prefix("fn ").filter(|_| marked) {
                let name = rest.split('(').next().unwrap();
                found.insert(format!("{module}::{name}"));
                marked = false;
            }
        }
    }
    found
}

/// The names of tests in a piece of text: in backquotes, with the binary in front.
fn names(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| ["faults::", "server::", "cluster::"].iter().any(|binary| word.starts_with(binary))).collect()
}

/// Paragraphs, items and rows of a document: what can be a statement.
fn statements(text: &str) -> Vec<String> {
    let mut all: Vec<String> = vec![];
    let mut fenced = false;
    let mut open = false;
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
            open = false;
            continue;
        }
        let rule = line.starts_with("|---") || line.starts_with("| |");
        if fenced || line.is_empty() || line.starts_with('#') || rule {
            open = false;
            continue;
        }
        let starts = line.starts_with("- ") || line.starts_with('|');
        if starts || !open {
            all.push(line.to_owned());
        } else {
            let last = all.last_mut().unwrap();
            last.push(' ');
            last.push_str(line.trim());
        }
        open = true;
    }
    all
}

fn faults(text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut faults = vec![];
    for name in names(text) {
        if !exists(name) {
            faults.push(format!("no test is called {name}"));
        }
    }
    for statement in statements(text) {
        let backed = !names(&statement).is_empty() || statement.contains("No test");
        // What leads to a list or a table stands for what follows; the heads of tables say nothing.
        let leads = statement.ends_with(':') || statement.starts_with("| what") || statement.starts_with("| error");
        if !backed && !leads {
            faults.push(format!("neither a test nor the words \"No test\": {statement}"));
        }
    }
    faults
}

/// A promise without a test is a hope. Every paragraph, item and row of docs/operations.md names a test that exists, or
/// says that there is none.
#[test]
fn every_statement_names_a_test_that_exists() {
    let known = |name: &str| name == "faults::a::b";
    assert_eq!(faults("It holds. `faults::a::b`", known), [""; 0]);
    assert_eq!(faults("It holds.", known).len(), 1, "a statement without a test is found");
    assert_eq!(faults("It holds. `faults::a::c`", known).len(), 1, "a test that is none is found");
    assert_eq!(faults("- It holds.\n- So does that. `faults::a::b`", known).len(), 1, "items are statements");
    assert_eq!(faults("| what | x |\n|---|---|\n| row | y |", known).len(), 1, "rows are statements");
    assert_eq!(faults("Nobody can show it. No test.\n\n```sh\nmake\n```", known), [""; 0]);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let text = fs::read_to_string(&path).unwrap();
    let tests: Vec<_> = ["faults", "server", "cluster"].map(|binary| (binary, tests_of(binary))).to_vec();
    let exists = |name: &str| {
        let (binary, rest) = name.split_once("::").unwrap();
        tests.iter().any(|(other, tests)| *other == binary && tests.contains(rest))
    };
    assert!(names(&text).len() > 50, "the guide names its tests");
    let faults = faults(&text, exists);
    assert!(faults.is_empty(), "docs/operations.md:\n{}", faults.join("\n"));
}

/// Every error of a server's own that this guide explains is met by a test, and the guide explains what the tests meet.
#[test]
fn every_error_that_a_caller_can_meet_is_explained() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md")).unwrap();
    for error in [
        "OOM",
        "READONLY",
        "LOADING",
        "MISCONF",
        "NOREPLICAS",
        "MASTERDOWN",
        "CLUSTERDOWN",
        "TRYAGAIN",
        "BUSY",
        "NOPERM",
        "NOAUTH",
        "WRONGTYPE",
        "CROSSSLOT",
        "MOVED",
        "ASK",
        "EXECABORT",
        "UNBLOCKED",
        "ERR unknown command",
        "time-out",
    ] {
        let row = text.lines().find(|line| line.starts_with('|') && line.contains(error));
        assert!(row.is_some(), "no row explains {error}");
    }
}
