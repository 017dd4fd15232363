//! Tests the main job: what one session found out reaches the next session of the same project, and no other project.

use std::path::{Path, PathBuf};

use recall_domain::tokens::estimate;
use recall_tests::{CommandOutput, DISCOUNT_PROMPT, Stage};
use serde_json::{Value, json};

/// A question that the discount session can answer, in other words than its prompt.
const QUESTION: &str = "Why does the cart total round once after summing the discount?";

fn start(stage: &Stage, session: &str, folder: &Path, source: &str) -> CommandOutput {
    stage.hook(&stage.event(
        session,
        "SessionStart",
        json!({"source": source, "cwd": folder, "model": "claude"}),
    ))
}

fn ask(stage: &Stage, session: &str, prompt: &str) -> CommandOutput {
    stage.hook(&stage.event(session, "UserPromptSubmit", json!({"prompt": prompt})))
}

/// Creates a folder beside the project.
fn folder(stage: &Stage, name: &str) -> PathBuf {
    let folder = stage.user_home().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the ids that a context names: `#123`, or a letter and a number such as `s12`.
fn cited(context: &str) -> Vec<String> {
    let words = context.split(|character: char| character.is_whitespace());
    let ids = words.filter(|word| {
        word.strip_prefix(['#', 's', 'r', 'l', 'p', 'c', 'a']).is_some_and(|id| id.parse::<u32>().is_ok())
    });
    ids.map(str::to_owned).collect()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[test]
fn a_session_is_stored_found_and_shown() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();

    let session = stage.json(["ctl", "session", "first"]);
    assert_eq!((&session["status"], &session["reason"]), (&json!("completed"), &json!("other")));
    assert_eq!(session["project"], "shop");
    let [batch] = list(&session, "batches") else { panic!("{session}") };
    assert_eq!((&batch["prompt"], &batch["status"]), (&json!(DISCOUNT_PROMPT), &json!("closed")));
    let tools: Vec<_> = list(batch, "activities").iter().map(|call| call["tool_name"].clone()).collect();
    assert_eq!(tools, ["Read", "Edit", "Bash"]);
    assert!(batch["response"].as_str().unwrap().contains("Rounding happens once"));
    assert!(session["summary"]["title"].is_string(), "{session}");
    let observation = list(&session, "observations").first().expect("an observation");
    assert!(!list(observation, "evidence").is_empty(), "{observation}");

    let found = stage.json(["search", "rounding", "cent"]);
    let hit = list(&found, "results").iter().find(|hit| hit["kind"] == "observation").expect("a hit");
    assert_eq!(hit["id"], observation["id"]);

    let id = hit["id"].to_string();
    let mut shown = stage.json(["show", id.as_str()]);
    let evidence = shown["items"][0].as_object_mut().unwrap().remove("rests_on").expect("its evidence");
    assert_eq!(evidence.as_array().unwrap().len(), list(observation, "evidence").len());
    assert_eq!(shown["items"][0], *observation);
    let timeline = stage.json(["timeline", id.as_str()]);
    assert!(list(&timeline, "items").iter().any(|item| item["id"] == hit["id"]), "{timeline}");
    assert!(list(&timeline, "items").iter().any(|item| item["kind"] == "prompt"), "{timeline}");
}

#[test]
fn the_next_session_gets_the_text_that_the_context_command_shows() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();

    let shown = stage.json(["context"]);
    let output = start(&stage, "second", &stage.project(), "startup");
    assert!(output.context().starts_with("<recall-context>"), "{output:?}");
    assert_eq!(shown["text"], output.context());
    assert!(output.context().contains("Rounding happens once"), "{output:?}");
    let answer = output.json();
    assert_eq!(answer["hookSpecificOutput"]["hookEventName"], "SessionStart");
    assert!(answer["systemMessage"].as_str().unwrap().starts_with("recall: gave"), "{answer}");

    stage.flush();
    let why = stage.json(["why", "second"]);
    let [injection] = list(&why, "injections") else { panic!("{why}") };
    assert_eq!(injection["items"], shown["items"]);
    assert_eq!(injection["tokens"], shown["tokens"]);
}

#[test]
fn a_prompt_gets_relevant_notes_and_each_note_only_once() {
    let stage = Stage::new().config("[context]\nstart_tokens = 0\n").daemon();
    stage.discount_session("first");
    stage.flush();

    assert_eq!(start(&stage, "second", &stage.project(), "startup").stdout, "", "no budget, no words");
    assert_eq!(ask(&stage, "second", "Which licence does the photograph of the harbour have?").stdout, "");
    let output = ask(&stage, "second", QUESTION);
    assert_eq!(output.json()["hookSpecificOutput"]["hookEventName"], "UserPromptSubmit");
    assert!(output.context().contains("Rounding happens once"), "{output:?}");
    let first = cited(&output.context());
    assert!(!first.is_empty(), "{output:?}");
    let again = cited(&ask(&stage, "second", QUESTION).context());
    assert!(first.iter().all(|id| !again.contains(id)), "told twice: {first:?} {again:?}");

    let third = cited(&ask(&stage, "third", QUESTION).context());
    assert_eq!(third, first, "another session has not been told");
}

/// Adds a later session. A start shows the last session at the top, and lists only the notes of earlier ones.
fn later_session(stage: &Stage) {
    let answer = "Receipts are printed on paper of 80 mm, because the printers of the shop cut it there.";
    stage.session("later", "Choose the paper", &[], answer);
}

#[test]
fn notes_injected_at_a_start_are_not_injected_again_at_a_prompt() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    later_session(&stage);
    stage.flush();
    let injected = cited(&start(&stage, "second", &stage.project(), "startup").context());
    assert!(!injected.is_empty());
    let prompted = cited(&ask(&stage, "second", QUESTION).context());
    assert!(injected.iter().all(|id| !prompted.contains(id)), "{injected:?} {prompted:?}");
}

#[test]
fn a_session_does_not_get_its_own_notes_injected() {
    let stage = Stage::new().daemon();
    start(&stage, "only", &stage.project(), "startup");
    ask(&stage, "only", DISCOUNT_PROMPT);
    for call in stage.discount_calls() {
        stage.hook(&stage.event("only", "PostToolUse", call));
    }
    let stop = stage.event("only", "Stop", json!({"last_assistant_message": recall_tests::DISCOUNT_ANSWER}));
    assert_eq!(stage.hook(&stop).stdout, "", "an answer to Stop would make the agent go on");
    stage.flush();
    assert!(!list(&stage.json(["ctl", "session", "only"]), "observations").is_empty());
    assert_eq!(ask(&stage, "only", QUESTION).stdout, "");
}

/// Stores enough sessions to fill any budget.
fn much_memory(stage: &Stage) {
    for (number, (topic, reason)) in [
        (
            "shipping",
            "the carrier bills whole kilograms, so weights are rounded up before the price is looked up",
        ),
        (
            "invoices",
            "the tax office wants numbers without gaps, so a number is taken in the same transaction",
        ),
        ("login", "sessions were fixed by an attacker, so the id is renewed after each sign-in"),
        ("search", "the index lagged behind the catalogue, so writes wait for its refresh"),
        ("emails", "a retry sent mails twice, so each mail carries an idempotency key"),
        ("stock", "two orders took the last piece, so the row is locked before it is counted"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = stage.project().join(format!("src/{topic}.rs"));
        let call = json!({"tool_name": "Edit",
            "tool_input": {"file_path": file, "old_string": "a", "new_string": "b"},
            "tool_response": {"filePath": file}});
        let answer =
            format!("Fixed {topic}: {reason}. The decision is to keep {topic} in one module because of it.");
        stage.session(&format!("fill-{number}"), &format!("Repair {topic}"), &[call], &answer);
    }
    stage.flush();
}

#[test]
fn injected_text_stays_within_its_token_budget() {
    let check = |config: &str, most: u32| {
        let stage = Stage::new().config(config).daemon();
        much_memory(&stage);
        let context = start(&stage, "next", &stage.project(), "startup").context();
        assert!(estimate(&context) <= most, "{} tokens of {most}: {context}", estimate(&context));
        assert!(context.encode_utf16().count() <= 10_000);
        let prompted =
            ask(&stage, "other", "Why are shipping weights, invoices and stock kept in one module?");
        assert!(estimate(&prompted.context()) <= 500, "{prompted:?}");
        estimate(&context)
    };
    let narrow = check("[context]\nstart_tokens = 150\n", 150);
    assert!(narrow > 0, "a small budget still says something");
    let usual = check("", 2000);
    assert!(usual > 150, "there was more to say than the small budget let through: {usual}");
}

#[test]
fn notes_are_not_injected_into_another_project() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    let elsewhere = folder(&stage, "elsewhere");
    assert_eq!(start(&stage, "second", &elsewhere, "startup").stdout, "");
    let prompt = stage.event("second", "UserPromptSubmit", json!({"prompt": QUESTION, "cwd": elsewhere}));
    assert_eq!(stage.hook(&prompt).stdout, "");
    let shown = stage.json(["context", "--cwd", elsewhere.to_str().unwrap()]);
    assert_eq!(shown, json!({"text": "", "tokens": 0, "items": []}));
    // A search is not an injection. It covers all projects unless it is narrowed.
    assert!(!list(&stage.json(["search", "rounding"]), "results").is_empty());
    let narrowed = stage.json(["search", "rounding", "--project", elsewhere.to_str().unwrap()]);
    // The search may find the prompt of this session.
    assert!(list(&narrowed, "results").iter().all(|result| result["session_id"] == "second"), "{narrowed}");
}

#[test]
fn two_projects_with_one_folder_name_stay_apart() {
    let stage = Stage::new().daemon();
    let (here, there) = (folder(&stage, "a/api"), folder(&stage, "b/api"));
    for (session, folder, answer) in [
        ("here", &here, "The billing gateway needs a retry, because its first answer is often a timeout."),
        (
            "there",
            &there,
            "The chess engine needs to prune late moves, because a deep search often takes minutes.",
        ),
    ] {
        let tell = |name, fields: Value| {
            let mut event = stage.event(session, name, fields);
            event["cwd"] = json!(folder);
            stage.hook(&event);
        };
        tell("SessionStart", json!({"source": "startup"}));
        tell("UserPromptSubmit", json!({"prompt": format!("Look into {session}")}));
        tell("Stop", json!({"last_assistant_message": answer}));
        tell("SessionEnd", json!({"reason": "other"}));
    }
    stage.flush();
    let (here, there) =
        (start(&stage, "3", &here, "startup").context(), start(&stage, "4", &there, "startup").context());
    assert!(here.contains("billing gateway") && !here.contains("chess"), "{here}");
    assert!(there.contains("chess engine") && !there.contains("billing"), "{there}");
    let sessions = stage.json(["ctl", "sessions"]);
    assert!(list(&sessions, "sessions").iter().all(|session| session["project"] == "api"), "{sessions}");
    assert_ne!(
        stage.json(["ctl", "session", "here"])["project_id"],
        stage.json(["ctl", "session", "there"])["project_id"]
    );
}

#[test]
fn a_worktree_shares_its_repositorys_memory() {
    let stage = Stage::new().daemon();
    let git = stage.project().join(".git");
    let private = git.join("worktrees/feature");
    std::fs::create_dir_all(git.join("objects")).unwrap();
    std::fs::create_dir_all(&private).unwrap();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(git.join("config"), "[core]\n\tbare = false\n").unwrap();
    let worktree = folder(&stage, "feature");
    std::fs::write(private.join("HEAD"), "ref: refs/heads/feature\n").unwrap();
    std::fs::write(private.join("commondir"), "../..\n").unwrap();
    std::fs::write(private.join("gitdir"), format!("{}/.git\n", worktree.display())).unwrap();
    std::fs::write(worktree.join(".git"), format!("gitdir: {}\n", private.display())).unwrap();

    stage.discount_session("first");
    stage.flush();
    let below = folder(&stage, "feature/src/deep");
    let context = start(&stage, "second", &below, "startup").context();
    assert!(context.contains("Rounding happens once"), "{context}");
    assert_eq!(stage.json(["ctl", "session", "second"])["project"], "shop");
}

#[test]
fn a_resumed_session_gets_only_notes_made_since_it_ended() {
    let stage = Stage::new().daemon();
    stage.discount_session("before");
    later_session(&stage);
    stage.flush();
    let known = cited(&start(&stage, "long", &stage.project(), "startup").context());
    assert!(!known.is_empty());
    ask(&stage, "long", "Look around");
    stage.hook(&stage.event("long", "SessionEnd", json!({"reason": "other"})));
    stage.flush();
    assert_eq!(start(&stage, "long", &stage.project(), "resume").stdout, "", "nothing new, nothing said");

    stage.session(
        "meanwhile",
        "Choose a currency",
        &[],
        "Prices are kept in euro cents, because the bank settles in euro and conversion lost cents.",
    );
    stage.flush();
    let news = start(&stage, "long", &stage.project(), "resume").context();
    assert!(news.contains("euro"), "{news}");
    assert!(estimate(&news) <= 300, "{news}");
    assert!(known.iter().all(|id| !cited(&news).contains(id)), "{known:?} {news}");
    let session = stage.json(["ctl", "session", "long"]);
    assert_eq!(session["status"], "initialized", "a new life of the same session: {session}");
}

#[test]
fn all_notes_are_injected_again_after_a_clear_and_after_a_compaction() {
    let stage = Stage::new().daemon();
    stage.discount_session("before");
    later_session(&stage);
    stage.flush();
    let injected = cited(&start(&stage, "one", &stage.project(), "startup").context());
    assert!(!injected.is_empty());
    stage.hook(&stage.event("one", "SessionEnd", json!({"reason": "clear"})));
    let injected_again = cited(&start(&stage, "two", &stage.project(), "clear").context());
    assert_eq!(injected_again, injected);
    let ended = stage.json(["ctl", "session", "one"]);
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("completed"), &json!("clear")));

    let compacted = start(&stage, "two", &stage.project(), "compact").context();
    assert!(injected.iter().all(|id| cited(&compacted).contains(id)), "{injected:?} {compacted}");
    assert!(estimate(&compacted) <= 1500);
}

#[test]
fn a_start_that_two_hooks_report_is_answered_once() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    let context_at = |source: &str| start(&stage, "second", &stage.project(), source).context().to_owned();
    assert!(context_at("startup").contains("Rounding happens once"));
    assert_eq!(context_at("startup"), "");
    let sql =
        "SELECT count(*) FROM injections i JOIN sessions s ON s.id = i.session WHERE s.session_id = 'second'";
    stage.flush();
    assert_eq!(stage.json(["sql", sql])["rows"][0][0].to_string().trim_matches('"'), "1");
    // The conversation was emptied, so the memory is injected once more.
    assert!(context_at("compact").contains("Rounding happens once"));
    assert_eq!(context_at("compact"), "");
}
