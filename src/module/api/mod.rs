//! The calls of the server's module API that are used here, behind safe types.
//!
//! Apart from the entry points this is the only room with unsafe code. What holds everywhere in it: handlers run on
//! the server's main thread, one at a time; pointers that the server passes to a handler live as long as the handler
//! runs; every function named in [`required`] was found at load, the others are looked at before they are called.

pub mod blocked;
pub mod command;
pub mod key;
pub mod setup;
pub mod text;

use redis_module::raw;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_longlong, c_void};
use std::marker::PhantomData;
use std::ptr;

use crate::commands::reply::Five;
use crate::engine::time::Micros;
use text::{Command, Owned, Word};

/// The server's context of one call.
pub type Context = raw::RedisModuleCtx;
/// A string of the server.
pub type ServerString = raw::RedisModuleString;

/// Calls a function of the API that was found at load.
macro_rules! api {
    ($name:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: `missing` lists the function, and nothing else of this module runs in a server that lacks it; nobody
        // takes it away afterwards. For the call itself, the function's own contract; see the caller.
        unsafe { redis_module::raw::$name.unwrap_unchecked()($($arg),*) }
    };
}
pub(crate) use api;

/// The first function that this module cannot do without and the server does not have.
#[must_use]
pub fn missing() -> Option<&'static str> {
    macro_rules! required {
        ($($name:ident)*) => {
            // SAFETY: plain reads of pointers that the initialisation filled in.
            $(if unsafe { raw::$name }.is_none() { return Some(stringify!($name)); })*
        };
    }
    required! {
        RedisModule_Alloc RedisModule_CreateCommand RedisModule_SetModuleOptions RedisModule_GetCommand
        RedisModule_SetCommandInfo RedisModule_OpenKey RedisModule_CloseKey RedisModule_KeyType
        RedisModule_ValueLength RedisModule_StringDMA RedisModule_StringTruncate RedisModule_GetAbsExpire
        RedisModule_SetAbsExpire RedisModule_UnlinkKey RedisModule_HashGet RedisModule_HashSet
        RedisModule_ScanKey RedisModule_ScanCursorCreate RedisModule_ScanCursorDestroy RedisModule_ZsetAdd
        RedisModule_ZsetRem RedisModule_ZsetScore RedisModule_ZsetFirstInScoreRange
        RedisModule_ZsetLastInScoreRange RedisModule_ZsetRangeCurrentElement RedisModule_ZsetRangeNext
        RedisModule_ZsetRangePrev RedisModule_ZsetRangeEndReached RedisModule_ZsetRangeStop
        RedisModule_CreateString RedisModule_FreeString RedisModule_HoldString RedisModule_StringPtrLen
        RedisModule_Replicate RedisModule_ReplicateVerbatim
        RedisModule_Call RedisModule_FreeCallReply RedisModule_CallReplyType
        RedisModule_CallReplyInteger RedisModule_CallReplyArrayElement RedisModule_CallReplyStringPtr
        RedisModule_NotifyKeyspaceEvent RedisModule_WrongArity RedisModule_ReplyWithError
        RedisModule_ReplyWithArray RedisModule_ReplyWithLongLong RedisModule_ReplyWithStringBuffer
        RedisModule_ReplyWithNull RedisModule_GetContextFlags RedisModule_GetSelectedDb RedisModule_Log
        RedisModule_RegisterNumericConfig RedisModule_RegisterBoolConfig RedisModule_LoadConfigs
        RedisModule_RegisterInfoFunc RedisModule_InfoAddSection RedisModule_InfoAddFieldULongLong
        RedisModule_InfoAddFieldCString
        RedisModule_GetRandomHexChars RedisModule_BlockClient RedisModule_UnblockClient
        RedisModule_SetDisconnectCallback RedisModule_GetBlockedClientPrivateData RedisModule_EventLoopAdd
        RedisModule_EventLoopDel RedisModule_SubscribeToServerEvent
    }
    None
}

/// One call of a command: its context and its words.
#[derive(Clone, Copy)]
pub struct Call<'c> {
    context: *mut Context,
    argv: &'c [Cell<*mut ServerString>],
    lifetime: PhantomData<&'c ()>,
}

impl<'c> Call<'c> {
    /// Takes over what the server passed to a handler.
    ///
    /// # Safety
    /// The arguments are those of a command handler that is running and outlives `'c`.
    #[must_use]
    pub unsafe fn new(context: *mut Context, argv: *mut *mut ServerString, argc: c_int) -> Self {
        let count = usize::try_from(argc).unwrap_or(0);
        // SAFETY: the server passes `argc` valid pointers, in a place of its own that can be written to.
        let argv = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(argv.cast::<Cell<_>>(), count) } };
        Self { context, argv, lifetime: PhantomData }
    }

    /// How many words the call has, the command's name included.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.argv.len()
    }

    /// The context itself.
    #[must_use]
    pub const fn context(&self) -> *mut Context {
        self.context
    }

    /// The words from the `skip`-th on.
    pub fn words(&self, skip: usize) -> impl ExactSizeIterator<Item = &'c [u8]> + Clone + use<'c> {
        self.argv.get(skip..).unwrap_or_default().iter().map(|word| bytes(word.get()))
    }

    /// The `index`-th word, as the server holds it.
    #[must_use]
    pub fn word(&self, index: usize) -> Option<Word<'c>> {
        self.argv.get(index).map(|word| Word::new(word.get()))
    }

    /// Answers with the server's own text for a wrong number of words.
    pub fn wrong_arity(&self) {
        api!(RedisModule_WrongArity(self.context));
    }

    /// Answers with an error.
    pub fn error(&self, text: &str) {
        let text = CString::new(text).unwrap_or_default();
        api!(RedisModule_ReplyWithError(self.context, text.as_ptr()));
    }

    /// Begins an array of `length` elements.
    pub fn array(&self, length: usize) {
        api!(RedisModule_ReplyWithArray(self.context, c_long::try_from(length).unwrap_or(0)));
    }

    /// Answers with an integer.
    pub fn integer(&self, value: i64) {
        api!(RedisModule_ReplyWithLongLong(self.context, c_longlong::from(value)));
    }

    /// Answers with the five integers of a decision.
    pub fn five(&self, five: &Five) {
        self.array(five.len());
        for value in five {
            self.integer(*value);
        }
    }

    /// Answers with bytes.
    pub fn bytes(&self, bytes: &[u8]) {
        api!(RedisModule_ReplyWithStringBuffer(self.context, bytes.as_ptr().cast::<c_char>(), bytes.len()));
    }

    /// Answers with nil.
    pub fn nil(&self) {
        api!(RedisModule_ReplyWithNull(self.context));
    }

    /// Hands an effect to replicas and the append-only file, in the words of a native command.
    #[inline(always)]
    pub fn replicate(&self, command: &Command, words: &[Word<'_>]) {
        let (context, name) = (self.context, command.word());
        let handed_over = match *words {
            [a, b] => self.replicate_reworded([name, a, b]),
            [a, b, c] => self.replicate_reworded([name, a, b, c]),
            [a, b, c, d] => self.replicate_reworded([name, a, b, c, d]),
            [a, b, c, d, e] => self.replicate_reworded([name, a, b, c, d, e]),
            _ => false,
        };
        if handed_over {
            return;
        }
        let command = command.name().as_ptr();
        // Words counted out one by one cost the server less than a vector of them.
        match words {
            [a] => api!(RedisModule_Replicate(context, command, c"s".as_ptr(), a.pointer())),
            [a, b] => api!(RedisModule_Replicate(context, command, c"ss".as_ptr(), a.pointer(), b.pointer())),
            [a, b, c] => {
                let format = c"sss".as_ptr();
                api!(RedisModule_Replicate(context, command, format, a.pointer(), b.pointer(), c.pointer()))
            }
            [a, b, c, d] => {
                let format = c"ssss".as_ptr();
                let (a, b, c, d) = (a.pointer(), b.pointer(), c.pointer(), d.pointer());
                api!(RedisModule_Replicate(context, command, format, a, b, c, d))
            }
            [a, b, c, d, e] => {
                let format = c"sssss".as_ptr();
                let (a, b, c, d, e) = (a.pointer(), b.pointer(), c.pointer(), d.pointer(), e.pointer());
                api!(RedisModule_Replicate(context, command, format, a, b, c, d, e))
            }
            many => {
                // A Word is exactly the server's pointer.
                let vector = many.as_ptr().cast::<*mut ServerString>();
                api!(RedisModule_Replicate(context, command, c"v".as_ptr(), vector, many.len()))
            }
        };
    }

    /// Hands an effect over in the place of the request, if it has as many words; whether it did.
    ///
    /// Of an effect in words of its own the server looks up the command and copies the words before it knows whether
    /// anybody listens, a fifth of the price of RL.FIXED. A request it hands on as it finds it: the very words that the
    /// handler was given. For as long as that takes, the effect's words stand there.
    #[inline(always)]
    fn replicate_reworded<const N: usize>(&self, effect: [Word<'_>; N]) -> bool {
        if self.argv.len() != N || !setup::hands_on_what_stands_there() {
            return false;
        }
        let mut words = effect.map(Word::pointer);
        let swap = |words: &mut [*mut ServerString; N]| {
            for (place, word) in self.argv.iter().zip(words) {
                *word = place.replace(*word);
            }
        };
        swap(&mut words);
        api!(RedisModule_ReplicateVerbatim(self.context));
        swap(&mut words);
        true
    }

    /// Fires a keyspace event.
    pub fn notify(&self, class: c_int, event: &CStr, key: Word<'_>) {
        api!(RedisModule_NotifyKeyspaceEvent(self.context, class, event.as_ptr(), key.pointer()));
    }

    /// The number of elements of a sorted set with scores from `low` (exclusive if asked) to `high`.
    #[must_use]
    pub fn count_in_range(&self, key: Word<'_>, low: &str, high: &str) -> Option<u64> {
        let reply =
            self.ask(c"ZCOUNT", &[key, Owned::new(low.as_bytes()).word(), Owned::new(high.as_bytes()).word()])?;
        reply.integer().and_then(|count| u64::try_from(count).ok())
    }

    /// The score of the element of a rank.
    #[must_use]
    pub fn score_at_rank(&self, key: Word<'_>, rank: u64) -> Option<f64> {
        let rank = Owned::number(rank);
        let with_scores = Owned::new(b"WITHSCORES");
        let reply = self.ask(c"ZRANGE", &[key, rank.word(), rank.word(), with_scores.word()])?;
        std::str::from_utf8(reply.bytes_at(1)?).ok()?.parse().ok()
    }

    fn ask(&self, command: &CStr, words: &[Word<'_>]) -> Option<CallReply> {
        ask(self.context, command, words)
    }

    /// Whether a client of this call must not be blocked.
    #[must_use]
    pub fn denies_blocking(&self) -> bool {
        const UNBLOCKABLE: c_int = 1 | 2 | (1 << 21);
        api!(RedisModule_GetContextFlags(self.context)) & UNBLOCKABLE != 0
    }

    /// The number of the selected database.
    #[must_use]
    pub fn database(&self) -> c_int {
        api!(RedisModule_GetSelectedDb(self.context))
    }
}

/// Calls a command of the server.
fn ask(context: *mut Context, command: &CStr, words: &[Word<'_>]) -> Option<CallReply> {
    let vector = words.as_ptr().cast::<*mut ServerString>();
    let reply = api!(RedisModule_Call(context, command.as_ptr(), c"v".as_ptr(), vector, words.len()));
    (!reply.is_null()).then(|| CallReply(reply))
}

/// Whether the rules of an ACL user name a command that begins so.
///
/// Some servers die of an unload then: they work the users' rules out anew and no longer know the command.
#[must_use]
pub fn acl_names_command(context: *mut Context, prefix: &str) -> bool {
    let Some(users) = ask(context, c"ACL", &[Owned::new(b"LIST").word()]) else { return false };
    let (allowed, denied) = (format!("+{prefix}"), format!("-{prefix}"));
    (0..).map_while(|index| users.bytes_at(index)).any(|rules| {
        rules.split(|byte| *byte == b' ' || *byte == b'(').any(|rule| {
            let begins =
                |with: &str| rule.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()));
            begins(&allowed) || begins(&denied)
        })
    })
}

/// A reply of a command that was called.
struct CallReply(*mut raw::RedisModuleCallReply);

impl CallReply {
    fn integer(&self) -> Option<i64> {
        const INTEGER: c_int = 2;
        (api!(RedisModule_CallReplyType(self.0)) == INTEGER).then(|| api!(RedisModule_CallReplyInteger(self.0)))
    }

    /// The bytes of an element of a flat array.
    fn bytes_at(&self, index: usize) -> Option<&[u8]> {
        const ARRAY: c_int = 3;
        if api!(RedisModule_CallReplyType(self.0)) != ARRAY {
            return None;
        }
        let element = api!(RedisModule_CallReplyArrayElement(self.0, index));
        if element.is_null() {
            return None;
        }
        let mut length = 0;
        let start = api!(RedisModule_CallReplyStringPtr(element, &raw mut length));
        // SAFETY: the bytes belong to the reply, which outlives the borrow.
        (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) })
    }
}

impl Drop for CallReply {
    fn drop(&mut self) {
        api!(RedisModule_FreeCallReply(self.0));
    }
}

/// The bytes of a string of the server.
fn bytes<'c>(string: *mut ServerString) -> &'c [u8] {
    let mut length = 0;
    let start = api!(RedisModule_StringPtrLen(string.cast_const(), &raw mut length));
    // SAFETY: a string of the server has bytes, if only the end of an empty one; the server keeps it for as long as the
    // call runs, and nobody writes to it meanwhile.
    unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) }
}

/// The server's own reading of the clock for this command, if it offers one.
#[must_use]
pub fn cached_clock() -> Option<Micros> {
    // SAFETY: a plain read of a pointer; the function takes nothing and reads a number.
    unsafe { raw::RedisModule_CachedMicroseconds.map(|function| Micros::from_clock(function())) }
}

/// The server's wall clock at this moment, in microseconds, if it tells it.
#[must_use]
pub fn server_clock() -> Option<i64> {
    // SAFETY: a plain read of a pointer; the function takes nothing and reads a number.
    unsafe { raw::RedisModule_Microseconds.map(|function| function()) }
}

/// Writes a line to the server's log, as far as it has one: this also tells what a server lacks.
pub fn log(context: *mut Context, level: &CStr, line: &str) {
    let line = CString::new(line).unwrap_or_default();
    // SAFETY: a plain read of a pointer; the call takes C strings.
    if let Some(function) = unsafe { raw::RedisModule_Log } {
        unsafe { function(context, level.as_ptr(), c"%s".as_ptr(), line.as_ptr()) };
    }
}

/// A null pointer for arguments that are not needed.
const fn nothing() -> *mut c_void {
    ptr::null_mut()
}
