//! `recall how`, `recall fix` and `recall blame`: finds the sessions that may have the answer, and reads their calls.

use std::path::Path;

use recall_protocol::query::{Blame, Filter, Fix, How};
use recall_protocol::wire::ErrorKind;

use super::{Answer, Refused, projects, read};
use crate::answers::past_work::{CureStepAnswer, InvocationAnswer, MetAnswer, TouchAnswer};
use crate::answers::{Moment, TextAnswer};
use crate::clock;
use crate::context_lookup::ContextLookup;
use crate::identity::project_of;
use crate::index_handle::IndexState;
use crate::material::session_material;
use crate::sentences::Patience;
use recall_domain::document::DocumentKind;
use recall_domain::ids::{SessionRow, Timestamp};
use recall_domain::known_error;
use recall_domain::past_work::PastSession;
use recall_domain::past_work::blame::{Asked, blame as turns_that_changed};
use recall_domain::past_work::fix::fix as where_it_was_met;
use recall_domain::past_work::how::how as command_lines;
use recall_domain::tokens::estimate;
use recall_search::query::Query;
use recall_search::request::{Scope, SearchRequest, Spelling};
use recall_store::{DocumentRow, ProjectInfo, Reader, StoreError};

/// The number of calls that are examined to find sessions.
const MOST_HITS: usize = 200;
/// The number of sessions whose calls are read.
const MOST_SESSIONS: usize = 24;
const LIMIT: u32 = 10;

/// Finds commands that were run and contain these words.
pub fn how(lookup: &ContextLookup, request: How) -> Answer<TextAnswer<InvocationAnswer>> {
    let sessions = sessions_with(lookup, &request.command, &request.filter)?;
    let found = command_lines(&request.command, &sessions).into_iter().map(InvocationAnswer::from);
    Ok(answer(found, request.filter.limit, |run| {
        let when = format!("{}, session {}", day(run.at), run.session_id);
        match (&run.before, &run.error) {
            (_, Some(error)) => format!("{} (never worked: {error}; {when})", run.command),
            (Some(before), None) => {
                format!("{} ({when}; before that failed: {})", run.command, before.command)
            }
            (None, None) => format!("{} ({when})", run.command),
        }
    }))
}

/// Finds where an error occurred, and what made it go away.
pub fn fix(lookup: &ContextLookup, request: Fix) -> Answer<TextAnswer<MetAnswer>> {
    let line = known_error::error_line(&request.error).unwrap_or_else(|| request.error.clone());
    let sessions = sessions_with(lookup, &line, &request.filter)?;
    let found = where_it_was_met(&request.error, &sessions).into_iter().map(MetAnswer::from);
    Ok(answer(found, request.filter.limit, |met| {
        let step = |step: &CureStepAnswer| match step {
            CureStepAnswer::Changed(path) => format!("changed {path}"),
            CureStepAnswer::Ran(command) => format!("ran {command}"),
        };
        let passed = met.passed_as.iter().map(|line| format!("passed as {line}"));
        let steps: Vec<String> = met.steps.iter().map(step).chain(passed).collect();
        let end = match (met.passed_at, steps.is_empty()) {
            (None, _) => "did not pass there".to_owned(),
            (Some(_), true) => "passed without a change".to_owned(),
            (Some(_), false) => format!("cured by: {}", steps.join("; ")),
        };
        format!("{}: {} ({}, session {}); {end}", met.call, met.error, day(met.at), met.session_id)
    }))
}

/// Finds the turns that changed a file.
pub fn blame(lookup: &ContextLookup, request: Blame) -> Answer<TextAnswer<TouchAnswer>> {
    let path = Path::new(&request.file);
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (inside, sessions) = read(lookup, |db| {
        let Some((project, inside)) = project_of_file(db, path)? else {
            let what = format!("{} is in no project that recall knows", path.display());
            let hint = "`recall sessions --all` shows all projects.";
            return Err(Refused::new(ErrorKind::NotFound, what, hint));
        };
        let rows = db.sessions_that_changed(project.row, &inside, MOST_SESSIONS as u32)?;
        Ok((inside, past_sessions(lookup, db, rows)?))
    })?;
    let asked = Asked { file: &inside, line: request.line.as_deref() };
    let found = turns_that_changed(asked, &sessions).into_iter().map(TouchAnswer::from);
    Ok(answer(found, request.limit, |touch| {
        let asked = touch.asked.as_deref().unwrap_or("(no prompt)");
        let answered = touch.answered.as_deref().unwrap_or("(no answer)");
        format!("{}, session {}: asked: {asked} answered: {answered}", day(touch.at), touch.session_id)
    }))
}

fn day(at: Moment) -> String {
    jiff::Timestamp::from_millisecond(at.0.0).unwrap_or_default().strftime("%Y-%m-%d").to_string()
}

/// Returns the project that contains this file, and the file's path inside it. A project without a repository is
/// identified only by its folder, so the parent folders are tried too.
fn project_of_file(db: Reader<'_>, path: &Path) -> Result<Option<(ProjectInfo, String)>, StoreError> {
    for folder in path.ancestors().skip(1) {
        if let Some(project) = project_of(db, folder)? {
            let root = recall_repository::facts(folder).folder;
            let inside = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
            return Ok(Some((project, inside)));
        }
    }
    Ok(None)
}

/// Builds the answer, with one line of text per item.
fn answer<T>(
    found: impl Iterator<Item = T>,
    limit: Option<u32>,
    line: impl Fn(&T) -> String,
) -> TextAnswer<T> {
    let items: Vec<T> = found.take(limit.unwrap_or(LIMIT) as usize).collect();
    let text = items.iter().map(line).collect::<Vec<_>>().join("\n");
    TextAnswer { tokens: estimate(&text), text, items }
}

/// Returns the sessions with calls that contain these words.
fn sessions_with(lookup: &ContextLookup, words: &str, filter: &Filter) -> Answer<Vec<PastSession>> {
    let projects = read(lookup, |db| projects(db, filter))?;
    let index = match lookup.index.state() {
        IndexState::Complete(index) | IndexState::Filling(index) | IndexState::Unexamined(index) => {
            Some(index)
        }
        IndexState::Absent => None,
    };
    let request = SearchRequest {
        scope: match projects.as_deref() {
            Some([only]) => Scope::Project(only.key.clone()),
            _ => Scope::Everything,
        },
        kinds: vec![DocumentKind::Activity],
        since: filter.since_ms.map(Timestamp),
        limit: MOST_HITS,
        spelling: Spelling::AsWritten,
        ..SearchRequest::new(Query::plain(words), clock::now())
    };
    let hits = index.and_then(|index| lookup.index.search(&index, &request, Patience::Hook));
    let Some(hits) = hits else {
        // An empty store has no index yet, and no calls.
        if read(lookup, |db| Ok(db.is_empty()?))? {
            return Ok(Vec::new());
        }
        let hint = "`recall status` shows its progress. Try again when it is done.";
        return Err(Refused::new(ErrorKind::Unavailable, "The search index is not ready", hint));
    };
    read(lookup, |db| {
        let mut rows: Vec<SessionRow> = Vec::new();
        for hit in hits.hits {
            let Some(DocumentRow::Activity { session, .. }) = db.load_document(hit.key)? else {
                continue;
            };
            let is_wanted =
                projects.as_ref().is_none_or(|all| all.iter().any(|one| one.row == session.project.row));
            if is_wanted && !rows.contains(&session.row) && rows.len() < MOST_SESSIONS {
                rows.push(session.row);
            }
        }
        past_sessions(lookup, db, rows)
    })
}

pub(super) fn past_sessions(
    lookup: &ContextLookup,
    db: Reader<'_>,
    rows: Vec<SessionRow>,
) -> Result<Vec<PastSession>, Refused> {
    let session = |row: SessionRow| {
        let id = db.session_info(row)?.id;
        Ok(PastSession { id, material: session_material(db, lookup.agents, row)? })
    };
    rows.into_iter().map(session).collect()
}
