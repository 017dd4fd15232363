//! The agent that ran the shim, and the variables with its folders.

use recall_protocol::agents::{AgentRow, DEFAULT};
use recall_protocol::paths::lossy;

/// The agent that ran the shim.
pub(crate) struct Agent {
    name: String,
    row: &'static AgentRow,
}

impl Agent {
    /// The agent of that name, known or not.
    pub(crate) fn named(name: Option<String>) -> Self {
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| DEFAULT.to_owned());
        let row = AgentRow::of(&name);
        Self { name, row }
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
}
