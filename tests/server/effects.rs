//! What each call leaves in the stream to replicas and the append-only file: native commands with absolute expiries, as
//! few as possible, and nothing for a refusal, COST 0 or a look.

use crate::aof::Aof;
use crate::client::Conn;
use crate::harness::{Server, Setup};
use crate::traces::{LOUD, SILENT};

fn held_with_aof(test: &str) -> Option<Server> {
    Some(Setup::held(test)?.aof().start())
}

/// One call at a time and the exact commands it appended.
fn assert_effects(server: &Server, conn: &mut Conn, rows: &[(i64, &str, &[&str])]) {
    let mut aof = Aof::of(server);
    for (at_ms, call, effects) in rows {
        server.at_ms(*at_ms);
        conn.good(call);
        assert_eq!(aof.lines(), *effects, "{call} at {at_ms} ms");
    }
}

#[test]
fn fixed_is_a_counter() {
    let Some(server) = held_with_aof("effects::fixed_is_a_counter") else {
        return;
    };
    assert_effects(
        &server,
        &mut server.conn(),
        &[
            (0, "RL.FIXED k 5 1m", &["SET k 1 PXAT 1767225660000"]),
            (0, "RL.FIXED k 5 1m", &["SET k 2 KEEPTTL"]),
            (0, "RL.FIXED k 5 1m COST 2", &["SET k 4 KEEPTTL"]),
            (1, "RL.FIXED k 5 1m COST 3", &[]),
            (1, "RL.FIXED k 5 1m COST 9", &[]),
            (1, "RL.CHARGE k FIXED 5 1m COST 9", &["SET k 10 KEEPTTL"]),
            (1, "RL.REFUND k FIXED 5 1m COST 9", &["SET k 1 KEEPTTL"]),
            (1, "RL.REFUND k FIXED 5 1m COST 9", &["DEL k"]),
            (1, "RL.REFUND k FIXED 5 1m COST 9", &[]),
            (1, "RL.FIXED n 1 1m", &["SET n 1 PXAT 1767225660001"]),
            (2, "RL.FIXED n 1 1m BLOCK 1h", &["SET n 1000000000000000000 PXAT 1767229200002"]),
            (3, "RL.FIXED n 1 1m BLOCK 1h", &[]),
            (3, "RL.REFUND n FIXED 1 1m", &[]),
        ],
    );
}

#[test]
fn sliding_is_a_log() {
    let Some(server) = held_with_aof("effects::sliding_is_a_log") else {
        return;
    };
    assert_effects(
        &server,
        &mut server.conn(),
        &[
            (
                0,
                "RL.SLIDING k 3 1s",
                &["MULTI", "ZADD k 1767225600000000 1767225600000000", "PEXPIREAT k 1767225602000", "EXEC"],
            ),
            (
                0,
                "RL.SLIDING k 3 1s COST 2",
                &["ZADD k 1767225600000000 1767225600000001 1767225600000000 1767225600000002"],
            ),
            (1, "RL.SLIDING k 3 1s", &[]),
            (
                1000,
                "RL.SLIDING k 3 1s ID a",
                &["MULTI", "ZADD k 1767225601000000 i000:a", "ZREMRANGEBYRANK k 0 2", "EXEC"],
            ),
            (1001, "RL.SLIDING k 3 1s ID a", &[]),
            (
                1002,
                "RL.SLIDING k 3 1s",
                &["MULTI", "ZADD k 1767225601002000 1767225601002000", "PEXPIREAT k 1767225603002", "EXEC"],
            ),
            (1003, "RL.REFUND k SLIDING 3 1s ID a", &["ZREM k i000:a"]),
            (1003, "RL.REFUND k SLIDING 3 1s ID a", &[]),
            (1003, "RL.REFUND k SLIDING 3 1s COST 9", &["DEL k"]),
        ],
    );
}

#[test]
fn buckets_token_and_leaky_are_hashes() {
    let Some(server) = held_with_aof("effects::buckets_token_and_leaky_are_hashes") else {
        return;
    };
    assert_effects(
        &server,
        &mut server.conn(),
        &[
            (
                0,
                "RL.SLIDING b 3 1s BUCKETS 10",
                &["MULTI", "HSET b 1767225600100 1", "PEXPIREAT b 1767225602100", "EXEC"],
            ),
            (50, "RL.SLIDING b 3 1s BUCKETS 10", &["HSET b 1767225600100 2"]),
            (50, "RL.SLIDING b 1 1s BUCKETS 10", &[]),
            (
                0,
                "RL.TOKEN t 3 1 1s",
                &["MULTI", "HSET t tokens 2 ts 1767225600000000", "PEXPIREAT t 1767225604000", "EXEC"],
            ),
            (0, "RL.TOKEN t 3 1 1s COST 3", &[]),
            (1000, "RL.REFUND t TOKEN 3 1 1s", &[]),
            (
                0,
                "RL.LEAKY l 3 1 1s",
                &["MULTI", "HSET l level 1 ts 1767225600000000", "PEXPIREAT l 1767225604000", "EXEC"],
            ),
            (0, "RL.QUEUE l 3 1 1s 0s", &[]),
        ],
    );
}

#[test]
fn leases_are_a_sorted_set() {
    let Some(server) = held_with_aof("effects::leases_are_a_sorted_set") else {
        return;
    };
    assert_effects(
        &server,
        &mut server.conn(),
        &[
            (
                0,
                "RL.ACQUIRE h 2 1s ID a",
                &["MULTI", "ZADD h 1767225601000000 l:a", "PEXPIREAT h 1767225602000", "EXEC"],
            ),
            (0, "RL.ACQUIRE h 1 1s ID b", &[]),
            (0, "RL.RENEW h 2s a", &["ZADD h 1767225602000000 l:a"]),
            (0, "RL.RENEW h 2s b", &[]),
            (0, "RL.RELEASE h b", &[]),
            (0, "RL.RELEASE h a", &["DEL h"]),
        ],
    );
}

/// Replicas see all charges of one call together or none.
#[test]
fn all_is_one_transaction() {
    let Some(server) = held_with_aof("effects::all_is_one_transaction") else {
        return;
    };
    assert_effects(
        &server,
        &mut server.conn(),
        &[
            (
                0,
                r#"RL.ALL {x}a "FIXED 1 1s" {x}b "FIXED 9 1s COST 2""#,
                &["MULTI", "SET {x}a 1 PXAT 1767225601000", "SET {x}b 2 PXAT 1767225601000", "EXEC"],
            ),
            (0, r#"RL.ALL {x}a "FIXED 1 1s" {x}b "FIXED 9 1s COST 2""#, &[]),
            (0, r#"RL.ALL {x}b "FIXED 9 1s" {x}c "FIXED 9 1s COST 0""#, &["SET {x}b 3 KEEPTTL"]),
        ],
    );
}

/// The whole list of silent calls appends nothing, and every loud one something that names no command of ours.
#[test]
fn silent_calls_append_nothing_and_loud_ones_only_native_commands() {
    let server = Setup::new().aof().start();
    let mut conn = server.conn();
    let mut aof = Aof::of(&server);
    for (first, silent) in SILENT {
        conn.good("FLUSHALL");
        conn.good(first);
        aof.commands();
        for line in *silent {
            conn.good(line);
            assert_eq!(aof.lines(), [""; 0], "{line} after {first}");
        }
    }
    for (first, line) in LOUD {
        conn.good("FLUSHALL");
        aof.commands();
        for call in [first, line] {
            conn.good(call);
            let effects = aof.lines();
            assert!(!effects.is_empty(), "{call} left nothing");
            assert!(effects.iter().all(|effect| !effect.to_lowercase().starts_with("rl.")), "{call}: {effects:?}");
        }
    }
}

/// A key that had run out is deleted for the replicas by the server, and then written by us.
#[test]
fn an_ended_key_is_deleted_before_it_is_written_anew() {
    let Some(setup) = Setup::held("effects::an_ended_key_is_deleted_before_it_is_written_anew") else {
        return;
    };
    // Servers differ in this default, which only names the command: DEL or UNLINK.
    let server = setup.aof().config("lazyfree-lazy-expire no").start();
    let mut conn = server.conn();
    conn.good("DEBUG SET-ACTIVE-EXPIRE 0");
    conn.good("RL.FIXED k 1 1s");
    let mut aof = Aof::of(&server);
    server.at_ms(1500);
    conn.expect("RL.FIXED k 1 1s -> 1 1 0 0 1000");
    assert_eq!(aof.lines(), ["MULTI", "DEL k", "SET k 1 PXAT 1767225602500", "EXEC"]);
}
