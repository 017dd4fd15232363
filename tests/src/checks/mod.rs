//! The checks that a planted fault must turn red. Each is an ordinary test too, where its kind is tested; here it takes
//! the stage, so that the same check can be played where recall has been made to go wrong.
//!
//! A check that a machine cannot make says so and returns.

pub mod calls;
pub mod keeping;
pub mod others;
pub mod outcome;
pub mod secrecy;
