//! A naive model of the commands, to compare the engine with.
//!
//! It is written from the contract alone and shares nothing with the engine: units are listed one by one or held as
//! exact fractions, a state is cloned for every question, and speed is no concern. What it answers is right for
//! well-formed words and for numbers out of range; which error text belongs to bad words is not its business.
//!
//! - [`Model::call`] takes a command at an instant and answers as the server would.
//! - [`Model::ambiguous`] says beforehand whether the contract leaves the answer open: what had ended by another
//!   reading of the clock or under other numbers may be gone or not. A comparison skips such a call on both sides, or
//!   deletes the key on both.
//! - [`Model::paranoid`] finds every wait by its definition too: the same rule is asked at later instants, and the
//!   first that admits must be the one that was answered.

mod books;
mod buckets;
mod counter;
mod drip;
mod histories;
mod leases;
mod log;
mod prove;
mod readings;
mod replay;
mod window;
mod words;

use books::{At, Books, Value};
use counter::Counter;
use leases::Leases;
use readings::Readings;
use std::collections::HashMap;
use words::{Command, Key, MAX_UNITS, Rule};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `allowed`, `limit`, `remaining`, `wait_ms`, `reset_after_ms`.
    Five([i64; 5]),
    Lease {
        five: [i64; 5],
        id: Option<Vec<u8>>,
    },
    Whole {
        allowed: i64,
        wait: i64,
        each: Vec<[i64; 5]>,
    },
    Count(i64),
    /// Any error.
    Refused,
}

/// One keyspace: key -> history.
pub struct Model {
    keys: HashMap<Key, Held>,
    clock: Readings,
    sliding_max: i128,
    paranoid: bool,
    made_ids: u64,
}

/// A key: its value, and between which instants its TTL may end it.
#[derive(Clone, Debug)]
struct Held {
    value: Value,
    /// The first microsecond at which the key may be gone; `None`: it has no TTL.
    gone_us: Option<i64>,
    /// The last millisecond at which it may still be there.
    latest_ms: i64,
    /// The reading of the clock at which the TTL was set.
    since: u64,
}

/// What a call of a rule comes to: whether it goes, its reply, and the key afterwards (`None`: absent).
type Outcome = (bool, [i64; 5], Option<Held>);

impl Model {
    pub fn new(sliding_max_limit: u64) -> Model {
        Model {
            keys: HashMap::new(),
            clock: Readings::default(),
            sliding_max: sliding_max_limit.into(),
            paranoid: false,
            made_ids: 0,
        }
    }

    /// Whether every wait and reset is also found by its definition. Slow: for a sample of the calls.
    pub fn paranoid(&mut self, on: bool) {
        self.paranoid = on;
    }

    /// One command, in the words that a client sends, the name first.
    pub fn call(&mut self, now_us: i64, words: &[&[u8]]) -> Answer {
        self.shows(now_us);
        let command = words::command(words, self.sliding_max);
        command.and_then(|command| self.run(now_us, command)).unwrap_or(Answer::Refused)
    }

    /// An ACQUIRE without ID for which the server has made this id.
    pub fn acquire_as(&mut self, now_us: i64, words: &[&[u8]], id: &[u8]) -> Answer {
        self.call(now_us, &[words, &[b"ID", id]].concat())
    }

    /// The server's clock showed this, though no command of ours ran: keys may have expired by it.
    pub fn shows(&mut self, now_us: i64) {
        self.clock.note(now_us);
    }

    pub fn del(&mut self, key: &[u8]) {
        self.keys.remove(key);
    }

    /// An operator takes the TTL away; not of a key that may be gone already.
    pub fn persist(&mut self, key: &[u8]) {
        let clock = &self.clock;
        let here = |held: &&mut Held| held.gone_us.is_none_or(|gone| clock.highest_since(held.since) < gone);
        let Some(held) = self.keys.get_mut(key).filter(here) else {
            return;
        };
        held.gone_us = None;
        if let Value::Counter(counter) = &mut held.value {
            counter.end_ms = None;
        }
    }

    /// An operator or a script writes a counter, as `SET key value [PXAT end]`.
    pub fn set_counter(&mut self, key: &[u8], value: i64, end_ms: Option<i64>) {
        let used = value.into();
        let value = if value < 0 { Value::Foreign } else { Value::Counter(Counter { used, end_ms }) };
        self.put(key, value, end_ms);
    }

    /// The key holds something that is nobody's state.
    pub fn set_foreign(&mut self, key: &[u8]) {
        self.put(key, Value::Foreign, None);
    }

    fn put(&mut self, key: &[u8], value: Value, end_ms: Option<i64>) {
        let (gone_us, latest_ms) = (end_ms.map(|ms| ms * 1000), end_ms.unwrap_or(i64::MAX));
        let held = Held { value, gone_us, latest_ms, since: self.clock.count };
        self.keys.insert(key.to_vec(), held);
    }

    /// A counter's value and the end of its window, as GET and PEXPIRETIME tell.
    pub fn counter(&self, now_us: i64, key: &[u8]) -> Option<(i128, Option<i64>)> {
        match self.held(now_us, key)?.value {
            Value::Counter(Counter { used, end_ms }) => Some((used, end_ms)),
            _ => None,
        }
    }

    /// Whether the key may be there: exact until the state is as good as absent.
    pub fn exists(&self, now_us: i64, key: &[u8]) -> bool {
        self.held(now_us, key).is_some()
    }

    /// The milliseconds since the epoch between which the key's TTL ends: when its state is as good as absent under
    /// the numbers that last set it, rounded up, and the latest that the contract allows. `None`: no key or no TTL.
    pub fn forget_at(&self, key: &[u8]) -> Option<(i64, i64)> {
        let held = self.keys.get(key)?;
        Some(((held.gone_us? + 999).div_euclid(1000), held.latest_ms))
    }

    /// Whether the contract leaves open what this call is answered.
    pub fn ambiguous(&self, now_us: i64, words: &[&[u8]]) -> bool {
        let gone = |held: &Held| {
            let highest = self.clock.highest_since(held.since).max(now_us);
            held.gone_us.is_some_and(|gone| highest >= gone)
        };
        // An unopened window may have been given an end by any call, and be gone with it.
        let unopened = |held: &Held| matches!(&held.value, Value::Counter(counter) if counter.used == 0);
        let open = |key: &[u8], rule: &Rule| {
            let at = At { now_us, rule };
            let Some(held) = self.held(now_us, key) else {
                return false;
            };
            match held.value.books(&at) {
                Some(books) => books.open(&at) || gone(held) && !books.untouched(&at),
                None => gone(held) || unopened(held),
            }
        };
        let open_lease = |key: &[u8]| {
            self.held(now_us, key).is_some_and(|held| match &held.value {
                Value::Leases(leases) => leases.open(now_us, gone(held)),
                _ => gone(held) || unopened(held),
            })
        };
        match words::command(words, self.sliding_max) {
            None => false,
            Some(Command::All(rules)) => rules.iter().any(|(key, rule)| open(key, rule)),
            Some(Command::Decide(key, rule) | Command::Peek(key, rule)) => open(&key, &rule),
            Some(Command::Refund(key, rule) | Command::Charge(key, rule)) => open(&key, &rule),
            Some(Command::PeekLease(key, _) | Command::Acquire(key, ..)) => open_lease(&key),
            Some(Command::Renew(key, ..) | Command::Release(key, _)) => open_lease(&key),
        }
    }

    /// The key, unless it has certainly expired.
    fn held(&self, now_us: i64, key: &[u8]) -> Option<&Held> {
        let here = |held: &&Held| held.gone_us.is_none() || held.latest_ms >= now_us.div_euclid(1000);
        self.keys.get(key).filter(here)
    }

    fn store(&mut self, key: &[u8], held: Option<Held>) {
        match held {
            Some(held) => self.keys.insert(key.to_vec(), held),
            None => self.keys.remove(key),
        };
    }

    /// `None`: some key is another algorithm's.
    fn run(&mut self, now_us: i64, command: Command) -> Option<Answer> {
        Some(match command {
            Command::Decide(key, rule) => self.one(now_us, &key, &rule, &rule, Model::decide)?,
            Command::Refund(key, rule) => self.one(now_us, &key, &rule, &rule, Model::refund)?,
            Command::Charge(key, rule) => {
                // A charge that leaves no unit tells the wait for one.
                let cost = rule.cost.min(1);
                let one = Rule { cost, ..rule.clone() };
                self.one(now_us, &key, &rule, &one, Model::charge)?
            }
            Command::Peek(key, rule) => {
                let block_ms = None;
                let rule = Rule { block_ms, ..rule };
                Answer::Five(self.decide(At { now_us, rule: &rule }, &key)?.1)
            }
            Command::All(rules) => self.all(now_us, &rules)?,
            Command::PeekLease(key, limit) => Answer::Five(self.leases(now_us, &key)?.look(now_us, limit)),
            Command::Acquire(key, limit, lease_ms, id) => {
                self.made_ids += 1;
                let id = id.unwrap_or_else(|| format!("model-{}", self.made_ids).into_bytes());
                let mut leases = self.leases(now_us, &key)?;
                let five = leases.acquire(now_us, limit, lease_ms, &id);
                if five[0] == 1 || self.exists(now_us, &key) {
                    self.store_leases(now_us, key, leases, lease_ms);
                }
                let id = (five[0] == 1).then_some(id);
                Answer::Lease { five, id }
            }
            Command::Renew(key, lease_ms, ids) => {
                self.touch(now_us, key, lease_ms, ids, |leases, id| leases.renew(now_us, lease_ms, id))?
            }
            Command::Release(key, ids) => self.touch(now_us, key, 0, ids, |leases, id| leases.release(now_us, id))?,
        })
    }

    /// A call of one rule; `waits` is the rule that its wait is for.
    fn one(
        &mut self,
        now_us: i64,
        key: &Key,
        rule: &Rule,
        waits: &Rule,
        verb: fn(&Model, At, &[u8]) -> Option<Outcome>,
    ) -> Option<Answer> {
        let (go, five, after) = verb(self, At { now_us, rule }, key)?;
        self.store(key, after);
        self.prove(now_us, &[(key.clone(), waits.clone())], go, five[3], Some(five[4]));
        Some(Answer::Five(five))
    }

    /// A key's TTL, and its value as every call finds it: mended, or fresh where there is no key.
    fn opened(&self, at: At, key: &[u8]) -> Option<(Option<&Held>, Value)> {
        let held = self.held(at.now_us, key);
        let mut value = held.map_or_else(|| Value::fresh(&at), |held| held.value.clone());
        value.books_mut(&at)?.mend(&at);
        Some((held, value))
    }

    /// Books nothing: the current numbers, and a key that is mended unless the cost is 0.
    fn idle(&self, at: At, key: &[u8]) -> Option<Outcome> {
        let (held, value) = self.opened(at, key)?;
        let five = five(&at, value.books(&at)?, 1, 0);
        let mended = held.filter(|_| at.rule.cost > 0).map(|_| self.stamp(&at, held, value, false));
        Some((true, five, mended.or(held.cloned())))
    }

    /// The heart: a decision, as it would be, and what it would leave behind.
    fn decide(&self, at: At, key: &[u8]) -> Option<Outcome> {
        let rule = at.rule;
        let (held, mut value) = self.opened(at, key)?;
        let books = value.books_mut(&at)?;
        let (_, mut idle, mended) = self.idle(at, key)?;
        if rule.cost == 0 || books.repeated(&at) {
            idle[0] = i64::from(!rule.partial);
            return Some((true, idle, mended));
        }

        let room = books.room(&at);
        let (need, grant, allowed) = match rule.partial {
            true => (1, rule.cost.min(room), rule.cost.min(room)),
            false => (rule.cost, rule.cost, 1),
        };
        // Of a queue: until everything booked before has drained.
        let turn = if rule.shape { books.reset(&at) } else { 0 };
        let late = rule.within_ms.map_or(0, |within| turn - i128::from(within));
        if need <= rule.limit && need <= room && late <= 0 {
            books.take(&at, grant);
            let five = five(&at, books, allowed, turn);
            return Some((true, five, Some(self.stamp(&at, held, value, true))));
        }
        let wait = match need {
            _ if need > rule.limit => -1,
            _ if need > room => books.wait_for(&at, need).max(late),
            _ => late,
        };
        let mut five = five(&at, books, 0, wait);
        let shuts = wait != -1 && !books.shut(&at);
        let (Value::Counter(counter), Some(block_ms)) = (&mut value, rule.block_ms.filter(|_| shuts)) else {
            return Some((false, five, mended));
        };
        counter.shut_for(&at, block_ms);
        let left = saturated(counter.reset(&at));
        five = [0, five[1], 0, left, left];
        Some((false, five, Some(self.stamp(&at, held, value, true))))
    }

    fn charge(&self, at: At, key: &[u8]) -> Option<Outcome> {
        let (held, mut value) = self.opened(at, key)?;
        let books = value.books_mut(&at)?;
        if at.rule.cost == 0 {
            return self.idle(at, key);
        }
        let booked = !books.shut(&at) && books.charge(&at, at.rule.cost);
        let wait = match books.room(&at) {
            _ if at.rule.limit == 0 => -1,
            0 => books.wait_for(&at, 1),
            _ => 0,
        };
        let within = at.rule.limit > 0 && books.spare(&at) >= 0;
        let five = five(&at, books, within.into(), wait);
        let stays = booked || held.is_some();
        Some((wait == 0, five, stays.then(|| self.stamp(&at, held, value, booked))))
    }

    fn refund(&self, at: At, key: &[u8]) -> Option<Outcome> {
        let (held, mut value) = self.opened(at, key)?;
        let books = value.books_mut(&at)?;
        if at.rule.cost == 0 {
            return Some((true, five(&at, books, 0, 0), held.cloned()));
        }
        let given = books.refund(&at, at.rule.cost);
        let five = five(&at, books, given, 0);
        let untouched = books.untouched(&at);
        let mut after = held.map(|_| self.stamp(&at, held, value, given > 0));
        if untouched && let Some(held) = &mut after {
            // Nothing to give back under these numbers: the key may be dropped, or stay for larger ones.
            held.gone_us = Some(held.gone_us.map_or(at.now_us, |gone| gone.min(at.now_us)));
        }
        Some((true, five, after.filter(|_| !untouched || given == 0)))
    }

    /// Every key is judged before any is touched. A refused whole mends, and shuts, but takes nothing.
    fn all(&mut self, now_us: i64, rules: &[(Key, Rule)]) -> Option<Answer> {
        let judge = |(key, rule): &(Key, Rule)| self.decide(At { now_us, rule }, key);
        let mut outcomes = rules.iter().map(judge).collect::<Option<Vec<Outcome>>>()?;
        let go = outcomes.iter().all(|(goes, ..)| *goes);
        let mut each = Vec::new();
        for ((key, rule), outcome) in rules.iter().zip(&mut outcomes) {
            if !go && outcome.0 {
                *outcome = self.idle(At { now_us, rule }, key)?;
            }
            each.push(outcome.1);
        }
        for ((key, _), (_, _, after)) in rules.iter().zip(outcomes) {
            self.store(key, after);
        }
        let longest = each.iter().map(|five| five[3]).max()?;
        let never = each.iter().any(|five| five[3] == -1);
        let (allowed, wait) = (go.into(), if never { -1 } else { longest });
        self.prove(now_us, rules, go, wait, None);
        Some(Answer::Whole { allowed, wait, each })
    }

    /// The key as a call leaves it, with the bounds of its TTL. A call that only mends makes no TTL shorter.
    fn stamp(&self, at: &At, before: Option<&Held>, value: Value, wrote: bool) -> Held {
        let (gone_us, full_ms) = value.books(at).unwrap().forget(at);
        let counter = matches!(value, Value::Counter(_));
        let mut after = self.set(value, gone_us, full_ms);
        let Some(before) = before.filter(|before| before.gone_us.is_some()) else {
            return after;
        };
        let shorter = !wrote && before.gone_us >= after.gone_us;
        // A window's end is the key's expiry; it is set once, however often the counter is.
        if if counter { before.gone_us == after.gone_us } else { shorter } {
            return Held { value: after.value, ..before.clone() };
        }
        if !counter {
            // A longer TTL left by other numbers may stay.
            after.latest_ms = after.latest_ms.max(before.latest_ms);
        }
        after
    }

    /// A key whose TTL is set now.
    fn set(&self, value: Value, gone_us: i64, full_ms: i64) -> Held {
        let (since, latest_ms) = (self.clock.count, (gone_us + 999).div_euclid(1000) + full_ms);
        Held { value, gone_us: Some(gone_us), latest_ms, since }
    }

    fn leases(&self, now_us: i64, key: &[u8]) -> Option<Leases> {
        match self.held(now_us, key).map(|held| &held.value) {
            None => Some(Leases::default()),
            Some(Value::Leases(leases)) => Some(leases.clone()),
            Some(_) => None,
        }
    }

    fn store_leases(&mut self, now_us: i64, key: Key, leases: Leases, lease_ms: i64) {
        let last_us = leases.last_us(now_us);
        let before_ms = self.held(now_us, &key).map_or(0, |held| held.latest_ms);
        let mut held = self.set(Value::Leases(leases), last_us, lease_ms);
        held.latest_ms = held.latest_ms.max(before_ms);
        self.keys.insert(key, held);
    }

    /// RENEW and RELEASE: how many different leases were touched.
    fn touch(
        &mut self,
        now_us: i64,
        key: Key,
        lease_ms: i64,
        mut ids: Vec<Key>,
        each: impl Fn(&mut Leases, &Key) -> bool,
    ) -> Option<Answer> {
        let mut leases = self.leases(now_us, &key)?;
        ids.sort();
        ids.dedup();
        let touched = ids.iter().filter(|id| each(&mut leases, id)).count();
        if touched > 0 && leases.last_us(now_us) == now_us {
            self.del(&key);
        } else if self.exists(now_us, &key) {
            self.store_leases(now_us, key, leases, lease_ms);
        }
        Some(Answer::Count(i64::try_from(touched).unwrap()))
    }
}

/// The five elements of a reply about these books.
fn five(at: &At, books: &dyn Books, allowed: i128, wait: i128) -> [i64; 5] {
    [allowed, at.rule.limit, books.room(at), wait, books.reset(at)].map(saturated)
}

/// Waits are capped at fifteen digits, capped last; no other element can exceed them.
fn saturated(value: i128) -> i64 {
    i64::try_from(value.min(MAX_UNITS)).unwrap()
}
