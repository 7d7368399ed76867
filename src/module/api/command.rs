//! Registers the commands of the table with the server: flags, keys, documentation, categories.

use redis_module::raw;
use std::ffi::{CString, c_char, c_int};
use std::mem;
use std::ptr;

use super::{Context, api};
use crate::commands::table::{Access, Arg, Command, Keys, Kind};

/// A handler as the server calls it.
pub type Handler = unsafe extern "C" fn(*mut Context, *mut *mut raw::RedisModuleString, c_int) -> c_int;

/// The category that all commands share, where servers know categories of modules.
pub const CATEGORY: &str = "rl";

static INFO_VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// Keeps what the documentation points to until the server has copied it.
#[derive(Default)]
struct Kept {
    strings: Vec<CString>,
    lists: Vec<Vec<raw::RedisModuleCommandArg>>,
}

impl Kept {
    fn string(&mut self, text: &str) -> *const c_char {
        let text = CString::new(text).unwrap_or_default();
        let pointer = text.as_ptr();
        self.strings.push(text);
        pointer
    }

    /// The server's form of a list of arguments, with a zeroed one at its end.
    fn args(&mut self, args: &[Arg]) -> *mut raw::RedisModuleCommandArg {
        let mut list: Vec<_> = args.iter().map(|arg| self.arg(arg)).collect();
        // SAFETY: an argument is plain data, and all zeroes is the API's mark for the end of a list.
        list.push(unsafe { mem::zeroed() });
        let pointer = list.as_mut_ptr();
        self.lists.push(list);
        pointer
    }

    fn arg(&mut self, arg: &Arg) -> raw::RedisModuleCommandArg {
        const OPTIONAL: c_int = 1;
        const MULTIPLE: c_int = 2;
        let (kind, key_spec_index, subargs) = match arg.kind {
            Kind::Key => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY, 0, ptr::null_mut()),
            Kind::Integer => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER, -1, ptr::null_mut()),
            Kind::Word => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING, -1, ptr::null_mut()),
            Kind::Token => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN, -1, ptr::null_mut()),
            Kind::OneOf(args) => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF, -1, self.args(args)),
            Kind::Block(args) => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK, -1, self.args(args)),
        };
        raw::RedisModuleCommandArg {
            name: self.string(arg.name),
            type_: kind,
            key_spec_index,
            token: arg.token.map_or(ptr::null(), |token| self.string(token)),
            summary: ptr::null(),
            since: ptr::null(),
            flags: if arg.optional { OPTIONAL } else { 0 } | if arg.multiple { MULTIPLE } else { 0 },
            deprecated_since: ptr::null(),
            subargs,
            display_text: ptr::null(),
        }
    }
}

/// Announces the shared category, where the server can; one that is there already is as good.
pub fn add_category(context: *mut Context) {
    // SAFETY: the pointer is looked at first; the call itself takes a C string.
    if let Some(function) = unsafe { raw::RedisModule_AddACLCategory } {
        let name = CString::new(CATEGORY).unwrap_or_default();
        unsafe { function(context, name.as_ptr()) };
    }
}

/// Registers one command.
///
/// # Errors
/// What the server refused.
pub fn register(context: *mut Context, command: &Command, handler: Handler) -> Result<(), String> {
    let name = CString::new(command.name).unwrap_or_default();
    let (first, last, step) = match command.keys {
        Keys::None => (0, 0, 0),
        Keys::First => (1, 1, 1),
        Keys::EverySecond => (1, -1, 2),
    };
    // Some servers do not know the flag that names a blocking command: there it is registered without.
    let without_blocking = command.flags.replace(" blocking", "");
    let created = [command.flags, without_blocking.as_str()].into_iter().any(|flags| {
        let flags = CString::new(flags).unwrap_or_default();
        api!(RedisModule_CreateCommand(context, name.as_ptr(), Some(handler), flags.as_ptr(), first, last, step)) == 0
    });
    if !created {
        return Err(format!("the server refused the command {}", command.name));
    }
    let handle = api!(RedisModule_GetCommand(context, name.as_ptr()));
    if handle.is_null() {
        return Err(format!("the server does not find the command {}", command.name));
    }
    describe(handle, command)?;
    categorise(handle, command);
    Ok(())
}

fn describe(handle: *mut raw::RedisModuleCommand, command: &Command) -> Result<(), String> {
    let mut kept = Kept::default();
    // SAFETY: plain data; all zeroes ends the list.
    let mut key_specs: [raw::RedisModuleCommandKeySpec; 2] = unsafe { mem::zeroed() };
    let has_keys = command.keys != Keys::None;
    if let (true, [spec, _]) = (has_keys, &mut key_specs) {
        spec.flags = match command.access {
            Access::Read => u64::from(raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS),
            Access::Update => u64::from(
                raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE,
            ),
        };
        let (lastkey, keystep) = if command.keys == Keys::EverySecond { (-1, 2) } else { (0, 1) };
        spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
        spec.bs.index.pos = 1;
        spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        spec.fk.range.lastkey = lastkey;
        spec.fk.range.keystep = keystep;
        spec.fk.range.limit = 0;
    }
    let info = raw::RedisModuleCommandInfo {
        version: &raw const INFO_VERSION,
        summary: kept.string(command.summary),
        complexity: kept.string(command.complexity),
        since: kept.string(env!("CARGO_PKG_VERSION")),
        history: ptr::null_mut(),
        tips: kept.string("nondeterministic_output"),
        arity: command.arity,
        key_specs: if has_keys { key_specs.as_mut_ptr() } else { ptr::null_mut() },
        args: kept.args(command.args),
    };
    if api!(RedisModule_SetCommandInfo(handle, &raw const info)) == 0 {
        Ok(())
    } else {
        Err(format!("the server refused the documentation of {}", command.name))
    }
}

/// Names the categories, where the server knows those of modules' commands.
fn categorise(handle: *mut raw::RedisModuleCommand, command: &Command) {
    // SAFETY: plain reads of pointers.
    let (set, add) = unsafe { (raw::RedisModule_SetCommandACLCategories, raw::RedisModule_AddACLCategory) };
    let Some(set) = set else { return };
    let mut names = command.categories();
    if add.is_some() && command.is_for_callers() {
        names = format!("{names} {CATEGORY}");
    }
    let names = CString::new(names).unwrap_or_default();
    // SAFETY: the handle is this command's, the names a C string.
    unsafe { set(handle, names.as_ptr()) };
}
