//! The answers of `forget`: what was removed, or would be.

use serde::{Deserialize, Serialize};

use super::{PublicId, Text};
use crate::store::ForgottenCounts;

/// How much matches, or was removed.
#[derive(Serialize, Deserialize)]
pub struct ForgetAnswer {
    #[serde(flatten)]
    pub counts: ForgottenCounts,
    /// Files in the spool that contain no event that could be stored.
    pub spool_files: u64,
    /// Files that stay because their session is not known.
    pub unreadable: UnreadableAnswer,
    /// The first matching items; only before anything is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ForgetItem>>,
}

#[derive(Serialize, Deserialize)]
pub struct UnreadableAnswer {
    /// Events that are stored as they came.
    pub events: usize,
    pub damaged_files: u64,
    pub other_version_files: u64,
    /// Events in the spool that cannot be stored now.
    pub waiting_files: u64,
}

#[derive(Serialize, Deserialize)]
pub struct ForgetItem {
    pub id: PublicId,
    pub kind: Text,
    pub title: String,
}
