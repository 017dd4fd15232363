//! Tests that `recall demo` plays a recorded session and shows what the next session is given.

use recall_tests::Stage;

#[test]
fn the_demo_shows_its_context_and_leaves_the_users_memory_alone() {
    let stage = Stage::new();
    let output = stage.recall(["demo"]);
    assert_eq!(output.code(), 0, "{output:?}");
    for expected in [
        "Context restored after compaction",
        "<recall-context>",
        "recall search rounding",
        "Done. Run `recall install`",
    ] {
        assert!(output.stdout.contains(expected), "no {expected:?} in {}", output.stdout);
    }
    assert!(output.stdout.contains("Asked: Add a percentage discount"), "{}", output.stdout);
    let (_, prompted) = output.stdout.split_once("Context for the prompt ").expect(&output.stdout);
    assert!(prompted.contains("Rounding happens once, after summing, so cents are right"), "{prompted}");
    assert!(!stage.home().exists(), "the user's own memory is not touched");

    std::fs::create_dir_all(stage.user_home().join(".claude")).unwrap();
    let install = ["install", "--agent", "claude-code", "--yes", "--no-service"];
    assert_eq!(stage.recall(install).code(), 0);
    let output = stage.recall(["demo"]);
    assert!(
        output.stdout.ends_with("Your next session of Claude Code will be remembered like this one.\n"),
        "{output:?}"
    );
    assert_eq!(stage.recall(["sessions"]).stdout, "No sessions yet. Start one in this folder.\n");
}

#[test]
fn the_demo_prints_its_context_as_json() {
    let stage = Stage::new();
    let demo = stage.json(["demo"]);
    let context = demo["context"].as_str().unwrap();
    let compacted = demo["compacted"].as_str().unwrap();
    for part in ["This session", "Add a percentage discount to the cart total"] {
        assert!(compacted.contains(part), "no {part:?} in {compacted}");
    }
    let observations = demo["session"]["observations"].as_array().unwrap();
    assert!(!observations.is_empty(), "{demo}");
    // The only observation is the title of the session, which the start contains once.
    let title = demo["session"]["summary"]["title"].as_str().unwrap();
    assert_eq!(context.matches(title).count(), 1, "{context}");
    assert!(demo["notice"].as_str().unwrap().starts_with("recall: gave"), "{demo}");
    assert!(demo["prompted"].as_str().unwrap().starts_with("<recall-context>"), "{demo}");
}
