//! The decisions: pure functions from a rule, a state and an instant to an answer and what is to be written.
//!
//! Every algorithm is a [`Policy`] on a state of its own. Four nouns cross the border of this room. A [`Rule`] says
//! what is asked; [`Loaded`] pairs whichever limiter it has with the state that was found, so that none can ever meet
//! another one's state; a [`Decision`] is the answer; a [`Write`] is what becomes of the key. Nothing here reads a
//! clock, touches a key, allocates on a hot path or can fail: a refusal is an answer, and everything that can be wrong
//! with words or stored bytes was sorted out before.
//! Beside the decisions, [`heavy`] counts whom they refuse most.

pub mod bucket;
pub mod buckets;
pub mod calendar;
pub mod fixed;
pub mod gcra;
pub mod heavy;
pub mod leaky;
pub mod lease;
pub mod rate;
pub mod sliding;
pub mod time;
pub mod token;

use rate::Amount;
use time::{LONGEST_MS, Micros, Millis, Span};

/// What one call asks of its limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Units asked for.
    pub cost: u64,
    /// Whether fewer units than asked for are welcome.
    pub partial: bool,
}

impl Ask {
    /// Nothing at all: the question for the current numbers.
    pub const NOTHING: Self = Self { cost: 0, partial: false };

    /// The units without which the call is refused.
    #[must_use]
    pub fn wanted(self) -> u64 {
        if self.partial { self.cost.min(1) } else { self.cost }
    }

    /// The units granted out of `room`, or `None` for a refusal.
    #[must_use]
    pub fn granted(self, room: u64) -> Option<u64> {
        (self.wanted() <= room).then(|| self.cost.min(room))
    }

    /// The first element of an admission's reply.
    #[must_use]
    pub const fn answer(self, granted: u64) -> u64 {
        if self.partial { granted } else { 1 }
    }
}

/// An algorithm with its numbers, as everybody sees it who wants it asked.
pub trait Policy {
    /// What it has to know of the past.
    type State;

    /// Takes the units asked for, or refuses.
    fn decide(&self, state: &Self::State, ask: Ask, now: Micros) -> (Decision, Write);

    /// Gives back units of work that did not happen.
    fn refund(&self, state: &Self::State, cost: u64, now: Micros) -> (Decision, Write);

    /// Books units whether or not they fit.
    fn charge(&self, state: &Self::State, cost: u64, now: Micros) -> (Decision, Write);

    /// Mends a state without taking anything, for a call of that cost.
    fn mend(&self, state: &Self::State, cost: u64, now: Micros) -> Write;

    /// Puts a question.
    #[inline(always)]
    fn answer(&self, verb: Verb, state: &Self::State, ask: Ask, now: Micros) -> (Decision, Write) {
        match verb {
            Verb::Decide => self.decide(state, ask, now),
            Verb::Refund => self.refund(state, ask.cost, now),
            Verb::Charge => self.charge(state, ask.cost, now),
        }
    }
}

/// A limiter with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter<'a> {
    /// A counter per window.
    Fixed(fixed::Fixed),
    /// An exact log of admissions.
    Sliding(sliding::Sliding<'a>),
    /// Counters of sub-windows.
    Buckets(buckets::Buckets),
    /// A token bucket.
    Token(token::Token),
    /// A leaky bucket.
    Leaky(leaky::Leaky),
}

/// A limiter and what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    /// The limiter.
    pub limiter: Limiter<'a>,
    /// What is asked of it.
    pub ask: Ask,
}

/// A limiter together with the state found under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded<'a> {
    /// A fixed window and its counter.
    Fixed(fixed::Fixed, Option<fixed::Counter>),
    /// A log's numbers, as far as the call needs them.
    Sliding(sliding::Sliding<'a>, sliding::Log),
    /// All sub-windows.
    Buckets(buckets::Buckets, buckets::SubWindows),
    /// A token bucket's stored balance.
    Token(token::Token, Option<bucket::Stored>),
    /// A leaky bucket's stored level.
    Leaky(leaky::Leaky, Option<bucket::Stored>),
}

/// The question that is put to a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// May these units pass? If so they are taken.
    Decide,
    /// These units did not happen after all.
    Refund,
    /// These units were used, whether or not they fit.
    Charge,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go ahead after `delay`; `answer` is 1, or with PARTIAL the units granted.
    Allow {
        /// The first element of the reply.
        answer: u64,
        /// How long to wait for one's turn.
        delay: Span,
    },
    /// Not yet: the same call succeeds after `wait` if nobody else spends.
    Deny {
        /// The shortest such wait.
        wait: Span,
    },
    /// Not with these numbers, however long one waits.
    Never,
    /// Units given back.
    Returned {
        /// How many.
        units: u64,
    },
    /// Units booked whether or not they fit.
    Booked {
        /// Whether the books are within the limit.
        within: bool,
        /// How long until a unit is left; `None` if there never will be.
        wait: Option<Span>,
    },
}

impl Verdict {
    /// Whether this is an admission.
    #[must_use]
    pub const fn is_allow(self) -> bool {
        matches!(self, Self::Allow { .. })
    }
}

/// The answer of one limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What was answered.
    pub verdict: Verdict,
    /// The limit or capacity of this call.
    pub limit: u64,
    /// Whole units left after this call.
    pub remaining: u64,
    /// Until the limiter is as good as untouched.
    pub reset: Span,
}

/// What becomes of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// It stays exactly as it is.
    Keep,
    /// A change, and the new instant of expiry if that moves.
    Put(Change, Option<Millis>),
    /// It is deleted.
    Drop,
}

impl Write {
    /// An expiry that moves, or nothing at all.
    #[must_use]
    pub const fn expiry(at: Option<Millis>) -> Self {
        match at {
            Some(at) => Self::Put(Change::Nothing, Some(at)),
            None => Self::Keep,
        }
    }
}

/// A change of a stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The value stays; only the expiry moves.
    Nothing,
    /// The counter becomes `used`.
    Count {
        /// Its new value.
        used: u64,
    },
    /// A bucket's amount as of an instant.
    Level {
        /// Tokens left, or the level.
        amount: Amount,
        /// The instant that the amount is true of.
        at: Micros,
    },
    /// A bucket's instant alone: it lay in the future.
    Stamp {
        /// The present.
        at: Micros,
    },
    /// Entries of a log.
    Log(sliding::LogChange),
    /// Fields of sub-windows.
    SubWindows(buckets::FieldChange),
}

/// When a key that must be remembered for `needed` from now shall expire, if its expiry has to move for that.
///
/// A key that already lives long enough is left alone, and so is one that need not be remembered any more; otherwise it
/// gets `slack` on top, so that a busy key moves its expiry once in a while instead of at every call. What is needed
/// for longer than an expiry may be away is covered by none; there half of that way is enough, or every refusal would
/// move the expiry by the moment that has passed.
#[must_use]
#[inline(always)]
pub fn moved_expiry(
    current: Option<Millis>,
    now: Micros,
    needed: Span,
    slack: impl FnOnce() -> Span,
) -> Option<Millis> {
    match current {
        Some(current) if needed == Span::ZERO || lasts(current, now, needed) => None,
        _ => Some(now.ceil_ms_after(needed).plus_ceil(slack()).at_most_longest_after(now.floor_ms())),
    }
}

/// Whether an expiry is late enough for what is needed from now.
#[inline(always)]
fn lasts(expiry: Millis, now: Micros, needed: Span) -> bool {
    // Of nearly all keys this is known without a division.
    expiry.is_after(now, needed) || {
        let farthest = if needed > Span::from_ms(LONGEST_MS) { LONGEST_MS / 2 } else { LONGEST_MS };
        expiry >= now.floor_ms().plus_ceil(Span::from_ms(farthest))
    }
}

/// Does the same with whichever limiter was loaded, and its state.
macro_rules! whichever {
    ($loaded:expr, $rule:ident, $state:ident => $answer:expr) => {
        match $loaded {
            Loaded::Fixed($rule, $state) => $answer,
            Loaded::Sliding($rule, $state) => $answer,
            Loaded::Buckets($rule, $state) => $answer,
            Loaded::Token($rule, $state) => $answer,
            Loaded::Leaky($rule, $state) => $answer,
        }
    };
}

/// Puts a question to a limiter.
#[must_use]
pub fn answer(verb: Verb, loaded: &Loaded<'_>, ask: Ask, now: Micros) -> (Decision, Write) {
    whichever!(loaded, rule, state => rule.answer(verb, state, ask, now))
}

/// Takes the units asked for, or refuses.
#[must_use]
pub fn decide(loaded: &Loaded<'_>, ask: Ask, now: Micros) -> (Decision, Write) {
    answer(Verb::Decide, loaded, ask, now)
}

/// Mends a state without taking anything: what a call does that was willing in a whole that was refused.
#[must_use]
pub fn mend(loaded: &Loaded<'_>, cost: u64, now: Micros) -> Write {
    whichever!(loaded, rule, state => rule.mend(state, cost, now))
}

impl Rule<'_> {
    /// The same rule without the option that shuts a door: a look must not promise what only a call does.
    #[must_use]
    pub const fn without_block(mut self) -> Self {
        if let Limiter::Fixed(fixed) = &mut self.limiter {
            fixed.block = None;
        }
        self
    }
}
