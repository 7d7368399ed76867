//! Forgetting, the time to live, and a clock that goes back.

use proptest::prelude::*;

use super::scenes::{ANY, Deed, Limiter, STEADY, Scene, World, law, scene};
use crate::engine::time::LONGEST_MS;
use crate::laws::calls::Family;
use crate::laws::native::Value;

fn expiry_ms(world: &World) -> Option<i64> {
    world.keyspace.keys.get(b"k").and_then(|entry| entry.expiry)
}

/// Protects correctness from resting on expiry: when a key may be forgotten, it answers as if it were forgotten.
#[test]
fn at_the_instant_of_forgetting_state_and_no_state_decide_alike() {
    law(4_000, (scene(ANY), 0..1_000_i64, 0..4_usize), |(scene, late_us, verb)| {
        let limiter = &scene.limiter;
        let mut world = scene.live();
        world.call(&limiter.take(scene.cost().max(1)));
        let Some(entry) = world.keyspace.keys.get(b"k").cloned() else { return Ok(()) };
        let expiry = entry.expiry.expect("every key has a time to live");
        if expiry >= super::scenes::LAST_US / 1_000 {
            return Ok(());
        }
        let text = match verb {
            0 => limiter.decide(scene.cost()),
            1 => limiter.verb("REFUND", scene.cost()),
            2 => limiter.verb("CHARGE", scene.cost()),
            _ => limiter.take(0),
        };
        let mut remembers = world.at(expiry * 1_000 + late_us);
        let mut forgets = remembers.clone();
        forgets.keyspace.keys.remove(b"k");
        prop_assert_eq!(remembers.five(&text), forgets.five(&text), "in the last millisecond");
        if !limiter.is_fixed() {
            // Had the expiry been longer, the state would say the same later on.
            let mut remembers = forgets.later(limiter.period_ms);
            forgets = remembers.clone();
            forgets.keyspace.keys.remove(b"k");
            remembers.keyspace.keys.insert(b"k", entry.value, Some(LONGEST_MS * 3));
            prop_assert_eq!(remembers.five(&text), forgets.five(&text), "a period later");
        }
        Ok(())
    });
}

/// Milliseconds from empty to full.
fn fill_ms(limiter: &Limiter) -> i64 {
    match limiter.family {
        Family::Log | Family::LogWithIds => limiter.period_ms,
        Family::Buckets => limiter.period_ms + limiter.part_ms(),
        Family::Token | Family::Leaky => limiter.time_for(limiter.limit).min(LONGEST_MS),
        _ => 0,
    }
}

/// Protects memory and correctness: every key that is written lives until its state is as good as absent, and no longer
/// than the time from empty to full beyond that.
#[test]
fn a_key_lives_as_long_as_its_state_means_something_and_little_longer() {
    law(4_000, scene(STEADY), |scene| {
        let (limiter, mut world) = (&scene.limiter, World::new());
        let mut latest = 0;
        for moment in &scene.past {
            world.step(moment.step, limiter);
            let cost = moment.cost.of(limiter);
            let text = match moment.deed {
                Deed::Charge => limiter.verb("CHARGE", cost),
                Deed::Refund => limiter.verb("REFUND", cost),
                _ => limiter.take(cost),
            };
            world.call(&text);
            let [.., reset] = world.clone().five(&limiter.take(0));
            let now_ms = world.now_us / 1_000;
            // A millisecond for each of two roundings.
            latest = latest.max(now_ms + (reset + fill_ms(limiter) + 2).min(LONGEST_MS));
            let Some(entry) = world.keyspace.keys.get(b"k") else { continue };
            let expiry = entry.expiry.expect("every key has a time to live");
            // The longest time to live is shorter than the longest debt; there half of it is enough.
            let covered = if reset == LONGEST_MS { LONGEST_MS / 2 } else { reset };
            let lasts = expiry >= now_ms + covered || reset <= 1;
            prop_assert!(lasts, "gone too early: {expiry}, {now_ms} + {reset}");
            prop_assert!(expiry <= latest, "kept too long: {expiry}, {latest}");
            prop_assert!(!limiter.is_fixed() || reset == 0 || expiry == now_ms + reset, "a window's end is its expiry");
        }
        Ok(())
    });
}

/// The longest wait that a call can meet after any admissions and, if there were any, charges.
fn worst_ms(scene: &Scene, cost: u64) -> i64 {
    let limiter = &scene.limiter;
    let charged = scene.past.iter().any(|moment| moment.deed == Deed::Charge);
    let debt = if charged { limiter.limit * 2 } else { limiter.limit };
    let wanted = if limiter.has("PARTIAL") { 1 } else { cost };
    let beyond = if limiter.has("SHAPE") { debt } else { debt + wanted - limiter.limit.min(wanted) };
    match limiter.family {
        Family::Calendar => limiter.period_ms * 2,
        Family::Buckets => limiter.period_ms + limiter.part_ms().max((limiter.period_ms + 1) / 2),
        Family::Token | Family::Leaky => limiter.time_for(beyond.max(wanted)).saturating_add(1),
        _ => limiter.period_ms,
    }
}

/// Protects everybody from a clock that is set back: nothing more is granted for it, and nobody waits longer than after
/// the worst that can be done to an untouched limiter. Doors that BLOCK shut, and ids, are apart.
#[test]
fn a_clock_that_goes_back_neither_grants_more_nor_makes_anyone_wait_longer() {
    let scenes = scene(STEADY).prop_filter("apart", |scene| {
        let apart = |options: &str| options.contains("BLOCK") || options.contains("ID");
        !apart(&scene.limiter.options)
    });
    let back = prop_oneof![1..3_000_i64, 1..5_000_000_i64, Just(3_600_000_000_i64), 1..100_000_000_000_000_i64];
    law(6_000, (scenes, back), |(scene, back_us)| {
        let (limiter, cost) = (&scene.limiter, scene.cost());
        let now = scene.live();
        let back = now.at(now.now_us - back_us);
        let units = |world: &World| world.clone().five(&limiter.take(0))[2];
        prop_assert!(units(&back) <= units(&now), "{} units before, {} now", units(&back), units(&now));
        let [granted, .., wait, _] = now.clone().five(&limiter.decide(cost));
        let mut went = back;
        let [granted_then, .., wait_then, reset] = went.five(&limiter.decide(cost));
        prop_assert!(granted_then <= granted, "{granted_then} granted where it was {granted}");
        prop_assert_eq!(wait_then == -1, wait == -1);
        let worst = worst_ms(&scene, cost);
        prop_assert!(wait_then <= worst, "{wait_then} ms to wait, at worst {worst}");
        prop_assert!(reset >= wait_then || limiter.has("PARTIAL"), "as good as untouched, and still to wait");
        is_of_the_present(&went, limiter, cost)
    });
}

/// A call of at least one unit leaves nothing of the future behind, and a time to live.
fn is_of_the_present(world: &World, limiter: &Limiter, cost: u64) -> Result<(), TestCaseError> {
    let Some(entry) = world.keyspace.keys.get(b"k").filter(|_| cost > 0) else { return Ok(()) };
    prop_assert!(expiry_ms(world).is_some());
    let future = match &entry.value {
        Value::Text(_) => expiry_ms(world).is_some_and(|end| end - world.now_us / 1_000 > worst_end_ms(limiter)),
        Value::Hash(hash) => match hash.get(&b"ts"[..]) {
            Some(ts) => number(ts) > world.now_us,
            None => hash
                .keys()
                .any(|end| number(end) - world.now_us / 1_000 > (limiter.period_ms + 1) / 2 + limiter.part_ms()),
        },
        Value::Set(set) => set.above(world.now_us).next().is_some(),
        Value::Other => true,
    };
    prop_assert!(!future, "of the future: {:?}", entry);
    Ok(())
}

fn worst_end_ms(limiter: &Limiter) -> i64 {
    if limiter.family == Family::Calendar { limiter.period_ms * 2 } else { limiter.period_ms }
}

fn number(text: &[u8]) -> i64 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}
