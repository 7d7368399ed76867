//! Many connections at once. Redis runs one command at a time, so a decision inside it cannot be raced; the broken way
//! in this file shows that the test would notice.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Conn, Reply};
use crate::harness::{Server, Setup, say, wait_for};

/// Runs `act` in `threads` threads, each with a connection of its own, from one barrier on. Answers what each got and
/// the time from the first start to the last reply.
fn at_once<T: Send>(server: &Server, threads: usize, act: impl Fn(&mut Conn) -> T + Sync) -> (Vec<T>, Duration) {
    let barrier = Barrier::new(threads);
    let (barrier, act) = (&barrier, &act);
    let runs: Vec<(T, Instant, Instant)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let mut conn = server.conn();
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    (act(&mut conn), start, Instant::now())
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let first = runs.iter().map(|run| run.1).min().unwrap();
    let last = runs.iter().map(|run| run.2).max().unwrap();
    (runs.into_iter().map(|run| run.0).collect(), last - first)
}

/// 64 threads ask at once for 20 units: exactly 20 get one. `within` is how long the units stay taken; a run that took
/// longer on a busy machine says nothing and is repeated on a fresh key.
fn exactly_twenty(command: &str, within: Duration) {
    let server = Setup::new().start();
    for attempt in 1..=5 {
        let line = command.replacen("burst", &format!("burst:{attempt}"), 1);
        let (allowed, took) = at_once(&server, 64, |conn| conn.ints(&line)[0]);
        if took >= within {
            say(&format!("{line}: took {took:?}, once more"));
            continue;
        }
        let (yes, no) =
            (allowed.iter().filter(|&&one| one == 1).count(), allowed.iter().filter(|&&one| one == 0).count());
        assert_eq!((yes, no), (20, 44), "{line}: {allowed:?}");
        return;
    }
    panic!("{command}: five runs took longer than {within:?} each");
}

#[test]
fn fixed_admits_exactly_its_limit() {
    exactly_twenty("RL.FIXED burst 20 2s", Duration::from_millis(1900));
}

#[test]
fn sliding_admits_exactly_its_limit() {
    exactly_twenty("RL.SLIDING burst 20 2s", Duration::from_millis(1900));
}

#[test]
fn buckets_admit_exactly_their_limit() {
    exactly_twenty("RL.SLIDING burst 20 2s BUCKETS 10", Duration::from_millis(1900));
}

#[test]
fn token_admits_exactly_its_capacity() {
    exactly_twenty("RL.TOKEN burst 20 1 1h", Duration::from_secs(600));
}

#[test]
fn leaky_admits_exactly_its_capacity() {
    exactly_twenty("RL.LEAKY burst 20 1 1h", Duration::from_secs(600));
}

#[test]
fn leases_admit_exactly_their_limit() {
    let server = Setup::new().start();
    let (got, _) = at_once(&server, 64, |conn| conn.good("RL.ACQUIRE burst 20 1h"));
    let mut ids: Vec<_> = got.iter().map(|reply| reply.list()[5].clone()).filter(|id| *id != Reply::Nil).collect();
    assert_eq!(ids.len(), 20, "{got:?}");
    ids.sort_by_key(ToString::to_string);
    ids.dedup();
    assert_eq!(ids.len(), 20, "an id was issued twice: {ids:?}");
}

/// Rules of several keys: none is charged unless all are, also under contention.
#[test]
fn all_charges_both_keys_or_none() {
    let server = Setup::new().start();
    let line = r#"RL.ALL {x}a "FIXED 7 1h" {x}b "TOKEN 1000 1 1d""#;
    let (allowed, _) = at_once(&server, 32, |conn| conn.good(line).list()[0].int());
    assert_eq!(allowed.iter().sum::<i64>(), 7);
    let mut conn = server.conn();
    conn.expect("GET {x}a -> 7");
    assert_eq!(conn.ints("RL.PEEK {x}b TOKEN 1000 1 1d COST 0")[2], 993);
}

/// The seed's contention: 16 connections for 5 places, and what a rejection must not touch.
#[test]
fn sixteen_connections_for_five_places() {
    let server = Setup::new().start();
    let (replies, _) = at_once(&server, 16, |conn| conn.ints("RL.FIXED k 5 1h"));
    let mut remaining: Vec<i64> = replies.iter().filter(|reply| reply[0] == 1).map(|reply| reply[2]).collect();
    remaining.sort_unstable();
    assert_eq!(remaining, [0, 1, 2, 3, 4], "each place is given once: {replies:?}");
    let mut conn = server.conn();
    conn.expect("GET k -> 5");
    let deadline = conn.int("PEXPIRETIME k");
    conn.expect("RL.FIXED k 5 1h -> 0 5 0 * *");
    conn.expect("GET k -> 5");
    assert_eq!(conn.int("PEXPIRETIME k"), deadline, "a rejection moves the deadline");
    conn.expect("PEXPIRE k 50 -> 1");
    wait_for("the window to end", || (conn.int("EXISTS k") == 0).then_some(()));
    conn.expect("RL.FIXED k 5 1h -> 1 5 4 0 3600000");
    conn.expect("GET k -> 1");
}

/// The broken way, in the same run and with the same threads: GET, everybody waits, compare, INCR. All 16 pass a limit
/// of 5. If they did not, the races above would prove nothing.
#[test]
fn the_broken_way_admits_sixteen_of_five() {
    let server = Setup::new().without_module().start();
    let all_have_read = Barrier::new(16);
    let (admitted, _) = at_once(&server, 16, |conn| {
        let used = match conn.good("GET broken") {
            Reply::Nil => 0,
            used => used.int(),
        };
        all_have_read.wait();
        if used < 5 {
            conn.good("INCR broken");
        }
        used < 5
    });
    assert_eq!(admitted.iter().filter(|&&yes| yes).count(), 16, "the threads do not race: this test shows nothing");
    server.conn().expect("GET broken -> 16");
}
