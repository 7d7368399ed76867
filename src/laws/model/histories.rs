//! Random histories, as a comparison would make them: the model against its own second witnesses.

use super::replay::split;
use super::{Answer, Model};

const BEGIN_US: i64 = 1_767_225_600_000_000;

/// A small generator, so that a failure can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn pick(&mut self, from: &str) -> String {
        let words: Vec<&str> = from.split('|').collect();
        words[usize::try_from(self.below(words.len() as u64)).unwrap()].into()
    }

    fn step_us(&mut self, back: u64) -> i64 {
        let us = match self.below(8) {
            0 => 0,
            1..5 => self.below(200_000),
            5 => self.below(500),
            6 => self.below(10_000_000),
            _ => self.below(40) * 1_000_000_000,
        };
        let sign = if self.below(back) == 0 { -1 } else { 1 };
        sign * i64::try_from(us).unwrap()
    }

    /// A call of any verb, now and then two rules as a whole. Numbers are few, so that a key is met again with the
    /// same, and at times with others.
    fn call(&mut self) -> String {
        match (self.below(10), self.one(), self.one()) {
            (0, one, two) => self.whole(&one, &two).unwrap_or(one),
            (_, one, _) => one,
        }
    }

    fn whole(&mut self, one: &str, two: &str) -> Option<String> {
        let rule = |line: &str| {
            let (name, rest) = line.strip_prefix("RL.").filter(|_| !line.contains("PARTIAL"))?.split_once(' ')?;
            let (key, rest) = rest.split_once(' ')?;
            let decides = matches!(name, "FIXED" | "SLIDING" | "TOKEN" | "LEAKY");
            decides.then(|| (key.to_string(), format!("{key} \"{name} {rest}\"")))
        };
        let (one, two) = (rule(one)?, rule(two)?);
        (one.0 != two.0).then(|| format!("RL.ALL {} {}", one.1, two.1))
    }

    fn one(&mut self) -> String {
        let verb = self.pick("DECIDE|DECIDE|DECIDE|DECIDE|PEEK|REFUND|CHARGE");
        let numbers = self.pick("5|5|5|5|1|2|10|0");
        let period = self.pick("1s|1s|1s|1s|7ms|100ms|3s");
        let rate = self.pick("3|3|3|1|7000|999999999999999");
        let cost = self.pick("|||| COST 2| COST 3| COST 0| COST 11| COST 11");
        let rated = match self.below(8) {
            0 => format!("999999999999999 {rate} 3650d"),
            _ => format!("{numbers} {rate} {period}"),
        };
        let (key, algorithm, words, options) = match self.below(8) {
            0 => ("f", "FIXED", format!("{numbers} {period}"), "|| PARTIAL| BLOCK 2s"),
            1 => ("c", "FIXED", format!("{numbers} 1mo ALIGN TZ +05:30"), "|| PARTIAL| BLOCK 2s"),
            2 => ("s", "SLIDING", format!("{numbers} {period}"), "| PARTIAL"),
            3 if verb == "REFUND" => {
                return format!("RL.REFUND s SLIDING {numbers} {period} ID {}", self.pick("a|b|c"));
            }
            3 => ("s", "SLIDING", format!("{numbers} {period}"), " ID a| ID b| ID c"),
            4 => ("b", "SLIDING", format!("{numbers} {period} BUCKETS 4"), "| PARTIAL"),
            5 => ("t", "TOKEN", rated, "| PARTIAL"),
            6 => ("l", "LEAKY", rated, "| PARTIAL| SHAPE| SHAPE WITHIN 150ms"),
            _ => {
                return self.pick(
                    "RL.ACQUIRE h 2 1s ID a|RL.ACQUIRE h 2 3s ID b|RL.ACQUIRE h 1 1s ID c|RL.PEEK h LEASE 2|\
                     RL.RENEW h 2s a c|RL.RELEASE h a|RL.RELEASE h b c",
                );
            }
        };
        match &*verb {
            "DECIDE" => format!("RL.{algorithm} {key} {words}{cost}{}", self.pick(options)),
            "PEEK" => format!("RL.PEEK {key} {algorithm} {words}{cost}{}", self.pick(options)),
            verb => format!("RL.{verb} {key} {algorithm} {words}{cost}"),
        }
    }
}

/// Sends a line, in which quotes hold an argument together.
fn send(model: &mut Model, now_us: i64, line: &str) -> Answer {
    let words = split(line);
    model.call(now_us, &words.iter().map(String::as_bytes).collect::<Vec<_>>())
}

/// Protects the closed forms of waits, resets and turns, and the sums behind them: on random histories of all
/// limiters each is found by its definition too, PEEK tells the decision that follows, and so does a whole of one.
#[test]
fn waits_are_what_their_definition_says() {
    for seed in 0..60 {
        let (mut dice, mut model, mut now_us) = (Dice(seed), Model::new(1000), BEGIN_US);
        model.paranoid(true);
        for _ in 0..500 {
            now_us += dice.step_us(50);
            let line = dice.call();
            let (name, rest) = line[3..].split_once(' ').unwrap();
            let (key, rest) = rest.split_once(' ').unwrap();
            let rule = matches!(name, "FIXED" | "SLIDING" | "TOKEN" | "LEAKY");
            let peeked = rule.then(|| send(&mut model, now_us, &format!("RL.PEEK {key} {name} {rest}")));
            let whole = rule && !line.contains("PARTIAL") && dice.below(4) == 0;
            let sent = if whole { format!("RL.ALL {key} \"{name} {rest}\"") } else { line.clone() };
            let answer = match send(&mut model, now_us, &sent) {
                Answer::Whole { each, .. } if whole => Answer::Five(each[0]),
                answer => answer,
            };
            assert_ne!(answer, Answer::Refused, "{line} is well formed");
            assert!(
                peeked.is_none_or(|p| p == answer) || line.contains("BLOCK"),
                "{line} was peeked otherwise: {answer:?}"
            );
            if dice.below(100) == 0 {
                model.persist(key.as_bytes());
            }
        }
    }
}

/// Protects comparisons from what the contract leaves open: a server that drops every key at the first instant at
/// which it may be gone answers as one that drops none, except where `ambiguous` says that it may not.
#[test]
fn forgetting_makes_no_difference_where_the_contract_is_clear() {
    let (mut open, mut gone) = (0, 0);
    for seed in 0..200 {
        let (mut dice, mut now_us) = (Dice(seed), BEGIN_US);
        let (mut keeps, mut forgets) = (Model::new(1000), Model::new(1000));
        for _ in 0..500 {
            now_us += dice.step_us(20);
            let line = dice.call();
            let words = split(&line);
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            let keys: Vec<&[u8]> = words[1..].iter().copied().filter(|word| word.len() == 1).collect();
            let before = forgets.keys.len();
            forgets.keys.retain(|_, held| held.gone_us.is_none_or(|gone| gone > now_us));
            gone += before - forgets.keys.len();
            if keeps.ambiguous(now_us, &words) {
                open += 1;
                for key in &keys {
                    keeps.del(key);
                    forgets.del(key);
                }
            }
            let (kept, forgot) = (keeps.call(now_us, &words), forgets.call(now_us, &words));
            assert_eq!(kept, forgot, "seed {seed}: {line} at {now_us}");
            if dice.below(100) == 0 {
                keeps.persist(keys[0]);
                forgets.persist(keys[0]);
            }
        }
    }
    assert!(gone > 10_000 && (1_000..30_000).contains(&open), "{gone} keys went and {open} calls were open");
}

/// Protects the answers to an ACQUIRE for which the server made the id: it holds like a given one.
#[test]
fn a_made_id_holds_like_a_given_one() {
    let mut model = Model::new(1000);
    let words: [&[u8]; 4] = [b"RL.ACQUIRE", b"h", b"1", b"1s"];
    let five = [1, 1, 0, 0, 1000];
    let first = model.acquire_as(BEGIN_US, &words, b"made-1");
    assert_eq!(first, Answer::Lease { five, id: Some(b"made-1".to_vec()) });
    assert_eq!(model.call(BEGIN_US, &words), Answer::Lease { five: [0, 1, 0, 1000, 1000], id: None });
    assert_eq!(model.call(BEGIN_US, &[b"RL.RELEASE", b"h", b"made-1"]), Answer::Count(1));
}

/// A verdict (`=` the contract answers the last line, `?` it leaves it open), then calls at milliseconds.
const OPEN: &str = "
? 0 SLIDING k 9 1s, 1500 SLIDING k 9 1s, 1600 SLIDING k 9 1h             # a longer period
? 0 SLIDING k 9 1s, 1500 SLIDING k 0 1s, 1600 SLIDING k 9 1h             # a longer period after a refusal
= 0 SLIDING k 9 1s, 900 SLIDING k 9 1s, 950 SLIDING k 9 1h               # a longer period in time
= 0 SLIDING k 9 1s, 1500 SLIDING k 9 1s, 1600 SLIDING k 9 1s             # the same period
= 0 SLIDING k 9 1h, 1500 PEEK k SLIDING 9 1s, 1600 SLIDING k 9 1h        # a PEEK trims nothing
? 0 SLIDING k 9 1s BUCKETS 2, 1600 SLIDING k 9 1s BUCKETS 2, 1600 SLIDING k 9 1h BUCKETS 2
? 0 TOKEN k 5 1 1s, 1000 TOKEN k 9 1 1s                                  # the key may be gone
= 0 TOKEN k 5 1 1s, 1000 TOKEN k 5 1 1s                                  # the key may be gone, which is the same
= 0 TOKEN k 5 1 1s, 999 TOKEN k 9 1 1s                                   # the key is still needed
= 0 TOKEN k 5 5000 1s COST 5, 0 TOKEN k 5 5000 1s                        # a refill within a millisecond
= 0 TOKEN k 5 1 1s, 0 TOKEN k 5 1 1h COST 9, 1500 TOKEN k 5 1 1h         # a refusal that prolonged the TTL
? 0 TOKEN k 9 1 1s, 0 REFUND k TOKEN 5 1 1s, 0 TOKEN k 9 1 1s            # nothing to give back under less
? 0 FIXED k 5 1s, 1000 FIXED other 5 1s, 999 FIXED k 5 1s                # back over the end of a window
= 0 FIXED k 5 1s, 900 FIXED k 5 1s, 800 FIXED k 5 1s                     # back within a window
? 0 ACQUIRE k 5 1s, 0 ACQUIRE k 5 1h, 1000 ACQUIRE k 5 1s, 999 ACQUIRE k 5 1s
? 0 LEAKY k 5 1 1s, 1500 TOKEN k 5 1 1s                                  # another algorithm's dead key
= 0 LEAKY k 5 1 1s, 500 TOKEN k 5 1 1s                                   # another algorithm's live key
";

/// Protects the skipping of calls, which must be neither too rare nor too common.
#[test]
fn what_the_contract_leaves_open_is_told_apart() {
    for history in OPEN.trim().lines() {
        let (verdict, calls) = history.split('#').next().unwrap().split_at(2);
        let (mut open, mut model) = (false, Model::new(1000));
        for call in calls.trim().split(", ") {
            let (ms, line) = call.split_once(' ').unwrap();
            let now_us = BEGIN_US + ms.parse::<i64>().unwrap() * 1000;
            let words = split(&format!("RL.{line}"));
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            open = model.ambiguous(now_us, &words);
            model.call(now_us, &words);
        }
        assert_eq!(open, verdict == "? ", "{history}");
    }
}
