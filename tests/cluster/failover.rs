//! Primaries that are replaced while callers charge: in good order without a unit too many, and after a death with as
//! many too many as the replica had not yet heard of.

use std::time::{Duration, Instant};

use crate::harness::{kind, say, wait_for};
use crate::limiters::{COUNT, Limiters};
use crate::load::Load;
use crate::node::Node;
use crate::python::Charging;
use crate::shards::Cluster;

/// CLUSTER FAILOVER there and back under load: the old primary stops writing before the new one begins, so all callers
/// together are granted the limit exactly.
///
/// Each node is elected once: a replica that was elected less than four node time-outs ago may take its old votes for
/// new ones, and then steps back a moment later, which is the server's own affair.
#[test]
fn an_orderly_failover_admits_no_unit_too_many() {
    const LIMIT: u64 = 20_000;
    let cluster = Cluster::start(5000, &["cluster-replica-no-failover yes"]);
    let limiters = Limiters { tag: cluster.tag(0, 0), limit: LIMIT };
    let load = Load::start(&cluster, &limiters, 2, Duration::from_millis(2));
    load.seen.wait_for_more(3);
    let test = "failover::an_orderly_failover_admits_no_unit_too_many";
    let python = Charging::start(test, &cluster, &limiters, 2);
    for (old, new) in [(0, 3), (3, 0)] {
        let (old, new) = (&cluster.nodes[old], &cluster.nodes[new]);
        new.conn().good("CLUSTER FAILOVER");
        wait_for("the replica to take over", || new.is_primary().then_some(()));
        wait_for("the old primary to follow", || old.follows().then_some(()));
        cluster.wait_until_agreed();
        load.seen.wait_for_more(5);
    }
    let python = python.map(Charging::stop);
    let seen = load.stop();
    assert_eq!(seen.refused(), 0, "the limit was reached before the last failover, which then shows nothing");
    let by_python = python.as_ref().map_or([0; COUNT], |count| count.admitted);
    let drained = limiters.drain(&mut cluster.connect());
    let unknown = seen.unknown() + python.as_ref().map_or(0, |count| u64::try_from(count.errors.len()).unwrap());
    for index in 0..COUNT {
        let granted = seen.admitted()[index] + by_python[index] + drained[index];
        assert!(granted <= LIMIT, "{} admitted {granted} of {LIMIT}", Limiters::name(index));
        // A call without an answer may have been charged.
        assert!(granted == LIMIT || unknown > 0, "{} admitted only {granted} of {LIMIT}", Limiters::name(index));
    }
    say(&format!(
        "orderly failover on {}: there and back under load, {} calls admitted meanwhile, MOVED {} times, {} turned \
         away and {unknown} without an answer {:?} {:?}; no limiter admitted more than its {LIMIT}",
        kind().name(),
        seen.admitted().iter().chain(&by_python).sum::<u64>(),
        cluster.errors("MOVED"),
        seen.turned_away(),
        seen.errors(),
        python.map(|count| count.errors).unwrap_or_default(),
    ));
}

/// How the primary dies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Death {
    /// While its replica follows.
    Sudden,
    /// A while after the link to its replica broke.
    CutOff,
}

/// What a death cost.
struct Cost {
    /// Units admitted above the limit, of each limiter.
    excess: [u64; COUNT],
    /// The most that the replica can have missed, of each limiter.
    bound: [u64; COUNT],
    outage: Duration,
    turned_away: u64,
    unknown: u64,
}

fn kill_under_load(death: Death) -> Cost {
    const LIMIT: u64 = 50_000;
    const CALLERS: u64 = 4;
    let mut cluster = Cluster::start(2000, &[]);
    let limiters = Limiters { tag: cluster.tag(0, 0), limit: LIMIT };
    let load = Load::start(&cluster, &limiters, usize::try_from(CALLERS).unwrap(), Duration::from_micros(200));
    load.seen.wait_for_more(50);
    // What the callers have been told by now was written before the write that the replica is asked to acknowledge.
    let before = load.seen.admitted();
    let mut primary = cluster.nodes[0].conn();
    primary.good(&format!("RL.FIXED {{{}}}mark 5 1m", limiters.tag));
    assert_eq!(primary.int("WAIT 1 20000"), 1, "the replica follows");
    if death == Death::CutOff {
        // A stopped replica does not call again when its link is cut.
        cluster.nodes[3].freeze();
        primary.good("CLIENT KILL TYPE replica");
        load.seen.wait_for_more(20);
    }
    drop(primary);
    cluster.nodes[0].kill();
    let died = Instant::now();
    if death == Death::CutOff {
        cluster.nodes[3].thaw();
    }
    // Nobody is admitted until the replica takes over; every caller may have one answer in hand, not counted yet.
    let at_death = load.seen.admitted();
    let bound = std::array::from_fn(|index| at_death[index] + CALLERS - before[index]);
    wait_for("the replica to take over", || cluster.nodes[3].is_primary().then_some(()));
    load.seen.wait_for_more(5);
    let outage = died.elapsed();
    let seen = load.stop();
    cluster.wait_until_agreed();
    let mut conn = cluster.connect();
    limiters.wait_until_answered(&mut conn);
    let drained = limiters.drain(&mut conn);
    let excess = std::array::from_fn(|index| (seen.admitted()[index] + drained[index]).saturating_sub(LIMIT));
    for index in 0..COUNT {
        assert!(!limiters.ask(&mut conn, index, 1).unwrap(), "{} is shut in the end", Limiters::name(index));
    }
    assert!(cluster.nodes[1..].iter().all(Node::alive));
    Cost { excess, bound, outage, turned_away: seen.turned_away(), unknown: seen.unknown() }
}

fn tell(how: &str, cost: &Cost) {
    let each: Vec<_> = (0..COUNT)
        .map(|index| format!("{} {} (at most {})", Limiters::name(index), cost.excess[index], cost.bound[index]))
        .collect();
    say(&format!(
        "killed primary on {}, {how}: admitted above the limit: {}; the next \
         was admitted after {:?}; until then {} calls were turned away and {} found no server",
        kind().name(),
        each.join(", "),
        cost.outage,
        cost.turned_away,
        cost.unknown,
    ));
}

/// Replication is asynchronous: a primary answers before its replica knows. What it admitted and could not pass on is
/// admitted once more by its successor, and nothing else is.
#[test]
fn a_killed_primary_costs_at_most_what_its_replica_had_not_heard_of() {
    let cost = kill_under_load(Death::Sudden);
    tell("its replica following", &cost);
    for index in 0..COUNT {
        assert!(cost.excess[index] <= cost.bound[index], "{}: more than was under way", Limiters::name(index));
    }
}

/// The same with a link that broke before: the successor admits again what was admitted since, which shows that the
/// excess is real and where it comes from.
#[test]
fn a_primary_killed_after_its_link_broke_costs_what_it_admitted_since() {
    let cost = kill_under_load(Death::CutOff);
    tell("its link broken before", &cost);
    for index in 0..COUNT {
        assert!(cost.excess[index] > 0, "{}: what the replica never heard of was lost", Limiters::name(index));
        assert!(cost.excess[index] <= cost.bound[index], "{}: more than was under way", Limiters::name(index));
    }
}
