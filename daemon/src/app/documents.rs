//! Stored rows as the documents of the index.

use crate::agents::Agents;
use crate::memory::digest::{Digest, digest};
use crate::memory::document::{Document, DocumentKey, Status};
use crate::memory::ids::{AgentName, SessionId, Timestamp};
use crate::memory::material::CallOutcome;
use crate::memory::observation::Importance;
use crate::store::{ActivityRow, DocumentRow, ObservationRow, SessionInfo, SummaryRow};

/// The importance of a document that has none.
const UNJUDGED: i64 = 5;

/// The document of a row.
pub fn document(key: DocumentKey, row: &DocumentRow, agents: Agents) -> Document {
    match row {
        DocumentRow::Observation { row, session, project } => {
            let blank = Document {
                key,
                project: project.key.clone(),
                project_name: project.name.clone(),
                agent: session
                    .as_ref()
                    .map_or_else(|| AgentName(String::new()), |session| session.agent.clone()),
                session: row.session.clone().unwrap_or_else(|| SessionId(String::new())),
                observation_type: Some(row.kind),
                status: row.status,
                importance: row.importance,
                at: row.created_at,
                files: Vec::new(),
                title: row.title.clone(),
                body: String::new(),
            };
            let files = row.files_modified.iter().chain(&row.files_read).cloned().collect();
            Document { files, body: observation_body(row), ..blank }
        }
        DocumentRow::Summary { row, session } => Document {
            title: row.title.clone(),
            body: summary_body(row),
            ..of_session(key, session, row.created_at)
        },
        DocumentRow::Plan { row, session } => Document {
            title: row.title.clone(),
            body: row.text.clone(),
            ..of_session(key, session, row.updated_at)
        },
        DocumentRow::Compaction { row, session } => {
            Document { body: row.summary.clone(), ..of_session(key, session, row.at) }
        }
        DocumentRow::Prompt { text, at, session, .. } | DocumentRow::Response { text, at, session, .. } => {
            Document { body: text.clone(), ..of_session(key, session, *at) }
        }
        DocumentRow::Activity { row, session } => {
            let digest = activity_digest(row, session, agents);
            Document {
                title: digest.title,
                body: digest.body,
                files: digest.files,
                ..of_session(key, session, row.at)
            }
        }
    }
}

/// The title and the whole text of a row, as it is shown.
pub fn title_and_text(row: &DocumentRow, agents: Agents) -> (String, String) {
    match row {
        DocumentRow::Observation { row, .. } => (row.title.clone(), observation_body(row)),
        DocumentRow::Summary { row, .. } => (row.title.clone(), summary_body(row)),
        DocumentRow::Plan { row, .. } => (row.title.clone(), row.text.clone()),
        DocumentRow::Compaction { row, .. } => (first_line(&row.summary), row.summary.clone()),
        DocumentRow::Prompt { text, .. } | DocumentRow::Response { text, .. } => {
            (first_line(text), text.clone())
        }
        DocumentRow::Activity { row, session } => {
            let digest = activity_digest(row, session, agents);
            (digest.title, digest.body)
        }
    }
}

fn activity_digest(row: &ActivityRow, session: &SessionInfo, agents: Agents) -> Digest {
    let response = row.response.as_deref().unwrap_or_default();
    let outcome =
        if row.failed { CallOutcome::Failed { error: response.to_owned() } } else { CallOutcome::Done };
    let given = (!row.failed).then_some(response);
    let action = (agents.spec(session.agent.as_str()).action)(
        &row.tool_name,
        row.input.as_deref().unwrap_or_default(),
        given,
    );
    digest(&row.tool_name, &action, &outcome, session.root.as_deref())
}

fn of_session(key: DocumentKey, session: &SessionInfo, at: Timestamp) -> Document {
    Document {
        key,
        project: session.project.key.clone(),
        project_name: session.project.name.clone(),
        agent: session.agent.clone(),
        session: session.id.clone(),
        observation_type: None,
        status: Status::Active,
        importance: Importance::clamped(UNJUDGED),
        at,
        files: Vec::new(),
        title: String::new(),
        body: String::new(),
    }
}

fn observation_body(row: &ObservationRow) -> String {
    let mut parts: Vec<&str> = row.subtitle.iter().map(String::as_str).collect();
    parts.push(&row.narrative);
    parts.extend(row.facts.iter().map(String::as_str));
    let mut body = parts.join("\n");
    if !row.concepts.is_empty() {
        body.push('\n');
        body.push_str(&row.concepts.join(", "));
    }
    body
}

fn summary_body(row: &SummaryRow) -> String {
    let parts = [&row.request, &row.investigated, &row.learned, &row.completed, &row.next_steps, &row.notes];
    let parts: Vec<&str> = parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn first_line(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let mut title: String = line.chars().take(100).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    title
}
