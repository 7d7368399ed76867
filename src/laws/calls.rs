//! Random calls: keys that are met again and again, each with an algorithm and numbers that seldom change.

use super::dice::Dice;

/// What a key is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Fixed,
    Aligned,
    Calendar,
    Log,
    LogWithIds,
    Buckets,
    Token,
    Leaky,
    Leases,
}

impl Family {
    pub const ALL: [Self; 9] = [
        Self::Fixed,
        Self::Aligned,
        Self::Calendar,
        Self::Log,
        Self::LogWithIds,
        Self::Buckets,
        Self::Token,
        Self::Leaky,
        Self::Leases,
    ];

    pub const fn algorithm(self) -> &'static str {
        match self {
            Self::Fixed | Self::Aligned | Self::Calendar => "FIXED",
            Self::Log | Self::LogWithIds | Self::Buckets => "SLIDING",
            Self::Token => "TOKEN",
            Self::Leaky => "LEAKY",
            Self::Leases => "LEASE",
        }
    }

    const fn is_log(self) -> bool {
        matches!(self, Self::Log | Self::LogWithIds)
    }

    /// Whether PARTIAL goes with every other option that the family draws.
    const fn has_rate(self) -> bool {
        matches!(self, Self::Token | Self::Leaky)
    }
}

/// How large the numbers of a history are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Limits of a few units: every call is near an edge.
    Small,
    /// Hundreds of units.
    Middling,
    /// Up to fifteen digits and ten years.
    Huge,
}

/// The positional numbers of a limiter.
#[derive(Clone, Debug)]
pub struct Numbers {
    pub limit: u64,
    pub rate: u64,
    pub period_ms: i64,
    /// The period or calendar unit as it is written.
    pub period: String,
    pub parts: u64,
    pub offset: Option<&'static str>,
}

const FIFTEEN_NINES: u64 = 999_999_999_999_999;
const DAY_MS: i64 = 86_400_000;

impl Numbers {
    pub fn draw(dice: &mut Dice, family: Family, size: Size) -> Self {
        let (limit, rate, period_ms) = match size {
            Size::Small => (dice.below(8), 1 + dice.below(12), *dice.pick(&[1, 2, 3, 7, 10, 100, 250, 1_000, 3_000])),
            Size::Middling => {
                let period_ms = *dice.pick(&[7, 100, 999, 1_000, 60_000, 3_600_000, DAY_MS]);
                (dice.below(400), 1 + dice.below(2_000), period_ms)
            }
            Size::Huge => {
                let period_ms =
                    *dice.pick(&[1, 999, 60_000, DAY_MS, 7 * DAY_MS, 364 * DAY_MS, 3_649 * DAY_MS, 3_650 * DAY_MS]);
                (Self::huge(dice), 1 + Self::huge(dice).min(FIFTEEN_NINES - 1), period_ms)
            }
        };
        let limit = match family {
            Family::Log | Family::LogWithIds | Family::Leases => limit.min(dice.below(1_000)),
            _ => limit,
        };
        let period = if family == Family::Calendar {
            (*dice.pick(&["1mo", "2mo", "3mo", "4mo", "6mo", "1y", "1mo", "1y"])).to_owned()
        } else {
            written(dice, period_ms)
        };
        let period_ms = if family == Family::Calendar { 30 * DAY_MS } else { period_ms };
        let parts = *dice.pick(&[2, 3, 4, 7, 10, 60, 360]);
        let offset = *dice.pick(&[None, None, Some("+02:00"), Some("-05:30"), Some("+14:00"), Some("-23:59")]);
        Self { limit, rate, period_ms, period, parts, offset }
    }

    fn huge(dice: &mut Dice) -> u64 {
        match dice.below(4) {
            0 => FIFTEEN_NINES - dice.below(3),
            1 => 1 + dice.below(1_000),
            digits => dice.below(FIFTEEN_NINES) / 10_u64.pow(u32::try_from(digits).unwrap() * 3 - 6),
        }
    }
}

/// A length of time in one of the ways to write it.
pub fn written(dice: &mut Dice, ms: i64) -> String {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", DAY_MS), ("w", 7 * DAY_MS)];
    let fitting: Vec<_> = units.iter().filter(|(_, unit)| ms % unit == 0).collect();
    let (name, unit) = **dice.pick(&fitting);
    format!("{}{name}", ms / unit)
}

/// A key with its use.
#[derive(Clone, Debug)]
pub struct Subject {
    pub key: String,
    pub family: Family,
    /// Numbers that the calls on this key may carry, the usual ones first.
    pub numbers: Vec<Numbers>,
}

/// What a history is made of.
#[derive(Clone, Debug)]
pub struct Cast {
    pub subjects: Vec<Subject>,
}

const IDS: [&str; 6] = ["a", "b", "c", "i000:a", "l:x", "1767225600000000"];

impl Cast {
    /// Some keys; with `steady` numbers each keeps its own.
    pub fn draw(dice: &mut Dice, size: Size, steady: bool) -> Self {
        let count = 1 + dice.below(4);
        let mut subject = |index| {
            let family = *dice.pick(&Family::ALL);
            let variants = if steady { 1 } else { 1 + dice.below(3) };
            let numbers = (0..variants).map(|_| Numbers::draw(dice, family, size)).collect();
            Subject { key: format!("{{k}}{index}"), family, numbers }
        };
        Self { subjects: (0..count).map(&mut subject).collect() }
    }

    /// A call of any verb.
    pub fn call(&self, dice: &mut Dice) -> Vec<String> {
        if dice.once_in(8) {
            return self.whole(dice);
        }
        let subject = dice.pick(&self.subjects);
        if subject.family == Family::Leases {
            return subject.leases(dice);
        }
        if subject.family == Family::Leaky && dice.once_in(6) {
            return subject.queue(dice);
        }
        let key = subject.key.clone();
        // Now and then an algorithm meets a key that is not its own.
        let family = if dice.once_in(200) { *dice.pick(&Family::ALL) } else { subject.family };
        match dice.below(9) {
            0..=4 => words(
                [format!("RL.{}", family.algorithm()), key],
                subject.rule(dice, family, Verb::Decide).split_off(1),
            ),
            5 | 6 => spread("RL.PEEK", key, subject.rule(dice, family, Verb::Decide), dice),
            7 => spread("RL.REFUND", key, subject.rule(dice, family, Verb::Refund), dice),
            _ => spread("RL.CHARGE", key, subject.rule(dice, family, Verb::Charge), dice),
        }
    }

    fn whole(&self, dice: &mut Dice) -> Vec<String> {
        let mut call = vec!["RL.ALL".to_owned()];
        for subject in self.subjects.iter().filter(|subject| subject.family != Family::Leases) {
            if dice.once_in(3) {
                continue;
            }
            call.push(subject.key.clone());
            call.push(subject.rule(dice, subject.family, Verb::Whole).join(" "));
        }
        if call.len() == 1 {
            call.extend(["lonely".to_owned(), "FIXED 3 1s".to_owned()]);
        }
        call
    }
}

/// Where a rule stands, which says what options it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Decide,
    Refund,
    Charge,
    Whole,
}

fn words<const N: usize>(first: [String; N], rest: Vec<String>) -> Vec<String> {
    first.into_iter().chain(rest).collect()
}

/// A rule stands in one argument or in several.
fn spread(verb: &str, key: String, rule: Vec<String>, dice: &mut Dice) -> Vec<String> {
    let rule = if dice.once_in(4) { vec![rule.join(" ")] } else { rule };
    words([verb.to_owned(), key], rule)
}

impl Subject {
    fn numbers(&self, dice: &mut Dice) -> &Numbers {
        if dice.once_in(3) { dice.pick(&self.numbers) } else { &self.numbers[0] }
    }

    /// The words of a rule, the algorithm first.
    pub fn rule(&self, dice: &mut Dice, family: Family, verb: Verb) -> Vec<String> {
        let numbers = self.numbers(dice);
        let family = if family == Family::Leases { Family::Fixed } else { family };
        let limit = if family.is_log() { numbers.limit.min(1_000) } else { numbers.limit };
        let mut rule = vec![family.algorithm().to_owned(), limit.to_string()];
        if family.has_rate() {
            rule.push(numbers.rate.to_string());
        }
        let calendar = numbers.period.ends_with('o') || numbers.period.ends_with('y');
        let plain = calendar && !matches!(family, Family::Aligned | Family::Calendar);
        rule.push(if plain { "1h".to_owned() } else { numbers.period.clone() });
        let mut options = options(dice, family, verb, numbers);
        let id_refund = verb == Verb::Refund && options.iter().any(|option| option.starts_with("ID "));
        if !id_refund && dice.below(3) > 0 {
            let cost = cost(dice, limit);
            options.push(format!("COST {}", if family.is_log() { cost.min(250) } else { cost }));
        }
        // Options stand in any order and letter case.
        let first = usize::try_from(dice.below(8)).unwrap() % options.len().max(1);
        options.rotate_left(first);
        for option in options {
            let mut option = option.split(' ');
            let name = option.next().unwrap();
            rule.push(if dice.once_in(5) { name.to_ascii_lowercase() } else { name.to_owned() });
            rule.extend(option.map(str::to_owned));
        }
        rule
    }

    fn queue(&self, dice: &mut Dice) -> Vec<String> {
        let numbers = self.numbers(dice);
        let longest = dice.time_below(3_600_000);
        let longest = if dice.once_in(3) { "0s".to_owned() } else { written(dice, longest.max(1)) };
        let mut call = vec!["RL.QUEUE".to_owned(), self.key.clone(), numbers.limit.to_string()];
        call.extend([numbers.rate.to_string(), numbers.period.clone(), longest]);
        if dice.once_in(2) {
            call.extend(["COST".to_owned(), cost(dice, numbers.limit).to_string()]);
        }
        call
    }

    fn leases(&self, dice: &mut Dice) -> Vec<String> {
        let numbers = self.numbers(dice);
        let key = self.key.clone();
        let ids = |dice: &mut Dice| (0..=dice.below(3)).map(|_| dice.pick(&IDS).to_string()).collect::<Vec<_>>();
        match dice.below(8) {
            0 => spread("RL.PEEK", key, vec!["LEASE".to_owned(), numbers.limit.to_string()], dice),
            1 => words(["RL.RENEW".to_owned(), key, numbers.period.clone()], ids(dice)),
            2 => words(["RL.RELEASE".to_owned(), key], ids(dice)),
            _ => {
                let mut call = vec!["RL.ACQUIRE".to_owned(), key, numbers.limit.to_string(), numbers.period.clone()];
                if dice.below(3) > 0 {
                    call.extend(["ID".to_owned(), dice.pick(&IDS).to_string()]);
                }
                call
            }
        }
    }
}

/// A cost: mostly one, often near the limit, sometimes nothing or too much.
fn cost(dice: &mut Dice, limit: u64) -> u64 {
    match dice.below(10) {
        0 => 0,
        1 => limit.min(FIFTEEN_NINES),
        2 => (limit + 1).min(FIFTEEN_NINES),
        3 => limit / 2,
        4 => dice.below(limit.saturating_mul(3).clamp(1, FIFTEEN_NINES)),
        _ => 1 + dice.below(3),
    }
}

/// Options of a family that may stand there, COST apart.
fn options(dice: &mut Dice, family: Family, verb: Verb, numbers: &Numbers) -> Vec<String> {
    let mut options = Vec::new();
    let decides = matches!(verb, Verb::Decide | Verb::Whole);
    if matches!(family, Family::Aligned | Family::Calendar) {
        options.push("ALIGN".to_owned());
        options.extend(numbers.offset.map(|offset| format!("TZ {offset}")));
    }
    if family == Family::Buckets {
        options.push(format!("BUCKETS {}", numbers.parts));
    }
    let with_id = family == Family::LogWithIds && verb != Verb::Charge && dice.below(4) > 0;
    if with_id {
        options.push(format!("ID {}", dice.pick(&IDS)));
    }
    let fixed = matches!(family, Family::Fixed | Family::Aligned | Family::Calendar);
    if fixed && decides && dice.once_in(12) {
        let block = 1 + dice.time_below(numbers.period_ms * 2).min(3_649 * DAY_MS);
        options.push(format!("BLOCK {}", written(dice, block)));
    }
    let shape = family == Family::Leaky && decides && dice.once_in(3);
    if shape {
        options.push("SHAPE".to_owned());
        if dice.once_in(2) {
            let within = 1 + dice.time_below(numbers.period_ms);
            options.push(format!("WITHIN {}", written(dice, within)));
        }
    }
    if verb == Verb::Decide && !with_id && !shape && dice.once_in(4) {
        options.push("PARTIAL".to_owned());
    }
    options
}
