//! A clock that jumps to where decisions change.

use super::dice::Dice;
use super::model::Answer;

/// 2026-01-01 00:00:00 UTC.
pub const BEGIN_US: i64 = 1_767_225_600_000_000;
/// The year 2160: later instants would leave the sixteen digits with the next long pause.
const END_US: i64 = 6_000_000_000_000_000;
const YEAR_US: i64 = 365 * 86_400_000_000;

/// How the clock goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temper {
    /// Forward only.
    Forward,
    /// Now and then back by a little.
    Jittery,
    /// Now and then back by as much as it went forward.
    Wild,
    /// Forward by less than so many microseconds each time.
    Ticking(i64),
}

/// A clock that likes the edges which the last replies named.
pub struct Clock {
    pub now_us: i64,
    temper: Temper,
    /// So many of sixteen calls come at the instant of the one before.
    bursts: u64,
    /// Milliseconds that were told to wait.
    told: Vec<i64>,
}

impl Clock {
    pub fn new(temper: Temper, bursts: u64) -> Self {
        Self { now_us: BEGIN_US, temper, bursts, told: vec![1] }
    }

    /// Remembers the waits of a reply.
    pub fn hear(&mut self, answer: &Answer) {
        let fives: &[[i64; 5]] = match answer {
            Answer::Five(five) | Answer::Lease { five, .. } => &[*five],
            Answer::Whole { each, .. } => each,
            Answer::Count(_) | Answer::Refused => &[],
        };
        for [_, _, _, wait, reset] in fives {
            self.told.extend([*wait, *reset].into_iter().filter(|ms| *ms > 0));
        }
        self.told.drain(..self.told.len().saturating_sub(6));
    }

    pub fn step(&mut self, dice: &mut Dice) {
        if let Temper::Ticking(us) = self.temper {
            self.now_us += dice.time_below(us);
            return;
        }
        if dice.below(16) < self.bursts {
            return;
        }
        let told_us = dice.pick(&self.told).saturating_mul(1_000).min(20 * YEAR_US);
        let to_the_millisecond = 1_000 - self.now_us % 1_000;
        let step = match dice.below(16) {
            0..=2 => told_us / (2 + dice.time_below(30)),
            3 | 4 => 1 + dice.time_below(3),
            5 => to_the_millisecond - dice.time_below(2),
            6 | 7 => told_us,
            8 => told_us - 1_000,
            9 => told_us - 1,
            // The end of a window is a whole millisecond.
            10 => told_us - self.now_us % 1_000,
            11 => dice.time_below(1_500),
            12 => dice.time_below(told_us * 2 + 1),
            13 => told_us / (1 + dice.time_below(9)),
            14 if dice.once_in(12) => dice.time_below(3 * YEAR_US),
            14 => dice.time_below(10_000_000),
            _ => self.step_back(dice, told_us),
        };
        self.now_us = (self.now_us + step).max(BEGIN_US - YEAR_US);
        if self.now_us > END_US {
            self.now_us = BEGIN_US;
        }
    }

    fn step_back(&self, dice: &mut Dice, told_us: i64) -> i64 {
        match (self.temper, dice.below(4)) {
            (Temper::Forward, _) => 0,
            (_, 0) => -1 - dice.time_below(2_000),
            (Temper::Jittery, _) => -dice.time_below(told_us.min(2_000_000)),
            (_, 1) => -told_us,
            (_, 2) => -dice.time_below(told_us * 2 + 1),
            _ => -dice.time_below(7_200_000_000),
        }
    }
}
