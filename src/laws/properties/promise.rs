//! The promise: a refused call, repeated after its wait, is admitted, and one millisecond earlier it is not. And never
//! means never: exactly when more is wanted than the limit.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::scenes::{ANY, Kind, Limiter, STEADY, Scene, World, cost, five, law, scene};
use crate::engine::time::LONGEST_MS;
use crate::laws::calls::Family;
use crate::laws::model::Answer;

/// Whether a call goes ahead, and the wait that it was told.
type Asked = (bool, i64);

fn asked(answer: &Answer) -> Asked {
    match answer {
        Answer::Whole { allowed, wait, .. } => (*allowed > 0, *wait),
        answer => {
            let [allowed, _, _, wait, _] = five(answer);
            (allowed > 0, wait)
        }
    }
}

/// What was told at `world` holds for the same call later, if nobody else spends.
fn is_kept(world: &World, (go, wait): Asked, call: impl Fn(&mut World) -> Asked) -> TestCaseResult {
    if go {
        return Ok(());
    }
    if wait == -1 {
        for ms in [0, 1, 1_000, 400 * 86_400_000] {
            prop_assert_eq!(call(&mut world.later(ms)), (false, -1), "never, but not {} ms later", ms);
        }
        return Ok(());
    }
    prop_assert!((1..=LONGEST_MS).contains(&wait), "a refusal says to wait {wait} ms");
    if wait == LONGEST_MS || !world.reaches(wait) {
        return Ok(());
    }
    for ms in [wait - 1, wait / 2] {
        prop_assert!(!call(&mut world.later(ms)).0, "told to wait {wait} ms, admitted after {ms}");
    }
    prop_assert!(call(&mut world.later(wait)).0, "told to wait {wait} ms, refused again after that");
    Ok(())
}

/// Protects every client that sleeps as long as it was told: for every rule, option and past of the key.
#[test]
fn a_refused_call_is_admitted_after_its_wait_and_not_a_millisecond_earlier() {
    law(8_000, scene(ANY), |scene| {
        let mut world = scene.live();
        let text = scene.limiter.decide(scene.cost().max(1));
        let told = asked(&world.call(&text));
        is_kept(&world, told, |world| asked(&world.call(&text)))
    });
}

/// Protects a client that looks before it calls: the wait that PEEK tells is the call's, if the key needs no mending.
#[test]
fn what_peek_tells_to_wait_is_kept_too() {
    law(3_000, scene(STEADY), |scene| {
        let world = scene.live();
        let cost = scene.cost().max(1);
        let rule = scene.limiter.rule(cost);
        let peek = |world: &mut World| asked(&world.call(&format!("RL.PEEK k {rule}")));
        let told = peek(&mut world.clone());
        is_kept(&world, told, peek)?;
        is_kept(&world, told, |world| asked(&world.call(&scene.limiter.decide(cost))))
    });
}

/// Protects whoever worked off a debt: after the wait that CHARGE tells, one unit passes, and not earlier.
#[test]
fn the_wait_that_a_charge_tells_is_the_wait_for_one_unit() {
    law(4_000, (scene(ANY), 1..3_000_u64), |(scene, thousandths)| {
        let limiter = &scene.limiter;
        let charged = super::scenes::Cost::Share(thousandths, 1).of(limiter);
        let mut world = scene.live();
        let [within, limit, remaining, wait, _] = world.five(&limiter.verb("CHARGE", charged));
        prop_assert_eq!(wait == -1, limit == 0);
        prop_assert_eq!(wait == 0, limit > 0 && remaining > 0);
        prop_assert!(within == 1 || remaining == 0, "over the limit, yet {remaining} left");
        let one = limiter.take(1);
        is_kept(&world, (wait == 0, wait), |world| asked(&world.call(&one)))
    });
}

/// Protects a caller from retrying what can never pass, and from giving up what can.
#[test]
fn never_is_said_exactly_when_more_is_wanted_than_the_limit() {
    law(4_000, scene(ANY), |scene| {
        let (limiter, cost) = (&scene.limiter, scene.cost().max(1));
        let wanted = if limiter.has("PARTIAL") { 1 } else { cost };
        let [allowed, limit, _, wait, _] = scene.live().five(&limiter.decide(cost));
        let never = wanted > limiter.limit;
        prop_assert_eq!(limit, i64::try_from(limiter.limit).unwrap());
        if allowed == 0 {
            prop_assert_eq!(wait == -1, never, "wait {}", wait);
        } else {
            prop_assert!(!never || limiter.has("ID"), "admitted, although {wanted} of {limit} is never");
            prop_assert!(wait == 0 || limiter.has("SHAPE"), "admitted, and told to wait {wait} ms");
        }
        Ok(())
    });
}

/// Two limiters under two keys, with the later clock of both.
pub fn two(first: &Scene, second: &Scene) -> World {
    let (mut world, other) = (first.live(), second.live());
    if let Some(entry) = other.keyspace.keys.get(b"k") {
        world.keyspace.keys.insert(b"m", entry.value.clone(), entry.expiry);
    }
    world.now_us = world.now_us.max(other.now_us);
    world
}

/// Two scenes for a whole: what is allowed in one by one, PARTIAL apart, and little enough for a log.
pub fn two_scenes(kind: Kind) -> impl Strategy<Value = (Scene, Scene)> {
    (scene(kind), scene(kind), cost(), cost()).prop_map(|(mut first, mut second, one, other)| {
        (first.cost, second.cost) = (one, other);
        for scene in [&mut first, &mut second] {
            if scene.limiter.has("PARTIAL") {
                scene.limiter.options.clear();
            }
        }
        (first, second)
    })
}

fn rule_in_whole(limiter: &Limiter, cost: u64) -> String {
    limiter.rule(if limiter.is_log() { cost.min(100) } else { cost })
}

/// RL.ALL with the two calls.
pub fn whole(world: &mut World, first: &Scene, second: &Scene) -> Answer {
    let rules = [first, second].map(|scene| rule_in_whole(&scene.limiter, scene.cost()));
    world.send(&[b"RL.ALL", b"k", rules[0].as_bytes(), b"m", rules[1].as_bytes()])
}

/// Protects a caller with several limits: the wait of a refused whole is the longest that counts. A whole that rests on
/// a request id is exempt: the id may leave the window meanwhile.
#[test]
fn a_refused_whole_is_admitted_after_its_wait_and_not_a_millisecond_earlier() {
    let scenes = two_scenes(ANY)
        .prop_filter("rests on an id", |(first, second)| !first.limiter.has("ID") && !second.limiter.has("ID"));
    law(4_000, scenes, |(first, second)| {
        let mut world = two(&first, &second);
        let told = asked(&whole(&mut world, &first, &second));
        is_kept(&world, told, |world| asked(&whole(world, &first, &second)))
    });
}

/// Protects a worker that waits for a place: after the wait of a refused ACQUIRE there is one, and not earlier.
#[test]
fn a_refused_lease_is_given_after_its_wait_and_not_a_millisecond_earlier() {
    let deed = (0..4_u8, 0..5_u8, 1..2_000_i64, -500..2_000_i64);
    law(3_000, (proptest::collection::vec(deed, 0..14), 0..5_u64), |(deeds, limit)| {
        let mut world = World::new();
        for (verb, id, lease_ms, step_ms) in deeds {
            world.now_us += step_ms * 997;
            match verb {
                0 => world.call(&format!("RL.RELEASE k {id}")),
                1 => world.call(&format!("RL.RENEW k {lease_ms}ms {id}")),
                _ => world.call(&format!("RL.ACQUIRE k 4 {lease_ms}ms ID {id}")),
            };
        }
        let acquire = |world: &mut World| asked(&world.call(&format!("RL.ACQUIRE k {limit} 1s ID new")));
        let told = acquire(&mut world);
        prop_assert_eq!(told.1 == -1, limit == 0);
        is_kept(&world, told, acquire)
    });
}

/// Protects a caller that the server holds back: a turn further away than max-wait is told as the time to retry.
#[test]
fn a_refused_queue_call_is_booked_after_its_wait_and_not_a_millisecond_earlier() {
    let leaky = scene(ANY).prop_filter("leaky buckets have a queue", |scene| scene.limiter.family == Family::Leaky);
    law(600, (leaky, 0..5_000_i64), |(scene, longest_ms)| {
        let mut world = scene.live();
        let Limiter { limit, rate, period, .. } = &scene.limiter;
        let longest = if longest_ms == 0 { "0s".to_owned() } else { format!("{longest_ms}ms") };
        let text = format!("RL.QUEUE k {limit} {rate} {period} {longest} COST {}", scene.cost());
        let answer = world.call(&text);
        is_kept(&world, asked(&answer), |world| asked(&world.call(&text)))?;
        if longest_ms > 0 {
            let shaped = format!("{} SHAPE WITHIN {longest}", scene.limiter.take(scene.cost()));
            prop_assert_eq!(scene.live().call(&shaped), answer, "a queue and its shape differ");
        }
        Ok(())
    });
}
