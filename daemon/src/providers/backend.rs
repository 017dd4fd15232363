//! Which model is called, where, and with which key. Read from the settings.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::memory::budget::Prices;

/// A model and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    pub kind: BackendKind,
    pub model: String,
    /// Without a slash at its end. Unused by programs.
    pub base_url: String,
    /// What runs, with its arguments. Of [`BackendKind::Command`].
    pub command: Vec<String>,
    pub key: KeySource,
    pub prices: Prices,
}

impl Backend {
    /// `provider:model`.
    pub fn origin(&self) -> String {
        format!("{}:{}", self.kind, self.model)
    }
}

/// The sorts of models that can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// The Messages API.
    Anthropic,
    /// Chat Completions, wherever they are served.
    OpenAi,
    /// The user's own `claude` program, as a child process.
    ClaudeCli,
    /// The other agents' programs.
    CodexCli,
    GeminiCli,
    QwenCli,
    CopilotCli,
    OpenCodeCli,
    /// Any command: the text goes in at its standard input, the answer comes out at its standard output.
    Command,
}

impl BackendKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::ClaudeCli => "claude-cli",
            Self::CodexCli => "codex-cli",
            Self::GeminiCli => "gemini-cli",
            Self::QwenCli => "qwen-cli",
            Self::CopilotCli => "copilot-cli",
            Self::OpenCodeCli => "opencode-cli",
            Self::Command => "command",
        }
    }

    /// Whether it runs on this machine and sends what it is given to a provider of its own.
    pub fn is_program(self) -> bool {
        !matches!(self, Self::Anthropic | Self::OpenAi)
    }

    /// What is asked unless the user names another; `None`: there is no sensible one.
    pub fn default_model(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("claude-haiku-4-5"),
            Self::ClaudeCli => Some("haiku"),
            Self::CodexCli => Some("gpt-5.4-mini"),
            Self::GeminiCli => Some("gemini-2.5-flash-lite"),
            // Which models there are depends on the account.
            Self::OpenAi | Self::QwenCli | Self::CopilotCli | Self::OpenCodeCli => None,
            // The command chooses.
            Self::Command => Some("own"),
        }
    }

    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi => "https://api.openai.com/v1",
            _ => "",
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a key is found when it is needed. Never the key itself: settings may be logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeySource {
    /// For servers on this machine.
    #[default]
    None,
    /// The daemon's environment: there under a service manager or by hand, not in a daemon that a hook has started.
    Environment(String),
    /// A file that only its owner may read.
    File(PathBuf),
    /// An entry of the system's keyring, by its account name under the service `recall`.
    Keyring(String),
}

/// What holds for the calls to every backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSettings {
    /// The longest that one call may take.
    pub timeout: Duration,
    /// The proxy to use. The environment's proxy is never used.
    pub proxy: Option<String>,
}
