//! Slots that move while callers charge what lies in them: no unit is granted twice and none is lost.

use std::thread;
use std::time::{Duration, Instant};

use crate::client::Conn;
use crate::harness::{PATIENCE, kind, say, wait_for};
use crate::limiters::{COUNT, Limiters};
use crate::load::Load;
use crate::python::{Charging, Count};
use crate::shards::Cluster;

/// More than is admitted while the slot moves, so that every caller still charges when it has arrived.
const LIMIT: u64 = 20_000;

/// Callers of both libraries about one slot, and the end of the account.
struct Scene {
    limiters: Limiters,
    load: Load,
    python: Option<Charging>,
    slot: u16,
}

impl Scene {
    fn start(test: &str, cluster: &Cluster) -> Self {
        let limiters = Limiters { tag: cluster.tag(0, 0), limit: LIMIT };
        let slot = cluster.slot(&limiters.tag);
        let load = Load::start(cluster, &limiters, 2, Duration::from_millis(2));
        load.seen.wait_for_more(3);
        let python = Charging::start(test, cluster, &limiters, 2);
        Self { limiters, load, python, slot }
    }

    /// Stops the callers, takes what is left, and asserts that all were granted the limit and not a unit more or less.
    /// Returns what redis-py counted, if it took part, and how many calls were answered.
    fn settle(self, cluster: &Cluster) -> (Option<Count>, u64) {
        let python = self.python.map(Charging::stop);
        let seen = self.load.stop();
        assert_eq!(seen.refused(), 0, "the limit was reached while the slot moved, which then shows nothing");
        assert_eq!(seen.errors().len(), 0, "{:?}", seen.errors());
        let by_python = python.as_ref().map_or([0; COUNT], |count| count.admitted);
        assert!(python.as_ref().is_none_or(|count| count.errors.is_empty()), "{python:?}");
        let drained = self.limiters.drain(&mut cluster.connect());
        let charged = seen.admitted();
        for index in 0..COUNT {
            let granted = charged[index] + by_python[index] + drained[index];
            assert!(granted <= LIMIT, "{} admitted {granted} of {LIMIT}", Limiters::name(index));
            assert_eq!(granted, LIMIT, "{} charged somebody twice", Limiters::name(index));
        }
        let answered = charged.iter().chain(&by_python).sum();
        (python, answered)
    }
}

/// Moves a slot by the four commands of old, key by key, with a pause between two keys.
fn move_by_hand(cluster: &Cluster, slot: u16, from: usize, to: usize) {
    let (mut source, mut target) = (cluster.nodes[from].conn(), cluster.nodes[to].conn());
    target.good(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", cluster.id(from)));
    source.good(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", cluster.id(to)));
    loop {
        let keys = source.good(&format!("CLUSTER GETKEYSINSLOT {slot} 1"));
        let Some(key) = keys.list().first() else { break };
        let moved = source.good(&format!("MIGRATE 127.0.0.1 {} {key} 0 10000", cluster.nodes[to].port()));
        assert_eq!(moved.to_string(), "OK", "{key}");
        // Callers meet a slot of which a part has moved.
        thread::sleep(Duration::from_millis(20));
    }
    for node in [to, from] {
        cluster.nodes[node].conn().good(&format!("CLUSTER SETSLOT {slot} NODE {}", cluster.id(to)));
    }
    cluster.wait_until_agreed();
}

/// A slot goes round the three primaries key by key under load until each library has been sent on by MOVED and by ASK:
/// what they were granted together is the limit, of every algorithm.
#[test]
fn a_slot_moves_by_hand_and_nobody_gains_or_loses() {
    let cluster = Cluster::start(5000, &["cluster-replica-no-failover yes"]);
    let mut scene = Scene::start("migration::a_slot_moves_by_hand_and_nobody_gains_or_loses", &cluster);
    let before = scene.load.seen.admitted();
    let deadline = Instant::now() + PATIENCE;
    let mut moves = 0;
    loop {
        move_by_hand(&cluster, scene.slot, moves % 3, (moves + 1) % 3);
        moves += 1;
        scene.load.seen.wait_for_more(2);
        let python_saw = scene.python.as_mut().is_none_or(|python| python.saw("MOVED") && python.saw("ASK"));
        if moves >= 4 && python_saw {
            break;
        }
        assert!(Instant::now() < deadline, "redis-py has not met both redirections in {moves} moves");
    }
    let after = scene.load.seen.admitted();
    let (python, answered) = scene.settle(&cluster);
    let redirected = |kind: &str| {
        let by_python = python.as_ref().map_or(0, |count| count.redirected[kind]);
        (cluster.errors(kind) - by_python, by_python)
    };
    let (moved, asked, again) = (redirected("MOVED"), redirected("ASK"), cluster.errors("TRYAGAIN"));
    assert!(moved.0 > 0 && asked.0 > 0, "redis-rs met MOVED {} times and ASK {} times", moved.0, asked.0);
    for index in 0..COUNT {
        assert!(after[index] > before[index], "{} was charged meanwhile", Limiters::name(index));
    }
    say(&format!(
        "migration by hand on {}: {moves} moves of one slot, {answered} calls admitted meanwhile; redis-rs met MOVED \
         {} and ASK {} times, redis-py {} and {}; TRYAGAIN {again} times; each limiter admitted its {LIMIT} in all",
        kind().name(),
        moved.0,
        asked.0,
        moved.1,
        asked.1,
    ));
}

/// How the server moves a slot by itself, if it can.
#[derive(Clone, Copy)]
enum Atomic {
    /// Redis 8.4 and later: the target imports.
    Import,
    /// Valkey 9 and later: the source sends.
    Send,
}

impl Atomic {
    fn of_the_server() -> Option<Self> {
        let (major, minor, _) = kind().version;
        if kind().valkey {
            (major >= 9).then_some(Self::Send)
        } else {
            ((major, minor) >= (8, 4)).then_some(Self::Import)
        }
    }

    fn move_slot(self, cluster: &Cluster, slot: u16, from: usize, to: usize) {
        let (mut source, mut target) = (cluster.nodes[from].conn(), cluster.nodes[to].conn());
        match self {
            Self::Import => {
                let task = target.good(&format!("CLUSTER MIGRATION IMPORT {slot} {slot}"));
                let status = format!("CLUSTER MIGRATION STATUS ID {task}");
                wait_until_moved(&mut target, &status, "completed");
            }
            Self::Send => {
                source.good(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}", cluster.id(to)));
                wait_until_moved(&mut source, "CLUSTER GETSLOTMIGRATIONS", "success");
            }
        }
        cluster.wait_until_agreed();
    }
}

/// Polls the newest task until its state is this.
fn wait_until_moved(conn: &mut Conn, status: &str, wanted: &str) {
    wait_for("the slot to arrive", || {
        let tasks = conn.good(status);
        let task = tasks.list().first()?;
        let state = task.field("state").unwrap_or_else(|| panic!("no state in {task}")).to_string();
        assert!(!["failed", "canceled", "cancelled"].contains(&state.as_str()), "{task}");
        (state == wanted).then_some(())
    });
}

/// The same where the server moves the slot whole.
#[test]
fn a_slot_moves_whole_and_nobody_gains_or_loses() {
    let test = "migration::a_slot_moves_whole_and_nobody_gains_or_loses";
    let Some(atomic) = Atomic::of_the_server() else {
        say(&format!("SKIPPED {test}: {} cannot move a slot whole", kind().name()));
        return;
    };
    let cluster = Cluster::start(5000, &["cluster-replica-no-failover yes"]);
    let scene = Scene::start(test, &cluster);
    let moves = 6;
    for round in 0..moves {
        atomic.move_slot(&cluster, scene.slot, round % 3, (round + 1) % 3);
        scene.load.seen.wait_for_more(2);
    }
    let (python, answered) = scene.settle(&cluster);
    let by_python = python.map_or(0, |count| count.redirected["MOVED"]);
    let moved = cluster.errors("MOVED") - by_python;
    assert!(moved > 0, "redis-rs noticed nothing");
    say(&format!(
        "migration whole on {}: {moves} moves of one slot, {answered} calls admitted meanwhile; redis-rs met MOVED \
         {moved} times, redis-py {by_python}; ASK {} times; each limiter admitted its {LIMIT} in all",
        kind().name(),
        cluster.errors("ASK"),
    ));
}
