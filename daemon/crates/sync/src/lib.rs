//! Logs of machines in a folder that several machines see: a synchronised folder, a network share, a stick.
//!
//! Each data folder has a name that is the hash of its public key (`device.rs`). It writes its log as files that are
//! never changed (`segment.rs`), into a folder of its own inside the space of a project (`folder.rs`), and beside them how far
//! it has read the others (`progress.rs`). Nobody else writes
//! there, so nothing can collide, and a half-copied or doubled file is told from a whole one by its name and signature.
//!
//! **Must not** know the store, or decide what leaves.

pub mod device;
pub mod folder;
pub mod progress;
pub mod segment;
