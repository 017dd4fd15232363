//! The model to call, its address and its key, according to the settings.

use std::fmt;
use std::time::Duration;

use recall_domain::budget::Prices;
use recall_system::secret::KeySource;

/// A model and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    pub kind: BackendKind,
    pub model: String,
    /// Without a trailing slash. Unused if the backend is a program.
    pub base_url: String,
    /// The command with its arguments, for [`BackendKind::Command`].
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

/// The kinds of backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// The Messages API.
    Anthropic,
    /// Chat Completions, from any server.
    OpenAi,
    /// The user's own `claude` program, as a child process.
    ClaudeCli,
    /// Another agent's program.
    CodexCli,
    GeminiCli,
    QwenCli,
    CopilotCli,
    OpenCodeCli,
    /// Any command: the text goes to its standard input, the answer comes from its standard output.
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

    /// Whether the backend is a program on this machine, which sends its input to its own provider.
    pub fn is_program(self) -> bool {
        !matches!(self, Self::Anthropic | Self::OpenAi)
    }

    /// The default model, if the user names none. `None` if there is no sensible default.
    pub fn default_model(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("claude-haiku-4-5"),
            Self::ClaudeCli => Some("haiku"),
            Self::CodexCli => Some("gpt-5.4-mini"),
            Self::GeminiCli => Some("gemini-2.5-flash-lite"),
            // The available models depend on the account.
            Self::OpenAi | Self::QwenCli | Self::CopilotCli | Self::OpenCodeCli => None,
            // The command chooses the model.
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

/// Settings that apply to the calls of every backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSettings {
    /// The maximum duration of one call.
    pub timeout: Duration,
    /// The proxy to use. The proxy variables of the environment are ignored.
    pub proxy: Option<String>,
}
