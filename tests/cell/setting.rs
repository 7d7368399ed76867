//! The setting that brings the command, and the command's manners.

use crate::client::Reply;
use crate::harness::{Setup, kind, module_path};
use crate::{info, theirs};

/// A server that nobody asked for it has no command of somebody else's name.
#[test]
fn the_command_is_there_only_where_the_setting_says_so() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.expect("CONFIG GET rl.compat-cell -> rl.compat-cell no");
    assert!(conn.error("CL.THROTTLE k 15 30 60").contains("unknown command"));
    assert_eq!(conn.error("RL.HELP cl.throttle").split(" is not").next(), Some("ERR command 'cl.throttle'"));
    assert!(!conn.good("RL.HELP").to_string().contains("CL.THROTTLE"));
}

/// A switch at run time would leave a command that nobody registered, so the server refuses it.
#[test]
fn the_setting_is_read_at_load_and_stays() {
    let server = theirs::ours(Setup::new()).start();
    let mut conn = server.conn();
    conn.expect("CONFIG GET rl.compat-cell -> rl.compat-cell yes");
    for value in ["no", "yes", "maybe"] {
        assert!(conn.error(&format!("CONFIG SET rl.compat-cell {value}")).contains("immutable"), "{value}");
    }
    conn.expect("CL.THROTTLE k 15 30 60 -> 0 16 15 -1 2");
    conn.good("CONFIG REWRITE");
    drop(conn);
    let server = server.restart(true, |setup| setup);
    server.conn().expect("CL.THROTTLE k 15 30 60 -> 0 16 15 -1 2");
}

#[test]
fn loadex_takes_the_setting() {
    let server = Setup::new().without_module().start();
    let mut conn = server.conn();
    let path = module_path();
    assert!(conn.run(&format!("MODULE LOADEX {} CONFIG rl.compat-cell maybe", path.display())).is_error());
    conn.expect(&format!("MODULE LOADEX {} CONFIG rl.compat-cell yes -> OK", path.display()));
    conn.expect("CL.THROTTLE k 15 30 60 -> 0 16 15 -1 2");
    conn.expect("MODULE UNLOAD rl -> OK");
    assert!(conn.error("CL.THROTTLE k 15 30 60").contains("unknown command"));
    conn.expect(&format!("MODULE LOAD {} -> OK", path.display()));
    assert!(
        conn.error("CL.THROTTLE k 15 30 60").contains("unknown command"),
        "off again: that load did not ask for it"
    );
}

/// Flags decide what a full memory and a replica let through, keys decide routing in a cluster.
#[test]
fn the_command_introduces_itself() {
    let server = theirs::ours(Setup::new()).start();
    let mut conn = server.conn();
    let reply = conn.good("COMMAND INFO cl.throttle");
    let command = reply.list()[0].list();
    assert_eq!((command[0].to_string().as_str(), command[1].int()), ("cl.throttle", -5));
    let mut flags: Vec<_> = command[2].list().iter().map(ToString::to_string).collect();
    flags.sort();
    assert_eq!(flags, ["denyoom", "fast", "module", "write"]);
    assert_eq!([command[3].int(), command[4].int(), command[5].int()], [1, 1, 1]);
    conn.expect("COMMAND GETKEYS CL.THROTTLE k 15 30 60 -> k");
    if kind().at_least(7, 2) {
        conn.good("ACL SETUSER app on nopass ~k +cl.throttle");
        conn.expect("ACL DRYRUN app CL.THROTTLE k 15 30 60 -> OK");
        assert_ne!(conn.good("ACL DRYRUN app CL.THROTTLE other 15 30 60"), Reply::Text(b"OK".to_vec()));
    }
    let docs = conn.good("COMMAND DOCS cl.throttle").list()[1].field("arguments").unwrap().to_string();
    for name in ["key", "max_burst", "count_per_period", "period", "quantity"] {
        assert!(docs.contains(name), "{docs}");
    }
    let lines = "CL.THROTTLE key max_burst count_per_period period [quantity]";
    for help in ["RL.HELP cl.throttle", "RL.HELP Cl.Throttle"] {
        let help = conn.good(help);
        assert_eq!(help.list()[0].to_string(), lines);
        assert_eq!(help.list()[2].to_string(), "    reply: limited limit remaining retry_after reset_after");
    }
    assert!(conn.good("RL.HELP").to_string().contains(lines));
    assert!(conn.error("RL.HELP nothing").ends_with("RL.RELEASE, RL.TOP, RL.HELP, CL.THROTTLE"));
}

#[test]
fn info_counts_its_verdicts() {
    let server = theirs::ours(Setup::new()).start();
    let mut conn = server.conn();
    for line in ["", "", " 1", " 3"].map(|quantity| format!("CL.THROTTLE k 1 1 3600{quantity}")) {
        conn.good(&line);
    }
    conn.error("CL.THROTTLE k x 1 3600");
    for (verdict, count) in [("allowed", 2), ("refused", 1), ("never", 1), ("errors", 1)] {
        assert_eq!(info::number(&mut conn, "rl", &format!("rl_cell_{verdict}")), count, "{verdict}");
    }
}

/// Two modules cannot own one name: the server says which, and the one that came first goes on.
#[test]
fn beside_redis_cell_the_module_does_not_load() {
    let Some(module) = theirs::module("setting::beside_redis_cell_the_module_does_not_load") else { return };
    let server = theirs::theirs(Setup::new(), &module).start();
    let mut conn = server.conn();
    conn.good("CL.THROTTLE k 15 30 60");
    let path = module_path();
    assert!(conn.run(&format!("MODULE LOADEX {} CONFIG rl.compat-cell yes", path.display())).is_error());
    assert!(server.log().contains("the server refused the command cl.throttle"), "{}", server.log());
    conn.good("CL.THROTTLE k 15 30 60");
    conn.expect(&format!("MODULE LOAD {} -> OK", path.display()));
    conn.expect("RL.FIXED f 5 1m -> 1 5 4 0 60000");
}
