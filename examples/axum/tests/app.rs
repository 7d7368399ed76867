//! The example as its callers see it: its own process, a real Redis with the module, TCP.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

use std::collections::HashMap;
use std::env;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const DEADLINE_MS: u64 = 400;

struct Answer {
    status: u16,
    headers: HashMap<String, String>,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// A server and the application, both ended by their handles.
struct Site {
    folder: PathBuf,
    redis_port: u16,
    port: u16,
    redis: Child,
    app: Child,
}

impl Site {
    fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("axum-limits-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (redis_port, port) = (free_port(), free_port());
        let redis = start_redis(&folder, redis_port);
        let app = Command::new(env!("CARGO_BIN_EXE_axum-limits"))
            .env("REDIS_URL", format!("redis://127.0.0.1:{redis_port}"))
            .env("BIND", format!("127.0.0.1:{port}"))
            .env("REDIS_DEADLINE_MS", DEADLINE_MS.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let site = Self { folder, redis_port, port, redis, app };
        until("the application answers", || TcpStream::connect(("127.0.0.1", site.port)).is_ok());
        site.redis(&["FLUSHALL"]);
        site
    }

    fn get(&self, path: &str) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        Answer { status, headers, body: body.to_owned() }
    }

    fn statuses(&self, count: usize, path: &str) -> Vec<u16> {
        (0..count).map(|_| self.get(path).status).collect()
    }

    fn redis(&self, words: &[&str]) -> String {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.redis_port)).unwrap();
        let mut connection = client.get_connection().unwrap();
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        format!("{:?}", command.query::<redis::Value>(&mut connection).unwrap())
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.redis.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for child in [&mut self.app, &mut self.redis] {
            drop(child.kill());
            drop(child.wait());
        }
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn start_redis(folder: &PathBuf, port: u16) -> Child {
    let port_text = port.to_string();
    let child = Command::new(env::var("RL_SERVER").expect("RL_SERVER names a redis-server"))
        .args(["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--loadmodule", &env::var("RL_MODULE").expect("RL_MODULE names the module")])
        .arg("--dir")
        .arg(folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("redis-server answers", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    child
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "{what}: not within 20 s");
        sleep(Duration::from_millis(20));
    }
}

/// A refusal names the limit and the wait, is not to be cached, and Retry-After keeps its word.
#[test]
fn refusal() {
    let site = Site::new("refusal");
    let first = site.get("/search");
    assert_eq!(first.status, 200);
    assert_eq!(first.header("ratelimit-policy"), Some("\"search\";q=5;w=10, \"search-all\";q=1000;w=10"));
    assert_eq!(first.header("ratelimit"), Some("\"search\";r=4;t=10, \"search-all\";r=999;t=1"));
    assert_eq!((first.header("x-ratelimit-limit"), first.header("x-ratelimit-remaining")), (Some("5"), Some("4")));
    assert_eq!(site.statuses(4, "/search"), [200; 4]);
    let refused = site.get("/search");
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    let body: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!(body["violated-policies"], serde_json::json!(["search"]));
    let wait_ms = body["waits_ms"][0].as_u64().unwrap();
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(seconds, wait_ms.div_ceil(1000));
    sleep(Duration::from_secs(seconds));
    assert_eq!(site.get("/search").status, 200);
}

/// A refusal of one limit charges none, however many requests come at once.
#[test]
fn all_or_nothing() {
    let site = Site::new("all");
    let statuses: Vec<u16> = scope(|scope| {
        let threads: Vec<_> = (0..12).map(|_| scope.spawn(|| site.get("/export").status)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|&&status| status == 200).count(), 2);
    assert_eq!(statuses.iter().filter(|&&status| status == 429).count(), 10);
    assert!(
        site.redis(&["GET", "axum:127.0.0.1:export"]).contains("\"2\""),
        "{}",
        site.redis(&["GET", "axum:127.0.0.1:export"])
    );
}

/// Where no wait helps there is no Retry-After and no 429.
#[test]
fn never() {
    let site = Site::new("never");
    let answer = site.get("/huge");
    assert_eq!((answer.status, answer.header("retry-after")), (422, None));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

/// WRONGTYPE, ERR and NOPERM shut an open route too.
#[test]
fn faults_never_open() {
    let site = Site::new("faults");
    site.redis(&["LPUSH", "axum:127.0.0.1:search", "x"]);
    assert_eq!(site.get("/search").status, 503);
    site.redis(&["DEL", "axum:127.0.0.1:search"]);
    site.redis(&["SET", "axum:everyone:search-all", "x"]);
    assert_eq!(site.get("/search").status, 503);
    site.redis(&["DEL", "axum:everyone:search-all"]);
    site.redis(&["ACL", "SETUSER", "default", "-rl.all"]);
    assert_eq!(site.get("/search").status, 503);
    site.redis(&["ACL", "SETUSER", "default", "+rl.all"]);
    assert_eq!(site.get("/search").status, 200);
}

/// Redis killed and hanging: the open route goes on within the deadline, the closed one says 503, both recover.
#[test]
fn outage() {
    let mut site = Site::new("outage");
    assert_eq!(site.statuses(2, "/search"), [200; 2]);
    site.signal("-KILL");
    site.redis.wait().unwrap();
    assert_eq!(site.statuses(10, "/search"), [200; 10]);
    let shut = site.get("/export");
    assert_eq!((shut.status, shut.header("cache-control")), (503, Some("no-store")));
    assert_eq!(shut.header("ratelimit"), None, "what is not known is not said");
    site.redis = start_redis(&site.folder, site.redis_port);
    until("the closed route recovers", || site.get("/export").status == 200);
    until("the open route is limited again", || site.get("/search").status == 429);

    site.signal("-STOP");
    let started = Instant::now();
    assert_eq!((site.get("/search").status, site.get("/export").status), (200, 503));
    let took = started.elapsed();
    site.signal("-CONT");
    assert!(took < Duration::from_millis(2 * DEADLINE_MS + 3000), "two requests took {took:?}");
    until("recovery", || site.get("/export").status != 503);
}
