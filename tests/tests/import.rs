//! Tests `recall import` with transcripts that real agents wrote.

use std::path::{Path, PathBuf};

use recall_tests::Stage;
use serde_json::{Value, json};

const LONG: &str = "d84a0660-97da-4ee4-b745-131143ff0d8a";
const TERMINAL: &str = "ca6d2b6c-f9ba-4956-96f1-45e99bfb01e2";

fn recorded(agent: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/transcripts").join(agent)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        match path.is_dir() {
            true => copy(&path, &to.join(name)),
            false => drop(std::fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

/// Returns a stage whose home has transcripts of Claude Code.
fn with_history() -> Stage {
    let stage = Stage::new().daemon();
    copy(&recorded("claude-code"), &stage.user_home().join(".claude/projects/-home-dev-shop"));
    stage
}

fn import(stage: &Stage, arguments: &[&str]) -> Value {
    stage.json(["import"].into_iter().chain(arguments.iter().copied()))
}

fn prompts(session: &Value) -> Vec<&str> {
    let batches = session["batches"].as_array().unwrap();
    batches.iter().filter_map(|batch| batch["prompt"].as_str()).collect()
}

#[test]
fn transcripts_become_sessions_with_their_dates() {
    let stage = with_history();
    let counted = import(&stage, &["--dry-run"]);
    assert_eq!((&counted["sessions"], &counted["unreadable_files"]), (&json!(4), &json!([])), "{counted}");
    assert_eq!(stage.json(["ctl", "sessions"])["sessions"], json!([]), "a dry run stores nothing");

    let counted = import(&stage, &[]);
    assert_eq!(
        (&counted["sessions"], &counted["projects"]),
        (&json!(4), &json!(["/home/dev/shop"])),
        "{counted}"
    );
    stage.flush();
    let session = stage.json(["ctl", "session", LONG]);
    assert_eq!(session["status"], "completed");
    assert!(session["started_at"].as_str().unwrap().starts_with("2026-11-20T23:4"), "{session}");
    let asked = prompts(&session);
    assert!(
        asked.contains(&"Say hello, please.") && asked.contains(&"Show the discount on the receipt"),
        "{asked:?}"
    );
    assert!(!session.to_string().contains("local-command"), "commands of the terminal are no prompts");
    assert_eq!(session["compaction_summaries"].as_array().unwrap().len(), 2, "{session}");
    let first = &session["batches"][0];
    assert!(first["activities"].as_array().unwrap().len() >= 10, "{first}");
    assert!(first["response"].as_str().unwrap().contains("discountPercent"), "{first}");
    let terminal = stage.json(["ctl", "session", TERMINAL]);
    assert!(prompts(&terminal).contains(&"Delete the dist folder"), "{terminal}");
    let found = stage.json(["search", "discountPercent receipt", "--project", "shop"]);
    assert!(found["total"].as_u64().unwrap() > 0, "{found}");
    assert!(
        !stage.json(["search", "MARK"]).to_string().contains("MARK-"),
        "what hooks had injected is no memory"
    );

    let again = import(&stage, &[]);
    assert_eq!((&again["sessions"], &again["known"]), (&json!(0), &json!(4)), "{again}");
}

#[test]
fn a_session_captured_by_hooks_is_not_duplicated_by_an_import() {
    let stage = with_history();
    // The hooks were in time for the last two prompts of the terminal session.
    let event = |name: &str, fields: Value| {
        let mut deliver = stage.delivery(&stage.event(TERMINAL, name, fields));
        deliver.captured_at_ms = 1_795_218_874_000;
        deliver
    };
    stage.deliver(&[event("UserPromptSubmit", json!({"prompt": "Ask me which currency"}))]);
    stage.deliver(&[event("Stop", json!({"last_assistant_message": "EUR first, then."}))]);
    import(&stage, &[]);
    stage.flush();
    let session = stage.json(["ctl", "session", TERMINAL]);
    let asked = prompts(&session);
    assert_eq!(asked.iter().filter(|prompt| **prompt == "Ask me which currency").count(), 1, "{asked:?}");
    assert_eq!(asked[0], "Delete the dist folder", "what was before the hooks is imported: {asked:?}");
    assert_eq!(import(&stage, &[])["sessions"], 0);
}

#[test]
fn sessions_of_excluded_projects_are_not_imported() {
    let stage = Stage::new();
    copy(&recorded("claude-code"), &stage.user_home().join(".claude/projects/-home-dev-shop"));
    std::fs::create_dir_all(stage.home()).unwrap();
    std::fs::write(stage.home().join("config.toml"), "[capture]\nexclude = ['/home/dev/*']\n").unwrap();
    let stage = stage.daemon();
    let counted = import(&stage, &[]);
    assert_eq!((&counted["sessions"], &counted["left_out"]), (&json!(0), &json!(4)), "{counted}");
    assert_eq!(stage.json(["ctl", "sessions"])["sessions"], json!([]));
}

#[test]
fn a_forgotten_session_is_not_imported_again() {
    let stage = with_history();
    import(&stage, &[]);
    stage.flush();
    stage.json(["forget", "--session", LONG, "--yes"]);
    let counted = import(&stage, &[]);
    assert_eq!((&counted["known"], &counted["left_out"]), (&json!(3), &json!(1)), "{counted}");
    assert_eq!(stage.json(["ctl", "sessions"])["sessions"].as_array().unwrap().len(), 3);
}

#[test]
fn an_import_notifies_no_subscriber_and_calls_no_model() {
    let stage = Stage::new();
    copy(&recorded("claude-code"), &stage.user_home().join(".claude/projects/-home-dev-shop"));
    let marker = stage.user_home().join("told");
    let config = format!(
        "[[subscribe]]\nevents = ['session_start', 'session_end', 'observation_created', 'summary_created']\n\
         command = ['touch', {marker:?}]\n[compression]\nbackend = 'anthropic'\nbase_url = 'http://127.0.0.1:9'\n"
    );
    std::fs::create_dir_all(stage.home()).unwrap();
    std::fs::write(stage.home().join("config.toml"), config).unwrap();
    let stage = stage.daemon();
    assert_eq!(import(&stage, &[])["sessions"], 4);
    stage.flush();
    assert!(!marker.exists());
    let jobs = stage.json(["ctl", "jobs"]);
    assert!(!jobs.to_string().contains("error\":\""), "no call failed, because none was made: {jobs}");
    let found = stage.json(["search", "kind:observation"]);
    assert!(found["total"].as_u64().unwrap() > 0, "{found}");
}

#[test]
fn a_truncated_transcript_is_completed_by_the_next_import() {
    let stage = with_history();
    let path = stage.user_home().join(format!(".claude/projects/-home-dev-shop/{LONG}.jsonl"));
    let whole = std::fs::read_to_string(&path).unwrap();
    let cut: String = whole.lines().take(90).map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, format!("{cut}{{\"type\":\"user\",\"mess")).unwrap();
    let counted = import(&stage, &[]);
    assert_eq!((&counted["sessions"], &counted["unreadable_lines"]), (&json!(4), &json!(1)), "{counted}");
    std::fs::write(&path, whole).unwrap();
    let counted = import(&stage, &[]);
    assert_eq!((&counted["sessions"], &counted["known"]), (&json!(1), &json!(3)), "{counted}");
    stage.flush();
    let session = stage.json(["ctl", "session", LONG]);
    assert!(prompts(&session).contains(&"Show the discount on the receipt"), "{session}");
}

/// Returns a transcript of one prompt and its answer.
fn short_transcript(number: usize) -> String {
    let record = |kind: &str, uuid: &str, message: Value| {
        json!({"type": kind, "uuid": format!("{uuid}-{number}"), "sessionId": format!("s{number}"), "cwd": "/home/dev/shop",
               "timestamp": format!("2026-01-01T{:02}:{:02}:00Z", number / 60, number % 60), "message": message})
    };
    let asked = record("user", "asked", json!({"content": format!("Why does case {number} fail?")}));
    let answer =
        json!({"id": "m", "content": [{"type": "text", "text": format!("Case {number} was never loaded.")}]});
    format!("{asked}\n{}\n", record("assistant", "said", answer))
}

#[test]
fn an_import_continues_after_a_kill_without_duplicates() {
    const SESSIONS: usize = 300;
    let stage = Stage::new().daemon();
    let folder = stage.user_home().join(".claude/projects/-home-dev-shop");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..SESSIONS {
        std::fs::write(folder.join(format!("s{number}.jsonl")), short_transcript(number)).unwrap();
    }
    let mut command = stage.command("recall");
    command.arg("import").stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut importing = command.spawn().unwrap();
    let stored = || stage.json(["ctl", "status"])["events"]["stored"].as_u64().unwrap();
    while stored() < 60 && importing.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    importing.kill().unwrap();
    importing.wait().unwrap();
    let before = import(&stage, &["--dry-run"]);
    assert_eq!(before["sessions"], SESSIONS, "{before}");
    let counted = import(&stage, &[]);
    let (new, known) = (counted["sessions"].as_u64().unwrap(), counted["known"].as_u64().unwrap());
    assert_eq!(new + known, SESSIONS as u64, "{counted}");
    assert!(known > 0 && new > 0, "it was killed in the middle: {counted}");
    stage.flush();
    // A start, a prompt, an answer and an end, each stored once.
    assert_eq!(stored(), 4 * SESSIONS as u64);
    assert_eq!(import(&stage, &[])["known"], SESSIONS);
    assert_eq!(stored(), 4 * SESSIONS as u64);
}

#[test]
fn an_import_reports_missing_and_unreadable_sources() {
    let stage = Stage::new().daemon();
    let output = stage.recall(["import"]);
    assert!(
        output.code() == 0 && output.stdout.starts_with("No recorded sessions were found."),
        "{output:?}"
    );
    let output = stage.recall(["import", "claude-code", "/no/such/place"]);
    assert_eq!(output.code(), 2, "{output:?}");
    assert!(output.stderr.contains("Cannot read /no/such/place"), "{output:?}");
    let output = stage.recall(["import", "frob"]);
    assert!(output.stderr.contains("claude-code"), "it names what there is: {output:?}");
    let garbage = stage.user_home().join("garbage.jsonl");
    std::fs::write(&garbage, "no JSON\n{\"type\":\n").unwrap();
    let output = stage.recall(["import", "claude-code", garbage.to_str().unwrap()]);
    assert!(output.code() == 1 && output.stdout.contains("Cannot read "), "{output:?}");
}

#[test]
fn rollouts_of_codex_become_sessions() {
    let stage = Stage::new().daemon();
    copy(&recorded("codex"), &stage.user_home().join(".codex/sessions"));
    let counted = import(&stage, &["codex"]);
    assert_eq!(
        (&counted["sessions"], &counted["empty"]),
        (&json!(4), &json!(1)),
        "a subagent's is left out: {counted}"
    );
    stage.flush();
    let session = stage.json(["ctl", "session", "01a1fb5a-ecf9"]);
    assert_eq!(prompts(&session), ["please fix the cart total", "hello again"], "{session}");
    let calls = session["batches"][0]["activities"].as_array().unwrap();
    let tools: Vec<_> = calls.iter().map(|call| call["tool_name"].as_str().unwrap()).collect();
    assert_eq!(tools[..3], ["Bash", "apply_patch", "mcp__memo__search"], "{calls:?}");
    let failed = calls.iter().filter(|call| call["failed"] == true).count();
    assert_eq!(failed, 1, "a rollout tells the exit code: {calls:?}");
    let old = stage.json(["ctl", "session", "0199a213"]);
    assert_eq!(prompts(&old), ["the cart ignores quantity, fix it", "now add a test"]);
    assert_eq!(old["batches"][0]["response"], "Totals now multiply by quantity.");
    assert!(old["started_at"].as_str().unwrap().starts_with("2025-10-02"), "{old}");
    assert_eq!(import(&stage, &["codex"])["known"], 4);
}

#[test]
fn chats_of_gemini_become_sessions() {
    let stage = Stage::new().daemon();
    copy(&recorded("gemini-cli"), &stage.user_home().join(".gemini"));
    let counted = import(&stage, &[]);
    assert_eq!(
        (&counted["sessions"], &counted["projects"]),
        (&json!(2), &json!(["/home/dev/shop"])),
        "{counted}"
    );
    stage.flush();
    let session = stage.json(["ctl", "session", "76fb270a"]);
    assert_eq!(prompts(&session), ["please fix the cart total", "hello again"], "{session}");
    assert_eq!(session["batches"][0]["response"], "The cart total now multiplies by quantity.");
    assert_eq!(session["batches"][0]["activities"].as_array().unwrap().len(), 4, "each call once: {session}");
    assert!(!session.to_string().contains("hook_context"), "{session}");
    let old = stage.json(["ctl", "session", "4d0e9b0a"]);
    assert_eq!(prompts(&old), ["why is the cart total wrong?"]);
    assert_eq!(old["batches"][0]["response"], "It sums prices and ignores `qty`.");
    assert_eq!(import(&stage, &[])["known"], 2);
}

#[test]
fn chats_of_qwen_become_sessions() {
    let stage = Stage::new().daemon();
    copy(&recorded("qwen-code"), &stage.user_home().join(".qwen"));
    let counted = import(&stage, &[]);
    assert_eq!((&counted["sessions"], &counted["unreadable_files"]), (&json!(2), &json!([])), "{counted}");
    stage.flush();
    let session = stage.json(["ctl", "session", "da323f8d"]);
    assert_eq!(prompts(&session)[..2], ["please fix the cart total", "delegate this"]);
    let batches = session["batches"].as_array().unwrap();
    let sources: Vec<&Value> = batches.iter().map(|batch| &batch["source"]).collect();
    assert_eq!(sources, ["user", "user", "agent_notification"], "no notice is a prompt of the user");
    let (first, second) = (&session["batches"][0], &session["batches"][1]);
    assert_eq!(first["response"], "The cart total now multiplies by quantity.");
    let calls = first["activities"].as_array().unwrap();
    let outcomes: Vec<_> =
        calls.iter().map(|call| (call["tool_name"].as_str().unwrap(), &call["failed"])).collect();
    let (failed, fine) = (json!(true), json!(false));
    let expected =
        [("read_file", &fine), ("edit", &fine), ("run_shell_command", &failed), ("mcp__memo__search", &fine)];
    assert_eq!(outcomes[..4], expected, "{calls:?}");
    let of_subagent = "src holds cart.py.";
    assert!(
        second.to_string().contains(of_subagent) || session.to_string().contains(of_subagent),
        "{session}"
    );
    assert!(
        !session.to_string().contains("prompt-submit-context"),
        "what hooks added is no prompt: {session}"
    );
    assert!(session["started_at"].as_str().unwrap().starts_with("2026-11-20T23:54"), "{session}");
    assert_eq!(import(&stage, &[])["known"], 2);
}

#[test]
fn records_of_copilot_become_sessions() {
    let stage = Stage::new().daemon();
    copy(&recorded("copilot-cli"), &stage.user_home().join(".copilot"));
    let storage = stage.user_home().join(".config/Code/User/workspaceStorage/3f1f2b7c");
    copy(&recorded("vscode-copilot"), &storage.join("GitHub.copilot-chat"));
    let counted = import(&stage, &[]);
    assert_eq!((&counted["sessions"], &counted["unreadable_lines"]), (&json!(3), &json!(0)), "{counted}");
    stage.flush();
    let session = stage.json(["ctl", "session", "b6c7f209"]);
    assert_eq!(prompts(&session), ["please fix the cart total", "hello again"], "{session}");
    let batch = &session["batches"][0];
    assert_eq!(batch["response"], "The cart total now multiplies by quantity.");
    let calls = batch["activities"].as_array().unwrap();
    let failed: Vec<_> =
        calls.iter().filter(|call| call["failed"] == true).map(|call| &call["tool_name"]).collect();
    assert_eq!(failed, ["edit", "bash"], "{calls:?}");
    assert!(!session.to_string().contains("recall: noted"), "what hooks added is no result: {session}");

    let delegated = stage.json(["ctl", "session", "f416e2f9"]);
    assert_eq!(prompts(&delegated), ["delegate this"], "a subagent's prompt is its caller's: {delegated}");
    assert_eq!(delegated["batches"][0]["response"], "The subagent is done.");

    let of_editor = stage.json(["ctl", "session", "5b0a4c1e"]);
    assert_eq!(
        (&of_editor["agent"], prompts(&of_editor)),
        (&json!("vscode-copilot"), vec!["please fix the cart total"])
    );
    assert_eq!(of_editor["batches"][0]["response"], "The cart total now multiplies by quantity.");
    assert_eq!(import(&stage, &[])["known"], 3);
}

/// Creates a database as OpenCode 1.18 writes it, with the columns that matter.
fn opencode_database(stage: &Stage) {
    let folder = stage.user_home().join(".local/share/opencode");
    std::fs::create_dir_all(&folder).unwrap();
    let db = rusqlite::Connection::open(folder.join("opencode.db")).unwrap();
    db.execute_batch(
        r#"CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT, time_created INTEGER,
                                 time_updated INTEGER);
           CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
           CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
           INSERT INTO session VALUES ('ses_1', NULL, '/home/dev/shop', 'Fix', 1795000000000, 1795000009000),
                                      ('ses_2', 'ses_1', '/home/dev/shop', 'Child', 1795000001000, 1795000002000);
           INSERT INTO message VALUES
             ('m1', 'ses_1', 1795000001000, '{"role":"user"}'),
             ('m2', 'ses_1', 1795000002000, '{"role":"assistant","time":{"completed":1795000003000}}'),
             ('m3', 'ses_1', 1795000004000, '{"role":"assistant","time":{"completed":1795000005000}}');
           INSERT INTO part VALUES
             ('p1', 'm1', 'ses_1', 1795000001000, '{"type":"text","text":"Why does the cart round twice?"}'),
             ('p2', 'm1', 'ses_1', 1795000001000, '{"type":"text","text":"injected","synthetic":true}'),
             ('p3', 'm2', 'ses_1', 1795000002500, '{"type":"tool","tool":"bash","callID":"c1","state":{"status":"completed",
                "input":{"command":"ls"},"output":"a\n","metadata":{"exit":0},"time":{"end":1795000002900}}}'),
             ('p4', 'm2', 'ses_1', 1795000002600, '{"type":"tool","tool":"read","callID":"c2","state":{"status":"error",
                "input":{"filePath":"x"},"error":"File not found","time":{"end":1795000002950}}}'),
             ('p5', 'm3', 'ses_1', 1795000004500, '{"type":"text","text":"Because each line was rounded, too."}');"#,
    )
    .unwrap();
}

#[test]
fn sessions_of_opencode_are_read_from_its_database() {
    let stage = Stage::new().daemon();
    opencode_database(&stage);
    let counted = import(&stage, &[]);
    assert_eq!((&counted["sessions"], &counted["prompts"]), (&json!(1), &json!(1)), "{counted}");
    stage.flush();
    let session = stage.json(["ctl", "session", "ses_1"]);
    assert_eq!(prompts(&session), ["Why does the cart round twice?"], "{session}");
    let batch = &session["batches"][0];
    assert_eq!(batch["response"], "Because each line was rounded, too.");
    assert_eq!(
        (&batch["activities"][0]["failed"], &batch["activities"][1]["failed"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(import(&stage, &[])["known"], 1);
}

#[test]
fn text_injected_or_returned_by_recall_is_not_imported() {
    let stage = Stage::new().daemon();
    let note = "The quokka cache never expired because the TTL was in milliseconds.";
    let fenced = format!("<recall-context>\n#1 {note}\n</recall-context>");
    let record = |kind: &str, uuid: &str, fields: Value| {
        let mut record = json!({"type": kind, "uuid": uuid, "sessionId": "told", "cwd": "/home/dev/shop",
            "timestamp": "2026-01-01T10:00:00Z"});
        record.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        record
    };
    let attached =
        |uuid: &str, attachment: Value| record("attachment", uuid, json!({"attachment": attachment}));
    let assistant_record = |uuid: &str, content: Value| {
        record("assistant", uuid, json!({"message": {"id": uuid, "role": "assistant", "content": content}}))
    };
    let asks = |id: &str, name: &str, input: Value| {
        assistant_record(
            &format!("call-{id}"),
            json!([{"type": "tool_use", "id": id, "name": name, "input": input}]),
        )
    };
    let answered = |id: &str| {
        let result =
            json!([{"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": note}]}]);
        record(
            "user",
            &format!("result-{id}"),
            json!({"message": {"role": "user", "content": result},
            "toolUseResult": {"stdout": note}}),
        )
    };
    let records = [
        record(
            "user",
            "a",
            json!({"message": {"role": "user", "content": format!("{fenced}Why does it grow?")}}),
        ),
        attached(
            "b",
            json!({"type": "hook_additional_context", "content": [fenced], "hookEvent": "UserPromptSubmit"}),
        ),
        attached(
            "c",
            json!({"type": "hook_success", "content": fenced, "stdout": fenced, "hookEvent": "SessionStart"}),
        ),
        attached(
            "d",
            json!({"type": "queued_command", "prompt": format!("{fenced}And then?"), "commandMode": "prompt"}),
        ),
        asks("t1", "mcp__recall__get_observations", json!({"ids": [1], "query": note})),
        answered("t1"),
        asks("t2", "Bash", json!({"command": format!("recall search '{note}'"), "description": note})),
        answered("t2"),
        assistant_record("e", json!([{"type": "text", "text": "It is known."}])),
    ];
    let folder = stage.user_home().join(".claude/projects/-home-dev-shop");
    std::fs::create_dir_all(&folder).unwrap();
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    std::fs::write(folder.join("told.jsonl"), lines.join("\n")).unwrap();
    assert_eq!(import(&stage, &["claude-code"])["sessions"], 1);
    stage.flush();
    let session = stage.json(["ctl", "session", "told"]);
    assert_eq!(prompts(&session), ["Why does it grow?", "And then?"], "{session}");
    assert!(!session.to_string().contains("quokka"), "{session}");
    assert!(session.to_string().contains("mcp__recall__get_observations"), "{session}");
    assert_eq!(stage.json(["search", "quokka", "--all"])["results"], json!([]));
}

/// Only an outline of a long transcript is kept in memory. The results of calls are read again when they are sent.
#[test]
fn a_long_session_is_stored_whole_and_once() {
    const CALLS: usize = 420;
    const ID: &str = "11111111-0000-4000-8000-00000000feed";
    let stage = Stage::new().daemon();
    let folder = stage.user_home().join(".claude/projects/-home-dev-shop");
    std::fs::create_dir_all(&folder).unwrap();
    let (mut lines, mut parent) = (Vec::new(), Value::Null);
    let mut add = |kind: &str, content: Value, result: Value| {
        let uuid = format!("u{:05}", lines.len());
        let line = json!({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": ID, "cwd": "/home/dev/shop",
            "timestamp": "2026-11-20T10:02:00Z", "message": {"role": kind, "id": uuid, "content": content},
            "toolUseResult": result});
        parent = json!(uuid);
        lines.push(line.to_string());
    };
    for number in 0..CALLS {
        if number % 140 == 0 {
            add("user", json!(format!("question {number}")), Value::Null);
        }
        let id = format!("t{number}");
        let input = json!({"command": format!("step {number}")});
        add(
            "assistant",
            json!([{"type": "tool_use", "id": id, "name": "Bash", "input": input}]),
            Value::Null,
        );
        let text = format!("result {number} {}", "x".repeat(42_000));
        add("user", json!([{"type": "tool_result", "tool_use_id": id, "content": text}]), json!(text));
        if number % 140 == 139 {
            add("assistant", json!([{"type": "text", "text": format!("answer {number}")}]), Value::Null);
        }
    }
    std::fs::write(folder.join(format!("{ID}.jsonl")), lines.join("\n")).unwrap();
    let counted = import(&stage, &["claude-code"]);
    assert_eq!((&counted["sessions"], &counted["prompts"]), (&json!(1), &json!(3)), "{counted}");
    stage.flush();
    let rows = |sql: &str| stage.json(["sql", sql])["rows"].clone();
    let calls = "SELECT count(*), count(DISTINCT input), sum(response IS NOT NULL) FROM activities";
    assert_eq!(rows(calls), json!([[CALLS, CALLS, CALLS]]));
    let expected =
        json!([["question 0", "answer 139"], ["question 140", "answer 279"], ["question 280", "answer 419"]]);
    assert_eq!(
        rows("SELECT prompt, response FROM prompt_batches WHERE prompt IS NOT NULL ORDER BY seq"),
        expected
    );
    let again = import(&stage, &["claude-code"]);
    assert_eq!((&again["sessions"], &again["known"]), (&json!(0), &json!(1)), "{again}");
}
