//! `recall why`: the items that a session received, or the sessions that received an item.

use recall_protocol::query::Why;

use super::given::injections;
use super::session::one_session;
use super::show::load;
use super::{Answer, read};
use crate::answers::PublicId;
use crate::answers::session::{self, WhyAnswer, WhyGivenAnswer};
use crate::context_lookup::ContextLookup;
use crate::documents::title_and_text;
use recall_domain::document::DocumentKey;

/// Returns the injections of a session or an item.
pub fn why(lookup: &ContextLookup, Why { id }: Why) -> Answer<session::Why> {
    let id = id.as_str();
    let key = read(lookup, |db| {
        let sessions = db.find_sessions(id)?;
        let is_session = sessions.iter().any(|session| session.id.as_str() == id);
        // An item's id may also be the beginning of a session's id. Anything else is not an item.
        Ok(match DocumentKey::parse(id).filter(|_| !is_session) {
            Some(key) if sessions.is_empty() || id.starts_with('#') => Some(key),
            Some(key) if db.load_document(key)?.is_some() => Some(key),
            _ => None,
        })
    })?;
    match key {
        Some(key) => why_given(lookup, key).map(session::Why::Given),
        None => why_session(lookup, id).map(session::Why::Session),
    }
}

fn why_session(lookup: &ContextLookup, id: &str) -> Answer<WhyAnswer> {
    read(lookup, |db| {
        let info = one_session(db, id)?;
        Ok(WhyAnswer { session_id: info.id.0, injections: injections(db, info.row)? })
    })
}

fn why_given(lookup: &ContextLookup, key: DocumentKey) -> Answer<WhyGivenAnswer> {
    read(lookup, |db| {
        let (title, _) = title_and_text(&load(db, key)?, lookup.agents);
        let given = db.given(key)?.into_iter().map(Into::into).collect();
        Ok(WhyGivenAnswer { id: PublicId(key), kind: key.kind.as_str().into(), title, given })
    })
}
