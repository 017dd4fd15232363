//! Stores exported rows. The rules for excluded projects, secrets and private text apply as everywhere else.

use std::collections::HashMap;
use std::path::PathBuf;

use recall_protocol::json_scan::clean;
use recall_protocol::privacy::strip_text;
use recall_protocol::query::{Restore, RestoreFrom, RowSource};
use recall_protocol::wire::ErrorKind;
use serde_json::Value;

use super::CommandContext;
use crate::answers::portable::RestoreAnswer;
use crate::capture_rules::EventRules;
use crate::clock;
use crate::ports::{Ports, WriteFailed, Writer};
use crate::queries::{Answer, Refused};
use recall_domain::event::{HookEvent, HookEventKind, ToolCall, ToolResult, is_too_long};
use recall_domain::ids::SessionId;
use recall_domain::redaction::{Outputs, Redactor};
use recall_repository::project_file::Captured;
use recall_store::{RestoreRows, RowKind, Trust, name_fields, text_fields};

/// Stores lines of an export from an unknown author.
pub async fn restore(context: &CommandContext<impl Ports>, request: Restore) -> Answer<RestoreAnswer> {
    take_in(context, request.lines, Trust::Nothing).await
}

/// Stores lines from a source that is trusted more than a stranger's.
pub async fn restore_from(
    context: &CommandContext<impl Ports>,
    request: RestoreFrom,
) -> Answer<RestoreAnswer> {
    let trust = match request.source {
        RowSource::OtherMemory => Trust::ProjectNames,
        RowSource::OwnExport => Trust::All,
    };
    take_in(context, request.lines, trust).await
}

async fn take_in(
    context: &CommandContext<impl Ports>,
    given: Vec<String>,
    trust: Trust,
) -> Answer<RestoreAnswer> {
    let mut lines = Vec::with_capacity(given.len());
    let mut left_out = 0;
    let mut folders = Folders::default();
    for line in given {
        match serde_json::from_str::<Value>(&line) {
            Ok(line) if !is_excluded(context, &line).await => {
                folders.learn(&line);
                let call = Call::of(&line);
                let rules = match &call {
                    Some(call) => rules_of(context, call, folders.of(context, &line)).await,
                    None => EventRules::default(),
                };
                lines.push((line, call, rules));
            }
            Ok(_) | Err(_) => left_out += 1,
        }
    }
    let redactor = context.ingest.redactor.get();
    let cleaned = tokio::task::spawn_blocking(move || {
        let cleansed = lines.into_iter().map(|(mut line, call, rules)| {
            if let Some(call) = call {
                call.write_to(&mut line, &redactor, &rules);
            }
            cleanse(&mut line, &redactor);
            line
        });
        cleansed.collect()
    });
    let lines: Vec<Value> = cleaned.await.map_err(|_| {
        Refused::new(ErrorKind::Internal, "The daemon could not read the lines", "See the daemon's log.")
    })?;
    let restored = context.ports.writer().write_bulk(RestoreRows { lines, trust, at: clock::now() }).await;
    let restored = restored.map_err(|error| {
        let hint = match error {
            WriteFailed::Refused(_) => "Nothing of this part was stored. Try again.",
            WriteFailed::NoAnswer(_) => "Run the same command again: it adds only what is missing.",
        };
        Refused::new(ErrorKind::Internal, format!("The lines could not be stored: {error}"), hint)
    })?;
    Ok(RestoreAnswer {
        added: restored.added,
        known: restored.known,
        skipped: restored.skipped + left_out,
        forgotten: restored.forgotten,
        unfit: restored.unfit,
        unpinned: restored.unpinned,
        aliases: restored.aliases,
        unsigned: restored.unsigned,
    })
}

/// The folders of the sessions that lines name, by `AGENT:ID`.
#[derive(Default)]
struct Folders(HashMap<String, Option<String>>);

impl Folders {
    fn learn(&mut self, line: &Value) {
        if let ("session", Some(agent), Some(id)) =
            (line["kind"].as_str().unwrap_or_default(), line["agent"].as_str(), line["session_id"].as_str())
        {
            let folder = ["root", "cwd"].into_iter().find_map(|key| line[key].as_str());
            self.0.insert(format!("{agent}:{id}"), folder.map(str::to_owned));
        }
    }

    /// Returns the folder of the line's session, from another line or from the store.
    fn of(&mut self, context: &CommandContext<impl Ports>, line: &Value) -> Option<PathBuf> {
        let session = line["session"].as_str()?;
        if !self.0.contains_key(session) {
            let stored = context.context_lookup.readers.read(|db| db.folder_of(session));
            self.0.insert(session.to_owned(), stored.ok().flatten());
        }
        let folder = self.0.get(session)?.as_deref()?;
        (folder.starts_with('/') && !is_too_long(folder)).then(|| PathBuf::from(folder))
    }
}

/// A line's call as the event that would have reported it, so that the same text is hidden and removed.
struct Call(HookEvent);

impl Call {
    fn of(line: &Value) -> Option<Self> {
        if line["kind"] != "call" {
            return None;
        }
        let result = without_tags(line["response"].as_str().unwrap_or_default());
        let result = match line["failed"].as_i64() {
            None | Some(0) => ToolResult::Done(result),
            Some(_) => ToolResult::Failed(result),
        };
        let call = ToolCall {
            name: line["tool_name"].as_str().unwrap_or_default().to_owned(),
            use_id: None,
            input: without_tags(line["input"].as_str().unwrap_or_default()),
            result,
            duration_ms: None,
            plan: None,
            launched: None,
            rewrote: None,
        };
        Some(Self(HookEvent::bare(SessionId(String::new()), HookEventKind::Tool(call))))
    }

    fn write_to(self, line: &mut Value, redactor: &Redactor, rules: &EventRules) {
        let event = Redactor::reduce_to_names(self.0, &rules.elsewhere);
        let event = Redactor::hide_files(event, &|path| rules.hides(path));
        let HookEventKind::Tool(call) = redactor.redact_event(event).what else { return };
        let (ToolResult::Done(result) | ToolResult::Failed(result)) = call.result;
        for (field, text) in [("input", call.input), ("response", result)] {
            if line[field].is_string() {
                line[field] = Value::String(text);
            }
        }
    }
}

/// Removes tags, even if their letters are escaped in JSON.
fn without_tags(text: &str) -> String {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => String::from_utf8_lossy(&clean(text.as_bytes()).payload).into_owned(),
        Err(_) => strip_text(text).text.into_owned(),
    }
}

async fn rules_of(context: &CommandContext<impl Ports>, call: &Call, folder: Option<PathBuf>) -> EventRules {
    let capture_rules = &context.ingest.capture_rules;
    let outputs = match capture_rules.exclude_anything() {
        true => Outputs::Searched,
        false => Outputs::Left,
    };
    let names = Redactor::file_names(&call.0, outputs);
    capture_rules.event_rules(folder.into_iter().collect(), names).await
}

/// Whether a line belongs to an excluded project: by its own folder or repository, by its project, or by a file that
/// it names. Rows of a session that is not stored are excluded with it.
async fn is_excluded(context: &CommandContext<impl Ports>, line: &Value) -> bool {
    let capture_rules = &context.ingest.capture_rules;
    let text = |key: &str| line[key].as_str();
    let names = [text("key"), text("project")].into_iter().flatten();
    let aliases = line["aliases"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let keys: Vec<&str> = names.chain(aliases).collect();
    if keys.iter().any(|key| capture_rules.excludes_project(key)) {
        return true;
    }
    let folders = ["root", "cwd"].into_iter().filter_map(text);
    let of_keys = keys.iter().filter_map(|key| key.strip_prefix("path:"));
    let folders: Vec<PathBuf> = folders
        .chain(of_keys)
        .filter(|folder| folder.starts_with('/') && !is_too_long(folder))
        .map(PathBuf::from)
        .collect();
    if !capture_rules.exclude_anything() {
        // A project's own file may forbid storing anything from it.
        let forbids = |rules: EventRules| rules.captured() == Captured::No;
        return !folders.is_empty() && forbids(capture_rules.event_rules(folders, Vec::new()).await);
    }
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
    if let Some(kind) = RowKind::parse(&kind) {
        text_fields(kind).for_each(|field| cleanse_field(field, &text));
        name_fields(kind).for_each(|field| cleanse_field(field, &name));
    }
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
