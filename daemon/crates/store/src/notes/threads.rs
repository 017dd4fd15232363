//! Finds observations that a newer observation of another session covers, using the rule of `domain::thread`.
//!
//! An observation with its own subject (`domain::subject`) is in no thread. An observation is checked again when it
//! changes, and when the observation that covers it is added, changed or removed. So the result does not depend on
//! the order of commits. Observations of other machines take part, and each machine gets the same result.

use std::collections::{BTreeSet, HashSet};

use rusqlite::{Connection, Row};

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::{FromRow, Sql, next};
use crate::notes::sessions_elsewhere::{SessionOf, numbered};
use crate::operation::WriteContext;
use crate::sessions::enders::{Ender, THREAD, keep_ender, rejected, restate, undone};
use recall_domain::ids::{ObservationId, ProjectRow};
use recall_domain::lineage::{Audience, Author};
use recall_domain::observation::ObservationDraft;
use recall_domain::thread::{Saying, SayingsByWord, ThreadWords};

/// The number of a project's latest observations that are compared; reading them takes a few milliseconds.
const LATEST: u32 = 2_000;

/// Up to this many observations are compared with all others one by one.
const FEW: usize = 16;

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
    let mut concerned = concerned(db, project, touched)?;
    if concerned.is_empty() && touched.is_empty() {
        return Ok(());
    }
    let (latest, rejected) = (latest(db, project)?, rejected(db, project)?);
    let compared: HashSet<ObservationId> = latest.iter().map(|saying| saying.id).collect();
    concerned.retain(|id| compared.contains(id));
    let newer = SayingsByWord::of(latest.iter().filter(|saying| touched.contains(&saying.id)));
    let is_concerned = |older: &&Saying| {
        concerned.contains(&older.id) || newer.close_to(older).iter().any(|newer| newer.covers(older))
    };
    let by_word = (concerned.len() > FEW).then(|| SayingsByWord::of(&latest));
    let all: Vec<&Saying> = latest.iter().collect();
    for older in latest.iter().filter(is_concerned) {
        let undone = undone(db, older.id)?;
        let stands = |newer: &&Saying| {
            newer.covers(older) && !rejected.contains(&newer.id) && !undone.contains(&Ender::Newer(newer.id))
        };
        let close = by_word.as_ref().map_or_else(|| all.clone(), |by_word| by_word.close_to(older));
        let first = close.into_iter().filter(stands).min_by_key(|newer| (newer.at, &newer.words, newer.id));
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

/// Columns of an observation `o` that a person wrote here or elsewhere, and that sessions may receive.
pub(crate) const IS_BY_HAND: &str = "o.origin IN ('user', 'shared:user') OR o.by_hand";
pub(crate) const INJECTABLE: &str = "o.share IS NULL OR (SELECT inject FROM shares WHERE id = o.share)";

fn latest(db: &Connection, project: ProjectRow) -> Result<Vec<Saying>, StoreError> {
    let sql = format!(
        "SELECT o.id, {IS_BY_HAND}, {INJECTABLE}, o.session, o.created_at, o.words, o.work FROM observations o
         WHERE o.project = ?1 AND o.subject IS NULL AND o.words IS NOT NULL
         ORDER BY o.created_at DESC, o.id DESC LIMIT ?2"
    );
    let rows: Vec<(Saying, Option<String>)> = db.all(&sql, params![project.0, LATEST])?;
    let (mut latest, names): (Vec<Saying>, Vec<Option<String>>) = rows.into_iter().unzip();
    let of: Vec<SessionOf> = latest.iter().zip(names).map(|(saying, name)| (saying.session, name)).collect();
    for (saying, session) in latest.iter_mut().zip(numbered(db, &of)?) {
        saying.session = session;
    }
    Ok(latest)
}

impl FromRow for Saying {
    const WIDTH: usize = 6;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        let mut at = first;
        Ok(Self {
            id: next(row, &mut at)?,
            author: if next(row, &mut at)? { Author::User } else { Author::Compressor },
            audience: if next(row, &mut at)? { Audience::Sessions } else { Audience::Searches },
            session: next(row, &mut at)?,
            at: next(row, &mut at)?,
            words: next(row, &mut at)?,
        })
    }
}

impl FromRow for ThreadWords {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(Self::from_bytes(row.get_ref(first)?.as_blob().unwrap_or_default()))
    }
}

/// Returns the observation that covers this one now.
pub(crate) fn covers(db: &Connection, id: ObservationId) -> Result<Vec<ObservationId>, StoreError> {
    let latest = latest(db, db.one("SELECT project FROM observations WHERE id = ?1", params![id])?)?;
    let Some(older) = latest.iter().find(|saying| saying.id == id) else { return Ok(Vec::new()) };
    Ok(latest.iter().filter(|newer| newer.covers(older)).map(|newer| newer.id).collect())
}

#[cfg(test)]
mod tests;
