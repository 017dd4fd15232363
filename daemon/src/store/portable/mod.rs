//! Rows as lines of JSON that another memory can take: what `recall export` writes and `recall import` reads.
//!
//! A line names other rows by what they are everywhere: a session by its agent and id, a prompt by its place in the session, a
//! project by its identity, an observation by its uuid. What belongs to this machine's work alone stays here: jobs,
//! injections, vectors, costs.

mod export;
mod foreign;
mod restore;
mod tables;
mod damaged;
mod value;

pub use damaged::{DamagedRow, damaged_rows};
pub use export::{PageStart, Portion, export_page};
pub(super) use foreign::{Misfits, misfits, take_rows};
pub use restore::{RestoreRows, Restored, Trust, folder_of};
pub use tables::{name_fields, text_fields};
