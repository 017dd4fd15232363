//! Reads what the agent wrote to its files and did not report: the end of a turn, the text of an approved plan. It
//! reads on a thread that may block, and removes secrets and private text.

use std::path::PathBuf;

use recall_protocol::privacy::strip_text;

use super::settings::CurrentRedactor;
use crate::agents::named_file::Refused;
use crate::agents::{Agents, PlanRequest, ReplyRequest};
use crate::memory::ids::{AgentName, PromptId};

/// Cheap to clone.
#[derive(Clone)]
pub struct TranscriptReplies {
    agents: Agents,
    redactor: CurrentRedactor,
    /// `None`: the folder of the agent's files is not known.
    home: Option<PathBuf>,
}

impl TranscriptReplies {
    pub fn new(agents: Agents, redactor: CurrentRedactor) -> Self {
        Self { agents, redactor, home: std::env::home_dir().filter(|home| home.is_absolute()) }
    }

    /// The answer to a turn, if the transcript has one and may be read.
    pub async fn look_up(
        &self,
        agent: &AgentName,
        transcript: String,
        prompt: Option<PromptId>,
        config_dir: Option<String>,
    ) -> Option<String> {
        let request = ReplyRequest { transcript, prompt, home: self.home.clone()?, config_dir };
        let read = self.agents.spec(agent.as_str()).reply;
        self.cleaned("a transcript", move || read(&request)).await
    }

    /// The text of a plan, if its file may be read. `folders`: where plans lie.
    pub async fn plan(
        &self,
        agent: &AgentName,
        (path, config_dir): (String, Option<String>),
        root: Option<String>,
        folders: Vec<String>,
    ) -> Option<String> {
        let request = PlanRequest { path, home: self.home.clone()?, config_dir, root, folders };
        let read = self.agents.spec(agent.as_str()).plan_file;
        self.cleaned("a plan", move || read(&request)).await
    }

    async fn cleaned(
        &self,
        what: &'static str,
        read: impl FnOnce() -> Result<Option<String>, Refused> + Send + 'static,
    ) -> Option<String> {
        let redactor = self.redactor.get();
        let found = tokio::task::spawn_blocking(move || {
            Ok(read()?.map(|text| redactor.redact_text(&strip_text(&text).text).into_owned()))
        });
        match found.await {
            Ok(Ok(text)) => text.filter(|text| !text.trim().is_empty()),
            Ok(Err(refused)) => {
                let refused: Refused = refused;
                tracing::debug!(%refused, what, "a file was skipped");
                None
            }
            Err(error) => {
                tracing::error!(panicked = error.is_panic(), what, "cannot read a file");
                None
            }
        }
    }
}
