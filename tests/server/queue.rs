//! RL.QUEUE: who waits, who is refused, and who is told to wait because nothing may block. What happens to waiters is
//! in queue_blocked.rs, the order and the punctuality of a long line in queue_line.rs.

use crate::client::Conn;
use crate::harness::{Server, Setup};
use crate::held;
use crate::info::{wait_for_waiters, waiters};

/// What the key holds: nothing booked leaves it as it is.
fn books(conn: &mut Conn, key: &str) -> String {
    conn.good(&format!("HGETALL {key}")).to_string()
}

/// Under a held clock, with the wait of nobody: the bookings are those of LEAKY SHAPE on the same key.
#[test]
fn a_turn_too_far_away_is_refused_and_not_booked() {
    let Some(setup) = Setup::held("queue::a_turn_too_far_away_is_refused_and_not_booked") else {
        return;
    };
    let server = setup.start();
    let mut conn = server.conn();
    conn.expect("RL.QUEUE k 3 1 1s 500ms -> 1 3 2 0 1000");
    let booked = books(&mut conn, "k");
    conn.expect(
        "
        RL.QUEUE k 3 1 1s 500ms -> 0 3 2 500 1000
        RL.QUEUE k 3 1 1s 0s -> 0 3 2 1000 1000
        RL.QUEUE k 3 1 1s 999ms -> 0 3 2 1 1000
        RL.QUEUE k 3 1 1s 1h COST 4 -> 0 3 2 -1 1000
        RL.QUEUE k 0 1 1s 1h -> 0 0 0 -1 1000
        RL.QUEUE k 3 1 1s 1h COST 0 -> 1 3 2 0 1000
        ",
    );
    assert_eq!(books(&mut conn, "k"), booked, "a refusal books nothing");
    server.at_ms(500);
    conn.expect("RL.QUEUE k 3 1 1s 499ms -> 0 3 2 1 500");
    server.at_ms(1000);
    conn.expect(
        "
        RL.QUEUE k 3 1 1s 0s -> 1 3 2 0 1000
        RL.LEAKY k 3 1 1s SHAPE COST 2 -> 1 3 0 1000 3000
        RL.QUEUE k 3 1 1s 1h -> 0 3 0 1000 3000
        TYPE k -> hash
        ",
    );
    assert_eq!(waiters(&mut conn), 0);
}

#[test]
fn words_that_are_wrong_are_errors_and_book_nothing() {
    let server = Setup::new().start();
    server.conn().expect(
        "
        RL.QUEUE k 3 1 1s -> ERR*wrong number of arguments
        RL.QUEUE k 3 1 1s 2h -> ERR*max-wait
        RL.QUEUE k 3 1 1s 5 -> ERR*max-wait
        RL.QUEUE k 3 1 1s 0 -> ERR*max-wait
        RL.QUEUE k 3 0 1s 1s -> ERR*rate
        RL.QUEUE k 3 1 1s 1s SHAPE -> ERR*SHAPE
        RL.QUEUE k 3 1 1s 1s PARTIAL -> ERR*PARTIAL
        RL.QUEUE k 3 1 1s 1s COST -> ERR*cost
        EXISTS k -> 0
        ",
    );
}

/// A caller waits for its turn and hears 0 in element 4: it may go at once. Others are served meanwhile, and RL.LEAKY
/// sees the booking.
#[test]
fn a_caller_waits_for_its_turn_while_others_are_served() {
    let server = Setup::new().start();
    let (mut first, mut second, mut other) = (server.conn(), server.conn3(), server.conn());
    first.expect("RL.QUEUE k 9 1 400ms 5s -> 1 9 8 0 400");
    second.send("RL.QUEUE k 9 1 400ms 5s");
    wait_for_waiters(&mut other, 1);
    other.expect("RL.PEEK k LEAKY 9 1 400ms COST 0 -> 1 9 7..8 0 300..800");
    let reply = second.reply();
    assert_eq!(reply.ints()[..4], [1, 9, 7, 0], "{reply}");
    assert!((401..=800).contains(&reply.ints()[4]), "elements 2, 3 and 5 are those of the booking: {reply}");
    assert_eq!(waiters(&mut other), 0);
}

/// Where nothing may block the slot is booked and the delay stands in element 4, as with LEAKY SHAPE. The period is
/// long: what passes meanwhile stays within the ranges.
#[test]
fn transactions_and_scripts_get_the_delay() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.expect(
        r#"
        RL.QUEUE k 9 1 10m 1h -> 1 9 8 0 600000
        MULTI -> OK
        RL.QUEUE k 9 1 10m 1h -> QUEUED
        EXEC -> [1 9 7 500000..600000 1100000..1200000]
        EVAL "return redis.call('RL.QUEUE', KEYS[1], 9, 1, '10m', '1h')" 1 k -> 1 9 6 1100000..1200000 1700000..1800000
        EVAL "return redis.call('RL.QUEUE', KEYS[1], 9, 1, '10m', '20m')" 1 k -> 0 9 6..7 500000..600000 1700000..1800000
        EVAL "return redis.call('RL.QUEUE', KEYS[1], 9, 1, '10m', '1h', 'COST', 2)" 1 k -> 1 9 4 1700000..1800000 *
        "#,
    );
    assert_eq!(waiters(&mut conn), 0);
}

/// So does a call by another module, which denies blocking unless it says otherwise; its effects are replicated with
/// its own.
#[test]
fn another_modules_call_gets_the_delay() {
    let module = held::compile("neighbour", &[]);
    let server = Setup::new().config(&format!("loadmodule {}", module.display())).aof().start();
    let mut conn = server.conn();
    let mut aof = crate::aof::Aof::of(&server);
    conn.expect(
        r#"
        NEIGHBOUR.CALL RL.QUEUE k 9 1 10m 1h -> 1 9 8 0 600000
        NEIGHBOUR.CALL RL.QUEUE k 9 1 10m 1h -> 1 9 7 500000..600000 1100000..1200000
        NEIGHBOUR.CALL RL.QUEUE k 9 1 10m 1s -> 0 9 7 1099000..1199000 1100000..1200000
        NEIGHBOUR.CALL RL.FIXED f 9 1h -> 1 9 8 0 3600000
        NEIGHBOUR.CALL RL.ALL {f}a "FIXED 9 1h" {f}b "FIXED 0 1h" -> 0 -1 [[1 9 9 0 0] [0 0 0 -1 0]]
        NEIGHBOUR.CALL RL.FIXED f x 1s -> ERR*limit
        "#,
    );
    assert_eq!(waiters(&mut conn), 0);
    let effects = aof.lines();
    assert!(effects.iter().any(|line| line.starts_with("SET f 1 PXAT")), "a caller's effects are ours: {effects:?}");
    assert!(!effects.iter().any(|line| line.to_lowercase().contains("rl.")), "{effects:?}");
}

/// Fills a key's line: the first passes, `waiting` wait. The period is long, so that nobody's turn comes meanwhile.
fn line_up(server: &Server, key: &str, waiting: usize) -> Vec<Conn> {
    let mut watch = server.conn();
    let before = waiters(&mut watch);
    watch.expect(&format!("RL.QUEUE {key} 1000 1 1m 1h -> 1 1000 999 0 60000"));
    let line: Vec<Conn> = (0..waiting)
        .map(|_| {
            let mut conn = server.conn();
            conn.send(&format!("RL.QUEUE {key} 1000 1 1m 1h"));
            conn
        })
        .collect();
    wait_for_waiters(&mut watch, before + i64::try_from(waiting).unwrap());
    line
}

/// A line that is full refuses, books nothing, and says how far away the turn would be. Who need not wait passes.
#[test]
fn a_full_line_refuses() {
    let server = Setup::new().config("rl.queue-max-waiting-per-key 3").start();
    let mut conn = server.conn();
    let line = line_up(&server, "k", 3);
    let booked = books(&mut conn, "k");
    conn.expect("RL.QUEUE k 1000 1 1m 1h -> 0 1000 996 180001..240000 *");
    assert_eq!(books(&mut conn, "k"), booked, "a refusal books nothing");
    conn.expect("RL.QUEUE other 1000 1 1m 1h -> 1 1000 999 0 60000");
    drop(line);
    // A caller that went away leaves its place in the line once its turn has come, or at once: either way not before
    // the cap is raised does this one pass.
    conn.expect("CONFIG SET rl.queue-max-waiting-per-key 100 -> OK");
    let mut next = server.conn();
    next.send("RL.QUEUE k 1000 1 1m 1h");
    crate::harness::wait_for("the booking", || (books(&mut conn, "k") != booked).then_some(()));
}

#[test]
fn a_full_server_refuses() {
    let server = Setup::new().config("rl.queue-max-waiting 4").start();
    let mut conn = server.conn();
    let _lines = (line_up(&server, "a", 2), line_up(&server, "b", 2));
    conn.expect("RL.QUEUE c 1000 1 1m 1h -> 1 1000 999 0 60000");
    let booked = books(&mut conn, "c");
    conn.expect("RL.QUEUE c 1000 1 1m 1h -> 0 1000 999 1..60000 1..60000");
    assert_eq!(books(&mut conn, "c"), booked, "a refusal books nothing");
    conn.expect("MULTI -> OK\nRL.QUEUE c 1000 1 1m 1h -> QUEUED\nEXEC -> [1 1000 998 * *]");
}

/// With caps of 0 nobody waits: the command decides like a policing one.
#[test]
fn caps_of_zero_let_nobody_wait() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    for cap in ["rl.queue-max-waiting", "rl.queue-max-waiting-per-key"] {
        conn.good("FLUSHALL");
        let before = conn.good(&format!("CONFIG GET {cap}")).list()[1].to_string();
        conn.expect(&format!("CONFIG SET {cap} 0 -> OK"));
        conn.expect("RL.QUEUE k 9 1 1m 1h -> 1 9 8 0 60000\nRL.QUEUE k 9 1 1m 1h -> 0 9 8 1..60000 *");
        conn.expect(&format!("CONFIG SET {cap} {before} -> OK"));
    }
}

/// The booking is replicated when it is made, not when the caller goes: a failover forgets nobody's slot.
#[test]
fn a_booking_is_replicated_at_once() {
    let server = Setup::new().aof().start();
    let mut aof = crate::aof::Aof::of(&server);
    let _line = line_up(&server, "k", 2);
    let effects = aof.lines();
    let bookings = effects.iter().filter(|line| line.starts_with("HSET k level ")).count();
    assert_eq!(bookings, 3, "{effects:?}");
}
