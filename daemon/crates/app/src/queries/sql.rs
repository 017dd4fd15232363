//! `recall sql` and `recall ctl check`.

use recall_domain::ids::LogSeq;
use std::time::Duration;

use recall_protocol::query::{Check, Sql};
use recall_protocol::wire::ErrorKind;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::sql_reader::{MOST_BYTES, read_apart};
use super::{Answer, Refused, blocking, read};
use crate::answers::upkeep::{CheckAnswer, SqlAnswer};
use crate::context_lookup::ContextLookup;
use crate::index_handle::IndexState;
use recall_store::{DamagedRow, QueryError, StoreError, Thoroughness};

/// Limits concurrent queries. One may use a whole core and all the allowed memory.
static TURNS: Semaphore = Semaphore::const_new(1);
/// How long a query waits for its turn.
const TURN_WITHIN: Duration = Duration::from_secs(12);
/// The maximum number of unreadable rows that are reported.
const MOST_UNREADABLE: usize = 21;
const HINT: &str = "The tables and views are in docs/sql.md; `recall sql \"SELECT name, sql FROM sqlite_schema\"` lists the tables.";

pub async fn sql(lookup: &ContextLookup, request: Sql) -> Answer<SqlAnswer> {
    let Ok(Ok(_turn)) = timeout(TURN_WITHIN, TURNS.acquire()).await else {
        let what = "Other queries are still running";
        return Err(Refused::new(ErrorKind::Unavailable, what, "Try again once they have ended."));
    };
    let lookup = lookup.clone();
    blocking(move || {
        let found = read_apart(&lookup.readers, &request).map_err(|error| refusal(&lookup, error))?;
        Ok(SqlAnswer { columns: found.columns, rows: found.rows, more: found.more })
    })
    .await
}

fn refusal(lookup: &ContextLookup, error: QueryError) -> Refused {
    let refused = |what: String, hint: &str| Refused::new(ErrorKind::Invalid, what, hint);
    let stopped =
        |hint: &str| Refused::new(ErrorKind::Conflict, format!("The query was stopped: {error}"), hint);
    match &error {
        QueryError::Damaged(why) => {
            lookup.readers.suspect_reported(why.clone());
            unreadable(why)
        }
        QueryError::Unreadable(why) => unreadable(why),
        QueryError::Wrong(_) => refused(format!("The query failed: {error}"), HINT),
        QueryError::NotReading => refused(
            "The query was refused: only reading is allowed".to_owned(),
            "Use `recall edit`, `recall resolve` or `recall forget` to change what is remembered.",
        ),
        QueryError::TooLong(_) => stopped("Narrow it with WHERE and LIMIT."),
        QueryError::TooMuchMemory => {
            stopped("Narrow it with WHERE and LIMIT, and leave out columns with long texts.")
        }
        QueryError::RowTooLong(_) => {
            let hint = format!(
                "A whole answer has at most {MOST_BYTES} bytes: `substr(COLUMN, 1, 1000)` shortens a text."
            );
            stopped(&hint)
        }
    }
}

fn unreadable(why: &str) -> Refused {
    let hint = "Run `recall doctor`, or see the daemon's log.";
    Refused::new(ErrorKind::Internal, format!("The database refused: {why}"), hint)
}

/// Lists the unreadable rows, and how to delete each.
fn damaged_rows(rows: &[DamagedRow]) -> Vec<String> {
    let named = rows.iter().take(MOST_UNREADABLE - 1).map(|row| {
        let DamagedRow { kind, document, session, column } = row;
        let (id, way) = match (document, session) {
            (Some(document), _) => {
                (format!(" {document}"), format!("; `recall forget {document}` deletes it"))
            }
            (None, Some(session)) => (
                String::new(),
                format!(" (session {session}; `recall forget --session {session}` deletes it)"),
            ),
            (None, None) => (String::new(), String::new()),
        };
        format!("{}{id} has an unreadable `{column}` and is read as far as possible{way}", kind.as_str())
    });
    let more = (rows.len() >= MOST_UNREADABLE).then(|| "more rows have unreadable values".to_owned());
    named.chain(more).collect()
}

pub fn check(lookup: &ContextLookup, _: Check) -> Answer<CheckAnswer> {
    let mut problems = Vec::new();
    let checked = lookup.readers.read(|db| db.check(Thoroughness::StructureAndIndexes));
    match checked {
        Ok(()) => {}
        Err(StoreError::Damaged(why)) => problems.push(format!("the database is damaged: {why}")),
        Err(error) => return Err(error.into()),
    }
    let (loose, orphans, newest, sessions) = read(lookup, |db| {
        Ok((db.loose_rows()?, db.has_orphans()?, db.highest_log_entry()?, db.statistics()?))
    })?;
    if read(lookup, |db| Ok(db.traces_left()?))? {
        problems.push(
            "traces of forgotten items may remain; recall tries every minute to remove them, and its log says what is \
             in the way"
                .to_owned(),
        );
    }
    if loose > 0 {
        problems.push(format!("references to rows that do not exist: {loose}"));
    }
    if orphans {
        problems.push(
            "some calls have no prompt, or some prompts were never compressed; housekeeping repairs it"
                .to_owned(),
        );
    }
    problems.extend(damaged_rows(&read(lookup, |db| Ok(db.damaged_rows(MOST_UNREADABLE)?))?));
    problems.extend(index_problem(lookup, newest)?);
    let documents = lookup.index.index().map_or(0, |index| index.documents());
    Ok(CheckAnswer { healthy: problems.is_empty(), problems, sessions: sessions.sessions, documents })
}

/// Returns a problem of the index, if any. `newest` is the end of the log, read earlier.
fn index_problem(lookup: &ContextLookup, newest: LogSeq) -> Answer<Option<String>> {
    let index = match lookup.index.state() {
        IndexState::Absent => return Ok(Some("the search index is missing".to_owned())),
        IndexState::Filling(_) => return Ok(Some("the search index is being built".to_owned())),
        IndexState::Unexamined(index) | IndexState::Complete(index) => index,
    };
    let upto = index.high_water();
    if upto > newest || !read(lookup, |db| Ok(db.log_goes_on_after(upto)?))? {
        let what = "the search index belongs to another database; `recall ctl reindex` builds it again";
        return Ok(Some(what.to_owned()));
    }
    let indexed = index.documents();
    let (stored, end) = read(lookup, |db| Ok((db.count_documents()?, db.highest_log_entry()?)))?;
    // During work the two differ by what was stored just now.
    let is_caught_up = end == newest && upto == newest && index.high_water() == upto;
    Ok((is_caught_up && indexed != stored).then(|| {
        format!(
            "the search index has {indexed} documents and the database {stored}; `recall ctl reindex` builds it again"
        )
    }))
}
