//! Hooks that are registered once more by the settings of a project: what an agent runs twice is told twice.

use std::path::{Path, PathBuf};

use super::agent::AgentSpec;
use super::hook_settings::{self, FoundEntry};
use super::settings_file::SettingsFile;

/// A settings file whose hooks tell what those of another one tell already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondSettings {
    pub path: PathBuf,
    /// The file before it.
    pub first: PathBuf,
    /// How many events.
    pub events: usize,
    pub commands: SecondCommands,
}

/// Whether an agent runs both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondCommands {
    /// The very same ones: Claude Code runs such once.
    Same,
    /// At least one is written otherwise, so that its event is told twice.
    Different,
}

/// Which of the project's files register events that a file before them registers. What cannot be read the agent
/// ignores, too.
pub(super) fn find(agent: &AgentSpec, user: &Path, folders: &[PathBuf]) -> Vec<SecondSettings> {
    let of_project =
        folders.iter().flat_map(|folder| agent.project_settings.iter().map(|file| folder.join(file)));
    let mut known: Vec<(PathBuf, Vec<FoundEntry>)> = Vec::new();
    let mut again = Vec::new();
    for path in std::iter::once(user.to_owned()).chain(of_project) {
        let Ok(real) = path.canonicalize() else { continue };
        let entries = entries_in(&path);
        if entries.is_empty()
            || known.iter().any(|(file, _)| file.canonicalize().is_ok_and(|file| file == real))
        {
            continue;
        }
        again.extend(known.iter().find_map(|(first, before)| second_of(first, before, &path, &entries)));
        known.push((path, entries));
    }
    again
}

fn entries_in(path: &Path) -> Vec<FoundEntry> {
    let text = SettingsFile::at(path).and_then(|file| file.read()).ok().flatten().unwrap_or_default();
    hook_settings::survey(&text).map(|survey| survey.entries).unwrap_or_default()
}

fn second_of(
    first: &Path,
    before: &[FoundEntry],
    path: &Path,
    entries: &[FoundEntry],
) -> Option<SecondSettings> {
    let command =
        |entry: &FoundEntry| (entry.entry.get("command").cloned(), entry.entry.get("args").cloned());
    let mut events: Vec<&str> = Vec::new();
    let mut commands = SecondCommands::Same;
    for entry in entries {
        let firsts: Vec<&FoundEntry> = before.iter().filter(|first| first.event == entry.event).collect();
        if firsts.is_empty() {
            continue;
        }
        if !firsts.iter().any(|first| command(first) == command(entry)) {
            commands = SecondCommands::Different;
        }
        if !events.contains(&entry.event.as_str()) {
            events.push(&entry.event);
        }
    }
    let events = events.len();
    (events > 0).then(|| SecondSettings { path: path.to_owned(), first: first.to_owned(), events, commands })
}
