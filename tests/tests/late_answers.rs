//! Tests answers that an agent writes to its record after the hook at the turn's end, or that no hook reports.

use std::io::Write;
use std::path::{Path, PathBuf};

use recall_tests::Stage;
use serde_json::{Value, json};

const SESSION: &str = "76fb270a-0000-4000-8000-000000000001";

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Adds a line to a record.
fn record(path: &Path, line: &Value) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}

/// Runs a hook of this agent.
#[track_caller]
fn hook(stage: &Stage, (agent, path): (&str, &Path), name: &str, fields: Value) {
    let mut event = json!({"session_id": SESSION, "cwd": stage.project(), "transcript_path": path,
                           "hook_event_name": name, "timestamp": now()});
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let output = stage.hook_bytes(&[agent, name], &serde_json::to_vec(&event).unwrap());
    assert_eq!(output.code(), 0, "{output:?}");
}

fn answers(stage: &Stage) -> Vec<(String, Value)> {
    let session = stage.json(["ctl", "session", SESSION]);
    let batches = session["batches"].as_array().unwrap();
    batches
        .iter()
        .filter_map(|batch| Some((batch["prompt"].as_str()?.to_owned(), batch["response"].clone())))
        .collect()
}

/// Waits until each prompt has its answer.
#[track_caller]
fn until_answered(stage: &Stage) -> Vec<(String, Value)> {
    for _ in 0..3_000 {
        let answers = answers(stage);
        if answers.iter().all(|(_, answer)| answer.is_string()) {
            return answers;
        }
    }
    panic!("an answer is missing: {:?}", answers(stage));
}

/// The record of Copilot CLI.
struct Copilot<'a> {
    stage: &'a Stage,
    path: PathBuf,
}

impl<'a> Copilot<'a> {
    fn new(stage: &'a Stage) -> Self {
        let path = stage.user_home().join(format!(".copilot/session-state/{SESSION}/events.jsonl"));
        let copilot = Self { stage, path };
        let context = json!({"cwd": stage.project()});
        copilot.record("session.start", &json!({"sessionId": SESSION, "version": 1, "context": context}));
        copilot.hook("SessionStart", json!({"source": "new"}));
        copilot
    }

    fn record(&self, kind: &str, data: &Value) {
        let id = format!("{kind} {}", std::fs::metadata(&self.path).map_or(0, |known| known.len()));
        record(
            &self.path,
            &json!({"type": kind, "data": data, "id": id, "timestamp": now(), "parentId": null}),
        );
    }

    fn hook(&self, name: &str, fields: Value) {
        hook(self.stage, ("copilot-cli", &self.path), name, fields);
    }

    fn ask(&self, prompt: &str) {
        self.hook("UserPromptSubmit", json!({"prompt": prompt}));
        self.record("user.message", &json!({"content": prompt}));
    }

    fn stop(&self) {
        self.hook("Stop", json!({"stop_reason": "end_turn", "stop_hook_active": false}));
    }

    fn answer(&self, text: &str) {
        self.record("assistant.message", &json!({"content": text, "toolRequests": []}));
    }
}

#[test]
fn an_answer_written_after_its_turn_ended_is_stored() {
    let stage = Stage::new().daemon();
    let copilot = Copilot::new(&stage);
    for number in 0..3 {
        copilot.ask(&format!("How does case {number} round?"));
        copilot.stop();
        copilot.answer(&format!("Case {number} rounds half-even because of the bank."));
    }
    let answers = until_answered(&stage);
    for (number, (prompt, answer)) in answers.iter().enumerate() {
        assert_eq!(*prompt, format!("How does case {number} round?"));
        assert_eq!(*answer, format!("Case {number} rounds half-even because of the bank."));
    }
    assert_eq!(answers.len(), 3);
    stage.flush();
    let found = stage.json(["search", "half-even bank"]);
    assert!(found["total"].as_u64().unwrap() > 0, "{found}");
}

#[test]
fn a_restarted_daemon_finds_answers_that_the_last_one_waited_for() {
    let mut stage = Stage::new().daemon();
    let path = {
        let copilot = Copilot::new(&stage);
        copilot.ask("How does case 0 round?");
        copilot.stop();
        copilot.path
    };
    stage.stop_daemon();
    stage.start_daemon();
    let copilot = Copilot { stage: &stage, path };
    copilot.answer("Case 0 rounds half-even because of the bank.");
    copilot.ask("How does case 1 round?");
    copilot.stop();
    copilot.answer("Case 1 rounds half-up.");
    let answers: Vec<Value> = until_answered(&stage).into_iter().map(|(_, answer)| answer).collect();
    assert_eq!(answers, ["Case 0 rounds half-even because of the bank.", "Case 1 rounds half-up."]);
}

#[test]
fn answers_missed_at_the_end_of_a_turn_are_read_when_the_session_ends() {
    let stage = Stage::new().daemon();
    let copilot = Copilot::new(&stage);
    copilot.ask("go on");
    copilot.stop();
    // Both prompts have the same words. Each gets the answer of its own turn.
    copilot.answer("The first.");
    copilot.ask("go on");
    copilot.stop();
    copilot.answer("The second. <private>hush</private>");
    copilot.hook("SessionEnd", json!({"reason": "complete"}));
    let answers = until_answered(&stage);
    assert_eq!(
        answers,
        [("go on".to_owned(), json!("The first.")), ("go on".to_owned(), json!("The second. "))]
    );
    assert_eq!(stage.json(["ctl", "session", SESSION])["status"], "completed");
}

#[test]
fn an_answer_is_never_stored_with_another_prompt() {
    let stage = Stage::new().daemon();
    let copilot = Copilot::new(&stage);
    copilot.hook("UserPromptSubmit", json!({"prompt": "This one never reached the record."}));
    copilot.stop();
    copilot.ask("And this one did?");
    copilot.answer("It did.");
    copilot.hook("SessionEnd", json!({"reason": "complete"}));
    stage.flush();
    let answers = answers(&stage);
    assert_eq!(answers[0].1, Value::Null, "{answers:?}");
    assert_eq!(answers[1].1, "It did.", "{answers:?}");
}

/// Starts a chat of Gemini CLI. No hook reports the end of its turns.
fn gemini(stage: &Stage) -> PathBuf {
    let folder = stage.user_home().join(".gemini/tmp/p");
    let path = folder.join("chats/session-2026-11-25T02-50-76fb270a.jsonl");
    record(&path, &json!({"sessionId": SESSION, "startTime": now(), "kind": "main"}));
    std::fs::write(folder.join(".project_root"), stage.project().to_str().unwrap()).unwrap();
    let of = ("gemini-cli", path.as_path());
    hook(stage, of, "SessionStart", json!({"source": "startup"}));
    record(&path, &json!({"id": "1", "timestamp": now(), "type": "user", "content": [{"text": "fix it"}]}));
    hook(stage, of, "BeforeAgent", json!({"prompt": "fix it"}));
    path
}

#[test]
fn a_turn_whose_end_no_hook_reports_gets_its_answer_when_the_session_ends() {
    let stage = Stage::new().daemon();
    let path = gemini(&stage);
    record(&path, &json!({"id": "2", "timestamp": now(), "type": "gemini", "content": "Fixed: half-even."}));
    hook(&stage, ("gemini-cli", &path), "SessionEnd", json!({"reason": "exit"}));
    assert_eq!(answers(&stage), [("fix it".to_owned(), json!("Fixed: half-even."))]);
}

/// The record of Antigravity CLI. Only this record contains its prompts and answers.
struct Antigravity<'a> {
    stage: &'a Stage,
    path: PathBuf,
}

impl<'a> Antigravity<'a> {
    fn new(stage: &'a Stage) -> Self {
        let own = stage.user_home().join(".gemini/antigravity-cli/brain").join(SESSION);
        Self { stage, path: own.join(".system_generated/logs/transcript_full.jsonl") }
    }

    /// Adds a step to the record.
    fn step(&self, number: i64, (source, kind): (&str, &str), text: &str) {
        record(
            &self.path,
            &json!({"step_index": number, "source": source, "type": kind, "status": "DONE", "created_at": now(),
                    "content": text}),
        );
    }

    fn ask(&self, number: i64, text: &str) {
        let text =
            format!("<USER_REQUEST>\n{text}\n</USER_REQUEST>\n<ADDITIONAL_METADATA>x</ADDITIONAL_METADATA>");
        self.step(number, ("USER_EXPLICIT", "USER_INPUT"), &text);
    }

    fn answer(&self, number: i64, text: &str) {
        self.step(number, ("MODEL", "PLANNER_RESPONSE"), text);
    }

    /// Runs a hook whose payload names no event. Returns what the hook printed.
    #[track_caller]
    fn hook(&self, name: &str, fields: Value) -> String {
        let brain = self.path.ancestors().nth(3).unwrap();
        let mut event = json!({"conversationId": SESSION, "workspacePaths": [self.stage.project()],
                               "transcriptPath": self.path, "artifactDirectoryPath": brain, "modelName": "m"});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let output = self.stage.hook_bytes(&["antigravity", name], &serde_json::to_vec(&event).unwrap());
        assert_eq!(output.code(), 0, "{output:?}");
        output.stdout
    }

    fn invoke(&self, steps: i64) -> String {
        self.hook("PreInvocation", json!({"invocationNum": 0, "initialNumSteps": steps}))
    }

    fn stop(&self) {
        let output = self.hook(
            "Stop",
            json!({"executionNum": 0, "terminationReason": "NO_TOOL_CALL", "fullyIdle": true, "error": ""}),
        );
        assert_eq!(output, "{}");
    }
}

#[test]
fn prompts_and_answers_only_in_the_record_are_stored_when_a_turn_ends() {
    let stage = Stage::new().daemon();
    let agent = Antigravity::new(&stage);
    agent.ask(0, "fix the cart");
    agent.invoke(1);
    let call = json!({"name": "run_command", "args": {"CommandLine": "npm test"}});
    let output = agent.hook("PostToolUse", json!({"stepIdx": 3, "toolCall": call, "error": ""}));
    assert_eq!(output, "{}");
    agent.answer(4, "Fixed: half-even.");
    agent.stop();
    agent.ask(5, "and the tests?");
    agent.invoke(6);
    agent.answer(7, "They pass.");
    agent.stop();
    stage.flush();
    let expected = [
        ("fix the cart".to_owned(), json!("Fixed: half-even.")),
        ("and the tests?".to_owned(), json!("They pass.")),
    ];
    assert_eq!(until_answered(&stage), expected);
    let session = stage.json(["ctl", "session", SESSION]);
    assert_eq!(session["batches"].as_array().unwrap().len(), 2, "{session}");
}

#[test]
fn a_record_written_after_a_turn_ended_is_read_when_the_next_one_ends() {
    let stage = Stage::new().daemon();
    let remembered = stage.recall(["remember", "Deploy only from main, because of the release script."]);
    assert_eq!(remembered.code(), 0, "{remembered:?}");
    let agent = Antigravity::new(&stage);
    let asked = now();
    let output = agent.invoke(1);
    assert!(output.starts_with(r#"{"injectSteps":[{"ephemeralMessage":""#), "{output}");
    assert!(output.contains("Deploy only from main"), "{output}");
    let call = json!({"name": "view_file", "args": {"AbsolutePath": "/shop/cart.js"}});
    agent.hook("PostToolUse", json!({"stepIdx": 3, "toolCall": call, "error": ""}));
    let answered = now();
    agent.stop();
    let step = |number: i64, of: (&str, &str), at: &str, text: &str| {
        record(
            &agent.path,
            &json!({"step_index": number, "source": of.0, "type": of.1, "created_at": at, "content": text}),
        );
    };
    step(0, ("USER_EXPLICIT", "USER_INPUT"), &asked, "<USER_REQUEST>\nfix the cart\n</USER_REQUEST>");
    step(4, ("MODEL", "PLANNER_RESPONSE"), &answered, "Fixed: half-even.");
    agent.ask(5, "and the tests?");
    assert_eq!(agent.invoke(6), "{}");
    agent.answer(7, "They pass.");
    agent.stop();
    stage.flush();
    let expected = [
        ("fix the cart".to_owned(), json!("Fixed: half-even.")),
        ("and the tests?".to_owned(), json!("They pass.")),
    ];
    assert_eq!(until_answered(&stage), expected);
}

#[test]
fn a_hook_prints_an_ask_decision_where_silence_would_mean_a_refusal() {
    let stage = Stage::new();
    let call =
        json!({"conversationId": SESSION, "stepIdx": 1, "toolCall": {"name": "view_file", "args": {}}});
    for (arguments, expected) in [
        (&["antigravity", "PreToolUse"][..], r#"{"decision":"ask"}"#),
        (&["some-agent", "PreToolUse"], r#"{"decision":"ask"}"#),
        (&["some-agent"], r#"{"decision":"ask"}"#),
        (&["some-agent", "PostToolUse"], "{}"),
    ] {
        let output = stage.hook_bytes(arguments, &serde_json::to_vec(&call).unwrap());
        assert_eq!((output.code(), output.stdout.as_str()), (0, expected), "{arguments:?}");
    }
    let other = json!({"session_id": SESSION, "hook_event_name": "PreToolUse", "tool_name": "Read"});
    assert_eq!(stage.hook_bytes(&["some-agent"], &serde_json::to_vec(&other).unwrap()).stdout, "");
}

#[test]
fn a_turn_of_codex_and_of_qwen_gets_its_answer_at_the_next_prompt() {
    let stage = Stage::new().daemon();
    let path = stage.user_home().join(format!(".codex/sessions/2026/11/25/rollout-{SESSION}.jsonl"));
    let line = |kind: &str, payload: Value| json!({"timestamp": now(), "type": kind, "payload": payload});
    record(&path, &line("session_meta", json!({"id": SESSION, "cwd": stage.project(), "source": "cli"})));
    record(&path, &line("turn_context", json!({"turn_id": "t1"})));
    record(&path, &line("event_msg", json!({"type": "user_message", "message": "fix it"})));
    let of = ("codex", path.as_path());
    hook(&stage, of, "UserPromptSubmit", json!({"prompt": "fix it", "turn_id": "t1"}));
    record(&path, &line("event_msg", json!({"type": "agent_message", "message": "Fixed by Codex."})));
    hook(&stage, of, "UserPromptSubmit", json!({"prompt": "next", "turn_id": "t2"}));
    assert_eq!(answers(&stage)[0].1, "Fixed by Codex.");

    let stage = Stage::new().daemon();
    let path = stage.user_home().join(format!(".qwen/projects/p/chats/{SESSION}.jsonl"));
    let message = |uuid: &str, parent: Value, kind: &str, text: &str| {
        json!({"uuid": uuid, "parentUuid": parent, "timestamp": now(), "type": kind, "cwd": stage.project(),
               "message": {"parts": [{"text": text}]}})
    };
    record(&path, &message("1", Value::Null, "user", "fix it"));
    let of = ("qwen-code", path.as_path());
    hook(&stage, of, "UserPromptSubmit", json!({"prompt": "fix it"}));
    record(&path, &message("2", json!("1"), "assistant", "Fixed by Qwen."));
    hook(&stage, of, "UserPromptSubmit", json!({"prompt": "next"}));
    assert_eq!(answers(&stage)[0].1, "Fixed by Qwen.");
}

#[test]
fn an_import_completes_a_session_that_hooks_have_captured() {
    let stage = Stage::new().daemon();
    let path = gemini(&stage);
    hook(&stage, ("gemini-cli", &path), "SessionEnd", json!({"reason": "exit"}));
    // The record moves to a place that neither events nor the housekeeping read.
    let moved = stage.user_home().join("elsewhere/p/chats/session-1.jsonl");
    std::fs::create_dir_all(moved.parent().unwrap()).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    std::fs::copy(
        path.parent().unwrap().parent().unwrap().join(".project_root"),
        stage.user_home().join("elsewhere/p/.project_root"),
    )
    .unwrap();
    record(&moved, &json!({"id": "2", "timestamp": now(), "type": "gemini", "content": "Fixed: half-even."}));
    record(&moved, &json!({"id": "3", "timestamp": now(), "type": "user", "content": "no hook told this"}));
    record(
        &moved,
        &json!({"id": "4", "timestamp": now(), "type": "gemini", "content": "But the chat does."}),
    );
    let folder = stage.user_home().join("elsewhere");
    let counted = stage.json(["import", "gemini-cli", folder.to_str().unwrap()]);
    assert_eq!((&counted["sessions"], &counted["prompts"]), (&json!(1), &json!(1)), "{counted}");
    stage.flush();
    let expected = [
        ("fix it".to_owned(), json!("Fixed: half-even.")),
        ("no hook told this".to_owned(), json!("But the chat does.")),
    ];
    assert_eq!(answers(&stage), expected);
    assert_eq!(stage.json(["ctl", "session", SESSION])["status"], "completed");
    let again = stage.json(["import", "gemini-cli", folder.to_str().unwrap()]);
    assert_eq!((&again["known"], &again["completed"]), (&json!(1), &json!(0)), "{again}");
    assert_eq!(answers(&stage), expected);
}

#[test]
fn text_from_a_pause_is_not_read_from_the_record() {
    let stage = Stage::new().daemon();
    let path = gemini(&stage);
    let message = |id: &str, kind: &str, text: &str| {
        record(&path, &json!({"id": id, "timestamp": now(), "type": kind, "content": text}));
    };
    // There are two pauses, because not only the latest one counts.
    for number in 1..=2 {
        assert_eq!(stage.recall(["pause"]).code(), 0);
        message(&format!("{number}a"), "gemini", "Answered in a pause.");
        message(&format!("{number}q"), "user", &format!("Asked in pause {number}."));
        message(&format!("{number}z"), "gemini", &format!("Heard in pause {number}."));
        assert_eq!(stage.recall(["resume"]).code(), 0);
    }
    // An event, the session's end and an import each read the record, whenever the last hook ran.
    let of = ("gemini-cli", path.as_path());
    hook(&stage, of, "BeforeAgent", json!({"prompt": "and now the tests"}));
    hook(&stage, of, "SessionEnd", json!({"reason": "exit"}));
    assert_eq!(stage.recall(["pause"]).code(), 0);
    message("3q", "user", "Asked behind the last hook, in a pause.");
    message("3z", "gemini", "Heard there.");
    assert_eq!(stage.recall(["resume"]).code(), 0);
    stage.json(["import", "gemini-cli"]);
    stage.flush();
    let expected = [("fix it".to_owned(), Value::Null), ("and now the tests".to_owned(), Value::Null)];
    assert_eq!(answers(&stage), expected);
}

/// A session of Claude Code with a running turn, and its transcript.
struct Claude<'a> {
    stage: &'a Stage,
    path: PathBuf,
}

impl<'a> Claude<'a> {
    fn new(stage: &'a Stage) -> Self {
        let path = stage.user_home().join(format!(".claude/projects/-p/{SESSION}.jsonl"));
        Self { stage, path }
    }

    fn hook(&self, name: &str, fields: Value) {
        hook(self.stage, ("claude-code", &self.path), name, fields);
    }

    fn call(&self, number: u32) {
        let fields = json!({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": "ok",
                            "tool_use_id": format!("t{number}")});
        self.hook("PostToolUse", fields);
    }

    fn message(&self, kind: &str, text: &str) {
        let content = match kind {
            "user" => json!(text),
            _ => json!([{"type": "text", "text": text}]),
        };
        self.line(json!({"type": kind, "message": {"id": text, "role": kind, "content": content}}));
    }

    fn line(&self, mut line: Value) {
        let id = format!("u{}", std::fs::metadata(&self.path).map_or(0, |known| known.len()));
        let common =
            json!({"uuid": id, "sessionId": SESSION, "cwd": self.stage.project(), "timestamp": now()});
        line.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
        record(&self.path, &line);
    }

    /// Adds text that was typed while the agent works. The program puts it into the running turn when the next call
    /// has ended.
    fn types(&self, text: &str) {
        record(
            &self.path,
            &json!({"type": "queue-operation", "operation": "enqueue", "timestamp": now(), "sessionId": SESSION,
                    "content": text}),
        );
    }

    fn takes_typed(&self, text: &str) {
        self.line(json!({"type": "attachment",
                         "attachment": {"type": "queued_command", "prompt": text, "commandMode": "prompt"}}));
    }
}

#[test]
fn a_prompt_typed_while_the_agent_works_is_read_when_the_turn_ends() {
    let stage = Stage::new().daemon();
    let claude = Claude::new(&stage);
    claude.hook("SessionStart", json!({"source": "startup"}));
    claude.hook("UserPromptSubmit", json!({"prompt": "start"}));
    claude.message("user", "start");
    claude.call(1);
    let typed = "keep the old API, I insist. <private>heron</private> DB_PASSWORD=swordfish";
    claude.types(typed);
    claude.takes_typed(typed);
    claude.call(2);
    claude.message("assistant", "Kept.");
    let stop = json!({"stop_hook_active": false, "last_assistant_message": "Kept."});
    claude.hook("Stop", stop.clone());
    stage.flush();
    let kept = "keep the old API, I insist.  DB_PASSWORD=[redacted:password]";
    let expected = [("start".to_owned(), json!("Kept.")), (kept.to_owned(), json!("Kept."))];
    assert_eq!(answers(&stage), expected);
    // Neither a later look nor an import adds it again.
    claude.hook("Stop", stop);
    claude.hook("SessionEnd", json!({"reason": "other"}));
    stage.json(["import", "claude-code"]);
    stage.flush();
    assert_eq!(answers(&stage), expected);
    let rows = stage.json(["sql", "SELECT count(*) FROM deliveries WHERE flags & 32 <> 0"]);
    assert_eq!(rows["rows"][0][0], 1, "its source says where it comes from: {rows}");
}

#[test]
fn prompts_typed_in_a_pause_an_exclusion_or_another_program_are_not_read() {
    let mut stage = Stage::new().daemon();
    let claude = Claude::new(&stage);
    claude.hook("SessionStart", json!({"source": "startup"}));
    claude.hook("UserPromptSubmit", json!({"prompt": "start"}));
    claude.message("user", "start");
    claude.call(1);
    // The text is typed in a pause, and the agent takes it up after the pause.
    assert_eq!(stage.recall(["pause"]).code(), 0);
    claude.types("typed in the pause");
    assert_eq!(stage.recall(["resume"]).code(), 0);
    claude.takes_typed("typed in the pause");
    claude.call(2);
    // The text is typed while the project is excluded. A hook runs in that time, and its event is not taken.
    let rules = stage.project().join(".recall.toml");
    std::fs::write(&rules, "disable = true\n").unwrap();
    while stage.json(["ctl", "status"])["events"]["excluded"] == 0 {
        claude.call(3);
    }
    claude.takes_typed("typed in the exclusion");
    std::fs::remove_file(&rules).unwrap();
    while stage.json(["sql", "SELECT count(*) FROM activities WHERE tool_use_id = 't4'"])["rows"][0][0] == 0 {
        claude.call(4);
    }
    claude.hook("Stop", json!({"last_assistant_message": "Done."}));
    // The text is typed into a program without hooks that continues the session. Then a program with hooks continues
    // it.
    claude.message("user", "typed without recall");
    claude.message("assistant", "Heard without recall.");
    claude.hook("SessionStart", json!({"source": "resume"}));
    claude.hook("UserPromptSubmit", json!({"prompt": "and on"}));
    claude.message("user", "and on");
    claude.hook("Stop", json!({"last_assistant_message": "On."}));
    // While no daemon runs, it is unknown what is excluded.
    claude.hook("UserPromptSubmit", json!({"prompt": "once more"}));
    claude.message("user", "once more");
    stage.stop_daemon();
    Claude::new(&stage).takes_typed("typed while no daemon ran");
    stage.start_daemon();
    let claude = Claude::new(&stage);
    claude.hook("Stop", json!({"last_assistant_message": "Once more."}));
    claude.hook("SessionEnd", json!({"reason": "other"}));
    stage.flush();
    let asked: Vec<String> = answers(&stage).into_iter().map(|(prompt, _)| prompt).collect();
    assert_eq!(asked, ["start", "and on", "once more"]);
}

#[test]
fn a_forgotten_prompt_is_not_read_from_the_record_again() {
    let stage = Stage::new().daemon();
    let claude = Claude::new(&stage);
    claude.hook("UserPromptSubmit", json!({"prompt": "start"}));
    claude.message("user", "start");
    claude.call(1);
    claude.takes_typed("the heron nests at dawn");
    claude.call(2);
    claude.hook("Stop", json!({"last_assistant_message": "Noted."}));
    stage.flush();
    assert_eq!(answers(&stage).len(), 2);
    let output = stage.recall(["forget", "--yes", "--query", "heron nests"]);
    assert_eq!(output.code(), 0, "{output:?}");
    claude.hook("Stop", json!({"last_assistant_message": "Noted."}));
    claude.hook("SessionEnd", json!({"reason": "other"}));
    stage.flush();
    assert!(!stage.json(["ctl", "session", SESSION]).to_string().contains("heron"));
}

#[test]
fn prompts_that_no_hook_reports_are_read_when_the_session_ends() {
    let stage = Stage::new().daemon();
    let claude = Claude::new(&stage);
    claude.hook("SessionStart", json!({"source": "startup"}));
    for number in 1..=2 {
        claude.message("user", &format!("question {number}"));
        claude.call(number);
        claude.message("assistant", &format!("answer {number}"));
        claude.hook("Stop", json!({"last_assistant_message": format!("answer {number}")}));
    }
    claude.hook("SessionEnd", json!({"reason": "other"}));
    stage.flush();
    let expected = [1, 2].map(|number| (format!("question {number}"), json!(format!("answer {number}"))));
    assert_eq!(answers(&stage), expected);
}
