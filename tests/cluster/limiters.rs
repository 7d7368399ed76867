//! One limiter of every algorithm, all in one slot, and how much each may admit while a test runs: exactly its limit.

use redis::cluster::ClusterConnection;
use redis::{Cmd, RedisResult, Value};

use crate::harness::wait_for;

/// Name and words: `@` is the tag, `#` the limit, `$` the cost, and `_` a space within a word. Whatever is given back
/// within an hour is less than a whole unit.
const FORMS: [(&str, &str); 6] = [
    ("FIXED", "RL.FIXED {@}f # 1d COST $"),
    ("SLIDING", "RL.SLIDING {@}s # 1d COST $"),
    ("BUCKETS", "RL.SLIDING {@}b # 1d BUCKETS 24 COST $"),
    ("TOKEN", "RL.TOKEN {@}t # 1 1d COST $"),
    ("LEAKY", "RL.LEAKY {@}l # 1 1d COST $"),
    ("ALL", "RL.ALL {@}x FIXED_#_1d_COST_$ {@}y TOKEN_#_1_1d_COST_$"),
];

/// How many limiters a set has.
pub const COUNT: usize = FORMS.len();

/// The most units that a call of any of them may ask for.
const MOST: u64 = 250;

/// A limiter of each algorithm with the same limit.
#[derive(Clone)]
pub struct Limiters {
    pub tag: String,
    pub limit: u64,
}

impl Limiters {
    pub fn name(index: usize) -> &'static str {
        FORMS[index].0
    }

    /// The call that asks one of them for so many units.
    pub fn words(&self, index: usize, cost: u64) -> Vec<String> {
        let filled = |word: &str| {
            let word = word.replace('@', &self.tag).replace('#', &self.limit.to_string());
            word.replace('$', &cost.to_string()).replace('_', " ")
        };
        FORMS[index].1.split(' ').map(filled).collect()
    }

    /// Asks through a client library. True when admitted.
    pub fn ask(&self, conn: &mut ClusterConnection, index: usize, cost: u64) -> RedisResult<bool> {
        allowed(&cmd(&self.words(index, cost)).query::<Value>(conn)?)
    }

    /// Takes what each still gives, until it refuses one unit.
    pub fn drain(&self, conn: &mut ClusterConnection) -> [u64; COUNT] {
        let mut taken = [0; COUNT];
        for (index, taken) in taken.iter_mut().enumerate() {
            for cost in [MOST, 1] {
                while self.ask(conn, index, cost).unwrap_or_else(|e| panic!("{}: {e}", Self::name(index))) {
                    *taken += cost;
                    assert!(*taken <= 3 * self.limit, "{} never refuses", Self::name(index));
                }
            }
        }
        taken
    }

    /// The same after a failure, when the library may need some calls to find its way again.
    pub fn wait_until_answered(&self, conn: &mut ClusterConnection) {
        for index in 0..COUNT {
            wait_for("an answer after the failure", || self.ask(conn, index, 0).ok());
        }
    }
}

pub fn cmd(words: &[String]) -> Cmd {
    let mut cmd = Cmd::new();
    for word in words {
        cmd.arg(word.as_bytes());
    }
    cmd
}

/// The first element of a decision.
fn allowed(reply: &Value) -> RedisResult<bool> {
    match reply {
        Value::Array(items) => match items.first() {
            Some(Value::Int(allowed)) => Ok(*allowed > 0),
            other => panic!("a number was due, not {other:?}"),
        },
        other => panic!("a decision was due, not {other:?}"),
    }
}
