//! The files of a batch, from its tool calls, with paths relative to the project's folder.

use recall_domain::ids::EventId;
use recall_domain::material::{Action, BatchMaterial, CallOutcome};

/// A longer list would say less about an observation, not more.
const MOST_MODIFIED: usize = 2;
const MOST_READ: usize = 1;

/// The files that the calls of a batch touched, each once, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct TouchedFiles {
    modified: Vec<(String, EventId)>,
    read: Vec<(String, EventId)>,
}

/// What an observation describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// Work on files, named or not.
    WorkKind,
    /// A fact.
    Knowledge,
}

/// The files of one observation, and the calls that changed them.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedFiles {
    pub(crate) modified: Vec<String>,
    pub(crate) read: Vec<String>,
    pub(super) events: Vec<EventId>,
}

impl TouchedFiles {
    pub(crate) fn of(batch: &BatchMaterial) -> Self {
        let mut files = Self::default();
        for step in &batch.steps {
            let (path, list) = match (&step.action, &step.outcome) {
                (Action::Edit { path, .. } | Action::Write { path, .. }, CallOutcome::Done) => {
                    (path, &mut files.modified)
                }
                (Action::Read { path }, CallOutcome::Done) => (path, &mut files.read),
                // A rejected change concerns the file, too.
                (Action::Edit { path, .. } | Action::Write { path, .. }, CallOutcome::Rejected { .. }) => {
                    (path, &mut files.read)
                }
                _ => continue,
            };
            if let Some(path) = batch.folder().beneath(path)
                && !list.iter().any(|(known, _)| *known == path)
            {
                list.push((path, step.event));
            }
        }
        files
    }

    /// The files of a batch that these calls wrote, such as the plan with a decision.
    pub(super) fn written_by(batch: &BatchMaterial, events: &[EventId]) -> Vec<String> {
        let mut written: Vec<String> = Vec::new();
        for step in batch.steps.iter().filter(|step| events.contains(&step.event)) {
            let path = match (&step.action, &step.outcome) {
                (Action::Edit { path, .. } | Action::Write { path, .. }, CallOutcome::Done) => path,
                _ => continue,
            };
            written.extend(batch.folder().beneath(path).filter(|path| !written.contains(path)));
        }
        written.truncate(MOST_MODIFIED);
        written
    }

    /// The first changed files.
    pub(super) fn first_modified(self) -> Vec<String> {
        self.modified.into_iter().take(MOST_MODIFIED).map(|(path, _)| path).collect()
    }

    /// The files that a text names. Work that names none gets the first changed files. The only changed file belongs
    /// to every finding.
    pub(crate) fn named_in(&self, text: &str, about: About) -> NamedFiles {
        let text = text.to_lowercase();
        let named = |path: &str| {
            let name = file_name(path).to_lowercase();
            let stem = name.split('.').next().unwrap_or_default();
            text.contains(&name) || (stem.len() > 5 && text.contains(stem))
        };
        let mut modified: Vec<&(String, EventId)> =
            self.modified.iter().filter(|(path, _)| named(path)).collect();
        if modified.is_empty() && (about == About::WorkKind || self.modified.len() == 1) {
            modified = self.modified.iter().take(2).collect();
        }
        modified.truncate(MOST_MODIFIED);
        let read = self
            .read
            .iter()
            .map(|(path, _)| path)
            .filter(|path| named(path) && !modified.iter().any(|(known, _)| known == *path));
        NamedFiles {
            read: read.take(MOST_READ).cloned().collect(),
            events: modified.iter().map(|(_, event)| *event).collect(),
            modified: modified.into_iter().map(|(path, _)| path.clone()).collect(),
        }
    }
}

/// The part of a path after the last separator.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}
