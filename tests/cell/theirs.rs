//! redis-cell itself: its module, and a server with it beside one with ours, both at the same held microsecond.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::client::{Conn, Reply};
use crate::harness::{Server, Setup, kind, say};
use crate::held::TIME_ZERO_US;

/// redis-cell's module; `None`, after printing the test's name, where it cannot be had.
pub fn module(test: &str) -> Option<PathBuf> {
    static MODULE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match MODULE.get_or_init(find) {
        Ok(module) => Some(module.clone()),
        Err(why) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "redis-cell cannot be built: {why}");
            let last = why.trim_end().lines().last().unwrap_or_default();
            say(&format!("SKIPPED {test}: redis-cell cannot be built here: {last}"));
            None
        }
    }
}

fn find() -> Result<PathBuf, String> {
    if let Some(told) = std::env::var_os("RL_CELL") {
        return Ok(PathBuf::from(told).canonicalize().expect("the module that RL_CELL names"));
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/cell.sh");
    let made = Command::new(script).output().map_err(|e| e.to_string())?;
    let printed = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    if made.status.success() {
        Ok(PathBuf::from(printed))
    } else {
        Err(String::from_utf8_lossy(&made.stderr).into_owned())
    }
}

/// Debts below this redis-cell may forget: it cuts a key's life to whole milliseconds, and the server counts in them.
pub const FORGOTTEN_NS: i64 = 2_000_000;

/// A setup with our module and its command, and the same with redis-cell's module.
pub fn ours(setup: Setup) -> Setup {
    setup.config("rl.compat-cell yes")
}

pub fn theirs(setup: Setup, module: &Path) -> Setup {
    setup.without_module().config(&format!("loadmodule {}", module.display()))
}

/// Two servers at the same held instant.
pub struct Pair {
    pub ours: Server,
    _theirs: Server,
    pub us: Conn,
    pub them: Conn,
    /// Whether their seconds are rounded up, as from 0.4.0 on; before, down.
    rounds_up: bool,
    now_us: i64,
}

/// The numbers of a call.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    pub burst: i64,
    pub count: i64,
    pub period: i64,
}

impl Numbers {
    pub const fn interval_ns(self) -> i64 {
        self.period * 1_000_000_000 / self.count
    }

    pub const fn tolerance_ns(self) -> i64 {
        self.interval_ns() * (self.burst + 1)
    }

    /// What remains when nothing is owed, as both count it.
    pub const fn untouched(self) -> i64 {
        (self.tolerance_ns() / 1_000) / (self.interval_ns() / 1_000)
    }

    pub fn line(self, key: &str, quantity: i64) -> String {
        format!("CL.THROTTLE {key} {} {} {} {quantity}", self.burst, self.count, self.period)
    }
}

impl Pair {
    /// `None`, after printing the test's name, where redis-cell cannot be had or a clock not be held.
    pub fn start(test: &str) -> Option<Self> {
        let module = module(test)?;
        let ours = ours(Setup::held(test)?).start();
        let theirs = theirs(Setup::beside(&ours), &module).start();
        let (us, them) = (ours.conn(), theirs.conn());
        let mut pair = Self { ours, _theirs: theirs, us, them, rounds_up: false, now_us: 0 };
        pair.rounds_up = pair.them.ints("CL.THROTTLE probe 0 2 3")[4] == 2;
        // Some servers tie a module to the system's own clock, past anything that was preloaded.
        if state(&mut pair.them, "probe") != Some(TIME_ZERO_US * 1_000 + 1_500_000_000) {
            say(&format!("SKIPPED {test}: the clock of redis-cell in {} cannot be held", kind().name()));
            return None;
        }
        pair.them.good("DEL probe");
        // A millisecond that is held is long enough for the server to sweep out keys that expire in it, now or later.
        pair.us.good("DEBUG SET-ACTIVE-EXPIRE 0");
        pair.them.good("DEBUG SET-ACTIVE-EXPIRE 0");
        Some(pair)
    }

    /// Moves both clocks to so many microseconds after time 0.
    pub fn at_us(&mut self, us: i64) {
        self.now_us = us;
        self.ours.clock().set_us(us);
    }

    /// What is still to be worked off on a server, by the state that it keeps.
    pub fn debt_ns(&self, state: Option<i64>) -> i64 {
        state.map_or(0, |tat| (tat - (TIME_ZERO_US + self.now_us) * 1_000).max(0))
    }

    pub fn their_debt_ns(&mut self, key: &str) -> i64 {
        let state = state(&mut self.them, key);
        self.debt_ns(state)
    }

    /// One call on both: the same reply, and the same state where there is a debt. Their two numbers of seconds may be
    /// rounded down, and are then held to the nanoseconds that they come from. Gives our reply.
    #[track_caller]
    pub fn same(&mut self, key: &str, numbers: Numbers, quantity: i64) -> Vec<i64> {
        let line = numbers.line(key, quantity);
        let place = format!("{line} at {} us", self.now_us);
        let (us, them) = (self.us.run(&line), self.them.run(&line));
        let (Reply::List(_), Reply::List(_)) = (&us, &them) else { panic!("{place}: {us} and {them}") };
        let (us, mut them) = (us.ints(), them.ints());
        let (our_state, their_state) = (state(&mut self.us, key), state(&mut self.them, key));
        let debt = self.debt_ns(our_state);
        if debt > 0 && (debt >= FORGOTTEN_NS || their_state.is_some()) {
            assert_eq!(our_state, their_state, "the states after {place}");
        } else {
            assert!(self.debt_ns(their_state) == 0, "the state after {place}");
        }
        if !self.rounds_up {
            let wait = debt + numbers.interval_ns() * quantity - numbers.tolerance_ns();
            for (element, ns) in [(3, wait), (4, debt)] {
                if them[element] != -1 {
                    assert_eq!(them[element], ns / 1_000_000_000, "redis-cell's element {element} of {place}");
                    them[element] = up(ns);
                }
            }
        }
        // In the millisecond in which a debt has ended redis-cell may count what has passed since on top of the limit.
        if them[0] == 1 && debt == 0 && their_state.is_some() {
            them[2] = numbers.untouched();
        }
        // Within a microsecond of an interval redis-cell may say -1.
        them[2] = them[2].max(0);
        assert_eq!(us, them, "{place}");
        us
    }
}

/// Seconds as redis-cell rounds them from 0.4.0 on.
fn up(ns: i64) -> i64 {
    (ns / 1_000_000 + 999) / 1_000
}

/// The TAT under a key.
pub fn state(conn: &mut Conn, key: &str) -> Option<i64> {
    match conn.good(&format!("GET {key}")) {
        Reply::Nil => None,
        text => Some(text.int()),
    }
}
