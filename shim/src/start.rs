//! The entry of the program where the C library is glibc.
//!
//! The standard library's own entry prepares for overflows of the stack: it reads the map of this process's memory and
//! sets up a second stack and handlers for two signals. That took a third of the system calls of an event and a quarter
//! of its instructions. It does the same whatever a program needs, so the C library calls this entry instead.
//! Arguments and variables are known without it. Where the C library is another, the usual entry is used.

use std::ffi::{c_char, c_int};

/// Called by the C library. The arguments are read by [`std::env`].
// The name is the C library's, and no other function of this program has it.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    // SAFETY: nothing else sets how a signal is handled, and this is the only thread.
    unsafe {
        // An agent that has closed its end of the pipe must not end this process by a signal.
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    crate::run();
    0
}
