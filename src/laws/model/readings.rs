//! What the server's clock has shown.

/// Which readings of the clock there were, kept so that the highest since any of them is at hand.
#[derive(Default)]
pub struct Readings {
    pub count: u64,
    /// Readings that no later one has reached: numbers ascending, instants descending.
    peaks: Vec<(u64, i64)>,
}

impl Readings {
    pub fn note(&mut self, now_us: i64) {
        self.count += 1;
        while self.peaks.last().is_some_and(|(_, peak)| *peak <= now_us) {
            self.peaks.pop();
        }
        self.peaks.push((self.count, now_us));
    }

    pub fn highest_since(&self, number: u64) -> i64 {
        let first = self.peaks.partition_point(|(at, _)| *at < number);
        self.peaks.get(first).map_or(i64::MIN, |(_, peak)| *peak)
    }
}
