//! Facts about agents that the hook client needs: the empty answer, each event's wait time, and where the payload and
//! the environment name the event, the prompt and the folders.
//!
//! Everything else about agents lives in the daemon, so an agent's update rarely needs a new hook client. The hook
//! client also uses these facts when no daemon is reachable. A test of the daemon compares this table with its agents.

use crate::json_field;

/// What the hook client knows about one agent.
#[derive(Debug, PartialEq, Eq)]
pub struct AgentRow {
    pub name: &'static str,
    /// Output that means "nothing to say": no bytes, or an object for agents that treat empty stdout as an error.
    pub silence: &'static str,
    /// Events with a different empty answer, because they must explicitly allow the action.
    pub silence_at: &'static [(&'static str, &'static str)],
    /// Events whose wait time does not follow from their name.
    pub waits: &'static [(&'static str, Wait)],
    /// The payload field that holds the event's name.
    pub event_field: &'static str,
    /// The payload field that holds the prompt.
    pub prompt_field: &'static str,
    /// Environment variables that hold the project's folder, in order of preference.
    pub project_dir: &'static [&'static str],
    /// The environment variable that names the agent's own folder if the user moved it.
    pub config_dir: Option<&'static str>,
    /// An environment variable that only this agent sets, and only for hooks. It identifies an agent that runs another
    /// agent's hooks under that agent's name.
    pub marker: Option<&'static str>,
    /// The agents whose hooks this agent also runs. Requires a `marker`.
    pub runs_hooks_of: &'static [&'static str],
}

/// How long the hook client waits for the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A session starts. If no daemon listens, the client also waits for it to start.
    Start,
    /// The client waits for the answer.
    Answer,
    /// The client waits only for the acknowledgement and prints an answer that is ready by then. Notes about an opened
    /// file that miss this call are injected with a later one.
    Report,
}

/// The agent assumed if the command line names none: its older versions run the hook program without arguments.
pub const DEFAULT: &str = "claude-code";

const CLAUDE_PROJECT_DIR: &str = "CLAUDE_PROJECT_DIR";
const NOTHING: &str = "";
const OBJECT: &str = "{}";
const ASK: &str = r#"{"decision":"ask"}"#;
/// The agent that refuses a call when a hook prints nothing.
const FAILS_CLOSED: &str = "antigravity";

const fn row(name: &'static str, silence: &'static str, project_dir: &'static [&'static str]) -> AgentRow {
    AgentRow {
        name,
        silence,
        silence_at: &[],
        waits: &[],
        event_field: "hook_event_name",
        prompt_field: "prompt",
        project_dir,
        config_dir: None,
        marker: None,
        runs_hooks_of: &[DEFAULT],
    }
}

/// Agents that differ from the default: empty output, and the folder in `CLAUDE_PROJECT_DIR` (which many agents set for
/// compatibility).
pub const ROWS: [AgentRow; 24] = [
    AgentRow { config_dir: Some("CLAUDE_CONFIG_DIR"), ..row(DEFAULT, NOTHING, &[CLAUDE_PROJECT_DIR]) },
    AgentRow {
        // This agent ignores output at session starts and prompts.
        waits: &[("SessionStart", Wait::Report), ("UserPromptSubmit", Wait::Report)],
        config_dir: Some("GROK_HOME"),
        marker: Some("GROK_HOOK_EVENT"),
        runs_hooks_of: &[DEFAULT, "cursor"],
        ..row("grok", NOTHING, &["GROK_WORKSPACE_ROOT", CLAUDE_PROJECT_DIR])
    },
    AgentRow {
        config_dir: Some("CODEX_HOME"),
        waits: &[("Interrupt", Wait::Report)],
        ..row("codex", NOTHING, &[])
    },
    AgentRow {
        config_dir: Some("COPILOT_HOME"),
        marker: Some("COPILOT_HOOK_DIR"),
        ..row("copilot-cli", NOTHING, &["COPILOT_PROJECT_DIR", CLAUDE_PROJECT_DIR])
    },
    row("vscode-copilot", NOTHING, &[CLAUDE_PROJECT_DIR]),
    AgentRow {
        // This agent does not read the hook's output.
        waits: &[
            ("pre_user_prompt", Wait::Report),
            ("post_cascade_response", Wait::Report),
            ("post_write_code", Wait::Report),
            ("post_run_command", Wait::Report),
            ("post_read_code", Wait::Report),
        ],
        event_field: "agent_action_name",
        prompt_field: "user_prompt",
        ..row("windsurf", NOTHING, &[])
    },
    AgentRow {
        waits: &[("AfterAgent", Wait::Report)],
        ..row("gemini-cli", OBJECT, &["GEMINI_PROJECT_DIR", CLAUDE_PROJECT_DIR])
    },
    row("qwen-code", NOTHING, &["QWEN_PROJECT_DIR", CLAUDE_PROJECT_DIR]),
    AgentRow { config_dir: Some("OPENCODE_CONFIG_DIR"), ..row("opencode", OBJECT, &[]) },
    AgentRow {
        waits: &[
            ("MessageReceived", Wait::Report),
            ("SessionSuspend", Wait::Report),
            ("SessionResume", Wait::Report),
        ],
        ..row("openclaw", OBJECT, &[])
    },
    AgentRow {
        waits: &[
            ("afterFileEdit", Wait::Report),
            ("afterAgentResponse", Wait::Report),
            ("subagentStart", Wait::Report),
        ],
        marker: Some("CURSOR_VERSION"),
        silence_at: &[("beforeSubmitPrompt", r#"{"continue":true}"#)],
        ..row("cursor", OBJECT, &["CURSOR_PROJECT_DIR", CLAUDE_PROJECT_DIR])
    },
    AgentRow {
        waits: &[
            ("TaskStart", Wait::Start),
            ("TaskResume", Wait::Start),
            ("TaskComplete", Wait::Report),
            ("TaskError", Wait::Report),
            ("SessionShutdown", Wait::Report),
        ],
        ..row("cline", r#"{"cancel":false}"#, &[])
    },
    AgentRow {
        waits: &[("agentSpawn", Wait::Start)],
        config_dir: Some("KIRO_HOME"),
        ..row("kiro", NOTHING, &[])
    },
    row("droid", OBJECT, &["FACTORY_PROJECT_DIR", CLAUDE_PROJECT_DIR]),
    AgentRow {
        marker: Some("DEVIN_PROJECT_DIR"),
        ..row("devin", OBJECT, &["DEVIN_PROJECT_DIR", CLAUDE_PROJECT_DIR])
    },
    AgentRow {
        prompt_field: "user_prompt",
        marker: Some("AUGMENT_HOOK_EVENT"),
        ..row("auggie", OBJECT, &["AUGMENT_PROJECT_DIR"])
    },
    AgentRow {
        // Before a call, this agent treats silence or an empty object as a refusal. `ASK` leaves the call to its own
        // rules.
        silence_at: &[("PreToolUse", ASK)],
        waits: &[("PreInvocation", Wait::Start), ("PostInvocation", Wait::Report)],
        ..row(FAILS_CLOSED, OBJECT, &[])
    },
    // Before a call and at a turn's end, this agent treats any output as a malformed decision.
    AgentRow {
        waits: &[("SessionStart", Wait::Report), ("UserPromptSubmit", Wait::Report)],
        prompt_field: "message",
        ..row("goose", NOTHING, &[])
    },
    // This agent passes everything printed at a prompt to the model.
    AgentRow {
        config_dir: Some("KIMI_CODE_HOME"),
        waits: &[("Interrupt", Wait::Report)],
        ..row("kimi-code", NOTHING, &[])
    },
    AgentRow { config_dir: Some("KILO_CONFIG_DIR"), ..row("kilo", OBJECT, &[]) },
    row("amp", OBJECT, &[]),
    row("command-code", NOTHING, &["COMMANDCODE_PROJECT_DIR"]),
    row("pi", OBJECT, &[]),
    row("trae", NOTHING, &["TRAE_PROJECT_DIR", CLAUDE_PROJECT_DIR]),
];

const UNKNOWN: AgentRow = row("", NOTHING, &[CLAUDE_PROJECT_DIR]);

impl AgentRow {
    /// Returns the agent's row, or the default row if the agent is unknown.
    pub fn of(name: &str) -> &'static Self {
        ROWS.iter().find(|row| row.name == name).unwrap_or(&UNKNOWN)
    }

    /// Returns the empty answer to `event`.
    pub fn silence(&self, event: &str) -> &'static str {
        let differs = self.silence_at.iter().find(|(name, _)| *name == event);
        differs.map_or(self.silence, |(_, silence)| silence)
    }

    /// Returns the empty answer to an event of an agent without a row. [`FAILS_CLOSED`] refuses a call when the hook
    /// before it is silent, even if the hook runs under another agent's name. Its payloads rarely name their event,
    /// but their fields for the call are unique to it.
    pub fn silence_to_unknown(event: &str, payload: &[u8]) -> &'static str {
        let names = |name: &str| json_field::field(payload, name).is_some();
        if memchr::memmem::find(payload, br#""toolCall""#).is_none() || !names("conversationId") {
            return UNKNOWN.silence(event);
        }
        // Only a finished call can have an error.
        let event = if event.is_empty() && !names("error") { "PreToolUse" } else { event };
        Self::of(FAILS_CLOSED).silence(event)
    }

    /// Whether the table has no agent of this name.
    pub fn is_unknown(&self) -> bool {
        self.name.is_empty()
    }

    pub fn wait(&self, event: &str) -> Wait {
        let listed = self.waits.iter().find(|(name, _)| *name == event);
        listed.map_or_else(|| wait_by_spelling(event), |(_, wait)| *wait)
    }
}

/// Derives the wait time from the event's name in any agent's spelling. An unknown name may be a prompt.
fn wait_by_spelling(event: &str) -> Wait {
    let letters = event.chars().filter(char::is_ascii_alphanumeric);
    let letters: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    let reports = ["tool", "stop", "compact", "delete", "permission", "notification"];
    match letters.as_str() {
        "sessionstart" => Wait::Start,
        name if name.ends_with("end") || reports.iter().any(|word| name.contains(word)) => Wait::Report,
        _ => Wait::Answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_empty_answer_is_one_json_object_or_no_text() {
        for row in &ROWS {
            for event in ["", "SessionStart", "beforeSubmitPrompt"] {
                let text = row.silence(event);
                let object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text);
                assert!(text.is_empty() || object.is_ok(), "{}", row.name);
            }
        }
    }

    #[test]
    fn agents_that_need_an_answer_get_one() {
        let silence = |agent: &str, event: &str| AgentRow::of(agent).silence(event);
        assert_eq!(silence("gemini-cli", "AfterTool"), "{}");
        assert_eq!(silence("opencode", "Stop"), "{}");
        assert_eq!(silence("cursor", "stop"), "{}");
        assert_eq!(silence("cursor", "beforeSubmitPrompt"), r#"{"continue":true}"#);
        assert_eq!(silence("claude-code", "SessionStart"), "");
        assert_eq!(silence("from-the-future", "x"), "");
        assert_eq!(silence("antigravity", "PostToolUse"), "{}");
        assert_eq!(silence("antigravity", "PreToolUse"), r#"{"decision":"ask"}"#);
    }

    #[test]
    fn the_empty_answer_to_an_unknown_agent_refuses_no_call() {
        let silence = |event: &str, payload: &str| AgentRow::silence_to_unknown(event, payload.as_bytes());
        let before = r#"{"conversationId":"c","stepIdx":1,"toolCall":{"name":"view_file","args":{}}}"#;
        let after = r#"{"conversationId":"c","stepIdx":1,"toolCall":null,"error":""}"#;
        assert_eq!(silence("PreToolUse", before), r#"{"decision":"ask"}"#);
        assert_eq!(silence("", before), r#"{"decision":"ask"}"#);
        assert_eq!(silence("", after), "{}");
        assert_eq!(silence("PostToolUse", after), "{}");
        assert_eq!(silence("PreToolUse", r#"{"session_id":"s","tool_name":"Read"}"#), "");
        assert_eq!(silence("PreToolUse", r#"{"session_id":"s","prompt":"a "toolCall""}"#), "");
    }

    #[test]
    fn an_events_name_in_any_spelling_determines_its_wait_time() {
        #[track_caller]
        fn check(events: &[&str], wait: Wait) {
            for event in events {
                assert_eq!(UNKNOWN.wait(event), wait, "{event}");
            }
        }
        check(&["SessionStart", "sessionStart", "session_start", "session-start"], Wait::Start);
        check(
            &["PreToolUse", "post_tool_use", "PostToolUseFailure", "Stop", "SubagentStop", "SessionEnd"],
            Wait::Report,
        );
        check(&["PreCompact", "Notification", "PermissionRequest", "afterTool"], Wait::Report);
        check(&["SubagentStart", "UserPromptSubmit", "beforeSubmitPrompt", "BeforeAgent"], Wait::Answer);
        check(&["", "SessionStarted", "Session"], Wait::Answer);
    }

    #[test]
    fn an_agents_row_determines_the_wait_time_of_a_listed_event() {
        let row = AgentRow { waits: &[("after_turn", Wait::Report)], ..row("x", NOTHING, &[]) };
        assert_eq!((row.wait("after_turn"), row.wait("before_turn")), (Wait::Report, Wait::Answer));
    }
}
