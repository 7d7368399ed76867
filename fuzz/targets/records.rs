//! Any stored bytes: somebody else's, or a record within bounds that is written again as it was read; and whatever was
//! read can be decided upon.
#![no_main]

use libfuzzer_sys::fuzz_target;
use redis_limiters::commands::reply;
use redis_limiters::engine::bucket::{Bucket, Stored};
use redis_limiters::engine::buckets::{Buckets, SubWindows};
use redis_limiters::engine::calendar::Period;
use redis_limiters::engine::fixed::{Counter, Fixed};
use redis_limiters::engine::leaky::{Leaky, Outflow};
use redis_limiters::engine::rate::Rate;
use redis_limiters::engine::time::{LONGEST_MS, Micros, Millis, Span};
use redis_limiters::engine::token::Token;
use redis_limiters::engine::{Ask, Loaded, Verb, answer};
use redis_limiters::storage::record;

const NOW: i64 = 1_767_225_600_000_000;

fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let (one, other) = match rest.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &[][..]),
    };
    // Numbers that make the arithmetic wide, and plain ones.
    let numbers = [(5, 1, 60_000), (999_999_999_999_999, 1, 315_360_000_000), (1, 999_999_999_999_999, 1), (0, 7, 3)];
    let (limit, units, period_ms) = numbers[usize::from(*choice) % numbers.len()];
    let period = Span::from_ms(period_ms);
    let bucket = Bucket { capacity: limit, rate: Rate::new(units, period).expect("a rate") };
    match choice / 4 % 4 {
        0 => {
            if let Some(used) = record::read_counter(one) {
                assert_eq!(record::number(used).as_bytes(), one);
                let fixed = Fixed { limit, period: Period::Plain(period), align: None, block: None };
                let end = i64::try_from(used % 4_000_000_000_000).expect("an instant");
                for end in [None, Some(Millis::new(end))] {
                    decide(&Loaded::Fixed(fixed, Some(Counter { used, end })));
                }
            }
        }
        1 => {
            let at = record::read_micros(other);
            if let Some(at) = at {
                assert_eq!(record::signed(at.get()).as_bytes(), other);
            }
            for negative in [false, true] {
                let Some(amount) = record::read_amount(one, negative) else { continue };
                assert!(negative || amount.whole >= 0);
                assert!(amount.whole.unsigned_abs() <= 9_999_999_999_999_999);
                assert!(0 <= amount.numerator && amount.numerator < amount.denominator);
                assert!(amount.denominator <= 315_360_000_000_000);
                let again = record::amount(amount);
                let read = record::read_amount(again.as_bytes(), negative).expect("what is written can be read");
                assert_eq!((read.whole, read.numerator), (amount.whole, amount.numerator));
                let at = at.unwrap_or(Micros::from_clock(NOW - 1));
                for expiry in [None, Some(Millis::new(NOW / 1_000 + 5))] {
                    let stored = Some(Stored { amount, at, expiry });
                    if negative {
                        decide(&Loaded::Token(Token(bucket), stored));
                    } else {
                        for outflow in [Outflow::Police, Outflow::Shape { within: Some(Span::from_ms(1)) }] {
                            decide(&Loaded::Leaky(Leaky { bucket, outflow }, stored));
                        }
                    }
                }
            }
        }
        2 => {
            let mut fields: Vec<_> = rest
                .split(|byte| *byte == b'\n')
                .filter_map(|line| {
                    let space = line.iter().position(|byte| *byte == b' ')?;
                    record::read_sub_window(&line[..space], &line[space + 1..])
                })
                .collect();
            fields.sort_unstable_by_key(|field| field.end);
            fields.dedup_by_key(|field| field.end);
            for parts in [2, 360] {
                let stored = SubWindows { fields: fields.clone(), expiry: None };
                decide(&Loaded::Buckets(Buckets { limit, period, parts }, stored));
            }
        }
        _ => {
            let log = record::is_log_member(one);
            let lease = record::is_lease_member(one);
            assert!(!(log && lease), "a member is of one kind");
            if let Some(index) = record::unit_of(one, other) {
                assert_eq!(record::id_member(index, other).as_bytes(), one);
                assert_eq!(log, record::is_id(other));
            }
            if let Some(id) = one.strip_prefix(b"l:").filter(|id| record::is_id(id)) {
                assert!(lease);
                assert_eq!(record::lease_member(id).as_bytes(), one);
            }
        }
    }
});

/// Every question about a state: the numbers of the answer are within their bounds.
fn decide(loaded: &Loaded<'_>) {
    for now in [NOW, NOW - 400_000_000_000_000, NOW + 400_000_000_000_000] {
        for verb in [Verb::Decide, Verb::Refund, Verb::Charge] {
            for cost in [0, 1, 2, 999_999_999_999_999] {
                for partial in [false, true] {
                    let (decision, _) = answer(verb, loaded, Ask { cost, partial }, Micros::from_clock(now));
                    let [first, limit, remaining, wait, reset] = reply::five(&decision);
                    assert!(first >= 0 && 0 <= remaining && remaining <= limit, "{decision:?}");
                    assert!((-1..=LONGEST_MS).contains(&wait) && (0..=LONGEST_MS).contains(&reset), "{decision:?}");
                }
            }
        }
    }
}
