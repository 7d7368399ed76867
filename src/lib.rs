//! Rate limits decided inside Redis or Valkey.
//!
//! One request, straight down:
//!
//! ```text
//! argv -> parse -> rule -> now, open key, load -> state -> DECIDE -> decision + write
//!                                                (pure, total, on values)
//! reply <- render <- decision        count        replicate <- effect <- apply write
//! ```
//!
//! The rooms, and what each may look at:
//!
//! | room | what | may look at |
//! |---|---|---|
//! | [`engine`] | decisions on values: no server, clock, allocation on a hot path, float or panic | the standard library |
//! | [`commands`] | words in, replies out; the grammar; the table of commands | engine |
//! | [`storage`] | bytes of stored values to states and back | engine |
//! | `module` | the shell: the server's calls, keys, the clock, settings, INFO, the queue | everything |

pub mod commands;
pub mod engine;
#[cfg(test)]
mod laws;
mod module;
pub mod storage;
