//! Tests events in a session's life besides its work: daemons that stop or are killed, turns without an end, a
//! cleared conversation, and plans.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use recall_protocol::wire::Deliver;
use recall_tests::Stage;
use recall_tests::provider::{Behaviour, Provider};
use serde_json::{Value, json};

fn lives(session: &Value) -> Vec<&str> {
    session["life_events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect()
}

fn prompt(stage: &Stage, session: &str, id: &str, text: &str) {
    stage.hook(&stage.event(session, "UserPromptSubmit", json!({"prompt": text, "prompt_id": id})));
}

fn stop(stage: &Stage, session: &str, id: &str, text: &str) {
    let fields = json!({"last_assistant_message": text, "prompt_id": id});
    stage.hook(&stage.event(session, "Stop", fields));
}

#[test]
fn a_session_outlives_its_daemons_and_each_suspension_is_recorded_once() {
    let mut stage = Stage::new().daemon();
    stage.hook(&stage.event("s", "SessionStart", json!({"source": "startup"})));
    prompt(&stage, "s", "p1", "Go");
    stage.stop_daemon();
    stage.start_daemon();
    assert_eq!(stage.json(["ctl", "session", "s"])["status"], "suspended");
    prompt(&stage, "s", "p2", "On");
    stage.kill_daemon();
    stage.start_daemon();
    stop(&stage, "s", "p2", "Done.");
    // A daemon that is killed before anything else happens has nothing to suspend.
    stage.kill_daemon();
    stage.start_daemon();
    stage.kill_daemon();
    stage.start_daemon();
    stage.hook(&stage.event("s", "SessionEnd", json!({"reason": "other"})));
    stage.flush();
    let session = stage.json(["ctl", "session", "s"]);
    let pause = ["session_suspend", "session_resume"];
    let mut expected = vec!["session_start"];
    expected.extend(pause.into_iter().cycle().take(6));
    expected.push("session_end");
    assert_eq!(lives(&session), expected, "{}", session["life_events"]);
    let life_events = session["life_events"].as_array().unwrap();
    let reasons = [1, 3, 5].map(|at: usize| life_events[at]["detail"]["reason"].as_str().unwrap());
    assert_eq!(reasons, ["daemon_stop", "daemon_crash", "daemon_crash"]);
    assert!(life_events[2]["detail"]["suspended_for_ms"].as_i64().is_some_and(|ms| ms >= 0));
    let end = &life_events[7]["detail"];
    assert_eq!((&end["message_count"], &end["reason"]), (&json!(3), &json!("other")), "{end}");
    assert_eq!(session["batches"][1]["response"], "Done.");
}

#[test]
fn a_clear_links_two_sessions_in_either_order_of_its_events() {
    let stage = Stage::new().daemon();
    for (before, after) in [("a1", "a2"), ("b1", "b2")] {
        prompt(&stage, before, &format!("{before}-p"), "Go");
        let end = stage.event(before, "SessionEnd", json!({"reason": "clear"}));
        let start = stage.event(after, "SessionStart", json!({"source": "clear"}));
        let events = if before == "a1" { [end, start] } else { [start, end] };
        events.iter().for_each(|event| {
            stage.hook(event);
        });
        let session = stage.json(["ctl", "session", after]);
        assert_eq!(session["resumed_from"], before, "{session}");
        assert_eq!(stage.json(["ctl", "session", before])["status"], "completed");
    }
}

/// Returns a transcript of one interrupted turn.
fn transcript(prompt: &str, words: &str) -> String {
    let user = json!({"type": "user", "promptId": prompt, "message": {"role": "user", "content": "Go"}});
    let text = json!([{"type": "text", "text": words}]);
    let assistant =
        json!({"type": "assistant", "message": {"id": "m1", "role": "assistant", "content": text}});
    format!("{user}\n{assistant}\n")
}

#[test]
fn a_turn_without_an_end_gets_its_answer_from_the_transcript() {
    let stage = Stage::new().daemon();
    let folder = stage.user_home().join(".claude/projects/shop");
    std::fs::create_dir_all(&folder).unwrap();
    let words =
        "The cart rounds twice. My key is ghp_0123456789abcdefghijABCDEFGHIJ012345 <private>hush</private>";
    for (session, ends_by) in [("next", "UserPromptSubmit"), ("end", "SessionEnd"), ("stop", "Stop")] {
        std::fs::write(folder.join(format!("{session}.jsonl")), transcript("p1", words)).unwrap();
        prompt(&stage, session, "p1", "Go");
        let fields = match ends_by {
            "UserPromptSubmit" => json!({"prompt": "Next", "prompt_id": "p2"}),
            "Stop" => json!({"prompt_id": "p1"}),
            _ => json!({"reason": "other"}),
        };
        stage.hook(&stage.event(session, ends_by, fields));
        let session = stage.json(["ctl", "session", session]);
        let response = session["batches"][0]["response"].as_str().unwrap_or_else(|| panic!("{session}"));
        assert!(response.starts_with("The cart rounds twice."), "{response}");
        assert!(!response.contains("ghp_") && !response.contains("hush"), "{response}");
        // An answer that a hook reports replaces one from the transcript.
        let id = session["session_id"].as_str().unwrap();
        stop(&stage, id, "p1", "Told.");
        assert_eq!(stage.json(["ctl", "session", id])["batches"][0]["response"], "Told.");
    }
}

#[test]
fn a_hook_payload_cannot_make_recall_read_another_file_as_a_transcript() {
    let stage = Stage::new().daemon();
    let home = stage.user_home();
    let folder = home.join(".claude/projects/shop");
    std::fs::create_dir_all(&folder).unwrap();
    let secret = home.join("secret.jsonl");
    std::fs::write(&secret, transcript("p1", "CANARY")).unwrap();
    symlink(&secret, folder.join("link.jsonl")).unwrap();
    symlink(&home, folder.join("away")).unwrap();
    let fifo = folder.join("fifo.jsonl");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let wishes: [PathBuf; 7] = [
        secret,
        folder.join("../../../secret.jsonl"),
        folder.join("link.jsonl"),
        folder.join("away/secret.jsonl"),
        fifo,
        "/proc/self/environ".into(),
        "/proc/self/fd/3".into(),
    ];
    for (number, wish) in wishes.iter().enumerate() {
        let session = format!("s{number}");
        let mut asked = stage.event(&session, "UserPromptSubmit", json!({"prompt": "Go", "prompt_id": "p1"}));
        let mut ended = stage.event(&session, "SessionEnd", json!({"reason": "other"}));
        for event in [&mut asked, &mut ended] {
            event["transcript_path"] = json!(wish);
            stage.hook(event);
        }
        let session = stage.json(["ctl", "session", &session]);
        assert_eq!(session["batches"][0]["response"], Value::Null, "{}", wish.display());
        assert_eq!(session["status"], "completed");
    }
}

#[test]
fn a_plan_is_stored_as_one_record_through_its_edits_and_approval() {
    let stage = Stage::new().daemon();
    let path = stage.user_home().join(".claude/plans/coins.md");
    let call = |name: &str, input: Value, response: Value, id: &str| {
        let fields = json!({"tool_name": name, "tool_input": input, "tool_response": response,
                            "tool_use_id": id, "prompt_id": "p1"});
        stage.hook(&stage.event("planner", "PostToolUse", fields));
    };
    prompt(&stage, "planner", "p1", "Plan a currency conversion");
    call(
        "Write",
        json!({"file_path": path, "content": "# Plan: coins\n\n1. Rates"}),
        json!({"type": "create"}),
        "t1",
    );
    call(
        "Edit",
        json!({"file_path": path, "old_string": "Rates", "new_string": "Exchange rates"}),
        json!({"originalFile": "# Plan: coins\n\n1. Rates"}),
        "t2",
    );
    call(
        "ExitPlanMode",
        json!({}),
        json!({"plan": "# Plan: coins\n\n1. Exchange rates\n2. Tests", "filePath": path}),
        "t3",
    );
    call("TaskCreate", json!({"subject": "Exchange rates"}), json!({"task": {"id": "1"}}), "t4");
    call("TaskUpdate", json!({"taskId": "1", "status": "completed"}), json!({"success": true}), "t5");
    stop(&stage, "planner", "p1", "Planned.");
    prompt(&stage, "worker", "w1", "Work on @.claude/plans/coins.md now");
    stage.flush();

    let planner = stage.json(["ctl", "session", "planner"]);
    assert_eq!(planner["batches"][0]["source"], "plan");
    let [tasks, plan] = planner["plans"].as_array().unwrap().as_slice() else {
        panic!("{}", planner["plans"])
    };
    assert_eq!((&plan["title"], &plan["state"]), (&json!("Plan: coins"), &json!("approved")));
    assert_eq!(plan["text"], "# Plan: coins\n\n1. Exchange rates\n2. Tests");
    assert_eq!((&tasks["kind"], &tasks["text"]), (&json!("tasks"), &json!("- [x] #1 Exchange rates\n")));
    assert_eq!(stage.json(["ctl", "session", "worker"])["batches"][0]["source"], "plan");
    let id = plan["id"].as_str().unwrap();
    let shown = stage.json(["show", id]);
    assert_eq!(shown["items"][0]["prompt_numbers"], json!([1]));
    let found = stage.json(["search", "exchange rates"]);
    let kinds: Vec<_> = found["results"].as_array().unwrap().iter().map(|hit| hit["kind"].clone()).collect();
    assert!(kinds.contains(&json!("plan")), "{found}");
}

/// A call that is worth a note, in a turn that goes on.
const COMMIT: &str =
    "git commit -am 'Round the cart total once, because rounding each line lost up to a cent per line'";

#[test]
fn a_compaction_compresses_the_open_batch_and_injects_the_session_state() {
    let stage = Stage::new().daemon();
    stage.hook(&stage.event("s", "SessionStart", json!({"source": "startup"})));
    prompt(&stage, "s", "p1", "Add a percentage discount to the cart total");
    for (number, mut call) in stage.discount_calls().into_iter().enumerate() {
        call["tool_use_id"] = json!(format!("t{number}"));
        call["prompt_id"] = json!("p1");
        if number == 2 {
            call["tool_input"] = json!({"command": COMMIT});
        }
        stage.hook(&stage.event("s", "PostToolUse", call));
    }
    let todo = json!({"tool_name": "TaskCreate", "tool_input": {"subject": "Refuse negative discounts"},
                      "tool_response": {"task": {"id": "1"}}, "tool_use_id": "t9", "prompt_id": "p1"});
    stage.hook(&stage.event("s", "PostToolUse", todo));
    stage.hook(&stage.event("s", "PreCompact", json!({"trigger": "auto", "prompt_id": "p1"})));
    stage.flush();
    let session = stage.json(["ctl", "session", "s"]);
    assert_eq!(session["batches"][0]["status"], "open");
    assert_ne!(session["observations"], json!([]), "{session}");
    let given = stage
        .hook(&stage.event("s", "SessionStart", json!({"source": "compact", "prompt_id": "p1"})))
        .context();
    for part in ["This session", "Add a percentage discount", "src/cart.rs", "Refuse negative discounts"] {
        assert!(given.contains(part), "no {part:?} in {given}");
    }
    let summary = json!({"trigger": "auto", "prompt_id": "p1",
                         "compact_summary": "<analysis>hm</analysis><summary>A discount was added.</summary>"});
    stage.hook(&stage.event("s", "PostCompact", summary));
    let session = stage.json(["ctl", "session", "s"]);
    let names = lives(&session);
    assert_eq!(names, ["session_start", "before_compaction", "after_compaction"]);
}

#[test]
fn a_long_batch_is_compressed_before_it_ends() {
    let stage = Stage::new().config("[capture]\nchunk_activities = 3\n").daemon();
    prompt(&stage, "s", "p1", "Add a percentage discount to the cart total");
    for (number, mut call) in stage.discount_calls().into_iter().enumerate() {
        call["tool_use_id"] = json!(format!("t{number}"));
        call["prompt_id"] = json!("p1");
        if number == 2 {
            call["tool_input"] = json!({"command": COMMIT});
        }
        stage.hook(&stage.event("s", "PostToolUse", call));
    }
    stage.flush();
    let session = stage.json(["ctl", "session", "s"]);
    assert_eq!(session["batches"][0]["status"], "open");
    assert_ne!(session["observations"], json!([]), "{session}");
}

#[test]
fn a_refused_call_is_stored_as_failed_and_an_executed_one_only_once() {
    let stage = Stage::new().daemon();
    prompt(&stage, "s", "p1", "Go");
    let call = |id: &str, response: &str| json!({"tool_name": "Bash", "tool_input": {"command": id}, "tool_use_id": id, "tool_response": response});
    let settled = json!({"tool_calls": [call("t1", "fine"), call("t2", "not allowed"), call("t3", "fine, too")], "prompt_id": "p1"});
    let mut ran = call("t1", "fine");
    ran["prompt_id"] = json!("p1");
    stage.hook(&stage.event("s", "PostToolUse", ran.clone()));
    stage.hook(&stage.event("s", "PostToolBatch", settled));
    // The third result arrives late. Hosts built on the SDK spell its fields differently.
    let late = json!({"tool_name": "Bash", "tool_input": {"command": "t3"}, "tool_use_id": "t3", "tool_result": "fine, too",
                      "prompt_id": "p1", "conversation_id": "s", "session_id": null});
    stage.hook(&stage.event("s", "PostToolUse", late));
    stop(&stage, "s", "p1", "Done.");
    let again = json!({"last_assistant_message": "Really done.", "prompt_id": "p1", "stopHookActive": true});
    let output = stage.hook(&stage.event("s", "Stop", again));
    assert_eq!(output.stdout, "", "nothing may make an agent go on");
    let session = stage.json(["ctl", "session", "s"]);
    let calls: Vec<_> = session["batches"][0]["activities"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| (call["tool_use_id"].as_str().unwrap(), call["failed"].as_bool().unwrap()))
        .collect();
    assert_eq!(calls, [("t1", false), ("t2", true), ("t3", false)]);
    assert_eq!(session["batches"][0]["response"], "Really done.");
}

/// Checks that each life has one start and one end, and that pauses come in pairs, whenever the daemon dies.
#[track_caller]
fn is_a_record_of_lives(session: &Value) {
    let (mut expected, mut life) = ("session_start", 0);
    for event in session["life_events"].as_array().unwrap() {
        let name = event["event"].as_str().unwrap();
        match (name, expected) {
            ("session_start", "session_start") => (life, expected) = (life + 1, "live"),
            ("session_suspend", "live") => expected = "session_resume",
            ("session_resume", "session_resume") => expected = "live",
            // A session that sent no more events may end in its pause.
            ("session_end", "live" | "session_resume") => expected = "session_start",
            ("before_compaction" | "after_compaction", "live") => {}
            _ => panic!("{name} where {expected} is due: {}", session["life_events"]),
        }
        assert_eq!(event["life"], life, "{event}");
    }
    let is_over = session["status"] == "completed";
    assert_eq!(is_over, expected == "session_start", "{session}");
}

/// Returns a random session: it begins, works, is compacted, ends, and goes on.
fn some_events(stage: &Stage, session: &str, random: &mut fastrand::Rng) -> Vec<Value> {
    let event = |nth: usize, kind: u8| {
        let turn = format!("{session}-p{}", nth / 4);
        let call = json!({"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_response": {"stdout": "ok"},
                          "tool_use_id": format!("{session}-c{nth}"), "prompt_id": turn});
        let (name, fields) = match kind {
            0 => ("SessionStart", json!({"source": "resume"})),
            1..=3 => ("UserPromptSubmit", json!({"prompt": format!("Ask {nth}"), "prompt_id": turn})),
            4..=6 => ("PostToolUse", call),
            7 => ("PreCompact", json!({"trigger": "auto", "prompt_id": turn})),
            8 => ("PostCompact", json!({"trigger": "auto", "prompt_id": turn, "compact_summary": "so far"})),
            9 | 10 => ("Stop", json!({"last_assistant_message": format!("Done {nth}."), "prompt_id": turn})),
            _ => ("SessionEnd", json!({"reason": "other"})),
        };
        stage.event(session, name, fields)
    };
    (0..random.usize(10..30)).map(|nth| event(nth, random.u8(0..12))).collect()
}

#[test]
fn each_life_of_a_session_has_one_start_and_one_end_when_daemons_die() {
    for seed in 0..3 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut stage = Stage::new().daemon();
        let sessions = ["one", "two", "three"].map(|name| (name, some_events(&stage, name, &mut random)));
        let mut left: Vec<_> = sessions.iter().map(|(_, events)| events.iter()).collect();
        while left.iter().any(|events| events.len() > 0) {
            let session = random.usize(0..left.len());
            if let Some(event) = left[session].next() {
                let delivery = stage.delivery(event);
                stage.deliver([&delivery]);
                // An acknowledged event that is delivered again counts once.
                if random.u8(0..6) == 0 {
                    stage.deliver([&delivery]);
                }
            }
            if random.u8(0..8) == 0 {
                match random.bool() {
                    true => stage.kill_daemon(),
                    false => assert!(stage.stop_daemon().success()),
                }
                stage.start_daemon();
            }
        }
        stage.flush();
        for (name, _) in &sessions {
            is_a_record_of_lives(&stage.json(["ctl", "session", name]));
        }
    }
}

#[test]
fn a_session_after_a_clear_is_linked_to_the_old_one_in_any_event_order() {
    let stage = Stage::new().daemon();
    let orders =
        [[0, 1, 2, 3], [1, 0, 2, 3], [0, 2, 1, 3], [2, 0, 1, 3], [1, 2, 0, 3], [2, 1, 0, 3], [3, 2, 1, 0]];
    for (nth, order) in orders.iter().enumerate() {
        // A `clear` in another project does not count here, so each order has its own project.
        let folder = stage.user_home().join(format!("project-{nth}"));
        std::fs::create_dir(&folder).unwrap();
        let (old, new) = (format!("old-{nth}"), format!("new-{nth}"));
        let events = [
            stage.event(&old, "SessionEnd", json!({"reason": "clear"})),
            stage.event(&new, "SessionStart", json!({"source": "clear"})),
            stage.event(&new, "UserPromptSubmit", json!({"prompt": "Go on", "prompt_id": "p1"})),
            stage.event(&new, "Stop", json!({"last_assistant_message": "Done.", "prompt_id": "p1"})),
        ];
        let deliveries: Vec<_> = events
            .map(|mut event| {
                event["cwd"] = json!(folder);
                stage.delivery(&event)
            })
            .into();
        stage.deliver(order.iter().map(|event| &deliveries[*event]));
        let followed = stage.json(["ctl", "session", &new])["resumed_from"].clone();
        assert_eq!(followed, json!(old), "in the order {order:?}");
    }
}

/// Sends an event of a host that has hooks but no reader here.
fn host(stage: &Stage, name: &str, mut fields: Value) {
    if fields.get("sessionKey").is_none() {
        fields["session_id"] = json!("chat");
    }
    fields["cwd"] = json!(stage.project());
    let output = stage.hook_bytes(&["openclaw", name], fields.to_string().as_bytes());
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{output:?}");
}

fn details_of<'a>(session: &'a Value, name: &str) -> Vec<&'a Value> {
    let events = session["life_events"].as_array().unwrap().iter();
    events.filter(|event| event["event"] == name).map(|event| &event["detail"]).collect()
}

#[test]
fn lifecycle_events_of_another_host_are_recognized_by_their_names() {
    let stage = Stage::new().daemon();
    host(&stage, "session_start", json!({}));
    host(&stage, "UserPromptSubmit", json!({"prompt": "Go"}));
    host(&stage, "session_suspend", json!({"reason": "gateway stopping", "messageCount": 1}));
    assert_eq!(stage.json(["ctl", "session", "chat"])["status"], "suspended");
    host(&stage, "session_resume", json!({"suspendedForMs": 5}));
    assert_eq!(stage.json(["ctl", "session", "chat"])["status"], "active");
    host(&stage, "session:compact:before", json!({}));
    host(&stage, "session:compact:after", json!({}));
    host(&stage, "command:stop", json!({}));
    let session = stage.json(["ctl", "session", "chat"]);
    assert_eq!(session["batches"][0]["status"], "closed", "{session}");
    host(&stage, "session_end", json!({"reason": "restart"}));
    assert_eq!(stage.json(["ctl", "session", "chat"])["status"], "suspended");
    host(&stage, "gateway:startup", json!({}));
    host(&stage, "command:new", json!({}));
    stage.flush();
    let session = stage.json(["ctl", "session", "chat"]);
    assert_eq!((&session["status"], &session["reason"]), (&json!("completed"), &json!("new")));
    let pause = ["session_suspend", "session_resume"];
    let compaction = ["before_compaction", "after_compaction"];
    let expected = [&["session_start"][..], &pause, &compaction, &pause, &["session_end"]].concat();
    assert_eq!(lives(&session), expected, "{session}");
    let reasons: Vec<&Value> =
        details_of(&session, "session_suspend").iter().map(|detail| &detail["reason"]).collect();
    assert_eq!(reasons, ["gateway stopping", "restart"]);
}

#[test]
fn compactions_and_the_messages_between_them_are_counted() {
    let stage = Stage::new().daemon();
    for (turn, name) in [("p1", "a"), ("p2", "b"), ("p3", "c")] {
        prompt(&stage, "s", turn, name);
        stop(&stage, "s", turn, "Done.");
        if turn != "p1" {
            stage.hook(&stage.event("s", "PreCompact", json!({"trigger": "auto", "prompt_id": turn})));
            stage.hook(&stage.event("s", "PostCompact", json!({"trigger": "auto", "prompt_id": turn})));
        }
    }
    stage.flush();
    let session = stage.json(["ctl", "session", "s"]);
    let counts = |messages: u32, since: u32, so_far: u32| json!({"message_count": messages, "messages_since_last": since, "compacted_count": so_far});
    assert_eq!(details_of(&session, "before_compaction"), [&counts(4, 4, 0), &counts(6, 2, 1)]);
    assert_eq!(details_of(&session, "after_compaction"), [&counts(4, 4, 1), &counts(6, 2, 2)]);
}

#[test]
fn a_session_end_records_the_length_of_the_session_and_its_last_life() {
    let stage = Stage::new().daemon();
    // The events are from today, because the daemon ends a session whose last event is days old.
    let begun = stage.delivery(&stage.event("s", "SessionStart", json!({}))).captured_at_ms;
    let at = |seconds: i64, name: &str, fields: Value| {
        let mut delivery = stage.delivery(&stage.event("s", name, fields));
        delivery.captured_at_ms = begun + seconds * 1000;
        delivery.boot_id = [7; 16];
        delivery.boot_ns = seconds.unsigned_abs() * 1_000_000_000;
        stage.deliver([&delivery]);
    };
    at(0, "SessionStart", json!({"source": "startup"}));
    at(60, "SessionEnd", json!({"reason": "other"}));
    at(600, "SessionStart", json!({"source": "resume"}));
    at(630, "SessionEnd", json!({"reason": "logout"}));
    stage.flush();
    let session = stage.json(["ctl", "session", "s"]);
    let lengths: Vec<_> = details_of(&session, "session_end")
        .iter()
        .map(|end| (&end["duration_ms"], &end["life_ms"]))
        .collect();
    let expected = [(json!(60_000), json!(60_000)), (json!(630_000), json!(30_000))];
    assert_eq!(lengths, expected.iter().map(|(session, life)| (session, life)).collect::<Vec<_>>());
}

/// Plays seven interrupted turns with one call each. No event reports how they ended.
fn interrupted_turns(stage: &Stage, session: &str) {
    stage.hook(&stage.event(session, "SessionStart", json!({"source": "startup"})));
    for turn in 1..=7 {
        let id = format!("{session}-p{turn}");
        prompt(stage, session, &id, &format!("Make step {turn} of the discount engine round half to even"));
        let mut call = stage.discount_calls()[1].clone();
        call["tool_use_id"] = json!(format!("{session}-t{turn}"));
        call["prompt_id"] = json!(id);
        stage.hook(&stage.event(session, "PostToolUse", call));
    }
}

#[test]
fn a_session_with_unfinished_turns_gets_a_summary() {
    let mut stage = Stage::new().daemon();
    stage.discount_session("older");
    interrupted_turns(&stage, "open");
    stage.flush();
    // The later prompts have closed six of the seven turns.
    let summary = stage.json(["ctl", "session", "open"])["summary"].clone();
    assert!(summary["request"].as_str().is_some_and(|text| text.contains("discount engine")), "{summary}");

    for (session, ends) in [("killed", "a kill"), ("stopped", "a stop")] {
        stage.hook(&stage.event(session, "SessionStart", json!({"source": "startup"})));
        prompt(&stage, session, "p1", &format!("Teach the invoice printer about {session} currencies"));
        let mut call = stage.discount_calls()[1].clone();
        call["prompt_id"] = json!("p1");
        call["tool_use_id"] = json!(format!("{session}-t1"));
        stage.hook(&stage.event(session, "PostToolUse", call));
        stage.flush();
        assert_eq!(stage.json(["ctl", "session", session])["summary"], Value::Null);
        match ends {
            "a kill" => stage.kill_daemon(),
            _ => drop(stage.stop_daemon()),
        }
        stage.start_daemon();
        stage.flush();
        let left = stage.json(["ctl", "session", session]);
        assert_eq!(left["status"], "suspended", "{left}");
        assert!(left["suspended_at"].is_string(), "{left}");
        let shown = stage.recall(["ctl", "session", session]).stdout;
        assert!(shown.lines().any(|line| line.starts_with("suspended since 20")), "{shown}");
        let request = left["summary"]["request"].as_str().unwrap_or_else(|| panic!("{ends}: {left}"));
        assert!(request.contains("invoice printer"), "{request}");
        let next = stage.event(&format!("after-{session}"), "SessionStart", json!({"source": "startup"}));
        let context = stage.hook(&next).context();
        assert!(context.contains("invoice printer"), "after {ends}: {context}");
    }
}

#[test]
fn an_approval_applies_to_the_plan_named_or_last_written() {
    let stage = Stage::new().daemon();
    let folder = stage.user_home().join(".claude/plans");
    std::fs::create_dir_all(&folder).unwrap();
    let (known, path) = (folder.join("known.md"), folder.join("coins.md"));
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let approved = format!("# Plan: coins\n\n1. Rates {secret}\n<private>hush</private>2. Tests");
    std::fs::write(&path, approved).unwrap();
    let call = |session: &str, name: &str, input: Value, response: Value| {
        let fields = json!({"tool_name": name, "tool_input": input, "tool_response": response,
                            "tool_use_id": format!("{session}-{name}"), "prompt_id": "p1"});
        stage.hook(&stage.event(session, "PostToolUse", fields));
    };
    let written = json!({"file_path": known, "content": "# Plan: known\n\n1. Look"});
    for session in ["path", "empty", "foreign"] {
        prompt(&stage, session, "p1", "Plan a currency conversion");
        call(session, "Write", written.clone(), json!({"type": "create"}));
    }
    call("path", "ExitPlanMode", json!({}), json!({"filePath": path}));
    call("empty", "ExitPlanMode", json!({}), json!({}));
    let elsewhere = stage.project().join("secrets.md");
    std::fs::write(&elsewhere, "# Not to be read").unwrap();
    call("foreign", "ExitPlanMode", json!({}), json!({"filePath": elsewhere}));
    for session in ["path", "empty"] {
        stop(&stage, session, "p1", "Planned.");
        prompt(&stage, session, "p2", "Proceed with the approved plan.");
        prompt(&stage, session, "p3", "proceed");
    }
    let plans = |session: &str| {
        let session = stage.json(["ctl", "session", session]);
        let sources: Vec<Value> =
            session["batches"].as_array().unwrap().iter().map(|batch| batch["source"].clone()).collect();
        let plans = session["plans"].as_array().unwrap().iter();
        let listed = plans.map(|plan| json!([plan["title"], plan["state"], plan["prompt_numbers"]]));
        (listed.collect::<Vec<_>>(), sources)
    };
    let sources = vec![json!("plan"), json!("plan"), json!("user")];
    let (read, batches) = plans("path");
    assert_eq!(batches, sources);
    assert!(read.contains(&json!(["Plan: coins", "approved", [1, 2]])), "{read:?}");
    assert!(read.contains(&json!(["Plan: known", "draft", [1]])), "{read:?}");
    let text = stage.json(["ctl", "session", "path"])["plans"].to_string();
    assert!(text.contains("2. Tests") && !text.contains(secret) && !text.contains("hush"), "{text}");
    let (last, batches) = plans("empty");
    assert_eq!(batches, sources);
    assert_eq!(last, [json!(["Plan: known", "approved", [1, 2]])]);
    assert_eq!(plans("foreign").0, [json!(["Plan: known", "draft", [1]])]);
}

/// An approval that waited in the spool says nothing about the present content of its file.
#[test]
fn a_late_approval_applies_to_the_recorded_plan() {
    let stage = Stage::new().daemon();
    let path = stage.user_home().join(".claude/plans/coins.md");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "# Plan: coins\n\n1. As the file is now").unwrap();
    let events = |session: &str| {
        let call = |name: &str, input: Value, response: Value| {
            let fields = json!({"tool_name": name, "tool_input": input, "tool_response": response,
                                "tool_use_id": format!("{session}-{name}"), "prompt_id": "p1"});
            stage.event(session, "PostToolUse", fields)
        };
        let asked = json!({"prompt": "Plan a currency conversion", "prompt_id": "p1"});
        let written = json!({"file_path": path, "content": "# Plan: coins\n\n1. As it was written"});
        let events = [
            stage.event(session, "UserPromptSubmit", asked),
            call("Write", written, json!({"type": "create"})),
            call("ExitPlanMode", json!({}), json!({"filePath": path})),
        ];
        events.map(|event| stage.delivery(&event))
    };
    let earlier = |mut event: Deliver| {
        event.captured_at_ms -= 60_000;
        event.boot_ns -= 60_000_000_000;
        event
    };
    stage.deliver(&events("now"));
    stage.deliver(&events("recorded").map(earlier));
    let [asked, _, approved] = events("unrecorded").map(earlier);
    stage.deliver(&[asked, approved]);
    stage.flush();
    for (session, text) in [("now", "is now"), ("recorded", "was written"), ("unrecorded", "is now")] {
        let stored = stage.json(["ctl", "session", session]);
        let [plan] = stored["plans"].as_array().unwrap().as_slice() else { panic!("{session}: {stored}") };
        assert_eq!(plan["state"], "approved", "{session}: {plan}");
        assert!(plan["text"].as_str().unwrap().ends_with(text), "{session}: {plan}");
    }
}

#[test]
fn a_failed_call_is_recognized_by_any_field_that_reports_it() {
    let stage = Stage::new().daemon();
    prompt(&stage, "s", "p1", "Go");
    let results = [
        ("tool_result", json!({"output": "1 failing", "is_error": true}), true),
        ("tool_response", json!({"content": [{"type": "text", "text": "no"}], "isError": true}), true),
        ("tool_response", json!({"success": false, "output": "1 failing"}), true),
        ("tool_response", json!({"exit_code": 2, "stdout": "1 failing"}), true),
        ("tool_response", json!({"exitCode": 101, "stderr": "1 failing"}), true),
        ("tool_response", json!({"status": "error", "output": "1 failing"}), true),
        ("tool_response", json!({"error": {"message": "gone"}}), true),
        ("tool_response", json!({"stdout": "error: 1 failing", "stderr": "", "interrupted": false}), false),
        (
            "tool_response",
            json!({"stdout": "", "exitCode": 1, "returnCodeInterpretation": "No matches found"}),
            false,
        ),
    ];
    for (number, (field, result, _)) in results.iter().enumerate() {
        let mut call = json!({"tool_name": "Bash", "tool_input": {"command": format!("cargo test n{number}")},
                              "tool_use_id": format!("t{number}"), "prompt_id": "p1"});
        call[field] = result.clone();
        stage.hook(&stage.event("s", "PostToolUse", call));
    }
    let session = stage.json(["ctl", "session", "s"]);
    let calls = session["batches"][0]["activities"].as_array().unwrap();
    let failed: Vec<_> = calls.iter().map(|call| call["failed"].as_bool().unwrap()).collect();
    assert_eq!(failed, results.map(|(.., failed)| failed), "{session}");
    assert_eq!(calls[3]["response"], "Exit code 2\n1 failing");
}

/// A check that another kind of host reports as failed is remembered as failed.
#[test]
fn a_check_with_a_failing_exit_code_is_noted_as_failed() {
    let stage = Stage::new().daemon();
    prompt(&stage, "s", "p1", "Make the cart tests pass");
    let call = json!({"tool_name": "Bash", "tool_input": {"command": "cargo test cart"}, "tool_use_id": "t1", "prompt_id": "p1",
        "tool_response": {"exit_code": 101, "output": "test cart::rounding ... FAILED\nerror: test failed"}});
    stage.hook(&stage.event("s", "PostToolUse", call));
    stop(&stage, "s", "p1", "The rounding test fails, I have to stop here.");
    stage.flush();
    let observations = stage.json(["ctl", "session", "s"])["observations"].to_string();
    assert!(observations.contains("`cargo test cart` fails"), "{observations}");
}

#[test]
fn the_first_prompt_adopts_the_calls_before_it() {
    let stage = Stage::new().daemon();
    let call = |session: &str, id: &str| {
        stage.event(
            session,
            "PostToolUse",
            json!({"tool_name": "Bash", "tool_input": {"command": id},
                    "tool_response": {"stdout": "ok"}, "tool_use_id": id}),
        )
    };
    let asked = |session: &str| stage.event(session, "UserPromptSubmit", json!({"prompt": "Go on"}));
    stage.hook(&call("in-order", "t1"));
    stage.hook(&call("in-order", "t2"));
    assert_eq!(stage.json(["ctl", "session", "in-order"])["batches"][0]["source"], "recovery");
    stage.hook(&asked("in-order"));
    stage.hook(&call("in-order", "t3"));
    // The same calls, but the second one arrives last.
    let happened: Vec<_> = [call("late", "t1"), call("late", "t2"), asked("late"), call("late", "t3")]
        .iter()
        .map(|event| stage.delivery(event))
        .collect();
    for nth in [0, 2, 3, 1] {
        stage.deliver([&happened[nth]]);
    }
    for session in ["in-order", "late"] {
        let stored = stage.json(["ctl", "session", session]);
        let [batch] = stored["batches"].as_array().unwrap().as_slice() else { panic!("{stored}") };
        assert_eq!((&batch["source"], &batch["prompt"]), (&json!("user"), &json!("Go on")), "{stored}");
        let calls: Vec<_> =
            batch["activities"].as_array().unwrap().iter().map(|call| call["tool_use_id"].clone()).collect();
        assert_eq!(calls, ["t1", "t2", "t3"], "{stored}");
        assert_eq!(stored["first_user_prompt"], "Go on");
    }
}

#[test]
fn compaction_summaries_can_be_searched_shown_and_forgotten() {
    let stage = Stage::new().daemon();
    prompt(&stage, "s", "p1", "Add a discount");
    for (number, words) in
        ["The zeppelin ledger was begun.", "The zeppelin ledger was closed."].iter().enumerate()
    {
        stage.hook(&stage.event("s", "PreCompact", json!({"trigger": "auto", "prompt_id": "p1"})));
        let fields = json!({"trigger": "auto", "prompt_id": "p1", "compact_summary": words});
        stage.hook(&stage.event("s", "PostCompact", fields));
        assert_eq!(stage.json(["ctl", "session", "s"])["compaction_summaries"][number]["summary"], *words);
    }
    stage.flush();
    let found = stage.json(["search", "zeppelin ledger closed"]);
    let hit = &found["results"][0];
    assert_eq!((&hit["kind"], &hit["prompt_number"]), (&json!("compaction"), &json!(1)), "{found}");
    let id = hit["id"].as_str().unwrap();
    assert_eq!(stage.json(["show", id])["items"][0]["text"], "The zeppelin ledger was closed.");
    let shown = stage.recall(["ctl", "session", "s"]).stdout;
    assert!(!shown.contains("suspended"), "{shown}");
    let (_, compacted) = shown.split_once("\nCompacted\n").unwrap_or_else(|| panic!("{shown}"));
    let lines: Vec<&str> = compacted.lines().take(2).collect();
    assert!(
        lines[0].contains("auto, ") && lines[0].contains("prompt 1: The zeppelin ledger was begun."),
        "{shown}"
    );
    assert!(lines[1].trim_start().starts_with(id) && lines[1].contains("was closed."), "{shown}");
    assert_eq!(stage.recall(["forget", id, "--yes"]).code(), 0);
    stage.flush();
    let left = stage.json(["search", "zeppelin"]).to_string();
    assert!(!left.contains("closed"), "{left}");
    assert_eq!(stage.json(["ctl", "session", "s"])["compaction_summaries"].as_array().unwrap().len(), 1);
}

#[test]
fn a_session_is_summarizing_from_its_stop_until_the_model_answers() {
    let provider = Provider::start(|_, _| Behaviour::Held);
    let stage = Stage::new().config(&provider.config("openai", "concurrency = 1")).daemon();
    let status = || {
        let listed = stage.json(["ctl", "sessions"])["sessions"][0]["status"].clone();
        assert_eq!(stage.json(["ctl", "session", "s"])["status"], listed);
        listed
    };
    prompt(&stage, "s", "p1", "Add a percentage discount to the cart total");
    for (number, mut call) in stage.discount_calls().into_iter().enumerate() {
        call["tool_use_id"] = json!(format!("t{number}"));
        call["prompt_id"] = json!("p1");
        stage.hook(&stage.event("s", "PostToolUse", call));
    }
    assert_eq!(status(), "active");
    stop(&stage, "s", "p1", "The discount is applied once, after summing up.");
    provider.wait_for(1);
    assert_eq!(status(), "summarizing");
    assert_eq!(stage.json(["ctl", "status"])["sessions"]["live"], 1);
    // A running turn matters more than the summary of the last one.
    prompt(&stage, "s", "p2", "Now the tests");
    assert_eq!(status(), "active");
    stop(&stage, "s", "p2", "They pass.");
    assert_eq!(status(), "summarizing");
    provider.change(|_, _| Behaviour::Status(500));
    provider.let_go();
    stage.flush();
    assert_eq!(status(), "active");
}

#[test]
fn a_session_is_linked_to_the_earlier_one_that_its_host_names() {
    let stage = Stage::new().daemon();
    let start = |session: &str, fields: Value| {
        let mut fields = fields;
        (fields["session_id"], fields["cwd"]) = (json!(session), json!(stage.project()));
        let output = stage.hook_bytes(&["openclaw", "session_start"], fields.to_string().as_bytes());
        assert_eq!(output.code(), 0, "{output:?}");
    };
    start("one", json!({}));
    start("two", json!({"resumedFrom": "one"}));
    start("three", json!({"source": "startup", "resumedFrom": "two"}));
    start("four", json!({"source": "resume", "resumed_from": "three"}));
    // This session names itself, which links nothing.
    start("five", json!({"resumedFrom": "five"}));
    for (session, before) in
        [("one", Value::Null), ("two", json!("one")), ("three", json!("two")), ("four", json!("three"))]
    {
        let stored = stage.json(["ctl", "session", session]);
        assert_eq!(stored["resumed_from"], before, "{stored}");
        assert_eq!(details_of(&stored, "session_start")[0]["resumed_from"], before, "{stored}");
    }
    assert_eq!(stage.json(["ctl", "session", "five"])["resumed_from"], Value::Null);
    // The start may arrive last.
    host(&stage, "UserPromptSubmit", json!({"prompt": "Go"}));
    start("chat", json!({"resumedFrom": "four"}));
    assert_eq!(stage.json(["ctl", "session", "chat"])["resumed_from"], "four");
    assert!(stage.recall(["ctl", "session", "chat"]).stdout.contains("continues session four"));
}

#[test]
fn message_counts_of_the_host_are_stored_beside_those_of_recall() {
    let stage = Stage::new().daemon();
    host(&stage, "UserPromptSubmit", json!({"prompt": "Go"}));
    assert!(!stage.recall(["ctl", "session", "chat"]).stdout.contains("own count"));
    host(&stage, "before_compaction", json!({"messageCount": 120}));
    host(&stage, "after_compaction", json!({"messageCount": 31, "compactedCount": 90}));
    let session = stage.json(["ctl", "session", "chat"]);
    assert_eq!((&session["host_message_count"], &session["host_compacted_count"]), (&json!(31), &json!(90)));
    assert_eq!(details_of(&session, "after_compaction")[0]["message_count"], 1, "ours: {session}");
    host(&stage, "session_end", json!({"reason": "daily", "messageCount": 34}));
    let shown = stage.recall(["ctl", "session", "chat"]).stdout;
    assert!(shown.contains("by the host's own count: 34 messages, 90 compacted"), "{shown}");
}
