//! Tests `recall improve`: a model rewrites notes of the built-in compressor.

use std::time::{Duration, Instant};

use recall_tests::provider::{Asked, Behaviour, NOTES, Provider, TOKENS_IN, TOKENS_OUT, is_notes, well};
use recall_tests::{CommandOutput, Stage};
use serde_json::{Value, json};

use super::turns::{observations, origins, turn};

/// Plays sessions that end while no model is configured, the oldest first. Then configures a model.
fn played(sessions: &[&str], provider: &Provider, more: &str) -> Stage {
    let stage = Stage::new().daemon();
    for session in sessions {
        turn(&stage, session);
        end(&stage, session);
        // Each job is done before the next session begins, so that the order is certain.
        stage.flush();
    }
    configure(&stage, provider, more);
    stage
}

fn end(stage: &Stage, session: &str) {
    stage.hook(&stage.event(session, "SessionEnd", json!({"reason": "prompt_input_exit"})));
}

fn configure(stage: &Stage, provider: &Provider, more: &str) {
    let config = provider.config_of("openai", &format!("concurrency = 1\n{more}"));
    std::fs::write(stage.home().join("config.toml"), config).unwrap();
    stage.flush();
}

fn improve(stage: &Stage, arguments: &[&str]) -> CommandOutput {
    stage.recall(["improve"].iter().chain(arguments).copied())
}

/// Returns the sessions that the model was asked about, in this order.
fn asked_about(provider: &Provider) -> Vec<String> {
    let asked = provider.asked();
    let session = |asked: &Asked| {
        assert!(is_notes(asked));
        let text = asked.text();
        ["s1", "s2", "s3", "s4"].iter().find(|id| text.contains(&format!("({id})"))).unwrap().to_string()
    };
    asked.iter().map(session).collect()
}

fn is_noted(stage: &Stage, session: &str) -> bool {
    let origins = origins(stage, session);
    !origins.is_empty() && origins.iter().all(|origin| origin == "openai:mock")
}

#[test]
fn improve_rewrites_the_notes_of_each_session_once_and_the_newest_first() {
    let provider = Provider::start(own_notes);
    let stage = played(&["s1", "s2", "s3"], &provider, "usd_per_mtok_in = 1.0\nusd_per_mtok_out = 2.0");
    assert_eq!(provider.asked().len(), 0, "nothing is asked by itself");

    let plan = improve(&stage, &["--dry-run", "--json", "--limit", "2"]).json();
    let ids: Vec<&str> =
        plan["sessions"].as_array().unwrap().iter().map(|it| it["session_id"].as_str().unwrap()).collect();
    assert_eq!(
        (ids.as_slice(), &plan["more"], &plan["calls"]),
        (["s3", "s2"].as_slice(), &json!(1), &json!(2))
    );
    let (tokens, usd) = (plan["tokens"].as_u64().unwrap(), plan["usd"].as_f64().unwrap());
    assert!(tokens > 2_000 && tokens < 10_000 && usd > tokens as f64 / 1e6, "{plan}");
    let shown = improve(&stage, &["--dry-run", "--limit", "2"]);
    assert!(
        shown.stdout.contains("openai:mock would be asked about 2 sessions: 2 calls, about "),
        "{shown:?}"
    );
    assert!(shown.stdout.contains("1 older session is left for another run"), "{shown:?}");
    assert!(shown.stdout.contains("No cap is set"), "{shown:?}");
    // The command refuses, because it could not ask for consent.
    let refused = improve(&stage, &["--limit", "2"]);
    assert!(refused.code() == 2 && refused.stderr.contains("--yes"), "{refused:?}");
    assert_eq!(provider.asked().len(), 0);

    let output = improve(&stage, &["--yes", "--limit", "2"]);
    assert!(
        output.code() == 0 && output.stdout.contains("The notes of 2 sessions were rewritten."),
        "{output:?}"
    );
    assert_eq!(asked_about(&provider), ["s3", "s2"]);
    assert!(is_noted(&stage, "s2") && is_noted(&stage, "s3") && !is_noted(&stage, "s1"));
    let next_steps = stage.json(["ctl", "session", "s3"])["summary"]["next_steps"].clone();
    assert_eq!(next_steps, "Ask a real one.");

    let output = improve(&stage, &["--yes"]);
    assert!(output.stdout.contains("The notes of 1 session were rewritten."), "{output:?}");
    let output = improve(&stage, &["--yes"]);
    assert!(output.code() == 0 && output.stdout.contains("there is nothing to improve"), "{output:?}");
    assert_eq!(asked_about(&provider), ["s3", "s2", "s1"]);
}

/// Returns notes that name their session, so that those of two sessions are not the same statement.
fn own_notes(asked: &Asked, _: u64) -> Behaviour {
    let text = asked.text();
    let session = ["s1", "s2", "s3", "s4"].into_iter().find(|id| text.contains(&format!("({id})")));
    let title = format!("The mock provider was asked about {}", session.unwrap_or("a session"));
    Behaviour::Answers(NOTES.replace("The mock provider was asked about a session", &title))
}

#[test]
fn improve_without_a_model_names_the_missing_setting() {
    let stage = Stage::new().daemon();
    let output = improve(&stage, &["--yes"]);
    assert_eq!(output.code(), 2, "{output:?}");
    assert!(output.stderr.contains("No model is configured"), "{output:?}");
    assert!(output.stderr.contains("recall config set compression.backend"), "{output:?}");
}

#[test]
fn notes_edited_pinned_or_resolved_by_a_person_are_kept() {
    let provider = Provider::start(own_notes);
    let stage = Stage::new().daemon();
    for (session, prompt, answer) in [
        (
            "s1",
            "How are invoices printed?",
            "Decision: invoices are printed as PDF, because the archive takes nothing else.",
        ),
        (
            "s2",
            "Which queue do mails take?",
            "Decision: mails go through the night queue, because the provider blocks bursts.",
        ),
        (
            "s3",
            "Where is the stock kept?",
            "Decision: the stock is kept in `stock.db`, because the till works without a network.",
        ),
    ] {
        stage.session(session, prompt, &[], answer);
        end(&stage, session);
        stage.flush();
    }
    let first = |session: &str| observations(&stage, session)[0].clone();
    let [edited, pinned, resolved] = ["s1", "s2", "s3"].map(first);
    let id = |of: &Value| of["id"].to_string();
    let by_hand =
        stage.recall(["edit", &id(&edited), "--title", "Totals are rounded by Priya", "--text", "By hand."]);
    assert_eq!(by_hand.code(), 0, "{by_hand:?}");
    for arguments in [["pin", &id(&pinned)], ["resolve", &id(&resolved)]] {
        let output = stage.recall(arguments);
        assert_eq!(output.code(), 0, "{output:?}");
    }
    // The model gives its note the title of the pinned one, with another text.
    let title = pinned["title"].as_str().unwrap().to_owned();
    let model_answer = json!({"observations": [{"turn": 1, "type": pinned["type"], "title": title,
        "narrative": "The model's own words.", "importance": 6}],
        "summary": {"title": "T", "request": "R", "learned": "", "completed": "", "next_steps": ""}});
    provider.change(move |_, _| Behaviour::Answers(model_answer.to_string()));
    configure(&stage, &provider, "");
    let output = improve(&stage, &["--yes"]);
    assert!(output.stdout.contains("The notes of 3 sessions were rewritten."), "{output:?}");

    let now = |of: &Value| stage.json(["show", &id(of)])["items"][0].clone();
    let [edited, now_pinned, now_resolved] = [now(&edited), now(&pinned), now(&resolved)];
    assert_eq!(
        (edited["title"].as_str(), edited["status"].as_str()),
        (Some("Totals are rounded by Priya"), Some("active"))
    );
    assert_eq!(now_pinned["narrative"], pinned["narrative"], "{now_pinned}");
    assert_eq!((&now_pinned["title"], &now_pinned["origin"]), (&pinned["title"], &json!("extractive")));
    assert_eq!(now_resolved["status"], "resolved", "{now_resolved}");
}

#[test]
fn sessions_beyond_the_cap_wait_and_are_queued_only_once() {
    let provider = Provider::start(own_notes);
    // A call reserves about 7,000 tokens and costs 350.
    const CAP: u64 = 7_800;
    let stage = played(&["s1", "s2", "s3", "s4"], &provider, &format!("tokens_per_day = {CAP}"));
    let output = improve(&stage, &["--yes"]);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(output.stdout.contains("7,800 of 7,800 tokens a day are left today."), "{output:?}");
    let done = provider.asked().len();
    assert!(done > 0 && done < 4, "{output:?}");
    let waits = format!("{} session", 4 - done);
    assert!(output.stdout.contains(&waits) && output.stdout.contains("tokens_per_day"), "{output:?}");
    let spent = stage.json(["ctl", "status"])["compression"]["tokens_today"].as_u64().unwrap();
    assert!(spent <= CAP && spent == done as u64 * (TOKENS_IN + TOKENS_OUT), "{spent}");

    let again = improve(&stage, &["--yes"]);
    assert!(again.code() == 0 && again.stdout.contains("for openai:mock already."), "{again:?}");
    assert_eq!(provider.asked().len(), done);
    let queued = stage.json(["ctl", "jobs", "--limit", "100"]);
    let notes = queued["jobs"].as_array().unwrap().iter().filter(|job| job["kind"] == "notes").count();
    assert_eq!(notes, 4, "{queued}");
    // When there is room again, the model is asked about them, each once.
    configure(&stage, &provider, "");
    improve(&stage, &["--yes"]);
    assert_eq!(provider.asked().len(), 4);
    assert!(["s1", "s2", "s3", "s4"].iter().all(|session| is_noted(&stage, session)));
}

#[test]
fn after_a_kill_improve_repeats_only_the_call_under_way() {
    let provider = Provider::start(|asked, number| match number {
        0 => own_notes(asked, number),
        _ => Behaviour::Held,
    });
    let mut stage = played(&["s1", "s2", "s3"], &provider, "");
    let mut watching = stage.command("recall");
    watching
        .args(["improve", "--yes"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut watching = watching.spawn().unwrap();
    // The call about the second session is under way.
    provider.wait_for(2);
    stage.kill_daemon();
    watching.wait().unwrap();
    provider.change(own_notes);
    provider.let_go();
    stage.start_daemon();
    let output = improve(&stage, &["--yes"]);
    assert_eq!(output.code(), 0, "{output:?}");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !["s1", "s2", "s3"].iter().all(|session| is_noted(&stage, session)) {
        assert!(Instant::now() < deadline, "{}", stage.log());
    }
    assert_eq!(asked_about(&provider), ["s3", "s2", "s2", "s1"]);
}

#[test]
fn a_session_that_has_not_ended_is_not_improved() {
    let provider = Provider::start(well);
    let stage = played(&["s1"], &provider, "");
    turn(&stage, "s2");
    stage.flush();
    let plan = improve(&stage, &["--dry-run", "--json"]).json();
    assert_eq!(
        plan["sessions"].as_array().unwrap().len(),
        1,
        "s2 goes on, and is noted when it ends: {plan}"
    );
    let elsewhere = improve(&stage, &["--dry-run", "--project", "nowhere"]);
    assert!(elsewhere.code() == 1 && elsewhere.stderr.contains("nowhere"), "{elsewhere:?}");
    let older = improve(&stage, &["--dry-run", "--since", "2099-01-01"]);
    assert!(older.stdout.contains("nothing to improve"), "{older:?}");
}

#[test]
fn a_model_error_leaves_the_notes_unchanged_and_is_reported() {
    let provider = Provider::start(|_, _| Behaviour::Status(401));
    let stage = played(&["s1"], &provider, "");
    let before = observations(&stage, "s1");
    let output = improve(&stage, &["--yes"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("The model returned no notes for 1 session") && output.stderr.contains("401"),
        "{output:?}"
    );
    assert_eq!(observations(&stage, "s1"), before);
    provider.change(well);
    assert_eq!(stage.json(["ctl", "retry"])["retried"], 1);
    let output = improve(&stage, &["--yes"]);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(is_noted(&stage, "s1"));
}
