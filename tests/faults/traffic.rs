//! Random calls of every command that writes or looks, with every option, on a few shared keys: valid words only, so
//! that an error is a finding.

use std::collections::BTreeMap;

use crate::chance::Chance;
use crate::pipe::{Answer, Pipe};

/// A command as its words.
pub type Words = Vec<Vec<u8>>;

/// Windows that end all the time.
pub const CHURNING: &[&str] = &["20ms", "250ms", "1s", "3s", "1h"];
/// Windows that outlive a test.
pub const LASTING: &[&str] = &["1h", "3h", "1d"];

/// Where random calls come from.
pub struct Traffic {
    pub chance: Chance,
    periods: &'static [&'static str],
    keys: u64,
    /// A prefix, so that several do not meet.
    prefix: String,
}

pub fn words(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

impl Traffic {
    pub fn new(chance: Chance, periods: &'static [&'static str], keys: u64, prefix: &str) -> Self {
        let prefix = prefix.to_owned();
        Self { chance, periods, keys, prefix }
    }

    /// A key for one kind of state; every third name is not printable.
    fn key(&mut self, letter: char) -> Vec<u8> {
        let number = self.chance.below(self.keys);
        let mut key = format!("{}{{x}}{letter}{number}", self.prefix).into_bytes();
        if number % 3 == 2 {
            key.extend(b"\x00\xff\r\n '\"");
        }
        key
    }

    fn period(&mut self) -> &'static str {
        self.chance.pick(self.periods)
    }

    fn cost(&mut self) -> String {
        match self.chance.below(8) {
            0 => " COST 0".to_owned(),
            1 => format!(" COST {}", self.chance.below(15)),
            2 => " COST 2".to_owned(),
            _ => String::new(),
        }
    }

    /// A rule in words, and the letter of the keys that hold its state.
    fn rule(&mut self, whole: bool) -> (char, String) {
        let period = self.period();
        let limit = self.chance.below(9);
        let rate = 1 + self.chance.below(5);
        let mut cost = self.cost();
        let (letter, rule) = match self.chance.below(6) {
            0 => ('f', format!("FIXED {limit} {period}")),
            1 => ('a', format!("FIXED {limit} {period} ALIGN{}", self.chance.pick(&["", " TZ +05:45", " TZ -03:30"]))),
            2 => ('s', format!("SLIDING {limit} {period}")),
            3 => ('b', format!("SLIDING {limit} {period} BUCKETS {}", 2 + self.chance.below(30))),
            4 => ('t', format!("TOKEN {limit} {rate} {period}")),
            _ => ('l', format!("LEAKY {limit} {rate} {period}")),
        };
        let mut option = "";
        match letter {
            'f' | 'a' if self.chance.percent(10) => option = " BLOCK 200ms",
            's' if self.chance.percent(30) => option = self.chance.pick(&[" ID x", " ID y", " ID i000:z"]),
            'l' if self.chance.percent(30) => option = self.chance.pick(&[" SHAPE", " SHAPE WITHIN 500ms"]),
            _ if !whole && self.chance.percent(15) => option = " PARTIAL",
            _ => {}
        }
        if letter == 's' && self.chance.percent(5) {
            // Units that fit no small encoding.
            cost = " COST 130".to_owned();
        }
        (letter, format!("{rule}{cost}{option}"))
    }

    /// A rule without options of decisions, as RL.REFUND and RL.CHARGE take it.
    fn plain_rule(&mut self, with_ids: bool) -> (char, String) {
        loop {
            let (letter, rule) = self.rule(true);
            let decides = ["BLOCK", "SHAPE"].iter().any(|word| rule.contains(word));
            let id = rule.contains(" ID ");
            if !decides && !(id && (!with_ids || rule.contains("COST"))) {
                return (letter, rule);
            }
        }
    }

    fn behind(&mut self, verb: &str, letter: char, rule: &str) -> Words {
        let mut call = vec![verb.as_bytes().to_vec(), self.key(letter)];
        if self.chance.percent(50) {
            call.push(rule.as_bytes().to_vec());
        } else {
            call.extend(words(rule));
        }
        call
    }

    fn ids(&mut self) -> Words {
        let count = 1 + self.chance.below(4);
        (0..count).map(|_| format!("holder {}", self.chance.below(6)).into_bytes()).collect()
    }

    /// One call.
    pub fn call(&mut self) -> Words {
        match self.chance.below(22) {
            0 | 1 => {
                let (letter, rule) = self.plain_rule(true);
                self.behind("RL.REFUND", letter, &rule)
            }
            2 | 3 => {
                let (letter, rule) = self.plain_rule(false);
                self.behind("RL.CHARGE", letter, &rule)
            }
            4 => {
                if self.chance.percent(20) {
                    return vec![b"RL.PEEK".to_vec(), self.key('h'), b"LEASE".to_vec(), b"3".to_vec()];
                }
                let (letter, rule) = self.rule(false);
                self.behind("RL.PEEK", letter, &rule)
            }
            5 | 6 => {
                let rules: BTreeMap<char, String> = (0..3).map(|_| self.rule(true)).collect();
                let mut call = vec![b"RL.ALL".to_vec()];
                for (letter, rule) in rules {
                    call.push(self.key(letter));
                    call.push(rule.replace(" COST 130", "").into_bytes());
                }
                call
            }
            7 | 8 => {
                let (limit, lease) = (self.chance.below(5), self.period());
                let mut call = vec![b"RL.ACQUIRE".to_vec(), self.key('h')];
                call.extend(words(&format!("{limit} {lease}")));
                if self.chance.percent(60) {
                    call.push(b"ID".to_vec());
                    call.push(self.ids().remove(0));
                }
                call
            }
            9 => {
                let mut call = vec![b"RL.RENEW".to_vec(), self.key('h'), self.period().into()];
                call.extend(self.ids());
                call
            }
            10 => {
                let mut call = vec![b"RL.RELEASE".to_vec(), self.key('h')];
                call.extend(self.ids());
                call
            }
            11 => {
                let (capacity, rate) = (self.chance.below(9), 1 + self.chance.below(5));
                let wait = self.chance.pick(&["0s", "3ms"]);
                let mut call = vec![b"RL.QUEUE".to_vec(), self.key('l')];
                call.extend(words(&format!("{capacity} {rate} {} {wait}", self.period())));
                call
            }
            12 => vec![
                b"PERSIST".to_vec(),
                { ['f', 'a', 's', 'b', 't', 'l', 'h'] }
                    .get(self.chance.index(7))
                    .map(|letter| self.key(*letter))
                    .unwrap(),
            ],
            _ => {
                let (letter, rule) = self.rule(false);
                let (algorithm, numbers) = rule.split_once(' ').unwrap();
                let mut call = vec![format!("RL.{algorithm}").into_bytes(), self.key(letter)];
                call.extend(words(numbers));
                call
            }
        }
    }

    /// A call alone, several in a transaction, or one from a script.
    pub fn unit(&mut self) -> Vec<Words> {
        match self.chance.below(10) {
            0 => {
                let mut unit = vec![words("MULTI")];
                unit.extend((0..1 + self.chance.below(4)).map(|_| self.call()));
                unit.push(words("EXEC"));
                unit
            }
            1 => {
                let mut eval = vec![b"EVAL".to_vec(), b"return redis.call(unpack(ARGV))".to_vec(), b"0".to_vec()];
                eval.extend(self.call());
                vec![eval]
            }
            _ => vec![self.call()],
        }
    }
}

/// How often each command did something, and did not.
#[derive(Default, Debug)]
pub struct Tally(BTreeMap<String, (u32, u32)>);

impl Tally {
    #[track_caller]
    pub fn count(&mut self, command: &Words, answer: &Answer) {
        let shown = crate::client::shown(command);
        assert!(!answer.is_error(), "{shown}: {answer}");
        let verb = String::from_utf8_lossy(&command[0]).into_owned();
        if !verb.starts_with("RL.") || *answer == Answer::Text(b"QUEUED".to_vec()) {
            return;
        }
        let entry = self.0.entry(verb).or_default();
        if answer.first() > 0 { entry.0 += 1 } else { entry.1 += 1 }
    }

    pub fn join(&mut self, other: Self) {
        for (verb, (did, did_not)) in other.0 {
            let entry = self.0.entry(verb).or_default();
            entry.0 += did;
            entry.1 += did_not;
        }
    }

    pub fn calls(&self) -> u32 {
        self.0.values().map(|(did, did_not)| did + did_not).sum()
    }

    /// A history in which a command never did anything, or never refused, would show little.
    #[track_caller]
    pub fn assert_mixed(&self) {
        assert_eq!(self.0.len(), 12, "every command takes part: {self:?}");
        let mixed = self.0.values().all(|&(did, did_not)| did > 0 && did_not > 0);
        assert!(mixed, "both answers of each: {self:?}");
    }
}

/// Runs so many units on one connection, changing between the databases.
pub fn run(pipe: &mut Pipe, traffic: &mut Traffic, units: u64) -> Tally {
    let mut tally = Tally::default();
    for _ in 0..units {
        if traffic.chance.percent(5) {
            let database = crate::snapshot::DATABASES[traffic.chance.index(2)];
            pipe.good(&format!("SELECT {database}"));
        }
        let unit = traffic.unit();
        let answers = pipe.batch(&unit);
        for (command, answer) in unit.iter().zip(&answers) {
            tally.count(command, answer);
        }
        if let Some(Answer::List(answers)) = answers.last()
            && unit.len() > 1
        {
            let inner = &unit[1..unit.len() - 1];
            assert_eq!(inner.len(), answers.len(), "EXEC answers every call");
            for (command, answer) in inner.iter().zip(answers) {
                tally.count(command, answer);
            }
        }
    }
    tally
}
