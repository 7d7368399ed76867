//! From the bytes under a key to what the engine has to know, as the module reads them.

use super::Failed;
use crate::commands::error;
use crate::commands::grammar::MOST_LOGGED;
use crate::engine::bucket::Stored;
use crate::engine::buckets::{MOST_FIELDS, SubWindows};
use crate::engine::fixed::Counter;
use crate::engine::lease::{Acquire, Holders};
use crate::engine::sliding::{Log, Sliding};
use crate::engine::time::{Micros, Millis};
use crate::engine::{Ask, Limiter, Loaded, Rule, Verb};
use crate::laws::native::{Entry, SortedSet, Value};
use crate::storage::record;

/// What the engine has to know of a key, from the bytes that stand there.
pub fn load<'a>(entry: Option<&Entry>, rule: &Rule<'a>, verb: Verb, now: Micros) -> Result<Loaded<'a>, Failed> {
    Ok(match rule.limiter {
        Limiter::Fixed(fixed) => Loaded::Fixed(fixed, counter(entry)?),
        Limiter::Token(token) => Loaded::Token(token, stored(entry, record::TOKENS, true, error::FOREIGN_TOKENS)?),
        Limiter::Leaky(leaky) => Loaded::Leaky(leaky, stored(entry, record::LEVEL, false, error::FOREIGN_LEVEL)?),
        Limiter::Sliding(sliding) => Loaded::Sliding(sliding, log(entry, &sliding, verb, rule.ask, now)?),
        Limiter::Buckets(buckets) => Loaded::Buckets(buckets, sub_windows(entry)?),
    })
}

fn counter(entry: Option<&Entry>) -> Result<Option<Counter>, Failed> {
    let Some(entry) = entry else { return Ok(None) };
    let Value::Text(bytes) = &entry.value else { return Err(error::WRONG_TYPE.to_owned()) };
    let used = record::read_counter(bytes).ok_or(error::FOREIGN_COUNTER)?;
    Ok(Some(Counter { used, end: expiry(entry) }))
}

fn stored(entry: Option<&Entry>, field: &[u8], negative: bool, foreign: &str) -> Result<Option<Stored>, Failed> {
    let Some(entry) = entry else { return Ok(None) };
    let Value::Hash(hash) = &entry.value else { return Err(error::WRONG_TYPE.to_owned()) };
    let (Some(amount), Some(at), 2) = (hash.get(field), hash.get(record::TS), hash.len()) else {
        return Err(foreign.to_owned());
    };
    let amount = record::read_amount(amount, negative).ok_or(foreign)?;
    let at = record::read_micros(at).ok_or(foreign)?;
    Ok(Some(Stored { amount, at, expiry: expiry(entry) }))
}

fn sub_windows(entry: Option<&Entry>) -> Result<SubWindows, Failed> {
    let Some(entry) = entry else { return Ok(SubWindows::default()) };
    let Value::Hash(hash) = &entry.value else { return Err(error::WRONG_TYPE.to_owned()) };
    let read: Option<Vec<_>> = hash.iter().map(|(field, value)| record::read_sub_window(field, value)).collect();
    let fields = read.filter(|fields| fields.len() <= MOST_FIELDS).ok_or(error::FOREIGN_SUB_WINDOWS)?;
    Ok(SubWindows { fields, expiry: expiry(entry) })
}

/// A sorted set whose lowest and highest elements have the right form.
fn ours<'e>(
    entry: Option<&'e Entry>,
    is_member: fn(&[u8]) -> bool,
    foreign: &str,
) -> Result<Option<&'e SortedSet>, Failed> {
    let Some(entry) = entry else { return Ok(None) };
    let Value::Set(set) = &entry.value else { return Err(error::WRONG_TYPE.to_owned()) };
    let fits = |element: Option<(i64, &[u8])>| {
        element.is_some_and(|(score, member)| is_member(member) && Micros::checked(score).is_some())
    };
    if !fits(set.iter().next()) || !fits(set.iter().next_back()) {
        return Err(foreign.to_owned());
    }
    Ok(Some(set))
}

fn log(entry: Option<&Entry>, rule: &Sliding<'_>, verb: Verb, ask: Ask, now: Micros) -> Result<Log, Failed> {
    let Some(set) = ours(entry, record::is_log_member, error::FOREIGN_LOG)? else { return Ok(Log::default()) };
    let cutoff = now.minus_us(rule.period);
    let not_after_now = |score: i64| Micros::from_clock(score).min(now);
    let live = length(set.above(cutoff).count());
    let leaving = rule.leaving_index(verb, ask, live).map(|index| usize::try_from(index).unwrap());
    let mut log = Log {
        exists: true,
        live,
        dead: length(set.len()) - live,
        future: length(set.above(now.get()).count()),
        newest: set.above(cutoff).next_back().map(|(score, _)| not_after_now(score)),
        leaving: leaving.and_then(|index| set.above(cutoff).nth(index)).map(|(score, _)| not_after_now(score)),
        expiry: entry.and_then(expiry),
        ..Log::default()
    };
    let in_window = |index, id| set.score(record::id_member(index, id).as_bytes()).is_some_and(|score| score > cutoff);
    log.seen = rule.id.is_some_and(|id| in_window(0, id));
    if verb == Verb::Refund {
        log.returned = match rule.id {
            Some(id) => (0..MOST_LOGGED).take_while(|index| in_window(*index, id)).count().try_into().unwrap(),
            None => ask.cost.min(live),
        };
        let mut left = log.returned;
        let stays = |(_, member): &(i64, &[u8])| match rule.id {
            Some(id) => record::unit_of(member, id).is_none_or(|index| index >= log.returned),
            None => {
                let stays = left == 0;
                left = left.saturating_sub(1);
                stays
            }
        };
        log.newest_left = set.above(cutoff).rev().find(stays).map(|(score, _)| not_after_now(score));
    }
    Ok(log)
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap()
}

/// What an acquisition has to know of a key.
pub fn load_holders(entry: Option<&Entry>, rule: &Acquire, id: Option<&[u8]>, now: Micros) -> Result<Holders, Failed> {
    let Some(set) = ours(entry, record::is_lease_member, error::FOREIGN_LEASES)? else {
        return Ok(Holders::default());
    };
    let running = || set.above(now.get());
    let live = length(running().count());
    let instant = |(score, _): (i64, &[u8])| Micros::from_clock(score);
    let leaving = rule.leaving_index(live).map(|index| usize::try_from(index).unwrap());
    Ok(Holders {
        live,
        ended: length(set.len()) - live,
        holds: running().any(|(_, member)| Some(member) == id),
        last_other: running().rev().find(|(_, member)| Some(*member) != id).map(instant),
        last: running().next_back().map(instant),
        leaving: leaving.and_then(|index| running().nth(index)).map(instant),
        expiry: entry.and_then(expiry),
    })
}

/// The millisecond after which a key is gone.
pub fn expiry(entry: &Entry) -> Option<Millis> {
    entry.expiry.map(Millis::new)
}
