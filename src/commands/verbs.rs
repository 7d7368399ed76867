//! The words of RL.PEEK, RL.REFUND, RL.CHARGE, RL.ALL and RL.TOP.

use super::error::{Fault, quoted};
use super::grammar::{HOLDERS, MOST_LOGGED, MOST_RULES, MOST_SUB_WINDOWS, ROWS};
use super::limit::{self, Form, Settings};
use crate::engine::Rule;

/// What RL.PEEK looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look<'a> {
    /// A limiter.
    Rule(Rule<'a>),
    /// Leases with so many holders at a time.
    Leases(u64),
}

/// The words of one argument.
pub fn words(argument: &[u8]) -> impl Iterator<Item = &[u8]> {
    argument.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// The words of a rule that stands in one argument or in several. In several, an argument is a word, so that an id may
/// contain spaces.
pub fn spread<'a>(arguments: impl ExactSizeIterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
    let single = arguments.len() == 1;
    arguments.flat_map(move |argument| {
        let (split, whole) = if single { (Some(words(argument)), None) } else { (None, Some(argument)) };
        split.into_iter().flatten().chain(whole)
    })
}

/// Reads what RL.PEEK looks at.
///
/// # Errors
/// The first word that is at fault.
pub fn peek<'a>(settings: Settings, words: &mut impl Iterator<Item = &'a [u8]>) -> Result<Look<'a>, Fault> {
    let first = words.next();
    if first.is_some_and(|word| word.eq_ignore_ascii_case(b"LEASE")) {
        let limit = HOLDERS.read(words.next())?;
        return match words.next() {
            None => Ok(Look::Leases(limit)),
            Some(word) => Err(Fault::word("option", word, "accepted: LEASE takes a limit and nothing else")),
        };
    }
    let mut words = first.into_iter().chain(words);
    limit::named_rule(Form::Peek, settings, &mut words).map(Look::Rule)
}

/// What to tell those who forgot the quotes.
const ONE_ARGUMENT: &str = "in RL.ALL a rule is one argument, such as \"FIXED 5 1m\"";

/// Reads the rules of RL.ALL and judges the keys, before any of them is opened.
///
/// # Errors
/// A key without a rule, too many rules, the first rule that is none, a key that stands twice, logs that would grow too
/// much, or too many sub-windows.
pub fn whole<'a>(
    settings: Settings,
    arguments: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Result<Vec<Rule<'a>>, Fault> {
    let count = arguments.len();
    if !count.is_multiple_of(2) {
        let fault = Fault::new("the last key has no rule: RL.ALL takes a rule behind every key");
        return Err(fault.with_hint(ONE_ARGUMENT));
    }
    if count / 2 > MOST_RULES {
        return Err(Fault::new(&format!("{} rules are more than {MOST_RULES}, the most in one call", count / 2)));
    }
    let mut keys = Vec::with_capacity(count / 2);
    let mut rules = Vec::with_capacity(count / 2);
    let mut arguments = arguments;
    while let (Some(key), Some(argument)) = (arguments.next(), arguments.next()) {
        keys.push(key);
        let rule = limit::named_rule(Form::Whole, settings, &mut words(argument));
        // Whoever forgets the quotes has the rule's name alone in the argument.
        let alone = words(argument).count() == 1;
        rules.push(rule.map_err(|fault| match rules.len() {
            _ if alone => fault.with_hint(ONE_ARGUMENT),
            0 => fault,
            before => fault.with_hint(&format!("in rule {}", before + 1)),
        })?);
    }
    keys.sort_unstable();
    if let Some(twice) = keys.iter().zip(keys.iter().skip(1)).find(|(one, next)| one == next) {
        return Err(Fault::new(&format!("key {} stands there twice: a key takes one rule per call", quoted(twice.0))));
    }
    let logged = rules.iter().map(limit::logged).sum::<u64>();
    if logged > MOST_LOGGED {
        return Err(Fault::new(&format!(
            "COST of all SLIDING rules is {logged} and above {MOST_LOGGED}, the most that one call may log, use BUCKETS"
        )));
    }
    let sub_windows = rules.iter().map(limit::sub_windows).sum::<u64>();
    if sub_windows > MOST_SUB_WINDOWS {
        return Err(Fault::new(&format!(
            "BUCKETS of all rules are {sub_windows} and above {MOST_SUB_WINDOWS}, the most that one call may read, \
             use fewer per rule"
        )));
    }
    Ok(rules)
}

/// Rows of RL.TOP unless a call asks for more or fewer.
const USUAL_ROWS: u64 = 10;

/// Reads how many rows RL.TOP shall show.
///
/// # Errors
/// The first word that is at fault.
pub fn top<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Result<u64, Fault> {
    let is_count = |word: &[u8]| word.eq_ignore_ascii_case(b"COUNT");
    let unknown = |word| Fault::new(&format!("{} is not an option of RL.TOP, accepted: COUNT", quoted(word)));
    let rows = match words.next() {
        None => return Ok(USUAL_ROWS),
        Some(word) if is_count(word) => ROWS.read(words.next())?,
        Some(word) => return Err(unknown(word)),
    };
    match words.next() {
        None => Ok(rows),
        Some(word) if is_count(word) => Err(Fault::new("COUNT stands twice, once is enough")),
        Some(word) => Err(unknown(word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings { sliding_max_limit: 100_000 };

    fn all(arguments: &[&str]) -> Result<usize, String> {
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.as_bytes()).collect();
        whole(SETTINGS, arguments.into_iter()).map(|rules| rules.len()).map_err(|fault| fault.text().to_owned())
    }

    #[test]
    fn a_whole_is_judged_before_any_key_is_opened() {
        assert_eq!(all(&["a", "FIXED 1 1s", "b", "TOKEN 1 1 1s COST 2"]), Ok(2));
        assert_eq!(
            all(&["a", "FIXED 1 1s", "a", "FIXED 2 1s"]),
            Err("ERR key 'a' stands there twice: a key takes one rule per call".into())
        );
        assert_eq!(
            all(&["a", "FIXED 1 1s", "b"]),
            Err("ERR the last key has no rule: RL.ALL takes a rule behind every key; \
                 in RL.ALL a rule is one argument, such as \"FIXED 5 1m\""
                .into())
        );
        assert_eq!(
            all(&["a", "FIXED", "5", "1m"]),
            Err("ERR limit is missing: a whole number from 0 to 999999999999999; \
                 in RL.ALL a rule is one argument, such as \"FIXED 5 1m\""
                .into())
        );
        assert_eq!(all(&["a", ""]), Err("ERR rule is missing: FIXED, SLIDING, TOKEN or LEAKY".into()));
        assert_eq!(
            all(&["a", "FIXED 5 1m", "b", "FIXED x 1m"]),
            Err("ERR limit 'x' is not a whole number from 0 to 999999999999999; in rule 2".into())
        );
        assert_eq!(
            all(&["a", "SLIDING 999 1h COST 200", "b", "SLIDING 999 1h COST 51"]),
            Err("ERR COST of all SLIDING rules is 251 and above 250, the most that one call may log, use BUCKETS"
                .into())
        );
        let keys: Vec<_> = (0..65).map(|n| n.to_string()).collect();
        let buckets = |count: usize| -> Vec<_> {
            keys.iter().take(count).flat_map(|key| [key.as_str(), "SLIDING 9 1h BUCKETS 360"]).collect()
        };
        assert_eq!(all(&buckets(10)), Ok(10));
        assert_eq!(
            all(&buckets(11)),
            Err("ERR BUCKETS of all rules are 3960 and above 3600, the most that one call may read, \
                 use fewer per rule"
                .into())
        );
        let many: Vec<_> = keys.iter().flat_map(|key| [key.as_str(), "FIXED 1 1s"]).collect();
        assert_eq!(all(&many), Err("ERR 65 rules are more than 64, the most in one call".into()));
    }

    #[test]
    fn one_argument_is_split_and_several_are_taken_as_they_are() {
        let one = [b"SLIDING  3 1s".as_slice()];
        assert_eq!(spread(one.into_iter()).count(), 3);
        let partly = [b"FIXED 5 1m".as_slice(), b"COST", b"2"];
        assert_eq!(
            peek(SETTINGS, &mut spread(partly.into_iter())).map_err(|fault| fault.text().to_owned()),
            Err("ERR rule 'FIXED 5 1m' is not FIXED, SLIDING, TOKEN, LEAKY or LEASE; \
                 a rule is one argument or each of its words is"
                .into())
        );
        let several = [b"SLIDING".as_slice(), b"3", b"1s", b"ID", b"a b"];
        assert_eq!(spread(several.into_iter()).last(), Some(b"a b".as_slice()));
    }

    #[test]
    fn rows_are_ten_unless_told() {
        let rows = |text: &str| top(&mut words(text.as_bytes())).map_err(|fault| fault.text().to_owned());
        assert_eq!(rows(""), Ok(10));
        assert_eq!(rows("count 1000"), Ok(1_000));
        assert_eq!(rows("COUNT 0"), Err("ERR COUNT '0' is not a whole number from 1 to 1000".into()));
        assert_eq!(rows("COUNT"), Err("ERR COUNT has no value: a whole number from 1 to 1000".into()));
        assert_eq!(rows("5"), Err("ERR '5' is not an option of RL.TOP, accepted: COUNT".into()));
        assert_eq!(rows("COUNT 5 k"), Err("ERR 'k' is not an option of RL.TOP, accepted: COUNT".into()));
        assert_eq!(rows("COUNT 5 COUNT 5"), Err("ERR COUNT stands twice, once is enough".into()));
    }
}
