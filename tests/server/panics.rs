//! Panics: with the build that panics on demand, at every way from the server into the module. The client gets an
//! error, the key is let go, the server lives.

use crate::client::{Conn, Reply};
use crate::harness::{Server, Setup, panicking_module_path};
use crate::info;

const WRITERS: &[&str] = &[
    "RL.FIXED k 5 1m",
    "RL.SLIDING k 5 1m",
    "RL.TOKEN k 5 1 1m",
    "RL.LEAKY k 5 1 1m",
    "RL.PEEK k FIXED 5 1m",
    "RL.REFUND k FIXED 5 1m",
    "RL.CHARGE k FIXED 5 1m",
    "RL.ALL k \"FIXED 5 1m\"",
    "RL.ACQUIRE k 5 1m",
    "RL.RENEW k 1m a",
    "RL.RELEASE k a",
    "RL.QUEUE k 5 1 1m 1s",
];

/// The server answers, and its log tells of the panic.
fn lives(server: &Server, conn: &mut Conn) {
    conn.expect("PING -> PONG");
    let log = server.log();
    assert!(log.contains("panic"), "the log says nothing of a panic:\n{log}");
    assert!(!log.contains("BUG REPORT"), "{log}");
}

/// In a command, before it has opened its key and while it holds it open: an error to the client, and the key is let
/// go: whoever comes next can use it, and the module can even be unloaded.
#[test]
fn in_a_command() {
    for entry in ["command", "key"] {
        let server = Setup::new().panicking_at(entry).start();
        let mut conn = server.conn();
        for line in WRITERS {
            conn.good("SET k 3");
            let error = conn.error(line);
            assert!(error.starts_with("ERR internal error"), "{line} at {entry}: {error}");
            // A handle that stays open would still point to the value that goes away here.
            conn.expect("GET k -> 3\nINCR k -> 4\nDEL k -> 1\nRPUSH k a -> 1\nDEL k -> 1");
        }
        lives(&server, &mut conn);
        conn.expect("MODULE UNLOAD rl -> OK");
    }
}

/// A panic inside a transaction or a script is that command's error and nobody else's.
#[test]
fn in_a_command_of_a_transaction() {
    let server = Setup::new().panicking_at("command").start();
    let mut conn = server.conn();
    conn.expect("MULTI -> OK\nSET a 1 -> QUEUED\nRL.FIXED k 5 1m -> QUEUED\nSET b 2 -> QUEUED");
    let replies = conn.good("EXEC");
    assert_eq!(replies.list()[0].to_string(), "OK");
    assert!(replies.list()[1].to_string().starts_with("ERR internal error"), "{replies}");
    assert_eq!(replies.list()[2].to_string(), "OK");
    conn.expect("EVAL \"return redis.pcall('RL.FIXED', KEYS[1], 5, '1m')\" 1 k -> ERR*internal error");
    lives(&server, &mut conn);
}

/// A caller that waits, when `entry` panics at its turn. Answers what it got.
fn waiter_of(server: &Server) -> Reply {
    let mut waiter = server.conn();
    waiter.expect("RL.QUEUE k 9 1 100ms 2s -> 1 9 8 0 100");
    waiter.run("RL.QUEUE k 9 1 100ms 2s")
}

/// In the timer that releases a line: the callers are still answered, by the next timer or with an error, and nobody
/// hangs.
#[test]
fn in_a_timer() {
    let server = Setup::new().panicking_at("timer").start();
    let mut conn = server.conn();
    let reply = waiter_of(&server).to_string();
    assert!(reply.starts_with("1 9 7 0 ") || reply.starts_with("ERR internal error"), "{reply}");
    lives(&server, &mut conn);
    info::wait_for_waiters(&mut conn, 0);
}

#[test]
fn in_the_reply_to_a_waiter() {
    let server = Setup::new().panicking_at("reply").start();
    let mut conn = server.conn();
    let reply = waiter_of(&server).to_string();
    assert!(reply.starts_with("ERR internal error"), "{reply}");
    lives(&server, &mut conn);
    info::wait_for_waiters(&mut conn, 0);
}

#[test]
fn in_freeing_a_waiter() {
    let server = Setup::new().panicking_at("free").start();
    let mut conn = server.conn();
    let reply = waiter_of(&server).to_string();
    assert!(reply.starts_with("1 9 7 0 "), "{reply}");
    crate::harness::wait_for("the panic", || server.log().contains("internal error at the entry point").then_some(()));
    lives(&server, &mut conn);
}

/// INFO goes on without our section.
#[test]
fn in_info() {
    let server = Setup::new().panicking_at("info").start();
    let mut conn = server.conn();
    conn.good("INFO rl");
    assert!(info::info(&mut conn, "everything").contains("redis_version:"));
    lives(&server, &mut conn);
    conn.expect("RL.FIXED k 5 1m -> 1 5 4 0 60000");
}

/// A setting that cannot be set says so and keeps its value.
#[test]
fn in_a_setting() {
    let server = Setup::new().without_module().env("RL_INJECT_PANIC", "config").start();
    let mut conn = server.conn();
    let load = format!("MODULE LOAD {}", panicking_module_path().display());
    // Loading sets the defaults: where that panics the module stays out, and the server up.
    let loaded = conn.run(&load);
    if !loaded.is_error() {
        assert!(conn.run("CONFIG SET rl.queue-max-waiting 5").is_error());
        conn.run("CONFIG GET rl.*");
        conn.expect("RL.FIXED k 5 1m -> 1 5 4 0 60000");
    }
    lives(&server, &mut conn);
}

/// A module that cannot load stays out.
#[test]
fn in_loading() {
    let server = Setup::new().without_module().env("RL_INJECT_PANIC", "load").start();
    let mut conn = server.conn();
    assert!(conn.run(&format!("MODULE LOAD {}", panicking_module_path().display())).is_error());
    assert!(conn.error("RL.FIXED k 5 1m").contains("unknown command"));
    lives(&server, &mut conn);
}

#[test]
fn in_unloading() {
    let server = Setup::new().panicking_at("unload").start();
    let mut conn = server.conn();
    conn.expect("RL.FIXED k 5 1m -> 1 5 4 0 60000");
    conn.run("MODULE UNLOAD rl");
    lives(&server, &mut conn);
    conn.expect("GET k -> 1");
}

/// Without the variable the same build is the module as everybody knows it.
#[test]
fn nowhere_unless_told() {
    let server = Setup::new().panicking_at("").start();
    let mut conn = server.conn();
    conn.expect("RL.FIXED k 5 1m -> 1 5 4 0 60000");
    assert!(!server.log().contains("internal error at the entry point"), "{}", server.log());
}
