//! ACQUIRE, RENEW, RELEASE: holders and the ends of their leases.

use super::words::Key;

#[derive(Clone, Debug, Default)]
pub struct Leases {
    held: Vec<(Key, i64)>,
    /// The latest end that was seen to be over. An earlier clock may count it.
    over_us: Option<i64>,
}

impl Leases {
    /// Forgets the leases that have ended. Leases are never mended.
    pub fn trim(&mut self, now_us: i64) {
        let over = self.held.iter().map(|(_, end)| *end).filter(|end| *end <= now_us);
        self.over_us = self.over_us.max(over.max());
        self.held.retain(|(_, end)| *end > now_us);
    }

    fn ends(&self, now_us: i64) -> Vec<i64> {
        let mut ends: Vec<i64> = self.held.iter().map(|(_, end)| *end).collect();
        ends.retain(|end| *end > now_us);
        ends.sort_unstable();
        ends
    }

    /// When the last one ends; now, if there is none.
    pub fn last_us(&self, now_us: i64) -> i64 {
        self.ends(now_us).last().copied().unwrap_or(now_us)
    }

    /// Whether the contract leaves open who holds, `gone` saying that the whole key may be gone.
    pub fn open(&self, now_us: i64, gone: bool) -> bool {
        self.over_us.is_some_and(|over| over > now_us) || gone && self.last_us(now_us) > now_us
    }

    /// What a new holder would get, and the reset of those that are there.
    pub fn look(&self, now_us: i64, limit: i128) -> [i64; 5] {
        let ends = self.ends(now_us);
        let limit = usize::try_from(limit).unwrap();
        let until = |end: i64| (end - now_us + 999) / 1000;
        let wait = match ends.len().checked_sub(limit) {
            _ if limit == 0 => -1,
            None => 0,
            // All but limit - 1 of them have to end.
            Some(beyond) => until(ends[beyond]),
        };
        let whole = |count: usize| i64::try_from(count).unwrap();
        let remaining = whole(limit.saturating_sub(ends.len() + 1));
        [i64::from(wait == 0), whole(limit), remaining, wait, until(self.last_us(now_us))]
    }

    /// An id that holds is renewed and not counted twice; limit 0 refuses it too.
    pub fn acquire(&mut self, now_us: i64, limit: i128, lease_ms: i64, id: &Key) -> [i64; 5] {
        self.trim(now_us);
        let mut five = self.look(now_us, limit);
        if limit > 0 && self.renew(now_us, lease_ms, id) {
            let spare = five[1] - i64::try_from(self.held.len()).unwrap();
            five = [1, five[1], spare.max(0), 0, 0];
        } else if five[0] == 1 {
            self.held.push((id.clone(), now_us + lease_ms * 1000));
        }
        five[4] = self.look(now_us, limit)[4];
        five
    }

    pub fn renew(&mut self, now_us: i64, lease_ms: i64, id: &Key) -> bool {
        self.trim(now_us);
        let lease = self.held.iter_mut().find(|(holder, _)| holder == id);
        lease.map(|(_, end)| *end = now_us + lease_ms * 1000).is_some()
    }

    pub fn release(&mut self, now_us: i64, id: &Key) -> bool {
        self.trim(now_us);
        let before = self.held.len();
        self.held.retain(|(holder, _)| holder != id);
        self.held.len() < before
    }
}
