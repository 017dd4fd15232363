//! Signs of damage, and the repairs that followed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::forgetting::ForgottenCounts;
use recall_domain::ids::Timestamp;

/// Signs of damage that a reader found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// The generation of the database, see [`Readers::renew`](crate::Readers::renew).
    pub generation: u64,
    pub evidence: Evidence,
    pub why: String,
}

/// How certain the damage is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A query or commit reported damage. It must be checked before anything is replaced.
    Reported,
    /// A check found damage.
    Proven,
    /// There is no damage: the user wants to use another database.
    Unwanted { instead: PathBuf },
}

/// A repair, as reported to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    pub at: Timestamp,
    /// SQLite's error message.
    pub why: String,
    /// The current path of the damaged database.
    pub damaged: PathBuf,
    /// The backup that replaced it; `None` for an empty database.
    pub restored: Option<PathBuf>,
    /// When that backup was made. Anything newer exists only in the damaged file.
    pub restored_from: Option<Timestamp>,
    /// Parts of the backup that were not restored.
    #[serde(default)]
    pub left_out: LeftOut,
}

/// The number of a backup's items that were not restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Items that were forgotten after the backup was made.
    pub forgotten: ForgottenCounts,
    /// Parts that this program did not make or cannot read, described for people.
    pub foreign: Vec<String>,
}
