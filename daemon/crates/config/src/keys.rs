//! The keys of `config.toml`, for code that shows, sets and explains them. [`super::tables`] declares them.

use std::fmt::Write as _;

use serde_json::Value;

use super::Written;
use super::table::Declared;
pub use super::table::KeyKind;
use super::tables::TABLES;
use recall_search::edit_distance::nearest_name;

/// A key with its table, for example `timers.batch_idle_s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub name: String,
    pub meaning: String,
    pub kind: KeyKind,
    /// The additional explanation in `docs/config.md`.
    details: String,
    limits: Option<(i64, i64)>,
}

/// The possible values of `NAME` in `[compression.NAME]`.
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
/// The keys of `[compression]` that such a table may contain.
const ENDPOINT_KEYS: [&str; 7] = [
    "model",
    "base_url",
    "api_key_env",
    "api_key_file",
    "api_key_keyring",
    "usd_per_mtok_in",
    "usd_per_mtok_out",
];
use KeyKind::{Choice, Choices, Dollars, Number, Switch, Text, Texts};

impl From<&Declared> for Key {
    fn from(key: &Declared) -> Self {
        let (meaning, details) = key.help.split_once("\n\n").unwrap_or((key.help, ""));
        let in_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            name: key.name.to_owned(),
            meaning: in_one_line(meaning),
            kind: key.kind,
            details: in_one_line(details),
            limits: key.limits,
        }
    }
}

/// All declared keys, in the order of the template.
fn declared() -> impl Iterator<Item = &'static Declared> {
    TABLES.iter().flat_map(|table| table.keys)
}

impl Key {
    /// All keys except those of tables such as `[compression.openai]`.
    pub fn all() -> impl Iterator<Item = Self> {
        declared().map(Self::from)
    }

    /// Finds a key by its name, including keys of tables such as `[compression.openai]`.
    pub fn find(name: &str) -> Option<Self> {
        let plain = endpoint_key(name).map_or_else(|| name.to_owned(), |key| format!("compression.{key}"));
        Self::all().find(|key| key.name == plain).map(|key| Self { name: name.to_owned(), ..key })
    }

    /// The most similar known key.
    pub fn nearest(name: &str) -> Option<&'static str> {
        let known = || declared().map(|key| key.name);
        let last = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
        // The table is missing or wrong.
        let own = name.rsplit('.').next().unwrap_or(name);
        let same = || known().filter(|known| last(known) == own);
        let found = nearest_name(name, same()).or_else(|| same().next());
        found.or_else(|| nearest_name(name, known())).or_else(|| {
            let near = nearest_name(own, known().map(last))?;
            known().find(|known| last(known) == near)
        })
    }

    /// The allowed values, worded to follow "it must be".
    pub fn allowed(&self) -> String {
        match self.kind {
            Switch => "true or false".to_owned(),
            Number | Dollars => {
                let what = if self.kind == Number { "a whole number" } else { "a number of dollars" };
                let limits = self.limits.map(|(least, most)| format!(" from {least} to {most}"));
                format!("{what}{}", limits.unwrap_or_default())
            }
            Text => "a text".to_owned(),
            Choice(names) => format!("one of {}", names.join(", ")),
            Texts => "a list of texts".to_owned(),
            Choices(names) => format!("a list of {}", names.join(", ")),
        }
    }

    /// The names of which one or several may be chosen.
    pub fn choices(&self) -> Option<&'static [&'static str]> {
        match self.kind {
            Choice(names) | Choices(names) => Some(names),
            Switch | Number | Dollars | Text | Texts => None,
        }
    }

    /// The minimum and the maximum.
    pub fn limits(&self) -> Option<(i64, i64)> {
        self.limits
    }

    /// `Null` if it has none.
    pub fn default_value(&self) -> Value {
        value_of(&Written::default(), &self.name)
    }
}

/// Returns `model` for `compression.openai.model`.
fn endpoint_key(name: &str) -> Option<&str> {
    let (table, key) = name.strip_prefix("compression.")?.split_once('.')?;
    (ENDPOINTS.contains(&table) && ENDPOINT_KEYS.contains(&key)).then_some(key)
}

/// All key names of tables such as `[compression.openai]`.
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

/// The value in the notation of the file; empty for `Null`.
pub fn as_toml(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Array(list) => format!("[{}]", list.iter().map(as_toml).collect::<Vec<_>>().join(", ")),
        Value::String(text) => toml_edit::value(text.as_str()).to_string().trim().to_owned(),
        other => other.to_string(),
    }
}

/// A file that contains every key with its default, as comments.
pub fn template() -> String {
    let mut text = String::from(
        "# The settings of recall. Every key is optional; a line that begins with # has no effect.\n\
         # `recall config list` shows the values that apply, `recall config set KEY VALUE` changes one key.\n",
    );
    let mut table = String::new();
    for key in Key::all() {
        let (section, own) = key.name.split_once('.').unwrap_or(("", &key.name));
        if section != table {
            let _ = write!(text, "\n[{section}]\n");
            table = section.to_owned();
        }
        let default = match key.default_value() {
            Value::Null => "\"\"".to_owned(),
            value => as_toml(&value),
        };
        let _ = write!(text, "# {}: {}.\n# {own} = {default}\n", key.meaning, key.allowed());
    }
    text.push_str(
        "\n# A command that runs on lifecycle events and reads them as JSON; there may be several.\n\
         # [[subscribe]]\n# events = [\"session_end\"]\n# command = [\"notify-send\", \"a session has ended\"]\n\
         # mode = \"each\"  # or \"stream\": it keeps running, and reads a line for each\n\
         \n# A text of yours, injected at prompts that contain a word; there may be several.\n\
         # [[hint]]\n# pattern = \"tdd\"\n# text = \"Write a failing test first.\"\n\
         \n# A folder or a database that several machines see, and a project whose notes they share through it: `recall share`.\n\
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
    fn the_key_list_and_the_template_contain_every_key() {
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

    /// The table of `docs/config.md`.
    fn page_table() -> String {
        let mut table = String::from("| key | default | allowed | meaning |\n|---|---|---|---|\n");
        for key in Key::all() {
            let default = match key.default_value() {
                Value::Null => "none".to_owned(),
                value => format!("`{}`", as_toml(&value)),
            };
            let description = format!("{}. {}", key.meaning, key.details);
            let _ = writeln!(
                table,
                "| `{}` | {default} | {} | {} |",
                key.name,
                key.allowed(),
                description.trim_end()
            );
        }
        table
    }

    #[test]
    fn the_docs_page_has_the_current_key_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/config.md");
        let page = std::fs::read_to_string(path).unwrap();
        let begins = page.find("| key | ").unwrap();
        let rows = page[begins..].split_inclusive('\n').take_while(|line| line.starts_with('|'));
        let ends = begins + rows.map(str::len).sum::<usize>();
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::write(path, format!("{}{}{}", &page[..begins], page_table(), &page[ends..])).unwrap();
        } else {
            assert_eq!(page[begins..ends], page_table(), "INSTA_UPDATE=always writes it anew");
        }
    }

    #[test]
    fn number_keys_have_limits_and_every_default_is_allowed() {
        for key in Key::all() {
            assert_eq!(matches!(key.kind, Number | Dollars), key.limits.is_some(), "{}", key.name);
            let value = key.default_value();
            let fits = match key.kind {
                Switch => value.is_boolean(),
                Number => value.as_i64().is_some_and(|value| {
                    key.limits.is_some_and(|(least, most)| (least..=most).contains(&value))
                }),
                Dollars => value.as_f64().is_some_and(|value| {
                    key.limits.is_some_and(|(least, most)| (least as f64..=most as f64).contains(&value))
                }),
                Text => value.is_null(),
                Choice(names) => names.contains(&value.as_str().unwrap()),
                Texts | Choices(_) => value.is_array(),
            };
            assert!(fits, "{}: {value}", key.name);
        }
    }

    #[test]
    fn each_number_outside_its_limits_is_reported() {
        for key in Key::all() {
            let Some((least, most)) = key.limits else { continue };
            let (table, own) = key.name.split_once('.').unwrap();
            let dot = if key.kind == Dollars { ".5" } else { "" };
            for wrong in [least - 1, most + 1] {
                let problems = reading::read(&format!("[{table}]\n{own} = {wrong}{dot}\n")).problems;
                let expected = format!("{} is {wrong}{dot}; it must be ", key.name);
                assert!(problems.iter().any(|problem| problem.what.starts_with(&expected)), "{problems:?}");
            }
        }
    }

    #[test]
    fn a_mistyped_key_finds_the_nearest_known_key() {
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
