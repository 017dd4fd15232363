//! recall: a memory for coding agents that outlives the session.

pub mod memory;
pub mod search;
pub mod compression;
pub mod cli;
