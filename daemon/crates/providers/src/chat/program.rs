//! Other agents' programs as models, and any command of the user. The text is written to standard input, and the
//! answer is read from standard output.
//!
//! Each runs like `claude`: in an empty folder and its own process group, with `RECALL_DISABLE` to disable recall's
//! own hooks, and, if the program allows it, without tools, hooks and the user's instructions. The text is never
//! passed as an argument, because every user of the machine can read arguments. If a program cannot be kept from
//! recording the call, its records are removed afterwards: only those that name the empty folder, which no other
//! process has used.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::claude_cli::{Ended, finish};
use super::{ChatProvider, ChatReply, ChatRequest};
use crate::{Backend, BackendKind, Paid, ProviderError, Tokens, barred};
use recall_domain::ids::Timestamp;
use recall_system::process_group::ProcessGroup;

pub(super) struct Program {
    dialect: Dialect,
    model: String,
    /// The user's command, for [`Dialect::Command`].
    command: Vec<String>,
    within: Duration,
}

/// The known programs, or a command of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Codex,
    Gemini,
    Qwen,
    Copilot,
    OpenCode,
    Command,
}

/// The prompt for programs that require one in addition to their input.
const SEE_INPUT: &str = "Do what the text above asks for, and answer with nothing else.";

impl Program {
    pub(super) fn new(backend: &Backend, within: Duration) -> Self {
        let dialect = match backend.kind {
            BackendKind::CodexCli => Dialect::Codex,
            BackendKind::GeminiCli => Dialect::Gemini,
            BackendKind::QwenCli => Dialect::Qwen,
            BackendKind::CopilotCli => Dialect::Copilot,
            BackendKind::OpenCodeCli => Dialect::OpenCode,
            // The others have their own files.
            BackendKind::Command | BackendKind::ClaudeCli | BackendKind::Anthropic | BackendKind::OpenAi => {
                Dialect::Command
            }
        };
        Self { dialect, model: backend.model.clone(), command: backend.command.clone(), within }
    }

    fn name(&self) -> &str {
        match self.dialect {
            Dialect::Codex => "codex",
            Dialect::Gemini => "gemini",
            Dialect::Qwen => "qwen",
            Dialect::Copilot => "copilot",
            Dialect::OpenCode => "opencode",
            Dialect::Command => self.command.first().map_or("command", String::as_str),
        }
    }

    fn arguments(&self) -> Vec<&str> {
        let model = self.model.as_str();
        match self.dialect {
            Dialect::Codex => vec![
                "exec",
                "--json",
                "--ephemeral",
                "--ignore-user-config",
                "--ignore-rules",
                "--skip-git-repo-check",
                "--sandbox",
                "read-only",
                "--model",
                model,
                "-",
            ],
            Dialect::Gemini => vec!["--output-format", "json", "--model", model, "--prompt", SEE_INPUT],
            Dialect::Qwen => {
                vec!["--bare", "--output-format", "json", "--model", model, "--prompt", SEE_INPUT]
            }
            Dialect::Copilot => vec![
                "--silent",
                "--no-ask-user",
                "--no-custom-instructions",
                "--disable-builtin-mcps",
                "--no-auto-update",
                "--log-level",
                "none",
                "--available-tools",
                "none",
                "--model",
                model,
            ],
            Dialect::OpenCode => {
                vec!["run", "--pure", "--format", "json", "--agent", OPENCODE_AGENT, "--model", model]
            }
            Dialect::Command => self.command.iter().skip(1).map(String::as_str).collect(),
        }
    }

    /// Returns the settings that can only be given as variables. Writes a settings file into `folder` if needed.
    fn settings(&self, folder: &Path) -> std::io::Result<Vec<(&'static str, String)>> {
        Ok(match self.dialect {
            Dialect::Gemini => {
                let file = folder.join("settings.json");
                let settings = json!({"hooksConfig": {"enabled": false}, "tools": {"core": ["none"]},
                    "mcp": {"allowed": ["none"]}});
                std::fs::write(&file, settings.to_string())?;
                vec![("GEMINI_CLI_SYSTEM_SETTINGS_PATH", file.to_string_lossy().into_owned())]
            }
            Dialect::OpenCode => {
                let agent = json!({"agent": {OPENCODE_AGENT: {"mode": "primary", "permission": {"*": "deny"}}},
                    "share": "disabled", "mcp": {}});
                vec![
                    ("OPENCODE_CONFIG_CONTENT", agent.to_string()),
                    ("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()),
                ]
            }
            _ => Vec::new(),
        })
    }

    fn is_passed_on(&self, name: &str) -> bool {
        const NEEDED: [&str; 6] = ["HOME", "PATH", "USER", "LANG", "TERM", "TMPDIR"];
        // The variables with which a program logs in, and the location of its login.
        let logins: &[&str] = match self.dialect {
            Dialect::Codex => &["CODEX_HOME", "CODEX_API_KEY", "OPENAI_"],
            Dialect::Gemini => &["GEMINI_API_KEY", "GEMINI_CLI_HOME", "GOOGLE_"],
            Dialect::Qwen => &["QWEN_", "OPENAI_", "DASHSCOPE_API_KEY"],
            Dialect::Copilot => &["COPILOT_HOME", "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"],
            Dialect::OpenCode => {
                &["OPENCODE_API_KEY", "OPENCODE_CONFIG", "ANTHROPIC_", "OPENAI_", "GEMINI_API_KEY"]
            }
            // The user's own command gets everything that it may need.
            Dialect::Command => return name != "CLAUDECODE",
        };
        NEEDED.contains(&name) || ["LC_", "XDG_"].iter().chain(logins).any(|begin| name.starts_with(begin))
    }

    fn program(&self, folder: &Path) -> std::io::Result<Command> {
        let mut command = Command::new(self.name());
        command
            .args(self.arguments())
            .env_clear()
            .envs(
                std::env::vars_os()
                    .filter(|(name, _)| name.to_str().is_some_and(|name| self.is_passed_on(name))),
            )
            .envs(self.settings(folder)?)
            .env("RECALL_DISABLE", "1")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        Ok(command)
    }

    fn read(&self, output: &[u8]) -> Result<ChatReply, ProviderError> {
        let text = String::from_utf8_lossy(output);
        let reply = match self.dialect {
            Dialect::Codex => codex(&text),
            Dialect::Gemini => gemini(&text),
            Dialect::Qwen => qwen(&text),
            Dialect::OpenCode => opencode(&text),
            Dialect::Copilot | Dialect::Command => {
                Some(ChatReply { text: text.trim().to_owned(), tokens: None, micro_usd: None })
            }
        };
        reply.filter(|reply| !reply.text.is_empty()).ok_or_else(|| ProviderError::Unreadable {
            why: format!("`{}` ended without a readable answer", self.name()),
        })
    }

    /// Removes the program's records of the call: those that contain the path of its folder.
    fn forget(&self, folder: &Path) {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let copilot = std::env::var_os("COPILOT_HOME").map_or_else(|| home.join(".copilot"), PathBuf::from);
        let (records, label) = match self.dialect {
            Dialect::Gemini => (home.join(".gemini/tmp"), ".project_root"),
            Dialect::Copilot => (copilot.join("session-state"), "workspace.yaml"),
            // Qwen names its folders after the working folder.
            Dialect::Qwen => (home.join(".qwen/projects"), ""),
            Dialect::Codex | Dialect::OpenCode | Dialect::Command => return,
        };
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { return };
        for entry in std::fs::read_dir(records).into_iter().flatten().flatten() {
            let is_ours = match label {
                "" => entry.file_name().to_str().is_some_and(|recorded| recorded.ends_with(name)),
                label => {
                    std::fs::read_to_string(entry.path().join(label)).is_ok_and(|text| text.contains(name))
                }
            };
            if is_ours && let Err(error) = std::fs::remove_dir_all(entry.path()) {
                tracing::warn!(program = self.name(), %error, "cannot remove a program's records of a call");
            }
        }
    }
}

/// The agent without tools, which is defined for one run only.
const OPENCODE_AGENT: &str = "recall-notes";

impl ChatProvider for Program {
    fn ask(&self, request: &ChatRequest, _now: Timestamp) -> Result<ChatReply, ProviderError> {
        let name = self.name();
        let trouble = |why: String| ProviderError::Trouble { why, wait_ms: None, paid: Paid::Perhaps };
        let folder = tempfile::Builder::new().prefix("recall-notes-").tempdir();
        let folder =
            folder.map_err(|error| trouble(format!("cannot create a folder for `{name}`: {error}")))?;
        let mut command = self
            .program(folder.path())
            .map_err(|error| trouble(format!("cannot write settings for `{name}`: {error}")))?;
        let group = ProcessGroup::spawn_guarded(&mut command).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => barred(format!("there is no `{name}` in the daemon's PATH")),
            _ => trouble(format!("cannot start `{name}`: {error}")),
        })?;
        let input = format!("{}\n\n{}\n", request.system, request.user);
        let ended = finish(group, name, input, self.within);
        self.forget(folder.path());
        let Ended { status, output } = ended?;
        if !status.success() {
            let code =
                status.code().map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
            return Err(trouble(format!("`{name}` failed with {code}")));
        }
        self.read(&output)
    }
}

fn lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}

fn tokens(usage: &Value, into: &str, out: &str) -> Option<Tokens> {
    Some(Tokens { into: usage.get(into)?.as_u64()?, out: usage.get(out)?.as_u64()? })
}

/// Parses events, one per line: the last message, and the usage of the turn.
fn codex(text: &str) -> Option<ChatReply> {
    let mut reply: Option<ChatReply> = None;
    let mut used = None;
    for event in lines(text) {
        match event["type"].as_str().unwrap_or_default() {
            "item.completed" if event["item"]["type"] == "agent_message" => {
                let text = event["item"]["text"].as_str()?.to_owned();
                reply = Some(ChatReply { text, tokens: None, micro_usd: None });
            }
            "turn.completed" => used = tokens(&event["usage"], "input_tokens", "output_tokens"),
            _ => {}
        }
    }
    reply.map(|reply| ChatReply { tokens: used, ..reply })
}

/// Parses one object with the answer and the tokens of each model.
fn gemini(text: &str) -> Option<ChatReply> {
    let answer: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let models = answer["stats"]["models"].as_object();
    let mut used = Tokens::default();
    for model in models.into_iter().flat_map(|models| models.values()) {
        let of = |name: &str| model["tokens"][name].as_u64().unwrap_or(0);
        used.into += of("prompt");
        used.out += of("candidates") + of("thoughts");
    }
    let tokens = (used != Tokens::default()).then_some(used);
    Some(ChatReply { text: answer["response"].as_str()?.to_owned(), tokens, micro_usd: None })
}

/// Parses a list of messages. The last one is the result.
fn qwen(text: &str) -> Option<ChatReply> {
    let messages: Vec<Value> = serde_json::from_str(text.get(text.find('[')?..)?).ok()?;
    let result = messages.iter().rev().find(|message| message["type"] == "result")?;
    if result["is_error"] != false {
        return None;
    }
    let tokens = tokens(&result["usage"], "input_tokens", "output_tokens");
    Some(ChatReply { text: result["result"].as_str()?.to_owned(), tokens, micro_usd: None })
}

/// Parses events, one per line: parts of the text, and the usage of each step.
fn opencode(text: &str) -> Option<ChatReply> {
    let mut reply = ChatReply { text: String::new(), tokens: None, micro_usd: None };
    let mut used = Tokens::default();
    for event in lines(text) {
        let part = &event["part"];
        match event["type"].as_str().unwrap_or_default() {
            "text" => reply.text.push_str(part["text"].as_str()?),
            "step_finish" => {
                let step = tokens(&part["tokens"], "input", "output").unwrap_or_default();
                used = Tokens { into: used.into + step.into, out: used.out + step.out };
            }
            _ => {}
        }
    }
    reply.tokens = (used != Tokens::default()).then_some(used);
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str, into: u64, out: u64) -> Option<ChatReply> {
        Some(ChatReply { text: text.to_owned(), tokens: Some(Tokens { into, out }), micro_usd: None })
    }

    #[test]
    fn each_programs_answer_is_read() {
        let events = "{\"type\":\"thread.started\"}\nnoise\n\
            {\"type\":\"item.completed\",\"item\":{\"type\":\"reasoning\",\"text\":\"no\"}}\n\
            {\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"{}\"}}\n\
            {\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":30,\"cached_input_tokens\":2,\"output_tokens\":4}}\n";
        assert_eq!(codex(events), reply("{}", 30, 4));
        let object = json!({"response": "{}", "stats": {"models": {"flash": {"tokens":
            {"prompt": 30, "candidates": 3, "thoughts": 1, "total": 34}}}}});
        assert_eq!(gemini(&format!("Loaded.\n{object}")), reply("{}", 30, 4));
        let messages = json!([{"type": "system"}, {"type": "result", "is_error": false, "result": "{}",
            "usage": {"input_tokens": 30, "output_tokens": 4}}]);
        assert_eq!(qwen(&messages.to_string()), reply("{}", 30, 4));
        let events = "{\"type\":\"step_start\",\"part\":{}}\n{\"type\":\"text\",\"part\":{\"text\":\"{}\"}}\n\
            {\"type\":\"step_finish\",\"part\":{\"tokens\":{\"total\":34,\"input\":30,\"output\":4}}}\n";
        assert_eq!(opencode(events), reply("{}", 30, 4));
    }

    #[test]
    fn an_error_of_a_program_is_not_read_as_an_answer() {
        assert_eq!(codex("{\"type\":\"turn.failed\",\"error\":{}}"), None);
        assert_eq!(gemini(r#"{"error": {"message": "no"}}"#), None);
        assert_eq!(qwen(r#"[{"type": "result", "is_error": true, "result": "no"}]"#), None);
        assert_eq!(opencode("{\"type\":\"error\"}").map(|reply| reply.text), Some(String::new()));
    }

    #[test]
    fn secrets_of_other_programs_are_not_passed_on() {
        let program = |dialect| Program {
            dialect,
            model: "m".to_owned(),
            command: Vec::new(),
            within: Duration::from_secs(1),
        };
        let codex = program(Dialect::Codex);
        assert!(codex.is_passed_on("CODEX_HOME") && codex.is_passed_on("HOME"));
        for name in
            ["ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "NODE_OPTIONS", "LD_PRELOAD", "RECALL_HOME"]
        {
            assert!(!codex.is_passed_on(name), "{name}");
        }
        assert!(!program(Dialect::Gemini).is_passed_on("OPENAI_API_KEY"));
    }

    #[test]
    fn program_arguments_name_the_model_and_contain_no_long_text() {
        for dialect in [Dialect::Codex, Dialect::Gemini, Dialect::Qwen, Dialect::Copilot, Dialect::OpenCode] {
            let program = Program {
                dialect,
                model: "cheap".to_owned(),
                command: Vec::new(),
                within: Duration::from_secs(1),
            };
            let arguments = program.arguments();
            assert!(arguments.contains(&"cheap"), "{dialect:?}");
            assert!(arguments.iter().all(|argument| argument.len() < 100), "{arguments:?}");
        }
    }
}
