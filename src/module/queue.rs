//! RL.QUEUE: the leaky bucket in which the server does the waiting.
//!
//! The slot is booked, written and replicated when the command runs; only the reply is held back. Waiters stand in one
//! line, ordered by the instant at which they may go, so those of a key go in the order of their turns. A timer of the
//! operating system, on a clock that nobody sets, wakes the event loop at the first of these instants and lets
//! everybody go whose turn has come. Nothing is written then. When the wall clock steps forward the line moves up with
//! it; when it steps back, nobody waits longer in real time than was said.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{c_int, c_void};
use std::hash::{Hash, Hasher};

use redis_module::raw;

use super::api::blocked::{self, Blocked, Handed};
use super::api::key::{Key, Mode};
use super::api::text::{Owned, Word};
use super::api::{Call, Context, ServerString, setup};
use super::info::COUNTERS;
use super::keys::{self, Kept};
use super::run::{Failure, Outcome};
use super::{clock, config, guard};
use crate::commands::limit;
use crate::commands::reply::{self, Five};
use crate::engine::bucket::Stored;
use crate::engine::leaky::Leaky;
use crate::engine::time::{Micros, Span};
use crate::engine::{Ask, Decision, Policy, Verb, Verdict, Write};

/// A key's line: its database and its name, which is held and not copied.
struct Line {
    database: c_int,
    name: Owned,
}

impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        self.database == other.database && self.name.bytes() == other.name.bytes()
    }
}

impl Eq for Line {}

impl Hash for Line {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.database.hash(state);
        self.name.bytes().hash(state);
    }
}

impl Line {
    fn of(call: &Call<'_>, name: Word<'_>) -> Self {
        Self { database: call.database(), name: Owned::hold(name) }
    }
}

/// A turn that has passed for so long is not left to the timer any more.
const OVERDUE_US: i64 = 200_000;

/// What counts as a step of the wall clock: less is the two clocks' own unrest.
const STEP_US: i64 = 1_000;

/// When a waiter may go, and its number among those of the same instant.
type Turn = (i64, u64);

struct Waiter {
    client: Blocked,
    line: Line,
    answer: Five,
}

/// Everybody who waits.
#[derive(Default)]
struct Waiting {
    by_turn: BTreeMap<Turn, Waiter>,
    by_client: BTreeMap<Blocked, Turn>,
    per_line: HashMap<Line, u64>,
    booked: u64,
    /// How far the wall clock is ahead of the monotonic one, steps back while somebody waits left out.
    ahead_us: i64,
    timer: Option<c_int>,
}

thread_local! {
    static WAITING: RefCell<Waiting> = RefCell::new(Waiting::default());
}

/// Clients that wait now.
#[must_use]
pub fn waiting() -> u64 {
    WAITING.with_borrow(|waiting| u64::try_from(waiting.by_turn.len()).unwrap_or(u64::MAX))
}

impl Waiting {
    /// The time by which turns are measured, real time moved up by every step that the wall clock took forward, at an
    /// instant of the wall clock that has just been.
    fn line_time(&mut self, instant: Micros) -> i64 {
        // The wall clock first: a pause between the readings must not look like a step forward.
        let wall = clock::wall_us();
        let real = clock::monotonic_us();
        let ahead = wall.saturating_sub(real);
        if self.by_turn.is_empty() || ahead > self.ahead_us.saturating_add(STEP_US) {
            self.ahead_us = ahead;
        }
        let passed = wall.saturating_sub(instant.get());
        real.saturating_add(self.ahead_us).saturating_sub(passed)
    }

    /// The same, at this moment.
    fn line_time_now(&mut self) -> i64 {
        self.line_time(Micros::from_clock(clock::wall_us()))
    }

    fn has_room(&self, line: &Line) -> bool {
        let all = u64::try_from(self.by_turn.len()).unwrap_or(u64::MAX);
        let here = self.per_line.get(line).copied().unwrap_or(0);
        all < config::queue_max_waiting() && here < config::queue_max_waiting_per_key()
    }

    fn add(&mut self, client: Blocked, line: Line, now: Micros, delay: Span, answer: Five) {
        // Counted from the instant of the booking: what has passed since then must not change the order of the turns.
        let turn = (self.line_time(now).saturating_add(delay.us()), self.booked);
        self.booked = self.booked.wrapping_add(1);
        let counted = Line { database: line.database, name: Owned::hold(line.name.word()) };
        *self.per_line.entry(counted).or_insert(0) += 1;
        self.by_client.insert(client, turn);
        self.by_turn.insert(turn, Waiter { client, line, answer });
        self.arm();
    }

    fn remove(&mut self, turn: Turn) -> Option<Waiter> {
        let waiter = self.by_turn.remove(&turn)?;
        self.by_client.remove(&waiter.client);
        if let Some(count) = self.per_line.get_mut(&waiter.line) {
            *count -= 1;
            if *count == 0 {
                self.per_line.remove(&waiter.line);
            }
        }
        Some(waiter)
    }

    /// Takes everybody out of the line whose turn has come, in order.
    fn due(&mut self) -> Vec<Waiter> {
        let now = self.line_time_now();
        let mut due = Vec::new();
        while let Some((turn, _)) = self.by_turn.first_key_value()
            && turn.0 <= now
        {
            let turn = *turn;
            due.extend(self.remove(turn));
        }
        self.arm();
        due
    }

    /// Sets the timer to the first turn.
    fn arm(&self) {
        let Some(timer) = self.timer else { return };
        let first = self.by_turn.first_key_value().map_or(0, |((at, _), _)| at.saturating_sub(self.ahead_us).max(1));
        clock::set_timer(timer, first);
    }
}

/// Lets everybody go whose turn has come.
fn release_due() {
    let due = WAITING.with_borrow_mut(Waiting::due);
    // The server writes the replies of one round in the opposite order.
    for waiter in due.into_iter().rev() {
        waiter.client.release(Box::new(waiter.answer));
    }
}

/// RL.QUEUE.
pub fn queue(call: Call<'_>) -> Outcome {
    let asked = limit::queue(&mut call.words(2))?;
    let name = call.word(1).ok_or(Failure::Arity)?;
    let now = clock::now();
    let key = Key::open(call, name, Mode::Write);
    guard::inject("key");
    let limit::Queue { leaky, ask, .. } = asked;
    let stored = leaky.load(&key, Verb::Decide, ask, now)?;
    let (mut decision, mut write) = leaky.decide(&stored, ask, now);
    let delay = match decision.verdict {
        Verdict::Allow { delay, .. } => delay,
        _ => Span::ZERO,
    };
    let waits = delay > Span::ZERO && !call.denies_blocking();
    let line = waits.then(|| Line::of(&call, name));
    if line.as_ref().is_some_and(|line| !WAITING.with_borrow(|waiting| waiting.has_room(line))) {
        (decision, write) = turned_away(&leaky, &stored, ask.cost, delay, now);
    }
    let stays = decision.verdict.is_allow();
    let trace = keys::apply(&leaky, &key, &write, now);
    drop(key);
    trace.tell(call, name);
    COUNTERS.queue.count(decision.verdict, name, now);
    let mut five = reply::five(&decision);
    let client =
        line.filter(|_| stays).and_then(|line| Some((line, Blocked::block(&call, on_reply, on_free, on_gone)?)));
    match client {
        Some((line, client)) => {
            let [_, _, _, wait, _] = &mut five;
            *wait = 0;
            WAITING.with_borrow_mut(|waiting| waiting.add(client, line, now, delay, five));
        }
        None => call.five(&five),
    }
    Ok(())
}

/// The answer to a call that would have to wait where too many wait already: nothing is booked.
fn turned_away(leaky: &Leaky, stored: &Option<Stored>, cost: u64, turn: Span, now: Micros) -> (Decision, Write) {
    let (standing, _) = leaky.decide(stored, Ask::NOTHING, now);
    let decision = Decision { verdict: Verdict::Deny { wait: turn }, ..standing };
    (decision, leaky.mend(stored, cost, now))
}

unsafe extern "C" fn on_reply(context: *mut Context, argv: *mut *mut ServerString, argc: c_int) -> c_int {
    // SAFETY: what the server passed to this callback, for as long as it runs.
    let call = unsafe { Call::new(context, argv, argc) };
    let outcome = guard::run("reply", || {
        // SAFETY: a running reply callback; a Five is what was given.
        match unsafe { Handed::<Five>::of(context) }.get() {
            Some(five) => call.five(five),
            None => call.error(guard::PANICKED),
        }
    });
    if outcome.is_none() {
        call.error(guard::PANICKED);
    }
    0
}

unsafe extern "C" fn on_free(_context: *mut Context, data: *mut c_void) {
    guard::run("free", || {
        // SAFETY: the server passes what was given, once.
        unsafe { blocked::free::<Five>(data) };
    });
}

/// A waiter went away: its slot stays unused, its place is free.
unsafe extern "C" fn on_gone(_context: *mut Context, handle: *mut raw::RedisModuleBlockedClient) {
    guard::run("gone", || {
        let client = Blocked::of(handle);
        let waited = WAITING.with_borrow_mut(|waiting| {
            let turn = waiting.by_client.get(&client).copied()?;
            waiting.remove(turn)
        });
        // One who was let go in this very moment is not in the line any more, and the server frees it.
        if waited.is_some() {
            client.forget();
        }
    });
}

unsafe extern "C" fn on_timer(descriptor: c_int, _data: *mut c_void, _mask: c_int) {
    // Whatever happens below, the event loop must not find the timer still ringing.
    clock::drain_timer(descriptor);
    guard::run("timer", release_due);
}

/// The server's tick: catches up with a wall clock that stepped forward, and with a timer that failed.
unsafe extern "C" fn on_tick(_context: *mut Context, _event: raw::RedisModuleEvent, _sub: u64, _data: *mut c_void) {
    guard::run("tick", || {
        // As a rule the timer alone lets clients go, so that one round of the event loop has one batch, in order.
        let overdue = WAITING.with_borrow_mut(|waiting| {
            let now = waiting.line_time_now();
            waiting.arm();
            waiting.by_turn.first_key_value().is_some_and(|((at, _), _)| now.saturating_sub(*at) > OVERDUE_US)
        });
        if overdue {
            release_due();
        }
    });
}

/// Starts the timer.
///
/// # Errors
/// The operating system has none to give.
pub fn start(context: *mut Context) -> Result<(), String> {
    let timer = clock::new_timer().ok_or("the operating system has no timer to give")?;
    if !setup::watch(timer, on_timer) {
        clock::free_timer(timer);
        return Err("the server's event loop does not take a timer".to_owned());
    }
    WAITING.set(Waiting { timer: Some(timer), ..Waiting::default() });
    setup::on_tick(context, on_tick);
    Ok(())
}

/// Stops the timer; nobody waits any more when the server lets a module go.
pub fn stop() {
    let timer = WAITING.take().timer;
    if let Some(timer) = timer {
        setup::unwatch(timer);
        clock::free_timer(timer);
    }
}
