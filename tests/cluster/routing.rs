//! Cluster clients that were never told about this module send every command to the node that has its key.

use crate::harness::{kind, say, wait_for};
use crate::limiters::cmd;
use crate::python::Script;
use crate::shards::Cluster;

use redis::Value;

/// Calls about one tag, words with spaces between and `_` for a space within, and what each is answered with.
const CALLS: &[(&str, &str)] = &[
    ("RL.FIXED {@}f 5 1m", "1 5 4 0 60000"),
    ("RL.SLIDING {@}s 5 1m ID a", "1 5 4 0 60000"),
    ("RL.SLIDING {@}b 5 1m BUCKETS 60", "1 5 4 0 "),
    ("RL.TOKEN {@}t 5 1 1m", "1 5 4 0 60000"),
    ("RL.LEAKY {@}l 5 1 1m SHAPE", "1 5 4 0 60000"),
    ("RL.PEEK {@}f FIXED 5 1m", "1 5 3 0 "),
    ("RL.CHARGE {@}f FIXED 5 1m COST 2", "1 5 2 0 "),
    ("RL.REFUND {@}f FIXED 5 1m", "1 5 3 0 "),
    ("RL.ALL {@}f FIXED_5_1m {@}u TOKEN_5_1_1m", "1 0 [[1 5 2 0 "),
    ("RL.ACQUIRE {@}h 5 1m ID a", "1 5 4 0 60000 a"),
    ("RL.RENEW {@}h 1m a", "1"),
    ("RL.RELEASE {@}h a", "1"),
    ("RL.QUEUE {@}q 5 1 1m 0s", "1 5 4 0 60000"),
];

fn words(call: &str, tag: &str) -> Vec<String> {
    call.split(' ').map(|word| word.replace('@', tag).replace('_', " ")).collect()
}

fn shown(value: Value) -> String {
    crate::client::Reply::from_value(value).to_string()
}

/// Runs every call for a tag of each primary and asserts that each went straight to its node, once.
fn assert_routed(cluster: &Cluster, who: &str, nth: usize, mut ask: impl FnMut(&[String]) -> String) {
    let redirected = || cluster.errors("MOVED") + cluster.errors("ASK");
    let before: Vec<_> = (0..3).map(|node| cluster.calls(node)).collect();
    let redirected_before = redirected();
    for primary in 0..3 {
        let tag = cluster.tag(primary, nth);
        for (call, wanted) in CALLS {
            let got = ask(&words(call, &tag));
            assert!(got.starts_with(wanted), "{who}: {call}: {got}");
        }
    }
    assert_eq!(redirected(), redirected_before, "{who} was sent elsewhere");
    for (node, before) in before.iter().enumerate() {
        let after = cluster.calls(node);
        let count = |name: &str| {
            let prefix = format!("RL.{} ", name.to_uppercase());
            u64::try_from(CALLS.iter().filter(|(call, _)| call.starts_with(&prefix)).count()).unwrap()
        };
        for (name, calls) in &after {
            let here = calls - before.get(name).unwrap_or(&0);
            assert_eq!(here, count(name), "{who}: node {node} was asked for RL.{name} so often");
        }
        assert_eq!(after.len(), 12, "every command that has a key came to node {node}: {after:?}");
    }
    // A whole whose keys lie in two slots is not half done, whether the library says no or the server.
    let (one, other) = (cluster.tag(0, nth), cluster.tag(1, nth));
    let across = [words("RL.ALL {@}across FIXED_5_1m", &one), words("{@}across FIXED_5_1m", &other)].concat();
    let refusal = ask(&across);
    assert!(refusal.starts_with('!') && refusal.to_lowercase().contains("slot"), "{who}: {refusal}");
    for tag in [one, other] {
        assert_eq!(ask(&words("EXISTS {@}across", &tag)), "0", "{who}: nothing of the refused whole was booked");
    }
}

/// Key positions are told in a way that libraries understand: no call is sent to the wrong node first, an ALL with a
/// hash tag is one call to one node, and an ALL over two slots is an error.
#[test]
fn every_command_goes_straight_to_the_node_of_its_key() {
    let cluster = Cluster::start(5000, &[]);
    let mut conn = cluster.connect();
    assert_routed(&cluster, "redis-rs", 0, |words| match cmd(words).query::<Value>(&mut conn) {
        Ok(value) => shown(value),
        Err(error) => format!("!{error}"),
    });
    let mut libraries = vec!["redis-rs"];
    let test = "routing::every_command_goes_straight_to_the_node_of_its_key";
    if let Some(mut script) = Script::speaking(test, "cluster", &cluster.ports()) {
        assert_routed(&cluster, "redis-py", 1, |words| script.ask(words));
        libraries.push("redis-py");
    }
    if let Some(mut script) = Script::node(test, &cluster.ports()) {
        assert_routed(&cluster, "node-redis", 2, |words| script.ask(words));
        libraries.push("node-redis");
    }
    say(&format!(
        "routing on {}: {} each sent {} calls of 12 commands to each of 3 primaries, none redirected",
        kind().name(),
        libraries.join(", "),
        CALLS.len(),
    ));
}

/// The server itself refuses a whole over two slots; a replica answers PEEK to who asked for READONLY, and sends every
/// charge to its primary.
#[test]
fn nodes_send_away_what_is_not_theirs() {
    let cluster = Cluster::start(5000, &[]);
    let tag = cluster.tag(0, 0);
    let (mut primary, mut replica) = (cluster.nodes[0].conn(), cluster.nodes[3].conn());
    let mut stranger = cluster.nodes[1].conn();
    let other = cluster.tag(1, 0);
    let error = primary.error(&format!("RL.ALL {{{tag}}}a \"FIXED 5 1m\" {{{other}}}a \"FIXED 5 1m\""));
    assert!(error.starts_with("CROSSSLOT"), "{error}");
    // Same node, two slots: still no.
    let near = cluster.tag(0, 1);
    assert_ne!(cluster.slot(&tag), cluster.slot(&near));
    let error = primary.error(&format!("RL.ALL {{{tag}}}a \"FIXED 5 1m\" {{{near}}}a \"FIXED 5 1m\""));
    assert!(error.starts_with("CROSSSLOT"), "{error}");
    let charge = format!("RL.FIXED {{{tag}}}f 5 1m COST 2");
    let peek = format!("RL.PEEK {{{tag}}}f FIXED 5 1m");
    assert_eq!(primary.ints(&charge), [1, 5, 3, 0, 60000]);
    let moved = format!("MOVED {} 127.0.0.1:{}", cluster.slot(&tag), cluster.nodes[0].port());
    assert_eq!(stranger.error(&charge), moved);
    assert_eq!(stranger.error(&peek), moved);
    assert_eq!(replica.error(&peek), moved, "not before READONLY");
    replica.good("READONLY");
    wait_for("the replica to have the charge", || (replica.ints(&peek)[2] == 2).then_some(()));
    assert_eq!(replica.error(&charge), moved, "a charge is never for a replica");
    assert_eq!(primary.ints(&peek)[2], 2, "nothing was charged by those who were sent away");
}
