//! What is stored of sessions that somebody wants to import.

use recall_protocol::query::Captured;
use recall_protocol::wire::ErrorKind;

use super::{Answer, Refused, read};
use crate::app::answers::session::{CapturedAnswer, CapturedSession};
use crate::app::context_lookup::ContextLookup;
use crate::memory::ids::{AgentName, SessionId, SessionKey};
use crate::store;

/// The most sessions of one question.
const MOST: usize = 1_000;

pub fn captured(lookup: &ContextLookup, request: Captured) -> Answer<CapturedAnswer> {
    if request.sessions.len() > MOST {
        return Err(Refused::new(ErrorKind::Invalid, "Too many sessions in one question", ""));
    }
    let sessions = read(lookup, |db| {
        let keys = request
            .sessions
            .iter()
            .map(|id| SessionKey { agent: AgentName(request.agent.clone()), id: SessionId(id.clone()) });
        let found = keys.map(|key| store::captured(db, &key));
        found
            .map(|found| {
                let (imported, since) = found?;
                Ok(CapturedSession { imported, since_ms: since.map(|at| at.0) })
            })
            .collect()
    })?;
    Ok(CapturedAnswer { sessions })
}
