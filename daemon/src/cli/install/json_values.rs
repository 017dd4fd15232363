//! Edits single values of a JSON settings file and keeps every other byte: an entry in a list of servers, a permission.
//!
//! **Guarantees.** As in [`hook_settings`](super::hook_settings). A user's object at the same place is merged: other
//! keys stay, and `enabled` keeps the user's value.

use jsonc_parser::cst::CstObject;
use serde_json::{Map, Value};

use super::hook_entry::input;
use super::hook_settings::{Parsed, Removal, SettingsError, value_of};
use recall_agents::settings::{JsonValues, PlacedValue};

/// The name of recall's entry.
const NAME: &str = "recall";
/// The key that the user may have set.
const USERS: &str = "enabled";

pub(super) fn install(
    json: &JsonValues,
    text: &str,
    values: &[PlacedValue],
) -> Result<String, SettingsError> {
    let file = Parsed::of(json.syntax, text)?;
    if let Some(why) = json.refused.and_then(|switch| switch.is_off(&file.value)) {
        return Err(SettingsError::Shape(vec![format!("{why}, so it would be ignored")]));
    }
    let settings = file.settings()?;
    for (path, wanted) in values {
        let Some((name, way)) = path.split_last() else { continue };
        let mut at = settings.clone();
        for (nth, key) in way.iter().enumerate() {
            let place = way.get(..=nth).unwrap_or_default().join(".");
            at = at
                .object_value_or_create(key)
                .ok_or_else(|| SettingsError::Shape(vec![format!("{place} is not an object")]))?;
        }
        put(&at, name, wanted);
    }
    if let Some(list) = json.allowed.and_then(|path| array_at(&settings, path)) {
        let names: Vec<Value> = list.elements().iter().map(value_of).collect();
        if !names.contains(&NAME.into()) {
            list.append(input(NAME.into()));
        }
    }
    Ok(file.text())
}

fn put(object: &CstObject, name: &str, wanted: &Value) {
    match (object.get(name), wanted) {
        (Some(property), Value::Object(fields)) if property.object_value().is_some() => {
            let Some(inner) = property.object_value() else { return };
            for (field, value) in fields {
                if field != USERS || inner.get(USERS).is_none() {
                    put(&inner, field, value);
                }
            }
        }
        (Some(property), _) if property.value().is_some_and(|node| value_of(&node) == *wanted) => {}
        (Some(property), _) => property.set_value(input(wanted.clone())),
        (None, _) => drop(object.append(name, input(wanted.clone()))),
    }
}

/// Removes recall's values, and the objects that become empty.
pub(super) fn uninstall(
    json: &JsonValues,
    text: &str,
    values: &[PlacedValue],
) -> Result<Removal, SettingsError> {
    let file = Parsed::of(json.syntax, text)?;
    let settings = file.settings()?;
    let mut entries = 0;
    for (path, _) in values {
        entries += usize::from(remove(&settings, path));
    }
    if let Some(list) = json.allowed.filter(|_| entries > 0).and_then(|path| array_at(&settings, path)) {
        let ours = list.elements().into_iter().filter(|node| value_of(node) == NAME);
        ours.for_each(|node| node.remove());
    }
    Ok(Removal { text: file.text(), entries })
}

fn remove(object: &CstObject, path: &[&str]) -> bool {
    let Some((key, rest)) = path.split_first() else { return false };
    let Some(property) = object.get(key) else { return false };
    if rest.is_empty() {
        let is_ours = property.value().is_some_and(|node| is_ours(&value_of(&node)));
        if is_ours {
            property.remove();
        }
        return is_ours;
    }
    let Some(inner) = property.object_value() else { return false };
    let removed = remove(&inner, rest);
    if removed && inner.properties().is_empty() {
        property.remove();
    }
    removed
}

/// Whether an entry with our name starts our program, or no program at all.
fn is_ours(entry: &Value) -> bool {
    let command = match entry.get("command") {
        Some(Value::Array(words)) => words.first().and_then(Value::as_str),
        Some(Value::String(program)) => Some(program.as_str()),
        Some(_) => return false,
        None => return true,
    };
    command.is_some_and(|program| program.rsplit(['/', '\\']).next() == Some(NAME))
}

fn array_at(settings: &CstObject, path: &[&str]) -> Option<jsonc_parser::cst::CstArray> {
    let (name, way) = path.split_last()?;
    let object = way.iter().try_fold(settings.clone(), |at, key| at.object_value(key))?;
    object.array_value(name)
}

/// Removes what installing may have added besides the values: empty objects around them.
pub(super) fn without_traces(values: &[PlacedValue], settings: &mut Value) {
    for (path, _) in values {
        let way = path.get(..path.len().saturating_sub(1)).unwrap_or_default();
        if let Some(settings) = settings.as_object_mut() {
            prune(settings, way);
        }
    }
}

fn prune(object: &mut Map<String, Value>, way: &[&str]) {
    let Some((key, rest)) = way.split_first() else { return };
    let Some(inner) = object.get_mut(*key).and_then(Value::as_object_mut) else { return };
    prune(inner, rest);
    if inner.is_empty() {
        object.shift_remove(*key);
    }
}
