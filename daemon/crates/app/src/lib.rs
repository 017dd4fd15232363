//! Use cases: how the daemon handles an event, a query or a job, as functions and plain values.
//!
//! A use case reads the store and the index, asks `domain/` for decisions, and writes through a trait.
//!
//! **Invariant:** nothing here knows ractor, sockets, HTTP, MCP or a terminal. Actors and the server call this room; it
//! calls neither.

pub mod clock;
pub mod bus;
pub mod vector_files;
pub mod repeated_notes;
pub mod sentences;
mod passage_cache;
pub mod index_handle;
pub mod outlines;
pub mod pause;
pub mod clock_watch;
pub mod lifecycle_json;
pub mod event_feed;
pub mod event_stream;
pub mod event_trace;
pub mod latency;
pub mod identity;
pub mod material;
pub mod continuity;
pub mod ancestry;
pub mod documents;
pub mod capture_rules;
pub mod skipped_tools;
pub mod current_config;
pub mod settings;
pub mod transcript_replies;
pub mod injection_receipt;
pub mod ports;
mod embedding_backlog;
pub mod embedding_pace;
pub mod embedding_work;
pub mod crashes;
pub mod changed_files;
pub mod guards;
pub mod certain_times;
mod unreported;
pub mod ingest;
pub mod spool_watch;
pub mod draining;
pub mod checkouts;
pub mod welcome;
pub mod subject_cache;
pub mod context_lookup;
mod prompt_context;
mod notes_by_hand;
mod injection_uses;
pub mod file_context;
mod freshness;
pub mod command_context;
pub mod job_runner;
pub mod forgetting;
pub mod maintenance;
pub mod handoff;
pub mod answers;
pub mod requests;
pub mod queries;
pub mod commands;
pub mod sharing;
