//! A long line: replies in the order of the turns, none before its turn, how late the latest was, and that the server
//! serves others meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::client::{Conn, pack};
use crate::expectation::words;
use crate::harness::{PATIENCE, Server, Setup, kind, say, wait_for};
use crate::info;

fn wall_us() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// A caller in the line: its socket, and the instant of its turn as the books say.
struct Caller {
    stream: UnixStream,
    turn_us: i64,
}

/// What came of one caller.
#[derive(Debug, Clone, Copy)]
struct Released {
    turn_us: i64,
    /// When its reply could be read.
    at_us: i64,
    /// Which look at all sockets found it: two in one look have no order that one could see.
    look: usize,
}

/// The instant at which the level of the key stands for, and the level in units of 1/`denominator`.
fn books(control: &mut Conn) -> Option<(i64, i64, i64)> {
    let fields = control.good("HGETALL q");
    let ts = fields.field("ts")?.int();
    let level = fields.field("level")?.to_string();
    let (whole, fraction) = level.split_once('+').unwrap_or((&level, "0/1"));
    let (numerator, denominator) = fraction.split_once('/').unwrap();
    let parse = |text: &str| text.parse::<i64>().unwrap();
    let denominator = parse(denominator);
    Some((ts, parse(whole) * denominator + parse(numerator), denominator))
}

/// Sends one caller into the line and reads its exact turn from the books: the instant at which everything before it
/// has drained. Every line of this file has a period of one second.
fn enter(server: &Server, control: &mut Conn, (rate, line): (i64, &str)) -> Caller {
    let before = books(control);
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.write_all(&pack(&words(line).unwrap())).unwrap();
    stream.set_nonblocking(true).unwrap();
    let (ts, level, denominator) = wait_for("the booking", || books(control).filter(|now| before != Some(*now)));
    let ahead = i128::from(level - denominator) * 1_000_000;
    let turn_us = ts + i64::try_from(ahead.div_euclid(i128::from(denominator) * i128::from(rate))).unwrap();
    Caller { stream, turn_us }
}

/// Reads every caller's reply as it comes. Answers since when, too.
fn watch(callers: &mut [Caller]) -> (Vec<Released>, i64) {
    let since_us = wall_us();
    let deadline = Instant::now() + PATIENCE;
    let mut found: Vec<Option<Released>> = vec![None; callers.len()];
    let mut look = 0;
    while found.iter().any(Option::is_none) {
        assert!(Instant::now() < deadline, "some are still waiting: {found:?}");
        let mut waiting: Vec<_> = callers
            .iter()
            .map(|caller| libc::pollfd { fd: caller.stream.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        for (slot, done) in waiting.iter_mut().zip(&found) {
            if done.is_some() {
                slot.fd = -1;
            }
        }
        // SAFETY: the array lives across the call and its length is its own.
        let ready = unsafe { libc::poll(waiting.as_mut_ptr(), waiting.len().try_into().unwrap(), 1000) };
        let at_us = wall_us();
        assert!(ready >= 0, "poll: {}", std::io::Error::last_os_error());
        look += 1;
        for ((slot, caller), released) in waiting.iter().zip(callers.iter_mut()).zip(&mut found) {
            if slot.fd >= 0 && slot.revents != 0 {
                let reply = read_reply(&mut caller.stream);
                assert!(reply.starts_with("*5\r\n:1\r\n"), "a turn that came is an admission: {reply:?}");
                assert_eq!(reply.split("\r\n").nth(4), Some(":0"), "and may go at once: {reply:?}");
                *released = Some(Released { turn_us: caller.turn_us, at_us, look });
            }
        }
    }
    (found.into_iter().flatten().collect(), since_us)
}

/// A whole reply of five integers: six lines.
fn read_reply(stream: &mut UnixStream) -> String {
    let mut text = String::new();
    let mut bytes = [0; 256];
    while text.matches("\r\n").count() < 6 {
        match stream.read(&mut bytes) {
            Ok(0) => panic!("the connection was closed after {text:?}"),
            Ok(count) => text.push_str(std::str::from_utf8(&bytes[..count]).unwrap()),
            Err(e) if e.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_micros(50)),
            Err(e) => panic!("{e}"),
        }
    }
    text
}

/// How far the server's clock may be ahead of this process's, in microseconds: a server that counts time by the
/// processor's counter, and sets it right now and then, books turns by that clock and not by the system's.
fn clock_ahead_us(control: &mut Conn) -> i64 {
    if kind().can_be_held() {
        return 0;
    }
    let ahead = (0..50).map(|_| {
        let before = wall_us();
        let time: Vec<i64> = control.good("TIME").list().iter().map(|part| part.to_string().parse().unwrap()).collect();
        time[0] * 1_000_000 + time[1] - before
    });
    // Its own unrest between two settings comes on top.
    ahead.min().unwrap_or(0).max(0) + 500
}

/// In order of the turns and never early. How late is told of those whose turn came while somebody watched.
fn assert_in_order(control: &mut Conn, released: &[Released], since_us: i64, what: &str) {
    let ahead_us = clock_ahead_us(control);
    let mut by_turn = released.to_vec();
    by_turn.sort_by_key(|one| one.turn_us);
    for pair in by_turn.windows(2) {
        assert!(pair[0].look <= pair[1].look, "{what}: a later turn was answered first: {pair:?}");
    }
    for one in released {
        assert!(one.at_us + ahead_us >= one.turn_us, "{what}: answered before its turn: {one:?}");
    }
    let watched = released.iter().filter(|one| one.turn_us >= since_us);
    let mut late: Vec<_> = watched.map(|one| one.at_us - one.turn_us).collect();
    late.sort_unstable();
    let at =
        |percent: usize| late.get(late.len().saturating_sub(1) * percent / 100).map_or("-".to_owned(), i64::to_string);
    say(&format!(
        "{what}: {} released in order, none early; of {} watched: {} us late in the middle, {} us at 99 %, {} us at most",
        released.len(),
        late.len(),
        at(50),
        at(99),
        at(100)
    ));
}

/// How long another connection's PINGs take until told to stop, in microseconds, in order of size.
fn pings(server: &Server, stop: &AtomicBool) -> Vec<u128> {
    let mut conn = server.conn();
    let mut took = vec![];
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        conn.expect("PING -> PONG");
        took.push(start.elapsed().as_micros());
        thread::sleep(Duration::from_millis(1));
    }
    took.sort_unstable();
    took
}

fn summary(took: &[u128]) -> (u128, u128, u128) {
    (took[took.len() / 2], took[took.len() * 99 / 100], took[took.len() - 1])
}

/// 200 callers at once on one key at 100 a second.
#[test]
fn two_hundred_callers_at_a_hundred_a_second() {
    let server = Setup::new().config("rl.queue-max-waiting-per-key 1000").start();
    let mut control = server.conn();
    let stop = AtomicBool::new(false);
    let (released, since, quiet, busy) = thread::scope(|scope| {
        let pinger = scope.spawn(|| pings(&server, &stop));
        thread::sleep(Duration::from_millis(500));
        stop.store(true, Ordering::Relaxed);
        let quiet = pinger.join().unwrap();
        stop.store(false, Ordering::Relaxed);
        let mut callers: Vec<_> =
            (0..200).map(|_| enter(&server, &mut control, (100, "RL.QUEUE q 1000 100 1s 10s"))).collect();
        assert!(info::waiters(&mut control) > 50, "most of them wait");
        // Nobody sleeps inside the server: with a long line standing it answers at once, and the line is still there.
        control.expect("PING -> PONG");
        assert!(info::waiters(&mut control) > 50, "the PING waited for the line");
        let pinger = scope.spawn(|| pings(&server, &stop));
        let (released, since) = watch(&mut callers);
        stop.store(true, Ordering::Relaxed);
        (released, since, quiet, pinger.join().unwrap())
    });
    assert_in_order(&mut control, &released, since, "200 callers at 100 a second");
    let (quiet, busy) = (summary(&quiet), summary(&busy));
    say(&format!(
        "PING in us (median, 99 %, most): {quiet:?} without waiters, {busy:?} with; ratio of the medians {}.{:02}",
        busy.0 / quiet.0.max(1),
        busy.0 * 100 / quiet.0.max(1) % 100
    ));
    info::wait_for_waiters(&mut control, 0);
}

/// Slots far closer together than a timer's millisecond: several turns fall into one, and still in order.
#[test]
fn slots_closer_than_a_millisecond_stay_in_order() {
    let server = Setup::new().config("rl.queue-max-waiting-per-key 1000").start();
    let mut control = server.conn();
    // A backlog that drains for 400 ms, so that those who come now have turns close together.
    control.good("RL.LEAKY q 100000 3000 1s SHAPE COST 1200");
    let mut callers: Vec<_> =
        (0..150).map(|_| enter(&server, &mut control, (3000, "RL.QUEUE q 100000 3000 1s 10s"))).collect();
    let (released, since) = watch(&mut callers);
    assert_in_order(&mut control, &released, since, "slots of a third of a millisecond");
}

/// Arrivals slower than the slots behind a backlog: the waits shrink, and timers rounded to a millisecond must not swap
/// neighbours.
#[test]
fn arrivals_slower_than_the_slots_stay_in_order() {
    let server = Setup::new().start();
    let mut control = server.conn();
    control.good("RL.LEAKY q 100000 1000 1s SHAPE COST 600");
    let mut callers = vec![];
    for _ in 0..60 {
        callers.push(enter(&server, &mut control, (1000, "RL.QUEUE q 100000 1000 1s 10s")));
        thread::sleep(Duration::from_micros(1700));
    }
    let (released, since) = watch(&mut callers);
    assert_in_order(&mut control, &released, since, "arrivals slower than the slots");
}

/// Arrivals slower than the rate, with no backlog, never wait.
#[test]
fn callers_that_come_slowly_are_answered_at_once() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    for _ in 0..20 {
        let reply = conn.ints("RL.QUEUE q 9 1 2ms 0s");
        assert_eq!(reply[..4], [1, 9, 8, 0]);
        wait_for("the slot to pass", || (conn.ints("RL.PEEK q LEAKY 9 1 2ms COST 0")[4] == 0).then_some(()));
    }
}

/// Half of a line is killed: the others keep their turns, and what the waiters cost comes back.
#[test]
fn the_rest_go_on_time_when_half_are_killed_and_memory_comes_back() {
    let server = Setup::new().config("rl.queue-max-waiting-per-key 1000").start();
    let mut control = server.conn();
    let memory = |control: &mut Conn| info::number(control, "memory", "used_memory");
    // Connections cost memory of their own: one line comes and goes before the measurement starts.
    let mut before = 0;
    for round in 0..2 {
        before = memory(&mut control);
        // The first turn is far enough away for all of them to be in the line at once, on a busy machine too.
        control.ints("RL.LEAKY q 1000 200 1s SHAPE COST 300");
        let mut callers: Vec<_> =
            (0..200).map(|_| enter(&server, &mut control, (200, "RL.QUEUE q 1000 200 1s 10s"))).collect();
        let during = memory(&mut control);
        let mut rest = vec![];
        for (at, caller) in callers.drain(..).enumerate() {
            if at % 2 == 0 {
                drop(caller);
            } else {
                rest.push(caller);
            }
        }
        let (released, since) = watch(&mut rest);
        assert_in_order(&mut control, &released, since, &format!("100 of 200 callers, the others gone, round {round}"));
        drop(rest);
        info::wait_for_waiters(&mut control, 0);
        wait_for("the key to end", || (control.int("DBSIZE") == 0).then_some(()));
        // The allocator and the server's pools keep a little; 200 waiters take several megabytes.
        let after = wait_for("the waiters' memory", || {
            let now = memory(&mut control);
            (round == 0 || now < before + 500_000).then_some(now)
        });
        if round == 1 {
            say(&format!("memory: {before} before, {during} with 200 in the line, {after} after"));
            assert!(during > before + 2_000_000, "the waiters' memory was not seen: {before} to {during}");
        }
    }
    assert!(before > 0);
}
