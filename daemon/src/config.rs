//! `config.toml`: what was written, what it means, and what is wrong with it.
//!
//! Every key is optional. A file that cannot be understood is an error with its line at the command line, and never
//! stops the daemon from accepting events: it runs on the defaults and says so.

mod compression;

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::compression::policy::CompressionPolicy;
use crate::memory::context::Budgets;
use crate::memory::lifecycle::Said;
use crate::memory::redaction::{RedactionMode, RedactionPolicy, Redactor};
use crate::memory::session::{CapturePolicy, IdlePolicy, Load};
use crate::project_file::excluded_projects;
use crate::store::Durability;
use crate::trusted_file::{self, Links};
use compression::WrittenCompression;

/// A file of settings is a few kilobytes.
const MOST_BYTES: u64 = 256 * 1024;

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
    pub subscriptions: Vec<Subscription>,
}

/// A command that is run at lifecycle events.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// Their names; see [`Said::NAMES`].
    pub events: Vec<String>,
    /// The program and its arguments; no shell reads them.
    command: Vec<String>,
}

impl Subscription {
    pub fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    pub fn arguments(&self) -> &[String] {
        self.command.get(1..).unwrap_or_default()
    }

    fn problems(&self) -> Vec<String> {
        let unknown = self.events.iter().filter(|event| !Said::NAMES.contains(&event.as_str()));
        let mut problems: Vec<_> = unknown
            .map(|event| format!("subscribe.events: there is no {event:?}, only {}", Said::NAMES.join(", ")))
            .collect();
        if self.events.is_empty() {
            problems.push("subscribe.events is empty".to_owned());
        }
        if self.program().is_empty() {
            problems.push("subscribe.command names no program".to_owned());
        }
        problems
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    Shown,
    Off,
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
        match trusted_file::read_text(path, Links::OfOurs, MOST_BYTES) {
            Ok(text) => Self::parse(&text, path),
            Err(why) if why.is_absence() => Ok(Self::default()),
            Err(source) => Err(ConfigError::Unreadable { path: path.to_owned(), source: source.into() }),
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
    subscribe: Vec<Subscription>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenCapture {
    skip_tools: Vec<String>,
    plan_folders: Vec<String>,
    chunk_activities: u32,
    chunk_kb: u32,
    exclude: Vec<String>,
}

impl Default for WrittenCapture {
    fn default() -> Self {
        let tools = ["ListMcpResourcesTool", "SlashCommand", "Skill", "TodoWrite", "AskUserQuestion"];
        Self {
            skip_tools: tools.map(str::to_owned).to_vec(),
            plan_folders: [".claude/plans", ".cursor/plans"].map(str::to_owned).to_vec(),
            chunk_activities: 50,
            chunk_kb: 200,
            exclude: Vec::new(),
        }
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
    file_tokens: u32,
    subagent_tokens: u32,
    notice: bool,
}

impl Default for WrittenContext {
    fn default() -> Self {
        Self {
            start_tokens: 2000,
            compact_tokens: 1500,
            resume_tokens: 300,
            prompt_tokens: 500,
            file_tokens: 300,
            subagent_tokens: 300,
            notice: true,
        }
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
            ("capture.chunk_activities", self.capture.chunk_activities.into(), 1..=100_000),
            ("capture.chunk_kb", self.capture.chunk_kb.into(), 1..=1_000_000),
            ("timers.batch_idle_s", self.timers.batch_idle_s, 1..=86_400),
            ("timers.session_idle_s", self.timers.session_idle_s, 1..=31_536_000),
            ("timers.housekeeping_s", self.timers.housekeeping_s, 1..=3_600),
            ("timers.retention_days", self.timers.retention_days.into(), 0..=36_500),
            ("context.start_tokens", self.context.start_tokens.into(), 0..=10_000),
            ("context.compact_tokens", self.context.compact_tokens.into(), 0..=10_000),
            ("context.resume_tokens", self.context.resume_tokens.into(), 0..=10_000),
            ("context.prompt_tokens", self.context.prompt_tokens.into(), 0..=10_000),
            ("context.file_tokens", self.context.file_tokens.into(), 0..=10_000),
            ("context.subagent_tokens", self.context.subagent_tokens.into(), 0..=10_000),
        ];
        let mut problems: Vec<_> = ranges
            .into_iter()
            .chain(self.compression.ranges())
            .filter(|(_, value, range)| !range.contains(value))
            .map(|(key, value, range)| {
                format!("{key} is {value}, it must be {} to {}", range.start(), range.end())
            })
            .collect();
        problems.extend(self.compression.problems());
        problems.extend(self.subscribe.iter().flat_map(Subscription::problems));
        if self.capture.plan_folders.iter().any(|folder| folder.trim_matches('/').is_empty()) {
            problems.push("capture.plan_folders holds an empty name, or the whole file system".to_owned());
        }
        problems.extend(
            excluded_projects(&self.capture.exclude).err().map(|error| format!("capture.exclude: {error}")),
        );
        // Patterns are compiled once more when the daemon starts; here only to say what is wrong with them.
        problems.extend(Redactor::new(&self.redaction.policy()).err().map(|error| error.to_string()));
        if problems.is_empty() { Ok(self.into_config()) } else { Err(problems) }
    }

    /// Only for values in range.
    fn into_config(self) -> Config {
        Config {
            excluded: self.capture.exclude,
            capture: CapturePolicy {
                skip_tools: self.capture.skip_tools,
                plan_folders: self.capture.plan_folders,
                chunk: Load {
                    activities: self.capture.chunk_activities,
                    bytes: u64::from(self.capture.chunk_kb) * 1000,
                },
            },
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
                file: self.context.file_tokens,
                subagent: self.context.subagent_tokens,
            },
            notice: if self.context.notice { Notice::Shown } else { Notice::Off },
            compression: self.compression.policy(),
            redaction: self.redaction.policy(),
            subscriptions: self.subscribe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::policy::KeySource;

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
        problem("[capture]\nplan_folders = ['/']\n", "capture.plan_folders holds an empty name");
        problem("[capture]\nchunk_kb = 0\n", "capture.chunk_kb is 0");
        problem(
            "[[subscribe]]\nevents = ['session_over']\ncommand = ['x']\n",
            "session_start, session_suspend",
        );
        problem("[[subscribe]]\nevents = []\ncommand = []\n", "subscribe.command names no program");
        problem("[[subscribe]]\nevents = ['session_end']\ncommand = 'x'\n", "line 3");
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

    #[test]
    fn a_backend_gets_its_own_keys_and_a_fallback_those_of_its_table() {
        let config = Config::parse(
            "[compression]\nbackend = 'anthropic'\nusd_per_mtok_in = 0.25\nfallback = ['openai', 'extractive']\n\
             [compression.openai]\nmodel = 'llama'\nbase_url = 'http://127.0.0.1:11434/v1/'\n",
            Path::new("c"),
        );
        let backends = config.unwrap().compression.backends;
        let (first, second) = (&backends[0], &backends[1]);
        assert_eq!(first.origin(), "anthropic:claude-haiku-4-5");
        assert_eq!(
            (first.base_url.as_str(), first.prices.per_mtok_in),
            ("https://api.anthropic.com", 250_000)
        );
        assert_eq!(first.key, KeySource::Environment("ANTHROPIC_API_KEY".to_owned()));
        assert_eq!(second.origin(), "openai:llama");
        assert_eq!((second.base_url.as_str(), &second.key), ("http://127.0.0.1:11434/v1", &KeySource::None));
        assert_eq!(Config::default().compression.backends, []);
    }

    #[test]
    fn what_would_send_memory_in_the_clear_or_a_key_astray_is_refused() {
        let compression = |keys: &str| format!("[compression]\nbackend = 'openai'\nmodel = 'm'\n{keys}\n");
        problem(&compression("base_url = 'http://192.168.1.7:11434'"), "base_url must be https");
        problem(&compression("base_url = 'http://localhost.evil.example'"), "base_url must be https");
        problem(&compression("base_url = 'https://me:secret@example.com'"), "must not hold a name");
        problem(&compression("base_url = 'ftp://127.0.0.1'"), "base_url must be https");
        problem(&compression("api_key_env = 'A'\napi_key_file = '/b'"), "several keys");
        problem(&compression("api_key_file = 'key'"), "must be an absolute path");
        problem(&compression("usd_per_day = -1.0"), "compression.usd_per_day is -1");
        problem("[compression]\nbackend = 'openai'\n", "compression.model is missing");
        problem("[compression]\nfallback = ['openai']\n", "compression.openai.model is missing");
        problem(&compression("proxy = 'socks5://x'"), "compression.proxy must begin");
        for here in
            ["http://127.0.0.1:1", "http://localhost:1/v1", "https://[::1]", "http://[::ffff:127.0.0.1]"]
        {
            let proxied = format!("base_url = '{here}'\nproxy = 'http://proxy.example:3128'");
            problem(&compression(&proxied), "compression.base_url is on this machine");
        }
        problem(
            "[compression]\nbackend = 'anthropic'\nfallback = ['openai']\nproxy = 'http://proxy.example:3128'\n\
             [compression.openai]\nmodel = 'm'\nbase_url = 'http://localhost:1'\n",
            "compression.openai.base_url is on this machine",
        );
        let proxied = compression("base_url = 'https://models.example'\nproxy = 'http://proxy.example:3128'");
        assert!(Config::parse(&proxied, Path::new("c")).is_ok());
        assert!(Config::parse(&compression("base_url = 'http://[::1]:1234/v1'"), Path::new("c")).is_ok());
    }
}
