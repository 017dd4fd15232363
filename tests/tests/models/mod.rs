//! Compression by models, against a provider on this machine that answers well, badly, slowly or not at all.
//!
//! Whatever it does: notes are there when `flush` returns, nothing it says wrongly becomes a row, nobody else is called,
//! and nothing is spent beyond the cap.

mod turns;
mod notes;
mod trouble;
mod budget;
mod program;
mod recorded;
mod sessions;
mod load;
mod improving;
