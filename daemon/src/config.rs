//! `config.toml`: what was written, what it means, and what is wrong with it.
//!
//! Every key is optional. A file that cannot be understood is an error with its line at the command line, and never
//! stops the daemon from accepting events: it runs on the defaults and says so.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::memory::context::Budgets;
use crate::memory::redaction::{RedactionMode, RedactionPolicy, Redactor};
use crate::memory::session::{CapturePolicy, IdlePolicy};
use crate::project_file::excluded_projects;
use crate::store::Durability;

/// All settings, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub capture: CapturePolicy,
    /// Patterns of projects of which nothing is captured: folders, names, identities.
    pub excluded: Vec<String>,
    pub durability: Durability,
    pub idle: IdlePolicy,
    pub housekeeping_s: u64,
    /// 0: for ever.
    pub retention_days: u32,
    pub budgets: Budgets,
    /// Whether the user sees a line about what the model was given at a session's start.
    pub notice: Notice,
    pub compression: CompressionPolicy,
    pub redaction: RedactionPolicy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    Shown,
    Off,
}

/// How compression work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionPolicy {
    pub timeout_s: u64,
    /// Jobs at the same time.
    pub concurrency: usize,
    pub max_attempts: u32,
}

/// Why the file is not used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}, line {line}: {problem}", path.display())]
    Broken { path: PathBuf, line: usize, problem: String },
    #[error("{}: {}", path.display(), problems.join("; "))]
    Values { path: PathBuf, problems: Vec<String> },
}

impl Config {
    /// Reads the file; a missing one means the defaults.
    ///
    /// # Errors
    /// When it cannot be read or understood, with the line, or holds values out of range, with all of them.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConfigError::Unreadable { path: path.to_owned(), source }),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let written: Written = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
            ConfigError::Broken { path: path.to_owned(), line, problem: error.message().to_owned() }
        })?;
        written.check().map_err(|problems| ConfigError::Values { path: path.to_owned(), problems })
    }
}

impl Default for Config {
    fn default() -> Self {
        Written::default().into_config()
    }
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    capture: WrittenCapture,
    durability: WrittenDurability,
    timers: WrittenTimers,
    context: WrittenContext,
    compression: WrittenCompression,
    redaction: WrittenRedaction,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenCapture {
    skip_tools: Vec<String>,
    exclude: Vec<String>,
}

impl Default for WrittenCapture {
    fn default() -> Self {
        let tools = ["ListMcpResourcesTool", "SlashCommand", "Skill", "TodoWrite", "AskUserQuestion"];
        Self { skip_tools: tools.map(str::to_owned).to_vec(), exclude: Vec::new() }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenDurability {
    sync: WrittenSync,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenSync {
    #[default]
    Full,
    Normal,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenTimers {
    batch_idle_s: i64,
    session_idle_s: i64,
    housekeeping_s: i64,
    retention_days: u32,
}

impl Default for WrittenTimers {
    fn default() -> Self {
        Self { batch_idle_s: 300, session_idle_s: 3600, housekeeping_s: 60, retention_days: 0 }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenContext {
    start_tokens: u32,
    compact_tokens: u32,
    resume_tokens: u32,
    prompt_tokens: u32,
    notice: bool,
}

impl Default for WrittenContext {
    fn default() -> Self {
        Self {
            start_tokens: 2000,
            compact_tokens: 1500,
            resume_tokens: 300,
            prompt_tokens: 500,
            notice: true,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenCompression {
    backend: WrittenBackend,
    timeout_s: i64,
    concurrency: i64,
    max_attempts: i64,
}

/// The backends there are. A name that is none is an error that lists them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenBackend {
    #[default]
    Extractive,
}

impl Default for WrittenCompression {
    fn default() -> Self {
        Self { backend: WrittenBackend::Extractive, timeout_s: 60, concurrency: 2, max_attempts: 5 }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenRedaction {
    enabled: bool,
    extra: Vec<String>,
    allow: Vec<String>,
}

impl Default for WrittenRedaction {
    fn default() -> Self {
        Self { enabled: true, extra: Vec::new(), allow: Vec::new() }
    }
}

impl WrittenRedaction {
    fn policy(&self) -> RedactionPolicy {
        RedactionPolicy {
            mode: if self.enabled { RedactionMode::On } else { RedactionMode::Off },
            extra: self.extra.clone(),
            allow: self.allow.clone(),
        }
    }
}

impl Written {
    fn check(self) -> Result<Config, Vec<String>> {
        let ranges = [
            ("timers.batch_idle_s", self.timers.batch_idle_s, 1..=86_400),
            ("timers.session_idle_s", self.timers.session_idle_s, 1..=31_536_000),
            ("timers.housekeeping_s", self.timers.housekeeping_s, 1..=3_600),
            ("timers.retention_days", self.timers.retention_days.into(), 0..=36_500),
            ("context.start_tokens", self.context.start_tokens.into(), 0..=10_000),
            ("context.compact_tokens", self.context.compact_tokens.into(), 0..=10_000),
            ("context.resume_tokens", self.context.resume_tokens.into(), 0..=10_000),
            ("context.prompt_tokens", self.context.prompt_tokens.into(), 0..=10_000),
            ("compression.timeout_s", self.compression.timeout_s, 1..=3_600),
            ("compression.concurrency", self.compression.concurrency, 1..=16),
            ("compression.max_attempts", self.compression.max_attempts, 1..=100),
        ];
        let mut problems: Vec<_> = ranges
            .into_iter()
            .filter(|(_, value, range)| !range.contains(value))
            .map(|(key, value, range)| {
                format!("{key} is {value}, it must be {} to {}", range.start(), range.end())
            })
            .collect();
        problems.extend(
            excluded_projects(&self.capture.exclude).err().map(|error| format!("capture.exclude: {error}")),
        );
        // Patterns are compiled once more when the daemon starts; here only to say what is wrong with them.
        problems.extend(Redactor::new(&self.redaction.policy()).err().map(|error| error.to_string()));
        if problems.is_empty() { Ok(self.into_config()) } else { Err(problems) }
    }

    /// Only for values in range.
    fn into_config(self) -> Config {
        let WrittenBackend::Extractive = self.compression.backend;
        Config {
            excluded: self.capture.exclude,
            capture: CapturePolicy { skip_tools: self.capture.skip_tools },
            durability: match self.durability.sync {
                WrittenSync::Full => Durability::Full,
                WrittenSync::Normal => Durability::Normal,
            },
            idle: IdlePolicy {
                batch_ms: self.timers.batch_idle_s * 1000,
                session_ms: self.timers.session_idle_s * 1000,
            },
            housekeeping_s: self.timers.housekeeping_s.unsigned_abs(),
            retention_days: self.timers.retention_days,
            budgets: Budgets {
                start: self.context.start_tokens,
                compact: self.context.compact_tokens,
                resume: self.context.resume_tokens,
                prompt: self.context.prompt_tokens,
            },
            notice: if self.context.notice { Notice::Shown } else { Notice::Off },
            compression: CompressionPolicy {
                timeout_s: self.compression.timeout_s.unsigned_abs(),
                concurrency: usize::try_from(self.compression.concurrency).unwrap_or(2),
                max_attempts: u32::try_from(self.compression.max_attempts).unwrap_or(5),
            },
            redaction: self.redaction.policy(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn problem(text: &str, expected: &str) {
        let message = Config::parse(text, Path::new("/c/config.toml")).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn an_empty_file_and_a_missing_one_mean_the_defaults() {
        assert_eq!(Config::parse("", Path::new("c")).unwrap(), Config::default());
        assert_eq!(Config::load(Path::new("/nowhere/config.toml")).unwrap(), Config::default());
        assert_eq!(Config::default().budgets.start, 2000);
        assert_eq!(Config::default().durability, Durability::Full);
    }

    #[test]
    fn mistakes_are_named_with_their_line_or_key() {
        problem(
            "[timers]\nbatch_idle_s = 5\nbatch_idle = 3\n",
            "/c/config.toml, line 3: unknown field `batch_idle`",
        );
        problem("[context\n", "line 1");
        problem("\n\n[compression]\nbackend = \"magic\"\n", "line 4");
        problem("[timers]\nbatch_idle_s = 0\n[compression]\nconcurrency = 99\n", "timers.batch_idle_s is 0");
        problem(
            "[timers]\nbatch_idle_s = 0\n[compression]\nconcurrency = 99\n",
            "compression.concurrency is 99",
        );
        problem("[redaction]\nextra = ['ok', '(']\n", "redaction.extra: `(` is no usable pattern");
        problem("[capture]\nexclude = ['[']\n", "capture.exclude: ");
        problem("[redaction]\nallow = ['.*']\n", "redaction.allow: `.*` matches everything");
    }

    #[test]
    fn what_is_written_is_taken() {
        let config =
            Config::parse("[durability]\nsync = \"normal\"\n[context]\nnotice = false\n", Path::new("c"));
        let config = config.unwrap();
        assert_eq!((config.durability, config.notice), (Durability::Normal, Notice::Off));
        let config =
            Config::parse("[redaction]\nenabled = false\nextra = ['ACME-\\d+']\n", Path::new("c")).unwrap();
        assert_eq!(config.redaction.mode, RedactionMode::Off);
        assert_eq!(config.redaction.extra, ["ACME-\\d+"]);
        assert_eq!(Config::default().redaction, RedactionPolicy::default());
    }
}
