//! Finds hooks that a project's settings register a second time. The agent may then report events twice.

use std::path::{Path, PathBuf};

use super::hook_settings::{self, FoundEntry};
use super::settings_file::SettingsFile;
use recall_agents::settings::{FilePlace, JsonHooks};

/// A settings file that registers events of another file again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondSettings {
    pub path: PathBuf,
    /// The file that registers them first.
    pub first: PathBuf,
    /// The number of events.
    pub events: usize,
    pub commands: SecondCommands,
}

/// Whether the agent runs both commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondCommands {
    /// The commands are identical, so the agent runs them once.
    Same,
    /// At least one command differs, so its event is reported twice.
    Different,
}

/// Finds project files that register events of an earlier file again. Skips unreadable files, as the agent does.
pub(super) fn find(
    json: &JsonHooks,
    place: &FilePlace,
    user: &Path,
    folders: &[PathBuf],
) -> Vec<SecondSettings> {
    let of_project = folders.iter().flat_map(|folder| place.project.iter().map(|file| folder.join(file)));
    let mut known: Vec<(PathBuf, Vec<FoundEntry>)> = Vec::new();
    let mut again = Vec::new();
    for path in std::iter::once(user.to_owned()).chain(of_project) {
        let Ok(real) = path.canonicalize() else { continue };
        let entries = entries_in(json, &path);
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

fn entries_in(json: &JsonHooks, path: &Path) -> Vec<FoundEntry> {
    let text = SettingsFile::at(path).and_then(|file| file.read()).ok().flatten().unwrap_or_default();
    hook_settings::survey(json, &text).map(|survey| survey.entries).unwrap_or_default()
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
