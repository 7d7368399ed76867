//! The module inside real servers: one binary, which never links the crate.
//!
//! Every test starts its own server on a unix socket in a temporary folder and kills it on drop. Three variables say
//! what is under test: `RL_MODULE` (the module), `RL_MODULE_PANIC` (its build with the feature `inject-panic`) and
//! `RL_SERVER` (the server's binary). What a server cannot do is skipped by name, in print, never in silence.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

mod aof;
mod cases;
mod client;
mod cluster;
mod effects;
mod events;
mod expectation;
mod foreign;
mod harness;
mod held;
mod info;
mod manners;
mod panics;
mod permissions;
mod queue;
mod queue_blocked;
mod queue_line;
mod races;
mod replicas;
mod settings;
mod top;
mod traces;
mod verbs;
mod workload;
