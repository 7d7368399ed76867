//! The laws of the house, put to the engine through everything that is pure: grammar, engine, records, replies.
//!
//! | file | what |
//! |---|---|
//! | `model` | the contract once more, naively, in exact fractions; it shares no code with the engine |
//! | `native`, `keyspace` | a server's keys in memory, and the commands on them |
//! | `dice`, `calls`, `clock` | random numbers, calls and instants, with an eye on edges |
//! | `sides`, `histories` | long mixed histories: the commands answer what the model answers |
//! | `properties` | what must hold whatever the model says |
//!
//! `RL_SEED` starts what is random elsewhere, `RL_HISTORIES` says how many histories of each kind there are (usually
//! 150), and the cases of the properties follow in proportion. `scripts/planted_faults.py` shows that the laws catch
//! mistakes.

mod calls;
mod clock;
mod dice;
mod histories;
mod keyspace;
mod model;
mod native;
mod properties;
mod sides;
