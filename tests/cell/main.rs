//! CL.THROTTLE beside redis-cell itself: the same histories on two servers whose clocks the test holds, keys that move
//! from one to the other, and every difference that is meant.
//!
//! `RL_SERVER` and `RL_MODULE` say what is under test, as for the other integration tests; `RL_CELL` may name a module
//! of redis-cell, else scripts/cell.sh builds the published one. Without it the comparisons are skipped by name, and
//! fail where `CI` is `true`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

#[path = "../server/aof.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod aof;
#[path = "../faults/chance.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod chance;
#[path = "../server/client.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod client;
#[path = "../server/expectation.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod expectation;
#[path = "../server/harness.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod harness;
#[path = "../server/held.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod held;
#[path = "../server/info.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod info;

mod differences;
mod histories;
mod setting;
mod swap;
mod theirs;
