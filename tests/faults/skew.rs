//! Two machines whose clocks differ by minutes: what a failover to the other clock does to limits, in both directions.
//! The clocks are held by the test, each server's by itself.

use crate::client::Conn;
use crate::harness::{Server, Setup, wait_for};
use crate::info;

const MINUTE_MS: i64 = 60_000;

/// Three of five units are taken everywhere, and one lease of two.
const TAKEN: &str = "
    RL.FIXED f 5 1m COST 3 -> 1 5 2 0 60000
    RL.FIXED a 5 1m ALIGN COST 3 -> 1 5 2 0 60000
    RL.SLIDING s 5 1m COST 3 -> 1 5 2 0 60000
    RL.SLIDING b 5 1m COST 3 BUCKETS 60 -> 1 5 2 0 61000
    RL.TOKEN t 5 1 1m COST 3 -> 1 5 2 0 180000
    RL.LEAKY l 5 1 1m COST 3 -> 1 5 2 0 180000
    RL.ACQUIRE h 2 1m ID a -> 1 2 1 0 60000 a
";

/// A primary at time 0 with everything taken, and its replica, whose clock is that much ahead.
fn pair(test: &str, ahead_ms: i64) -> Option<(Server, Server)> {
    let primary = Setup::held(test)?.tcp().config("repl-ping-replica-period 3600").start();
    let replica = Setup::held(test)?.replica_of(&primary).start();
    replica.at_ms(ahead_ms);
    let (mut conn, mut other) = (primary.conn(), replica.conn());
    wait_for("the replica's link", || {
        (info::field(&info::info(&mut other, "replication"), "master_link_status") == "up").then_some(())
    });
    conn.expect(TAKEN);
    wait_for("the replica to catch up", || (conn.int("WAIT 1 1000") == 1).then_some(()));
    Some((primary, replica))
}

fn expiries(conn: &mut Conn) -> Vec<i64> {
    ["f", "a", "s", "b", "t", "l", "h"].map(|key| conn.int(&format!("PEXPIRETIME {key}"))).to_vec()
}

/// Absolute expiries are copied as they are, whatever the replica's clock says.
#[test]
fn expiries_are_copied_whatever_the_clocks_say() {
    for ahead_ms in [-5 * MINUTE_MS, 5 * MINUTE_MS] {
        let Some((primary, replica)) = pair("skew::expiries_are_copied_whatever_the_clocks_say", ahead_ms) else {
            return;
        };
        let expected = expiries(&mut primary.conn());
        // What has ended by the replica's clock is hidden there and kept, until the primary says that it ended.
        replica.at_ms(0);
        assert_eq!(expiries(&mut replica.conn()), expected, "{ahead_ms} ms ahead");
    }
}

/// Promoted with a clock five minutes ahead: every window is over, each limiter is as good as new, and from then on
/// holds by the new clock. A caller gained what the skip of the clock is worth and nothing else.
#[test]
fn a_clock_ahead_ends_windows_early_and_no_more() {
    let Some((primary, replica)) = pair("skew::a_clock_ahead_ends_windows_early_and_no_more", 5 * MINUTE_MS) else {
        return;
    };
    drop(primary);
    let mut conn = replica.conn();
    conn.good("REPLICAOF NO ONE");
    conn.expect(
        "
        RL.FIXED f 5 1m COST 5 -> 1 5 0 0 60000
        RL.FIXED a 5 1m ALIGN COST 5 -> 1 5 0 0 60000
        RL.SLIDING s 5 1m COST 5 -> 1 5 0 0 60000
        RL.SLIDING b 5 1m COST 5 BUCKETS 60 -> 1 5 0 0 61000
        RL.TOKEN t 5 1 1m COST 5 -> 1 5 0 0 300000
        RL.LEAKY l 5 1 1m COST 5 -> 1 5 0 0 300000
        RL.ACQUIRE h 2 1m ID b -> 1 2 1 0 60000 b
        RL.FIXED f 5 1m -> 0 5 0 60000 60000
        RL.FIXED a 5 1m ALIGN -> 0 5 0 60000 60000
        RL.SLIDING s 5 1m -> 0 5 0 60000 60000
        RL.SLIDING b 5 1m BUCKETS 60 -> 0 5 0 61000 61000
        RL.TOKEN t 5 1 1m -> 0 5 0 60000 300000
        RL.LEAKY l 5 1 1m -> 0 5 0 60000 300000
        RL.RENEW h 1m a -> 0
        ",
    );
}

/// Promoted with a clock ahead by less than the windows: nobody is let in who would not be by the new clock.
#[test]
fn a_clock_a_little_ahead_keeps_the_units() {
    let Some((primary, replica)) = pair("skew::a_clock_a_little_ahead_keeps_the_units", MINUTE_MS / 2) else {
        return;
    };
    drop(primary);
    let mut conn = replica.conn();
    conn.good("REPLICAOF NO ONE");
    conn.expect(
        "
        RL.FIXED f 5 1m COST 3 -> 0 5 2 30000 30000
        RL.SLIDING s 5 1m COST 3 -> 0 5 2 30000 30000
        RL.SLIDING b 5 1m COST 3 BUCKETS 60 -> 0 5 2 31000 31000
        RL.TOKEN t 5 1 1m COST 3 -> 0 5 2 30000 150000
        RL.LEAKY l 5 1 1m COST 3 -> 0 5 2 30000 150000
        RL.ACQUIRE h 1 1m ID b -> 0 1 0 30000 30000 nil
        ",
    );
}

/// Promoted with a clock five minutes behind: all states lie in the future. Units stay on the books, nobody waits
/// longer than for a window that was filled just now, and looks on the replica said so before. Only leases keep their
/// ends.
#[test]
fn a_clock_behind_keeps_the_units_and_makes_nobody_wait_longer() {
    let Some((primary, replica)) =
        pair("skew::a_clock_behind_keeps_the_units_and_makes_nobody_wait_longer", -5 * MINUTE_MS)
    else {
        return;
    };
    let mut conn = replica.conn();
    conn.expect(
        "
        RL.PEEK f FIXED 5 1m COST 3 -> 0 5 2 60000 60000
        RL.PEEK s SLIDING 5 1m COST 3 -> 0 5 2 60000 60000
        RL.PEEK t TOKEN 5 1 1m COST 3 -> 0 5 2 60000 180000
        RL.PEEK l LEAKY 5 1 1m COST 3 -> 0 5 2 60000 180000
        ",
    );
    drop(primary);
    conn.good("REPLICAOF NO ONE");
    conn.expect(
        "
        RL.FIXED f 5 1m COST 3 -> 0 5 2 60000 60000
        PTTL f -> 60000
        RL.FIXED a 5 1m ALIGN COST 3 -> 0 5 2 60000 60000
        RL.SLIDING s 5 1m COST 3 -> 0 5 2 60000 60000
        RL.SLIDING b 5 1m COST 3 BUCKETS 60 -> 0 5 2 61000 61000
        RL.TOKEN t 5 1 1m COST 3 -> 0 5 2 60000 180000
        RL.LEAKY l 5 1 1m COST 3 -> 0 5 2 60000 180000
        RL.FIXED f 5 1m COST 2 -> 1 5 0 0 60000
        RL.SLIDING s 5 1m COST 2 -> 1 5 0 0 60000
        RL.SLIDING b 5 1m COST 2 BUCKETS 60 -> 1 5 0 0 61000
        RL.TOKEN t 5 1 1m COST 2 -> 1 5 0 0 300000
        RL.LEAKY l 5 1 1m COST 2 -> 1 5 0 0 300000
        RL.ACQUIRE h 1 1m ID b -> 0 1 0 360000 360000 nil
        ",
    );
    replica.at_ms(-4 * MINUTE_MS);
    conn.expect(
        "
        RL.FIXED f 5 1m COST 5 -> 1 5 0 0 60000
        RL.SLIDING s 5 1m COST 5 -> 1 5 0 0 60000
        RL.TOKEN t 5 1 1m -> 1 5 0 0 300000
        RL.LEAKY l 5 1 1m -> 1 5 0 0 300000
        ",
    );
}
