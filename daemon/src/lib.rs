//! recall: a memory for coding agents that outlives the session.
//!
//! The rooms, from the ground up; a room imports only rooms above it in this list.

pub mod actors;
pub mod server;
pub mod service;
pub mod cli;

#[cfg(test)]
mod made_up_agent;
