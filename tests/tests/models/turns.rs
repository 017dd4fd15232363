//! Plays turns of sessions, and reads their results.

use std::time::{Duration, Instant};

use recall_tests::{DISCOUNT_ANSWER, DISCOUNT_PROMPT, Stage};
use serde_json::{Value, json};

/// Plays a turn of a session that goes on. It makes one batch, and nothing for a model to summarize.
pub(crate) fn turn(stage: &Stage, session: &str) {
    let prompt_id = format!("{session}-p1");
    let event = |name: &str, fields: Value| {
        let mut event = stage.event(session, name, fields);
        event["prompt_id"] = json!(prompt_id);
        stage.hook(&event);
    };
    event("UserPromptSubmit", json!({"prompt": format!("{DISCOUNT_PROMPT} ({session})")}));
    for (number, mut call) in stage.discount_calls().into_iter().enumerate() {
        call["tool_use_id"] = json!(format!("{session}-t{number}"));
        event("PostToolUse", call);
    }
    event("Stop", json!({"last_assistant_message": format!("{DISCOUNT_ANSWER} Seen in {session}.")}));
}

pub(crate) fn observations(stage: &Stage, session: &str) -> Vec<Value> {
    stage.json(["ctl", "session", session])["observations"].as_array().unwrap().clone()
}

pub(crate) fn origins(stage: &Stage, session: &str) -> Vec<String> {
    let origin = |observation: &Value| observation["origin"].as_str().unwrap().to_owned();
    observations(stage, session).iter().map(origin).collect()
}

/// Returns the job of a session's batch.
pub(crate) fn job(stage: &Stage, session: &str) -> Value {
    job_of(stage, session, "batch")
}

/// Returns the latest job of this kind for a session.
pub(crate) fn job_of(stage: &Stage, session: &str, kind: &str) -> Value {
    let jobs = stage.json(["ctl", "jobs", "--limit", "1000"]);
    let is_it = |job: &&Value| job["kind"] == kind && job["session_id"] == session;
    jobs["jobs"].as_array().unwrap().iter().find(is_it).expect("it has a job").clone()
}

/// Asks until a batch's job is as expected. Each query starts a process, so this is not a busy loop.
#[track_caller]
pub(crate) fn until(stage: &Stage, session: &str, expected: impl Fn(&Value) -> bool) -> Value {
    until_job(stage, session, "batch", expected)
}

/// Like [`until`], for the latest job of this kind.
#[track_caller]
pub(crate) fn until_job(
    stage: &Stage,
    session: &str,
    kind: &str,
    expected: impl Fn(&Value) -> bool,
) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let job = job_of(stage, session, kind);
        if expected(&job) {
            return job;
        }
        assert!(Instant::now() < deadline, "it stays so: {job}\n{}", stage.log());
    }
}
