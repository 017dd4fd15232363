//! What a session and its pending replies work with.

use std::sync::Arc;

use super::writer::WriterHandle;
use crate::app::checkouts::Checkouts;
use crate::app::context_lookup::ContextLookup;
use crate::app::crashes::Crashes;
use crate::app::ingest::Counters;
use crate::app::injection_receipt::PendingAnswers;
use crate::app::settings::CurrentRedactor;
use crate::app::transcript_replies::TranscriptReplies;
use crate::memory::ids::Timestamp;
use crate::memory::order::Order;
use crate::memory::session::{CapturePolicy, IdlePolicy};
use crate::store::SessionOrigin;

/// What every session needs.
#[derive(Clone)]
pub struct SessionContext {
    pub writer: WriterHandle,
    pub context_lookup: ContextLookup,
    pub checkouts: Checkouts<WriterHandle>,
    pub answers: PendingAnswers,
    pub counters: Arc<Counters>,
    pub crashes: Crashes,
    pub capture: CapturePolicy,
    pub idle: IdlePolicy,
    /// Since when sessions are heard: a suspended one was not silent before.
    pub heard_since: Timestamp,
    pub transcript_replies: TranscriptReplies,
    pub redactor: CurrentRedactor,
}

/// Whether it is known where the session runs, and since which event: the earliest one decides, for an agent may go
/// anywhere later.
pub(super) enum OriginState {
    Unknown,
    /// Looked up, and not yet known to be stored.
    Found(SessionOrigin, Order),
    /// `None`: what decided is not known any more.
    Stored(Option<Order>),
}
