//! The dearest calls that anybody can make: the largest COST, the most ids, rules and sub-windows, the largest logs,
//! and states in which the most has to be tidied up at once. The server's own clock measures each; the figures are
//! printed and not judged, for a busy machine must not fail a test. What is judged is that each call met the state it
//! was meant for.

use std::thread;
use std::time::Duration;

use crate::chance::{long, scaled};
use crate::harness::{Setup, say, wait_for};
use crate::pipe::Pipe;
use crate::traffic::{Words, words};

const LOG: i64 = 100_000;
const HOUR_US: i64 = 3_600_000_000;
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The goal for every call, in microseconds.
const GOAL_US: f64 = 1000.0;

struct Table {
    pipe: Pipe,
    /// What takes more than the goal in the median, which a busy machine alone does not make.
    slow: Vec<String>,
}

impl Table {
    /// Makes the calls one after the other so many times, and prints of each command what the server measured.
    #[track_caller]
    fn measure_turns(&mut self, rounds: u64, turns: &[(&str, &Words, i64)]) {
        self.pipe.good("CONFIG RESETSTAT");
        for round in 0..rounds {
            for (label, call, first) in turns {
                let answer = self.pipe.call(call);
                assert!(!answer.is_error() && answer.first() == *first, "{label}, round {round}: {answer}");
            }
        }
        for (label, call, _) in turns.iter().filter(|(label, ..)| !label.is_empty()) {
            self.print(label, &String::from_utf8_lossy(&call[0]).to_lowercase());
        }
    }

    /// Makes one call so many times. The processor's share is that of the call and of reading and answering it.
    #[track_caller]
    fn measure(&mut self, label: &str, rounds: u64, call: &Words, first: i64) {
        let before = self.processor_us();
        self.measure_turns(rounds, &[("", call, first)]);
        #[allow(clippy::cast_precision_loss, reason = "a mean to be printed")]
        let each = (self.processor_us() - before) / rounds as f64;
        self.print(
            &format!("{label} [processor {each:.0} us each]"),
            &String::from_utf8_lossy(&call[0]).to_lowercase(),
        );
    }

    /// Processor time of the server's main thread so far.
    fn processor_us(&mut self) -> f64 {
        let text = self.pipe.good("INFO cpu").to_string();
        ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"]
            .map(|name| crate::info::field(&text, name).parse::<f64>().unwrap() * 1e6)
            .iter()
            .sum()
    }

    fn print(&mut self, label: &str, command: &str) {
        let text = self.pipe.good("INFO latencystats").to_string();
        let field = crate::info::field(&text, &format!("latency_percentiles_usec_{command}"));
        let part = |name: &str| -> f64 {
            let value = field.split(',').find_map(|part| part.strip_prefix(name)).unwrap();
            value.trim_start_matches('=').parse().unwrap()
        };
        let (median, tail, most) = (part("p50"), part("p99.9"), part("p100"));
        let mark = if tail > GOAL_US { "  ABOVE 1 ms" } else { "" };
        say(&format!("worst: {label:<82} median {median:>8.1}, p99.9 {tail:>8.1}, max {most:>8.1} us{mark}"));
        if median > GOAL_US {
            self.slow.push(format!("{label} ({median} us)"));
        }
    }

    /// What stands under a key, to be put there again and again.
    fn restored(&mut self, key: &str) -> Words {
        let dump = self.pipe.good(&format!("DUMP {key}"));
        [&b"RESTORE"[..], key.as_bytes(), b"3600000", dump.bytes(), b"REPLACE"].map(<[u8]>::to_vec).to_vec()
    }
}

/// A log or a set of leases of so many members, one microsecond apart from `start_us` on.
fn fill(pipe: &mut Pipe, key: &str, start_us: i64, count: i64, member: impl Fn(i64) -> String) {
    pipe.good(&format!("DEL {key}"));
    let mut n = 0;
    while n < count {
        let mut add = words(&format!("ZADD {key}"));
        for at in n..(n + 5000).min(count) {
            let score = start_us + at;
            add.extend([score.to_string().into_bytes(), member(score).into_bytes()]);
        }
        n += 5000;
        assert!(!pipe.call(&add).is_error());
    }
    pipe.good(&format!("PEXPIRE {key} 7200000"));
}

fn number(score: i64) -> String {
    score.to_string()
}

fn lease(score: i64) -> String {
    format!("l:{score}")
}

fn ids(verb: &str, from: i64) -> Words {
    let mut call = words(verb);
    call.extend((0..250).map(|n| (from + n).to_string().into_bytes()));
    call
}

fn hash(key: &str, fields: impl Iterator<Item = i64>) -> Vec<Words> {
    let mut set = words(&format!("HSET {key}"));
    for end in fields {
        set.extend([end.to_string().into_bytes(), b"1".to_vec()]);
    }
    vec![words(&format!("DEL {key}")), set, words(&format!("PEXPIRE {key} 7200000"))]
}

fn table() -> (crate::harness::Server, Table) {
    let server = Setup::new()
        .config("latency-tracking-info-percentiles 50 99.9 100")
        .config("proto-max-bulk-len 100mb")
        .config("lazyfree-lazy-expire yes")
        .start();
    let pipe = Pipe::open(&server.socket());
    (server, Table { pipe, slow: vec![] })
}

/// Logs of a hundred thousand entries: full, left behind by the window, in the future.
#[test]
fn the_largest_logs() {
    let (_server, mut table) = table();
    let rounds = scaled(1000, 10_000);
    let now = table.pipe.time_us();
    fill(&mut table.pipe, "k", now - LOG - 1_000_000, LOG, number);
    table.measure("SLIDING, full log, COST 250, refused", rounds, &words("RL.SLIDING k 100000 1h COST 250"), 0);
    table.measure(
        "SLIDING, full log, ID, refused",
        rounds,
        &words(&format!("RL.SLIDING k 100000 1h COST 250 ID {ID}")),
        0,
    );
    table.measure("PEEK SLIDING, full log", rounds, &words("RL.PEEK k SLIDING 100000 1h COST 250"), 0);
    let give = words("RL.REFUND k SLIDING 100000 1h COST 250");
    let take = words("RL.SLIDING k 100000 1h COST 250");
    table.measure_turns(
        rounds,
        &[("REFUND SLIDING, COST 250 of 100000", &give, 250), ("SLIDING, admits COST 250 into 99750", &take, 1)],
    );
    assert_eq!(table.pipe.call(&give).first(), 250);
    let give = words(&format!("RL.REFUND k SLIDING 100000 1h ID {ID}"));
    let take = words(&format!("RL.SLIDING k 100000 1h COST 250 ID {ID}"));
    table.measure_turns(
        rounds,
        &[
            ("SLIDING, admits COST 250 with an ID of 128 bytes", &take, 1),
            ("REFUND SLIDING, ID of 250 units", &give, 250),
        ],
    );
    table.pipe.good("RL.CHARGE k SLIDING 100000 1h COST 250");
    table.measure(
        "CHARGE SLIDING, COST 250 beyond the limit",
        400,
        &words("RL.CHARGE k SLIDING 100000 1h COST 250"),
        0,
    );

    let left = |table: &mut Table| fill(&mut table.pipe, "k", now - HOUR_US - LOG - 1, LOG, number);
    left(&mut table);
    table.measure("SLIDING, COST 250, 100000 entries just left", 380, &words("RL.SLIDING k 100000 1h COST 250"), 1);
    left(&mut table);
    table.measure("SLIDING, COST 1, 100000 entries just left", rounds, &words("RL.SLIDING k 100000 1h"), 1);
    table.measure("SLIDING, refused, 90000 entries left before", rounds, &words("RL.SLIDING k 1 1h"), 0);
    table.measure("PEEK SLIDING, 90000 entries left before", rounds, &words("RL.PEEK k SLIDING 1 1h"), 0);

    fill(&mut table.pipe, "k", now + HOUR_US, LOG, number);
    let mends = words("RL.SLIDING k 100000 1h");
    table.measure("SLIDING, refused, mends 251 of 100000 of the future", 390, &mends, 0);

    left(&mut table);
    let dead = table.restored("k");
    let (take, give) = (words("RL.SLIDING k 100000 1h COST 250"), words("RL.REFUND k SLIDING 100000 1h COST 250"));
    table.pipe.good("CONFIG RESETSTAT");
    for _ in 0..scaled(20, 200) {
        assert!(!table.pipe.call(&dead).is_error());
        assert_eq!((table.pipe.call(&take).first(), table.pipe.call(&give).first()), (1, 250));
        assert_eq!(table.pipe.int("EXISTS k"), 0);
    }
    table.print("REFUND SLIDING, drops a key of 100000 entries", "rl.refund");
}

/// Windows of 360 sub-windows, and states of as many fields as are ever kept: running, over, in the future.
#[test]
fn the_most_sub_windows() {
    let (_server, mut table) = table();
    let rounds = scaled(1000, 10_000);
    let now_ms = table.pipe.time_us() / 1000;
    for write in hash("k", sub_windows(now_ms, 360)) {
        table.pipe.call(&write);
    }
    table.measure("BUCKETS 360, refused", rounds, &words("RL.SLIDING k 5 1h BUCKETS 360"), 0);
    table.measure("BUCKETS 360, admitted", rounds, &words("RL.SLIDING k 999999999 1h BUCKETS 360 COST 1"), 1);
    table.measure("PEEK BUCKETS 360", rounds, &words("RL.PEEK k SLIDING 5 1h BUCKETS 360"), 0);
    table.measure("CHARGE BUCKETS 360", rounds, &words("RL.CHARGE k SLIDING 999999999 1h BUCKETS 360"), 1);
    for (label, given, fields) in [
        ("720 fields running", 719, (0..720).map(|n| now_ms - 4000 * n).collect::<Vec<_>>()),
        ("720 fields over", 0, (0..720).map(|n| now_ms - 3_700_000 - n).collect()),
        ("720 fields of the future", 719, (0..720).map(|n| now_ms + 7_200_000 + n).collect()),
    ] {
        for write in hash("k", fields.into_iter()) {
            table.pipe.call(&write);
        }
        let again = table.restored("k");
        for (what, line, first) in [
            ("BUCKETS, admitted", "RL.SLIDING k 999999999 1h BUCKETS 360", 1),
            ("BUCKETS, limit 5", "RL.SLIDING k 5 1h BUCKETS 360", i64::from(given == 0)),
            ("REFUND BUCKETS", "RL.REFUND k SLIDING 999999999 1h BUCKETS 360 COST 719", given),
        ] {
            table.pipe.good("CONFIG RESETSTAT");
            for _ in 0..rounds {
                assert!(!table.pipe.call(&again).is_error());
                let answer = table.pipe.good(line);
                assert_eq!(answer.first(), first, "{label}: {line}: {answer}");
            }
            let command = line.split(' ').next().unwrap().to_lowercase();
            table.print(&format!("{what}, {label}"), &command);
        }
    }
    assert!(table.slow.is_empty(), "a single key stays within the goal: {:?}", table.slow);
}

/// The ends of so many sub-windows of an hour, up to the present one.
fn sub_windows(now_ms: i64, parts: i64) -> impl Iterator<Item = i64> {
    let each = 3_600_000 / parts;
    (0..parts).map(move |n| now_ms - now_ms % each + each - n * each)
}

/// Counters and buckets with the widest numbers.
#[test]
fn the_widest_numbers() {
    let (_server, mut table) = table();
    let rounds = scaled(2000, 20_000);
    let most = 999_999_999_999_999_u64;
    table.measure("FIXED, admitted", rounds, &words(&format!("RL.FIXED f {most} 3650d")), 1);
    let aligned = words(&format!("RL.FIXED f {most} 1y ALIGN TZ -23:59 COST {most}"));
    table.measure("FIXED, refused, ALIGN TZ", rounds, &aligned, 0);
    for rule in [
        format!("TOKEN {most} 1 3650d"),
        format!("TOKEN {most} {most} 3650d"),
        format!("TOKEN {most} 999999999999989 1ms"),
    ] {
        table.pipe.good("DEL t");
        let take = words(&format!("RL.{}", rule.replacen(' ', " t ", 1)));
        table.measure(&format!("{rule}, admitted"), rounds, &take, 1);
        table.measure(&format!("PEEK {rule}"), rounds, &words(&format!("RL.PEEK t {rule}")), 1);
        table.measure(&format!("CHARGE {rule}"), rounds, &words(&format!("RL.CHARGE t {rule}")), 1);
    }
    table.measure("LEAKY SHAPE, admitted", rounds, &words(&format!("RL.LEAKY l {most} 7 3650d SHAPE")), 1);
    table.measure("QUEUE, refused", rounds, &words(&format!("RL.QUEUE l {most} 7 3650d 0s")), 0);
    assert!(table.slow.is_empty(), "a single key stays within the goal: {:?}", table.slow);
}

/// Sixty-four rules in one call, each with the dearest state of its kind.
#[test]
fn the_most_rules() {
    let (_server, mut table) = table();
    let rounds = scaled(300, 3000);
    let first = |count: u32, key: &str, rule: &str| -> Words {
        let mut call = words("RL.ALL");
        for n in 0..count {
            call.extend([format!("{key}{n}").into_bytes(), rule.as_bytes().to_vec()]);
        }
        call
    };
    let all = |key: &str, rule: &str| first(64, key, rule);
    table.measure("ALL of 64 FIXED, admitted", rounds, &all("f", "FIXED 999999999 1h"), 1);
    table.measure("ALL of 64 FIXED, refused", rounds, &all("f", "FIXED 1 1h"), 0);
    table.measure("ALL of 64 TOKEN, admitted", rounds, &all("t", "TOKEN 999999999999999 7 3650d"), 1);
    let too_much = all("t", "TOKEN 999999999999999 7 3650d COST 999999999999999");
    table.measure("ALL of 64 TOKEN, refused", rounds, &too_much, 0);
    let now = table.pipe.time_us();
    let size = if long() { LOG } else { 3000 };
    for n in 0..64 {
        fill(&mut table.pipe, &format!("s{n}"), now - 1_000_000, size, number);
    }
    let label = format!("ALL of 64 SLIDING of {size}");
    let units = all("s", "SLIDING 100000 1h COST 3");
    if long() {
        table.measure(&format!("{label}, COST 3 each, refused"), rounds, &units, 0);
    } else {
        table.measure(&format!("{label}, COST 3 each, admitted"), rounds, &units, 1);
    }
    table.measure(&format!("{label}, limit 1000, refused"), rounds, &all("s", "SLIDING 1000 1h COST 3"), 0);
    for (count, key, parts) in [(10, "b", 360), (60, "n", 60), (64, "w", 360)] {
        for n in 0..count {
            for write in hash(&format!("{key}{n}"), sub_windows(now / 1000, parts)) {
                table.pipe.call(&write);
            }
        }
    }
    let rounds = rounds / 3;
    for (count, key, parts) in [(10, "b", 360), (60, "n", 60)] {
        let (label, rule) = (format!("ALL of {count} BUCKETS {parts}"), format!("1h BUCKETS {parts}"));
        let admitted = first(count, key, &format!("SLIDING 999999999 {rule}"));
        table.measure(&format!("{label}, admitted"), rounds, &admitted, 1);
        table.measure(&format!("{label}, refused"), rounds, &first(count, key, &format!("SLIDING 5 {rule}")), 0);
    }
    // What a larger BUCKETS left behind is read as well, until it no longer weighs.
    table.measure("ALL of 64 with 360 fields each, refused", rounds, &all("w", "SLIDING 5 1h BUCKETS 56"), 0);
}

/// A hundred thousand leases, running or ended, and two hundred and fifty ids at once.
#[test]
fn the_most_leases() {
    let (_server, mut table) = table();
    let rounds = scaled(1000, 10_000);
    let now = table.pipe.time_us();
    let ends = now + HOUR_US;
    fill(&mut table.pipe, "h", ends, LOG, lease);
    table.measure("ACQUIRE, 100000 held, refused", rounds, &words(&format!("RL.ACQUIRE h 100000 1h ID {ID}")), 0);
    let own = words(&format!("RL.ACQUIRE h 100000 2h ID {ends}"));
    table.measure("ACQUIRE, 100000 held, renews its own", rounds, &own, 1);
    table.measure("PEEK LEASE, 100000 held", rounds, &words("RL.PEEK h LEASE 100000"), 0);
    table.measure("RENEW of 250 among 100000", rounds, &ids("RL.RENEW h 1h", ends + 1), 250);
    table.pipe.good("CONFIG RESETSTAT");
    for n in 0..399 {
        assert_eq!(table.pipe.call(&ids("RL.RELEASE h", ends + 250 * n)).int(), 250);
    }
    table.print("RELEASE of 250 among 100000", "rl.release");
    fill(&mut table.pipe, "h", now - LOG - 1, LOG, lease);
    table.measure("ACQUIRE, trims 250 of 100000 ended", 390, &words("RL.ACQUIRE h 100000 1h"), 1);
    fill(&mut table.pipe, "h", now - LOG - 1, LOG, lease);
    table.pipe.good(&format!("RL.ACQUIRE h 100000 1h ID {ID}"));
    table.measure("ACQUIRE, refused, 100000 ended", rounds, &words("RL.ACQUIRE h 1 1h ID other"), 0);
    assert!(table.slow.is_empty(), "a single key stays within the goal: {:?}", table.slow);
}

/// A call that meets a large key which has ended pays for freeing it, unless `lazyfree-lazy-expire yes` lets the server
/// do that on the side.
#[test]
fn an_ended_large_key_is_freed_on_the_side_with_lazyfree() {
    let (_server, mut table) = table();
    table.pipe.good("DEBUG SET-ACTIVE-EXPIRE 0");
    let now = table.pipe.time_us();
    fill(&mut table.pipe, "k", now, LOG, number);
    let again = table.restored("k");
    let mut medians = vec![];
    for lazy in ["no", "yes"] {
        table.pipe.good(&format!("CONFIG SET lazyfree-lazy-expire {lazy}"));
        table.pipe.good("CONFIG RESETSTAT");
        for _ in 0..scaled(8, 50) {
            assert!(!table.pipe.call(&again).is_error());
            table.pipe.good("PEXPIRE k 1");
            // The key must have ended; nobody sees when, without ending it.
            thread::sleep(Duration::from_millis(3));
            assert_eq!(table.pipe.good("RL.SLIDING k 5 1h").list()[2].int(), 4, "the log has ended");
        }
        table.print(&format!("SLIDING meets 100000 ended entries, lazyfree {lazy}"), "rl.sliding");
        let text = table.pipe.good("INFO commandstats").to_string();
        let field = crate::info::field(&text, "cmdstat_rl.sliding");
        let each = field.split(',').find_map(|part| part.strip_prefix("usec_per_call=")).unwrap();
        medians.push(each.parse::<f64>().unwrap());
    }
    wait_for("the logs to be freed on the side", || {
        (table.pipe.info_number("memory", "lazyfreed_objects") > 0).then_some(())
    });
    say(&format!("worst: meeting an ended log of 100000: {} us without lazyfree, {} us with", medians[0], medians[1]));
}
