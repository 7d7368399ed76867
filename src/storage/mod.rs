//! The stored forms: bytes of native values to states and back, without touching a key.

pub mod record;
