//! Logs of machines in a place that several machines see: a folder (a synchronised one, a network share, a stick), or a
//! PostgreSQL database.
//!
//! Each data folder has a name that is the hash of its public key (`device.rs`). Its log is parts that are never changed, each
//! signed (`segment.rs`), in the space of a project, and beside them how far it has read the others (`progress.rs`). Nobody else
//! writes in its name, so nothing can collide, and half a part is told from a whole one. `remote.rs` is what both kinds of
//! places can do; `folder.rs` and `postgres/` do it. What leaves is packed (`packed.rs`) and sealed (`sealed.rs`) with the keys (`key.rs`) of a team (`team.rs`).
//!
//! **Must not** know the store, or decide what leaves.

pub mod address;
pub mod device;
pub mod folder;
mod hex;
pub mod key;
mod packed;
pub mod postgres;
pub mod progress;
pub mod remote;
pub mod sealed;
pub mod segment;
pub mod team;
