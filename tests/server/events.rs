//! Keyspace events: a listener hears of a decision exactly what it would hear of the native commands that the decision
//! replicates, and nothing of a refusal.

use crate::aof::Aof;
use crate::client::{Conn, Reply};
use crate::harness::{Server, Setup};
use crate::traces::SILENT;
use crate::workload::{self, Random};

/// Hears every keyspace event of one server, in order.
struct Listener {
    ears: Conn,
    fence: Conn,
}

impl Listener {
    fn of(server: &Server) -> Self {
        let mut ears = server.conn();
        let mut fence = server.conn();
        fence.good("CONFIG SET notify-keyspace-events KEA");
        ears.expect("PSUBSCRIBE __keyevent@0__:* fence -> *  *  *");
        ears.reply();
        Self { ears, fence }
    }

    /// The events since the last call, as `event key`.
    fn heard(&mut self) -> Vec<String> {
        self.fence.good("PUBLISH fence now");
        let mut events = vec![];
        loop {
            let message = self.ears.reply();
            let [_, _, channel, key] = message.list() else { panic!("{message}") };
            match channel.to_string().split_once("__:") {
                Some((_, event)) => events.push(format!("{event} {key}")),
                None => return events,
            }
        }
    }
}

#[test]
fn an_admission_is_heard_as_its_native_effect() {
    let server = Setup::new().start();
    let mut listener = Listener::of(&server);
    let mut conn = server.conn();
    for (line, events) in [
        ("RL.FIXED f 9 1h", &["set f", "expire f"][..]),
        ("RL.FIXED f 9 1h", &["set f"]),
        ("RL.REFUND f FIXED 9 1h COST 9", &["del f"]),
        ("RL.SLIDING s 9 1h", &["zadd s", "expire s"]),
        ("RL.SLIDING b 9 1h BUCKETS 2", &["hset b", "expire b"]),
        ("RL.TOKEN t 9 1 1h", &["hset t", "expire t"]),
        ("RL.LEAKY l 9 1 1h", &["hset l", "expire l"]),
        ("RL.QUEUE q 9 1 1h 1s", &["hset q", "expire q"]),
        ("RL.ACQUIRE h 9 1h ID a", &["zadd h", "expire h"]),
        ("RL.RELEASE h a", &["del h"]),
        (r#"RL.ALL x "FIXED 1 1h" y "FIXED 1 1h""#, &["set x", "expire x", "set y", "expire y"]),
    ] {
        conn.good(line);
        assert_eq!(listener.heard(), events, "{line}");
    }
}

#[test]
fn nothing_is_heard_of_a_refusal_or_a_look() {
    let server = Setup::new().start();
    let mut listener = Listener::of(&server);
    let mut conn = server.conn();
    for (first, silent) in SILENT {
        conn.good("FLUSHALL");
        conn.good(first);
        assert!(!listener.heard().is_empty(), "{first}");
        for line in *silent {
            conn.good(line);
            assert_eq!(listener.heard(), [""; 0], "{line} after {first}");
        }
    }
}

/// Over a long random history: a native server that runs what a call appended emits the same events in the same order.
#[test]
fn events_are_those_of_the_effects() {
    let Some(setup) = Setup::held("events::events_are_those_of_the_effects") else {
        return;
    };
    let ours = setup.aof().start();
    let native = Setup::beside(&ours).without_module().start();
    let (mut conn, mut replay) = (ours.conn(), native.conn());
    conn.good("DEBUG SET-ACTIVE-EXPIRE 0");
    replay.good("DEBUG SET-ACTIVE-EXPIRE 0");
    let (mut listener, mut native_listener) = (Listener::of(&ours), Listener::of(&native));
    let mut aof = Aof::of(&ours);
    let mut random = Random(7);
    let mut now_us = 0;
    let mut heard = 0;
    for _ in 0..500 {
        now_us = (now_us + workload::step_us(&mut random)).max(0);
        ours.clock().set_us(now_us);
        let line = workload::command(&mut random);
        conn.good(&line);
        let effects = aof.commands();
        for words in &effects {
            assert!(!matches!(replay.call(words), Reply::Error(_)), "{line}: {effects:?}");
        }
        let events = listener.heard();
        heard += events.len();
        let shown: Vec<_> = effects.iter().map(|words| crate::client::shown(words)).collect();
        assert_eq!(events, native_listener.heard(), "{line} at {now_us} us appended {shown:?}");
    }
    assert!(heard > 300, "only {heard} events");
}
