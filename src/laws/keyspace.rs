//! A keyspace that stands in for the server: a command goes from its words through the grammar, the stored bytes and
//! the engine to the reply, and leaves its effects, in the order that the module keeps.
//!
//! What the module does by the server's interface is done here on values in memory, so that laws can be put to millions
//! of calls. The tests against real servers show that the module itself does the same.

mod apply;
mod load;

use super::model::Answer;
use super::native::{Bytes, Database, Entry, Value, Words};
use crate::commands::limit::{self, Algorithm, Form, Settings};
use crate::commands::table::{self, Keys};
use crate::commands::verbs::{self, Look};
use crate::commands::{error, lease, reply};
use crate::engine::lease::{Acquire, TRIM};
use crate::engine::time::{Micros, Span};
use crate::engine::{self, Ask, Limiter, Loaded, Rule, Verb, Write, moved_expiry};
use crate::storage::record;
use load::{expiry, load, load_holders};

/// The largest limit of a log in these tests.
pub const MOST_IN_LOG: u64 = 1_000;

/// Keys, and what the last call did to them.
#[derive(Clone, Debug, Default)]
pub struct Keyspace {
    pub keys: Database,
    /// The effects of the last call, as native commands.
    pub effects: Vec<Words>,
    /// Keys that the server itself dropped during the last call, because they had expired.
    pub expired: Vec<Bytes>,
    /// Why the last call was refused with an error.
    pub error: String,
    made_ids: u64,
}

type Failed = String;

impl Keyspace {
    /// A command in the words that a client sends, the name first, at this reading of the clock.
    pub fn call(&mut self, now_us: i64, words: &[&[u8]]) -> Answer {
        self.effects.clear();
        self.expired.clear();
        self.error.clear();
        self.run(Micros::from_clock(now_us), words).unwrap_or_else(|error| {
            self.error = error;
            Answer::Refused
        })
    }

    fn run(&mut self, now: Micros, words: &[&[u8]]) -> Result<Answer, Failed> {
        let command = table::find(words[0]).ok_or("ERR unknown command")?;
        let least = usize::try_from(command.arity.unsigned_abs()).unwrap();
        if words.len() < least || (command.arity > 0 && words.len() != least) {
            return Err("ERR wrong number of arguments".to_owned());
        }
        let settings = Settings { sliding_max_limit: MOST_IN_LOG };
        let rest = &mut words.iter().copied().skip(2);
        let key = if command.keys == Keys::None { b"" } else { words[1] };
        match command.name {
            "rl.all" => self.all(now, settings, &words[1..]),
            "rl.peek" => self.peek(now, key, verbs::peek(settings, &mut verbs::spread(rest)).map_err(text)?),
            "rl.queue" => {
                let asked = limit::queue(rest).map_err(text)?;
                let rule = Rule { limiter: Limiter::Leaky(asked.leaky), ask: asked.ask };
                self.one(now, key, Verb::Decide, &rule)
            }
            "rl.refund" => {
                let rule = limit::named_rule(Form::Refund, settings, &mut verbs::spread(rest)).map_err(text)?;
                self.one(now, key, Verb::Refund, &rule)
            }
            "rl.charge" => {
                let rule = limit::named_rule(Form::Charge, settings, &mut verbs::spread(rest)).map_err(text)?;
                self.one(now, key, Verb::Charge, &rule)
            }
            "rl.acquire" => {
                let (rule, id) = lease::acquire(rest).map_err(text)?;
                self.acquire(now, key, &rule, id)
            }
            "rl.renew" => {
                let span = lease::renewal(rest).map_err(text)?;
                lease::ids(words[3..].iter().copied()).map_err(text)?;
                self.renew(now, key, span, &words[3..])
            }
            "rl.release" => {
                lease::ids(words[2..].iter().copied()).map_err(text)?;
                self.release(now, key, &words[2..])
            }
            name => {
                let algorithm = Algorithm::of(name.trim_start_matches("rl.").as_bytes()).ok_or("ERR no limiter")?;
                let rule = limit::rule(algorithm, Form::Decide, settings, rest).map_err(text)?;
                self.one(now, key, Verb::Decide, &rule)
            }
        }
    }

    fn one(&mut self, now: Micros, key: &[u8], verb: Verb, rule: &Rule<'_>) -> Result<Answer, Failed> {
        let loaded = load(self.open(now, key), rule, verb, now)?;
        let (decision, write) = engine::answer(verb, &loaded, rule.ask, now);
        self.apply(key, rule, &write, now);
        Ok(Answer::Five(reply::five(&decision)))
    }

    fn peek(&mut self, now: Micros, key: &[u8], look: Look<'_>) -> Result<Answer, Failed> {
        let entry = self.open(now, key);
        let decision = match look {
            Look::Rule(rule) => {
                let rule = rule.without_block();
                engine::decide(&load(entry, &rule, Verb::Decide, now)?, rule.ask, now).0
            }
            Look::Leases(limit) => {
                let acquire = Acquire { limit, lease: Span::from_ms(1) };
                acquire.peek(&load_holders(entry, &acquire, None, now)?, now)
            }
        };
        Ok(Answer::Five(reply::five(&decision)))
    }

    fn all(&mut self, now: Micros, settings: Settings, words: &[&[u8]]) -> Result<Answer, Failed> {
        let rules = verbs::whole(settings, words.iter().copied()).map_err(text)?;
        let names = || words.iter().step_by(2);
        let mut opened = Vec::new();
        for (key, rule) in names().zip(&rules) {
            opened.push(load(self.open(now, key), rule, Verb::Decide, now)?);
        }
        let decide = |(loaded, rule): (&Loaded<'_>, &Rule<'_>)| engine::decide(loaded, rule.ask, now);
        let mut answers: Vec<_> = opened.iter().zip(&rules).map(decide).collect();
        let allowed = answers.iter().all(|(decision, _)| decision.verdict.is_allow());
        for ((decision, write), (loaded, rule)) in answers.iter_mut().zip(opened.iter().zip(&rules)) {
            if !allowed && decision.verdict.is_allow() {
                *decision = engine::decide(loaded, Ask::NOTHING, now).0;
                *write = if rule.ask.cost == 0 { Write::Keep } else { engine::mend(loaded, rule.ask.cost, now) };
            }
        }
        for ((_, write), (key, rule)) in answers.iter().zip(names().zip(&rules)) {
            self.apply(key, rule, write, now);
        }
        let [allowed, wait] = reply::whole(answers.iter().map(|(decision, _)| decision.verdict));
        let each = answers.iter().map(|(decision, _)| reply::five(decision)).collect();
        Ok(Answer::Whole { allowed, wait, each })
    }

    fn acquire(&mut self, now: Micros, key: &[u8], rule: &Acquire, id: Option<&[u8]>) -> Result<Answer, Failed> {
        let id = id.map_or_else(|| self.make_id(), <[u8]>::to_vec);
        let member = record::lease_member(&id);
        let holders = load_holders(self.open(now, key), rule, Some(member.as_bytes()), now)?;
        let (decision, held) = rule.decide(&holders, now);
        if let Some(held) = held {
            let scored = number(held.end.get());
            self.keys.set(key).add(held.end.get(), member.as_bytes());
            self.effect(&[b"ZADD", key, &scored, member.as_bytes()]);
            self.trim(key, now.get(), held.trim);
            self.move_expiry(key, held.expiry);
        }
        let id = decision.verdict.is_allow().then_some(id);
        Ok(Answer::Lease { five: reply::five(&decision), id })
    }

    /// The id that the next call without one will get.
    pub fn next_id(&self) -> Bytes {
        format!("made-{}", self.made_ids).into_bytes()
    }

    fn make_id(&mut self) -> Bytes {
        let id = self.next_id();
        self.made_ids += 1;
        id
    }

    fn renew(&mut self, now: Micros, key: &[u8], span: Span, ids: &[&[u8]]) -> Result<Answer, Failed> {
        let (running, _) = self.running(now, key, ids)?;
        if !running.is_empty() {
            let end = now.plus(span).get();
            let scored = number(end);
            for member in &running {
                self.keys.set(key).add(end, member);
            }
            let pairs = running.iter().flat_map(|member| [scored.as_slice(), member.as_slice()]);
            self.effect(&[b"ZADD".as_slice(), key].into_iter().chain(pairs).collect::<Vec<_>>());
            self.trim(key, now.get(), TRIM);
            self.outlive_leases(now, key, span);
        }
        Ok(count(running.len()))
    }

    /// Moves the expiry behind the last end, where it lies before or is missing.
    fn outlive_leases(&mut self, now: Micros, key: &[u8], slack: Span) {
        let last = self.keys.set(key).iter().next_back().map_or(now.get(), |(score, _)| score);
        let needed = Micros::from_clock(last).since(now);
        let current = self.keys.get(key).and_then(expiry);
        self.move_expiry(key, moved_expiry(current, now, needed, || slack));
    }

    fn release(&mut self, now: Micros, key: &[u8], ids: &[&[u8]]) -> Result<Answer, Failed> {
        let (running, live) = self.running(now, key, ids)?;
        if !running.is_empty() && u64::try_from(running.len()).unwrap() >= live {
            self.drop_key(key);
        } else if !running.is_empty() {
            for member in &running {
                self.keys.set(key).remove(member);
            }
            self.effect_on(b"ZREM", key, &running);
            self.trim(key, now.get(), TRIM);
            self.outlive_leases(now, key, Span::ZERO);
        }
        Ok(count(running.len()))
    }

    /// The members among these ids whose leases run, each once, and how many leases run in all.
    fn running(&mut self, now: Micros, key: &[u8], ids: &[&[u8]]) -> Result<(Vec<Bytes>, u64), Failed> {
        let any = Acquire { limit: 0, lease: Span::ZERO };
        let entry = self.open(now, key);
        let live = load_holders(entry, &any, None, now)?.live;
        let Some(Entry { value: Value::Set(set), .. }) = entry else { return Ok((Vec::new(), 0)) };
        let mut members: Vec<Bytes> = ids.iter().map(|id| record::lease_member(id).as_bytes().to_vec()).collect();
        members.sort();
        members.dedup();
        members.retain(|member| set.score(member).is_some_and(|end| end > now.get()));
        Ok((members, live))
    }

    /// The key as the server opens it: one that has expired goes first.
    fn open(&mut self, now: Micros, key: &[u8]) -> Option<&Entry> {
        if self.keys.has_expired(key, now.floor_ms().get()) {
            self.keys.remove(key);
            self.expired.push(key.to_vec());
        }
        self.keys.get(key)
    }
}

fn text(fault: error::Fault) -> Failed {
    fault.text().to_owned()
}

/// A decimal number, as the module writes it.
fn number(value: i64) -> Bytes {
    record::signed(value).as_bytes().to_vec()
}

fn count(touched: usize) -> Answer {
    Answer::Count(i64::try_from(touched).unwrap())
}
