//! Edits a TOML settings file and keeps every other byte: hooks as arrays of tables, one table of values.
//!
//! Hooks are appended after the user's, because the agent remembers allowed hooks by position.

use serde_json::{Map, Value};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table};

use super::hook_entry::{Hook, shim_of};
use super::hook_settings::{FoundEntry, MatcherScope, Removal, SettingsError};

/// The key under which the agent keeps its own records among the events.
const STATE: &str = "state";

fn parse(text: &str) -> Result<DocumentMut, SettingsError> {
    text.parse::<DocumentMut>().map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        SettingsError::Json { line, column, what: error.message().replace('\n', ", ") }
    })
}

/// Parses the whole file; `None` if it is not TOML.
pub(super) fn value(text: &str) -> Option<Value> {
    toml::from_str(text).ok()
}

/// Whether others have hooks here.
pub(super) fn has_others_hooks(text: &str) -> bool {
    let Some(value) = value(text) else { return false };
    let events = value.get("hooks").and_then(Value::as_object);
    let groups = events
        .into_iter()
        .flatten()
        .filter(|(event, _)| *event != STATE)
        .flat_map(|(_, groups)| groups.as_array());
    groups.flatten().any(|group| {
        let entries = group.get("hooks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        entries.iter().any(|entry| shim_of(entry).is_none())
    })
}

/// Returns recall's entries.
pub(super) fn survey(text: &str) -> Vec<FoundEntry> {
    let value = value(text).unwrap_or_default();
    let mut found = Vec::new();
    for (event, groups) in value.get("hooks").and_then(Value::as_object).into_iter().flatten() {
        for group in groups.as_array().into_iter().flatten() {
            let reach = if group.get("matcher").is_some() { MatcherScope::Some } else { MatcherScope::Every };
            for entry in group.get("hooks").and_then(Value::as_array).into_iter().flatten() {
                if let Some(shim) = shim_of(entry) {
                    found.push(FoundEntry { event: event.clone(), shim, entry: entry.clone(), reach });
                }
            }
        }
    }
    found
}

/// Registers exactly these hooks. Returns equal text if nothing changes.
pub(super) fn install_hooks(text: &str, hooks: &[Hook]) -> Result<String, SettingsError> {
    let present = survey(text);
    let is_there = |hook: &Hook| {
        present.iter().any(|entry| entry.event == hook.event && hook.is_written_as(&entry.entry))
    };
    if present.len() == hooks.len() && hooks.iter().all(is_there) {
        return Ok(text.to_owned());
    }
    let mut file = parse(&uninstall_hooks(text)?.text)?;
    let events = file.entry("hooks").or_insert_with(implicit);
    let events = events.as_table_mut().ok_or_else(|| unusual("hooks"))?;
    for hook in hooks {
        let groups = events.entry(hook.event).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let groups = groups.as_array_of_tables_mut().ok_or_else(|| unusual(hook.event))?;
        let mut entries = ArrayOfTables::new();
        entries.push(table(&hook.entry));
        let mut group = Table::new();
        group.insert("hooks", Item::ArrayOfTables(entries));
        groups.push(group);
    }
    Ok(file.to_string())
}

pub(super) fn uninstall_hooks(text: &str) -> Result<Removal, SettingsError> {
    let mut file = parse(text)?;
    let mut entries = 0;
    if let Some(events) = file.get_mut("hooks").and_then(Item::as_table_mut) {
        let names: Vec<String> = events.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let Some(groups) = events.get_mut(&name).and_then(Item::as_array_of_tables_mut) else { continue };
            let before = entries;
            let mut emptied = Vec::new();
            for (place, group) in groups.iter_mut().enumerate() {
                let Some(inner) = group.get_mut("hooks").and_then(Item::as_array_of_tables_mut) else {
                    continue;
                };
                let had = inner.len();
                inner.retain(|entry| shim_of(&json(entry)).is_none());
                entries += had - inner.len();
                if inner.is_empty() && had > 0 {
                    emptied.push(place);
                }
            }
            for place in emptied.into_iter().rev() {
                groups.remove(place);
            }
            if groups.is_empty() && entries > before {
                events.remove(&name);
            }
        }
        if events.is_empty() && entries > 0 {
            file.remove("hooks");
        }
    }
    Ok(Removal { text: file.to_string(), entries })
}

/// Returns recall's entries in a list of tables.
pub(super) fn survey_list(text: &str, key: &str) -> Vec<FoundEntry> {
    let value = value(text).unwrap_or_default();
    let entries = value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let found = entries.iter().filter_map(|entry| {
        let reach = if entry.get("matcher").is_some() { MatcherScope::Some } else { MatcherScope::Every };
        let event = entry.get("event")?.as_str()?.to_owned();
        Some(FoundEntry { event, shim: shim_of(entry)?, entry: entry.clone(), reach })
    });
    found.collect()
}

/// Registers exactly these hooks, after the user's. Returns equal text if nothing changes.
pub(super) fn install_list(text: &str, key: &str, hooks: &[Hook]) -> Result<String, SettingsError> {
    let present = survey_list(text, key);
    let is_there = |hook: &Hook| present.iter().any(|entry| hook.is_written_as(&entry.entry));
    if present.len() == hooks.len() && hooks.iter().all(is_there) {
        return Ok(text.to_owned());
    }
    let mut file = parse(&uninstall_list(text, key)?.text)?;
    let list = file.entry(key).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let list = list.as_array_of_tables_mut().ok_or_else(|| unusual(key))?;
    for hook in hooks {
        list.push(table(&hook.entry));
    }
    Ok(file.to_string())
}

pub(super) fn uninstall_list(text: &str, key: &str) -> Result<Removal, SettingsError> {
    let mut file = parse(text)?;
    let mut entries = 0;
    if let Some(list) = file.get_mut(key).and_then(Item::as_array_of_tables_mut) {
        let had = list.len();
        list.retain(|entry| shim_of(&json(entry)).is_none());
        entries = had - list.len();
        if list.is_empty() && entries > 0 {
            file.remove(key);
        }
    }
    Ok(Removal { text: file.to_string(), entries })
}

/// Sets the values of the table at this path, keeping its other keys.
pub(super) fn install_table(
    text: &str,
    path: &[&str],
    values: &Map<String, Value>,
) -> Result<String, SettingsError> {
    let mut file = parse(text)?;
    let mut at = file.as_table_mut();
    for (nth, key) in path.iter().enumerate() {
        let is_last = nth + 1 == path.len();
        let new = || if is_last { Item::Table(Table::new()) } else { implicit() };
        at = at.entry(key).or_insert_with(new).as_table_mut().ok_or_else(|| unusual(&path.join(".")))?;
    }
    for (name, wanted) in values {
        let wanted = item(wanted);
        let same = at.get(name).is_some_and(|found| json_of(found) == json_of(&wanted));
        if !same {
            at.insert(name, wanted);
        }
    }
    Ok(file.to_string())
}

/// Removes the table at this path.
pub(super) fn uninstall_table(text: &str, path: &[&str]) -> Result<Removal, SettingsError> {
    let mut file = parse(text)?;
    let entries = usize::from(remove(file.as_table_mut(), path));
    Ok(Removal { text: file.to_string(), entries })
}

fn remove(table: &mut Table, path: &[&str]) -> bool {
    let Some((key, rest)) = path.split_first() else { return false };
    if rest.is_empty() {
        return table.remove(key).is_some();
    }
    let Some(inner) = table.get_mut(key).and_then(Item::as_table_mut) else { return false };
    let removed = remove(inner, rest);
    if removed && inner.is_empty() {
        table.remove(key);
    }
    removed
}

fn implicit() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

fn unusual(place: &str) -> SettingsError {
    SettingsError::Shape(vec![format!("{place} is not written as tables")])
}

fn table(entry: &Map<String, Value>) -> Table {
    entry.iter().map(|(name, value)| (name.as_str(), item(value))).collect()
}

fn item(value: &Value) -> Item {
    match value {
        Value::Bool(bool) => toml_edit::value(*bool),
        Value::Number(number) => toml_edit::value(number.as_i64().unwrap_or_default()),
        Value::Array(words) => {
            let words = words.iter().filter_map(Value::as_str);
            toml_edit::value(words.collect::<toml_edit::Array>())
        }
        Value::String(text) => toml_edit::value(text.as_str()),
        Value::Null | Value::Object(_) => Item::None,
    }
}

fn json(table: &Table) -> Value {
    table.iter().map(|(name, item)| (name.to_owned(), json_of(item))).collect()
}

fn json_of(item: &Item) -> Value {
    let Some(value) = item.as_value() else { return Value::Null };
    match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(bool) => (*bool.value()).into(),
        toml_edit::Value::Array(items) => {
            items.iter().map(|item| json_of(&Item::Value(item.clone()))).collect()
        }
        other => other.to_string().into(),
    }
}
