//! Tells an import which parts of its sessions are already stored.

use recall_protocol::query::Captured;
use recall_protocol::wire::ErrorKind;

use super::{Answer, Refused, read};
use crate::answers::session::{CapturedAnswer, CapturedPause, CapturedPrompt, CapturedSession};
use crate::context_lookup::ContextLookup;
use crate::pause::PauseSwitch;
use recall_agents::turns::StoredTurn;
use recall_domain::ids::{AgentName, SessionId, SessionKey};
use recall_store::{AnswerState, StoreError, StoredPrompt};

/// The maximum number of sessions per request.
const MOST: usize = 1_000;

pub fn captured(lookup: &ContextLookup, pauses: &PauseSwitch, request: Captured) -> Answer<CapturedAnswer> {
    if request.sessions.len() > MOST {
        return Err(Refused::new(ErrorKind::Invalid, "Too many sessions in one request", ""));
    }
    let sessions = read(lookup, |db| {
        let keys = request
            .sessions
            .iter()
            .map(|id| SessionKey { agent: AgentName(request.agent.clone()), id: SessionId(id.clone()) });
        let found = keys.map(|key| {
            let (imported, hooks) = db.captured(&key)?;
            let prompts = if hooks.is_some() { db.stored_prompts(&key)? } else { Vec::new() };
            Ok::<_, StoreError>((imported, hooks, prompts))
        });
        found
            .map(|found| {
                let (imported, hooks, prompts) = found?;
                let (since_ms, until_ms) = (hooks.map(|(first, _)| first.0), hooks.map(|(_, last)| last.0));
                let prompts = prompts.into_iter().map(captured_prompt).collect();
                Ok(CapturedSession { imported, since_ms, until_ms, prompts })
            })
            .collect()
    })?;
    let pauses = pauses
        .spans()
        .into_iter()
        .map(|(since, until)| CapturedPause { since_ms: since.0, until_ms: until.map(|until| until.0) });
    Ok(CapturedAnswer { sessions, pauses: pauses.collect() })
}

fn captured_prompt(StoredPrompt { turn, answer, .. }: StoredPrompt) -> CapturedPrompt {
    let StoredTurn { id, at_ms, prompt } = turn;
    CapturedPrompt { turn: id, at_ms, prompt, is_unanswered: answer == AnswerState::Missing }
}
