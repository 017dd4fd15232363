//! `recall handoff`: the state of a session for its successor.

use recall_protocol::query::{Filter, Handoff};
use recall_protocol::wire::ErrorKind;

use super::session::one_session;
use super::{Answer, Refused, projects, read};
use crate::answers::handoff::HandoffAnswer;
use crate::clock;
use crate::context_lookup::ContextLookup;
use crate::handoff::{handoff as state_of, markdown};
use recall_domain::handoff::MOST_TOKENS;
use recall_domain::ids::ProjectRow;
use recall_domain::tokens::Measure;
use recall_store::{Reader, SessionInfo};

/// The number of latest sessions that are searched for one with a prompt.
const LATEST: u32 = 50;

pub fn handoff(lookup: &ContextLookup, request: Handoff) -> Answer<HandoffAnswer> {
    read(lookup, |db| {
        let session = meant_session(db, request.session.as_deref(), &request.project)?;
        let state = state_of(lookup, db, &session)?;
        let text = markdown(&state, &lookup.settings.redactor(), clock::now(), MOST_TOKENS);
        let tokens = Measure::of(&text).tokens();
        Ok(HandoffAnswer::new(state, text, tokens))
    })
}

/// Returns the session with this id, or the project's latest one that can be continued.
pub(crate) fn meant_session(db: Reader<'_>, id: Option<&str>, project: &str) -> Result<SessionInfo, Refused> {
    if let Some(id) = id {
        return one_session(db, id);
    }
    let named = Filter { project: Some(project.to_owned()), ..Filter::default() };
    let found = projects(db, &named)?;
    let rows: Option<Vec<ProjectRow>> = found.map(|found| found.iter().map(|project| project.row).collect());
    let latest = db.session_list(rows.as_deref(), None, 0, LATEST)?;
    latest.into_iter().find(|session| session.prompts > 0).ok_or_else(|| {
        let what = "No session of this project has a prompt, so there is nothing to hand over";
        Refused::new(ErrorKind::NotFound, what, "`recall sessions --all` lists all sessions; give an id.")
    })
}
