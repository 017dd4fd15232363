//! Why an observation is no longer valid, as JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Text;
use recall_store::{LineageRow, Relation};

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct LineageAnswer {
    /// `superseded_by`, `supersedes` or `resolved`.
    pub relation: Text,
    /// In words, for example that a check which failed now passes.
    pub reason: Text,
    /// The other observation, if any.
    pub id: Option<i64>,
    pub title: Option<String>,
    /// The session that did the work, if any.
    pub session_id: Option<String>,
    pub prompt_number: Option<u32>,
    /// The events that prove it.
    pub evidence: Vec<String>,
}

impl LineageAnswer {
    /// The reason for an observation that the user resolved.
    pub const MANUALLY: &str = "manually";
    /// The reason for an observation that the user rejected.
    pub const REJECTED: &str = "rejected";
}

impl From<LineageRow> for LineageAnswer {
    fn from(row: LineageRow) -> Self {
        let (relation, reason) = match row.relation {
            Relation::SupersededBy => ("superseded_by", "it is a newer statement on the same subject"),
            Relation::Supersedes => ("supersedes", "it is an older statement on the same subject"),
            Relation::Settled => ("resolved", "the check passes after a change"),
            Relation::ResolvedByHand => ("resolved", Self::MANUALLY),
            Relation::GoneFromFile => ("resolved", "its file no longer says so"),
            Relation::Rejected => ("resolved", Self::REJECTED),
        };
        let (id, title) = row.other.map(|(id, title)| (id.0, title)).unzip();
        let (session_id, prompt_number) = row.work.map(|(session, number)| (session.0, number)).unzip();
        let (relation, reason) = (relation.into(), reason.into());
        Self { relation, reason, id, title, session_id, prompt_number, evidence: row.evidence }
    }
}
