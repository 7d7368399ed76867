//! How the verbs hang together: a look is the decision that follows, what is given back restores, a whole of one is the
//! one.

use proptest::prelude::*;

use super::scenes::{ANY, STEADY, Scene, World, five, law, scene};
use crate::laws::model::Answer;
use crate::laws::native::Value;

/// The same scene without the option that shuts a door, which a look ignores.
fn without_block(mut scene: Scene) -> Scene {
    if scene.limiter.has("BLOCK") {
        scene.limiter.options.clear();
    }
    scene
}

/// Protects whoever looks first: PEEK answers what the call then gets, whatever the key's past.
#[test]
fn peek_equals_the_decision_that_follows() {
    law(4_000, scene(ANY).prop_map(without_block), |scene| {
        let mut world = scene.live();
        let rule = scene.limiter.rule(scene.cost());
        let peeked = world.five(&format!("RL.PEEK k {rule}"));
        prop_assert_eq!(peeked, world.five(&scene.limiter.decide(scene.cost())));
        Ok(())
    });
}

/// Protects the look at leases: what a new holder would get, and when the present ones are gone.
#[test]
fn a_look_at_leases_is_what_a_new_holder_gets() {
    let deed = (0..5_u8, 1..2_000_i64, -300..2_000_i64);
    law(2_000, (proptest::collection::vec(deed, 0..10), 0..5_u64), |(deeds, limit)| {
        let mut world = World::new();
        for (id, lease_ms, step_ms) in deeds {
            world.now_us += step_ms * 997;
            world.call(&format!("RL.ACQUIRE k 4 {lease_ms}ms ID {id}"));
        }
        let peeked = world.five(&format!("RL.PEEK k LEASE {limit}"));
        let got = five(&world.call(&format!("RL.ACQUIRE k {limit} 1ms ID new")));
        prop_assert_eq!(&peeked[..4], &got[..4]);
        prop_assert!(
            got[0] == 1 || peeked[4] == got[4],
            "the reset of the present holders: {} and {}",
            peeked[4],
            got[4]
        );
        Ok(())
    });
}

/// What the limiter answers to nothing, one unit and all of them, now and later.
fn outlook(world: &World, scene: &Scene) -> Vec<[i64; 5]> {
    let limiter = &scene.limiter;
    let mut seen = Vec::new();
    for ms in [0, 1, limiter.period_ms / 3, limiter.period_ms] {
        for cost in [0, 1, limiter.limit.min(limiter.most_cost())] {
            let mut later = world.later(ms);
            seen.push(later.five(&format!("RL.PEEK k {}", limiter.plain(cost))));
        }
    }
    seen
}

/// Protects a caller whose work did not happen: taking and giving back leaves no difference, now and later.
#[test]
fn take_then_refund_restores() {
    law(4_000, scene(STEADY).prop_map(without_block), |scene| {
        let (limiter, mut world) = (&scene.limiter, scene.live());
        let before = outlook(&world, &scene);
        let shut = limiter.is_fixed() && world.clone().five(&limiter.verb("REFUND", 1))[0] == 0 && before[0][2] == 0;
        let [allowed, ..] = world.five(&limiter.decide(scene.cost()));
        let units = if limiter.has("PARTIAL") { u64::try_from(allowed).unwrap() } else { scene.cost() };
        let repeated = limiter.has("ID") && world.keyspace.effects.is_empty();
        if allowed == 0 || units == 0 || repeated || shut {
            return Ok(());
        }
        let refund = match limiter.options.strip_prefix("ID ") {
            Some(id) => format!("RL.REFUND k SLIDING {} {} ID {id}", limiter.limit, limiter.period),
            None => limiter.verb("REFUND", units),
        };
        let [returned, ..] = world.five(&refund);
        prop_assert_eq!(returned, i64::try_from(units).unwrap());
        prop_assert_eq!(outlook(&world, &scene), before);
        Ok(())
    });
}

/// Protects against units out of nothing: the largest refund leaves a limiter untouched, its key gone, and no more.
#[test]
fn a_refund_never_goes_beyond_untouched_and_never_makes_a_key() {
    law(4_000, scene(ANY), |scene| {
        let (limiter, mut world) = (&scene.limiter, scene.live());
        let before = world.clone().five(&limiter.take(0));
        // The books may hold up to twice what one refund can give back.
        let [first, ..] = world.five(&limiter.verb("REFUND", limiter.most_cost()));
        let [second, limit, remaining, wait, reset] = world.five(&limiter.verb("REFUND", limiter.most_cost()));
        let returned = first + second;
        prop_assert_eq!(wait, 0);
        let shut = limiter.is_fixed() && returned == 0 && before[4] > 0;
        prop_assert!(returned >= limit - before[2] || shut, "{returned} came back, {} were left of {limit}", before[2]);
        prop_assert!(shut || (remaining, reset) == (limit, 0), "{remaining} of {limit} are left");
        prop_assert!(returned == 0 || world.keyspace.keys.get(b"k").is_none(), "what is untouched is deleted");
        let had_been = scene.live().keyspace.keys.get(b"k").is_some();
        prop_assert!(had_been || world.keyspace.keys.get(b"k").is_none(), "a refund made a key");
        Ok(())
    });
}

/// Protects the bound on debt: the books stop at one more limit beyond the limit, whatever is charged.
#[test]
fn a_charge_stops_at_twice_the_limit() {
    law(3_000, scene(STEADY).prop_map(without_block), |scene| {
        let (limiter, mut world) = (&scene.limiter, scene.live());
        let shut = limiter.is_fixed() && scene.live().five(&limiter.verb("REFUND", 1))[0] == 0;
        world.call(&limiter.verb("CHARGE", limiter.most_cost()));
        let books = world.clone().five(&limiter.verb("REFUND", limiter.most_cost()))[0];
        let twice = i64::try_from(limiter.limit).unwrap() * 2;
        let expected = twice.min(i64::try_from(limiter.most_cost()).unwrap());
        prop_assert!(books <= twice, "{books} units on the books of {}", limiter.limit);
        let full = limiter.limit > 0 && limiter.limit * 2 <= limiter.most_cost();
        prop_assert!(!full || books == expected || shut, "{books} units on the books, charged up to {expected}");
        Ok(())
    });
}

/// Protects users of RL.ALL: with one rule it is the rule's own command, in its answer, its state and its effects.
#[test]
fn a_whole_of_one_is_the_one() {
    law(4_000, scene(ANY), |scene| {
        if scene.limiter.has("PARTIAL") {
            return Ok(());
        }
        let mut one = scene.live();
        let mut whole = one.clone();
        let rule = scene.limiter.rule(scene.cost());
        let five = one.five(&scene.limiter.decide(scene.cost()));
        let answer = whole.send(&[b"RL.ALL", b"k", rule.as_bytes()]);
        prop_assert_eq!(answer, Answer::Whole { allowed: five[0], wait: five[3], each: vec![five] });
        prop_assert_eq!(&one.keyspace.keys, &whole.keyspace.keys);
        prop_assert_eq!(&one.keyspace.effects, &whole.keyspace.effects);
        Ok(())
    });
}

/// An amount as it is stored, as a fraction.
fn fraction(world: &World, field: &str) -> (i128, i128) {
    let Some(Value::Hash(hash)) = world.keyspace.keys.get(b"k").map(|entry| &entry.value) else { return (0, 1) };
    let text = String::from_utf8(hash[field.as_bytes()].clone()).unwrap();
    let number = |text: &str| text.parse::<i128>().unwrap();
    let (whole, part) = text.split_once('+').unwrap_or((&text, "0/1"));
    let (numerator, denominator) = part.split_once('/').unwrap();
    (number(whole) * number(denominator) + number(numerator), number(denominator))
}

/// Protects against gifts from changed numbers: a fraction that does not fit the new period is rounded against the
/// caller, and by less than one of its parts.
#[test]
fn a_fraction_under_another_period_is_rounded_against_the_caller() {
    let numbers = (1..50_u64, 1..100_000_i64, 1..100_000_i64, 0..50_000_000_i64);
    law(2_000, (numbers, any::<bool>()), |((rate, before_ms, after_ms, later_us), token)| {
        let (algorithm, field) = if token { ("TOKEN", "tokens") } else { ("LEAKY", "level") };
        let mut world = World::new();
        world.call(&format!("RL.{algorithm} k 1000 {rate} {before_ms}ms COST 900"));
        world.now_us += later_us;
        world.call(&format!("RL.{algorithm} k 1000 {rate} {before_ms}ms"));
        let (before, parts_before) = fraction(&world, field);
        world.call(&format!("RL.CHARGE k {algorithm} 1000 {rate} {after_ms}ms"));
        let (after, parts_after) = fraction(&world, field);
        // What the caller lost: one unit, and less than a microsecond's part of the new period.
        let lost = (before * parts_after - after * parts_before) * if token { 1 } else { -1 };
        let one = parts_before * parts_after;
        prop_assert!(lost >= one, "a gift of {} parts of {one}", one - lost);
        prop_assert!((lost - one) * i128::from(after_ms) * 1_000 < one, "{} parts of {one} lost", lost - one);
        Ok(())
    });
}
