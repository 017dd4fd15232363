//! Converts rows to JSON lines for another memory: `recall export` writes them and `recall import` reads them.
//!
//! A line refers to other rows by names that are valid on any machine: a session by its agent and id, a prompt by its
//! position in the session, a project by its identity, an observation by its uuid. Rows that concern only this machine
//! are not exported: jobs, injections, vectors, costs.

mod export;
mod foreign;
mod restore;
mod tables;
mod damaged;
mod value;

pub use damaged::DamagedRow;
pub use export::{PageStart, Portion};
pub(super) use foreign::{Misfits, misfits, take_rows};
pub use restore::{RestoreRows, Restored, Trust};
pub use tables::{RowKind, name_fields, text_fields};
