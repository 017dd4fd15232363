//! The daemon as a process: one instance, one socket, and what may come through it.
//!
//! **Invariant:** knows nothing of what an event means; it checks who speaks, what a frame may be, and passes on.

pub mod instance;
pub mod listener;
pub mod log;
pub mod room;
pub mod connection_context;
pub mod gate;
pub mod presence;
pub mod connection;
pub mod follow;
pub mod gateway;
pub mod http;
pub mod queries;
pub mod run;
