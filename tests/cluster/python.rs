//! redis-py, and node-redis, each as a process of its own that is spoken to in lines.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::clients;
use crate::harness::{PATIENCE, say};
use crate::limiters::{COUNT, Limiters};
use crate::shards::Cluster;

/// A running script. Dropping it kills it.
pub struct Script {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Script {
    /// `None`, after printing the test's name, where redis-py cannot be had.
    fn start(test: &str, script: &str, arguments: &[String]) -> Option<Self> {
        let environment = had(test, "redis-py", clients::python())?;
        let mut command = Command::new(environment.join("bin/python"));
        command.arg("-B").arg(path(script)).args(arguments);
        Some(Self::run(command))
    }

    /// node-redis in a cluster. It has to be told the key of a command that it does not know.
    pub fn node(test: &str, ports: &[u16]) -> Option<Self> {
        let modules = had(test, "node-redis", clients::node())?.join("node_modules");
        let mut command = Command::new("node");
        command.env("NODE_PATH", modules).arg(path("speak.cjs")).arg(joined(ports));
        Some(Self::run(command))
    }

    fn run(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // Ends with the script, whose output it reads.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, stdin, lines }
    }

    /// A client that runs single commands, `cluster` or `sentinel`.
    pub fn speaking(test: &str, way: &str, ports: &[u16]) -> Option<Self> {
        Self::start(test, "speak.py", &[way.to_owned(), joined(ports)])
    }

    /// Runs one command; errors begin with `!`.
    pub fn ask(&mut self, words: &[String]) -> String {
        writeln!(self.stdin.as_mut().unwrap(), "{}", words.join("\t")).unwrap();
        self.line()
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line of the script")
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn path(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster").join(script)
}

/// What was fetched, or `None` after printing what is skipped.
fn had(test: &str, library: &str, fetched: Result<PathBuf, String>) -> Option<PathBuf> {
    fetched.map_err(|reason| say(&format!("SKIPPED {test} with {library}: {reason}"))).ok()
}

fn joined(ports: &[u16]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// redis-py charging the same limiters as a load does.
pub struct Charging {
    script: Script,
    said: Vec<String>,
}

/// What redis-py counted.
#[derive(Debug, Default)]
pub struct Count {
    pub admitted: [u64; COUNT],
    pub redirected: BTreeMap<String, u64>,
    pub errors: Vec<String>,
}

impl Charging {
    /// Returns when the client has charged every limiter once.
    pub fn start(test: &str, cluster: &Cluster, limiters: &Limiters, rest_ms: u32) -> Option<Self> {
        let mut arguments = vec![rest_ms.to_string(), joined(&cluster.ports())];
        arguments.extend(
            (0..COUNT).map(|index| format!("{}\t{}", Limiters::name(index), limiters.words(index, 1).join("\t"))),
        );
        let script = Script::start(test, "charge.py", &arguments)?;
        let mut said = vec![];
        while said.last().is_none_or(|line| line != "charging") {
            said.push(script.line());
        }
        Some(Self { script, said })
    }

    /// Whether it has met this redirection.
    pub fn saw(&mut self, kind: &str) -> bool {
        self.said.extend(self.script.lines.try_iter());
        self.said.contains(&format!("saw {kind}"))
    }

    pub fn stop(mut self) -> Count {
        self.script.stdin = None;
        let mut count = Count::default();
        loop {
            let line = self.script.line();
            let mut words = line.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("admitted"), Some(name), Some(units)) => {
                    let index = (0..COUNT).find(|index| Limiters::name(*index) == name).unwrap();
                    count.admitted[index] = units.parse().unwrap();
                }
                (Some("redirected"), Some(kind), Some(times)) => {
                    count.redirected.insert(kind.to_owned(), times.parse().unwrap());
                }
                (Some("error"), Some(times), Some(text)) => count.errors.push(format!("{times} times {text}")),
                (Some("done"), ..) => return count,
                _ => {}
            }
        }
    }
}
