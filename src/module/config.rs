//! Settings: the server keeps, checks and rewrites them; here are their values.

use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use redis_module::raw;

use super::api::Context;
use super::api::setup::{self, Numeric};
use super::{guard, top};
use crate::commands::limit::Settings;

/// A setting and its value, and who is told of a new one.
struct Setting {
    described: Numeric,
    value: AtomicI64,
    changed: fn(u64),
}

impl Setting {
    const fn new(name: &'static std::ffi::CStr, default: i64, min: i64, max: i64) -> Self {
        let described = Numeric { name, default, min, max };
        Self { described, value: AtomicI64::new(default), changed: |_| {} }
    }

    const fn tells(self, changed: fn(u64)) -> Self {
        Self { changed, ..self }
    }

    fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// A setting that is yes or no, no by default; it is read when the module is loaded and stays as it is.
struct Switch {
    name: &'static std::ffi::CStr,
    on: AtomicBool,
}

impl Switch {
    const fn new(name: &'static std::ffi::CStr) -> Self {
        Self { name, on: AtomicBool::new(false) }
    }

    fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }
}

static SLIDING_MAX_LIMIT: Setting = Setting::new(c"sliding-max-limit", 100_000, 1, 10_000_000);
static QUEUE_MAX_WAITING: Setting = Setting::new(c"queue-max-waiting", 1_000, 0, 100_000);
static QUEUE_MAX_WAITING_PER_KEY: Setting = Setting::new(c"queue-max-waiting-per-key", 100, 0, 100_000);
static COMPAT_CELL: Switch = Switch::new(c"compat-cell");
static TOP_SIZE: Setting = Setting::new(c"top-size", 0, 0, 1_000).tells(top::restart);

/// Registers every setting and reads what the operator gave.
///
/// # Errors
/// A setting that the server refused, or values that it did not accept.
pub fn register(context: *mut Context) -> Result<(), String> {
    for setting in [&SLIDING_MAX_LIMIT, &QUEUE_MAX_WAITING, &QUEUE_MAX_WAITING_PER_KEY, &TOP_SIZE] {
        setting.value.store(setting.described.default, Ordering::Relaxed);
        let data = std::ptr::from_ref(setting).cast_mut().cast::<c_void>();
        if !setup::register_setting(context, &setting.described, on_get, on_set, data) {
            return Err(format!("the server refused the setting {:?}", setting.described.name));
        }
    }
    COMPAT_CELL.on.store(false, Ordering::Relaxed);
    let data = std::ptr::from_ref(&COMPAT_CELL).cast_mut().cast::<c_void>();
    if !setup::register_switch(context, COMPAT_CELL.name, on_get_switch, on_set_switch, data) {
        return Err(format!("the server refused the setting {:?}", COMPAT_CELL.name));
    }
    if setup::load_settings(context) { Ok(()) } else { Err("a setting is not accepted".to_owned()) }
}

/// The bounds that the grammar asks for.
#[must_use]
pub fn settings() -> Settings {
    Settings { sliding_max_limit: positive(SLIDING_MAX_LIMIT.get()) }
}

/// Clients that may wait in all queues together.
#[must_use]
pub fn queue_max_waiting() -> u64 {
    positive(QUEUE_MAX_WAITING.get())
}

/// Clients that may wait in the queue of one key.
#[must_use]
pub fn queue_max_waiting_per_key() -> u64 {
    positive(QUEUE_MAX_WAITING_PER_KEY.get())
}

/// Whether redis-cell's command is there too.
#[must_use]
pub fn compat_cell() -> bool {
    COMPAT_CELL.is_on()
}

/// Whether refusals are counted by key.
#[must_use]
pub fn counts_by_key() -> bool {
    TOP_SIZE.get() > 0
}

fn positive(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

unsafe extern "C" fn on_get(_name: *const c_char, data: *mut c_void) -> c_longlong {
    guard::run("config", || {
        // SAFETY: the pointer registered above, to a static.
        unsafe { data.cast_const().cast::<Setting>().as_ref() }.map_or(0, Setting::get)
    })
    .unwrap_or(0)
}

unsafe extern "C" fn on_set(
    _name: *const c_char,
    value: c_longlong,
    data: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard::run("config", || {
        // SAFETY: the pointer registered above, to a static.
        if let Some(setting) = unsafe { data.cast_const().cast::<Setting>().as_ref() } {
            setting.value.store(value, Ordering::Relaxed);
            (setting.changed)(positive(value));
        }
    })
    .map_or(1, |()| 0)
}

unsafe extern "C" fn on_get_switch(_name: *const c_char, data: *mut c_void) -> c_int {
    guard::run("config", || {
        // SAFETY: the pointer registered above, to a static.
        unsafe { data.cast_const().cast::<Switch>().as_ref() }.map_or(0, |switch| c_int::from(switch.is_on()))
    })
    .unwrap_or(0)
}

unsafe extern "C" fn on_set_switch(
    _name: *const c_char,
    value: c_int,
    data: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard::run("config", || {
        // SAFETY: the pointer registered above, to a static.
        if let Some(switch) = unsafe { data.cast_const().cast::<Switch>().as_ref() } {
            switch.on.store(value != 0, Ordering::Relaxed);
        }
    })
    .map_or(1, |()| 0)
}
