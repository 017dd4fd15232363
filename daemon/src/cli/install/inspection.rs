//! Determines which hooks each agent has registered and whether they can work, for `recall doctor`.
//!
//! Only reads. Unreadable settings are a finding, never an error.

use std::path::{Path, PathBuf};

use super::agent::{GoalState, LocalAgent, Registration, SettingsOwner};
use super::connected;
use super::edit::Edit;
use super::hook_entry::Hook;
use super::hook_settings::{self, FoundEntry, HookSwitch, MatcherScope};
use super::part::Wanted;
use super::programs::Programs;
use super::second_settings::{self, SecondCommands, SecondSettings};
use super::settings_file::{FileError, SettingsFile};
use super::toml_settings;
use crate::service::environment::{Environment, is_executable};
use recall_protocol::agents::AgentRow;

use recall_agents::settings::{AgentVersion, JsonHooks, OwnKind, PartContent};
use recall_agents::{AgentSpec, Agents, Guarding};
use recall_app::answers::status::ReportedAnswer;

/// The state of recall's hooks for one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentReport {
    /// The name on the command line.
    pub agent: &'static str,
    /// The name shown to people.
    pub title: &'static str,
    pub presence: Presence,
    /// The path of the agent's program, if it was found.
    pub program: Option<PathBuf>,
    /// `None` if the program was not found or did not respond in time.
    pub version: Option<AgentVersion>,
    pub connected_by: ConnectedBy,
    /// The newest version tested with recall, if this one is newer.
    pub tried: Option<AgentVersion>,
    /// A phrase that says when the agent can receive context.
    pub given: String,
    pub settings: PathBuf,
    pub state: SettingsState,
    /// Project settings that register the same events again.
    pub again: Vec<SecondSettings>,
}

/// Whether the agent seems to be in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Found,
    Absent,
}

/// How the agent runs the hook client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectedBy {
    Hooks,
    Plugin,
}

/// The content of the agent's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsState {
    /// The settings file does not exist.
    Missing,
    /// The file is invalid, with the reason. The agent ignores it too.
    Unreadable(String),
    Read {
        /// One entry for each event that is wanted or registered, wanted ones first.
        events: Vec<EventReport>,
        /// If off, no hook runs.
        switch: HookSwitch,
        /// An enabled plugin with the same hooks, which reports every event a second time.
        plugin: Option<String>,
    },
}

/// One event of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventReport {
    pub event: String,
    pub state: EventState,
}

/// How an event is registered. If there are several problems, the most important one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventState {
    Installed,
    /// Wanted but not registered.
    Missing,
    /// The hook's program does not exist, so the agent reports an error for every event.
    ShimMissing(PathBuf),
    ShimNotExecutable(PathBuf),
    /// Registered this many times, so every event is reported as often.
    Duplicate(usize),
    /// A matcher hides some events.
    Partial,
    /// Uses a different `recall-shim` from the one next to this `recall`.
    OtherShim(PathBuf),
    /// The right program, but in a different format or with a different timeout than this version writes.
    Outdated,
    /// Registered but not wanted for this version of the agent.
    Unwanted,
}

impl AgentReport {
    /// Whether every wanted event is registered correctly and hooks are enabled.
    pub fn is_healthy(&self) -> bool {
        match &self.state {
            SettingsState::Read { events, switch: HookSwitch::On, plugin: None } => {
                events.iter().all(|event| event.state == EventState::Installed)
                    && self.again.iter().all(|again| again.commands == SecondCommands::Same)
            }
            _ => false,
        }
    }
}

/// Inspects every known agent for the current user and in these project folders. Empty without a home folder.
pub fn inspect(agents: Agents, folders: &[PathBuf]) -> Vec<AgentReport> {
    let Some(environment) = Environment::of_process() else { return Vec::new() };
    let shim = Programs::find(&environment, None).ok().map(|programs| programs.shim);
    let local =
        agents.iter().map(|spec| LocalAgent { spec, environment: &environment, scope: SettingsOwner::User });
    local.map(|agent| inspect_agent(agent, folders, shim.as_deref())).collect()
}

/// Inspects one agent; `shim` is the program that its hooks should run.
pub(crate) fn inspect_agent(agent: LocalAgent<'_>, folders: &[PathBuf], shim: Option<&Path>) -> AgentReport {
    let version = agent.version();
    let shim_text = shim.and_then(Path::to_str).unwrap_or_default().to_owned();
    let guarding = super::guarding(agent.environment);
    let registration = Registration { version, shim: shim_text, guarding, ..Registration::default() };
    let settings = hooks_file(agent).unwrap_or_default();
    let again = agent.spec.install.hooks.iter().find_map(|part| match &part.content {
        PartContent::JsonHooks(json) => {
            Some(second_settings::find(json, &part.place, &agent.settings(), folders))
        }
        _ => None,
    });
    AgentReport {
        agent: agent.spec.name,
        title: agent.spec.title,
        presence: if agent.is_present() { Presence::Found } else { Presence::Absent },
        program: agent.program(),
        version,
        connected_by: if agent.is_connected_by_plugin() { ConnectedBy::Plugin } else { ConnectedBy::Hooks },
        tried: agent.spec.host.tried.filter(|tried| version.is_some_and(|version| version > *tried)),
        given: agent.spec.given(),
        state: state(agent, &registration, shim),
        again: again.unwrap_or_default(),
        settings,
    }
}

/// Whether an agent asks recall before a call, so that a guard can refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardHook {
    NotConnected,
    /// The agent is connected, but not by the hook that runs before a call.
    Missing,
    Installed,
}

/// Determines the state of the hook. Starts no program.
pub(crate) fn guard_hook(agent: LocalAgent<'_>) -> GuardHook {
    let registration = Registration { guarding: Guarding::Calls, ..Registration::default() };
    let SettingsState::Read { events, .. } = state(agent, &registration, None) else {
        return GuardHook::NotConnected;
    };
    if events.iter().all(|event| event.state == EventState::Missing) {
        return GuardHook::NotConnected;
    }
    let before = agent.spec.guards.before.as_ref().map(|event| event.name);
    let is_missing =
        |event: &EventReport| event.state == EventState::Missing && Some(event.event.as_str()) == before;
    if events.iter().any(is_missing) { GuardHook::Missing } else { GuardHook::Installed }
}

/// Returns the agents of this user that report to recall. Starts no program.
pub(crate) fn connected(agents: Agents) -> Vec<&'static str> {
    connected_specs(agents).iter().map(|spec| spec.title).collect()
}

pub(crate) fn connected_specs(agents: Agents) -> Vec<&'static AgentSpec> {
    let Some(environment) = Environment::of_process() else { return Vec::new() };
    let local =
        agents.iter().map(|spec| LocalAgent { spec, environment: &environment, scope: SettingsOwner::User });
    local.filter(|agent| guard_hook(*agent) != GuardHook::NotConnected).map(|agent| agent.spec).collect()
}

/// Whether `recall install` has connected any agent for the user.
pub(crate) fn has_connected(agents: Agents) -> bool {
    let environment = Environment::of_process();
    let mut specs = agents.iter();
    environment.is_some_and(|environment| specs.any(|spec| connected::was_connected(&environment, spec.name)))
}

/// Why an agent that `recall install` connected for the user, and that reported recently, runs no hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHooks {
    /// They are gone from its settings.
    Gone,
    /// This setting turns all hooks off.
    Off(&'static str),
}

/// Returns why the agent runs no hooks, or `None` if it should run them. `one` is its latest event. Starts no program.
pub(crate) fn no_hooks(agents: Agents, spec: &'static AgentSpec, one: &ReportedAnswer) -> Option<NoHooks> {
    let environment = Environment::of_process()?;
    if !connected::was_connected(&environment, spec.name) {
        return None;
    }
    let is_connected = |spec: &'static AgentSpec, scope: SettingsOwner<'_>| {
        let agent = LocalAgent { spec, environment: &environment, scope };
        guard_hook(agent) != GuardHook::NotConnected || obstacles(agent, &[]).1.is_some()
    };
    if is_connected(spec, SettingsOwner::User) {
        let agent = LocalAgent { spec, environment: &environment, scope: SettingsOwner::User };
        return match obstacles(agent, &[]).0 {
            HookSwitch::Off(setting) => Some(NoHooks::Off(setting)),
            HookSwitch::On => None,
        };
    }
    // Some agents also run the hooks of others.
    let row = AgentRow::of(spec.name);
    let others = row.runs_hooks_of.iter().filter(|other| **other != spec.name);
    let mut others = others.filter_map(|other| agents.named(other));
    let may_run_others = row.marker.is_some() || !spec.host.marks.is_empty();
    let folder = one.folder.as_deref().map(Path::new);
    let elsewhere = folder.is_some_and(|folder| is_connected(spec, SettingsOwner::Project(folder)))
        || (may_run_others && others.any(|other| is_connected(other, SettingsOwner::User)));
    (!elsewhere).then_some(NoHooks::Gone)
}

/// Whether `recall install` has connected this agent for the user.
pub(crate) fn was_connected(spec: &AgentSpec) -> bool {
    Environment::of_process().is_some_and(|environment| connected::was_connected(&environment, spec.name))
}

/// Returns the file that contains, or should contain, the agent's hooks for the user.
pub(crate) fn user_hooks_file(spec: &'static AgentSpec) -> Option<PathBuf> {
    let environment = Environment::of_process()?;
    hooks_file(LocalAgent { spec, environment: &environment, scope: SettingsOwner::User })
}

/// Returns the agents of this user that are connected but do not ask before a call.
pub(crate) fn without_guard_hook(agents: Agents, guarding: Guarding) -> Vec<&'static str> {
    let Some(environment) = Environment::of_process() else { return Vec::new() };
    let local = agents.iter().filter(|spec| spec.guards.are_for(guarding)).map(|spec| LocalAgent {
        spec,
        environment: &environment,
        scope: SettingsOwner::User,
    });
    local.filter(|agent| guard_hook(*agent) == GuardHook::Missing).map(|agent| agent.spec.title).collect()
}

/// Returns the file that contains, or should contain, the agent's hooks.
pub(super) fn hooks_file(agent: LocalAgent<'_>) -> Option<PathBuf> {
    let part = agent.spec.install.hooks.first()?;
    let path = agent.path(&part.place)?;
    match &part.content {
        PartContent::JsonHooks(json) if agent.hooks_belong_into_toml(json, &path) => {
            json.or_toml.as_ref().and_then(|toml| agent.path(&toml.place))
        }
        // One of several files.
        PartContent::OwnFile(file) if file.kind == OwnKind::Program => path.parent().map(Path::to_owned),
        _ => Some(path),
    }
}

/// Returns settings that will keep the hooks from working even after these changes, such as a disabled plugin.
pub(super) fn obstacles(agent: LocalAgent<'_>, edits: &[Edit]) -> (HookSwitch, Option<String>) {
    let text_at = |path: &Path| {
        let planned = edits.iter().find(|edit| edit.file.path() == path);
        planned.map_or_else(|| read(path).ok().flatten(), |edit| edit.text().map(str::to_owned))
    };
    let surveys = agent.spec.install.hooks.iter().filter_map(|part| {
        let PartContent::JsonHooks(json) = &part.content else { return None };
        hook_settings::survey(json, &text_at(&agent.path(&part.place)?).unwrap_or_default()).ok()
    });
    let (mut switch, mut plugin) = (switch_in_toml(agent), None);
    for survey in surveys {
        if survey.switch != HookSwitch::On {
            switch = survey.switch;
        }
        plugin = plugin.or(survey.plugin);
    }
    (switch, plugin)
}

fn switch_in_toml(agent: LocalAgent<'_>) -> HookSwitch {
    let off = agent.spec.install.hooks.iter().find_map(|part| {
        let PartContent::JsonHooks(JsonHooks { or_toml: Some(toml), .. }) = &part.content else {
            return None;
        };
        let text = read(&agent.path(&toml.place)?).ok()??;
        toml.switched_off.is_off(&toml_settings::value(&text)?)
    });
    off.map_or(HookSwitch::On, HookSwitch::Off)
}

fn read(path: &Path) -> Result<Option<String>, FileError> {
    SettingsFile::at(path)?.read()
}

/// Determines the state of all files with hooks.
fn state(agent: LocalAgent<'_>, registration: &Registration, shim: Option<&Path>) -> SettingsState {
    let mut reports = Vec::new();
    let mut files = 0;
    for (path, goals) in agent.goals(agent.spec.install.hooks, registration) {
        let text = match read(&path) {
            Ok(text) => text,
            Err(error) => return SettingsState::Unreadable(error.to_string()),
        };
        files += usize::from(text.is_some());
        for goal in goals.iter().filter(|goal| goal.state == GoalState::Present) {
            let text = text.as_deref();
            let found = match &goal.wanted {
                Wanted::JsonHooks(json, hooks) => hook_settings::survey(json, text.unwrap_or_default())
                    .map(|survey| events(&survey.entries, hooks, shim, agent.environment)),
                Wanted::TomlHooks(hooks) => {
                    let entries = toml_settings::survey(text.unwrap_or_default());
                    Ok(events(&entries, hooks, shim, agent.environment))
                }
                Wanted::TomlList(list, hooks) => {
                    let entries = toml_settings::survey_list(text.unwrap_or_default(), list.key);
                    Ok(events(&entries, hooks, shim, agent.environment))
                }
                wanted => Ok(vec![file_report(&path, text, wanted, shim)]),
            };
            match found {
                Ok(found) => reports.extend(found),
                Err(error) => return SettingsState::Unreadable(error.to_string()),
            }
        }
    }
    if files == 0 {
        return SettingsState::Missing;
    }
    let (switch, plugin) = obstacles(agent, &[]);
    SettingsState::Read { events: reports, switch, plugin }
}

/// Determines the state of a plugin's file, or of a permission for it.
fn file_report(path: &Path, text: Option<&str>, wanted: &Wanted, shim: Option<&Path>) -> EventReport {
    let event = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_there = text.is_some_and(|text| wanted.is_in(text));
    let state = match wanted.put(text) {
        _ if !is_there => EventState::Missing,
        // Without our own shim there is nothing to compare.
        Ok(wanted) if shim.is_some() && text != Some(wanted.as_str()) => EventState::Outdated,
        Ok(_) => EventState::Installed,
        Err(_) => EventState::Missing,
    };
    EventReport { event, state }
}

fn events(
    found: &[FoundEntry],
    wanted: &[Hook],
    shim: Option<&Path>,
    environment: &Environment,
) -> Vec<EventReport> {
    let entries_of =
        |event: &str| -> Vec<&FoundEntry> { found.iter().filter(|entry| entry.event == event).collect() };
    let mut reports: Vec<EventReport> = wanted
        .iter()
        .map(|hook| EventReport {
            event: hook.event.to_owned(),
            state: event_state(&entries_of(hook.event), hook, shim, environment),
        })
        .collect();
    for entry in found {
        if !reports.iter().any(|report| report.event == entry.event) {
            reports.push(EventReport { event: entry.event.clone(), state: EventState::Unwanted });
        }
    }
    reports
}

fn event_state(
    entries: &[&FoundEntry],
    hook: &Hook,
    shim: Option<&Path>,
    environment: &Environment,
) -> EventState {
    let Some(entry) = entries.first() else { return EventState::Missing };
    let found = shim_path(&entry.shim, environment);
    match &found {
        Some(path) if !path.exists() => return EventState::ShimMissing(path.clone()),
        Some(path) if !is_executable(path) => return EventState::ShimNotExecutable(path.clone()),
        None => return EventState::ShimMissing(entry.shim.clone().into()),
        Some(_) => {}
    }
    if entries.len() > 1 {
        return EventState::Duplicate(entries.len());
    }
    if entry.reach == MatcherScope::Some {
        return EventState::Partial;
    }
    match (found, shim) {
        (Some(found), Some(shim)) if found != shim => EventState::OtherShim(found),
        // Without our own shim there is nothing to compare.
        (_, Some(_)) if !hook.is_written_as(&entry.entry) => EventState::Outdated,
        _ => EventState::Installed,
    }
}

/// Returns the file that a hook runs: an absolute path, a path relative to the home folder, or a program from `PATH`.
/// Only the agent can expand other variables.
fn shim_path(spelled: &str, environment: &Environment) -> Option<PathBuf> {
    let home = environment.home();
    for prefix in ["~/", "$HOME/", "${HOME}/"] {
        if let Some(rest) = spelled.strip_prefix(prefix) {
            return Some(home.join(rest));
        }
    }
    if spelled.contains('/') { Some(spelled.into()) } else { environment.program(spelled) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_agents::AGENTS;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    struct TestHome {
        folder: tempfile::TempDir,
        environment: Environment,
    }

    impl TestHome {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let environment = Environment::new(folder.path().into(), []);
            fs::create_dir(folder.path().join(".claude")).unwrap();
            for (name, mode) in
                [("recall-shim", 0o755), ("other/recall-shim", 0o755), ("plain/recall-shim", 0o644)]
            {
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, "").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
            Self { folder, environment }
        }

        fn shim(&self) -> PathBuf {
            self.folder.path().join("recall-shim")
        }

        fn local(&self) -> LocalAgent<'_> {
            LocalAgent {
                spec: AGENTS.spec("claude-code"),
                environment: &self.environment,
                scope: SettingsOwner::User,
            }
        }

        fn json(&self) -> &'static JsonHooks {
            match &self.local().spec.install.hooks[0].content {
                PartContent::JsonHooks(json) => json,
                other => panic!("{other:?}"),
            }
        }

        fn hooks(&self, shim: &Path) -> Vec<Hook> {
            let json = self.json();
            let shim = shim.to_str().unwrap().to_owned();
            Registration { shim, ..Registration::default() }.hooks(self.local().spec, json)
        }

        fn write(&self, text: &str) {
            fs::write(self.local().settings(), text).unwrap();
        }

        /// Installs for this shim, then edits the text.
        fn install(&self, shim: &Path, change: impl FnOnce(String) -> String) {
            self.write(&change(hook_settings::install(self.json(), "{}", &self.hooks(shim)).unwrap()));
        }

        fn report(&self) -> AgentReport {
            let project = [self.folder.path().join("project")];
            inspect_agent(self.local(), &project, Some(&self.shim()))
        }

        #[track_caller]
        fn check(&self, event: &str, expected: EventState) {
            let SettingsState::Read { events, .. } = self.report().state else {
                panic!("settings are readable")
            };
            let found = events.into_iter().find(|report| report.event == event);
            assert_eq!(found.map(|report| report.state), Some(expected));
        }
    }

    #[test]
    fn installed_hooks_are_reported_as_healthy() {
        let place = TestHome::new();
        assert_eq!(place.report().state, SettingsState::Missing);
        place.install(&place.shim(), |text| text);
        assert!(place.report().is_healthy(), "{:?}", place.report());
        assert_eq!(place.report().presence, Presence::Found);
    }

    #[test]
    fn each_hook_fault_has_its_own_state() {
        let place = TestHome::new();
        let path = |name: &str| place.folder.path().join(name);
        place.write("{}");
        place.check("Stop", EventState::Missing);
        place.install(&path("other/recall-shim"), |text| text);
        place.check("Stop", EventState::OtherShim(path("other/recall-shim")));
        place.install(&path("plain/recall-shim"), |text| text);
        place.check("Stop", EventState::ShimNotExecutable(path("plain/recall-shim")));
        place.install(&path("gone/recall-shim"), |text| text);
        place.check("Stop", EventState::ShimMissing(path("gone/recall-shim")));
        place.install(&place.shim(), |text| text.replace("\"timeout\": 10", "\"timeout\": 5"));
        place.check("Stop", EventState::Outdated);
        place.install(&place.shim(), |text| text.replace("\"Stop\"", "\"Setup\""));
        place.check("Stop", EventState::Missing);
        place.check("Setup", EventState::Unwanted);
        place.install(&place.shim(), |text| {
            text.replace("\"hooks\": [\n", "\"matcher\": \"x\", \"hooks\": [\n")
        });
        place.check("Stop", EventState::Partial);
        let group = r#"{"hooks": [{"type": "command", "command": "~/recall-shim claude-code"}]}"#;
        place.install(&place.shim(), |text| text.replace("\"Stop\": [", &format!("\"Stop\": [{group},")));
        place.check("Stop", EventState::Duplicate(2));
        place.write(&format!(r#"{{"hooks": {{"Stop": [{}]}}}}"#, group.replace("~/", "")));
        place.check("Stop", EventState::ShimMissing("recall-shim".into()));
        assert!(!place.report().is_healthy());
    }

    #[test]
    fn hooks_registered_again_by_a_project_are_reported() {
        let place = TestHome::new();
        let project = place.folder.path().join("project/.claude");
        fs::create_dir_all(&project).unwrap();
        place.install(&place.shim(), |text| text);
        let user = place.local().settings();
        let all = place.hooks(Path::new("")).len();
        let again = |file: &str, events: usize, commands: SecondCommands| {
            [SecondSettings { path: project.join(file), first: user.clone(), events, commands }]
        };
        // The same commands again.
        fs::copy(&user, project.join("settings.json")).unwrap();
        assert_eq!(place.report().again, again("settings.json", all, SecondCommands::Same));
        assert!(place.report().is_healthy());
        // One event with another shim.
        let ours = r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/old/recall-shim claude-code"}]}]}}"#;
        fs::write(project.join("settings.json"), "{ broken").unwrap();
        fs::write(project.join("settings.local.json"), ours).unwrap();
        assert_eq!(place.report().again, again("settings.local.json", 1, SecondCommands::Different));
        assert!(!place.report().is_healthy());
        // Foreign hooks and a link to the same file register nothing twice.
        fs::write(project.join("settings.local.json"), ours.replace("recall-shim", "other")).unwrap();
        fs::remove_file(project.join("settings.json")).unwrap();
        std::os::unix::fs::symlink(&user, project.join("settings.json")).unwrap();
        assert_eq!(place.report().again, []);
    }

    #[test]
    fn off_switches_plugins_and_broken_files_are_reported() {
        let place = TestHome::new();
        place.install(&place.shim(), |text| text.replacen('{', "{\"disableAllHooks\": true,", 1));
        assert!(matches!(place.report().state, SettingsState::Read { switch: HookSwitch::Off(_), .. }));
        assert!(!place.report().is_healthy());
        let plugin = "{\"enabledPlugins\": {\"recall@x\": true},";
        place.install(&place.shim(), |text| text.replacen('{', plugin, 1));
        assert!(!place.report().is_healthy());
        place.write(include_str!("../../../tests/settings/6-broken.json"));
        let why = "line 2, column 3: key must be a string";
        assert_eq!(place.report().state, SettingsState::Unreadable(why.into()));
    }
}
