//! A cluster: keys route by their slot, and the keys of one RL.ALL share one.

use crate::harness::{Setup, free_port, wait_for};
use crate::info;

#[test]
fn keys_of_one_call_share_a_slot() {
    let server = Setup::new()
        .tcp()
        .config("cluster-enabled yes")
        .config("cluster-config-file nodes.conf")
        .config(&format!("cluster-port {}", free_port()))
        .start();
    let mut conn = server.conn();
    conn.good("CLUSTER ADDSLOTSRANGE 0 8191");
    conn.good("CONFIG SET cluster-require-full-coverage no");
    wait_for("the cluster to serve", || {
        let text = conn.good("CLUSTER INFO").to_string();
        (info::field(&text, "cluster_state") == "ok").then_some(())
    });
    // bar is in slot 5061, foo in slot 12182, which nobody serves here.
    conn.expect(
        r#"
        RL.FIXED bar 5 1m -> 1 5 4 0 60000
        RL.FIXED foo 5 1m -> ERR*CLUSTERDOWN
        RL.ALL {bar}a "FIXED 5 1m" {bar}b "TOKEN 5 1 1m" -> 1 0 [[1 5 4 0 60000] [1 5 4 0 60000]]
        RL.ALL {bar}a "FIXED 5 1m" b "TOKEN 5 1 1m" -> ERR*CROSSSLOT
        RL.PEEK {bar}a FIXED 5 1m COST 0 -> 1 5 4 0 *
        RL.ACQUIRE {bar}h 5 1m ID a -> 1 5 4 0 60000 a
        "#,
    );
    conn.good("CLUSTER ADDSLOTSRANGE 8192 16383");
    wait_for("the rest of the slots", || (!conn.run("RL.FIXED foo 5 1m").is_error()).then_some(()));
}
