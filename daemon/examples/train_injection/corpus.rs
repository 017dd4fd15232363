//! The sessions as the index would have them, and the labelled prompts and questions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use recall_app::documents;
use recall_compression::extractive::Extractive;
use recall_domain::document::{Document, DocumentKey, DocumentKind, Status};
use recall_domain::ids::{AgentName, EventId, ProjectKey, SessionId, Timestamp};
use recall_domain::material::{CallOutcome, SessionExtent, SessionMaterial};
use recall_domain::observation::{Importance, Maker};
use recall_domain::passage::{self, Passage};
use serde::Deserialize;
use serde_json::Value;

use crate::replay;

/// A session, with its documents in the index.
pub(crate) struct Played {
    pub(crate) project: String,
    pub(crate) id: String,
    pub(crate) material: SessionMaterial,
    pub(crate) documents: Vec<Document>,
}

/// The sessions of a folder of projects, in the order of their files.
pub(crate) fn sessions(folder: &Path) -> anyhow::Result<Vec<Played>> {
    in_order(folder, "", &HashMap::new(), &mut 0)
}

/// The sessions of a folder of projects, each project's by date. `set` comes before the name of a project. `rows`: the
/// last number of a row.
pub(crate) fn in_order(
    folder: &Path,
    set: &str,
    dates: &HashMap<String, String>,
    rows: &mut i64,
) -> anyhow::Result<Vec<Played>> {
    let mut played = Vec::new();
    for project in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        let name = project.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let name = format!("{set}{name}");
        let mut paths = entries(&project)?;
        paths.retain(|path| path.to_string_lossy().contains(".jsonl"));
        paths.sort_by_key(|path| {
            let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            let id = name.split('.').next().unwrap_or_default();
            (dates.get(id).cloned().unwrap_or_else(|| "9".to_owned()), path.clone())
        });
        for path in paths {
            for (id, material) in replay::sessions(&path)? {
                let at = Timestamp(i64::try_from(played.len()).unwrap_or(0) * 86_400_000);
                let documents = Builder { project: &name, session: &id, at, rows }.of(&material);
                played.push(Played { project: name.clone(), id, material, documents });
            }
        }
    }
    Ok(played)
}

fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = read.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Makes the documents of one session.
struct Builder<'a> {
    project: &'a str,
    session: &'a str,
    at: Timestamp,
    rows: &'a mut i64,
}

impl Builder<'_> {
    fn of(mut self, material: &SessionMaterial) -> Vec<Document> {
        let mut documents = Vec::new();
        for batch in &material.batches {
            let row = self.row();
            if let Some(prompt) = &batch.prompt {
                documents.push(self.document(DocumentKind::Prompt, row, documents::of_prompt(&prompt.text)));
            }
            if let Some(response) = &batch.response {
                documents.push(self.document(DocumentKind::Response, row, passage::cut(&response.text)));
            }
            for step in batch.steps.iter().filter(|step| step.outcome == CallOutcome::Done) {
                let passages = documents::of_action(&step.action, EventId([0; 16]));
                if !passages.is_empty() {
                    let row = self.row();
                    documents.push(self.document(DocumentKind::Activity, row, passages));
                }
            }
        }
        let draft = Extractive.draft_session(material, SessionExtent::Whole);
        for draft in draft.batches.into_iter().flatten() {
            let row = self.row();
            let passages = documents::of_observation(&draft.title, &draft.narrative, &draft.facts);
            let document = self.document(DocumentKind::Observation, row, passages);
            documents.push(Document {
                observation_type: Some(draft.kind),
                importance: draft.importance,
                ..document
            });
        }
        if let Some(summary) = draft.summary {
            let row = self.row();
            let fields = [
                ("learned", summary.learned.as_str().into()),
                ("done", summary.completed.as_str().into()),
                ("open", summary.next_steps.as_str().into()),
                ("looked into", summary.investigated.as_str().into()),
                ("notes", summary.notes.as_str().into()),
            ];
            let passages = documents::of_summary(&summary.title, fields);
            documents.push(self.document(DocumentKind::Summary, row, passages));
        }
        documents
    }

    fn row(&mut self) -> i64 {
        *self.rows += 1;
        *self.rows
    }

    fn document(&self, kind: DocumentKind, row: i64, passages: Vec<Passage>) -> Document {
        Document {
            key: DocumentKey { kind, row },
            project: ProjectKey::from(self.project),
            project_name: self.project.to_owned(),
            agent: AgentName::from("claude-code"),
            session: SessionId::from(self.session),
            observation_type: None,
            status: Status::Active,
            importance: Importance::clamped(5),
            maker: Maker::Machine,
            at: self.at,
            files: Vec::new(),
            title: String::new(),
            body: String::new(),
            passages,
        }
    }
}

/// A question, with its answers.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Question {
    pub(crate) scope: String,
    pub(crate) query: String,
    pub(crate) relevant_sessions: Vec<String>,
    /// The terms that an answer must contain: one of each group.
    #[serde(default)]
    pub(crate) terms: Vec<Vec<String>>,
}

/// Whether a prompt is one that other sessions can help with.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Label {
    Silent,
    Lookup,
    Either,
}

/// A real prompt that was labelled.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LabelledPrompt {
    pub(crate) session_id: String,
    pub(crate) prompt_number: u32,
    pub(crate) label: Label,
}

/// The lines of a file of JSON objects.
pub(crate) fn lines<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<Vec<T>> {
    let text = replay::text(path)?;
    let read = |line: &str| {
        serde_json::from_str::<Value>(line)
            .and_then(serde_json::from_value)
            .with_context(|| format!("a line of {}", path.display()))
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(read).collect()
}

/// Whether a text contains the terms of an answer. One of four or more groups may be missing.
pub(crate) fn answers(terms: &[Vec<String>], text: &str) -> bool {
    let text = normal(text);
    let hits = terms.iter().filter(|group| group.iter().any(|term| text.contains(&normal(term)))).count();
    hits >= terms.len() - usize::from(terms.len() >= 4)
}

fn normal(text: &str) -> String {
    let kept: String = text.chars().filter(|c| !matches!(c, '*' | '`')).collect();
    kept.replace('\\', "/").to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}
