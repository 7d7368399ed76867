//! The commands introduce themselves as native ones do: COMMAND INFO, DOCS and GETKEYS, redis-cli's help, commandstats,
//! RL.HELP; and the module goes and comes back.

use std::process::{Command, Stdio};

use crate::client::{Conn, Reply};
use crate::harness::{Server, Setup, cli, kind, module_path, say, wait_for};
use crate::info;

/// A command as it must stand in COMMAND INFO.
pub struct Known {
    pub name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    /// First key, last key, step.
    keys: [i64; 3],
    /// The category of @read or @write, that of @fast or @slow, and @blocking where it applies.
    categories: &'static [&'static str],
    /// The flags of the key specification.
    key_flags: &'static [&'static str],
}

const WRITES: &[&str] = &["write", "denyoom", "fast"];
const GIVES_BACK: &[&str] = &["write", "fast"];
const FAST_WRITE: &[&str] = &["@write", "@fast"];
const ONE: [i64; 3] = [1, 1, 1];
const RW: &[&str] = &["RW", "access", "update"];

pub const COMMANDS: &[Known] = &[
    Known { name: "rl.fixed", arity: -4, flags: WRITES, keys: ONE, categories: FAST_WRITE, key_flags: RW },
    Known { name: "rl.sliding", arity: -4, flags: WRITES, keys: ONE, categories: FAST_WRITE, key_flags: RW },
    Known { name: "rl.token", arity: -5, flags: WRITES, keys: ONE, categories: FAST_WRITE, key_flags: RW },
    Known { name: "rl.leaky", arity: -5, flags: WRITES, keys: ONE, categories: FAST_WRITE, key_flags: RW },
    Known {
        name: "rl.peek",
        arity: -3,
        flags: &["readonly", "fast"],
        keys: ONE,
        categories: &["@read", "@fast"],
        key_flags: &["RO", "access"],
    },
    Known { name: "rl.refund", arity: -3, flags: GIVES_BACK, keys: ONE, categories: FAST_WRITE, key_flags: RW },
    Known { name: "rl.charge", arity: -3, flags: WRITES, keys: ONE, categories: FAST_WRITE, key_flags: RW },
    Known {
        name: "rl.all",
        arity: -3,
        flags: &["write", "denyoom"],
        keys: [1, -1, 2],
        categories: &["@write", "@slow"],
        key_flags: RW,
    },
    Known { name: "rl.acquire", arity: -4, flags: WRITES, keys: ONE, categories: FAST_WRITE, key_flags: RW },
    Known { name: "rl.renew", arity: -4, flags: GIVES_BACK, keys: ONE, categories: FAST_WRITE, key_flags: RW },
    Known { name: "rl.release", arity: -3, flags: GIVES_BACK, keys: ONE, categories: FAST_WRITE, key_flags: RW },
    Known {
        name: "rl.queue",
        arity: -6,
        flags: &["write", "denyoom", "blocking"],
        keys: ONE,
        categories: &["@write", "@slow", "@blocking"],
        key_flags: RW,
    },
];

fn sorted(reply: &Reply) -> Vec<String> {
    let mut words: Vec<_> = reply.list().iter().map(ToString::to_string).collect();
    words.sort();
    words
}

fn sorted_words(words: &[&str]) -> Vec<String> {
    let mut words: Vec<_> = words.iter().map(ToString::to_string).collect();
    words.sort();
    words
}

fn command_info(conn: &mut Conn, name: &str) -> Reply {
    let reply = conn.good(&format!("COMMAND INFO {name}"));
    reply.list()[0].clone()
}

/// Flags decide what a replica, a full memory and an ACL let through; keys decide routing in a cluster.
#[test]
fn command_info_gives_flags_arity_and_keys() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    for known in COMMANDS {
        let info = command_info(&mut conn, known.name);
        let info = info.list();
        assert_eq!(info[0].to_string(), known.name);
        assert_eq!(info[1].int(), known.arity, "arity of {}", known.name);
        assert_eq!(sorted(&info[2]), sorted_words(&[known.flags, &["module"]].concat()), "flags of {}", known.name);
        assert_eq!([info[3].int(), info[4].int(), info[5].int()], known.keys, "keys of {}", known.name);
        let specs = info[8].list();
        assert_eq!(specs.len(), 1, "{} has one key specification", known.name);
        let spec = &specs[0];
        assert_eq!(sorted(spec.field("flags").unwrap()), sorted_words(known.key_flags), "key flags of {}", known.name);
        let begin = spec.field("begin_search").unwrap();
        assert_eq!(begin.to_string(), "type index spec [index 1]", "{}", known.name);
        let (last, step) = if known.name == "rl.all" { (-1, 2) } else { (0, 1) };
        let find = spec.field("find_keys").unwrap();
        assert_eq!(
            find.to_string(),
            format!("type range spec [lastkey {last} keystep {step} limit 0]"),
            "{}",
            known.name
        );
    }
    let top = command_info(&mut conn, "rl.top");
    assert_eq!(sorted(&top.list()[2]), sorted_words(&["loading", "module", "readonly", "stale"]));
    assert_eq!((top.list()[1].int(), top.list()[3].int()), (-1, 0), "RL.TOP has no key");
    let help = command_info(&mut conn, "rl.help");
    let flags = sorted(&help.list()[2]);
    assert!(!flags.contains(&"write".to_owned()), "RL.HELP writes nothing: {flags:?}");
    assert_eq!(help.list()[1].int(), -1, "RL.HELP takes one word or none more");
}

/// From Redis 7.2 a module names its commands' categories; before, they are in none.
#[test]
fn command_info_gives_acl_categories() {
    let test = "manners::command_info_gives_acl_categories";
    let server = Setup::new().start();
    let mut conn = server.conn();
    if !kind().at_least(7, 2) {
        say(&format!("SKIPPED {test}: {} knows no categories of modules' commands", kind().name()));
        let categories = sorted(&command_info(&mut conn, "rl.fixed").list()[6]);
        assert!(!categories.contains(&"@rl".to_owned()), "{categories:?}");
        return;
    }
    let own: &[&str] = if kind().at_least(7, 4) { &["@rl"] } else { &[] };
    for known in COMMANDS {
        let categories = sorted(&command_info(&mut conn, known.name).list()[6]);
        assert_eq!(categories, sorted_words(&[known.categories, own].concat()), "categories of {}", known.name);
    }
    let top = sorted(&command_info(&mut conn, "rl.top").list()[6]);
    assert_eq!(top, ["@dangerous", "@slow"], "categories of rl.top");
    if !own.is_empty() {
        let mut listed = sorted(&conn.good("ACL CAT rl"));
        listed.retain(|name| name != "rl.help");
        assert!(!listed.contains(&"rl.top".to_owned()), "names of keys are not for everybody who may call a limiter");
        assert_eq!(listed, sorted_words(&COMMANDS.iter().map(|known| known.name).collect::<Vec<_>>()));
    }
}

/// Documentation that a client can print: a summary, the version, and arguments with the words a caller types.
#[test]
fn command_docs_give_arguments() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    let names = |reply: &Reply| -> String { reply.field("arguments").map(ToString::to_string).unwrap_or_default() };
    for (name, words) in [
        ("rl.fixed", "key limit period cost COST ALIGN TZ PARTIAL BLOCK duration"),
        ("rl.sliding", "key limit period BUCKETS COST PARTIAL ID id"),
        ("rl.token", "key capacity rate period COST PARTIAL"),
        ("rl.leaky", "key capacity rate period COST PARTIAL SHAPE WITHIN"),
        ("rl.peek", "key FIXED SLIDING TOKEN LEAKY LEASE"),
        ("rl.refund", "key FIXED SLIDING TOKEN LEAKY"),
        ("rl.charge", "key FIXED SLIDING TOKEN LEAKY"),
        ("rl.all", "key rule"),
        ("rl.acquire", "key limit lease ID id"),
        ("rl.renew", "key lease id"),
        ("rl.release", "key id"),
        ("rl.queue", "key capacity rate period max-wait COST"),
        ("rl.top", "COUNT rows"),
        ("rl.help", "command"),
    ] {
        let docs = conn.good(&format!("COMMAND DOCS {name}"));
        let doc = docs.field(name).unwrap_or_else(|| panic!("no documentation of {name}: {docs}"));
        for part in ["summary", "since", "complexity"] {
            let text = doc.field(part).map(ToString::to_string).unwrap_or_default();
            assert!(!text.is_empty(), "{name} has no {part}: {doc}");
        }
        let arguments = names(doc);
        for word in words.split(' ') {
            assert!(arguments.to_lowercase().contains(&word.to_lowercase()), "{name} documents no {word}: {arguments}");
        }
    }
}

/// redis-cli prints the syntax from COMMAND DOCS.
#[test]
fn redis_cli_help_prints_the_syntax() {
    let Some(cli) = cli() else {
        say("SKIPPED manners::redis_cli_help_prints_the_syntax: no redis-cli here");
        return;
    };
    let server = Setup::new().start();
    let shown = Command::new(cli)
        .arg("-s")
        .arg(server.socket())
        .args(["help", "rl.token"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = without_colours(&String::from_utf8_lossy(&shown.stdout)).to_lowercase();
    for word in ["rl.token key capacity rate period", "[cost ", "[partial]", "summary: "] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

/// redis-cli colours its help even when nobody looks.
fn without_colours(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let mut plain = pieces.next().unwrap_or("").to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

/// Cluster clients and proxies ask this for the keys of a command they do not know.
#[test]
fn command_getkeys_finds_every_key() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.expect(
        r#"
        COMMAND GETKEYS RL.FIXED k 5 1m -> k
        COMMAND GETKEYS RL.SLIDING k 5 1m ID k2 -> k
        COMMAND GETKEYS RL.TOKEN k 5 1 1m COST 2 -> k
        COMMAND GETKEYS RL.LEAKY k 5 1 1m SHAPE -> k
        COMMAND GETKEYS RL.PEEK k FIXED 5 1m -> k
        COMMAND GETKEYS RL.PEEK k LEASE 5 -> k
        COMMAND GETKEYS RL.REFUND k TOKEN 5 1 1m -> k
        COMMAND GETKEYS RL.CHARGE k TOKEN 5 1 1m -> k
        COMMAND GETKEYS RL.ALL a "FIXED 5 1m" -> a
        COMMAND GETKEYS RL.ALL a "FIXED 5 1m" b "TOKEN 5 1 1m" c "SLIDING 5 1m" -> a b c
        COMMAND GETKEYS RL.ACQUIRE k 5 1m -> k
        COMMAND GETKEYS RL.RENEW k 1m a b -> k
        COMMAND GETKEYS RL.RELEASE k a b -> k
        COMMAND GETKEYS RL.QUEUE k 5 1 1m 1s -> k
        "#,
    );
}

/// The names are registered in lower case, so that commandstats and the slow log show them as other commands'.
#[test]
fn commandstats_name_the_commands() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.expect("RL.FIXED k 1 1m -> 1 1 0 0 60000");
    conn.expect("rl.fixed k 1 1m -> 0 1 0 * *");
    let stats = info::info(&mut conn, "commandstats");
    let fixed = info::field(&stats, "cmdstat_rl.fixed");
    assert!(fixed.starts_with("calls=2,"), "{fixed}");
    assert!(fixed.contains("failed_calls=0"), "a refusal is no failed call: {fixed}");
}

/// The syntax and the elements' names as text, for somebody at a prompt.
#[test]
fn rl_help_prints_lines_of_text() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    let all = conn.good("RL.HELP");
    for known in COMMANDS {
        let name = known.name.to_uppercase();
        let lines = all.list().iter().map(ToString::to_string);
        assert!(lines.into_iter().any(|line| line.contains(&name)), "RL.HELP does not mention {name}: {all}");
        let one = conn.good(&format!("RL.HELP {}", known.name)).list().to_vec();
        assert!(one.iter().all(|line| matches!(line, Reply::Text(_))), "{one:?}");
        assert!(one.iter().any(|line| line.to_string().contains(&name)), "RL.HELP {name} does not show it: {one:?}");
        let short = known.name.trim_start_matches("rl.");
        assert_eq!(conn.good(&format!("RL.HELP {short}")).list(), one, "the name without its prefix is understood");
    }
    let token = conn.good("RL.HELP rl.token").to_string();
    for word in ["capacity", "COST", "allowed", "limit", "remaining", "wait_ms", "reset_after_ms"] {
        assert!(token.contains(word), "no {word} in {token}");
    }
    assert!(conn.error("RL.HELP nonsense").starts_with("ERR"));
    assert!(conn.error("RL.HELP a b").contains("wrong number of arguments"));
}

fn loaded(conn: &mut Conn) -> bool {
    conn.good("MODULE LIST").list().iter().any(|module| module.field("name").is_some_and(|n| n.to_string() == "rl"))
}

/// All state is in native keys: the module can go and come back, and nothing is lost or left over.
#[test]
fn the_module_unloads_and_loads_fifty_times() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    let path = module_path();
    let load = format!("MODULE LOAD {}", path.display());
    let mut files = 0;
    for round in 1..=50 {
        assert!(loaded(&mut conn), "round {round}");
        let used = conn.ints("RL.FIXED k 1000 1h");
        assert_eq!((used[0], used[2]), (1, 1000 - round), "round {round}: {used:?}");
        conn.good("RL.QUEUE q 100000 100000 1s 1s");
        wait_for("the module to let go", || (!conn.run("MODULE UNLOAD rl").is_error()).then_some(()));
        assert!(!loaded(&mut conn), "round {round}");
        assert!(conn.error("RL.FIXED k 1000 1h").contains("unknown command"), "round {round}");
        conn.expect(&format!("GET k -> {round}"));
        conn.expect(&format!("{load} -> OK"));
        let open = server.open_files();
        assert!(round == 1 || open == files, "round {round}: {files} open files became {open}");
        files = open;
    }
}

/// The log says which version runs and which clock it reads: the first question of every support case.
#[test]
fn the_log_names_version_and_clock() {
    let server: Server = Setup::new().start();
    let log = server.log();
    let line = log.lines().find(|line| line.contains("<rl>") && line.contains("clock"));
    let line = line.unwrap_or_else(|| panic!("no line of the module about its clock in:\n{log}"));
    assert!(line.contains("0.") || line.contains("1."), "no version in {line:?}");
}
