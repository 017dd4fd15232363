//! Answers about the database as a whole: the user's queries, backups, checks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use recall_store::ForgottenCounts;

#[derive(Serialize, Deserialize)]
pub struct SqlAnswer {
    pub columns: Vec<String>,
    /// A blob is a text such as `x'0aff'`.
    pub rows: Vec<Vec<Value>>,
    /// Whether there are more rows than the limits allow.
    pub more: bool,
}

#[derive(Serialize, Deserialize)]
pub struct BackupAnswer {
    pub path: String,
    pub bytes: u64,
}

#[derive(Serialize, Deserialize)]
pub struct RestoreBackupAnswer {
    pub restored: String,
    /// The current path of the database that was in use before.
    pub kept: String,
    /// Items that were forgotten after the backup was made. They are not restored.
    pub forgotten: ForgottenCounts,
    /// Descriptions of parts of the backup that recall did not make or cannot read. They are not restored.
    pub left_behind: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub struct CheckAnswer {
    pub healthy: bool,
    /// Descriptions of the problems found; empty if there are none.
    pub problems: Vec<String>,
    pub sessions: i64,
    pub documents: u64,
}

#[derive(Serialize, Deserialize)]
pub struct ReindexAnswer {
    pub documents: u64,
}
