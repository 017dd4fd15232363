//! Why an observation holds no longer, as others read it.

use serde::{Deserialize, Serialize};

use super::Text;
use crate::memory::lineage::Settling;
use crate::store::{LineageRow, Relation};

#[derive(Serialize, Deserialize)]
pub struct LineageAnswer {
    /// `superseded_by`, `supersedes` or `resolved`.
    pub relation: Text,
    /// In words, e.g. that the check passes which had failed.
    pub reason: Text,
    /// The other observation, where there is one.
    pub id: Option<i64>,
    pub title: Option<String>,
    /// Whose work it was, where it was anybody's.
    pub session_id: Option<String>,
    pub prompt_number: Option<u32>,
    /// The events that show it.
    pub evidence: Vec<String>,
}

impl From<LineageRow> for LineageAnswer {
    fn from(row: LineageRow) -> Self {
        let (relation, reason) = match row.relation {
            Relation::SupersededBy => ("superseded_by", "it is a newer statement about the same"),
            Relation::Supersedes => ("supersedes", "it is an older statement about the same"),
            Relation::Settled(Settling::Passed) => ("resolved", "the check passes after a change"),
            Relation::Settled(Settling::Done) => ("resolved", "it was reported done"),
            Relation::Settled(Settling::Delivered) => ("resolved", "it was done in the same session"),
            Relation::ResolvedByHand => ("resolved", "you said so"),
        };
        let (id, title) = row.other.map(|(id, title)| (id.0, title)).unzip();
        let (session_id, prompt_number) = row.work.map(|(session, number)| (session.0, number)).unzip();
        let (relation, reason) = (relation.into(), reason.into());
        Self { relation, reason, id, title, session_id, prompt_number, evidence: row.evidence }
    }
}
