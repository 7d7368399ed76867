//! Swapping the modules: each goes on with the keys that the other has left, by file, by DUMP and by replication.

use std::fs;

use crate::client::Conn;
use crate::harness::{Server, Setup, wait_for};
use crate::theirs::{self, Pair};

/// A mixture of what a fleet may hold: fresh, half used and used up, slow and fast.
const CALLS: &[&str] = &[
    "CL.THROTTLE half 9 10 3600 5",
    "CL.THROTTLE full 2 3 60 3",
    "CL.THROTTLE fast 99 1000 1 40",
    "CL.THROTTLE slow 4 1 86400 2",
    "CL.THROTTLE thirds 6 3 10 4",
];

/// The same calls for one unit more.
fn next(conn: &mut Conn) -> Vec<Vec<i64>> {
    let one = |call: &&str| conn.ints(call.rsplit_once(' ').unwrap().0);
    CALLS.iter().map(one).collect()
}

fn exact(replies: Vec<Vec<i64>>) -> Vec<Vec<i64>> {
    replies.into_iter().map(|reply| reply[..3].to_vec()).collect()
}

/// The keys of one module under the other, in both directions, by DUMP and RESTORE.
#[test]
fn each_reads_the_keys_of_the_other() {
    let Some(mut pair) = Pair::start("swap::each_reads_the_keys_of_the_other") else { return };
    for back in [false, true] {
        pair.at_us(0);
        for call in CALLS {
            pair.us.good(call);
            pair.them.good(call);
        }
        let (from, to) = if back { (&mut pair.us, &mut pair.them) } else { (&mut pair.them, &mut pair.us) };
        to.good("FLUSHALL");
        for call in CALLS {
            let key = call.split(' ').nth(1).unwrap().to_owned();
            let crate::client::Reply::Text(dump) = from.good(&format!("DUMP {key}")) else { panic!("{key}") };
            let ttl = from.int(&format!("PTTL {key}")).to_string();
            assert_ne!(ttl, "-1", "{key} has an expiry");
            let restored = to.call(&[b"RESTORE", key.as_bytes(), ttl.as_bytes(), &dump]);
            assert_eq!(restored.to_string(), "OK", "{key}");
        }
        for ms in [10, 900, 5_000, 61_000] {
            pair.at_us(ms * 1_000);
            assert_eq!(exact(next(&mut pair.us)), exact(next(&mut pair.them)), "at {ms} ms, back: {back}");
        }
        pair.us.good("FLUSHALL");
        pair.them.good("FLUSHALL");
    }
}

/// A restart with the other `loadmodule` line on the same files.
#[track_caller]
fn swapped(from: Setup, line: &str) {
    let server = from.start();
    let mut conn = server.conn();
    for call in CALLS {
        conn.good(call);
    }
    // Not the fast ones: a restart may take longer than their debts.
    let keys = ["half", "full", "slow"];
    let before = keys.map(|key| theirs::state(&mut conn, key));
    assert!(before.iter().all(Option::is_some));
    conn.good("SAVE");
    drop(conn);
    let config = server.dir().join("redis.conf");
    let text = fs::read_to_string(&config).unwrap();
    let stays = |line: &&str| !line.starts_with("loadmodule") && !line.starts_with("rl.");
    let kept: String = text.lines().filter(stays).map(|line| format!("{line}\n")).collect();
    fs::write(&config, format!("{kept}{line}\n")).unwrap();
    let server = server.restart(true, |setup| setup);
    let mut conn = server.conn();
    let after = keys.map(|key| theirs::state(&mut conn, key));
    assert_eq!(before, after, "every key is there");
    conn.expect("CL.THROTTLE half 9 10 3600 0 -> 0 10 5 -1 *");
    conn.expect("CL.THROTTLE full 2 3 60 3 -> 1 3 0 * *");
    conn.expect("CL.THROTTLE slow 4 1 86400 3 -> 0 5 0 -1 *");
}

/// The swap itself: redis-cell's snapshot under our line, and back.
#[test]
fn swapping_the_line_keeps_every_key() {
    let Some(module) = theirs::module("swap::swapping_the_line_keeps_every_key") else { return };
    let our_line = format!("loadmodule {}\nrl.compat-cell yes", crate::harness::module_path().display());
    let their_line = format!("loadmodule {}", module.display());
    swapped(theirs::theirs(Setup::new(), &module), &our_line);
    swapped(theirs::ours(Setup::new()), &their_line);
}

fn replica_has_caught_up(primary: &Server, replica: &Server) {
    let offset = |server: &Server, name: &str| crate::info::number(&mut server.conn(), "replication", name);
    wait_for("the replica to catch up", || {
        let wanted = offset(primary, "master_repl_offset");
        (offset(replica, "slave_repl_offset") == wanted).then_some(())
    });
}

/// A replica without any module holds the same keys: it gets native commands.
#[test]
fn a_replica_without_the_module_holds_the_same_keys() {
    let primary = theirs::ours(Setup::new().tcp()).start();
    let replica = Setup::new().without_module().tcp().replica_of(&primary).start();
    let mut conn = primary.conn();
    wait_for("the link", || info_line(&mut replica.conn(), "master_link_status").eq("up").then_some(()));
    for call in CALLS {
        conn.good(call);
    }
    conn.good("CL.THROTTLE half 9 10 3600 -2");
    conn.good("CL.THROTTLE slow 4 1 86400 -2");
    replica_has_caught_up(&primary, &replica);
    let mut copy = replica.conn();
    for key in ["half", "full", "slow", "thirds"] {
        for command in ["GET", "PEXPIRETIME"] {
            let line = format!("{command} {key}");
            assert_eq!(conn.good(&line), copy.good(&line), "{line}");
        }
    }
    assert_eq!(conn.int("EXISTS slow"), 0, "all given back");
}

fn info_line(conn: &mut Conn, name: &str) -> String {
    crate::info::field(&crate::info::info(conn, "replication"), name)
}
