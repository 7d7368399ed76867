//! What can happen to a caller that RL.QUEUE holds back, and to the server meanwhile.

use std::time::{Duration, Instant};

use crate::client::{Conn, Reply};
use crate::harness::{Server, Setup, say, wait_for};
use crate::info::{wait_for_waiters, waiters};

/// One caller that waits for its turn after `period`, another connection, and the waiter's id.
fn one_waiter(server: &Server, period: &str) -> (Conn, Conn, i64) {
    let (mut waiter, mut other) = (server.conn(), server.conn());
    let id = waiter.id();
    other.good(&format!("RL.QUEUE k 9 1 {period} 1h"));
    waiter.send(&format!("RL.QUEUE k 9 1 {period} 1h"));
    wait_for_waiters(&mut other, 1);
    (waiter, other, id)
}

/// A caller that is killed leaves its slot unused: the next one's turn comes after it. The server goes on.
#[test]
fn client_kill_leaves_the_slot_unused() {
    let server = Setup::new().start();
    let (mut waiter, mut other, id) = one_waiter(&server, "300ms");
    let booked = other.good("HGETALL k");
    other.expect(&format!("CLIENT KILL ID {id} -> 1"));
    assert!(waiter.receive().is_err(), "the connection is closed");
    assert_eq!(other.good("HGETALL k"), booked, "the slot stays booked");
    other.expect("RL.PEEK k LEAKY 9 1 300ms COST 0 -> 1 9 7..8 0 *");
    wait_for_waiters(&mut other, 0);
    // The turn of the one who left passes without harm.
    wait_for("the slots to pass", || (other.int("EXISTS k") == 0).then_some(()));
    other.expect("RL.QUEUE k 9 1 300ms 1h -> 1 9 8 0 300");
}

/// CLIENT UNBLOCK finds nothing to unblock by hand: it answers 0, with and without ERROR, and the caller waits on.
#[test]
fn client_unblock_answers_zero() {
    let server = Setup::new().start();
    let (mut waiter, mut other, id) = one_waiter(&server, "400ms");
    other
        .expect(&format!("CLIENT UNBLOCK {id} -> 0\nCLIENT UNBLOCK {id} ERROR -> 0\nCLIENT UNBLOCK {id} TIMEOUT -> 0"));
    assert_eq!(waiters(&mut other), 1);
    assert_eq!(waiter.reply().ints()[..4], [1, 9, 7, 0]);
}

/// A primary that becomes a replica sends its waiters away with an error, and their timers find nobody.
#[test]
fn replicaof_sends_waiters_away() {
    let server = Setup::new().start();
    let (mut waiter, mut other, _) = one_waiter(&server, "500ms");
    other.expect("REPLICAOF 127.0.0.1 1 -> OK");
    let Reply::Error(text) = waiter.reply() else { panic!("an error was due") };
    assert!(text.starts_with("UNBLOCKED"), "{text}");
    other.expect("REPLICAOF NO ONE -> OK");
    wait_for_waiters(&mut other, 0);
    wait_for("the turn to pass", || (other.int("EXISTS k") == 0).then_some(()));
    other.expect("RL.QUEUE k 9 1 500ms 1h -> 1 9 8 0 500");
}

/// A server that pauses writes, as before a failover, still releases: a release writes nothing.
#[test]
fn client_pause_write_does_not_hold_waiters() {
    let server = Setup::new().aof().start();
    let (mut waiter, mut other, _) = one_waiter(&server, "300ms");
    let mut aof = crate::aof::Aof::of(&server);
    other.expect("CLIENT PAUSE 600000 WRITE -> OK");
    assert_eq!(waiter.reply().ints()[..4], [1, 9, 7, 0], "the turn comes while writes are paused");
    assert_eq!(aof.lines(), [""; 0], "a release writes nothing");
    other.expect("CLIENT UNPAUSE -> OK\nRL.QUEUE k 9 1 300ms 1h -> 1 9 * 0 *");
}

/// The module cannot go while somebody waits in it; afterwards it can.
#[test]
fn unload_is_refused_while_somebody_waits() {
    let server = Setup::new().start();
    let (mut waiter, mut other, _) = one_waiter(&server, "400ms");
    let refusal = other.error("MODULE UNLOAD rl");
    assert!(refusal.to_lowercase().contains("block") || refusal.to_lowercase().contains("timer"), "{refusal}");
    assert_eq!(waiter.reply().ints()[..4], [1, 9, 7, 0], "the waiter is served as if nothing had been");
    wait_for("the module to let go", || (!other.run("MODULE UNLOAD rl").is_error()).then_some(()));
    other.expect("PING -> PONG");
}

/// A killed waiter does not pin the module beyond its own turn.
#[test]
fn unload_works_after_a_killed_waiters_turn() {
    let server = Setup::new().start();
    let (waiter, mut other, id) = one_waiter(&server, "300ms");
    other.expect(&format!("CLIENT KILL ID {id} -> 1"));
    drop(waiter);
    wait_for("the module to let go", || (!other.run("MODULE UNLOAD rl").is_error()).then_some(()));
}

/// A server that is told to stop does not wait for those who wait.
#[test]
fn the_server_stops_while_somebody_waits() {
    let mut server = Setup::new().start();
    let (mut waiter, _other, _) = one_waiter(&server, "1h");
    server.stop();
    assert!(waiter.receive().is_err(), "the connection is closed");
}

/// DEL and REFUND leave those who wait their turns; new callers see the emptied key.
#[test]
fn del_and_refund_leave_waiters_their_turns() {
    for take_back in ["DEL k", "RL.REFUND k LEAKY 9 1 700ms COST 9"] {
        let server = Setup::new().start();
        let (mut waiter, mut other, _) = one_waiter(&server, "700ms");
        other.good(take_back);
        assert_eq!(other.int("EXISTS k"), 0);
        assert_eq!(waiters(&mut other), 1, "{take_back} releases nobody early");
        other.expect("RL.QUEUE k 9 1 700ms 0s -> 1 9 8 0 700");
        assert_eq!(waiter.reply().ints()[..4], [1, 9, 7, 0], "{take_back}");
    }
}

/// The waiter whose connection holds more commands: they run after its turn, in order.
#[test]
fn pipelined_commands_wait_behind_the_caller() {
    let server = Setup::new().start();
    let (mut waiter, _other, _) = one_waiter(&server, "200ms");
    waiter.send("ECHO after");
    assert_eq!(waiter.reply().ints()[..4], [1, 9, 7, 0]);
    assert_eq!(waiter.reply().to_string(), "after");
}

/// The wall clock stands still or steps back an hour while somebody waits: the timers of the server stall, and yet
/// nobody is held for longer than its max-wait of real time.
#[test]
fn a_clock_that_steps_back_strands_nobody() {
    for (step_ms, name) in [(0, "stands still"), (-3_600_000, "steps back an hour")] {
        let Some(setup) = Setup::held("queue_blocked::a_clock_that_steps_back_strands_nobody") else {
            return;
        };
        let server = setup.start();
        server.at_ms(3_600_000);
        let (mut first, mut second, mut other) = (server.conn(), server.conn(), server.conn());
        other.expect("RL.QUEUE k 9 1 300ms 1s -> 1 9 8 0 300");
        let start = Instant::now();
        first.send("RL.QUEUE k 9 1 300ms 1s");
        wait_for_waiters(&mut other, 1);
        second.send("RL.QUEUE k 9 1 300ms 2s");
        wait_for_waiters(&mut other, 2);
        server.at_ms(3_600_000 + step_ms);
        assert_eq!(first.reply().ints()[..4], [1, 9, 7, 0]);
        let first_after = start.elapsed();
        assert_eq!(second.reply().ints()[..4], [1, 9, 6, 0]);
        let second_after = start.elapsed();
        say(&format!("a clock that {name}: max-wait 1 s answered after {first_after:?}, 2 s after {second_after:?}"));
        // Whoever is stuck waits until the clock comes back, which here is never: seconds tell the two apart.
        assert!(first_after < Duration::from_secs(10) && second_after < Duration::from_secs(10), "the clock {name}");
        assert_eq!(waiters(&mut other), 0);
    }
}

/// The wall clock jumps forward past some turns: these callers are released, in order, and no other. Minutes lie
/// between the turns, so that only the jump can have released anybody.
#[test]
fn a_clock_that_jumps_ahead_releases() {
    let Some(setup) = Setup::held("queue_blocked::a_clock_that_jumps_ahead_releases") else {
        return;
    };
    let server = setup.start();
    let mut other = server.conn();
    other.expect("RL.QUEUE k 9 1 5m 1h -> 1 9 8 0 300000");
    let mut line: Vec<Conn> = (0..3).map(|_| server.conn()).collect();
    for (at, waiter) in (1..).zip(&mut line) {
        waiter.send("RL.QUEUE k 9 1 5m 1h");
        wait_for_waiters(&mut other, at);
    }
    server.at_ms(600_000);
    assert_eq!(line[0].reply().ints()[..4], [1, 9, 7, 0]);
    assert_eq!(line[1].reply().ints()[..4], [1, 9, 6, 0]);
    assert_eq!(waiters(&mut other), 1, "the third one's turn is five minutes later");
    server.at_ms(900_000);
    assert_eq!(line[2].reply().ints()[..4], [1, 9, 5, 0]);
}
