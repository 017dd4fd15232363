//! What installing must know of an agent. A further agent is one more file with one more `SPEC`.

use std::path::PathBuf;

use super::claude_code;
use super::hook_entry::Hook;
use super::version::{self, AgentVersion};
use crate::service::environment::{Environment, is_executable};

/// Every agent that hooks can be installed into.
pub const AGENTS: &[&AgentSpec] = &[&claude_code::SPEC];

/// One agent whose settings hold hooks in the shape that `hook_settings` edits.
#[derive(Debug)]
pub struct AgentSpec {
    /// As on the command line and as the first argument of the shim.
    pub name: &'static str,
    /// As people call it.
    pub title: &'static str,
    /// Its program, asked for the version.
    pub program: &'static str,
    /// Where its own installers put the program, below the home folder, for when it is not on the `PATH`.
    pub other_places: &'static [&'static str],
    /// Its folder; that it exists means that the agent is in use.
    pub folder: fn(&Environment) -> PathBuf,
    /// The settings file of the user, within that folder.
    pub settings: &'static str,
    /// Further settings files that a project may have, relative to its folder. Their hooks are run besides the user's.
    pub project_settings: &'static [&'static str],
    /// The hooks that a version knows, for a shim at this path; `None` stands for a version that did not answer.
    pub hooks: fn(Option<AgentVersion>, &str) -> Vec<Hook>,
}

impl AgentSpec {
    pub fn named(name: &str) -> Option<&'static Self> {
        AGENTS.iter().copied().find(|agent| agent.name == name)
    }

    pub fn settings_path(&self, environment: &Environment) -> PathBuf {
        (self.folder)(environment).join(self.settings)
    }

    pub fn find_program(&self, environment: &Environment) -> Option<PathBuf> {
        let others = self.other_places.iter().map(|place| environment.home().join(place));
        environment.program(self.program).or_else(|| others.into_iter().find(|place| is_executable(place)))
    }

    /// True when the agent seems to be in use here.
    pub fn is_present(&self, environment: &Environment) -> bool {
        (self.folder)(environment).is_dir() || self.find_program(environment).is_some()
    }

    /// Asks the program, for at most a few seconds. `None` when it is not found or does not answer.
    pub fn version(&self, environment: &Environment) -> Option<AgentVersion> {
        version::ask(&self.find_program(environment)?, version::DEADLINE)
    }
}
