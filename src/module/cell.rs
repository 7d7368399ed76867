//! CL.THROTTLE, for a server on which redis-cell was: the same order as in [`super::run`], on redis-cell's strings.

use super::api::Call;
use super::api::key::{Key, Mode, Type};
use super::info::COUNTERS;
use super::keys::{self, Foreign};
use super::replicate::Trace;
use super::run::{Failure, Outcome};
use super::{clock, guard};
use crate::commands::{cell, error};
use crate::engine::gcra::{Stored, Write};
use crate::storage::record;

/// The most words of a call, its name included.
const MOST_WORDS: usize = 6;

/// CL.THROTTLE.
pub fn throttle(call: Call<'_>) -> Outcome {
    if call.count() > MOST_WORDS {
        return Err(Failure::Arity);
    }
    let (rule, quantity) = cell::throttle(&mut call.words(2))?;
    let name = call.word(1).ok_or(Failure::Arity)?;
    let now = clock::now();
    let key = Key::open(call, name, Mode::Write);
    guard::inject("key");
    let stored = load(&key)?;
    let (answer, write) = rule.decide(stored, quantity, now);
    let trace = apply(&key, write);
    drop(key);
    trace.tell(call, name);
    COUNTERS.cell.count(answer.verdict, name, now);
    call.five(&cell::reply(&answer));
    Ok(())
}

fn load(key: &Key<'_>) -> Result<Option<Stored>, Foreign> {
    match key.string() {
        Some(text) => {
            let tat_ns = record::read_tat(text).ok_or(error::FOREIGN_TAT)?;
            Ok(Some(Stored { tat_ns, expiry: key.expiry() }))
        }
        None if key.kind() == Type::Empty => Ok(None),
        None => Err(error::WRONG_TYPE),
    }
}

fn apply(key: &Key<'_>, write: Write) -> Trace {
    match write {
        Write::Keep => Trace::none(),
        Write::Drop => keys::drop_key(key),
        Write::Put { tat_ns, expiry } => keys::put_string(key, record::signed(tat_ns).as_bytes(), Some(expiry)),
    }
}
