//! Which tables and columns are exported, and how a column stands in a line.

use crate::memory::document::DocumentKind;

/// How a column stands in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is: a number, a name, a time in milliseconds since 1970.
    Plain,
    /// Words of a person or an agent.
    Text,
    /// The same, compressed where it is long.
    LongText,
    /// Bytes as hexadecimal digits.
    Bytes,
    /// JSON.
    Json,
    /// JSON with words of a person or an agent in it.
    JsonText,
    /// `AGENT:ID`.
    Session,
    /// The place of a prompt in its session.
    Batch,
    /// The identity of a project.
    Project,
}

pub(super) struct Table {
    /// What a line of it says it is.
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
    pub(super) columns: &'static [(&'static str, Form)],
    /// Pages end where this changes.
    pub(super) page: &'static str,
    /// SQL: the project and the time by which a filter chooses.
    pub(super) project: &'static str,
    pub(super) time: &'static str,
    /// The documents of a row, and the column that each needs.
    pub(super) documents: &'static [(DocumentKind, &'static str)],
}

const OF_SESSION: &str = "(SELECT s.project FROM sessions s WHERE s.id = t.session)";
const HEARD: &str = "(SELECT s.last_event_at FROM sessions s WHERE s.id = t.session)";

/// In this order, because a row may name rows of the tables before it.
pub(super) const TABLES: &[Table] = &[
    Table {
        kind: "session",
        name: "sessions",
        columns: &[
            ("agent", Form::Plain),
            ("session_id", Form::Plain),
            ("project", Form::Project),
            ("root", Form::Plain),
            ("cwd", Form::Plain),
            ("status", Form::Plain),
            ("reason", Form::Plain),
            ("title", Form::Text),
            ("life", Form::Plain),
            ("prompts", Form::Plain),
            ("activities", Form::Plain),
            ("started_at", Form::Plain),
            ("last_event_at", Form::Plain),
            ("ended_at", Form::Plain),
            ("life_started_at", Form::Plain),
            ("resumed_from", Form::Plain),
        ],
        page: "t.id",
        project: "t.project",
        time: "t.last_event_at",
        documents: &[],
    },
    Table {
        // The events that made a session, so that none of them is stored again.
        kind: "event",
        name: "deliveries",
        columns: &[
            ("event_id", Form::Bytes),
            ("session", Form::Session),
            ("key", Form::Bytes),
            ("agent", Form::Plain),
            ("event_name", Form::Plain),
            ("captured_at", Form::Plain),
            ("boot_id", Form::Bytes),
            ("boot_ns", Form::Plain),
            ("flags", Form::Plain),
            ("stored_at", Form::Plain),
        ],
        page: "t.session",
        project: OF_SESSION,
        time: HEARD,
        documents: &[],
    },
    Table {
        kind: "prompt",
        name: "prompt_batches",
        columns: &[
            ("session", Form::Session),
            ("seq", Form::Plain),
            ("prompt_number", Form::Plain),
            ("source", Form::Plain),
            ("status", Form::Plain),
            ("close_reason", Form::Plain),
            ("prompt_id", Form::Plain),
            ("prompt", Form::LongText),
            ("prompt_event", Form::Bytes),
            ("response", Form::LongText),
            ("response_event", Form::Bytes),
            ("opened_at", Form::Plain),
            ("closed_at", Form::Plain),
            ("compressed_at", Form::Plain),
            ("branch", Form::Plain),
            ("head_commit", Form::Plain),
            ("base_commit", Form::Plain),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: HEARD,
        documents: &[(DocumentKind::Prompt, "prompt"), (DocumentKind::Response, "response")],
    },
    Table {
        kind: "call",
        name: "activities",
        columns: &[
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("event_id", Form::Bytes),
            ("kind", Form::Plain),
            ("tool_name", Form::Plain),
            ("tool_use_id", Form::Plain),
            ("subagent", Form::Plain),
            ("subagent_type", Form::Plain),
            ("failed", Form::Plain),
            ("duration_ms", Form::Plain),
            ("input", Form::LongText),
            ("response", Form::LongText),
            ("at", Form::Plain),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: HEARD,
        documents: &[(DocumentKind::Activity, "tool_name")],
    },
    Table {
        kind: "observation",
        name: "observations",
        columns: &[
            ("uuid", Form::Plain),
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("project", Form::Project),
            ("type", Form::Plain),
            ("title", Form::Text),
            ("subtitle", Form::Text),
            ("narrative", Form::Text),
            ("facts", Form::JsonText),
            ("concepts", Form::JsonText),
            ("files_read", Form::Json),
            ("files_modified", Form::Json),
            ("importance", Form::Plain),
            ("status", Form::Plain),
            ("evidence", Form::Json),
            ("origin", Form::Plain),
            ("tokens_saved", Form::Plain),
            ("created_at", Form::Plain),
            ("subject", Form::Bytes),
            ("pinned_at", Form::Plain),
            ("made_as", Form::Text),
        ],
        page: "t.id",
        project: "t.project",
        time: "t.created_at",
        documents: &[(DocumentKind::Observation, "title")],
    },
    Table {
        kind: "summary",
        name: "session_summaries",
        columns: &[
            ("session", Form::Session),
            ("project", Form::Project),
            ("title", Form::Text),
            ("request", Form::Text),
            ("investigated", Form::Text),
            ("learned", Form::Text),
            ("completed", Form::Text),
            ("next_steps", Form::Text),
            ("notes", Form::Text),
            ("origin", Form::Plain),
            ("created_at", Form::Plain),
        ],
        page: "t.id",
        project: "t.project",
        time: HEARD,
        documents: &[(DocumentKind::Summary, "title")],
    },
    Table {
        kind: "plan",
        name: "plans",
        columns: &[
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("kind", Form::Plain),
            ("path", Form::Plain),
            ("title", Form::Text),
            ("text", Form::LongText),
            ("state", Form::Plain),
            ("event_id", Form::Bytes),
            ("created_at", Form::Plain),
            ("updated_at", Form::Plain),
            ("tasks", Form::JsonText),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: HEARD,
        documents: &[(DocumentKind::Plan, "title")],
    },
    Table {
        kind: "compaction",
        name: "compactions",
        columns: &[
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("trigger", Form::Plain),
            ("message_count", Form::Plain),
            ("messages_since_last", Form::Plain),
            ("summary", Form::LongText),
            ("started_at", Form::Plain),
            ("ended_at", Form::Plain),
            ("event_id", Form::Bytes),
            ("end_event", Form::Bytes),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: HEARD,
        documents: &[(DocumentKind::Compaction, "summary")],
    },
    Table {
        kind: "subagent",
        name: "subagents",
        columns: &[
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("agent_id", Form::Plain),
            ("agent_type", Form::Plain),
            ("message", Form::LongText),
            ("message_event", Form::Bytes),
            ("started_at", Form::Plain),
            ("ended_at", Form::Plain),
            ("event_id", Form::Bytes),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: HEARD,
        documents: &[],
    },
];

pub(super) fn key_of(table: &Table, column: &'static str) -> &'static str {
    match (table.kind, column) {
        (_, "batch") => "prompt",
        // `kind` is the line's own.
        ("plan", "kind") => "plan_kind",
        ("call", "kind") => "call_kind",
        _ => column,
    }
}

/// The fields of a line with words of a person or an agent.
pub fn text_fields(kind: &str) -> impl Iterator<Item = &'static str> {
    let table = TABLES.iter().find(move |table| table.kind == kind);
    table.into_iter().flat_map(|table| {
        let texts = [Form::Text, Form::LongText, Form::JsonText];
        let columns = table.columns.iter().filter(move |(_, form)| texts.contains(form));
        columns.map(|(column, _)| key_of(table, column))
    })
}
