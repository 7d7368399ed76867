//! What the server says of itself: INFO read as lines, a field's number by its name.

use crate::client::Conn;
use crate::harness::wait_for;

/// The text of INFO, or of some of its sections.
pub fn info(conn: &mut Conn, sections: &str) -> String {
    conn.good(&format!("INFO {sections}")).to_string()
}

/// A field of INFO as it stands there.
#[track_caller]
pub fn field(text: &str, name: &str) -> String {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("no field {name} in:\n{text}")).trim().to_owned()
}

#[track_caller]
pub fn number(conn: &mut Conn, section: &str, name: &str) -> i64 {
    let value = field(&info(conn, section), name);
    value.parse().unwrap_or_else(|e| panic!("{name}: {value:?}: {e}"))
}

/// How many callers RL.QUEUE holds back at this moment.
#[track_caller]
pub fn waiters(conn: &mut Conn) -> i64 {
    number(conn, "rl", WAITERS)
}

#[track_caller]
pub fn wait_for_waiters(conn: &mut Conn, count: i64) {
    wait_for(&format!("{count} waiting callers"), || (waiters(conn) == count).then_some(()));
}

/// The gauge of waiting callers.
const WAITERS: &str = "rl_waiting";
