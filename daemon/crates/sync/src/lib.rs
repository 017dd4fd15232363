//! Logs of machines, in a place that several machines can access: a folder (synchronised, on a network share or on a
//! stick), or a PostgreSQL database.
//!
//! Each data folder has a name, which is the hash of its public key (`device.rs`). Its log consists of signed parts
//! that never change (`segment.rs`), in the space of a project. Beside them is how far it has read the others
//! (`progress.rs`). Only that machine writes under its name, so nothing can collide, and an incomplete part is
//! recognised. `remote.rs` has the operations of both kinds of places; `folder.rs` and `postgres/` implement them.
//! Entries are packed (`packed.rs`) and sealed (`sealed.rs`) with the keys (`key.rs`) of a team (`team.rs`) before
//! they are sent.
//!
//! **Must not** know the store, or decide what is sent.

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
