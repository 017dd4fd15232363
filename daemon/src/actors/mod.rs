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
//! ├── subscriber             commands of the user that lifecycle events start
//! └── bus                    what happened, for whoever listens
//! ```
//! The gate stands in `server/`, above this room: it accepts connections and hands events to [`intake`].
//!
//! **Invariant:** no domain rules here. An actor asks `memory/` what to do and tells others to do it. Everybody
//! outside talks to handles ([`door::Door`]), never to an actor's reference, for a restarted actor has a new one.

pub mod door;
pub mod draining;
pub mod failure;
pub mod clock;
pub mod backoff;
pub mod bus;
pub mod writer;
pub mod indexer;
pub mod documents;
pub mod standing;
pub mod ancestry;
pub mod recollection;
mod file_recollection;
pub mod replies;
pub mod checkouts;
pub mod hearing;
mod errand;
pub mod session;
pub mod sessions;
mod accounts;
pub mod workbench;
pub mod compressor;
pub mod compression;
pub mod material;
pub mod intake;
pub mod maintenance;
pub mod forgetting;
pub mod pause;
pub mod boundaries;
pub mod settings;
pub mod identity;
mod spool_watch;
pub mod telling;
pub mod subscriber;
pub mod housekeeper;
pub mod house;
pub mod root;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod timers;
#[cfg(test)]
mod provider_time;
