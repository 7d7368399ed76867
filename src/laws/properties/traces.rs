//! What calls write: nothing, or as much as they must; what a replica makes of it; how much work it is.

use proptest::prelude::*;

use super::promise::{two, two_scenes, whole};
use super::scenes::{ANY, Limiter, STEADY, Scene, World, law, scene};
use crate::engine::time::LONGEST_MS;
use crate::laws::calls::{Cast, Size};
use crate::laws::clock::{Clock, Temper};
use crate::laws::dice::Dice;
use crate::laws::histories::seed;
use crate::laws::keyspace::Keyspace;
use crate::laws::model::Answer;
use crate::laws::native::{Database, Entry, Value};

fn entry(world: &World) -> Option<&Entry> {
    world.keyspace.keys.get(b"k").filter(|_| !world.keyspace.keys.has_expired(b"k", world.now_us / 1_000))
}

/// Protects replicas, the append-only file and watchers from questions: PEEK and COST 0 of any verb write nothing,
/// whatever the key's state needs.
#[test]
fn looks_and_calls_for_nothing_never_write() {
    law(4_000, (scene(ANY), 0..5_usize), |(scene, verb)| {
        let limiter = &scene.limiter;
        let mut world = scene.live();
        let before = entry(&world).cloned();
        let text = match verb {
            0 => limiter.decide(0),
            1 => limiter.verb("REFUND", 0),
            2 => limiter.verb("CHARGE", 0),
            _ => format!("RL.PEEK k {}", limiter.rule(scene.cost())),
        };
        let [allowed, _, remaining, wait, _] = world.five(&text);
        prop_assert!(world.keyspace.effects.is_empty(), "{:?}", world.keyspace.effects);
        prop_assert_eq!(entry(&world), before.as_ref());
        if verb == 0 || verb == 2 {
            let go = i64::from(verb == 2 || !limiter.has("PARTIAL"));
            prop_assert_eq!((allowed, wait), (go, 0), "COST 0 is never refused, {} are left", remaining);
        }
        Ok(())
    });
}

/// Protects replicas from floods: where the clock went forward and numbers stayed, a refusal writes nothing at all.
/// Only the refusal that shuts a door does, once.
#[test]
fn a_refusal_is_free() {
    law(4_000, scene(STEADY), |scene| {
        let mut world = scene.live();
        let before = entry(&world).cloned();
        let text = scene.limiter.decide(scene.cost());
        let [allowed, .., wait, reset] = world.five(&text);
        // A debt that no expiry covered gets one as soon as it can, from whatever call comes then.
        if allowed > 0 || scene.cost() == 0 || reset > LONGEST_MS / 2 {
            return Ok(());
        }
        if wait == -1 || !scene.limiter.has("BLOCK") {
            prop_assert!(world.keyspace.effects.is_empty(), "{:?}", world.keyspace.effects);
            prop_assert_eq!(entry(&world), before.as_ref());
        }
        prop_assert!(world.keyspace.effects.len() <= 1, "{:?}", world.keyspace.effects);
        world.call(&text);
        prop_assert!(world.keyspace.effects.is_empty(), "once more: {:?}", world.keyspace.effects);
        Ok(())
    });
}

/// Protects replicas under a clock that steps back: what a refusal mends, it mends once.
#[test]
fn mending_is_done_once() {
    law(4_000, scene(ANY), |scene| {
        let mut world = scene.live();
        let before = entry(&world).cloned();
        let text = scene.limiter.decide(scene.cost());
        if world.five(&text)[0] > 0 {
            return Ok(());
        }
        if let (Some(before), Some(after), false) = (&before, entry(&world), scene.limiter.has("BLOCK")) {
            prop_assert!(is_mended(before, after), "{:?} was mended to {:?}", before, after);
        }
        world.call(&text);
        prop_assert!(world.keyspace.effects.is_empty(), "{:?}", world.keyspace.effects);
        Ok(())
    });
}

/// Whether mending rewrote instants only.
fn is_mended(before: &Entry, after: &Entry) -> bool {
    match (&before.value, &after.value) {
        (Value::Hash(before), Value::Hash(after)) if before.contains_key(&b"ts"[..]) => {
            before.iter().all(|(field, value)| field == b"ts" || after.get(field) == Some(value))
        }
        (Value::Hash(before), Value::Hash(after)) => {
            let units = |hash: &std::collections::BTreeMap<Vec<u8>, Vec<u8>>| -> u64 {
                hash.values().map(|units| std::str::from_utf8(units).unwrap().parse::<u64>().unwrap()).sum()
            };
            units(before) == units(after)
        }
        (Value::Set(before), Value::Set(after)) => {
            before.len() == after.len() && before.iter().all(|(_, member)| after.score(member).is_some())
        }
        (before, after) => before == after,
    }
}

/// Protects the other keys of a refused whole: none of them is charged, and where nothing needs mending, none is
/// written.
#[test]
fn any_refusal_keeps_all() {
    law(4_000, two_scenes(STEADY), |(first, second)| {
        let mut world = two(&first, &second);
        let before = world.clone();
        let Answer::Whole { allowed, each, .. } = whole(&mut world, &first, &second) else { panic!("no whole") };
        let shuts = [&first, &second].iter().any(|scene| scene.limiter.has("BLOCK"));
        if allowed == 1 {
            prop_assert!(each.iter().all(|five| five[0] == 1));
            return Ok(());
        }
        prop_assert!(each.iter().any(|five| five[0] == 0));
        // The clock of one of the two may have jumped, and only forward.
        let uncovered = each.iter().any(|five| five[4] > LONGEST_MS / 2);
        prop_assert!(shuts || uncovered || world.keyspace.effects.is_empty(), "{:?}", world.keyspace.effects);
        for (scene, key, five) in [(&first, b"k", each[0]), (&second, b"m", each[1])] {
            let text = scene.limiter.take(0).replacen(" k ", if key == b"k" { " k " } else { " m " }, 1);
            let stands = before.clone().five(&text);
            if five[0] == 1 {
                prop_assert_eq!(five, stands, "a willing rule tells its uncharged numbers");
                prop_assert_eq!(world.clone().five(&text), stands, "a willing rule was charged");
            }
        }
        Ok(())
    });
}

/// Protects replicas and restarts: the effects of every call, replayed without the module, give the same values and the
/// same expiries.
#[test]
fn replaying_the_effects_yields_the_same_keys() {
    for (number, size) in (0..120).zip([Size::Small, Size::Middling, Size::Huge].into_iter().cycle()) {
        let mut dice = Dice::new(seed() + number);
        let cast = Cast::draw(&mut dice, size, false);
        let mut clock = Clock::new(if number % 2 == 0 { Temper::Forward } else { Temper::Wild }, 8);
        let (mut keyspace, mut replica) = (Keyspace::default(), Database::default());
        for _ in 0..300 {
            clock.step(&mut dice);
            let call = cast.call(&mut dice);
            let words: Vec<&[u8]> = call.iter().map(String::as_bytes).collect();
            clock.hear(&keyspace.call(clock.now_us, &words));
            for key in &keyspace.expired {
                replica.remove(key);
            }
            for effect in &keyspace.effects {
                replica.replay(effect);
            }
            assert_eq!(replica, keyspace.keys, "after {call:?} with effects {:?}", keyspace.effects);
        }
    }
}

/// Units of a log before and after a call, told from the effects.
fn touched(world: &World) -> (usize, usize, usize) {
    let count = |name: &[u8]| {
        let of_name = world.keyspace.effects.iter().filter(|effect| effect[0] == name);
        of_name.map(|effect| effect.len() - 2).sum::<usize>()
    };
    let trimmed = world.keyspace.effects.iter().filter(|effect| effect[0] == b"ZREMRANGEBYRANK");
    let trimmed = trimmed.map(|effect| std::str::from_utf8(&effect[3]).unwrap().parse::<usize>().unwrap() + 1).sum();
    (count(b"ZADD") / 2, count(b"ZREM"), trimmed)
}

/// Protects the server's other clients: however many entries have left the window or lie in the future, a call trims
/// and mends at most its cost and 250, and an admission trims more than it adds.
#[test]
fn a_call_on_a_log_does_bounded_work() {
    let fills = proptest::collection::vec(0..=250_u64, 1..4);
    law(300, (fills, 1..=250_u64, 0..3_u8, 1..=1_000_u64), |(fills, cost, when, limit)| {
        let mut world = World::new();
        for fill in fills {
            world.call(&format!("RL.SLIDING k 1000 10s COST {fill}"));
            world.now_us += 3;
        }
        world.now_us += [20_000_000, 0, -20_000_000][usize::from(when)];
        let before = set_len(&world);
        let [allowed, ..] = world.five(&format!("RL.SLIDING k {limit} 10s COST {cost}"));
        let (added, _, trimmed) = touched(&world);
        let cost = usize::try_from(cost).unwrap();
        let mended = added - if allowed > 0 { cost } else { 0 };
        prop_assert!(mended + trimmed <= cost + 250, "{mended} mended and {trimmed} trimmed for {cost}");
        prop_assert!(
            allowed == 0 || when != 0 || trimmed >= before.min(cost + 1),
            "{trimmed} of {before} trimmed for {cost}"
        );
        prop_assert_eq!(set_len(&world), before - trimmed + if allowed > 0 { cost } else { 0 });
        Ok(())
    });
}

fn set_len(world: &World) -> usize {
    match world.keyspace.keys.get(b"k").map(|entry| &entry.value) {
        Some(Value::Set(set)) => set.len(),
        _ => 0,
    }
}

/// Protects the form of what is stored: one unit of a log is one member, made of its microsecond or the next free
/// number above it, or of its id.
#[test]
fn a_log_holds_a_member_per_unit() {
    let mut world = World::new();
    let at = world.now_us;
    world.call("RL.SLIDING k 9 1s COST 2");
    world.call("RL.SLIDING k 9 1s ID a COST 2");
    world.call("RL.SLIDING k 9 1s");
    let Some(Value::Set(set)) = world.keyspace.keys.get(b"k").map(|entry| entry.value.clone()) else {
        panic!("no set")
    };
    let members: Vec<_> =
        set.iter().map(|(score, member)| (score, String::from_utf8(member.to_vec()).unwrap())).collect();
    let own = [0, 1, 2].map(|more| (at, (at + more).to_string()));
    let named = ["i000:a", "i001:a"].map(|member| (at, member.to_owned()));
    assert_eq!(members, own.into_iter().chain(named).collect::<Vec<_>>());
}

/// Protects old states: what other limiters or other programs stored is an error for each verb, and stays.
#[test]
fn the_state_of_another_limiter_is_an_error_and_stays() {
    law(2_000, (scene(ANY), super::scenes::any_limiter(), 0..4_usize), |(scene, limiter, verb)| {
        let mut world = scene.live();
        let Some(before) = entry(&world).cloned() else { return Ok(()) };
        if kind(&scene) == of(&limiter) {
            return Ok(());
        }
        let text = match verb {
            0 => limiter.decide(0),
            1 => limiter.verb("REFUND", 1),
            2 => limiter.verb("CHARGE", 1),
            _ => format!("RL.PEEK k {}", limiter.rule(1)),
        };
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        prop_assert_eq!(world.keyspace.call(world.now_us, &words), Answer::Refused);
        prop_assert!(world.keyspace.effects.is_empty());
        prop_assert_eq!(entry(&world), Some(&before));
        Ok(())
    });
}

fn kind(scene: &Scene) -> u8 {
    of(&scene.limiter)
}

/// Limiters that can read each other's states have the same number.
fn of(limiter: &Limiter) -> u8 {
    match limiter.family.algorithm() {
        "FIXED" => 0,
        "SLIDING" if limiter.is_log() => 1,
        "SLIDING" => 2,
        "TOKEN" => 3,
        _ => 4,
    }
}
