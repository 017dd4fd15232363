//! recall's part of one settings file of any kind: adds it, removes it, and checks whether it is there.

use serde_json::{Map, Value};

use super::hook_entry::Hook;
use super::hook_settings::{self, Parsed, Removal, SettingsError};
use super::{json_values, toml_settings};
use recall_agents::settings::{JsonHooks, JsonValues, KeyPath, OwnFile, OwnKind, PlacedValue, TomlList};

/// recall's part of a file, ready to write.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    JsonHooks(&'static JsonHooks, Vec<Hook>),
    TomlHooks(Vec<Hook>),
    JsonValues(&'static JsonValues, Vec<PlacedValue>),
    TomlList(&'static TomlList, Vec<Hook>),
    TomlTable(KeyPath, Map<String, Value>),
    /// The whole text of a file.
    OwnFile(String, OwnKind),
}

impl Wanted {
    /// Returns the text with recall's part. Equal text if nothing changes.
    pub(super) fn put(&self, before: Option<&str>) -> Result<String, SettingsError> {
        let text = before.unwrap_or_default();
        match self {
            Self::JsonHooks(json, hooks) => hook_settings::install(json, text, hooks),
            Self::TomlHooks(hooks) => toml_settings::install_hooks(text, hooks),
            Self::JsonValues(json, values) => json_values::install(json, text, values),
            Self::TomlList(list, hooks) => toml_settings::install_list(text, list.key, hooks),
            Self::TomlTable(path, values) => toml_settings::install_table(text, path, values),
            Self::OwnFile(..) if before.is_some_and(|text| !text.trim().is_empty() && !is_our_file(text)) => {
                Err(SettingsError::Foreign)
            }
            Self::OwnFile(wanted, _) => Ok(wanted.clone()),
        }
    }

    /// Returns the text without recall's part. A file of recall's own becomes empty.
    pub(super) fn take(&self, text: &str) -> Result<Removal, SettingsError> {
        match self {
            Self::JsonHooks(json, _) => hook_settings::uninstall(json, text),
            Self::TomlHooks(_) => toml_settings::uninstall_hooks(text),
            Self::JsonValues(json, values) => json_values::uninstall(json, text, values),
            Self::TomlList(list, _) => toml_settings::uninstall_list(text, list.key),
            Self::TomlTable(path, _) => toml_settings::uninstall_table(text, path),
            Self::OwnFile(..) if is_our_file(text) => Ok(Removal { text: String::new(), entries: 1 }),
            Self::OwnFile(..) => Ok(Removal { text: text.to_owned(), entries: 0 }),
        }
    }

    /// Whether the text contains anything of recall's.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.take(text).is_ok_and(|removal| removal.entries > 0)
    }

    /// Parses the settings; `None` if they cannot be parsed.
    fn meaning(&self, text: &str) -> Option<Value> {
        match self {
            Self::JsonHooks(json, _) => Some(Parsed::of(json.syntax, text).ok()?.value),
            Self::JsonValues(json, _) => Some(Parsed::of(json.syntax, text).ok()?.value),
            Self::TomlHooks(_) | Self::TomlList(..) | Self::TomlTable(..) => toml_settings::value(text),
            Self::OwnFile(..) => Some(Value::Object(Map::new())),
        }
    }

    fn remove_traces(&self, settings: &mut Value) {
        match self {
            Self::JsonHooks(json, _) => hook_settings::without_traces(json, settings),
            Self::JsonValues(_, values) => json_values::without_traces(values, settings),
            Self::TomlHooks(_) | Self::TomlList(..) | Self::TomlTable(..) | Self::OwnFile(..) => {}
        }
    }
}

/// Parses the text without possible leftovers of these parts. After an uninstall, this recognises the settings from
/// before the installation.
pub(super) fn meaning_without_traces(parts: &[Wanted], text: &str) -> Option<Value> {
    let mut meaning = parts.first()?.meaning(text)?;
    for part in parts {
        part.remove_traces(&mut meaning);
    }
    Some(meaning)
}

fn is_our_file(text: &str) -> bool {
    text.contains(OwnFile::MARK)
}
