//! What a decision leaves besides the key: a broken WATCH, an invalidated client cache, one transaction. A refusal,
//! COST 0 and RL.PEEK leave nothing. And the same reply whoever asks: MULTI, a script, RESP2, RESP3.

use redis::Value;

use crate::client::{Conn, Reply};
use crate::harness::{Server, Setup, kind};

/// For each limiter: an admission that takes everything, then what leaves no trace.
pub const SILENT: &[(&str, &[&str])] = &[
    (
        "RL.FIXED k 2 1h COST 2",
        &["RL.FIXED k 2 1h", "RL.FIXED k 2 1h COST 0", "RL.FIXED k 2 1h COST 3", "RL.PEEK k FIXED 2 1h"],
    ),
    (
        "RL.SLIDING k 2 1h COST 2 ID a",
        &["RL.SLIDING k 2 1h", "RL.SLIDING k 2 1h COST 0", "RL.SLIDING k 2 1h ID a", "RL.PEEK k SLIDING 2 1h"],
    ),
    (
        "RL.SLIDING k 2 1h COST 2 BUCKETS 60",
        &["RL.SLIDING k 2 1h BUCKETS 60", "RL.SLIDING k 2 1h COST 0 BUCKETS 60", "RL.PEEK k SLIDING 2 1h BUCKETS 60"],
    ),
    ("RL.TOKEN k 2 1 1h COST 2", &["RL.TOKEN k 2 1 1h", "RL.TOKEN k 2 1 1h COST 0", "RL.PEEK k TOKEN 2 1 1h"]),
    (
        "RL.LEAKY k 2 1 1h COST 2",
        &[
            "RL.LEAKY k 2 1 1h",
            "RL.LEAKY k 2 1 1h SHAPE WITHIN 1s",
            "RL.LEAKY k 2 1 1h COST 0",
            "RL.QUEUE k 2 1 1h 1s",
            "RL.PEEK k LEAKY 2 1 1h",
            "RL.ALL k \"LEAKY 2 1 1h\"",
            "RL.REFUND k LEAKY 2 1 1h COST 0",
        ],
    ),
    ("RL.ACQUIRE k 1 1h ID a", &["RL.ACQUIRE k 1 1h ID b", "RL.RENEW k 1h b", "RL.RELEASE k b", "RL.PEEK k LEASE 1"]),
];

/// Something that writes the key of an exhausted limiter.
pub const LOUD: &[(&str, &str)] = &[
    ("RL.FIXED k 2 1h", "RL.FIXED k 2 1h"),
    ("RL.FIXED k 2 1h", "RL.REFUND k FIXED 2 1h"),
    ("RL.FIXED k 2 1h", "RL.CHARGE k FIXED 2 1h"),
    ("RL.SLIDING k 2 1h", "RL.SLIDING k 2 1h"),
    ("RL.SLIDING k 2 1h BUCKETS 60", "RL.SLIDING k 2 1h BUCKETS 60"),
    ("RL.TOKEN k 2 1 1h", "RL.TOKEN k 2 1 1h"),
    ("RL.LEAKY k 2 1 1h", "RL.LEAKY k 2 1 1h"),
    ("RL.LEAKY k 2 1 1h", "RL.ALL k \"LEAKY 2 1 1h\""),
    ("RL.LEAKY k 100000 1000 1s", "RL.QUEUE k 100000 1000 1s 1s"),
    ("RL.ACQUIRE k 2 1h ID a", "RL.ACQUIRE k 2 1h ID b"),
    ("RL.ACQUIRE k 2 1h ID a", "RL.RENEW k 2h a"),
    ("RL.ACQUIRE k 2 1h ID a", "RL.RELEASE k a"),
];

/// Whether a transaction that watched the key while another connection ran this line is executed.
fn survives(watcher: &mut Conn, other: &mut Conn, line: &str) -> bool {
    watcher.good("WATCH k");
    other.good(line);
    watcher.good("MULTI");
    watcher.good("PING");
    watcher.good("EXEC") != Reply::Nil
}

#[test]
fn watch_is_broken_by_what_writes_and_by_nothing_else() {
    let server = Setup::new().start();
    let (mut watcher, mut other) = (server.conn(), server.conn());
    for (first, silent) in SILENT {
        other.good("FLUSHALL");
        other.good(first);
        for line in *silent {
            assert!(survives(&mut watcher, &mut other, line), "{line} after {first} broke a WATCH");
        }
    }
    for (first, line) in LOUD {
        other.good("FLUSHALL");
        assert!(!survives(&mut watcher, &mut other, first), "{first} on a new key did not break a WATCH");
        assert!(!survives(&mut watcher, &mut other, line), "{line} after {first} did not break a WATCH");
    }
}

/// A client that caches the key hears of an admission, and of nothing else.
#[test]
fn client_caches_are_invalidated_by_what_writes_and_by_nothing_else() {
    let server = Setup::new().start();
    let (mut cache, mut other) = (server.conn3(), server.conn());
    cache.good("CLIENT TRACKING ON");
    let mut invalidated = |cache: &mut Conn, line: &str| {
        cache.good("EXISTS k");
        assert_eq!(cache.pushed(), [""; 0]);
        other.good(line);
        cache.pushed()
    };
    for (first, silent) in SILENT {
        invalidated(&mut cache, "DEL k");
        assert_eq!(invalidated(&mut cache, first), ["Invalidate [k]"], "{first}");
        for line in *silent {
            assert_eq!(invalidated(&mut cache, line), [""; 0], "{line} after {first}");
        }
    }
    for (first, line) in LOUD {
        invalidated(&mut cache, "DEL k");
        invalidated(&mut cache, first);
        assert_eq!(invalidated(&mut cache, line), ["Invalidate [k]"], "{line} after {first}");
    }
}

/// A client that cached the answer of RL.PEEK hears when it changes.
#[test]
fn peek_is_tracked_like_any_read() {
    let server = Setup::new().start();
    let (mut cache, mut other) = (server.conn3(), server.conn());
    cache.good("CLIENT TRACKING ON");
    other.good("RL.FIXED k 5 1h");
    cache.good("RL.PEEK k FIXED 5 1h");
    other.good("RL.FIXED k 5 1h");
    assert_eq!(cache.pushed(), ["Invalidate [k]"]);
}

#[test]
fn a_transaction_answers_as_single_calls_do() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.expect(
        r#"
        MULTI -> OK
        RL.FIXED f 2 1h -> QUEUED
        RL.FIXED f 2 1h COST 2 -> QUEUED
        RL.TOKEN t 5 1 1h COST 2 -> QUEUED
        RL.PEEK f FIXED 2 1h -> QUEUED
        RL.ALL {x}a "FIXED 2 1h" {x}b "FIXED 3 1h" -> QUEUED
        RL.ACQUIRE l 1 1h ID a -> QUEUED
        RL.FIXED t 2 1h -> QUEUED
        "#,
    );
    let replies = conn.good("EXEC");
    let shown: Vec<_> = replies.list().iter().map(ToString::to_string).collect();
    assert_eq!(shown[0], "1 2 1 0 3600000");
    // On 7.0 the clock goes on within a transaction, and a millisecond may have passed.
    assert!(["0 2 1 36", "0 2 1 35"].iter().any(|start| shown[1].starts_with(start)), "{shown:?}");
    assert_eq!(shown[2], "1 5 3 0 7200000");
    assert!(shown[3].starts_with("1 2 0 0 "), "{shown:?}");
    assert!(shown[4].starts_with("1 0 [[1 2 1 0 3600000] [1 3 2 0 3600000]]"), "{shown:?}");
    assert_eq!(shown[5], "1 1 0 0 3600000 a");
    assert!(shown[6].starts_with("WRONGTYPE"), "{shown:?}");
    conn.expect("GET f -> 1");
}

/// From a script a limiter is called like any command; a read-only script may only look.
#[test]
fn scripts_call_the_limiters() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.expect(
        r#"
        EVAL "return redis.call('RL.TOKEN', KEYS[1], 10, 1, '1h')" 1 k -> 1 10 9 0 3600000
        EVAL "return redis.call('RL.TOKEN', KEYS[1], 10, 1, '1h', 'COST', ARGV[1])[3]" 1 k 4 -> 5
        EVAL "return redis.pcall('RL.TOKEN', KEYS[1], 'x', 1, '1h')" 1 k -> ERR*capacity
        EVAL_RO "return redis.call('RL.PEEK', KEYS[1], 'TOKEN', 10, 1, '1h')" 1 k -> 1 10 4 0 *
        EVAL_RO "return redis.call('RL.TOKEN', KEYS[1], 10, 1, '1h')" 1 k -> ERR*read-only
        EVAL_RO "return redis.call('RL.REFUND', KEYS[1], 'TOKEN', 10, 1, '1h')" 1 k -> ERR*read-only
        RL.PEEK k TOKEN 10 1 1h COST 0 -> 1 10 5 0 *
        "#,
    );
}

/// A script's units are one with its other writes: a WATCH sees them together, and a failed script has still spent.
#[test]
fn a_transaction_is_discarded_whole() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.expect(
        "
        MULTI -> OK
        RL.FIXED f 2 1h -> QUEUED
        RL.FIXED f -> ERR*wrong number of arguments
        EXEC -> ERR*EXECABORT
        EXISTS f -> 0
        ",
    );
}

/// What a server remembers of a call are the words of the request, also where an effect was handed over in their place:
/// its slow log, and a transaction and a script that go on afterwards.
#[test]
fn a_request_keeps_its_words() {
    let server = Setup::new().aof().start();
    let mut conn = server.conn();
    for line in [
        "RL.FIXED {k}f 9 1h",
        "RL.SLIDING {k}s 9 20ms",
        "RL.TOKEN {k}t 9 1 1h",
        "RL.ACQUIRE {k}l 9 1h ID a",
        "RL.ACQUIRE {k}l 9 1h ID b",
    ] {
        conn.good(line);
    }
    std::thread::sleep(std::time::Duration::from_millis(21));
    // Each has as many words as its effect: SET, ZADD and ZREMRANGEBYRANK, HSET, ZREM.
    let remembered =
        ["RL.FIXED {k}f 9 1h", "RL.SLIDING {k}s 9 20ms", "RL.CHARGE {k}t TOKEN 9 1 1h", "RL.RELEASE {k}l a"];
    conn.good("CONFIG SET slowlog-log-slower-than 0");
    conn.good("SLOWLOG RESET");
    for line in remembered {
        conn.good(line);
    }
    conn.good("MULTI");
    conn.good("RL.FIXED {k}f 9 1h");
    conn.good("RL.FIXED {k}f 9 1h");
    let remaining: Vec<_> = conn.good("EXEC").list().iter().map(|reply| reply.ints()[2]).collect();
    assert_eq!(remaining, [6, 5]);
    let log = conn.good("SLOWLOG GET 128");
    let mut lines: Vec<_> = log.list().iter().map(|entry| entry.list()[3].to_string()).collect();
    lines.retain(|line| line.starts_with("RL."));
    lines.reverse();
    let transaction = ["RL.FIXED {k}f 9 1h"; 2];
    assert_eq!(lines, [&remembered[..], &transaction[..]].concat());
    conn.good("CONFIG SET slowlog-log-slower-than -1");
    let script = "for n = 1, 2 do redis.call('RL.FIXED', KEYS[1], 9, '1h') redis.call('RL.SLIDING', KEYS[2], 9, '1h') end \
                  return redis.call('RL.FIXED', KEYS[1], 9, '1h')[3]";
    let rest = conn.call(&["EVAL", script, "2", "{k}f", "{k}s"]);
    assert_eq!(rest.int(), 2);
}

/// Every reply is the same array in RESP2 and RESP3, nil included.
#[test]
fn resp2_and_resp3_get_the_same_replies() {
    let held = Setup::held("traces::resp2_and_resp3_get_the_same_replies (the numbers; the kinds are compared)");
    let exact = held.is_some();
    let server: Server = held.unwrap_or_else(Setup::new).start();
    let lines = r#"
        RL.FIXED f 2 1s COST 2
        RL.FIXED f 2 1s
        RL.FIXED f 2 1s COST 3
        RL.SLIDING s 2 1s ID a
        RL.SLIDING b 2 1s BUCKETS 10
        RL.TOKEN t 2 1 1s PARTIAL
        RL.LEAKY l 2 1 1s SHAPE
        RL.PEEK f FIXED 2 1s
        RL.PEEK h LEASE 2
        RL.REFUND f FIXED 2 1s
        RL.CHARGE f FIXED 2 1s
        RL.ALL {a}1 "FIXED 1 1s" {a}2 "TOKEN 1 1 1s"
        RL.ALL {a}1 "FIXED 1 1s" {a}2 "TOKEN 1 1 1s"
        RL.ACQUIRE h 1 1s ID a
        RL.ACQUIRE h 1 1s ID b
        RL.RENEW h 1s a b
        RL.RELEASE h a
        RL.QUEUE q 2 1 1s 0s
        RL.QUEUE q 2 1 1s 0s
        RL.HELP
        RL.HELP RL.FIXED
        RL.FIXED f x 1s
        RL.TOKEN f 2 1 1s
    "#;
    let read = |mut conn: Conn| -> Vec<Value> {
        conn.good("FLUSHALL");
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(|line| conn.value(&crate::expectation::words(line).unwrap())).collect()
    };
    let (two, three) = (read(server.conn()), read(server.conn3()));
    if exact {
        assert_eq!(two, three);
    }
    let kinds = |replies: &[Value]| -> Vec<_> { replies.iter().map(kind_of).collect() };
    assert_eq!(kinds(&two), kinds(&three));
    assert!(
        matches!(&two[0], Value::Array(items) if items.iter().all(|item| matches!(item, Value::Int(_)))),
        "{two:?}"
    );
}

/// A reply with its numbers left out.
fn kind_of(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(kind_of).collect()),
        Value::Int(_) => Value::Int(0),
        other => other.clone(),
    }
}

/// From Redis 7.2 the clock of a script or a transaction stands still, as the server's own does; on 7.0 it goes on.
#[test]
fn the_clock_of_a_script_is_the_servers() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    let passed = conn.int(
        "EVAL \"local before = redis.call('RL.TOKEN', KEYS[1], 10, 1, '1h')[5] for i = 1, 10000000 do end \
         return before - redis.call('RL.PEEK', KEYS[1], 'TOKEN', 10, 1, '1h', 'COST', 0)[5]\" 1 k",
    );
    let source = crate::info::field(&crate::info::info(&mut conn, "rl"), "rl_clock_source");
    if kind().at_least(7, 2) {
        assert_eq!((passed, source.as_str()), (0, "server"));
    } else {
        assert!(passed >= 1, "{passed} ms passed in ten million rounds");
        assert_eq!(source, "system");
    }
}
