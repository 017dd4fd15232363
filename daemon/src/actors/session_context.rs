//! State that a session shares with its pending replies.

use std::sync::Arc;

use super::writer::WriterHandle;
use recall_agents::Agents;
use recall_app::checkouts::Checkouts;
use recall_app::context_lookup::ContextLookup;
use recall_app::crashes::Crashes;
use recall_app::ingest::Counters;
use recall_app::injection_receipt::PendingAnswers;
use recall_app::settings::CurrentRedactor;
use recall_app::transcript_replies::TranscriptReplies;
use recall_domain::ids::Timestamp;
use recall_domain::order::Order;
use recall_domain::session::{CapturePolicy, IdlePolicy};
use recall_store::SessionOrigin;

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
#[derive(Default)]
pub(super) enum OriginState {
    #[default]
    Unknown,
    /// Known, but possibly not stored yet.
    Found(SessionOrigin, Order),
    /// Known and stored. `None` if it is no longer known which event decided.
    Stored(Option<Order>),
}
