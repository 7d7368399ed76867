//! Somebody else's values: every command of ours on them is an error that says so, the server lives, the value and its
//! expiry stay as they are.

use crate::client::Conn;
use crate::harness::{Setup, kind, say};

/// What other applications keep in Redis, and what an operator may have mistyped.
const VALUES: &[(&str, &str)] = &[
    ("text", "SET k hello"),
    ("an empty text", "SET k \"\""),
    ("a negative counter", "SET k -1"),
    ("leading zeros", "SET k 007"),
    ("a plus sign", "SET k +1"),
    ("a fraction", "SET k 1.5"),
    ("beyond 63 bits", "SET k 9223372036854775808"),
    ("spaces", "SET k \" 5\""),
    ("bytes", "SET k \"\\xff\\x00\\x01\""),
    ("json", "SET k \"{\\x22a\\x22:1}\""),
    ("a hyperloglog", "PFADD k a b c"),
    ("a bitmap", "SETBIT k 7 1"),
    ("a list", "RPUSH k a b"),
    ("a set", "SADD k a b"),
    ("a set of integers", "SADD k 1 2 3"),
    ("a stream", "XADD k 1-1 field value"),
    ("a leaderboard", "ZADD k 1500 ann 1700 bob"),
    ("a leaderboard of large scores", "ZADD k 1767225600000000 ann"),
    ("fractional scores", "ZADD k 1767225600000000.5 1767225600000000"),
    ("milliseconds as scores", "ZADD k 1767225600000 1767225600000"),
    ("seconds as scores", "ZADD k 1767225600 1767225600"),
    ("an infinite score", "ZADD k inf 1767225600000000"),
    ("a lowest score of minus infinity", "ZADD k -inf i000:a 1767225600000000 1767225600000000"),
    ("somebody's leases", "ZADD k 1767225690000000 worker-1"),
    ("a log with a foreign end", "ZADD k 1767225600000000 1767225600000000 1767225690000000 zed"),
    ("a member with half an id", "ZADD k 1767225600000000 i000:"),
    ("a lease without an id", "ZADD k 1767225600000000 l:"),
    ("a geo index", "GEOADD k 13.361389 38.115556 Palermo"),
    ("a user's profile", "HSET k name ann age 41"),
    ("a bucket in milliseconds", "HSET k tokens 3 ts 1767225600000"),
    ("a bucket in seconds", "HSET k tokens 3 ts 1767225600"),
    ("a bucket with a float", "HSET k tokens 3.5 ts 1767225600000000"),
    ("a bucket with an owner", "HSET k tokens 3 ts 1767225600000000 owner ann"),
    ("half a bucket", "HSET k tokens 3"),
    ("a level that is none", "HSET k level x ts 1767225600000000"),
    ("a fraction of zero", "HSET k tokens 1+0/0 ts 1767225600000000"),
    ("a fraction above one", "HSET k level 1+3/2 ts 1767225600000000"),
    ("a negative fraction", "HSET k level 1+-1/2 ts 1767225600000000"),
    ("a field that is no end", "HSET k 1767225600 3"),
    ("thirteen letters", "HSET k abcdefghijklm 3"),
];

const COMMANDS: &[&str] = &[
    "RL.FIXED k 5 1m",
    "RL.FIXED k 5 1m ALIGN COST 2",
    "RL.FIXED k 5 1m BLOCK 1h PARTIAL",
    "RL.SLIDING k 5 1m",
    "RL.SLIDING k 5 1m COST 0",
    "RL.SLIDING k 5 1m ID a",
    "RL.SLIDING k 5 1m BUCKETS 10",
    "RL.TOKEN k 5 1 1m",
    "RL.TOKEN k 5 1 1m COST 9",
    "RL.LEAKY k 5 1 1m",
    "RL.LEAKY k 5 1 1m SHAPE WITHIN 1s",
    "RL.PEEK k FIXED 5 1m",
    "RL.PEEK k SLIDING 5 1m",
    "RL.PEEK k SLIDING 5 1m BUCKETS 10",
    "RL.PEEK k TOKEN 5 1 1m",
    "RL.PEEK k LEAKY 5 1 1m",
    "RL.PEEK k LEASE 5",
    "RL.REFUND k FIXED 5 1m",
    "RL.REFUND k SLIDING 5 1m ID a",
    "RL.REFUND k SLIDING 5 1m BUCKETS 10",
    "RL.REFUND k TOKEN 5 1 1m",
    "RL.REFUND k LEAKY 5 1 1m",
    "RL.CHARGE k FIXED 5 1m",
    "RL.CHARGE k SLIDING 5 1m",
    "RL.CHARGE k TOKEN 5 1 1m",
    "RL.CHARGE k LEAKY 5 1 1m",
    "RL.ALL a \"FIXED 5 1m\" k \"FIXED 5 1m\"",
    "RL.ALL a \"FIXED 5 1m\" k \"TOKEN 5 1 1m\"",
    "RL.ALL k \"SLIDING 5 1m\" a \"FIXED 5 1m\"",
    "RL.ACQUIRE k 5 1m",
    "RL.ACQUIRE k 5 1m ID a",
    "RL.RENEW k 1m a",
    "RL.RELEASE k a",
    "RL.QUEUE k 5 1 1m 1s",
];

fn state(conn: &mut Conn) -> (String, i64) {
    (format!("{:?}", conn.good("DUMP k")), conn.int("PEXPIRETIME k"))
}

#[test]
fn foreign_values_are_errors_and_stay_as_they_are() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    for (what, write) in VALUES {
        for expire in [false, true] {
            conn.good("FLUSHALL");
            conn.good(write);
            if expire {
                conn.good("PEXPIRE k 100000000");
            }
            let before = state(&mut conn);
            for line in COMMANDS {
                let error = conn.error(line);
                assert!(error.starts_with("ERR") || error.starts_with("WRONGTYPE"), "{line} on {what}: {error}");
                assert_eq!(state(&mut conn), before, "{line} changed {what}");
                assert_eq!(conn.int("EXISTS a"), 0, "{line} on {what} charged the other key");
            }
        }
    }
    say(&format!("{} commands on {} foreign values, each an error", COMMANDS.len(), VALUES.len()));
}

/// The right type with strange contents: the error says what the key seems to hold, and the way out.
#[test]
fn the_error_says_what_the_key_seems_to_hold() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.expect(
        "
        SET s hello -> OK
        RL.FIXED s 5 1m -> ERR*key
        HSET h name ann -> 1
        RL.TOKEN h 5 1 1m -> ERR*key
        ZADD z 1500 ann -> 1
        RL.SLIDING z 5 1m -> ERR*key
        RL.TOKEN z 5 1 1m -> ERR*WRONGTYPE Operation against a key holding the wrong kind of value
        ",
    );
    for line in ["RL.FIXED s 5 1m", "RL.TOKEN h 5 1 1m", "RL.SLIDING z 5 1m"] {
        let error = conn.error(line);
        assert!(error.starts_with("ERR "), "{error}");
        assert!(error.to_lowercase().contains("another key"), "the way out is another key name: {error}");
    }
}

/// One limiter's key is foreign to the others where the form differs, and leases are foreign to a log.
#[test]
fn one_limiters_key_is_no_other_limiters() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    for (first, other) in [
        ("RL.TOKEN k 5 1 1m", "RL.LEAKY k 5 1 1m"),
        ("RL.LEAKY k 5 1 1m", "RL.TOKEN k 5 1 1m"),
        ("RL.TOKEN k 5 1 1m", "RL.SLIDING k 5 1m BUCKETS 10"),
        ("RL.SLIDING k 5 1m BUCKETS 10", "RL.LEAKY k 5 1 1m"),
        ("RL.SLIDING k 5 1m", "RL.ACQUIRE k 5 1m"),
        ("RL.SLIDING k 5 1m ID a", "RL.ACQUIRE k 5 1m"),
        ("RL.ACQUIRE k 5 1m", "RL.SLIDING k 5 1m"),
        ("RL.ACQUIRE k 5 1m ID 1767225600000000", "RL.SLIDING k 5 1m"),
        ("RL.FIXED k 5 1m", "RL.TOKEN k 5 1 1m"),
    ] {
        conn.good("FLUSHALL");
        conn.good(first);
        let before = state(&mut conn);
        conn.error(other);
        assert_eq!(state(&mut conn), before, "{other} after {first}");
    }
}

/// From Redis 7.4 a hash's field can end by itself: a vanished field is no reason to stop, nor to trust the rest.
#[test]
fn a_vanished_field_stops_nothing() {
    let since = if kind().valkey { 9 } else { 7 };
    if kind().version.0 < since || !kind().at_least(7, 4) {
        say(&format!("SKIPPED foreign::a_vanished_field_stops_nothing: {} has no HPEXPIRE", kind().name()));
        return;
    }
    let server = Setup::new().start();
    let mut conn = server.conn();
    for (first, field) in [("RL.TOKEN k 5 1 1h", "tokens"), ("RL.LEAKY k 5 1 1h", "ts")] {
        conn.good("FLUSHALL");
        conn.good(first);
        conn.good(&format!("HPEXPIRE k 1 FIELDS 1 {field}"));
        crate::harness::wait_for("the field to end", || (conn.int(&format!("HEXISTS k {field}")) == 0).then_some(()));
        assert!(conn.error(first).starts_with("ERR"), "a half bucket is foreign");
        conn.expect("DEL k -> 1");
        assert_eq!(conn.ints(first)[..4], [1, 5, 4, 0]);
    }
}
