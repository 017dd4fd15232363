//! Tests that the agent's own name for a session comes before any name that recall makes.

use recall_tests::{DISCOUNT_ANSWER, DISCOUNT_PROMPT, Stage};
use serde_json::{Value, json};

/// Plays a whole turn. `title` is the agent's name for the session.
fn turn(stage: &Stage, prompt_id: &str, title: Option<&str>) {
    let mut prompt = json!({"prompt": DISCOUNT_PROMPT, "prompt_id": prompt_id});
    if let Some(title) = title {
        prompt["session_title"] = json!(title);
    }
    stage.hook(&stage.event("named", "UserPromptSubmit", prompt));
    for (number, mut call) in stage.discount_calls().into_iter().enumerate() {
        call["tool_use_id"] = json!(format!("{prompt_id}-{number}"));
        call["prompt_id"] = json!(prompt_id);
        stage.hook(&stage.event("named", "PostToolUse", call));
    }
    let answer = json!({"last_assistant_message": DISCOUNT_ANSWER, "prompt_id": prompt_id});
    stage.hook(&stage.event("named", "Stop", answer));
    stage.flush();
}

/// Returns the titles of the session in the list, in the session itself and in its summary.
fn titles(stage: &Stage) -> [Value; 3] {
    let list = stage.json(["ctl", "sessions"]);
    let mut sessions = list["sessions"].as_array().unwrap().iter();
    let line = sessions.find(|session| session["session_id"] == "named").unwrap();
    let session = stage.json(["ctl", "session", "named"]);
    [line["title"].clone(), session["title"].clone(), session["summary"]["title"].clone()]
}

fn context(stage: &Stage, session: &str) -> String {
    stage.hook(&stage.event(session, "SessionStart", json!({"source": "startup"}))).context()
}

#[test]
fn a_session_title_by_the_agent_takes_precedence_over_one_by_recall() {
    let mut stage = Stage::new().daemon();
    turn(&stage, "p1", None);
    let made = titles(&stage);
    assert!(made[0].is_string() && made.iter().all(|title| *title == made[0]), "{made:?}");

    // A rename comes with the next prompt. It counts before that prompt is answered.
    let prompt = json!({"prompt": "And now?", "prompt_id": "p2", "session_title": "shop-discount"});
    stage.hook(&stage.event("named", "UserPromptSubmit", prompt));
    assert_eq!(titles(&stage), ["shop-discount"; 3].map(Value::from));
    let context_then = context(&stage, "next");
    assert!(
        context_then.contains("## Last session") && context_then.contains(": shop-discount\n"),
        "{context_then}"
    );

    // Later summaries keep it, and so does a restarted daemon. Another rename replaces it.
    turn(&stage, "p3", None);
    assert_eq!(titles(&stage), ["shop-discount"; 3].map(Value::from));
    stage.kill_daemon();
    stage.start_daemon();
    turn(&stage, "p4", Some("Cart\n  rounding"));
    assert_eq!(titles(&stage), ["Cart rounding"; 3].map(Value::from));
    assert!(context(&stage, "another").contains(": Cart rounding\n"));
    let listed = stage.recall(["ctl", "sessions"]).stdout;
    assert!(listed.contains("Cart rounding"), "{listed}");
    let found = stage.json(["search", "kind:summary rounding"]);
    assert!(found["results"].to_string().contains("Cart rounding"), "{found}");
}

#[test]
fn the_latest_title_applies_in_any_order_of_arrival_and_is_redacted() {
    let stage = Stage::new().daemon();
    let named = |prompt_id: &str, title: &str| {
        let prompt = json!({"prompt": "Go on", "prompt_id": prompt_id, "session_title": title});
        stage.delivery(&stage.event("named", "UserPromptSubmit", prompt))
    };
    let (earlier, later) = (named("p1", "earlier"), named("p2", "later, DB_PASSWORD=swordfish"));
    stage.deliver([&later, &earlier]);
    stage.flush();
    let [title, ..] = titles(&stage);
    assert_eq!(title, "later, DB_PASSWORD=[redacted:password]");
}

#[test]
fn a_summary_without_a_title_gets_one_from_its_text() {
    let stage = Stage::new().daemon();
    stage.session("plain", "Theme palette", &[], "Palette theme palette.");
    stage.hook(&stage.event("open", "UserPromptSubmit", json!({"prompt": "Palette", "prompt_id": "p"})));
    stage.flush();
    let found = stage.json(["search", "palette kind:summary"]);
    let mut titles = found["results"].as_array().unwrap().iter().map(|found| &found["title"]);
    assert!(titles.any(|title| title == "Palette theme palette."), "{found}");
    assert!(titles.all(|title| title != ""), "{found}");
    let compacted = stage.hook(&stage.event("open", "SessionStart", json!({"source": "compact"}))).context();
    assert!(compacted.contains("1 prompt\n"), "{compacted}");
}
