//! Three primaries beside one, measured and printed.

use std::process::{Command, Stdio};

use crate::harness::{kind, say};
use crate::node::{Node, Role};
use crate::shards::Cluster;

const REQUESTS: &str = "40000";

/// Decisions per second over many keys, as the server's own benchmark counts them.
fn measure(program: &std::path::Path, port: u16, cluster: bool) -> f64 {
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-c", "24", "-n", REQUESTS, "-r", "10000", "-q"]);
    command.args(cluster.then_some("--cluster"));
    command.args(["RL.FIXED", "{tag}:__rand_int__", "100", "1m"]);
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = text.rsplit_once(" requests per second").and_then(|(before, _)| before.rsplit([' ', '\r', '\n']).next());
    told.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no figure in {text:?}"))
}

/// Says what a cluster gains on this machine. No pass or fail on speed: only that every shard took part.
#[test]
fn three_primaries_beside_one() {
    let program = kind().binary.with_file_name("redis-benchmark");
    if !program.exists() {
        say("SKIPPED throughput::three_primaries_beside_one: there is no redis-benchmark beside the server");
        return;
    }
    let (cluster, single) = (Cluster::start(5000, &[]), Node::start(Role::Limiting, &[]));
    let mut ratios: Vec<(f64, f64)> = (0..3)
        .map(|_| (measure(&program, single.port(), false), measure(&program, cluster.nodes[0].port(), true)))
        .collect();
    for node in 0..3 {
        let calls = cluster.calls(node);
        assert!(calls.get("fixed").is_some_and(|calls| *calls > 0), "node {node} took its share: {calls:?}");
    }
    ratios.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let (one, three) = ratios[1];
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    say(&format!(
        "throughput on {}: one server {one:.0}, three primaries (with three replicas) {three:.0} decisions per second, \
         ratio {:.2}, median of 3, on {cores} cores shared with the benchmark \
         and the other tests: it cannot show three times",
        kind().name(),
        three / one,
    ));
}
