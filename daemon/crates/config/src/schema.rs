//! The JSON Schema of `config.toml`, which editors use to complete and check the file.

use serde_json::{Map, Value, json};

use super::keys::{Key, KeyKind, endpoint_names};

/// Returns the schema, in draft 2020-12.
pub fn schema() -> Value {
    let mut tables = Map::new();
    for key in Key::all().chain(endpoint_names().filter_map(|name| Key::find(&name))) {
        put(&mut tables, &key.name, of_key(&key));
    }
    for (list, required, optional) in [
        ("subscribe", &["events", "command"][..], &["mode"][..]),
        ("hint", &["pattern", "text"], &[]),
        ("remote", &["name", "url"], &["password_env", "password_file", "password_keyring", "plaintext"]),
        ("share", &["project", "remote"], &["inject", "personal", "prompts", "answers"]),
    ] {
        tables.insert(list.to_owned(), entries(required, optional));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The settings of recall",
        "type": "object",
        "additionalProperties": false,
        "properties": tables,
    })
}

/// Inserts the schema of a key into that of its table, which is created for its first key.
fn put(properties: &mut Map<String, Value>, name: &str, schema: Value) {
    let Some((table, rest)) = name.split_once('.') else {
        properties.insert(name.to_owned(), schema);
        return;
    };
    let empty = || json!({"type": "object", "additionalProperties": false, "properties": {}});
    let inner = properties.entry(table).or_insert_with(empty).get_mut("properties");
    if let Some(Value::Object(inner)) = inner {
        put(inner, rest, schema);
    }
}

/// The schema of a list of tables with these keys.
fn entries(required: &[&str], optional: &[&str]) -> Value {
    let known: Map<String, Value> =
        required.iter().chain(optional).map(|key| ((*key).to_owned(), json!(true))).collect();
    json!({"type": "array", "items": {
        "type": "object", "additionalProperties": false, "properties": known, "required": required,
    }})
}

fn of_key(key: &Key) -> Value {
    let mut schema = match key.kind {
        KeyKind::Switch => json!({"type": "boolean"}),
        KeyKind::Number => json!({"type": "integer"}),
        KeyKind::Dollars => json!({"type": "number"}),
        KeyKind::Text => json!({"type": "string"}),
        KeyKind::Choice(names) => json!({"enum": names}),
        KeyKind::Texts => json!({"type": "array", "items": {"type": "string"}}),
        KeyKind::Choices(names) => json!({"type": "array", "items": {"enum": names}}),
    };
    schema["description"] = json!(key.meaning);
    if let Some((least, most)) = key.limits() {
        schema["minimum"] = json!(least);
        schema["maximum"] = json!(most);
    }
    match key.default_value() {
        Value::Null => {}
        default => schema["default"] = default,
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_describes_every_key() {
        let schema = schema();
        let of = |table: &str, key: &str| schema["properties"][table]["properties"][key].clone();
        let idle = of("timers", "batch_idle_s");
        assert_eq!(
            (&idle["type"], &idle["minimum"], &idle["maximum"], &idle["default"]),
            (&json!("integer"), &json!(1), &json!(86_400), &json!(300))
        );
        assert_eq!(of("durability", "sync")["enum"], json!(["full", "normal"]));
        let endpoint = of("compression", "openai");
        assert_eq!(endpoint["properties"]["model"]["type"], "string");
        assert_eq!(schema["properties"]["share"]["items"]["required"], json!(["project", "remote"]));
        for key in Key::all() {
            let (table, own) = key.name.split_once('.').unwrap();
            assert!(of(table, own)["description"].is_string(), "{}", key.name);
        }
    }
}
