//! The errors that a caller can meet when something is wrong with the server and not with the call: which calls meet
//! which, that nothing was charged, and that everything goes on when the cause is gone.

use std::fs;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::client::pack;
use crate::harness::{Setup, wait_for};
use crate::mortal::{Module, Mortal};
use crate::pipe::Pipe;
use crate::traffic::words;

/// Every command that can write, with words that would be admitted.
const WRITERS: &[&str] = &[
    "RL.FIXED f 5 1h",
    "RL.SLIDING s 5 1h",
    "RL.SLIDING b 5 1h BUCKETS 60",
    "RL.TOKEN t 5 1 1h",
    "RL.LEAKY l 5 1 1h",
    "RL.QUEUE l 5 1 1h 1s",
    "RL.CHARGE f FIXED 5 1h",
    "RL.ACQUIRE h 5 1h",
    "RL.REFUND f FIXED 5 1h",
    "RL.RENEW h 1h a",
    "RL.RELEASE h a",
];

#[track_caller]
fn assert_all_answer(pipe: &mut Pipe, start: &str) {
    for line in WRITERS {
        let error = pipe.error(line);
        assert!(error.starts_with(start), "{line}: {error}");
    }
    let error = pipe.call(&["RL.ALL", "f", "FIXED 5 1h"]).to_string();
    assert!(error.starts_with(start), "RL.ALL: {error}");
}

#[track_caller]
fn assert_all_work(pipe: &mut Pipe) {
    for line in WRITERS {
        pipe.good(line);
    }
}

/// A server that is still reading its files answers LOADING to everything but RL.HELP.
#[test]
fn loading_answers_loading() {
    let mut server = Mortal::new(&["save 3600 1"]);
    server.start(Module::With);
    let fill: Vec<_> = (0..2000).map(|n| words(&format!("RL.FIXED k{n} 5 1h"))).collect();
    server.pipe().batch(&fill);
    server.stop();
    // Slowly, and with an ear for callers.
    server.config("key-load-delay 2000");
    server.config("loading-process-events-interval-bytes 1024");
    server.launch(Module::With);
    let mut pipe = wait_for("the server to listen", || server.try_pipe());
    wait_for("the server to say that it loads", || pipe.run("PING").to_string().starts_with("LOADING").then_some(()));
    assert_all_answer(&mut pipe, "LOADING");
    assert!(pipe.error("RL.PEEK k1 FIXED 5 1h").starts_with("LOADING"));
    assert!(!pipe.run("RL.HELP").is_error());
}

/// Where snapshots fail, `stop-writes-on-bgsave-error` (the default) makes every writing call answer MISCONF, releases
/// too. A look works. After a good snapshot all work.
#[test]
fn a_failing_snapshot_answers_misconf() {
    let mut server = Mortal::new(&["save 3600 1"]);
    server.start(Module::With);
    let mut pipe = server.pipe();
    let in_the_way = server.dir().join("dump.rdb");
    fs::create_dir(&in_the_way).unwrap();
    fs::write(in_the_way.join("file"), "").unwrap();
    pipe.good("SET x 1");
    pipe.good("BGSAVE");
    wait_for("the snapshot to fail", || (pipe.info("persistence", "rdb_last_bgsave_status") == "err").then_some(()));
    assert_all_answer(&mut pipe, "MISCONF");
    assert_eq!(pipe.good("RL.PEEK f FIXED 5 1h").first(), 1);
    assert_eq!(pipe.int("EXISTS f s b t l h"), 0, "nobody was charged");
    fs::remove_dir_all(&in_the_way).unwrap();
    wait_for("a good snapshot", || {
        pipe.run("BGSAVE");
        (pipe.info("persistence", "rdb_last_bgsave_status") == "ok").then_some(())
    });
    assert_all_work(&mut pipe);
}

/// A replica answers READONLY to whatever writes. One that lost its primary and may not serve old data answers
/// MASTERDOWN to looks as well.
#[test]
fn a_replica_answers_readonly_and_without_its_primary_masterdown() {
    let primary = Setup::new().tcp().start();
    let replica = Setup::new().replica_of(&primary).config("replica-serve-stale-data no").start();
    let mut pipe = Pipe::open(&replica.socket());
    wait_for("the replica's link", || (pipe.info("replication", "master_link_status") == "up").then_some(()));
    assert_all_answer(&mut pipe, "READONLY");
    assert_eq!(pipe.good("RL.PEEK f FIXED 5 1h").first(), 1);
    drop(primary);
    wait_for("the link to break", || (pipe.info("replication", "master_link_status") == "down").then_some(()));
    assert!(pipe.error("RL.PEEK f FIXED 5 1h").starts_with("MASTERDOWN"));
    assert!(pipe.error("RL.FIXED f 5 1h").starts_with("READONLY"));
    assert!(!pipe.run("RL.HELP").is_error());
}

/// A script that does not end makes everything answer BUSY.
#[test]
fn a_stuck_script_answers_busy() {
    let server = Setup::new().config("busy-reply-threshold 5").start();
    let (mut stuck, mut pipe) = (Pipe::open(&server.socket()), Pipe::open(&server.socket()));
    stuck.send(&["EVAL", "while true do end", "0"]).unwrap();
    wait_for("the server to be busy", || pipe.run("PING").to_string().starts_with("BUSY").then_some(()));
    assert_all_answer(&mut pipe, "BUSY");
    assert!(pipe.error("RL.PEEK f FIXED 5 1h").starts_with("BUSY"));
    pipe.good("SCRIPT KILL");
    assert!(stuck.receive().unwrap().is_error());
    assert_all_work(&mut pipe);
    assert_eq!(pipe.int("GET f"), 1, "what answered BUSY was not charged");
}

/// After a failover to a server without the module every call is an unknown command: an ERR that is the server's state
/// and not the caller's mistake. The keys are there and can be read.
#[test]
fn a_server_without_the_module_answers_unknown_command() {
    let primary = Setup::new().tcp().start();
    let bare = Setup::new().without_module().replica_of(&primary).start();
    let (mut pipe, mut other) = (Pipe::open(&primary.socket()), Pipe::open(&bare.socket()));
    wait_for("the replica's link", || (other.info("replication", "master_link_status") == "up").then_some(()));
    pipe.good("RL.FIXED f 5 1h COST 3");
    wait_for("the replica to catch up", || (other.run("GET f").to_string() == "3").then_some(()));
    drop(primary);
    other.good("REPLICAOF NO ONE");
    assert_all_answer(&mut other, "ERR unknown command");
    assert_eq!(other.int("GET f"), 3);
    other.good(&format!("MODULE LOAD {}", crate::harness::module_path().display()));
    assert_eq!(other.good("RL.FIXED f 5 1h").list()[2].int(), 1, "goes on from the same numbers");
}

/// A caller that gave up waiting does not know the outcome: its call may still be carried out. With an ID a repeat
/// costs nothing, so it may ask again; a refund of the same ID takes back exactly what was taken.
#[test]
fn a_time_out_leaves_the_outcome_unknown_and_an_id_makes_a_repeat_free() {
    let server = Setup::new().start();
    let (mut slow, mut pipe) = (Pipe::open(&server.socket()), Pipe::open(&server.socket()));
    for (call, key) in [("RL.SLIDING s 5 1h ID job COST 2", "s"), ("RL.FIXED f 5 1h COST 2", "f")] {
        slow.send(&["DEBUG", "SLEEP", "0.3"]).unwrap();
        let impatient = UnixStream::connect(server.socket()).unwrap();
        impatient.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        use std::io::{Read, Write};
        (&impatient).write_all(&pack(&words(call))).unwrap();
        let mut buffer = [0; 16];
        (&impatient).read(&mut buffer).expect_err("no answer in time");
        drop(impatient);
        slow.receive().unwrap();
        wait_for("the call to be carried out for nobody", || (pipe.int(&format!("EXISTS {key}")) == 1).then_some(()));
    }
    assert_eq!(pipe.int("GET f"), 2, "charged, and the caller never learnt");
    assert_eq!(
        pipe.good("RL.SLIDING s 5 1h ID job COST 2").list()[..3].iter().map(|n| n.int()).collect::<Vec<_>>(),
        [1, 5, 3]
    );
    assert_eq!(pipe.int("ZCARD s"), 2, "a repeat is answered and costs nothing");
    assert_eq!(pipe.good("RL.REFUND s SLIDING 5 1h ID job").first(), 2);
    assert_eq!(pipe.good("RL.REFUND s SLIDING 5 1h ID job").first(), 0, "taken back once");
}

/// A caller that is cut off before its reply was carried out or not; one that was refused a connection was not.
#[test]
fn a_full_house_refuses_connections_and_charges_nobody() {
    let server = Setup::new().config("maxclients 3").start();
    let mut first = Pipe::open(&server.socket());
    first.good("PING");
    let mut held = vec![];
    let refused = wait_for("the house to be full", || {
        let mut pipe = Pipe::open(&server.socket());
        let _ = pipe.send(&["RL.FIXED", "f", "1000", "1h"]);
        match pipe.receive() {
            Ok(answer) if answer.is_error() => Some(answer.to_string()),
            // The server may hang up before the error is read.
            Err(_) => Some("ERR max number of clients reached".to_owned()),
            Ok(_) => {
                held.push(pipe);
                None
            }
        }
    });
    assert!(refused.starts_with("ERR max number of clients"), "{refused}");
    assert_eq!(first.int("GET f"), i64::try_from(held.len()).unwrap(), "only who was answered was charged");
}

/// Somebody who has not logged in, or may not use a command or a key, is told so and charges nothing.
#[test]
fn strangers_are_told_noauth_and_noperm() {
    let server = Setup::new().start();
    let mut pipe = Pipe::open(&server.socket());
    pipe.good("ACL SETUSER looker on >secret -@all +rl.peek %R~f");
    pipe.good("ACL SETUSER elsewhere on >secret +@all ~other:*");
    pipe.good("CONFIG SET requirepass boss");
    let mut stranger = Pipe::open(&server.socket());
    assert_all_answer(&mut stranger, "NOAUTH");
    for user in ["looker", "elsewhere"] {
        let mut somebody = Pipe::open(&server.socket());
        somebody.good(&format!("AUTH {user} secret"));
        assert_all_answer(&mut somebody, "NOPERM");
    }
    let mut looker = Pipe::open(&server.socket());
    looker.good("AUTH looker secret");
    assert_eq!(looker.good("RL.PEEK f FIXED 5 1h").first(), 1);
    pipe.good("AUTH boss");
    assert_eq!(pipe.int("EXISTS f s b t l h"), 0);
}

/// While writes are paused, as during an orderly failover, calls wait and are then carried out; looks go on.
#[test]
fn paused_writes_wait_and_are_carried_out() {
    let server = Setup::new().start();
    let (mut boss, mut pipe) = (Pipe::open(&server.socket()), Pipe::open(&server.socket()));
    boss.good("CLIENT PAUSE 60000 WRITE");
    pipe.send(&["RL.FIXED", "f", "5", "1h"]).unwrap();
    assert_eq!(boss.good("RL.PEEK f FIXED 5 1h").list()[2].int(), 4);
    wait_for("the call to wait", || (boss.info_number("clients", "blocked_clients") >= 1).then_some(()));
    assert_eq!(boss.int("EXISTS f"), 0);
    boss.good("CLIENT UNPAUSE");
    assert_eq!(pipe.receive().unwrap().first(), 1);
}
