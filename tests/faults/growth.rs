//! Memory over time: rotating identities are forgotten with their windows, and calls on the same keys do not make a
//! server grow.

use std::fs;
use std::time::Instant;

use crate::chance::{Chance, scaled};
use crate::harness::{Server, Setup, say, wait_for};
use crate::pipe::Pipe;
use crate::traffic::{Traffic, Words, words};

const BATCH: u64 = 1000;

/// Resident memory of a server in bytes, and its highest so far.
fn resident(server: &Server) -> (i64, i64) {
    let pid = Pipe::open(&server.socket()).info_number("server", "process_id");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| -> i64 {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap() * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Callers that come under ever new names cost memory until their windows are over, and then nothing: no key stays
/// behind.
#[test]
fn rotating_identities_are_forgotten_with_their_windows() {
    let identities = scaled(20_000, 1_000_000);
    for (name, call, ends_ms) in [
        ("FIXED", "RL.FIXED {} 5 2s", 2_000),
        ("TOKEN", "RL.TOKEN {} 5 5 2s", 2_400),
        ("SLIDING", "RL.SLIDING {} 5 2s", 4_000),
        ("BUCKETS", "RL.SLIDING {} 5 2s BUCKETS 10", 4_200),
        ("leases", "RL.ACQUIRE {} 5 2s", 4_000),
    ] {
        let server = Setup::new().start();
        let mut pipe = Pipe::open(&server.socket());
        let empty = pipe.info_number("memory", "used_memory");
        let mut peak = 0;
        for start in (0..identities).step_by(usize::try_from(BATCH).unwrap()) {
            let calls: Vec<Words> =
                (start..start + BATCH).map(|n| words(&call.replace("{}", &format!("caller:{n}")))).collect();
            for answer in pipe.batch(&calls) {
                assert_eq!(answer.first(), 1, "{name}: {answer}");
            }
            peak = peak.max(pipe.info_number("memory", "used_memory"));
        }
        let last_ttl = pipe.int(&format!("PTTL caller:{}", identities - 1));
        // Instants are rounded up to a millisecond.
        assert!((1..=ends_ms + 1).contains(&last_ttl), "{name}: a TTL of {last_ttl} ms");
        let start = Instant::now();
        wait_for("everybody to be forgotten", || (pipe.int("DBSIZE") == 0).then_some(()));
        let forgotten = start.elapsed();
        // What the server keeps of its own tables and buffers after so many keys.
        let slack = i64::try_from(identities).unwrap() * 20 + 1_000_000;
        let after = wait_for("the memory to come back", || {
            let used = pipe.info_number("memory", "used_memory");
            (used < empty + slack).then_some(used)
        });
        say(&format!(
            "growth: {name}: {identities} callers, at most {} KB at once ({} bytes each), all forgotten {} ms after the last \
             call, {} KB left",
            (peak - empty) / 1024,
            (peak - empty) / i64::try_from(identities).unwrap(),
            forgotten.as_millis(),
            (after - empty) / 1024,
        ));
    }
}

/// Hundreds of thousands of calls of every kind on the same keys (ten million in the long version), pipelined: neither
/// the memory that the server counts nor the memory of its process grows.
#[test]
fn many_calls_do_not_make_a_server_grow() {
    let test = "growth::many_calls_do_not_make_a_server_grow";
    let calls = scaled(300_000, 10_000_000);
    let mut chance = Chance::for_test(test);
    let server = Setup::new().start();
    let mut pipe = Pipe::open(&server.socket());
    let mut traffic = Traffic::new(chance.fork(), &["20ms", "250ms", "1s"], 6, "");
    // A fixed store of random batches: making words must not be what is measured.
    let batches: Vec<Vec<Words>> = (0..scaled(30, 200)).map(|_| (0..BATCH).map(|_| traffic.call()).collect()).collect();
    let mut answered = 0;
    let mut run = |pipe: &mut Pipe, chance: &mut Chance, calls: u64| {
        let mut left = calls;
        while left > 0 {
            let batch = &batches[chance.index(batches.len())];
            for (command, answer) in batch.iter().zip(pipe.batch(batch)) {
                assert!(!answer.is_error(), "{}: {answer}", crate::client::shown(command));
            }
            answered += BATCH;
            left = left.saturating_sub(BATCH);
        }
    };
    // Until buffers, tables and arenas have the size that this load needs.
    run(&mut pipe, &mut chance, calls / 4);
    let used = |pipe: &mut Pipe| pipe.info_number("memory", "used_memory");
    pipe.good("FLUSHALL");
    let (used_before, resident_before) = (used(&mut pipe), resident(&server).0);
    run(&mut pipe, &mut chance, calls);
    pipe.good("FLUSHALL");
    // A leak of one byte per call would show. The buffers of a connection are larger than that for some seconds, and
    // then the server shrinks them; what has leaked never comes back.
    let calls = i64::try_from(calls).unwrap();
    let used_after = wait_for("the memory to come back to what it was", || {
        let now = used(&mut pipe);
        (now - used_before < calls / 2).then_some(now)
    });
    let resident_after = resident(&server).0;
    say(&format!(
        "{test}: {answered} calls, used_memory {} -> {} bytes, resident {} -> {} KB",
        used_before,
        used_after,
        resident_before / 1024,
        resident_after / 1024
    ));
    assert!(
        resident_after - resident_before < calls + (4 << 20),
        "resident memory grew by {}",
        resident_after - resident_before
    );
}

/// A key of any length is not copied: a name of 64 MB costs a call of ours what it costs EXISTS.
#[test]
fn long_keys_are_not_copied() {
    const LENGTH: usize = 64 << 20;
    let key = vec![b'k'; LENGTH];
    let peak = |calls: &[Words]| {
        let server = Setup::new().config("proto-max-bulk-len 100mb").start();
        let mut pipe = Pipe::open(&server.socket());
        for call in calls {
            let answer = pipe.call(call);
            assert!(!answer.is_error(), "{answer}");
        }
        resident(&server).1
    };
    let with_key = |start: &str, rest: &[&str]| -> Words {
        let mut call = vec![start.as_bytes().to_vec(), key.clone()];
        call.extend(rest.iter().map(|word| word.as_bytes().to_vec()));
        call
    };
    let bare = peak(&[with_key("EXISTS", &[]), with_key("EXISTS", &[])]);
    let ours = peak(&[
        with_key("RL.FIXED", &["0", "1h"]),
        with_key("RL.SLIDING", &["0", "1h"]),
        with_key("RL.TOKEN", &["0", "1", "1h"]),
        with_key("RL.LEAKY", &["0", "1", "1h"]),
        with_key("RL.QUEUE", &["0", "1", "1h", "1s"]),
        with_key("RL.PEEK", &["FIXED", "5", "1h"]),
        with_key("RL.REFUND", &["FIXED 5 1h"]),
        with_key("RL.CHARGE", &["FIXED 0 1h"]),
        with_key("RL.ALL", &["FIXED 0 1h"]),
        with_key("RL.ACQUIRE", &["0", "1h"]),
        with_key("RL.RENEW", &["1h", "a"]),
        with_key("RL.RELEASE", &["a"]),
    ]);
    say(&format!("growth: names of 64 MB: at most {} MB for EXISTS, {} MB for calls of ours", bare >> 20, ours >> 20));
    assert!(ours < bare + i64::try_from(LENGTH / 2).unwrap(), "{ours} bytes at most, {bare} for EXISTS");
}
