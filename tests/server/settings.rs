//! Settings through the server's own configuration, and the numbers of INFO.

use std::fs;

use crate::client::{Conn, Reply};
use crate::harness::{Server, Setup, module_path};
use crate::info;

/// Each setting with its default.
const SETTINGS: &[(&str, i64)] = &[
    ("rl.sliding-max-limit", 100_000),
    ("rl.queue-max-waiting", 1000),
    ("rl.queue-max-waiting-per-key", 100),
    ("rl.top-size", 0),
];

fn config(conn: &mut Conn, name: &str) -> i64 {
    conn.good(&format!("CONFIG GET {name}")).field(name).unwrap_or_else(|| panic!("no setting {name}")).int()
}

#[test]
fn settings_have_their_defaults_and_can_be_set() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    let all = conn.good("CONFIG GET rl.*");
    // And rl.compat-cell, which is no number and is read only at load.
    assert_eq!(all.list().len(), 2 * (SETTINGS.len() + 1), "{all}");
    for &(name, default) in SETTINGS {
        assert_eq!(config(&mut conn, name), default, "{name}");
        conn.expect(&format!("CONFIG SET {name} 7 -> OK"));
        assert_eq!(config(&mut conn, name), 7, "{name}");
        for bad in ["-1", "99999999999999999999", "ten", "1.5", "\"\""] {
            assert!(conn.error(&format!("CONFIG SET {name} {bad}")).starts_with("ERR"), "{name} {bad}");
        }
        assert_eq!(config(&mut conn, name), 7, "a refused value changes nothing: {name}");
    }
}

/// The bound holds for the very next call, and the error points the way out.
#[test]
fn the_sliding_bound_holds_at_once() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.expect(
        "
        RL.SLIDING k 100000 1h -> 1 100000 99999 0 3600000
        RL.SLIDING k 100001 1h -> ERR*BUCKETS
        CONFIG SET rl.sliding-max-limit 5 -> OK
        RL.SLIDING k 6 1h -> ERR*BUCKETS
        RL.PEEK k SLIDING 6 1h -> ERR*BUCKETS
        RL.SLIDING k 5 1h -> 1 5 3 0 3600000
        RL.SLIDING b 6 1h BUCKETS 10 -> 1 6 5 0 *
        ",
    );
}

/// CONFIG REWRITE keeps what was set, over a restart.
#[test]
fn settings_survive_a_rewrite_and_a_restart() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.good("CONFIG SET rl.sliding-max-limit 12345");
    conn.good("CONFIG REWRITE");
    let text = fs::read_to_string(server.dir().join("redis.conf")).unwrap();
    assert!(text.lines().any(|line| line == "rl.sliding-max-limit 12345"), "{text}");
    drop(conn);
    let server = server.restart(true, |setup| setup);
    assert_eq!(config(&mut server.conn(), "rl.sliding-max-limit"), 12345);
}

#[test]
fn settings_stand_in_the_servers_file() {
    let server = Setup::new().config("rl.queue-max-waiting 17").config("rl.queue-max-waiting-per-key 3").start();
    let mut conn = server.conn();
    assert_eq!(config(&mut conn, "rl.queue-max-waiting"), 17);
    assert_eq!(config(&mut conn, "rl.queue-max-waiting-per-key"), 3);
    assert_eq!(config(&mut conn, "rl.sliding-max-limit"), 100_000);
}

/// MODULE LOADEX takes settings; one that is wrong leaves the module out and the server up.
#[test]
fn loadex_takes_settings_and_refuses_wrong_ones() {
    let server = Setup::new().without_module().start();
    let mut conn = server.conn();
    let path = module_path();
    let loadex = format!("MODULE LOADEX {}", path.display());
    for bad in [
        "CONFIG rl.queue-max-waiting -1",
        "CONFIG rl.queue-max-waiting many",
        "CONFIG rl.queue-max-waiting 99999999999999999999",
        "CONFIG rl.no-such-setting 1",
    ] {
        assert!(conn.run(&format!("{loadex} {bad}")).is_error(), "{bad}");
        assert_eq!(conn.good("MODULE LIST").list().len(), modules_without_ours(&server), "{bad}");
        assert!(conn.error("RL.FIXED k 5 1m").contains("unknown command"), "{bad}");
    }
    conn.expect(&format!("{loadex} CONFIG rl.queue-max-waiting 8 CONFIG rl.sliding-max-limit 9 -> OK"));
    assert_eq!(config(&mut conn, "rl.queue-max-waiting"), 8);
    conn.expect("RL.SLIDING k 10 1h -> ERR*BUCKETS");
    conn.expect("RL.SLIDING k 9 1h -> 1 9 8 0 3600000");
}

/// Arguments of the load line have no meaning here; a word that does nothing would be believed to do something.
#[test]
fn loading_with_arguments_is_refused() {
    let server = Setup::new().without_module().start();
    let mut conn = server.conn();
    let path = module_path();
    assert!(conn.run(&format!("MODULE LOAD {} sliding-max-limit 5", path.display())).is_error());
    conn.expect(&format!("MODULE LOAD {} -> OK", path.display()));
}

/// Newer servers bring modules of their own.
fn modules_without_ours(server: &Server) -> usize {
    let list = server.conn().good("MODULE LIST");
    list.list().iter().filter(|module| module.field("name").is_none_or(|name| name.to_string() != "rl")).count()
}

fn counter(conn: &mut Conn, name: &str) -> i64 {
    info::number(conn, "rl", name)
}

/// Per algorithm: allowed, refused, never, errors; and each verb. Counted from the verdict, once per call.
#[test]
fn info_counts_decisions() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    for (algorithm, numbers) in [("fixed", "2 1h"), ("sliding", "2 1h"), ("token", "2 1 1h"), ("leaky", "2 1 1h")] {
        let name = algorithm.to_uppercase();
        conn.good(&format!("RL.{name} {algorithm} {numbers} COST 2"));
        conn.good(&format!("RL.{name} {algorithm} {numbers}"));
        conn.good(&format!("RL.{name} {algorithm} {numbers}"));
        conn.good(&format!("RL.{name} {algorithm} {numbers} COST 3"));
        conn.error(&format!("RL.{name} {algorithm} {numbers} COST x"));
        for (verdict, count) in [("allowed", 1), ("refused", 2), ("never", 1), ("errors", 1)] {
            let field = format!("rl_{algorithm}_{verdict}");
            assert_eq!(counter(&mut conn, &field), count, "{field}");
        }
    }
    conn.expect(
        r#"
        RL.PEEK fixed FIXED 2 1h -> 0 2 0 * *
        RL.REFUND fixed FIXED 2 1h -> 1 2 1 0 *
        RL.CHARGE fixed FIXED 2 1h -> 1 2 0 * *
        RL.ALL a "FIXED 2 1h" b "TOKEN 2 1 1h" -> 1 0 [* *]
        RL.ACQUIRE h 2 1h ID a -> 1 2 1 0 * a
        "#,
    );
    for (field, count) in [("rl_peeks", 1), ("rl_refunds", 1), ("rl_charges", 1), ("rl_waiting", 0)] {
        assert_eq!(counter(&mut conn, field), count, "{field}");
    }
    for field in ["rl_all_allowed", "rl_lease_allowed"] {
        assert_eq!(counter(&mut conn, field), 1, "{field}");
    }
    let text = info::info(&mut conn, "rl");
    let version = info::field(&text, "rl_version");
    assert_eq!(version.split('.').count(), 3, "{version}");
    assert!(!info::field(&text, "rl_clock_source").is_empty());
    assert!(info::info(&mut conn, "everything").contains("rl_fixed_allowed:"), "INFO everything shows modules");
    assert!(!info::info(&mut conn, "").contains("rl_fixed_allowed:"), "INFO alone does not");
}

/// RL.PEEK asks and RL.ALL decides by the same rules: neither may count as decisions of an algorithm that took nothing.
#[test]
fn a_peek_is_no_decision() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.good("RL.PEEK k FIXED 2 1h");
    assert_eq!(counter(&mut conn, "rl_fixed_allowed"), 0);
    assert_eq!(conn.good("EXISTS k"), Reply::Int(0));
}
