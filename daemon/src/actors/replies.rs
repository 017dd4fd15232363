//! Looks up what a turn ended with when nobody told: reads the agent's transcript on a thread that may wait, and
//! lets nothing secret or private through.

use std::path::PathBuf;

use recall_protocol::privacy::strip_text;

use super::settings::CurrentRedactor;
use crate::agents::{self, ReplyRequest};
use crate::memory::ids::{AgentName, PromptId};

/// Cheap to clone.
#[derive(Clone)]
pub struct Replies {
    redactor: CurrentRedactor,
    /// `None`: nobody knows where agents keep their files.
    home: Option<PathBuf>,
}

impl Replies {
    pub fn new(redactor: CurrentRedactor) -> Self {
        Self { redactor, home: std::env::home_dir().filter(|home| home.is_absolute()) }
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
        let read = agents::spec(agent.as_str()).reply;
        let redactor = self.redactor.get();
        let found = tokio::task::spawn_blocking(move || {
            let text = read(&request)?;
            Ok(text.map(|text| redactor.redact_text(&strip_text(&text).text).into_owned()))
        });
        match found.await {
            Ok(Ok(text)) => text.filter(|text| !text.trim().is_empty()),
            Ok(Err(refused)) => {
                let refused: agents::named_file::Refused = refused;
                tracing::debug!(%refused, "a transcript is not read");
                None
            }
            Err(error) => {
                tracing::error!(panicked = error.is_panic(), "a transcript could not be read");
                None
            }
        }
    }
}
