//! `config.toml`: parsing, checking, and reporting problems.
//!
//! Every key is optional and independent: a problem is reported with its line, and its key keeps the default. A file
//! with problems is at least as strict as the last one without, see `last_good`.

pub mod change;
mod compression;
mod embedding;
pub mod keys;
mod last_good;
mod reading;
pub mod schema;
pub mod sharing;
pub mod sharing_change;
mod table;
mod tables;

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use compression::check_url;
pub use embedding::EmbeddingPolicy;
use last_good::LastGood;
pub use reading::{Problem, Understood};
use recall_compression::policy::CompressionPolicy;
use recall_domain::context::Budgets;
use recall_domain::guard::{GuardPolicy, Guards};
use recall_domain::hint::{Hint, Hints};
use recall_domain::lifecycle::LifecycleKind;
use recall_domain::redaction::{RedactionMode, RedactionPolicy, Redactor};
use recall_domain::review::Injectable;
use recall_domain::session::{CapturePolicy, IdlePolicy, Load};
use recall_repository::project_file::ExcludedNames;
use recall_store::Durability;
use recall_system::trusted_file::{self, Links, Refused};
use sharing::{RemoteSettings, SharedProject, Sharing};
use table::Table;

/// The size limit of the file, which is usually a few kilobytes.
const MOST_BYTES: u64 = 256 * 1024;

/// All settings, after validation.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub capture: CapturePolicy,
    pub excluded: Excluded,
    /// What happens to a session that is deleted in its agent.
    pub deleted: Deleted,
    pub durability: Durability,
    /// Whether `recall mcp` offers tools that write.
    pub mcp_writing: McpWriting,
    pub gateway: GatewayPolicy,
    /// The base address of the OTLP receiver for traces and metrics. `None` if nothing is sent.
    pub otlp_endpoint: Option<String>,
    pub idle: IdlePolicy,
    pub housekeeping_s: u64,
    /// 0 keeps everything forever.
    pub retention_days: u32,
    pub budgets: Budgets,
    /// Whether the user sees a line about the context injected at a session's start.
    pub notice: Notice,
    pub ambient: Ambient,
    pub code: Code,
    /// Which notes are injected unasked.
    pub injectable: Injectable,
    pub hints: Vec<Hint>,
    pub compression: CompressionPolicy,
    pub embedding: EmbeddingPolicy,
    pub redaction: RedactionPolicy,
    pub guards: GuardPolicy,
    pub subscriptions: Vec<Subscription>,
    pub sharing: Sharing,
}

/// The projects that are excluded from recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Excluded {
    /// Patterns that match projects: folders, names, identities.
    Projects(Vec<String>),
    /// The file excludes something, but it is unknown what.
    Everything,
}

/// What happens to a session that is deleted in its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    Kept,
    Forgotten,
}

/// The usable part of a configuration.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    /// All problems in the file, sorted by line.
    pub problems: Vec<Problem>,
    exclusions: Understood,
    earlier: Earlier,
}

/// Whether an earlier valid file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Earlier {
    Unknown,
    /// Its exclusions are in force.
    Held,
}

/// A command that runs on lifecycle events.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// The names of events, see [`LifecycleKind::NAMES`].
    pub events: Vec<String>,
    /// The program and its arguments. No shell is used.
    command: Vec<String>,
    #[serde(default)]
    pub mode: SubscriptionMode,
}

/// How a subscribed command receives its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SubscriptionMode {
    /// The command is started for each event.
    #[default]
    Each,
    /// The command keeps running, and reads one line for each event.
    Stream,
}

impl Subscription {
    pub fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    pub fn arguments(&self) -> &[String] {
        self.command.get(1..).unwrap_or_default()
    }

    fn problems(&self) -> Vec<String> {
        let unknown = self.events.iter().filter(|event| !LifecycleKind::NAMES.contains(&event.as_str()));
        let mut problems: Vec<_> = unknown
            .map(|event| {
                format!("subscribe.events: unknown event {event:?}, use {}", LifecycleKind::NAMES.join(", "))
            })
            .collect();
        if self.events.is_empty() {
            problems.push("subscribe.events is empty".to_owned());
        }
        if self.program().is_empty() {
            problems.push("subscribe.command is empty".to_owned());
        }
        problems
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    Shown,
    Off,
}

/// Whether the context at a session's start includes the date, the project and its branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ambient {
    On,
    Off,
}

/// Whether the places of the code named in a prompt are injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Code {
    On,
    #[default]
    Off,
}

/// Whether models may write to the memory through `recall mcp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum McpWriting {
    On,
    #[default]
    Off,
}

/// The HTTP interface on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayPolicy {
    pub opens: GatewayOpens,
    /// 0 means any free port.
    pub port: u16,
    /// The web pages that may send requests, in the form of a browser's `Origin`.
    pub origins: Vec<String>,
}

/// Whether the text is a browser's `Origin` of a page that nobody on the network can replace.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let is_word = |text: &str, more: &[u8]| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || more.contains(&b))
    };
    is_word(scheme, b"+-.") && is_word(host, b"-._:[]") && (scheme != "http" || check_url(text).is_ok())
}

/// When the HTTP interface opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayOpens {
    AtStart,
    /// Only when `recall ui --web` requests it.
    WhenAsked,
}

impl Config {
    /// Reads the file. If it is missing, the defaults apply. Never fails: errors become problems.
    pub fn load(path: &Path) -> Loaded {
        match trusted_file::read(path, Links::OfOurs, MOST_BYTES) {
            Ok(bytes) => Self::parse_bytes(bytes),
            // A dangling link counts as an unreadable file, not as a missing one.
            Err(why) if why.is_absence() && path.symlink_metadata().is_err() => Loaded::from(Self::default()),
            // Another user may have changed the file, so only its exclusions are used.
            Err(why @ Refused::Writable) => {
                let mut bytes = Vec::new();
                // If even that fails, it excludes nothing.
                let _ =
                    std::fs::File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
                let Loaded { config: Self { excluded, .. }, exclusions, .. } = Self::parse_bytes(bytes);
                let config = Self { excluded, ..Self::default() };
                let what = format!("{why}; only its capture.exclude is used");
                Loaded {
                    config,
                    problems: vec![Problem { line: 0, column: 0, what }],
                    exclusions,
                    earlier: Earlier::Unknown,
                }
            }
            Err(why @ Refused::Io(_)) => {
                Loaded::broken(Loaded::from(Self::default()), &format!("cannot read it: {why}"))
            }
            // It belongs to another user, or is not a regular file, so even its exclusions are not used.
            Err(why) => Loaded {
                problems: vec![Problem { line: 0, column: 0, what: format!("the file is ignored: {why}") }],
                ..Loaded::from(Self::default())
            },
        }
    }

    fn parse_bytes(bytes: Vec<u8>) -> Loaded {
        match String::from_utf8(bytes) {
            Ok(text) => Self::parse(&text),
            Err(error) => {
                let lossy = String::from_utf8_lossy(error.as_bytes()).into_owned();
                Loaded::broken(Self::parse(&lossy), "it is not UTF-8")
            }
        }
    }

    /// The configuration that the daemon uses: at least as strict as the last valid file, which is recorded in `note`.
    pub fn obeyed(path: &Path, note: &Path) -> Loaded {
        let mut loaded = Self::load(path);
        if !loaded.problems.is_empty() {
            let last = LastGood::read(note);
            loaded.earlier = if last.is_some() { Earlier::Held } else { Earlier::Unknown };
            last_good::keep_restrictions(&mut loaded.config, loaded.exclusions, last);
        }
        loaded
    }

    /// Like [`Self::obeyed`], for the daemon itself, which also records a valid file.
    pub fn in_force(path: &Path, note: &Path) -> Loaded {
        let loaded = Self::obeyed(path, note);
        loaded.record(note);
        loaded
    }

    fn parse(text: &str) -> Loaded {
        let reading = reading::read(text);
        Loaded {
            config: reading.written.into_config(),
            problems: reading.problems,
            exclusions: reading.exclusions,
            earlier: Earlier::Unknown,
        }
    }
}

impl From<Config> for Loaded {
    /// A configuration without problems.
    fn from(config: Config) -> Self {
        Self { config, problems: Vec::new(), exclusions: Understood::Whole, earlier: Earlier::Unknown }
    }
}

impl Loaded {
    /// Records a valid file's exclusions in `note`.
    pub fn record(&self, note: &Path) {
        if !self.problems.is_empty() {
            return;
        }
        let good = LastGood::of(&self.config);
        if LastGood::read(note).as_ref() != Some(&good)
            && let Err(error) = good.write(note)
        {
            tracing::warn!(%error, "cannot save the configuration's exclusions, which apply if the file becomes invalid");
        }
    }

    /// What the problems cause, as a message for the user.
    pub fn consequence(&self) -> &'static str {
        match (&self.config.excluded, self.earlier) {
            (Excluded::Everything, _) => "Recording is off because capture.exclude cannot be read.",
            (Excluded::Projects(_), Earlier::Unknown) => {
                "Valid settings are used; the rest have their defaults."
            }
            (Excluded::Projects(_), Earlier::Held) => {
                "Valid settings are used; the rest have their defaults. The exclusions of the last file without errors \
                 stay in force."
            }
        }
    }

    /// Adds a problem of the whole file, and marks its exclusions as incomplete.
    fn broken(mut read: Self, what: &str) -> Self {
        read.problems.insert(0, Problem { line: 0, column: 0, what: what.to_owned() });
        read.exclusions = Understood::Partly;
        read
    }
}

impl Default for Config {
    fn default() -> Self {
        Written::default().into_config()
    }
}

/// The values in the file.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    capture: tables::Capture,
    durability: tables::Durability,
    timers: tables::Timers,
    context: tables::Context,
    compression: tables::Compression,
    embedding: tables::Embedding,
    mcp: tables::Mcp,
    gateway: tables::Gateway,
    telemetry: tables::Telemetry,
    redaction: tables::Redaction,
    guards: tables::Guards,
    sync: tables::Sync,
    hint: Vec<Hint>,
    subscribe: Vec<Subscription>,
    remote: Vec<RemoteSettings>,
    share: Vec<SharedProject>,
}

impl tables::Redaction {
    fn policy(&self) -> RedactionPolicy {
        RedactionPolicy {
            mode: if self.enabled { RedactionMode::On } else { RedactionMode::Off },
            extra: self.extra.clone(),
            allow: self.allow.clone(),
        }
    }
}

impl tables::Guards {
    fn policy(&self) -> GuardPolicy {
        GuardPolicy {
            writes: self.writes,
            reads: self.reads,
            system: self.system,
            outside: self.outside,
            write_paths: self.write_paths.clone(),
            read_paths: self.read_paths.clone(),
            allow: self.allow.clone(),
            unset_env: self.unset_env.clone(),
        }
    }
}

impl Written {
    /// The numbers outside their limits.
    fn outside(&self) -> Vec<String> {
        // Tables without numbers are left out.
        let tables = [
            self.capture.outside(),
            self.timers.outside(),
            self.context.outside(),
            self.compression.outside(),
            self.embedding.outside(),
            self.gateway.outside(),
        ];
        tables.concat()
    }

    /// All problems except wrong types. Each message begins with the name of its key.
    fn problems(&self) -> Vec<String> {
        let mut problems = self.outside();
        problems.extend(self.compression.problems());
        problems.extend(self.embedding.problems());
        if let Some(Err(problem)) = self.telemetry.otlp_endpoint.as_deref().map(check_url) {
            problems.push(format!("telemetry.otlp_endpoint {problem}"));
        }
        problems.extend(self.gateway.origins.iter().filter(|origin| !is_origin(origin)).map(|origin| {
            format!(
                "gateway.origins: {origin:?} is not an origin; use the form https://example.com, without a path"
            )
        }));
        problems.extend(self.subscribe.iter().flat_map(Subscription::problems));
        if self.capture.plan_folders.iter().any(|folder| folder.trim_matches('/').is_empty()) {
            problems.push("capture.plan_folders must not contain an empty name or /".to_owned());
        }
        problems.extend(
            ExcludedNames::new(&self.capture.exclude).err().map(|error| format!("capture.exclude: {error}")),
        );
        // Compiled here only to report errors. The daemon compiles them again when it starts.
        problems.extend(Redactor::new(&self.redaction.policy()).err().map(|error| error.to_string()));
        problems.extend(Guards::new(&self.guards.policy(), "").err());
        problems.extend(Hints::new(&self.hint).err());
        problems.extend(sharing::problems(&self.remote, &self.share));
        problems
    }

    /// All values must be in range.
    fn into_config(self) -> Config {
        Config {
            excluded: Excluded::Projects(self.capture.exclude),
            capture: CapturePolicy {
                skip_tools: self.capture.skip_tools,
                plan_folders: self.capture.plan_folders,
                // Each session uses the value for its agent.
                plan_prompts: &[],
                chunk: Load {
                    activities: self.capture.chunk_activities,
                    bytes: u64::from(self.capture.chunk_kb) * 1000,
                },
            },
            deleted: if self.capture.forget_deleted { Deleted::Forgotten } else { Deleted::Kept },
            mcp_writing: if self.mcp.write { McpWriting::On } else { McpWriting::Off },
            gateway: GatewayPolicy {
                opens: if self.gateway.enabled { GatewayOpens::AtStart } else { GatewayOpens::WhenAsked },
                // Checked to be in range.
                port: u16::try_from(self.gateway.port).unwrap_or_default(),
                origins: self.gateway.origins,
            },
            otlp_endpoint: self.telemetry.otlp_endpoint,
            durability: match self.durability.sync {
                tables::Syncing::Full => Durability::Full,
                tables::Syncing::Normal => Durability::Normal,
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
                command: self.context.command_tokens,
                subagent: self.context.subagent_tokens,
            },
            notice: if self.context.notice { Notice::Shown } else { Notice::Off },
            ambient: if self.context.ambient { Ambient::On } else { Ambient::Off },
            code: if self.context.code { Code::On } else { Code::Off },
            injectable: if self.context.reviewed_only {
                Injectable::Reviewed
            } else {
                Injectable::Everything
            },
            hints: self.hint,
            compression: self.compression.policy(),
            embedding: self.embedding.policy(),
            redaction: self.redaction.policy(),
            guards: self.guards.policy(),
            subscriptions: self.subscribe,
            sharing: Sharing {
                remotes: self.remote,
                shares: self.share,
                author: self.sync.author,
                device: self.sync.device,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_providers::KeySource;

    #[track_caller]
    fn problem(text: &str, expected: &str) {
        let problems = Config::parse(text).problems;
        assert!(problems.iter().any(|problem| problem.to_string().contains(expected)), "{problems:?}");
    }

    fn parsed(text: &str) -> Config {
        let Loaded { config, problems, .. } = Config::parse(text);
        assert_eq!(problems, []);
        config
    }

    fn excluded(config: &Config) -> &[String] {
        match &config.excluded {
            Excluded::Projects(patterns) => patterns,
            Excluded::Everything => panic!("everything is"),
        }
    }

    #[test]
    fn an_empty_file_and_a_missing_one_mean_the_defaults() {
        assert_eq!(parsed(""), Config::default());
        assert_eq!(Config::load(Path::new("/nowhere/config.toml")).config, Config::default());
        assert_eq!(Config::default().budgets.start, 600);
        assert_eq!(Config::default().durability, Durability::Full);
    }

    #[test]
    fn mistakes_are_named_with_their_line_or_key() {
        problem(
            "[timers]\nbatch_idle_s = 5\nbatch_idle = 3\n",
            "line 3, column 1: unknown key `batch_idle` in [timers]; did you mean `batch_idle_s`?",
        );
        problem("[context\n", "line 1");
        problem("\n\n[compression]\nbackend = \"magic\"\n", "line 4");
        problem(
            "[context]\nstart_tokens = \"many\"\n",
            "line 2, column 16: context.start_tokens is \"many\"; it must be a whole number from 0 to 10000",
        );
        problem("[context]\nnotice = [1.5]\n", "context.notice is a list; it must be true or false");
        problem("[context]\nstart_tokens = 1.5\n", "context.start_tokens is 1.5; it must be");
        problem(
            "[compresion]\nx = 1\n",
            "line 1, column 2: unknown table [compresion]; did you mean [compression]?",
        );
        problem(
            "[context]\nxyzzy = 1\n",
            "unknown key `xyzzy` in [context]; it must be one of `start_tokens`",
        );
        // Every mistake inside a piece that is rejected as a whole is reported.
        let text = "[compression]\nbackend = 'opnai'\nmodle = 'm'\nusd_per_day = -4\n";
        problem(
            text,
            "compression.backend is \"opnai\"; did you mean \"openai\"? It must be one of extractive, ",
        );
        problem(text, "line 3, column 1: unknown key `modle` in [compression]; did you mean `model`?");
        problem(text, "line 4, column 1: compression.usd_per_day is -4");
        problem("[timers]\nbatch_idle_s = 0\n[compression]\nconcurrency = 99\n", "timers.batch_idle_s is 0");
        problem(
            "[timers]\nbatch_idle_s = 0\n[compression]\nconcurrency = 99\n",
            "compression.concurrency is 99",
        );
        problem("[capture]\nplan_folders = ['/']\n", "capture.plan_folders must not contain an empty name");
        problem("[capture]\nchunk_kb = 0\n", "capture.chunk_kb is 0");
        problem(
            "[[subscribe]]\nevents = ['session_over']\ncommand = ['x']\n",
            "session_start, session_suspend",
        );
        problem("[[subscribe]]\nevents = []\ncommand = []\n", "subscribe.command is empty");
        problem("[[subscribe]]\nevents = ['session_end']\ncommand = 'x'\n", "line 3");
        problem(
            "[redaction]\nextra = ['ok', '(']\n",
            "redaction.extra: `(` is not a valid pattern: unclosed group",
        );
        problem("[capture]\nexclude = ['[']\n", "capture.exclude: ");
        problem("[redaction]\nallow = ['.*']\n", "redaction.allow: `.*` matches everything");
    }

    #[test]
    fn guards_and_hints_are_checked_and_guards_stay_strict() {
        use recall_domain::guard::Severity;
        problem("[guards]\nreads = 'maybe'\n", "line 2");
        problem("[guards]\nallow = ['[']\n", "guards.allow: ");
        problem("[guards]\nunset_env = ['A B']\n", "guards.unset_env: `A B` is not a variable name");
        problem(
            "[[hint]]\npattern = '('\ntext = 'x'\n",
            "hint.pattern: `(` is not a valid pattern: unclosed group",
        );
        problem("[[hint]]\npattern = 'x'\n", "missing field `text`");
        assert_eq!(Config::default().guards, GuardPolicy::default());
        let home = tempfile::tempdir().unwrap();
        let (file, note) = (home.path().join("config.toml"), home.path().join("last-config.json"));
        let in_force = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Config::in_force(&file, &note).config.guards
        };
        in_force("[guards]\nreads = 'deny'\nread_paths = ['a']\nallow = ['b']\n");
        let broken =
            in_force("[guards]\nreads = 'ask'\nwrites = 'ask'\nallow = ['c']\n[context]\nnotice = 1\n");
        assert_eq!((broken.reads, broken.writes), (Severity::Deny, Severity::Ask));
        assert_eq!((broken.read_paths, broken.allow), (vec!["a".to_owned()], Vec::new()));
        assert_eq!(in_force("").reads, Severity::Off);
    }

    #[test]
    fn settings_in_the_file_override_the_defaults() {
        let config = parsed("[durability]\nsync = \"normal\"\n[context]\nnotice = false\n");
        assert_eq!((config.durability, config.notice), (Durability::Normal, Notice::Off));
        let config = parsed("[redaction]\nenabled = false\nextra = ['ACME-\\d+']\n");
        assert_eq!(config.redaction.mode, RedactionMode::Off);
        assert_eq!(config.redaction.extra, ["ACME-\\d+"]);
        assert_eq!(Config::default().redaction, RedactionPolicy::default());
    }

    #[test]
    fn a_fallback_backend_takes_its_settings_from_its_own_table() {
        let config = parsed(
            "[compression]\nbackend = 'anthropic'\nusd_per_mtok_in = 0.25\nfallback = ['openai', 'extractive']\n\
             [compression.openai]\nmodel = 'llama'\nbase_url = 'http://127.0.0.1:11434/v1/'\n",
        );
        let backends = config.compression.backends;
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
    fn unsafe_addresses_keys_and_proxies_are_rejected() {
        let compression = |keys: &str| format!("[compression]\nbackend = 'openai'\nmodel = 'm'\n{keys}\n");
        problem(&compression("base_url = 'http://192.168.1.7:11434'"), "base_url must use https");
        problem(&compression("base_url = 'http://localhost.evil.example'"), "base_url must use https");
        problem(&compression("base_url = 'https://me:secret@example.com'"), "must not contain a user name");
        problem(&compression("base_url = 'ftp://127.0.0.1'"), "base_url must use https");
        problem(&compression("api_key_env = 'A'\napi_key_file = '/b'"), "several keys");
        problem(&compression("api_key_file = 'key'"), "must be an absolute path");
        problem(&compression("usd_per_day = -1.0"), "compression.usd_per_day is -1");
        problem("[compression]\nbackend = 'openai'\n", "compression.model is missing");
        problem("[compression]\nfallback = ['openai']\n", "compression.openai.model is missing");
        problem(&compression("proxy = 'socks5://x'"), "compression.proxy must begin");
        for here in [
            "http://127.0.0.1:1",
            "http://localhost:1/v1",
            "https://[::1]",
            "http://[::ffff:127.0.0.1]",
            "https://[::]:1",
            "https://0.0.0.0:1",
            "https://[::ffff:0.0.0.0]",
            "https://LOCALHOST.:1",
            "https://models.localhost:1",
            "https://models.localhost.",
        ] {
            let proxied = format!("base_url = '{here}'\nproxy = 'http://proxy.example:3128'");
            problem(&compression(&proxied), "compression.base_url is on this machine");
        }
        problem(
            "[compression]\nbackend = 'anthropic'\nfallback = ['openai']\nproxy = 'http://proxy.example:3128'\n\
             [compression.openai]\nmodel = 'm'\nbase_url = 'http://localhost:1'\n",
            "compression.openai.base_url is on this machine",
        );
        let proxied = compression("base_url = 'https://models.example'\nproxy = 'http://proxy.example:3128'");
        parsed(&proxied);
        parsed(&compression("base_url = 'http://[::1]:1234/v1'"));
    }

    #[test]
    fn a_mistake_elsewhere_does_not_affect_gateway_or_telemetry() {
        let text =
            "[gateway]\nport = 7\n[telemetry]\notlp_endpoint = 'http://127.0.0.1:4318'\n[context]\nnotic = 1";
        let Loaded { config, problems, .. } = Config::parse(text);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(config.gateway.port, 7);
        assert_eq!(config.otlp_endpoint.as_deref(), Some("http://127.0.0.1:4318"));
        problem(
            "[telemetry]\notlp_endpoint = 'http://collector.example'",
            "telemetry.otlp_endpoint must use https",
        );
    }

    #[test]
    fn local_and_server_embedding_models_are_parsed_and_checked() {
        let embedding = |keys: &str| format!("[embedding]\n{keys}\n");
        assert_eq!(Config::default().embedding, EmbeddingPolicy::None);
        let local = parsed(&embedding("backend = 'local'\nmodel = 'minilm'")).embedding;
        assert_eq!(local, EmbeddingPolicy::Local { model: "minilm".to_owned() });
        parsed(&embedding("backend = 'local'\nmodel = '/models/minilm'"));
        let ollama = "backend = 'openai'\nmodel = 'nomic'\nbase_url = 'http://127.0.0.1:11434/v1/'";
        let EmbeddingPolicy::OpenAi { backend, settings } = parsed(&embedding(ollama)).embedding else {
            panic!()
        };
        assert_eq!((backend.origin().as_str(), &backend.key), ("openai:nomic", &KeySource::None));
        assert_eq!(
            (backend.base_url.as_str(), settings.timeout.as_secs()),
            ("http://127.0.0.1:11434/v1", 30)
        );
        problem(&embedding("backend = 'local'"), "embedding.model is missing");
        problem(&embedding("backend = 'local'\nmodel = '../x'"), "embedding.model must be the name");
        problem(&embedding("backend = 'openai'"), "embedding.model is missing");
        problem(&embedding("backend = 'magic'"), "line 2");
        let http = "backend = 'openai'\nmodel = 'm'\nbase_url = 'http://192.168.1.7'";
        problem(&embedding(http), "embedding.base_url must use https");
        problem(
            &embedding(&format!("{ollama}\nproxy = 'http://p.example'")),
            "embedding.base_url is on this machine",
        );
        problem(&embedding("timeout_s = 99"), "embedding.timeout_s is 99");
        // A table with a mistake counts as a whole or not at all.
        let torn = Config::parse(&embedding(&format!("{ollama}\nmodle = 'x'"))).config;
        assert_eq!(torn.embedding, EmbeddingPolicy::None);
    }

    #[test]
    fn a_mistake_affects_only_its_key_and_all_mistakes_are_reported() {
        let Loaded { config, problems, exclusions, .. } = Config::parse(
            "[capture]\nexclude = ['~/clients/*', 7, 'shop']\nchunk_kb = 0\n[context]\nstart_token = 5\n\
             prompt_tokens = 70\n[timers]\nbatch_idle_s = 'x'\nretention_days = 30\n[nowhere]\na = 1\n\
             [redaction]\nextra = ['(', 'ACME-1']\n",
        );
        let lines: Vec<_> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [2, 3, 5, 8, 10, 13], "{problems:?}");
        assert_eq!(exclusions, Understood::Partly);
        assert_eq!(excluded(&config), ["~/clients/*", "shop"]);
        assert_eq!((config.budgets.prompt, config.budgets.start, config.retention_days), (70, 600, 30));
        assert_eq!(config.redaction.extra, ["ACME-1"]);
        assert_eq!(config.capture.chunk, Config::default().capture.chunk);
    }

    #[test]
    fn settings_for_outgoing_data_with_a_mistake_are_ignored_as_a_whole() {
        let keys = "backend = 'anthropic'\nmodel = 'm'";
        let config = |more: &str| Config::parse(&format!("[compression]\n{keys}\n{more}\n")).config;
        assert_eq!(config("timeout_s = 5").compression.backends.len(), 1);
        for mistake in ["base_url = 'http://192.168.1.7'", "tokens_per_dy = 5", "timeout_s = 0", "= 5"] {
            assert_eq!(config(mistake).compression, Config::default().compression, "{mistake}");
        }
        let hooks = "[[subscribe]]\nevents = ['session_end']\ncommand = ['a']\n\
                     [[subscribe]]\nevents = ['nothing']\ncommand = ['b']\n";
        let loaded = Config::parse(hooks);
        assert_eq!((loaded.config.subscriptions.len(), loaded.problems.len()), (1, 1));
        let torn =
            Config::parse(&format!("{hooks}[redaction]\nenabled = false\nallow = ['x']\n[oops\n")).config;
        assert_eq!((torn.subscriptions.len(), torn.redaction), (0, RedactionPolicy::default()));
    }

    #[test]
    fn exclusions_in_invalid_toml_are_read_or_marked_incomplete() {
        #[track_caller]
        fn check(text: &str, expected: Understood, patterns: &[&str]) {
            let loaded = Config::parse(text);
            assert!(!loaded.problems.is_empty(), "{text}");
            assert_eq!(loaded.exclusions, expected, "{text}: {loaded:?}");
            assert_eq!(excluded(&loaded.config), patterns, "{text}");
        }
        check("[capture]\nexclude = ['a', 'b']\n[timers\nx = 1\n", Understood::Whole, &["a", "b"]);
        check("[timers]\nx = = 1\n[capture]\nexclude = [\n'a',\n] # ours\n", Understood::Whole, &["a"]);
        check("[timers]\nbatch_idle_s = = 1\n", Understood::Whole, &[]);
        for text in [
            "[capture]\nexclude = ['a', 'b\n[timers]\nx = 1\n",
            "[capture]\nexclude = ['a', 'b'\n[timers]\nx = 1\n",
            "[capture\nexclude = ['a'\n",
            "[capture]\nexclude = a\n",
            "[capture]\nexclude 'a'\n",
        ] {
            let loaded = Config::parse(text);
            assert_eq!(loaded.exclusions, Understood::Partly, "{text}: {loaded:?}");
        }
        // Keys below a broken header mean nothing by themselves.
        let lines = |text: &str| -> Vec<usize> {
            Config::parse(text).problems.iter().map(|problem| problem.line).collect()
        };
        assert_eq!(lines("[capture\nexclude = ['a']\n"), [1]);
        assert_eq!(
            lines("[timers]\nbatch_idle_s = 5\n[capture\nexclude = ['a']\nx = 1\n[context]\ny = 1\n"),
            [3, 7]
        );
        assert_eq!(lines("exclude = ['a']\n[capture\n"), [1, 2]);
        // A list under a misspelled section was still meant.
        check("[captrue]\nexclude = ['a']\n", Understood::Whole, &["a"]);
        check("exclude = ['a']\n", Understood::Whole, &["a"]);
        check("[capture]\nexlude = ['a']\n", Understood::Whole, &["a"]);
        check("[capture]\nexclude = 'a'\n", Understood::Partly, &[]);
        check("capture = ['a']\n", Understood::Partly, &[]);
    }

    #[test]
    fn a_file_with_mistakes_is_no_less_strict_than_the_last_valid_one() {
        let home = tempfile::tempdir().unwrap();
        let (file, note) = (home.path().join("config.toml"), home.path().join("last-config.json"));
        let in_force = |text: &[u8]| {
            std::fs::write(&file, text).unwrap();
            Config::in_force(&file, &note)
        };
        // Without an earlier file the readable part counts, and unreadable exclusions exclude everything.
        let first = in_force(b"[capture]\nexclude = ['a']\nchunk_kb = 0\n");
        assert_eq!(excluded(&first.config), ["a"]);
        assert!(!first.consequence().contains("last file"), "{}", first.consequence());
        for text in [&b"[capture]\nexclude = 'a'\n"[..], b"capture = 5", b"exclude = ['\xff']", b"[capture"] {
            let everything = in_force(text).config.excluded == Excluded::Everything;
            assert_eq!(everything, text != b"[capture", "{}", String::from_utf8_lossy(text));
        }
        assert!(!note.exists());

        let good = b"[capture]\nexclude = ['a', 'b']\nskip_tools = ['T']\n[redaction]\nextra = ['ACME']\n";
        let good = in_force(good);
        assert_eq!((good.problems.len(), excluded(&good.config).len()), (0, 2));
        let mode = std::os::unix::fs::PermissionsExt::mode(&note.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        let broken = in_force(
            b"[capture]\nexclude = ['c']\nskip_tools = []\n[context]\nstart_token = 1\n\
              [redaction]\nenabled = false\nallow = ['x']\n",
        );
        assert_eq!(excluded(&broken.config), ["c", "a", "b"]);
        assert!(broken.consequence().contains("the last file without errors"), "{}", broken.consequence());
        assert_eq!(broken.config.capture.skip_tools, ["T"]);
        assert_eq!(broken.config.redaction, good.config.redaction);
        // The file cannot be read at all.
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("nowhere", &file).unwrap();
        let unreadable = Config::in_force(&file, &note);
        assert_eq!((unreadable.problems.len(), excluded(&unreadable.config).len()), (1, 2));
        std::fs::remove_file(&file).unwrap();
        // A corrected file counts as written. Without a file everything is at its default.
        assert_eq!(excluded(&in_force(b"[capture]\nexclude = ['c']\n").config), ["c"]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(excluded(&Config::in_force(&file, &note).config), [""; 0]);
    }
}
