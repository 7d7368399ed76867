//! Rules: the words of a limiter to its numbers.
//!
//! A rule reads the same wherever it stands, in its own command, behind RL.PEEK or as one argument of RL.ALL; a
//! [`Form`] says which options belong there.

use super::error::{Fault, quoted};
use super::grammar::{self, CAPACITY, Choice, Choices, LIMIT, MOST_LOGGED, Options, RATE};
use crate::engine::bucket::Bucket;
use crate::engine::buckets::Buckets;
use crate::engine::calendar::{Offset, Period};
use crate::engine::fixed::Fixed;
use crate::engine::leaky::{Leaky, Outflow};
use crate::engine::rate::Rate;
use crate::engine::sliding::Sliding;
use crate::engine::time::Span;
use crate::engine::token::Token;
use crate::engine::{Ask, Limiter, Rule};

/// The algorithm that a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Fixed window.
    Fixed,
    /// Sliding window, as a log or in sub-windows.
    Sliding,
    /// Token bucket.
    Token,
    /// Leaky bucket.
    Leaky,
}

/// Where a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In its own command.
    Decide,
    /// Behind RL.PEEK.
    Peek,
    /// Behind RL.REFUND.
    Refund,
    /// Behind RL.CHARGE.
    Charge,
    /// In RL.ALL.
    Whole,
}

/// Bounds that the operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The largest limit of an exact log.
    pub sliding_max_limit: u64,
}

impl Algorithm {
    /// The word of a rule, in any letter case.
    #[must_use]
    pub fn of(word: &[u8]) -> Option<Self> {
        [Self::Fixed, Self::Sliding, Self::Token, Self::Leaky]
            .into_iter()
            .find(|algorithm| word.eq_ignore_ascii_case(algorithm.word().as_bytes()))
    }

    /// The word itself.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fixed => "FIXED",
            Self::Sliding => "SLIDING",
            Self::Token => "TOKEN",
            Self::Leaky => "LEAKY",
        }
    }

    const fn options(self) -> Choices {
        match self {
            Self::Fixed => Choices::of(&[Choice::Cost, Choice::Align, Choice::Tz, Choice::Partial, Choice::Block]),
            Self::Sliding => Choices::of(&[Choice::Cost, Choice::Partial, Choice::Id, Choice::Buckets]),
            Self::Token => Choices::of(&[Choice::Cost, Choice::Partial]),
            Self::Leaky => Choices::of(&[Choice::Cost, Choice::Partial, Choice::Shape, Choice::Within]),
        }
    }
}

impl Form {
    const fn options(self) -> Choices {
        match self {
            Self::Decide | Self::Peek => Choices::of(&[
                Choice::Cost,
                Choice::Align,
                Choice::Tz,
                Choice::Partial,
                Choice::Block,
                Choice::Id,
                Choice::Buckets,
                Choice::Shape,
                Choice::Within,
            ]),
            Self::Whole => Choices::of(&[
                Choice::Cost,
                Choice::Align,
                Choice::Tz,
                Choice::Block,
                Choice::Id,
                Choice::Buckets,
                Choice::Shape,
                Choice::Within,
            ]),
            Self::Refund => Choices::of(&[Choice::Cost, Choice::Align, Choice::Tz, Choice::Id, Choice::Buckets]),
            Self::Charge => Choices::of(&[Choice::Cost, Choice::Align, Choice::Tz, Choice::Buckets]),
        }
    }

    const fn place(self) -> &'static str {
        match self {
            Self::Decide => "RL.",
            Self::Peek => "RL.PEEK ",
            Self::Refund => "RL.REFUND ",
            Self::Charge => "RL.CHARGE ",
            Self::Whole => "RL.ALL ",
        }
    }
}

/// Reads the words behind an algorithm's name.
///
/// # Errors
/// The first word that is at fault, or options that do not go together.
pub fn rule<'a>(
    algorithm: Algorithm,
    form: Form,
    settings: Settings,
    words: impl Iterator<Item = &'a [u8]>,
) -> Result<Rule<'a>, Fault> {
    let (limiter, ask) = match algorithm {
        Algorithm::Fixed => fixed(form, words).map(|(fixed, ask)| (Limiter::Fixed(fixed), ask)),
        Algorithm::Sliding => sliding(form, settings, words),
        Algorithm::Token => token(form, words).map(|(token, ask)| (Limiter::Token(token), ask)),
        Algorithm::Leaky => leaky(form, words).map(|(leaky, ask)| (Limiter::Leaky(leaky), ask)),
    }?;
    Ok(Rule { limiter, ask })
}

/// Reads a rule whose first word names the algorithm.
///
/// # Errors
/// As [`rule`], and a first word that names none.
pub fn named_rule<'a>(
    form: Form,
    settings: Settings,
    words: &mut impl Iterator<Item = &'a [u8]>,
) -> Result<Rule<'a>, Fault> {
    let word = words.next();
    let Some(algorithm) = word.and_then(Algorithm::of) else {
        return Err(no_algorithm(word, form));
    };
    rule(algorithm, form, settings, words)
}

/// What to tell those who quoted a part of a rule.
const ONE_OR_SEVERAL: &str = "a rule is one argument or each of its words is";

fn no_algorithm(word: Option<&[u8]>, form: Form) -> Fault {
    let accepted = match form {
        Form::Peek => "FIXED, SLIDING, TOKEN, LEAKY or LEASE",
        _ => "FIXED, SLIDING, TOKEN or LEAKY",
    };
    match word {
        Some(word) => {
            let fault = Fault::word("rule", word, accepted);
            // Whoever quotes a rule and goes on behind it has more than one word in the first.
            if word.contains(&b' ') { fault.with_hint(ONE_OR_SEVERAL) } else { fault }
        }
        None => Fault::missing("rule", accepted),
    }
}

/// Reads what stands behind the positional words: as a rule nothing.
#[inline]
fn options<'a>(
    form: Form,
    algorithm: Algorithm,
    mut words: impl Iterator<Item = &'a [u8]>,
) -> Result<Options<'a>, Fault> {
    match words.next() {
        None => Ok(Options::default()),
        Some(first) => some_options(form, algorithm, first, words),
    }
}

#[inline(never)]
fn some_options<'a>(
    form: Form,
    algorithm: Algorithm,
    first: &'a [u8],
    words: impl Iterator<Item = &'a [u8]>,
) -> Result<Options<'a>, Fault> {
    let accepted = algorithm.options().and(form.options());
    let of = (form.place(), algorithm.word());
    Options::read(&mut std::iter::once(first).chain(words), accepted, of)
}

#[inline]
fn ask(options: &Options<'_>) -> Ask {
    Ask { cost: options.cost.unwrap_or(1), partial: options.has(Choice::Partial) }
}

#[inline(always)]
fn bucket<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Result<Bucket, Fault> {
    let capacity = CAPACITY.read(words.next())?;
    let units = RATE.read(words.next())?;
    let period = grammar::duration("period", words.next())?;
    let rate = Rate::new(units, period).ok_or_else(|| Fault::missing("rate", &RATE.accepted()))?;
    Ok(Bucket { capacity, rate })
}

/// Reads the words of a token bucket.
///
/// # Errors
/// As [`rule`].
#[inline(always)]
pub fn token<'a>(form: Form, mut words: impl Iterator<Item = &'a [u8]>) -> Result<(Token, Ask), Fault> {
    let bucket = bucket(&mut words)?;
    let options = options(form, Algorithm::Token, words)?;
    Ok((Token(bucket), ask(&options)))
}

/// Reads the words of a leaky bucket.
///
/// # Errors
/// As [`rule`].
#[inline(always)]
pub fn leaky<'a>(form: Form, mut words: impl Iterator<Item = &'a [u8]>) -> Result<(Leaky, Ask), Fault> {
    let bucket = bucket(&mut words)?;
    let options = options(form, Algorithm::Leaky, words)?;
    options.exclude(Choice::Partial, Choice::Shape)?;
    options.require(Choice::Within, Choice::Shape)?;
    let outflow = if options.has(Choice::Shape) { Outflow::Shape { within: options.within } } else { Outflow::Police };
    Ok((Leaky { bucket, outflow }, ask(&options)))
}

/// Reads the words of a fixed window.
///
/// # Errors
/// As [`rule`].
#[inline(always)]
pub fn fixed<'a>(form: Form, mut words: impl Iterator<Item = &'a [u8]>) -> Result<(Fixed, Ask), Fault> {
    let limit = LIMIT.read(words.next())?;
    let word = words.next();
    let period = grammar::period("period", word, true)?;
    let options = options(form, Algorithm::Fixed, words)?;
    options.require(Choice::Tz, Choice::Align)?;
    if matches!(period, Period::Months(_)) && !options.has(Choice::Align) {
        return Err(needs_align(word.unwrap_or_default()));
    }
    let align = options.has(Choice::Align).then(|| options.tz.unwrap_or(Offset::UTC));
    Ok((Fixed { limit, period, align, block: options.block }, ask(&options)))
}

#[cold]
fn needs_align(period: &[u8]) -> Fault {
    Fault::new(&format!("period {} is a calendar unit and needs ALIGN", quoted(period)))
}

/// Reads the words of a sliding window, of a log or of one with BUCKETS.
///
/// # Errors
/// As [`rule`].
#[inline]
pub fn sliding<'a>(
    form: Form,
    settings: Settings,
    mut words: impl Iterator<Item = &'a [u8]>,
) -> Result<(Limiter<'a>, Ask), Fault> {
    let word = words.next();
    let limit = LIMIT.read(word)?;
    let period = grammar::duration("period", words.next())?;
    let options = options(form, Algorithm::Sliding, words)?;
    options.exclude(Choice::Buckets, Choice::Id)?;
    options.exclude(Choice::Partial, Choice::Id)?;
    if form == Form::Refund {
        options.exclude(Choice::Id, Choice::Cost)?;
    }
    let ask = ask(&options);
    let limiter = match options.buckets {
        Some(parts) => Limiter::Buckets(Buckets { limit, period, parts }),
        None => {
            bounded_log(limit, word.unwrap_or_default(), ask.cost, settings)?;
            Limiter::Sliding(Sliding { limit, period, id: options.id })
        }
    };
    Ok((limiter, ask))
}

/// An exact log costs an entry per unit; beyond these bounds sub-windows are the way.
#[inline]
fn bounded_log(limit: u64, word: &[u8], cost: u64, settings: Settings) -> Result<(), Fault> {
    if limit <= settings.sliding_max_limit && cost <= MOST_LOGGED {
        Ok(())
    } else {
        Err(unbounded_log(limit, word, cost, settings))
    }
}

#[cold]
fn unbounded_log(limit: u64, word: &[u8], cost: u64, settings: Settings) -> Fault {
    if limit > settings.sliding_max_limit {
        return Fault::new(&format!(
            "limit {} is above rl.sliding-max-limit ({}): a log holds an entry per unit, use BUCKETS for a large window",
            quoted(word),
            settings.sliding_max_limit
        ));
    }
    Fault::new(&format!(
        "COST '{cost}' is above {MOST_LOGGED}, the most that one call may log, use BUCKETS for larger costs"
    ))
}

/// The units that a rule would log, for the bound over a whole.
#[must_use]
pub const fn logged(rule: &Rule<'_>) -> u64 {
    match rule.limiter {
        Limiter::Sliding(_) => rule.ask.cost,
        _ => 0,
    }
}

/// The sub-windows that a rule reads, for the bound over a whole.
#[must_use]
pub fn sub_windows(rule: &Rule<'_>) -> u64 {
    match rule.limiter {
        Limiter::Buckets(buckets) => u64::from(buckets.parts),
        _ => 0,
    }
}

/// A leaky bucket in which the server does the waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The bucket.
    pub leaky: Leaky,
    /// What is asked of it.
    pub ask: Ask,
    /// The longest turn worth booking.
    pub longest_wait: Span,
}

/// Reads the words of RL.QUEUE behind the key.
///
/// # Errors
/// The first word that is at fault.
pub fn queue<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Result<Queue, Fault> {
    let bucket = bucket(words)?;
    let longest_wait = grammar::longest_wait(words.next())?;
    let options = Options::read(words, Choices::of(&[Choice::Cost]), ("RL.", "QUEUE"))?;
    let outflow = Outflow::Shape { within: Some(longest_wait) };
    Ok(Queue { leaky: Leaky { bucket, outflow }, ask: ask(&options), longest_wait })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings { sliding_max_limit: 100_000 };

    fn read(form: Form, text: &str) -> Result<(), String> {
        let mut words = text.split(' ').map(str::as_bytes);
        named_rule(form, SETTINGS, &mut words).map(|_| ()).map_err(|fault| fault.text().to_owned())
    }

    #[test]
    fn options_stand_in_any_order_and_letter_case() {
        for text in
            ["FIXED 5 1m cost 3 Align", "fixed 5 1m ALIGN TZ -05:30 COST 3", "Leaky 5 1 1s shape WITHIN 1s cost 2"]
        {
            assert_eq!(read(Form::Decide, text), Ok(()), "{text}");
        }
    }

    #[test]
    fn errors_name_the_word_and_what_is_accepted() {
        let cases = [
            (
                Form::Decide,
                "FIXED 5 1m SHAPE",
                "ERR 'SHAPE' is not an option of RL.FIXED, accepted: COST, ALIGN, TZ, PARTIAL, BLOCK",
            ),
            (
                Form::Whole,
                "FIXED 5 1m PARTIAL",
                "ERR 'PARTIAL' is not an option of RL.ALL FIXED, accepted: COST, ALIGN, TZ, BLOCK",
            ),
            (Form::Charge, "TOKEN 5 1 1s PARTIAL", "ERR 'PARTIAL' is not an option of RL.CHARGE TOKEN, accepted: COST"),
            (Form::Decide, "TOKEN 5 1 1s COST 1 COST 1", "ERR COST stands twice, once is enough"),
            (Form::Decide, "SLIDING 5 1s ID a PARTIAL", "ERR PARTIAL and ID exclude each other"),
            (Form::Decide, "SLIDING 5 1s ID a BUCKETS 5", "ERR BUCKETS and ID exclude each other"),
            (Form::Refund, "SLIDING 5 1s ID a COST 5", "ERR ID and COST exclude each other"),
            (Form::Decide, "LEAKY 5 1 1s WITHIN 5s", "ERR WITHIN needs SHAPE"),
            (Form::Decide, "FIXED 5 1d TZ +02:00", "ERR TZ needs ALIGN"),
            (Form::Decide, "FIXED 5 1mo", "ERR period '1mo' is a calendar unit and needs ALIGN"),
            (Form::Peek, "NONSENSE 5 1s", "ERR rule 'NONSENSE' is not FIXED, SLIDING, TOKEN, LEAKY or LEASE"),
            (
                Form::Whole,
                "FIXED 5",
                "ERR period is missing: a duration from 1ms to 3650d: a whole number with its unit ms, s, m, h, d or w, \
             such as 250ms, 10s or 1h, or with ALIGN 1mo, 2mo, 3mo, 4mo, 6mo or 1y",
            ),
            (
                Form::Decide,
                "SLIDING 100001 1h",
                "ERR limit '100001' is above rl.sliding-max-limit (100000): a log holds an entry per unit, \
             use BUCKETS for a large window",
            ),
            (
                Form::Decide,
                "SLIDING 1000 1h COST 251",
                "ERR COST '251' is above 250, the most that one call may log, use BUCKETS for larger costs",
            ),
        ];
        for (form, text, error) in cases {
            assert_eq!(read(form, text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn sub_windows_lift_the_bounds_of_a_log() {
        assert_eq!(read(Form::Decide, "SLIDING 1000000 1h BUCKETS 60 COST 5000"), Ok(()));
    }
}
