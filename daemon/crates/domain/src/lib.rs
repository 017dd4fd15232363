//! The domain: what an event means, and which parts of it are kept.
//!
//! The crate consists of plain values and functions on them: ids, hook events, sessions and their prompt batches, the
//! input of compressors, observations and summaries.
//!
//! **Invariant:** nothing here does IO, reads a clock, or knows tokio, SQL or the JSON of any agent. Time arrives as
//! an argument.

pub(crate) mod names;
pub mod text;
pub mod plain;
pub mod ids;
pub mod order;
pub mod event;
pub mod redaction;
pub mod session;
pub mod lifecycle;
pub mod task_list;
pub mod plan;
pub mod project;
pub mod checkout;
pub(crate) mod batch_source;
pub mod conventions;
pub mod material;
pub mod digest;
pub mod observation;
pub mod sameness;
pub mod changed;
pub mod subject;
pub mod check;
pub mod fixes;
pub mod lineage;
pub mod sync;
pub mod thread;
pub mod earlier;
pub mod document;
pub mod continuity;
pub mod handoff;
pub mod context;
pub mod file_memory;
pub mod command_form;
pub mod known_error;
pub mod past_work;
pub mod friction;
pub mod tokens;
pub mod budget;
pub mod ranking;
pub mod passage;
pub mod mentioned_files;
pub mod written_lines;
pub mod linear;
pub mod injection;
pub mod used;
pub mod pause;
pub mod wall_clock;
pub mod guard;
pub mod hint;
pub mod linked_folder;
pub mod review;

#[cfg(test)]
mod red_team;
