//! `recall why`: what a session was given, and to whom something was given.

use recall_protocol::query::Why;

use super::given::injections;
use super::session::one_session;
use super::show::load;
use super::{Answer, read};
use crate::actors::services::Services;
use crate::app::documents::title_and_text;
use crate::memory::document::{DocumentKey, DocumentKind};
use crate::server::answers::PublicId;
use crate::server::answers::session::{self, WhyAnswer, WhyGivenAnswer};
use crate::store;

/// What a session was given, or to whom an observation or a summary was given.
pub(super) fn why(services: &Services, Why { id }: Why) -> Answer<session::Why> {
    let id = id.as_str();
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
        Some(key) => why_given(services, key).map(session::Why::Given),
        None => why_session(services, id).map(session::Why::Session),
    }
}

fn why_session(services: &Services, id: &str) -> Answer<WhyAnswer> {
    read(services, |db| {
        let info = one_session(db, id)?;
        Ok(WhyAnswer { session_id: info.id.0, injections: injections(db, info.row)? })
    })
}

fn why_given(services: &Services, key: DocumentKey) -> Answer<WhyGivenAnswer> {
    read(services, |db| {
        let (title, _) = title_and_text(&load(db, key)?);
        let given = store::given(db, key)?.into_iter().map(Into::into).collect();
        Ok(WhyGivenAnswer { id: PublicId(key), kind: key.kind.as_str().into(), title, given })
    })
}
