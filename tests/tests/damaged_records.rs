//! Tests imports of records that are damaged, copied, packed, newer than recall, or not the user's files.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use recall_tests::Stage;
use serde_json::{Value, json};

const TIME: i64 = 1_795_000_000_000;

fn write(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn asked(stage: &Stage, session: &str) -> Vec<(String, Value)> {
    let session = stage.json(["ctl", "session", session]);
    let batches = session["batches"].as_array().unwrap();
    batches
        .iter()
        .filter_map(|batch| Some((batch["prompt"].as_str()?.to_owned(), batch["response"].clone())))
        .collect()
}

/// Returns a record as Claude Code writes it.
fn claude_record(
    session: &str,
    kind: &str,
    uuid: &str,
    parent: Option<&str>,
    minute: usize,
    text: &str,
) -> String {
    let content = if kind == "user" { json!(text) } else { json!([{"type": "text", "text": text}]) };
    json!({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": session, "cwd": "/home/dev/shop",
           "timestamp": format!("2026-11-20T10:{minute:02}:00Z"), "message": {"id": uuid, "role": kind, "content": content}})
    .to_string()
}

/// Returns the records of three questions with their answers.
fn transcript(session: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for turn in 0..3_usize {
        let (asked, answered) = (format!("{session}-u{turn}"), format!("{session}-a{turn}"));
        let before = turn.checked_sub(1).map(|before| format!("{session}-a{before}"));
        lines.push(claude_record(session, "user", &asked, before.as_deref(), 2 * turn, &format!("Q{turn}")));
        lines.push(claude_record(
            session,
            "assistant",
            &answered,
            Some(&asked),
            2 * turn + 1,
            &format!("A{turn}"),
        ));
    }
    lines
}

fn project(stage: &Stage) -> PathBuf {
    stage.user_home().join(".claude/projects/-home-dev-shop")
}

#[test]
fn import_reads_whole_records_and_keeps_answers_with_their_questions() {
    let stage = Stage::new().daemon();
    let place = |name: &str| project(&stage).join(format!("{name}.jsonl"));
    let mut glued = transcript("glued");
    let cut = glued[1][..80].to_owned();
    let next = std::mem::replace(&mut glued[1], cut);
    assert!(next.contains("A0"));
    write(&place("glued"), glued.join("\n").replacen(&format!("{}\n", &next[..80]), &next[..80], 1));
    let zeros = transcript("zeros").join("\n").replacen('\n', &format!("\n{}", "\0".repeat(4096)), 2);
    write(&place("zeros"), zeros);
    write(&place("mark"), format!("\u{feff}{}", transcript("mark").join("\n")));
    let bad = transcript("badbyte").join("\n").into_bytes();
    let at = bad.windows(2).position(|pair| pair == b"Q1").unwrap() + 2;
    write(&place("badbyte"), [&bad[..at], b" \xff", &bad[at..]].concat());
    let mut lost = transcript("lost");
    lost.remove(2);
    write(&place("lost"), lost.join("\n"));

    let counted = stage.json(["import", "claude-code"]);
    assert_eq!((&counted["sessions"], &counted["unreadable_lines"]), (&json!(5), &json!(1)), "{counted}");
    assert_eq!(counted["damaged"], json!(["glued"]));
    stage.flush();
    let all = |second: &str| {
        [("Q0", json!("A0")), (second, json!("A1")), ("Q2", json!("A2"))].map(|(q, a)| (q.to_owned(), a))
    };
    assert_eq!(asked(&stage, "zeros"), all("Q1"));
    assert_eq!(asked(&stage, "mark"), all("Q1"));
    assert_eq!(asked(&stage, "badbyte"), all("Q1 \u{fffd}"));
    let [first, second, third] = all("Q1");
    assert_eq!(asked(&stage, "glued"), [("Q0".to_owned(), Value::Null), second, third.clone()]);
    assert_eq!(asked(&stage, "lost"), [first, third], "an answer whose question is lost belongs to none");
}

#[test]
fn queued_user_prompts_are_imported_and_queued_program_messages_are_not() {
    let stage = Stage::new().daemon();
    let queued = |uuid: &str, prompt: &str, more: Value| {
        let mut attachment = json!({"type": "queued_command", "prompt": prompt, "commandMode": "prompt"});
        attachment.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"type": "attachment", "uuid": uuid, "parentUuid": "q-u", "sessionId": "q", "cwd": "/home/dev/shop",
               "timestamp": "2026-11-20T10:02:00Z", "attachment": attachment})
        .to_string()
    };
    let lines = [
        claude_record("q", "user", "q-u", None, 0, "start"),
        queued("q-1", "keep the old API, I insist", json!({})),
        queued("q-2", "a task has ended", json!({"commandMode": "task-notification"})),
        queued("q-3", "said by a peer", json!({"origin": {"kind": "peer"}})),
        claude_record("q", "assistant", "q-a", Some("q-1"), 3, "Kept."),
    ];
    write(&project(&stage).join("q.jsonl"), lines.join("\n"));
    stage.json(["import", "claude-code"]);
    stage.flush();
    let kept = |prompt: &str| (prompt.to_owned(), json!("Kept."));
    assert_eq!(asked(&stage, "q"), [kept("start"), kept("keep the old API, I insist")]);
}

/// Returns the first line of a Codex rollout.
fn rollout(id: &str, minute: usize, more: &Value) -> Vec<String> {
    let mut meta = json!({"id": id, "cwd": "/home/dev/shop", "source": "cli"});
    meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    vec![line(minute, "session_meta", &meta)]
}

fn line(minute: usize, kind: &str, payload: &Value) -> String {
    json!({"timestamp": format!("2026-10-03T09:{minute:02}:00Z"), "type": kind, "payload": payload})
        .to_string()
}

fn codex(stage: &Stage, folder: &str, id: &str) -> PathBuf {
    stage.user_home().join(format!(".codex/{folder}/rollout-2026-10-03T09-00-00-{id}.jsonl"))
}

fn user(minute: usize, text: &str) -> String {
    line(minute, "event_msg", &json!({"type": "user_message", "message": text}))
}

#[test]
fn records_repeated_in_a_fork_or_a_copy_are_imported_only_once() {
    const PARENT: &str = "019a0004-0000-7000-8000-000000000001";
    const FORK: &str = "019a0005-0000-7000-8000-000000000001";
    let stage = Stage::new().daemon();
    let mut parent = rollout(PARENT, 0, &json!({}));
    parent.push(user(1, "parent question"));
    parent.push(line(
        2,
        "event_msg",
        &json!({"type": "task_complete", "last_agent_message": "parent answer"}),
    ));
    let mut fork = rollout(FORK, 30, &json!({"forked_from_id": PARENT}));
    fork.extend(parent.clone());
    fork.push(user(31, "fork question"));
    write(&codex(&stage, "sessions/2026/10/03", PARENT), parent.join("\n"));
    write(&codex(&stage, "sessions/2026/10/03", FORK), fork.join("\n"));

    // An old version of Claude Code began a new file with the old records.
    let old = transcript("old");
    let mut copy = old.clone();
    copy.push(claude_record("copy", "user", "copy-u", Some("old-a2"), 20, "Q3"));
    copy.push(claude_record("copy", "assistant", "copy-a", Some("copy-u"), 21, "A3"));
    write(&project(&stage).join("old.jsonl"), old.join("\n"));
    write(&project(&stage).join("copy.jsonl"), copy.join("\n"));
    // Files that were restored from a backup may all have the same time.
    for name in ["old.jsonl", "copy.jsonl"] {
        let file = std::fs::File::options().write(true).open(project(&stage).join(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_790_000_000)).unwrap();
    }

    let counted = stage.json(["import"]);
    assert_eq!((&counted["sessions"], &counted["prompts"]), (&json!(4), &json!(6)), "{counted}");
    stage.flush();
    assert_eq!(asked(&stage, PARENT), [("parent question".to_owned(), json!("parent answer"))]);
    assert_eq!(asked(&stage, FORK), [("fork question".to_owned(), Value::Null)]);
    assert_eq!(asked(&stage, "old").len(), 3);
    assert_eq!(asked(&stage, "copy"), [("Q3".to_owned(), json!("A3"))]);
    assert_eq!(stage.json(["import"])["known"], 4);
}

#[test]
fn a_prompt_and_its_later_edit_are_both_imported() {
    const ID: &str = "019a0006-0000-7000-8000-000000000001";
    let stage = Stage::new().daemon();
    let mut lines = rollout(ID, 0, &json!({}));
    let event = |minute: usize, fields: &Value| line(minute, "event_msg", fields);
    lines.push(user(1, "first wording"));
    lines.push(event(2, &json!({"type": "agent_message", "message": "half an answer"})));
    lines.push(event(3, &json!({"type": "turn_aborted", "reason": "interrupted"})));
    lines.push(event(4, &json!({"type": "thread_rolled_back", "num_turns": 1})));
    lines.push(user(5, "second wording"));
    lines.push(event(6, &json!({"type": "task_complete", "last_agent_message": "the answer"})));
    write(&codex(&stage, "sessions", ID), lines.join("\n"));
    stage.json(["import", "codex"]);
    stage.flush();
    let answered = [("first wording", Value::Null), ("second wording", json!("the answer"))];
    assert_eq!(asked(&stage, ID), answered.map(|(question, answer)| (question.to_owned(), answer)));
}

#[test]
fn rollouts_that_are_packed_archived_or_from_other_programs_are_imported() {
    let stage = Stage::new().daemon();
    let ids = ["01", "02", "03", "04"].map(|number| format!("019a00{number}-0000-7000-8000-000000000001"));
    let [packed, archived, custom, internal] = &ids;
    let of =
        |id: &str, more: Value, text: &str| [rollout(id, 0, &more), vec![user(1, text)]].concat().join("\n");
    let path = codex(&stage, "sessions/2026/10/02", packed);
    write(
        &path.with_extension("jsonl.zst"),
        zstd::encode_all(of(packed, json!({}), "packed").as_bytes(), 3).unwrap(),
    );
    write(&codex(&stage, "archived_sessions", archived), of(archived, json!({}), "archived"));
    let source = |source: Value| json!({"source": source});
    write(&codex(&stage, "sessions", custom), of(custom, source(json!({"custom": "my-ide"})), "custom"));
    let own = of(internal, source(json!({"internal": "memory"})), "own");
    write(&codex(&stage, "sessions", internal), own);
    let counted = stage.json(["import", "codex"]);
    assert_eq!((&counted["sessions"], &counted["empty"]), (&json!(3), &json!(1)), "{counted}");
    stage.flush();
    for (id, prompt) in [(packed, "packed"), (archived, "archived"), (custom, "custom")] {
        assert_eq!(asked(&stage, id), [(prompt.to_owned(), Value::Null)]);
    }
}

#[test]
fn an_imported_turn_that_was_cut_off_keeps_its_answer() {
    const ID: &str = "019a0001-0000-7000-8000-000000000001";
    let stage = Stage::new().daemon();
    let item = |minute: usize, turn: &str, kind: &str, text: &str| {
        let item = json!({"type": kind, "content": [{"type": "text", "text": text}]});
        line(minute, "event_msg", &json!({"type": "item_completed", "turn_id": turn, "item": item}))
    };
    let mut lines = rollout(ID, 0, &json!({}));
    lines.push(line(1, "turn_context", &json!({"turn_id": "t1"})));
    lines.push(item(2, "t1", "UserMessage", "first"));
    lines.push(item(3, "t1", "AgentMessage", "first answer"));
    lines.push(line(4, "turn_context", &json!({"turn_id": "t2"})));
    lines.push(item(5, "t2", "UserMessage", "second"));
    lines.push(item(6, "t2", "AgentMessage", "second answer"));
    write(&codex(&stage, "sessions", ID), lines.join("\n"));
    stage.json(["import", "codex"]);
    stage.flush();
    let answered = [("first", "first answer"), ("second", "second answer")];
    assert_eq!(asked(&stage, ID), answered.map(|(q, a)| (q.to_owned(), json!(a))));
}

#[test]
fn subagent_calls_in_old_transcripts_belong_to_their_session() {
    let stage = Stage::new().daemon();
    write(&project(&stage).join("old.jsonl"), transcript("old").join("\n"));
    let record = |kind: &str, uuid: &str, parent: Option<&str>, content: Value| {
        json!({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "old", "agentId": "f1", "isSidechain": true,
               "cwd": "/home/dev/shop", "timestamp": "2026-11-20T10:02:30Z", "message": {"id": uuid, "content": content}})
        .to_string()
    };
    let call = json!([{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "grep -r heliotrope src"}}]);
    let result = json!([{"type": "tool_result", "tool_use_id": "t1", "content": "src/plant.rs"}]);
    let lines = [
        record("user", "s1", None, json!("Look for the heliotrope.")),
        record("assistant", "s2", Some("s1"), call),
        record("user", "s3", Some("s2"), result),
        record("assistant", "s4", Some("s3"), json!([{"type": "text", "text": "It is in src/plant.rs."}])),
    ];
    write(&project(&stage).join("agent-f1.jsonl"), lines.join("\n"));
    let counted = stage.json(["import", "claude-code"]);
    assert_eq!((&counted["sessions"], &counted["empty"]), (&json!(1), &json!(0)), "{counted}");
    stage.flush();
    let session = stage.json(["ctl", "session", "old"]).to_string();
    assert!(session.contains("grep -r heliotrope src"), "{session}");
    assert!(session.contains("It is in src/plant.rs."), "{session}");
}

fn opencode(stage: &Stage) -> PathBuf {
    stage.user_home().join(".local/share/opencode")
}

fn database(stage: &Stage, sql: &str) {
    std::fs::create_dir_all(opencode(stage)).unwrap();
    let db = rusqlite::Connection::open(opencode(stage).join("opencode.db")).unwrap();
    db.execute_batch(sql).unwrap();
}

#[test]
fn import_skips_only_the_damaged_part_of_opencodes_database() {
    let stage = Stage::new().daemon();
    database(
        &stage,
        r#"CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, time_created INT, time_updated INT);
           CREATE TABLE message (id TEXT, session_id TEXT, time_created INT, data TEXT);
           CREATE TABLE part (id TEXT, message_id TEXT, time_created INT, data TEXT);
           INSERT INTO session VALUES ('ses_1', NULL, '/home/dev/shop', 1795000000000, 1795000000000);
           INSERT INTO message VALUES ('m1', 'ses_1', 1795000000000, '{"role":"user"}'),
             ('m2', 'ses_1', 1795000000001, '{"role":"assistant","time":{"completed":1795000000005}}');
           INSERT INTO part VALUES ('p1', 'm1', 1795000000000, '{"type":"text","text":"a question"}'),
             ('p2', 'm2', 1795000000001, x'ff00'), ('p3', 'm2', 1795000000002, '{"type":"text","text":"an answer"}');"#,
    );
    let counted = stage.json(["import", "opencode"]);
    assert_eq!((&counted["sessions"], &counted["damaged"]), (&json!(1), &json!(["ses_1"])), "{counted}");
    stage.flush();
    assert_eq!(asked(&stage, "ses_1"), [("a question".to_owned(), json!("an answer"))]);
}

#[test]
fn newer_opencode_stores_are_reported_and_older_ones_are_imported() {
    let stage = Stage::new().daemon();
    database(&stage, "CREATE TABLE session_v2 (id TEXT, directory TEXT);");
    let output = stage.recall(["import", "opencode"]);
    assert!(
        output.code() == 1 && output.stdout.contains("opencode.db: its tables differ from those"),
        "{output:?}"
    );
    std::fs::remove_file(opencode(&stage).join("opencode.db")).unwrap();

    let storage = opencode(&stage).join("storage");
    let info = |more: Value| {
        let mut info = json!({"directory": "/home/dev/shop", "time": {"created": TIME, "updated": TIME}});
        info.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        info.to_string()
    };
    write(&storage.join("session/p/ses_2.json"), info(json!({"id": "ses_2"})));
    write(&storage.join("session/p/ses_3.json"), info(json!({"id": "ses_3", "parentID": "ses_2"})));
    let message = |id: &str, role: &str, at: i64| {
        let text = json!({"id": id, "sessionID": "ses_2", "role": role, "time": {"created": at, "completed": at + 5}});
        write(&storage.join(format!("message/ses_2/{id}.json")), text.to_string());
    };
    let part = |message: &str, id: &str, text: &str| {
        let part = json!({"id": id, "messageID": message, "type": "text", "text": text});
        write(&storage.join(format!("part/{message}/{id}.json")), part.to_string());
    };
    message("msg_1", "user", TIME);
    message("msg_2", "assistant", TIME + 1);
    part("msg_1", "prt_1", "an old question");
    part("msg_2", "prt_2", "an old answer");
    let counted = stage.json(["import", "opencode"]);
    assert_eq!((&counted["sessions"], &counted["unreadable_files"]), (&json!(1), &json!([])), "{counted}");
    stage.flush();
    assert_eq!(asked(&stage, "ses_2"), [("an old question".to_owned(), json!("an old answer"))]);
}

#[test]
fn import_rejects_special_files_and_files_of_other_users() {
    let stage = Stage::new().daemon();
    let fifo = stage.user_home().join("fifo.jsonl");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, rustix::fs::Mode::RWXU, 0).unwrap();
    for source in ["recall", "claude-code", "codex", "gemini-cli", "opencode", "claude-mem"] {
        for path in [fifo.to_str().unwrap(), "/dev/zero"] {
            let output = stage.recall(["import", source, path]);
            assert_eq!(output.code(), 1, "{source} {path}: {output:?}");
            let text = format!("{}{}", output.stdout, output.stderr);
            assert!(text.contains("it is not a regular file"), "{source} {path}: {text}");
        }
    }
    let own = stage.user_home().join("transcript.jsonl");
    write(&own, transcript("other").join("\n"));
    if chown(&own, Some(12_345), None).is_err() || std::fs::metadata(&own).unwrap().uid() != 12_345 {
        println!("skipped: only the superuser can give a file away");
        return;
    }
    let output = stage.recall(["import", "claude-code", own.to_str().unwrap()]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stdout.contains("it belongs to user 12345"), "{output:?}");
}

#[test]
fn an_import_that_finds_nothing_says_where_it_looked_and_what_to_type() {
    let stage = Stage::new().daemon();
    let output = stage.recall(["import", "codex"]);
    assert!(output.stdout.contains(".codex/sessions or "), "{output:?}");
    assert!(output.stdout.contains("`recall import codex FOLDER`"), "{output:?}");
    let output = stage.recall(["import"]);
    assert!(output.stdout.contains("`recall import AGENT FOLDER`"), "{output:?}");
    assert!(output.stdout.contains("gemini-cli"), "{output:?}");
}

/// The most memory that the program may have, in KiB.
const MOST_KIB: u64 = 1024 * 1024;

/// Runs `recall` with little memory.
fn with_little_memory(stage: &Stage, arguments: &[&str]) -> std::process::Output {
    let recall = stage.command("recall");
    let mut shell = Command::new("sh");
    let script = format!("ulimit -v {MOST_KIB}; exec \"$0\" \"$@\"");
    shell.args(["-c", &script]).arg(recall.get_program()).args(arguments).stdin(Stdio::null());
    shell.envs(recall.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.output().unwrap()
}

#[test]
fn computed_columns_of_an_imported_database_fill_no_memory() {
    let stage = Stage::new().daemon();
    let path = stage.user_home().join("claude-mem.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT, project TEXT, started_at_epoch INT);
         CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, content_session_id TEXT, prompt_number INT, prompt_text TEXT,
           created_at_epoch INT, big TEXT GENERATED ALWAYS AS (hex(zeroblob(400000000))) VIRTUAL);
         INSERT INTO sdk_sessions VALUES (1, 's', 'shop', 1795000000000);
         INSERT INTO user_prompts VALUES (1, 's', 1, 'Why does the cart round?', 1795000000000);
         CREATE VIEW observations AS SELECT 1 AS id, hex(zeroblob(400000000)) AS title;",
    )
    .unwrap();
    drop(db);
    let output = with_little_memory(&stage, &["import", "claude-mem", path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.contains("1 prompt"), "{stdout}");
}
