//! The words and bounds of the commands that the case files do not show: what is accepted, what is refused, and with
//! which words.

use crate::client::{Conn, Reply};
use crate::harness::{Setup, wait_for};
use crate::info;

/// An error names the word at fault, at most 64 bytes of it, and nothing in it can break the protocol or a terminal.
#[test]
fn errors_show_the_word_cut_and_cleaned() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    let long = "x".repeat(1000);
    let error = conn.error(&format!("RL.FIXED k {long} 1m"));
    assert!(error.starts_with("ERR "), "{error}");
    assert!(error.contains(&"x".repeat(64)) && !error.contains(&"x".repeat(65)), "{error}");
    assert!(error.contains("limit") && error.contains("999999999999999"), "what is accepted: {error}");
    for word in [&b"a\r\nb"[..], b"\x00", b"\xff\xfe", b"\x1b[31m", "\u{2028}".as_bytes()] {
        let as_limit: [&[u8]; 4] = [b"RL.FIXED", b"k", word, b"1m"];
        let as_option: [&[u8]; 5] = [b"RL.FIXED", b"k", b"5", b"1m", word];
        for call in [&as_limit[..], &as_option] {
            let Reply::Error(error) = conn.call(call) else { panic!("{word:?} was taken") };
            assert!(error.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{error:?}");
        }
    }
    conn.expect("PING -> PONG");
}

/// A period without a unit would be seconds to one and milliseconds to another: the error shows the ways to say it.
#[test]
fn a_period_without_a_unit_is_explained() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    for line in ["RL.FIXED k 5 60", "RL.TOKEN k 5 1 60", "RL.SLIDING k 5 60", "RL.LEAKY k 5 1 60", "RL.ACQUIRE k 5 60"]
    {
        let error = conn.error(line);
        assert!(["60ms", "60s", "1m"].iter().all(|way| error.contains(way)), "{line}: {error}");
    }
    conn.expect(
        "
        RL.FIXED k 5 0ms -> ERR*period
        RL.FIXED k 5 3650d -> 1 5 4 0 315360000000
        RL.FIXED k 5 3651d -> ERR*period
        RL.FIXED k 5 522w -> ERR*period
        RL.FIXED k 5 1M -> ERR*period
        RL.FIXED k 5 01m -> ERR*period
        RL.FIXED k 5 1mm -> ERR*period
        RL.FIXED k 5 ms -> ERR*period
        ",
    );
}

/// Options follow in any order and letter case, each at most once, and only where they belong.
#[test]
fn options_stand_in_any_order_and_once() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.expect(
        "
        rl.fixed k 5 1m cost 2 partial -> 2 5 3 0 60000
        Rl.FiXeD k 5 1m PARTIAL Cost 2 -> 2 5 1 0 *
        RL.FIXED d 5 1d TZ +02:00 ALIGN COST 1 -> 1 5 4 0 *
        RL.FIXED k 5 1m PARTIAL PARTIAL -> ERR*PARTIAL
        RL.FIXED k 5 1m ALIGN ALIGN -> ERR*ALIGN
        RL.FIXED k 5 1m BUCKETS 10 -> ERR*BUCKETS
        RL.FIXED k 5 1m ID a -> ERR*ID
        RL.SLIDING k 5 1m ALIGN -> ERR*ALIGN
        RL.SLIDING k 5 1m ID a PARTIAL -> ERR*
        RL.SLIDING k 5 1m ID a ID a -> ERR*ID
        RL.SLIDING k 5 1m BUCKETS 10 BUCKETS 10 -> ERR*BUCKETS
        RL.TOKEN k 5 1 1m SHAPE -> ERR*SHAPE
        RL.TOKEN k 5 1 1m BLOCK 1h -> ERR*BLOCK
        RL.LEAKY k 5 1 1m BLOCK 1h -> ERR*BLOCK
        RL.LEAKY k 5 1 1m SHAPE SHAPE -> ERR*SHAPE
        RL.FIXED k 5 1m BLOCK -> ERR*BLOCK
        RL.FIXED k 5 1m BLOCK 60 -> ERR*60s
        RL.FIXED k 5 1d ALIGN TZ 02:00 -> ERR*TZ
        RL.FIXED k 5 1d ALIGN TZ +24:00 -> ERR*TZ
        RL.FIXED k 5 1d ALIGN TZ +02:60 -> ERR*TZ
        RL.REFUND k FIXED 5 1m PARTIAL -> ERR*PARTIAL
        RL.REFUND k FIXED 5 1m BLOCK 1h -> ERR*BLOCK
        RL.REFUND k SLIDING 5 1m ID a COST 2 -> ERR*
        RL.REFUND k LEAKY 5 1 1m SHAPE -> ERR*SHAPE
        RL.CHARGE k SLIDING 5 1m ID a -> ERR*ID
        RL.CHARGE k TOKEN 5 1 1m PARTIAL -> ERR*PARTIAL
        RL.PEEK k LEASE -> ERR*limit
        RL.PEEK k LEASE 5 1m -> ERR*
        ",
    );
}

/// Every word is judged before a key is opened: a wrong word behind a foreign key is the word's error.
#[test]
fn words_are_judged_before_keys() {
    let server = Setup::new().start();
    server.conn().expect(
        r#"
        RPUSH l a -> 1
        RL.FIXED l x 1m -> ERR*limit
        RL.TOKEN l 5 1 1m COST x -> ERR*cost
        RL.ALL l "FIXED 5 1m" b "FIXED x 1m" -> ERR*limit
        RL.RENEW l 5 a -> ERR*lease
        "#,
    );
}

/// The rule of PEEK and REFUND may stand in one argument, as in RL.ALL, or in several.
#[test]
fn a_rule_in_one_argument_or_in_several() {
    let server = Setup::new().start();
    server.conn().expect(
        r#"
        RL.PEEK k "FIXED 5 1h COST 2" -> 1 5 3 0 3600000
        RL.PEEK k fixed 5 1h cost 2 -> 1 5 3 0 3600000
        RL.FIXED k 5 1h COST 4 -> 1 5 1 0 3600000
        RL.REFUND k "FIXED 5 1h COST 2" -> 2 5 3 0 *
        RL.REFUND k FIXED 5 1h COST 1 -> 1 5 4 0 *
        RL.PEEK k "LEASE 5" -> ERR*
        DEL k -> 1
        RL.PEEK k "LEASE 5" -> 1 5 4 0 0
        "#,
    );
}

#[test]
fn all_takes_sixty_four_rules_and_no_more() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    let call = |count: usize| -> Vec<String> {
        let rules = (0..count).flat_map(|at| [format!("{{k}}{at}"), "FIXED 2 1h".to_owned()]);
        std::iter::once("RL.ALL".to_owned()).chain(rules).collect()
    };
    let reply = conn.call(&call(64));
    assert_eq!((reply.list()[0].int(), reply.list()[2].list().len()), (1, 64), "{reply}");
    assert!(conn.call(&call(65)).to_string().starts_with("ERR"));
    assert_eq!(conn.int("DBSIZE"), 64);
    assert_eq!(conn.good("RL.PEEK {k}64 FIXED 2 1h").ints()[2], 1);
}

/// Key names are bytes, also inside RL.ALL, where a key may look like a rule.
#[test]
fn key_names_are_bytes() {
    let server = Setup::new().start();
    server.conn().expect(
        r#"
        RL.ALL "FIXED 5 1m" "FIXED 1 1m" "\x00\xff{}" "TOKEN 1 1 1m" -> 1 0 [[1 1 0 0 60000] [1 1 0 0 60000]]
        GET "FIXED 5 1m" -> 1
        TYPE "\x00\xff{}" -> hash
        RL.SLIDING "a\x0d\x0ab" 1 1m -> 1 1 0 0 60000
        EXISTS "a\x0d\x0ab" -> 1
        "#,
    );
}

/// An id is any 1 to 128 bytes.
#[test]
fn ids_are_bytes_up_to_a_length() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    let (fits, too_long) = ("i".repeat(128), "i".repeat(129));
    for (command, ending) in [("RL.SLIDING s 5 1h ID", ""), ("RL.ACQUIRE l 5 1h ID", " *")] {
        conn.expect(&format!("{command} {fits} -> 1 5 4 0 3600000{ending}"));
        conn.expect(&format!("{command} {fits} -> 1 5 4 0 *{ending}"));
        conn.expect(&format!("{command} {too_long} -> ERR*ID"));
        conn.expect(&format!("{command} \"\" -> ERR*ID"));
        conn.expect(&format!("{command} \"\\x00 \\xff\" -> 1 5 3 0 3600000{ending}"));
    }
    conn.expect("RL.RELEASE l \"\\x00 \\xff\" -> 1");
    conn.expect("RL.REFUND s SLIDING 5 1h ID \"\\x00 \\xff\" -> 1 5 4 0 *");
    conn.expect(&format!(
        "RL.RENEW l 1h {too_long} -> ERR*id\nRL.RELEASE l {too_long} -> ERR*id\nRL.RELEASE l \"\" -> ERR*id"
    ));
}

/// An id that the server makes is never issued twice, and is what RENEW and RELEASE take.
#[test]
fn made_ids_are_unique() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    let mut ids: Vec<String> = vec![];
    for _ in 0..300 {
        let reply = conn.good("RL.ACQUIRE l 100000 1h");
        ids.push(reply.list()[5].to_string());
    }
    conn.expect(&format!("RL.RENEW l 2h {} -> 250", ids[..250].join(" ")));
    conn.expect(&format!("RL.RELEASE l {} -> 250", ids[..250].join(" ")));
    let gone = ids[250..].to_vec();
    conn.good("FLUSHALL");
    for _ in 0..300 {
        ids.push(conn.good("RL.ACQUIRE l 100000 1h").list()[5].to_string());
    }
    ids.sort();
    let before = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), before, "an id was issued twice");
    assert!(gone.iter().all(|id| !id.is_empty() && id.len() <= 128));
}

#[test]
fn leases_have_bounds() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    let ids = |count: usize| (0..count).map(|at| format!("i{at}")).collect::<Vec<_>>().join(" ");
    conn.expect(
        "
        RL.ACQUIRE l 100001 1h -> ERR*limit
        RL.ACQUIRE l 100000 1h ID a -> 1 100000 99999 0 3600000 a
        RL.ACQUIRE l 5 0ms -> ERR*lease
        RL.ACQUIRE l 5 1h COST 2 -> ERR*COST
        RL.PEEK l LEASE 100001 -> ERR*limit
        RL.RENEW l 1h -> ERR*wrong number of arguments
        RL.RELEASE l -> ERR*wrong number of arguments
        ",
    );
    conn.expect(&format!("RL.RENEW l 1h {} -> 0\nRL.RELEASE l {} -> 0", ids(250), ids(250)));
    conn.expect(&format!("RL.RENEW l 1h {} -> ERR*250\nRL.RELEASE l {} -> ERR*250", ids(251), ids(251)));
}

/// An id that stands twice in one call is one lease.
#[test]
fn an_id_counts_once_per_call() {
    let server = Setup::new().start();
    server.conn().expect(
        "
        RL.ACQUIRE l 5 1h ID a -> 1 5 4 0 3600000 a
        RL.RENEW l 1h a a -> 1
        RL.RELEASE l a a -> 1
        EXISTS l -> 0
        ",
    );
}

/// A limiter's key is a key like any other: it is renamed, copied, dumped and restored, and lives in its database.
#[test]
fn keys_move_like_any_other() {
    let server = Setup::new().aof().start();
    let mut conn = server.conn();
    conn.expect(
        "
        RL.TOKEN t 9 1 1h COST 4 -> 1 9 5 0 14400000
        RENAME t t2 -> OK
        RL.TOKEN t2 9 1 1h -> 1 9 4 0 *
        COPY t2 t3 -> 1
        RL.TOKEN t3 9 1 1h -> 1 9 3 0 *
        RL.PEEK t2 TOKEN 9 1 1h COST 0 -> 1 9 4 0 *
        SELECT 1 -> OK
        RL.TOKEN t2 9 1 1h -> 1 9 8 0 3600000
        SELECT 0 -> OK
        MOVE t3 2 -> 1
        SELECT 2 -> OK
        RL.TOKEN t3 9 1 1h -> 1 9 2 0 *
        ",
    );
    let restarted = server.restart(false, Setup::without_module);
    let mut conn = restarted.conn();
    for (database, key, tokens) in [(0, "t2", 4), (1, "t2", 8), (2, "t3", 2)] {
        conn.good(&format!("SELECT {database}"));
        let held = conn.good(&format!("HGET {key} tokens")).to_string();
        assert!(held.starts_with(&tokens.to_string()), "{key} in database {database}: {held}");
    }
}

/// What calls borrow from the server they give back: thousands of them, good and bad, leave its heap as it was.
#[test]
fn calls_leave_nothing_on_the_servers_heap() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.expect("RPUSH list a -> 1\nHSET hash a b -> 1\nZADD zset 1 a -> 1\nSET text a -> OK");
    let script = r"
        for i = 1, tonumber(ARGV[1]) do
            for _, call in ipairs({
                'RL.FIXED f 999999 1h', 'RL.FIXED f 0 1h', 'RL.FIXED list 9 1h', 'RL.FIXED text 9 1h', 'RL.FIXED f x 1h',
                'RL.SLIDING s 9 1h', 'RL.SLIDING s 9 1h ID a', 'RL.SLIDING zset 9 1h', 'RL.REFUND s SLIDING 9 1h',
                'RL.REFUND s SLIDING 9 1h ID a', 'RL.SLIDING b 9 1h BUCKETS 60', 'RL.REFUND b SLIDING 9 1h BUCKETS 60',
                'RL.SLIDING hash 9 1h BUCKETS 60', 'RL.TOKEN t 999999 1 1h', 'RL.TOKEN t 9 1 1h COST 10', 'RL.TOKEN hash 9 1 1h',
                'RL.LEAKY l 999999 1 1h SHAPE', 'RL.LEAKY hash 9 1 1h', 'RL.QUEUE q 999999 1 1h 1h', 'RL.QUEUE q 9 1 1h 0s',
                'RL.CHARGE t TOKEN 9 1 1h', 'RL.PEEK t TOKEN 9 1 1h', 'RL.PEEK zset LEASE 9', 'RL.ACQUIRE h 9 1h ID a',
                'RL.ACQUIRE h 0 1h', 'RL.ACQUIRE zset 9 1h', 'RL.RENEW h 1h a b', 'RL.RELEASE h a b', 'RL.HELP RL.FIXED',
            }) do
                local words = {}
                for word in string.gmatch(call, '%S+') do words[#words + 1] = word end
                redis.pcall(unpack(words))
            end
            redis.pcall('RL.ALL', 'f', 'FIXED 999999 1h', 'l', 'LEAKY 999999 1 1h')
            redis.pcall('RL.ALL', 'f', 'FIXED 999999 1h', 'x', 'FIXED 0 1h')
            redis.pcall('RL.ALL', 'f', 'FIXED 999999 1h', 'hash', 'TOKEN 9 1 1h')
        end";
    let mut used_after = |times: u32| {
        conn.call(&["EVAL", script, "0", &times.to_string()]);
        conn.good("SCRIPT FLUSH SYNC");
        info::number(&mut conn, "memory", "used_memory")
    };
    used_after(200);
    let before = used_after(200);
    let after = used_after(3000);
    // One string of the smallest kind per call would be a hundred kilobytes.
    assert!(after - before < 50_000, "3000 rounds took {} bytes", after - before);
}

fn is_empty(conn: &mut Conn) -> bool {
    conn.int("DBSIZE") == 0
}

/// Whatever is refused as a word leaves the keyspace as it was; whatever is forgotten leaves it too.
#[test]
fn nothing_stays_behind() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    conn.expect(
        r#"
        RL.FIXED f 5 20ms -> 1 5 4 0 20
        RL.SLIDING s 5 20ms -> 1 5 4 0 20
        RL.SLIDING b 5 20ms BUCKETS 2 -> 1 5 4 0 *
        RL.TOKEN t 5 1 20ms -> 1 5 4 0 20
        RL.LEAKY l 5 1 20ms -> 1 5 4 0 20
        RL.ACQUIRE h 5 20ms ID a -> 1 5 4 0 20 a
        RL.QUEUE q 5 1 20ms 1s -> 1 5 4 0 20
        RL.CHARGE c TOKEN 5 1 20ms COST 9 -> 0 5 0 100 180
        RL.ALL {x}a "FIXED 5 20ms" {x}b "LEAKY 5 1 20ms" -> 1 0 [[1 5 4 0 20] [1 5 4 0 20]]
        "#,
    );
    wait_for("every key to end by itself", || is_empty(&mut conn).then_some(()));
}

/// Units of one instant carry consecutive numbers, also behind a crowd of request ids and beside an entry whose number
/// lies in the future.
#[test]
fn units_of_one_instant_carry_consecutive_numbers() {
    let Some(setup) = Setup::held("units_of_one_instant_carry_consecutive_numbers") else { return };
    let server = setup.start();
    let mut conn = server.conn();
    for _ in 0..4 {
        conn.good("RL.SLIDING k 9999 1h COST 250");
    }
    for id in 0..300 {
        conn.good(&format!("RL.SLIDING k 9999 1h ID {id}"));
    }
    conn.good("RL.SLIDING k 9999 1h COST 2");
    conn.expect("ZCARD k -> 1302");
    conn.expect("ZSCORE k 1767225600000999 -> 1767225600000000");
    conn.expect("ZSCORE k 1767225600001001 -> 1767225600000000");
    conn.expect("ZSCORE k 1767225600001002 -> nil");
    conn.good("ZADD ahead 1767232800000000 1767232800000000");
    for _ in 0..3 {
        conn.good("RL.SLIDING ahead 9 1h");
    }
    conn.expect("ZRANGE ahead 0 -1 -> 1767225600000000 1767225600000001 1767225600000002 1767232800000000");
}

/// A key that is written has an expiry again, whatever an operator took away.
#[test]
fn what_is_left_of_leases_has_an_expiry() {
    let server = Setup::new().start();
    let mut conn = server.conn();
    for write in ["RL.RELEASE k a", "RL.RENEW k 1h b", "RL.ACQUIRE k 9 1h ID c"] {
        conn.good("RL.ACQUIRE k 9 1h ID a");
        conn.good("RL.ACQUIRE k 9 1h ID b");
        conn.expect("PERSIST k -> 1");
        conn.good(write);
        conn.expect("PTTL k -> 3500000..7200001");
    }
}

/// Protects keys from the end of the sixteen digits, in the year 2286: what is written there is read again.
#[test]
fn what_is_written_at_the_end_of_the_clock_is_read_again() {
    let Some(setup) = Setup::held("verbs::what_is_written_at_the_end_of_the_clock_is_read_again") else { return };
    let server = setup.start();
    let mut conn = server.conn();
    server.clock().set_us(9_994_685_779_376_384 - 1_767_225_600_000_000);
    conn.expect(
        r#"
        RL.ACQUIRE a 5 3650d ID x -> 1 5 4 0 * x
        RL.ACQUIRE a 5 1s -> 1 5 3 0 * *
        RL.RENEW a 3650d x -> 1
        RL.RELEASE a x -> 1
        RL.SLIDING b 100 3650d BUCKETS 3 -> 1 100 99 0 *
        RL.SLIDING b 100 3650d BUCKETS 3 -> 1 100 98 0 *
        RL.SLIDING l 100 3650d -> 1 100 99 0 *
        RL.SLIDING l 100 3650d COST 3 -> 1 100 96 0 *
        RL.TOKEN t 100 1 3650d -> 1 100 99 0 *
        RL.TOKEN t 100 1 3650d -> 1 100 98 0 *
        "#,
    );
}
