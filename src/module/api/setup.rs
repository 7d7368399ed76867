//! What happens once: initialisation, options, settings, the INFO section, the clock's tick.

use redis_module::raw;
use std::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use super::{Context, api, nothing};

/// A setting: a whole number between bounds.
pub struct Numeric {
    /// Its name behind `rl.`.
    pub name: &'static CStr,
    /// Its value unless somebody sets another.
    pub default: i64,
    /// The smallest.
    pub min: i64,
    /// The largest.
    pub max: i64,
}

/// A getter of a setting as the server calls it.
pub type Getter = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_longlong;
/// A setter of a setting as the server calls it.
pub type Setter =
    unsafe extern "C" fn(*const c_char, c_longlong, *mut c_void, *mut *mut raw::RedisModuleString) -> c_int;
/// A getter of a switch as the server calls it.
pub type SwitchGetter = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int;
/// A setter of a switch as the server calls it.
pub type SwitchSetter =
    unsafe extern "C" fn(*const c_char, c_int, *mut c_void, *mut *mut raw::RedisModuleString) -> c_int;
/// A writer of the INFO section as the server calls it.
pub type InfoWriter = unsafe extern "C" fn(*mut raw::RedisModuleInfoCtx, c_int);
/// A callback of the event loop as the server calls it.
pub type LoopCallback = unsafe extern "C" fn(c_int, *mut c_void, c_int);
/// A callback of a server event as the server calls it.
pub type EventCallback = unsafe extern "C" fn(*mut Context, raw::RedisModuleEvent, u64, *mut c_void);

/// Finds the API's functions and gives the module its name.
///
/// # Safety
/// The context is the one that the server passed to the load function.
#[must_use]
pub unsafe fn initialise(context: *mut Context, name: &CStr, version: c_int) -> bool {
    const API_VERSION: c_int = 1;
    // SAFETY: the caller's promise; the name is a C string.
    unsafe { raw::Export_RedisModule_Init(context, name.as_ptr(), version, API_VERSION) == 0 }
}

/// Whether the server is Valkey.
#[must_use]
pub fn is_valkey() -> bool {
    // SAFETY: a plain read of a pointer; the call takes a name and fills in a pointer that nobody calls.
    unsafe {
        let mut found: *mut c_void = nothing();
        raw::RedisModule_GetApi
            .is_some_and(|get| get(c"ValkeyModule_OpenKey".as_ptr(), (&raw mut found).cast()) == 0 && !found.is_null())
    }
}

/// Whether this server replicates, when asked to replicate a request, the words that stand where the handler got them.
static HANDS_ON_WHAT_STANDS_THERE: AtomicBool = AtomicBool::new(false);

/// Whether this server replicates, when asked to replicate a request, the words that stand where the handler got them.
///
/// Every server has done so since there are modules, yet none promises it, and one that did not would replicate the
/// request itself. So it is relied on up to the newest lines whose stream the tests read, and not beyond.
#[must_use]
pub fn hands_on_what_stands_there() -> bool {
    HANDS_ON_WHAT_STANDS_THERE.load(Ordering::Relaxed)
}

/// Learns which server this is.
pub fn learn_server() {
    /// The last that belongs to the newest line known of Redis, a byte for each part of the version.
    const NEWEST_REDIS: c_int = 0x08_06_ff;
    /// And of Valkey.
    const NEWEST_VALKEY: c_int = 0x09_01_ff;
    let newest = if is_valkey() { NEWEST_VALKEY } else { NEWEST_REDIS };
    // SAFETY: a plain read of a pointer; the function takes nothing and answers a number.
    let version = unsafe { raw::RedisModule_GetServerVersion.map(|function| function()) };
    HANDS_ON_WHAT_STANDS_THERE.store(version.is_some_and(|version| version <= newest), Ordering::Relaxed);
}

/// The options of this module, as they were set at load.
static OPTIONS: AtomicI32 = AtomicI32::new(0);

/// Nobody who watches a key is told of its close.
const NO_IMPLICIT_SIGNAL_MODIFIED: c_int = 1 << 1;

/// Tells the server how this module behaves.
pub fn set_options(context: *mut Context) {
    /// Nothing is kept outside the keyspace that a replica's loading could disturb.
    const HANDLE_REPL_ASYNC_LOAD: c_int = 1 << 2;
    /// Valkey: the commands of effects need not be looked up each time.
    const SKIP_COMMAND_VALIDATION: c_int = 1 << 4;
    /// Valkey: slots may be moved in one piece.
    const HANDLE_ATOMIC_SLOT_MIGRATION: c_int = 1 << 5;
    let mut options = HANDLE_REPL_ASYNC_LOAD;
    if is_valkey() {
        options |= SKIP_COMMAND_VALIDATION | HANDLE_ATOMIC_SLOT_MIGRATION;
    }
    OPTIONS.store(options, Ordering::Relaxed);
    api!(RedisModule_SetModuleOptions(context, options));
}

/// Whether the server shall tell watchers of a key when it is closed.
pub fn signal_at_close(context: *mut Context, signal: bool) {
    let options = OPTIONS.load(Ordering::Relaxed);
    let options = if signal { options } else { options | NO_IMPLICIT_SIGNAL_MODIFIED };
    api!(RedisModule_SetModuleOptions(context, options));
}

/// Registers a setting.
#[must_use]
pub fn register_setting(context: *mut Context, setting: &Numeric, get: Getter, set: Setter, data: *mut c_void) -> bool {
    const DEFAULT: c_uint = 0;
    api!(RedisModule_RegisterNumericConfig(
        context,
        setting.name.as_ptr(),
        setting.default,
        DEFAULT,
        setting.min,
        setting.max,
        Some(get),
        Some(set),
        None,
        data,
    )) == 0
}

/// Registers a setting that is yes or no, no by default, and is read only when the module is loaded.
#[must_use]
pub fn register_switch(
    context: *mut Context,
    name: &CStr,
    get: SwitchGetter,
    set: SwitchSetter,
    data: *mut c_void,
) -> bool {
    const IMMUTABLE: c_uint = 1;
    let (name, no) = (name.as_ptr(), 0);
    api!(RedisModule_RegisterBoolConfig(context, name, no, IMMUTABLE, Some(get), Some(set), None, data)) == 0
}

/// Reads the settings of the configuration file and of the load command.
#[must_use]
pub fn load_settings(context: *mut Context) -> bool {
    api!(RedisModule_LoadConfigs(context)) == 0
}

/// Registers the writer of the INFO section.
pub fn register_info(context: *mut Context, writer: InfoWriter) {
    api!(RedisModule_RegisterInfoFunc(context, Some(writer)));
}

/// A section of INFO that is being written.
pub struct InfoSection(*mut raw::RedisModuleInfoCtx);

impl InfoSection {
    /// Begins the module's section, unless nobody asked for it.
    ///
    /// # Safety
    /// The context is the one that the server passed to the writer.
    #[must_use]
    pub unsafe fn begin(context: *mut raw::RedisModuleInfoCtx) -> Option<Self> {
        let name = c"".as_ptr();
        (api!(RedisModule_InfoAddSection(context, name)) == 0).then_some(Self(context))
    }

    /// Adds a number.
    pub fn number(&self, name: &CStr, value: u64) {
        api!(RedisModule_InfoAddFieldULongLong(self.0, name.as_ptr(), value));
    }

    /// Adds a word.
    pub fn word(&self, name: &CStr, value: &CStr) {
        api!(RedisModule_InfoAddFieldCString(self.0, name.as_ptr(), value.as_ptr()));
    }
}

/// Has a callback called ten times a second or so, whatever the wall clock does.
pub fn on_tick(context: *mut Context, callback: EventCallback) {
    const CRON_LOOP: u64 = 8;
    let event = raw::RedisModuleEvent { id: CRON_LOOP, dataver: 1 };
    api!(RedisModule_SubscribeToServerEvent(context, event, Some(callback)));
}

/// Has a callback called whenever a file descriptor can be read.
#[must_use]
pub fn watch(descriptor: c_int, callback: LoopCallback) -> bool {
    const READABLE: c_int = 1;
    api!(RedisModule_EventLoopAdd(descriptor, READABLE, Some(callback), nothing())) == 0
}

/// Ends a watch.
pub fn unwatch(descriptor: c_int) {
    const READABLE: c_int = 1;
    api!(RedisModule_EventLoopDel(descriptor, READABLE));
}

/// Fills `text` with random hexadecimal digits.
pub fn random_hex(text: &mut [u8]) {
    api!(RedisModule_GetRandomHexChars(text.as_mut_ptr().cast::<c_char>(), text.len()));
}
