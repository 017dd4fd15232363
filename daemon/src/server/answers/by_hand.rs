//! What was forgotten, or would be.

use serde::{Deserialize, Serialize};

use super::{PublicId, Text};
use crate::store::ForgottenCounts;

/// How much is meant or gone.
#[derive(Serialize, Deserialize)]
pub struct ForgetAnswer {
    #[serde(flatten)]
    pub counts: ForgottenCounts,
    /// Files in the spool that hold no event that could be stored.
    pub spool_files: u64,
    /// What stays because nobody can say whose it is.
    pub unreadable: UnreadableAnswer,
    /// The first of what would go; only where nothing has gone yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ForgetItem>>,
}

#[derive(Serialize, Deserialize)]
pub struct UnreadableAnswer {
    /// Events that are kept as they came.
    pub events: usize,
    pub damaged_files: u64,
    pub other_version_files: u64,
    /// Events in the spool that cannot be stored at this moment.
    pub waiting_files: u64,
}

#[derive(Serialize, Deserialize)]
pub struct ForgetItem {
    pub id: PublicId,
    pub kind: Text,
    pub title: String,
}
