//! Tests compression by models, against a provider on this machine that answers well, badly, slowly or not at all.
//!
//! In each case, notes exist when `flush` returns, no wrong part of an answer becomes a row, no other host is
//! called, and the spending stays within the cap.

mod turns;
mod notes;
mod trouble;
mod budget;
mod program;
mod recorded;
mod sessions;
mod load;
mod improving;
