//! The actor tree: one file an actor, each with its messages, its state and its `handle`.
//!
//! ```text
//! root
//! ├── writer                 the only SQLite write connection; group commit; answers after commit
//! ├── indexer                the only tantivy writer; follows the store's log from its own high-water mark
//! ├── sessions (supervisor)
//! │   └── session *          one per live session: its batches, its mailbox, what it was told
//! ├── compression (supervisor)
//! │   └── compressor *       a pool; one job at a time each
//! ├── housekeeper            stale batches and sessions, expired leases, the spool, backups
//! └── subscriber             commands of the user that lifecycle events start
//! ```
//! What an event, a question or a job leads to is `app/`'s.
//!
//! **Invariant:** no domain rules here. An actor asks `memory/` what to do and tells others to do it. Everybody
//! outside talks to handles ([`handle::ActorHandle`]), never to an actor's reference, for a restarted actor has a new one.

pub mod handle;
pub mod failure;
pub mod backoff;
pub mod writer;
pub mod indexer;
pub mod session_message;
pub mod session_context;
mod pending_reply;
pub mod session;
pub mod sessions;
mod writer_ledger;
pub mod compressor;
pub mod compression;
pub mod subscriber;
pub mod housekeeper_message;
pub mod ports;
pub mod housekeeper;
pub mod services;
pub mod root;
#[cfg(test)]
mod test_system;
#[cfg(test)]
mod timers;
#[cfg(test)]
mod provider_time;
