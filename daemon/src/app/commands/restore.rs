//! Stores what was exported elsewhere. Excluded projects, secrets and private text are treated as everywhere.

use std::path::PathBuf;

use recall_protocol::privacy::strip_text;
use recall_protocol::query::Restore;
use recall_protocol::wire::ErrorKind;
use serde_json::Value;

use super::CommandContext;
use crate::app::answers::portable::RestoreAnswer;
use crate::app::clock;
use crate::app::ports::{Ports, Writer};
use crate::app::queries::{Answer, Refused};
use crate::memory::redaction::Redactor;
use crate::project_file::Captured;
use crate::store::{RestoreRows, name_fields, text_fields};

pub async fn restore(context: &CommandContext<impl Ports>, request: Restore) -> Answer<RestoreAnswer> {
    let mut lines = Vec::with_capacity(request.lines.len());
    let mut left_out = 0;
    for line in request.lines {
        match serde_json::from_str::<Value>(&line) {
            Ok(line) if !is_excluded(context, &line).await => lines.push(line),
            Ok(_) | Err(_) => left_out += 1,
        }
    }
    let redactor = context.ingest.redactor.get();
    let cleaned = tokio::task::spawn_blocking(move || {
        lines.iter_mut().for_each(|line| cleanse(line, &redactor));
        lines
    });
    let lines = cleaned.await.map_err(|_| {
        Refused::new(ErrorKind::Internal, "The daemon could not read the lines", "Its log says more.")
    })?;
    let restored = context.ports.writer().write(RestoreRows { lines, at: clock::now() }).await;
    let restored = restored.map_err(|error| {
        let what = format!("The lines could not be stored: {error}");
        Refused::new(ErrorKind::Internal, what, "Nothing of this part was stored. Try again.")
    })?;
    Ok(RestoreAnswer {
        added: restored.added,
        known: restored.known,
        skipped: restored.skipped + left_out,
        forgotten: restored.forgotten,
        unfit: restored.unfit,
        unpinned: restored.unpinned,
        aliases: restored.aliases,
    })
}

/// Whether a line is about an excluded project: its own folder or repository, that of its project, or a file that it names.
/// Rows of a session that is not stored are left out with it.
async fn is_excluded(context: &CommandContext<impl Ports>, line: &Value) -> bool {
    let capture_rules = &context.ingest.capture_rules;
    if !capture_rules.exclude_anything() {
        return false;
    }
    let text = |key: &str| line[key].as_str();
    let names = [text("key"), text("project")].into_iter().flatten();
    let aliases = line["aliases"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let keys: Vec<&str> = names.chain(aliases).collect();
    if keys.iter().any(|key| capture_rules.excludes_project(key)) {
        return true;
    }
    let folders = ["root", "cwd"].into_iter().filter_map(text);
    let of_keys = keys.iter().filter_map(|key| key.strip_prefix("path:"));
    let folders =
        folders.chain(of_keys).filter(|folder| folder.starts_with('/')).map(PathBuf::from).collect();
    let files = ["files_read", "files_modified"].into_iter().flat_map(|key| line[key].as_array());
    let files = files.flatten().filter_map(Value::as_str).chain(text("path"));
    let files: Vec<String> = files.filter(|file| file.starts_with('/')).map(str::to_owned).collect();
    let rules = capture_rules.event_rules(folders, files).await;
    rules.captured() == Captured::No || !rules.elsewhere.is_empty()
}

fn cleanse(line: &mut Value, redactor: &Redactor) {
    let kind = line["kind"].as_str().unwrap_or_default().to_owned();
    let text = |text: &str| redactor.redact_text(&strip_text(text).text).into_owned();
    let name = |name: &str| redactor.redact_id(&strip_text(name).text).into_owned();
    let mut cleanse_field = |field: &str, cleansed: &dyn Fn(&str) -> String| {
        if let Some(value) = line.get_mut(field) {
            cleanse_texts(value, cleansed);
        }
    };
    text_fields(&kind).for_each(|field| cleanse_field(field, &text));
    name_fields(&kind).for_each(|field| cleanse_field(field, &name));
    if kind == "project" {
        ["key", "name"].into_iter().for_each(|field| cleanse_field(field, &name));
    }
}

fn cleanse_texts(value: &mut Value, cleansed: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = cleansed(text),
        Value::Array(values) => values.iter_mut().for_each(|value| cleanse_texts(value, cleansed)),
        Value::Object(fields) => fields.values_mut().for_each(|value| cleanse_texts(value, cleansed)),
        _ => {}
    }
}
