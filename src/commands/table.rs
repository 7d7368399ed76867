//! Every command once: name, arity, flags, keys, arguments and what it does.
//!
//! Registration, COMMAND DOCS, RL.HELP and the test of the reference documentation all read this table.

/// Where a command's keys stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// It has none.
    None,
    /// Its first argument.
    First,
    /// Every second argument.
    EverySecond,
}

/// What a command does to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads them.
    Read,
    /// Reads and changes them.
    Update,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A key.
    Key,
    /// A whole number.
    Integer,
    /// Any other word.
    Word,
    /// An option that has no value.
    Token,
    /// One of several.
    OneOf(&'static [Arg]),
    /// Several, one after another.
    Block(&'static [Arg]),
}

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Its name.
    pub name: &'static str,
    /// The word in front of it, if it is an option.
    pub token: Option<&'static str>,
    /// What it is.
    pub kind: Kind,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether it may be repeated.
    pub multiple: bool,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its name as it is registered, in lower case.
    pub name: &'static str,
    /// Words of a call, the name included; negative: at least so many.
    pub arity: i32,
    /// Its flags as the server reads them.
    pub flags: &'static str,
    /// Where its keys stand.
    pub keys: Keys,
    /// What it does to them.
    pub access: Access,
    /// Its arguments.
    pub args: &'static [Arg],
    /// What it does.
    pub summary: &'static str,
    /// What a call costs.
    pub complexity: &'static str,
    /// The names of the reply's elements.
    pub reply: &'static str,
}

const fn word(name: &'static str) -> Arg {
    Arg { name, token: None, kind: Kind::Word, optional: false, multiple: false }
}

const fn integer(name: &'static str) -> Arg {
    Arg { kind: Kind::Integer, ..word(name) }
}

const fn option(token: &'static str, name: &'static str, kind: Kind) -> Arg {
    Arg { name, token: Some(token), kind, optional: true, multiple: false }
}

const fn one_of(name: &'static str, args: &'static [Arg]) -> Arg {
    Arg { kind: Kind::OneOf(args), ..word(name) }
}

const fn plain_token(token: &'static str) -> Arg {
    Arg { token: Some(token), kind: Kind::Token, ..word(token) }
}

const fn many(arg: Arg) -> Arg {
    Arg { multiple: true, ..arg }
}

const KEY: Arg = Arg { kind: Kind::Key, ..word("key") };
const LIMIT: Arg = integer("limit");
const CAPACITY: Arg = integer("capacity");
const RATE: Arg = integer("rate");
const PERIOD: Arg = word("period");
const COST: Arg = option("COST", "cost", Kind::Integer);
const PARTIAL: Arg = option("PARTIAL", "partial", Kind::Token);
const ID: Arg = option("ID", "id", Kind::Word);
const TZ: Arg = option("TZ", "offset", Kind::Word);
const BLOCK: Arg = option("BLOCK", "block-duration", Kind::Word);
const BUCKETS: Arg = option("BUCKETS", "sub-windows", Kind::Integer);
const WITHIN: Arg = option("WITHIN", "within-duration", Kind::Word);
const ALIGN: Arg = Arg { optional: true, ..Arg { kind: Kind::Block(&[plain_token("ALIGN"), TZ]), ..word("align") } };
const SHAPE: Arg =
    Arg { optional: true, ..Arg { kind: Kind::Block(&[plain_token("SHAPE"), WITHIN]), ..word("shape") } };
const MEMORY: Arg =
    Arg { optional: true, ..one_of("identity", &[Arg { optional: false, ..ID }, Arg { optional: false, ..BUCKETS }]) };
const ALGORITHM: Arg =
    one_of("algorithm", &[plain_token("FIXED"), plain_token("SLIDING"), plain_token("TOKEN"), plain_token("LEAKY")]);
const LOOK: Arg = one_of(
    "algorithm",
    &[plain_token("FIXED"), plain_token("SLIDING"), plain_token("TOKEN"), plain_token("LEAKY"), plain_token("LEASE")],
);

const FIVE: &str = "allowed limit remaining wait_ms reset_after_ms";

/// The flags of a limiter.
const DECIDES: &str = "write deny-oom fast";

const FIXED: Command = Command {
    name: "rl.fixed",
    arity: -4,
    flags: DECIDES,
    keys: Keys::First,
    access: Access::Update,
    args: &[KEY, LIMIT, PERIOD, COST, ALIGN, PARTIAL, BLOCK],
    summary: "Admits at most limit units per window.",
    complexity: "O(1)",
    reply: FIVE,
};

/// All commands.
pub const COMMANDS: &[Command] = &[
    FIXED,
    Command {
        name: "rl.sliding",
        args: &[KEY, LIMIT, PERIOD, COST, PARTIAL, MEMORY],
        summary: "Admits at most limit units in any period, by an exact log or in sub-windows.",
        complexity: "O(log(N)+cost) with N the units in the window; O(b) with BUCKETS b",
        ..FIXED
    },
    Command {
        name: "rl.token",
        arity: -5,
        args: &[KEY, CAPACITY, RATE, PERIOD, COST, PARTIAL],
        summary: "Admits a burst of capacity units, then rate units per period.",
        ..FIXED
    },
    Command {
        name: "rl.leaky",
        arity: -5,
        args: &[KEY, CAPACITY, RATE, PERIOD, COST, PARTIAL, SHAPE],
        summary: "Raises a level that drains at rate per period, refuses an overflow, or with SHAPE says when to go.",
        ..FIXED
    },
    Command {
        name: "rl.queue",
        arity: -6,
        flags: "write deny-oom blocking",
        args: &[KEY, CAPACITY, RATE, PERIOD, word("max-wait"), COST],
        summary: "As RL.LEAKY with SHAPE, and holds the reply back until the caller's turn.",
        complexity: "O(log(N)) with N the clients that wait",
        ..FIXED
    },
    Command {
        name: "rl.peek",
        arity: -3,
        flags: "readonly fast",
        access: Access::Read,
        args: &[KEY, LOOK, many(word("argument"))],
        summary: "Says what a call would get, without taking anything.",
        complexity: "As the limiter's",
        ..FIXED
    },
    Command {
        name: "rl.refund",
        arity: -3,
        flags: "write fast",
        args: &[KEY, ALGORITHM, many(word("argument"))],
        summary: "Gives back units of work that did not happen.",
        complexity: "As the limiter's",
        reply: "returned limit remaining wait_ms reset_after_ms",
        ..FIXED
    },
    Command {
        name: "rl.charge",
        arity: -3,
        args: &[KEY, ALGORITHM, many(word("argument"))],
        summary: "Books units whether or not they fit, for work whose cost is known only afterwards.",
        complexity: "As the limiter's",
        reply: "within limit remaining wait_ms reset_after_ms",
        ..FIXED
    },
    Command {
        name: "rl.all",
        arity: -3,
        flags: "write deny-oom",
        keys: Keys::EverySecond,
        args: &[many(Arg { kind: Kind::Block(&[KEY, word("rule")]), ..word("limit") })],
        summary: "Admits under all rules or under none.",
        complexity: "The sum of the rules'",
        reply: "allowed wait_ms [allowed limit remaining wait_ms reset_after_ms ...]",
        ..FIXED
    },
    Command {
        name: "rl.acquire",
        args: &[KEY, LIMIT, word("lease"), ID],
        summary: "Takes one of limit places for the time of a lease.",
        complexity: "O(log(N)) with N the holders",
        reply: "acquired limit remaining wait_ms reset_after_ms id",
        ..FIXED
    },
    Command {
        name: "rl.renew",
        arity: -4,
        flags: "write fast",
        args: &[KEY, word("lease"), many(word("id"))],
        summary: "Lets leases that still run start anew.",
        complexity: "O(M*log(N)) with M the ids and N the holders",
        reply: "renewed",
        ..FIXED
    },
    Command {
        name: "rl.release",
        arity: -3,
        flags: "write fast",
        args: &[KEY, many(word("id"))],
        summary: "Gives places back before their leases end.",
        complexity: "O(M*log(N)) with M the ids and N the holders",
        reply: "released",
        ..FIXED
    },
    Command {
        name: "rl.top",
        arity: -1,
        flags: "readonly allow-loading allow-stale",
        keys: Keys::None,
        access: Access::Read,
        args: &[option("COUNT", "rows", Kind::Integer)],
        summary: "Lists the keys that are refused most right now.",
        complexity: "O(N) with N the rows shown",
        reply: "[key refused error ...]",
    },
    Command {
        name: "rl.help",
        arity: -1,
        flags: "fast allow-loading allow-stale",
        keys: Keys::None,
        access: Access::Read,
        args: &[Arg { optional: true, ..word("command") }],
        summary: "Lists the commands and the elements of their replies.",
        complexity: "O(1)",
        reply: "lines of text",
    },
];

/// The command of redis-cell, which is there only where `rl.compat-cell` says so.
pub const THROTTLE: Command = Command {
    name: "cl.throttle",
    arity: -5,
    args: &[
        KEY,
        integer("max_burst"),
        integer("count_per_period"),
        integer("period"),
        Arg { optional: true, ..integer("quantity") },
    ],
    summary: "Admits a burst of max_burst + 1 units, then count_per_period units per period, as redis-cell does.",
    reply: "limited limit remaining retry_after reset_after",
    ..FIXED
};

/// The commands that a server gets.
pub fn registered(compat_cell: bool) -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().chain(compat_cell.then_some(&THROTTLE))
}

/// The command of a name, in any letter case, with or without `RL.`.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.is_called(name))
}

impl Command {
    /// Whether this is its name, in any letter case, with or without `RL.`.
    #[must_use]
    pub fn is_called(&self, name: &[u8]) -> bool {
        let full = self.name.as_bytes();
        name.eq_ignore_ascii_case(full)
            || full.strip_prefix(b"rl.").is_some_and(|short| name.eq_ignore_ascii_case(short))
    }

    /// The command and its arguments as documentation writes them.
    #[must_use]
    pub fn syntax(&self) -> String {
        let mut text = self.name.to_ascii_uppercase();
        for arg in self.args {
            text.push(' ');
            text.push_str(&arg.syntax());
        }
        text
    }

    /// The categories that it belongs to on servers that know them.
    #[must_use]
    pub fn categories(&self) -> String {
        let has = |flag| self.flags.split(' ').any(|word| word == flag);
        let mut names = Vec::new();
        if has("write") {
            names.push("write");
        } else if has("readonly") && self.keys == Keys::None {
            // It reads the server's own books, where names of keys stand that a user's patterns may hide.
            names.push("dangerous");
        } else if has("readonly") {
            names.push("read");
        }
        names.push(if has("fast") { "fast" } else { "slow" });
        if has("blocking") {
            names.push("blocking");
        }
        names.join(" ")
    }

    /// Whether it belongs to the category of the limiters, which is granted to those who may call them on their keys.
    #[must_use]
    pub fn is_for_callers(&self) -> bool {
        !self.categories().contains("dangerous")
    }

    /// Syntax, summary and reply as lines of text.
    #[must_use]
    pub fn help(&self) -> [String; 3] {
        [self.syntax(), format!("    {}", self.summary), format!("    reply: {}", self.reply)]
    }
}

impl Arg {
    fn syntax(&self) -> String {
        let inner = match self.kind {
            Kind::Token => String::new(),
            Kind::OneOf(args) => {
                let choices: Vec<_> = args.iter().map(Self::syntax).collect();
                if self.optional { choices.join(" | ") } else { format!("<{}>", choices.join(" | ")) }
            }
            Kind::Block(args) => args.iter().map(Self::syntax).collect::<Vec<_>>().join(" "),
            Kind::Key | Kind::Integer | Kind::Word => self.name.to_owned(),
        };
        let mut text = match (self.token, inner.is_empty()) {
            (Some(token), true) => token.to_owned(),
            (Some(token), false) => format!("{token} {inner}"),
            (None, _) => inner,
        };
        if self.multiple {
            text = format!("{text} [{text} ...]");
        }
        if self.optional { format!("[{text}]") } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syntax(name: &str) -> String {
        find(name.as_bytes()).unwrap().syntax()
    }

    #[test]
    fn the_syntax_is_that_of_the_reference() {
        assert_eq!(
            syntax("RL.FIXED"),
            "RL.FIXED key limit period [COST cost] [ALIGN [TZ offset]] [PARTIAL] [BLOCK block-duration]"
        );
        assert_eq!(
            syntax("sliding"),
            "RL.SLIDING key limit period [COST cost] [PARTIAL] [ID id | BUCKETS sub-windows]"
        );
        assert_eq!(
            syntax("leaky"),
            "RL.LEAKY key capacity rate period [COST cost] [PARTIAL] [SHAPE [WITHIN within-duration]]"
        );
        assert_eq!(syntax("all"), "RL.ALL key rule [key rule ...]");
        assert_eq!(syntax("release"), "RL.RELEASE key id [id ...]");
        assert_eq!(syntax("peek"), "RL.PEEK key <FIXED | SLIDING | TOKEN | LEAKY | LEASE> argument [argument ...]");
    }

    #[test]
    fn categories_follow_from_the_flags() {
        let categories = |name: &str| find(name.as_bytes()).unwrap().categories();
        assert_eq!(categories("fixed"), "write fast");
        assert_eq!(categories("all"), "write slow");
        assert_eq!(categories("queue"), "write slow blocking");
        assert_eq!(categories("peek"), "read fast");
        assert_eq!(categories("top"), "dangerous slow");
        assert_eq!(categories("help"), "fast");
    }
}
