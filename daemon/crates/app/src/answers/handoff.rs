//! The answers of `recall handoff`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Moment, PublicId};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::handoff::{Handoff, Noted};

/// `handoff`: what is needed to continue a session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct HandoffAnswer {
    pub session_id: String,
    pub agent: String,
    pub project: String,
    pub workspace: Option<String>,
    pub title: Option<String>,
    pub last_event_at: Moment,
    /// The branch that was checked out last.
    pub branch: Option<String>,
    pub commit: Option<String>,
    /// The current commit, if it differs.
    pub commit_now: Option<String>,
    pub goal: String,
    /// The last prompt, if it is not the first.
    pub asked_last: Option<String>,
    /// The prompts between the first and the last, latest first.
    pub asked_between: Vec<String>,
    /// Null if the last prompt is not answered.
    pub answered_last: Option<String>,
    pub done: String,
    pub learned: String,
    pub next_steps: String,
    pub open_tasks: Vec<String>,
    pub open_notes: Vec<NotedAnswer>,
    pub failing: Vec<FailingAnswer>,
    /// Files changed after the session's last commit.
    pub uncommitted: Vec<String>,
    pub decided: Vec<NotedAnswer>,
    pub plan: Option<OpenPlanAnswer>,
    pub files: Vec<ChangedFileAnswer>,
    /// Everything as Markdown of a bounded length.
    pub text: String,
    pub tokens: u32,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct NotedAnswer {
    pub id: PublicId,
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct FailingAnswer {
    pub command: String,
    pub error: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenPlanAnswer {
    pub id: String,
    /// `draft` or `approved`.
    pub state: String,
    pub title: String,
    pub text: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFileAnswer {
    pub path: String,
    pub changes: u32,
}

/// `hand_over`: who continues which session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct HandedOverAnswer {
    pub session_id: String,
    pub project: String,
    pub agent: String,
    /// The agent's name for people.
    pub agent_title: String,
}

impl HandoffAnswer {
    pub fn new(state: Handoff, text: String, tokens: u32) -> Self {
        let notes = |notes: Vec<Noted>| notes.into_iter().map(NotedAnswer::from).collect();
        Self {
            open_notes: notes(state.open_notes),
            decided: notes(state.decided),
            failing: state
                .failing
                .into_iter()
                .map(|failing| FailingAnswer { command: failing.command, error: failing.error })
                .collect(),
            plan: state.plan.map(|(id, plan)| OpenPlanAnswer {
                id,
                state: plan.stage.as_str().to_owned(),
                title: plan.title,
                text: plan.text,
            }),
            files: state
                .files
                .into_iter()
                .map(|file| ChangedFileAnswer { path: file.path, changes: file.changes })
                .collect(),
            session_id: state.session.id,
            agent: state.session.agent,
            project: state.session.project,
            workspace: state.session.folder,
            title: state.session.title,
            last_event_at: Moment(state.session.last_event),
            branch: state.checkout.branch,
            commit: state.checkout.commit,
            commit_now: state.checkout.commit_now,
            goal: state.goal,
            asked_last: state.asked,
            asked_between: state.asked_between,
            answered_last: state.answered,
            done: state.done,
            learned: state.learned,
            next_steps: state.next_steps,
            open_tasks: state.open_tasks,
            uncommitted: state.uncommitted,
            text,
            tokens,
        }
    }
}

impl From<Noted> for NotedAnswer {
    fn from(note: Noted) -> Self {
        let id = PublicId(DocumentKey { kind: DocumentKind::Observation, row: note.id.0 });
        Self { id, kind: note.kind.as_str().to_owned(), title: note.title }
    }
}
