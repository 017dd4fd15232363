//! The daemon as a process: one instance, one socket, and checks of everything that arrives on it.
//!
//! **Invariant:** this room does not know what an event means. It checks peers and frames, and passes events on.

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
