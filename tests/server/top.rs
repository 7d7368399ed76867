//! RL.TOP: which keys are refused most right now, for whoever looks at a server under attack.

use crate::client::{Conn, Reply};
use crate::harness::{Server, Setup, kind, module_path, say};
use crate::info;

/// Rows that suffice for every key of a test, so that nothing is estimated.
const ROOMY: &str = "rl.top-size 100";

fn rows(conn: &mut Conn, line: &str) -> Vec<(String, i64, i64)> {
    let row = |row: &Reply| {
        let items = row.list();
        assert_eq!(items.len(), 3, "key, refused, error: {row}");
        (items[0].to_string(), items[1].int(), items[2].int())
    };
    conn.good(line).list().iter().map(row).collect()
}

/// How often RL.TOP says that a key was refused; 0 if it does not name it.
fn refused(conn: &mut Conn, key: &str) -> i64 {
    let rows = rows(conn, "RL.TOP COUNT 1000");
    rows.iter().find(|row| row.0 == key).map_or(0, |row| row.1)
}

fn refuse(conn: &mut Conn, key: &str, times: usize) {
    for _ in 0..times {
        assert_eq!(conn.ints(&format!("RL.FIXED {key} 0 1h"))[0], 0);
    }
}

/// Whoever has not asked for it pays nothing for it, and is not told that nobody is refused.
#[test]
fn it_is_off_until_it_is_asked_for() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    refuse(&mut conn, "early", 3);
    conn.expect("RL.TOP -> ERR*rl.top-size is 0");
    conn.expect("CONFIG SET rl.top-size 5 -> OK");
    assert_eq!(rows(&mut conn, "RL.TOP"), [], "what came before is not known");
    refuse(&mut conn, "late", 4);
    assert_eq!(rows(&mut conn, "RL.TOP").len(), 1);
    conn.expect("CONFIG SET rl.top-size 0 -> OK");
    conn.expect("RL.TOP -> ERR*rl.top-size is 0");
    conn.expect("CONFIG SET rl.top-size 1001 -> ERR*");
}

/// Every command that refuses counts under the key that refused: a wait as well as a never, and of RL.ALL the rules
/// that were not willing.
#[test]
fn every_refusal_counts_under_its_key() {
    let Some(setup) = Setup::held("top::every_refusal_counts_under_its_key") else { return };
    let server = setup.config(ROOMY).start();
    let mut conn = server.conn();
    conn.expect(
        r#"
        RL.FIXED fixed 1 1h -> 1 1 0 0 *
        RL.FIXED fixed 1 1h -> 0 1 0 * *
        RL.FIXED fixed 1 1h COST 2 -> 0 1 0 -1 *
        RL.FIXED door 0 1h BLOCK 1h -> 0 0 0 -1 *
        RL.SLIDING log 0 1h -> 0 0 0 -1 *
        RL.SLIDING windows 1 1h BUCKETS 5 COST 2 -> 0 1 1 -1 *
        RL.TOKEN token 1 1 1h COST 2 -> 0 1 1 -1 *
        RL.LEAKY leaky 1 1 1h COST 2 -> 0 1 1 -1 *
        RL.QUEUE queue 9 1 1h 0s -> 1 9 8 0 *
        RL.QUEUE queue 9 1 1h 0s -> 0 9 8 * *
        RL.ACQUIRE places 1 1h ID a -> 1 1 0 0 * a
        RL.ACQUIRE places 1 1h -> 0 1 0 * * nil
        RL.ALL no1 "FIXED 0 1h" willing "FIXED 5 1h" no2 "TOKEN 1 1 1h COST 2" -> 0 -1 [* * *]
        RL.ALL yes1 "FIXED 5 1h" yes2 "FIXED 5 1h" -> 1 0 [* *]
        "#,
    );
    let mut found = rows(&mut conn, "RL.TOP COUNT 100");
    assert_eq!(found.remove(0), ("fixed".to_owned(), 2, 0), "the most refused comes first");
    found.sort();
    let once = ["door", "leaky", "log", "no1", "no2", "places", "queue", "token", "windows"];
    assert_eq!(found, once.map(|key| (key.to_owned(), 1, 0)));
}

/// A queue that is full refuses as well, though the limiter itself was willing.
#[test]
fn one_who_is_turned_away_from_a_full_queue_counts() {
    let server = Setup::new().config(ROOMY).config("rl.queue-max-waiting 0").start();
    let mut conn = server.conn();
    conn.expect("RL.QUEUE q 9 1 1h 1h -> 1 9 8 0 *\nRL.QUEUE q 9 1 1h 1h -> 0 9 8 * *");
    assert_eq!(refused(&mut conn, "q"), 1);
}

/// Who only looked, asked for nothing, was let in, gave back, was charged or made a mistake was not refused.
#[test]
fn what_is_no_refusal_does_not_count() {
    let server = Setup::new().config(ROOMY).start();
    let mut conn = server.conn();
    conn.expect(
        r#"
        RL.FIXED k 1 1h -> 1 1 0 0 *
        RL.PEEK k FIXED 1 1h -> 0 1 0 * *
        RL.PEEK k LEASE 0 -> ERR*
        RL.PEEK places LEASE 0 -> 0 0 0 -1 *
        RL.FIXED k 1 1h COST 0 -> 1 1 0 0 *
        RL.CHARGE k FIXED 1 1h -> 0 1 0 * *
        RL.REFUND k FIXED 1 1h COST 0 -> 0 1 0 * *
        RL.REFUND nobody FIXED 1 1h -> 0 1 1 0 0
        RL.FIXED k 1 hour -> ERR*
        RL.RENEW places 1h a -> 0
        RL.RELEASE places a -> 0
        "#,
    );
    assert_eq!(rows(&mut conn, "RL.TOP"), []);
}

/// An attack that is over fades: every ten seconds of the server's clock half of it.
#[test]
fn counts_are_halved_every_ten_seconds() {
    let Some(setup) = Setup::held("top::counts_are_halved_every_ten_seconds") else { return };
    let server = setup.config(ROOMY).start();
    let mut conn = server.conn();
    refuse(&mut conn, "loud", 8);
    refuse(&mut conn, "once", 1);
    server.at_ms(9_999);
    assert_eq!(rows(&mut conn, "RL.TOP"), [("loud".to_owned(), 8, 0), ("once".to_owned(), 1, 0)]);
    server.at_ms(10_000);
    assert_eq!(rows(&mut conn, "RL.TOP"), [("loud".to_owned(), 4, 0)]);
    server.at_ms(31_000);
    assert_eq!(rows(&mut conn, "RL.TOP"), [("loud".to_owned(), 1, 0)]);
    server.at_ms(86_400_000);
    assert_eq!(rows(&mut conn, "RL.TOP"), []);
}

/// A crowd of keys cannot hide the one that is refused most, and the count says by how much it may be too high.
#[test]
fn a_crowd_hides_nobody() {
    let Some(setup) = Setup::held("top::a_crowd_hides_nobody") else { return };
    let server = setup.config("rl.top-size 10").start();
    let mut conn = server.conn();
    for number in 0..500 {
        refuse(&mut conn, &format!("crowd:{number}"), 1);
        refuse(&mut conn, "loud", 1);
    }
    let found = rows(&mut conn, "RL.TOP COUNT 1000");
    assert_eq!(found.len(), 10, "no more rows than were asked for");
    let (key, count, error) = &found[0];
    assert_eq!(key, "loud");
    assert!(*count >= 500 && count - error <= 500, "500 is within {count} less {error}");
    assert!(found[1..].iter().all(|(_, count, error)| count - error <= 1), "{found:?}");
    assert_eq!(rows(&mut conn, "RL.TOP COUNT 3").len(), 3);
}

/// A key of a megabyte costs half a kilobyte, and two that begin alike are two.
#[test]
fn long_keys_are_shown_in_part_and_told_apart() {
    let server = Setup::new().config(ROOMY).start();
    let mut conn = server.conn();
    let long = "k".repeat(1_000_000);
    refuse(&mut conn, &format!("{long}1"), 4);
    refuse(&mut conn, &format!("{long}2"), 4);
    conn.expect(r#"RL.FIXED "\x00\x0a\xff" 0 1h -> 0 0 0 -1 *"#);
    let found = rows(&mut conn, "RL.TOP");
    let long = found.iter().filter(|row| row.0 == "k".repeat(512));
    assert_eq!(long.count(), 2, "{found:?}");
    let raw = conn.good("RL.TOP");
    let has = |bytes: &[u8]| raw.list().iter().any(|row| row.list()[0] == Reply::Text(bytes.to_vec()));
    assert!(has(b"\x00\n\xff"), "bytes are shown as they are: {raw}");
}

/// The books are about calls, not about keys: they outlive a flush, and are gone with a new size, the module or the
/// server.
#[test]
fn it_starts_over_with_a_size_and_with_the_module_and_not_with_a_flush() {
    let server = Setup::new().config(ROOMY).aof().start();
    let mut conn = server.conn();
    refuse(&mut conn, "k", 9);
    conn.expect("FLUSHALL -> OK");
    conn.good("DEBUG RELOAD");
    assert!(refused(&mut conn, "k") >= 1);
    conn.expect("CONFIG SET rl.top-size 50 -> OK");
    assert_eq!(rows(&mut conn, "RL.TOP"), [], "a new size starts over");
    refuse(&mut conn, "k", 9);
    conn.expect("MODULE UNLOAD rl -> OK");
    conn.expect(&format!("MODULE LOADEX {} CONFIG rl.top-size 7 -> OK", module_path().display()));
    assert_eq!(rows(&mut conn, "RL.TOP"), [], "the module is new");
    refuse(&mut conn, "k", 9);
    drop(conn);
    let server = server.restart(false, |setup| setup);
    assert_eq!(rows(&mut server.conn(), "RL.TOP"), [], "nothing of it is stored");
}

/// Each server counts what it refused itself: nothing of it is sent to replicas.
#[test]
fn replicas_hear_nothing_of_it() {
    let primary = Setup::new().tcp().config(ROOMY).start();
    let replica = Setup::new().config(ROOMY).replica_of(&primary).start();
    let mut conn = primary.conn();
    let mut copy = replica.conn();
    crate::harness::wait_for("the link", || {
        (info::field(&info::info(&mut copy, "replication"), "master_link_status") == "up").then_some(())
    });
    let offset = |conn: &mut Conn| info::number(conn, "replication", "master_repl_offset");
    let before = offset(&mut conn);
    refuse(&mut conn, "k", 20);
    assert!(refused(&mut conn, "k") > 0);
    assert_eq!(offset(&mut conn), before, "neither refusals nor looks are sent");
    conn.good("RL.FIXED other 5 1h");
    conn.expect("WAIT 1 30000 -> 1");
    assert_eq!(rows(&mut copy, "RL.TOP"), []);
}

/// The same rows in both protocols, in a transaction and in a script, and words that are none are errors.
#[test]
fn the_reply_is_an_array_of_rows_for_everybody() {
    let Some(setup) = Setup::held("top::the_reply_is_an_array_of_rows_for_everybody") else { return };
    let server: Server = setup.config(ROOMY).start();
    let (mut two, mut three) = (server.conn(), server.conn3());
    for number in 1..=12 {
        refuse(&mut two, &format!("k{number}"), number);
    }
    let call = |word: &str| -> Vec<Vec<u8>> { word.split(' ').map(|word| word.as_bytes().to_vec()).collect() };
    for line in ["RL.TOP", "rl.top count 3", "RL.TOP COUNT 1000"] {
        assert_eq!(two.value(&call(line)), three.value(&call(line)), "{line}");
    }
    assert_eq!(rows(&mut two, "RL.TOP").len(), 10, "ten unless told");
    two.expect(
        "
        RL.TOP COUNT 2 -> [k12 12 0] [k11 11 0]
        EVAL \"return redis.call('RL.TOP', 'COUNT', 1)\" 0 -> [k12 12 0]
        MULTI -> OK
        RL.TOP COUNT 1 -> QUEUED
        EXEC -> [[k12 12 0]]
        RL.TOP COUNT 0 -> ERR*COUNT '0' is not a whole number from 1 to 1000
        RL.TOP COUNT 1001 -> ERR*COUNT '1001' is not a whole number from 1 to 1000
        RL.TOP COUNT -> ERR*COUNT has no value
        RL.TOP 5 -> ERR*'5' is not an option of RL.TOP, accepted: COUNT
        RL.TOP COUNT 5 COUNT 5 -> ERR*COUNT stands twice
        ",
    );
}

/// Names of keys are not for those who may not see the keys: neither a reader of some of them nor one who was granted
/// the limiters may look.
#[test]
fn only_who_was_granted_it_may_look() {
    let server = Setup::new().config(ROOMY).start();
    let mut conn = server.conn();
    let login = |rules: &str| {
        let mut conn = server.conn();
        conn.good(&format!("ACL SETUSER one reset on >secret {rules}"));
        conn.good("AUTH one secret");
        conn
    };
    let mut denied = vec!["~* +rl.fixed +rl.peek", "~* +@all -rl.top"];
    if kind().at_least(7, 2) {
        denied.extend(["~* +@read +@write +@fast", "~* +@all -@dangerous"]);
    } else {
        let name = kind().name();
        say(&format!(
            "SKIPPED top::only_who_was_granted_it_may_look (categories): {name} has none for modules' commands"
        ));
    }
    if kind().at_least(7, 4) {
        denied.push("~* +@rl");
    }
    for rules in denied {
        assert!(login(rules).error("RL.TOP").starts_with("NOPERM"), "{rules}");
    }
    assert_eq!(rows(&mut login("+rl.top"), "RL.TOP"), [], "it needs no key");
    conn.expect("ACL DELUSER one -> 1");
}
