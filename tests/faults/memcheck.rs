//! The server under valgrind, which sees every access and every allocation of the module: no invalid access, nothing
//! lost.

use std::fs;
use std::process::Command;

use crate::chance::{Chance, scaled};
use crate::harness::{kind, say};
use crate::mortal::{Module, Mortal};
use crate::traffic::{self, CHURNING, LASTING, Tally, Traffic, words};

/// One finding of the report: its lines, the first saying what it is.
fn findings(report: &str) -> Vec<Vec<&str>> {
    let mut all: Vec<Vec<&str>> = vec![];
    let mut open = false;
    for line in report.lines() {
        // Each line begins with the process between double equal signs.
        let text = line.trim_start_matches("==").split_once("== ").map_or("", |(_, text)| text);
        if text.trim().is_empty() {
            open = false;
        } else if open {
            all.last_mut().unwrap().push(text);
        } else {
            all.push(vec![text]);
            open = true;
        }
    }
    all
}

/// Whether a finding is about memory that the module reads, writes or owns.
fn is_ours(finding: &[&str]) -> bool {
    let file = crate::harness::module_path();
    let file = file.file_name().unwrap().to_string_lossy().into_owned();
    finding.iter().any(|line| line.contains("redis_limiters") || line.contains(&file))
}

/// Thousands of random calls of every kind, waiting callers, mistakes, a reload, an unload and a load: the module makes
/// no invalid access, uses nothing that was not written, and loses no memory. What the report says of the server alone
/// is the server's.
#[test]
fn no_invalid_access_and_nothing_lost() {
    let test = "memcheck::no_invalid_access_and_nothing_lost";
    if Command::new("valgrind").arg("--version").output().is_err() {
        say(&format!("SKIPPED {test}: there is no valgrind here"));
        return;
    }
    let mut chance = Chance::for_test(test);
    // The server's allocator is another one; told its name, valgrind watches that too where it is a library of its own.
    let mut server = Mortal::new(&["databases 16"]).under(&[
        "valgrind",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
        "--soname-synonyms=somalloc=libjemalloc.so*",
        "--num-callers=30",
        "--log-file=valgrind.log",
    ]);
    server.start(Module::With);
    let mut pipe = server.pipe();
    let mut tally = Tally::default();
    for periods in [CHURNING, LASTING] {
        let mut traffic = Traffic::new(chance.fork(), periods, 4, "");
        tally.join(traffic::run(&mut pipe, &mut traffic, scaled(700, 10_000)));
    }
    for line in [
        "RL.HELP",
        "RL.HELP rl.fixed",
        "RL.HELP nonsense",
        "RL.FIXED k nonsense 1h",
        "RL.FIXED k",
        "SET text hello",
        "RL.FIXED text 5 1h",
        "RL.TOKEN text 5 1 1h",
        "COMMAND DOCS rl.fixed",
        "COMMAND GETKEYS RL.FIXED k 5 1h",
        "CONFIG GET rl.*",
        "CONFIG SET rl.queue-max-waiting 5",
        "CONFIG SET rl.queue-max-waiting x",
        "INFO everything",
        "RL.SLIDING big 1000 1h COST 250",
        "RL.REFUND big SLIDING 1000 1h COST 249",
        "CONFIG SET rl.top-size 2",
        "RL.FIXED one 0 1h",
        "RL.FIXED two 0 1h",
        "RL.FIXED three 0 1h",
        "RL.TOP",
        "CONFIG SET rl.top-size 1000",
        "RL.FIXED one 0 1h",
        "RL.TOP COUNT 5",
        "DEBUG RELOAD",
    ] {
        pipe.run(line);
    }
    // Callers who wait: two get their turn, two go away before.
    let mut waiting: Vec<_> = (0..4).map(|_| server.pipe()).collect();
    for waiter in &mut waiting {
        waiter.send(&words("RL.QUEUE queue 9 10 1s 1h")).unwrap();
    }
    assert_eq!(waiting[0].receive().unwrap().first(), 1);
    drop(waiting.split_off(2));
    assert_eq!(waiting[1].receive().unwrap().first(), 1);
    drop(waiting);
    crate::harness::wait_for("nobody to wait", || (pipe.info_number("rl", "rl_waiting") == 0).then_some(()));
    pipe.good("MODULE UNLOAD rl");
    pipe.good(&format!("MODULE LOAD {}", crate::harness::module_path().display()));
    pipe.good("RL.FIXED k 5 1h");
    tally.assert_mixed();
    server.stop();
    let report = fs::read_to_string(server.dir().join("valgrind.log")).unwrap();
    assert!(report.contains("ERROR SUMMARY"), "the report is whole:\n{report}");
    let findings = findings(&report);
    let ours: Vec<_> = findings.iter().filter(|finding| is_ours(finding)).collect();
    assert!(ours.is_empty(), "{ours:#?}");
    let summary = findings.iter().flatten().find(|line| line.starts_with("ERROR SUMMARY")).unwrap();
    say(&format!("{test}: {} calls on {}: none of ours in: {summary}", tally.calls(), kind().name()));
}
