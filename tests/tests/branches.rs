//! Tests checkouts: recall knows where something was made, and marks it where something else is checked out.

use std::path::Path;

use recall_tests::repository::Repository;
use recall_tests::{DISCOUNT_ANSWER, DISCOUNT_PROMPT, Stage};
use serde_json::{Value, json};

const NOT_MERGED: &str = "(on branch feature-x, not merged here)";

/// Returns a project with a commit on `main`, and a daemon.
fn stage() -> (Stage, Repository) {
    let stage = Stage::new();
    let repository = Repository::init(&stage.project());
    (stage.daemon(), repository)
}

/// Plays a session that learns something about a cart, in a folder.
fn work_in(stage: &Stage, folder: &Path, session: &str) {
    let turn = format!("{session}-p");
    let event = |name: &str, fields: Value| {
        let mut event = stage.event(session, name, fields);
        event["cwd"] = json!(folder);
        event["prompt_id"] = json!(turn);
        stage.hook(&event);
    };
    event("UserPromptSubmit", json!({"prompt": DISCOUNT_PROMPT}));
    for (number, mut call) in stage.discount_calls().into_iter().enumerate() {
        call["tool_use_id"] = json!(format!("{session}-t{number}"));
        event("PostToolUse", call);
    }
    event("Stop", json!({"last_assistant_message": DISCOUNT_ANSWER}));
    event("SessionEnd", json!({"reason": "other"}));
    stage.flush();
}

/// Returns the context of a session that starts in the folder.
fn start_context(stage: &Stage, folder: &Path, session: &str) -> String {
    let mut event = stage.event(session, "SessionStart", json!({"source": "startup"}));
    event["cwd"] = json!(folder);
    let context = stage.hook(&event).context();
    assert!(context.contains("Rounding happens once"), "{context}");
    context
}

/// Returns the mark of the observation about rounding, as `show` prints it in the project's folder.
fn mark(stage: &Stage) -> Value {
    let found = stage.json(["search", "rounding happens once", "kind:observation"]);
    let (id, elsewhere) = (found["results"][0]["id"].to_string(), &found["results"][0]["elsewhere"]);
    let shown = stage.json(["show", &id]);
    assert_eq!(shown["items"][0]["elsewhere"], *elsewhere, "search and show say the same");
    elsewhere.clone()
}

#[test]
fn each_batch_stores_the_branch_and_commit_at_its_end() {
    let (stage, repository) = stage();
    let first = repository.git(&["rev-parse", "HEAD"]);
    let ask = |id: &str| {
        stage.hook(&stage.event("s", "UserPromptSubmit", json!({"prompt": "Go", "prompt_id": id})));
        stage.flush();
    };
    ask("p1");
    repository.git(&["checkout", "-q", "-b", "feature-x"]);
    let second = repository.commit("two");
    let stop = json!({"last_assistant_message": "Done.", "prompt_id": "p1"});
    stage.hook(&stage.event("s", "Stop", stop));
    stage.flush();
    repository.git(&["checkout", "-q", "--detach", "main"]);
    ask("p2");
    // A late event belongs to an earlier time, when something else may have been checked out.
    let mut late = stage.delivery(&stage.event("late", "UserPromptSubmit", json!({"prompt": "Late"})));
    late.boot_ns = late.boot_ns.saturating_sub(3_600_000_000_000);
    late.captured_at_ms -= 3_600_000;
    stage.spool(&late);
    stage.flush();
    let seen = |session: &str, batch: usize| {
        let session = stage.json(["ctl", "session", session]);
        let batch = &session["batches"][batch];
        (batch["branch"].clone(), batch["commit"].clone())
    };
    assert_eq!(seen("s", 0), (json!("feature-x"), json!(second)));
    assert_eq!(seen("s", 1), (Value::Null, json!(first)));
    assert_eq!(seen("late", 0), (Value::Null, Value::Null));
}

#[test]
fn notes_from_an_unmerged_branch_are_marked_until_it_is_merged() {
    let (stage, repository) = stage();
    let project = stage.project();
    repository.git(&["checkout", "-q", "-b", "feature-x"]);
    work_in(&stage, &project, "one");
    let commit = repository.commit("cart");
    assert!(!start_context(&stage, &project, "same-branch").contains("feature-x"));
    repository.git(&["checkout", "-q", "main"]);

    let start = start_context(&stage, &project, "start");
    assert!(start.contains(NOT_MERGED), "{start}");
    let prompt = json!({"prompt": "Why does rounding of the cart total happen once?", "prompt_id": "p"});
    let prompted = stage.hook(&stage.event("asks", "UserPromptSubmit", prompt)).context();
    assert!(prompted.contains(NOT_MERGED), "{prompted}");
    let compacted = stage.hook(&stage.event("start", "SessionStart", json!({"source": "compact"}))).context();
    assert!(compacted.contains(NOT_MERGED), "{compacted}");
    assert_eq!(mark(&stage), "on branch feature-x, not merged here");
    let searched = stage.recall(["search", "rounding happens once"]).stdout;
    assert!(searched.contains(NOT_MERGED), "{searched}");
    let item = &stage.json(["show", "1"])["items"][0];
    assert_eq!(item["branch"], "feature-x");
    assert_ne!(item["commit"], commit, "it was committed after the work");
    let shown = stage.recall(["show", "1"]).stdout;
    assert!(shown.contains("made on branch feature-x at commit ") && shown.contains(NOT_MERGED), "{shown}");
    stage.flush();
    assert!(stage.recall(["why", "start"]).stdout.contains("not merged here"));

    repository.git(&["merge", "-q", "--no-ff", "-m", "merge", "feature-x"]);
    assert!(!start_context(&stage, &project, "merged").contains("feature-x"));
    assert_eq!(mark(&stage), Value::Null);
    assert_eq!(stage.json(["show", "1"])["items"][0]["branch"], "feature-x");
}

#[test]
fn notes_injected_for_a_file_are_marked_with_their_unmerged_branch() {
    let stage = Stage::new();
    let repository = Repository::init(&stage.project());
    let stage = stage.config("[context]\nstart_tokens = 0\nprompt_tokens = 0\n").daemon();
    repository.git(&["checkout", "-q", "-b", "feature-x"]);
    let learned = "Fixed the wrong total in `src/cart.rs`: it rounds the total once, after summing, because \
        rounding each line lost up to a cent per line.";
    stage.session("one", "Why is the total a cent too low?", &stage.discount_calls(), learned);
    stage.flush();
    // The work was never committed, so it cannot have been merged.
    repository.git(&["checkout", "-q", "main"]);
    let input = json!({"file_path": stage.project().join("src/cart.rs")});
    let opened = stage.event("two", "PreToolUse", json!({"tool_name": "Read", "tool_input": input}));
    let context = stage.hook(&opened).context();
    assert!(context.contains(NOT_MERGED), "{context}");
}

#[test]
fn notes_from_a_squashed_branch_are_marked_until_it_is_deleted() {
    let (stage, repository) = stage();
    repository.git(&["checkout", "-q", "-b", "feature-x"]);
    work_in(&stage, &stage.project(), "one");
    repository.commit("cart");
    repository.git(&["checkout", "-q", "main"]);
    repository.git(&["merge", "-q", "--squash", "feature-x"]);
    repository.git(&["commit", "-q", "-m", "squashed"]);
    assert_eq!(mark(&stage), "on branch feature-x, not merged here");
    repository.git(&["branch", "-q", "-D", "feature-x"]);
    assert_eq!(mark(&stage), Value::Null);
}

#[test]
fn notes_from_a_worktree_or_a_detached_head_are_marked_until_merged() {
    let (stage, repository) = stage();
    let tree = stage.user_home().join("tree");
    repository.git(&["worktree", "add", "-q", tree.to_str().unwrap(), "-b", "feature-x"]);
    work_in(&stage, &tree, "one");
    let beside = Repository(tree.clone());
    let commit = beside.commit("cart");
    assert!(start_context(&stage, &stage.project(), "main").contains(NOT_MERGED));
    assert!(!start_context(&stage, &tree, "tree").contains("feature-x"));
    // Detached at the commit that contains the work.
    repository.git(&["checkout", "-q", "--detach", &commit]);
    assert!(!start_context(&stage, &stage.project(), "detached").contains("feature-x"));

    let (stage, repository) = self::stage();
    repository.git(&["checkout", "-q", "--detach"]);
    let commit = repository.commit("cart");
    work_in(&stage, &stage.project(), "one");
    assert_eq!(mark(&stage), Value::Null);
    repository.git(&["checkout", "-q", "main"]);
    assert_eq!(mark(&stage), format!("at commit {}, not merged here", &commit[..10]));
    repository.git(&["merge", "-q", &commit]);
    assert_eq!(mark(&stage), Value::Null);
}

#[test]
fn notes_are_marked_with_only_their_branch_name_if_git_is_missing() {
    let stage = Stage::new();
    let nothing = stage.user_home().join("no-programs");
    std::fs::create_dir(&nothing).unwrap();
    let path = nothing.to_string_lossy().into_owned();
    let stage = stage.variable("PATH", &path);
    let repository = Repository::init(&stage.project());
    let stage = stage.daemon();
    repository.git(&["checkout", "-q", "-b", "feature-x"]);
    work_in(&stage, &stage.project(), "one");
    repository.commit("cart");
    repository.git(&["checkout", "-q", "main"]);
    repository.commit("other");
    assert_eq!(mark(&stage), "on branch feature-x");

    let stage = Stage::new().daemon();
    work_in(&stage, &stage.project(), "one");
    assert_eq!(mark(&stage), Value::Null);
    let shown = stage.json(["show", "1"]);
    assert_eq!((&shown["items"][0]["branch"], &shown["items"][0]["commit"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_note_learned_again_on_the_current_branch_is_no_longer_marked() {
    let (stage, repository) = stage();
    repository.git(&["checkout", "-q", "-b", "feature-x"]);
    work_in(&stage, &stage.project(), "one");
    repository.commit("cart");
    repository.git(&["checkout", "-q", "main"]);
    assert_eq!(mark(&stage), "on branch feature-x, not merged here");
    work_in(&stage, &stage.project(), "two");
    assert_eq!(mark(&stage), Value::Null);
}

/// recall runs git in its own repository, so git starts nothing that the settings of the project's repository name.
#[test]
fn no_program_or_hook_of_a_repository_is_run() {
    let (stage, repository) = stage();
    let touched = stage.home().join("touched");
    let evil = stage.user_home().join("evil");
    std::fs::write(&evil, format!("#!/bin/sh\ntouch '{}'\n", touched.display())).unwrap();
    std::fs::set_permissions(&evil, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    repository.git(&["checkout", "-q", "-b", "feature-x"]);
    work_in(&stage, &stage.project(), "one");
    repository.commit("cart");
    repository.git(&["checkout", "-q", "main"]);
    let evil = evil.to_str().unwrap();
    for key in ["core.fsmonitor", "core.sshCommand", "core.pager", "core.gitProxy", "alias.merge-base"] {
        repository.git(&["config", key, &format!("!{evil}")]);
        repository.git(&["config", key, evil]);
    }
    std::fs::create_dir_all(stage.project().join(".git/hooks")).unwrap();
    for hook in ["post-index-change", "reference-transaction", "post-checkout"] {
        std::fs::copy(evil, stage.project().join(".git/hooks").join(hook)).unwrap();
    }
    assert_eq!(mark(&stage), "on branch feature-x, not merged here");
    assert!(!touched.exists());
}

#[test]
fn prompts_plans_and_the_timeline_are_marked_like_observations() {
    let (stage, repository) = stage();
    repository.git(&["checkout", "-q", "-b", "feature-x"]);
    let plan = stage.user_home().join(".claude/plans/discount.md");
    let call = json!({"tool_name": "Write", "tool_use_id": "plan", "prompt_id": "there-p",
                      "tool_input": {"file_path": plan, "content": "# Discounts\n\nRound once."},
                      "tool_response": {"type": "create", "filePath": plan}});
    work_in(&stage, &stage.project(), "there");
    stage.hook(&stage.event("there", "PostToolUse", call));
    repository.commit("two");
    repository.git(&["checkout", "-q", "main"]);
    stage.flush();
    let marks = || {
        let timeline = stage.json(["timeline", "1"]);
        let items = timeline["items"].as_array().unwrap().clone();
        assert!(items.iter().any(|item| item["kind"] == "prompt"), "{timeline}");
        let mut marks: Vec<Value> = items.iter().map(|item| item["elsewhere"].clone()).collect();
        for id in ["p1", "r1", "a1", "l1"] {
            let shown = stage.json(["show", id])["items"][0].clone();
            assert_eq!(shown["branch"], "feature-x", "{shown}");
            marks.push(shown["elsewhere"].clone());
        }
        for kind in ["kind:prompt", "kind:plan"] {
            let found = stage.json(["search", "discount", kind])["results"][0].clone();
            assert_eq!(found["branch"], "feature-x", "{found}");
            marks.push(found["elsewhere"].clone());
        }
        marks
    };
    let not_merged = json!("on branch feature-x, not merged here");
    assert_eq!(marks(), vec![not_merged; marks().len()]);
    assert_eq!(stage.json(["ctl", "session", "there"])["plans"][0]["branch"], "feature-x");
    let timeline = stage.recall(["timeline", "p1"]).stdout;
    // Every line except the day has the mark.
    assert_eq!(timeline.lines().count() - 1, timeline.matches(NOT_MERGED).count(), "{timeline}");
    let shown = stage.recall(["show", "l1"]).stdout;
    assert!(shown.contains("made on branch feature-x") && shown.contains(NOT_MERGED), "{shown}");
    repository.git(&["merge", "-q", "--no-edit", "feature-x"]);
    assert!(marks().iter().all(Value::is_null), "{:?}", marks());
}

#[test]
fn the_reason_of_an_injected_note_names_the_file_that_the_branch_changes() {
    let (stage, repository) = stage();
    for (text, file) in
        [("The cart cannot be emptied twice.", "src/cart.rs"), ("The door jams.", "src/door.rs")]
    {
        let args = ["remember", text, "--type", "gotcha", "--file", file, "--importance", "5"];
        assert_eq!(stage.recall(args).code(), 0);
    }
    let reason = |session: &str, title: &str| {
        start_context(&stage, &stage.project(), session);
        stage.flush();
        let given = stage.json(["ctl", "session", session])["injections"][0]["items"].clone();
        let given = given.as_array().unwrap().clone();
        let item = given.into_iter().find(|item| item["title"].as_str().unwrap().contains(title));
        item.unwrap()["reason"].as_str().unwrap().to_owned()
    };
    work_in(&stage, &stage.project(), "on-main");
    assert!(!reason("main", "cannot be emptied").contains("branch changes"), "main is nobody's work");
    repository.git(&["checkout", "-q", "-b", "feature-x"]);
    work_in(&stage, &stage.project(), "one");
    let about = ", about src/cart.rs, which this branch changes";
    assert!(reason("start", "cannot be emptied").ends_with(about));
    assert!(!reason("again", "door jams").contains("branch changes"));
}
