//! Lists the exported tables and columns, and the form of each column in a line.

use recall_domain::document::DocumentKind;
use recall_domain::named;

/// The content of a column, and its form in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// An id, a name, a path.
    Name,
    /// A known word: the source of a prompt, the type of an observation, or its status.
    Source,
    Type,
    Status,
    /// From 0 to 2,147,483,647.
    Count,
    Number,
    /// Milliseconds since 1970.
    Time,
    /// Words of a person or an agent.
    Text,
    /// Like [`Self::Text`], compressed if it is long.
    LongText,
    /// 16 bytes, as hexadecimal digits.
    Id,
    /// A JSON array of texts.
    Texts,
    /// A JSON array of paths.
    Paths,
    /// A JSON array of ids of events.
    Events,
    /// A task list, as JSON.
    Tasks,
    /// `AGENT:ID`.
    Session,
    /// The position of a prompt in its session.
    Batch,
    /// The identity of a project.
    Project,
}

/// The kind of a row, as its line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    Session,
    Event,
    Prompt,
    Call,
    Observation,
    Summary,
    Plan,
    Compaction,
    Subagent,
}

named! { RowKind {
    Session = "session",
    Event = "event",
    Prompt = "prompt",
    Call = "call",
    Observation = "observation",
    Summary = "summary",
    Plan = "plan",
    Compaction = "compaction",
    Subagent = "subagent",
} }

pub(super) struct Table {
    pub(super) kind: RowKind,
    pub(super) name: &'static str,
    pub(super) columns: &'static [(&'static str, Form)],
    /// The expression at whose changes a page may end.
    pub(super) page: &'static str,
    /// SQL for the project and the time that filters compare.
    pub(super) project: &'static str,
    pub(super) time: &'static str,
    /// The kinds of documents in a row, and the column that each requires.
    pub(super) documents: &'static [(DocumentKind, &'static str)],
}

const OF_SESSION: &str = "(SELECT s.project FROM sessions s WHERE s.id = t.session)";
const LAST_EVENT: &str = "(SELECT s.last_event_at FROM sessions s WHERE s.id = t.session)";

/// All tables, in this order, because a row may refer to rows of earlier tables.
pub(super) const TABLES: &[Table] = &[
    Table {
        kind: RowKind::Session,
        name: "sessions",
        columns: &[
            ("agent", Form::Name),
            ("session_id", Form::Name),
            ("project", Form::Project),
            ("root", Form::Name),
            ("cwd", Form::Name),
            ("status", Form::Name),
            ("reason", Form::Name),
            ("title", Form::Text),
            ("life", Form::Count),
            ("prompts", Form::Count),
            ("activities", Form::Count),
            ("started_at", Form::Time),
            ("last_event_at", Form::Time),
            ("ended_at", Form::Time),
            ("life_started_at", Form::Time),
            ("resumed_from", Form::Name),
        ],
        page: "t.id",
        project: "t.project",
        time: "t.last_event_at",
        documents: &[],
    },
    Table {
        // The events of a session, so that none of them is stored twice.
        kind: RowKind::Event,
        name: "deliveries",
        columns: &[
            ("event_id", Form::Id),
            ("session", Form::Session),
            ("key", Form::Id),
            ("agent", Form::Name),
            ("event_name", Form::Name),
            ("captured_at", Form::Time),
            ("boot_id", Form::Id),
            ("boot_ns", Form::Number),
            ("flags", Form::Count),
            ("stored_at", Form::Time),
        ],
        page: "t.session",
        project: OF_SESSION,
        time: LAST_EVENT,
        documents: &[],
    },
    Table {
        kind: RowKind::Prompt,
        name: "prompt_batches",
        columns: &[
            ("session", Form::Session),
            ("seq", Form::Count),
            ("prompt_number", Form::Count),
            ("source", Form::Source),
            ("status", Form::Name),
            ("close_reason", Form::Name),
            ("prompt_id", Form::Name),
            ("prompt", Form::LongText),
            ("prompt_event", Form::Id),
            ("response", Form::LongText),
            ("response_event", Form::Id),
            ("opened_at", Form::Time),
            ("closed_at", Form::Time),
            ("compressed_at", Form::Time),
            ("branch", Form::Name),
            ("head_commit", Form::Name),
            ("base_commit", Form::Name),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: LAST_EVENT,
        documents: &[(DocumentKind::Prompt, "prompt"), (DocumentKind::Response, "response")],
    },
    Table {
        kind: RowKind::Call,
        name: "activities",
        columns: &[
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("event_id", Form::Id),
            ("kind", Form::Name),
            ("tool_name", Form::Name),
            ("tool_use_id", Form::Name),
            ("subagent", Form::Name),
            ("subagent_type", Form::Name),
            ("failed", Form::Count),
            ("duration_ms", Form::Number),
            ("input", Form::LongText),
            ("response", Form::LongText),
            ("at", Form::Time),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: LAST_EVENT,
        documents: &[(DocumentKind::Activity, "tool_name")],
    },
    Table {
        kind: RowKind::Observation,
        name: "observations",
        columns: &[
            ("uuid", Form::Name),
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("project", Form::Project),
            ("type", Form::Type),
            ("title", Form::Text),
            ("subtitle", Form::Text),
            ("narrative", Form::Text),
            ("facts", Form::Texts),
            ("concepts", Form::Texts),
            ("files_read", Form::Paths),
            ("files_modified", Form::Paths),
            ("importance", Form::Count),
            ("status", Form::Status),
            ("evidence", Form::Events),
            ("origin", Form::Name),
            ("tokens_saved", Form::Number),
            ("created_at", Form::Time),
            ("subject", Form::Id),
            ("pinned_at", Form::Time),
            ("made_as", Form::Text),
            ("reviewed_at", Form::Time),
            ("rejected_at", Form::Time),
            ("author", Form::Text),
            ("device", Form::Text),
        ],
        page: "t.id",
        project: "t.project",
        time: "t.created_at",
        documents: &[(DocumentKind::Observation, "title")],
    },
    Table {
        kind: RowKind::Summary,
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
            ("origin", Form::Name),
            ("created_at", Form::Time),
        ],
        page: "t.id",
        project: "t.project",
        time: LAST_EVENT,
        documents: &[(DocumentKind::Summary, "title")],
    },
    Table {
        kind: RowKind::Plan,
        name: "plans",
        columns: &[
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("kind", Form::Name),
            ("path", Form::Name),
            ("title", Form::Text),
            ("text", Form::LongText),
            ("state", Form::Name),
            ("event_id", Form::Id),
            ("created_at", Form::Time),
            ("updated_at", Form::Time),
            ("tasks", Form::Tasks),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: LAST_EVENT,
        documents: &[(DocumentKind::Plan, "title")],
    },
    Table {
        kind: RowKind::Compaction,
        name: "compactions",
        columns: &[
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("trigger", Form::Name),
            ("message_count", Form::Count),
            ("messages_since_last", Form::Count),
            ("summary", Form::LongText),
            ("started_at", Form::Time),
            ("ended_at", Form::Time),
            ("event_id", Form::Id),
            ("end_event", Form::Id),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: LAST_EVENT,
        documents: &[(DocumentKind::Compaction, "summary")],
    },
    Table {
        kind: RowKind::Subagent,
        name: "subagents",
        columns: &[
            ("session", Form::Session),
            ("batch", Form::Batch),
            ("agent_id", Form::Name),
            ("agent_type", Form::Name),
            ("message", Form::LongText),
            ("message_event", Form::Id),
            ("started_at", Form::Time),
            ("ended_at", Form::Time),
            ("event_id", Form::Id),
        ],
        page: "t.id",
        project: OF_SESSION,
        time: LAST_EVENT,
        documents: &[],
    },
];

pub(super) fn key_of(table: &Table, column: &'static str) -> &'static str {
    match (table.kind, column) {
        (_, "batch") => "prompt",
        // The line has its own `kind`.
        (RowKind::Plan, "kind") => "plan_kind",
        (RowKind::Call, "kind") => "call_kind",
        _ => column,
    }
}

/// The fields of a line that contain words of a person or an agent.
pub fn text_fields(kind: RowKind) -> impl Iterator<Item = &'static str> {
    fields_of(kind, &[Form::Text, Form::LongText, Form::Texts, Form::Tasks])
}

/// The fields of a line that contain ids, names and paths.
pub fn name_fields(kind: RowKind) -> impl Iterator<Item = &'static str> {
    fields_of(kind, &[Form::Name, Form::Paths, Form::Session, Form::Project])
}

fn fields_of(kind: RowKind, forms: &'static [Form]) -> impl Iterator<Item = &'static str> {
    let table = TABLES.iter().find(move |table| table.kind == kind);
    table.into_iter().flat_map(move |table| {
        let columns = table.columns.iter().filter(move |(_, form)| forms.contains(form));
        columns.map(|(column, _)| key_of(table, column))
    })
}
