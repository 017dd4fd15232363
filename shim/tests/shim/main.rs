//! Tests the real `recall-shim` against daemons of every behaviour, and with stdin of every kind.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "lints know test functions, not the functions they share"
)]

mod hook;
mod stdin;
mod support;
