//! The entry of the program where the C library is glibc.
//!
//! The standard library's own entry prepares for overflows of the stack: it reads the map of this process's memory and
//! sets up a second stack and handlers for two signals. That took a third of the system calls of an event and a quarter
//! of its instructions. This program needs none of it, so the C library calls the entry below instead. Arguments and
//! variables are available without it. With another C library the usual entry is used.

use std::ffi::{c_char, c_int};

/// Called by the C library. The arguments are read by [`std::env`](mod@std::env).
// The name is the C library's, and no other function of this program has it.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    // SAFETY: nothing else changes signal handlers, and this is the only thread.
    unsafe {
        // If the agent has closed its end of the pipe, no signal must kill this process.
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    crate::run();
    0
}
