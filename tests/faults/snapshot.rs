//! Everything a server holds: keys of two databases with type, serialised value and the instant of their end.

use std::collections::BTreeMap;

use crate::client::shown;
use crate::pipe::{Answer, Pipe};

/// The databases that random traffic uses.
pub const DATABASES: [u32; 2] = [0, 3];

#[derive(Debug, Clone, PartialEq)]
struct Held {
    kind: String,
    dump: Answer,
    end_ms: i64,
}

/// What a server held at one time.
pub struct Snapshot(BTreeMap<(u32, Vec<u8>), Held>);

impl Snapshot {
    pub fn of(pipe: &mut Pipe) -> Self {
        let mut held = BTreeMap::new();
        for database in DATABASES {
            pipe.good(&format!("SELECT {database}"));
            for key in pipe.good("KEYS *").list() {
                let key = key.bytes().to_vec();
                let mut ask = |word: &str| pipe.call(&[word.as_bytes(), &key]);
                let one = Held { kind: ask("TYPE").to_string(), dump: ask("DUMP"), end_ms: ask("PEXPIRETIME").int() };
                held.insert((database, key), one);
            }
        }
        pipe.good("SELECT 0");
        Self(held)
    }

    /// Compares all keys that end after `at_ms`, an instant after both were taken; gives back how many those are.
    #[track_caller]
    pub fn assert_same(&self, other: &Self, at_ms: i64, who: &str) -> usize {
        let living = |snapshot: &Self| -> BTreeMap<_, _> {
            let all = snapshot.0.iter().filter(|(_, held)| lives(held, at_ms));
            all.map(|(key, held)| (key.clone(), held.clone())).collect()
        };
        let (mine, theirs) = (living(self), living(other));
        for (key, held) in &mine {
            let name = shown(&[&key.1]);
            let found = theirs.get(key).unwrap_or_else(|| panic!("{who}: {name} is missing, {held:?}"));
            assert_eq!(held, found, "{who}: {name}");
        }
        assert_eq!(mine.len(), theirs.len(), "{who}: keys that nobody knows of");
        mine.len()
    }
}

fn lives(held: &Held, at_ms: i64) -> bool {
    held.end_ms == -1 || held.end_ms > at_ms
}
