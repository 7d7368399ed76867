//! Every command block of the documentation, run as it stands against a real server.
//!
//! CONTRIBUTING.md says how such blocks are written. `RL_SERVER` and `RL_MODULE` say what is under test, as for the
//! other integration tests. Programs need their language's Redis client, which is fetched once into the user's cache;
//! where it cannot be had, each program is skipped by name, in print.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

#[path = "../server/client.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod client;
#[path = "../server/expectation.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod expectation;
#[path = "../server/harness.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod harness;
#[path = "../server/held.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod held;

mod blocks;
mod clients;
mod programs;
mod server;
mod session;

use std::collections::BTreeSet;
use std::process::Command;

use blocks::{Block, Language};
use harness::say;

/// Replays every session of a document and reports all that differ, not only the first.
#[track_caller]
fn replay(document: &str) {
    let sessions: Vec<Block> = blocks::of(document).into_iter().filter(|b| b.language == Language::Console).collect();
    assert!(!sessions.is_empty(), "{document} shows no session");
    let faults: Vec<String> = sessions.iter().filter_map(|block| session::replay(block).err()).collect();
    assert!(faults.is_empty(), "{} of {} sessions differ:\n{}", faults.len(), sessions.len(), faults.join("\n"));
}

/// What README.md shows of redis-cli is what redis-cli shows.
#[test]
fn sessions_of_the_readme() {
    replay("README.md");
}

/// The reference's examples are true.
#[test]
fn sessions_of_the_reference() {
    replay("docs/commands.md");
}

/// Every recipe works as it is written.
#[test]
fn sessions_of_the_recipes() {
    replay("docs/recipes.md");
}

/// What a fleet finds when it comes from elsewhere is what the page says.
#[test]
fn sessions_of_the_migration() {
    replay("docs/migrating.md");
}

/// A program that somebody copies runs, and prints what the page says or answers HTTP as the page says.
#[track_caller]
fn run_programs(language: Language) {
    let mut found = 0;
    for document in blocks::DOCUMENTS {
        let all = blocks::of(document);
        for (index, block) in all.iter().enumerate().filter(|(_, block)| block.language == language) {
            found += 1;
            let printed = all.get(index + 1).filter(|next| next.language == Language::Output);
            programs::run(block, printed);
        }
    }
    assert!(found > 0, "no document shows a program in {language:?}");
}

#[test]
fn programs_in_python() {
    run_programs(Language::Python);
}

#[test]
fn programs_in_javascript() {
    run_programs(Language::JavaScript);
}

#[test]
fn programs_in_go() {
    run_programs(Language::Go);
}

#[test]
fn programs_in_java() {
    run_programs(Language::Java);
}

/// Settings that a document shows start a server that has the module.
#[test]
fn settings_start_a_server() {
    let mut found = 0;
    for document in blocks::DOCUMENTS {
        for block in blocks::of(document).iter().filter(|block| block.language == Language::Conf) {
            found += 1;
            let server = server::with_settings(&block.text());
            assert!(
                server::ask(&server, &["RL.FIXED", "k", "5", "1m"]).starts_with("1\n5\n4\n0\n"),
                "{}",
                block.place()
            );
        }
    }
    assert!(found > 0, "no document shows settings");
}

/// redis.conf.example starts a server as it is, but for the path of the module and what would leave traces outside the
/// test; every setting of the module has the value that the file shows.
#[test]
fn the_example_configuration_starts_a_server() {
    let text = blocks::read("redis.conf.example");
    let server = server::with_settings(&text);
    assert!(server::ask(&server, &["RL.FIXED", "k", "5", "1m"]).starts_with("1\n5\n4\n0\n"));
    let shown: Vec<&str> = text.lines().filter(|line| line.starts_with("rl.")).collect();
    assert!(!shown.is_empty(), "the file shows settings of the module");
    for line in shown {
        let answer = server::ask(&server, &["CONFIG", "GET", line.split(' ').next().unwrap()]);
        assert_eq!(answer.trim_end().replace('\n', " "), line, "redis.conf.example");
    }
}

/// Every field of `INFO rl` is explained, and no field is explained that is not there.
#[test]
fn the_reference_knows_the_fields_of_info() {
    let server = server::start();
    let info = server::ask(&server, &["INFO", "rl"]);
    let shown: BTreeSet<&str> = info.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    let reference = blocks::read("docs/commands.md");
    let explained: BTreeSet<&str> = reference.split('`').filter(|word| word.starts_with("rl_")).collect();
    assert!(!shown.is_empty() && shown == explained, "INFO rl: {shown:?}\ndocs/commands.md: {explained:?}");
}

/// A block that this test would pass over is a mistake: every fence says what it is, and what is only shown holds no
/// command.
#[test]
fn no_block_escapes() {
    for document in blocks::DOCUMENTS {
        for block in blocks::of(document) {
            assert!(block.language != Language::Unknown, "{}: a fence of no known language", block.place());
            if matches!(block.language, Language::Text | Language::Output) {
                let command = block.lines.iter().find(|line| session::prompt(line).is_some());
                assert_eq!(command, None, "{}: a command in a block that is not run", block.place());
            }
        }
    }
}

/// Commands for the reader's own machine, which a test must not run: `make` targets exist, and nothing else stands
/// there unseen.
#[test]
fn commands_for_the_readers_machine() {
    let mut targets = BTreeSet::new();
    for document in blocks::DOCUMENTS {
        for block in blocks::of(document).iter().filter(|block| block.language == Language::Shell) {
            for line in block.lines.iter().map(|line| line.split("  #").next().unwrap().trim()) {
                let words: Vec<&str> = line.split_whitespace().collect();
                match words[..] {
                    ["make", target, ..] => _ = targets.insert(target.to_owned()),
                    ["git" | "cd" | "sudo" | "cargo" | "install", ..] => {
                        say(&format!("not run, {}: {line}", block.place()))
                    }
                    _ => panic!("{}: {line:?} is neither run nor known", block.place()),
                }
            }
        }
    }
    assert!(targets.contains("run") && targets.contains("test"), "{targets:?}");
    for target in targets {
        let dry = Command::new("make").args(["--dry-run", &target]).current_dir(blocks::ROOT).output().unwrap();
        assert!(dry.status.success(), "make {target}: {}", String::from_utf8_lossy(&dry.stderr));
    }
}
