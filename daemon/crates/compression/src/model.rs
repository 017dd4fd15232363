//! A compressor that uses a model: it condenses the material, sends a request, checks the answer, and repeats the
//! request once if the answer is unusable.
//!
//! If a provider refuses one batch and accepts others, the batch's content is the reason. The batch is split in
//! halves, and a refused half is split again. The built-in compressor handles what is still refused; the model
//! handles the rest.
//!
//! Unusable answers cost money. Each backend gets at most [`MOST_UNREADABLE`] of them for the same material, however
//! often the job is retried; splitting the material does not reset the count.

mod notes;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::answer::{self, MOST_OBSERVATIONS, UnusableAnswer};
use super::condense;
use super::extractive::Extractive;
use super::notes::{NotesMaterial, SessionNotes};
use super::policy::{CompressionPolicy, LONGEST_CALLS_BEFORE_LAST};
use super::prompt;
use super::{CompressionError, Compressor, Cuts, JobContext, Made};
use recall_domain::ids::{JobId, Timestamp};
use recall_domain::material::{BatchMaterial, SessionMaterial};
use recall_domain::observation::{NoteOrigin, ObservationDraft, SummaryDraft};
use recall_providers::chat::{ChatProvider, ChatReply, ChatRequest};
use recall_providers::ledger::NotReserved;
use recall_providers::{Backend, CallError, CallGuard, Payer, ProviderError, ProviderState};

/// The wait in milliseconds after a call whose cost could not be reserved.
const RESERVE_AGAIN_AFTER_MS: u64 = 1_000;
/// How often a batch is split in halves.
const CUTS_IN_HALVES: u32 = 2;
/// The maximum number of unusable answers for one job. A repair follows the first one; the rest is for later
/// attempts.
const MOST_UNREADABLE: u32 = 3;
/// The number of jobs whose unusable answers are remembered.
const MOST_REMEMBERED: usize = 1_000;

pub struct ModelCompressor {
    backend: Backend,
    provider: Box<dyn ChatProvider>,
    guard: CallGuard,
    /// Unusable answers by job. A job that succeeds is removed.
    unreadable: Mutex<HashMap<JobId, Unreadable>>,
    material_tokens: u32,
    longest_call: Duration,
}

/// A job's unusable answers.
#[derive(Default)]
struct Unreadable {
    answers: u32,
    /// The problem of the last one.
    problem: String,
    /// The number of steps and answers in their material. A batch that has grown since gets new attempts.
    size: usize,
}

/// Why there is no usable answer.
enum Failure {
    /// The model or its provider failed on this material.
    Material(String),
    /// The model answered, but the answer is unusable.
    Unreadable(String),
    /// Anything else.
    Other(CompressionError),
}

impl From<CompressionError> for Failure {
    fn from(error: CompressionError) -> Self {
        Self::Other(error)
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let why = error.to_string();
        let error = match error {
            CallError::BackedOff { wait_ms, .. } => CompressionError::BackedOff { why, wait_ms },
            CallError::NotReserved(NotReserved::Spent(_)) => CompressionError::Spent(why),
            // For example, the disk is full. No request was sent.
            CallError::NotReserved(NotReserved::Unavailable(_)) => {
                CompressionError::BackedOff { why, wait_ms: RESERVE_AGAIN_AFTER_MS }
            }
            CallError::Provider(ProviderError::Trouble { wait_ms: Some(wait_ms), .. }) => {
                CompressionError::Wait { why, wait_ms }
            }
            CallError::Provider(ProviderError::Trouble { wait_ms: None, .. }) => {
                CompressionError::Failed(why)
            }
            CallError::Provider(ProviderError::Unacceptable { .. }) => return Self::Material(why),
            CallError::Provider(ProviderError::Unreadable { .. }) => return Self::Unreadable(why),
            CallError::Provider(ProviderError::Barred { .. }) => CompressionError::Refused(why),
        };
        Self::Other(error)
    }
}

impl From<Failure> for CompressionError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Material(why) | Failure::Unreadable(why) => Self::Refused(why),
            Failure::Other(error) => error,
        }
    }
}

/// The result of a call.
enum Reading<T> {
    Read(T),
    /// `text` is the model's text, if the provider's answer contained one.
    Unreadable {
        text: Option<String>,
        problem: String,
    },
}

/// A job being processed.
struct Job<'a> {
    job_context: &'a JobContext<'a>,
    started: Instant,
    /// The number of steps and answers in its material.
    size: usize,
}

impl<'a> Job<'a> {
    fn new(job_context: &'a JobContext<'a>, material: &[BatchMaterial]) -> Self {
        let of_batch = |batch: &BatchMaterial| batch.steps.len() + usize::from(batch.response.is_some());
        Self { job_context, started: Instant::now(), size: material.iter().map(of_batch).sum() }
    }

    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.job_context.now.0.saturating_add(elapsed))
    }
}

impl ModelCompressor {
    pub fn new(backend: Backend, provider: Box<dyn ChatProvider>, policy: &CompressionPolicy) -> Self {
        let longest_call = policy.longest_call();
        Self {
            guard: CallGuard::new(backend.origin(), longest_call),
            backend,
            provider,
            unreadable: Mutex::default(),
            material_tokens: policy.material_tokens,
            longest_call,
        }
    }

    /// Makes one call. Returns an error without a call if the job has already taken too long.
    fn call(&self, request: &ChatRequest, job: &Job<'_>) -> Result<ChatReply, Failure> {
        if job.started.elapsed() > self.longest_call * LONGEST_CALLS_BEFORE_LAST {
            return Err(Failure::Material("the model took too long over this batch".to_owned()));
        }
        let JobContext { job: id, project, ledger, .. } = *job.job_context;
        let prices = self.backend.prices;
        let called = self.guard.call(
            &Payer { job: id, project, ledger },
            request.most(prices),
            || job.now(),
            |now| self.provider.ask(request, now),
            |reply| request.cost(reply, prices),
        );
        called.map_err(Failure::from)
    }

    fn unreadable(&self) -> MutexGuard<'_, HashMap<JobId, Unreadable>> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error if the job has used up its unusable answers.
    fn may_ask(&self, job: &Job<'_>) -> Result<(), Failure> {
        match self.unreadable().get(&job.job_context.job) {
            Some(known) if known.size == job.size && known.answers >= MOST_UNREADABLE => {
                let why = format!(
                    "the model's answers could not be used, {} times: {}",
                    known.answers, known.problem
                );
                Err(Failure::Unreadable(why))
            }
            _ => Ok(()),
        }
    }

    fn was_unreadable(&self, job: &Job<'_>, problem: &str) {
        let mut all = self.unreadable();
        if all.len() >= MOST_REMEMBERED {
            all.clear();
        }
        let known = all.entry(job.job_context.job).or_default();
        if known.size != job.size {
            *known = Unreadable { size: job.size, ..Unreadable::default() };
        }
        known.answers += 1;
        problem.clone_into(&mut known.problem);
    }

    /// Sends a request. If the answer is unusable, sends it once more with the problem.
    fn asked<T>(
        &self,
        request: &ChatRequest,
        job: &Job<'_>,
        read: impl Fn(&str) -> Result<T, UnusableAnswer>,
    ) -> Result<T, Failure> {
        self.may_ask(job)?;
        let (first, problem) = match self.answer(request, job, &read)? {
            Reading::Read(result) => return Ok(result),
            Reading::Unreadable { text, problem } => (text, problem),
        };
        self.may_ask(job)?;
        // Without a text, nothing can be repaired.
        let again = first.map(|first| prompt::repair(request, &first, &problem));
        match self.answer(again.as_ref().unwrap_or(request), job, &read)? {
            Reading::Read(result) => Ok(result),
            Reading::Unreadable { problem, .. } => {
                Err(Failure::Unreadable(format!("the model's answer could not be used, twice: {problem}")))
            }
        }
    }

    /// Makes one call and parses its answer. Counts an unusable answer, whether the model or its provider caused it.
    fn answer<T>(
        &self,
        request: &ChatRequest,
        job: &Job<'_>,
        read: impl Fn(&str) -> Result<T, UnusableAnswer>,
    ) -> Result<Reading<T>, Failure> {
        let (text, problem) = match self.call(request, job) {
            Ok(reply) => match read(&reply.text) {
                Ok(result) => return Ok(Reading::Read(result)),
                Err(UnusableAnswer(problem)) => (Some(reply.text), problem),
            },
            Err(Failure::Unreadable(problem)) => (None, problem),
            Err(other) => return Err(other),
        };
        self.was_unreadable(job, &problem);
        Ok(Reading::Unreadable { text, problem })
    }

    fn of_batch(
        &self,
        batch: &BatchMaterial,
        job: &Job<'_>,
    ) -> Result<(Vec<ObservationDraft>, Cuts), Failure> {
        let condensed = condense::batch(batch, self.material_tokens);
        let request = prompt::observations(&condensed.text);
        let drafts = self.asked(&request, job, |text| answer::observations(text, batch))?;
        Ok((drafts, condensed.cuts))
    }

    /// Processes the halves of a batch that failed as a whole. Returns an error if every part failed.
    fn in_halves(&self, batch: &BatchMaterial, job: &Job<'_>, cuts_left: u32) -> Result<Parts, Failure> {
        let mut parts = Parts::default();
        for half in halves(batch) {
            match self.of_batch(&half, job) {
                Ok((drafts, cuts)) => parts.answered(drafts, cuts),
                Err(Failure::Material(why)) if cuts_left > 0 && half.steps.len() > 1 => {
                    match self.in_halves(&half, job, cuts_left - 1) {
                        Ok(of_half) => parts.join(of_half),
                        Err(Failure::Material(_) | Failure::Unreadable(_)) => parts.failed(&half, why),
                        Err(other) => return Err(other),
                    }
                }
                Err(Failure::Material(why) | Failure::Unreadable(why)) => parts.failed(&half, why),
                // Keep what was paid for.
                Err(Failure::Other(CompressionError::Spent(why))) => parts.failed(&half, why),
                Err(other) => return Err(other),
            }
        }
        match parts.answers {
            0 => Err(Failure::Material(parts.last_failure)),
            _ => Ok(parts),
        }
    }
}

/// The results of a batch's parts.
#[derive(Default)]
struct Parts {
    drafts: Vec<ObservationDraft>,
    cuts: Cuts,
    answers: u32,
    last_failure: String,
}

impl Parts {
    fn answered(&mut self, drafts: Vec<ObservationDraft>, cuts: Cuts) {
        self.answers += 1;
        self.cuts = self.cuts.and(cuts);
        self.take(drafts);
    }

    fn failed(&mut self, part: &BatchMaterial, why: String) {
        self.last_failure = why;
        self.take(Extractive.draft(part));
    }

    fn join(&mut self, other: Self) {
        self.answers += other.answers;
        self.cuts = self.cuts.and(other.cuts);
        self.take(other.drafts);
    }

    /// Adds drafts without duplicates. Both halves contain the request and the final answer, so they may produce the
    /// same draft.
    fn take(&mut self, drafts: Vec<ObservationDraft>) {
        for draft in drafts {
            let is_known = self.drafts.iter().any(|known| known.title == draft.title);
            if !is_known && self.drafts.len() < MOST_OBSERVATIONS {
                self.drafts.push(draft);
            }
        }
    }
}

fn halves(batch: &BatchMaterial) -> [BatchMaterial; 2] {
    let (first, second) = batch.steps.split_at(batch.steps.len() / 2);
    [first, second].map(|steps| BatchMaterial { steps: steps.to_vec(), ..batch.clone() })
}

impl Compressor for ModelCompressor {
    fn origin(&self) -> NoteOrigin {
        NoteOrigin(self.backend.origin())
    }

    fn observe(
        &self,
        batch: &BatchMaterial,
        job_context: &JobContext<'_>,
    ) -> Result<Made<Vec<ObservationDraft>>, CompressionError> {
        let made = |result, cuts| Made { result, origin: self.origin(), cuts };
        if batch.prompt.is_none() && batch.response.is_none() && batch.steps.is_empty() {
            return Ok(made(Vec::new(), Cuts::default()));
        }
        let job = Job::new(job_context, std::slice::from_ref(batch));
        let drafted = match self.of_batch(batch, &job) {
            Ok((drafts, cuts)) => made(drafts, cuts),
            Err(Failure::Material(why)) if batch.steps.len() > 1 => {
                tracing::warn!(job = %job_context.job, %why, "a provider refused a batch; splitting it in halves");
                let parts =
                    self.in_halves(batch, &job, CUTS_IN_HALVES - 1).map_err(|failure| match failure {
                        // The error of the whole batch is more useful than that of the last part.
                        Failure::Material(_) | Failure::Unreadable(_) => CompressionError::Refused(why),
                        Failure::Other(error) => error,
                    })?;
                made(parts.drafts, parts.cuts)
            }
            Err(failure) => return Err(failure.into()),
        };
        self.unreadable().remove(&job_context.job);
        Ok(drafted)
    }

    fn summarize(
        &self,
        session: &SessionMaterial,
        job_context: &JobContext<'_>,
    ) -> Result<Made<Option<SummaryDraft>>, CompressionError> {
        let job = Job::new(job_context, &session.batches);
        let condensed = condense::session(session, self.material_tokens);
        let request = prompt::summary(&condensed.text);
        let result = self.asked(&request, &job, answer::summary)?;
        self.unreadable().remove(&job_context.job);
        Ok(Made { result, origin: self.origin(), cuts: condensed.cuts })
    }

    fn note(
        &self,
        session: &NotesMaterial,
        job_context: &JobContext<'_>,
    ) -> Result<Made<SessionNotes>, CompressionError> {
        let part = session.first_part();
        let job = Job::new(job_context, &session.session.batches);
        let (result, cuts) = self.notes_of(&part, &job)?;
        self.unreadable().remove(&job_context.job);
        Ok(Made { result, origin: self.origin(), cuts })
    }

    fn reconsider(&self) {
        self.guard.reset();
        self.unreadable().clear();
    }

    fn providers(&self) -> Vec<ProviderState> {
        vec![self.guard.state()]
    }
}

#[cfg(test)]
mod tests;
