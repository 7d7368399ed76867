//! Replays the case files through the model: the contract's own examples.

use super::{Answer, Model};
use std::collections::BTreeSet;
use std::path::Path;

/// 2026-01-01 00:00:00 UTC, the time 0 of every case.
const ORIGIN_US: i64 = 1_767_225_600_000_000;
const FILES: [&str; 5] = ["basics", "change_and_clock", "exactness", "lifetime", "verbs"];
/// Native commands that look at a state's form, or at what a transaction sees: the model holds neither. Nor does it
/// hold a foreign value for GET.
const SKIPPED: [&str; 10] = ["DEBUG", "EXEC", "GET", "HGETALL", "MULTI", "PING", "TYPE", "WATCH", "ZCARD", "ZRANGE"];

/// Protects the model itself: every row that it can answer is answered as the case files say, with every wait also
/// found by its definition.
#[test]
fn the_model_answers_as_the_case_files_say() {
    let (mut asserted, mut skipped, mut wrong) = (0, BTreeSet::new(), Vec::new());
    for file in FILES {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases")).join(file).with_extension("txt");
        let text = std::fs::read_to_string(&path).expect("the case files stand in tests/cases");
        asserted += replay(&text, file, &mut skipped, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(asserted > 350, "only {asserted} rows were compared: the case files are not what they were");
    assert!(skipped.iter().eq(SKIPPED), "other native commands are skipped than those named: {skipped:?}");
}

/// Protects what the case files leave out: rows that were worked out by hand from the contract.
#[test]
fn the_model_answers_as_worked_out_by_hand() {
    let (mut skipped, mut wrong) = (BTreeSet::new(), Vec::new());
    assert!(replay(include_str!("rows.txt"), "rows", &mut skipped, &mut wrong) > 70);
    assert!(wrong.is_empty() && skipped.is_empty(), "{skipped:?} {}", wrong.join("\n"));
}

/// Replays one file; how many answers were compared.
fn replay(text: &str, file: &str, skipped: &mut BTreeSet<String>, wrong: &mut Vec<String>) -> usize {
    let (mut asserted, mut model) = (0, Model::new(100_000));
    for (row, line) in text.lines().enumerate() {
        if line.starts_with("case ") {
            model = Model::new(100_000);
            model.paranoid(true);
        }
        if line.trim().is_empty() || line.starts_with("case ") || line.starts_with('#') {
            continue;
        }
        let line = line.split("  #").next().unwrap();
        let (left, expected) = line.split_once("->").map_or((line, None), |(l, e)| (l, Some(e.trim())));
        let mut words = split(left);
        let now_us = ORIGIN_US + micros(&words.remove(0));
        let Some(answer) = answer(&mut model, now_us, &words) else {
            skipped.insert(words[0].clone());
            continue;
        };
        let Some(expected) = expected else { continue };
        asserted += 1;
        if !matches(&answer, expected) {
            wrong.push(format!("{file}.txt:{}: {left}-> {expected}, but the model answers {answer:?}", row + 1));
        }
    }
    asserted
}

/// The answer as a list of words, which a range of two numbers may follow; `None`: not for the model.
fn answer(model: &mut Model, now_us: i64, words: &[String]) -> Option<Vec<String>> {
    let key = words.get(1).map_or(&b""[..], |key| key.as_bytes());
    let now_ms = now_us / 1000;
    let number = |at: usize| words[at].parse::<i64>();
    let one = |value: i64| Some(vec![value.to_string()]);
    match &*words[0] {
        name if name.starts_with("RL.") => {
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            Some(render(&model.call(now_us, &words)))
        }
        "EXISTS" => {
            one(i64::try_from(words[1..].iter().filter(|k| model.exists(now_us, k.as_bytes())).count()).unwrap())
        }
        "GET" => model.counter(now_us, key).map(|(value, _)| vec![value.to_string()]),
        "SET" => {
            let end_ms = (words.len() > 3).then(|| now_ms + number(4).unwrap());
            match number(2) {
                Ok(value) if value.to_string() == words[2] => model.set_counter(key, value, end_ms),
                _ => model.set_foreign(key),
            }
            Some(vec!["OK".into()])
        }
        "INCR" => {
            let (value, end_ms) = model.counter(now_us, key)?;
            let value = i64::try_from(value).unwrap() + 1;
            model.set_counter(key, value, end_ms);
            one(value)
        }
        "RPUSH" | "HSET" | "ZADD" => {
            model.set_foreign(key);
            one(1)
        }
        "PERSIST" => {
            model.persist(key);
            one(1)
        }
        "PTTL" => Some(match model.forget_at(key) {
            Some((first, last)) => vec![format!("{}..{}", first - now_ms, last - now_ms)],
            None => vec!["-1".into()],
        }),
        _ => None,
    }
}

fn render(answer: &Answer) -> Vec<String> {
    let texts = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>();
    match answer {
        Answer::Five(five) => texts(five),
        Answer::Lease { five, id } => {
            let id = id.as_ref().map_or("nil".into(), |id| String::from_utf8(id.clone()).unwrap());
            [texts(five), vec![id]].concat()
        }
        Answer::Whole { allowed, wait, each } => [texts(&[*allowed, *wait]), texts(each.as_flattened())].concat(),
        Answer::Count(count) => texts(&[*count]),
        Answer::Refused => vec!["ERR".into()],
    }
}

/// `*` is any word, `1..5` holds a number or a range, `ERR*words` is any error.
fn matches(answer: &[String], expected: &str) -> bool {
    if expected.starts_with("ERR*") {
        return answer == ["ERR"];
    }
    let expected = expected.replace(['[', ']'], " ");
    let expected: Vec<&str> = expected.split_whitespace().collect();
    let range = |text: &str| {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        Some((first.parse::<i64>().ok()?, last.parse::<i64>().ok()?))
    };
    let holds = |answer: &str, expected: &str| match (range(answer), range(expected)) {
        (Some((first, last)), Some((low, high))) => low <= first && last <= high,
        _ => answer == expected,
    };
    answer.len() == expected.len() && answer.iter().zip(expected).all(|(a, e)| e == "*" || holds(a, e))
}

/// Milliseconds with up to three decimals.
fn micros(text: &str) -> i64 {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{decimals:0<3}").parse().unwrap()
}

/// Words by blanks; quotes hold one together.
pub fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for letter in line.chars() {
        match letter {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}
