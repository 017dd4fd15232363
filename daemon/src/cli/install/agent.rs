//! An agent on this machine: its program, its settings and its hooks.

use std::path::PathBuf;

use super::hook_entry::Hook;
use super::version;
use crate::agents::AgentSpec;
use crate::agents::settings::{AgentVersion, HookCall, Install, JsonHooks};
use crate::service::environment::{Environment, is_executable};

/// An agent and where to look for it.
#[derive(Clone, Copy, Debug)]
pub struct LocalAgent<'a> {
    pub spec: &'static AgentSpec,
    pub environment: &'a Environment,
}

impl LocalAgent<'_> {
    /// The agent's folder. If it exists, the agent is in use.
    fn folder(&self) -> PathBuf {
        let host = &self.spec.host;
        let moved = host.folder_variable.and_then(|variable| self.environment.folder(variable));
        moved.unwrap_or_else(|| self.environment.home().join(host.folder))
    }

    /// The settings file of the user.
    pub fn settings(&self) -> PathBuf {
        match &self.spec.install {
            Install::JsonHooks(json) => self.folder().join(json.file),
        }
    }

    pub fn program(&self) -> Option<PathBuf> {
        let host = &self.spec.host;
        let others = host.other_places.iter().map(|place| self.environment.home().join(place));
        let program = self.environment.program(host.program);
        program.or_else(|| others.into_iter().find(|place| is_executable(place)))
    }

    /// True when the agent seems to be in use here.
    pub fn is_present(&self) -> bool {
        self.folder().is_dir() || self.program().is_some()
    }

    /// Asks the program for its version within a few seconds. `None` if it is not found or does not answer.
    pub fn version(&self) -> Option<AgentVersion> {
        version::ask(&self.program()?, version::DEADLINE)
    }
}

/// The hooks to register with an agent.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    /// `None` if the version is unknown.
    pub(crate) version: Option<AgentVersion>,
    /// The path of the hook client.
    pub(crate) shim: String,
}

impl Registration {
    /// The hooks that this version supports.
    pub(crate) fn hooks(&self, spec: &'static AgentSpec, json: &JsonHooks) -> Vec<Hook> {
        let version = self.version.unwrap_or(spec.host.assumed_version);
        let hook = |event| {
            let call = HookCall { event, version, shim: &self.shim };
            Hook { event: event.name, entry: (json.entry)(&call) }
        };
        spec.events_of(self.version).map(hook).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::agents::AGENTS;

    #[test]
    fn its_folder_may_be_elsewhere() {
        let spec = AGENTS.spec("claude-code");
        let home = Environment::new("/home/dev".into(), []);
        let settings = LocalAgent { spec, environment: &home }.settings();
        assert_eq!(settings, Path::new("/home/dev/.claude/settings.json"));
        let moved =
            Environment::new("/home/dev".into(), [("CLAUDE_CONFIG_DIR".into(), "/data/claude".into())]);
        let settings = LocalAgent { spec, environment: &moved }.settings();
        assert_eq!(settings, Path::new("/data/claude/settings.json"));
    }
}
