//! States under keys: what a call has to know is read here, and what it decided is written here.

use super::api::key::{Edge, From, Key, Type, instant_of};
use super::api::text::{KEEPTTL, LEVEL, Owned, PXAT, TOKENS, TS, Word, ZERO};
use super::replicate::{Effect, Trace};
use crate::commands::error;
use crate::commands::grammar::MOST_LOGGED;
use crate::engine::bucket::Stored;
use crate::engine::buckets::{Buckets, FieldChange, MOST_FIELDS, SubWindows};
use crate::engine::fixed::{Counter, Fixed};
use crate::engine::leaky::Leaky;
use crate::engine::lease::{Acquire, Holders};
use crate::engine::sliding::{Log, Sliding};
use crate::engine::time::{Micros, Millis};
use crate::engine::token::Token;
use crate::engine::{Ask, Change, Limiter, Loaded, Policy, Rule, Verb, Write};
use crate::storage::record;

/// The text of an error about a value that is not ours.
pub type Foreign = &'static str;

/// Elements that a walk counts before it asks the server for their number.
const WALK: u64 = 64;

/// A limiter whose state is kept under a key.
pub trait Kept: Policy {
    /// Reads the state, as far as the call needs it.
    ///
    /// # Errors
    /// A value of another type, or one that this limiter did not make.
    fn load(&self, key: &Key<'_>, verb: Verb, ask: Ask, now: Micros) -> Result<Self::State, Foreign>;

    /// Writes a change of the value, and moves the expiry if that has to move.
    fn put(&self, key: &Key<'_>, change: &Change, expiry: Option<Millis>, now: Micros) -> Trace;
}

impl Kept for Fixed {
    #[inline(always)]
    fn load(&self, key: &Key<'_>, _verb: Verb, _ask: Ask, _now: Micros) -> Result<Option<Counter>, Foreign> {
        counter(key)
    }

    #[inline(always)]
    fn put(&self, key: &Key<'_>, change: &Change, expiry: Option<Millis>, _now: Micros) -> Trace {
        let Change::Count { used } = *change else { return Trace::none() };
        put_string(key, record::number(used).as_bytes(), expiry)
    }
}

impl Kept for Token {
    #[inline(always)]
    fn load(&self, key: &Key<'_>, _verb: Verb, _ask: Ask, _now: Micros) -> Result<Option<Stored>, Foreign> {
        stored(key, TOKENS.word(), true, error::FOREIGN_TOKENS)
    }

    #[inline(always)]
    fn put(&self, key: &Key<'_>, change: &Change, expiry: Option<Millis>, _now: Micros) -> Trace {
        put_stored(key, TOKENS.word(), change, expiry)
    }
}

impl Kept for Leaky {
    #[inline(always)]
    fn load(&self, key: &Key<'_>, _verb: Verb, _ask: Ask, _now: Micros) -> Result<Option<Stored>, Foreign> {
        stored(key, LEVEL.word(), false, error::FOREIGN_LEVEL)
    }

    #[inline(always)]
    fn put(&self, key: &Key<'_>, change: &Change, expiry: Option<Millis>, _now: Micros) -> Trace {
        put_stored(key, LEVEL.word(), change, expiry)
    }
}

impl Kept for Sliding<'_> {
    fn load(&self, key: &Key<'_>, verb: Verb, ask: Ask, now: Micros) -> Result<Log, Foreign> {
        log(key, self, verb, ask, now)
    }

    fn put(&self, key: &Key<'_>, change: &Change, expiry: Option<Millis>, now: Micros) -> Trace {
        let mut trace = Trace::none();
        if let Change::Log(change) = *change {
            take_out(key, self, change.take_out, &mut trace);
            mend_future(key, change.mend, now, &mut trace);
            add_units(key, self, change.add, now, &mut trace);
            // A unit of an id that had left may have come back just now.
            let lowest = key.kept_lowest().filter(|_| self.id.is_none());
            trim(key, lowest, now.minus_us(self.period), change.trim, &mut trace);
        }
        moved(key, expiry, trace)
    }
}

impl Kept for Buckets {
    fn load(&self, key: &Key<'_>, _verb: Verb, _ask: Ask, _now: Micros) -> Result<SubWindows, Foreign> {
        sub_windows(key)
    }

    fn put(&self, key: &Key<'_>, change: &Change, expiry: Option<Millis>, _now: Micros) -> Trace {
        let mut trace = Trace::none();
        if let Change::SubWindows(change) = change {
            put_sub_windows(key, change, &mut trace);
        }
        moved(key, expiry, trace)
    }
}

/// Reads the state of whichever limiter a rule has.
///
/// # Errors
/// As [`Kept::load`].
pub fn load<'a>(key: &Key<'_>, rule: &Rule<'a>, verb: Verb, now: Micros) -> Result<Loaded<'a>, Foreign> {
    let ask = rule.ask;
    Ok(match rule.limiter {
        Limiter::Fixed(fixed) => Loaded::Fixed(fixed, fixed.load(key, verb, ask, now)?),
        Limiter::Token(token) => Loaded::Token(token, token.load(key, verb, ask, now)?),
        Limiter::Leaky(leaky) => Loaded::Leaky(leaky, leaky.load(key, verb, ask, now)?),
        Limiter::Sliding(sliding) => Loaded::Sliding(sliding, sliding.load(key, verb, ask, now)?),
        Limiter::Buckets(buckets) => Loaded::Buckets(buckets, buckets.load(key, verb, ask, now)?),
    })
}

/// Writes what was decided, and hands the same to replicas and the append-only file.
#[inline(always)]
pub fn apply(limiter: &impl Kept, key: &Key<'_>, write: &Write, now: Micros) -> Trace {
    match write {
        Write::Keep => Trace::none(),
        Write::Drop => drop_key(key),
        Write::Put(Change::Nothing, expiry) => moved(key, *expiry, Trace::none()),
        Write::Put(change, expiry) => limiter.put(key, change, *expiry, now),
    }
}

/// The same for whichever limiter a rule has.
pub fn apply_rule(rule: &Rule<'_>, key: &Key<'_>, write: &Write, now: Micros) -> Trace {
    match &rule.limiter {
        Limiter::Fixed(fixed) => apply(fixed, key, write, now),
        Limiter::Token(token) => apply(token, key, write, now),
        Limiter::Leaky(leaky) => apply(leaky, key, write, now),
        Limiter::Sliding(sliding) => apply(sliding, key, write, now),
        Limiter::Buckets(buckets) => apply(buckets, key, write, now),
    }
}

#[inline(always)]
fn counter(key: &Key<'_>) -> Result<Option<Counter>, Foreign> {
    match key.string() {
        Some(text) => {
            let used = record::read_counter(text).ok_or(error::FOREIGN_COUNTER)?;
            Ok(Some(Counter { used, end: key.expiry() }))
        }
        None if key.kind() == Type::Empty => Ok(None),
        None => Err(error::WRONG_TYPE),
    }
}

#[inline(always)]
fn stored(key: &Key<'_>, field: Word<'_>, negative: bool, foreign: Foreign) -> Result<Option<Stored>, Foreign> {
    match key.kind() {
        Type::Empty => return Ok(None),
        Type::Hash => {}
        _ => return Err(error::WRONG_TYPE),
    }
    if key.length() != 2 {
        return Err(foreign);
    }
    let (Some(amount), Some(at)) = key.hash_get_two(field, TS.word()) else {
        return Err(foreign);
    };
    let amount = record::read_amount(amount.bytes(), negative).ok_or(foreign)?;
    let at = record::read_micros(at.bytes()).ok_or(foreign)?;
    Ok(Some(Stored { amount, at, expiry: key.expiry() }))
}

fn sub_windows(key: &Key<'_>) -> Result<SubWindows, Foreign> {
    match key.kind() {
        Type::Empty => return Ok(SubWindows::default()),
        Type::Hash => {}
        _ => return Err(error::WRONG_TYPE),
    }
    let count = key.length();
    if count > MOST_FIELDS {
        return Err(error::FOREIGN_SUB_WINDOWS);
    }
    let mut fields = Vec::with_capacity(count);
    let mut foreign = false;
    key.hash_scan(&mut |field, value| match record::read_sub_window(field, value) {
        Some(sub_window) => fields.push(sub_window),
        None => foreign = true,
    });
    if foreign {
        return Err(error::FOREIGN_SUB_WINDOWS);
    }
    fields.sort_unstable_by_key(|field| field.end);
    fields.dedup_by_key(|field| field.end);
    Ok(SubWindows { fields, expiry: key.expiry() })
}

/// The lowest and the highest score of a sorted set whose members have the right form at both ends.
struct Ends {
    lowest: Micros,
    highest: Micros,
}

fn ends(key: &Key<'_>, is_member: fn(&[u8]) -> bool, foreign: Foreign) -> Result<Option<Ends>, Foreign> {
    match key.kind() {
        Type::Empty => return Ok(None),
        Type::SortedSet => {}
        _ => return Err(error::WRONG_TYPE),
    }
    let end = |from| {
        let (member, score) = key.range(Edge::Open, Edge::Open, from).current()?;
        let at = is_member(member.bytes()).then(|| instant_of(score)).flatten()?;
        Some((member, at))
    };
    let (member, lowest) = end(From::Lowest).ok_or(foreign)?;
    let highest = if key.length() == 1 { lowest } else { end(From::Highest).ok_or(foreign)?.1 };
    key.keep_lowest(member);
    Ok(Some(Ends { lowest, highest }))
}

/// How many elements of a sorted set have scores in a range: walked if they are few, asked for by rank if not.
fn count(key: &Key<'_>, low: Edge, high: Edge) -> u64 {
    let mut walked = 0;
    {
        let mut range = key.range(low, high, From::Lowest);
        while walked < WALK && !range.ended() {
            walked += 1;
            range.step();
        }
        if range.ended() {
            return walked;
        }
    }
    let text = |edge, open: &str| match edge {
        Edge::Open => open.to_owned(),
        Edge::At(us) => us.to_string(),
        Edge::Beyond(us) => format!("({us}"),
    };
    key.call().count_in_range(key.name(), &text(low, "-inf"), &text(high, "+inf")).unwrap_or(walked)
}

/// The instant of the `index`-th element above `cutoff`, of which `below` lie at or below it.
fn nth_above(key: &Key<'_>, cutoff: i64, below: u64, index: u64) -> Option<Micros> {
    if index > WALK * 4 {
        return key.call().score_at_rank(key.name(), below.saturating_add(index)).and_then(instant_of);
    }
    let mut range = key.range(Edge::Beyond(cutoff), Edge::Open, From::Lowest);
    for _ in 0..index {
        range.step();
    }
    range.current().and_then(|(_, score)| instant_of(score))
}

fn log(key: &Key<'_>, rule: &Sliding<'_>, verb: Verb, ask: Ask, now: Micros) -> Result<Log, Foreign> {
    let Some(Ends { lowest, highest }) = ends(key, record::is_log_member, error::FOREIGN_LOG)? else {
        return Ok(Log::default());
    };
    let cutoff = now.minus_us(rule.period);
    let total = u64::try_from(key.length()).unwrap_or(u64::MAX);
    let dead = if lowest.get() > cutoff {
        0
    } else if highest.get() <= cutoff {
        total
    } else {
        count(key, Edge::Open, Edge::At(cutoff))
    };
    let live = total.saturating_sub(dead);
    let future = if highest > now { count(key, Edge::Beyond(now.get()), Edge::Open) } else { 0 };
    let leaving = match rule.leaving_index(verb, ask, live) {
        Some(0) if dead == 0 => Some(lowest),
        Some(index) if index < live => nth_above(key, cutoff, dead, index),
        _ => None,
    };
    let mut log = Log {
        exists: true,
        live,
        dead,
        future,
        newest: (live > 0).then_some(highest.min(now)),
        leaving: leaving.map(|leaving| leaving.min(now)),
        expiry: key.expiry(),
        ..Log::default()
    };
    if let Some(id) = rule.id {
        log.seen = in_window(key, 0, id, cutoff);
    }
    if verb == Verb::Refund {
        (log.returned, log.newest_left) = match rule.id {
            Some(id) => returned_by_id(key, id, cutoff, now),
            None => returned_from_the_top(key, ask.cost.min(live), cutoff, now),
        };
    }
    Ok(log)
}

/// Whether the `index`-th unit of a request id is in the window.
fn in_window(key: &Key<'_>, index: u64, id: &[u8], cutoff: i64) -> bool {
    let member = Owned::new(record::id_member(index, id).as_bytes());
    key.score(member.word()).and_then(instant_of).is_some_and(|at| at.get() > cutoff)
}

/// Units of a request id in the window, and the newest entry that is not one of them.
fn returned_by_id(key: &Key<'_>, id: &[u8], cutoff: i64, now: Micros) -> (u64, Option<Micros>) {
    let mut units = 0;
    while units < MOST_LOGGED && in_window(key, units, id, cutoff) {
        units += 1;
    }
    let mut range = key.range(Edge::Beyond(cutoff), Edge::Open, From::Highest);
    while let Some((member, score)) = range.current() {
        if record::unit_of(member.bytes(), id).is_none_or(|index| index >= units) {
            return (units, instant_of(score).map(|at| at.min(now)));
        }
        range.step();
    }
    (units, None)
}

/// The highest units in the window, and the newest entry below them.
fn returned_from_the_top(key: &Key<'_>, units: u64, cutoff: i64, now: Micros) -> (u64, Option<Micros>) {
    let mut range = key.range(Edge::Beyond(cutoff), Edge::Open, From::Highest);
    for _ in 0..units {
        range.step();
    }
    let newest_left = range.current().and_then(|(_, score)| instant_of(score));
    (units, newest_left.map(|at| at.min(now)))
}

/// Reads the leases under a key as far as an acquisition needs them.
///
/// # Errors
/// A value of another type, or one that holds no leases.
pub fn load_holders(key: &Key<'_>, rule: &Acquire, id: Option<Word<'_>>, now: Micros) -> Result<Holders, Foreign> {
    let Some(Ends { lowest, highest }) = ends(key, record::is_lease_member, error::FOREIGN_LEASES)? else {
        return Ok(Holders::default());
    };
    let cutoff = now.get();
    let total = u64::try_from(key.length()).unwrap_or(u64::MAX);
    let ended = if lowest > now { 0 } else { count(key, Edge::Open, Edge::At(cutoff)) };
    let live = total.saturating_sub(ended);
    let last = (live > 0).then_some(highest);
    let holds = id.is_some_and(|id| key.score(id).and_then(instant_of).is_some_and(|end| end > now));
    let leaving = rule.leaving_index(live).filter(|index| *index < live);
    Ok(Holders {
        live,
        ended,
        holds,
        last,
        last_other: if holds { last_but(key, id, cutoff) } else { last },
        leaving: leaving.and_then(|index| nth_above(key, cutoff, ended, index)),
        expiry: key.expiry(),
    })
}

/// The latest end of a running lease that is not `id`'s.
fn last_but(key: &Key<'_>, id: Option<Word<'_>>, cutoff: i64) -> Option<Micros> {
    let mut range = key.range(Edge::Beyond(cutoff), Edge::Open, From::Highest);
    let (member, score) = range.current()?;
    if id.is_some_and(|id| id.bytes() == member.bytes()) {
        range.step();
        return range.current().and_then(|(_, score)| instant_of(score));
    }
    instant_of(score)
}

/// Writes a bucket's amount and instant, or the instant alone.
#[inline(always)]
fn put_stored(key: &Key<'_>, field: Word<'_>, change: &Change, expiry: Option<Millis>) -> Trace {
    let mut trace = Trace::none();
    match *change {
        Change::Level { amount, at } => {
            let amount = Owned::new(record::amount(amount).as_bytes());
            let at = Owned::signed(at.get());
            key.hash_set_two((field, amount.word()), (TS.word(), at.word()));
            let words = [key.name(), field, amount.word(), TS.word(), at.word()];
            trace.replicate(key.call(), Effect::HSet, &words);
        }
        Change::Stamp { at } => {
            let at = Owned::signed(at.get());
            key.hash_set(TS.word(), at.word());
            trace.replicate(key.call(), Effect::HSet, &[key.name(), TS.word(), at.word()]);
        }
        _ => {}
    }
    moved(key, expiry, trace)
}

/// Deletes a key that is as good as untouched.
#[inline(always)]
pub fn drop_key(key: &Key<'_>) -> Trace {
    let mut trace = Trace::none();
    let effect = if key.length() > 64 { Effect::Unlink } else { Effect::Del };
    key.unlink();
    trace.replicate(key.call(), effect, &[key.name()]);
    trace
}

/// Moves a key's expiry.
#[inline(always)]
pub fn move_expiry(key: &Key<'_>, at: Millis, trace: &mut Trace) {
    key.expire_at(at);
    let at = Owned::signed(at.get());
    trace.replicate(key.call(), Effect::PExpireAt, &[key.name(), at.word()]);
}

/// Moves a key's expiry if it has to move, after what left `trace`.
#[inline(always)]
fn moved(key: &Key<'_>, expiry: Option<Millis>, mut trace: Trace) -> Trace {
    if let Some(at) = expiry {
        move_expiry(key, at, &mut trace);
    }
    trace
}

/// Makes a string of a key, and moves its end if it has to move.
#[inline(always)]
pub fn put_string(key: &Key<'_>, text: &[u8], end: Option<Millis>) -> Trace {
    let mut trace = Trace::none();
    key.set_string(text);
    let text = Owned::new(text);
    if let Some(end) = end {
        key.expire_at(end);
        let end = Owned::signed(end.get());
        trace.replicate(key.call(), Effect::SetUntil, &[key.name(), text.word(), PXAT.word(), end.word()]);
    } else {
        trace.replicate(key.call(), Effect::Set, &[key.name(), text.word(), KEEPTTL.word()]);
    }
    trace
}

/// Takes out units of a request id, or the highest ones.
fn take_out(key: &Key<'_>, rule: &Sliding<'_>, units: u64, trace: &mut Trace) {
    let mut gone = Vec::new();
    for index in 0..units {
        let member = match rule.id {
            Some(id) => Some(Owned::new(record::id_member(index, id).as_bytes())),
            None => key.range(Edge::Open, Edge::Open, From::Highest).current().map(|(member, _)| member),
        };
        if let Some(member) = member {
            key.remove(member.word());
            gone.push(member);
        }
    }
    trace.replicate_members(key, Effect::ZRem, &gone);
}

/// Gives entries of the future the present instant, the highest first.
fn mend_future(key: &Key<'_>, most: u64, now: Micros, trace: &mut Trace) {
    if most == 0 {
        return;
    }
    let score = Owned::signed(now.get());
    let mut mended = Vec::new();
    for _ in 0..most {
        let found = key.range(Edge::Beyond(now.get()), Edge::Open, From::Highest).current();
        let Some((member, _)) = found else { break };
        key.add(now, member.word());
        mended.push(member);
    }
    trace.replicate_scores(key, &score, &mended);
}

/// Adds units of now.
fn add_units(key: &Key<'_>, rule: &Sliding<'_>, units: u64, now: Micros, trace: &mut Trace) {
    let score = Owned::signed(now.get());
    // The commonest unit of all: its member is its score.
    if units == 1 && rule.id.is_none() && key.add_new(now, score.word()) {
        trace.replicate(key.call(), Effect::ZAdd, &[key.name(), score.word(), score.word()]);
        return;
    }
    let mut added = Vec::new();
    let mut next = now.get();
    for index in 0..units {
        added.push(match rule.id {
            Some(id) => {
                let member = Owned::new(record::id_member(index, id).as_bytes());
                key.add(now, member.word());
                member
            }
            None => add_numbered(key, now, &mut next),
        });
    }
    trace.replicate_scores(key, &score, &added);
}

/// Adds a unit whose member is the next free number from `next` on, and moves `next` behind it.
///
/// Units of one instant carry consecutive numbers, so the end of such a run is looked for in leaps of doubling length
/// and then by halves, instead of past every unit of a burst.
fn add_numbered(key: &Key<'_>, now: Micros, next: &mut i64) -> Owned {
    let first = Owned::signed(*next);
    let member = if key.add_new(now, first.word()) { first } else { add_behind_run(key, now, next) };
    *next = next.saturating_add(1);
    member
}

/// Adds a unit behind the run of numbers that `taken` begins, and says in `taken` where.
fn add_behind_run(key: &Key<'_>, now: Micros, taken: &mut i64) -> Owned {
    let is_taken = |number: i64| key.score(Owned::signed(number).word()).is_some();
    let mut leap = 1;
    while is_taken(taken.saturating_add(leap)) {
        *taken = taken.saturating_add(leap);
        leap *= 2;
    }
    let mut free = taken.saturating_add(leap);
    while free - *taken > 1 {
        let middle = *taken + (free - *taken) / 2;
        if is_taken(middle) {
            *taken = middle;
        } else {
            free = middle;
        }
    }
    *taken = free;
    let member = Owned::signed(free);
    key.add_new(now, member.word());
    member
}

/// Trims entries at or below `cutoff`, the lowest first; which that is may be known already.
pub fn trim(key: &Key<'_>, mut lowest: Option<Owned>, cutoff: i64, most: u64, trace: &mut Trace) {
    let mut trimmed = 0;
    while trimmed < most {
        let found = || key.range(Edge::Open, Edge::At(cutoff), From::Lowest).current().map(|(member, _)| member);
        let Some(member) = lowest.take().or_else(found) else { break };
        key.remove(member.word());
        trimmed += 1;
    }
    if trimmed > 0 {
        let last = Owned::number(trimmed - 1);
        let words = [key.name(), ZERO.word(), last.word()];
        trace.replicate(key.call(), Effect::ZRemRangeByRank, &words);
    }
}

fn put_sub_windows(key: &Key<'_>, change: &FieldChange, trace: &mut Trace) {
    let mut words = Vec::with_capacity(change.set.len() * 2);
    for field in &change.set {
        let end = Owned::signed(field.end.get());
        let units = Owned::number(field.units);
        key.hash_set(end.word(), units.word());
        words.push(end);
        words.push(units);
    }
    trace.replicate_members(key, Effect::HSet, &words);
    let gone: Vec<_> = change.delete.iter().map(|end| Owned::signed(end.get())).collect();
    for end in &gone {
        key.hash_delete(end.word());
    }
    trace.replicate_members(key, Effect::HDel, &gone);
}
