//! FIXED: used units and the end of their window, which is the key's expiry.

use super::books::{At, Books};

const SHUT: i128 = 1_000_000_000_000_000_000;

#[derive(Clone, Debug, Default)]
pub struct Counter {
    pub used: i128,
    /// `None`: no TTL.
    pub end_ms: Option<i64>,
}

impl Counter {
    /// A counter of 0 is an unopened window; one whose end is reached is over.
    fn live(&self, at: &At) -> bool {
        self.used > 0 && self.end_ms.is_none_or(|end| at.now_ms() < end)
    }

    /// The first refusal with BLOCK: shut for the duration or to the window's end, whichever is later.
    pub fn shut_for(&mut self, at: &At, block_ms: i64) {
        self.used = SHUT;
        self.end_ms = self.end_ms.max(Some(at.now_ms() + block_ms));
    }
}

impl Books for Counter {
    /// The end of a shut key stays, if there is one.
    fn mend(&mut self, at: &At) {
        let (latest, mended) = at.rule.window.mending_ms(at.now_ms());
        let late = self.end_ms.is_none_or(|end| end > latest && self.used < SHUT);
        if self.live(at) && late {
            self.end_ms = Some(mended);
        }
    }

    fn spare(&self, at: &At) -> i128 {
        at.rule.limit - if self.live(at) { self.used } else { 0 }
    }

    fn wait_for(&self, at: &At, _units: i128) -> i128 {
        self.reset(at)
    }

    fn reset(&self, at: &At) -> i128 {
        let end_ms = self.end_ms.filter(|_| self.live(at));
        i128::from(end_ms.unwrap_or(at.now_ms()) - at.now_ms())
    }

    fn take(&mut self, at: &At, units: i128) {
        if !self.live(at) {
            self.used = 0;
            self.end_ms = Some(at.rule.window.end_ms(at.now_ms()));
        }
        self.used += units;
    }

    fn charge(&mut self, at: &At, units: i128) -> bool {
        let booked = units.min(self.spare(at) + at.rule.limit);
        if booked > 0 {
            self.take(at, booked);
        }
        booked > 0
    }

    fn refund(&mut self, at: &At, units: i128) -> i128 {
        let books = if self.live(at) && self.used < SHUT { self.used } else { 0 };
        self.used -= units.min(books);
        units.min(books)
    }

    fn forget(&self, at: &At) -> (i64, i64) {
        (self.end_ms.map_or(at.now_us, |end| end * 1000), 0)
    }

    fn shut(&self, at: &At) -> bool {
        self.live(at) && self.used >= SHUT
    }
}
