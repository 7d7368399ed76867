//! The laws: what must hold of every limiter, whatever its numbers, options and past.
//!
//! | law | file |
//! |---|---|
//! | budget, sub-windows and the log, no drift | `budget` |
//! | promise, never | `promise` |
//! | refusal is free, replaying effects, bounded work, ALL keeps all | `traces` |
//! | forgetting, lifetime, the clock going back | `time` |
//! | peek is what follows, take and refund, ALL of one | `verbs` |
//! | who is refused most: estimates within their error | `heavy` |
//!
//! The laws of records stand beside the records.

mod budget;
mod heavy;
mod promise;
mod scenes;
mod time;
mod traces;
mod verbs;
