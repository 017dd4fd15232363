use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::*;
use crate::chain::Chain;
use recall_domain::budget::{Caps, Charge, Cost, OverCap, Prices, ReservationId, Usage};
use recall_domain::ids::{EventId, JobId, ProjectRow};
use recall_domain::material::{Action, CallOutcome, SourcedText, Step};
use recall_providers::ledger::Ledger;
use recall_providers::{BackendKind, Circuit, KeySource, Paid, Tokens};

const GOOD: &str =
    r#"{"observations": [{"type": "gotcha", "title": "Round once", "narrative": "Per line loses cents."}]}"#;

/// A provider with prepared answers, which records its requests.
#[derive(Clone, Default)]
struct Scripted {
    answers: Arc<Mutex<VecDeque<Result<ChatReply, ProviderError>>>>,
    asked: Arc<Mutex<Vec<ChatRequest>>>,
    /// Requests that contain this word fail.
    poison: Option<&'static str>,
}

impl ChatProvider for Scripted {
    fn ask(&self, request: &ChatRequest, _now: Timestamp) -> Result<ChatReply, ProviderError> {
        self.asked.lock().unwrap().push(request.clone());
        if self.poison.is_some_and(|word| request.user.contains(word)) {
            return Err(unacceptable());
        }
        self.answers.lock().unwrap().pop_front().unwrap_or_else(|| Ok(reply(GOOD)))
    }
}

impl Scripted {
    fn answering(answers: impl IntoIterator<Item = Result<ChatReply, ProviderError>>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Self::default() }
    }

    fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn compressor(&self) -> ModelCompressor {
        let backend = Backend {
            kind: BackendKind::OpenAi,
            model: "m".to_owned(),
            base_url: String::new(),
            command: Vec::new(),
            key: KeySource::None,
            prices: Prices { per_mtok_in: 1_000_000, per_mtok_out: 2_000_000 },
        };
        ModelCompressor::new(backend, Box::new(self.clone()), &policy())
    }
}

fn policy() -> CompressionPolicy {
    CompressionPolicy {
        backends: Vec::new(),
        unit: super::super::policy::Unit::Turn,
        timeout_s: 60,
        concurrency: 1,
        max_attempts: 3,
        material_tokens: 12_000,
        caps: Caps::default(),
        proxy: None,
    }
}

fn reply(text: &str) -> ChatReply {
    ChatReply { text: text.to_owned(), tokens: Some(Tokens { into: 100, out: 10 }), micro_usd: None }
}

fn trouble(wait_ms: Option<u64>, paid: Paid) -> ProviderError {
    ProviderError::Trouble { why: "busy".to_owned(), wait_ms, paid }
}

fn unacceptable() -> ProviderError {
    ProviderError::Unacceptable { why: "400".to_owned() }
}

fn barred() -> ProviderError {
    ProviderError::Barred { why: "401".to_owned() }
}

/// A ledger in memory. It records what was reserved and settled.
#[derive(Default)]
struct Book {
    caps: Caps,
    state: Mutex<(Usage, Vec<Usage>, Vec<Usage>)>,
}

impl Ledger for Book {
    fn reserve(&self, charge: &Charge) -> Result<ReservationId, NotReserved> {
        let mut state = self.state.lock().unwrap();
        self.caps.allow(state.0, state.0, charge.most).map_err(NotReserved::Spent)?;
        state.1.push(charge.most);
        Ok(ReservationId(state.1.len() as i64))
    }

    fn settle(&self, reservation: ReservationId, cost: Cost) {
        let mut state = self.state.lock().unwrap();
        let usage = match cost {
            Cost::Known(usage) => usage,
            Cost::AtMost => state.1[reservation.0 as usize - 1],
        };
        state.0.tokens_in += usage.tokens_in;
        state.0.tokens_out += usage.tokens_out;
        state.2.push(usage);
    }
}

impl Book {
    fn settled(&self) -> Vec<Usage> {
        self.state.lock().unwrap().2.clone()
    }

    fn context_at(&self, second: i64) -> JobContext<'_> {
        JobContext { job: JobId(1), project: ProjectRow(1), now: Timestamp(second * 1000), ledger: self }
    }

    fn job_context(&self) -> JobContext<'_> {
        self.context_at(0)
    }
}

fn step(output: &str) -> Step {
    Step {
        event: EventId([9; 16]),
        at: Timestamp(0),
        tool: "Bash".to_owned(),
        outcome: CallOutcome::Done,
        subagent: None,
        action: Action::Command { command: "make".to_owned(), description: None, output: output.to_owned() },
    }
}

fn batch(outputs: &[&str]) -> BatchMaterial {
    let sourced_text = |text: &str| Some(SourcedText { event: EventId([1; 16]), text: text.to_owned() });
    BatchMaterial {
        prompt: sourced_text("Why is the total off?"),
        response: sourced_text(
            "Rounding happens once now, because rounding each line lost up to a cent per line.",
        ),
        steps: outputs.iter().map(|output| step(output)).collect(),
        ..BatchMaterial::default()
    }
}

#[test]
fn a_batch_needs_one_call_and_is_charged_its_actual_cost() {
    let (provider, book) = (Scripted::default(), Book::default());
    let made = provider.compressor().observe(&batch(&["ok"]), &book.job_context()).unwrap();
    assert_eq!((made.result.len(), made.origin.as_str(), provider.calls()), (1, "openai:m", 1));
    assert_eq!(book.settled(), [Usage { tokens_in: 100, tokens_out: 10, micro_usd: 120 }]);
}

#[test]
fn an_unusable_answer_is_requested_again_once_with_its_error() {
    let provider = Scripted::answering([Ok(reply("Sure, here it is!"))]);
    let book = Book::default();
    let made = provider.compressor().observe(&batch(&["ok"]), &book.job_context()).unwrap();
    assert_eq!((made.result.len(), provider.calls()), (1, 2));
    let again = provider.asked.lock().unwrap()[1].user.clone();
    assert!(again.contains("could not be used: there is no JSON object"), "{again}");

    let stubborn = Scripted::answering([Ok(reply("no")), Ok(reply("no"))]);
    let refused = stubborn.compressor().observe(&batch(&[]), &book.job_context());
    assert!(matches!(&refused, Err(CompressionError::Refused(why)) if why.contains("twice")), "{refused:?}");
    assert_eq!(stubborn.calls(), 2);
}

/// Returns answers that cannot be parsed.
fn unreadable(calls: usize) -> Vec<Result<ChatReply, ProviderError>> {
    (0..calls).map(|_| Ok(reply("I cannot help with that."))).collect()
}

/// The provider may send an HTML page, half an answer, or an error with a success status.
#[test]
fn an_unreadable_provider_answer_counts_like_an_unusable_model_answer() {
    let why = "the provider's answer is not JSON";
    let page = || Err(ProviderError::Unreadable { why: why.to_owned() });
    let book = Book::default();
    let stubborn = Scripted::answering((0..20).map(|_| page()));
    let compressor = stubborn.compressor();
    for _ in 0..5 {
        let refused = compressor.observe(&batch(&["a", "b", "c", "d"]), &book.job_context());
        assert!(
            matches!(&refused, Err(CompressionError::Refused(message)) if message.contains(why)),
            "{refused:?}"
        );
    }
    assert_eq!(stubborn.calls(), 3);
    assert!(book.settled().iter().all(|usage| usage.tokens_in > 100), "it may have cost all that it could");

    let mended = Scripted::answering([page()]);
    let made = mended.compressor().observe(&batch(&["ok"]), &book.job_context()).unwrap();
    assert_eq!((made.result.len(), mended.calls()), (1, 2));
    let asked = mended.asked.lock().unwrap();
    assert_eq!(asked[0].user, asked[1].user, "there is nothing to mend");
}

#[test]
fn unreadable_answers_cost_a_job_at_most_three_calls() {
    let book = Book::default();
    let whole = batch(&["a", "b", "c", "d"]);
    let stubborn = Scripted::answering(unreadable(20));
    let compressor = stubborn.compressor();
    let refused = compressor.observe(&whole, &book.job_context());
    assert!(matches!(&refused, Err(CompressionError::Refused(_))), "{refused:?}");
    assert_eq!(stubborn.calls(), 2, "a batch is not cut in halves for it");
    // The job is retried in the same way if another backend of the chain fails.
    for _ in 0..5 {
        let refused = compressor.observe(&whole, &book.job_context());
        assert!(
            matches!(&refused, Err(CompressionError::Refused(why)) if why.contains("3 times: there is no JSON")),
            "{refused:?}"
        );
    }
    assert_eq!(stubborn.calls(), 3);
    let summary = SessionMaterial { batches: vec![whole.clone()] };
    let other = JobContext { job: JobId(2), ..book.job_context() };
    for _ in 0..5 {
        assert!(compressor.summarize(&summary, &other).is_err());
    }
    assert_eq!(stubborn.calls(), 6, "another job has its own");

    // A batch that has grown is new material. A person may also ask again.
    assert!(compressor.observe(&batch(&["a", "b", "c", "d", "e"]), &book.job_context()).is_err());
    assert_eq!(stubborn.calls(), 8);
    compressor.reconsider();
    assert!(compressor.observe(&whole, &book.job_context()).is_err());
    assert_eq!(stubborn.calls(), 10);
}

#[test]
fn unreadable_answers_count_between_failed_calls_and_for_halved_batches() {
    let book = Book::default();
    let mixed = (0..12).flat_map(|_| [Ok(reply("no")), Err(trouble(None, Paid::No))]);
    let provider = Scripted::answering(mixed);
    let compressor = provider.compressor();
    let whole = batch(&["a", "b"]);
    let tried: Vec<_> =
        (0..6).map(|try_| compressor.observe(&whole, &book.context_at(try_ * 4_000)).unwrap_err()).collect();
    assert!(matches!(tried[0], CompressionError::Failed(_)), "{tried:?}");
    assert!(tried[2..].iter().all(|error| matches!(error, CompressionError::Refused(_))), "{tried:?}");
    assert_eq!(provider.calls(), 5, "three unreadable answers, two troubles");

    // The provider does not accept the request for the whole batch. Its answers for the halves cannot be read.
    let halves = std::iter::once(Err(unacceptable())).chain(unreadable(20));
    let provider = Scripted::answering(halves);
    assert!(provider.compressor().observe(&batch(&["a", "b", "c", "d"]), &book.job_context()).is_err());
    assert_eq!(provider.calls(), 1 + 3);
}

#[test]
fn a_good_answer_resets_the_count_of_unreadable_answers() {
    let book = Book::default();
    let provider = Scripted::answering([Ok(reply("no")), Ok(reply(GOOD)), Ok(reply("no")), Ok(reply("no"))]);
    let compressor = provider.compressor();
    assert!(compressor.observe(&batch(&["a"]), &book.job_context()).is_ok());
    assert!(compressor.observe(&batch(&["a"]), &book.job_context()).is_err());
    assert_eq!(provider.calls(), 4, "the repair is asked for again");
}

#[test]
fn an_answer_without_observations_is_accepted_and_an_empty_batch_is_not_sent() {
    let provider = Scripted::answering([Ok(reply("{\"observations\": []}"))]);
    let book = Book::default();
    assert_eq!(provider.compressor().observe(&batch(&["ok"]), &book.job_context()).unwrap().result, []);
    assert_eq!(
        provider.compressor().observe(&BatchMaterial::default(), &book.job_context()).unwrap().result,
        []
    );
    assert_eq!(provider.calls(), 1);
}

#[test]
fn a_part_that_the_provider_refuses_is_cut_out_of_the_batch() {
    let provider = Scripted { poison: Some("POISON"), ..Scripted::default() };
    let book = Book::default();
    let made =
        provider.compressor().observe(&batch(&["a", "b", "POISON", "d"]), &book.job_context()).unwrap();
    assert!(made.result.iter().any(|draft| draft.title == "Round once"), "{:?}", made.result);
    assert_eq!(made.origin.as_str(), "openai:m");
    // The calls are for the whole batch, its two halves, and the two quarters of the failed half.
    assert_eq!(provider.calls(), 5);

    let hopeless = Scripted { poison: Some("Why is"), ..Scripted::default() };
    let refused = hopeless.compressor().observe(&batch(&["a", "b", "c", "d"]), &book.job_context());
    assert_eq!(refused.unwrap_err(), CompressionError::Refused("400".to_owned()));
    assert_eq!(hopeless.calls(), 7, "bounded");
}

#[test]
fn a_busy_provider_is_not_called_until_its_requested_wait_is_over() {
    let book = Book::default();
    let provider = Scripted::answering([Err(trouble(Some(7_000), Paid::No))]);
    let compressor = provider.compressor();
    let first = compressor.observe(&batch(&[]), &book.context_at(0)).unwrap_err();
    assert!(matches!(first, CompressionError::Wait { wait_ms: 7_000, .. }), "{first:?}");
    let held = compressor.observe(&batch(&[]), &book.context_at(2)).unwrap_err();
    // Two of the seven seconds have passed, plus the duration of the first call.
    assert!(matches!(held, CompressionError::BackedOff { wait_ms: 1..7_000, .. }), "{held:?}");
    assert_eq!(provider.calls(), 1, "nothing is sent while it waits");
    assert!(compressor.observe(&batch(&[]), &book.context_at(8)).is_ok());
    // Refused calls cost nothing.
    assert_eq!(book.settled()[0], Usage::default());
}

#[test]
fn a_refused_key_is_retried_only_on_request() {
    let book = Book::default();
    let provider = Scripted::answering([Err(barred())]);
    let compressor = provider.compressor();
    for second in [0, 4_000, 90_000] {
        let refused = compressor.observe(&batch(&["a", "b"]), &book.context_at(second)).unwrap_err();
        assert_eq!(refused, CompressionError::Refused("401".to_owned()));
    }
    assert_eq!(provider.calls(), 1);
    assert!(matches!(compressor.providers()[0].circuit, Circuit::Barred { .. }));
    compressor.reconsider();
    assert!(compressor.observe(&batch(&[]), &book.context_at(90_001)).is_ok());
}

#[test]
fn a_call_that_may_have_been_answered_is_booked_in_full() {
    let book = Book::default();
    let provider = Scripted::answering([Err(trouble(None, Paid::Perhaps))]);
    let failed = provider.compressor().observe(&batch(&[]), &book.job_context()).unwrap_err();
    assert!(matches!(failed, CompressionError::Failed(_)));
    assert_eq!(book.settled(), book.state.lock().unwrap().1.clone());
}

#[test]
fn a_cap_is_never_exceeded_by_a_call() {
    let book = Book { caps: Caps { tokens: 8_000, ..Caps::default() }, ..Book::default() };
    let provider = Scripted::default();
    let compressor = provider.compressor();
    let mut spent = None;
    for _ in 0..100 {
        if let Err(error) = compressor.observe(&batch(&["ok"]), &book.job_context()) {
            spent = Some(error);
            break;
        }
    }
    assert!(matches!(spent, Some(CompressionError::Spent(_))), "{spent:?}");
    let calls = provider.calls() as u64;
    assert!(calls > 1 && calls * 110 <= 8_000, "{calls} calls");
    assert_eq!(NotReserved::Spent(OverCap::Tokens).to_string(), "today's budget is spent: tokens_per_day");
}

#[test]
fn the_next_backend_of_the_chain_is_asked_after_a_failure() {
    let book = Book::default();
    let refusing = Scripted::answering([Err(barred())]);
    let (busy, good) = (Scripted::answering([Err(trouble(None, Paid::No))]), Scripted::default());
    let chain = Chain::new(vec![refusing.compressor(), good.compressor()]);
    assert!(chain.observe(&batch(&[]), &book.job_context()).is_ok());
    assert_eq!((refusing.calls(), good.calls()), (1, 1));
    // A temporary error takes precedence over a refusal.
    let refusing = Scripted::answering([Err(barred())]);
    let chain = Chain::new(vec![refusing.compressor(), busy.compressor()]);
    assert_eq!(
        chain.observe(&batch(&[]), &book.job_context()).unwrap_err(),
        CompressionError::Failed("busy".to_owned())
    );
}

#[test]
fn a_session_is_summed_up_in_one_call() {
    let provider = Scripted::answering([Ok(reply("{\"title\": \"Cart\", \"learned\": \"Round once.\"}"))]);
    let book = Book::default();
    let session = SessionMaterial { batches: vec![batch(&["ok"])] };
    let made = provider.compressor().summarize(&session, &book.job_context()).unwrap();
    assert_eq!((made.result.unwrap().learned.as_str(), provider.calls()), ("Round once.", 1));
}
