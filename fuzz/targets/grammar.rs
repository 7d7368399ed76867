//! Any words: read into a request within bounds, or answered with an error that can be printed. What was read, said
//! again in the plainest words and with its options the other way round, reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use redis_limiters::commands::error::Fault;
use redis_limiters::commands::limit::{self, Algorithm, Form, Settings};
use redis_limiters::commands::verbs::{self, Look};
use redis_limiters::commands::{grammar, lease, table};
use redis_limiters::engine::calendar::{Offset, Period};
use redis_limiters::engine::leaky::Outflow;
use redis_limiters::engine::time::Span;
use redis_limiters::engine::{Limiter, Rule};

const SETTINGS: Settings = Settings { sliding_max_limit: 100_000 };
const FIFTEEN_DIGITS: u64 = 999_999_999_999_999;
const TEN_YEARS_US: i64 = 3_650 * 86_400_000_000;

const FORMS: [Form; 5] = [Form::Decide, Form::Peek, Form::Refund, Form::Charge, Form::Whole];
const ALGORITHMS: [Algorithm; 4] = [Algorithm::Fixed, Algorithm::Sliding, Algorithm::Token, Algorithm::Leaky];

fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let arguments: Vec<&[u8]> = rest.split(|byte| *byte == b'\n').collect();
    let mut words = arguments.iter().copied();
    let form = FORMS[usize::from(*choice) % FORMS.len()];
    match choice / 8 % 8 {
        0 => {
            for algorithm in ALGORITHMS {
                judge_rule(limit::rule(algorithm, form, SETTINGS, &mut words.clone()), form);
            }
        }
        1 => judge_rule(limit::named_rule(form, SETTINGS, &mut verbs::spread(words)), form),
        2 => match judge(verbs::peek(SETTINGS, &mut verbs::spread(words))) {
            Some(Look::Rule(rule)) => judge_rule(Ok(rule), Form::Peek),
            Some(Look::Leases(limit)) => assert!(limit <= 100_000),
            None => {}
        },
        3 => {
            if let Some(rules) = judge(verbs::whole(SETTINGS, words)) {
                assert!(!rules.is_empty() && rules.len() <= grammar::MOST_RULES && rules.len() * 2 == arguments.len());
                assert!(rules.iter().map(limit::logged).sum::<u64>() <= grammar::MOST_LOGGED);
                for rule in rules {
                    judge_rule(Ok(rule), Form::Whole);
                }
            }
        }
        4 => {
            if let Some((acquire, id)) = judge(lease::acquire(&mut words)) {
                assert!(acquire.limit <= 100_000);
                assert_span(acquire.lease);
                assert!(id.is_none_or(|id| (1..=128).contains(&id.len())));
            }
        }
        5 => {
            if let Some(lease) = judge(lease::renewal(&mut words)) {
                assert_span(lease);
            }
            if judge(lease::ids(arguments.clone().into_iter())).is_some() {
                assert!(arguments.len() <= grammar::MOST_IDS);
                assert!(arguments.iter().all(|id| (1..=128).contains(&id.len())));
            }
        }
        6 => {
            if let Some(queue) = judge(limit::queue(&mut words)) {
                assert!(queue.longest_wait <= Span::from_ms(3_600_000));
                assert!(queue.ask.cost <= FIFTEEN_DIGITS && !queue.ask.partial);
            }
        }
        _ => {
            if let Some(found) = table::find(rest) {
                assert!(found.name.starts_with("rl."));
            }
        }
    }
});

/// What was read; or nothing, after a look at the error's text.
fn judge<T>(outcome: Result<T, Fault>) -> Option<T> {
    match outcome {
        Ok(read) => Some(read),
        Err(fault) => {
            let text = fault.text();
            assert!(text.starts_with("ERR "), "{text}");
            assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text:?}");
            assert!(text.len() < 512, "{text}");
            None
        }
    }
}

fn assert_span(span: Span) {
    assert!(span >= Span::from_ms(1) && span.us() <= TEN_YEARS_US);
}

fn judge_rule(outcome: Result<Rule<'_>, Fault>, form: Form) {
    let Some(rule) = judge(outcome) else { return };
    let (limit, period) = match rule.limiter {
        Limiter::Fixed(fixed) => (fixed.limit, fixed.period.span()),
        Limiter::Sliding(sliding) => (sliding.limit, Some(sliding.period)),
        Limiter::Buckets(buckets) => (buckets.limit, Some(buckets.period)),
        Limiter::Token(token) => (token.0.capacity, None),
        Limiter::Leaky(leaky) => (leaky.bucket.capacity, None),
    };
    assert!(limit <= FIFTEEN_DIGITS && rule.ask.cost <= FIFTEEN_DIGITS);
    if let Some(period) = period {
        assert_span(period);
    }
    if matches!(rule.limiter, Limiter::Sliding(_)) {
        assert!(limit <= SETTINGS.sliding_max_limit && rule.ask.cost <= grammar::MOST_LOGGED);
    }
    assert!(form != Form::Whole || !rule.ask.partial);
    for backwards in [false, true] {
        let said = said(&rule, form, backwards);
        let again = limit::named_rule(form, SETTINGS, &mut said.iter().map(Vec::as_slice));
        assert_eq!(again, Ok(rule), "{said:?}");
    }
}

/// A rule in words, each option a group of its own.
fn said(rule: &Rule<'_>, form: Form, backwards: bool) -> Vec<Vec<u8>> {
    let word = |text: String| text.into_bytes();
    let ms = |span: Span| word(format!("{}ms", span.ceil_ms()));
    let mut numbers = Vec::new();
    let mut options: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut costs = true;
    match rule.limiter {
        Limiter::Fixed(fixed) => {
            numbers.extend([word("fixed".into()), word(fixed.limit.to_string())]);
            numbers.push(match fixed.period {
                Period::Plain(span) => ms(span),
                Period::Weeks(span) => word(format!("{}w", span.ceil_ms() / (7 * 86_400_000))),
                Period::Months(12) => word("1y".into()),
                Period::Months(months) => word(format!("{months}mo")),
            });
            if let Some(offset) = fixed.align {
                options.push(vec![word("align".into())]);
                options.push(vec![word("tz".into()), word(offset_text(offset))]);
            }
            if let Some(block) = fixed.block {
                options.push(vec![word("block".into()), ms(block)]);
            }
        }
        Limiter::Sliding(sliding) => {
            numbers.extend([word("sliding".into()), word(sliding.limit.to_string()), ms(sliding.period)]);
            if let Some(id) = sliding.id {
                options.push(vec![word("id".into()), id.to_vec()]);
                // A refund of a request gives back whatever it took.
                costs = form != Form::Refund;
            }
        }
        Limiter::Buckets(buckets) => {
            numbers.extend([word("sliding".into()), word(buckets.limit.to_string()), ms(buckets.period)]);
            options.push(vec![word("buckets".into()), word(buckets.parts.to_string())]);
        }
        Limiter::Token(token) => bucket("token", token.0, &mut numbers),
        Limiter::Leaky(leaky) => {
            bucket("leaky", leaky.bucket, &mut numbers);
            if let Outflow::Shape { within } = leaky.outflow {
                options.push(vec![word("shape".into())]);
                options.extend(within.map(|within| vec![word("within".into()), ms(within)]));
            }
        }
    }
    if costs {
        options.push(vec![word("cost".into()), word(rule.ask.cost.to_string())]);
    }
    if rule.ask.partial {
        options.push(vec![word("partial".into())]);
    }
    if backwards {
        options.reverse();
    }
    numbers.into_iter().chain(options.into_iter().flatten()).collect()
}

fn bucket(name: &str, bucket: redis_limiters::engine::bucket::Bucket, numbers: &mut Vec<Vec<u8>>) {
    // A unit is as many shares as the period has microseconds, and a microsecond gives back the rate's units in shares.
    let period_ms = bucket.rate.of_units(1) / 1_000;
    let units = bucket.rate.given_back(Span::from_us(1));
    let words = [name.to_owned(), bucket.capacity.to_string(), units.to_string(), format!("{period_ms}ms")];
    numbers.extend(words.map(String::into_bytes));
}

fn offset_text(offset: Offset) -> String {
    let minutes = (-1_439..1_440).find(|minutes| Offset::from_minutes(*minutes) == Some(offset));
    let minutes = minutes.expect("an offset of less than a day");
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
}
