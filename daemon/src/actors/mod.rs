//! The actor tree: one file per actor, with its messages, its state and its `handle`.
//!
//! ```text
//! root
//! ├── writer                 the only SQLite write connection; group commit; answers after commit
//! ├── indexer                the only tantivy writer; follows the store's log from its own high-water mark
//! ├── sessions (supervisor)
//! │   └── session *          one per live session: its batches, its mailbox, its injected set
//! ├── compression (supervisor)
//! │   └── compressor *       a pool; one job at a time each
//! ├── housekeeper            idle batches and sessions, expired leases, the spool, backups
//! ├── sync                   exchanges shared notes with remotes
//! ├── subscriber             runs the user's commands on lifecycle events
//! └── telemetry              sends spans and metrics to a collector
//! ```
//! `app/` decides how to handle an event, a query or a job.
//!
//! **Invariant:** there are no domain rules here. An actor asks `domain/` for decisions and sends messages to other
//! actors. Other rooms use handles ([`handle::ActorHandle`]), never references, because a restarted actor has a new
//! reference.

pub mod handle;
pub mod failure;
pub mod backoff;
pub mod writer;
pub mod indexer;
pub mod embedder;
pub mod session_message;
pub mod session_context;
mod pending_reply;
pub mod session;
pub mod sessions;
mod writer_ledger;
pub mod compressor;
pub mod compression;
pub mod subscriber;
pub mod sync;
pub mod telemetry;
pub mod housekeeper_message;
pub mod ports;
pub mod housekeeper;
pub mod services;
pub mod root;
#[cfg(test)]
pub(crate) mod test_system;
#[cfg(test)]
mod timers;
#[cfg(test)]
mod provider_time;
