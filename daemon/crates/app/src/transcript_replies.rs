//! Reads text that the agent wrote to its files but did not report: the end of a turn, the text of an approved plan.
//! Reads on a thread that may block, and removes secrets and private text.

use std::path::PathBuf;

use recall_protocol::privacy::strip_text;

use super::pause::PauseSwitch;
use super::settings::CurrentRedactor;
use recall_agents::named_file::RefusedFile;
use recall_agents::{AgentSpec, Agents, PlanRequest, RecordedReply, ReplyRequest, turns};
use recall_domain::ids::{AgentName, PromptId, SessionKey, Timestamp};
use recall_domain::order::Order;
use recall_domain::session::Seq;
use recall_store::Readers;

/// The turns of a session without an answer, and where the answers may be.
pub struct Unanswered {
    pub transcript: String,
    /// The agent's own folder, if the user moved it.
    pub config_dir: Option<String>,
    pub turns: Vec<(Seq, Option<PromptId>)>,
}

/// Finds replies in the transcripts of agents. Cheap to clone.
#[derive(Clone)]
pub struct TranscriptReplies {
    agents: Agents,
    redactor: CurrentRedactor,
    readers: Readers,
    pauses: PauseSwitch,
    /// `None` if the folder of the agent's files is unknown.
    home: Option<PathBuf>,
}

impl TranscriptReplies {
    pub fn new(agents: Agents, redactor: CurrentRedactor, readers: Readers, pauses: PauseSwitch) -> Self {
        Self {
            agents,
            redactor,
            readers,
            pauses,
            home: std::env::home_dir().filter(|home| home.is_absolute()),
        }
    }

    /// Returns the answers to some of a session's turns, if the transcript contains them and may be read. Answers
    /// given during a pause are ignored.
    pub async fn look_up(&self, session: &SessionKey, asked: Unanswered) -> Vec<(Seq, String)> {
        let Some(home) = self.home.clone() else { return Vec::new() };
        let Unanswered { transcript, config_dir, turns } = asked;
        let request = ReplyRequest { transcript, prompt: None, home, config_dir };
        let spec = self.agents.spec(session.agent.as_str());
        let (readers, session, pauses) = (self.readers.clone(), session.clone(), self.pauses.clone());
        let found = self.cleaned("a transcript", move || {
            let mut found = Vec::new();
            if spec.history.is_some_and(|history| history.tail.is_some()) {
                found = recorded_answers(spec, &request, &turns, &readers, &session)?;
            } else {
                for (seq, prompt) in turns {
                    let reply = (spec.reply)(&ReplyRequest { prompt, ..request.clone() })?;
                    found.extend(reply.map(|reply| (seq, reply)));
                }
            }
            let is_meant = |reply: &RecordedReply| {
                let at = reply.at_ms.map(|at| Order { wall: Timestamp(at), ..Order::default() });
                at.is_none_or(|at| !pauses.covers(&at))
            };
            let meant = found.into_iter().filter(|(_, reply)| is_meant(reply));
            Ok(meant.map(|(seq, reply)| (seq, reply.text)).collect())
        });
        found.await
    }

    /// Returns the text of a plan, if its file may be read. `folders` are the plan folders.
    pub async fn plan(
        &self,
        agent: &AgentName,
        path: String,
        config_dir: Option<String>,
        root: Option<String>,
        folders: Vec<String>,
    ) -> Option<String> {
        let request = PlanRequest { path, home: self.home.clone()?, config_dir, root, folders };
        let read = self.agents.spec(agent.as_str()).plan_file;
        let found =
            self.cleaned("a plan", move || Ok(read(&request)?.map(|text| ((), text)).into_iter().collect()));
        found.await.pop().map(|((), text)| text)
    }

    async fn cleaned<T: Send + 'static>(
        &self,
        what: &'static str,
        read: impl FnOnce() -> Result<Vec<(T, String)>, RefusedFile> + Send + 'static,
    ) -> Vec<(T, String)> {
        let redactor = self.redactor.get();
        let clean = move |text: &str| redactor.redact_text(&strip_text(text).text).into_owned();
        let found = tokio::task::spawn_blocking(move || {
            let texts = read()?.into_iter().map(|(of, text)| (of, clean(&text)));
            Ok(texts.filter(|(_, text)| !text.trim().is_empty()).collect())
        });
        match found.await {
            Ok(Ok(texts)) => texts,
            Ok(Err(refused)) => {
                let refused: RefusedFile = refused;
                tracing::debug!(%refused, what, "a file was skipped");
                Vec::new()
            }
            Err(error) => {
                tracing::error!(panicked = error.is_panic(), what, "cannot read a file");
                Vec::new()
            }
        }
    }
}

/// Returns the answers that the agent's record contains for the prompts of these turns.
fn recorded_answers(
    spec: &AgentSpec,
    request: &ReplyRequest,
    wanted: &[(Seq, Option<PromptId>)],
    readers: &Readers,
    session: &SessionKey,
) -> Result<Vec<(Seq, RecordedReply)>, RefusedFile> {
    let mut recorded = turns::recorded_turns(spec, request)?;
    let stored = readers.read(|db| db.stored_prompts(session)).map_err(std::io::Error::other)?;
    let (seqs, stored): (Vec<_>, Vec<_>) = stored.into_iter().map(|prompt| (prompt.seq, prompt.turn)).unzip();
    let places = turns::matches(&stored, &recorded);
    let mut found = Vec::new();
    for (seq, place) in seqs.into_iter().zip(places) {
        let turn = place.and_then(|place| recorded.get_mut(place));
        if wanted.iter().any(|(wanted, _)| *wanted == seq)
            && let Some(answer) = turn.and_then(|turn| turn.answer.take())
        {
            found.push((seq, answer));
        }
    }
    Ok(found)
}
