//! RL.ACQUIRE, RL.RENEW, RL.RELEASE: the same order as in [`super::run`], on sets of leases.

use std::sync::atomic::{AtomicU64, Ordering};

use super::api::Call;
use super::api::key::{Edge, From, Key, Mode, Type, instant_of};
use super::api::setup;
use super::api::text::{Owned, Word};
use super::info::COUNTERS;
use super::keys;
use super::replicate::{Effect, Trace};
use super::run::{Failure, Outcome, judged_ids};
use super::{clock, guard};
use crate::commands::{lease, reply};
use crate::engine::lease::{Acquire, TRIM};
use crate::engine::time::{Micros, Span};
use crate::engine::{Verdict, moved_expiry};
use crate::storage::record;

/// Ids made so far: the part of an id that this process never repeats.
static MADE: AtomicU64 = AtomicU64::new(0);

/// An id that nobody can guess and that is never made twice.
fn made_id() -> Vec<u8> {
    let mut id = vec![0; 17];
    if let Some((dash, digits)) = id.split_last_mut() {
        setup::random_hex(digits);
        *dash = b'-';
    }
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    id.extend_from_slice(record::number(number).as_bytes());
    id
}

/// RL.ACQUIRE.
pub fn acquire(call: Call<'_>) -> Outcome {
    let (rule, given) = lease::acquire(&mut call.words(2))?;
    let name = call.word(1).ok_or(Failure::Arity)?;
    let now = clock::now();
    let key = Key::open(call, name, Mode::Write);
    guard::inject("key");
    let made;
    let id = match given {
        Some(id) => id,
        None => {
            made = made_id();
            &made
        }
    };
    let member = Owned::new(record::lease_member(id).as_bytes());
    let holders = keys::load_holders(&key, &rule, Some(member.word()), now)?;
    let (decision, held) = rule.decide(&holders, now);
    let mut trace = Trace::none();
    if let Some(held) = held {
        key.add(held.end, member.word());
        let end = Owned::signed(held.end.get());
        trace.replicate(call, Effect::ZAdd, &[name, end.word(), member.word()]);
        keys::trim(&key, None, now.get(), held.trim, &mut trace);
        if let Some(at) = held.expiry {
            keys::move_expiry(&key, at, &mut trace);
        }
    }
    drop(key);
    trace.tell(call, name);
    COUNTERS.lease.count(decision.verdict, name, now);
    call.array(6);
    for element in reply::five(&decision) {
        call.integer(element);
    }
    if matches!(decision.verdict, Verdict::Allow { .. }) {
        call.bytes(id)
    } else {
        call.nil()
    }
    Ok(())
}

/// The leases among `ids` that run, each once.
fn running(key: &Key<'_>, ids: impl Iterator<Item = Owned>, now: Micros) -> Vec<Owned> {
    let mut members: Vec<Owned> = ids.collect();
    members.sort_unstable_by(|one, other| one.bytes().cmp(other.bytes()));
    members.dedup_by(|one, other| one.bytes() == other.bytes());
    members.retain(|member| key.score(member.word()).and_then(instant_of).is_some_and(|end| end > now));
    members
}

/// Opens a set of leases and counts those that run; `None` if there is none.
fn open<'c>(call: Call<'c>, name: Word<'c>, now: Micros) -> Result<Option<(Key<'c>, u64)>, Failure> {
    let key = Key::open(call, name, Mode::Write);
    guard::inject("key");
    let any = Acquire { limit: 0, lease: Span::ZERO };
    let live = keys::load_holders(&key, &any, None, now)?.live;
    Ok((key.kind() != Type::Empty).then_some((key, live)))
}

fn members<'c>(ids: impl Iterator<Item = &'c [u8]>) -> impl Iterator<Item = Owned> {
    ids.map(|id| Owned::new(record::lease_member(id).as_bytes()))
}

/// Gives a key that was written an expiry that outlives its last lease, if it has not got one.
fn outlive(key: &Key<'_>, slack: Span, now: Micros, trace: &mut Trace) {
    let last = key.range(Edge::Open, Edge::Open, From::Highest).current();
    let last = last.and_then(|(_, score)| instant_of(score)).unwrap_or(now);
    if let Some(at) = moved_expiry(key.expiry(), now, last.since(now), || slack) {
        keys::move_expiry(key, at, trace);
    }
}

/// RL.RENEW.
pub fn renew(call: Call<'_>) -> Outcome {
    let span = lease::renewal(&mut call.words(2))?;
    let ids = judged_ids(call, 3)?;
    let name = call.word(1).ok_or(Failure::Arity)?;
    let now = clock::now();
    let mut renewed = 0;
    let mut trace = Trace::none();
    if let Some((key, _)) = open(call, name, now)? {
        let running = running(&key, members(ids), now);
        let end = now.plus(span);
        for member in &running {
            key.add(end, member.word());
        }
        renewed = running.len();
        trace.replicate_scores(&key, &Owned::signed(end.get()), &running);
        if renewed > 0 {
            keys::trim(&key, None, now.get(), TRIM, &mut trace);
            outlive(&key, span, now, &mut trace);
        }
    }
    trace.tell(call, name);
    COUNTERS.renewals.bump();
    call.integer(i64::try_from(renewed).unwrap_or(i64::MAX));
    Ok(())
}

/// RL.RELEASE.
pub fn release(call: Call<'_>) -> Outcome {
    let ids = judged_ids(call, 2)?;
    let name = call.word(1).ok_or(Failure::Arity)?;
    let now = clock::now();
    let mut released = 0;
    let mut trace = Trace::none();
    if let Some((key, live)) = open(call, name, now)? {
        let running = running(&key, members(ids), now);
        released = running.len();
        if released > 0 && u64::try_from(released).is_ok_and(|released| released >= live) {
            trace = keys::drop_key(&key);
        } else if released > 0 {
            for member in &running {
                key.remove(member.word());
            }
            trace.replicate_members(&key, Effect::ZRem, &running);
            keys::trim(&key, None, now.get(), TRIM, &mut trace);
            outlive(&key, Span::ZERO, now, &mut trace);
        }
    }
    trace.tell(call, name);
    COUNTERS.releases.bump();
    call.integer(i64::try_from(released).unwrap_or(i64::MAX));
    Ok(())
}
