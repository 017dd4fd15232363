//! Tests `recall edit`, `pin`, `undo` and `resolve --query`.

use std::os::unix::process::CommandExt;

use recall_tests::{CommandOutput, Stage, run};
use serde_json::{Value, json};

const REMARK: &str = "The staging gateway drops idle connections after 50 seconds.";

fn remembered() -> Stage {
    let stage = Stage::new().daemon();
    assert_eq!(stage.recall(["remember", REMARK, "--type", "gotcha"]).code(), 0);
    stage
}

fn edit_with(stage: &Stage, editor: &str) -> CommandOutput {
    let mut command = stage.command("recall");
    command.args(["edit", "1"]).env("EDITOR", editor).env("TMPDIR", stage.user_home());
    run(command, b"")
}

fn observation(stage: &Stage, id: &str) -> Value {
    stage.json(["show", id])["items"][0].clone()
}

fn total(stage: &Stage, query: &str) -> Value {
    stage.json(["search", query])["total"].clone()
}

#[test]
fn an_edit_replaces_the_text_and_can_be_undone() {
    let stage = remembered();
    let output = edit_with(&stage, "sed -i -e s/drops/recycles/ -e s/gotcha/decision/");
    assert!(output.stdout.starts_with("Changed #1: The staging gateway recycles idle"), "{output:?}");
    let edited = observation(&stage, "1");
    assert_eq!((&edited["type"], &edited["origin"]), (&json!("decision"), &json!("user")));
    assert!(edited["edited_at"].is_string(), "{edited}");
    assert!(stage.recall(["show", "1"]).stdout.contains("\nEdited by you just now; no later compression"));
    stage.flush();
    assert_eq!((total(&stage, "recycles"), total(&stage, "\"gateway drops\"")), (json!(1), json!(0)));

    let output = stage.recall(["undo", "--list"]);
    assert!(output.stdout.contains("#1") && output.stdout.contains("edit"), "{output:?}");
    let output = stage.recall(["undo"]);
    assert!(output.stdout.starts_with("Undone: edit of #1"), "{output:?}");
    let back = observation(&stage, "1");
    assert_eq!(back["edited_at"], Value::Null);
    assert_eq!((&back["title"], &back["type"]), (&json!(REMARK), &json!("gotcha")));
    assert_eq!(stage.recall(["undo"]).stdout, "There is nothing to undo.\n");
    stage.flush();
    assert_eq!(total(&stage, "recycles"), 0);
}

#[test]
fn a_generated_title_follows_an_edit_of_the_text() {
    let stage = remembered();
    let edit = |arguments: &[&str]| {
        let output = stage.recall([&["edit", "1"], arguments].concat());
        assert_eq!(output.code(), 0, "{output:?}");
        let now = observation(&stage, "1");
        (output.stdout, now["title"].clone(), now["narrative"].clone())
    };
    let (output, title, text) = edit(&["--text", "The staging gateway keeps connections."]);
    assert_eq!(output, "Changed #1: The staging gateway keeps connections.\n");
    assert_eq!((title, text), (json!("The staging gateway keeps connections."), json!("")));
    let (output, title, text) = edit(&["--text", "It closes them at night.\nAt two."]);
    assert_eq!(output, "Changed #1: It closes them at night.\nIt closes them at night.\nAt two.\n");
    assert_eq!(
        (title, text),
        (json!("It closes them at night."), json!("It closes them at night.\nAt two."))
    );
    // A title that the user wrote stays.
    edit(&["--title", "When the gateway closes connections"]);
    let (_, title, text) = edit(&["--text", "At three."]);
    assert_eq!((title, text), (json!("When the gateway closes connections"), json!("At three.")));
    // A title that compression made is replaced.
    stage.discount_session("first");
    stage.flush();
    let made = stage.json(["search", "discount kind:observation"])["results"][0]["id"].to_string();
    assert_eq!(stage.recall(["edit", &made, "--text", "Discounts are rounded once."]).code(), 0);
    assert_eq!(observation(&stage, &made)["title"], "Discounts are rounded once.");
}

#[test]
fn an_interrupt_in_the_editor_does_not_end_the_edit() {
    let stage = remembered();
    let mut command = stage.command("recall");
    let editor = r#"sh -c 'trap "" INT; kill -INT 0; sed -i s/drops/recycles/ "$1"' editor"#;
    // The command gets a separate process group, because otherwise the interrupt would end the tests.
    command.args(["edit", "1"]).env("EDITOR", editor).env("TMPDIR", stage.user_home()).process_group(0);
    let output = run(command, b"");
    assert!(output.stdout.contains("recycles idle"), "{output:?}");
}

#[test]
fn mistakes_in_an_edit_change_nothing_and_lose_no_text() {
    let stage = remembered();
    assert_eq!(edit_with(&stage, "true").stdout, "Nothing was changed.\n");
    let output = edit_with(&stage, "false");
    assert!(output.code() == 1 && output.stderr.contains("The editor \"false\" failed"), "{output:?}");
    let output = edit_with(&stage, "sed -i s/^title:/titel:/");
    assert!(output.code() == 1 && output.stderr.contains("Line 3: \"titel\" is not a key"), "{output:?}");
    let kept = output.stderr.rsplit("kept in ").next().unwrap().trim().trim_end_matches('.').to_owned();
    assert!(std::fs::read_to_string(kept).unwrap().contains("titel: The staging gateway"));
    let output = edit_with(&stage, "sed -i s/gotcha/gotscha/");
    assert!(output.code() == 2 && output.stderr.contains("\"gotscha\" is not a type"), "{output:?}");
    let output = stage.recall(["edit", "p1", "--title", "x"]);
    assert_ne!(output.code(), 0, "{output:?}");
    assert_eq!(observation(&stage, "1")["title"], REMARK);
}

#[test]
fn a_users_edit_survives_later_compression() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    let before = observation(&stage, "1");
    let output = stage.recall(["edit", "1", "--title", "Discounts are percentages of the whole cart"]);
    assert_eq!(output.code(), 0, "{output:?}");
    // The session goes on, and its observations are chosen again.
    stage.session(
        "first",
        "And refuse negative discounts",
        &[],
        "Negative discounts are refused now, because they raised the price.",
    );
    stage.flush();
    let found = stage.json(["search", "kind:observation"]);
    let titles: Vec<&str> =
        found["results"].as_array().unwrap().iter().map(|result| result["title"].as_str().unwrap()).collect();
    assert!(titles.contains(&"Discounts are percentages of the whole cart"), "{titles:?}");
    assert!(!titles.contains(&before["title"].as_str().unwrap()), "it is not made a second time: {titles:?}");
}

#[test]
fn a_pinned_observation_is_shown_first_and_not_pruned() {
    let stage = Stage::new().daemon();
    for (remark, importance) in [("Alpha is trivial", "1"), ("Beta matters most", "10")] {
        assert_eq!(stage.recall(["remember", remark, "--importance", importance]).code(), 0);
    }
    let first = |stage: &Stage| {
        let shown = stage.recall(["context"]).stdout;
        let (alpha, beta) = (shown.find("Alpha").unwrap(), shown.find("Beta").unwrap());
        if alpha < beta { "alpha" } else { "beta" }
    };
    assert_eq!(first(&stage), "beta");
    assert_eq!(stage.recall(["pin", "1"]).stdout, "#1 is pinned: Alpha is trivial\n");
    assert_eq!((first(&stage), &observation(&stage, "1")["pinned"]), ("alpha", &json!(true)));
    assert!(stage.recall(["show", "1"]).stdout.contains("importance 1 · pinned"));
    assert_eq!(stage.recall(["undo"]).code(), 0);
    assert_eq!(first(&stage), "beta");

    let event = |name: &str, fields: Value| {
        let mut deliver = stage.delivery(&stage.event("old", name, fields));
        deliver.captured_at_ms = 1_700_000_000_000;
        deliver
    };
    stage.deliver(&[event(
        "UserPromptSubmit",
        json!({"prompt": "Why is the quetzal slow?", "prompt_id": "p"}),
    )]);
    let answer = "The quetzal was slow because `idx_orders` was missing, so every order scanned the table.";
    stage.deliver(&[event("Stop", json!({"last_assistant_message": answer, "prompt_id": "p"}))]);
    stage.flush();
    let found = stage.json(["search", "quetzal kind:observation"]);
    let id = found["results"][0]["id"].to_string();
    stage.recall(["pin", &id]);
    assert_eq!(stage.json(["ctl", "prune", "--older-than", "90d", "--dry-run"])["sessions"], 0);
    stage.recall(["pin", &id, "--off"]);
    assert_eq!(stage.json(["ctl", "prune", "--older-than", "90d", "--dry-run"])["sessions"], 1);
}

#[test]
fn forgetting_an_edited_note_also_deletes_its_original_text() {
    let mut stage = Stage::new().daemon();
    assert_eq!(stage.recall(["remember", "The quetzalcoatlus cache is cold"]).code(), 0);
    assert_eq!(stage.recall(["edit", "1", "--title", "The bird cache is cold"]).code(), 0);
    assert_eq!(stage.recall(["forget", "1", "--yes"]).code(), 0);
    assert_eq!(stage.recall(["undo"]).stdout, "There is nothing to undo.\n");
    stage.stop_daemon();
    let database = std::fs::read(stage.database()).unwrap();
    assert!(!database.windows(14).any(|window| window == b"quetzalcoatlus"));
}

#[test]
fn resolve_by_query_resolves_every_matching_note() {
    let stage = Stage::new().daemon();
    for remark in ["The flag `beta_cart` is still off", "The flag `beta_pay` is still off", "Carts are green"]
    {
        assert_eq!(stage.recall(["remember", remark]).code(), 0);
    }
    let output = stage.recall(["resolve", "--query", "flag still off"]);
    assert!(output.code() == 2 && output.stderr.contains("--yes"), "{output:?}");
    let output = stage.recall(["resolve", "--query", "flag", "--yes"]);
    assert!(
        output.stdout.contains("#1 is resolved") && output.stdout.contains("#2 is resolved"),
        "{output:?}"
    );
    assert_eq!(observation(&stage, "3")["status"], "active");
    let output = stage.recall(["resolve", "--query", "flag", "--yes"]);
    assert_eq!(output.stdout, "No observation found that would change.\n");
    assert_eq!(stage.json(["resolve", "--query", "flag", "--yes"]), json!({"items": []}));
    let output = stage.recall(["resolve", "--query", "flag", "--reopen", "--dry-run"]);
    assert!(output.code() == 0 && output.stdout.ends_with("Dry run; nothing was changed.\n"), "{output:?}");
    assert_eq!(observation(&stage, "1")["status"], "resolved");
    let output = stage.recall(["resolve", "3", "--dry-run"]);
    assert_eq!(output.stdout, "#3 Carts are green\nDry run; nothing was changed.\n", "{output:?}");
    assert_eq!(observation(&stage, "3")["status"], "active");
    assert_eq!(stage.recall(["undo"]).code(), 0);
    let output = stage.recall(["resolve", "--query", "flag", "--reopen", "--yes"]);
    assert!(output.stdout.contains(" is active"), "{output:?}");
}
