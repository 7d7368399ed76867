//! Replicas, with the module and without: after any traffic they hold what the primary holds; a cut link is mended by a
//! partial resynchronisation; a promoted replica goes on from the same numbers; and what a partition costs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::chance::{Chance, scaled};
use crate::harness::{Server, Setup, say, wait_for};
use crate::pipe::Pipe;
use crate::snapshot::Snapshot;
use crate::traffic::{self, CHURNING, LASTING, Tally, Traffic};

fn primary() -> Setup {
    // No ping of the server's own moves the offset while a test looks at it.
    Setup::new().tcp().config("repl-ping-replica-period 3600").config("repl-backlog-size 64mb")
}

fn wait_for_link(replica: &mut Pipe) {
    wait_for("the replica's link", || (replica.info("replication", "master_link_status") == "up").then_some(()));
}

/// Waits until a replica has everything that the primary has written.
fn catch_up(primary: &mut Pipe, replica: &mut Pipe) {
    wait_for("the replica to catch up", || {
        let written = primary.info_number("replication", "master_repl_offset");
        let read = replica.info_number("replication", "slave_repl_offset");
        (replica.info("replication", "master_link_status") == "up" && read >= written).then_some(())
    });
}

/// Random traffic of several connections at once; gives back what it did.
fn traffic_on(server: &Server, chance: &mut Chance, periods: &'static [&'static str], units: u64) -> Tally {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let mut traffic = Traffic::new(chance.fork(), periods, 4, "");
                let mut pipe = Pipe::open(&server.socket());
                scope.spawn(move || traffic::run(&mut pipe, &mut traffic, units))
            })
            .collect();
        let mut tally = Tally::default();
        for worker in workers {
            tally.join(worker.join().unwrap());
        }
        tally
    })
}

/// Every command in random order from three connections at once, single, in transactions and in scripts, in two
/// databases, over windows that end all the time: a replica with the module and one without hold the same keys, types,
/// values and absolute expiries as their primary.
#[test]
fn replicas_with_and_without_the_module_hold_the_same() {
    let mut chance = Chance::for_test("replication::replicas_with_and_without_the_module_hold_the_same");
    let primary = primary().start();
    let with = Setup::new().replica_of(&primary).start();
    let without = Setup::new().without_module().replica_of(&primary).start();
    let mut replicas = [Pipe::open(&with.socket()), Pipe::open(&without.socket())];
    replicas.iter_mut().for_each(wait_for_link);
    let mut pipe = Pipe::open(&primary.socket());
    let mut compared = [0, 0];
    let mut tally = Tally::default();
    for periods in [CHURNING, LASTING] {
        tally.join(traffic_on(&primary, &mut chance, periods, scaled(600, 60_000)));
        let held = {
            for replica in &mut replicas {
                catch_up(&mut pipe, replica);
            }
            Snapshot::of(&mut pipe)
        };
        let copies: Vec<_> = replicas.iter_mut().map(Snapshot::of).collect();
        let now_ms = pipe.time_us() / 1000 + 1;
        for (index, who) in ["the replica with the module", "the replica without it"].iter().enumerate() {
            compared[index] += held.assert_same(&copies[index], now_ms, who);
        }
    }
    tally.assert_mixed();
    assert!(compared[1] >= 40, "enough keys outlived the traffic: {compared:?}");
    assert_eq!(pipe.info_number("stats", "sync_full"), 2, "each replica was filled once");
    say(&format!("replication: {} calls, {} keys compared on each of two replicas", tally.calls(), compared[1]));
}

/// A link that is cut under load is taken up where it broke: partial resynchronisations only, and the same keys after.
#[test]
fn a_cut_link_is_resynchronised_in_part() {
    let mut chance = Chance::for_test("replication::a_cut_link_is_resynchronised_in_part");
    let primary = primary().start();
    let with = Setup::new().replica_of(&primary).start();
    let without = Setup::new().without_module().replica_of(&primary).start();
    let mut replicas = [Pipe::open(&with.socket()), Pipe::open(&without.socket())];
    replicas.iter_mut().for_each(wait_for_link);
    let mut pipe = Pipe::open(&primary.socket());
    let cuts = i64::try_from(scaled(2, 20)).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut traffic = Traffic::new(chance.fork(), LASTING, 9, "");
            let mut pipe = Pipe::open(&primary.socket());
            let mut units = 0;
            while !over.load(Ordering::Relaxed) || units < 400 {
                units += 20;
                traffic::run(&mut pipe, &mut traffic, 20);
            }
        });
        for cut in 1..=cuts {
            assert_eq!(pipe.int("CLIENT KILL TYPE replica"), 2, "both links are cut");
            wait_for("both links to be taken up", || {
                (pipe.info_number("stats", "sync_partial_ok") >= cut * 2).then_some(())
            });
            replicas.iter_mut().for_each(wait_for_link);
        }
        over.store(true, Ordering::Relaxed);
        worker.join().unwrap();
    });
    for replica in &mut replicas {
        catch_up(&mut pipe, replica);
    }
    assert_eq!(pipe.info_number("stats", "sync_full"), 2, "no link was filled anew");
    let held = Snapshot::of(&mut pipe);
    let copies: Vec<_> = replicas.iter_mut().map(Snapshot::of).collect();
    let now_ms = pipe.time_us() / 1000 + 1;
    for copy in &copies {
        let keys = held.assert_same(copy, now_ms, "a replica after cut links");
        assert!(keys >= 20, "enough keys: {keys}");
    }
}

/// Limiters in the middle of their windows, in debt, shut, full: the promoted replica answers as the primary would
/// have.
#[test]
fn a_replica_promoted_in_mid_window_goes_on() {
    const CALLS: &[(&str, &str)] = &[
        ("RL.FIXED f 9 1h COST 4", "RL.PEEK f FIXED 9 1h COST 5"),
        ("RL.FIXED a 9 1d ALIGN COST 4", "RL.PEEK a FIXED 9 1d ALIGN COST 6"),
        ("RL.CHARGE debt FIXED 9 1h COST 17", "RL.PEEK debt FIXED 9 1h"),
        ("RL.SLIDING s 9 1h COST 4 ID a", "RL.PEEK s SLIDING 9 1h ID a"),
        ("RL.SLIDING u 9 1h COST 9", "RL.PEEK u SLIDING 9 1h COST 3"),
        ("RL.SLIDING b 9 1h COST 9 BUCKETS 60", "RL.PEEK b SLIDING 9 1h BUCKETS 60"),
        ("RL.TOKEN t 9 1 1h COST 4", "RL.PEEK t TOKEN 9 1 1h COST 6"),
        ("RL.CHARGE owes TOKEN 9 1 1h COST 17", "RL.PEEK owes TOKEN 9 1 1h"),
        ("RL.LEAKY l 9 1 1h COST 4", "RL.PEEK l LEAKY 9 1 1h COST 6"),
        ("RL.LEAKY line 9 1 1h COST 4 SHAPE", "RL.PEEK line LEAKY 9 1 1h SHAPE"),
        ("RL.ACQUIRE h 1 1h ID a", "RL.PEEK h LEASE 1"),
    ];
    let primary = primary().start();
    let replica = Setup::new().replica_of(&primary).start();
    let (mut pipe, mut promoted) = (Pipe::open(&primary.socket()), Pipe::open(&replica.socket()));
    wait_for_link(&mut promoted);
    for (call, _) in CALLS {
        assert!(!pipe.run(call).is_error(), "{call}");
    }
    pipe.good("RL.FIXED shut 1 1h");
    assert_eq!(pipe.good("RL.FIXED shut 1 1h BLOCK 1d").first(), 0);
    catch_up(&mut pipe, &mut promoted);
    let looks = || CALLS.iter().map(|(_, look)| *look).chain(["RL.PEEK shut FIXED 1 1h"]);
    let numbers = |pipe: &mut Pipe, look: &str| -> Vec<i64> {
        pipe.good(look).list().iter().map(crate::pipe::Answer::int).collect()
    };
    let before: Vec<_> = looks().map(|look| numbers(&mut pipe, look)).collect();
    drop((pipe, primary));
    promoted.good("REPLICAOF NO ONE");
    for (look, before) in looks().zip(before) {
        let after = numbers(&mut promoted, look);
        assert_eq!(before[..3], after[..3], "{look}: allowed, limit, remaining");
        for element in [3, 4] {
            // Time went on by the length of the failover and not by more.
            let passed = before[element] - after[element];
            assert!((0..30_000).contains(&passed), "{look}: {before:?} then {after:?}");
        }
    }
    assert_eq!(promoted.good("RL.SLIDING s 9 1h COST 4 ID a").first(), 1, "a repeat after the failover");
    assert_eq!(promoted.int("ZCARD s"), 4, "costs nothing");
    assert_eq!(promoted.int("RL.RENEW h 2h a"), 1, "a lease outlives the failover");
    assert_eq!(promoted.int("RL.RELEASE h a"), 1);
    assert_eq!(promoted.good("RL.FIXED f 9 1h COST 5").first(), 1);
    assert_eq!(promoted.good("RL.FIXED f 9 1h").first(), 0);
}

/// A partition: each side admits up to the limit by what it knows, and what the old primary admitted alone is gone when
/// it comes back. `min-replicas-to-write` ends that: the side without replicas answers NOREPLICAS.
#[test]
fn a_partition_admits_at_most_one_limit_per_side() {
    let old = primary().start();
    let new = Setup::new().tcp().replica_of(&old).start();
    let (mut left, mut right) = (Pipe::open(&old.socket()), Pipe::open(&new.socket()));
    wait_for_link(&mut right);
    let admit = |pipe: &mut Pipe| (0..20).map(|_| pipe.good("RL.FIXED k 10 1h").first()).sum::<i64>();
    assert_eq!(left.good("RL.FIXED k 10 1h COST 4").first(), 1);
    catch_up(&mut left, &mut right);
    right.good("REPLICAOF NO ONE");
    assert_eq!((admit(&mut left), admit(&mut right)), (6, 6), "4 were known to both, 6 more to each: 16 in all");
    left.good(&format!("REPLICAOF 127.0.0.1 {}", new.port()));
    wait_for_link(&mut left);
    assert_eq!(left.int("GET k"), 10, "the old side's own admissions are forgotten");
    assert!(left.error("RL.FIXED k 10 1h").starts_with("READONLY"));
    right.good("CONFIG SET min-replicas-to-write 1");
    left.good("REPLICAOF NO ONE");
    wait_for("the replica to be missed", || {
        right.run("RL.FIXED k 20 1h").to_string().starts_with("NOREPLICAS").then_some(())
    });
    assert!(right.error("RL.RELEASE h a").starts_with("NOREPLICAS"), "nobody writes");
    assert_eq!(right.good("RL.PEEK k FIXED 10 1h").first(), 0, "a look writes nothing");
}

/// WAIT tells a caller whether replicas have its admission: a call behind it is not forgotten by a failover to them.
#[test]
fn wait_says_whether_an_admission_would_survive() {
    let primary = primary().start();
    let replica = Setup::new().replica_of(&primary).start();
    let (mut pipe, mut other) = (Pipe::open(&primary.socket()), Pipe::open(&replica.socket()));
    wait_for_link(&mut other);
    assert_eq!(pipe.good("RL.FIXED k 10 1h").first(), 1);
    assert_eq!(pipe.int("WAIT 1 30000"), 1);
    assert_eq!(other.int("GET k"), 1, "the replica has it before WAIT answers");
    other.good("REPLICAOF NO ONE");
    wait_for("the primary to notice", || (pipe.info_number("replication", "connected_slaves") == 0).then_some(()));
    assert_eq!(pipe.good("RL.FIXED k 10 1h").first(), 1);
    assert_eq!(pipe.int("WAIT 1 50"), 0, "nobody else knows of this one");
    assert_eq!(other.int("GET k"), 1);
}
