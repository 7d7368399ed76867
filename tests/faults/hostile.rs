//! Callers who mean no good: random commands with random bytes, on keys that hold somebody else's values of every type
//! and on limiters, alone, in transactions and in scripts, over both protocols. Each is answered, the server lives, and
//! what is somebody else's stays as it is.

use std::collections::BTreeMap;

use crate::chance::{Chance, scaled};
use crate::harness::{Setup, say};
use crate::pipe::{Answer, Pipe};
use crate::traffic::{LASTING, Traffic, Words, words};

const COMMANDS: &[&str] = &[
    "RL.FIXED",
    "RL.SLIDING",
    "RL.TOKEN",
    "RL.LEAKY",
    "RL.QUEUE",
    "RL.PEEK",
    "RL.REFUND",
    "RL.CHARGE",
    "RL.ALL",
    "RL.ACQUIRE",
    "RL.RENEW",
    "RL.RELEASE",
    "RL.HELP",
];

/// Words that mean something in one place and nothing in most.
const PIECES: &[&str] = &[
    "FIXED",
    "SLIDING",
    "TOKEN",
    "LEAKY",
    "LEASE",
    "COST",
    "ALIGN",
    "TZ",
    "PARTIAL",
    "BLOCK",
    "ID",
    "BUCKETS",
    "SHAPE",
    "WITHIN",
    "0",
    "1",
    "-1",
    "5",
    "007",
    "+5",
    "250",
    "251",
    "360",
    "361",
    "100000",
    "100001",
    "999999999999999",
    "1000000000000000",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1e3",
    "0x10",
    "1.5",
    "nan",
    "inf",
    "1ms",
    "0s",
    "1s",
    "1h",
    "3650d",
    "3651d",
    "1mo",
    "1y",
    "60",
    "99999999999999999999d",
    "+02:00",
    "-99:99",
    "",
    " ",
    "\0",
    "FIXED 5 1m",
    "TOKEN 1 1 1s COST 999999999999999",
    "SLIDING 5 1h COST 250",
    "LEAKY 5 1 1s SHAPE WITHIN 1h",
];

/// Writes one value that is no limiter's under a key.
fn foreign(chance: &mut Chance, key: &[u8]) -> (&'static str, Vec<Words>) {
    let with = |start: &str, rest: Vec<Vec<u8>>| -> Words {
        let mut all = vec![start.as_bytes().to_vec(), key.to_vec()];
        all.extend(rest);
        all
    };
    let text = |text: &str| text.as_bytes().to_vec();
    let size = 1 + chance.index(40);
    let large = 200 + chance.index(400);
    let many = |chance: &mut Chance, count: usize| -> Vec<Vec<u8>> {
        (0..count).map(|n| [format!("{n}:").into_bytes(), chance.bytes(1 + n % 9)].concat()).collect()
    };
    match chance.below(17) {
        0 => {
            // Bytes that are no number, whatever the chance says.
            let mut bytes = chance.bytes(size);
            bytes.push(b'x');
            ("bytes", vec![with("SET", vec![bytes])])
        }
        1 => ("a large text", vec![with("SET", vec![[chance.bytes(100_000), text("x")].concat()])]),
        2 => {
            let number = chance.pick(&["-5", "007", "+1", "1.5", "", "9223372036854775808", " 7", "1e3"]);
            ("a number of another kind", vec![with("SET", vec![text(number)])])
        }
        3 => ("a bitmap", vec![with("SETBIT", vec![text("4000"), text("1")])]),
        4 => ("a hyperloglog", vec![with("PFADD", many(chance, size))]),
        5 => ("a list", vec![with("RPUSH", many(chance, size))]),
        6 => ("a long list", vec![with("RPUSH", many(chance, large * 3))]),
        7 => ("a set", vec![with("SADD", many(chance, large))]),
        8 => ("a set of integers", vec![with("SADD", (0..size).map(|n| text(&n.to_string())).collect())]),
        9 => {
            let pairs = many(chance, size).into_iter().flat_map(|field| [field.clone(), field]);
            ("a hash", vec![with("HSET", pairs.collect())])
        }
        10 => {
            let pairs = many(chance, large * 2).into_iter().flat_map(|field| [field.clone(), field]);
            ("a large hash", vec![with("HSET", pairs.collect())])
        }
        11 => {
            let value = chance.pick(&["x", "3.5", "-0", "7+1/0", "7+3/3", "10000000000000000", "1+1/315360000000001"]);
            let field = chance.pick(&["tokens", "level"]);
            let fields = [field, value, "ts", "1767225600000000"];
            ("nearly a bucket", vec![with("HSET", fields.iter().map(|word| text(word)).collect())])
        }
        12 => {
            let ts = chance.pick(&["1767225600", "1767225600000", "0", "-1", "x", "17672256000000000"]);
            let fields = [chance.pick(&["tokens", "level"]), "3", "ts", ts];
            ("a bucket of other times", vec![with("HSET", fields.iter().map(|word| text(word)).collect())])
        }
        13 => {
            let pairs = many(chance, size).into_iter().enumerate();
            let pairs = pairs.flat_map(|(n, member)| [text(&format!("{n}.5")), member]);
            ("a leaderboard", vec![with("ZADD", pairs.collect())])
        }
        14 => {
            // Scores like ours with members at both ends that are not.
            let mut pairs: Vec<_> = (0..large)
                .flat_map(|n| {
                    [text(&format!("{}", 1_767_225_600_000_100 + n)), text(&format!("{}", 1_767_225_600_000_100 + n))]
                })
                .collect();
            pairs.extend([text("1767225600000000"), text("zed"), text("1767225609000000"), text("ann")]);
            ("a log with strangers at its ends", vec![with("ZADD", pairs)])
        }
        15 => {
            let pairs = [text("-inf"), text("1767225600000000"), text("inf"), text("l:a")];
            ("infinite scores", vec![with("ZADD", pairs.to_vec())])
        }
        _ => (
            "a stream",
            vec![with("XADD", [text("*"), text("field")].into_iter().chain([chance.bytes(size)]).collect())],
        ),
    }
}

/// A command that nobody would write: valid ones bent, known words in any order, or plain bytes.
fn command(chance: &mut Chance, traffic: &mut Traffic, keys: &[Vec<u8>]) -> Words {
    let mut call = match chance.below(4) {
        0 => {
            let mut call = vec![chance.pick(COMMANDS).as_bytes().to_vec()];
            let count = chance.index(9);
            call.extend((0..count).map(|_| word(chance, keys)));
            call
        }
        1 => {
            let most = if chance.percent(5) { 600 } else { 7 };
            let count = chance.index(most);
            let mut call = vec![chance.pick(COMMANDS).as_bytes().to_vec(), keys[chance.index(keys.len())].clone()];
            call.extend((0..count).map(|_| word(chance, keys)));
            call
        }
        _ => loop {
            let call = traffic.call();
            if call[0].starts_with(b"RL.") {
                break call;
            }
        },
    };
    // A valid call goes to one of the keys, mostly with a word changed, doubled, dropped or moved.
    if call.len() > 1 && chance.percent(85) {
        let step = if call[0] == b"RL.ALL" { 2 } else { call.len() };
        for place in (1..call.len()).step_by(step) {
            call[place] = keys[chance.index(keys.len())].clone();
        }
    }
    for _ in 0..chance.below(3) {
        if call.len() < 3 {
            break;
        }
        let place = 2 + chance.index(call.len() - 2);
        match chance.below(5) {
            0 => call[place] = word(chance, keys),
            1 => call.insert(place, call[place].clone()),
            2 => drop(call.remove(place)),
            3 => {
                let other = 2 + chance.index(call.len() - 2);
                call.swap(place, other);
            }
            _ => {
                let at = chance.index(call[place].len() + 1);
                call[place].splice(at..at, chance.bytes(1));
            }
        }
    }
    // No call may wait here: a transaction or a script answers at once, an hour in the queue would not.
    if call[0] == b"RL.QUEUE" && call.len() > 5 {
        call[5] = chance.pick(&["0s", "1ms", "-1", "x"]).as_bytes().to_vec();
    }
    call
}

fn word(chance: &mut Chance, keys: &[Vec<u8>]) -> Vec<u8> {
    match chance.below(10) {
        0 => {
            let length = chance.index(20);
            chance.bytes(length)
        }
        1 => {
            let length = chance.index(3000);
            chance.bytes(length)
        }
        2 => keys[chance.index(keys.len())].clone(),
        3 => vec![b'9'; chance.index(40)],
        _ => chance.pick(PIECES).as_bytes().to_vec(),
    }
}

/// The value and the end of each key.
fn states(pipe: &mut Pipe, keys: &[Vec<u8>]) -> Vec<(Answer, i64)> {
    let dump = |pipe: &mut Pipe, key: &Vec<u8>| pipe.call(&[b"DUMP".as_slice(), key]);
    keys.iter().map(|key| (dump(pipe, key), pipe.call(&[b"PEXPIRETIME".as_slice(), key]).int())).collect()
}

/// Thousands of random calls: each answered, over RESP2 and RESP3, alone, in a transaction and in a script; every
/// foreign value, of every type, is what it was, bit by bit, with its expiry.
#[test]
fn random_calls_are_answered_and_foreign_values_stay() {
    let test = "hostile::random_calls_are_answered_and_foreign_values_stay";
    let mut chance = Chance::for_test(test);
    let server = Setup::new().config("proto-max-bulk-len 10mb").start();
    let mut pipes = [Pipe::open(&server.socket()), Pipe::open3(&server.socket())];
    let mut traffic = Traffic::new(chance.fork(), LASTING, 3, "own:");
    let mut answers: BTreeMap<&str, u64> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for _ in 0..scaled(40, 2000) {
        pipes[0].good("FLUSHALL");
        let keys: Vec<Vec<u8>> = (0..12).map(|n| [format!("k{n}").into_bytes(), chance.bytes(3)].concat()).collect();
        for key in &keys {
            let (kind, writes) = foreign(&mut chance, key);
            *kinds.entry(kind).or_default() += 1;
            for write in writes {
                let answer = pipes[0].call(&write);
                assert!(!answer.is_error(), "{kind}: {answer}");
            }
            if chance.percent(50) {
                pipes[0].call(&[b"PEXPIRE".as_slice(), key, b"100000000"]);
            }
        }
        let before = states(&mut pipes[0], &keys);
        for _ in 0..100 {
            let protocol = chance.index(2);
            let pipe = &mut pipes[protocol];
            let mut calls: Vec<Words> =
                (0..1 + chance.below(3)).map(|_| command(&mut chance, &mut traffic, &keys)).collect();
            let way = chance.pick(&["alone", "in a transaction", "in a script"]);
            match way {
                "in a transaction" => {
                    calls.insert(0, words("MULTI"));
                    calls.push(words("EXEC"));
                }
                "in a script" => {
                    for call in &mut calls {
                        let mut eval = words("EVAL");
                        eval.extend([b"return redis.pcall(unpack(ARGV))".to_vec(), b"0".to_vec()]);
                        eval.append(call);
                        *call = eval;
                    }
                }
                _ => {}
            }
            for (call, answer) in calls.iter().zip(pipe.batch(&calls)) {
                judge(call, &answer, &mut answers);
            }
        }
        let after = states(&mut pipes[1], &keys);
        for ((key, before), after) in keys.iter().zip(&before).zip(&after) {
            assert_eq!(before, after, "{:?} is not what it was", String::from_utf8_lossy(key));
        }
    }
    assert!(answers["errors"] > 1000 && answers["replies"] > 300, "both kinds of answers: {answers:?}");
    assert_eq!(kinds.len(), 17, "every kind of foreign value: {kinds:?}");
    let errors = pipes[0].good("INFO rl").to_string();
    assert!(!errors.contains("rl_panics:") || errors.contains("rl_panics:0"), "{errors}");
    say(&format!("{test}: {answers:?} on {} foreign values of {} kinds", kinds.values().sum::<u64>(), kinds.len()));
}

/// Every error is one line that begins as errors do; none is the guard's, which would mean a panic.
fn judge(call: &Words, answer: &Answer, answers: &mut BTreeMap<&'static str, u64>) {
    match answer {
        Answer::Error(text) => {
            let shown = || crate::client::shown(call).chars().take(500).collect::<String>();
            let known = ["ERR ", "WRONGTYPE ", "EXECABORT "].iter().any(|start| text.starts_with(start));
            assert!(known && !text.contains("internal error"), "{}: {text}", shown());
            *answers.entry("errors").or_default() += 1;
        }
        Answer::List(items) => {
            for item in items {
                if matches!(item, Answer::Error(_) | Answer::List(_)) {
                    judge(call, item, answers);
                }
            }
            *answers.entry("replies").or_default() += 1;
        }
        _ => *answers.entry("replies").or_default() += 1,
    }
}

/// Random states made by ourselves and bent by somebody with HSET, ZADD, APPEND and the like: an error or a decision,
/// never a dead server, and an error leaves what it found.
#[test]
fn bent_limiters_stop_nothing() {
    let test = "hostile::bent_limiters_stop_nothing";
    let mut chance = Chance::for_test(test);
    let server = Setup::new().start();
    let mut pipe = Pipe::open(&server.socket());
    let mut traffic = Traffic::new(chance.fork(), LASTING, 2, "");
    let mut answers: BTreeMap<&str, u64> = BTreeMap::new();
    let mut bent = 0;
    for _ in 0..scaled(3000, 100_000) {
        let call = traffic.call();
        let key = call[1].clone();
        if chance.percent(30) {
            let number = chance
                .pick(&[
                    "0",
                    "-1",
                    "9223372036854775807",
                    "1000000000000000000",
                    "1767225600000000",
                    "9999999999999999",
                    "x",
                ])
                .as_bytes();
            let kind = pipe.call(&[b"TYPE".as_slice(), &key]).to_string();
            let bend: Vec<&[u8]> = match kind.as_str() {
                "string" => vec![b"SET", &key, number, b"KEEPTTL"],
                "hash" => vec![
                    b"HSET",
                    &key,
                    [b"tokens".as_slice(), b"level", b"ts", b"1767225600000", number][chance.index(5)],
                    number,
                ],
                "zset" => vec![b"ZADD", &key, number, [b"i000:x".as_slice(), b"l:a", number][chance.index(3)]],
                _ => vec![b"PERSIST", &key],
            };
            pipe.call(&bend);
            bent += 1;
            if chance.percent(20) {
                pipe.call(&[b"PEXPIREAT".as_slice(), &key, b"9223372036854775"]);
            }
        }
        let before = states(&mut pipe, std::slice::from_ref(&key));
        let answer = pipe.call(&call);
        judge(&call, &answer, &mut answers);
        if answer.is_error() {
            let after = states(&mut pipe, std::slice::from_ref(&key));
            // A key may come to its end in these very moments.
            let ended = before[0].1 != -1 && before[0].1 <= pipe.time_us() / 1000;
            assert!(before == after || ended, "{}: {answer}: {before:?} then {after:?}", crate::client::shown(&call));
            pipe.call(&[b"DEL".as_slice(), &key]);
        }
    }
    assert!(answers["errors"] > 50 && answers["replies"] > 500, "{answers:?}");
    say(&format!("{test}: {bent} bent states, {answers:?}"));
}

/// A word of a megabyte, or of any bytes, appears in an error as at most 64 printable characters.
#[test]
fn long_and_binary_words_are_shown_in_part() {
    let server = Setup::new().start();
    let mut pipe = Pipe::open(&server.socket());
    let long = vec![b'z'; 1 << 20];
    let binary: Vec<u8> = (0..=255).collect();
    for word in [long.as_slice(), &binary, b"\r\nOK\r\n", &[0; 65]] {
        for start in [
            &["RL.FIXED", "k"][..],
            &["RL.FIXED", "k", "5"],
            &["RL.FIXED", "k", "5", "1h"],
            &["RL.FIXED", "k", "5", "1h", "COST"],
            &["RL.FIXED", "k", "5", "1h", "ALIGN", "TZ"],
            &["RL.SLIDING", "k", "5", "1h", "BUCKETS"],
            &["RL.TOKEN", "k", "5"],
            &["RL.LEAKY", "k", "5", "1", "1h", "SHAPE", "WITHIN"],
            &["RL.QUEUE", "k", "5", "1", "1h"],
            &["RL.PEEK", "k"],
            &["RL.REFUND", "k"],
            &["RL.CHARGE", "k", "FIXED", "5"],
            &["RL.ALL", "k"],
            &["RL.ACQUIRE", "k", "5"],
            &["RL.ACQUIRE", "k", "5", "1h"],
            &["RL.RENEW", "k"],
            &["RL.HELP"],
        ] {
            let mut call: Vec<&[u8]> = start.iter().map(|word| word.as_bytes()).collect();
            call.push(word);
            // Enough words for the arity; what follows is not read.
            while call.len() < 6 {
                call.push(b"1h");
            }
            if start[0] == "RL.HELP" {
                call.truncate(2);
            }
            let Answer::Error(text) = pipe.call(&call) else { panic!("{start:?}: no error") };
            assert!(text.starts_with("ERR ") && text.len() < 512, "{start:?}: {} bytes: {text}", text.len());
            assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{start:?}: {text:?}");
            assert!(text.matches('z').count() <= 64 + 8, "{start:?}: {text}");
            assert_eq!(pipe.good("PING").to_string(), "PONG", "the stream is in step");
        }
    }
    assert_eq!(pipe.int("EXISTS k"), 0);
}

/// Names of a megabyte, and names of any bytes, work like any other with every command.
#[test]
fn keys_of_any_length_and_bytes_work() {
    let server = Setup::new().start();
    let mut pipe = Pipe::open(&server.socket());
    for key in [vec![b'k'; 1 << 20], (0..=255).collect(), vec![0], vec![]] {
        for (call, next) in [
            ("RL.FIXED ? 5 1h COST 2", "RL.REFUND ? FIXED 5 1h"),
            ("RL.SLIDING ? 5 1h COST 2", "RL.CHARGE ? SLIDING 5 1h"),
            ("RL.SLIDING ? 5 1h COST 2 BUCKETS 60", "RL.PEEK ? SLIDING 5 1h BUCKETS 60"),
            ("RL.TOKEN ? 5 1 1h COST 2", "RL.PEEK ? TOKEN 5 1 1h"),
            ("RL.LEAKY ? 5 1 1h COST 2", "RL.QUEUE ? 5 1 1h 0s"),
            ("RL.ACQUIRE ? 5 1h ID a", "RL.RELEASE ? a"),
        ] {
            for line in [call, next] {
                let words: Vec<&[u8]> =
                    line.split(' ').map(|word| if word == "?" { key.as_slice() } else { word.as_bytes() }).collect();
                let answer = pipe.call(&words);
                assert!(!answer.is_error(), "{line}: {answer}");
            }
            let whole = pipe.call(&[b"RL.ALL".as_slice(), b"other", b"FIXED 1000 1h", &key, b"FIXED 5 1h"]);
            assert!(whole.is_error() || whole.first() == 1, "{whole}");
            pipe.call(&[b"DEL".as_slice(), &key]);
        }
    }
}
