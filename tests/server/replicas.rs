//! Replicas and restarts, with the module and without: the same keys, values and ends as on the server that decided.

use std::collections::BTreeMap;

use crate::client::{Conn, Reply};
use crate::harness::{Server, Setup, wait_for};
use crate::info;
use crate::traces::LOUD;
use crate::workload::{self, Random};

const CALLS: usize = 600;

fn wait_for_link(replica: &Server) {
    let mut conn = replica.conn();
    wait_for("the replica's link", || {
        (info::field(&info::info(&mut conn, "replication"), "master_link_status") == "up").then_some(())
    });
}

/// Waits until the replicas have what the primary has written.
fn catch_up(primary: &mut Conn, replicas: usize) {
    // WAIT asks about what its own connection wrote last: a message that replicas get too stands behind all the rest.
    primary.int("PUBLISH catching-up now");
    wait_for("the replicas to catch up", || {
        let reached = primary.int(&format!("WAIT {replicas} 1000"));
        (reached >= i64::try_from(replicas).unwrap()).then_some(())
    });
}

fn assert_same(left: &BTreeMap<String, (Reply, i64)>, right: &BTreeMap<String, (Reply, i64)>, who: &str) {
    let names = |map: &BTreeMap<String, (Reply, i64)>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(left), names(right), "the keys of {who}");
    for (key, state) in left {
        assert_eq!(state, &right[key], "{key} of {who}");
    }
}

/// A replica with the module and one without hold what the primary holds after a long random history of all verbs; so
/// does the primary after a restart from its append-only file, with the module and without.
#[test]
fn replicas_and_restarts_hold_the_same_keys() {
    let Some(setup) = Setup::held("replicas::replicas_and_restarts_hold_the_same_keys") else {
        return;
    };
    let primary = setup.tcp().aof().start();
    let with = Setup::beside(&primary).replica_of(&primary).start();
    let without = Setup::beside(&primary).replica_of(&primary).without_module().start();
    wait_for_link(&with);
    wait_for_link(&without);
    let mut conn = primary.conn();
    let tally = workload::run(&mut conn, primary.clock(), &mut Random(20_260_101), CALLS);
    tally.assert_mixed();
    catch_up(&mut conn, 2);
    let state = workload::snapshot(&mut conn);
    assert!(state.len() >= 8, "most keys are alive at the end: {:?}", state.keys());
    assert_same(&state, &workload::snapshot(&mut with.conn()), "the replica with the module");
    assert_same(&state, &workload::snapshot(&mut without.conn()), "the replica without the module");
    drop((with, without));
    let primary = primary.restart(false, |setup| setup);
    assert_same(&state, &workload::snapshot(&mut primary.conn()), "a restart with the module");
    let primary = primary.restart(false, Setup::without_module);
    assert_same(&state, &workload::snapshot(&mut primary.conn()), "a restart without the module");
}

/// The same on every server, also where the clock cannot be held: one of each kind of write, none of which ends soon.
#[test]
fn replicas_hold_the_same_keys_in_real_time() {
    let primary = Setup::new().tcp().aof().start();
    let with = Setup::new().replica_of(&primary).start();
    let without = Setup::new().replica_of(&primary).without_module().start();
    wait_for_link(&with);
    wait_for_link(&without);
    let mut conn = primary.conn();
    for (at, (first, then)) in LOUD.iter().enumerate() {
        for line in [first, then] {
            let line =
                line.replacen(" k ", &format!(" key:{at} "), 1).replace("1000 1s", "1000 1h").replace("1s 1s", "1h 1h");
            conn.send(&line);
            if !line.starts_with("RL.QUEUE") {
                assert!(!conn.reply().is_error(), "{line}");
            }
        }
    }
    let mut conn = primary.conn();
    catch_up(&mut conn, 2);
    let state = workload::snapshot(&mut conn);
    assert_eq!(state.len(), LOUD.len() - 2, "a refund and a release delete their keys: {:?}", state.keys());
    assert_same(&state, &workload::snapshot(&mut with.conn()), "the replica with the module");
    assert_same(&state, &workload::snapshot(&mut without.conn()), "the replica without the module");
}

/// A reload from a snapshot changes how the server holds small values, not what they say.
#[test]
fn a_reload_goes_on() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    let lines = [
        "RL.FIXED f 9 1h",
        "RL.SLIDING s 9 1h",
        "RL.SLIDING b 9 1h BUCKETS 9",
        "RL.TOKEN t 9 1 1h",
        "RL.LEAKY l 9 1 1h",
    ];
    for remaining in [8, 7, 6] {
        for line in lines {
            let reply = conn.ints(line);
            assert_eq!(reply[..4], [1, 9, remaining, 0], "{line}");
        }
        conn.expect("DEBUG RELOAD -> OK");
    }
    conn.expect("GET f -> 3");
}

/// A replica takes no admissions, and may look.
#[test]
fn a_replica_refuses_writers_and_peeks() {
    let primary = Setup::new().tcp().start();
    let replica = Setup::new().replica_of(&primary).start();
    wait_for_link(&replica);
    let mut conn = primary.conn();
    conn.expect("RL.FIXED k 5 1h COST 2 -> 1 5 3 0 3600000");
    catch_up(&mut conn, 1);
    let mut conn = replica.conn();
    for line in [
        "RL.FIXED k 5 1h",
        "RL.FIXED k 5 1h COST 0",
        "RL.SLIDING s 5 1h",
        "RL.TOKEN t 5 1 1h",
        "RL.LEAKY l 5 1 1h",
        "RL.REFUND k FIXED 5 1h",
        "RL.CHARGE k FIXED 5 1h",
        "RL.ALL k \"FIXED 5 1h\"",
        "RL.ACQUIRE h 5 1h",
        "RL.RENEW h 1h a",
        "RL.RELEASE h a",
        "RL.QUEUE q 5 1 1h 1s",
    ] {
        assert!(conn.error(line).starts_with("READONLY"), "{line}");
    }
    conn.expect("RL.PEEK k FIXED 5 1h -> 1 5 2 0 *");
    conn.expect("GET k -> 2");
}

/// After a failover the promoted replica goes on counting where the primary stood.
#[test]
fn a_promoted_replica_goes_on() {
    let primary = Setup::new().tcp().start();
    let replica = Setup::new().replica_of(&primary).start();
    wait_for_link(&replica);
    let mut conn = primary.conn();
    conn.expect(
        "
        RL.FIXED f 5 1h COST 2 -> 1 5 3 0 3600000
        RL.SLIDING s 5 1h COST 2 ID a -> 1 5 3 0 3600000
        RL.SLIDING b 5 1h COST 2 BUCKETS 60 -> 1 5 3 0 *
        RL.TOKEN t 5 1 1h COST 2 -> 1 5 3 0 7200000
        RL.LEAKY l 5 1 1h COST 2 -> 1 5 3 0 7200000
        RL.ACQUIRE h 5 1h ID a -> 1 5 4 0 3600000 a
        ",
    );
    catch_up(&mut conn, 1);
    drop(primary);
    let mut conn = replica.conn();
    conn.good("REPLICAOF NO ONE");
    conn.expect(
        "
        RL.FIXED f 5 1h -> 1 5 2 0 *
        RL.SLIDING s 5 1h ID a -> 1 5 3 0 *
        RL.SLIDING b 5 1h BUCKETS 60 -> 1 5 2 0 *
        RL.TOKEN t 5 1 1h -> 1 5 2 0 *
        RL.LEAKY l 5 1 1h -> 1 5 2 0 *
        RL.ACQUIRE h 5 1h ID b -> 1 5 3 0 * b
        RL.RENEW h 1h a -> 1
        ",
    );
}
