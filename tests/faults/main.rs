//! What holds on the day something breaks: replicas, restarts, killed servers, full memory, hostile callers.
//!
//! One binary against the server that `RL_SERVER` names, like `tests/server`, whose servers and connections it borrows.
//! Histories are random; each prints its seed, and `RL_SEED` runs it again. Everything is bounded and short by default;
//! `RL_LONG=1` runs the long versions. What a server or a machine cannot do is skipped by name, in print.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

#[path = "../server/client.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod client;
#[path = "../server/expectation.rs"]
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

mod chance;
mod mortal;
mod pipe;
mod snapshot;
mod traffic;

mod eviction;
mod growth;
mod hostile;
mod identities;
mod kills;
mod lifecycle;
mod memcheck;
mod operations;
mod outages;
mod persistence;
mod replication;
mod skew;
mod stream;
mod worst;
