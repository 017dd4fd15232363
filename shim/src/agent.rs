//! The agent that ran the shim, and the environment variables that name its folders.

use recall_protocol::agents::{AgentRow, DEFAULT, ROWS};
use recall_protocol::paths::lossy;

/// The agent that ran the shim.
pub(crate) struct Agent {
    name: String,
    row: &'static AgentRow,
}

impl Agent {
    /// Returns the agent of that name, known or not.
    pub(crate) fn named(name: Option<String>) -> Self {
        Self::marked(name, |variable| std::env::var_os(variable).is_some())
    }

    /// Identifies the agent. Some agents run other agents' hooks under those agents' names; the marker variable
    /// reveals them.
    fn marked(name: Option<String>, is_set: impl Fn(&str) -> bool) -> Self {
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| DEFAULT.to_owned());
        let runs_it = |row: &&AgentRow| {
            // Few rows have a marker, and the variable lookup is the slowest step.
            row.marker.is_some_and(|marker| row.runs_hooks_of.contains(&name.as_str()) && is_set(marker))
        };
        let other = ROWS.iter().find(runs_it);
        match other {
            Some(row) => Self { name: row.name.to_owned(), row },
            None => Self { row: AgentRow::of(&name), name },
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn row(&self) -> &'static AgentRow {
        self.row
    }

    pub(crate) fn project_dir(&self) -> Option<String> {
        self.row.project_dir.iter().find_map(|name| variable(name))
    }

    pub(crate) fn config_dir(&self) -> Option<String> {
        self.row.config_dir.and_then(variable)
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| lossy(value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_means_the_default_agent() {
        assert_eq!(Agent::named(None).name(), DEFAULT);
        assert_eq!(Agent::named(Some(String::new())).name(), DEFAULT);
        assert_eq!(Agent::named(Some("x".to_owned())).name(), "x");
    }

    #[test]
    fn an_agent_that_runs_anothers_hooks_is_identified_by_its_variable() {
        let named = |name: &str, set: &'static str| {
            Agent::marked(Some(name.to_owned()), |variable| variable == set).name().to_owned()
        };
        assert_eq!(named(DEFAULT, "CURSOR_VERSION"), "cursor");
        assert_eq!(named(DEFAULT, "DEVIN_PROJECT_DIR"), "devin");
        assert_eq!(named(DEFAULT, "HOME"), DEFAULT);
        assert_eq!(named("codex", "CURSOR_VERSION"), "codex");
        assert_eq!(named(DEFAULT, "GROK_HOOK_EVENT"), "grok");
        assert_eq!(named("cursor", "GROK_HOOK_EVENT"), "grok");
        assert_eq!(named("codex", "GROK_HOOK_EVENT"), "codex");
    }
}
