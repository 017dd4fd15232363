//! An agent on this machine: its program, its settings, and recall's part of them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::hook_entry::Hook;
use super::part::Wanted;
use super::settings_file::SettingsFile;
use super::{hook_settings, toml_settings, version};
use crate::service::environment::{Environment, is_executable};
use recall_agents::settings::{
    AgentVersion, Base, FilePlace, Filling, InstalledPart, JsonHooks, OwnKind, PartContent, Programs, object,
};
use recall_agents::{AgentSpec, EventSpec, Guarding};

/// An agent, and where to look for it.
#[derive(Clone, Copy, Debug)]
pub struct LocalAgent<'a> {
    pub spec: &'static AgentSpec,
    pub environment: &'a Environment,
    pub scope: SettingsOwner<'a>,
}

/// Whose settings are edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsOwner<'a> {
    User,
    /// The project in this folder.
    Project(&'a Path),
}

impl LocalAgent<'_> {
    /// Returns the agent's folder. If it exists, the agent is in use.
    fn folder(&self) -> PathBuf {
        self.moved_folder().unwrap_or_else(|| self.environment.home().join(self.spec.host.folder))
    }

    fn moved_folder(&self) -> Option<PathBuf> {
        self.spec.host.folder_variable.and_then(|variable| self.environment.folder(variable))
    }

    /// Returns the file of a part. `None` if a project has none.
    pub fn path(&self, place: &FilePlace) -> Option<PathBuf> {
        let home = self.environment.home();
        let path = match (self.scope, place.base) {
            (SettingsOwner::Project(folder), _) => folder.join(place.project.first()?),
            (SettingsOwner::User, _) if place.user.is_empty() => return None,
            (SettingsOwner::User, Base::Folder) => self.folder().join(place.user),
            (SettingsOwner::User, Base::Home) => home.join(place.user),
            (SettingsOwner::User, Base::HomeUnlessMoved) => {
                self.moved_folder().unwrap_or_else(|| home.to_owned()).join(place.user)
            }
        };
        // Some agents read both names.
        let other = path.with_extension("jsonc");
        Some(if path.extension().is_some_and(|ending| ending == "json") && other.exists() {
            other
        } else {
            path
        })
    }

    /// Returns the files of a part: one, or all that exist in a folder.
    fn paths(&self, place: &FilePlace) -> Vec<PathBuf> {
        let Some(path) = self.path(place) else { return Vec::new() };
        if path.file_name().is_none_or(|name| name != "*.json") {
            return vec![path];
        }
        let entries = path.parent().and_then(|folder| folder.read_dir().ok()).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        let mut files: Vec<_> =
            files.filter(|file| file.extension().is_some_and(|ending| ending == "json")).collect();
        files.sort();
        files
    }

    /// False if hooks can only be added to files that the user must create.
    pub(super) fn has_place_for_hooks(&self) -> bool {
        self.spec.install.hooks.iter().any(|part| !self.paths(&part.place).is_empty())
    }

    /// Returns the settings file that contains the hooks.
    pub fn settings(&self) -> PathBuf {
        let path = self.spec.install.hooks.first().and_then(|part| self.path(&part.place));
        path.unwrap_or_default()
    }

    /// Whether the agent has no command hooks.
    pub fn is_connected_by_plugin(&self) -> bool {
        let is_plugin = |part: &InstalledPart| matches!(part.content, PartContent::OwnFile(file) if file.kind == OwnKind::Text);
        self.spec.install.hooks.iter().any(is_plugin)
    }

    pub fn program(&self) -> Option<PathBuf> {
        let host = &self.spec.host;
        let others = host.other_places.iter().map(|place| self.environment.home().join(place));
        let program = self.environment.program(host.program);
        program.or_else(|| others.into_iter().find(|place| is_executable(place)))
    }

    /// Whether the agent seems to be in use here.
    pub fn is_present(&self) -> bool {
        self.folder().is_dir() || self.program().is_some()
    }

    /// Asks the program for its version within a few seconds. `None` if the program is not found or does not respond.
    pub fn version(&self) -> Option<AgentVersion> {
        version::ask(&self.program()?, version::DEADLINE)
    }

    /// Whether the hooks belong into the TOML file: it contains others' hooks, and the JSON file has none.
    pub(super) fn hooks_belong_into_toml(&self, json: &JsonHooks, json_file: &Path) -> bool {
        let Some(toml) = json.or_toml.as_ref().and_then(|toml| self.path(&toml.place)) else { return false };
        let read = |path: &Path| SettingsFile::at(path).and_then(|file| file.read()).ok().flatten();
        let has_json = read(json_file).is_some_and(|text| hook_settings::has_others_hooks(json, &text));
        !has_json && read(&toml).is_some_and(|text| toml_settings::has_others_hooks(&text))
    }

    /// Returns recall's changes to these parts, by file.
    pub(crate) fn goals(
        &self,
        parts: &'static [InstalledPart],
        registration: &Registration,
    ) -> Vec<(PathBuf, Vec<Goal>)> {
        let mut files: Vec<(PathBuf, Vec<Goal>)> = Vec::new();
        let mut add = |path: PathBuf, wanted, state| {
            let goal = Goal { wanted, state };
            match files.iter_mut().find(|(known, _)| *known == path) {
                Some((_, goals)) => goals.push(goal),
                None => files.push((path, vec![goal])),
            }
        };
        let filling = registration.filling(self.spec, "");
        let places =
            parts.iter().flat_map(|part| self.paths(&part.place).into_iter().map(move |path| (part, path)));
        for (part, path) in places {
            let wanted = match &part.content {
                PartContent::JsonHooks(json) => {
                    let hooks = registration.hooks(self.spec, json);
                    let mut here = GoalState::Present;
                    if let Some(toml) = json.or_toml.as_ref().and_then(|toml| self.path(&toml.place)) {
                        let mut there = GoalState::Absent;
                        if self.hooks_belong_into_toml(json, &path) {
                            std::mem::swap(&mut here, &mut there);
                        }
                        add(toml, Wanted::TomlHooks(hooks.clone()), there);
                    }
                    add(path, Wanted::JsonHooks(json, hooks), here);
                    continue;
                }
                PartContent::JsonValues(json) => Wanted::JsonValues(json, json.placed(&filling)),
                PartContent::TomlTable(table) => {
                    Wanted::TomlTable(table.path, object(table.values, &filling))
                }
                PartContent::TomlList(list) => Wanted::TomlList(
                    list,
                    registration.hooks_by(self.spec, |filling, _| object(list.entry, filling)),
                ),
                PartContent::OwnFile(file) => Wanted::OwnFile(file.written(&filling), file.kind),
            };
            add(path, wanted, GoalState::Present);
        }
        files
    }
}

/// recall's change to a file.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    pub(crate) wanted: Wanted,
    pub(crate) state: GoalState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoalState {
    Present,
    Absent,
}

/// The hooks to register with an agent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registration {
    /// `None` if the version is unknown.
    pub(crate) version: Option<AgentVersion>,
    /// The path of the hook client.
    pub(crate) shim: String,
    /// The path of `recall`.
    pub(crate) recall: String,
    /// Whether the user's guards need the event before a call.
    pub(crate) guarding: Guarding,
}

impl Registration {
    fn filling<'a>(&'a self, spec: &AgentSpec, event: &'a str) -> Filling<'a> {
        let programs = Programs { recall: &self.recall, shim: &self.shim };
        Filling { agent: spec.name, event, programs }
    }

    /// The hooks that this version supports.
    pub(crate) fn hooks(&self, spec: &'static AgentSpec, json: &JsonHooks) -> Vec<Hook> {
        self.hooks_by(spec, |filling, version| json.entry_of(version, filling))
    }

    /// Like [`Self::hooks`], with different entries.
    fn hooks_by(
        &self,
        spec: &'static AgentSpec,
        entry: impl Fn(&Filling<'_>, AgentVersion) -> Map<String, Value>,
    ) -> Vec<Hook> {
        let version = self.version.unwrap_or(spec.host.assumed_version);
        let hook = |event: &'static EventSpec| Hook {
            event: event.name,
            entry: entry(&self.filling(spec, event.name), version),
        };
        spec.events_with_guards(self.version, self.guarding).map(hook).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_agents::AGENTS;

    #[test]
    fn an_environment_variable_moves_an_agents_settings() {
        let settings = |name: &str, environment: &Environment| {
            LocalAgent { spec: AGENTS.spec(name), environment, scope: SettingsOwner::User }.settings()
        };
        let home = Environment::new("/home/dev".into(), []);
        assert_eq!(settings("claude-code", &home), Path::new("/home/dev/.claude/settings.json"));
        let moved =
            Environment::new("/home/dev".into(), [("CLAUDE_CONFIG_DIR".into(), "/data/claude".into())]);
        assert_eq!(settings("claude-code", &moved), Path::new("/data/claude/settings.json"));
        let scope = SettingsOwner::Project(Path::new("/shop"));
        let local = LocalAgent { spec: AGENTS.spec("claude-code"), environment: &moved, scope };
        assert_eq!(local.settings(), Path::new("/shop/.claude/settings.local.json"));
    }
}
