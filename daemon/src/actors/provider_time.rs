//! Tests the timing of model calls with the whole actor tree and a paused clock: delays before retries, delays that a
//! provider requests, the circuit, and the daily budget.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use super::backoff::retry_delay_ms;
use super::test_system::Tree;
use recall_app::clock;
use recall_compression::model::ModelCompressor;
use recall_compression::policy::Unit;
use recall_config::Config;
use recall_domain::budget::Prices;
use recall_domain::ids::Timestamp;
use recall_providers::chat::{ChatProvider, ChatReply, ChatRequest};
use recall_providers::{Backend, BackendKind, KeySource, Paid, ProviderError, Tokens};
use recall_store::{JobKind, Jobs};

const GOOD: &str =
    r#"{"observations": [{"type": "gotcha", "title": "Round once", "narrative": "Per line loses cents."}]}"#;
const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;
/// A timer waits for due jobs. Jobs that are not taken then are offered every second. On a paused clock, starting a
/// job takes no time.
const SLACK: i64 = 2 * SECOND;

/// Returns the scripted answers, then good ones, and records when it was called.
#[derive(Clone, Default)]
struct Scripted {
    answers: Arc<Mutex<VecDeque<Result<ChatReply, ProviderError>>>>,
    asked: Arc<Mutex<Vec<Timestamp>>>,
    tokens: u64,
}

impl ChatProvider for Scripted {
    fn ask(&self, _request: &ChatRequest, _now: Timestamp) -> Result<ChatReply, ProviderError> {
        self.asked.lock().unwrap().push(clock::now());
        let tokens = Some(Tokens { into: self.tokens, out: 0 });
        let good = ChatReply { text: GOOD.to_owned(), tokens, micro_usd: None };
        self.answers.lock().unwrap().pop_front().unwrap_or(Ok(good))
    }
}

impl Scripted {
    fn failing(times: usize, wait_ms: Option<u64>) -> Self {
        let trouble = || ProviderError::Trouble { why: "busy".to_owned(), wait_ms, paid: Paid::No };
        let answers = (0..times).map(|_| Err(trouble())).collect();
        Self { answers: Arc::new(Mutex::new(answers)), ..Self::default() }
    }

    /// The times between its calls, in milliseconds.
    fn pauses(&self) -> Vec<i64> {
        self.asked.lock().unwrap().windows(2).map(|pair| pair[1].since(pair[0])).collect()
    }

    fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// Starts a tree that uses this provider for one job at a time. Sessions do not end by themselves, so each turn is
    /// one call.
    async fn tree(&self, mut config: Config) -> Tree {
        config.compression.concurrency = 1;
        config.compression.unit = Unit::Turn;
        config.idle.session_ms = 1_000 * HOUR;
        let backend = Backend {
            kind: BackendKind::OpenAi,
            model: "m".to_owned(),
            base_url: String::new(),
            command: Vec::new(),
            key: KeySource::None,
            prices: Prices::default(),
        };
        let model = ModelCompressor::new(backend, Box::new(self.clone()), &config.compression);
        Tree::compressing(config, Arc::new(model)).await
    }
}

impl Tree {
    async fn turn(&self, session: &str) {
        let answer = "Rounding happens once now, because rounding each line lost up to a cent per line.";
        self.hook_of(session, "UserPromptSubmit", json!({"prompt": "Why is the total off?"})).await;
        self.hook_of(session, "Stop", json!({"last_assistant_message": answer})).await;
    }

    /// Advances the clock until the condition holds.
    async fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            // Missed events only mean that the condition is checked again.
            let _ = self.bus_events.recv().await;
        }
    }

    /// The status of a session's batch job, and the origin of its last result.
    fn job(&self, session: &str) -> (String, String) {
        let jobs = self.services.readers.read(|db| db.jobs(Jobs::All, None, 1_000)).unwrap();
        let job = jobs.into_iter().find(|job| job.kind == JobKind::Batch && job.session.as_str() == session);
        job.map(|job| (job.status.as_str().to_owned(), job.origin.unwrap_or_default().0)).unwrap_or_default()
    }

    async fn until_job(&mut self, session: &str, status: &str) -> String {
        self.until(|tree| tree.job(session).0 == status).await;
        self.job(session).1
    }
}

#[tokio::test(start_paused = true)]
async fn retries_stay_within_growing_delays_and_end_after_max_attempts() {
    let provider = Scripted::failing(100, None);
    let mut config = Config::default();
    config.compression.max_attempts = 4;
    let mut tree = provider.tree(config).await;
    tree.turn("s").await;
    // The built-in compressor's observation exists meanwhile.
    assert_eq!(tree.until_job("s", "retrying").await, "extractive");
    assert_eq!(tree.until_job("s", "dead").await, "extractive");
    let pauses = provider.pauses();
    assert_eq!(pauses.len(), 3, "{pauses:?}");
    for (attempt, pause) in (1..).zip(&pauses) {
        assert!(*pause <= retry_delay_ms(attempt) + SLACK, "{pauses:?}");
    }
    tree.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_gets_the_delay_it_asks_for_but_at_most_an_hour() {
    for (asked, pause) in [(90 * SECOND, 90 * SECOND), (1_000 * HOUR, HOUR)] {
        let provider = Scripted::failing(1, Some(asked.unsigned_abs()));
        let mut tree = provider.tree(Config::default()).await;
        tree.turn("s").await;
        tree.until_job("s", "retrying").await;
        skip(pause - SECOND).await;
        assert_eq!(tree.until_job("s", "done").await, "openai:m");
        let pauses = provider.pauses();
        let longest = pause + retry_delay_ms(1) + SLACK;
        assert!(
            matches!(pauses.as_slice(), [waited] if (pause..=longest).contains(waited)),
            "{asked}: {pauses:?}"
        );
        tree.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_five_failures_in_a_row_a_provider_is_not_called_for_a_minute() {
    let provider = Scripted::failing(5, None);
    let mut tree = provider.tree(Config::default()).await;
    for session in 0..6 {
        tree.turn(&format!("s{session}")).await;
    }
    for session in 0..6 {
        assert_eq!(tree.until_job(&format!("s{session}"), "done").await, "openai:m");
    }
    let pauses = provider.pauses();
    // The first five calls fail. The sixth is the trial that closes the circuit.
    let longest = 60 * SECOND + retry_delay_ms(5) + SLACK;
    assert!((60 * SECOND..=longest).contains(&pauses[4]), "{pauses:?}");
    assert_eq!(provider.calls(), 5 + 6);
    tree.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_is_reset_at_midnight() {
    let provider = Scripted { tokens: 20_000, ..Scripted::default() };
    let mut config = Config::default();
    // Enough for one call.
    config.compression.caps.tokens = 21_000;
    let mut tree = provider.tree(config).await;
    // The test must not begin shortly before midnight.
    next_day().await;
    tree.turn("first").await;
    assert_eq!(tree.until_job("first", "done").await, "openai:m");
    let today = clock::day_of(clock::now());
    tree.turn("second").await;
    assert_eq!(tree.until_job("second", "done").await, "extractive");
    assert_eq!((clock::day_of(clock::now()), provider.calls()), (today.clone(), 1));
    next_day().await;
    tree.turn("third").await;
    assert_eq!((tree.until_job("third", "done").await.as_str(), provider.calls()), ("openai:m", 2));
    tree.stop().await;
}

/// Advances the clock by hours until the next day.
async fn next_day() {
    let today = clock::day_of(clock::now());
    while clock::day_of(clock::now()) == today {
        skip(HOUR).await;
    }
}

/// Advances the clock in one step.
async fn skip(ms: i64) {
    tokio::time::advance(Duration::from_millis(ms.unsigned_abs())).await;
}
