//! Threads of statements: what holds now, and what was said before.

use std::collections::{BTreeMap, HashMap};

use crate::database::row::{Sql, record};
use crate::{Reader, StoreError};
use recall_domain::document::Status;
use recall_domain::ids::{ObservationId, ProjectRow, SessionId, Timestamp};
use recall_domain::observation::ObservationType;

record! {
/// A statement of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct StatementRow from "observations o JOIN projects p ON p.id = o.project
    LEFT JOIN sessions s ON s.id = o.session LEFT JOIN prompt_batches b ON b.id = o.batch" {
    pub id: ObservationId = "o.id",
    pub kind: ObservationType = "o.type",
    pub title: String = "o.title",
    pub narrative: String = "o.narrative",
    pub status: Status = "o.status",
    pub project: String = "p.name",
    pub session: Option<SessionId> = "s.session_id",
    pub prompt_number: Option<u32> = "b.prompt_number",
    pub created_at: Timestamp = "o.created_at",
}
}

impl Reader<'_> {
    /// Returns the ids of threads, latest thread first, and in each the newest statement first. The statements of a
    /// thread superseded each other; a resolved one may be alone.
    pub fn histories(self, projects: Option<&[ProjectRow]>) -> Result<Vec<Vec<ObservationId>>, StoreError> {
        let db = self.0;
        let of_projects = projects.map_or_else(String::new, |projects| {
            let rows: Vec<String> = projects.iter().map(|row| row.0.to_string()).collect();
            format!(" AND o.project IN ({})", rows.join(", "))
        });
        let replaced: Vec<(ObservationId, ObservationId)> = db.all(
        &format!(
            "SELECT o.id, o.superseded_by FROM observations o WHERE o.superseded_by IS NOT NULL{of_projects}"
        ),
        [],
    )?;
        let resolved: Vec<ObservationId> =
            db.all(&format!("SELECT o.id FROM observations o WHERE o.status = 'resolved'{of_projects}"), [])?;
        let successors: HashMap<ObservationId, ObservationId> = replaced.iter().copied().collect();
        let mut threads: BTreeMap<ObservationId, Vec<ObservationId>> = BTreeMap::new();
        for id in successors.keys() {
            let newest = newest(&successors, *id);
            threads.entry(newest).or_insert_with(|| vec![newest]).push(*id);
        }
        for id in resolved {
            threads.entry(newest(&successors, id)).or_insert_with(|| vec![id]);
        }
        let mut threads: Vec<Vec<ObservationId>> = threads.into_values().collect();
        for thread in &mut threads {
            thread.sort_unstable_by(|one, other| other.cmp(one));
            thread.dedup();
        }
        threads.sort_unstable_by(|one, other| other.first().cmp(&one.first()));
        Ok(threads)
    }

    /// The existing statements with these ids, in order.
    pub fn statements(self, ids: &[ObservationId]) -> Result<Vec<StatementRow>, StoreError> {
        let sql = format!("{} WHERE o.id = ?1", StatementRow::SELECT);
        let found = ids.iter().map(|id| self.0.first(&sql, [id.0]));
        Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

/// Returns the newest statement of a thread. Damage may have created a cycle.
fn newest(successors: &HashMap<ObservationId, ObservationId>, id: ObservationId) -> ObservationId {
    let mut last = id;
    for _ in 0..successors.len() {
        match successors.get(&last) {
            Some(next) if *next != id => last = *next,
            _ => break,
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_statement_of_a_thread_is_found_over_several_steps() {
        let links = |links: &[(i64, i64)]| {
            links
                .iter()
                .map(|(old, new)| (ObservationId(*old), ObservationId(*new)))
                .collect::<HashMap<_, _>>()
        };
        let successors = links(&[(1, 2), (2, 5), (3, 5)]);
        assert_eq!([1, 2, 3, 5].map(|id| newest(&successors, ObservationId(id))), [ObservationId(5); 4]);
        let circle = links(&[(1, 2), (2, 1)]);
        assert_eq!(newest(&circle, ObservationId(1)), ObservationId(2), "it ends");
    }
}
