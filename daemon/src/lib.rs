//! recall: a memory for coding agents that outlives the session.
//!
//! The rooms, from the ground up; a room imports only rooms above it in this list.

pub mod faults;
pub mod memory;
pub mod trusted_file;
pub mod holding;
pub mod process_group;
pub mod agents;
pub mod project_file;
pub mod repository;
pub mod embedding;
pub mod store;
pub mod sync;
pub mod providers;
pub mod telemetry;
pub mod search;
pub mod compression;
pub mod config;
pub mod app;
pub mod actors;
pub mod server;
pub mod service;
pub mod cli;

#[cfg(test)]
mod made_up_agent;
