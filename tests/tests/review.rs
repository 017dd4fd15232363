//! Tests `recall review`, which lists what machines noted and no person has reviewed. With `context.reviewed_only`,
//! only reviewed notes are injected.

use recall_protocol::query::Remember;
use recall_tests::screen::Screen;
use recall_tests::{CommandOutput, Stage};
use serde_json::{Value, json};

use super::notes_by_hand::noted;

const SEED: &str = "`make seed` must not run twice: the second run deletes the customers of the first";
const IDLE: &str =
    "The staging gateway drops idle connections after 50 seconds, because the proxy forgets them";
const RULE: &str = "Invoices are never deleted, only cancelled: ask Hedwig first";

fn note(stage: &Stage, text: &str, file: &str) {
    let (text, kind) = (text.to_owned(), Some("gotcha".to_owned()));
    let files = vec![file.to_owned()];
    noted(stage, Remember { text, kind, files, importance: Some(8), ..Remember::default() });
}

/// Starts a stage with two notes of an agent's model, #1 and #2, and one note of the user.
fn stage(config: &str) -> Stage {
    let stage = Stage::new().config(config).daemon();
    note(&stage, SEED, "Makefile");
    note(&stage, IDLE, "src/gateway.rs");
    assert_eq!(stage.recall(["remember", RULE]).code(), 0);
    stage.flush();
    stage
}

#[track_caller]
fn done(output: &CommandOutput) -> &str {
    assert_eq!(output.code(), 0, "{output:?}");
    &output.stdout
}

/// Returns the numbers of the notes that wait for a review.
fn waiting(stage: &Stage) -> Vec<i64> {
    let listed = stage.json(["review"]);
    let entries = listed["entries"].as_array().unwrap();
    assert_eq!(listed["waiting"], entries.len(), "{listed}");
    entries.iter().map(|entry| entry["id"].as_i64().unwrap()).collect()
}

fn shown(stage: &Stage, id: &str) -> Value {
    stage.json(["show", id])["items"][0].clone()
}

fn start(stage: &Stage, session: &str) -> String {
    stage.hook(&stage.event(session, "SessionStart", json!({"source": "startup"}))).context()
}

fn ask(stage: &Stage, session: &str, prompt: &str) -> String {
    let prompt = json!({"prompt": prompt, "prompt_id": "p"});
    stage.hook(&stage.event(session, "UserPromptSubmit", prompt)).context()
}

fn opens(stage: &Stage, session: &str, file: &str) -> String {
    let input = json!({"file_path": stage.project().join(file)});
    let call = json!({"tool_name": "Read", "tool_input": input});
    stage.hook(&stage.event(session, "PreToolUse", call)).context()
}

fn runs(stage: &Stage, session: &str, command: &str) -> String {
    let call = json!({"tool_name": "Bash", "tool_input": {"command": command}});
    stage.hook(&stage.event(session, "PreToolUse", call)).context()
}

/// Returns the text that is injected on each occasion. Each occasion has a separate session.
fn contexts(stage: &Stage, tag: &str) -> [String; 4] {
    let session = |occasion: &str| format!("{tag}-{occasion}");
    [
        start(stage, &session("start")),
        ask(stage, &session("prompt"), "How does the staging gateway treat idle connections?"),
        opens(stage, &session("file"), "src/gateway.rs"),
        runs(stage, &session("command"), "make seed"),
    ]
}

#[test]
fn review_lists_unreviewed_notes_and_keeps_or_rejects_them() {
    let stage = stage("");
    assert_eq!(waiting(&stage), [2, 1]);
    let output = stage.recall(["review", "--list"]);
    let list = done(&output);
    assert!(
        list.contains("#2") && list.contains("drops idle connections") && !list.contains("Hedwig"),
        "{list}"
    );
    assert!(list.contains("2 observations wait for a review in this project."), "{list}");
    let output = stage.recall(["review", "--list", "-n", "1"]);
    assert!(done(&output).contains("; the newest 1 are shown."), "{output:?}");
    let output = stage.recall(["status"]);
    assert!(done(&output).contains("3 observations (2 not reviewed)"), "{output:?}");
    let rows = stage.json(["sql", "SELECT id, reviewed, rejected FROM observations ORDER BY id"]);
    assert_eq!(rows["rows"], json!([[1, 0, 0], [2, 0, 0], [3, 1, 0]]));

    let kept = stage.json(["review", "--keep", "1"]);
    assert_eq!((&kept["items"][0]["id"], &kept["items"][0]["reviewed"]), (&json!(1), &json!(true)), "{kept}");
    assert!(done(&stage.recall(["undo"])).starts_with("Undone: keep of #1"));
    assert_eq!(waiting(&stage), [2, 1]);
    let output = stage.recall(["review", "--keep", "1", "--reject", "#2"]);
    let lines: Vec<&str> = done(&output).lines().collect();
    assert!(
        lines[0].starts_with("#1 is kept: `make seed`") && lines[1].starts_with("#2 is rejected: "),
        "{lines:?}"
    );
    assert_eq!(waiting(&stage), [0_i64; 0]);
    assert_eq!(done(&stage.recall(["review"])), "Nothing waits for a review in this project.\n");
    let (kept, rejected) = (shown(&stage, "1"), shown(&stage, "2"));
    assert_eq!(
        (&kept["reviewed"], &kept["rejected"], &kept["status"]),
        (&json!(true), &Value::Null, &json!("active"))
    );
    assert_eq!((&rejected["rejected"], &rejected["status"]), (&json!(true), &json!("resolved")));
    let output = stage.recall(["show", "2"]);
    assert!(
        done(&output).contains(" · rejected\n") && output.stdout.contains("\nRejected in a review\n"),
        "{output:?}"
    );
    assert!(done(&stage.recall(["show", "1"])).contains(" · reviewed\n"));

    let output = stage.recall(["undo"]);
    assert!(done(&output).starts_with("Undone: reject of #2"), "{output:?}");
    assert_eq!(waiting(&stage), [2]);
    for (wrong, why) in [("p1", "Observation p1 was not found"), ("99", "99")] {
        let output = stage.recall(["review", "--keep", "2", wrong]);
        assert!(output.code() != 0 && output.stdout.is_empty() && !why.is_empty(), "{output:?}");
    }
    assert_eq!(waiting(&stage), [2]);
}

#[test]
fn edited_pinned_and_handwritten_notes_count_as_reviewed() {
    let stage = stage("");
    done(&stage.recall(["pin", "1"]));
    assert_eq!(waiting(&stage), [2]);
    done(&stage.recall(["edit", "2", "--title", "The gateway forgets idle connections"]));
    assert_eq!(waiting(&stage), [0_i64; 0]);
    assert_eq!(shown(&stage, "3")["reviewed"], true);
}

#[test]
fn a_rejected_note_is_not_injected_and_is_found_as_resolved() {
    let stage = stage("");
    let before = contexts(&stage, "before");
    for (occasion, context) in ["start", "prompt", "file", "command"].into_iter().zip(&before) {
        assert!(context.contains("seed") || context.contains("gateway"), "{occasion}: {context}");
    }
    done(&stage.recall(["review", "--reject", "1", "2"]));
    stage.flush();
    let after = contexts(&stage, "after");
    assert!(
        !after.iter().any(|context| context.contains("seed") || context.contains("gateway")),
        "{after:?}"
    );
    assert!(after[0].contains("Hedwig"), "{after:?}");
    let found = stage.json(["search", "staging gateway idle connections"]);
    assert_eq!((&found["results"][0]["id"], &found["results"][0]["status"]), (&json!(2), &json!("resolved")));
    // Two commands bring a rejected note back.
    assert_eq!(done(&stage.recall(["resolve", "--reopen", "1"])), format!("#1 is active: {SEED}\n"));
    assert!(done(&stage.recall(["review", "--keep", "2"])).starts_with("#2 is kept"));
    stage.flush();
    let again = contexts(&stage, "again");
    assert!(again[2].contains("gateway") && again[3].contains("seed"), "{again:?}");
}

#[test]
fn with_reviewed_only_set_unreviewed_notes_are_not_injected() {
    let stage = stage("[context]\nreviewed_only = true\n");
    stage.discount_session("earlier");
    stage.hook(&stage.event("earlier", "SessionEnd", json!({"reason": "other"})));
    stage.flush();
    let before = contexts(&stage, "before");
    assert!(before[0].contains("Hedwig") && !before[0].contains("discount"), "{before:?}");
    assert!(
        !before.iter().any(|context| context.contains("seed") || context.contains("gateway")),
        "{before:?}"
    );
    let prompt = "Why is the discount rounded once, after summing the whole cart?";
    assert_eq!(ask(&stage, "before-discount", prompt), "");
    let preview = stage.recall(["context", "--prompt", prompt]);
    let waiting = stage.json(["review"])["waiting"].clone();
    let text = format!(
        "No reviewed note here would be injected.\n{waiting} observations wait for a review, and \
         `context.reviewed_only` is on: `recall review`\n"
    );
    assert_eq!(done(&preview), text);
    assert_eq!(stage.json(["context"])["unreviewed"], waiting);
    // A search still finds notes that were not reviewed.
    assert_eq!(stage.json(["search", "staging gateway idle connections"])["results"][0]["id"], 2);

    done(&stage.recall(["review", "--keep", "1", "2"]));
    let after = contexts(&stage, "after");
    assert!(
        after[0].contains("seed") && after[0].contains("gateway") && after[0].contains("Hedwig"),
        "{after:?}"
    );
    assert!(!after[0].contains("discount"), "no summary: {after:?}");
    assert!(
        after[1].contains("gateway") && after[2].contains("gateway") && after[3].contains("seed"),
        "{after:?}"
    );
    stage.flush();
    let why = stage.json(["why", "after-prompt"]);
    assert_eq!(why["injections"][0]["items"][0]["reason"], "kept in a review, and about this", "{why}");
    let task = json!({"agent_id": "a1", "agent_type": "explore", "prompt": "Find how the staging gateway treats idle connections"});
    let started = stage.hook(&stage.event("after-task", "SubagentStart", task));
    assert!(!started.stdout.contains("discount"), "{started:?}");
}

#[test]
fn reviewed_only_stays_on_after_a_mistake_in_the_config_file() {
    let mut stage = stage("[context]\nreviewed_only = true\n");
    assert!(!start(&stage, "s1").contains("gateway"));
    stage.stop_daemon();
    std::fs::write(stage.home().join("config.toml"), "[context]\nreviewed_onlyy = true\n").unwrap();
    stage.start_daemon();
    assert!(!start(&stage, "s2").contains("gateway"));
    stage.stop_daemon();
    std::fs::write(stage.home().join("config.toml"), "").unwrap();
    stage.start_daemon();
    assert!(start(&stage, "s3").contains("gateway"));
}

#[test]
fn reviews_survive_a_backup_and_an_own_export() {
    let stage = stage("");
    done(&stage.recall(["review", "--keep", "1", "--reject", "2"]));
    let export = stage.user_home().join("memory.jsonl");
    let path = export.to_str().unwrap();
    done(&stage.recall(["export", path]));
    let marks = |stage: &Stage| {
        let sql = "SELECT title, status, reviewed, rejected FROM observations ORDER BY title";
        stage.json(["sql", sql])["rows"].clone()
    };
    let own = marks(&stage);
    let other = Stage::new().daemon();
    done(&other.recall(["import", "recall", path, "--own"]));
    assert_eq!(marks(&other), own);
    // Reviews in a file do not count without `--own`, because anybody may have written the file.
    let careful = Stage::new().daemon();
    done(&careful.recall(["import", "recall", path]));
    careful.flush();
    assert_eq!(careful.json(["review", "--all"])["waiting"], 2, "the rejected one does not hold");
    done(&careful.recall(["import", "recall", path, "--own"]));
    assert_eq!(marks(&careful), own);

    let backup = stage.user_home().join("copy.db");
    done(&stage.recall(["ctl", "backup", backup.to_str().unwrap()]));
    done(&stage.recall(["undo"]));
    assert_ne!(marks(&stage), own);
    done(&stage.recall(["ctl", "restore", backup.to_str().unwrap(), "--yes"]));
    assert_eq!(marks(&stage), own);
}

#[test]
fn at_a_terminal_one_key_reviews_a_note_and_the_next_note_is_selected() {
    let stage = stage("");
    note(&stage, "The tax table is generated from `rates.csv` by the build", "rates.csv");
    stage.flush();
    let mut command = stage.command("recall");
    let editor = r#"sh -c 'sed -i s/forgets/drops/ "$1"' editor"#;
    command.arg("review").env("EDITOR", editor).env_remove("VISUAL").env("TMPDIR", stage.user_home());
    let mut screen = Screen::of(command, (120, 30));
    screen.shows("y keep  x reject  e edit  p pin");
    screen.shows("1/3");
    screen.until("what is by hand is not listed", |shown| {
        shown.contains("rates.csv") && !shown.contains("Hedwig")
    });
    screen.press("x");
    screen.shows("#4 is rejected; u undoes it");
    screen.press("e");
    screen.shows("#2 is edited; u undoes it");
    screen.until("one is left", |shown| shown.contains("#1") && !shown.contains("#2  "));
    screen.press("y");
    screen.shows("#1 is kept; u undoes it");
    screen.shows("Nothing waits for a review here.");
    screen.press("u");
    screen.shows("Undone: keep of #1");
    screen.shows("must not run twice");
    screen.press("p");
    screen.shows("#1 is pinned; u undoes it");
    screen.shows("Nothing waits for a review here.");
    screen.press("q");
    assert!(screen.end().success());
    assert_eq!(waiting(&stage), [0_i64; 0]);
    assert_eq!(shown(&stage, "4")["rejected"], true);
    assert_eq!(shown(&stage, "1")["pinned"], true);
    assert!(shown(&stage, "2")["title"].as_str().unwrap().contains("drops idle"), "{}", shown(&stage, "2"));
}
