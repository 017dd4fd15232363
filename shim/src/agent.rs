//! What the shim itself must know of an agent: its empty answer, and the variables with its folders.
//!
//! Everything else about agents is in the daemon, so that an agent's update never needs a new shim. The empty answer
//! is here because it is also needed when no daemon can be reached.

/// The row of one agent.
struct Spec {
    name: &'static str,
    silence: Silence,
    /// The variables with the project's folder, in order of preference.
    project_dir: &'static [&'static str],
    /// The variable with the agent's own folder, if the user moved it.
    config_dir: Option<&'static str>,
}

/// The output that means "nothing to say".
#[derive(Clone, Copy)]
enum Silence {
    /// No bytes at all.
    Nothing,
    /// An empty JSON object. With empty stdout the agent would report an error or read stderr instead.
    EmptyObject,
    /// An object that must allow the action explicitly.
    Cursor,
    Cline,
}

const CLAUDE_PROJECT_DIR: &str = "CLAUDE_PROJECT_DIR";

const fn spec(name: &'static str, silence: Silence, project_dir: &'static [&'static str]) -> Spec {
    Spec { name, silence, project_dir, config_dir: None }
}

/// Agents that differ from the default, which is empty output and the folder in `CLAUDE_PROJECT_DIR` (many agents set
/// it for compatibility).
const SPECS: [Spec; 18] = [
    Spec {
        config_dir: Some("CLAUDE_CONFIG_DIR"),
        ..spec("claude-code", Silence::Nothing, &[CLAUDE_PROJECT_DIR])
    },
    Spec { config_dir: Some("CODEX_HOME"), ..spec("codex", Silence::Nothing, &[]) },
    Spec {
        config_dir: Some("COPILOT_HOME"),
        ..spec("copilot-cli", Silence::Nothing, &["COPILOT_PROJECT_DIR", CLAUDE_PROJECT_DIR])
    },
    spec("vscode-copilot", Silence::Nothing, &[CLAUDE_PROJECT_DIR]),
    spec("windsurf", Silence::Nothing, &[]),
    spec("gemini-cli", Silence::EmptyObject, &["GEMINI_PROJECT_DIR", CLAUDE_PROJECT_DIR]),
    spec("qwen-code", Silence::Nothing, &["QWEN_PROJECT_DIR", CLAUDE_PROJECT_DIR]),
    Spec { config_dir: Some("OPENCODE_CONFIG_DIR"), ..spec("opencode", Silence::EmptyObject, &[]) },
    spec("openclaw", Silence::EmptyObject, &[]),
    spec("cursor", Silence::Cursor, &["CURSOR_PROJECT_DIR", CLAUDE_PROJECT_DIR]),
    spec("cline", Silence::Cline, &[]),
    Spec { config_dir: Some("KIRO_HOME"), ..spec("kiro", Silence::Nothing, &[]) },
    spec("droid", Silence::EmptyObject, &["FACTORY_PROJECT_DIR", CLAUDE_PROJECT_DIR]),
    spec("devin", Silence::EmptyObject, &["DEVIN_PROJECT_DIR", CLAUDE_PROJECT_DIR]),
    spec("auggie", Silence::EmptyObject, &["AUGMENT_PROJECT_DIR"]),
    spec("goose", Silence::EmptyObject, &[]),
    spec("pi", Silence::EmptyObject, &[]),
    spec("trae", Silence::Nothing, &["TRAE_PROJECT_DIR", CLAUDE_PROJECT_DIR]),
];

const UNKNOWN: Spec = spec("", Silence::Nothing, &[CLAUDE_PROJECT_DIR]);

/// The agent that ran the shim.
pub(crate) struct Agent {
    name: String,
    spec: &'static Spec,
}

impl Agent {
    /// The agent of that name, known or not. Without a name it is `claude-code`.
    pub(crate) fn named(name: Option<String>) -> Self {
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "claude-code".to_owned());
        let spec = SPECS.iter().find(|spec| spec.name == name).unwrap_or(&UNKNOWN);
        Self { name, spec }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the empty answer depends on the event, so that its name must be known.
    pub(crate) fn silence_depends_on_event(&self) -> bool {
        matches!(self.spec.silence, Silence::Cursor)
    }

    /// The empty answer to `event`.
    pub(crate) fn silence(&self, event: &str) -> &'static str {
        match self.spec.silence {
            Silence::Nothing => "",
            Silence::EmptyObject => "{}",
            Silence::Cursor if event == "beforeSubmitPrompt" => r#"{"continue":true}"#,
            Silence::Cursor => "{}",
            Silence::Cline => r#"{"cancel":false}"#,
        }
    }

    pub(crate) fn project_dir(&self) -> Option<String> {
        self.spec.project_dir.iter().find_map(|name| variable(name))
    }

    pub(crate) fn config_dir(&self) -> Option<String> {
        self.spec.config_dir.and_then(variable)
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(|value| recall_protocol::paths::lossy(value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silence(agent: &str, event: &str) -> &'static str {
        Agent::named(Some(agent.to_owned())).silence(event)
    }

    #[test]
    fn every_silence_is_one_json_object_or_nothing() {
        for spec in &SPECS {
            for event in ["", "SessionStart", "beforeSubmitPrompt"] {
                let text = silence(spec.name, event);
                let object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text);
                assert!(text.is_empty() || object.is_ok(), "{}", spec.name);
            }
        }
    }

    #[test]
    fn agents_that_need_an_answer_get_one() {
        assert_eq!(silence("gemini-cli", "AfterTool"), "{}");
        assert_eq!(silence("opencode", "Stop"), "{}");
        assert_eq!(silence("cursor", "stop"), "{}");
        assert_eq!(silence("cursor", "beforeSubmitPrompt"), r#"{"continue":true}"#);
        assert_eq!(silence("claude-code", "SessionStart"), "");
        assert_eq!(silence("from-the-future", "x"), "");
    }

    #[test]
    fn no_name_means_claude_code() {
        assert_eq!(Agent::named(None).name(), "claude-code");
        assert_eq!(Agent::named(Some(String::new())).name(), "claude-code");
        assert_eq!(Agent::named(Some("x".to_owned())).name(), "x");
    }
}
