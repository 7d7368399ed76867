//! Files: append-only in every mode, rewritten under load, snapshots under load, reloads. After each the same keys,
//! types, values and expiries, read with the module and without it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::chance::{Chance, scaled};
use crate::harness::{say, wait_for};
use crate::mortal::{Module, Mortal};
use crate::pipe::Pipe;
use crate::snapshot::Snapshot;
use crate::traffic::{self, CHURNING, LASTING, Tally, Traffic};

/// Random traffic until `during` has done its work.
fn under_load(server: &Mortal, chance: &mut Chance, during: impl FnOnce(&mut Pipe)) -> Tally {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = [(CHURNING, "c"), (LASTING, "l")]
            .into_iter()
            .map(|(periods, prefix)| {
                let mut traffic = Traffic::new(chance.fork(), periods, 4, prefix);
                let mut pipe = server.pipe();
                let over = &over;
                scope.spawn(move || {
                    let mut tally = Tally::default();
                    let mut units = 0;
                    while !over.load(Ordering::Relaxed) || units < scaled(400, 20_000) {
                        tally.join(traffic::run(&mut pipe, &mut traffic, 20));
                        units += 20;
                    }
                    tally
                })
            })
            .collect();
        during(&mut server.pipe());
        over.store(true, Ordering::Relaxed);
        let mut tally = Tally::default();
        for worker in workers {
            tally.join(worker.join().unwrap());
        }
        tally
    })
}

/// Restarts without the module, with it, and again: each time the same keys.
fn assert_restarts(server: &mut Mortal, what: &str) {
    let before = Snapshot::of(&mut server.pipe());
    let mut compared = 0;
    for module in [Module::Without, Module::With, Module::With] {
        server.stop();
        server.start(module);
        let mut pipe = server.pipe();
        let after = Snapshot::of(&mut pipe);
        let now_ms = pipe.time_us() / 1000 + 1;
        compared = before.assert_same(&after, now_ms, &format!("{what}, {module:?}"));
    }
    assert!(compared >= 15, "{what}: enough keys: {compared}");
}

/// Every fsync mode, with and without the binary preamble, the file rewritten several times while calls come in.
#[test]
fn append_only_files_rewritten_under_load_hold_everything() {
    let test = "persistence::append_only_files_rewritten_under_load_hold_everything";
    let mut chance = Chance::for_test(test);
    for (fsync, preamble) in [("always", "yes"), ("everysec", "no"), ("no", "yes")] {
        let what = format!("appendfsync {fsync}, preamble {preamble}");
        let mut server = Mortal::new(&[
            "appendonly yes",
            &format!("appendfsync {fsync}"),
            &format!("aof-use-rdb-preamble {preamble}"),
            "auto-aof-rewrite-percentage 0",
        ]);
        server.start(Module::With);
        let tally = under_load(&server, &mut chance, |pipe| {
            for rewrite in 1..=scaled(2, 10) {
                wait_for("a rewrite to start", || (!pipe.run("BGREWRITEAOF").is_error()).then_some(()));
                wait_for("the rewrite to end", || {
                    let busy = pipe.info_number("persistence", "aof_rewrite_in_progress")
                        + pipe.info_number("persistence", "aof_rewrite_scheduled");
                    (busy == 0).then_some(())
                });
                assert_eq!(pipe.info("persistence", "aof_last_bgrewrite_status"), "ok", "rewrite {rewrite}");
            }
        });
        tally.assert_mixed();
        assert_restarts(&mut server, &what);
        say(&format!("{test}: {what}: {} calls", tally.calls()));
    }
}

/// Snapshots in the background while calls come in, and one at the end.
#[test]
fn snapshots_under_load_hold_everything() {
    let test = "persistence::snapshots_under_load_hold_everything";
    let mut chance = Chance::for_test(test);
    let mut server = Mortal::new(&["save 3600 1"]);
    server.start(Module::With);
    under_load(&server, &mut chance, |pipe| {
        for _ in 0..scaled(2, 10) {
            wait_for("a snapshot to start", || (!pipe.run("BGSAVE").is_error()).then_some(()));
            wait_for("the snapshot to end", || {
                (pipe.info_number("persistence", "rdb_bgsave_in_progress") == 0).then_some(())
            });
            assert_eq!(pipe.info("persistence", "rdb_last_bgsave_status"), "ok");
        }
    });
    // The server saves when it stops.
    assert_restarts(&mut server, "a snapshot");
}

/// A reload in between changes nothing: values that come back in another encoding are read and written on as before.
#[test]
fn a_reload_goes_unnoticed() {
    let mut chance = Chance::for_test("persistence::a_reload_goes_unnoticed");
    let mut server = Mortal::new(&[]);
    server.start(Module::With);
    let mut traffic = Traffic::new(chance.fork(), LASTING, 4, "");
    let mut pipe = server.pipe();
    for _ in 0..scaled(5, 50) {
        traffic::run(&mut pipe, &mut traffic, 150);
        let before = Snapshot::of(&mut pipe);
        pipe.good("DEBUG RELOAD");
        let after = Snapshot::of(&mut pipe);
        let now_ms = pipe.time_us() / 1000 + 1;
        assert!(before.assert_same(&after, now_ms, "a reload") >= 5);
    }
    for (first, second) in [
        ("RL.FIXED f 5 1h COST 2", "RL.FIXED f 5 1h COST 2"),
        ("RL.SLIDING s 5 1h COST 2 ID a", "RL.SLIDING s 5 1h COST 2 ID b"),
        ("RL.SLIDING b 5 1h COST 2 BUCKETS 60", "RL.SLIDING b 5 1h COST 2 BUCKETS 60"),
        ("RL.TOKEN t 5 1 1h COST 2", "RL.TOKEN t 5 1 1h COST 2"),
        ("RL.LEAKY l 5 1 1h COST 2", "RL.LEAKY l 5 1 1h COST 2"),
        ("RL.ACQUIRE h 5 1h ID a", "RL.ACQUIRE h 5 1h ID b"),
    ] {
        pipe.run("DEL f s b t l h");
        pipe.good(first);
        pipe.good("DEBUG RELOAD");
        let answer = pipe.good(second);
        assert_eq!(answer.first(), 1, "{second}: {answer}");
        assert_eq!(answer.list()[2].int(), if first.contains("ACQUIRE") { 3 } else { 1 }, "{second}: {answer}");
    }
}
