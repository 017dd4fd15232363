//! `recall why`: what a session was given, and to whom something was given.

use serde::Serialize;

use super::given::injections;
use super::session::one_session;
use super::show::load;
use super::{QueryResult, json, read};
use crate::actors::services::Services;
use crate::app::documents::title_and_text;
use crate::memory::document::{DocumentKey, DocumentKind};
use crate::server::answers::session::WhyAnswer;
use crate::server::answers::{Moment, PublicId};
use crate::store::{self, GivenRow};

/// To whom something was given.
#[derive(Serialize)]
struct WhyGivenAnswer {
    id: PublicId,
    kind: &'static str,
    title: String,
    /// The latest first.
    given: Vec<GivenAnswer>,
}

#[derive(Serialize)]
struct GivenAnswer {
    session_id: String,
    agent: String,
    at: Moment,
    moment: String,
    reason: String,
}

impl From<GivenRow> for GivenAnswer {
    fn from(row: GivenRow) -> Self {
        Self {
            session_id: row.session.id.0,
            agent: row.session.agent.0,
            at: Moment(row.at),
            moment: row.moment,
            reason: row.reason,
        }
    }
}

/// What a session was given, or to whom an observation or a summary was given.
pub(super) fn why(services: &Services, id: &str) -> QueryResult {
    let key = read(services, |db| {
        let is_session = store::find_sessions(db, id)?.iter().any(|session| session.id.as_str() == id);
        let given = |key: &DocumentKey| matches!(key.kind, DocumentKind::Observation | DocumentKind::Summary);
        let key = DocumentKey::parse(id).filter(|key| !is_session && given(key));
        // A number may also be the beginning of a session's id.
        Ok(match key {
            Some(key) if id.starts_with('#') || store::load_document(db, key)?.is_some() => Some(key),
            _ => None,
        })
    })?;
    match key {
        Some(key) => why_given(services, key),
        None => why_session(services, id),
    }
}

fn why_session(services: &Services, id: &str) -> QueryResult {
    let answer = read(services, |db| {
        let info = one_session(db, id)?;
        Ok(WhyAnswer { session_id: info.id.0, injections: injections(db, info.row)? })
    })?;
    json(&answer)
}

fn why_given(services: &Services, key: DocumentKey) -> QueryResult {
    let answer = read(services, |db| {
        let (title, _) = title_and_text(&load(db, key)?);
        let given = store::given(db, key)?.into_iter().map(Into::into).collect();
        Ok(WhyGivenAnswer { id: PublicId(key), kind: key.kind.as_str(), title, given })
    })?;
    json(&answer)
}
