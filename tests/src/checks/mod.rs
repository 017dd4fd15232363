//! Checks that must fail when a fault is planted. Each is also an ordinary test. Here it takes the stage as an
//! argument, so the same check can run with a planted fault.
//!
//! A check that cannot run on this machine says so and returns.

pub mod calls;
pub mod keeping;
pub mod others;
pub mod outcome;
pub mod secrecy;
