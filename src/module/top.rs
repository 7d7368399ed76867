//! RL.TOP: which keys are refused most right now.
//!
//! Off unless `rl.top-size` says how many rows to keep; then every refusal is counted under its key's name. The rows
//! belong to this server and to nobody else: nothing of them is stored or replicated.

use std::cell::RefCell;

use super::api::Call;
use super::api::text::Word;
use super::run::Outcome;
use super::{clock, config};
use crate::commands::error::Fault;
use crate::commands::verbs;
use crate::engine::heavy::HeavyHitters;
use crate::engine::time::Micros;

/// An empty list would look as if nobody were refused.
const OFF: &str = "refusals are not counted by key while rl.top-size is 0: CONFIG SET rl.top-size 100 begins it";

thread_local! {
    static REFUSED: RefCell<Option<HeavyHitters>> = const { RefCell::new(None) };
}

/// Begins anew with so many rows; with none nothing is counted.
pub fn restart(rows: u64) {
    let rows = usize::try_from(rows).unwrap_or(0);
    REFUSED.set((rows > 0).then(|| HeavyHitters::new(rows)));
}

/// Counts a refusal, if anybody wants to know. Refusals are what an attack is made of: without rows this is one look at
/// the setting.
pub fn refused(name: Word<'_>, now: Micros) {
    if config::counts_by_key() {
        count(name, now);
    }
}

#[inline(never)]
fn count(name: Word<'_>, now: Micros) {
    REFUSED.with_borrow_mut(|heavy| {
        if let Some(heavy) = heavy {
            heavy.count(name.bytes(), now);
        }
    });
}

/// RL.TOP.
pub fn top(call: Call<'_>) -> Outcome {
    let most = verbs::top(&mut call.words(1))?;
    let most = usize::try_from(most).unwrap_or(0);
    REFUSED.with_borrow_mut(|heavy| {
        let Some(heavy) = heavy else { return Err(Fault::new(OFF).into()) };
        let rows: Vec<_> = heavy.rows(clock::now()).take(most).collect();
        call.array(rows.len());
        for row in rows {
            call.array(3);
            call.bytes(row.name);
            for number in [row.count, row.error] {
                call.integer(i64::try_from(number).unwrap_or(i64::MAX));
            }
        }
        Ok(())
    })
}
