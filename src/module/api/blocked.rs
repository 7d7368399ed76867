//! Clients whose reply is held back.

use redis_module::raw;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

use super::{Call, Context, ServerString, api, nothing};

/// A reply callback as the server calls it.
pub type ReplyCallback = unsafe extern "C" fn(*mut Context, *mut *mut ServerString, c_int) -> c_int;
/// A callback that frees what a reply was made from, as the server calls it.
pub type FreeCallback = unsafe extern "C" fn(*mut Context, *mut c_void);
/// A callback of a client that went away, as the server calls it.
pub type GoneCallback = unsafe extern "C" fn(*mut Context, *mut raw::RedisModuleBlockedClient);

/// A client that waits for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocked(*mut raw::RedisModuleBlockedClient);

impl Blocked {
    /// Holds back the reply of a call. `None`: the server would not.
    #[must_use]
    pub fn block(call: &Call<'_>, reply: ReplyCallback, free: FreeCallback, gone: GoneCallback) -> Option<Self> {
        let handle = api!(RedisModule_BlockClient(call.context(), Some(reply), None, Some(free), 0));
        if handle.is_null() {
            return None;
        }
        api!(RedisModule_SetDisconnectCallback(handle, Some(gone)));
        Some(Self(handle))
    }

    /// The client that a callback speaks of.
    #[must_use]
    pub const fn of(handle: *mut raw::RedisModuleBlockedClient) -> Self {
        Self(handle)
    }

    /// Lets the reply go, made from `data`. Exactly once for each blocked client.
    pub fn release<T>(self, data: Box<T>) {
        api!(RedisModule_UnblockClient(self.0, Box::into_raw(data).cast::<c_void>()));
    }

    /// Lets a client go that is no longer there.
    pub fn forget(self) {
        api!(RedisModule_UnblockClient(self.0, nothing()));
    }
}

/// What a reply callback has been handed.
pub struct Handed<'c, T>(*mut T, PhantomData<&'c T>);

impl<'c, T> Handed<'c, T> {
    /// What was given to [`Blocked::release`].
    ///
    /// # Safety
    /// The context is that of a running reply callback, and `T` what was given.
    #[must_use]
    pub unsafe fn of(context: *mut Context) -> Self {
        Self(api!(RedisModule_GetBlockedClientPrivateData(context)).cast::<T>(), PhantomData)
    }

    /// The data, if any was given.
    #[must_use]
    pub const fn get(&self) -> Option<&'c T> {
        // SAFETY: the server keeps the pointer until the free callback.
        unsafe { self.0.as_ref() }
    }
}

/// Frees what was given to [`Blocked::release`].
///
/// # Safety
/// The pointer is the one that the server passed to the free callback, and `T` what was given.
pub unsafe fn free<T>(data: *mut c_void) {
    if !data.is_null() {
        // SAFETY: made by Box::into_raw in `release`, passed here once.
        drop(unsafe { Box::from_raw(data.cast::<T>()) });
    }
}
