//! Determines the value of each key and its origin. Changes single keys and keeps comments.

use std::path::Path;

use serde_json::Value;
use thiserror::Error;
use toml_edit::{DocumentMut, Item, Table};

use super::compression::other_host;
use super::embedding::EmbeddingPolicy;
use super::keys::{Key, KeyKind, endpoint_names, value_of};
use super::{Config, MOST_BYTES, Problem, reading};
use recall_domain::text::one_line;
use recall_system::trusted_file::{self, Links};

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub key: Key,
    /// The effective value. `Null` if nothing is set.
    pub value: Value,
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// The line of the file, from 1.
    File(usize),
    /// The file contains the key, but its value is invalid and therefore ignored.
    Ignored(usize),
}

/// Why a key cannot be changed.
#[derive(Debug, Error)]
pub enum ChangeError {
    #[error("{key} cannot be {value:?}; it must be {allowed}")]
    Kind { key: String, value: String, allowed: String },
    #[error("{key} takes one value, but {count} were given")]
    Several { key: String, count: usize },
    /// The value has the right type, but violates limits or other keys.
    #[error("{what}")]
    Refused { what: String },
    #[error("the file is not valid TOML: {what}")]
    NotToml { what: String },
}

impl Config {
    /// Returns each key with its value, in the order of the template. If the file is missing or unreadable, all values
    /// are the defaults.
    pub fn settings(path: &Path) -> Vec<Setting> {
        let text = trusted_file::read_text(path, Links::OfOurs, MOST_BYTES).unwrap_or_default();
        settings_of(&text)
    }
}

fn settings_of(text: &str) -> Vec<Setting> {
    let written = reading::read(text).written;
    let lines = reading::lines_of_keys(text);
    let of_endpoints =
        endpoint_names().filter(|name| lines.contains_key(name)).filter_map(|name| Key::find(&name));
    Key::all()
        .chain(of_endpoints)
        .map(|key| {
            let value = value_of(&written, &key.name);
            let origin = match lines.get(&key.name) {
                None => Origin::Default,
                // If one element of a list is invalid, the others still apply.
                Some((line, file_value))
                    if *file_value == value || value.is_array() && value != key.default_value() =>
                {
                    Origin::File(*line)
                }
                Some((line, _)) => Origin::Ignored(*line),
            };
            Setting { key, value, origin }
        })
        .collect()
}

/// Sets the key to these values and returns the new text. Comments and everything else stay unchanged.
pub fn set(text: &str, key: &Key, values: &[String]) -> Result<String, ChangeError> {
    let value = parsed(key, values)?;
    let mut document = document(text)?;
    let (tables, own) = key.name.rsplit_once('.').unwrap_or(("", &key.name));
    let mut here: &mut Table = document.as_table_mut();
    for name in tables.split('.') {
        let is_new = !here.contains_key(name);
        let next = here.entry(name).or_insert_with(|| Item::Table(Table::new()));
        let message = format!("{name} is not a table");
        here = next.as_table_mut().ok_or(ChangeError::NotToml { what: message })?;
        here.set_implicit(is_new && name != tables.rsplit('.').next().unwrap_or_default());
    }
    match here.get_mut(own).and_then(Item::as_value_mut) {
        Some(old) => {
            // Keeps the comment after the value.
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => {
            here.insert(own, Item::Value(value));
        }
    }
    checked(text, document.to_string())
}

/// Removes the key and returns the new text; it is unchanged if it does not contain the key.
pub fn unset(text: &str, key: &Key) -> Result<String, ChangeError> {
    let mut document = document(text)?;
    let (tables, own) = key.name.rsplit_once('.').unwrap_or(("", &key.name));
    let mut here: &mut Table = document.as_table_mut();
    for name in tables.split('.') {
        match here.get_mut(name).and_then(Item::as_table_mut) {
            Some(next) => here = next,
            None => return Ok(text.to_owned()),
        }
    }
    here.remove(own);
    checked(text, document.to_string())
}

/// Returns all problems of a text.
pub fn problems(text: &str) -> Vec<Problem> {
    reading::read(text).problems
}

/// The host of an address, if it is not this machine.
pub fn recipient_at(address: &str) -> Option<String> {
    other_host(address)
}

/// Where these settings send the text of sessions: hosts other than this machine, and programs that send it to their
/// provider.
pub fn recipients(text: &str) -> Vec<String> {
    let config = reading::read(text).written.into_config();
    let models = config.compression.backends.iter().filter_map(|backend| match backend.kind {
        kind if kind.is_program() => Some("the provider of the program that writes the notes".to_owned()),
        _ => other_host(&backend.base_url),
    });
    let server = match &config.embedding {
        EmbeddingPolicy::OpenAi { backend, .. } => other_host(&backend.base_url),
        EmbeddingPolicy::None | EmbeddingPolicy::Local { .. } => None,
    };
    models.chain(server).collect()
}

pub(super) fn document(text: &str) -> Result<DocumentMut, ChangeError> {
    text.parse::<DocumentMut>().map_err(|error| {
        let place = error.span().map(|span| reading::place(text, span.start)).unwrap_or_default();
        ChangeError::NotToml { what: format!("{place}{}", one_line(error.message())) }
    })
}

/// Refuses a change that adds a problem.
pub(super) fn checked(before: &str, after: String) -> Result<String, ChangeError> {
    let earlier = problems(before);
    let is_new = |problem: &Problem| !earlier.iter().any(|old| old.what == problem.what);
    match problems(&after).into_iter().find(is_new) {
        Some(problem) => Err(ChangeError::Refused { what: problem.what }),
        None => Ok(after),
    }
}

fn parsed(key: &Key, values: &[String]) -> Result<toml_edit::Value, ChangeError> {
    let refused = |value: &str| ChangeError::Kind {
        key: key.name.clone(),
        value: value.to_owned(),
        allowed: key.allowed(),
    };
    if let KeyKind::Texts | KeyKind::Choices(_) = key.kind {
        // A list may also be given in the notation of the file.
        if let [list] = values
            && list.trim_start().starts_with('[')
            && let Ok(array @ toml_edit::Value::Array(_)) = list.trim().parse()
        {
            return Ok(array);
        }
        if let KeyKind::Choices(names) = key.kind
            && let Some(wrong) = values.iter().find(|value| !names.contains(&value.as_str()))
        {
            return Err(refused(wrong));
        }
        return Ok(values.iter().collect::<toml_edit::Array>().into());
    }
    let [value] = values else {
        return Err(ChangeError::Several { key: key.name.clone(), count: values.len() });
    };
    let value = value.trim();
    match key.kind {
        KeyKind::Switch => match value {
            "true" | "on" | "yes" => Ok(true.into()),
            "false" | "off" | "no" => Ok(false.into()),
            _ => Err(refused(value)),
        },
        KeyKind::Number => value.replace('_', "").parse::<i64>().map(Into::into).map_err(|_| refused(value)),
        KeyKind::Dollars => value.parse::<f64>().map(Into::into).map_err(|_| refused(value)),
        KeyKind::Choice(names) if !names.contains(&value) => Err(refused(value)),
        _ => Ok(value.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> Key {
        Key::find(name).unwrap()
    }

    fn given(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    #[test]
    fn a_change_keeps_comments_and_everything_else() {
        let text = "# mine\n[timers] # here\nbatch_idle_s = 5 # short\n\n[context]\n# later\nnotice = true\n";
        let changed = set(text, &key("timers.batch_idle_s"), &given(&["7"])).unwrap();
        assert_eq!(changed, text.replace("= 5 #", "= 7 #"));
        let added = set(&changed, &key("context.start_tokens"), &given(&["100"])).unwrap();
        assert_eq!(added, format!("{changed}start_tokens = 100\n"));
        let new = set("", &key("compression.openai.model"), &given(&["llama"])).unwrap();
        assert_eq!(new, "[compression.openai]\nmodel = \"llama\"\n");
        let list = set("", &key("capture.exclude"), &given(&["~/a", "b"])).unwrap();
        assert_eq!(list, "[capture]\nexclude = [\"~/a\", \"b\"]\n");
        assert_eq!(set("", &key("capture.exclude"), &given(&["['~/a', 'b']"])).unwrap().len(), list.len());
        let without = unset(&added, &key("timers.batch_idle_s")).unwrap();
        assert!(!without.contains("batch_idle_s") && without.contains("# later"), "{without}");
        assert_eq!(unset(text, &key("mcp.write")).unwrap(), text);
    }

    #[test]
    fn a_bad_value_is_rejected_and_the_allowed_values_are_named() {
        #[track_caller]
        fn refused(name: &str, values: &[&str], expected: &str) {
            let error = set("", &key(name), &given(values)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        refused("timers.batch_idle_s", &["soon"], "it must be a whole number from 1 to 86400");
        refused("timers.batch_idle_s", &["0"], "it must be 1 to 86400");
        refused("timers.batch_idle_s", &["1", "2"], "takes one value");
        refused("context.notice", &["maybe"], "true or false");
        refused("durability.sync", &["fast"], "one of full, normal");
        refused("compression.backend", &["openai"], "compression.model is missing");
        refused("compression.fallback", &["magic"], "a list of extractive, anthropic");
        refused("redaction.extra", &["("], "is not a valid pattern");
        let torn = set("[timers\n", &key("mcp.write"), &given(&["true"])).unwrap_err();
        assert!(torn.to_string().contains("line 1, column"), "{torn}");
        // An existing mistake does not block a change.
        set("[timers]\nbatch = 1\n", &key("mcp.write"), &given(&["true"])).unwrap();
    }

    #[test]
    fn each_setting_shows_where_its_value_comes_from() {
        let text = "[timers]\nbatch_idle_s = 7\nhousekeeping_s = 0\n[compression.openai]\nmodel = 'm'\n";
        let settings = settings_of(text);
        let of = |name: &str| settings.iter().find(|setting| setting.key.name == name).unwrap();
        assert_eq!(
            (&of("timers.batch_idle_s").value, of("timers.batch_idle_s").origin),
            (&json!(7), Origin::File(2))
        );
        assert_eq!(of("timers.housekeeping_s").origin, Origin::Ignored(3));
        assert_eq!(of("timers.housekeeping_s").value, json!(60));
        assert_eq!(of("timers.session_idle_s").origin, Origin::Default);
        assert_eq!(of("compression.openai.model").origin, Origin::File(5));
    }
}
