//! Seeded randomness: a seed names the same history for ever.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::harness::say;

/// Whether the long versions run: `RL_LONG=1`.
pub fn long() -> bool {
    std::env::var("RL_LONG").is_ok_and(|value| value == "1")
}

/// One number for everyday and one for the long version.
pub fn scaled(short: u64, long_version: u64) -> u64 {
    if long() { long_version } else { short }
}

/// A small generator of our own (splitmix64).
#[derive(Clone)]
pub struct Chance(u64);

impl Chance {
    /// A fresh seed, or the one of `RL_SEED`; either is printed.
    pub fn for_test(test: &str) -> Self {
        let told = std::env::var("RL_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = told.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            u64::from(now.subsec_nanos()) ^ (now.as_secs() << 20)
        });
        say(&format!("{test}: RL_SEED={seed}"));
        Self(seed)
    }

    /// An independent generator, for one of several threads.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.index(choices.len())]
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// So many random bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}
