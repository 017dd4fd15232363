//! How compression work is done: which backends, with what, and within which bounds. Read from `[compression]`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::EXTRACTIVE;
use super::model::ModelCompressor;
use crate::memory::budget::{Caps, Prices};

/// How compression work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionPolicy {
    /// In the order in which they are asked; none: the built-in compressor does all. It also stands in whenever they
    /// have no result, whether it is listed or not.
    pub backends: Vec<Backend>,
    /// For one call; a job of the built-in compressor.
    pub timeout_s: u64,
    /// Jobs at the same time, those that need no model although there are some aside.
    pub concurrency: usize,
    pub max_attempts: u32,
    /// Tokens of material in one call, estimated.
    pub material_tokens: u32,
    pub caps: Caps,
    /// Whom calls go through; the environment's proxy is never taken.
    pub proxy: Option<String>,
}

impl CompressionPolicy {
    /// For one job: each backend may be asked more than once, and then the next.
    pub fn job_within(&self) -> Duration {
        let call = Duration::from_secs(self.timeout_s);
        match u32::try_from(self.backends.len()) {
            Ok(0) => call,
            backends => ModelCompressor::longest_job(call).saturating_mul(backends.unwrap_or(u32::MAX)),
        }
    }
}

/// A model and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    pub kind: BackendKind,
    pub model: String,
    /// Without a slash at its end. Unused by [`BackendKind::ClaudeCli`].
    pub base_url: String,
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
}

impl BackendKind {
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Anthropic, "anthropic"), (Self::OpenAi, "openai"), (Self::ClaudeCli, "claude-cli")];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or(EXTRACTIVE, |(_, name)| name)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    /// What is asked unless the user names another; `None`: there is no sensible one.
    pub fn default_model(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("claude-haiku-4-5"),
            Self::OpenAi => None,
            Self::ClaudeCli => Some("haiku"),
        }
    }

    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi => "https://api.openai.com/v1",
            Self::ClaudeCli => "",
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a key is found when it is needed. Never the key itself: a policy may be logged.
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
