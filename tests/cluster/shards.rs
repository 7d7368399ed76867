//! A cluster of three primaries, each with one replica, put together by hand so that no other program is needed.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterConnection};

use crate::client::Conn;
use crate::harness::wait_for;
use crate::info;
use crate::node::{Node, Role};

/// The slots that each primary begins with.
const RANGES: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];

/// Nodes 0 to 2 begin as primaries, node 3 + n as the replica of node n.
pub struct Cluster {
    pub nodes: Vec<Node>,
    ids: Vec<String>,
}

impl Cluster {
    /// `timeout_ms`: how long a node may be silent before it is taken for dead. `more`: further configuration.
    pub fn start(timeout_ms: u32, more: &[&str]) -> Self {
        let mut config = vec![
            "cluster-enabled yes".to_owned(),
            "cluster-config-file nodes.conf".to_owned(),
            "cluster-port BUS".to_owned(),
            format!("cluster-node-timeout {timeout_ms}"),
            // A replica that follows another primary would leave one shard without any.
            "cluster-allow-replica-migration no".to_owned(),
        ];
        config.extend(more.iter().map(ToString::to_string));
        let nodes: Vec<_> = (0..6).map(|_| Node::start(Role::Limiting, &config)).collect();
        let ids = nodes.iter().map(|node| node.conn().good("CLUSTER MYID").to_string()).collect();
        let cluster = Self { nodes, ids };
        cluster.join();
        cluster
    }

    fn join(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            let mut conn = node.conn();
            conn.good(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1));
            if let Some((from, to)) = RANGES.get(index) {
                conn.good(&format!("CLUSTER ADDSLOTSRANGE {from} {to}"));
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[..index] {
                node.conn().good(&format!("CLUSTER MEET 127.0.0.1 {} {}", other.port(), other.bus()));
            }
        }
        wait_for("every node to know every other", || {
            self.living().all(|node| known(&mut node.conn()) == self.nodes.len()).then_some(())
        });
        for (replica, primary) in self.nodes[3..].iter().zip(&self.ids) {
            let mut conn = replica.conn();
            wait_for("a replica to find its primary", || {
                (!conn.run(&format!("CLUSTER REPLICATE {primary}")).is_error()).then_some(())
            });
        }
        wait_for("the replicas to follow", || self.nodes[3..].iter().all(Node::follows).then_some(()));
        self.wait_until_agreed();
        wait_for("every node to know every replica", || {
            self.living()
                .all(|node| node.conn().good("CLUSTER NODES").to_string().matches("slave").count() == 3)
                .then_some(())
        });
    }

    fn living(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.alive())
    }

    /// Waits until every living node serves and all tell the same owners of the slots and the same primaries.
    pub fn wait_until_agreed(&self) {
        wait_for("the cluster to agree", || {
            let serving = self.living().all(|node| {
                let text = node.conn().good("CLUSTER INFO").to_string();
                info::field(&text, "cluster_state") == "ok" && info::field(&text, "cluster_slots_ok") == "16384"
            });
            // Roles as well: a primary votes for no replica that it still takes for a primary.
            let mut maps = self.living().map(|node| (owners(&mut node.conn()), self.primaries(&mut node.conn())));
            let first = maps.next()?;
            (serving && maps.all(|others| others == first)).then_some(())
        });
    }

    /// The living nodes that this one takes for primaries.
    fn primaries(&self, conn: &mut Conn) -> Vec<String> {
        let text = conn.good("CLUSTER NODES").to_string();
        let alive = |id: &str| self.ids.iter().zip(&self.nodes).any(|(own, node)| own == id && node.alive());
        let primary = |line: &str| {
            let mut words = line.split(' ');
            let (id, flags) = (words.next()?, words.nth(1)?);
            (alive(id) && flags.contains("master")).then(|| id.to_owned())
        };
        let mut ids: Vec<_> = text.lines().filter_map(primary).collect();
        ids.sort_unstable();
        ids
    }

    pub fn id(&self, node: usize) -> &str {
        &self.ids[node]
    }

    pub fn ports(&self) -> Vec<u16> {
        self.living().map(Node::port).collect()
    }

    /// A client library that knows every node and gives up late: a slot may be in two minds for a while.
    pub fn client(&self) -> ClusterClient {
        let urls = self.ports().into_iter().map(|port| format!("redis://127.0.0.1:{port}"));
        ClusterClient::builder(urls)
            .retries(40)
            .min_retry_wait(5)
            .max_retry_wait(50)
            .connection_timeout(Duration::from_secs(5))
            // A reply that is given up on would be asked for again on the same connection.
            .response_timeout(Duration::from_secs(20))
            .build()
            .unwrap()
    }

    pub fn connect(&self) -> ClusterConnection {
        let client = self.client();
        wait_for("a client to connect", || client.get_connection().ok())
    }

    /// A word whose slot this primary has from the beginning; `nth` gives several.
    pub fn tag(&self, primary: usize, nth: usize) -> String {
        let mut conn = self.nodes[0].conn();
        let (from, to) = RANGES[primary];
        let inside = |tag: &String| (from..=to).contains(&slot(&mut conn, tag));
        (0..).map(|number| format!("tag{number}")).filter(inside).nth(nth).unwrap()
    }

    pub fn slot(&self, tag: &str) -> u16 {
        slot(&mut self.nodes[0].conn(), tag)
    }

    /// How often the nodes have answered with this error.
    pub fn errors(&self, code: &str) -> u64 {
        let count = |node: &Node| {
            let text = info::info(&mut node.conn(), "errorstats");
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("errorstat_{code}:count=")))?;
            line.trim().parse::<u64>().ok()
        };
        self.living().filter_map(count).sum()
    }

    /// How often each command of ours was called on a node.
    pub fn calls(&self, node: usize) -> BTreeMap<String, u64> {
        let text = info::info(&mut self.nodes[node].conn(), "commandstats").to_lowercase();
        let calls = text.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_rl.")?.split_once(":calls=")?;
            Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
        });
        calls.collect()
    }
}

fn slot(conn: &mut Conn, tag: &str) -> u16 {
    u16::try_from(conn.int(&format!("CLUSTER KEYSLOT {{{tag}}}"))).unwrap()
}

/// How many nodes have answered this one.
fn known(conn: &mut Conn) -> usize {
    let text = conn.good("CLUSTER NODES").to_string();
    text.lines().filter(|line| !line.contains("handshake") && line.contains(" connected")).count()
}

/// First slot, last slot, port of the primary, in order.
fn owners(conn: &mut Conn) -> Vec<(i64, i64, i64)> {
    let slots = conn.good("CLUSTER SLOTS");
    let row = |row: &crate::client::Reply| (row.list()[0].int(), row.list()[1].int(), row.list()[2].list()[1].int());
    let mut rows: Vec<_> = slots.list().iter().map(row).collect();
    rows.sort_unstable();
    rows
}
