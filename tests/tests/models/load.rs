//! Tests many turns at once. Run by name:
//! `cargo test -p recall-tests --release models:: -- --ignored --nocapture thousand`.

use std::time::{Duration, Instant};

use recall_protocol::wire::Reply;
use recall_tests::provider::{Behaviour, Provider, well};
use recall_tests::{DISCOUNT_ANSWER, Stage};
use serde_json::json;

const TURNS: usize = 1_000;
const LATENCY: Duration = Duration::from_millis(50);
const POOL: u32 = 4;

/// Hands over one turn without a shim, and returns how long each of its events took.
fn hand_over(stage: &Stage, number: usize) -> Vec<Duration> {
    let (session, prompt_id) = (format!("load-{number}"), format!("p{number}"));
    let prompt = json!({"prompt": format!("Prompt {number}"), "prompt_id": prompt_id});
    let stop = json!({"last_assistant_message": DISCOUNT_ANSWER, "prompt_id": prompt_id});
    let events = [stage.event(&session, "UserPromptSubmit", prompt), stage.event(&session, "Stop", stop)];
    events
        .iter()
        .map(|event| {
            let delivery = stage.delivery(event);
            let started = Instant::now();
            assert!(matches!(stage.deliver([&delivery])[..], [Reply::Ack { .. }]));
            started.elapsed()
        })
        .collect()
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

fn rss_mib(stage: &Stage) -> u64 {
    stage.json(["ctl", "status"])["rss_bytes"].as_u64().unwrap() >> 20
}

/// The pool limits the speed. A thousand calls of 50 ms, four at a time, take at least twelve and a half seconds.
#[test]
#[ignore = "minutes of load"]
#[allow(clippy::print_stdout)] // Its figures are what it is for.
fn a_thousand_turns_make_a_thousand_model_calls_and_all_tokens_are_counted() {
    let quiet = {
        let stage = Stage::new().daemon();
        p99((0..TURNS).flat_map(|number| hand_over(&stage, number)).collect())
    };
    let provider = Provider::start(|asked, number| match well(asked, number) {
        Behaviour::Answers(text) => Behaviour::AnswersAfter(LATENCY, text),
        other => other,
    });
    let stage = Stage::new().config(&provider.config("openai", &format!("concurrency = {POOL}"))).daemon();
    let started = Instant::now();
    let busy = p99((0..TURNS).flat_map(|number| hand_over(&stage, number)).collect());
    let (handed_over, at_work) = (started.elapsed(), rss_mib(&stage));
    stage.flush();
    let drained = started.elapsed();
    let least = LATENCY * TURNS as u32 / POOL;
    println!(
        "capture p99: {quiet:?} without a model, {busy:?} beside one; {TURNS} turns handed over in {handed_over:?}, drained \
         in {drained:?} (the pool's best is {least:?}); {at_work} MiB at work, {} MiB after",
        rss_mib(&stage)
    );
    assert_eq!(provider.asked().len(), TURNS);
    assert_eq!(
        provider.charged(),
        stage.json(["ctl", "status"])["compression"]["tokens_today"].as_u64().unwrap()
    );
}
