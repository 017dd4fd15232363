//! Tests that `recall demo` plays a recorded session and shows what the next session is given.

use recall_tests::Stage;

#[test]
fn the_demo_shows_its_context_and_leaves_the_users_memory_alone() {
    let stage = Stage::new();
    let said = stage.recall(["demo"]);
    assert_eq!(said.code(), 0, "{said:?}");
    for expected in [
        "Context restored after compaction",
        "<recall-context>",
        "recall search rounding",
        "Done. Run `recall install`",
    ] {
        assert!(said.stdout.contains(expected), "no {expected:?} in {}", said.stdout);
    }
    assert!(said.stdout.contains("Asked: Add a percentage discount"), "{}", said.stdout);
    let (_, prompted) = said.stdout.split_once("Context for the prompt ").expect(&said.stdout);
    assert!(prompted.contains("Rounding happens once, after summing, so cents are right"), "{prompted}");
    assert!(!stage.home().exists(), "the user's own memory is not touched");

    std::fs::create_dir_all(stage.user_home().join(".claude")).unwrap();
    let install = ["install", "--agent", "claude-code", "--yes", "--no-service"];
    assert_eq!(stage.recall(install).code(), 0);
    let said = stage.recall(["demo"]);
    assert!(
        said.stdout.ends_with("Your next session of Claude Code will be remembered like this one.\n"),
        "{said:?}"
    );
    assert_eq!(stage.recall(["sessions"]).stdout, "No sessions yet. Start one in this folder.\n");
}

#[test]
fn the_demo_prints_its_context_as_json() {
    let stage = Stage::new();
    let told = stage.json(["demo"]);
    let context = told["context"].as_str().unwrap();
    let compacted = told["compacted"].as_str().unwrap();
    for part in ["This session", "Add a percentage discount to the cart total"] {
        assert!(compacted.contains(part), "no {part:?} in {compacted}");
    }
    let observations = told["session"]["observations"].as_array().unwrap();
    assert!(!observations.is_empty(), "{told}");
    // The only observation is the title of the session, which the start contains once.
    let title = told["session"]["summary"]["title"].as_str().unwrap();
    assert_eq!(context.matches(title).count(), 1, "{context}");
    assert!(told["notice"].as_str().unwrap().starts_with("recall: gave"), "{told}");
    assert!(told["prompted"].as_str().unwrap().starts_with("<recall-context>"), "{told}");
}
