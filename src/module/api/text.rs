//! Strings of the server: borrowed words and owned ones.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{ServerString, api, bytes};
use crate::storage::record;

/// A string of the server that somebody else keeps for as long as `'c`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Word<'c>(*mut ServerString, PhantomData<&'c ()>);

impl<'c> Word<'c> {
    pub(super) const fn new(pointer: *mut ServerString) -> Self {
        Self(pointer, PhantomData)
    }

    pub(super) const fn pointer(self) -> *mut ServerString {
        self.0
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(self) -> &'c [u8] {
        bytes(self.0)
    }
}

/// A string of the server that is given back when this is dropped.
pub struct Owned(*mut ServerString);

impl Owned {
    /// A new string.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        let start = text.as_ptr().cast::<c_char>();
        Self(api!(RedisModule_CreateString(ptr::null_mut(), start, text.len())))
    }

    /// A new decimal number.
    #[must_use]
    pub fn number(value: u64) -> Self {
        Self::new(record::number(value).as_bytes())
    }

    /// A new decimal number with its sign.
    #[must_use]
    pub fn signed(value: i64) -> Self {
        Self::new(record::signed(value).as_bytes())
    }

    /// One more owner of a word, which is not copied.
    #[must_use]
    pub fn hold(word: Word<'_>) -> Self {
        Self(api!(RedisModule_HoldString(ptr::null_mut(), word.pointer())))
    }

    /// Takes over a string that the server gave away.
    pub(super) fn take(pointer: *mut ServerString) -> Option<Self> {
        // Lazily: a string made from a null pointer would be freed on the spot.
        (!pointer.is_null()).then(|| Self(pointer))
    }

    /// This string as a word.
    #[must_use]
    pub const fn word(&self) -> Word<'_> {
        Word::new(self.0)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytes(self.0)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        api!(RedisModule_FreeString(ptr::null_mut(), self.0));
    }
}

/// A word that is made once at load and lives until unload.
pub struct Constant {
    text: &'static [u8],
    made: AtomicPtr<ServerString>,
}

impl Constant {
    const fn new(text: &'static [u8]) -> Self {
        Self { text, made: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The word.
    #[must_use]
    pub fn word(&self) -> Word<'static> {
        Word::new(self.made.load(Ordering::Relaxed))
    }

    fn make(&self) {
        let made = Owned::new(self.text);
        self.made.store(made.0, Ordering::Relaxed);
        std::mem::forget(made);
    }

    fn free(&self) {
        drop(Owned::take(self.made.swap(ptr::null_mut(), Ordering::Relaxed)));
    }
}

/// The name of a native command: as the server looks it up, and as a word.
pub struct Command {
    name: &'static CStr,
    word: Constant,
}

impl Command {
    const fn new(name: &'static CStr) -> Self {
        Self { name, word: Constant::new(name.to_bytes()) }
    }

    /// The name to look up.
    #[must_use]
    pub const fn name(&self) -> &'static CStr {
        self.name
    }

    /// The name as a word.
    #[must_use]
    pub fn word(&self) -> Word<'static> {
        self.word.word()
    }
}

/// The field of tokens.
pub static TOKENS: Constant = Constant::new(record::TOKENS);
/// The field of a level.
pub static LEVEL: Constant = Constant::new(record::LEVEL);
/// The field of an instant.
pub static TS: Constant = Constant::new(record::TS);
/// The option of an absolute expiry.
pub static PXAT: Constant = Constant::new(b"PXAT");
/// The option that the expiry stays.
pub static KEEPTTL: Constant = Constant::new(b"KEEPTTL");
/// The rank of the first element.
pub static ZERO: Constant = Constant::new(b"0");

/// SET.
pub static SET: Command = Command::new(c"SET");
/// HSET.
pub static HSET: Command = Command::new(c"HSET");
/// HDEL.
pub static HDEL: Command = Command::new(c"HDEL");
/// ZADD.
pub static ZADD: Command = Command::new(c"ZADD");
/// ZREM.
pub static ZREM: Command = Command::new(c"ZREM");
/// ZREMRANGEBYRANK.
pub static ZREMRANGEBYRANK: Command = Command::new(c"ZREMRANGEBYRANK");
/// PEXPIREAT.
pub static PEXPIREAT: Command = Command::new(c"PEXPIREAT");
/// DEL.
pub static DEL: Command = Command::new(c"DEL");
/// UNLINK.
pub static UNLINK: Command = Command::new(c"UNLINK");

fn constants() -> impl Iterator<Item = &'static Constant> {
    let commands = [&SET, &HSET, &HDEL, &ZADD, &ZREM, &ZREMRANGEBYRANK, &PEXPIREAT, &DEL, &UNLINK];
    [&TOKENS, &LEVEL, &TS, &PXAT, &KEEPTTL, &ZERO].into_iter().chain(commands.map(|command| &command.word))
}

/// Makes the constant words.
pub fn make_constants() {
    constants().for_each(Constant::make);
}

/// Gives the constant words back.
pub fn free_constants() {
    constants().for_each(Constant::free);
}
