//! The guard at every entry point: a panic of ours becomes an error, never the end of the server.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::api::log;
use super::info;

/// The answer to a client whose command panicked.
pub const PANICKED: &str = "ERR internal error in the rate limiter, nothing is known about this call";

/// Runs the body of an entry point; `None` if it panicked, which is counted.
pub fn run<T>(entry: &'static str, body: impl FnOnce() -> T) -> Option<T> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        inject(entry);
        body()
    }));
    if outcome.is_err() {
        info::count_panic();
        let line = format!("rate limiters: internal error at the entry point '{entry}', caught");
        log(std::ptr::null_mut(), c"warning", &line);
    }
    outcome.ok()
}

/// Panics if the tests ask for it at this entry point.
#[cfg(feature = "inject-panic")]
pub fn inject(entry: &'static str) {
    if std::env::var("RL_INJECT_PANIC").is_ok_and(|wanted| wanted == entry) {
        std::panic::resume_unwind(Box::new(entry));
    }
}

#[cfg(not(feature = "inject-panic"))]
pub const fn inject(_entry: &'static str) {}
