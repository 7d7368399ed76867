//! A server killed under load, again and again, with replies outstanding: what was acknowledged is stored, nothing is
//! stored that nobody asked for, and a restart charges nobody a second time. This tests a killed process. A power cut
//! may lose what the operating system or the disk had not written, and is not tested here.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::chance::{Chance, scaled};
use crate::harness::{kind, say};
use crate::mortal::{Module, Mortal};
use crate::pipe::{Answer, Pipe};
use crate::traffic::words;

/// Replies that each connection leaves outstanding.
const OUTSTANDING: i64 = 24;

const CAPACITY: i64 = 999_999_999_999_999;

/// A way to spend one unit, and how to read from the bare keys how many are on the books.
struct Spender {
    call: &'static str,
    stored: fn(&mut Pipe) -> i64,
}

/// Nothing comes back by itself within the test: the windows last ten years.
const SPENDERS: &[Spender] = &[
    Spender { call: "RL.FIXED f 999999999999999 3650d", stored: |pipe| number(&pipe.good("GET f")) },
    Spender { call: "RL.SLIDING s 10000000 3650d", stored: |pipe| pipe.int("ZCARD s") },
    Spender {
        call: "RL.SLIDING b 999999999999999 3650d BUCKETS 2",
        stored: |pipe| pipe.good("HVALS b").list().iter().map(Answer::int).sum(),
    },
    Spender {
        call: "RL.TOKEN t 999999999999999 1 3650d",
        // Of the fraction of a token that has come back, the unit is still owed.
        stored: |pipe| amount(&pipe.good("HGET t tokens")).map_or(0, |(whole, _)| CAPACITY - whole),
    },
    Spender {
        call: "RL.LEAKY l 999999999999999 1 3650d",
        stored: |pipe| amount(&pipe.good("HGET l level")).map_or(0, |(whole, rest)| whole + i64::from(rest)),
    },
    Spender { call: "RL.CHARGE c FIXED 999999999999999 3650d", stored: |pipe| number(&pipe.good("GET c")) },
    Spender { call: "RL.ACQUIRE h 100000 3650d", stored: |pipe| pipe.int("ZCARD h") },
    Spender {
        call: "RL.ALL {x}1|FIXED 999999999999999 3650d|{x}2|TOKEN 999999999999999 1 3650d",
        stored: |pipe| number(&pipe.good("GET {x}1")),
    },
];

/// The other key of the RL.ALL, which goes with the first or not at all.
fn stored_beside(pipe: &mut Pipe) -> i64 {
    amount(&pipe.good("HGET {x}2 tokens")).map_or(0, |(whole, _)| CAPACITY - whole)
}

/// Transactions that the server itself has torn: a kill in the middle of its write leaves a MULTI without its EXEC, a
/// start cuts the last command off and leaves the MULTI, and the next start joins it with the transaction that follows.
/// <https://github.com/valkey-io/valkey/pull/4342> mends that; a server that does it says so at that start.
fn torn_by_the_server(server: &Mortal) -> i64 {
    let torn = server.log().matches("'MULTI calls can not be nested'").count();
    i64::try_from(torn).unwrap()
}

fn number(answer: &Answer) -> i64 {
    if *answer == Answer::Nil { 0 } else { answer.int() }
}

/// The whole part, and whether there is a fraction.
fn amount(answer: &Answer) -> Option<(i64, bool)> {
    let Answer::Text(text) = answer else { return None };
    let text = String::from_utf8_lossy(text).into_owned();
    let (whole, fraction) = text.split_once('+').map_or((text.as_str(), false), |(whole, _)| (whole, true));
    Some((whole.parse().unwrap(), fraction))
}

fn split(call: &str) -> Vec<Vec<u8>> {
    match call.split_once('|') {
        None => words(call),
        Some((start, rest)) => {
            let mut all = words(start);
            all.extend(rest.split('|').map(|word| word.as_bytes().to_vec()));
            all
        }
    }
}

/// Calls sent and admissions acknowledged until the server was gone, and the leases that were handed out.
#[derive(Default)]
struct Seen {
    sent: i64,
    replied: i64,
    acknowledged: i64,
    ids: Vec<Vec<u8>>,
}

/// Spends one unit per call, many calls outstanding, until the connection breaks.
fn spend(mut pipe: Pipe, call: &str) -> Seen {
    let command = split(call);
    let mut seen = Seen::default();
    loop {
        while seen.sent - seen.replied < OUTSTANDING {
            if pipe.send(&command).is_err() {
                break;
            }
            seen.sent += 1;
        }
        let Ok(answer) = pipe.receive() else { return seen };
        assert!(!answer.is_error(), "{call}: {answer}");
        seen.replied += 1;
        if answer.first() == 1 {
            seen.acknowledged += 1;
        }
        if let Answer::List(items) = &answer
            && let Some(Answer::Text(id)) = items.get(5)
        {
            seen.ids.push(id.clone());
        }
    }
}

/// Lets all spend for a moment, then kills the server.
fn load_and_kill(server: &mut Mortal, chance: &mut Chance) -> Vec<Seen> {
    thread::scope(|scope| {
        let workers: Vec<_> = SPENDERS
            .iter()
            .map(|spender| {
                let pipe = server.pipe();
                scope.spawn(|| spend(pipe, spender.call))
            })
            .collect();
        // The moment of the kill is the random part; nothing is waited for.
        thread::sleep(Duration::from_millis(20 + chance.below(100)));
        server.kill();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    })
}

fn stored(pipe: &mut Pipe) -> Vec<i64> {
    SPENDERS.iter().map(|spender| (spender.stored)(pipe)).collect()
}

fn kill_again_and_again(test: &str, fsync: &str, kills: u64) -> BTreeMap<&'static str, i64> {
    let mut chance = Chance::for_test(test);
    let mut server = Mortal::new(&["appendonly yes", fsync, "rl.sliding-max-limit 10000000"]);
    server.start(Module::With);
    let mut base = vec![0; SPENDERS.len()];
    let mut figures = BTreeMap::new();
    for kill in 0..kills {
        let seen = load_and_kill(&mut server, &mut chance);
        // Every other time the file is first read by a server without the module.
        let reader = if kill % 2 == 0 { Module::Without } else { Module::With };
        server.start(reader);
        let found = stored(&mut server.pipe());
        let torn = torn_by_the_server(&server);
        let apart = (found[SPENDERS.len() - 1] - stored_beside(&mut server.pipe())).abs();
        assert!(
            apart <= torn,
            "kill {kill}: both keys of one RL.ALL, or none: {apart} apart, {torn} torn by the server"
        );
        figures.insert("transactions torn by the server", torn);
        for ((spender, seen), (base, found)) in SPENDERS.iter().zip(&seen).zip(base.iter().zip(&found)) {
            let in_flight = seen.sent - seen.replied;
            let call = spender.call;
            let most = base + seen.acknowledged + in_flight + torn;
            assert!(*found <= most, "kill {kill}, {call}: stored {found}, at most {most} were asked for");
            let missing = base + seen.acknowledged - found;
            assert!(
                missing <= 0 || fsync != "appendfsync always",
                "kill {kill}, {call}: {missing} acknowledged units are not stored"
            );
            *figures.entry("acknowledged").or_default() += seen.acknowledged;
            *figures.entry("in flight").or_default() += in_flight;
            *figures.entry("stored of those in flight").or_default() += (-missing).max(0);
            *figures.entry("acknowledged and lost").or_default() += missing.max(0);
            if fsync == "appendfsync always" {
                let mut pipe = server.pipe();
                for id in &seen.ids {
                    let member = [b"l:", id.as_slice()].concat();
                    let score = pipe.call(&[b"ZSCORE", b"h".as_slice(), &member]);
                    assert_ne!(score, Answer::Nil, "kill {kill}: a lease that was handed out is gone");
                }
            }
        }
        if reader == Module::Without {
            server.stop();
            server.start(Module::With);
            assert_eq!(stored(&mut server.pipe()), found, "kill {kill}: a restart charges nobody again");
        }
        base = found;
    }
    assert!(figures["acknowledged"] > 0 && figures["in flight"] > 0, "the kills hit a busy server: {figures:?}");
    say(&format!("{test}: {kills} kills, {figures:?}"));
    figures
}

/// With `appendfsync always`, for each algorithm and after every kill: acknowledged <= stored <= acknowledged + in
/// flight, by what the bare keys say to a server with the module and to one without it.
#[test]
fn acknowledged_units_survive_twenty_kills() {
    let kills = scaled(20, 200);
    kill_again_and_again("kills::acknowledged_units_survive_twenty_kills", "appendfsync always", kills);
}

/// Protects the remedy of the documentation: where the end of the file tears a transaction apart, the server's own tool
/// takes out the whole of it, so that an RL.ALL stays all or nothing over any number of starts.
#[test]
fn a_torn_transaction_is_taken_out_whole_by_the_servers_tool() {
    const ALL: &str = "RL.ALL|{x}1|FIXED 999999999999999 3650d|{x}2|TOKEN 999999999999999 1 3650d";
    let mut server = Mortal::new(&["appendonly yes", "appendfsync always"]);
    server.start(Module::With);
    for _ in 0..2 {
        assert_eq!(server.pipe().call(&split(ALL)).first(), 1);
    }
    server.stop();
    let file = server.dir().join("appendonlydir/appendonly.aof.1.incr.aof");
    let written = std::fs::read(&file).unwrap();
    assert!(written.to_ascii_uppercase().ends_with(b"EXEC\r\n"), "the effects of one call are a transaction");
    std::fs::write(&file, &written[..written.len() - 4]).unwrap();
    let mut tool = Command::new(&kind().binary);
    // The same program: by this name it is the tool. Of a whole folder Valkey 9.1's does not read its own base file.
    tool.arg0("redis-check-aof").arg("--fix").arg(&file);
    let mut tool = tool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    tool.stdin.take().unwrap().write_all(b"y\n").unwrap();
    let said = tool.wait_with_output().unwrap();
    assert!(said.status.success(), "{said:?}");
    for module in [Module::Without, Module::With, Module::With] {
        server.start(module);
        let mut pipe = server.pipe();
        assert_eq!((number(&pipe.good("GET {x}1")), stored_beside(&mut pipe)), (1, 1), "one call of two is left");
        server.stop();
    }
    server.start(Module::With);
    assert_eq!(server.pipe().call(&split(ALL)).first(), 1);
    server.kill();
    server.start(Module::With);
    let mut pipe = server.pipe();
    assert_eq!((number(&pipe.good("GET {x}1")), stored_beside(&mut pipe)), (2, 2));
}

/// With `appendfsync everysec` units may be forgotten with the last moments, and nobody is ever charged for more than
/// was asked.
#[test]
fn nobody_is_charged_twice_with_everysec() {
    let kills = scaled(6, 100);
    kill_again_and_again("kills::nobody_is_charged_twice_with_everysec", "appendfsync everysec", kills);
}
