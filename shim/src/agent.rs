//! What the shim itself must know of an agent: how to say nothing to it, and where it tells its folders.
//!
//! Everything else about agents is the daemon's, so that an agent's update never needs a new shim. Silence is here
//! because it is also the answer when no daemon can be asked.

/// One agent's row.
struct Spec {
    name: &'static str,
    silence: Silence,
    /// The variable with the project's folder; the first is asked first.
    project_dir: &'static [&'static str],
    /// The variable with the agent's own folder, where the user moved it.
    config_dir: Option<&'static str>,
}

/// What an agent takes for "nothing to say".
#[derive(Clone, Copy)]
enum Silence {
    /// No bytes at all.
    Nothing,
    /// An empty JSON object; empty stdout would be an error, or stderr would be read in its place.
    EmptyObject,
    /// An object that must say that the action goes on.
    Cursor,
    Cline,
}

const CLAUDE_PROJECT_DIR: &str = "CLAUDE_PROJECT_DIR";

const fn spec(name: &'static str, silence: Silence, project_dir: &'static [&'static str]) -> Spec {
    Spec { name, silence, project_dir, config_dir: None }
}

/// Agents that differ from the default, which is silence by no bytes and the folder in `CLAUDE_PROJECT_DIR` (many
/// agents set that one for compatibility).
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
    /// The agent of that name, known or not; `claude-code` without a name.
    pub(crate) fn named(name: Option<String>) -> Self {
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "claude-code".to_owned());
        let spec = SPECS.iter().find(|spec| spec.name == name).unwrap_or(&UNKNOWN);
        Self { name, spec }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether this agent's silence depends on the event, so that its name must be known.
    pub(crate) fn silence_depends_on_event(&self) -> bool {
        matches!(self.spec.silence, Silence::Cursor)
    }

    /// What to print at `event` when there is nothing to say.
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
