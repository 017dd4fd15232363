//! Answers that an agent writes to its record after the hook of the turn's end, or that no hook reports.

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
    let said = stage.hook_bytes(&[agent, name], &serde_json::to_vec(&event).unwrap());
    assert_eq!(said.code(), 0, "{said:?}");
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
fn an_answer_that_is_written_after_the_turns_end_is_found() {
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
fn a_daemon_that_is_back_looks_for_what_the_one_before_waited_for() {
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
fn the_sessions_end_reads_again_what_the_turns_end_did_not_find() {
    let stage = Stage::new().daemon();
    let copilot = Copilot::new(&stage);
    copilot.ask("go on");
    copilot.stop();
    // The same words again: each has the answer of its own turn.
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
fn no_answer_is_put_under_another_question() {
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

/// A chat of Gemini CLI, whose turn's end no hook reports.
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
fn a_turn_whose_end_no_hook_reports_gets_its_answer_at_the_sessions_end() {
    let stage = Stage::new().daemon();
    let path = gemini(&stage);
    record(&path, &json!({"id": "2", "timestamp": now(), "type": "gemini", "content": "Fixed: half-even."}));
    hook(&stage, ("gemini-cli", &path), "SessionEnd", json!({"reason": "exit"}));
    assert_eq!(answers(&stage), [("fix it".to_owned(), json!("Fixed: half-even."))]);
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
    // Where no event and no housekeeping comes any more.
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
