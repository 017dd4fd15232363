//! Stores subjects of observations as hashes, so that forgetting need not find another copy of a text.

use std::collections::BTreeSet;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::{FromRow, Sql};
use recall_domain::ids::{BatchId, EventId, ObservationId};
use recall_domain::lineage::replacement;
use recall_domain::observation::ObservationDraft;
use recall_domain::subject::SubjectKey;

/// The first 16 bytes of a subject's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SubjectHash(pub(crate) [u8; 16]);

impl SubjectHash {
    pub(crate) fn of(subject: &SubjectKey) -> Self {
        Self(hash(subject.as_str()))
    }
}

impl FromRow for SubjectHash {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        FromRow::from_row(row, first).map(Self)
    }

    fn is_there(value: ValueRef<'_>) -> bool {
        <[u8; 16]>::is_there(value)
    }
}

fn hash(text: &str) -> [u8; 16] {
    Sha256::digest(text.as_bytes()).first_chunk().copied().unwrap_or_default()
}

/// The hash of a path.
pub(crate) fn file_hash(path: &str) -> String {
    hash(path).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the subjects that a query selects.
pub(crate) fn subjects(
    db: &Connection,
    sql: &str,
    given: impl rusqlite::Params,
) -> Result<BTreeSet<SubjectHash>, StoreError> {
    Ok(db.all::<Option<SubjectHash>>(sql, given)?.into_iter().flatten().collect())
}

/// A draft with its subject.
pub(crate) struct Aimed<'a> {
    pub(crate) draft: &'a ObservationDraft,
    pub(crate) subject: Option<SubjectHash>,
}

/// Returns the drafts with their subjects: their own, or that of an observation which a draft continues in other
/// words.
pub(crate) fn with_heirs<'a>(
    db: &Connection,
    batch: BatchId,
    drafts: &'a [ObservationDraft],
) -> Result<Vec<Aimed<'a>>, StoreError> {
    let own =
        |draft: &'a ObservationDraft| Aimed { draft, subject: draft.subject.as_ref().map(SubjectHash::of) };
    let mut aimed: Vec<Aimed<'a>> = drafts.iter().map(own).collect();
    let before: Vec<(SubjectHash, String, Vec<String>)> = db.all(
        "SELECT subject, title, evidence FROM observations
         WHERE batch = ?1 AND subject IS NOT NULL AND origin <> 'user' ORDER BY id",
        params![batch],
    )?;
    for (subject, title, evidence) in before {
        if aimed.iter().any(|aimed| aimed.subject == Some(subject)) {
            continue;
        }
        let evidence: Vec<EventId> = evidence.iter().filter_map(|event| event.parse().ok()).collect();
        let goes_on = replacement(&title, &evidence, drafts).and_then(|at| aimed.get_mut(at));
        if let Some(heir) = goes_on.filter(|heir| heir.subject.is_none()) {
            heir.subject = Some(subject);
        }
    }
    Ok(aimed)
}

/// Sets the subject of an observation if it became known. An observation from another batch keeps its subject.
pub(crate) fn aim(
    db: &Connection,
    id: ObservationId,
    subject: Option<SubjectHash>,
) -> Result<(), StoreError> {
    if let Some(subject) = subject {
        db.run("UPDATE observations SET subject = ?2 WHERE id = ?1", params![id, subject.0])?;
    }
    Ok(())
}
