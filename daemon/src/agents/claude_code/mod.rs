//! Claude Code.

pub mod actions;
