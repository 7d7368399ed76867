//! Effects: what a call did, in the words of native commands, and the traces it leaves for watchers and listeners.

use std::ffi::{CStr, c_int};

use super::api::Call;
use super::api::key::Key;
use super::api::text::{self, Command, Owned, Word};

/// A native command that a call comes down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// SET with KEEPTTL.
    Set,
    /// SET with PXAT.
    SetUntil,
    /// HSET.
    HSet,
    /// HDEL.
    HDel,
    /// ZADD.
    ZAdd,
    /// ZREM.
    ZRem,
    /// ZREMRANGEBYRANK.
    ZRemRangeByRank,
    /// PEXPIREAT.
    PExpireAt,
    /// DEL.
    Del,
    /// UNLINK.
    Unlink,
}

const GENERIC: c_int = 1 << 2;
const STRING: c_int = 1 << 3;
const HASH: c_int = 1 << 6;
const SORTED_SET: c_int = 1 << 7;

/// The bits of an effect's number.
const EFFECT_BITS: u32 = 4;
/// All of them.
const EFFECT_MASK: u32 = (1 << EFFECT_BITS) - 1;

impl Effect {
    const ALL: [Self; 10] = [
        Self::Set,
        Self::SetUntil,
        Self::HSet,
        Self::HDel,
        Self::ZAdd,
        Self::ZRem,
        Self::ZRemRangeByRank,
        Self::PExpireAt,
        Self::Del,
        Self::Unlink,
    ];

    /// Its number, from 1.
    const fn number(self) -> u32 {
        self as u32 + 1
    }

    /// The effect of a number; none of 0.
    fn numbered(number: u32) -> Option<Self> {
        usize::try_from(number.checked_sub(1)?).ok().and_then(|index| Self::ALL.get(index)).copied()
    }

    /// The command, and the events that it fires.
    const fn described(self) -> (&'static Command, &'static [(c_int, &'static CStr)]) {
        match self {
            Self::Set => (&text::SET, &[(STRING, c"set")]),
            Self::SetUntil => (&text::SET, &[(STRING, c"set"), (GENERIC, c"expire")]),
            Self::HSet => (&text::HSET, &[(HASH, c"hset")]),
            Self::HDel => (&text::HDEL, &[(HASH, c"hdel")]),
            Self::ZAdd => (&text::ZADD, &[(SORTED_SET, c"zadd")]),
            Self::ZRem => (&text::ZREM, &[(SORTED_SET, c"zrem")]),
            Self::ZRemRangeByRank => (&text::ZREMRANGEBYRANK, &[(SORTED_SET, c"zremrangebyrank")]),
            Self::PExpireAt => (&text::PEXPIREAT, &[(GENERIC, c"expire")]),
            Self::Del => (&text::DEL, &[(GENERIC, c"del")]),
            Self::Unlink => (&text::UNLINK, &[(GENERIC, c"del")]),
        }
    }
}

/// What a call did to a key, to be told once the key is closed: at most eight effects, in order.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// Four bits for each effect, its number from 1, the first in the lowest bits.
    effects: u32,
    /// Where the next one goes.
    end: u32,
}

impl Trace {
    /// Nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self { effects: 0, end: 0 }
    }

    /// Hands an effect to replicas and the append-only file.
    #[inline(always)]
    pub fn replicate(&mut self, call: Call<'_>, effect: Effect, words: &[Word<'_>]) {
        call.replicate(effect.described().0, words);
        self.effects |= effect.number().checked_shl(self.end).unwrap_or(0);
        self.end += EFFECT_BITS;
    }

    /// An effect on some members or fields of a key; none if there are none.
    pub fn replicate_members(&mut self, key: &Key<'_>, effect: Effect, members: &[Owned]) {
        if members.is_empty() {
            return;
        }
        let words: Vec<_> = std::iter::once(key.name()).chain(members.iter().map(Owned::word)).collect();
        self.replicate(key.call(), effect, &words);
    }

    /// ZADD of some members with one score.
    pub fn replicate_scores(&mut self, key: &Key<'_>, score: &Owned, members: &[Owned]) {
        if members.is_empty() {
            return;
        }
        let pairs = members.iter().flat_map(|member| [score.word(), member.word()]);
        let words: Vec<_> = std::iter::once(key.name()).chain(pairs).collect();
        self.replicate(key.call(), Effect::ZAdd, &words);
    }

    /// Tells listeners; the key must be closed by now.
    #[inline(always)]
    pub fn tell(&self, call: Call<'_>, name: Word<'_>) {
        let mut rest = self.effects;
        while let Some(effect) = Effect::numbered(rest & EFFECT_MASK) {
            for (class, event) in effect.described().1 {
                call.notify(*class, event, name);
            }
            rest >>= EFFECT_BITS;
        }
    }
}
