//! Long random histories on both modules: the same replies, the same states.

use crate::chance::{Chance, scaled};
use crate::client::Conn;
use crate::harness::say;
use crate::theirs::{FORGOTTEN_NS, Numbers, Pair, state};

const KEYS: usize = 4;
const STEPS: u64 = 100;

/// What a run came to.
#[derive(Default)]
struct Tally {
    calls: u64,
    limited: u64,
    changes: u64,
    given_back: u64,
    forgotten: u64,
}

fn numbers(chance: &mut Chance) -> Numbers {
    const COUNTS: [i64; 9] = [1, 2, 3, 7, 10, 30, 100, 999, 5_000];
    const PERIODS: [i64; 8] = [1, 2, 3, 10, 60, 61, 3_600, 86_400];
    let burst = [0, 1, 5, 20, 1_000][chance.index(5)];
    Numbers { burst, count: COUNTS[chance.index(COUNTS.len())], period: PERIODS[chance.index(PERIODS.len())] }
}

/// No wait at all, a few ticks, about the time of some units, or so long that everything is worked off.
fn wait_us(chance: &mut Chance, rule: Numbers, tick_us: i64) -> i64 {
    let upto = |chance: &mut Chance, us: i64| i64::try_from(chance.below(u64::try_from(us.max(1)).unwrap())).unwrap();
    let us = match chance.below(10) {
        0..=3 => 0,
        4..=5 => upto(chance, 5) * tick_us,
        6..=8 => upto(chance, rule.interval_ns() / 1_000 * 3),
        _ => upto(chance, rule.tolerance_ns() / 1_000 * 2),
    };
    us / tick_us * tick_us
}

/// Mostly one unit, sometimes none, some, more than fit, or some given back that are surely owed.
fn quantity(chance: &mut Chance, rule: Numbers, debt_ns: i64) -> i64 {
    let upto = |chance: &mut Chance, bound: i64| i64::try_from(chance.below(u64::try_from(bound).unwrap())).unwrap();
    // redis-cell does not survive giving back the last millisecond of a debt: see the differences.
    let owed = (debt_ns - 1_000_000) / rule.interval_ns();
    match chance.below(20) {
        0 => 0,
        1..=3 => 1 + upto(chance, rule.burst + 1),
        4 => rule.burst + 2 + upto(chance, 5),
        5..=6 if owed > 0 => -1 - upto(chance, owed.min(30)),
        _ => 1,
    }
}

/// redis-cell lets a key go up to two milliseconds before its debt is worked off. Where it has, it gets ours back.
fn remember(pair: &mut Pair, key: &str) -> bool {
    let ours = state(&mut pair.us, key);
    let debt = pair.debt_ns(ours);
    if debt == 0 || state(&mut pair.them, key).is_some() {
        return false;
    }
    assert!(debt < FORGOTTEN_NS, "redis-cell lost {key} with {debt} ns");
    let debt_ms = debt / 1_000_000 + 2;
    pair.them.good(&format!("SET {key} {} PX {debt_ms}", ours.unwrap()));
    true
}

fn history(pair: &mut Pair, chance: &mut Chance, number: u64, tick_us: i64, tally: &mut Tally) {
    let mut rules: Vec<_> = (0..KEYS).map(|_| numbers(chance)).collect();
    let mut now_us = 0;
    pair.at_us(now_us);
    for _ in 0..STEPS {
        let index = chance.index(KEYS);
        if chance.percent(5) {
            rules[index] = numbers(chance);
            tally.changes += 1;
        }
        let (rule, key) = (rules[index], format!("{number}:{index}"));
        now_us += wait_us(chance, rule, tick_us);
        pair.at_us(now_us);
        tally.forgotten += u64::from(remember(pair, &key));
        let debt = pair.their_debt_ns(&key);
        let quantity = quantity(chance, rule, debt);
        let reply = pair.same(&key, rule, quantity);
        let left = state(&mut pair.us, &key);
        assert!(pair.debt_ns(left) == 0 || has_expiry(&mut pair.us, &key, left), "{key} has no good expiry");
        tally.calls += 1;
        tally.limited += u64::from(reply[0] == 1);
        tally.given_back += u64::from(quantity < 0);
    }
    pair.us.good("FLUSHALL");
    pair.them.good("FLUSHALL");
}

/// The expiry is not before the debt's end.
fn has_expiry(conn: &mut Conn, key: &str, tat: Option<i64>) -> bool {
    i128::from(conn.int(&format!("PEXPIRETIME {key}"))) * 1_000_000 >= i128::from(tat.unwrap_or(0))
}

fn run(test: &str, tick_us: i64) {
    let Some(mut pair) = Pair::start(test) else { return };
    let mut chance = Chance::for_test(test);
    let mut tally = Tally::default();
    let histories = scaled(100, 2_000);
    for number in 0..histories {
        history(&mut pair, &mut chance, number, tick_us, &mut tally);
    }
    let Tally { calls, limited, changes, given_back, forgotten } = tally;
    say(&format!(
        "{histories} histories, {calls} calls ({limited} limited, {given_back} giving back, {changes} after other numbers): \
         same replies; redis-cell forgot {forgotten} debts too early"
    ));
    assert!(tick_us < 1_000 || forgotten == 0, "redis-cell forgets nothing at whole milliseconds");
    assert!(limited > calls / 20 && limited < calls * 19 / 20, "the histories limit now and then");
    assert!(changes > 0 && given_back > 0, "the histories change numbers and give back");
}

/// Whoever swaps the modules sees no other reply: at whole milliseconds, where redis-cell forgets nothing.
#[test]
fn whole_milliseconds_give_the_same_replies() {
    run("histories::whole_milliseconds_give_the_same_replies", 1_000);
}

/// At any microsecond the replies are the same too, but for debts that redis-cell forgets in their last millisecond.
#[test]
fn microseconds_give_the_same_replies_but_for_what_redis_cell_forgets() {
    run("histories::microseconds_give_the_same_replies_but_for_what_redis_cell_forgets", 1);
}
