//! The rules of the house that a compiler does not know, and the documents that could drift from the code.
//!
//! Needs no server. Every check is a function of files, so that each can be shown a planted fault: a check that finds
//! nothing there would find nothing anywhere.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use redis_limiters::commands::table::{self, Arg, COMMANDS, Command, Kind};

/// A file of the project: its path from the root, with slashes, and its text.
#[derive(Clone)]
struct File {
    path: String,
    text: String,
}

impl File {
    fn planted(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Code that runs in a server: not tests, and not the laws, which are tests of the whole crate.
    fn is_product(&self) -> bool {
        self.is_rust() && self.path.starts_with("src/") && !self.path.starts_with("src/laws")
    }
}

/// What is not ours, or not kept.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "__pycache__", "corpus", "artifacts", "appendonlydir"];

/// Every text file of the project.
fn project() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    walk(root, "", &mut files);
    assert!(files.len() > 50, "the project is here");
    files
}

fn walk(dir: &Path, prefix: &str, files: &mut Vec<File>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), &format!("{path}/"), files);
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            files.push(File { path, text });
        }
    }
}

#[track_caller]
fn file(files: &[File], path: &str) -> File {
    files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path} is missing")).clone()
}

/// Fails with every fault of every file.
#[track_caller]
fn none(faults: impl Iterator<Item = String>) {
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Shows a check that it finds a planted fault, and nothing in the same file without it.
#[track_caller]
fn finds(check: impl Fn(&File) -> Vec<String>, path: &str, bad: &str, good: &str) {
    assert!(!check(&File::planted(path, bad)).is_empty(), "not found in {path}: {bad}");
    assert_eq!(check(&File::planted(path, good)), [""; 0], "found in {path}: {good}");
}

/// What a piece of Rust is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    Code,
    Comment,
    Literal,
}

/// The pieces of Rust code, in order.
fn pieces(text: &str) -> Vec<(Piece, String)> {
    let chars: Vec<char> = text.chars().collect();
    let mut pieces: Vec<(Piece, String)> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let (kind, length) = match rest {
            ['/', '/', ..] => (Piece::Comment, rest.iter().position(|c| *c == '\n')),
            ['/', '*', ..] => (Piece::Comment, rest.windows(2).position(|pair| pair == ['*', '/']).map(|n| n + 2)),
            ['"', ..] => (Piece::Literal, Some(literal(rest, '"'))),
            ['r', '"' | '#', ..] if raw(rest).is_some() => (Piece::Literal, raw(rest)),
            // A lifetime is no literal: it has no closing quote two places on, or behind an escape.
            ['\'', '\\', ..] => (Piece::Literal, Some(literal(rest, '\''))),
            ['\'', _, '\'', ..] => (Piece::Literal, Some(3)),
            _ => (Piece::Code, Some(1)),
        };
        let length = length.unwrap_or(rest.len()).min(rest.len());
        let piece: String = rest[..length].iter().collect();
        match pieces.last_mut() {
            Some((Piece::Code, code)) if kind == Piece::Code => code.push_str(&piece),
            _ => pieces.push((kind, piece)),
        }
        at += length;
    }
    pieces
}

/// Rust code with comments and literals blanked, line by line the same.
fn code(text: &str) -> String {
    let blank = |c| if c == '\n' { c } else { ' ' };
    let blanked = pieces(text).into_iter().map(|(kind, piece)| match kind {
        Piece::Code => piece,
        Piece::Comment | Piece::Literal => piece.chars().map(blank).collect(),
    });
    blanked.collect()
}

/// Rust code and comments with the literals gone, line by line the same.
fn without_literals(text: &str) -> String {
    let kept = pieces(text).into_iter().map(|(kind, piece)| match kind {
        Piece::Code | Piece::Comment => piece,
        Piece::Literal => piece.chars().filter(|c| *c == '\n').collect(),
    });
    kept.collect()
}

/// The length of a raw string, if this is one.
fn raw(rest: &[char]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    let open = 1 + hashes;
    if rest.get(open) != Some(&'"') {
        return None;
    }
    let close = [vec!['"'], vec!['#'; hashes]].concat();
    let inside = rest[open + 1..].windows(close.len()).position(|end| end == close)?;
    Some(open + 1 + inside + close.len())
}

/// The length of a literal that begins with a quote.
fn literal(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// Code without the module of tests at its end.
fn product_code(file: &File) -> String {
    let code = code(&file.text);
    let end = code.find("\n#[cfg(test)]\nmod ").unwrap_or(code.len());
    code[..end].to_owned()
}

/// The numbered lines in which one of these words stands by itself.
fn lines_with<'a>(code: &'a str, words: &'a [&'a str]) -> impl Iterator<Item = (usize, &'a str)> {
    code.lines().enumerate().filter_map(move |(index, line)| {
        let found = words.iter().find(|word| has_word(line, word))?;
        Some((index + 1, *found))
    })
}

fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word)
        .any(|(at, _)| !part(line[..at].chars().next_back()) && !part(line[at + word.len()..].chars().next()))
}

/// The rooms in front of the shell, and what each may look at besides the standard library.
const ROOMS: &[(&str, &[&str])] =
    &[("engine", &["engine"]), ("commands", &["commands", "engine"]), ("storage", &["storage", "engine"])];

fn imports(file: &File) -> Vec<String> {
    let Some((room, allowed)) = ROOMS.iter().find(|(room, _)| file.path.starts_with(&format!("src/{room}/"))) else {
        return vec![];
    };
    let mut faults = Vec::new();
    for (index, line) in product_code(file).lines().enumerate() {
        let place = format!("{}:{}", file.path, index + 1);
        for (at, _) in line.match_indices("crate::") {
            let name: String = line[at + 7..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if !allowed.contains(&name.as_str()) {
                faults.push(format!("{place}: {room} looks at {name}"));
            }
        }
        if line.contains("super::super") {
            faults.push(format!("{place}: a room is left through its roof"));
        }
        let used = line.trim_start().strip_prefix("pub ").unwrap_or(line.trim_start()).strip_prefix("use ");
        let root = used.and_then(|path| path.split("::").next()).unwrap_or("std");
        // One word without a path is a module or a type of the same file.
        let inside = ["std", "core", "super", "self", "crate"].contains(&root) || !line.contains("::");
        if !inside && !root.starts_with(char::is_uppercase) && !line.contains(&format!("mod {root}")) {
            let own = product_code(file).contains(&format!("mod {root};"));
            if !own {
                faults.push(format!("{place}: {room} uses {root}"));
            }
        }
        for foreign in ["redis_module", "libc"] {
            if has_word(line, foreign) {
                faults.push(format!("{place}: {room} uses {foreign}"));
            }
        }
    }
    faults
}

/// Decisions, grammar and stored forms can be tested and fuzzed without a server only as long as they know none.
#[test]
fn rooms_look_only_where_they_may() {
    finds(imports, "src/engine/x.rs", "use crate::module::clock;", "use crate::engine::time::Span;");
    finds(imports, "src/engine/x.rs", "use redis_module::raw;", "use std::fmt;");
    finds(imports, "src/engine/x.rs", "use proptest::prelude;", "use super::{Ask, Write};");
    finds(imports, "src/commands/x.rs", "let x = crate::storage::record::number(1);", "use crate::engine::Rule;");
    finds(imports, "src/storage/x.rs", "use crate::commands::error;", "// use crate::commands::error;");
    none(project().iter().flat_map(imports));
}

/// Where code may be unsafe: the room of the server's API, and the functions that the server calls.
const UNSAFE: &[&str] = &[
    "src/module/api/",
    "src/module/clock.rs",
    "src/module/config.rs",
    "src/module/entry.rs",
    "src/module/info.rs",
    "src/module/queue.rs",
];

fn unsafe_code(file: &File) -> Vec<String> {
    if !file.is_product() || UNSAFE.iter().any(|place| file.path.starts_with(place)) {
        return vec![];
    }
    let code = code(&file.text);
    lines_with(&code, &["unsafe"]).map(|(line, _)| format!("{}:{line}: unsafe", file.path)).collect()
}

/// Everything that can break memory stands in a few files that can be read in an hour.
#[test]
fn unsafe_stands_where_the_server_is_called() {
    finds(unsafe_code, "src/engine/x.rs", "unsafe { y() }", "// unsafe\nlet x = \"unsafe\";");
    none(project().iter().flat_map(unsafe_code));
}

/// The functions of the server that a file calls without looking whether the server has them.
fn called_unseen(file: &File) -> BTreeSet<String> {
    let code = code(&file.text);
    let calls = code.split("api!(").skip(1).map(str::trim_start);
    let names = calls.map(|call| call.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default());
    names.filter(|name| name.starts_with("RedisModule_")).map(str::to_owned).collect()
}

/// What the load looks for and refuses a server without.
fn required(file: &File) -> BTreeSet<String> {
    let code = code(&file.text);
    let list = code.split("required! {").nth(1).and_then(|rest| rest.split('}').next()).unwrap_or_default();
    list.split_whitespace().map(str::to_owned).collect()
}

/// A function that is called without a look must have been found at load: nothing stands behind its pointer otherwise.
#[test]
fn what_is_called_without_a_look_was_found_at_load() {
    let bad = File::planted("src/module/x.rs", "api!(RedisModule_Surprise(1)); // api!(RedisModule_Talk())");
    assert_eq!(called_unseen(&bad), BTreeSet::from(["RedisModule_Surprise".to_owned()]));
    let list = File::planted("x.rs", "required! {\n RedisModule_A\n RedisModule_B }");
    assert_eq!(required(&list).len(), 2);
    let files = project();
    let found = required(&file(&files, "src/module/api/mod.rs"));
    let called: BTreeSet<String> =
        files.iter().filter(|file| file.path.starts_with("src/module/")).flat_map(called_unseen).collect();
    assert!(called.len() > 40, "{called:?}");
    let unseen: Vec<_> = called.difference(&found).collect();
    assert!(unseen.is_empty(), "called without a look and not among those that the load requires: {unseen:?}");
}

const SYSTEM_CLOCKS: &[&str] = &["clock_gettime", "SystemTime", "Instant"];
const ALL_CLOCKS: &[&str] = &[
    "clock_gettime",
    "SystemTime",
    "Instant",
    "cached_clock",
    "server_clock",
    "RedisModule_CachedMicroseconds",
    "RedisModule_Microseconds",
];

fn clocks(file: &File) -> Vec<String> {
    if !file.is_product() {
        return vec![];
    }
    let code = code(&file.text);
    let readers = match file.path.as_str() {
        "src/module/clock.rs" => &[][..],
        // The server's own readings are fetched here, and only clock.rs asks for them.
        "src/module/api/mod.rs" => SYSTEM_CLOCKS,
        _ => ALL_CLOCKS,
    };
    lines_with(&code, readers).map(|(line, word)| format!("{}:{line}: {word}", file.path)).collect()
}

/// A clock that is read in two places is read twice in one call, and the two disagree.
#[test]
fn clocks_are_read_in_one_place() {
    finds(clocks, "src/module/run.rs", "let now = SystemTime::now();", "let now = clock::now();");
    finds(clocks, "src/module/run.rs", "let now = api::cached_clock();", "let cached_clocks = 1;");
    none(project().iter().flat_map(clocks));
}

/// Where a score of a sorted set is turned into an integer and back.
const FLOATS: &[&str] = &["src/module/api/key.rs", "src/module/api/mod.rs"];

fn floats(file: &File) -> Vec<String> {
    if !file.is_product() || FLOATS.contains(&file.path.as_str()) {
        return vec![];
    }
    let code = product_code(file);
    let mut faults: Vec<String> =
        lines_with(&code, &["f64", "f32"]).map(|(line, word)| format!("{}:{line}: {word}", file.path)).collect();
    for (index, line) in code.lines().enumerate() {
        let chars: Vec<char> = line.chars().collect();
        let literal = chars.windows(3).any(|c| c[0].is_ascii_digit() && c[1] == '.' && c[2].is_ascii_digit());
        // The fields of a tuple in a tuple, such as `x.0.1`, are no number.
        if literal && !line.contains(".0.0") && !line.contains(".0.1") && !line.contains(".1.0") {
            faults.push(format!("{}:{}: a number with a point", file.path, index + 1));
        }
    }
    faults
}

/// A float in a decision is one hair short sooner or later.
#[test]
fn no_float_takes_part() {
    finds(floats, "src/engine/x.rs", "fn x(y: f64) {}", "fn x(y: i64) {}");
    finds(
        floats,
        "src/engine/x.rs",
        "let x = 0.5;",
        "let x = 5; // 0.5\n\n#[cfg(test)]\nmod tests { const X: f64 = 0.5; }",
    );
    none(project().iter().flat_map(floats));
}

/// The most characters of a line, not counting what stands in a literal: that cannot be broken.
const LONGEST_LINE: usize = 120;

fn long_lines(file: &File) -> Vec<String> {
    if !file.is_rust() {
        return vec![];
    }
    let text = without_literals(&file.text);
    // A row of a table cannot be broken either.
    let length = |line: &str| if line.starts_with("//! |") { 0 } else { line.chars().count() };
    let lengths = text.lines().map(length).enumerate();
    let long = lengths.filter(|(_, length)| *length > LONGEST_LINE);
    long.map(|(index, length)| format!("{}:{}: {length} characters", file.path, index + 1)).collect()
}

/// A line that has to be scrolled is not read.
#[test]
fn lines_are_not_longer_than_a_screen() {
    finds(long_lines, "src/x.rs", &"x".repeat(121), &"x".repeat(120));
    finds(long_lines, "src/x.rs", &format!("// {}", "x".repeat(118)), &format!("f(\"{}\")", "x".repeat(118)));
    none(project().iter().flat_map(long_lines));
}

/// The most lines of a function.
const LONGEST_FUNCTION: usize = 80;

fn long_functions(file: &File) -> Vec<String> {
    if !file.is_rust() {
        return vec![];
    }
    let code = code(&file.text);
    let lines: Vec<&str> = code.lines().collect();
    let mut faults = Vec::new();
    for (start, line) in lines.iter().enumerate().filter(|(_, line)| has_word(line, "fn")) {
        let (mut depth, mut opened) = (0, false);
        let length = lines[start..].iter().position(|line| {
            for c in line.chars() {
                match c {
                    '{' => (depth, opened) = (depth + 1, true),
                    '}' => depth -= 1,
                    // A declaration, or a type such as `fn()`.
                    ';' | ',' if !opened && depth == 0 && line.trim_end().ends_with(c) => return true,
                    _ => {}
                }
            }
            opened && depth == 0
        });
        if length.is_some_and(|length| opened && length >= LONGEST_FUNCTION) {
            let lines = length.unwrap_or(0) + 1;
            faults.push(format!("{}:{}: {lines} lines: {}", file.path, start + 1, line.trim()));
        }
    }
    faults
}

/// A function that does not fit a screen does more than one thing.
#[test]
fn functions_are_not_longer_than_a_screen() {
    let body = |lines: usize| format!("fn x() {{\n{}}}\n", "    y();\n".repeat(lines));
    finds(long_functions, "src/x.rs", &body(80), &body(70));
    none(project().iter().flat_map(long_functions));
}

fn left_behind(file: &File) -> Vec<String> {
    let marks = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"]].map(|parts| parts.concat());
    let marks: Vec<&str> = marks.iter().map(String::as_str).collect();
    // Names of temporary files are made of the same letters.
    let lines = lines_with(&file.text, &marks).map(|(line, mark)| format!("{}:{line}: {mark}", file.path));
    lines.collect()
}

/// Work that is put off in a comment is put off for ever: it is done, or it is an issue.
#[test]
fn nothing_is_put_off_in_a_comment() {
    finds(left_behind, "src/x.rs", &["// TO", "DO: later"].concat(), "// mktemp name.XXXXXX, todo!");
    none(project().iter().flat_map(left_behind));
}

/// Names that say nothing.
const EMPTY_NAMES: &[&str] = &["util", "utils", "helper", "helpers", "common", "manager", "misc"];

fn empty_names(file: &File) -> Vec<String> {
    let parts = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric() || c == '_').map(str::to_lowercase).collect()
    };
    let mut faults: Vec<String> = parts(&file.path)
        .iter()
        .filter(|part| EMPTY_NAMES.contains(&part.as_str()))
        .map(|part| format!("{}: {part}", file.path))
        .collect();
    // Applications that use the limiters name the types of other people's crates.
    if !file.is_rust() || file.path.starts_with("examples/") {
        return faults;
    }
    // Names of types are split at their capitals.
    let code = code(&file.text);
    for (index, line) in code.lines().enumerate() {
        let mut split = String::new();
        for c in line.chars() {
            if c.is_uppercase() {
                split.push(' ');
            }
            split.push(c);
        }
        let found = parts(&split).into_iter().find(|part| EMPTY_NAMES.contains(&part.as_str()));
        faults.extend(found.map(|part| format!("{}:{}: {part}", file.path, index + 1)));
    }
    faults
}

/// Such a name is where unrelated things gather.
#[test]
fn no_name_says_nothing() {
    assert!(!empty_names(&File::planted("src/utils.rs", "")).is_empty());
    finds(empty_names, "src/x.rs", "struct KeyManager;", "struct Key; // a manager");
    finds(empty_names, "src/x.rs", "fn parse_common() {}", "fn commonest() {}");
    none(project().iter().flat_map(empty_names));
}

fn private_words(file: &File) -> Vec<String> {
    // Lock files name the registry that they were made from.
    if file.path.ends_with("Cargo.lock") || file.path.ends_with("package-lock.json") {
        return vec![];
    }
    let places = [["/wor", "k/"], ["/ro", "ot/"], ["/ho", "me/"], ["../sha", "red"]];
    let hosts =
        [["crates", ".io"], ["pypi", ".org"], ["npmjs", ".com"], ["proxy.golang", ".org"], ["deb.debian", ".org"]];
    let papers = [["SPEC", ".md"], ["PLATFORM", ".md"], ["issues ", "show"], ["this ", "session"], ["Clau", "de"]];
    let words = places.iter().chain(&hosts).chain(&papers).map(|parts| parts.concat());
    let mut faults = Vec::new();
    for word in words {
        let found = file.text.lines().enumerate().filter(|(_, line)| line.contains(&word));
        faults.extend(found.map(|(index, _)| format!("{}:{}: {word}", file.path, index + 1)));
    }
    let numbered = |line: &str| {
        let lower = line.to_lowercase();
        lower.match_indices("issue ").any(|(at, word)| {
            let rest = lower[at + word.len()..].trim_start_matches(['#', ' ']);
            rest.starts_with(|c: char| c.is_ascii_digit())
        })
    };
    let found = file.text.lines().enumerate().filter(|(_, line)| numbered(line));
    faults.extend(found.map(|(index, line)| format!("{}:{}: {}", file.path, index + 1, line.trim())));
    faults
}

/// The project speaks of itself alone: a path of somebody's machine or a number in somebody's tracker tells a reader
/// nothing.
#[test]
fn the_project_speaks_of_itself_alone() {
    finds(private_words, "docs/x.md", &["see /wor", "k/main"].concat(), "see docs/design.md, at work");
    finds(private_words, "docs/x.md", &["as iss", "ue 7 says"].concat(), "a known issue with seven sides");
    finds(private_words, "docs/x.md", &["from crates", ".io"].concat(), "from a registry");
    none(project().iter().flat_map(private_words));
}

/// The part of the reference that describes a command: from its heading to the next.
fn section<'a>(reference: &'a str, command: &Command) -> Option<&'a str> {
    let heading = format!("\n## {}\n", command.name.to_uppercase());
    let start = reference.find(&heading)? + 1;
    let rest = &reference[start..];
    let end = rest[1..].find("\n## ").map_or(rest.len(), |at| at + 1);
    Some(&rest[..end])
}

/// A document without its fenced blocks.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// The words of all options of a command.
fn options(args: &[Arg]) -> BTreeSet<&'static str> {
    let mut words = BTreeSet::new();
    for arg in args {
        words.extend(arg.token);
        if let Kind::OneOf(inner) | Kind::Block(inner) = arg.kind {
            words.extend(options(inner));
        }
    }
    words
}

fn undocumented(file: &File) -> Vec<String> {
    let reference = &file.text;
    let first =
        COMMANDS.iter().filter_map(|command| reference.find(&format!("\n## {}\n", command.name.to_uppercase()))).min();
    let general = prose(&reference[..first.unwrap_or(0)]);
    let mut faults = Vec::new();
    for command in table::registered(true) {
        let name = command.name.to_uppercase();
        let Some(text) = section(reference, command) else {
            faults.push(format!("{name} has no section"));
            continue;
        };
        let syntax = command.syntax();
        if !text.lines().any(|line| line == syntax) {
            faults.push(format!("{name}: the syntax is not: {syntax}"));
        }
        let explained = prose(text);
        for word in options(command.args) {
            if !has_word(&explained, word) && !has_word(&general, word) {
                faults.push(format!("{name}: {word} is not explained"));
            }
        }
        let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        for element in command.reply.split([' ', '[', ']']).filter(is_name).filter(|_| command.name != "rl.help") {
            let quoted = format!("`{element}`");
            if !text.contains(&quoted) && !general.contains(&quoted) && element != "..." && !element.is_empty() {
                faults.push(format!("{name}: the element {element} is not explained"));
            }
        }
    }
    faults
}

/// The reference has every command, option and element of a reply, in the words of the table that registers them.
#[test]
fn the_reference_follows_the_table() {
    let reference = file(&project(), "docs/commands.md");
    none(undocumented(&reference).into_iter());
    let changed = |from: &str, to: &str| {
        assert!(reference.text.contains(from), "{from}");
        undocumented(&File::planted("docs/commands.md", &reference.text.replace(from, to)))
    };
    assert!(!changed(" [BLOCK block-duration]", "").is_empty(), "a syntax that lacks an option");
    assert!(!changed("`WITHIN`", "it").is_empty(), "an option that is not explained");
    assert!(!changed("\n## RL.QUEUE\n", "\n").is_empty(), "a command without a section");
    assert!(!changed("\n## CL.THROTTLE\n", "\n").is_empty(), "a command that only a setting brings");
    assert!(!changed("`released`", "it").is_empty(), "an element that is not explained");
}

/// A setting as the code registers it: name, default, smallest, largest.
type Setting = (String, String, String, String);

fn settings(config: &str) -> Vec<Setting> {
    let calls = config.split("Setting::new(c\"").skip(1);
    let setting = |call: &str| {
        let (name, rest) = call.split_once('"')?;
        let numbers: Vec<String> = rest
            .split(')')
            .next()?
            .split(',')
            .map(|word| word.trim().replace('_', ""))
            .filter(|word| !word.is_empty())
            .collect();
        let [default, min, max] = numbers.try_into().ok()?;
        Some((format!("rl.{name}"), default, min, max))
    };
    let switches = config.split("Switch::new(c\"").skip(1);
    let switch = |call: &str| {
        let (name, _) = call.split_once('"')?;
        Some((format!("rl.{name}"), "no".to_owned(), "no".to_owned(), "yes".to_owned()))
    };
    calls.filter_map(setting).chain(switches.filter_map(switch)).collect()
}

fn unexplained_settings(settings: &[Setting], example: &str, reference: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, default, min, max) in settings {
        let line = format!("{name} {default}");
        if !example.lines().any(|found| found == line) {
            faults.push(format!("redis.conf.example does not have: {line}"));
        }
        let row = format!("| `{name}` | {default} | {min} | {max} |");
        if !reference.contains(&row) {
            faults.push(format!("docs/commands.md does not have: {row}"));
        }
    }
    let known = |name: &str| settings.iter().any(|setting| setting.0 == name);
    for line in example.lines().filter(|line| line.starts_with("rl.")) {
        if !known(line.split(' ').next().unwrap_or_default()) {
            faults.push(format!("redis.conf.example has what the code has not: {line}"));
        }
    }
    faults
}

/// An operator who copies the example or trusts the table gets the defaults and bounds of the code.
#[test]
fn settings_are_documented_as_they_are() {
    let files = project();
    let settings = settings(&file(&files, "src/module/config.rs").text);
    assert!(settings.len() >= 4, "the settings are found: {settings:?}");
    let (example, reference) = (file(&files, "redis.conf.example").text, file(&files, "docs/commands.md").text);
    none(unexplained_settings(&settings, &example, &reference).into_iter());
    let other = |text: &str| unexplained_settings(&settings, &example.replace("100000", text), &reference);
    assert!(!other("100001").is_empty());
    assert!(!unexplained_settings(&settings[1..], &example, &reference).is_empty());
    assert!(!unexplained_settings(&settings, &example.replace("-cell no", "-cell yes"), &reference).is_empty());
}

fn unmentioned(file: &File) -> Vec<String> {
    let names = COMMANDS.iter().map(|command| command.name.to_uppercase());
    names.filter(|name| !has_word(&file.text, name)).map(|name| format!("{}: {name}", file.path)).collect()
}

/// Whoever reads only the README has heard of every command.
#[test]
fn the_readme_mentions_every_command() {
    finds(
        unmentioned,
        "README.md",
        "RL.FIXED",
        &COMMANDS.iter().map(|c| c.name.to_uppercase() + " ").collect::<String>(),
    );
    none(unmentioned(&file(&project(), "README.md")).into_iter());
}

fn dead_links(files: &[File], file: &File) -> Vec<String> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut faults = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
            for part in path.split('/').filter(|part| !part.is_empty()) {
                if part == ".." {
                    parts.pop();
                } else {
                    parts.push(part);
                }
            }
            let path = if path.is_empty() { file.path.clone() } else { parts.join("/") };
            let inside = format!("{path}/");
            let found = files.iter().find(|file| file.path == path || file.path.starts_with(&inside));
            let leads = found.is_some_and(|found| anchor.is_empty() || anchors(&found.text).contains(anchor));
            if !leads {
                faults.push(format!("{}:{}: {target}", file.path, index + 1));
            }
        }
    }
    faults
}

/// The names by which headings can be linked to.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let kept = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_';
    headings
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(kept)
                .collect::<String>()
                .replace(' ', "-")
        })
        .collect()
}

/// A link leads somewhere.
#[test]
fn links_lead_somewhere() {
    let files = project();
    let check = |file: &File| dead_links(&files, file);
    finds(check, "docs/x.md", "[x](nowhere.md)", "[x](commands.md#rlfixed) [y](../README.md)");
    finds(check, "docs/x.md", "[x](commands.md#nowhere)", "[x](https://example.org)");
    none(files.iter().filter(|file| file.path.ends_with(".md")).flat_map(check));
}

/// The histories that every server is held to are there, and none has been emptied.
#[test]
fn the_cases_are_there() {
    let files = project();
    for name in ["basics", "change_and_clock", "exactness", "lifetime", "verbs"] {
        let cases = file(&files, &format!("tests/cases/{name}.txt"));
        assert!(cases.text.lines().filter(|line| line.starts_with("case ")).count() >= 3, "{name}");
        assert!(cases.text.lines().filter(|line| line.contains(" -> ")).count() >= 20, "{name}");
    }
}

/// What is released is what the change log says was released, under the licence that the manifest names.
#[test]
fn the_version_and_the_licence_are_those_of_the_manifest() {
    let files = project();
    let (changes, licence) = (file(&files, "CHANGELOG.md").text, file(&files, "LICENSE").text);
    let newest = changes.lines().find_map(|line| line.strip_prefix("## "));
    assert_eq!(newest.and_then(|line| line.split(' ').next()), Some(env!("CARGO_PKG_VERSION")));
    assert!(licence.starts_with("MIT License\n") && env!("CARGO_PKG_LICENSE") == "MIT");
}

/// The blanking of comments and literals, on which the checks of code rest.
#[test]
fn comments_and_literals_are_not_code() {
    assert_eq!(code("a // b\nc"), "a     \nc");
    assert_eq!(code("a /* b\n */ c"), "a     \n    c");
    assert_eq!(code(r#"a("x\"//", 'y', '\'') b"#), "a(       ,    ,     ) b");
    assert_eq!(code("fn a<'b>(c: &'b str)"), "fn a<'b>(c: &'b str)");
    assert_eq!(code("a(r#\"\"x\" //\"#) b"), "a(           ) b");
    assert!(has_word("a unsafe{", "unsafe") && !has_word("unsafely", "unsafe") && !has_word("not_unsafe", "unsafe"));
}
