//! What people type: one file per command.
//!
//! **Invariant:** commands talk to the daemon over its socket and never open the database while one runs.

pub mod failure;
pub mod install;
pub mod uninstall;
