//! A server's keys in memory: values, expiries and the native commands that change them.

use std::collections::{BTreeMap, BTreeSet};

/// A key's or a member's bytes.
pub type Bytes = Vec<u8>;

/// A native command, the name first.
pub type Words = Vec<Bytes>;

/// A sorted set, in the order of (score, member).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortedSet {
    scores: BTreeMap<Bytes, i64>,
    order: BTreeSet<(i64, Bytes)>,
}

impl SortedSet {
    pub fn add(&mut self, score: i64, member: &[u8]) {
        if let Some(old) = self.scores.insert(member.to_vec(), score) {
            self.order.remove(&(old, member.to_vec()));
        }
        self.order.insert((score, member.to_vec()));
    }

    pub fn remove(&mut self, member: &[u8]) {
        if let Some(score) = self.scores.remove(member) {
            self.order.remove(&(score, member.to_vec()));
        }
    }

    pub fn score(&self, member: &[u8]) -> Option<i64> {
        self.scores.get(member).copied()
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Every element, the lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i64, &[u8])> {
        self.order.iter().map(|(score, member)| (*score, member.as_slice()))
    }

    /// The elements above a score, the lowest first.
    pub fn above(&self, score: i64) -> impl DoubleEndedIterator<Item = (i64, &[u8])> {
        self.order.range((score + 1, Vec::new())..).map(|(score, member)| (*score, member.as_slice()))
    }

    /// The elements up to and at a score, the lowest first.
    pub fn up_to(&self, score: i64) -> impl DoubleEndedIterator<Item = (i64, &[u8])> {
        self.order.range(..(score + 1, Vec::new())).map(|(score, member)| (*score, member.as_slice()))
    }
}

/// What stands under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(Bytes),
    Hash(BTreeMap<Bytes, Bytes>),
    Set(SortedSet),
    /// A list, say: nothing that a limiter is kept in.
    Other,
}

impl Value {
    /// Fields or members.
    pub fn elements(&self) -> usize {
        match self {
            Self::Hash(hash) => hash.len(),
            Self::Set(set) => set.len(),
            Self::Text(_) | Self::Other => 0,
        }
    }
}

/// A key's value and the millisecond after which it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub value: Value,
    pub expiry: Option<i64>,
}

/// All keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Database(BTreeMap<Bytes, Entry>);

impl Database {
    /// The key as it stands, expired or not.
    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.0.get(key)
    }

    /// Whether the server would find that the key has expired: only when its millisecond is over.
    pub fn has_expired(&self, key: &[u8], now_ms: i64) -> bool {
        self.get(key).and_then(|entry| entry.expiry).is_some_and(|expiry| now_ms > expiry)
    }

    pub fn remove(&mut self, key: &[u8]) {
        self.0.remove(key);
    }

    pub fn insert(&mut self, key: &[u8], value: Value, expiry: Option<i64>) {
        self.0.insert(key.to_vec(), Entry { value, expiry });
    }

    pub fn set_expiry(&mut self, key: &[u8], expiry: Option<i64>) {
        if let Some(entry) = self.0.get_mut(key) {
            entry.expiry = expiry;
        }
    }

    /// The text under a key, made if there is none; its expiry stays.
    pub fn text(&mut self, key: &[u8]) -> &mut Bytes {
        match &mut self.entry(key, || Value::Text(Bytes::new())).value {
            Value::Text(text) => text,
            other => panic!("not a string: {other:?}"),
        }
    }

    /// The hash under a key, made if there is none.
    pub fn hash(&mut self, key: &[u8]) -> &mut BTreeMap<Bytes, Bytes> {
        match &mut self.entry(key, || Value::Hash(BTreeMap::new())).value {
            Value::Hash(hash) => hash,
            other => panic!("not a hash: {other:?}"),
        }
    }

    /// The sorted set under a key, made if there is none.
    pub fn set(&mut self, key: &[u8]) -> &mut SortedSet {
        match &mut self.entry(key, || Value::Set(SortedSet::default())).value {
            Value::Set(set) => set,
            other => panic!("not a sorted set: {other:?}"),
        }
    }

    fn entry(&mut self, key: &[u8], fresh: impl FnOnce() -> Value) -> &mut Entry {
        self.0.entry(key.to_vec()).or_insert_with(|| Entry { value: fresh(), expiry: None })
    }

    /// A hash or a sorted set without elements is no key.
    pub fn drop_if_empty(&mut self, key: &[u8]) {
        let empty = match self.get(key).map(|entry| &entry.value) {
            Some(Value::Hash(hash)) => hash.is_empty(),
            Some(Value::Set(set)) => set.len() == 0,
            _ => false,
        };
        if empty {
            self.remove(key);
        }
    }

    /// What a replica, or a reader of the append-only file, does with an effect.
    pub fn replay(&mut self, words: &[Bytes]) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match *words {
            [b"DEL" | b"UNLINK", key] => self.remove(key),
            [b"PEXPIREAT", key, at] => self.set_expiry(key, Some(integer(at))),
            [b"SET", key, text, b"PXAT", at] => self.insert(key, Value::Text(text.to_vec()), Some(integer(at))),
            [b"SET", key, text, b"KEEPTTL"] => *self.text(key) = text.to_vec(),
            [b"HSET", key, ref pairs @ ..] => {
                for pair in pairs.chunks(2) {
                    self.hash(key).insert(pair[0].to_vec(), pair[1].to_vec());
                }
            }
            [b"HDEL", key, ref fields @ ..] => {
                for field in fields {
                    self.hash(key).remove(*field);
                }
                self.drop_if_empty(key);
            }
            [b"ZADD", key, ref pairs @ ..] => {
                for pair in pairs.chunks(2) {
                    self.set(key).add(integer(pair[0]), pair[1]);
                }
            }
            [b"ZREM", key, ref members @ ..] => self.take_out(key, members.iter().map(|member| member.to_vec())),
            [b"ZREMRANGEBYRANK", key, b"0", last] => {
                let count = usize::try_from(integer(last)).unwrap() + 1;
                let lowest: Vec<Bytes> = self.set(key).iter().take(count).map(|(_, member)| member.to_vec()).collect();
                self.take_out(key, lowest.into_iter());
            }
            _ => panic!("no effect is written like that: {words:?}"),
        }
    }

    fn take_out(&mut self, key: &[u8], members: impl Iterator<Item = Bytes>) {
        for member in members {
            self.set(key).remove(&member);
        }
        self.drop_if_empty(key);
    }
}

/// A plain integer.
fn integer(text: &[u8]) -> i64 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}
