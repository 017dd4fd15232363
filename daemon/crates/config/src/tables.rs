//! Every key of `config.toml`, in the order of the template: its type, default, limits and help.
//!
//! The first paragraph of a comment is the help in `recall config`; `docs/config.md` contains all paragraphs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::table::{Acceptance, KeyKind, SettingType, TableFacts, choices, table};
use recall_agents::AGENTS;
use recall_domain::guard::{Outside, Severity};

/// All tables, in the order of the template.
pub(super) const TABLES: [TableFacts; 12] = [
    TableFacts::of::<Capture>(Acceptance::ByKey),
    TableFacts::of::<Durability>(Acceptance::ByKey),
    TableFacts::of::<Timers>(Acceptance::ByKey),
    TableFacts::of::<Context>(Acceptance::ByKey),
    // A missing key could send notes to a different address, or exceed a limit.
    TableFacts::of::<Compression>(Acceptance::Whole),
    TableFacts::of::<Embedding>(Acceptance::Whole),
    TableFacts::of::<Mcp>(Acceptance::ByKey),
    TableFacts::of::<Gateway>(Acceptance::ByKey),
    TableFacts::of::<Telemetry>(Acceptance::ByKey),
    TableFacts::of::<Redaction>(Acceptance::ByKey),
    TableFacts::of::<Guards>(Acceptance::ByKey),
    TableFacts::of::<Sync>(Acceptance::ByKey),
];

table! {
    ["capture"] Capture {
        /// Projects that are excluded from recording: folders (~/clients/*), names, identities
        ///
        /// An identity looks like `git:github.com/acme/*`. Nothing is injected there either. The work trees and clones of a project on
        /// this disk are excluded, too.
        exclude: Vec<String> = Vec::new();
        /// Tools whose input and output are not stored
        ///
        /// The call itself is stored. The user's answers and the task list are still used.
        skip_tools: Vec<String> = AGENTS.skipped_tools();
        /// Folders whose Markdown files are plans
        ///
        /// Each version is stored and searchable.
        plan_folders: Vec<String> = AGENTS.plan_folders();
        /// Activities after which a long prompt is compressed in pieces
        chunk_activities: u32 = 50, 1..=100_000;
        /// Kilobytes after which a long prompt is compressed in pieces
        chunk_kb: u32 = 200, 1..=1_000_000;
        /// Forget a session when you delete it in its agent
        ///
        /// Deletes as `recall forget` does. Only Qwen Code tells its hooks about it.
        forget_deleted: bool = false;
    }
}

choices! {
    Syncing {
        Full = "full",
        Normal = "normal",
    }
}

table! {
    ["durability"] Durability {
        /// With normal, a power failure may lose the last milliseconds
        ///
        /// A killed process loses nothing.
        sync: Syncing = Syncing::Full;
    }
}

table! {
    ["timers"] Timers {
        /// Seconds without activity after which a prompt counts as ended
        batch_idle_s: i64 = 300, 1..=86_400;
        /// Seconds without activity after which a session counts as ended
        session_idle_s: i64 = 3_600, 1..=31_536_000;
        /// Seconds between two checks for silent sessions
        ///
        /// Lost leases of compression jobs are detected then, too.
        housekeeping_s: i64 = 60, 1..=3_600;
        /// Days after which a silent session is deleted; 0 keeps all sessions
        ///
        /// Deletes as `recall forget` does. After the clock jumps, recall deletes nothing until it was restarted or has
        /// run for a day.
        retention_days: u32 = 0, 0..=36_500;
    }
}

table! {
    ["context"] Context {
        /// Tokens injected at a session's start; 0 injects nothing, also for the keys below
        start_tokens: u32 = 600, 0..=10_000;
        /// Tokens injected after a compaction
        compact_tokens: u32 = 1_500, 0..=10_000;
        /// Tokens injected when a session is resumed
        resume_tokens: u32 = 300, 0..=10_000;
        /// Tokens injected with a prompt
        prompt_tokens: u32 = 500, 0..=10_000;
        /// Tokens injected when a file with known notes is opened
        ///
        /// Once per file and session.
        file_tokens: u32 = 300, 0..=10_000;
        /// Tokens injected when a command with known notes runs, or fails as before
        ///
        /// Once per form of command or error and session. See [retrieval.md](retrieval.md#context-at-a-command).
        command_tokens: u32 = 80, 0..=80;
        /// Tokens injected when a subagent starts
        subagent_tokens: u32 = 300, 0..=10_000;
        /// Show a line about the injected context
        notice: bool = true;
        /// Inject the date, the project and its branch at a session's start
        ambient: bool = false;
        /// Inject unasked only notes that a person wrote, pinned or kept
        ///
        /// See [review.md](review.md#injecting-only-reviewed-notes).
        reviewed_only: bool = false;
        /// Inject with a prompt where the code that it names is, at most three places
        ///
        /// This reads the source files of the repository. See [code.md](code.md).
        code: bool = false;
    }
}

choices! {
    /// What writes observations.
    Compressor {
        Extractive = "extractive",
        Anthropic = "anthropic",
        OpenAi = "openai",
        ClaudeCli = "claude-cli",
        CodexCli = "codex-cli",
        GeminiCli = "gemini-cli",
        QwenCli = "qwen-cli",
        CopilotCli = "copilot-cli",
        OpenCodeCli = "opencode-cli",
        Command = "command",
    }
}

choices! {
    RequestUnit {
        Session = "session",
        Turn = "turn",
    }
}

table! {
    ["compression"] Compression {
        /// What writes observations; extractive is built in
        ///
        /// `anthropic` is the Messages API, `openai` any server with Chat Completions. `claude-cli`, `codex-cli` and
        /// similar ones run an agent's program with your subscription.
        backend: Compressor = Compressor::Extractive;
        /// How much a model receives in one request
        ///
        /// `session`: a session when it ends or is compacted (built-in notes until then); `turn`: each turn when it
        /// ends. See [observations.md](observations.md#with-a-model).
        unit: RequestUnit = RequestUnit::Session;
        /// The model's name
        ///
        /// If unset, the provider's default; `openai` has none.
        model: Option<String> = None;
        /// The program that the backend command runs, with its arguments
        ///
        /// It receives the text on standard input and writes the answer to standard output.
        command: Vec<String> = Vec::new();
        /// The provider's address: https, or http on this machine
        base_url: Option<String> = None;
        /// The daemon's environment variable that contains the key
        ///
        /// If unset, `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, at the provider's own address only. A daemon started by
        /// a hook or a command has few variables, so this is for one that you or a service starts. Set only one of the
        /// three keys.
        api_key_env: Option<String> = None;
        /// The absolute path of a key file that only you can read
        api_key_file: Option<PathBuf> = None;
        /// The account of a key in the system's keyring, under the service recall
        api_key_keyring: Option<String> = None;
        /// An http:// or https:// proxy for the calls
        ///
        /// The proxy variables of the environment are ignored. Not allowed with a model on this machine.
        proxy: Option<String> = None;
        /// The maximum duration of one call in seconds
        ///
        /// At most 60 over HTTP.
        timeout_s: i64 = 60, 1..=3_600;
        /// The number of jobs at a time
        ///
        /// Work without a model is not counted.
        concurrency: i64 = 2, 1..=16;
        /// Attempts after which a job counts as dead
        ///
        /// See `recall ctl jobs --dead` and `recall ctl retry`.
        max_attempts: i64 = 5, 1..=100;
        /// Backends to try next, each with a table such as [compression.openai]
        ///
        /// The built-in one is always the last.
        fallback: Vec<Compressor> = vec![Compressor::Extractive];
        /// Maximum tokens of a session or a turn that are sent in one call
        material_tokens: i64 = 6_000, 1_000..=200_000;
        /// Maximum tokens per day; 0 is no limit
        ///
        /// Per calendar day. At a limit the built-in backend takes over until midnight.
        tokens_per_day: i64 = 0, 0..=1_000_000_000_000;
        /// Maximum dollars per day; 0 is no limit
        ///
        /// Needs the prices of all models that are not on this machine.
        usd_per_day: f64 = 0.0;
        /// Maximum tokens per day for one project; 0 is no limit
        project_tokens_per_day: i64 = 0, 0..=1_000_000_000_000;
        /// Maximum dollars per day for one project; 0 is no limit
        project_usd_per_day: f64 = 0.0;
        /// The model's price per million input tokens, in dollars
        usd_per_mtok_in: f64 = 0.0;
        /// The model's price per million output tokens, in dollars
        usd_per_mtok_out: f64 = 0.0;
    }
    with {
        anthropic: Option<Endpoint>,
        openai: Option<Endpoint>,
        #[serde(rename = "claude-cli")]
        claude_cli: Option<Endpoint>,
        #[serde(rename = "codex-cli")]
        codex_cli: Option<Endpoint>,
        #[serde(rename = "gemini-cli")]
        gemini_cli: Option<Endpoint>,
        #[serde(rename = "qwen-cli")]
        qwen_cli: Option<Endpoint>,
        #[serde(rename = "copilot-cli")]
        copilot_cli: Option<Endpoint>,
        #[serde(rename = "opencode-cli")]
        opencode_cli: Option<Endpoint>,
    }
}

/// The address, key and model of a backend.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Endpoint {
    pub(super) model: Option<String>,
    pub(super) base_url: Option<String>,
    pub(super) api_key_env: Option<String>,
    pub(super) api_key_file: Option<PathBuf>,
    pub(super) api_key_keyring: Option<String>,
    pub(super) usd_per_mtok_in: f64,
    pub(super) usd_per_mtok_out: f64,
}

choices! {
    VectorMaker {
        None = "none",
        Local = "local",
        OpenAi = "openai",
    }
}

table! {
    ["embedding"] Embedding {
        /// Search by meaning: with a model on this machine, or on a server
        ///
        /// `local` is a sentence model that you install, `openai` is a server with the embeddings API. See
        /// [embeddings.md](embeddings.md).
        backend: VectorMaker = VectorMaker::None;
        /// A model from `recall model list`, an absolute path, or a name on the server
        model: Option<String> = None;
        /// The server's address: https, or http on this machine
        base_url: Option<String> = None;
        /// The daemon's environment variable that contains the key
        api_key_env: Option<String> = None;
        /// The absolute path of a key file that only you can read
        api_key_file: Option<PathBuf> = None;
        /// The account of a key in the system's keyring, under the service recall
        api_key_keyring: Option<String> = None;
        /// An http:// or https:// proxy for the calls
        proxy: Option<String> = None;
        /// The maximum duration of one call in seconds
        timeout_s: i64 = 30, 1..=60;
        /// The model's price per million tokens, in dollars
        usd_per_mtok_in: f64 = 0.0;
    }
}

table! {
    ["mcp"] Mcp {
        /// Whether `recall mcp` offers the tools remember and resolve
        write: bool = false;
    }
}

table! {
    ["gateway"] Gateway {
        /// Open the HTTP interface when the daemon starts, not only for `recall ui --web`
        ///
        /// See [gateway.md](gateway.md).
        enabled: bool = false;
        /// Port of the HTTP interface on this machine; 0 is any free port
        port: u32 = 0, 0..=65_535;
        /// Web pages that may use the HTTP interface with its token: https://example.com
        origins: Vec<String> = Vec::new();
    }
}

table! {
    ["telemetry"] Telemetry {
        /// Send traces and metrics, without content, to an OpenTelemetry collector: http://127.0.0.1:4318
        ///
        /// See [telemetry.md](telemetry.md).
        otlp_endpoint: Option<String> = None;
    }
}

table! {
    ["redaction"] Redaction {
        /// Replace secrets before anything is stored
        enabled: bool = true;
        /// Your own patterns of secrets
        extra: Vec<String> = Vec::new();
        /// Patterns of texts that are never secret
        allow: Vec<String> = Vec::new();
    }
}

impl SettingType for Severity {
    const KIND: KeyKind = KeyKind::Choice(&["off", "advise", "ask", "deny"]);
}

impl SettingType for Outside {
    const KIND: KeyKind = KeyKind::Choice(&["off", "warn"]);
}

table! {
    ["guards"] Guards {
        /// Calls that write secrets, .git, .ssh or lock files
        ///
        /// See [guards.md](guards.md), also for the keys below.
        writes: Severity = Severity::Off;
        /// Calls that open .env, private keys or credential stores
        reads: Severity = Severity::Off;
        /// Calls that write to /etc, /usr and the like, or erase a root, a home or a folder above the project
        system: Severity = Severity::Off;
        /// Warn the model about web pages and MCP results that read like instructions
        outside: Outside = Outside::Off;
        /// Additional files that must not be written: migrations/, *.lock
        write_paths: Vec<String> = Vec::new();
        /// Additional files that must be neither read nor written
        read_paths: Vec<String> = Vec::new();
        /// Files that are never guarded
        allow: Vec<String> = Vec::new();
        /// Environment variables that agents' shell commands do not get: GITHUB_TOKEN, AWS_*
        unset_env: Vec<String> = Vec::new();
    }
}

table! {
    ["sync"] Sync {
        /// Your name as author, shown to those who share a project; default: your user name
        ///
        /// See [sync.md](sync.md).
        author: Option<String> = None;
        /// The name of this machine, shown to them; default: its host name
        device: Option<String> = None;
    }
}
