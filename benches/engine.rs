//! The engine, the grammar and the record codec, per algorithm and path: what a decision costs before any server.

#![expect(clippy::expect_used, reason = "the rules and amounts of this file are well formed")]

use criterion::{Criterion, criterion_group, criterion_main};
use redis_limiters::commands::limit::{Form, Settings, named_rule};
use redis_limiters::engine::bucket::Stored;
use redis_limiters::engine::buckets::{SubWindow, SubWindows};
use redis_limiters::engine::fixed::Counter;
use redis_limiters::engine::sliding::Log;
use redis_limiters::engine::time::{Micros, Millis, Span};
use redis_limiters::engine::{Ask, Limiter, Loaded, Rule, decide};
use redis_limiters::storage::record;
use std::hint::black_box;

const SETTINGS: Settings = Settings { sliding_max_limit: 100_000 };
const NOW_MS: i64 = 1_767_225_600_000;

fn now() -> Micros {
    Micros::from_clock(NOW_MS * 1_000 + 123)
}

fn rule(text: &str) -> Rule<'_> {
    let mut words = text.split(' ').map(str::as_bytes);
    named_rule(Form::Decide, SETTINGS, &mut words).expect("a rule of this file is well formed")
}

fn later(ms: i64) -> Option<Millis> {
    Some(Millis::new(NOW_MS + ms))
}

fn bucket(text: &str) -> Option<Stored> {
    let amount = record::read_amount(text.as_bytes(), true).expect("an amount of this file is well formed");
    Some(Stored { amount, at: Micros::from_clock(NOW_MS * 1_000), expiry: later(60_000) })
}

/// A limiter in the state that admits (`busy` false) or refuses (`busy` true).
fn loaded(text: &str, busy: bool) -> (Loaded<'_>, Ask) {
    let Rule { limiter, ask } = rule(text);
    let loaded = match limiter {
        Limiter::Fixed(fixed) => {
            Loaded::Fixed(fixed, Some(Counter { used: if busy { fixed.limit } else { 1 }, end: later(500) }))
        }
        Limiter::Sliding(sliding) => {
            let live = if busy { sliding.limit } else { 3 };
            let at = Some(Micros::from_clock(NOW_MS * 1_000));
            let log = Log { exists: true, live, newest: at, leaving: at, expiry: later(60_000), ..Log::default() };
            Loaded::Sliding(sliding, log)
        }
        Limiter::Buckets(buckets) => {
            let units = if busy { buckets.limit / 60 + 1 } else { 1 };
            let fields = (0..60).map(|back| SubWindow { end: Millis::new(NOW_MS - (59 - back) * 1_000), units });
            Loaded::Buckets(buckets, SubWindows { fields: fields.collect(), expiry: later(60_000) })
        }
        Limiter::Token(token) => Loaded::Token(token, bucket(if busy { "0+500/1000000" } else { "7+1/3" })),
        Limiter::Leaky(leaky) => Loaded::Leaky(leaky, bucket(if busy { "10" } else { "2+1/3" })),
    };
    (loaded, ask)
}

fn decisions(criterion: &mut Criterion) {
    let rules = [
        ("fixed", "FIXED 100 1m"),
        ("fixed_align_month", "FIXED 100 1mo ALIGN TZ +02:00"),
        ("sliding", "SLIDING 100 1m"),
        ("buckets_60", "SLIDING 6000 1m BUCKETS 60"),
        ("token", "TOKEN 10 10 1s"),
        ("token_wide", "TOKEN 999999999999999 999999999999999 3650d"),
        ("leaky", "LEAKY 10 10 1s"),
        ("leaky_shape", "LEAKY 10 10 1s SHAPE WITHIN 5s"),
    ];
    for (name, text) in rules {
        for (path, busy) in [("admitted", false), ("refused", true)] {
            let (loaded, ask) = loaded(text, busy);
            criterion.bench_function(&format!("decide/{name}/{path}"), |bencher| {
                bencher.iter(|| decide(black_box(&loaded), black_box(ask), black_box(now())));
            });
        }
    }
}

fn grammar(criterion: &mut Criterion) {
    for text in
        ["FIXED 100 1m", "TOKEN 10 1 1s", "TOKEN 10 1 1s COST 3 PARTIAL", "FIXED 5 1d ALIGN TZ +02:00 BLOCK 15m"]
    {
        criterion.bench_function(&format!("grammar/{text}"), |bencher| {
            bencher.iter(|| rule(black_box(text)));
        });
    }
    criterion.bench_function("grammar/error", |bencher| {
        bencher.iter(|| {
            let mut words = black_box("TOKEN 10 1 60").split(' ').map(str::as_bytes);
            named_rule(Form::Decide, SETTINGS, &mut words).expect_err("60 has no unit")
        });
    });
}

fn records(criterion: &mut Criterion) {
    for text in ["7", "7+1/3", "-999999999999999+315359999999999/315360000000000"] {
        criterion.bench_function(&format!("record/read {text}"), |bencher| {
            bencher.iter(|| record::read_amount(black_box(text.as_bytes()), true));
        });
        let amount = record::read_amount(text.as_bytes(), true).expect("an amount of this file is well formed");
        criterion.bench_function(&format!("record/write {text}"), |bencher| {
            bencher.iter(|| record::amount(black_box(amount)).as_bytes().len());
        });
    }
    criterion.bench_function("record/read counter", |bencher| {
        bencher.iter(|| record::read_counter(black_box(b"1234567")));
    });
    criterion.bench_function("record/write instant", |bencher| {
        bencher.iter(|| record::signed(black_box(now().get())).as_bytes().len());
    });
    let span = Span::from_ms(1_500);
    criterion.bench_function("time/ceil", |bencher| bencher.iter(|| black_box(now()).ceil_ms_after(black_box(span))));
}

criterion_group!(engine, decisions, grammar, records);
criterion_main!(engine);
