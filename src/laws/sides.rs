//! The engine and the model live through the same events, and are compared.

use super::keyspace::{Keyspace, MOST_IN_LOG};
use super::model::{Answer, Model};
use super::native::{SortedSet, Value};
use crate::engine::time::LONGEST_MS;
use crate::storage::record;

/// What happens at an instant.
#[derive(Clone, Debug)]
pub enum Act {
    Call(Vec<String>),
    Delete(String),
    Persist(String),
    SetCounter(String, i64, Option<i64>),
    SetForeign(String, usize),
}

#[derive(Clone, Debug)]
pub struct Event {
    pub now_us: i64,
    pub act: Act,
}

/// The engine behind its keyspace, and the model.
pub struct Sides {
    keyspace: Keyspace,
    model: Model,
    highest_us: i64,
}

/// What came of an event.
pub struct Outcome {
    pub answer: Answer,
    pub open: bool,
    pub wrote: bool,
    /// Fields or members of the first key.
    pub elements: usize,
}

/// Values of somebody else.
fn foreign(kind: usize) -> Value {
    let texts: [&[u8]; 5] = [b"007", b"-1", b"", b"hello", b"9223372036854775808"];
    match kind {
        0..5 => Value::Text(texts[kind].to_vec()),
        5 => Value::Hash([(b"name".to_vec(), b"ann".to_vec())].into()),
        6 => Value::Hash([(b"tokens".to_vec(), b"1".to_vec()), (b"ts".to_vec(), b"1767225600".to_vec())].into()),
        7 => {
            let mut leaderboard = SortedSet::default();
            leaderboard.add(17, b"ann");
            Value::Set(leaderboard)
        }
        _ => Value::Other,
    }
}

impl Sides {
    pub fn new() -> Self {
        Self { keyspace: Keyspace::default(), model: Model::new(MOST_IN_LOG), highest_us: 0 }
    }

    /// Lets both sides live through an event; an error says how they differ.
    pub fn live(&mut self, event: &Event) -> Result<Option<Outcome>, String> {
        let now_us = event.now_us;
        self.highest_us = self.highest_us.max(now_us);
        self.model.shows(now_us);
        match &event.act {
            Act::Call(words) => return self.call(now_us, words).map(Some),
            Act::Delete(key) => self.forget(key.as_bytes()),
            Act::Persist(key) => {
                // Not of a key that may be gone already.
                let here =
                    self.model.forget_at(key.as_bytes()).is_some_and(|(first, _)| first > self.highest_us / 1_000 + 1);
                if here && self.keyspace.keys.get(key.as_bytes()).is_some() {
                    self.model.persist(key.as_bytes());
                    self.keyspace.keys.set_expiry(key.as_bytes(), None);
                }
            }
            Act::SetCounter(key, used, end_ms) => {
                self.model.set_counter(key.as_bytes(), *used, *end_ms);
                self.keyspace.keys.insert(key.as_bytes(), Value::Text(used.to_string().into_bytes()), *end_ms);
            }
            Act::SetForeign(key, kind) => {
                self.model.set_foreign(key.as_bytes());
                self.keyspace.keys.insert(key.as_bytes(), foreign(*kind), None);
            }
        }
        Ok(None)
    }

    fn forget(&mut self, key: &[u8]) {
        self.model.del(key);
        self.keyspace.keys.remove(key);
    }

    fn call(&mut self, now_us: i64, words: &[String]) -> Result<Outcome, String> {
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let keys: Vec<&[u8]> =
            if words[0] == b"RL.ALL" { words[1..].iter().step_by(2).copied().collect() } else { vec![words[1]] };
        let open = self.model.ambiguous(now_us, &words) || self.is_left_open(now_us, words[0], &keys);
        if open {
            for key in &keys {
                self.forget(key);
            }
        }
        // How long a counter of 0 stays is left open too.
        for key in &keys {
            let zero = self.keyspace.keys.get(key).is_some_and(|entry| entry.value == Value::Text(b"0".to_vec()));
            if zero && !self.model.exists(now_us, key) {
                self.forget(key);
            }
        }
        let made = self.keyspace.next_id();
        let answer = self.keyspace.call(now_us, &words);
        let made = made != self.keyspace.next_id();
        let expected = if made {
            let id = format!("made-{}", self.made_before());
            self.model.acquire_as(now_us, &words, id.as_bytes())
        } else {
            self.model.call(now_us, &words)
        };
        if answer != expected {
            return Err(format!("the engine answers {answer:?} {}, the model {expected:?}", self.keyspace.error));
        }
        if answer == Answer::Refused && !self.keyspace.effects.is_empty() {
            return Err("an error left a trace".to_owned());
        }
        // Questions do not look at the expiry, and calls that touch no lease neither: leases are not mended.
        let leases = matches!(answer, Answer::Lease { .. } | Answer::Count(_));
        if !self.keyspace.effects.is_empty() || !(leases || is_question(&words)) {
            keys.iter().try_for_each(|key| self.compare_expiry(now_us, key))?;
        }
        let elements = self.keyspace.keys.get(keys[0]).map_or(0, |entry| entry.value.elements());
        Ok(Outcome { answer, open, wrote: !self.keyspace.effects.is_empty(), elements })
    }

    /// Of a log with entries in the future two things are left open: whether a refund tells them apart by when they
    /// were made or, as they count as now, by their members alone; and how many of them a call mends that trims too.
    fn is_left_open(&self, now_us: i64, command: &[u8], keys: &[&[u8]]) -> bool {
        let most = if command == b"RL.REFUND" { 0 } else { 240 };
        keys.iter().any(|key| match self.keyspace.keys.get(key).map(|entry| &entry.value) {
            Some(Value::Set(set)) => set.above(now_us).count() > most && !is_lease_set(set),
            _ => false,
        })
    }

    fn made_before(&self) -> u64 {
        let next = String::from_utf8(self.keyspace.next_id()).unwrap();
        next.trim_start_matches("made-").parse::<u64>().unwrap() - 1
    }

    /// The key's expiry lies within the model's bounds; without a key there is nothing to remember.
    fn compare_expiry(&self, now_us: i64, key: &[u8]) -> Result<(), String> {
        let now_ms = now_us / 1_000;
        let entry = self.keyspace.keys.get(key);
        let bounds = self.model.forget_at(key);
        let unopened = self.model.counter(now_us, key).is_some_and(|(used, _)| used == 0)
            || entry.is_some_and(|entry| entry.value == Value::Text(b"0".to_vec()));
        let wrong = match (entry, bounds) {
            // A counter of 0 is an unopened window, whatever its end.
            _ if unopened => false,
            (None, Some((first, _))) => first > self.highest_us / 1_000 + 1,
            (None, None) => self.model.exists(now_us, key),
            (Some(entry), None) => entry.expiry.is_some() && !self.keyspace.keys.has_expired(key, now_ms),
            // One millisecond for the rounding of either part. What is as good as absent by any reading of the clock
            // needs no time to live. A debt that no time to live covered when it was booked has half of the longest;
            // here it is not known which ones those were.
            (Some(entry), Some((first, last))) => {
                let first = if first - now_ms > LONGEST_MS / 2 { LONGEST_MS / 2 } else { first };
                let needed = first > self.highest_us / 1_000 + 1;
                entry.expiry.is_none_or(|at| at < first && needed || at > last + 2)
            }
        };
        if wrong {
            return Err(format!(
                "the key's expiry is {:?}, the model says {bounds:?}",
                entry.map(|entry| entry.expiry)
            ));
        }
        Ok(())
    }
}

fn is_lease_set(set: &SortedSet) -> bool {
    set.iter().next().is_some_and(|(_, member)| record::is_lease_member(member))
}

/// Whether a call may write nothing, whatever it finds.
fn is_question(words: &[&[u8]]) -> bool {
    let text = words.join(&b' ').to_ascii_uppercase();
    words[0] == b"RL.PEEK" || text.windows(7).any(|part| part == b"COST 0 ") || text.ends_with(b"COST 0")
}
