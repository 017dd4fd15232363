//! Finds observations that a newer observation of another session covers, using the rule of `domain::thread`.
//!
//! An observation with its own subject (`domain::subject`) is in no thread. An observation is checked again when it
//! changes, and when the observation that covers it is added, changed or removed. So the result does not depend on the
//! order of commits.

use std::collections::{BTreeSet, HashSet};

use rusqlite::{Connection, Row};

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::{Cells, Sql};
use crate::operation::WriteContext;
use crate::sessions::enders::{Ender, THREAD, USER, keep_ender, rejected, restate, undone};
use recall_domain::ids::{ObservationId, ProjectRow};
use recall_domain::lineage::Author;
use recall_domain::observation::ObservationDraft;
use recall_domain::thread::{Saying, ThreadWords};

/// The number of a project's latest observations that are compared; reading them takes a few milliseconds.
const LATEST: u32 = 2_000;

/// Encodes the fields that are compared.
pub(crate) fn thread_words(draft: &ObservationDraft) -> Vec<u8> {
    let texts = [&draft.title, &draft.narrative].into_iter().chain(&draft.facts);
    thread_words_of(texts.map(String::as_str))
}

/// Like [`thread_words`], from an observation's title, narrative and facts.
pub(crate) fn thread_words_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    ThreadWords::of(texts).to_bytes()
}

/// Recomputes what covers these observations, what they cover, and what removed observations covered.
pub(crate) fn rethread(
    db: &WriteContext<'_>,
    project: ProjectRow,
    touched: &BTreeSet<ObservationId>,
) -> Result<(), StoreError> {
    let concerned = concerned(db, project, touched)?;
    if concerned.is_empty() && touched.is_empty() {
        return Ok(());
    }
    let (latest, rejected) = (latest(db, project)?, rejected(db, project)?);
    let newer: Vec<&Saying> = latest.iter().filter(|saying| touched.contains(&saying.id)).collect();
    let is_concerned =
        |older: &&Saying| concerned.contains(&older.id) || newer.iter().any(|newer| newer.covers(older));
    for older in latest.iter().filter(is_concerned) {
        let undone = undone(db, older.id)?;
        let stands = |newer: &&Saying| {
            newer.covers(older) && !rejected.contains(&newer.id) && !undone.contains(&Ender::Newer(newer.id))
        };
        let first = latest.iter().filter(stands).min_by_key(|newer| (newer.at, &newer.words, newer.id));
        keep_ender(db, older.id, first.map(|newer| (Ender::Newer(newer.id), THREAD, Vec::new())))?;
        restate(db, older.id)?;
    }
    Ok(())
}

/// Returns the observations to check again: changed ones, those they covered, and those whose cover was removed.
fn concerned(
    db: &Connection,
    project: ProjectRow,
    touched: &BTreeSet<ObservationId>,
) -> Result<HashSet<ObservationId>, StoreError> {
    let found = db.all(
        "SELECT value FROM json_each(?2)
         UNION SELECT older FROM lineage WHERE newer IN (SELECT value FROM json_each(?2)) AND reason = ?3
         UNION SELECT id FROM observations INDEXED BY observations_uncovered
               WHERE project = ?1 AND status = 'superseded' AND superseded_by IS NULL",
        params![project, serde_json::to_string(touched)?, THREAD],
    )?;
    Ok(found.into_iter().collect())
}

const SAYING: &str = "SELECT id, origin, session, created_at, words FROM observations";

fn latest(db: &Connection, project: ProjectRow) -> Result<Vec<Saying>, StoreError> {
    let mut find = db.prepare_cached(&format!(
        "{SAYING} WHERE project = ?1 AND subject IS NULL AND words IS NOT NULL
         ORDER BY created_at DESC, id DESC LIMIT ?2"
    ))?;
    Ok(find.query_map(params![project.0, LATEST], read)?.collect::<Result<_, _>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Saying> {
    let origin: String = row.cell(1)?;
    Ok(Saying {
        id: row.cell(0)?,
        author: if origin == USER { Author::User } else { Author::Compressor },
        session: row.cell(2)?,
        at: row.cell(3)?,
        words: ThreadWords::from_bytes(row.get_ref(4)?.as_blob().unwrap_or_default()),
    })
}

/// Returns the observation that covers this one now.
pub(crate) fn covers(db: &Connection, id: ObservationId) -> Result<Vec<ObservationId>, StoreError> {
    let latest = latest(db, db.one("SELECT project FROM observations WHERE id = ?1", params![id])?)?;
    let Some(older) = latest.iter().find(|saying| saying.id == id) else { return Ok(Vec::new()) };
    Ok(latest.iter().filter(|newer| newer.covers(older)).map(|newer| newer.id).collect())
}

#[cfg(test)]
mod tests;
