//! Where the server enters: load, unload, and one function per command.

use std::ffi::c_int;

use super::api::command::{self, Handler};
use super::api::setup;
use super::api::{Call, Context, ServerString, acl_names_command, log, missing, text};
use super::info::COUNTERS;
use super::run::{self, Outcome};
use super::{cell, clock, config, guard, info, leases, queue, top};
use crate::commands::table;

const OK: c_int = 0;
const REFUSED: c_int = 1;

/// Defines the C function of a command: guarded, its errors answered and counted.
macro_rules! handler {
    ($name:ident, $errors:expr, $body:expr) => {
        unsafe extern "C" fn $name(context: *mut Context, argv: *mut *mut ServerString, argc: c_int) -> c_int {
            // SAFETY: what the server passed to this handler, for as long as it runs.
            let call = unsafe { Call::new(context, argv, argc) };
            let body: fn(Call<'_>) -> Outcome = $body;
            match guard::run("command", || body(call)) {
                Some(Ok(())) => {}
                Some(Err(failure)) => {
                    $errors.bump();
                    failure.answer(&call);
                }
                None => call.error(guard::PANICKED),
            }
            OK
        }
    };
}

handler!(on_fixed, COUNTERS.fixed.errors, |call| run::fixed(call));
handler!(on_sliding, COUNTERS.sliding.errors, |call| run::sliding(call));
handler!(on_token, COUNTERS.token.errors, |call| run::token(call));
handler!(on_leaky, COUNTERS.leaky.errors, |call| run::leaky(call));
handler!(on_queue, COUNTERS.queue.errors, |call| queue::queue(call));
handler!(on_peek, COUNTERS.other_errors, |call| run::peek(call));
handler!(on_refund, COUNTERS.other_errors, |call| run::refund(call));
handler!(on_charge, COUNTERS.other_errors, |call| run::charge(call));
handler!(on_all, COUNTERS.all.errors, |call| run::all(call));
handler!(on_acquire, COUNTERS.lease.errors, |call| leases::acquire(call));
handler!(on_renew, COUNTERS.other_errors, |call| leases::renew(call));
handler!(on_release, COUNTERS.other_errors, |call| leases::release(call));
handler!(on_top, COUNTERS.other_errors, |call| top::top(call));
handler!(on_help, COUNTERS.other_errors, |call| run::help(call));
handler!(on_throttle, COUNTERS.cell.errors, |call| cell::throttle(call));

fn handler_of(name: &str) -> Option<Handler> {
    Some(match name {
        "rl.fixed" => on_fixed,
        "rl.sliding" => on_sliding,
        "rl.token" => on_token,
        "rl.leaky" => on_leaky,
        "rl.queue" => on_queue,
        "rl.peek" => on_peek,
        "rl.refund" => on_refund,
        "rl.charge" => on_charge,
        "rl.all" => on_all,
        "rl.acquire" => on_acquire,
        "rl.renew" => on_renew,
        "rl.release" => on_release,
        "rl.top" => on_top,
        "rl.help" => on_help,
        "cl.throttle" => on_throttle,
        _ => return None,
    })
}

/// The version as the module API counts it.
fn version() -> c_int {
    let mut parts = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    next() * 10_000 + next() * 100 + next()
}

fn load(context: *mut Context) -> Result<(), String> {
    setup::learn_server();
    setup::set_options(context);
    info::reset();
    // The settings first: one of them says which commands there are.
    config::register(context)?;
    command::add_category(context);
    for described in table::registered(config::compat_cell()) {
        let handler = handler_of(described.name).ok_or_else(|| format!("{} has no handler", described.name))?;
        command::register(context, described, handler)?;
    }
    setup::register_info(context, info::write);
    queue::start(context)?;
    text::make_constants();
    Ok(())
}

/// Lets go of everything that is kept outside the keyspace.
fn forget() {
    queue::stop();
    top::restart(0);
}

/// Called by the server when the module is loaded.
///
/// # Safety
/// Called by the server with its own arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    context: *mut Context,
    _argv: *mut *mut ServerString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's own context.
    if !unsafe { setup::initialise(context, c"rl", version()) } {
        return REFUSED;
    }
    if let Some(name) = missing() {
        // Older servers have the log function at least.
        log(
            context,
            c"warning",
            &format!("rate limiters {} need Redis 7.0 or newer: this server lacks {name}", env!("CARGO_PKG_VERSION")),
        );
        return REFUSED;
    }
    let outcome = guard::run("load", || {
        if argc > 0 {
            return Err("it takes no arguments, settings are given as rl.NAME in the configuration".to_owned());
        }
        load(context)
    });
    match outcome {
        Some(Ok(())) => {
            let line = format!("rate limiters {} loaded, clock: the {}'s", env!("CARGO_PKG_VERSION"), clock::source());
            log(context, c"notice", &line);
            OK
        }
        Some(Err(reason)) => {
            forget();
            log(context, c"warning", &format!("rate limiters not loaded: {reason}"));
            REFUSED
        }
        None => {
            forget();
            log(context, c"warning", "rate limiters not loaded: internal error");
            REFUSED
        }
    }
}

/// Called by the server when the module is unloaded.
///
/// # Safety
/// Called by the server with its own arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnUnload(context: *mut Context) -> c_int {
    guard::run("unload", || {
        let mut families = ["rl."].into_iter().chain(config::compat_cell().then_some("cl."));
        if let Some(family) = families.find(|family| acl_names_command(context, family)) {
            let rules = format!("rules of an ACL user name {family}* commands");
            log(context, c"warning", &format!("not unloaded: {rules}, take them out first or use +@rl"));
            return REFUSED;
        }
        forget();
        text::free_constants();
        OK
    })
    .unwrap_or(OK)
}
