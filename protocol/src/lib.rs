//! What recall's shim and daemon say to each other, and where files live.
//!
//! Everything both binaries must agree on is here and nowhere else: the frame and its codec, the values that
//! travel in it, the folders, the spool's format, and the removal of private text. The crate is small on purpose:
//! the shim links it, and every dependency added here is felt at every hook.
//!
//! **Invariant:** no async runtime, no regex, no JSON tree, no database.

pub mod agents;
pub mod wire;
pub mod query;

pub mod codec;
pub mod frame;

pub mod boot;
pub mod environment;
pub mod folder;
pub mod search_path;
pub mod core_dump;
pub mod paths;

pub mod client;
pub mod losses;
pub mod spool;

mod nesting;
pub mod privacy;
mod tag;

pub mod json_escape;
pub mod elision;
pub mod json_field;
pub mod json_scan;

pub mod planted;
