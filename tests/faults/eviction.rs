//! Full memory: what is refused and what still works under noeviction, and which limiters are forgotten under each
//! policy that evicts.

use crate::harness::{Setup, say, wait_for};
use crate::pipe::Pipe;
use crate::traffic::words;

/// Fills a server up to `maxmemory` and somewhat more.
fn overfill(pipe: &mut Pipe) {
    let used = pipe.info_number("memory", "used_memory");
    pipe.good(&format!("CONFIG SET maxmemory {}", used / 2));
}

/// Under noeviction whatever may grow is refused with OOM and charges nothing. Giving back works: RL.REFUND, RL.RENEW
/// and RL.RELEASE, and looks. With memory again, all goes on from the same numbers.
#[test]
fn noeviction_refuses_what_grows_and_lets_give_back() {
    let server = Setup::new().config("maxmemory-policy noeviction").start();
    let mut pipe = Pipe::open(&server.socket());
    for fill in [
        "RL.FIXED f 5 1h COST 2",
        "RL.SLIDING s 5 1h COST 2",
        "RL.SLIDING b 5 1h COST 2 BUCKETS 60",
        "RL.TOKEN t 5 1 1h COST 2",
        "RL.LEAKY l 5 1 1h COST 2",
        "RL.ACQUIRE h 5 1h ID a",
        "RL.ACQUIRE h 5 1h ID b",
    ] {
        pipe.good(fill);
    }
    overfill(&mut pipe);
    let growing = [
        "RL.FIXED f 5 1h",
        "RL.FIXED fresh 5 1h",
        "RL.SLIDING s 5 1h",
        "RL.SLIDING b 5 1h BUCKETS 60",
        "RL.TOKEN t 5 1 1h",
        "RL.LEAKY l 5 1 1h",
        "RL.QUEUE l 5 1 1h 1s",
        "RL.CHARGE f FIXED 5 1h",
        "RL.ACQUIRE h 5 1h ID c",
    ];
    for line in growing {
        assert!(pipe.error(line).starts_with("OOM"), "{line}");
        let mut eval = vec!["EVAL", "return redis.call(unpack(ARGV))", "0"];
        eval.extend(line.split(' '));
        assert!(pipe.call(&eval).to_string().contains("OOM"), "in a script: {line}");
        pipe.good("MULTI");
        assert!(pipe.error(line).starts_with("OOM"), "in a transaction: {line}");
        assert!(pipe.error("EXEC").starts_with("EXECABORT"), "the transaction is discarded");
    }
    assert!(pipe.call(&["RL.ALL", "f", "FIXED 5 1h"]).to_string().starts_with("OOM"));
    assert_eq!(pipe.good("RL.PEEK f FIXED 5 1h COST 0").list()[2].int(), 3, "nobody was charged");
    for (line, did) in [
        ("RL.REFUND f FIXED 5 1h", 1),
        ("RL.REFUND s SLIDING 5 1h", 1),
        ("RL.REFUND b SLIDING 5 1h BUCKETS 60", 1),
        ("RL.REFUND t TOKEN 5 1 1h", 1),
        ("RL.REFUND l LEAKY 5 1 1h", 1),
        ("RL.RENEW h 2h a b", 2),
        ("RL.RELEASE h a", 1),
    ] {
        assert_eq!(pipe.good(line).first(), did, "{line}");
    }
    pipe.good("CONFIG SET maxmemory 0");
    assert_eq!(pipe.good("RL.FIXED f 5 1h COST 4").first(), 1, "one unit was given back");
    assert_eq!(pipe.good("RL.ACQUIRE h 2 1h ID c").first(), 1, "one place was given back");
}

/// An evicted limiter starts anew, so its caller is let in again. Under `volatile-*` limiters, which all have a TTL, go
/// before anything without one; under `allkeys-*` they go with the rest; under noeviction none goes.
#[test]
fn every_evicting_policy_forgets_limiters() {
    const LIMITERS: i64 = 3000;
    for policy in [
        "noeviction",
        "volatile-ttl",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
    ] {
        let server = Setup::new().config(&format!("maxmemory-policy {policy}")).start();
        let mut pipe = Pipe::open(&server.socket());
        let lasting: Vec<_> = (0..100).map(|n| words(&format!("SET lasting:{n} {}", "x".repeat(100)))).collect();
        pipe.batch(&lasting);
        let limiters: Vec<_> = (0..LIMITERS).map(|n| words(&format!("RL.FIXED limiter:{n} 1 1h"))).collect();
        let admitted = |pipe: &mut Pipe| pipe.batch(&limiters).iter().filter(|answer| answer.first() == 1).count();
        assert_eq!(admitted(&mut pipe), limiters.len());
        assert_eq!(admitted(&mut pipe), 0);
        // Room for about half of them.
        let used = pipe.info_number("memory", "used_memory");
        let each = pipe.int("MEMORY USAGE limiter:1");
        pipe.good(&format!("CONFIG SET maxmemory {}", used - LIMITERS * each / 2));
        if policy == "noeviction" {
            assert!(pipe.error("RL.FIXED limiter:1 1 1h").starts_with("OOM"));
            assert_eq!(pipe.int("DBSIZE"), LIMITERS + 100);
            continue;
        }
        wait_for("limiters to be evicted", || {
            (pipe.info_number("stats", "evicted_keys") > LIMITERS / 10).then_some(())
        });
        pipe.good("CONFIG SET maxmemory 0");
        let lasting_left = (0..100).filter(|n| pipe.int(&format!("EXISTS lasting:{n}")) == 1).count();
        if policy.starts_with("volatile") {
            assert_eq!(lasting_left, 100, "{policy}: what has no TTL stays");
        }
        let evicted = usize::try_from(pipe.info_number("stats", "evicted_keys")).unwrap();
        let again = admitted(&mut pipe);
        assert!(again > 0 && again <= evicted, "{policy}: {again} let in again, {evicted} evicted");
        assert_eq!(again + 100 - lasting_left, evicted, "{policy}: each evicted limiter lets in once more");
        say(&format!("eviction: {policy}: {evicted} keys evicted, {again} callers let in a second time"));
    }
}

/// The soonest window to end goes first under volatile-ttl: short windows are forgotten before long ones.
#[test]
fn volatile_ttl_forgets_short_windows_first() {
    let server = Setup::new()
        .config("maxmemory-policy volatile-ttl")
        .config("maxmemory-samples 64")
        // Freed on the side, a key does not count as freed yet, and more go than need be.
        .config("lazyfree-lazy-eviction no")
        .start();
    let mut pipe = Pipe::open(&server.socket());
    let of = |prefix: &str, period: &str| -> Vec<_> {
        (0..1000).map(|n| words(&format!("RL.FIXED {prefix}:{n} 1 {period}"))).collect()
    };
    pipe.batch(&of("long", "1d"));
    pipe.batch(&of("short", "10m"));
    let mut room = pipe.info_number("memory", "used_memory");
    wait_for("some limiters to be evicted", || {
        room -= 2000;
        pipe.good(&format!("CONFIG SET maxmemory {room}"));
        (pipe.info_number("stats", "evicted_keys") >= 100).then_some(())
    });
    pipe.good("CONFIG SET maxmemory 0");
    let left =
        |pipe: &mut Pipe, prefix: &str| (0..1000).filter(|n| pipe.int(&format!("EXISTS {prefix}:{n}")) == 1).count();
    let (long, short) = (left(&mut pipe, "long"), left(&mut pipe, "short"));
    // How many go at once is the server's, and it looks at samples; which go first is the policy's.
    let (long_lost, short_lost) = (1000 - long, 1000 - short);
    assert!(short_lost >= 20 * long_lost || short == 0, "{long_lost} long and {short_lost} short windows are lost");
    assert!(short_lost > long_lost, "{long_lost} long and {short_lost} short windows are lost");
}
