//! Callers that charge all the time and count what they were granted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redis::ErrorKind;

use crate::harness::wait_for;
use crate::limiters::{COUNT, Limiters};
use crate::shards::Cluster;

/// What all callers of a load have seen so far.
#[derive(Default)]
pub struct Seen {
    admitted: [AtomicU64; COUNT],
    refused: AtomicU64,
    /// Calls that a server answered with an error, and so did not charge.
    turned_away: AtomicU64,
    /// Calls without an answer: whether they were charged is unknown.
    unknown: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl Seen {
    /// Units granted by each limiter.
    pub fn admitted(&self) -> [u64; COUNT] {
        std::array::from_fn(|index| self.admitted[index].load(Ordering::SeqCst))
    }

    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::SeqCst)
    }

    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::SeqCst)
    }

    pub fn errors(&self) -> BTreeMap<String, u64> {
        self.errors.lock().unwrap().clone()
    }

    /// Waits until every limiter has admitted so many units more.
    pub fn wait_for_more(&self, units: u64) {
        let before = self.admitted();
        wait_for("every limiter to admit more", || {
            let now = self.admitted();
            (0..COUNT).all(|index| now[index] >= before[index] + units).then_some(())
        });
    }
}

/// Threads of redis-rs, each with a connection of its own.
pub struct Load {
    pub seen: Arc<Seen>,
    over: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts the callers; each rests so long between two calls.
    pub fn start(cluster: &Cluster, limiters: &Limiters, callers: usize, rest: Duration) -> Self {
        let (seen, over) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
        let workers = (0..callers).map(|first| {
            let (seen, over, limiters) = (Arc::clone(&seen), Arc::clone(&over), limiters.clone());
            let client = cluster.client();
            let mut conn = cluster.connect();
            thread::spawn(move || {
                let mut index = first % COUNT;
                while !over.load(Ordering::SeqCst) {
                    match limiters.ask(&mut conn, index, 1) {
                        Ok(true) => seen.admitted[index].fetch_add(1, Ordering::SeqCst),
                        Ok(false) => seen.refused.fetch_add(1, Ordering::SeqCst),
                        Err(error) => {
                            let text = error.to_string();
                            *seen.errors.lock().unwrap().entry(text).or_default() += 1;
                            thread::sleep(Duration::from_millis(5));
                            // The library does not ask for the map of slots again when the node it knows is gone; an
                            // application, or its pool, replaces a connection that failed.
                            if let Ok(fresh) = client.get_connection() {
                                conn = fresh;
                            }
                            let answered = matches!(error.kind(), ErrorKind::Server(_));
                            let count = if answered { &seen.turned_away } else { &seen.unknown };
                            count.fetch_add(1, Ordering::SeqCst)
                        }
                    };
                    index = (index + 1) % COUNT;
                    thread::sleep(rest);
                }
            })
        });
        let workers = workers.collect();
        Self { seen, over, workers }
    }

    /// Ends the callers after the call that each is in.
    pub fn stop(mut self) -> Arc<Seen> {
        self.end();
        Arc::clone(&self.seen)
    }

    fn end(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            let ended = worker.join();
            assert!(ended.is_ok() || thread::panicking(), "a caller failed");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}
