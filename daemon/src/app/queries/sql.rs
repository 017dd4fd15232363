//! `recall sql` and `recall ctl check`.

use std::time::Duration;

use recall_protocol::query::{Check, Sql};
use recall_protocol::wire::ErrorKind;

use super::{Answer, Refused, read};
use crate::app::answers::upkeep::{CheckAnswer, SqlAnswer};
use crate::app::context_lookup::ContextLookup;
use crate::app::index_handle::IndexState;
use crate::store::{self, QueryError, QueryLimits, StoreError, Thoroughness};

const MOST_ROWS: u32 = 10_000;
/// An answer fits into a frame, escaped as JSON.
const MOST_BYTES: usize = 4 * 1024 * 1024;
const WITHIN: Duration = Duration::from_secs(10);
const HINT: &str = "The tables and views are in docs/sql.md; `recall sql \"SELECT name, sql FROM sqlite_schema\"` lists the tables.";

pub fn sql(lookup: &ContextLookup, request: Sql) -> Answer<SqlAnswer> {
    let limits = QueryLimits { rows: request.limit.min(MOST_ROWS) as usize, bytes: MOST_BYTES, time: WITHIN };
    let refused = |what: String, hint: &str| Refused::new(ErrorKind::Invalid, what, hint);
    match store::query(&lookup.readers, &request.text, limits) {
        Ok(found) => Ok(SqlAnswer { columns: found.columns, rows: found.rows, more: found.more }),
        Err(QueryError::Store(error)) => {
            lookup.readers.suspect(&error);
            Err(error.into())
        }
        Err(error @ QueryError::Wrong(_)) => Err(refused(format!("The query failed: {error}"), HINT)),
        Err(QueryError::NotReading) => Err(refused(
            "The query was refused: only reading is allowed".to_owned(),
            "Use `recall edit`, `recall resolve` or `recall forget` to change what is remembered.",
        )),
        Err(error @ QueryError::TooLong(_)) => {
            Err(refused(format!("The query was stopped: {error}"), "Narrow it with WHERE and LIMIT."))
        }
    }
}

pub fn check(lookup: &ContextLookup, _: Check) -> Answer<CheckAnswer> {
    let mut problems = Vec::new();
    let checked = lookup.readers.read(|db| store::check(db, Thoroughness::StructureAndIndexes));
    match checked {
        Ok(()) => {}
        Err(StoreError::Damaged(why)) => problems.push(format!("the database is damaged: {why}")),
        Err(error) => return Err(error.into()),
    }
    let (loose, orphans, newest, sessions) = read(lookup, |db| {
        Ok((
            store::loose_rows(db)?,
            store::has_orphans(db)?,
            store::highest_log_entry(db)?,
            store::statistics(db)?,
        ))
    })?;
    if loose > 0 {
        problems.push(format!("{loose} rows refer to rows that are not there"));
    }
    if orphans {
        problems.push(
            "some calls have no prompt, or some prompts were never compressed; housekeeping repairs it"
                .to_owned(),
        );
    }
    match lookup.index.state() {
        IndexState::Absent => problems.push("the search index is missing".to_owned()),
        IndexState::Filling(_) => problems.push("the search index is being built".to_owned()),
        IndexState::Unexamined(index) | IndexState::Complete(index) if index.high_water() > newest => {
            problems.push(
                "the search index is of another database; `recall ctl reindex` builds it again".to_owned(),
            );
        }
        IndexState::Unexamined(_) | IndexState::Complete(_) => {}
    }
    let documents = lookup.index.index().map_or(0, |index| index.documents());
    Ok(CheckAnswer { healthy: problems.is_empty(), problems, sessions: sessions.sessions, documents })
}
