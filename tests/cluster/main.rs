//! Many servers at once: sentinels that replace a dead primary, a cluster whose slots move and whose primaries change.
//!
//! One binary against the server that `RL_SERVER` names, like `tests/server`, whose connections it borrows. The callers
//! are real clients: redis-rs, redis-py and node-redis, the last two from the user's cache. What was admitted is
//! counted by them and never read from a key. What a server or a machine cannot do is skipped by name, in print.

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
#[path = "../readme/clients.rs"]
#[allow(dead_code, reason = "borrowed: what is not needed here is needed there")]
mod clients;
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

mod limiters;
mod load;
mod node;
mod python;
mod shards;

mod failover;
mod migration;
mod routing;
mod sentinel;
mod throughput;
