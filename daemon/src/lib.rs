//! recall: a memory for coding agents that outlives the session.

pub mod agents;
pub mod cli;
pub mod compression;
pub mod memory;
pub mod search;
