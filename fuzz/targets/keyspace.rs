//! One key in memory: what the engine reads of it and what its writes do to it, without a server.

use std::collections::{BTreeMap, BTreeSet};

use redis_limiters::engine::bucket::Stored;
use redis_limiters::engine::buckets::{FieldChange, SubWindow, SubWindows};
use redis_limiters::engine::fixed::Counter;
use redis_limiters::engine::sliding::{Log, LogChange, Sliding};
use redis_limiters::engine::time::{Micros, Millis};
use redis_limiters::engine::{Ask, Change, Limiter, Loaded, Rule, Verb, Write};
use redis_limiters::storage::record;

/// A member of a log; a plain unit's is a number, and sorts before those of request ids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Member {
    Number(i64),
    Unit { index: u64, id: Vec<u8> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Counter(u64),
    Amount { text: Vec<u8>, at: Micros },
    Log(BTreeSet<(i64, Member)>),
    SubWindows(BTreeMap<i64, u64>),
}

/// A key, or the lack of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    value: Option<Value>,
    expiry: Option<Millis>,
}

impl Key {
    /// Lets the key run out as the server does: it lives through the millisecond of its expiry.
    pub fn expire(&mut self, now: Micros) -> bool {
        let over = self.expiry.is_some_and(|at| at < now.floor_ms());
        if over {
            *self = Self::default();
        }
        over
    }

    pub fn exists(&self) -> bool {
        self.value.is_some()
    }

    pub fn expiry(&self) -> Option<Millis> {
        self.expiry
    }

    /// Takes the expiry away, as somebody's PERSIST does.
    pub fn persist(&mut self) {
        self.expiry = None;
    }

    /// Units on the books, for the algorithms that count them.
    pub fn units(&self) -> Option<u64> {
        match self.value.as_ref()? {
            Value::Counter(used) => Some(*used),
            Value::SubWindows(fields) => Some(fields.values().sum()),
            Value::Log(entries) => u64::try_from(entries.len()).ok(),
            Value::Amount { .. } => None,
        }
    }

    /// What a limiter reads.
    pub fn load<'a>(&self, rule: &Rule<'a>, verb: Verb, now: Micros) -> Loaded<'a> {
        let expiry = self.expiry;
        match rule.limiter {
            Limiter::Fixed(fixed) => Loaded::Fixed(
                fixed,
                match self.value {
                    Some(Value::Counter(used)) => Some(Counter { used, end: expiry }),
                    _ => None,
                },
            ),
            Limiter::Token(token) => Loaded::Token(token, self.stored(true)),
            Limiter::Leaky(leaky) => Loaded::Leaky(leaky, self.stored(false)),
            Limiter::Buckets(buckets) => Loaded::Buckets(
                buckets,
                match &self.value {
                    Some(Value::SubWindows(fields)) => {
                        let field = |(end, units): (&i64, &u64)| SubWindow { end: Millis::new(*end), units: *units };
                        SubWindows { fields: fields.iter().map(field).collect(), expiry }
                    }
                    _ => SubWindows::default(),
                },
            ),
            Limiter::Sliding(sliding) => Loaded::Sliding(sliding, self.log(&sliding, verb, rule.ask, now)),
        }
    }

    fn stored(&self, negative: bool) -> Option<Stored> {
        let Some(Value::Amount { text, at }) = &self.value else { return None };
        let amount = record::read_amount(text, negative).expect("what was stored can be read");
        Some(Stored { amount, at: *at, expiry: self.expiry })
    }

    fn log(&self, rule: &Sliding<'_>, verb: Verb, ask: Ask, now: Micros) -> Log {
        let Some(Value::Log(entries)) = &self.value else { return Log::default() };
        let cutoff = now.minus_us(rule.period);
        let count = |entries: usize| u64::try_from(entries).expect("a count");
        let living: Vec<_> = entries.iter().filter(|(at, _)| *at > cutoff).collect();
        let live = count(living.len());
        let instant = |at: i64| Micros::from_clock(at).min(now);
        let leaving = rule.leaving_index(verb, ask, live).and_then(|index| living.get(usize::try_from(index).ok()?));
        let mut log = Log {
            exists: true,
            live,
            dead: count(entries.len()) - live,
            future: count(living.iter().filter(|(at, _)| *at > now.get()).count()),
            newest: living.last().map(|(at, _)| instant(*at)),
            leaving: leaving.map(|(at, _)| instant(*at)),
            expiry: self.expiry,
            ..Log::default()
        };
        let of_id = |id: &[u8], index: u64| Member::Unit { index, id: id.to_vec() };
        let has = |member: &Member| living.iter().any(|(_, other)| other == member);
        if let Some(id) = rule.id {
            log.seen = has(&of_id(id, 0));
        }
        if verb == Verb::Refund {
            let mut left = living.clone();
            match rule.id {
                Some(id) => {
                    while log.returned < 250 && has(&of_id(id, log.returned)) {
                        let member = of_id(id, log.returned);
                        left.retain(|(_, other)| *other != member);
                        log.returned += 1;
                    }
                }
                None => {
                    log.returned = ask.cost.min(live);
                    left.truncate(left.len() - usize::try_from(log.returned).expect("a length"));
                }
            }
            log.newest_left = left.last().map(|(at, _)| instant(*at));
        }
        log
    }

    /// What a write does.
    pub fn apply(&mut self, rule: &Rule<'_>, write: &Write, now: Micros) {
        let (change, expiry) = match write {
            Write::Keep => return,
            Write::Drop => {
                *self = Self::default();
                return;
            }
            Write::Put(change, expiry) => (change, expiry),
        };
        match change {
            Change::Nothing => assert!(self.exists(), "an expiry of nothing"),
            Change::Count { used } => {
                assert!(expiry.is_some() || self.units().is_some(), "a counter without a new expiry exists");
                self.value = Some(Value::Counter(*used));
            }
            Change::Level { amount, at } => {
                self.value = Some(Value::Amount { text: record::amount(*amount).as_bytes().to_vec(), at: *at });
            }
            Change::Stamp { at: now } => match &mut self.value {
                Some(Value::Amount { at, .. }) => *at = *now,
                other => panic!("a stamp on {other:?}"),
            },
            Change::Log(change) => self.apply_log(rule, change, now),
            Change::SubWindows(change) => self.apply_sub_windows(change),
        }
        if let Some(at) = expiry {
            self.expiry = Some(*at);
        }
    }

    fn apply_log(&mut self, rule: &Rule<'_>, change: &LogChange, now: Micros) {
        let mut entries = match self.value.take() {
            Some(Value::Log(entries)) => entries,
            _ => BTreeSet::new(),
        };
        let id = match rule.limiter {
            Limiter::Sliding(sliding) => sliding.id,
            _ => None,
        };
        for index in 0..change.take_out {
            match id {
                Some(id) => entries.retain(|(_, member)| *member != Member::Unit { index, id: id.to_vec() }),
                None => drop(entries.pop_last()),
            }
        }
        for _ in 0..change.mend {
            let Some((at, member)) = entries.last().cloned().filter(|(at, _)| *at > now.get()) else { break };
            entries.remove(&(at, member.clone()));
            entries.insert((now.get(), member));
        }
        let mut number = now.get();
        for index in 0..change.add {
            let member = match id {
                Some(id) => Member::Unit { index, id: id.to_vec() },
                None => {
                    while entries.iter().any(|(_, member)| *member == Member::Number(number)) {
                        number += 1;
                    }
                    Member::Number(number)
                }
            };
            // A member stands in a sorted set once.
            entries.retain(|(_, other)| *other != member);
            entries.insert((now.get(), member));
        }
        let period = match rule.limiter {
            Limiter::Sliding(sliding) => sliding.period,
            _ => panic!("a log of another limiter"),
        };
        for _ in 0..change.trim {
            let Some(first) = entries.first().cloned().filter(|(at, _)| *at <= now.minus_us(period)) else {
                break;
            };
            entries.remove(&first);
        }
        assert!(!entries.is_empty(), "a key without a value");
        self.value = Some(Value::Log(entries));
    }

    fn apply_sub_windows(&mut self, change: &FieldChange) {
        let mut fields = match self.value.take() {
            Some(Value::SubWindows(fields)) => fields,
            _ => BTreeMap::new(),
        };
        for field in &change.set {
            let text = record::number(field.units);
            let end = record::signed(field.end.get());
            let read = record::read_sub_window(end.as_bytes(), text.as_bytes());
            assert_eq!(read, Some(*field), "what was stored can be read");
            fields.insert(field.end.get(), field.units);
        }
        for end in &change.delete {
            assert!(fields.remove(&end.get()).is_some(), "a field that is not there");
        }
        assert!(!fields.is_empty() && fields.len() <= 720, "{} fields", fields.len());
        self.value = Some(Value::SubWindows(fields));
    }
}
