use super::*;

/// 2026-11-23 09:12 UTC, and one day later.
const DAY: i64 = 1_795_425_120_000;
const NEXT: i64 = DAY + 86_400_000;

fn memory(lines: &[serde_json::Value]) -> Memory {
    let mut memory = Memory::default();
    for line in lines {
        memory.add(&line.to_string()).unwrap();
    }
    memory.complete()
}

fn note(uuid: &str, at: i64, title: &str) -> serde_json::Value {
    json!({"kind": "observation", "uuid": uuid, "session": "codex:s1", "project": "git:x", "type": "decision", "title": title,
        "narrative": "Because of\n---\n# the tests", "facts": ["One <b>fact</b>"], "files_modified": ["src/a.rs"],
        "importance": 7, "status": "active", "origin": "extractive", "created_at": at})
}

fn shop() -> Vec<serde_json::Value> {
    vec![
        json!({"kind": "project", "key": "git:x", "name": "shop"}),
        json!({"kind": "project", "key": "git:unused", "name": "unused"}),
        json!({"kind": "session", "agent": "codex", "session_id": "s1", "project": "git:x", "title": "Round [half] even", "started_at": DAY}),
        json!({"kind": "session", "agent": "codex", "session_id": "empty", "project": "git:x", "started_at": DAY}),
        json!({"kind": "prompt", "session": "codex:s1", "seq": 2, "prompt": "And then?", "opened_at": NEXT}),
        json!({"kind": "prompt", "session": "codex:s1", "seq": 1, "prompt": "Round\n---\n# it", "response": "Done.", "opened_at": DAY}),
        json!({"kind": "call", "session": "codex:s1", "input": "{}"}),
        note("u1", DAY, "Round half up"),
        note("u2", NEXT, "Round half even"),
        json!({"kind": "superseded", "uuid": "u1", "by": "u2"}),
        json!({"kind": "summary", "session": "codex:s1", "title": "Rounding", "completed": "Rounds.", "next_steps": ""}),
        json!({"kind": "plan", "session": "codex:s1", "title": "Plan", "text": "1. round", "state": "draft", "created_at": DAY}),
        json!({"kind": "observation", "uuid": "u3", "project": "git:x", "type": "preference", "title": "Use cents", "origin": "user", "created_at": DAY}),
        json!({"kind": "of a later version"}),
    ]
}

#[test]
fn pages_show_the_content_of_the_memory() {
    let pages = pages(&memory(&shop()), &TimeZone::UTC);
    let all: String = pages.iter().map(|(name, text)| format!("=== {name}\n{text}")).collect();
    insta::assert_snapshot!(all);
}

#[test]
fn pages_do_not_depend_on_the_order_of_rows() {
    let mut lines = shop();
    let first = pages(&memory(&lines), &TimeZone::UTC);
    // Sessions and projects stay before the rows that name them.
    lines[4..].reverse();
    assert_eq!(pages(&memory(&lines), &TimeZone::UTC), first);
    assert!(pages(&Memory::default(), &TimeZone::UTC).is_empty());
}

#[test]
fn a_new_title_changes_no_page_name() {
    let mut lines = shop();
    let names =
        |lines: &[serde_json::Value]| pages(&memory(lines), &TimeZone::UTC).into_keys().collect::<Vec<_>>();
    let first = names(&lines);
    lines[2]["title"] = json!("Something else");
    lines[7]["title"] = json!("Something else");
    assert_eq!(names(&lines), first);
}
