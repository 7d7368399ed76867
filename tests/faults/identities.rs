//! Whom a limiter is for: names that stay few, and names that spread over a cluster.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use crate::harness::{Server, Setup, free_port, wait_for};
use crate::pipe::Pipe;
use crate::traffic::{Words, words};

fn node() -> Server {
    Setup::new()
        .tcp()
        .config("cluster-enabled yes")
        .config("cluster-config-file nodes.conf")
        .config(&format!("cluster-port {}", free_port()))
        .start()
}

fn serve_all_slots(pipe: &mut Pipe) {
    pipe.good("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_for("the node to serve", || pipe.good("CLUSTER INFO").to_string().contains("cluster_state:ok").then_some(()));
}

/// A hash tag per caller puts the keys of one caller into one slot, where RL.ALL can charge them together, and callers
/// into many. A tag that all share puts everybody into one slot.
#[test]
fn a_tag_per_caller_spreads_and_a_shared_tag_does_not() {
    let server = node();
    let mut pipe = Pipe::open(&server.socket());
    serve_all_slots(&mut pipe);
    let mut slots = |key: &dyn Fn(u32) -> String| -> BTreeSet<i64> {
        (0..1000).map(|user| pipe.int(&format!("CLUSTER KEYSLOT {}", key(user)))).collect()
    };
    assert!(slots(&|user| format!("{{user:{user}}}:minute")).len() > 900, "callers spread");
    assert_eq!(slots(&|user| format!("{{login}}:user:{user}")).len(), 1, "a tag for all is a hot slot");
    for user in 0..20 {
        let minute = format!("{{user:{user}}}:minute");
        let day = format!("{{user:{user}}}:day");
        let whole = pipe.call(&["RL.ALL", &minute, "FIXED 60 1m", &day, "FIXED 1000 1d"]);
        assert_eq!(whole.first(), 1, "{whole}");
    }
    assert!(pipe.call(&["RL.ALL", "user:1:minute", "FIXED 60 1m", "user:1:day", "FIXED 9 1d"]).is_error());
}

/// While a slot moves key by key, an RL.ALL whose keys are in both places answers TRYAGAIN and charges none of them.
#[test]
fn a_whole_in_two_places_answers_tryagain() {
    let (source, target) = (node(), node());
    let (mut pipe, mut other) = (Pipe::open(&source.socket()), Pipe::open(&target.socket()));
    serve_all_slots(&mut pipe);
    let bus = other.good("CONFIG GET cluster-port").list()[1].to_string();
    pipe.good(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", target.port()));
    let id = other.good("CLUSTER MYID").to_string();
    wait_for("the nodes to know each other", || {
        let nodes = pipe.good("CLUSTER NODES").to_string();
        nodes.lines().any(|line| line.contains(&id) && !line.contains("handshake")).then_some(())
    });
    let here = pipe.call(&["RL.ALL", "{k}a", "FIXED 5 1h"]);
    assert_eq!(here.first(), 1);
    let slot = pipe.int("CLUSTER KEYSLOT {k}a");
    pipe.good(&format!("CLUSTER SETSLOT {slot} MIGRATING {id}"));
    let error = pipe.call(&["RL.ALL", "{k}a", "FIXED 5 1h", "{k}b", "FIXED 5 1h"]).to_string();
    assert!(error.starts_with("TRYAGAIN"), "{error}");
    assert!(pipe.error("RL.FIXED {k}b 5 1h").starts_with("ASK"), "a key that is not here may be there");
    assert_eq!(
        pipe.good("RL.FIXED {k}a 5 1h").list()[2].int(),
        3,
        "a key that is here is served here, and was charged once"
    );
}

/// The network that an address belongs to: one customer has all of its 18446744073709551616 addresses.
fn network(address: Ipv6Addr) -> String {
    let [a, b, c, d, ..] = address.segments();
    format!("ip6:{a:x}:{b:x}:{c:x}:{d:x}::/64")
}

/// Keyed by address, somebody with a /64 of IPv6 has as many limits as he likes, each with a key; keyed by /64 he has
/// one.
#[test]
fn addresses_of_one_network_share_one_key_and_one_limit() {
    let server = Setup::new().start();
    let mut pipe = Pipe::open(&server.socket());
    let addresses: Vec<Ipv6Addr> = (0..500).map(|n| Ipv6Addr::new(0x2001, 0xdb8, 1, 2, n, 7, n * 3, 1)).collect();
    let admitted = |pipe: &mut Pipe, key: &dyn Fn(Ipv6Addr) -> String| {
        let calls: Vec<Words> =
            addresses.iter().map(|address| words(&format!("RL.FIXED {} 5 1h", key(*address)))).collect();
        pipe.batch(&calls).iter().filter(|answer| answer.first() == 1).count()
    };
    assert_eq!(admitted(&mut pipe, &|address| format!("ip6:{address}")), 500);
    assert_eq!(pipe.int("DBSIZE"), 500);
    pipe.good("FLUSHALL");
    assert_eq!(admitted(&mut pipe, &network), 5);
    assert_eq!(pipe.int("DBSIZE"), 1);
    assert_eq!(network("2001:db8::1".parse().unwrap()), "ip6:2001:db8:0:0::/64");
}
