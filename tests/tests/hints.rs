//! Tests the user's own texts that are added to prompts, and the ambient line.

use recall_tests::Stage;
use recall_tests::repository::Repository;
use serde_json::json;

const HINTS: &str = "[[hint]]\npattern = 'tdd'\ntext = 'Write a failing test first.'\n\
                     [[hint]]\npattern = 'deep ?search'\ntext = 'Search the memory, then the code.'\n";

fn prompt(stage: &Stage, text: &str) -> String {
    stage.hook(&stage.event("s", "UserPromptSubmit", json!({"prompt": text}))).context()
}

#[test]
fn a_prompt_that_matches_a_hint_gets_its_text_each_time() {
    let stage = Stage::new().config(HINTS).daemon();
    stage.hook(&stage.event("s", "SessionStart", json!({"source": "startup"})));
    let context = prompt(&stage, "Add the discount, TDD please");
    assert_eq!(context, "The user's hint for `tdd`: Write a failing test first.");
    assert_eq!(prompt(&stage, "and the stddev"), "");
    let both = prompt(&stage, "deepsearch for it, with tdd");
    assert!(both.contains("first.\nThe user's hint for `deep ?search`: Search the memory"), "{both}");
    let shown = stage.recall(["context", "--prompt", "use tdd"]);
    assert!(shown.stdout.contains("Write a failing test first."), "{shown:?}");
    assert!(!shown.stdout.contains("No relevant notes"), "{shown:?}");
}

#[test]
fn hints_come_after_the_notes_and_share_their_budget() {
    let stage = Stage::new().config(HINTS).daemon();
    stage.discount_session("first");
    stage.flush();
    let context =
        prompt(&stage, "tdd: why does the cart total round once, after summing the discount lines?");
    let notes = context.strip_suffix("The user's hint for `tdd`: Write a failing test first.");
    assert!(notes.is_some_and(|notes| notes.contains("round")), "{context}");
    let stage = Stage::new().config(&format!("[context]\nprompt_tokens = 5\n{HINTS}")).daemon();
    assert_eq!(prompt(&stage, "tdd"), "", "it does not fit");
}

#[test]
fn an_invalid_hint_is_reported_and_the_others_work() {
    let stage = Stage::new().config(&format!("{HINTS}[[hint]]\npattern = '('\ntext = 'x'\n")).daemon();
    assert!(prompt(&stage, "tdd").contains("failing test"));
    let output = stage.recall(["config", "list"]);
    assert!(output.stdout.contains("hint.pattern: `(` is not a valid pattern"), "{output:?}");
    let output = stage.recall(["config", "get", "hint.pattern"]);
    assert!(output.stderr.contains("[[hint]] is a list of texts, not a key"), "{output:?}");
}

#[test]
fn the_ambient_line_is_injected_only_if_configured() {
    for (config, expected) in [("", false), ("[context]\nambient = true\n", true)] {
        let stage = Stage::new().config(config).daemon();
        Repository::init(&stage.project()).git(&["checkout", "-q", "-b", "discount"]);
        let context = stage.hook(&stage.event("s", "SessionStart", json!({"source": "startup"}))).context();
        assert_eq!(context.contains("Today is 20"), expected, "{context}");
        assert_eq!(context.contains("Project: `shop`, branch `discount`."), expected, "{context}");
    }
}
