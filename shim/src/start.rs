//! The program's entry point where the C library is glibc.
//!
//! The standard library's entry point prepares for stack overflows: it reads the process's memory map and sets up a
//! second stack and handlers for two signals. That took a third of an event's system calls and a quarter of its
//! instructions. This program does not need it, so the C library calls the entry point below instead. Arguments and
//! environment variables work without it. With other C libraries the standard entry point is used.

use std::ffi::{c_char, c_int};

/// Called by the C library. The arguments are read by [`std::env`](mod@std::env).
// The name is the C library's, and no other function of this program has it.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    // SAFETY: nothing else changes signal handlers, and this is the only thread.
    unsafe {
        // The agent may close its end of the pipe; the signal must not kill this process.
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    crate::run();
    0
}
