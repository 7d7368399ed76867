//! Random calls of every verb on shared keys, the same from the same seed: what replicas, restarts and event listeners
//! must agree on afterwards.

use std::collections::BTreeMap;

use crate::client::{Conn, Reply};
use crate::held::HeldClock;

/// A small generator of our own, so that a seed names the same history for ever (splitmix64).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// One rule without its key, and the letter of the keys that hold its state.
fn rule(random: &mut Random, within_all: bool) -> (char, String) {
    let period = random.pick(&["250ms", "1s", "3s", "10s"]);
    let limit = random.below(9);
    let cost = match random.below(6) {
        0 => " COST 0".to_owned(),
        1 => format!(" COST {}", random.below(12)),
        2 => " COST 2".to_owned(),
        _ => String::new(),
    };
    let rate = 1 + random.below(5);
    let (letter, rule) = match random.below(6) {
        0 => ('f', format!("FIXED {limit} {period}")),
        1 => ('a', format!("FIXED {limit} {period} ALIGN")),
        2 => ('s', format!("SLIDING {limit} {period}")),
        3 => ('b', format!("SLIDING {limit} {period} BUCKETS {}", 2 + random.below(9))),
        4 => ('t', format!("TOKEN {limit} {rate} {period}")),
        _ => ('l', format!("LEAKY {limit} {rate} {period}")),
    };
    let option = match letter {
        'f' | 'a' if random.chance(10) => " BLOCK 2s",
        's' if random.chance(25) => random.pick(&[" ID x", " ID y", " ID z"]),
        'l' if random.chance(30) => random.pick(&[" SHAPE", " SHAPE WITHIN 500ms"]),
        _ if !within_all && random.chance(15) => " PARTIAL",
        _ => "",
    };
    (letter, format!("{rule}{cost}{option}"))
}

/// A rule as RL.REFUND and RL.CHARGE take it: without options of decisions.
fn plain_rule(random: &mut Random, ids: bool) -> (char, String) {
    loop {
        let (letter, rule) = rule(random, true);
        let foreign = ["BLOCK", "SHAPE"].iter().any(|word| rule.contains(word));
        let id = rule.contains(" ID ");
        if !foreign && !(id && (!ids || rule.contains("COST"))) {
            return (letter, rule);
        }
    }
}

/// The next call.
pub fn command(random: &mut Random) -> String {
    let number = random.below(2);
    match random.below(20) {
        0 | 1 => {
            let (letter, rule) = plain_rule(random, true);
            format!("RL.REFUND {{k}}{letter}{number} {rule}")
        }
        2 | 3 => {
            let (letter, rule) = plain_rule(random, false);
            format!("RL.CHARGE {{k}}{letter}{number} {rule}")
        }
        4 => {
            let (letter, rule) = rule(random, false);
            format!("RL.PEEK {{k}}{letter}{number} {rule}")
        }
        5 | 6 => {
            let rules: BTreeMap<char, String> = (0..3).map(|_| rule(random, true)).collect();
            let words: Vec<_> =
                rules.iter().map(|(letter, rule)| format!("{{k}}{letter}{number} \"{rule}\"")).collect();
            format!("RL.ALL {}", words.join(" "))
        }
        7 | 8 => {
            let id = random.pick(&["p", "q", "r"]);
            let lease = random.pick(&["500ms", "2s", "5s"]);
            format!("RL.ACQUIRE {{k}}h{number} {} {lease} ID {id}", random.below(3))
        }
        9 => format!("RL.RENEW {{k}}h{number} {} p q", random.pick(&["1s", "4s"])),
        10 => format!("RL.RELEASE {{k}}h{number} {}", random.pick(&["p", "q r", "p q r"])),
        11 => format!("RL.QUEUE {{k}}l{number} {} {} 1s 0s", random.below(9), 1 + random.below(5)),
        12 => random
            .pick(&["PERSIST {k}f0", "PERSIST {k}t0", "PERSIST {k}l1", "PERSIST {k}s0", "PERSIST {k}b1"])
            .to_owned(),
        _ => {
            let (letter, rule) = rule(random, false);
            let (algorithm, numbers) = rule.split_once(' ').unwrap();
            format!("RL.{algorithm} {{k}}{letter}{number} {numbers}")
        }
    }
}

/// How far the clock moves before the next call: mostly a little, at times past a window, now and then backwards.
pub fn step_us(random: &mut Random) -> i64 {
    let micros = match random.below(20) {
        0 => return -i64::try_from(random.below(2_000_000)).unwrap(),
        1 | 2 => random.below(4_000_000),
        3..=6 => 0,
        _ => random.below(150_000),
    };
    i64::try_from(micros).unwrap()
}

/// How often each verb answered that it did something, and that it did not.
#[derive(Default)]
pub struct Tally(BTreeMap<String, (u32, u32)>);

impl Tally {
    pub fn count(&mut self, command: &str, reply: &Reply) {
        assert!(!reply.is_error(), "{command}: {reply}");
        let did = match reply {
            Reply::List(items) => items[0].int() > 0,
            other => other.int() > 0,
        };
        let verb = command.split(' ').next().unwrap();
        let entry = self.0.entry(verb.to_owned()).or_default();
        if did { entry.0 += 1 } else { entry.1 += 1 }
    }

    /// A history in which some verb never passes or never refuses would show little.
    pub fn assert_mixed(&self) {
        assert!(self.0.len() >= 12, "every verb takes part: {:?}", self.0);
        assert!(self.0.values().all(|&(did, did_not)| did > 0 && did_not > 0), "both answers of each: {:?}", self.0);
    }
}

/// Runs so many random calls under a held clock.
pub fn run(conn: &mut Conn, clock: &HeldClock, random: &mut Random, calls: usize) -> Tally {
    let mut tally = Tally::default();
    let mut now_us = 0;
    for _ in 0..calls {
        now_us = (now_us + step_us(random)).max(0);
        clock.set_us(now_us);
        let line = command(random);
        let reply = conn.run(&line);
        tally.count(&line, &reply);
        assert_every_key_ends(conn, &line);
    }
    tally
}

/// Every key that a call with a cost leaves behind has an end, also one whose end an operator removed before.
fn assert_every_key_ends(conn: &mut Conn, line: &str) {
    let looks_only = line.contains("COST 0") || line.starts_with("RL.PEEK") || line.starts_with("PERSIST");
    for key in line.split(' ').filter(|word| !looks_only && word.starts_with("{k}")) {
        assert_ne!(conn.int(&format!("PTTL {key}")), -1, "{key} has no end after {line}");
    }
}

/// Every key with its serialised value and the instant of its end.
pub fn snapshot(conn: &mut Conn) -> BTreeMap<String, (Reply, i64)> {
    let keys = conn.good("KEYS *");
    let mut found = BTreeMap::new();
    for key in keys.list() {
        let dump = conn.good(&format!("DUMP {key}"));
        found.insert(key.to_string(), (dump, conn.int(&format!("PEXPIRETIME {key}"))));
    }
    found
}
