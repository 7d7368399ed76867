//! Words in, requests out; decisions in, replies out. Pure: bytes and values, no key and no clock.

pub mod cell;
pub mod error;
pub mod grammar;
pub mod lease;
pub mod limit;
pub mod reply;
pub mod table;
pub mod verbs;
