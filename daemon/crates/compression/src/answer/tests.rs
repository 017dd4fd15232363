use super::*;
use proptest::prelude::*;
use recall_domain::earlier::Earlier;
use recall_domain::ids::Timestamp;
use recall_domain::material::{CallOutcome, EditHunk, SourcedText, Step};
use serde_json::json;

fn event(number: u8) -> EventId {
    EventId([number; 16])
}

fn step(number: u8, action: Action) -> Step {
    Step {
        event: event(number),
        at: Timestamp(0),
        tool: "Tool".to_owned(),
        outcome: CallOutcome::Done,
        subagent: None,
        action,
    }
}

fn batch() -> BatchMaterial {
    let edit = Action::Edit {
        path: "/home/dev/shop/src/cart.rs".to_owned(),
        changes: vec![EditHunk { before: String::new(), after: String::new() }],
    };
    BatchMaterial {
        prompt: Some(SourcedText { event: event(1), text: "Why?".to_owned() }),
        response: Some(SourcedText { event: event(2), text: "So.".to_owned() }),
        steps: vec![
            step(3, Action::Read { path: "/home/dev/shop/src/line.rs".to_owned() }),
            step(4, edit),
            step(5, Action::Read { path: "/etc/hosts".to_owned() }),
        ],
        root: Some("/home/dev/shop".to_owned()),
        ..BatchMaterial::default()
    }
}

fn one(fields: Value) -> Value {
    let mut observation = json!({"type": "bugfix", "title": "Round once", "subtitle": "", "narrative": "It was per line.",
        "facts": ["a"], "concepts": ["rounding"], "files_read": [], "files_modified": [], "importance": 6, "evidence": [2]});
    for (key, value) in fields.as_object().into_iter().flatten() {
        observation[key] = value.clone();
    }
    json!({"observations": [observation]})
}

#[track_caller]
fn good(answer: &str) -> ObservationDraft {
    let mut drafts = observations(answer, &batch()).unwrap();
    assert_eq!(drafts.len(), 1, "{drafts:?}");
    drafts.remove(0)
}

#[test]
fn the_rules_of_wording_are_applied_to_titles() {
    let with_title = |title: &str| good(&one(json!({"title": title})).to_string());
    assert_eq!(with_title("Plan: **Round** once…").title, "Round once");
    let long = with_title(
        "The cart rounds its total once after all lines are summed, because every line lost up to a cent of its own before",
    );
    assert_eq!(long.title, "The cart rounds its total once after all lines are summed");
    assert_eq!(long.narrative, "because every line lost up to a cent of its own before. It was per line.");
    assert_eq!(
        observations(&one(json!({"title": "All 98 tests pass"})).to_string(), &batch()),
        Ok(Vec::new())
    );
}

#[test]
fn a_bugfix_that_does_not_say_what_was_wrong_becomes_a_change() {
    let fields = |narrative: &str| json!({"type": "bugfix", "narrative": narrative});
    assert_eq!(good(&one(fields("The total is rounded once.")).to_string()).kind, ObservationType::Change);
    assert_eq!(good(&one(fields("The total was wrong per line.")).to_string()).kind, ObservationType::Bugfix);
}

#[test]
fn statements_in_completed_are_removed_from_learned() {
    let answer = json!({"title": "Round the cart once", "completed": "Totals are rounded once.",
        "learned": "Totals are rounded once. Each line lost a cent."});
    let draft = summary(&answer.to_string()).unwrap().unwrap();
    assert_eq!(draft.learned, "Each line lost a cent.");
}

#[track_caller]
fn bad(answer: &str, expected: &str) {
    let UnusableAnswer(problem) = observations(answer, &batch()).unwrap_err();
    assert!(problem.contains(expected), "{problem}");
}

#[test]
fn json_is_found_between_other_text() {
    let object = one(json!({})).to_string();
    for answer in [
        object.clone(),
        format!("Sure! Here you go:\n```json\n{object}\n```\nAnything else?"),
        format!("I thought {{about it}} and {{\"so\": 1}}: {object} {{\"observations\": 7}}"),
        format!("\u{feff}{object}"),
    ] {
        assert_eq!(good(&answer).title, "Round once", "{answer}");
    }
}

#[test]
fn an_answer_in_element_form_is_parsed() {
    let answer = "<observations><observation><type>gotcha</type><title>A &lt;b&gt; is kept</title>\
        <narrative>So it is.</narrative><facts><fact>one</fact><fact>two</fact></facts>\
        <files_modified><file>src/cart.rs</file></files_modified><importance>8</importance></observation></observations>";
    let draft = good(answer);
    assert_eq!((draft.kind, draft.title.as_str()), (ObservationType::Gotcha, "A <b> is kept"));
    assert_eq!((draft.facts.len(), draft.importance.get()), (2, 8));
    assert_eq!(draft.files_modified, ["src/cart.rs"]);
}

#[test]
fn an_answer_without_observations_is_accepted() {
    for answer in ["{\"observations\": []}", "<observations></observations>", "None. {\"observations\":[]}"] {
        assert_eq!(observations(answer, &batch()), Ok(Vec::new()), "{answer}");
    }
}

#[test]
fn files_and_evidence_come_from_the_batch() {
    let fields = json!({
        "files_modified": ["src/cart.rs", "src/invented.rs", "/etc/passwd", "../x"],
        "files_read": ["line.rs", "./src/line.rs", "src/cart.rs", "/etc/hosts", ""],
        "evidence": [1, 99, -4, 0, 1],
    });
    let draft = good(&one(fields).to_string());
    assert_eq!(draft.files_modified, ["src/cart.rs"]);
    assert_eq!(draft.files_read, ["src/line.rs"]);
    // The evidence is the prompt, the named step, and the change of the named file.
    assert_eq!(draft.evidence, [event(1), event(2), event(3), event(4)]);
}

#[test]
fn a_note_replaces_an_earlier_one_only_if_it_names_its_subject_and_file() {
    let earlier = |title: &str| Earlier {
        subject: subject::of_title(ObservationType::Discovery, title).unwrap(),
        title: title.to_owned(),
        files: vec!["src/cart.rs".to_owned()],
    };
    let batch = BatchMaterial {
        earlier: vec![earlier("`max_lines` is 30"), earlier("`max_items` is 99")],
        ..batch()
    };
    let subject = |replaces: Value, title: &str, file: &str| {
        let fields = json!({"title": title, "files_modified": [file], "replaces": replaces});
        observations(&one(fields).to_string(), &batch).unwrap().remove(0).subject
    };
    let (new, file) = ("A cart may hold more: `max_items` went up to 200", "src/cart.rs");
    let value = Some(batch.earlier[1].subject.clone());
    assert_eq!(subject(json!("k2"), new, file), value);
    // These are refused: a note that the text does not name, handles that were not shown, and values that are not
    // handles.
    for refused in [json!("k1"), json!("k3"), json!("k0"), json!("none"), json!("#2"), json!(""), Value::Null]
    {
        assert_eq!(subject(refused.clone(), new, file), None, "{refused}");
    }
    assert_eq!(subject(json!("k2"), new, "src/line.rs"), None);
    assert_eq!(subject(json!("k2"), "A cart may hold more now", file), None);
    // A title in the plain form needs no other evidence.
    let plain = subject(json!("k1"), "`max_items` is 200", file);
    assert_eq!(plain, value);
}

#[test]
fn invalid_observations_are_rejected_with_a_reason() {
    bad("I cannot help with that.", "no JSON object");
    bad("{\"observations\": [{\"type\": \"bug", "no JSON object");
    bad("{\"observations\": \"none\"}", "`observations` is wrong");
    bad(&one(json!({"type": "thought"})).to_string(), "observation 1: type \"thought\" is none of");
    bad(&one(json!({"title": " "})).to_string(), "must not be empty");
    bad(&one(json!({"narrative": ""})).to_string(), "must not be empty");
    bad(&one(json!({"title": "x".repeat(241)})).to_string(), "`title` has 241 characters");
    bad(&one(json!({"title": "Should totals be rounded?"})).to_string(), "no statement");
    bad(&one(json!({"narrative": "x".repeat(4_001)})).to_string(), "`narrative` has 4001");
    bad(&one(json!({"facts": ["x".repeat(601)]})).to_string(), "`facts` has 601");
    let many = vec![one(json!({}))["observations"][0].clone(); 9];
    bad(&json!({"observations": many}).to_string(), "there are 9 observations");
}

#[test]
fn small_mistakes_in_an_answer_are_corrected() {
    let draft = good(
        &one(json!({"importance": 99, "title": " Round\n once ", "extra": {"run": "rm -rf"}})).to_string(),
    );
    assert_eq!((draft.importance.get(), draft.title.as_str()), (10, "Round once"));
    let draft = good(&one(json!({"importance": null, "subtitle": null})).to_string());
    assert_eq!((draft.importance.get(), draft.subtitle), (5, None));
}

#[test]
fn summaries_are_read_and_may_be_empty() {
    let answer = "```json\n{\"title\": \"Cart\", \"request\": \"Why?\", \"next_steps\": [\"a\", \"b\"]}\n```";
    let draft = summary(answer).unwrap().unwrap();
    assert_eq!((draft.title.as_str(), draft.next_steps.as_str(), draft.notes.as_str()), ("Cart", "a; b", ""));
    assert_eq!(summary("{\"title\": \"\"}"), Ok(None));
    assert!(summary("{\"title\": \"\", \"learned\": \"x\"}").is_err());
    assert!(summary("{\"title\": 7}").is_err());
    assert!(summary("no").is_err());
    let elements = "<summary><title>Cart</title><learned>Round once.</learned></summary>";
    assert_eq!(summary(elements).unwrap().unwrap().learned, "Round once.");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// No answer leads to a panic, and accepted values are within their bounds.
    #[test]
    fn hostile_answers_do_not_panic_or_yield_too_many_observations(answer in "(\\PC|[{}\\[\\]\",:<>/]|observations|title|type|null|-1e999){0,60}") {
        let _ = summary(&answer);
        if let Ok(drafts) = observations(&answer, &batch()) {
            prop_assert!(drafts.len() <= MOST_OBSERVATIONS);
        }
    }
}
