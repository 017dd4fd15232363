//! Selects the built-in observations of a session across all its batches.
//!
//! Each batch first gets its own result, which may repeat another batch's result or be revoked by a later one. The
//! session's job then drafts all batches together and replaces these results in one transaction.
//!
//! A live session is selected again only after it has grown by a quarter, so that long sessions do not cost the square
//! of their length: 200 batches take 1,168 drafts instead of 20,100. An ended session is selected as a whole, even if
//! the same batches were selected while it was live, because some findings show only across all batches.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row;
use crate::database::row::Sql;
use crate::jobs::job_kind::JobKind;
use crate::jobs::queue;
use crate::jobs::queue::Lives;
use crate::notes::evidence::retract_missing;
use crate::notes::results::{DuplicateScope, Pass, batch_scope};
use crate::notes::subjects::{subjects, with_heirs};
use crate::operation::WriteContext;
use crate::{Reader, StoreError};
use recall_domain::ids::{BatchId, ObservationId, SessionRow, Timestamp};
use recall_domain::lifecycle::LifecycleKind;
use recall_domain::material::SessionExtent;
use recall_domain::observation::{NoteOrigin, ObservationDraft};
use recall_domain::thread::{MOST_OF_IT, ThreadWords};

/// The batches whose observations must be selected again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueChoice {
    /// The number of the session's first batches in the selection.
    pub among: usize,
    pub extent: SessionExtent,
    pub batches: Vec<DueBatch>,
}

/// A batch with a built-in result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueBatch {
    pub batch: BatchId,
    /// Its index among the session's batches.
    pub index: usize,
    /// When its current result was made.
    pub made_at: Option<Timestamp>,
}

/// The new observations of a session's batches.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionChoice {
    pub among: usize,
    pub extent: SessionExtent,
    /// In batch order.
    pub batches: Vec<ChosenBatch>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ChosenBatch {
    pub of: DueBatch,
    pub drafts: Vec<ObservationDraft>,
    /// The cost of reading the batch itself.
    pub source_tokens: i64,
}

/// The stored size of a whole, ended session's selection. No other is larger.
const WHOLE: u32 = row::MOST;

/// The size of a selection as stored.
fn stored(among: usize, extent: SessionExtent) -> u32 {
    match extent {
        SessionExtent::Whole => WHOLE,
        SessionExtent::SoFar => u32::try_from(among).unwrap_or(WHOLE),
    }
}

/// The number of a session's first batches to select from.
fn reach(batches: usize, lives: Lives) -> usize {
    match lives {
        Lives::NoLonger => batches,
        Lives::On => {
            let quarter = batches.checked_ilog2().map_or(1, |octave| 1 << octave.saturating_sub(2));
            batches - batches % quarter
        }
    }
}

impl Reader<'_> {
    /// Returns the batches to select again. `None` if every batch was already part of such a selection.
    pub fn due_choice(self, session: SessionRow, lives: Lives) -> Result<Option<DueChoice>, StoreError> {
        let rows: Vec<(BatchId, Option<Timestamp>, Option<u32>)> = self.0.all(
            "SELECT id, compressed_at, chosen_among FROM prompt_batches WHERE session = ?1 ORDER BY prompt_number, seq",
            params![session],
        )?;
        let among = reach(rows.len(), lives);
        let has_ended = lives == Lives::NoLonger || self.has_ended_once(session)?;
        let extent = if has_ended { SessionExtent::Whole } else { SessionExtent::SoFar };
        let built_in =
            rows.into_iter().take(among).enumerate().filter_map(|(index, (batch, made_at, chosen))| {
                Some((DueBatch { batch, index, made_at }, chosen?))
            });
        let (batches, chosen): (Vec<_>, Vec<_>) = built_in.unzip();
        let is_due = chosen.iter().any(|chosen| *chosen < stored(among, extent));
        Ok(is_due.then_some(DueChoice { among, extent, batches }))
    }

    /// Returns the batches that need a model's notes: those with a built-in result. For a live session, only those
    /// before a compaction; the others are noted when the session ends.
    pub fn due_notes(self, session: SessionRow, lives: Lives) -> Result<Vec<DueBatch>, StoreError> {
        let db = self.0;
        let all = match due_batches(db, session)? {
            batches if lives == Lives::NoLonger => return Ok(batches),
            batches => batches,
        };
        let is_over =
            "SELECT EXISTS (SELECT 1 FROM prompt_batches b JOIN compactions c ON c.session = b.session
            WHERE b.id = ?1 AND b.status = 'closed' AND b.opened_at < ifnull(c.started_at, c.ended_at))";
        let mut due = Vec::new();
        for batch in all {
            if db.one(is_over, [batch.batch.0])? {
                due.push(batch);
            }
        }
        Ok(due)
    }

    /// Whether a model's notes cover the whole session. A summary made from them is then better than a built-in one.
    pub fn is_noted(self, session: SessionRow) -> Result<bool, StoreError> {
        self.0.one(
            "SELECT EXISTS (SELECT 1 FROM session_summaries WHERE session = ?1 AND origin <> ?2)
            AND NOT EXISTS (SELECT 1 FROM prompt_batches WHERE session = ?1 AND chosen_among IS NOT NULL)",
            params![session, NoteOrigin::BUILT_IN],
        )
    }

    /// Whether a session has ended before, although it may be live again.
    fn has_ended_once(self, session: SessionRow) -> Result<bool, StoreError> {
        self.0.one(
            "SELECT EXISTS (SELECT 1 FROM life_events WHERE session = ?1 AND name = 'session_end')",
            [session.0],
        )
    }

    /// Returns the titles of a model's notes on a session, in order.
    pub fn noted_titles(self, session: SessionRow) -> Result<Vec<String>, StoreError> {
        self.0.all(
            "SELECT title FROM observations WHERE session = ?1 AND status = 'active' AND origin NOT IN (?2, 'user')
             ORDER BY batch, id",
            params![session, NoteOrigin::BUILT_IN],
        )
    }
}

/// Returns the batches with a built-in result.
fn due_batches(db: &Connection, session: SessionRow) -> Result<Vec<DueBatch>, StoreError> {
    let rows: Vec<(BatchId, Option<Timestamp>, bool)> = db.all(
        "SELECT id, compressed_at, chosen_among IS NOT NULL FROM prompt_batches WHERE session = ?1
         ORDER BY prompt_number, seq",
        params![session],
    )?;
    let due = rows
        .into_iter()
        .enumerate()
        .filter_map(|(index, (batch, made_at, is_due))| is_due.then_some(DueBatch { batch, index, made_at }));
    Ok(due.collect())
}

/// Replaces the batches' built-in observations with those of `origin`. An observation that is made again keeps its id
/// and status, even if another batch made it before. If a new one says most of one that is not made again, an event
/// reports it. Observations of a model, and those that a user edited, pinned, reviewed, resolved or reopened, stay. A
/// batch that changed in the meantime waits for the next selection.
pub(crate) fn keep_choice(
    db: &WriteContext<'_>,
    session: SessionRow,
    choice: &SessionChoice,
    origin: &NoteOrigin,
    now: Timestamp,
) -> Result<Vec<LifecycleKind>, StoreError> {
    const IS_CURRENT: &str = "SELECT EXISTS (SELECT 1 FROM prompt_batches
        WHERE id = ?1 AND session = ?2 AND chosen_among IS NOT NULL AND compressed_at IS ?3)";
    let mut batches = Vec::new();
    for chosen in &choice.batches {
        if db.one(IS_CURRENT, params![chosen.of.batch, session, chosen.of.made_at])? {
            batches.push((chosen, batch_scope(db, chosen.of.batch)?));
        }
    }
    if batches.len() < choice.batches.len() {
        queue::enqueue(db, JobKind::Summary, session, None, now)?;
    }
    let Some((_, (place, _))) = batches.first() else { return Ok(Vec::new()) };
    let project = place.project;
    let opened_at = batches.iter().map(|(_, (_, opened_at))| *opened_at).min().unwrap_or_default();
    let mut pass = Pass::new(origin, opened_at);
    let mut drafts = Vec::new();
    for (chosen, _) in &batches {
        let batch = chosen.of.batch;
        pass.concerned.extend(subjects(
            db,
            "SELECT subject FROM observations WHERE batch = ?1",
            params![batch],
        )?);
        pass.unclaimed.extend(db.all::<ObservationId>(
            "SELECT id FROM observations WHERE batch = ?1 AND origin = ?2 AND pinned_at IS NULL
                AND reviewed_at IS NULL",
            params![batch, NoteOrigin::BUILT_IN],
        )?);
        drafts.push(with_heirs(db, batch, &chosen.drafts)?);
    }
    let mut kept = Vec::new();
    for ((chosen, (place, _)), drafts) in batches.iter().zip(drafts) {
        let reach = duplicates_of(db, chosen.of.batch)?;
        kept.push(pass.keep(db, place, drafts, chosen.source_tokens, reach)?);
    }
    let new: Vec<ObservationId> = kept.iter().flatten().copied().collect();
    let mut replaced = Vec::new();
    for ((chosen, _), mut kept) in batches.iter().zip(kept) {
        let batch = chosen.of.batch;
        kept.extend(not_to_retract(db, batch)?);
        for gone in of_batch(db, batch, &pass.unclaimed)? {
            if !kept.contains(&gone) {
                replaced.extend(replacement(db, gone, &new)?);
            }
        }
        pass.changed.extend(retract_missing(db, batch, &kept)?);
        let among = origin.is_built_in().then(|| stored(choice.among, choice.extent));
        db.run("UPDATE prompt_batches SET chosen_among = ?2 WHERE id = ?1", params![batch, among])?;
    }
    let mut events = pass.end(db, project)?;
    events.extend(replaced);
    Ok(events)
}

/// Returns those of the observations that belong to the batch.
fn of_batch(
    db: &Connection,
    batch: BatchId,
    ids: &BTreeSet<ObservationId>,
) -> Result<Vec<ObservationId>, StoreError> {
    db.all(
        "SELECT id FROM observations WHERE batch = ?1 AND id IN (SELECT value FROM json_each(?2)) ORDER BY id",
        params![batch, serde_json::to_string(ids)?],
    )
}

/// Returns the new observation that says most of an older one.
fn replacement(
    db: &Connection,
    gone: ObservationId,
    new: &[ObservationId],
) -> Result<Option<LifecycleKind>, StoreError> {
    let words = |id| db.one::<ThreadWords>("SELECT words FROM observations WHERE id = ?1", params![id]);
    let gone_words = words(gone)?;
    let mut best = None;
    for id in new {
        let share = gone_words.share_in(&words(*id)?);
        if share >= MOST_OF_IT && best.is_none_or(|(most, _)| share > most) {
            best = Some((share, *id));
        }
    }
    let Some((_, heir)) = best else { return Ok(None) };
    let title = db.one("SELECT title FROM observations WHERE id = ?1", params![heir])?;
    Ok(Some(LifecycleKind::ObservationReplaced { id: gone, by: heir, title }))
}

/// A pending model result will replace all of the batch's observations, so nothing is mixed with them until then.
fn duplicates_of(db: &Connection, batch: BatchId) -> Result<DuplicateScope, StoreError> {
    let is_owed: bool = db.one(
        "SELECT EXISTS (SELECT 1 FROM jobs WHERE batch = ?1 AND stood_in AND status <> 'done')",
        params![batch],
    )?;
    Ok(if is_owed { DuplicateScope::Batch } else { DuplicateScope::Project })
}

/// Returns the observations of a batch that a selection keeps.
fn not_to_retract(db: &Connection, batch: BatchId) -> Result<Vec<ObservationId>, StoreError> {
    db.all(
        "SELECT id FROM observations o WHERE batch = ?1 AND (origin <> ?2 OR pinned_at IS NOT NULL
            OR reviewed_at IS NOT NULL OR EXISTS (
            SELECT 1 FROM lineage l WHERE l.older = o.id AND (l.reason = 'user' OR l.undone)))",
        params![batch, NoteOrigin::BUILT_IN],
    )
}

/// Must be called when a batch gets a result. If its session had a selection before, or has ended, a new selection is
/// due.
pub(crate) fn batch_is_made(
    db: &WriteContext<'_>,
    session: SessionRow,
    batch: BatchId,
    origin: &NoteOrigin,
    now: Timestamp,
) -> Result<(), StoreError> {
    let is_due: bool = db.one(
        "SELECT ifnull(b.chosen_among, 0) > 0 OR s.status = 'completed'
         FROM prompt_batches b JOIN sessions s ON s.id = b.session WHERE b.id = ?1",
        params![batch],
    )?;
    let chosen_among = origin.is_built_in().then_some(0);
    db.run(
        "UPDATE prompt_batches SET compressed_at = ?2, chosen_among = ?3 WHERE id = ?1",
        params![batch, now, chosen_among],
    )?;
    if is_due && chosen_among.is_some() {
        queue::enqueue(db, JobKind::Summary, session, None, now)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
