//! The machine's own clocks, stopped for the thread that simulates.
//!
//! h2 asks the real clock how long it has to remember a stream that it has reset. How much of that passes in a simulated second
//! depends on how busy this machine is, and so would what h2 answers to a late frame. Nothing else that runs in the simulation
//! may know real time either.
//!
//! This is the one module that needs `unsafe`: it stands in for the C library's `clock_gettime`, which is how Rust's standard library
//! reads a clock. Linked into this program it comes first; the library's own isn't called by anybody any more.

#![allow(unsafe_code, reason = "a C function is replaced by one of the same signature; each use says why it is sound")]

use std::cell::Cell;

/// What the stopped clocks show: some seconds, so that subtracting a little from it is still a time.
const STOPPED_AT_S: i64 = 1_000_000_000;

thread_local! {
    static IS_STOPPED: Cell<bool> = const { Cell::new(false) };
}

/// From now on no clock of the machine goes on for this thread.
pub fn stop_for_this_thread() {
    IS_STOPPED.set(true);
}

/// # Safety
/// As of the C library's: `time` is where a time may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    // A thread that is about to end has no such variable any more, and simulates nothing.
    if IS_STOPPED.try_with(Cell::get).unwrap_or(false) {
        // SAFETY: the caller gives a place for a time, and nothing else is written.
        unsafe { time.write(libc::timespec { tv_sec: STOPPED_AT_S, tv_nsec: 0 }) };
        return 0;
    }
    // SAFETY: the arguments are passed on to the kernel as they came, which checks them.
    let outcome = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    if outcome == 0 { 0 } else { -1 }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    #[test]
    fn only_the_thread_that_asks_for_it_stands_still() {
        let stopped = std::thread::spawn(|| {
            super::stop_for_this_thread();
            let (began, wall) = (Instant::now(), SystemTime::now());
            std::thread::sleep(Duration::from_millis(5));
            (began.elapsed(), wall.elapsed())
        });
        let began = Instant::now();
        let (elapsed, wall) = stopped.join().unwrap();
        assert_eq!((elapsed, wall.unwrap()), (Duration::ZERO, Duration::ZERO));
        assert!(began.elapsed() >= Duration::from_millis(5));
    }
}
