//! Who may do what: ACL key permissions and categories, and the states in which a server takes no writes.

use crate::client::Conn;
use crate::harness::{Server, Setup, kind, say};

/// Every command on one key, as an admission that would write.
const WRITERS: &[&str] = &[
    "RL.FIXED k 5 1m",
    "RL.SLIDING k 5 1m",
    "RL.SLIDING k 5 1m BUCKETS 10",
    "RL.TOKEN k 5 1 1m",
    "RL.LEAKY k 5 1 1m",
    "RL.REFUND k FIXED 5 1m",
    "RL.CHARGE k FIXED 5 1m",
    "RL.ALL k \"FIXED 5 1m\"",
    "RL.ACQUIRE k 5 1m",
    "RL.RENEW k 1m a",
    "RL.RELEASE k a",
    "RL.QUEUE k 5 1 1m 1s",
];

fn login(server: &Server, rules: &str) -> Conn {
    let mut conn = server.conn();
    conn.good(&format!("ACL SETUSER one reset on >secret {rules}"));
    conn.good("AUTH one secret");
    conn
}

/// `%R~` may look and nothing else: writers declare that they write their key.
#[test]
fn a_reader_of_the_key_may_peek_and_not_spend() {
    let server = Setup::new().start();
    let mut conn = login(&server, "+@all %R~k");
    for line in WRITERS {
        assert!(conn.error(line).starts_with("NOPERM"), "{line}");
    }
    conn.expect("RL.PEEK k FIXED 5 1m -> 1 5 4 0 60000");
    conn.expect("RL.PEEK k LEASE 5 -> 1 5 4 0 0");
    assert!(conn.error("RL.PEEK other FIXED 5 1m").starts_with("NOPERM"));
}

/// Every key of RL.ALL is checked, not only the first.
#[test]
fn all_needs_permission_for_each_key() {
    let server = Setup::new().start();
    let mut conn = login(&server, "+@all ~a*");
    conn.expect(r#"RL.ALL a1 "FIXED 5 1m" a2 "FIXED 5 1m" -> 1 0 [* *]"#);
    assert!(conn.error(r#"RL.ALL a1 "FIXED 5 1m" b1 "FIXED 5 1m""#).starts_with("NOPERM"));
    conn.expect("RL.PEEK a1 FIXED 5 1m COST 0 -> 1 5 4 0 *");
}

/// Granting by name works on every server.
#[test]
fn a_user_is_granted_single_commands() {
    let server = Setup::new().start();
    let mut conn = login(&server, "+rl.fixed ~*");
    conn.expect("RL.FIXED k 5 1m -> 1 5 4 0 60000");
    assert!(conn.error("RL.TOKEN k 5 1 1m").starts_with("NOPERM"));
}

/// From Redis 7.2 categories reach modules' commands: +@read allows RL.PEEK alone, and -@blocking takes RL.QUEUE alone.
#[test]
fn categories_select_commands() {
    if !kind().at_least(7, 2) {
        say(&format!(
            "SKIPPED permissions::categories_select_commands: {} knows no categories of modules' commands",
            kind().name()
        ));
        return;
    }
    let server = Setup::new().start();
    let mut reader = login(&server, "+@read ~k*");
    reader.expect("RL.PEEK k TOKEN 5 1 1m -> 1 5 4 0 60000");
    for line in WRITERS {
        assert!(reader.error(line).starts_with("NOPERM"), "{line}");
    }
    let mut impatient = login(&server, "+@all -@blocking ~*");
    impatient.expect("RL.LEAKY k 5 1 1m SHAPE -> 1 5 4 0 60000");
    assert!(impatient.error("RL.QUEUE k 5 1 1m 1s").starts_with("NOPERM"));
    if kind().at_least(7, 4) {
        let mut ours = login(&server, "+@rl ~*");
        ours.expect("RL.FIXED f 5 1m -> 1 5 4 0 60000");
        assert!(ours.error("GET f").starts_with("NOPERM"));
    }
}

/// A full server refuses what needs memory and still takes back: releasing is how memory comes free.
#[test]
fn a_full_memory_refuses_admissions_and_takes_back() {
    let server = Setup::new().config("maxmemory-policy noeviction").start();
    let mut conn = server.conn();
    conn.expect("RL.FIXED f 5 1m COST 3 -> 1 5 2 0 60000");
    conn.expect("RL.ACQUIRE l 5 1m ID a -> 1 5 4 0 60000 a");
    conn.expect("RL.ACQUIRE l 5 1m ID b -> 1 5 3 0 60000 b");
    conn.good("CONFIG SET maxmemory 1");
    let gives_back = ["RL.REFUND", "RL.RENEW", "RL.RELEASE"];
    for line in WRITERS.iter().filter(|line| !gives_back.iter().any(|name| line.starts_with(name))) {
        assert!(conn.error(line).starts_with("OOM"), "{line}");
    }
    conn.expect(
        "
        EXISTS k -> 0
        RL.PEEK f FIXED 5 1m -> 1 5 1 0 *
        RL.REFUND f FIXED 5 1m COST 2 -> 2 5 4 0 *
        RL.RENEW l 2m a b -> 2
        RL.RELEASE l a -> 1
        ",
    );
    conn.good("CONFIG SET maxmemory 0");
    conn.expect("RL.FIXED f 5 1m -> 1 5 3 0 *");
}

/// Servers that work out their users' rules anew at an unload do not survive a rule that names a command which is gone:
/// the module stays until such rules are taken out.
#[test]
fn a_rule_that_names_a_command_keeps_the_module_loaded() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    for rule in ["-@all +rl.token +config", "+@all -rl.token"] {
        conn.expect(&format!("ACL SETUSER web on >x ~* {rule} -> OK"));
        assert!(conn.error("MODULE UNLOAD rl").starts_with("ERR"), "{rule}");
        conn.expect("RL.FIXED k 5 1h COST 0 -> 1 5 5 0 0");
    }
    conn.expect("ACL DELUSER web -> 1");
    conn.expect("MODULE UNLOAD rl -> OK");
    conn.expect("PING -> PONG");
}
