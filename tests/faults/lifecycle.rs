//! Loaded, unloaded, loaded again; unloaded while callers wait; refused with bad settings; beside other modules.

use std::path::{Path, PathBuf};

use crate::chance::scaled;
use crate::harness::{Setup, kind, module_path, say, wait_for};
use crate::held;
use crate::mortal::{Module, Mortal};
use crate::pipe::Pipe;
use crate::traffic::words;

const COMMANDS: &[&str] = &[
    "rl.fixed",
    "rl.sliding",
    "rl.token",
    "rl.leaky",
    "rl.queue",
    "rl.peek",
    "rl.refund",
    "rl.charge",
    "rl.all",
    "rl.acquire",
    "rl.renew",
    "rl.release",
    "rl.top",
    "rl.help",
];

fn load(pipe: &mut Pipe, path: &Path) {
    pipe.good(&format!("MODULE LOAD {}", path.display()));
}

fn is_loaded(pipe: &mut Pipe, name: &str) -> bool {
    let list = pipe.good("MODULE LIST");
    list.list().iter().any(|module| {
        let fields = module.list();
        fields.chunks(2).any(|pair| pair[0].to_string() == "name" && pair[1].to_string() == name)
    })
}

/// Nothing of the module is left in a server: no command, setting, INFO section or entry in the list.
#[track_caller]
fn assert_gone(pipe: &mut Pipe) {
    assert!(!is_loaded(pipe, "rl"));
    let mut count = words("COMMAND INFO");
    count.extend(COMMANDS.iter().map(|name| name.as_bytes().to_vec()));
    let found = pipe.call(&count);
    assert!(found.list().iter().all(|entry| *entry == crate::pipe::Answer::Nil || entry.list().is_empty()), "{found}");
    assert!(pipe.error("RL.FIXED k 5 1h").starts_with("ERR unknown command"));
    assert!(pipe.good("CONFIG GET rl.*").list().is_empty());
    assert!(!pipe.good("INFO everything").to_string().contains("rl_version"));
}

/// Fifty times loaded and unloaded: settings and counters are fresh each time, keys outlive it, the server does not
/// grow.
#[test]
fn fifty_loads_and_unloads_leave_nothing_behind() {
    let server = Setup::new().without_module().start();
    let mut pipe = Pipe::open(&server.socket());
    let path = module_path();
    let mut used = vec![];
    for round in 0..scaled(50, 500) {
        load(&mut pipe, &path);
        assert_eq!(pipe.good("CONFIG GET rl.queue-max-waiting").list()[1].int(), 1000, "round {round}");
        assert_eq!(pipe.info_number("rl", "rl_fixed_allowed"), 0, "counters begin anew");
        pipe.good("CONFIG SET rl.queue-max-waiting 5");
        let expected = i64::try_from(round).unwrap() + 1;
        assert_eq!(pipe.good("RL.FIXED k 1000000 1h").first(), 1);
        assert_eq!(pipe.int("GET k"), expected, "units outlive the module");
        for line in ["RL.SLIDING s 1000 1h", "RL.TOKEN t 1000 1 1h", "RL.ACQUIRE h 1000 1h", "RL.QUEUE q 5 1000 1s 1s"]
        {
            assert_eq!(pipe.good(line).first(), 1, "{line}");
        }
        pipe.good("MODULE UNLOAD rl");
        assert_gone(&mut pipe);
        used.push(pipe.info_number("memory", "used_memory"));
    }
    let (early, late) = (used[4], used[used.len() - 1]);
    assert!(late - early < 300_000, "used_memory went from {early} to {late}");
    say(&format!("lifecycle: {} loads and unloads, used_memory from {early} to {late} bytes", used.len()));
}

/// While callers wait in RL.QUEUE the module cannot be unloaded; they get their turn, and then it can.
#[test]
fn an_unload_waits_for_those_who_wait() {
    let server = Setup::new().start();
    let mut pipe = Pipe::open(&server.socket());
    let mut waiting: Vec<_> = (0..3).map(|_| Pipe::open(&server.socket())).collect();
    for waiter in &mut waiting {
        waiter.send(&words("RL.QUEUE q 9 4 1s 1h")).unwrap();
    }
    assert_eq!(waiting[0].receive().unwrap().first(), 1, "the first has its turn at once");
    wait_for("two to wait", || (pipe.info_number("rl", "rl_waiting") == 2).then_some(()));
    let refusal = pipe.error("MODULE UNLOAD rl");
    assert!(refusal.starts_with("ERR "), "{refusal}");
    assert!(is_loaded(&mut pipe, "rl"));
    assert_eq!(pipe.good("RL.FIXED k 5 1h").first(), 1, "it goes on working");
    // One goes away, one is served.
    drop(waiting.pop());
    assert_eq!(waiting[1].receive().unwrap().first(), 1);
    wait_for("nobody to wait", || (pipe.info_number("rl", "rl_waiting") == 0).then_some(()));
    wait_for("the unload", || (!pipe.run("MODULE UNLOAD rl").is_error()).then_some(()));
    assert_gone(&mut pipe);
    assert_eq!(pipe.int("HLEN q"), 2, "the key outlives it");
    load(&mut pipe, &module_path());
    assert_eq!(pipe.good("RL.QUEUE q 9 4 1s 1h").first(), 1);
}

/// A load with settings that are not accepted is refused in words, leaves nothing behind, and the next one succeeds.
#[test]
fn a_load_with_bad_settings_leaves_nothing_behind() {
    let server = Setup::new().without_module().start();
    let mut pipe = Pipe::open(&server.socket());
    let path = module_path();
    let before = pipe.info_number("memory", "used_memory");
    for _ in 0..scaled(5, 50) {
        for bad in [
            "CONFIG rl.queue-max-waiting -1",
            "CONFIG rl.sliding-max-limit 0",
            "CONFIG rl.sliding-max-limit many",
            "CONFIG rl.nonsense 1",
            "ARGS what",
        ] {
            let error = pipe.error(&format!("MODULE LOADEX {} {bad}", path.display()));
            assert!(error.starts_with("ERR "), "{bad}: {error}");
            assert_gone(&mut pipe);
        }
    }
    let log = server.log();
    assert!(log.contains("rate limiters not loaded") || log.contains("rl."), "the log says why:\n{log}");
    pipe.good(&format!("MODULE LOADEX {} CONFIG rl.queue-max-waiting 7", path.display()));
    assert_eq!(pipe.good("CONFIG GET rl.queue-max-waiting").list()[1].int(), 7);
    assert_eq!(pipe.good("RL.FIXED k 5 1h").first(), 1);
    let after = pipe.info_number("memory", "used_memory");
    assert!(after - before < 500_000, "used_memory went from {before} to {after}");
}

/// A server whose configuration holds a setting that is not accepted does not start, and its log says why. Nor does one
/// that has settings of the module and not the module: remove both lines or none.
#[test]
fn a_server_with_bad_settings_does_not_start_and_says_why() {
    for (line, module, why) in [
        ("rl.queue-max-waiting many", Module::With, "queue-max-waiting"),
        ("rl.queue-max-waiting -1", Module::With, "queue-max-waiting"),
        ("rl.no-such-setting 1", Module::With, "Module Configuration detected"),
        // Indented, so that it is not left out for a server without the module.
        ("  rl.queue-max-waiting 5", Module::Without, "Module Configuration detected"),
    ] {
        let mut server = Mortal::new(&[line]);
        let log = server.try_start(module).expect_err(line);
        assert!(log.contains(why), "{line}: the log says why:\n{log}");
    }
}

/// Beside a module that filters every command, listens to every event and calls ours from its own: all work, in either
/// order of loading, and either can be unloaded without the other.
#[test]
fn it_lives_beside_a_module_that_meddles() {
    let other = held::compile("neighbour", &[]);
    for ours_first in [true, false] {
        let server = Setup::new().without_module().config("notify-keyspace-events KEA").start();
        let mut pipe = Pipe::open(&server.socket());
        let paths = if ours_first { [module_path(), other.clone()] } else { [other.clone(), module_path()] };
        paths.iter().for_each(|path| load(&mut pipe, path));
        let seen = |pipe: &mut Pipe| -> (i64, i64) {
            let seen = pipe.good("NEIGHBOUR.SEEN");
            (seen.list()[0].int(), seen.list()[1].int())
        };
        let before = seen(&mut pipe);
        assert_eq!(pipe.good("RL.FIXED k 2 1h").first(), 1);
        assert_eq!(pipe.good("NEIGHBOUR.CALL RL.FIXED k 2 1h").first(), 1);
        assert_eq!(pipe.good("NEIGHBOUR.CALL RL.FIXED k 2 1h").first(), 0);
        assert_eq!(pipe.good("NEIGHBOUR.CALL RL.QUEUE q 9 1 1h 1h COST 2").first(), 1);
        // Nobody may block there: the delay is told.
        assert!(pipe.good("NEIGHBOUR.CALL RL.QUEUE q 9 1 1h 10m").first() == 0);
        assert!(pipe.error("NEIGHBOUR.CALL RL.FIXED k nonsense 1h").starts_with("ERR limit"));
        let after = seen(&mut pipe);
        assert!(after.0 >= before.0 + 6, "it saw our commands: {before:?} {after:?}");
        assert!(after.1 > before.1, "and our events: {before:?} {after:?}");
        assert_eq!(pipe.int("GET k"), 2);
        pipe.good("MODULE UNLOAD neighbour");
        assert_eq!(pipe.good("RL.TOKEN t 5 1 1h").first(), 1);
        load(&mut pipe, &other);
        pipe.good("MODULE UNLOAD rl");
        assert_gone(&mut pipe);
        assert!(pipe.error("NEIGHBOUR.CALL RL.FIXED k 2 1h").starts_with("ERR"));
        load(&mut pipe, &module_path());
        assert_eq!(pipe.good("NEIGHBOUR.CALL RL.TOKEN t 5 1 1h").first(), 1);
    }
}

/// Beside redis-cell, whose commands and keys are its own. `RL_CELL` names its module, else the one that
/// scripts/cell.sh built.
#[test]
fn it_lives_beside_redis_cell() {
    let test = "lifecycle::it_lives_beside_redis_cell";
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let built = cache.map(|cache| cache.join("redis-limiters/cell/libredis_cell.so"));
    let cell = std::env::var_os("RL_CELL").map(PathBuf::from).or(built).filter(|path| path.exists());
    let Some(cell) = cell else {
        say(&format!("SKIPPED {test}: scripts/cell.sh has not built redis-cell here"));
        return;
    };
    for ours_first in [true, false] {
        let server = Setup::new().without_module().start();
        let mut pipe = Pipe::open(&server.socket());
        let paths = if ours_first { [module_path(), cell.clone()] } else { [cell.clone(), module_path()] };
        paths.iter().for_each(|path| load(&mut pipe, path));
        assert_eq!(pipe.good("CL.THROTTLE theirs 5 10 60").list()[0].int(), 0);
        assert_eq!(pipe.good("RL.TOKEN ours 5 1 1h").first(), 1);
        // A key of theirs is foreign to us, and stays theirs.
        let before = pipe.good("GET theirs").to_string();
        assert!(pipe.run("RL.TOKEN theirs 5 1 1h").is_error());
        assert_eq!(pipe.good("GET theirs").to_string(), before);
        assert_eq!(pipe.good("CL.THROTTLE theirs 5 10 60").list()[0].int(), 0);
        pipe.good("MODULE UNLOAD rl");
        assert_gone(&mut pipe);
        assert_eq!(pipe.good("CL.THROTTLE theirs 5 10 60").list()[0].int(), 0);
        load(&mut pipe, &module_path());
        assert_eq!(pipe.good("RL.TOKEN ours 5 1 1h").list()[2].int(), 3);
    }
    say(&format!("{test}: {} on {}", cell.display(), kind().name()));
}
