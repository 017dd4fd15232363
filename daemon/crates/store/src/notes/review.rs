//! Observations that nobody has reviewed, and a person's verdicts on them.
//!
//! A rejected observation is resolved by hand, with an additional mark. So everything that leaves out resolved
//! observations leaves it out, too. It replaces nothing. A compression that makes it again adds evidence to it and
//! does not restore it.

use serde_json::json;

use crate::database::row::Sql;
use crate::notes::hand_changes::{Reviewed, mark, remember};
use crate::operation::{Operation, WriteContext};
use crate::sessions::lineage;
use crate::{Reader, StoreError};
use recall_domain::ids::{ObservationId, ProjectRow, Timestamp};
use recall_domain::review::ReviewVerdict;

/// Whether an observation waits for a review: it holds, a machine made it, and no person has looked at it.
const WAITS: &str = "status = 'active' AND reviewed_at IS NULL AND pinned_at IS NULL AND origin <> 'user'";

/// A person's verdict on observations. A kept one that was rejected holds again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewObservations {
    pub ids: Vec<ObservationId>,
    pub verdict: ReviewVerdict,
    pub at: Timestamp,
}

/// Which observations that wait for a review are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreviewed {
    /// `None` means all.
    pub projects: Option<Vec<ProjectRow>>,
    pub from: Timestamp,
    pub until: Timestamp,
}

impl Operation for ReviewObservations {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Self { ids, verdict, at } = self;
        for id in ids {
            let before = Reviewed::of(db, id)?;
            let is_recorded =
                before.at.is_some() && before.is_rejected == (verdict == ReviewVerdict::Rejected);
            if is_recorded {
                continue;
            }
            let ended = lineage::enders(db, id)?;
            let what = match verdict {
                ReviewVerdict::Kept => "keep",
                ReviewVerdict::Rejected => "reject",
            };
            remember(db, id, what, json!({"status": before.status.as_str(), "ended": ended}), at)?;
            mark(db, id, at)?;
            match verdict {
                ReviewVerdict::Kept if before.is_rejected => lineage::uphold(db, id)?,
                ReviewVerdict::Kept => {}
                ReviewVerdict::Rejected => {
                    lineage::judge(db, id, ReviewVerdict::Rejected)?;
                    lineage::resolve_by_hand(db, id)?;
                }
            }
        }
        Ok(())
    }
}

impl Unreviewed {
    /// SQL for these rows. It contains only our own numbers and words. The index has just what waits; by time, all others
    /// would be read, too.
    fn source(&self) -> String {
        let of_projects = self.projects.as_ref().map(|rows| {
            let rows: Vec<String> = rows.iter().map(|row| row.0.to_string()).collect();
            format!(" AND project IN ({})", rows.join(", "))
        });
        let (from, until) = (self.from.0, self.until.0);
        let of_projects = of_projects.unwrap_or_default();
        format!(
            "observations INDEXED BY observations_unreviewed WHERE {WAITS}{of_projects} AND created_at >= {from}
                AND created_at < {until}"
        )
    }
}

impl Reader<'_> {
    /// The observations that wait for a review, newest first, without the first `skip`.
    pub fn unreviewed(
        self,
        which: &Unreviewed,
        skip: u32,
        limit: u32,
    ) -> Result<Vec<(ObservationId, Timestamp)>, StoreError> {
        let sql = format!(
            "SELECT id, created_at FROM {} ORDER BY created_at DESC, id DESC LIMIT ?1 OFFSET ?2",
            which.source()
        );
        self.0.all(&sql, [limit, skip])
    }

    /// How many observations wait for a review.
    pub fn count_unreviewed(self, which: &Unreviewed) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) FROM {}", which.source());
        Ok(self.0.one::<i64>(&sql, [])?.unsigned_abs())
    }
}

#[cfg(test)]
mod tests;
