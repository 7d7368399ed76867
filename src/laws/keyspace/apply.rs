//! From what the engine decided to the values under keys, and to effects, as the module writes them.

use super::{Keyspace, number};
use crate::engine::buckets::FieldChange;
use crate::engine::sliding::{LogChange, Sliding};
use crate::engine::time::{Micros, Millis};
use crate::engine::{Change, Limiter, Rule, Write};
use crate::laws::native::Bytes;
use crate::storage::record;

impl Keyspace {
    pub fn effect(&mut self, words: &[&[u8]]) {
        self.effects.push(words.iter().map(|word| word.to_vec()).collect());
    }

    pub fn effect_on(&mut self, name: &[u8], key: &[u8], members: &[Bytes]) {
        if !members.is_empty() {
            let members = members.iter().map(Vec::as_slice);
            self.effect(&[name, key].into_iter().chain(members).collect::<Vec<_>>());
        }
    }

    pub fn apply(&mut self, key: &[u8], rule: &Rule<'_>, write: &Write, now: Micros) {
        match write {
            Write::Keep => {}
            Write::Drop => self.drop_key(key),
            Write::Put(Change::Count { used }, expiry) => self.put_counter(key, *used, *expiry),
            Write::Put(change, expiry) => {
                match change {
                    Change::Nothing | Change::Count { .. } => {}
                    Change::Level { amount, at } => {
                        let field =
                            if matches!(rule.limiter, Limiter::Token(_)) { record::TOKENS } else { record::LEVEL };
                        let amount = record::amount(*amount);
                        self.put_fields(key, &[(field, amount.as_bytes()), (record::TS, &number(at.get()))]);
                    }
                    Change::Stamp { at } => self.put_fields(key, &[(record::TS, &number(at.get()))]),
                    Change::Log(change) => self.put_log(key, rule, *change, now),
                    Change::SubWindows(change) => self.put_sub_windows(key, change),
                }
                self.move_expiry(key, *expiry);
            }
        }
    }

    pub fn drop_key(&mut self, key: &[u8]) {
        self.keys.remove(key);
        self.effect(&[b"DEL", key]);
    }

    pub fn move_expiry(&mut self, key: &[u8], expiry: Option<Millis>) {
        if let Some(at) = expiry {
            self.keys.set_expiry(key, Some(at.get()));
            self.effect(&[b"PEXPIREAT", key, &number(at.get())]);
        }
    }

    fn put_counter(&mut self, key: &[u8], used: u64, expiry: Option<Millis>) {
        let written = record::number(used).as_bytes().to_vec();
        *self.keys.text(key) = written.clone();
        match expiry {
            None => self.effect(&[b"SET", key, &written, b"KEEPTTL"]),
            Some(end) => {
                self.keys.set_expiry(key, Some(end.get()));
                self.effect(&[b"SET", key, &written, b"PXAT", &number(end.get())]);
            }
        }
    }

    fn put_fields(&mut self, key: &[u8], fields: &[(&[u8], &[u8])]) {
        for (field, value) in fields {
            self.keys.hash(key).insert(field.to_vec(), value.to_vec());
        }
        let pairs = fields.iter().flat_map(|(field, value)| [*field, *value]);
        self.effect(&[b"HSET".as_slice(), key].into_iter().chain(pairs).collect::<Vec<_>>());
    }

    fn put_sub_windows(&mut self, key: &[u8], change: &FieldChange) {
        let fields: Vec<(Bytes, Bytes)> = change
            .set
            .iter()
            .map(|field| (number(field.end.get()), record::number(field.units).as_bytes().to_vec()))
            .collect();
        if !fields.is_empty() {
            let fields: Vec<_> = fields.iter().map(|(end, units)| (end.as_slice(), units.as_slice())).collect();
            self.put_fields(key, &fields);
        }
        let gone: Vec<Bytes> = change.delete.iter().map(|end| number(end.get())).collect();
        for end in &gone {
            self.keys.hash(key).remove(end);
        }
        self.effect_on(b"HDEL", key, &gone);
        self.keys.drop_if_empty(key);
    }

    fn put_log(&mut self, key: &[u8], rule: &Rule<'_>, change: LogChange, now: Micros) {
        let Limiter::Sliding(sliding) = rule.limiter else { return };
        self.take_out(key, &sliding, change.take_out);
        self.mend_future(key, change.mend, now);
        self.add_units(key, &sliding, change.add, now);
        self.trim(key, now.minus_us(sliding.period), change.trim);
    }

    fn take_out(&mut self, key: &[u8], rule: &Sliding<'_>, units: u64) {
        let mut gone = Vec::new();
        for index in 0..units {
            let set = self.keys.set(key);
            let member = match rule.id {
                Some(id) => record::id_member(index, id).as_bytes().to_vec(),
                None => set.iter().next_back().expect("there are so many units").1.to_vec(),
            };
            set.remove(&member);
            gone.push(member);
        }
        self.effect_on(b"ZREM", key, &gone);
    }

    fn mend_future(&mut self, key: &[u8], most: u64, now: Micros) {
        let mut mended = Vec::new();
        for _ in 0..most {
            let set = self.keys.set(key);
            let Some(member) = set.above(now.get()).next_back().map(|(_, member)| member.to_vec()) else { break };
            set.add(now.get(), &member);
            mended.push(member);
        }
        self.effect_scores(key, now, &mended);
    }

    fn effect_scores(&mut self, key: &[u8], now: Micros, members: &[Bytes]) {
        let score = number(now.get());
        let pairs: Vec<Bytes> = members.iter().flat_map(|member| [score.clone(), member.clone()]).collect();
        self.effect_on(b"ZADD", key, &pairs);
    }

    fn add_units(&mut self, key: &[u8], rule: &Sliding<'_>, units: u64, now: Micros) {
        let mut added = Vec::new();
        let mut next = now.get();
        for index in 0..units {
            let set = self.keys.set(key);
            let member = match rule.id {
                Some(id) => record::id_member(index, id).as_bytes().to_vec(),
                None => {
                    while set.score(&number(next)).is_some() {
                        next += 1;
                    }
                    number(next)
                }
            };
            set.add(now.get(), &member);
            added.push(member);
        }
        self.effect_scores(key, now, &added);
    }

    pub fn trim(&mut self, key: &[u8], cutoff: i64, most: u64) {
        let most = usize::try_from(most).unwrap();
        let set = self.keys.set(key);
        let gone: Vec<Bytes> = set.up_to(cutoff).take(most).map(|(_, member)| member.to_vec()).collect();
        for member in &gone {
            set.remove(member);
        }
        if let Some(last) = gone.len().checked_sub(1) {
            self.effect(&[b"ZREMRANGEBYRANK", key, b"0", last.to_string().as_bytes()]);
        }
    }
}
