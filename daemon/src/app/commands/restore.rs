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
use crate::store::{RestoreRows, text_fields};

pub async fn restore(context: &CommandContext<impl Ports>, request: Restore) -> Answer<RestoreAnswer> {
    let mut lines = Vec::with_capacity(request.lines.len());
    let mut left_out = 0;
    for line in request.lines {
        let Ok(line) = serde_json::from_str::<Value>(&line) else {
            left_out += 1;
            continue;
        };
        if is_excluded(context, &line).await {
            left_out += 1;
            continue;
        }
        lines.push(line);
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
    Ok(RestoreAnswer { added: restored.added, known: restored.known, skipped: restored.skipped + left_out })
}

/// Rows of a session that is not stored are left out with it.
async fn is_excluded(context: &CommandContext<impl Ports>, line: &Value) -> bool {
    let capture_rules = &context.ingest.capture_rules;
    if line["kind"] != "session" || !capture_rules.exclude_anything() {
        return false;
    }
    let folders = ["root", "cwd"].into_iter().filter_map(|key| line[key].as_str());
    let folders: Vec<PathBuf> = folders.filter(|folder| folder.starts_with('/')).map(PathBuf::from).collect();
    capture_rules.event_rules(folders, Vec::new()).await.captured() == Captured::No
}

fn cleanse(line: &mut Value, redactor: &Redactor) {
    let kind = line["kind"].as_str().unwrap_or_default().to_owned();
    for field in text_fields(&kind) {
        if let Some(value) = line.get_mut(field) {
            cleanse_texts(value, redactor);
        }
    }
}

fn cleanse_texts(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => *text = redactor.redact_text(&strip_text(text).text).into_owned(),
        Value::Array(values) => values.iter_mut().for_each(|value| cleanse_texts(value, redactor)),
        Value::Object(fields) => fields.values_mut().for_each(|value| cleanse_texts(value, redactor)),
        _ => {}
    }
}
