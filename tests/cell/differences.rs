//! Every difference from redis-cell that is meant, as docs/migrating.md lists them.

use crate::aof::Aof;
use crate::client::{Conn, Reply};
use crate::harness::{Server, Setup};
use crate::theirs::{Numbers, Pair, ours, state};

fn held(test: &str) -> Option<(Server, Conn)> {
    let server = ours(Setup::held(test)?.aof()).start();
    let conn = server.conn();
    Some((server, conn))
}

fn dump(conn: &mut Conn) -> (Reply, i64) {
    (conn.good("DUMP k"), conn.int("PEXPIRETIME k"))
}

/// redis-cell answers `Cell error`, or brings the server down, depending on its version.
#[test]
fn foreign_values_are_errors_and_stay_as_they_are() {
    let server = ours(Setup::new()).start();
    let mut conn = server.conn();
    let strings = ["hello", "\"\"", "5", "-1", "+1767225600000000000", "0", "1767225600000000", "17672256000000000000"];
    let shut = "1000000000000000000";
    for value in strings.into_iter().chain([shut, "\"\\xff\\x00\"", "\" 1767225600000000000\""]) {
        for expire in ["", " PX 100000000"] {
            conn.good(&format!("SET k {value}{expire}"));
            let before = dump(&mut conn);
            for quantity in ["", " 0", " 99", " -1"] {
                assert_eq!(
                    conn.error(&format!("CL.THROTTLE k 15 30 60{quantity}")),
                    "ERR the key holds a string that is not a state of CL.THROTTLE (nanoseconds since 1970 in 19 \
                     digits), somebody else's value it seems: use another key name for this limiter",
                    "{value}"
                );
            }
            assert_eq!(dump(&mut conn), before, "{value}");
        }
    }
    for write in ["RPUSH k a", "HSET k tokens 3 ts 1767225600000000", "ZADD k 1 a", "SADD k a", "XADD k 1-1 a b"] {
        conn.good("DEL k");
        conn.good(write);
        let before = dump(&mut conn);
        assert_eq!(
            conn.error("CL.THROTTLE k 15 30 60"),
            "WRONGTYPE Operation against a key holding the wrong kind of value"
        );
        assert_eq!(dump(&mut conn), before, "{write}");
    }
    assert_eq!(conn.call(&[b"CL.THROTTLE", b"\xff\x00 any bytes".as_slice(), b"15", b"30", b"60"]).ints()[0], 0);
}

/// redis-cell counts on with numbers that have gone over, or brings the server down.
#[test]
fn numbers_that_are_too_large_are_errors_that_name_the_word() {
    let server = ours(Setup::new()).start();
    let mut conn = server.conn();
    let most = "9223372036854775807";
    for (words, error) in [
        (format!("{most} 30 60"), "max_burst '9223372036854775807' is not"),
        ("-1 30 60".to_owned(), "max_burst '-1' is not"),
        ("1e3 30 60".to_owned(), "max_burst '1e3' is not"),
        (format!("15 {most} 60"), "count_per_period '9223372036854775807' is more than a unit per nanosecond"),
        ("15 0 60".to_owned(), "count_per_period '0' is not"),
        ("15 -30 60".to_owned(), "count_per_period '-30' is not"),
        (format!("15 30 {most}"), "period '9223372036854775807' is not"),
        ("15 30 0".to_owned(), "period '0' is not"),
        ("15 30 -60".to_owned(), "period '-60' is not"),
        ("15 30 60 9223372036854775808".to_owned(), "quantity '9223372036854775808' is not"),
        ("15 30 60 \"\"".to_owned(), "quantity '' is not"),
        (format!("{} 30 60", i64::MAX - 1), "max_burst '9223372036854775806' takes more than 100 years to come back"),
        ("36500 1 86400".to_owned(), "max_burst '36500' takes more than 100 years to come back, at most 36499"),
    ] {
        let text = conn.error(&format!("CL.THROTTLE k {words}"));
        assert!(text.starts_with(&format!("ERR {error}")), "{words}: {text}");
        assert_eq!(conn.int("EXISTS k"), 0, "{words}");
    }
    for words in ["k 15 30", "k 15 30 60 1 1"] {
        let expected = "ERR wrong number of arguments for 'cl.throttle' command";
        assert_eq!(conn.error(&format!("CL.THROTTLE {words}")), expected);
    }
    conn.expect(&format!("CL.THROTTLE k 15 30 60 {most} -> 1 16 16 -1 0"));
    conn.expect("CL.THROTTLE k 36499 1 86400 36500 -> 0 36500 0 -1 3153600000");
    conn.expect("CL.THROTTLE k 36499 1 86400 -> 1 36500 0 86400 3153600000");
    conn.expect(&format!("CL.THROTTLE k 36499 1 86400 {} -> 0 36500 36500 -1 0", i64::MIN));
    assert_eq!(conn.good("PING").to_string(), "PONG");
}

/// redis-cell replicates nothing, or from 0.3.0 on its own calls, which a restart charges again.
#[test]
fn effects_are_native_and_a_refusal_has_none() {
    let Some((server, mut conn)) = held("differences::effects_are_native_and_a_refusal_has_none") else { return };
    let mut aof = Aof::of(&server);
    for (at_ms, call, effects) in [
        (0, "CL.THROTTLE k 2 1 1", &["SET k 1767225601000000000 PXAT 1767225602000"][..]),
        (0, "CL.THROTTLE k 2 1 1 2", &["SET k 1767225603000000000 PXAT 1767225606000"]),
        (0, "CL.THROTTLE k 2 1 1", &[]),
        (500, "CL.THROTTLE k 2 1 1", &[]),
        (500, "CL.THROTTLE k 2 1 1 9", &[]),
        (500, "CL.THROTTLE k 2 1 1 0", &[]),
        (500, "CL.THROTTLE none 2 1 1 0", &[]),
        (500, "CL.THROTTLE none 2 1 1 -1", &[]),
        (1_000, "CL.THROTTLE k 2 1 1", &["SET k 1767225604000000000 PXAT 1767225607000"]),
        (1_000, "CL.THROTTLE k 2 1 1 -1", &["SET k 1767225603000000000 PXAT 1767225605000"]),
        (1_000, "CL.THROTTLE k 2 1 1 -2", &["DEL k"]),
        (1_000, "CL.THROTTLE f 99 3000 1", &["SET f 1767225601000333333 PXAT 1767225601002"]),
    ] {
        server.at_ms(at_ms);
        conn.good(call);
        assert_eq!(aof.lines(), effects, "{call} at {at_ms} ms");
    }
    // A restart that reads the file charges nobody twice.
    conn.good("CL.THROTTLE k 2 1 1 2");
    drop(conn);
    let server = server.restart(true, |setup| setup);
    server.conn().expect("CL.THROTTLE k 2 1 1 0 -> 0 3 1 -1 2");
}

/// A refusal wakes nobody who watches the key.
#[test]
fn a_refusal_breaks_no_watch() {
    let server = ours(Setup::new()).start();
    let (mut conn, mut other) = (server.conn(), server.conn());
    for (call, kept) in
        [("CL.THROTTLE k 0 1 3600", true), ("CL.THROTTLE k 0 1 3600 0", true), ("CL.THROTTLE k 1 1 3600", false)]
    {
        other.good("CL.THROTTLE k 0 1 3600");
        conn.good("WATCH k");
        other.good(call);
        conn.good("MULTI");
        conn.good("PING");
        assert_eq!(conn.good("EXEC") != Reply::Nil, kept, "{call}");
    }
}

/// redis-cell forgets what a debt has below a millisecond.
#[test]
fn nothing_is_forgotten_below_a_millisecond() {
    let Some(mut pair) = Pair::start("differences::nothing_is_forgotten_below_a_millisecond") else { return };
    let rule = Numbers { burst: 0, count: 10_000, period: 15 };
    pair.at_us(900);
    pair.same("k", rule, 1);
    pair.at_us(2_100);
    let line = rule.line("k", 1);
    assert_eq!(pair.them.ints(&line)[0], 0, "1.2 of 1.5 ms have passed and redis-cell has forgotten the rest");
    assert_eq!(pair.us.ints(&line), [1, 1, 0, 0, 0]);
    pair.at_us(2_399);
    assert_eq!(pair.us.ints(&line)[0], 1);
    pair.at_us(2_400);
    assert_eq!(pair.us.ints(&line)[0], 0);
}

/// A key that somebody left without an expiry, and redis-cell's own shorter one, get a good one with the next call.
#[test]
fn every_key_has_an_expiry() {
    let Some((server, mut conn)) = held("differences::every_key_has_an_expiry") else { return };
    let mut aof = Aof::of(&server);
    for expiry in ["", " PXAT 1767225602000"] {
        conn.good(&format!("SET k 1767225602000000000{expiry}"));
        aof.lines();
        conn.expect("CL.THROTTLE k 2 1 1 0 -> 0 3 1 -1 2");
        assert_eq!(aof.lines(), [""; 0], "a look mends nothing");
        conn.expect("CL.THROTTLE k 2 1 1 2 -> 1 3 1 1 2");
        assert_eq!(aof.lines(), ["SET k 1767225602000000000 PXAT 1767225604000"]);
        conn.expect("CL.THROTTLE k 2 1 1 2 -> 1 3 1 1 2");
        assert_eq!(aof.lines(), [""; 0], "once is enough");
    }
    conn.good("SET k 1767225599000000000");
    aof.lines();
    conn.expect("CL.THROTTLE k 2 1 1 4 -> 1 3 3 -1 0");
    assert_eq!(aof.lines(), ["DEL k"], "worked off, and nobody would ever take it away");
}

/// When the clock steps back redis-cell refuses until it has come forward again; here the debt stays as long as it was.
#[test]
fn a_clock_that_steps_back_locks_nobody_out() {
    let Some(mut pair) = Pair::start("differences::a_clock_that_steps_back_locks_nobody_out") else { return };
    let rule = Numbers { burst: 4, count: 1, period: 1 };
    pair.at_us(3_600_000_000);
    pair.same("k", rule, 3);
    pair.at_us(0);
    assert_eq!(pair.them.ints(&rule.line("k", 1))[..2], [1, 5]);
    assert!(pair.them.ints(&rule.line("k", 1))[3] > 3_590);
    assert_eq!(pair.us.ints(&rule.line("k", 3)), [1, 5, 2, 1, 3]);
    pair.at_us(1_000_000);
    assert_eq!(pair.us.ints(&rule.line("k", 3)), [0, 5, 0, -1, 5]);
    // Numbers that allow less are not a clock that went back: what larger ones admitted still counts.
    let smaller = Numbers { burst: 0, ..rule };
    assert_eq!(pair.us.ints(&smaller.line("k", 1)), [1, 1, 0, 5, 5]);
    // A key that redis-cell left cannot tell how long its debt was: the numbers of the call are the bound.
    pair.us.good("SET left 1767229200000000000 PXAT 1767229200000");
    assert_eq!(pair.us.ints(&rule.line("left", 1)), [1, 5, 0, 1, 5]);
}

/// redis-cell fails when more is given back than is owed, and leaves a key without an expiry.
#[test]
fn giving_back_ends_at_untouched() {
    let Some(mut pair) = Pair::start("differences::giving_back_ends_at_untouched") else { return };
    let rule = Numbers { burst: 4, count: 1, period: 1 };
    pair.same("k", rule, 3);
    pair.same("k", rule, -1);
    let line = rule.line("k", -9);
    assert!(pair.them.run(&line).is_error());
    assert_eq!(pair.us.ints(&line), [0, 5, 5, -1, 0]);
    assert_eq!(state(&mut pair.us, "k"), None);
}

/// Above a million units a second redis-cell divides by nothing; its numbers are so many that no client can mean them.
#[test]
fn what_remains_makes_sense_at_any_rate() {
    let Some(mut pair) = Pair::start("differences::what_remains_makes_sense_at_any_rate") else { return };
    let line = Numbers { burst: 9, count: 2_000_000, period: 1 }.line("k", 1);
    assert_eq!(pair.them.ints(&line)[2], i64::MAX);
    assert_eq!(pair.us.ints(&line)[2], 9);
    // A debt that is just short of one interval above what smaller numbers tolerate.
    let rule = Numbers { burst: 2, count: 3, period: 1 };
    let tat = 1_767_225_600_000_000_000 + rule.tolerance_ns() + 333_333_100;
    for conn in [&mut pair.us, &mut pair.them] {
        conn.good(&format!("SET n {tat} PX 4000"));
    }
    assert_eq!((pair.them.ints(&rule.line("n", 1))[2], pair.us.ints(&rule.line("n", 1))[2]), (-1, 0));
    // Above a thousand or so a second both may show more than there is.
    let line = Numbers { burst: 9, count: 500_250, period: 1 }.line("m", 0);
    assert_eq!((pair.them.ints(&line)[2], pair.us.ints(&line)[2]), (19, 19));
}

/// A key of redis-cell's lives on for the rest of its last millisecond, and is then counted as less than nothing owed.
#[test]
fn no_more_remains_than_fits() {
    let Some(mut pair) = Pair::start("differences::no_more_remains_than_fits") else { return };
    let rule = Numbers { burst: 5, count: 5_000, period: 1 };
    pair.at_us(0);
    pair.same("k", rule, 1);
    pair.at_us(450);
    let line = rule.line("k", 9);
    assert_eq!((pair.them.ints(&line)[2], pair.us.ints(&line)[2]), (7, 6));
}

/// redis-cell divides in floating point, which is some nanoseconds off where a unit takes more than a hundred days.
#[test]
fn an_interval_of_years_is_exact() {
    let Some(mut pair) = Pair::start("differences::an_interval_of_years_is_exact") else { return };
    let line = Numbers { burst: 5, count: 3, period: 100_000_000 }.line("k", 1);
    let (us, them) = (pair.us.ints(&line), pair.them.ints(&line));
    assert_eq!((us[0], us[2]), (them[0], them[2]));
    let (us, them) = (state(&mut pair.us, "k").unwrap(), state(&mut pair.them, "k").unwrap());
    assert_eq!((us - 1_767_225_600_000_000_000, us - them), (33_333_333_333_333_333, 1));
}

/// A full memory is refused before anything is written: redis-cell has no such flag.
#[test]
fn a_full_memory_is_an_error() {
    let server = ours(Setup::new()).start();
    let mut conn = server.conn();
    conn.good("CONFIG SET maxmemory 1");
    assert!(conn.error("CL.THROTTLE k 15 30 60").starts_with("OOM"));
}
