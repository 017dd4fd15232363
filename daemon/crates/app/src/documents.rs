//! Converts stored rows to documents of the index.

use std::borrow::Cow;

use recall_agents::Agents;
use recall_compression::salience::sources::texts_for_people;
use recall_domain::digest::{Digest, digest, is_found_by_meaning};
use recall_domain::document::{Document, DocumentKey, DocumentKind, Status};
use recall_domain::ids::{AgentName, EventId, SessionId, Timestamp};
use recall_domain::material::{Action, CallOutcome};
use recall_domain::observation::{Importance, Maker, UNANSWERED};
use recall_domain::passage::{self, Passage};
use recall_domain::redaction::own_calls;
use recall_store::{ActivityRow, DocumentRow, ObservationRow, ProjectInfo, SessionInfo, SummaryRow};

/// The importance of unrated documents.
const UNJUDGED: i64 = 5;

/// Builds the document of a row.
pub fn document(key: DocumentKey, row: &DocumentRow, agents: Agents) -> Document {
    Document { passages: passages(row, agents), ..without_passages(key, row, agents) }
}

/// Builds a document that contains only the injectable passages of a row. It is not searchable otherwise.
pub(crate) fn passages_alone(key: DocumentKey, row: &DocumentRow, agents: Agents) -> Option<Document> {
    let passages = passages(row, agents);
    (!passages.is_empty()).then(|| Document { passages, ..without_text(key, row) })
}

fn without_passages(key: DocumentKey, row: &DocumentRow, agents: Agents) -> Document {
    let bare = without_text(key, row);
    match row {
        DocumentRow::Observation { row, .. } => Document {
            files: row.files_modified.iter().chain(&row.files_read).cloned().collect(),
            title: row.title.clone(),
            body: observation_body(row),
            ..bare
        },
        DocumentRow::Summary { row, .. } => {
            Document { title: row.title.clone(), body: summary_body(row), ..bare }
        }
        DocumentRow::Plan { row, .. } => {
            Document { title: row.title.clone(), body: row.text.clone(), ..bare }
        }
        DocumentRow::Compaction { row, .. } => Document { body: row.summary.clone(), ..bare },
        DocumentRow::Prompt { text, .. } | DocumentRow::Response { text, .. } => {
            Document { body: text.clone(), ..bare }
        }
        DocumentRow::ReceivedText { row, .. } => Document { body: row.text.clone(), ..bare },
        // Nobody searches for queries to the memory itself.
        DocumentRow::Activity { row, .. }
            if own_calls::is_own(&row.tool_name, row.input.as_deref().unwrap_or_default()) =>
        {
            bare
        }
        DocumentRow::Activity { row, session } => {
            let Digest { title, body, files, .. } = activity_digest(row, session, agents);
            Document { title, body, files, ..bare }
        }
    }
}

fn without_text(key: DocumentKey, row: &DocumentRow) -> Document {
    match row {
        DocumentRow::Observation { row, session, project } => Document {
            observation_type: Some(row.kind),
            status: row.status,
            importance: row.importance,
            maker: row.maker(),
            ..of_project(key, project, session.as_deref(), row.created_at)
        },
        DocumentRow::Summary { row, session, project } => {
            of_project(key, project, session.as_deref(), row.created_at)
        }
        DocumentRow::Plan { row, session, project } => {
            of_project(key, project, session.as_deref(), row.updated_at)
        }
        DocumentRow::Compaction { row, session } => of_session(key, session, row.at),
        DocumentRow::ReceivedText { row, project } => of_project(key, project, None, row.created_at),
        DocumentRow::Activity { row, session } => of_session(key, session, row.at),
        DocumentRow::Prompt { at, session, .. } | DocumentRow::Response { at, session, .. } => {
            of_session(key, session, *at)
        }
    }
}

/// Returns the passages of a row that may be injected at a prompt. Equal rows have equal passages, so their numbers
/// stay valid.
pub fn passages(row: &DocumentRow, agents: Agents) -> Vec<Passage> {
    match row {
        DocumentRow::Observation { row, .. } => of_observation(&row.title, &row.narrative, &row.facts),
        DocumentRow::Summary { row, .. } => of_summary(&row.title, fields_of(row)),
        DocumentRow::Plan { row, .. } => passage::titled(&row.title, &row.text),
        DocumentRow::Response { text, .. } => passage::cut(text),
        DocumentRow::Prompt { text, .. } => of_prompt(text),
        // Its parts are already stored as the session's own rows.
        DocumentRow::Compaction { .. } => Vec::new(),
        // No session is told unasked what others have asked, and what they were answered.
        DocumentRow::ReceivedText { .. } => Vec::new(),
        DocumentRow::Activity { row, session } => {
            if row.failed {
                Vec::new()
            } else {
                of_action(&action_of(row, session, agents), row.event)
            }
        }
    }
}

/// Returns the texts of a row that each get a vector, in the order of its passages.
pub fn embedded(row: &DocumentRow, agents: Agents) -> Vec<String> {
    let passages = match row {
        // Searchable but not injectable, because its parts are the session's own rows.
        DocumentRow::Compaction { row, .. } => passage::cut(&row.summary),
        DocumentRow::ReceivedText { row, .. } => passage::cut(&row.text),
        DocumentRow::Summary { row, .. } => {
            let mut passages = of_summary(&row.title, fields_of(row));
            passages.extend(rest_of_summary(&row.title, fields_of(row)));
            passages
        }
        DocumentRow::Activity { row, session } => of_call(row, session, agents),
        _ => passages(row, agents),
    };
    passages.iter().map(Passage::whole).collect()
}

/// The maximum number of passages of a call that get a vector, besides the injectable ones.
const MOST_OF_CALL: usize = 2;

/// Returns the injectable passages of a call, in order, then the beginning of its indexed text.
fn of_call(row: &ActivityRow, session: &SessionInfo, agents: Agents) -> Vec<Passage> {
    let action = action_of(row, session, agents);
    let mut passages = if row.failed { Vec::new() } else { of_action(&action, row.event) };
    if is_found_by_meaning(&action) {
        let digest = activity_digest(row, session, agents);
        passages.extend(passage::titled(&digest.title, &digest.body).into_iter().take(MOST_OF_CALL));
    }
    passages
}

/// Returns the passages of an observation: its title and its text.
pub fn of_observation(title: &str, narrative: &str, facts: &[String]) -> Vec<Passage> {
    let mut body = narrative.trim().to_owned();
    for fact in facts.iter().filter(|fact| !fact.is_empty()) {
        if !body.contains(fact.as_str()) {
            body.push('\n');
            body.push_str(fact);
        }
    }
    passage::titled(title, body.trim())
}

/// The fields of a summary with their names, most useful first.
fn fields_of(row: &SummaryRow) -> [(&'static str, Cow<'_, str>); 5] {
    [
        ("learned", row.learned.as_str().into()),
        ("done", row.completed.as_str().into()),
        ("open", stated(&row.next_steps).into()),
        ("looked into", row.investigated.as_str().into()),
        ("notes", row.notes.as_str().into()),
    ]
}

/// Returns the injectable passages of a summary: the beginning of each field, under the summary's title. A field begins
/// with its most important sentences; its other passages displaced better notes at prompts.
pub fn of_summary(title: &str, fields: [(&str, Cow<'_, str>); 5]) -> Vec<Passage> {
    passages_of_fields(title, fields).filter_map(|passages| passages.into_iter().next()).collect()
}

/// Returns the passages of a summary that are found by meaning and not injected.
fn rest_of_summary(title: &str, fields: [(&str, Cow<'_, str>); 5]) -> Vec<Passage> {
    passages_of_fields(title, fields).flat_map(|passages| passages.into_iter().skip(1)).collect()
}

fn passages_of_fields<'a>(
    title: &'a str,
    fields: [(&'a str, Cow<'a, str>); 5],
) -> impl Iterator<Item = Vec<Passage>> + 'a {
    let fields = fields.into_iter().filter(|(_, text)| !text.trim().is_empty());
    fields.map(move |(name, text)| passage::titled(&format!("{title} ({name})"), &text))
}

/// Returns the open work without an unanswered prompt, which has its own passages and does not answer the same
/// question.
fn stated(next_steps: &str) -> String {
    let lines: Vec<&str> = next_steps.lines().filter(|line| !line.starts_with(UNANSWERED)).collect();
    lines.join("\n")
}

/// Returns the passages of a prompt that a person wrote. A question is never injected, but it shows what the answer
/// after it is about.
pub fn of_prompt(text: &str) -> Vec<Passage> {
    // A prompt that begins like this was made by the agent's program, or runs a command.
    if text.trim_start().starts_with(['<', '/']) { Vec::new() } else { passage::cut(text) }
}

/// Returns the passages of an action's text for other people: a commit, a pull request, a plan, a subagent's report.
pub fn of_action(action: &Action, event: EventId) -> Vec<Passage> {
    texts_for_people(action, event).iter().flat_map(|sourced| passage::cut(&sourced.text)).collect()
}

/// Returns the title and the whole text of a row for display.
pub(crate) fn title_and_text(row: &DocumentRow, agents: Agents) -> (String, String) {
    match row {
        DocumentRow::Observation { row, .. } => (row.title.clone(), observation_body(row)),
        DocumentRow::Summary { row, .. } => {
            let text = summary_body(row);
            let title = if row.title.is_empty() { first_line(&text) } else { row.title.clone() };
            (title, text)
        }
        DocumentRow::Plan { row, .. } => (row.title.clone(), row.text.clone()),
        DocumentRow::Compaction { row, .. } => (first_line(&row.summary), row.summary.clone()),
        DocumentRow::ReceivedText { row, .. } => {
            let what = if row.kind == DocumentKind::Prompt { "asked" } else { "answered" };
            (format!("{what}: {}", first_line(&row.text)), row.text.clone())
        }
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
    let error = || row.response.clone().unwrap_or_default();
    let outcome = if row.failed { CallOutcome::Failed { error: error() } } else { CallOutcome::Done };
    digest(&row.tool_name, &action_of(row, session, agents), &outcome, session.root.as_deref())
}

/// Parses the action of a call by its agent's tools. A failed call has an error instead of its tool's result.
fn action_of(row: &ActivityRow, session: &SessionInfo, agents: Agents) -> Action {
    let response = (!row.failed).then(|| row.response.as_deref().unwrap_or_default());
    let input = row.input.as_deref().unwrap_or_default();
    agents.spec(session.agent.as_str()).action(&row.tool_name, input, response)
}

fn of_session(key: DocumentKey, session: &SessionInfo, at: Timestamp) -> Document {
    of_project(key, &session.project, Some(session), at)
}

/// Builds the document of a row without a session: written by hand, or from another machine.
fn of_project(
    key: DocumentKey,
    project: &ProjectInfo,
    session: Option<&SessionInfo>,
    at: Timestamp,
) -> Document {
    Document {
        key,
        project: project.key.clone(),
        project_name: project.name.clone(),
        agent: session.map_or_else(|| AgentName(String::new()), |session| session.agent.clone()),
        session: session.map_or_else(|| SessionId(String::new()), |session| session.id.clone()),
        observation_type: None,
        status: Status::Active,
        importance: Importance::clamped(UNJUDGED),
        maker: Maker::Machine,
        at,
        files: Vec::new(),
        title: String::new(),
        body: String::new(),
        passages: Vec::new(),
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

/// Returns the first line that contains a word, without heading, list or emphasis marks.
fn first_line(text: &str) -> String {
    let has_word = |line: &&str| line.contains(char::is_alphanumeric);
    let line = text.lines().map(str::trim).find(has_word).unwrap_or_default();
    let line = line.trim_start_matches(['#', '>', ' ']);
    let line = ["- ", "* "].iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line);
    let bare = line.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    let line = bare.filter(|bare| !bare.contains("**")).unwrap_or(line);
    let mut title: String = line.chars().take(100).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    title
}

#[cfg(test)]
mod tests {
    use recall_agents::AGENTS;
    use recall_domain::checkout::MadeOn;
    use recall_domain::ids::{ProjectKey, ProjectRow, SummaryId};

    use super::*;

    #[test]
    fn passages_have_the_start_of_a_summary_field_and_vectors_all_of_it() {
        let learned: Vec<String> =
            (1..=40).map(|number| format!("Lesson {number} is about the cart.")).collect();
        let row = SummaryRow {
            id: SummaryId(1),
            session_row: None,
            session: None,
            project: ProjectRow(1),
            author: None,
            device: None,
            title: "Carts".to_owned(),
            request: String::new(),
            investigated: String::new(),
            learned: learned.join("\n"),
            completed: "Carts are counted once.".to_owned(),
            next_steps: format!("{UNANSWERED}What of baskets?"),
            notes: String::new(),
            created_at: Timestamp(1),
            made_on: MadeOn::default(),
        };
        let project =
            ProjectInfo { row: ProjectRow(1), key: ProjectKey::from("git:x"), name: "x".to_owned() };
        let row = DocumentRow::Summary { row: Box::new(row), session: None, project };
        let (row_passages, found) = (passages(&row, AGENTS), embedded(&row, AGENTS));
        let headings: Vec<&str> = row_passages.iter().map(|passage| passage.heading.as_str()).collect();
        assert_eq!(headings, ["Carts (learned)", "Carts (done)"]);
        assert!(row_passages[0].text.starts_with("Lesson 1 "));
        // Numbers of passages name the same ones.
        assert_eq!(found[..2], row_passages.iter().map(Passage::whole).collect::<Vec<_>>());
        assert!(found.len() > 2 && found.last().unwrap().contains("Lesson 40 "), "{found:?}");
    }
}
