//! The memory, assembled for pages from the lines of an export.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;

/// The contents of the pages, in an order that does not depend on the order of the lines.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// By identity.
    pub(super) projects: BTreeMap<String, Project>,
    /// By `AGENT:ID`.
    pub(super) sessions: BTreeMap<String, Session>,
    /// By uuid.
    pub(super) notes: BTreeMap<String, Note>,
    /// Notes and their successors, by uuid.
    pub(super) replaced_by: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Project {
    pub(super) key: String,
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Session {
    pub(super) agent: String,
    pub(super) session_id: String,
    pub(super) project: String,
    pub(super) title: Option<String>,
    pub(super) started_at: i64,
    pub(super) ended_at: Option<i64>,
    #[serde(skip)]
    pub(super) turns: Vec<Turn>,
    #[serde(skip)]
    pub(super) plans: Vec<Plan>,
    #[serde(skip)]
    pub(super) summary: Option<Summary>,
    /// By uuid, earliest first.
    #[serde(skip)]
    pub(super) notes: Vec<String>,
}

/// A prompt and its answer.
#[derive(Debug, Deserialize)]
pub(super) struct Turn {
    session: String,
    seq: i64,
    pub(super) prompt: Option<String>,
    pub(super) response: Option<String>,
    pub(super) opened_at: i64,
    pub(super) branch: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Note {
    pub(super) uuid: String,
    pub(super) session: Option<String>,
    pub(super) project: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) narrative: String,
    #[serde(default)]
    pub(super) facts: Vec<String>,
    #[serde(default)]
    pub(super) files_modified: Vec<String>,
    #[serde(default)]
    pub(super) importance: i64,
    #[serde(default)]
    pub(super) status: String,
    #[serde(default)]
    pub(super) origin: String,
    pub(super) created_at: i64,
    pub(super) pinned_at: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Summary {
    session: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) request: String,
    #[serde(default)]
    pub(super) investigated: String,
    #[serde(default)]
    pub(super) learned: String,
    #[serde(default)]
    pub(super) completed: String,
    #[serde(default)]
    pub(super) next_steps: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Plan {
    session: String,
    pub(super) title: String,
    pub(super) text: String,
    pub(super) state: String,
    pub(super) created_at: i64,
}

#[derive(Deserialize)]
struct Superseded {
    uuid: String,
    by: String,
}

/// All that is parsed of a line without a place on a page: most lines of an export are calls.
#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    kind: String,
}

impl Session {
    /// Whether there is anything to read.
    pub(super) fn has_content(&self) -> bool {
        self.summary.is_some() || !self.notes.is_empty() || !self.plans.is_empty() || !self.turns.is_empty()
    }

    pub(super) fn title(&self) -> &str {
        let of_summary = self.summary.as_ref().map(|summary| summary.title.as_str());
        let first = self.turns.iter().find_map(|turn| turn.prompt.as_deref());
        let titles = [self.title.as_deref(), of_summary, first].into_iter().flatten();
        titles.map(str::trim).find(|title| !title.is_empty()).unwrap_or("Without a prompt")
    }
}

impl Memory {
    /// Adds a line of an export. A line comes after those that it names.
    ///
    /// # Errors
    /// Fails when a daemon of another version writes lines of a different form.
    pub(super) fn add(&mut self, line: &str) -> anyhow::Result<()> {
        let Kind { kind } = serde_json::from_str(line).context("Cannot read a line of the export")?;
        let unknown = || format!("reading a line of the export of the kind {kind}");
        match kind.as_str() {
            "project" => {
                let project: Project = serde_json::from_str(line).with_context(unknown)?;
                self.projects.insert(project.key.clone(), project);
            }
            "session" => {
                let session: Session = serde_json::from_str(line).with_context(unknown)?;
                self.sessions.insert(format!("{}:{}", session.agent, session.session_id), session);
            }
            "prompt" => {
                let turn: Turn = serde_json::from_str(line).with_context(unknown)?;
                let has_text =
                    |text: &Option<String>| text.as_ref().is_some_and(|text| !text.trim().is_empty());
                if has_text(&turn.prompt) || has_text(&turn.response) {
                    self.of_session(turn.session.clone(), |session| session.turns.push(turn));
                }
            }
            "observation" => {
                let note: Note = serde_json::from_str(line).with_context(unknown)?;
                self.notes.insert(note.uuid.clone(), note);
            }
            "summary" => {
                let summary: Summary = serde_json::from_str(line).with_context(unknown)?;
                self.of_session(summary.session.clone(), |session| session.summary = Some(summary));
            }
            "plan" => {
                let plan: Plan = serde_json::from_str(line).with_context(unknown)?;
                self.of_session(plan.session.clone(), |session| session.plans.push(plan));
            }
            "superseded" => {
                let Superseded { uuid, by } = serde_json::from_str(line).with_context(unknown)?;
                self.replaced_by.insert(uuid, by);
            }
            _ => {}
        }
        Ok(())
    }

    fn of_session(&mut self, key: String, change: impl FnOnce(&mut Session)) {
        if let Some(session) = self.sessions.get_mut(&key) {
            change(session);
        }
    }

    /// Sorts everything once all lines were added.
    #[must_use]
    pub(super) fn complete(mut self) -> Self {
        for note in self.notes.values() {
            if let Some(session) = note.session.as_ref().and_then(|key| self.sessions.get_mut(key)) {
                session.notes.push(note.uuid.clone());
            }
        }
        let at = |uuid: &String| self.notes.get(uuid).map(|note| note.created_at);
        for session in self.sessions.values_mut() {
            session.turns.sort_by_key(|turn| turn.seq);
            session.plans.sort_by(|a, b| (a.created_at, &a.title).cmp(&(b.created_at, &b.title)));
            session.notes.sort_by_key(|uuid| (at(uuid), uuid.clone()));
        }
        self.sessions.retain(|_, session| session.has_content());
        self
    }

    /// Returns the notes that no session made: what persons and models told recall.
    pub(super) fn sessionless_notes(&self, project: &str) -> Vec<&Note> {
        let is_sessionless = |note: &&Note| {
            note.project == project
                && note.session.as_ref().is_none_or(|key| !self.sessions.contains_key(key))
        };
        let mut notes: Vec<&Note> = self.notes.values().filter(is_sessionless).collect();
        notes.sort_by(|a, b| (b.created_at, &b.uuid).cmp(&(a.created_at, &a.uuid)));
        notes
    }

    /// Returns the statements about one subject, earliest first: notes that superseded one another.
    pub(super) fn threads(&self) -> Vec<Vec<&Note>> {
        let last = |uuid: &str| {
            let mut at = uuid;
            // A cycle indicates damage; the loop ends after as many steps as there are notes.
            for _ in 0..self.replaced_by.len() {
                match self.replaced_by.get(at) {
                    Some(next) if self.notes.contains_key(next) => at = next,
                    _ => break,
                }
            }
            at.to_owned()
        };
        let mut threads: BTreeMap<String, Vec<&Note>> = BTreeMap::new();
        for note in self.notes.values() {
            threads.entry(last(&note.uuid)).or_default().push(note);
        }
        let mut threads: Vec<Vec<&Note>> = threads.into_values().filter(|notes| notes.len() > 1).collect();
        for notes in &mut threads {
            notes.sort_by(|a, b| (a.created_at, &a.uuid).cmp(&(b.created_at, &b.uuid)));
        }
        threads
    }
}
