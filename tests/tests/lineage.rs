//! Tests the later life of notes: newer statements replace older ones, problems are solved, and both can be undone.

use recall_tests::Stage;
use serde_json::{Value, json};

/// Plays one turn of a session: a prompt, calls, and an answer.
fn turn(stage: &Stage, session: &str, prompt: &str, calls: &[(&str, Value)], answer: &str) {
    let prompt_id = format!("{session}-{}", prompt.len());
    let event = |name: &str, mut fields: Value| {
        fields["prompt_id"] = json!(prompt_id);
        stage.hook(&stage.event(session, name, fields));
    };
    event("UserPromptSubmit", json!({"prompt": prompt}));
    for (number, (name, call)) in calls.iter().enumerate() {
        let mut call = call.clone();
        call["tool_use_id"] = json!(format!("{prompt_id}-{number}"));
        event(name, call);
    }
    event("Stop", json!({"last_assistant_message": answer}));
    stage.flush();
}

fn edit(stage: &Stage, file: &str) -> (&'static str, Value) {
    let path = stage.project().join(file).to_string_lossy().into_owned();
    let input = json!({"file_path": path, "old_string": "a", "new_string": "b"});
    ("PostToolUse", json!({"tool_name": "Edit", "tool_input": input, "tool_response": {"filePath": path}}))
}

fn check_passes() -> (&'static str, Value) {
    let response = json!({"stdout": "test result: ok. 9 passed; 0 failed", "stderr": ""});
    let input = json!({"command": "cargo test -p shop"});
    ("PostToolUse", json!({"tool_name": "Bash", "tool_input": input, "tool_response": response}))
}

fn check_fails() -> (&'static str, Value) {
    let error = "Exit code 101\nerror: the cart's total is 899 and should be 900";
    let input = json!({"command": "cargo test -p shop"});
    ("PostToolUseFailure", json!({"tool_name": "Bash", "tool_input": input, "error": error}))
}

fn start(stage: &Stage, session: &str) -> String {
    let fields = json!({"source": "startup", "model": "claude"});
    stage.hook(&stage.event(session, "SessionStart", fields)).context()
}

/// Returns the number of the observation whose title contains this text.
#[track_caller]
fn numbered(stage: &Stage, session: &str, title: &str) -> i64 {
    let shown = stage.json(["ctl", "session", session]);
    let observations = shown["observations"].as_array().unwrap();
    let found = observations.iter().find(|one| one["title"].as_str().unwrap().contains(title));
    found.unwrap_or_else(|| panic!("no {title:?} in {observations:?}"))["id"].as_i64().unwrap()
}

fn shown(stage: &Stage, id: i64) -> Value {
    stage.json(["show", &id.to_string()])["items"][0].clone()
}

#[test]
fn a_failing_check_is_open_until_a_change_makes_it_pass() {
    let stage = Stage::new().daemon();
    let failing = [edit(&stage, "src/cart.rs"), check_fails()];
    turn(&stage, "one", "Round the total once", &failing, "I have changed the rounding in the cart.");
    let id = numbered(&stage, "one", "`cargo test -p shop` fails");
    assert!(start(&stage, "between").contains("`cargo test -p shop` fails"));

    let mended = [edit(&stage, "src/cart.rs"), check_passes()];
    turn(&stage, "two", "Mend the cart's test", &mended, "The cart's total is summed in cents.");
    let now = shown(&stage, id);
    assert_eq!((&now["status"], &now["lineage"][0]["relation"]), (&json!("resolved"), &json!("resolved")));
    assert_eq!(now["lineage"][0]["session_id"], "two");
    // The evidence is the change and the run that passed.
    let session = stage.json(["ctl", "session", "two"]);
    let calls: Vec<&Value> = session["batches"][0]["activities"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["event_id"])
        .collect();
    assert_eq!(now["lineage"][0]["evidence"].as_array().unwrap().iter().collect::<Vec<_>>(), calls);
    let stdout = stage.recall(["show", &id.to_string()]).stdout;
    assert!(stdout.contains("Resolved: the check passes after a change (session two, prompt 1)"), "{stdout}");
    // Search finds it and marks it, but it is not injected.
    let found = stage.json(["search", "Fails cargo test shop"]);
    let found = found["results"].as_array().unwrap().iter().find(|one| one["id"] == id).unwrap();
    assert_eq!(found["status"], "resolved");
    assert!(!start(&stage, "after").contains("`cargo test -p shop` fails"));

    // The user can undo the resolution.
    let output = stage.recall(["resolve", "--undo", &id.to_string()]);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(start(&stage, "again").contains("`cargo test -p shop` fails"));
    assert!(shown(&stage, id)["lineage"].is_null());
}

#[test]
fn a_change_and_a_pass_in_different_batches_resolve_a_failing_check() {
    let stage = Stage::new().daemon();
    turn(&stage, "one", "Does it still hold?", &[check_fails()], "The cart's total is off by one cent.");
    let id = numbered(&stage, "one", "`cargo test -p shop` fails");
    // A pass that no change explains resolves nothing.
    turn(&stage, "one", "Run the tests again", &[check_passes()], "They pass now, I do not know why.");
    assert_eq!(shown(&stage, id)["status"], "active");
    turn(
        &stage,
        "one",
        "Sum in cents",
        &[edit(&stage, "src/cart.rs")],
        "The cart's total is summed in cents.",
    );
    assert_eq!(shown(&stage, id)["status"], "active");
    turn(&stage, "two", "Check the whole shop", &[check_passes()], "All checks of the shop pass.");
    let now = shown(&stage, id);
    assert_eq!(now["status"], "resolved", "{now}");
    let lineage = &now["lineage"][0];
    assert_eq!(
        (&lineage["session_id"], &lineage["reason"]),
        (&json!("two"), &json!("the check passes after a change"))
    );
    let call = |session: &str, batch: usize| {
        stage.json(["ctl", "session", session])["batches"][batch]["activities"][0]["event_id"].clone()
    };
    assert_eq!(lineage["evidence"], json!([call("one", 2), call("two", 0)]));
}

#[test]
fn a_newer_value_supersedes_the_older_until_it_is_forgotten() {
    let stage = Stage::new().daemon();
    let read = edit(&stage, "src/gateway.rs");
    let older = "`max_retries` is 3, because the gateway must never be asked more often than that.";
    turn(&stage, "one", "How often does the gateway retry?", std::slice::from_ref(&read), older);
    let newer = "`max_retries` is 5, because the gateway is slow and must not be given up too early.";
    turn(&stage, "two", "Why does the gateway give up?", std::slice::from_ref(&read), newer);
    let (older, newer) =
        (numbered(&stage, "one", "max_retries is 3"), numbered(&stage, "two", "max_retries is 5"));
    let now = shown(&stage, older);
    assert_eq!((&now["status"], &now["superseded_by"]), (&json!("superseded"), &json!(newer)));
    assert_eq!(shown(&stage, newer)["lineage"][0]["id"], older);
    let output = stage.recall(["show", &older.to_string()]).stdout;
    assert!(output.contains(&format!("Superseded by #{newer} max_retries is 5")), "{output}");
    let given = start(&stage, "three");
    assert!(given.contains("max_retries is 5") && !given.contains("max_retries is 3"), "{given}");
    let prompt = json!({"prompt": "How many max_retries does the gateway get?", "prompt_id": "p"});
    let given = stage.hook(&stage.event("asking", "UserPromptSubmit", prompt)).context();
    assert!(given.contains("max_retries is 5") && !given.contains("max_retries is 3"), "{given}");
    let refused = stage.recall(["resolve", &older.to_string()]);
    assert!(refused.stderr.contains("--reopen"), "{refused:?}");

    stage.json(["forget", "--yes", &newer.to_string()]);
    let now = shown(&stage, older);
    assert_eq!((&now["status"], &now["superseded_by"]), (&json!("active"), &Value::Null));
    assert!(start(&stage, "four").contains("max_retries is 3"));
}

#[test]
fn an_older_statement_is_superseded_until_it_is_reopened() {
    let stage = Stage::new().daemon();
    let older =
        "Invoices are numbered per customer, starting anew each January, because auditors ask for it.";
    turn(&stage, "one", "How are invoices numbered?", &[edit(&stage, "src/invoice.rs")], older);
    let id = numbered(&stage, "one", "Invoices are numbered per customer");
    assert!(start(&stage, "before").contains("per customer"));

    let newer = "Invoices are numbered per shop, not per customer, starting anew each January, because auditors ask for it.";
    assert_eq!(stage.recall(["remember", newer]).code(), 0);
    stage.flush();
    let now = shown(&stage, id);
    assert_eq!(
        (&now["status"], &now["lineage"][0]["relation"]),
        (&json!("superseded"), &json!("superseded_by"))
    );
    let newer = now["superseded_by"].as_i64().unwrap();
    assert_eq!(shown(&stage, newer)["lineage"][0]["id"], id, "its history");
    let is_injected = |session: &str| numbers(&start(&stage, session)).contains(&id);
    assert!(!is_injected("after"));
    // Nothing is deleted. Search still finds the older statement, and a user who disagrees can have it injected
    // again.
    assert!(stage.recall(["timeline", &newer.to_string()]).stdout.contains("per customer"));
    assert_eq!(stage.recall(["resolve", "--reopen", &id.to_string()]).code(), 0);
    assert_eq!(shown(&stage, id)["status"], "active");
    // The statements of the last session are not injected twice, so another session must be the last.
    let other = "The shop sells paper and ink, because the licence names nothing else.";
    turn(&stage, "other", "What is sold?", &[edit(&stage, "src/goods.rs")], other);
    assert!(is_injected("again"));
}

/// Returns the numbers of the observations that a context names.
fn numbers(context: &str) -> Vec<i64> {
    let words = context.split(|gap: char| !gap.is_ascii_digit() && gap != '#');
    words.filter_map(|word| word.strip_prefix('#')?.parse().ok()).collect()
}

#[test]
fn a_rejected_edit_is_remembered_and_injected_for_its_file() {
    let stage = Stage::new().daemon();
    let path = stage.project().join("src/view.rs").to_string_lossy().into_owned();
    let rejected = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a \
        file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nround in money.rs only";
    let call = json!({"tool_name": "Edit", "tool_use_id": "t1", "tool_response": rejected,
        "tool_input": {"file_path": path, "old_string": "total", "new_string": "total.round()"}});
    let batch = ("PostToolBatch", json!({"tool_calls": [call]}));
    turn(&stage, "one", "Show the total in the view", &[batch], "I leave the view alone.");
    let id = numbered(&stage, "one", "User rejected an edit of `src/view.rs`: round in money.rs only");
    assert_eq!(
        (&shown(&stage, id)["type"], &shown(&stage, id)["importance"]),
        (&json!("correction"), &json!(8))
    );
    let opens = json!({"tool_name": "Read", "tool_input": {"file_path": path}, "tool_use_id": "r1"});
    let context = stage.hook(&stage.event("two", "PreToolUse", opens)).context();
    assert!(context.contains("round in money.rs only"), "{context}");
}
