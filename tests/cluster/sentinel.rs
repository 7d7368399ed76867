//! Three sentinels, a primary and two replicas: the primary dies, and clients that ask the sentinels go on.

use crate::client::Reply;
use crate::harness::{kind, say, wait_for};
use crate::limiters::{COUNT, Limiters, cmd};
use crate::node::{Node, Role};
use crate::python::Script;

use redis::Value;

const LIMIT: u64 = 20;

/// Nodes 0 (the primary), 1 and 2, and who watches them.
struct Watched {
    nodes: Vec<Node>,
    sentinels: Vec<Node>,
}

impl Watched {
    /// `replicas`: what each is, and its priority for a promotion (0: never).
    fn start(replicas: [(Role, u32); 2]) -> Self {
        let primary = Node::start(Role::Limiting, &[]);
        let mut nodes = vec![];
        for (role, priority) in replicas {
            let config = [format!("replicaof 127.0.0.1 {}", primary.port()), format!("replica-priority {priority}")];
            nodes.push(Node::start(role, &config));
        }
        nodes.insert(0, primary);
        wait_for("the replicas to follow", || nodes[1..].iter().all(Node::follows).then_some(()));
        let config = [
            format!("sentinel monitor limits 127.0.0.1 {} 2", nodes[0].port()),
            "sentinel down-after-milliseconds limits 1000".to_owned(),
            "sentinel failover-timeout limits 4000".to_owned(),
        ];
        let sentinels: Vec<_> = (0..3).map(|_| Node::start(Role::Sentinel, &config)).collect();
        wait_for("the sentinels to know all", || {
            let knows = |sentinel: &Node, whom: &str, count: usize| {
                let known = sentinel.conn().good(&format!("SENTINEL {whom} limits"));
                let seen = |one: &Reply| {
                    let flags = one.field("flags").map(ToString::to_string).unwrap_or_default();
                    !flags.contains("down") && !flags.contains("disconnected")
                };
                known.list().len() == count && known.list().iter().all(seen)
            };
            let all = |sentinel| knows(sentinel, "REPLICAS", 2) && knows(sentinel, "SENTINELS", 2);
            sentinels.iter().all(all).then_some(())
        });
        Self { nodes, sentinels }
    }

    fn sentinel_ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(Node::port).collect()
    }

    /// Where the sentinels say the primary is.
    fn told(&self) -> Vec<u16> {
        let ask = |sentinel: &Node| {
            let address = sentinel.conn().good("SENTINEL GET-MASTER-ADDR-BY-NAME limits");
            u16::try_from(address.list()[1].int()).unwrap()
        };
        self.sentinels.iter().map(ask).collect()
    }

    /// redis-rs as an application uses it: ask a sentinel, connect to what it says.
    fn connect(&self) -> redis::Connection {
        let port = self.told()[0];
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        wait_for("a connection to the primary", || client.get_connection().ok())
    }

    /// Kills the primary and waits until all sentinels name the same successor, which has taken over.
    fn kill_primary(&mut self) -> usize {
        self.nodes[0].kill();
        wait_for("the sentinels to name a successor", || {
            let told = self.told();
            let successor = (1..3).find(|index| told.iter().all(|port| *port == self.nodes[*index].port()))?;
            self.nodes[successor].is_primary().then_some(successor)
        })
    }
}

/// A charge of one of the limiters and its reply.
fn charge(conn: &mut redis::Connection, limiters: &Limiters, index: usize, cost: u64) -> Vec<i64> {
    let value = cmd(&limiters.words(index, cost)).query::<Value>(conn).unwrap();
    decision(&Reply::from_value(value))
}

/// The five integers; of an ALL those of its first rule.
fn decision(reply: &Reply) -> Vec<i64> {
    match reply.list().get(2) {
        Some(Reply::List(rules)) => rules[0].ints(),
        _ => reply.ints(),
    }
}

/// Both libraries find the promoted replica, and every limiter goes on from the numbers that the dead primary had.
#[test]
fn clients_find_the_promoted_replica_and_its_numbers() {
    let test = "sentinel::clients_find_the_promoted_replica_and_its_numbers";
    let mut watched = Watched::start([(Role::Limiting, 100), (Role::Limiting, 100)]);
    let limiters = Limiters { tag: "a".to_owned(), limit: LIMIT };
    let mut conn = watched.connect();
    let mut python = Script::speaking(test, "sentinel", &watched.sentinel_ports());
    for index in 0..COUNT {
        assert_eq!(charge(&mut conn, &limiters, index, 5)[..3], [1, 20, 15], "{}", Limiters::name(index));
    }
    if let Some(script) = &mut python {
        let mut words = limiters.words(0, 2);
        words[1] = "py".to_owned();
        let first = script.ask(&words);
        assert!(first.starts_with("1 20 18 0 "), "{first}");
    }
    // What the replicas have heard of survives; what they have not is measured with the cluster.
    let mut own = watched.nodes[0].conn();
    own.good("RL.FIXED mark 5 1m");
    assert_eq!(own.int("WAIT 2 20000"), 2, "both replicas have everything");
    drop(own);
    let successor = watched.kill_primary();
    assert!(cmd(&limiters.words(0, 1)).query::<Value>(&mut conn).is_err(), "the old connection is dead");
    let mut conn = watched.connect();
    for index in 0..COUNT {
        let name = Limiters::name(index);
        assert_eq!(charge(&mut conn, &limiters, index, 4)[..3], [1, 20, 11], "{name}");
        assert_eq!(charge(&mut conn, &limiters, index, 12)[..3], [0, 20, 11], "{name}");
        assert_eq!(charge(&mut conn, &limiters, index, 11)[..3], [1, 20, 0], "{name}");
    }
    if let Some(script) = &mut python {
        let mut words = limiters.words(0, 3);
        words[1] = "py".to_owned();
        let next = script.ask(&words);
        assert!(next.starts_with("1 20 15 0 "), "{next}");
    }
    let other = 3 - successor;
    wait_for("the other replica to follow the new primary", || watched.nodes[other].follows().then_some(()));
    say(&format!(
        "sentinel on {}: replica {successor} took over; redis-rs{} went on from the same numbers",
        kind().name(),
        if python.is_some() { " and redis-py" } else { "" }
    ));
}

/// A replica without the module holds the same keys, but once promoted it decides nothing: the error is the server's
/// own `unknown command`, and no call is answered as admitted.
#[test]
fn a_promoted_node_without_the_module_knows_no_such_command() {
    let test = "sentinel::a_promoted_node_without_the_module_knows_no_such_command";
    let mut watched = Watched::start([(Role::Bare, 1), (Role::Limiting, 0)]);
    let limiters = Limiters { tag: "a".to_owned(), limit: LIMIT };
    let mut conn = watched.connect();
    let mut python = Script::speaking(test, "sentinel", &watched.sentinel_ports());
    for index in 0..COUNT {
        charge(&mut conn, &limiters, index, 5);
    }
    if let Some(script) = &mut python {
        assert_eq!(script.ask(&["PING".to_owned()]), "True");
    }
    let mut own = watched.nodes[0].conn();
    own.good("RL.FIXED mark 5 1m");
    assert_eq!(own.int("WAIT 2 20000"), 2, "both replicas have everything");
    drop(own);
    assert_eq!(watched.kill_primary(), 1, "only the one without the module may be promoted");
    let mut conn = watched.connect();
    for index in 0..COUNT {
        let error = cmd(&limiters.words(index, 1)).query::<Value>(&mut conn).unwrap_err().to_string();
        assert!(error.contains("unknown command"), "{}: {error}", Limiters::name(index));
    }
    if let Some(script) = &mut python {
        let said = script.ask(&limiters.words(0, 1));
        assert!(said.starts_with('!') && said.contains("unknown command"), "{said}");
    }
    let mut plain = watched.nodes[1].conn();
    let raw = plain.error("RL.FIXED {a}f 20 1d");
    assert!(raw.starts_with("ERR unknown command"), "{raw}");
    // The numbers are not lost: the counter is a native string, and the other replica follows and still peeks.
    assert_eq!(plain.good("GET {a}f").to_string(), "5");
    wait_for("the replica with the module to follow", || watched.nodes[2].follows().then_some(()));
    assert_eq!(watched.nodes[2].conn().ints("RL.PEEK {a}f FIXED 20 1d")[..3], [1, 20, 14]);
}
