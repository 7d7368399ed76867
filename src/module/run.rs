//! THE ORDER of the steps of a command; nobody else knows it.
//!
//! Words are judged first, all of them. Then the clock is read, once; the keys are opened and their states loaded; the
//! engine decides. Up to there everything may fail and nothing has been written. Then the writes are applied and handed
//! to replicas, the keys closed, watchers and listeners told, the verdict counted and the reply written, once.

use super::api::Call;
use super::api::key::{Key, Mode};
use super::info::{COUNTERS, Tally};
use super::keys::{self, Foreign, Kept};
use super::replicate::Trace;
use super::{clock, config, guard, top};
use crate::commands::error::Fault;
use crate::commands::limit::{self, Form};
use crate::commands::table;
use crate::commands::verbs::{self, Look};
use crate::commands::{lease, reply};
use crate::engine::lease::Acquire;
use crate::engine::{self, Ask, Limiter, Rule, Verb, Write};

/// Why a call is answered with an error.
pub enum Failure {
    /// Its words.
    Words(Fault),
    /// What stands under its key.
    Value(Foreign),
    /// The number of its words.
    Arity,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Words(fault)
    }
}

impl From<Foreign> for Failure {
    fn from(foreign: Foreign) -> Self {
        Self::Value(foreign)
    }
}

impl Failure {
    /// Answers with this error.
    pub fn answer(&self, call: &Call<'_>) {
        match self {
            Self::Words(fault) => call.error(fault.text()),
            Self::Value(text) => call.error(text),
            Self::Arity => call.wrong_arity(),
        }
    }
}

/// What a handler comes to: the reply is written, or this failure is the reply.
pub type Outcome = Result<(), Failure>;

/// RL.FIXED.
pub fn fixed(call: Call<'_>) -> Outcome {
    let (fixed, ask) = limit::fixed(Form::Decide, call.words(2))?;
    one(call, Verb::Decide, &fixed, ask, &COUNTERS.fixed)
}

/// RL.SLIDING.
pub fn sliding(call: Call<'_>) -> Outcome {
    let (limiter, ask) = limit::sliding(Form::Decide, config::settings(), call.words(2))?;
    whichever(call, Verb::Decide, &Rule { limiter, ask })
}

/// RL.TOKEN.
pub fn token(call: Call<'_>) -> Outcome {
    let (token, ask) = limit::token(Form::Decide, call.words(2))?;
    one(call, Verb::Decide, &token, ask, &COUNTERS.token)
}

/// RL.LEAKY.
pub fn leaky(call: Call<'_>) -> Outcome {
    let (leaky, ask) = limit::leaky(Form::Decide, call.words(2))?;
    one(call, Verb::Decide, &leaky, ask, &COUNTERS.leaky)
}

/// RL.REFUND.
pub fn refund(call: Call<'_>) -> Outcome {
    let rule = limit::named_rule(Form::Refund, config::settings(), &mut verbs::spread(call.words(2)))?;
    whichever(call, Verb::Refund, &rule)?;
    COUNTERS.refunds.bump();
    Ok(())
}

/// RL.CHARGE.
pub fn charge(call: Call<'_>) -> Outcome {
    let rule = limit::named_rule(Form::Charge, config::settings(), &mut verbs::spread(call.words(2)))?;
    whichever(call, Verb::Charge, &rule)?;
    COUNTERS.charges.bump();
    Ok(())
}

/// One question to whichever limiter a rule has.
fn whichever(call: Call<'_>, verb: Verb, rule: &Rule<'_>) -> Outcome {
    let ask = rule.ask;
    match &rule.limiter {
        Limiter::Fixed(fixed) => one(call, verb, fixed, ask, &COUNTERS.fixed),
        Limiter::Sliding(sliding) => one(call, verb, sliding, ask, &COUNTERS.sliding),
        Limiter::Buckets(buckets) => one(call, verb, buckets, ask, &COUNTERS.sliding),
        Limiter::Token(token) => one(call, verb, token, ask, &COUNTERS.token),
        Limiter::Leaky(leaky) => one(call, verb, leaky, ask, &COUNTERS.leaky),
    }
}

/// One question to one limiter, answered and replied to.
///
/// What lies on this way is inlined into every handler. Each is one straight piece of code for its own limiter then,
/// and what was read from words and state stays in registers up to the reply.
#[inline(always)]
fn one(call: Call<'_>, verb: Verb, limiter: &impl Kept, ask: Ask, tally: &Tally) -> Outcome {
    let name = call.word(1).ok_or(Failure::Arity)?;
    let now = clock::now();
    let key = Key::open(call, name, Mode::Write);
    guard::inject("key");
    let state = limiter.load(&key, verb, ask, now)?;
    let (decision, write) = limiter.answer(verb, &state, ask, now);
    let trace = keys::apply(limiter, &key, &write, now);
    drop(key);
    trace.tell(call, name);
    tally.count(decision.verdict, name, now);
    call.five(&reply::five(&decision));
    Ok(())
}

/// RL.PEEK.
pub fn peek(call: Call<'_>) -> Outcome {
    let look = verbs::peek(config::settings(), &mut verbs::spread(call.words(2)))?;
    let name = call.word(1).ok_or(Failure::Arity)?;
    let now = clock::now();
    let key = Key::open(call, name, Mode::Read);
    guard::inject("key");
    let decision = match look {
        Look::Rule(rule) => {
            let rule = rule.without_block();
            let loaded = keys::load(&key, &rule, Verb::Decide, now)?;
            engine::decide(&loaded, rule.ask, now).0
        }
        Look::Leases(limit) => {
            let acquire = Acquire { limit, lease: crate::engine::time::Span::from_ms(1) };
            acquire.peek(&keys::load_holders(&key, &acquire, None, now)?, now)
        }
    };
    drop(key);
    COUNTERS.peeks.bump();
    call.five(&reply::five(&decision));
    Ok(())
}

/// RL.ALL.
pub fn all(call: Call<'_>) -> Outcome {
    let rules = verbs::whole(config::settings(), call.words(1))?;
    let now = clock::now();
    let mut opened = Vec::with_capacity(rules.len());
    for (index, rule) in rules.iter().enumerate() {
        let name = call.word(1 + index * 2).ok_or(Failure::Arity)?;
        let key = Key::open(call, name, Mode::Write);
        guard::inject("key");
        let loaded = keys::load(&key, rule, Verb::Decide, now)?;
        opened.push((key, rule, loaded));
    }
    let mut answers: Vec<_> = opened.iter().map(|(_, rule, loaded)| engine::decide(loaded, rule.ask, now)).collect();
    let allowed = answers.iter().all(|(decision, _)| decision.verdict.is_allow());
    if !allowed {
        for ((decision, write), (_, rule, loaded)) in answers.iter_mut().zip(&opened) {
            if decision.verdict.is_allow() {
                *decision = engine::decide(loaded, Ask::NOTHING, now).0;
                *write = if rule.ask.cost == 0 { Write::Keep } else { engine::mend(loaded, rule.ask.cost, now) };
            }
        }
    }
    let traces: Vec<Trace> = opened
        .iter()
        .zip(&answers)
        .map(|((key, rule, _), (_, write))| keys::apply_rule(rule, key, write, now))
        .collect();
    drop(opened);
    for (index, (trace, (decision, _))) in traces.iter().zip(&answers).enumerate() {
        if let Some(name) = call.word(1 + index * 2) {
            trace.tell(call, name);
            // Of a refused whole the rules that refuse, of an allowed one none.
            if !decision.verdict.is_allow() {
                top::refused(name, now);
            }
        }
    }
    let verdicts = answers.iter().map(|(decision, _)| decision.verdict);
    let [allowed, wait] = reply::whole(verdicts);
    match (allowed, wait) {
        (1, _) => COUNTERS.all.allowed.bump(),
        (_, reply::NEVER) => COUNTERS.all.never.bump(),
        _ => COUNTERS.all.refused.bump(),
    }
    call.array(3);
    call.integer(allowed);
    call.integer(wait);
    call.array(answers.len());
    for (decision, _) in &answers {
        call.five(&reply::five(decision));
    }
    Ok(())
}

/// RL.HELP.
pub fn help(call: Call<'_>) -> Outcome {
    let known = || table::registered(config::compat_cell());
    let wanted = match (call.count(), call.words(1).next()) {
        (1, _) => known().collect(),
        (2, Some(name)) => match known().find(|command| command.is_called(name)) {
            Some(command) => vec![command],
            None => {
                let names: Vec<_> = known().map(|command| command.name.to_ascii_uppercase()).collect();
                return Err(Fault::word("command", name, &format!("one of {}", names.join(", "))).into());
            }
        },
        _ => return Err(Failure::Arity),
    };
    let lines: Vec<_> = wanted.into_iter().flat_map(table::Command::help).collect();
    call.array(lines.len());
    for line in &lines {
        call.bytes(line.as_bytes());
    }
    Ok(())
}

/// Judges the ids of RL.RENEW and RL.RELEASE.
pub fn judged_ids<'c>(call: Call<'c>, skip: usize) -> Result<impl Iterator<Item = &'c [u8]> + Clone, Failure> {
    let ids = call.words(skip);
    lease::ids(ids.clone())?;
    Ok(ids)
}
