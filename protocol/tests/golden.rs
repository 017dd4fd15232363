//! Old bytes stay readable: one frame of each kind and protocol version, as that version wrote it.
//!
//! A test that fails here means that shims and daemons of different releases no longer understand each other, or
//! that spool files of the last release are lost. Never change a file in `golden/`; a new shape is a new variant
//! and a new file. `RECALL_WRITE_GOLDEN=1` writes files that are missing.

#![allow(clippy::expect_used, reason = "a test: lints know test functions, not the functions they share")]

use std::path::Path;

use recall_protocol::codec::Message;
use recall_protocol::frame::{decode_frame, encode_frame};
use recall_protocol::wire::{
    Deliver, EventId, Explain, Filter, Flags, ForgetStep, Forgettable, Query, Remark, Reply, Request,
    ShimContext, Validity,
};

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

fn search_from() -> Query {
    let (folder, text) = ("/home/dev/shop".to_owned(), "cart total".to_owned());
    Query::SearchFrom { folder, text, filter: filter(), explain: Explain::No }
}

fn remark() -> Remark {
    Remark {
        text: "Totals are rounded once.".to_owned(),
        title: Some("Rounding".to_owned()),
        kind: Some("decision".to_owned()),
        project: "/home/dev/shop".to_owned(),
        files: vec!["src/cart.rs".to_owned()],
        importance: Some(9),
    }
}

#[test]
fn requests_of_version_1() {
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
    check("v1-request-deliver.bin", &Request::Deliver(deliver));
    let queries = [
        ("ping", Query::Ping),
        ("status", Query::Status),
        ("flush", Query::Flush),
        ("stop", Query::Stop),
        ("sessions", Query::Sessions(filter())),
        ("session", Query::Session { id: "76fb".to_owned() }),
        ("jobs", Query::Jobs(Filter::default())),
        ("search", Query::Search { text: "cart total".to_owned(), filter: filter(), explain: Explain::Yes }),
        ("show", Query::Show { id: "#123".to_owned() }),
        ("timeline", Query::Timeline { id: "p12".to_owned(), before: 3, after: 4 }),
        ("context", Query::Context { cwd: "/home/dev/shop".to_owned(), prompt: None }),
        ("why", Query::Why { id: "76fb".to_owned() }),
        ("forget", Query::Forget { what: forgettable(), step: ForgetStep::Forget }),
        ("remember", Query::Remember(remark())),
        ("mark", Query::Mark { ids: vec!["#12".to_owned()], validity: Validity::Resolved }),
        ("pause", Query::Pause { until_ms: Some(1_795_000_000_000) }),
        ("resume", Query::Resume),
        ("dead-jobs", Query::DeadJobs(filter())),
        ("retry", Query::Retry { job: Some(7) }),
        ("stats", Query::Stats { days: 30 }),
        ("follow", Query::Follow { session: Some("76fb".to_owned()), kinds: vec!["session_end".to_owned()] }),
        ("search-from", search_from()),
        ("show-from", Query::ShowFrom { folder: "/home/dev/shop".to_owned(), id: "#123".to_owned() }),
        (
            "timeline-from",
            Query::TimelineFrom {
                folder: "/home/dev/shop".to_owned(),
                id: "p12".to_owned(),
                before: 3,
                after: 4,
            },
        ),
        ("identity", Query::Identity { folder: "/home/dev/shop".to_owned() }),
        ("forget-unreadable", Query::ForgetUnreadable { what: forgettable(), step: ForgetStep::Preview }),
    ];
    for (name, query) in queries {
        check(&format!("v1-query-{name}.bin"), &Request::Query(query));
    }
}

#[test]
fn replies_of_version_1() {
    let replies = [
        ("ack", Reply::Ack { stdout: b"{}".to_vec() }),
        ("duplicate", Reply::Duplicate { stdout: Vec::new() }),
        ("busy", Reply::Busy),
        ("too-big", Reply::TooBig),
        ("version", Reply::Version { min: 1, max: 2 }),
        ("shutting-down", Reply::ShuttingDown),
        ("invalid", Reply::Invalid("no agent".to_owned())),
        ("json", Reply::Json(br#"{"results":[]}"#.to_vec())),
        ("failed", Reply::Failed { what: "no such id".to_owned(), hint: "try search".to_owned() }),
        ("unsaved", Reply::Unsaved { stdout: b"{}".to_vec() }),
    ];
    for (name, reply) in replies {
        check(&format!("v1-reply-{name}.bin"), &reply);
    }
}
