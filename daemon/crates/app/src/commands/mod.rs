//! Requests that change something: remarks, forgetting, pauses, and retries.

pub mod by_hand;
pub mod editing;
pub mod forget;
pub mod handoff;
pub mod improve;
pub mod memories;
pub mod restore;
pub mod retry;
pub mod review;
pub mod upkeep;
pub mod wrong;

use super::context_lookup::ContextLookup;
use super::forgetting::Forgetting;
use super::ingest::Ingest;

/// Services that commands use. Cheap to clone.
#[derive(Clone)]
pub struct CommandContext<P> {
    pub ports: P,
    pub context_lookup: ContextLookup,
    pub ingest: Ingest<P>,
    pub forgetting: Forgetting<P>,
}
