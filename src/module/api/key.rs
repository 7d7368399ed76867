//! An open key.

use redis_module::raw;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::text::{Owned, Word};
use super::{Call, Context, api, bytes, nothing, setup};
use crate::engine::time::{Micros, Millis};

/// What stands under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Nothing.
    Empty,
    /// A string.
    String,
    /// A hash.
    Hash,
    /// A sorted set.
    SortedSet,
    /// Something that no limiter is kept in.
    Other,
}

/// Why a key is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To look.
    Read,
    /// To look and perhaps to write.
    Write,
}

impl Mode {
    const fn flags(self) -> c_int {
        const READ: c_int = 1;
        const WRITE: c_int = 2;
        match self {
            Self::Read => READ,
            Self::Write => READ | WRITE,
        }
    }
}

/// An open key, closed when this is dropped.
pub struct Key<'c> {
    call: Call<'c>,
    name: Word<'c>,
    handle: *mut raw::RedisModuleKey,
    /// What stood there when the key was opened, once it is known.
    kind: Cell<Option<Type>>,
    mode: Mode,
    written: Cell<bool>,
    /// Where the server keeps a string's bytes, once it was asked; until something moves them.
    text: Cell<Option<(*mut c_char, usize)>>,
    /// The member of the lowest score, for who takes it out.
    lowest: Cell<Option<Owned>>,
}

impl Drop for Key<'_> {
    /// Closes the key, and if it was written tells watchers and client-side caches.
    ///
    /// The server tells them at the close of a key that may be written, which it has at hand then, unless a module says
    /// that it does so itself; a call of its own for that would look the key up again. So the module says so for those
    /// keys alone that were not written after all, and a refusal disturbs nobody.
    #[inline(always)]
    fn drop(&mut self) {
        if !self.handle.is_null() {
            let untouched = self.mode == Mode::Write && !self.written.get();
            close(self.handle, self.call.context(), untouched);
        }
    }
}

/// Closes a key. What this needs is given by value, so that a key can live in registers up to its end.
#[inline(never)]
fn close(handle: *mut raw::RedisModuleKey, context: *mut Context, untouched: bool) {
    if untouched {
        setup::signal_at_close(context, false);
    }
    api!(RedisModule_CloseKey(handle));
    if untouched {
        setup::signal_at_close(context, true);
    }
}

impl<'c> Key<'c> {
    /// Opens the key of that name.
    #[must_use]
    #[inline(always)]
    pub fn open(call: Call<'c>, name: Word<'c>, mode: Mode) -> Self {
        let handle = api!(RedisModule_OpenKey(call.context(), name.pointer(), mode.flags()));
        let (kind, text, lowest) = (Cell::new(None), Cell::new(None), Cell::new(None));
        Self { call, name, handle, kind, mode, written: Cell::new(false), text, lowest }
    }

    /// Takes note that the key is written.
    #[inline(always)]
    fn writes(&self) {
        self.written.set(true);
    }

    /// The call that opened the key.
    #[must_use]
    pub const fn call(&self) -> Call<'c> {
        self.call
    }

    /// The key's name.
    #[must_use]
    pub const fn name(&self) -> Word<'c> {
        self.name
    }

    /// What stood there when the key was opened.
    #[must_use]
    #[inline(always)]
    pub fn kind(&self) -> Type {
        if let Some(known) = self.kind.get() {
            return known;
        }
        let kind = type_of(self.handle);
        self.kind.set(Some(kind));
        kind
    }

    /// Bytes of a string, fields of a hash, elements of a sorted set.
    #[must_use]
    #[inline(always)]
    pub fn length(&self) -> usize {
        if self.handle.is_null() { 0 } else { api!(RedisModule_ValueLength(self.handle)) }
    }

    /// The instant of expiry of a key that exists.
    ///
    /// Only for a key that exists: some servers crash when they are asked for the expiry of an empty one.
    #[must_use]
    #[inline(always)]
    pub fn expiry(&self) -> Option<Millis> {
        if self.kind() == Type::Empty {
            return None;
        }
        let at = api!(RedisModule_GetAbsExpire(self.handle));
        (at >= 0).then(|| Millis::new(at))
    }

    /// Moves the instant of expiry.
    #[inline(always)]
    pub fn expire_at(&self, at: Millis) {
        self.writes();
        if !self.handle.is_null() {
            api!(RedisModule_SetAbsExpire(self.handle, at.get()));
        }
    }

    /// The bytes of a string value, `None` of a value of another type and of none at all; they may not be kept over any
    /// change of the key.
    #[must_use]
    #[inline(always)]
    pub fn string(&self) -> Option<&[u8]> {
        if self.handle.is_null() {
            return None;
        }
        let (start, length) = self.text();
        if length == 0 {
            // Nothing, an empty string, or a value of another type.
            return (self.kind() == Type::String).then_some(&[]);
        }
        if start.is_null() {
            return None;
        }
        self.kind.set(Some(Type::String));
        // SAFETY: the server grants access to so many bytes until the key is changed or closed.
        Some(unsafe { std::slice::from_raw_parts(start.cast::<u8>().cast_const(), length) })
    }

    /// Where a string's bytes are: asked for once, for reading as well as for what may be written afterwards.
    #[inline(always)]
    fn text(&self) -> (*mut c_char, usize) {
        if let Some(known) = self.text.get() {
            return known;
        }
        let mut length = 0;
        let start = api!(RedisModule_StringDMA(self.handle, &raw mut length, self.mode.flags()));
        self.text.set(Some((start, length)));
        (start, length)
    }

    /// Makes a string value of these bytes, in place where there are as many; the expiry stays.
    #[inline(always)]
    pub fn set_string(&self, text: &[u8]) {
        self.writes();
        let length = text.len();
        let (start, present) = if self.kind() == Type::String { self.text() } else { (ptr::null_mut(), 0) };
        let start = if present == length && !start.is_null() { start } else { resized(self.handle, length) };
        self.text.set(None);
        if !start.is_null() {
            // SAFETY: the server grants write access to so many bytes until the key is changed or closed.
            unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>(), length) }.copy_from_slice(text);
        }
    }

    /// Deletes the key; a large value is freed in the background.
    #[inline(always)]
    pub fn unlink(&self) {
        self.writes();
        if !self.handle.is_null() {
            api!(RedisModule_UnlinkKey(self.handle));
        }
    }

    /// Two fields of a hash.
    #[must_use]
    #[inline(always)]
    pub fn hash_get_two(&self, one: Word<'_>, other: Word<'_>) -> (Option<Owned>, Option<Owned>) {
        let mut values = [ptr::null_mut(); 2];
        let [first, second] = &mut values;
        let end = nothing();
        api!(RedisModule_HashGet(
            self.handle,
            0,
            one.pointer(),
            ptr::from_mut(first),
            other.pointer(),
            ptr::from_mut(second),
            end
        ));
        let [first, second] = values;
        (Owned::take(first), Owned::take(second))
    }

    /// Sets a field of a hash.
    #[inline(always)]
    pub fn hash_set(&self, field: Word<'_>, value: Word<'_>) {
        self.writes();
        api!(RedisModule_HashSet(self.handle, 0, field.pointer(), value.pointer(), nothing()));
    }

    /// Sets two fields of a hash.
    #[inline(always)]
    pub fn hash_set_two(&self, one: (Word<'_>, Word<'_>), other: (Word<'_>, Word<'_>)) {
        self.writes();
        api!(RedisModule_HashSet(
            self.handle,
            0,
            one.0.pointer(),
            one.1.pointer(),
            other.0.pointer(),
            other.1.pointer(),
            nothing()
        ));
    }

    /// Deletes a field of a hash, and the key with the last one.
    pub fn hash_delete(&self, field: Word<'_>) {
        self.writes();
        // The API's mark for a field that shall go: the pointer 1.
        let delete = ptr::without_provenance_mut::<c_void>(1);
        api!(RedisModule_HashSet(self.handle, 0, field.pointer(), delete, nothing()));
    }

    /// Shows every field and value of a hash to `see`.
    pub fn hash_scan(&self, see: &mut dyn FnMut(&[u8], &[u8])) {
        unsafe extern "C" fn callback(
            _key: *mut raw::RedisModuleKey,
            field: *mut raw::RedisModuleString,
            value: *mut raw::RedisModuleString,
            data: *mut c_void,
        ) {
            // SAFETY: `data` is the closure below, alive for the whole scan. It must not unwind into the server.
            let see = unsafe { &mut *data.cast::<&mut dyn FnMut(&[u8], &[u8])>() };
            let value = if value.is_null() { &[] } else { bytes(value) };
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| see(bytes(field), value)));
        }
        let mut see = see;
        let data = ptr::from_mut(&mut see).cast::<c_void>();
        let cursor = api!(RedisModule_ScanCursorCreate());
        while api!(RedisModule_ScanKey(self.handle, cursor, Some(callback), data)) != 0 {}
        api!(RedisModule_ScanCursorDestroy(cursor));
    }

    /// Keeps the member of the lowest score, as it was found.
    pub fn keep_lowest(&self, member: Owned) {
        self.lowest.set(Some(member));
    }

    /// The member that had the lowest score when it was kept.
    #[must_use]
    pub fn kept_lowest(&self) -> Option<Owned> {
        self.lowest.take()
    }

    /// The elements of a sorted set whose scores lie in a range.
    #[must_use]
    pub fn range(&self, low: Edge, high: Edge, from: From) -> Range<'_, 'c> {
        let (low, low_excluded) = low.score(f64::NEG_INFINITY);
        let (high, high_excluded) = high.score(f64::INFINITY);
        match from {
            From::Lowest => {
                api!(RedisModule_ZsetFirstInScoreRange(self.handle, low, high, low_excluded, high_excluded))
            }
            From::Highest => {
                api!(RedisModule_ZsetLastInScoreRange(self.handle, low, high, low_excluded, high_excluded))
            }
        };
        Range { key: self, from }
    }

    /// The score of a member.
    #[must_use]
    pub fn score(&self, member: Word<'_>) -> Option<f64> {
        let mut score = 0.0;
        let found = api!(RedisModule_ZsetScore(self.handle, member.pointer(), &raw mut score)) == 0;
        found.then_some(score)
    }

    /// Adds an element to a sorted set, or gives it another score.
    pub fn add(&self, score: Micros, member: Word<'_>) {
        self.writes();
        api!(RedisModule_ZsetAdd(self.handle, score_of(score.get()), member.pointer(), ptr::null_mut()));
    }

    /// Adds an element to a sorted set unless it is there; whether it was added.
    pub fn add_new(&self, score: Micros, member: Word<'_>) -> bool {
        const ONLY_NEW: c_int = 1 << 1;
        const WAS_THERE: c_int = 1 << 4;
        self.writes();
        let mut flags = ONLY_NEW;
        api!(RedisModule_ZsetAdd(self.handle, score_of(score.get()), member.pointer(), &raw mut flags));
        flags & WAS_THERE == 0
    }

    /// Takes an element out of a sorted set, and deletes the key with the last one.
    pub fn remove(&self, member: Word<'_>) {
        self.writes();
        api!(RedisModule_ZsetRem(self.handle, member.pointer(), ptr::null_mut()));
    }
}

/// Makes a string of so many bytes of a key, and says where; nowhere if the server did not.
#[inline(never)]
fn resized(handle: *mut raw::RedisModuleKey, length: usize) -> *mut c_char {
    api!(RedisModule_StringTruncate(handle, length));
    let mut present = 0;
    let start = api!(RedisModule_StringDMA(handle, &raw mut present, Mode::Write.flags()));
    if present == length { start } else { ptr::null_mut() }
}

/// What stands under a key.
#[inline(never)]
fn type_of(handle: *mut raw::RedisModuleKey) -> Type {
    if handle.is_null() {
        return Type::Empty;
    }
    match api!(RedisModule_KeyType(handle)) {
        0 => Type::Empty,
        1 => Type::String,
        3 => Type::Hash,
        5 => Type::SortedSet,
        _ => Type::Other,
    }
}

/// One end of a range of scores, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// No end.
    Open,
    /// This score is in the range.
    At(i64),
    /// This score is not.
    Beyond(i64),
}

impl Edge {
    fn score(self, open: f64) -> (f64, c_int) {
        match self {
            Self::Open => (open, 0),
            Self::At(us) => (score_of(us), 0),
            Self::Beyond(us) => (score_of(us), 1),
        }
    }
}

/// Where a walk through a range begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// At the lowest score.
    Lowest,
    /// At the highest score.
    Highest,
}

/// A walk through the elements of a sorted set; it ends with any change of the set.
pub struct Range<'k, 'c> {
    key: &'k Key<'c>,
    from: From,
}

impl Range<'_, '_> {
    /// Whether there is no further element.
    #[must_use]
    pub fn ended(&self) -> bool {
        api!(RedisModule_ZsetRangeEndReached(self.key.handle)) != 0
    }

    /// The member and score at which the walk stands.
    #[must_use]
    pub fn current(&self) -> Option<(Owned, f64)> {
        if self.ended() {
            return None;
        }
        let mut score = 0.0;
        let member = api!(RedisModule_ZsetRangeCurrentElement(self.key.handle, &raw mut score));
        Owned::take(member).map(|member| (member, score))
    }

    /// Goes one element further.
    pub fn step(&mut self) {
        match self.from {
            From::Lowest => api!(RedisModule_ZsetRangeNext(self.key.handle)),
            From::Highest => api!(RedisModule_ZsetRangePrev(self.key.handle)),
        };
    }
}

impl Drop for Range<'_, '_> {
    fn drop(&mut self) {
        api!(RedisModule_ZsetRangeStop(self.key.handle));
    }
}

/// Microseconds as a score: integers of sixteen digits are below 2^54 and those of this century exact.
#[expect(clippy::cast_precision_loss, reason = "whole microseconds up to the year 2255 are exact")]
const fn score_of(us: i64) -> f64 {
    /// The latest instant that is a score of sixteen digits: the one after it would be rounded to seventeen.
    const LATEST: i64 = Micros::LATEST.get() - 1;
    if us > LATEST { LATEST as f64 } else { us as f64 }
}

/// A score that is an instant.
#[must_use]
pub fn instant_of(score: f64) -> Option<Micros> {
    if score.fract() != 0.0 || !(1e15..1e16).contains(&score) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a whole number of sixteen digits")]
    Micros::checked(score as i64)
}
