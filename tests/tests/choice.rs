//! Tests that the observations of a session are chosen over the whole session: at its end, after a crash, and when
//! work arrives late.

use recall_tests::Stage;
use serde_json::{Value, json};

const ANSWERS: [&str; 3] = [
    "The cart rounds its total once, because rounding each line in `Cart::total` lost cents.",
    "`login.rs` keeps the session token in a cookie, so that a reload does not sign anybody out.",
    "The search index is rebuilt when `schema.rs` changes, because old segments cannot be read.",
];

fn turn(stage: &Stage, session: &str, nth: usize, calls: &[Value]) {
    let prompt_id = format!("{session}-p{nth}");
    let event = |name: &str, mut fields: Value| {
        fields["prompt_id"] = json!(prompt_id);
        stage.hook(&stage.event(session, name, fields));
    };
    event("UserPromptSubmit", json!({"prompt": format!("Look at part {nth} of the shop")}));
    for call in calls {
        event("PostToolUse", call.clone());
    }
    event("Stop", json!({"last_assistant_message": ANSWERS[nth]}));
}

fn end(stage: &Stage, session: &str) {
    stage.hook(&stage.event(session, "SessionEnd", json!({"reason": "other"})));
}

/// Returns the numbers and titles of a session's observations.
fn observations(stage: &Stage, session: &str) -> Vec<(i64, String)> {
    let shown = stage.json(["ctl", "session", session]);
    let observations = shown["observations"].as_array().unwrap().iter();
    let mut titles: Vec<_> = observations
        .map(|one| (one["id"].as_i64().unwrap(), one["title"].as_str().unwrap().to_owned()))
        .collect();
    titles.sort_unstable();
    titles
}

/// The value of `chosen_among` when the session has ended.
const WHOLE: i64 = i32::MAX as i64;

/// Returns for each batch among how many batches its observations were chosen.
fn chosen_among(stage: &Stage, session: &str) -> Vec<Option<i64>> {
    let database = rusqlite::Connection::open(stage.database()).unwrap();
    let mut rows = database
        .prepare(
            "SELECT b.chosen_among FROM prompt_batches b JOIN sessions s ON s.id = b.session
             WHERE s.session_id = ?1 ORDER BY b.prompt_number",
        )
        .unwrap();
    let rows = rows.query_map([session], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn observations_are_chosen_over_the_whole_session_and_keep_their_ids() {
    let mut stage = Stage::new().daemon();
    let calls = stage.discount_calls();
    for nth in 0..3 {
        turn(&stage, "one", nth, &calls[nth..=nth]);
        stage.flush();
        assert_eq!(chosen_among(&stage, "one"), vec![Some(nth as i64 + 1); nth + 1]);
    }
    let before = observations(&stage, "one");
    assert!(!before.is_empty(), "{before:?}");
    end(&stage, "one");
    stage.flush();
    assert_eq!(observations(&stage, "one"), before);

    // If something arrives late, its batch is made again, and its observations are chosen among all batches again.
    let mut late = stage.delivery(&stage.event(
        "one",
        "PostToolUse",
        json!({"tool_name": "Bash", "tool_use_id": "late", "prompt_id": "one-p0",
               "tool_input": {"command": "cargo test cart"}, "tool_response": {"stdout": "ok", "stderr": ""}}),
    ));
    late.captured_at_ms -= 1;
    stage.deliver([&late]);
    stage.flush();
    assert_eq!(chosen_among(&stage, "one"), [Some(WHOLE); 3]);
    assert_eq!(observations(&stage, "one"), before);

    // A daemon that dies before the choice makes it after the restart.
    for nth in 0..3 {
        turn(&stage, "two", nth, &[]);
    }
    end(&stage, "two");
    stage.kill_daemon();
    stage.start_daemon();
    stage.flush();
    assert_eq!(chosen_among(&stage, "two"), [Some(WHOLE); 3]);
    let titles =
        |session| observations(&stage, session).into_iter().map(|(_, title)| title).collect::<Vec<_>>();
    assert_eq!(titles("two").len(), titles("two").iter().collect::<std::collections::BTreeSet<_>>().len());
}

#[test]
fn an_answer_without_content_is_left_out_of_summary_and_observations() {
    let stage = Stage::new().daemon();
    let event = |name: &str, mut fields: Value| {
        fields["prompt_id"] = json!("quiet-p0");
        stage.hook(&stage.event("quiet", name, fields));
    };
    event("UserPromptSubmit", json!({"prompt": "Look at the cart of the shop"}));
    event("Stop", json!({"last_assistant_message": "No response requested."}));
    let failed = r#"API Error: 401 {"type":"error"} · OAuth token has expired. Please obtain a new token"#;
    event("UserPromptSubmit", json!({"prompt": "Sum the cart in cents", "prompt_id": "quiet-p1"}));
    event("Stop", json!({"last_assistant_message": failed, "prompt_id": "quiet-p1"}));
    end(&stage, "quiet");
    stage.flush();
    let shown = stage.json(["ctl", "session", "quiet"]);
    let made = format!("{} {} {}", shown["title"], shown["summary"], shown["observations"]);
    assert!(made.contains("Look at the cart"), "{made}");
    assert!(!made.contains("No response requested") && !made.contains("Unanswered"), "{made}");
    assert!(!made.contains("OAuth token"), "{made}");
}
