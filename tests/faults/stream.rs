//! The stream that replicas read, byte by byte: a connection of the test asks for it as a replica does, and sees what
//! every call sends. Times are asserted within the instants between which the call ran, so no clock has to be held.

use std::path::Path;

use crate::client::shown;
use crate::harness::{Server, Setup, wait_for};
use crate::pipe::Pipe;

/// A replica that only reads.
struct Reader {
    pipe: Pipe,
    markers: u32,
}

impl Reader {
    fn of(socket: &Path) -> Self {
        let mut pipe = Pipe::open(socket);
        pipe.send_bytes(b"SYNC\r\n").unwrap();
        // Empty lines keep the link alive while the server writes its file.
        let header = loop {
            let line = pipe.line().unwrap();
            if !line.is_empty() {
                break String::from_utf8(line).unwrap();
            }
        };
        let length = header.strip_prefix('$').and_then(|length| length.parse().ok());
        pipe.raw(length.unwrap_or_else(|| panic!("a file of a length, not {header:?}"))).unwrap();
        Self { pipe, markers: 0 }
    }

    /// Everything since the last look, as lines, in words of which those that no person typed are left out.
    fn lines(&mut self, writer: &mut Pipe) -> Vec<String> {
        self.markers += 1;
        let marker = format!("SET a-marker {}", self.markers);
        writer.good(&marker);
        let mut lines = vec![];
        loop {
            let command = self.pipe.receive().unwrap();
            let words: Vec<_> = command.list().iter().map(|word| word.bytes().to_vec()).collect();
            let line = shown(&words);
            if line == marker {
                return lines;
            }
            if !["SELECT", "PING", "REPLCONF"].iter().any(|word| line.to_uppercase().starts_with(word)) {
                lines.push(line);
            }
        }
    }
}

fn served() -> (Server, Pipe, Reader) {
    // The size of a hash's field list changes nothing here; no ping of the server's own moves the offset.
    let server = Setup::new()
        .config("repl-ping-replica-period 3600")
        .config("repl-diskless-sync no")
        .config("lazyfree-lazy-user-del no")
        .start();
    let pipe = Pipe::open(&server.socket());
    let reader = Reader::of(&server.socket());
    (server, pipe, reader)
}

/// Whether a line is the expected one; `{ms+n}` and `{us+n}` stand for the instant of the call and so much more,
/// `{was+n}` for that of this call or one before it, in milliseconds.
fn matches(expected: &str, line: &str, start_us: i64, (before_us, after_us): (i64, i64)) -> bool {
    let (expected, line): (Vec<_>, Vec<_>) = (expected.split(' ').collect(), line.split(' ').collect());
    let within = |expected: &str, word: &str| -> bool {
        let Some(inner) = expected.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
            return expected == word;
        };
        let (unit, plus) = inner.split_once('+').unwrap();
        let (plus, word): (i64, i64) = (plus.parse().unwrap(), word.parse().unwrap_or(0));
        match unit {
            // An expiry is rounded up to a millisecond.
            "ms" => (before_us / 1000 + plus..=after_us / 1000 + plus + 1).contains(&word),
            "was" => (start_us / 1000 + plus..=after_us / 1000 + plus + 1).contains(&word),
            "us" => (before_us + plus..=after_us + plus).contains(&word),
            _ => panic!("{expected}"),
        }
    };
    expected.len() == line.len() && expected.iter().zip(&line).all(|(expected, word)| within(expected, word))
}

/// Runs calls one by one and asserts what each sent.
#[track_caller]
fn assert_stream(rows: &[(&str, &[&str])]) {
    let (_server, mut pipe, mut reader) = served();
    let start_us = pipe.time_us();
    for (call, expected) in rows {
        reader.lines(&mut pipe);
        let words = crate::expectation::words(call).unwrap();
        let before_us = pipe.time_us();
        let answer = pipe.call(&words);
        assert!(!answer.is_error(), "{call}: {answer}");
        let after_us = pipe.time_us();
        let lines = reader.lines(&mut pipe);
        let same = lines.len() == expected.len()
            && lines
                .iter()
                .zip(*expected)
                .all(|(line, expected)| matches(expected, line, start_us, (before_us, after_us)));
        assert!(same, "{call}\n  sent {lines:?}\n  not  {expected:?}\n  between {before_us} and {after_us}");
    }
}

const SHUT: &str = "1000000000000000000";

/// Counters: SET with the window's end once, SET that keeps it after, one SET to shut, DEL for what comes to nothing.
#[test]
fn fixed_sends_counters() {
    assert_stream(&[
        ("RL.FIXED k 5 1m", &["SET k 1 PXAT {ms+60000}"]),
        ("RL.FIXED k 5 1m", &["SET k 2 KEEPTTL"]),
        ("RL.FIXED k 5 1m COST 2", &["SET k 4 KEEPTTL"]),
        ("RL.FIXED k 9 1m COST 9 PARTIAL", &["SET k 9 KEEPTTL"]),
        ("RL.FIXED k 5 1m", &[]),
        ("RL.REFUND k FIXED 5 1m COST 2", &["SET k 7 KEEPTTL"]),
        ("RL.CHARGE k FIXED 9 1m COST 4", &["SET k 11 KEEPTTL"]),
        ("PERSIST k", &["PERSIST k"]),
        ("RL.FIXED k 5 1m", &["PEXPIREAT k {ms+60000}"]),
        ("PEXPIRE k 3600000", &["PEXPIREAT k {ms+3600000}"]),
        ("RL.FIXED k 12 1m", &["SET k 12 PXAT {ms+60000}"]),
        ("RL.FIXED k 12 1m BLOCK 1h", &[&format!("SET k {SHUT} PXAT {{ms+3600000}}")]),
        ("RL.FIXED k 12 1m BLOCK 1h", &[]),
        ("DEL k", &["DEL k"]),
        ("RL.CHARGE k FIXED 5 1m COST 3", &["SET k 3 PXAT {ms+60000}"]),
        ("RL.REFUND k FIXED 5 1m COST 9", &["DEL k"]),
    ]);
}

/// Logs: ZADD of the units and, if it moves, the expiry, in one transaction; ZREM for refunds.
#[test]
fn sliding_sends_entries() {
    assert_stream(&[
        ("RL.SLIDING k 5 1m", &["MULTI", "ZADD k {us+0} {us+0}", "PEXPIREAT k {ms+120000}", "EXEC"]),
        ("RL.SLIDING k 5 1m COST 2", &["ZADD k {us+0} {us+0} {us+0} {us+1}"]),
        ("RL.SLIDING k 5 1m COST 2 ID job", &["ZADD k {us+0} i000:job {us+0} i001:job"]),
        ("RL.SLIDING k 5 1m COST 2 ID job", &[]),
        ("RL.SLIDING k 5 1m", &[]),
        ("RL.REFUND k SLIDING 5 1m ID job", &["ZREM k i000:job i001:job"]),
        ("RL.CHARGE k SLIDING 2 1m", &["ZADD k {us+0} {us+0}"]),
        ("PERSIST k", &["PERSIST k"]),
        // Counted from the newest entry, which an earlier call made.
        ("RL.SLIDING k 2 1m", &["PEXPIREAT k {was+120000}"]),
        ("RL.REFUND k SLIDING 5 1m COST 9", &["DEL k"]),
        ("ZADD k 1767225600000000 1767225600000000", &["ZADD k 1767225600000000 1767225600000000"]),
        (
            "RL.SLIDING k 5 1m",
            &["MULTI", "ZADD k {us+0} {us+0}", "ZREMRANGEBYRANK k 0 0", "PEXPIREAT k {ms+120000}", "EXEC"],
        ),
    ]);
}

/// Hashes: HSET of the fields that changed and, if it moves, the expiry.
#[test]
fn buckets_send_hashes() {
    assert_stream(&[
        ("RL.TOKEN t 5 1 1h COST 2", &["MULTI", "HSET t tokens 3 ts {us+0}", "PEXPIREAT t {ms+25200000}", "EXEC"]),
        ("RL.TOKEN t 5 1 1h COST 4", &[]),
        ("RL.REFUND t TOKEN 5 1 1h COST 9", &["DEL t"]),
        ("RL.LEAKY l 5 1 1h COST 2", &["MULTI", "HSET l level 2 ts {us+0}", "PEXPIREAT l {ms+25200000}", "EXEC"]),
        ("RL.LEAKY l 5 1 1h COST 2 SHAPE WITHIN 1h", &[]),
        ("RL.QUEUE l 5 1 1h 0s", &[]),
        ("RL.REFUND l LEAKY 5 1 1h COST 9", &["DEL l"]),
        ("RL.QUEUE l 5 1 1h 0s COST 5", &["MULTI", "HSET l level 5 ts {us+0}", "PEXPIREAT l {ms+36000000}", "EXEC"]),
        ("HSET t tokens 2 ts 9000000000000000", &["HSET t tokens 2 ts 9000000000000000"]),
        // From the future: the instant and the expiry are mended, the tokens stay as they are.
        ("RL.TOKEN t 5 1 1h COST 4", &["MULTI", "HSET t ts {us+0}", "PEXPIREAT t {ms+28800000}", "EXEC"]),
    ]);
}

/// Leases: ZADD with the end as score, ZREM, DEL with the last one.
#[test]
fn leases_send_entries() {
    assert_stream(&[
        ("RL.ACQUIRE h 2 1m ID a", &["MULTI", "ZADD h {us+60000000} l:a", "PEXPIREAT h {ms+120000}", "EXEC"]),
        ("RL.ACQUIRE h 2 1m ID b", &["ZADD h {us+60000000} l:b"]),
        ("RL.ACQUIRE h 2 1m ID c", &[]),
        ("RL.RENEW h 1m b a c", &["ZADD h {us+60000000} l:a {us+60000000} l:b"]),
        ("RL.RENEW h 1m c", &[]),
        ("RL.RELEASE h c b", &["ZREM h l:b"]),
        ("RL.RELEASE h c", &[]),
        ("RL.RELEASE h a", &["DEL h"]),
    ]);
}

/// Several rules, or several calls of one transaction or script, are one transaction for replicas too.
#[test]
fn what_belongs_together_is_sent_together() {
    assert_stream(&[
        (
            r#"RL.ALL a "FIXED 1 1m" b "FIXED 9 1m COST 2" c "FIXED 9 1m COST 0""#,
            &["MULTI", "SET a 1 PXAT {ms+60000}", "SET b 2 PXAT {ms+60000}", "EXEC"],
        ),
        (r#"RL.ALL a "FIXED 1 1m" b "FIXED 9 1m COST 2""#, &[]),
        (
            r#"EVAL "redis.call('RL.FIXED', 'b', 9, '1m') redis.call('RL.FIXED', 'a', 1, '1m') return redis.call('SET', 'mine', 1)" 0"#,
            &["MULTI", "SET b 3 KEEPTTL", "SET mine 1", "EXEC"],
        ),
    ]);
    let (_server, mut pipe, mut reader) = served();
    for line in ["MULTI", "RL.FIXED a 9 1m", "SET mine 1", "RL.FIXED a 9 1m", "RL.FIXED a 1 1m"] {
        pipe.good(line);
    }
    assert_eq!(pipe.good("EXEC").list().len(), 4);
    let lines = reader.lines(&mut pipe);
    let expected = ["MULTI", "SET a 1 PXAT", "SET mine 1", "SET a 2 KEEPTTL", "EXEC"];
    assert!(lines.len() == expected.len(), "{lines:?}");
    assert!(lines.iter().zip(expected).all(|(line, start)| line.starts_with(start)), "{lines:?}");
}

/// Calls that change nothing, on keys filled as the test below does.
const SILENT: &[&str] = &[
    "RL.FIXED f 2 1h",
    "RL.FIXED f 2 1h COST 0",
    "RL.FIXED f 2 1h COST 3",
    "RL.FIXED f 2 1h COST 9 PARTIAL",
    "RL.FIXED shut 5 1h BLOCK 2h",
    "RL.FIXED f nonsense",
    "RL.FIXED fresh 0 1h",
    "RL.FIXED fresh 5 1h COST 0",
    "RL.SLIDING s 2 1h",
    "RL.SLIDING s 2 1h ID a COST 2",
    "RL.SLIDING s 2 1h COST 0",
    "RL.SLIDING b 2 1h BUCKETS 60",
    "RL.SLIDING b 2 1h BUCKETS 60 COST 0",
    "RL.TOKEN t 2 1 1h",
    "RL.TOKEN t 2 1 1h COST 3",
    "RL.TOKEN t 2 1 1h COST 0",
    "RL.LEAKY l 2 1 1h",
    "RL.LEAKY l 2 1 1h SHAPE WITHIN 1s",
    "RL.QUEUE l 2 1 1h 1s",
    "RL.QUEUE l 2 1 1h 1s COST 0",
    "RL.PEEK f FIXED 2 1h",
    "RL.PEEK s SLIDING 2 1h",
    "RL.PEEK b SLIDING 2 1h BUCKETS 60",
    "RL.PEEK t TOKEN 2 1 1h",
    "RL.PEEK l LEAKY 2 1 1h",
    "RL.PEEK h LEASE 1",
    "RL.PEEK fresh FIXED 2 1h",
    "RL.REFUND f FIXED 2 1h COST 0",
    "RL.REFUND shut FIXED 2 1h",
    "RL.REFUND fresh TOKEN 2 1 1h",
    "RL.REFUND s SLIDING 2 1h ID nobody",
    "RL.CHARGE f FIXED 2 1h COST 0",
    "RL.CHARGE f FIXED 1 1h",
    "RL.CHARGE shut FIXED 5 1h COST 3",
    "RL.ACQUIRE h 1 1h ID b",
    "RL.ACQUIRE h 0 1h ID a",
    "RL.RENEW h 1h b",
    "RL.RELEASE h b",
    "RL.RELEASE fresh a",
    "RL.HELP",
];

/// Refusals, looks, COST 0, repeats, refunds of nothing and mistakes add no byte: the offset of replication stands
/// still, for single calls, in a transaction and in a script.
#[test]
fn what_changes_nothing_sends_nothing() {
    let (_server, mut pipe, mut reader) = served();
    for fill in [
        "RL.FIXED f 2 1h COST 2",
        "RL.FIXED shut 1 1h",
        "RL.FIXED shut 1 1h BLOCK 2h",
        "RL.SLIDING s 2 1h COST 2 ID a",
        "RL.SLIDING b 2 1h BUCKETS 60 COST 2",
        "RL.TOKEN t 2 1 1h COST 2",
        "RL.LEAKY l 2 1 1h COST 2",
        "RL.ACQUIRE h 1 1h ID a",
    ] {
        pipe.good(fill);
    }
    reader.lines(&mut pipe);
    let offset = |pipe: &mut Pipe| pipe.info_number("replication", "master_repl_offset");
    let start = offset(&mut pipe);
    assert!(start > 0, "somebody listens");
    let whole = ["RL.ALL", "fresh", "FIXED 5 1h", "f", "FIXED 2 1h"];
    let mut calls: Vec<Vec<&str>> = SILENT.iter().map(|line| line.split(' ').collect()).collect();
    calls.push(whole.to_vec());
    for call in &calls {
        pipe.call(call);
        assert_eq!(offset(&mut pipe), start, "{}", call.join(" "));
        let mut eval = vec!["EVAL", "return redis.pcall(unpack(ARGV))", "0"];
        eval.extend(call);
        if !call.contains(&"nonsense") {
            assert!(!pipe.call(&eval).is_error(), "{}", call.join(" "));
        }
        assert_eq!(offset(&mut pipe), start, "in a script: {}", call.join(" "));
    }
    pipe.good("MULTI");
    for call in calls.iter().filter(|call| !call.contains(&"nonsense")) {
        pipe.call(call);
    }
    assert_eq!(pipe.good("EXEC").list().len(), calls.len() - 1);
    assert_eq!(offset(&mut pipe), start, "in a transaction");
    assert_eq!(reader.lines(&mut pipe), [""; 0]);
    wait_for("the offset to move for a write", || {
        pipe.good("RL.FIXED other 5 1h");
        (offset(&mut pipe) > start).then_some(())
    });
}
