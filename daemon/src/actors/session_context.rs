//! State that a session shares with its pending replies.

use std::sync::Arc;

use super::writer::WriterHandle;
use crate::agents::Agents;
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

/// Services that every session needs.
#[derive(Clone)]
pub struct SessionContext {
    pub agents: Agents,
    pub writer: WriterHandle,
    pub context_lookup: ContextLookup,
    pub checkouts: Checkouts<WriterHandle>,
    pub answers: PendingAnswers,
    pub counters: Arc<Counters>,
    pub crashes: Crashes,
    pub capture: CapturePolicy,
    pub idle: IdlePolicy,
    /// When the daemon began to receive events. A suspended session's silence counts from here.
    pub started_at: Timestamp,
    pub transcript_replies: TranscriptReplies,
    pub redactor: CurrentRedactor,
}

/// Whether the session's folder is known, and which event decided it. The earliest event decides, because an agent may
/// change its folder later.
pub(super) enum OriginState {
    Unknown,
    /// Found out, but perhaps not stored yet.
    Found(SessionOrigin, Order),
    /// Stored. `None` if the event that decided is no longer known.
    Stored(Option<Order>),
}
