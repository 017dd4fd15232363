//! Old bytes stay readable: one frame of each kind and protocol version, as that version wrote it.
//!
//! A test that fails here means that shims and daemons of different releases no longer understand each other, or
//! that spool files of the last release are lost. Never change a file in `golden/`; a new shape is a new variant
//! and a new file. `RECALL_WRITE_GOLDEN=1` writes files that are missing.

#![allow(clippy::expect_used, reason = "a test: lints know test functions, not the functions they share")]

use std::path::Path;

use recall_protocol::codec::Message;
use recall_protocol::frame::{decode_frame, encode_frame};
use recall_protocol::query::{
    AgentNote, AgentRemark, Backup, Blame, Captured, Changes, Check, Context, ConversationPart, Days, Edit,
    Entries, EntryFilter, Explain, Export, ExportFrom, Filter, Fix, Flush, Follow, Forget, ForgetStep,
    Forgettable, Friction, Glance, HandOver, Handoff, How, Identity, Improvable, Improve, Improving,
    InjectionVerdict, Jobs, Mark, MemoryStep, OpenGateway, Outline, Pause, Persons, Pin, PinUp, Ping,
    Projects, Prune, Query, Reindex, Remember, Restore, RestoreBackup, RestoreFrom, Resume, Retry, Review,
    ReviewVerdict, RowSource, Search, Session, SessionPage, Sessions, SharePreview, Show, Sql, Stats, Status,
    Stop, SyncRound, SyncState, TakeMemories, TermsPreview, ThreadPage, Threads, Timeline, Undo, UndoOf,
    Unreadable, Unreviewed, Validity, WhichJobs, Why, Wrong,
};
use recall_protocol::wire::{Deliver, ErrorKind, EventId, Flags, Reply, Request, ShimContext};

#[track_caller]
fn check<M: Message + PartialEq + std::fmt::Debug>(name: &str, message: &M) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let frame = encode_frame(message).expect("fits");
    if std::env::var_os("RECALL_WRITE_GOLDEN").is_some() && !path.exists() {
        std::fs::write(&path, &frame).expect("writes");
    }
    let golden = std::fs::read(&path).expect("the golden frame is there");
    assert_eq!(decode_frame::<M>(&golden).expect("still readable"), *message, "{name}");
    assert_eq!(frame, golden, "{name}: the bytes have changed");
}

fn filter() -> Filter {
    Filter { project: Some("shop".to_owned()), since_ms: Some(-1), limit: Some(20) }
}

fn entry_filter() -> EntryFilter {
    EntryFilter {
        project: Some("shop".to_owned()),
        kinds: vec!["observation".to_owned()],
        types: vec!["gotcha".to_owned()],
    }
}

fn forgettable() -> Forgettable {
    Forgettable {
        ids: vec!["#12".to_owned(), "p3".to_owned()],
        session: Some("76fb".to_owned()),
        project: Some("shop".to_owned()),
        since_ms: Some(1),
        until_ms: Some(2),
        words: vec!["cart".to_owned()],
    }
}

fn remark() -> Remember {
    Remember {
        text: "Totals are rounded once.".to_owned(),
        title: Some("Rounding".to_owned()),
        kind: Some("decision".to_owned()),
        project: "/home/dev/shop".to_owned(),
        files: vec!["src/cart.rs".to_owned()],
        importance: Some(9),
    }
}

#[test]
fn requests_of_protocol_version_2_keep_their_bytes() {
    let deliver = Deliver {
        event_id: EventId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
        agent: "claude-code".to_owned(),
        event_name: "UserPromptSubmit".to_owned(),
        captured_at_ms: 1_795_000_000_123,
        boot_id: [0xb0; 16],
        boot_ns: 9_876_543_210,
        context: ShimContext {
            pid: 4242,
            cwd: "/home/dev/shop".to_owned(),
            project_dir: Some("/home/dev/shop".to_owned()),
            config_dir: None,
        },
        payload: br#"{"hook_event_name":"UserPromptSubmit","prompt":"hello"}"#.to_vec(),
        flags: Flags::STRIPPED.with(Flags::SHORTENED),
    };
    check("v2-request-deliver.bin", &Request::Deliver(deliver));
    let folder = || Some("/home/dev/shop".to_owned());
    let queries: [(&str, Query); 62] = [
        ("ping", Ping.into()),
        ("status", Status.into()),
        ("sessions", Sessions { filter: filter() }.into()),
        ("session", Session { id: "76fb".to_owned() }.into()),
        ("jobs", Jobs { which: WhichJobs::Dead, filter: filter() }.into()),
        ("stats", Stats { days: 30 }.into()),
        (
            "search",
            Search {
                text: "cart total".to_owned(),
                filter: filter(),
                explain: Explain::Yes,
                folder: folder(),
            }
            .into(),
        ),
        ("show", Show { id: "#123".to_owned(), folder: folder() }.into()),
        ("timeline", Timeline { id: "p12".to_owned(), before: 3, after: 4, folder: None }.into()),
        ("how", How { command: "npm run deploy".to_owned(), filter: filter() }.into()),
        ("fix", Fix { error: "error: linker `cc` not found".to_owned(), filter: filter() }.into()),
        (
            "blame",
            Blame {
                file: "/home/dev/shop/src/cart.rs".to_owned(),
                line: Some("let total = 0;".to_owned()),
                limit: Some(3),
            }
            .into(),
        ),
        (
            "share_preview",
            SharePreview { project: "/home/dev/shop".to_owned(), persons: Persons::One }.into(),
        ),
        ("sync_state", SyncState { round: SyncRound::Now }.into()),
        (
            "outline",
            Outline { folder: "/home/dev/shop".to_owned(), asked: "cart total".to_owned(), limit: Some(3) }
                .into(),
        ),
        ("friction", Friction { filter: filter() }.into()),
        (
            "handoff",
            Handoff { session: Some("76fb".to_owned()), project: "/home/dev/shop".to_owned() }.into(),
        ),
        (
            "hand-over",
            HandOver { session: None, project: "/home/dev/shop".to_owned(), agent: "codex".to_owned() }
                .into(),
        ),
        ("context", Context { cwd: "/home/dev/shop".to_owned(), prompt: None }.into()),
        ("why", Why { id: "76fb".to_owned() }.into()),
        ("identity", Identity { folder: "/home/dev/shop".to_owned() }.into()),
        ("flush", Flush.into()),
        ("stop", Stop.into()),
        ("pause", Pause { until_ms: Some(1_795_000_000_000) }.into()),
        ("resume", Resume.into()),
        ("retry", Retry { job: Some(7) }.into()),
        (
            "forget",
            Forget { what: forgettable(), unreadable: Unreadable::Goes, step: ForgetStep::Forget }.into(),
        ),
        ("remember", remark().into()),
        ("mark", Mark { ids: vec!["#12".to_owned()], validity: Validity::Resolved }.into()),
        ("open-gateway", OpenGateway.into()),
        ("follow", Follow { session: Some("76fb".to_owned()), kinds: vec!["session_end".to_owned()] }.into()),
        ("sql", Sql { text: "SELECT 1".to_owned(), limit: 1_000 }.into()),
        ("backup", Backup { path: Some("/home/dev/recall.db".to_owned()) }.into()),
        ("restore-backup", RestoreBackup { path: "/home/dev/recall.db".to_owned() }.into()),
        ("captured", Captured { agent: "codex".to_owned(), sessions: vec!["76fb".to_owned()] }.into()),
        ("export", Export { filter: filter(), from: Some(ExportFrom { table: 2, after: 12 }) }.into()),
        ("restore", Restore { lines: vec!["{\"kind\":\"session\"}".to_owned()] }.into()),
        (
            "restore-from",
            RestoreFrom { lines: vec!["{\"kind\":\"session\"}".to_owned()], source: RowSource::OwnExport }
                .into(),
        ),
        (
            "agent-remark",
            AgentRemark { remark: Remember { text: "Round once".to_owned(), ..Remember::default() } }.into(),
        ),
        (
            "take-memories",
            TakeMemories {
                agent: "codex".to_owned(),
                folder: "/home/dev/shop".to_owned(),
                notes: vec![AgentNote {
                    file: "/home/dev/.codex/memories/MEMORY.md".to_owned(),
                    heading: "cart".to_owned(),
                    text: "Round once.".to_owned(),
                    at_ms: 1_795_000_000_000,
                }],
                step: MemoryStep::Store,
            }
            .into(),
        ),
        ("improvable", Improvable { filter: filter() }.into()),
        ("improve", Improve { sessions: vec![12, 7] }.into()),
        ("improving", Improving { jobs: vec![31, 32] }.into()),
        (
            "wrong",
            Wrong {
                ids: vec!["#12".to_owned()],
                session: Some("76fb".to_owned()),
                told: InjectionVerdict::Wrongly,
            }
            .into(),
        ),
        ("check", Check.into()),
        ("prune", Prune { silent_since_ms: 1_795_000_000_000, step: ForgetStep::Preview }.into()),
        ("reindex", Reindex.into()),
        (
            "edit",
            Edit {
                id: "#12".to_owned(),
                kind: "gotcha".to_owned(),
                title: "A title".to_owned(),
                narrative: "A text".to_owned(),
                facts: vec!["A fact".to_owned()],
                files: vec!["src/a.rs".to_owned()],
            }
            .into(),
        ),
        ("pin", PinUp { ids: vec!["12".to_owned()], pin: Pin::On }.into()),
        ("undo", Undo.into()),
        ("undo_of", UndoOf { id: "12".to_owned() }.into()),
        ("changes", Changes { limit: 20 }.into()),
        ("glance", Glance { folder: "/home/dev/shop".to_owned() }.into()),
        ("days", Days { of: entry_filter() }.into()),
        (
            "entries",
            Entries { of: entry_filter(), since_ms: Some(1), until_ms: Some(2), skip: 200, limit: 100 }
                .into(),
        ),
        ("projects", Projects.into()),
        (
            "threads",
            Threads { project: Some("shop".to_owned()), of: Some("#12".to_owned()), limit: 9 }.into(),
        ),
        ("session_page", SessionPage { filter: filter(), skip: 200 }.into()),
        ("thread_page", ThreadPage { project: Some("shop".to_owned()), skip: 200, limit: 9 }.into()),
        ("unreviewed", Unreviewed { filter: filter(), until_ms: Some(2), skip: 200 }.into()),
        ("review", Review { ids: vec!["#12".to_owned()], verdict: ReviewVerdict::Rejected }.into()),
        (
            "terms_preview",
            TermsPreview {
                project: "/home/dev/shop".to_owned(),
                persons: Persons::Several,
                said: vec![ConversationPart::Answers],
            }
            .into(),
        ),
    ];
    for (name, query) in queries {
        check(&format!("v2-query-{name}.bin"), &Request::Query(query));
    }
}

#[test]
fn replies_of_protocol_version_2_keep_their_bytes() {
    let replies = [
        ("ack", Reply::Ack { stdout: b"{}".to_vec() }),
        ("duplicate", Reply::Duplicate { stdout: Vec::new() }),
        ("busy", Reply::Busy),
        ("too-big", Reply::TooBig),
        ("version", Reply::Version { min: 1, max: 2 }),
        ("shutting-down", Reply::ShuttingDown),
        ("invalid", Reply::Invalid("no agent".to_owned())),
        ("json", Reply::Json(br#"{"results":[]}"#.to_vec())),
        (
            "failed",
            Reply::Failed {
                kind: ErrorKind::Conflict,
                what: "no such id".to_owned(),
                hint: "try search".to_owned(),
            },
        ),
        ("unsaved", Reply::Unsaved { stdout: b"{}".to_vec() }),
    ];
    for (name, reply) in replies {
        check(&format!("v2-reply-{name}.bin"), &reply);
    }
}
