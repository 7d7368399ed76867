//! The clock: read once per command, never by anybody else.

use std::ffi::c_int;

use super::api;
use crate::engine::time::Micros;

/// The server's wall clock.
///
/// From Redis 7.2 on it is the server's own reading for the command, which stands still in a transaction or a script;
/// on 7.0 it is the system's.
#[must_use]
pub fn now() -> Micros {
    api::cached_clock().unwrap_or_else(|| Micros::from_clock(read(libc::CLOCK_REALTIME)))
}

/// What the clock is, for the log and INFO.
#[must_use]
pub fn source() -> &'static str {
    if api::cached_clock().is_some() { "server" } else { "system" }
}

/// A clock that nobody sets, in microseconds: how long clients really wait.
#[must_use]
pub fn monotonic_us() -> i64 {
    read(libc::CLOCK_MONOTONIC)
}

/// The wall clock at this moment, in microseconds: the server's own where it tells it, so that there is only one.
#[must_use]
pub fn wall_us() -> i64 {
    api::server_clock().unwrap_or_else(|| read(libc::CLOCK_REALTIME))
}

/// A timer of the operating system on the monotonic clock, as a file descriptor.
#[must_use]
pub fn new_timer() -> Option<c_int> {
    // SAFETY: no pointers.
    let timer = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
    (timer >= 0).then_some(timer)
}

/// Has a timer go off at an instant of the monotonic clock; at 0, not at all.
pub fn set_timer(timer: c_int, at_us: i64) {
    let at = libc::timespec { tv_sec: at_us.div_euclid(1_000_000), tv_nsec: at_us.rem_euclid(1_000_000) * 1_000 };
    let once = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
    // SAFETY: reads a structure of ours.
    unsafe { libc::timerfd_settime(timer, libc::TFD_TIMER_ABSTIME, &raw const once, std::ptr::null_mut()) };
}

/// Takes note that a timer went off.
pub fn drain_timer(timer: c_int) {
    let mut times = [0_u8; 8];
    // SAFETY: fills in a buffer of ours.
    unsafe { libc::read(timer, times.as_mut_ptr().cast(), times.len()) };
}

/// Gives a timer back.
pub fn free_timer(timer: c_int) {
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(timer) };
}

fn read(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills in a structure of ours; cannot fail for these clocks.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
}
