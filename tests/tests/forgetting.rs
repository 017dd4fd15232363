//! Tests that deleted data stays deleted: no byte of it is left below recall's home, and nothing brings it back.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use recall_protocol::spool::SpoolName;
use recall_protocol::wire::{Deliver, Flags, Reply, Request};
use recall_tests::Stage;
use serde_json::{Value, json};

/// A word that occurs in no other text.
const CANARY: &str = "quetzalcoatlus";

/// No files.
const NOWHERE: [PathBuf; 0] = [];

/// Returns the files below recall's home that contain the word. Case is ignored.
fn holding(stage: &Stage, word: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    visit(&stage.home(), &mut |path, bytes| {
        let bytes = bytes.to_ascii_lowercase();
        if bytes.windows(word.len()).any(|window| window == word.as_bytes()) {
            found.push(path.to_owned());
        }
    });
    found
}

fn visit(folder: &Path, see: &mut impl FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, see);
        } else if path.is_file() {
            // A file that the daemon is removing at this moment reads as empty.
            see(&path, &std::fs::read(&path).unwrap_or_default());
        }
    }
}

/// Returns every event of a session, as a shim delivers them. Each text contains the word.
fn session_about(stage: &Stage, id: &str, word: &str) -> Vec<Deliver> {
    let file = stage.project().join(format!("src/{word}.rs"));
    let long = format!("{word} {}", "a line of output\n".repeat(1000));
    let prompt = format!("Please fix the {word} bug in the cart");
    let answer =
        format!("Fixed the {word} bug: the {word} cache is now emptied after each order.\n\n- {word} done");
    let turn = format!("{id}-p1");
    [
        stage.event(id, "SessionStart", json!({"source": "startup"})),
        stage.event(id, "UserPromptSubmit", json!({"prompt": prompt, "prompt_id": turn})),
        stage.event(id, "PostToolUse", json!({"tool_name": "Edit", "tool_use_id": format!("{id}-t1"), "prompt_id": turn,
            "tool_input": {"file_path": file, "old_string": word, "new_string": format!("{word} better")},
            "tool_response": {"filePath": file}})),
        stage.event(id, "PostToolUse", json!({"tool_name": "Bash", "tool_use_id": format!("{id}-t2"), "prompt_id": turn,
            "tool_input": {"command": format!("cargo test {word}")}, "tool_response": {"stdout": long}})),
        stage.event(id, "PostToolUse", json!({"tool_name": "AskUserQuestion", "tool_use_id": format!("{id}-t3"),
            "prompt_id": turn, "tool_input": {"questions": [{"question": word}]}, "tool_response": {"answers": word}})),
        stage.event(id, "PostToolUse", json!({"tool_name": "Write", "tool_use_id": format!("{id}-t4"), "prompt_id": turn,
            "tool_input": {"file_path": stage.project().join(".claude/plans/next.md"), "content": format!("# {word} plan")},
            "tool_response": {"type": "create"}})),
        stage.event(id, "SubagentStart", json!({"agent_id": "helper", "agent_type": "Explore", "prompt_id": turn})),
        stage.event(id, "SubagentStop", json!({"agent_id": "helper", "agent_type": "Explore", "prompt_id": turn,
            "last_assistant_message": format!("The {word} is in the cart")})),
        stage.event(id, "PreCompact", json!({"trigger": "auto", "prompt_id": turn})),
        stage.event(id, "PostCompact", json!({"trigger": "auto", "prompt_id": turn,
            "compact_summary": format!("We look for the {word}")})),
        stage.event(id, "Notification", json!({"message": format!("{word} waits")})),
        stage.event(id, "Stop", json!({"last_assistant_message": answer, "prompt_id": turn})),
        stage.event(id, "SessionEnd", json!({"reason": "other"})),
    ]
    .iter()
    .map(|event| stage.delivery(event))
    .collect()
}

/// A home that contains the word in every place: rows, index, log, backup, spool, a damaged database, and the record
/// of what was injected into another session.
struct EffectContext {
    stage: Stage,
    events: Vec<Deliver>,
}

impl EffectContext {
    fn new() -> Self {
        let stage = Stage::new().daemon();
        let events = session_about(&stage, "doomed-session", CANARY);
        stage.deliver(&events);
        stage.discount_session("kept-session");
        stage.flush();
        stage.hook(&stage.event("told-session", "SessionStart", json!({"source": "startup"})));
        let unreadable = format!("{{\"session_id\":\"doomed-session\",\"prompt\":\"{CANARY}");
        stage.hook_bytes(&["claude-code"], unreadable.as_bytes());
        stage.flush();
        let home = stage.home();
        std::fs::write(home.join("data/recall.db.damaged-20260101T000000000Z"), CANARY).unwrap();
        std::fs::write(home.join("data/backups/before-schema-2.db"), CANARY).unwrap();
        let bad = format!("cut off {{\"session_id\":\"doomed-session\",\"prompt\":\"{CANARY}");
        std::fs::write(home.join("state/spool/bad/000001795000000-cut"), bad).unwrap();
        Self { stage, events }
    }

    #[track_caller]
    fn forget(&self, arguments: &[&str]) -> Value {
        let held = holding(&self.stage, CANARY);
        for place in ["data/recall.db", "spool/bad", "damaged-", "backups"] {
            let is_there = held.iter().any(|path| path.to_string_lossy().contains(place));
            assert!(is_there, "the word is nowhere in {place}: {held:?}");
        }
        let arguments = ["forget", "--yes"].iter().chain(arguments).copied();
        self.stage.json(arguments)
    }

    #[track_caller]
    fn is_gone(&self) {
        assert_eq!(holding(&self.stage, CANARY), NOWHERE);
        self.index_holds_nothing_deleted();
        assert_eq!(self.stage.json(["search", CANARY])["total"], 0);
        // The events are offered again, over the socket and from the spool. They are known, and nothing comes back.
        for reply in self.stage.deliver(&self.events) {
            // A busy store may answer too late to report a duplicate. Then the spool delivers the event again.
            assert!(matches!(reply, Reply::Duplicate { .. } | Reply::Unsaved { .. }), "{reply:?}");
        }
        for event in &self.events {
            self.stage.spool(event);
        }
        self.stage.flush();
        assert_eq!(self.stage.json(["search", CANARY])["total"], 0);
        assert!(self.stage.spooled().is_empty());
        assert_eq!(holding(&self.stage, CANARY), NOWHERE);
    }

    /// Checks the index. It packs its words, so a search for bytes finds none. The words are gone when no segment has
    /// a deleted document and no file of another segment is left.
    #[track_caller]
    fn index_holds_nothing_deleted(&self) {
        let folder = self.stage.home().join("data/index");
        let meta: Value = serde_json::from_slice(&std::fs::read(folder.join("meta.json")).unwrap()).unwrap();
        let segments = meta["segments"].as_array().unwrap();
        assert!(segments.iter().all(|segment| segment["deletes"].is_null()), "{meta}");
        let live: Vec<String> =
            segments.iter().map(|segment| segment["segment_id"].as_str().unwrap().replace('-', "")).collect();
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let segment = name.split('.').next().unwrap();
            assert!(segment.len() != 32 || live.iter().any(|id| id == segment), "{name} of {meta}");
        }
    }

    #[track_caller]
    fn keeps_the_rest(&self) {
        let kept = self.stage.json(["ctl", "session", "kept-session"]);
        assert!(!kept["observations"].as_array().unwrap().is_empty());
        assert_eq!(kept["batches"][0]["activities"].as_array().unwrap().len(), 3);
        assert!(kept["summary"].is_object());
        assert_ne!(self.stage.json(["search", "rounding"])["total"], 0);
    }
}

#[test]
fn a_failed_cleanup_of_forgotten_data_is_retried_within_seconds() {
    let stage = Stage::new().daemon();
    assert_eq!(stage.recall(["remember", "The quetzalcoatlus cache is cold"]).code(), 0);
    stage.session("first", "Why is the cache cold?", &[], "Nobody warmed it.");
    stage.flush();
    // Without the folder no backup can be made.
    let backups = stage.home().join("data/backups");
    let _ = std::fs::remove_dir_all(&backups);
    std::fs::write(&backups, "").unwrap();
    let output = stage.recall(["forget", "1", "--yes"]);
    assert!(output.code() == 1 && output.stderr.contains("traces may remain in backups"), "{output:?}");
    // The message names the obstacle and the remedy. The command itself would find nothing any more.
    assert!(output.stderr.contains(&backups.display().to_string()), "{output:?}");
    assert!(output.stderr.contains("`recall ctl check` says whether traces are left"), "{output:?}");
    assert!(stage.recall(["doctor"]).stdout.contains("traces of forgotten items may remain"));
    let checked = stage.recall(["ctl", "check"]);
    assert!(
        checked.code() == 1 && checked.stdout.contains("traces of forgotten items may remain"),
        "{checked:?}"
    );
    std::fs::remove_file(&backups).unwrap();
    std::fs::create_dir(&backups).unwrap();
    let left = || {
        let database = rusqlite::Connection::open(stage.database()).unwrap();
        let left = "SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'traces_left')";
        database.query_row(left, [], |row| row.get::<_, bool>(0)).unwrap()
    };
    // The next round of the housekeeper comes after a minute.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(40);
    while left() {
        assert!(std::time::Instant::now() < deadline, "{}", stage.log());
        std::thread::yield_now();
    }
    assert_eq!(stage.json(["ctl", "check"])["healthy"], true);
}

#[test]
fn a_forgotten_session_is_removed_everywhere_and_stays_removed() {
    let scene = EffectContext::new();
    let counts = scene.forget(&["--session", "doomed-session"]);
    assert_eq!((&counts["sessions"], &counts["prompts"]), (&json!(1), &json!(1)), "{counts}");
    assert!(counts["activities"].as_i64().unwrap() >= 3, "{counts}");
    assert!(counts["observations"].as_i64().unwrap() >= 1, "{counts}");
    assert_eq!(counts["summaries"], 1, "{counts}");
    scene.is_gone();
    scene.keeps_the_rest();
    assert_eq!(scene.stage.recall(["ctl", "session", "doomed-session"]).code(), 1);
    let backups = std::fs::read_dir(scene.stage.home().join("data/backups")).unwrap();
    let backups: Vec<String> =
        backups.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(backups.len() == 1 && backups[0].starts_with("daily-"), "{backups:?}");
}

#[test]
fn a_forgotten_word_is_removed_everywhere_and_stays_removed() {
    let scene = EffectContext::new();
    scene.forget(&["--query", &CANARY.to_uppercase(), "--all"]);
    scene.is_gone();
    scene.keeps_the_rest();
    // The session itself stays, without the texts.
    let session = scene.stage.json(["ctl", "session", "doomed-session"]);
    assert_eq!(session["batches"][0]["prompt"], Value::Null);
}

#[test]
fn a_forgotten_period_is_removed_everywhere_and_stays_removed() {
    let scene = EffectContext::new();
    let counts = scene.forget(&["--since", "2d", "--all"]);
    assert_eq!(counts["sessions"], 3, "{counts}");
    scene.is_gone();
    assert_eq!(scene.stage.json(["ctl", "sessions"])["sessions"], json!([]));
}

#[test]
fn a_forgotten_project_is_removed_everywhere_and_stays_removed() {
    let scene = EffectContext::new();
    let counts = scene.forget(&["--project", "."]);
    assert_eq!(counts["sessions"], 3, "{counts}");
    // An unreadable event has no known owner, but it names the session.
    scene.is_gone();
    assert_eq!(scene.stage.recall(["ctl", "sessions", "--project", "."]).code(), 1);
}

#[test]
fn forget_filters_apply_to_the_current_project_by_default() {
    let stage = Stage::new().daemon();
    let other = stage.user_home().join("elsewhere");
    std::fs::create_dir(&other).unwrap();
    assert_eq!(stage.recall(["remember", "The quokka migration runs at night"]).code(), 0);
    let there = ["remember", "The quokka migration runs at noon", "--project", other.to_str().unwrap()];
    assert_eq!(stage.recall(there).code(), 0);
    let here = stage.json(["search", "quokka", "--project", "."])["results"][0]["id"].clone();
    let of = |arguments: &[&str]| {
        let all = ["forget", "--dry-run"].iter().chain(arguments).copied();
        let shown = stage.json(all);
        let items = shown["items"].as_array().unwrap().clone();
        assert_eq!(shown["observations"], items.len(), "{arguments:?}: {shown}");
        let mut projects: Vec<String> =
            items.iter().map(|item| item["project"].as_str().unwrap().to_owned()).collect();
        projects.sort();
        projects
    };
    for filter in [["--query", "quokka"], ["--since", "2d"], ["--until", "2100-01-01"]] {
        let with = |more: &[&'static str]| of(&[&filter[..], more].concat());
        assert_eq!(with(&[]), ["shop"], "{filter:?}");
        assert_eq!(with(&["--project", "elsewhere"]), ["elsewhere"], "{filter:?}");
        assert_eq!(with(&["--all"]), ["elsewhere", "shop"], "{filter:?}");
    }
    assert_eq!(of(&["1", "2"]), ["elsewhere", "shop"], "ids are what they are");
    let stdout = stage.recall(["forget", "--query", "quokka", "--all", "--dry-run"]).stdout;
    assert!(stdout.contains(", shop: ") && stdout.contains(", elsewhere: "), "{stdout}");
    let stdout = stage.recall(["forget", "--query", "wallaby", "--dry-run"]).stdout;
    assert_eq!(stdout, "Nothing matches in this project; `--all` searches all.\n");

    // The folder belongs to no known project. The command does not use another project instead.
    let unknown = stage.user_home().join("unknown");
    std::fs::create_dir(&unknown).unwrap();
    let mut command = stage.command("recall");
    command.args(["forget", "--query", "quokka", "--yes"]).current_dir(&unknown);
    let output = recall_tests::run(command, b"");
    assert!(output.code() == 1 && output.stderr.contains("use --all for all projects"), "{output:?}");
    assert_eq!(stage.recall(["forget", "1", "--all", "--yes"]).code(), 2);
    assert_eq!(stage.recall(["forget", "--all", "--yes"]).code(), 2);

    assert_eq!(stage.json(["forget", "--query", "quokka", "--yes"])["observations"], 1);
    assert_eq!(stage.recall(["show", &here.to_string()]).code(), 1);
    assert_eq!(stage.json(["search", "quokka", "--all"])["total"], 1);
}

#[test]
fn a_forgotten_observation_stays_removed_when_its_batch_is_compressed_again() {
    let stage = Stage::new().daemon();
    let mut events = session_about(&stage, "one", "heron");
    stage.deliver(&events);
    stage.flush();
    let made = stage.json(["ctl", "session", "one"])["observations"].as_array().unwrap().clone();
    let done = &stage.json(["ctl", "status"])["jobs"]["done"];
    let ids: Vec<String> = made.iter().map(|observation| observation["id"].to_string()).collect();
    assert!(!ids.is_empty());
    let counts = stage.json(["forget", "--yes"].into_iter().chain(ids.iter().map(String::as_str)));
    assert_eq!(counts["observations"], json!(ids.len()));
    assert_eq!((&counts["prompts"], &counts["activities"]), (&json!(0), &json!(0)));
    // Work of the closed turn goes on in the background, so its batch is compressed once more.
    let late = json!({"tool_name": "Bash", "tool_use_id": "one-t9", "prompt_id": "one-p1",
        "tool_input": {"command": "cargo test heron"}, "tool_response": {"stdout": "test result: ok. 3 passed"}});
    events.clear();
    events.push(stage.delivery(&stage.event("one", "PostToolUse", late)));
    stage.deliver(&events);
    stage.flush();
    let status = stage.json(["ctl", "status"]);
    assert!(status["jobs"]["done"].as_i64() > done.as_i64(), "{status}");
    let session = stage.json(["ctl", "session", "one"]);
    let titles: Vec<&Value> =
        session["observations"].as_array().unwrap().iter().map(|observation| &observation["title"]).collect();
    assert!(made.iter().all(|forgotten| !titles.contains(&&forgotten["title"])), "{titles:?}");
}

#[test]
fn a_forgotten_session_that_continues_starts_empty() {
    let stage = Stage::new().daemon();
    let prompt = |text: &str| json!({"prompt": text, "prompt_id": text});
    stage.hook(&stage.event("one", "SessionStart", json!({"source": "startup"})));
    stage.hook(&stage.event("one", "UserPromptSubmit", prompt("first")));
    let late = stage.delivery(&stage.event(
        "one",
        "Stop",
        json!({"last_assistant_message": "late", "prompt_id": "first"}),
    ));
    let counts = stage.json(["forget", "--yes", "--session", "one"]);
    assert_eq!((&counts["sessions"], &counts["prompts"]), (&json!(1), &json!(1)));
    // The event was captured before the deletion and arrives only now.
    stage.spool(&late);
    stage.flush();
    assert_eq!(stage.recall(["ctl", "session", "one"]).code(), 1);
    stage.hook(&stage.event("one", "UserPromptSubmit", prompt("second")));
    stage.hook(&stage.event("one", "Stop", json!({"last_assistant_message": "done", "prompt_id": "second"})));
    stage.flush();
    let batches = stage.json(["ctl", "session", "one"])["batches"].clone();
    assert_eq!(batches.as_array().unwrap().len(), 1);
    assert_eq!((&batches[0]["prompt"], &batches[0]["prompt_number"]), (&json!("second"), &json!(1)));
    assert_eq!(batches[0]["response"], "done");
    assert_eq!(stage.spooled(), NOWHERE);
}

#[test]
fn forgetting_a_prompt_removes_its_answer_and_renews_the_summary() {
    let stage = Stage::new().daemon();
    stage.deliver(&session_about(&stage, "one", CANARY));
    let other = json!({"prompt": "And the README?", "prompt_id": "one-p2"});
    stage.hook(&stage.event("one", "UserPromptSubmit", other));
    let answer = json!({"last_assistant_message": "It says so now.", "prompt_id": "one-p2"});
    stage.hook(&stage.event("one", "Stop", answer));
    stage.hook(&stage.event("one", "SessionEnd", json!({"reason": "other"})));
    stage.flush();
    let counts = stage.json(["forget", "--yes", "p1"]);
    assert_eq!(
        (&counts["sessions"], &counts["prompts"], &counts["summaries"]),
        (&json!(0), &json!(1), &json!(1))
    );
    stage.flush();
    let session = stage.json(["ctl", "session", "one"]);
    assert_eq!(
        (&session["batches"][0]["prompt"], &session["batches"][0]["response"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(session["batches"][1]["prompt"], "And the README?");
    assert!(session["summary"].is_object() && !session["summary"].to_string().contains(CANARY));
    assert_eq!(stage.json(["search", CANARY, "kind:prompt"])["total"], 0);
}

#[test]
fn forget_without_a_terminal_or_the_yes_flag_removes_nothing() {
    let stage = Stage::new().daemon();
    stage.discount_session("one");
    stage.flush();
    let output = stage.recall(["forget", "--session", "one"]);
    assert_eq!(output.code(), 2, "{output:?}");
    assert!(output.stderr.contains("--yes"), "{output:?}");
    let shown = stage.recall(["forget", "--session", "one", "--dry-run"]);
    assert_eq!(shown.code(), 0, "{shown:?}");
    assert!(shown.stdout.contains("1 session") && shown.stdout.contains("nothing was changed"), "{shown:?}");
    for wrong in [
        &["forget"][..],
        &["forget", "--yes"],
        &["forget", "--query", " "],
        &["forget", "1", "--project", "."],
    ] {
        assert_eq!(stage.recall(wrong.iter().copied()).code(), 2, "{wrong:?}");
    }
    assert_eq!(stage.recall(["forget", "--yes", "999"]).code(), 1);
    assert_eq!(stage.json(["ctl", "session", "one"])["batches"].as_array().unwrap().len(), 1);
}

#[test]
fn sessions_past_the_retention_period_are_forgotten_automatically() {
    let mut stage = Stage::new().config("[timers]\nretention_days = 30\n").daemon();
    let mut old = session_about(&stage, "old-session", CANARY);
    for event in &mut old {
        event.captured_at_ms -= 31 * 24 * 60 * 60 * 1000;
        event.boot_id = [7; 16];
    }
    stage.deliver(&old);
    stage.discount_session("new-session");
    stage.flush();
    // The daemon looks for old sessions when it starts, and once a day.
    stage.stop_daemon();
    stage.start_daemon();
    // The housekeeper does not report when it is done, so the test polls.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holding(&stage, CANARY).is_empty() && Instant::now() < deadline {
        stage.flush();
    }
    let left = &stage.json(["ctl", "sessions"])["sessions"];
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left[0]["session_id"], "new-session");
    assert_eq!(holding(&stage, CANARY), NOWHERE);
}

#[test]
fn a_session_deleted_in_its_agent_is_forgotten_only_if_configured() {
    for (config, left) in [("", 2), ("[capture]\nforget_deleted = true\n", 1)] {
        let stage = Stage::new().config(config).daemon();
        let hook = |agent: &str, id: &str, event: &str, fields: Value| {
            let mut payload = json!({"session_id": id, "hook_event_name": event, "cwd": stage.project()});
            payload.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            assert_eq!(stage.hook_bytes(&[agent], payload.to_string().as_bytes()).code(), 0);
        };
        let turn = |agent: &str, id: &str| {
            let prompt = "Why does the heliotrope wilt?";
            hook(agent, id, "UserPromptSubmit", json!({"prompt": prompt, "submitted_prompt": prompt}));
            hook(
                agent,
                id,
                "Stop",
                json!({"last_assistant_message": "The heliotrope wilts because of frost."}),
            );
            hook(agent, id, "SessionEnd", json!({"reason": "other"}));
        };
        // Another agent's session of that name is another session.
        turn("qwen-code", "gone");
        turn("claude-code", "gone");
        stage.flush();
        hook("qwen-code", "now", "SessionDelete", json!({"deleted_session_id": "gone"}));
        hook("qwen-code", "now", "SessionDelete", json!({"deleted_session_id": "never-seen"}));
        stage.flush();
        let rows = stage.json(["sql", "SELECT agent FROM sessions WHERE session_id = 'gone' ORDER BY agent"]);
        assert_eq!(rows["rows"].as_array().unwrap().len(), left, "{rows}");
        assert!(rows["rows"].to_string().contains("claude-code"), "{rows}");
    }
}

#[test]
fn a_daemon_killed_during_cleanup_finishes_it_after_a_restart() {
    let mut scene = EffectContext::new();
    // The rows are deleted and the rest is not. A daemon that is killed in between leaves this state.
    scene.forget(&["--session", "doomed-session"]);
    scene.stage.kill_daemon();
    let home = scene.stage.home();
    std::fs::write(home.join("data/backups/before-schema-2.db"), CANARY).unwrap();
    let database = rusqlite::Connection::open(home.join("data/recall.db")).unwrap();
    database.execute("INSERT INTO meta (key, value) VALUES ('traces_left', 1)", []).unwrap();
    drop(database);
    scene.stage.start_daemon();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holding(&scene.stage, CANARY).is_empty() && Instant::now() < deadline {
        scene.stage.flush();
    }
    scene.is_gone();
}

#[test]
fn a_late_private_prompt_removes_the_notes_made_from_its_turn() {
    let stage = Stage::new().daemon();
    let event = |name: &str, mut fields: Value| {
        fields["prompt_id"] = json!("p1");
        stage.event("one", name, fields)
    };
    // The prompt is the first event, but it is still in the spool when the others are stored.
    let mut prompt = stage.delivery(&event("UserPromptSubmit", json!({"prompt": ""})));
    prompt.flags = Flags::WHOLLY_PRIVATE.with(Flags::STRIPPED);
    let answer =
        format!("`{CANARY}_retries` is 3, because the gateway must never be asked more often than that.");
    stage.hook(&event("PostToolUse", json!({"tool_name": "Bash", "tool_use_id": "t1",
        "tool_input": {"command": format!("make {CANARY}")}, "tool_response": {"stdout": "done", "stderr": ""}})));
    stage.hook(&event("Stop", json!({"last_assistant_message": answer})));
    stage.flush();
    let session = || stage.json(["ctl", "session", "one"]);
    assert!(session()["observations"].to_string().contains(CANARY), "{}", session());
    assert!(session()["title"].to_string().contains(CANARY), "{}", session());

    assert!(matches!(stage.deliver([&prompt])[..], [Reply::Ack { .. }]));
    stage.flush();
    let left = session();
    assert_eq!(left["batches"][0]["source"], "private");
    assert!(!left.to_string().contains(CANARY), "{left}");
    let found = stage.json(["search", &format!("{CANARY}_retries gateway")]);
    assert_eq!(found["results"], json!([]), "{found}");
    // The housekeeper clears remaining pages, unless it already has.
    let db = rusqlite::Connection::open(stage.database()).unwrap();
    let owed: i64 =
        db.query_row("SELECT count(*) FROM meta WHERE key = 'traces_left'", [], |row| row.get(0)).unwrap();
    assert!(owed == 1 || holding(&stage, CANARY) == NOWHERE);
}

/// Checks that `forget` finds what hooks have left in the spool. Without a daemon, nothing knows it until it is
/// stored.
#[track_caller]
fn check_waiting(arguments: &[&str]) {
    let stage = Stage::new();
    for event in session_about(&stage, "waiting-session", CANARY) {
        stage.spool(&event);
    }
    let arguments: Vec<&str> = ["forget"].iter().chain(arguments).copied().collect();
    let shown = stage.json(arguments.iter().chain(&["--dry-run"]).copied());
    assert_eq!(shown["prompts"], 1, "{arguments:?}: {shown}");
    let counts = stage.json(arguments.iter().chain(&["--yes"]).copied());
    assert_eq!(counts["prompts"], 1, "{arguments:?}: {counts}");
    stage.flush();
    assert_eq!(holding(&stage, CANARY), NOWHERE, "{arguments:?}");
    assert_eq!(stage.json(["search", CANARY])["total"], 0, "{arguments:?}");
    assert_eq!(stage.spooled(), NOWHERE, "{arguments:?}");
}

#[test]
fn forget_includes_events_that_wait_in_the_spool() {
    check_waiting(&["--session", "waiting-session"]);
    check_waiting(&["--project", "."]);
    check_waiting(&["--query", CANARY]);
    check_waiting(&["--since", "2d"]);
}

/// Puts the word into an event that could not be read, a damaged spool file, and a spool file of a future version.
/// None of them says whose it is.
fn unreadable_everywhere(stage: &Stage) {
    stage.hook_bytes(&["claude-code"], format!("{{\"prompt\":\"{CANARY}").as_bytes());
    stage.flush();
    let home = stage.home();
    std::fs::write(home.join("state/spool/bad/000001795000000-cut"), format!("cut {CANARY}")).unwrap();
    let event = stage.event("newer-session", "UserPromptSubmit", json!({"prompt": CANARY, "prompt_id": "p"}));
    let delivery = stage.delivery(&event);
    let mut frame = recall_protocol::frame::encode_frame(&Request::Deliver(delivery.clone())).unwrap();
    // The byte after the length is the version.
    frame[4] = 99;
    let name = SpoolName::new(delivery.captured_at_ms, delivery.event_id);
    std::fs::write(home.join("state/spool/new").join(name.as_str()), frame).unwrap();
}

#[track_caller]
fn stays_where_it_was(stage: &Stage) {
    let held = holding(stage, CANARY);
    for place in ["data/recall.db", "spool/bad", "spool/new"] {
        assert!(held.iter().any(|path| path.to_string_lossy().contains(place)), "{place}: {held:?}");
    }
}

#[test]
fn unreadable_data_is_reported_and_removed_only_on_request() {
    for selection in [&["--session", "one"][..], &["--project", "."], &[]] {
        let stage = Stage::new().daemon();
        stage.discount_session("one");
        stage.hook(&stage.event("two", "UserPromptSubmit", json!({"prompt": "Hello", "prompt_id": "p"})));
        unreadable_everywhere(&stage);
        let expected = json!({"events": 1, "damaged_files": 1, "other_version_files": 1, "waiting_files": 0});
        let forget = |more: &[&'static str]| -> Vec<&str> {
            ["forget"].iter().chain(selection).chain(more).copied().collect()
        };
        if !selection.is_empty() {
            let shown = stage.json(forget(&["--dry-run"]));
            assert_eq!((&shown["unreadable"], &shown["unparsed"]), (&expected, &json!(0)), "{shown}");
            let output = stage.recall(forget(&["--dry-run"])).stdout;
            let named = "1 event, 1 damaged spool file, 1 spool file of another version";
            assert!(output.contains(named) && output.contains("--unreadable"), "{output}");
            assert!(stage.recall(forget(&["--yes"])).stdout.contains(named));
            stays_where_it_was(&stage);
        }
        let shown = stage.json(["forget", "--unreadable", "--dry-run"]);
        assert_eq!((&shown["unparsed"], &shown["spool_files"]), (&json!(1), &json!(2)), "{shown}");
        stays_where_it_was(&stage);
        let gone = stage.json(["forget", "--unreadable", "--yes"]);
        assert_eq!((&gone["unparsed"], &gone["spool_files"]), (&json!(1), &json!(2)), "{gone}");
        assert_eq!(holding(&stage, CANARY), NOWHERE);
        assert_eq!(stage.json(["ctl", "status"])["events"]["unparsed"], 0);
    }
}

#[test]
fn a_project_and_unreadable_data_can_be_forgotten_together() {
    let scene = EffectContext::new();
    unreadable_everywhere(&scene.stage);
    let counts = scene.forget(&["--project", ".", "--unreadable"]);
    assert_eq!((&counts["sessions"], &counts["spool_files"]), (&json!(3), &json!(2)), "{counts}");
    let nothing = json!({"events": 0, "damaged_files": 0, "other_version_files": 0, "waiting_files": 0});
    assert_eq!(counts["unreadable"], nothing, "{counts}");
    scene.is_gone();
    let wrong = scene.stage.recall(["forget", "12", "--unreadable"]);
    assert_eq!(wrong.code(), 2, "{wrong:?}");
}

#[test]
fn private_text_that_no_hook_client_has_removed_is_not_stored() {
    let mut stage = Stage::new();
    let events = |stage: &Stage, session: &str| -> Vec<Deliver> {
        let turn = format!("{session}-p1");
        let hidden = format!("harbour <private>{CANARY}</private>");
        [
            stage.event(session, "UserPromptSubmit", json!({"prompt": hidden, "prompt_id": turn})),
            stage.event(session, "PostToolUse", json!({"tool_name": "Bash", "tool_use_id": format!("{session}-t1"),
                "prompt_id": turn, "tool_input": {"command": format!("echo \u{3c}PRIVATE\u{3e}{CANARY}")},
                "tool_response": {"content": [{"text": "<private> open"}, {"text": CANARY}], "after": "harbour"}})),
            stage.event(session, "Notification", json!({"message": hidden})),
            stage.event(session, "Stop", json!({"last_assistant_message": hidden, "prompt_id": turn})),
            stage.event(session, "UserPromptSubmit",
                json!({"prompt": format!(" <private>{CANARY}"), "prompt_id": format!("{session}-p2")})),
            stage.event(session, "Stop",
                json!({"last_assistant_message": "Answered in secret.", "prompt_id": format!("{session}-p2")})),
        ]
        .iter()
        .map(|event| stage.delivery(event))
        .collect()
    };
    for event in events(&stage, "spooled") {
        stage.spool(&event);
    }
    stage.start_daemon();
    stage.deliver(&events(&stage, "captured"));
    let cut = stage.delivery(&json!({}));
    let payload = format!("{{\"prompt\":\"<private>{CANARY}").into_bytes();
    stage.deliver([&Deliver { payload, ..cut }]);
    stage.flush();
    for session in ["spooled", "captured"] {
        let stored = stage.json(["ctl", "session", session]);
        assert_eq!(stored["batches"][0]["prompt"], "harbour ", "{stored}");
        assert_eq!(stored["batches"][0]["response"], "harbour ", "{stored}");
        let wholly = &stored["batches"][1];
        assert_eq!((&wholly["source"], &wholly["prompt"]), (&json!("private"), &Value::Null), "{stored}");
        assert_eq!(wholly["response"], Value::Null, "{stored}");
    }
    assert_eq!(holding(&stage, CANARY), NOWHERE);
}

/// Returns the ways in which agents ask recall: the agent, and the call's fields.
fn questions(answer: &str) -> Vec<(&'static str, Value)> {
    let blocks = json!({"content": [{"type": "text", "text": answer}]});
    let of_server = |agent, name: &str| {
        (
            agent,
            json!({"tool_name": name, "tool_input": {"ids": [1], "query": answer}, "tool_response": blocks}),
        )
    };
    let of_shell = |command: &str| {
        let input = json!({"command": command, "description": answer});
        (
            "claude-code",
            json!({"tool_name": "Bash", "tool_input": input, "tool_response": {"stdout": answer}}),
        )
    };
    vec![
        of_server("claude-code", "mcp__recall__get_observations"),
        of_server("claude-code", "mcp__plugin_recall_recall__search"),
        of_server("codex", "mcp__recall__timeline"),
        of_server("qwen-code", "mcp__recall__search"),
        of_server("some-gateway", "mcp_recall_get_observations"),
        of_server("some-gateway", "recall-search"),
        of_server("some-gateway", "recall_search"),
        of_server("some-gateway", "recall.get_observations"),
        of_shell("recall show 1"),
        of_shell(&format!("cd /tmp && RECALL_HOME=/x /usr/bin/recall search '{answer}' | head -3")),
        of_shell("bash -c 'recall timeline 1'"),
    ]
}

#[test]
fn forgetting_a_session_leaves_no_copy_in_recorded_calls_to_recall() {
    let stage = Stage::new().daemon();
    let answer = format!("The {CANARY} cache never expired because the TTL was in milliseconds.");
    stage.session("source", &format!("Why does the {CANARY} cache grow?"), &[], &answer);
    stage.flush();
    let questions = questions(&answer);
    for (number, (agent, call)) in questions.iter().enumerate() {
        let session = format!("asks-{number}");
        let hook = |name: &str, fields: Value| {
            let event = stage.event(&session, name, fields);
            let output = stage.hook_bytes(&[agent, name], event.to_string().as_bytes());
            assert_eq!(output.code(), 0, "{output:?}");
        };
        hook("UserPromptSubmit", json!({"prompt": "What do we know?"}));
        let mut call = call.clone();
        call["tool_use_id"] = json!(format!("{session}-t1"));
        hook("PostToolUse", call);
        hook("Stop", json!({"last_assistant_message": "It is known."}));
    }
    stage.flush();
    for (number, (agent, call)) in questions.iter().enumerate() {
        let stored = stage.json(["ctl", "session", &format!("asks-{number}")]);
        let calls = stored["batches"][0]["activities"].as_array().unwrap();
        assert_eq!(calls.len(), 1, "{agent} {call}: {stored}");
        assert_eq!(calls[0]["tool_name"], call["tool_name"], "{stored}");
    }
    let output = stage.recall(["forget", "--session", "source", "--yes"]);
    assert_eq!(output.code(), 0, "{output:?}");
    assert_eq!(holding(&stage, CANARY), NOWHERE);
}

/// Moves the times in the home back by this many days, as if the clock were that far ahead.
fn set_the_clock_ahead(stage: &Stage, days: i64) {
    let ms = days * 24 * 60 * 60 * 1000;
    let note = stage.home().join("state/clock.json");
    let mut clock: Value = serde_json::from_slice(&std::fs::read(&note).unwrap()).unwrap();
    let wall = clock["seen"]["wall"].as_i64().unwrap();
    clock["seen"]["wall"] = json!(wall - ms);
    std::fs::write(&note, clock.to_string()).unwrap();
    let database = rusqlite::Connection::open(stage.database()).unwrap();
    database.execute("UPDATE sessions SET last_event_at = last_event_at - ?1", [ms]).unwrap();
}

#[test]
fn one_start_with_a_clock_years_ahead_deletes_nothing() {
    let mut stage = Stage::new().config("[timers]\nretention_days = 30\nhousekeeping_s = 1\n").daemon();
    stage.discount_session("one");
    stage.flush();
    for _ in 0..2 {
        // After these starts recall trusts the clock.
        stage.stop_daemon();
        stage.start_daemon();
        noted(&stage);
    }
    stage.stop_daemon();
    set_the_clock_ahead(&stage, 3_650);
    stage.start_daemon();
    noted(&stage);
    let sessions = |stage: &Stage| stage.json(["ctl", "status"])["sessions"]["total"].clone();
    assert_eq!(sessions(&stage), 1);
    let status = stage.recall(["ctl", "status"]);
    assert!(
        status.stdout.contains("recall deletes no sessions by age for now, because the clock jumped"),
        "{status:?}"
    );
    let doctor = stage.recall(["doctor"]);
    assert!(doctor.stdout.contains("the clock jumped"), "{doctor:?}");
    assert!(stage.log().contains("the clock jumped"), "{}", stage.log());
    // The clock still shows the same at the next start, so it is right.
    stage.stop_daemon();
    assert_eq!(sessions_in_database(&stage), 1, "the first start deleted nothing");
    stage.start_daemon();
    let deadline = Instant::now() + Duration::from_secs(60);
    while sessions(&stage) != 0 && Instant::now() < deadline {
        stage.flush();
    }
    assert_eq!(sessions(&stage), 0);
    assert!(!stage.recall(["ctl", "status"]).stdout.contains("the clock jumped"));
}

/// Waits until the running daemon has checked the clock.
#[track_caller]
fn noted(stage: &Stage) {
    let note = stage.home().join("state/clock.json");
    let mine = std::fs::metadata(stage.home().join("data/recall.lock")).unwrap().modified().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_noted = || std::fs::metadata(&note).is_ok_and(|note| note.modified().unwrap() >= mine);
    while !is_noted() {
        assert!(Instant::now() < deadline, "nobody looks at the clock");
        stage.flush();
    }
}

fn sessions_in_database(stage: &Stage) -> i64 {
    let database = rusqlite::Connection::open(stage.database()).unwrap();
    database.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap()
}
