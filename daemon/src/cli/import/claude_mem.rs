//! Reads the database of claude-mem as lines of an export.
//!
//! Format: `claude-mem.db` of releases up to 13, checked against a database of 13.15.3. Columns are looked up, because
//! releases differ. Observations and summaries are imported unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Wanted;
use super::lines::Lines;
use recall_agents::history::open;
use recall_app::answers::portable::RestoreAnswer;
use recall_domain::observation::ObservationType;
use recall_domain::text::shortened_line;

const ORIGIN: &str = "import:claude-mem";
const TITLE_CHARS: usize = 100;
/// Longer texts are truncated, because old versions stored whole conversations in a prompt.
const MOST_CHARS: usize = 50_000;
/// The project in which claude-mem's own agent worked.
const OWN_PROJECT: &str = "observer-sessions";
/// The size in bytes above which a column value is truncated while reading: a table of such rows would fill the
/// memory.
const MOST_BYTES: usize = 256 << 10;
/// The longest value that SQLite reads, in bytes.
const LONGEST_VALUE: i32 = 64 << 20;
/// Texts of claude-mem's own prompts.
const OWN_PROMPTS: [&str; 2] = ["<observed_from_primary_session>", "Claude-Mem, a specialized observer"];
/// Placeholders for prompts that nobody typed.
const MACHINE_PROMPTS: [&str; 3] = ["[media prompt]", "session start", "after compaction"];

/// The path of its database, if there is one.
pub(super) fn database() -> Option<PathBuf> {
    let folder = std::env::var_os("CLAUDE_MEM_DATA_DIR").map(PathBuf::from);
    let folder = folder.or_else(|| std::env::home_dir().map(|home| home.join(".claude-mem")))?;
    Some(folder.join("claude-mem.db")).filter(|path| path.is_file())
}

/// A row, by column name.
type Fields = BTreeMap<String, Value>;

fn fields(row: &Row<'_>) -> rusqlite::Result<Fields> {
    let names: Vec<String> = row.as_ref().column_names().map(str::to_owned).collect();
    let mut fields = Fields::new();
    for (number, name) in names.into_iter().enumerate() {
        let value = match row.get_ref(number)? {
            ValueRef::Integer(number) => json!(number),
            ValueRef::Text(text) => {
                let kept = text.get(..MOST_BYTES).unwrap_or(text);
                json!(String::from_utf8_lossy(kept).trim_end_matches('\u{FFFD}'))
            }
            _ => continue,
        };
        fields.insert(name, value);
    }
    Ok(fields)
}

/// Returns all rows of a table; none if the table does not exist, or the name belongs to something else. Only stored
/// columns are read, because a computed one may have any size.
fn rows(db: &Connection, table: &str, lines: &mut Lines<'_>) -> rusqlite::Result<Vec<Fields>> {
    let mut find = db.prepare(
        "SELECT x.name FROM pragma_table_list(?1) t JOIN pragma_table_xinfo(?1) x
         WHERE t.type = 'table' AND t.schema = 'main' AND x.hidden = 0",
    )?;
    let columns: Vec<String> = find.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?;
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> =
        columns.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
    let mut numbers = db.prepare(&format!("SELECT rowid FROM main.\"{table}\" ORDER BY rowid"))?;
    let numbers: Vec<i64> = numbers.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut find =
        db.prepare(&format!("SELECT {} FROM main.\"{table}\" WHERE rowid = ?1", names.join(", ")))?;
    let mut rows = Vec::with_capacity(numbers.len());
    for number in numbers {
        match find.query_row([number], fields) {
            Ok(row) => rows.push(row),
            // The value is longer than any text by a person.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::TooBig) => {
                lines.leave_out(RestoreAnswer::TOO_LONG);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(rows)
}

fn text<'a>(fields: &'a Fields, names: &[&str]) -> &'a str {
    let found = names.iter().filter_map(|name| fields.get(*name)?.as_str());
    found.map(str::trim).find(|text| !text.is_empty()).unwrap_or_default()
}

fn number(fields: &Fields, name: &str) -> Option<i64> {
    fields.get(name)?.as_i64()
}

/// A list as any tool may have written it: JSON, comma-separated text, or nothing.
fn list(fields: &Fields, name: &str) -> Vec<String> {
    let written = text(fields, &[name]);
    match serde_json::from_str(written) {
        Ok(Value::Array(values)) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Ok(Value::String(one)) => vec![one],
        _ => written.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect(),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.to_owned(),
    }
}

struct Session {
    name: String,
    agent: &'static str,
    id: String,
    project: String,
    title: String,
    started_at: i64,
    last_at: i64,
}

/// Passes every line to `lines`. Fails if the file is not a database, or the daemon does not respond.
pub(super) fn read(path: &Path, lines: &mut Lines<'_>, wanted: &Wanted) -> anyhow::Result<()> {
    // SQLite would block on a FIFO.
    open(path)?;
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    let prompts = rows(&db, "user_prompts", lines)?;
    let observations = rows(&db, "observations", lines)?;
    let summaries = rows(&db, "session_summaries", lines)?;
    let mut sessions: BTreeMap<i64, Session> = BTreeMap::new();
    let (mut by_memory, mut by_content) = (BTreeMap::new(), BTreeMap::new());
    for row in rows(&db, "sdk_sessions", lines)? {
        let Some(key) = number(&row, "id") else { continue };
        let id = text(&row, &["content_session_id", "claude_session_id"]).to_owned();
        let agent = agent_of(text(&row, &["platform_source"]));
        let started_at = number(&row, "started_at_epoch").unwrap_or_default();
        by_memory.insert(text(&row, &["memory_session_id", "sdk_session_id"]).to_owned(), key);
        by_content.insert(id.clone(), key);
        let (project, title) = (project_of(&row), text(&row, &["custom_title"]).to_owned());
        let name = format!("{agent}:{id}");
        sessions.insert(key, Session { name, agent, id, project, title, started_at, last_at: started_at });
    }
    let of_prompt = |row: &Fields| {
        let named = number(row, "session_db_id").filter(|key| sessions.contains_key(key));
        named.or_else(|| by_content.get(text(row, &["content_session_id", "claude_session_id"])).copied())
    };
    let of_memory =
        |row: &Fields| by_memory.get(text(row, &["memory_session_id", "sdk_session_id"])).copied();
    let prompts: Vec<_> = prompts.iter().map(|row| (of_prompt(row), row)).collect();
    let observations: Vec<_> = observations.iter().map(|row| (of_memory(row), row)).collect();
    let summaries: Vec<_> = summaries.iter().map(|row| (of_memory(row), row)).collect();
    for (key, row) in prompts.iter().chain(&observations).chain(&summaries) {
        // Sessions are never marked as ended, so the last known event is the end.
        if let (Some(session), Some(at)) =
            (key.and_then(|key| sessions.get_mut(&key)), number(row, "created_at_epoch"))
        {
            session.last_at = session.last_at.max(at);
        }
    }
    sessions.retain(|_, session| {
        session.project != OWN_PROJECT && wanted.is_met_by(&session.project, session.last_at)
    });
    let orphans = observations.iter().filter(|(key, _)| key.is_none()).map(|(_, row)| project_of(row));
    let mut projects: BTreeSet<String> = sessions.values().map(|session| session.project.clone()).collect();
    projects.extend(orphans);
    for name in projects.iter().filter(|name| !name.is_empty() && *name != OWN_PROJECT) {
        let line = json!({"kind": "project", "key": key_of(name), "name": name, "by_name": true});
        lines.push(line.to_string())?;
    }
    for session in sessions.values() {
        let title = Some(&session.title).filter(|title| !title.is_empty());
        lines.push(
            json!({"kind": "session", "agent": session.agent, "session_id": session.id,
                   "project": key_of(&session.project), "title": title, "started_at": session.started_at,
                   "life_started_at": session.started_at, "last_event_at": session.last_at, "reason": "import"})
            .to_string(),
        )?;
    }
    for (key, row) in prompts {
        let Some(session) = key.and_then(|key| sessions.get(&key)) else { continue };
        let prompt = text(row, &["prompt_text"]);
        if prompt.is_empty() || OWN_PROMPTS.iter().any(|own| prompt.contains(own)) {
            continue;
        }
        let source = if MACHINE_PROMPTS.contains(&prompt) { "system" } else { "user" };
        let number_in_session = number(row, "prompt_number").unwrap_or(1);
        lines.push(
            json!({"kind": "prompt", "session": session.name, "seq": number_in_session,
                   "prompt_number": number_in_session, "source": source, "prompt": cut(prompt),
                   "opened_at": number(row, "created_at_epoch").unwrap_or(session.started_at)})
            .to_string(),
        )?;
    }
    for (key, row) in observations {
        let session = key.and_then(|key| sessions.get(&key));
        // Its session is not wanted, or is unknown.
        if key.is_some() != session.is_some() {
            continue;
        }
        if let Some(line) = observation(row, session) {
            lines.push(line.to_string())?;
        }
    }
    // recall keeps one summary per session: the last one.
    let newest: BTreeMap<i64, &Fields> =
        summaries.into_iter().filter_map(|(key, row)| Some((key?, row))).collect();
    for (key, row) in newest {
        let Some(session) = sessions.get(&key) else { continue };
        lines.push(summary(row, session).to_string())?;
    }
    lines.send()
}

/// Returns the name of a row's project: the one into which it was merged, or else its own, without the name of a work
/// tree.
fn project_of(row: &Fields) -> String {
    let name = text(row, &["merged_into_project", "project"]);
    name.split('/').next().unwrap_or(name).to_owned()
}

fn agent_of(platform: &str) -> &'static str {
    match platform {
        "gemini" | "gemini-cli" => "gemini-cli",
        "codex" => "codex",
        "cursor" => "cursor",
        "opencode" => "opencode",
        "openclaw" => "openclaw",
        "windsurf" => "windsurf",
        _ => "claude-code",
    }
}

fn key_of(project: &str) -> String {
    format!("claude-mem:{project}")
}

/// The uuid of a row, the same in every import.
fn uuid_of(row: &Fields) -> String {
    let device = text(row, &["origin_device_id"]);
    let device = if device.is_empty() { "local" } else { device };
    let id = |name: &str| match row.get(name)? {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        _ => None,
    };
    let id = id("origin_local_id").or_else(|| id("id")).unwrap_or_default();
    let hash = Sha256::digest(format!("claude-mem observations {device} {id}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

/// Returns the corresponding type of recall.
fn kind_of(written: &str) -> ObservationType {
    let known = ObservationType::parse(&written.replace('-', "_"));
    known.unwrap_or(match written {
        kind if kind.starts_with("security") => ObservationType::Security,
        "problem-solution" => ObservationType::Bugfix,
        "what-changed" => ObservationType::Change,
        _ => ObservationType::Discovery,
    })
}

fn observation(row: &Fields, session: Option<&Session>) -> Option<Value> {
    let own = project_of(row);
    let project = session.map_or(own.as_str(), |session| session.project.as_str());
    let narrative = text(row, &["narrative", "text"]);
    let facts = list(row, "facts");
    let first_fact = facts.first().map(String::as_str).unwrap_or_default();
    let titles = [text(row, &["title"]), text(row, &["subtitle"]), narrative, first_fact];
    let title = titles.into_iter().find(|text| !text.is_empty())?;
    if project == OWN_PROJECT {
        return None;
    }
    let written = text(row, &["type"]);
    let kind = kind_of(written);
    // Older releases wrote `keyword: explanation`, and repeated the type.
    let concepts = list(row, "concepts").into_iter();
    let words = concepts.map(|concept| concept.split(':').next().unwrap_or_default().trim().to_owned());
    let mut concepts: Vec<String> = words.filter(|word| !word.is_empty() && word != written).collect();
    // A type that recall lacks is kept as a word.
    if ObservationType::parse(&written.replace('-', "_")).is_none() && !written.is_empty() {
        concepts.push(written.to_owned());
    }
    Some(json!({
        "kind": "observation", "uuid": uuid_of(row), "session": session.map(|session| &session.name),
        "prompt": number(row, "prompt_number").filter(|_| session.is_some()), "project": key_of(project),
        "type": kind.as_str(), "title": shortened_line(title, TITLE_CHARS),
        "subtitle": Some(text(row, &["subtitle"])).filter(|text| !text.is_empty()), "narrative": cut(narrative),
        "facts": facts, "concepts": concepts, "files_read": list(row, "files_read"),
        "files_modified": list(row, "files_modified"), "importance": 5, "status": "active", "evidence": [],
        "origin": ORIGIN, "tokens_saved": 0, "created_at": number(row, "created_at_epoch").unwrap_or_default(),
    }))
}

fn summary(row: &Fields, session: &Session) -> Value {
    let title = [session.title.as_str(), text(row, &["request", "completed", "learned"])];
    let title = title.into_iter().find(|text| !text.is_empty()).unwrap_or("Session");
    let cell = |name: &str| cut(text(row, &[name]));
    json!({
        "kind": "summary", "session": session.name, "project": key_of(&session.project),
        "title": shortened_line(title, TITLE_CHARS), "request": cell("request"), "investigated": cell("investigated"),
        "learned": cell("learned"), "completed": cell("completed"), "next_steps": cell("next_steps"),
        "notes": cell("notes"), "origin": ORIGIN, "created_at": number(row, "created_at_epoch").unwrap_or(session.last_at),
    })
}
