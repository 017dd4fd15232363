//! Checks that must fail when a fault is planted. Each check is also an ordinary test. Here it takes the stage as an
//! argument, so that it can run with a planted fault.
//!
//! If a check cannot run on this machine, it prints that and returns.

pub mod calls;
pub mod keeping;
pub mod others;
pub mod outcome;
pub mod secrecy;
