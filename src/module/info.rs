//! The INFO section, and the counters that it shows.
//!
//! Counters are bumped by the main thread alone, from the verdict and in one place.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU64, Ordering};

use redis_module::raw;

use super::api::setup::InfoSection;
use super::api::text::Word;
use super::{clock, guard, queue, top};
use crate::engine::Verdict;
use crate::engine::time::Micros;

/// A counter of the main thread.
pub struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// One more. Only the main thread writes, so no locked instruction is needed.
    pub fn bump(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// What the decisions of one kind came to.
pub struct Tally {
    /// Admissions.
    pub allowed: Counter,
    /// Refusals that a wait would cure.
    pub refused: Counter,
    /// Refusals that no wait cures.
    pub never: Counter,
    /// Calls that were wrong, or met a foreign value.
    pub errors: Counter,
}

impl Tally {
    const fn new() -> Self {
        Self { allowed: Counter::new(), refused: Counter::new(), never: Counter::new(), errors: Counter::new() }
    }

    /// Counts a verdict on a key, a refusal under the key's name as well. What was given back or booked is no decision.
    pub fn count(&self, verdict: Verdict, name: Word<'_>, now: Micros) {
        match verdict {
            Verdict::Allow { .. } => self.allowed.bump(),
            Verdict::Deny { .. } => {
                self.refused.bump();
                top::refused(name, now);
            }
            Verdict::Never => {
                self.never.bump();
                top::refused(name, now);
            }
            Verdict::Returned { .. } | Verdict::Booked { .. } => {}
        }
    }
}

/// All counters.
pub struct Counters {
    /// RL.FIXED.
    pub fixed: Tally,
    /// RL.SLIDING.
    pub sliding: Tally,
    /// RL.TOKEN.
    pub token: Tally,
    /// RL.LEAKY.
    pub leaky: Tally,
    /// RL.QUEUE.
    pub queue: Tally,
    /// RL.ALL.
    pub all: Tally,
    /// RL.ACQUIRE.
    pub lease: Tally,
    /// CL.THROTTLE.
    pub cell: Tally,
    /// RL.PEEK.
    pub peeks: Counter,
    /// RL.REFUND.
    pub refunds: Counter,
    /// RL.CHARGE.
    pub charges: Counter,
    /// RL.RENEW.
    pub renewals: Counter,
    /// RL.RELEASE.
    pub releases: Counter,
    /// Errors of the commands that have no tally.
    pub other_errors: Counter,
    panics: Counter,
}

/// The counters of this module.
pub static COUNTERS: Counters = Counters {
    fixed: Tally::new(),
    sliding: Tally::new(),
    token: Tally::new(),
    leaky: Tally::new(),
    queue: Tally::new(),
    all: Tally::new(),
    lease: Tally::new(),
    cell: Tally::new(),
    peeks: Counter::new(),
    refunds: Counter::new(),
    charges: Counter::new(),
    renewals: Counter::new(),
    releases: Counter::new(),
    other_errors: Counter::new(),
    panics: Counter::new(),
};

impl Counters {
    fn tallies(&self) -> [(&Tally, [&'static CStr; 4]); 8] {
        macro_rules! named {
            ($($tally:ident)*) => {
                [$((&self.$tally, [
                    cstr(concat!(stringify!($tally), "_allowed\0")),
                    cstr(concat!(stringify!($tally), "_refused\0")),
                    cstr(concat!(stringify!($tally), "_never\0")),
                    cstr(concat!(stringify!($tally), "_errors\0")),
                ])),*]
            };
        }
        named![fixed sliding token leaky queue all lease cell]
    }

    fn singles(&self) -> [(&Counter, &'static CStr); 7] {
        [
            (&self.peeks, c"peeks"),
            (&self.refunds, c"refunds"),
            (&self.charges, c"charges"),
            (&self.renewals, c"renewals"),
            (&self.releases, c"releases"),
            (&self.other_errors, c"other_errors"),
            (&self.panics, c"panics"),
        ]
    }
}

fn cstr(text: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(text.as_bytes()).unwrap_or(c"")
}

/// Counts a panic that the guard caught.
pub fn count_panic() {
    COUNTERS.panics.bump();
}

/// Starts counting from zero.
pub fn reset() {
    for (tally, _) in COUNTERS.tallies() {
        for counter in [&tally.allowed, &tally.refused, &tally.never, &tally.errors] {
            counter.reset();
        }
    }
    for (counter, _) in COUNTERS.singles() {
        counter.reset();
    }
}

/// Writes the section.
pub unsafe extern "C" fn write(context: *mut raw::RedisModuleInfoCtx, _for_crash_report: c_int) {
    guard::run("info", || {
        // SAFETY: the context that the server passed.
        let Some(section) = (unsafe { InfoSection::begin(context) }) else {
            return;
        };
        section.word(c"version", cstr(concat!(env!("CARGO_PKG_VERSION"), "\0")));
        section.word(c"clock_source", if clock::source() == "server" { c"server" } else { c"system" });
        for (tally, names) in COUNTERS.tallies() {
            let counters = [&tally.allowed, &tally.refused, &tally.never, &tally.errors];
            for (counter, name) in counters.into_iter().zip(names) {
                section.number(name, counter.get());
            }
        }
        for (counter, name) in COUNTERS.singles() {
            section.number(name, counter.get());
        }
        section.number(c"waiting", queue::waiting());
    });
}
