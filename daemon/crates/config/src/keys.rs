//! Every key of `config.toml`: what it means, what is allowed, and its default.
//!
//! The defaults are those of the structs that read the file, and the ranges are those that check it.

use std::fmt::Write as _;

use serde_json::Value;

use super::Written;
use recall_search::edit_distance::nearest_name;

/// A key with its table, such as `timers.batch_idle_s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub name: String,
    pub meaning: &'static str,
    pub kind: KeyKind,
}

/// The kind of values that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    Switch,
    /// A whole number; its range is that of `Written::ranges`.
    Number,
    Dollars,
    Text,
    Choice(&'static [&'static str]),
    Texts,
    Choices(&'static [&'static str]),
}

/// Where a `[compression.NAME]` may appear.
const ENDPOINTS: [&str; 8] = [
    "anthropic",
    "openai",
    "claude-cli",
    "codex-cli",
    "gemini-cli",
    "qwen-cli",
    "copilot-cli",
    "opencode-cli",
];
/// The keys of `[compression]` that such a table also has.
const ENDPOINT_KEYS: [&str; 7] = [
    "model",
    "base_url",
    "api_key_env",
    "api_key_file",
    "api_key_keyring",
    "usd_per_mtok_in",
    "usd_per_mtok_out",
];
const SEVERITIES: &[&str] = &["off", "advise", "ask", "deny"];
const UNITS: &[&str] = &["session", "turn"];
const COMPRESSORS: &[&str] = &[
    "extractive",
    "anthropic",
    "openai",
    "claude-cli",
    "codex-cli",
    "gemini-cli",
    "qwen-cli",
    "copilot-cli",
    "opencode-cli",
    "command",
];

use KeyKind::{Choice, Choices, Dollars, Number, Switch, Text, Texts};

/// In the order of the template.
const KEYS: &[(&str, KeyKind, &str)] = &[
    (
        "capture.exclude",
        Texts,
        "Projects for which nothing is stored: folders (~/clients/*), names, identities",
    ),
    ("capture.skip_tools", Texts, "Tools whose input and output are not stored"),
    ("capture.plan_folders", Texts, "Folders whose Markdown files are plans"),
    ("capture.chunk_activities", Number, "Activities after which a long prompt is compressed in pieces"),
    ("capture.chunk_kb", Number, "Kilobytes after which a long prompt is compressed in pieces"),
    (
        "durability.sync",
        Choice(&["full", "normal"]),
        "normal may lose the last milliseconds at a power failure",
    ),
    ("timers.batch_idle_s", Number, "Seconds without activity after which a prompt counts as ended"),
    ("timers.session_idle_s", Number, "Seconds without activity after which a session counts as ended"),
    ("timers.housekeeping_s", Number, "Seconds between two checks for silent sessions"),
    ("timers.retention_days", Number, "Days after which a silent session is deleted; 0 keeps all"),
    (
        "context.start_tokens",
        Number,
        "Tokens that a session gets at its start; 0 gives nothing, also for the keys below",
    ),
    ("context.compact_tokens", Number, "Tokens after a compaction"),
    ("context.resume_tokens", Number, "Tokens for a session that is resumed"),
    ("context.prompt_tokens", Number, "Tokens with a prompt"),
    ("context.file_tokens", Number, "Tokens when a file is opened about which there is something to know"),
    (
        "context.command_tokens",
        Number,
        "Tokens when a command runs about which there is something to know, or fails as before",
    ),
    ("context.subagent_tokens", Number, "Tokens when a subagent starts"),
    ("context.notice", Switch, "Show a line about what the agent got"),
    ("context.ambient", Switch, "Tell the date, the project and its branch at a session's start"),
    (
        "context.reviewed_only",
        Switch,
        "Tell sessions unasked only of notes that a person wrote, pinned or kept",
    ),
    ("compression.backend", Choice(COMPRESSORS), "What makes observations; extractive is built in"),
    ("compression.unit", Choice(UNITS), "How much a model gets in one request"),
    ("compression.model", Text, "The model's name"),
    ("compression.command", Texts, "What the backend command runs, with its arguments"),
    ("compression.base_url", Text, "The provider's address: https, or http on this machine"),
    ("compression.api_key_env", Text, "The variable of the daemon's environment that holds the key"),
    ("compression.api_key_file", Text, "An absolute path of a file that only you can read"),
    ("compression.api_key_keyring", Text, "An account of the service recall in the system's keyring"),
    ("compression.proxy", Text, "An http:// or https:// proxy for the calls"),
    ("compression.timeout_s", Number, "Seconds for one call"),
    ("compression.concurrency", Number, "Jobs at a time"),
    ("compression.max_attempts", Number, "Attempts after which a job is dead"),
    (
        "compression.fallback",
        Choices(COMPRESSORS),
        "Backends to try next, each with a table such as [compression.openai]",
    ),
    ("compression.material_tokens", Number, "Tokens of a session or a turn that are sent in one call"),
    ("compression.tokens_per_day", Number, "Most tokens a day; 0 is no limit"),
    ("compression.usd_per_day", Dollars, "Most dollars a day; 0 is no limit"),
    ("compression.project_tokens_per_day", Number, "Most tokens a day for one project; 0 is no limit"),
    ("compression.project_usd_per_day", Dollars, "Most dollars a day for one project; 0 is no limit"),
    ("compression.usd_per_mtok_in", Dollars, "The model's price for a million tokens that it reads"),
    ("compression.usd_per_mtok_out", Dollars, "The model's price for a million tokens that it writes"),
    (
        "embedding.backend",
        Choice(&["none", "local", "openai"]),
        "Search by meaning: with a model here, or a server",
    ),
    ("embedding.model", Text, "A model of `recall model list`, an absolute path, or a name on the server"),
    ("embedding.base_url", Text, "The server's address: https, or http on this machine"),
    ("embedding.api_key_env", Text, "The variable of the daemon's environment that holds the key"),
    ("embedding.api_key_file", Text, "An absolute path of a file that only you can read"),
    ("embedding.api_key_keyring", Text, "An account of the service recall in the system's keyring"),
    ("embedding.proxy", Text, "An http:// or https:// proxy for the calls"),
    ("embedding.timeout_s", Number, "Seconds for one call"),
    ("embedding.usd_per_mtok_in", Dollars, "The model's price for a million tokens"),
    ("mcp.write", Switch, "Whether `recall mcp` offers the tools remember and resolve"),
    ("gateway.enabled", Switch, "Open the HTTP interface with the daemon, not only at `recall ui --web`"),
    ("gateway.port", Number, "Port of the HTTP interface on this machine; 0 is any free one"),
    ("gateway.origins", Texts, "Pages that may call the HTTP interface, with its token: https://example.com"),
    (
        "telemetry.otlp_endpoint",
        Text,
        "Send traces and metrics, without content, to an OpenTelemetry collector: http://127.0.0.1:4318",
    ),
    ("redaction.enabled", Switch, "Replace secrets before anything is stored"),
    ("redaction.extra", Texts, "Patterns of your own that are secret as well"),
    ("redaction.allow", Texts, "Patterns of what is never secret"),
    ("guards.writes", Choice(SEVERITIES), "Calls that write secrets, .git, .ssh or lock files"),
    ("guards.reads", Choice(SEVERITIES), "Calls that open .env, private keys or credential stores"),
    (
        "guards.system",
        Choice(SEVERITIES),
        "Calls that write to /etc, /usr and the like, or erase a root, a home or a folder above the project",
    ),
    (
        "guards.outside",
        Choice(&["off", "warn"]),
        "Warn the model of web pages and MCP results that read like instructions",
    ),
    ("guards.write_paths", Texts, "More files that must not be written: migrations/, *.lock"),
    ("guards.read_paths", Texts, "More files that are to be neither read nor written"),
    ("guards.allow", Texts, "Files that are never guarded"),
    ("guards.unset_env", Texts, "Variables that shell commands of agents do not get: GITHUB_TOKEN, AWS_*"),
    ("sync.author", Text, "Who writes here, for those who share a project; else your user name"),
    ("sync.device", Text, "What this machine is called for them; else its host name"),
];

impl Key {
    /// All keys except those of tables such as `[compression.openai]`.
    pub fn all() -> impl Iterator<Item = Self> {
        KEYS.iter().map(|(name, kind, meaning)| Self { name: (*name).to_owned(), meaning, kind: *kind })
    }

    /// The key of this name, also in a table such as `[compression.openai]`.
    pub fn find(name: &str) -> Option<Self> {
        let plain = endpoint_key(name).map_or_else(|| name.to_owned(), |key| format!("compression.{key}"));
        Self::all().find(|key| key.name == plain).map(|key| Self { name: name.to_owned(), ..key })
    }

    /// The known key that is most similar.
    pub fn nearest(name: &str) -> Option<&'static str> {
        let known = || KEYS.iter().map(|(name, ..)| *name);
        let last = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
        // The table is missing, or another one is meant.
        let own = name.rsplit('.').next().unwrap_or(name);
        let same = || known().filter(|known| last(known) == own);
        let found = nearest_name(name, same()).or_else(|| same().next());
        found.or_else(|| nearest_name(name, known())).or_else(|| {
            let near = nearest_name(own, known().map(last))?;
            known().find(|known| last(known) == near)
        })
    }

    /// The allowed values as a phrase that follows "it must be".
    pub fn allowed(&self) -> String {
        match self.kind {
            Switch => "true or false".to_owned(),
            Number => match self.range() {
                Some((least, most)) => format!("a whole number from {least} to {most}"),
                None => "a whole number".to_owned(),
            },
            Dollars => "a number of dollars from 0 to 1000000".to_owned(),
            Text => "a text".to_owned(),
            Choice(names) => format!("one of {}", names.join(", ")),
            Texts => "a list of texts".to_owned(),
            Choices(names) => format!("a list of {}", names.join(", ")),
        }
    }

    /// The names among which to choose one or several.
    pub fn choices(&self) -> Option<&'static [&'static str]> {
        match self.kind {
            Choice(names) | Choices(names) => Some(names),
            Switch | Number | Dollars | Text | Texts => None,
        }
    }

    fn range(&self) -> Option<(i64, i64)> {
        let of_all = Written::default().ranges();
        let (_, _, range) = of_all.into_iter().find(|(name, ..)| *name == self.name)?;
        Some((*range.start(), *range.end()))
    }

    /// `Null` if it has none.
    pub fn default_value(&self) -> Value {
        value_of(&Written::default(), &self.name)
    }
}

/// Returns the `model` of `compression.openai.model`.
fn endpoint_key(name: &str) -> Option<&str> {
    let (table, key) = name.strip_prefix("compression.")?.split_once('.')?;
    (ENDPOINTS.contains(&table) && ENDPOINT_KEYS.contains(&key)).then_some(key)
}

/// All names of tables such as `[compression.openai]`.
pub(super) fn endpoint_names() -> impl Iterator<Item = String> {
    ENDPOINTS.into_iter().flat_map(|table| ENDPOINT_KEYS.map(|key| format!("compression.{table}.{key}")))
}

pub(super) fn value_of(written: &Written, name: &str) -> Value {
    let mut here = serde_json::to_value(written).unwrap_or_default();
    for part in name.split('.') {
        here = here.get_mut(part).map(Value::take).unwrap_or_default();
    }
    here
}

/// A value as written in the file; empty for `Null`.
pub fn as_toml(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Array(list) => format!("[{}]", list.iter().map(as_toml).collect::<Vec<_>>().join(", ")),
        Value::String(text) => toml_edit::value(text.as_str()).to_string().trim().to_owned(),
        other => other.to_string(),
    }
}

/// A file with every key as a comment, with its default.
pub fn template() -> String {
    let mut text = String::from(
        "# The settings of recall. Every key is optional; a line that begins with # has no effect.\n\
         # `recall config list` shows what is in force, `recall config set KEY VALUE` changes one key.\n",
    );
    let mut table = "";
    for &(name, kind, meaning) in KEYS {
        let (section, own) = name.split_once('.').unwrap_or(("", name));
        if section != table {
            table = section;
            let _ = write!(text, "\n[{section}]\n");
        }
        let key = Key { name: name.to_owned(), meaning, kind };
        let default = match key.default_value() {
            Value::Null => "\"\"".to_owned(),
            value => as_toml(&value),
        };
        let _ = write!(text, "# {meaning}: {}.\n# {own} = {default}\n", key.allowed());
    }
    text.push_str(
        "\n# A command that runs on lifecycle events and reads them as JSON; there may be several.\n\
         # [[subscribe]]\n# events = [\"session_end\"]\n# command = [\"notify-send\", \"a session is over\"]\n\
         # mode = \"each\"  # or \"stream\": it stays, and reads a line of each\n\
         \n# A text of yours for prompts with a word; there may be several.\n\
         # [[hint]]\n# pattern = \"tdd\"\n# text = \"Write a failing test first.\"\n\
         \n# A folder that several machines see, and a project whose notes they share through it: `recall share`.\n\
         # [[remote]]\n# name = \"mine\"\n# url = \"file:///media/stick/recall\"\n\
         # [[share]]\n# project = \"git:example.com/shop\"\n# remote = \"mine\"\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::super::{Config, reading};
    use super::*;

    /// The names that the parser of a table knows.
    fn known_of(table: &str) -> Vec<String> {
        let text = if table.is_empty() { "[zzz]\n".to_owned() } else { format!("[{table}]\nzzz = 1\n") };
        let what = reading::read(&text).problems.remove(0).what;
        let (_, known) = what.split_once("it must be one of ").unwrap();
        known.split(", ").map(|name| name.trim_matches(['`', '[', ']']).to_owned()).collect()
    }

    #[test]
    fn the_table_and_the_template_name_every_key() {
        let mut names: Vec<String> = Vec::new();
        for table in known_of("")
            .iter()
            .filter(|table| !["subscribe", "hint", "remote", "share"].contains(&table.as_str()))
        {
            let keys = known_of(table).into_iter().filter(|key| !ENDPOINTS.contains(&key.as_str()));
            names.extend(keys.map(|key| format!("{table}.{key}")));
        }
        let mut listed: Vec<String> = Key::all().map(|key| key.name).collect();
        let template = template();
        // Without the comment marks, it is a file that sets the defaults.
        let document: toml_edit::DocumentMut = template
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|line| line.contains(" = ")).unwrap_or(line))
            .filter(|line| {
                ![
                    "events =",
                    "command = [\"notify",
                    "pattern =",
                    "text =",
                    "name =",
                    "url =",
                    "project =",
                    "remote =",
                ]
                .iter()
                .any(|own| line.starts_with(own))
            })
            .map(|line| format!("{line}\n"))
            .collect::<String>()
            .parse()
            .unwrap();
        for name in &names {
            let (table, key) = name.split_once('.').unwrap();
            assert!(document[table].get(key).is_some(), "{name} is not in the template");
        }
        names.sort();
        listed.sort();
        assert_eq!(names, listed);
        let mut endpoint = known_of("compression.openai");
        endpoint.sort();
        let mut expected = ENDPOINT_KEYS.map(str::to_owned).to_vec();
        expected.sort();
        assert_eq!(endpoint, expected);
        assert_eq!(Config::parse(&template).problems, []);
        assert_eq!(Config::parse(&template).config, Config::default());
    }

    #[test]
    fn the_readme_or_the_page_names_every_key() {
        let page = include_str!("../../../../docs/config.md");
        for key in Key::all() {
            assert!(page.contains(&format!("`{}`", key.name)), "{} is not in docs/config.md", key.name);
        }
    }

    #[test]
    fn numbers_have_ranges_and_every_default_is_allowed() {
        for key in Key::all() {
            assert_eq!(key.kind == Number, key.range().is_some(), "{}", key.name);
            let value = key.default_value();
            let fits = match key.kind {
                Switch => value.is_boolean(),
                Number => value.is_i64() || value.is_u64(),
                Dollars => value.is_f64(),
                Text => value.is_null(),
                Choice(names) => names.contains(&value.as_str().unwrap()),
                Texts | Choices(_) => value.is_array(),
            };
            assert!(fits, "{}: {value}", key.name);
        }
    }

    #[test]
    fn a_mistyped_key_finds_the_nearest() {
        for (typed, expected) in [
            ("context.start_token", "context.start_tokens"),
            ("contxt.notice", "context.notice"),
            ("retention_days", "timers.retention_days"),
            ("timer.retention_day", "timers.retention_days"),
            ("embeding.model", "embedding.model"),
            ("model", "compression.model"),
        ] {
            assert_eq!(Key::nearest(typed), Some(expected), "{typed}");
        }
        assert_eq!(Key::nearest("colour"), None);
        assert!(Key::find("compression.openai.model").is_some());
        assert!(Key::find("compression.openai.proxy").is_none());
    }
}
