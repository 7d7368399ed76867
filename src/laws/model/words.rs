//! The words of a command, read for the model: what a rule says and which numbers are out of range. It judges
//! well-formed words and every bound; it does not say which word is at fault.

use super::window::Window;
use std::collections::HashMap;

pub const MAX_UNITS: i128 = 999_999_999_999_999;
const DAY_MS: i64 = 86_400_000;
const MAX_LOG_COST: i128 = 250;
const MAX_HOLDERS: i128 = 100_000;

pub type Key = Vec<u8>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Algorithm {
    Fixed,
    Log,
    Buckets,
    Token,
    Leaky,
}

/// An algorithm with its numbers and options; what does not belong to it is not looked at.
#[derive(Clone, Debug)]
pub struct Rule {
    pub algorithm: Algorithm,
    /// Limit or capacity.
    pub limit: i128,
    pub rate: i128,
    pub period_ms: i64,
    pub window: Window,
    /// The length of a sub-window of BUCKETS.
    pub sub_ms: i64,
    pub cost: i128,
    pub partial: bool,
    pub block_ms: Option<i64>,
    pub id: Option<Key>,
    pub shape: bool,
    pub within_ms: Option<i64>,
}

pub enum Command {
    Decide(Key, Rule),
    Peek(Key, Rule),
    Refund(Key, Rule),
    Charge(Key, Rule),
    All(Vec<(Key, Rule)>),
    PeekLease(Key, i128),
    Acquire(Key, i128, i64, Option<Key>),
    Renew(Key, i64, Vec<Key>),
    Release(Key, Vec<Key>),
}

/// Options that a rule may carry: in a decision all that its algorithm knows.
const DECIDE: &[&str] = &["COST", "PARTIAL", "ALIGN", "TZ", "BLOCK", "ID", "BUCKETS", "SHAPE", "WITHIN"];
const ALL: &[&str] = &["COST", "ALIGN", "TZ", "BLOCK", "ID", "BUCKETS", "SHAPE", "WITHIN"];
const REFUND: &[&str] = &["COST", "ALIGN", "TZ", "BUCKETS", "ID"];
const CHARGE: &[&str] = &["COST", "ALIGN", "TZ", "BUCKETS"];

/// Reads a whole command; `None` is what the product answers with an error before it opens a key.
pub fn command(words: &[&[u8]], log_max: i128) -> Option<Command> {
    let (&[name, key], rest) = words.split_first_chunk()?;
    let key = key.to_vec();
    Some(match upper(name).strip_prefix("RL.")? {
        algorithm @ ("FIXED" | "SLIDING" | "TOKEN" | "LEAKY") => {
            Command::Decide(key, rule(algorithm, rest, DECIDE, log_max)?)
        }
        "QUEUE" => Command::Decide(key, queue(rest)?),
        "PEEK" => match named(rest)? {
            (name, rest) if name == "LEASE" => {
                let [limit] = rest[..] else { return None };
                Command::PeekLease(key, number(limit, 0, MAX_HOLDERS)?)
            }
            (name, rest) => Command::Peek(key, rule(&name, &rest, DECIDE, log_max)?),
        },
        "REFUND" => {
            let (name, rest) = named(rest)?;
            let rule = rule(&name, &rest, REFUND, log_max)?;
            let id_alone = rule.id.is_none() || !rest.iter().any(|word| upper(word) == "COST");
            id_alone.then_some(Command::Refund(key, rule))?
        }
        "CHARGE" => {
            let (name, rest) = named(rest)?;
            Command::Charge(key, rule(&name, &rest, CHARGE, log_max)?)
        }
        "ALL" => Command::All(whole(&words[1..], log_max)?),
        "ACQUIRE" => {
            let (&[limit, lease], rest) = rest.split_first_chunk()?;
            let id = match rest {
                [] => None,
                [word, id] if upper(word) == "ID" => Some(identity(id)?),
                _ => return None,
            };
            Command::Acquire(key, number(limit, 0, MAX_HOLDERS)?, span(lease)?, id)
        }
        "RENEW" => Command::Renew(key, span(rest.first()?)?, identities(&rest[1..])?),
        "RELEASE" => Command::Release(key, identities(rest)?),
        _ => return None,
    })
}

/// The rules of a whole: a key and one argument each, no key twice, and no more log units than one call may cost.
fn whole(words: &[&[u8]], log_max: i128) -> Option<Vec<(Key, Rule)>> {
    let mut rules: Vec<(Key, Rule)> = Vec::new();
    for pair in words.chunks(2) {
        let (name, rest) = named(&pair[1..])?;
        let twice = rules.iter().any(|(key, _)| key == pair[0]);
        rules.push((pair[0].to_vec(), rule(&name, &rest, ALL, log_max).filter(|_| !twice)?));
    }
    let logs = rules.iter().filter(|(_, rule)| rule.algorithm == Algorithm::Log);
    let logged: i128 = logs.map(|(_, rule)| rule.cost).sum();
    (rules.len() <= 64 && logged <= MAX_LOG_COST).then_some(rules)
}

/// The algorithm's name and its words, which may stand in one argument or in several.
fn named<'a>(words: &[&'a [u8]]) -> Option<(String, Vec<&'a [u8]>)> {
    let words: Vec<&[u8]> = match words {
        [one] => one.split(|b| *b == b' ').filter(|w| !w.is_empty()).collect(),
        several => several.to_vec(),
    };
    let (name, rest) = words.split_first()?;
    Some((upper(name), rest.to_vec()))
}

/// `RL.QUEUE key capacity rate period max-wait`: LEAKY SHAPE WITHIN max-wait, where max-wait may be `0s`.
fn queue(words: &[&[u8]]) -> Option<Rule> {
    let (&[capacity, rate, period, max_wait], options) = words.split_first_chunk()?;
    let rule = rule("LEAKY", &[&[capacity, rate, period], options].concat(), &["COST"], 0)?;
    let wait_ms = if max_wait == b"0s" { 0 } else { span(max_wait)? };
    (wait_ms <= 3_600_000).then_some(Rule { shape: true, within_ms: Some(wait_ms), ..rule })
}

fn rule(name: &str, words: &[&[u8]], allowed: &[&str], log_max: i128) -> Option<Rule> {
    let (numbers, own): (usize, &[&str]) = match name {
        "FIXED" => (2, &["COST", "PARTIAL", "ALIGN", "TZ", "BLOCK"]),
        "SLIDING" => (2, &["COST", "PARTIAL", "ID", "BUCKETS"]),
        "TOKEN" => (3, &["COST", "PARTIAL"]),
        "LEAKY" => (3, &["COST", "PARTIAL", "SHAPE", "WITHIN"]),
        _ => return None,
    };
    let (numbers, rest) = words.split_at_checked(numbers)?;
    let period = numbers.last()?;

    let mut options: HashMap<String, &[u8]> = HashMap::new();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let option = upper(word);
        let known = own.contains(&&*option) && allowed.contains(&&*option);
        let flag = matches!(&*option, "PARTIAL" | "ALIGN" | "SHAPE");
        let value = if flag { b"" } else { *rest.next()? };
        if !known || options.insert(option, value).is_some() {
            return None;
        }
    }
    let has = |option: &str| options.contains_key(option);
    let clash = [("PARTIAL", "ID"), ("PARTIAL", "SHAPE"), ("ID", "BUCKETS")].iter().any(|(a, b)| has(a) && has(b));
    if clash || has("TZ") && !has("ALIGN") || has("WITHIN") && !has("SHAPE") {
        return None;
    }

    let spanned = |option: &str| options.get(option).map_or(Some(None), |word| span(word).map(Some));
    let calendar = if has("ALIGN") { months(period) } else { None };
    let period_ms = if calendar.is_some() { 0 } else { span(period)? };
    let offset_ms = options.get("TZ").map_or(Some(0), |word| offset(word))?;
    let buckets = options.get("BUCKETS").map_or(Some(1), |word| number(word, 2, 360))?;
    let buckets = i64::try_from(buckets).ok()?;
    let rule = Rule {
        algorithm: match name {
            "FIXED" => Algorithm::Fixed,
            "TOKEN" => Algorithm::Token,
            "LEAKY" => Algorithm::Leaky,
            _ if has("BUCKETS") => Algorithm::Buckets,
            _ => Algorithm::Log,
        },
        limit: number(numbers[0], 0, MAX_UNITS)?,
        rate: if numbers.len() == 3 { number(numbers[1], 1, MAX_UNITS)? } else { 1 },
        period_ms,
        window: match calendar {
            Some(months) => Window::Calendar { months, offset_ms },
            // Monday 29 December 1969 is three days before the epoch, a Thursday.
            None if has("ALIGN") && period.ends_with(b"w") => Window::Aligned(period_ms, offset_ms + 3 * DAY_MS),
            None if has("ALIGN") => Window::Aligned(period_ms, offset_ms),
            None => Window::Rolling(period_ms),
        },
        sub_ms: (period_ms + buckets - 1) / buckets,
        cost: options.get("COST").map_or(Some(1), |word| number(word, 0, MAX_UNITS))?,
        partial: has("PARTIAL"),
        block_ms: spanned("BLOCK")?,
        id: options.get("ID").map_or(Some(None), |word| identity(word).map(Some))?,
        shape: has("SHAPE"),
        within_ms: spanned("WITHIN")?,
    };
    let too_large = rule.algorithm == Algorithm::Log && (rule.limit > log_max || rule.cost > MAX_LOG_COST);
    (!too_large).then_some(rule)
}

fn upper(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_uppercase()
}

fn identity(word: &[u8]) -> Option<Key> {
    (1..=128).contains(&word.len()).then(|| word.to_vec())
}

fn identities(words: &[&[u8]]) -> Option<Vec<Key>> {
    let ids: Option<Vec<Key>> = words.iter().map(|word| identity(word)).collect();
    ids.filter(|ids| (1..=250).contains(&ids.len()))
}

/// Plain decimal digits, at most fifteen, no leading zero.
fn number(word: &[u8], min: i128, max: i128) -> Option<i128> {
    let plain = word.iter().all(u8::is_ascii_digit) && (word == b"0" || !word.starts_with(b"0"));
    let text = std::str::from_utf8(word).ok().filter(|text| plain && text.len() <= 15)?;
    text.parse().ok().filter(|value| (min..=max).contains(value))
}

/// A number and the unit behind it.
fn split_unit(word: &[u8]) -> Option<(i64, &[u8])> {
    let digits = word.iter().take_while(|b| b.is_ascii_digit()).count();
    let count = number(&word[..digits], 1, MAX_UNITS)?;
    Some((i64::try_from(count).ok()?, &word[digits..]))
}

/// A period, lease or duration in milliseconds.
fn span(word: &[u8]) -> Option<i64> {
    let (count, unit) = split_unit(word)?;
    let unit_ms = match unit {
        b"ms" => 1,
        b"s" => 1000,
        b"m" => 60_000,
        b"h" => 3_600_000,
        b"d" => DAY_MS,
        b"w" => 7 * DAY_MS,
        _ => return None,
    };
    count.checked_mul(unit_ms).filter(|ms| *ms <= 3650 * DAY_MS)
}

/// The calendar's units, in months.
fn months(word: &[u8]) -> Option<i64> {
    match split_unit(word)? {
        (months @ (1 | 2 | 3 | 4 | 6), b"mo") => Some(months),
        (1, b"y") => Some(12),
        _ => None,
    }
}

/// `±hh:mm` in milliseconds east of UTC.
fn offset(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok().filter(|text| text.is_ascii() && text.len() == 6)?;
    let two = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?;
    let (hours, minutes) = (two(&text[1..3])?, two(&text[4..])?);
    let ms = (hours * 60 + minutes) * 60_000;
    match (&text[..1], &text[3..4]) {
        _ if hours > 23 || minutes > 59 => None,
        ("+", ":") => Some(ms),
        ("-", ":") => Some(-ms),
        _ => None,
    }
}
