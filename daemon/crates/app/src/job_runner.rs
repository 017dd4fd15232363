//! Runs a compression job on its own thread: reads the material, compresses it, and computes a stand-in if that fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::clock;
use super::injection_uses::uses_of;
use super::material::{batch_material, notes_material, session_material, source_tokens};
use recall_agents::Agents;
use recall_compression::extractive::{Announced, Extractive, SessionDraft};
use recall_compression::notes::{NotesMaterial, SessionNotes};
use recall_compression::policy::Unit;
use recall_compression::{CompressionError, Compressor, Cuts, JobContext, Made};
use recall_domain::fixes;
use recall_domain::lineage;
use recall_domain::material::{BatchMaterial, SessionExtent, SessionMaterial};
use recall_domain::observation::{NoteOrigin, ObservationDraft, SummaryDraft};
use recall_providers::ledger::Ledger;
use recall_store::{
    BatchResult, Capture, ChosenBatch, DueBatch, DueChoice, FirstResult, InjectionUse, JobKind, JobResult,
    LeasedJob, Lives, Next, Reader, Readers, SessionChoice, SessionResult, StoreError,
};

/// Everything that a job needs.
pub struct JobRunner {
    pub agents: Agents,
    pub readers: Readers,
    pub compressor: Arc<dyn Compressor>,
    pub ledger: Arc<dyn Ledger>,
    pub max_attempts: u32,
    pub unit: Unit,
    /// The observations that batches announced when they ended.
    pub announced: Announced,
}

/// The outcome of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobOutcome {
    Done(JobOutput),
    /// `stand_in` is stored in the meantime, if the job has no result yet and one could be computed.
    Failed {
        error: CompressionError,
        stand_in: Option<JobResult>,
    },
    Panicked {
        stand_in: Option<JobResult>,
    },
}

/// A result to store.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOutput {
    pub result: JobResult,
    pub origin: NoteOrigin,
    pub cuts: Cuts,
}

enum Material {
    Batch(Box<BatchMaterial>),
    Session {
        material: SessionMaterial,
        lives: Lives,
        /// Present if the observations of its batches are to be selected again.
        due: Option<DueChoice>,
        /// How the session used the injected items.
        uses: Vec<InjectionUse>,
        standing: Standing,
    },
    Notes {
        material: NotesMaterial,
        /// The batches that are due, as the material names them.
        due: Vec<DueBatch>,
    },
}

/// What a model has to do for a session's summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nothing, or it only writes the summary.
    Plain,
    /// It is asked for notes once the built-in results are stored.
    NotesFollow,
    /// It has written the summary, and notes on everything so far.
    Noted,
}

impl JobRunner {
    /// Runs the job. Blocks; never panics.
    pub fn work(&self, job: &LeasedJob) -> JobOutcome {
        let material = match self.material(job) {
            Ok(material) => material,
            Err(error) => {
                return JobOutcome::Failed {
                    error: CompressionError::Failed(error.to_string()),
                    stand_in: None,
                };
            }
        };
        if job.attempts > self.max_attempts {
            // The previous holder died without reporting an error.
            let error = CompressionError::Refused("the daemon ended during each attempt".to_owned());
            return JobOutcome::Failed { error, stand_in: self.stand_in_for(&material, job.first_result) };
        }
        match catch_unwind(AssertUnwindSafe(|| self.compress(&material, job))) {
            Ok(Ok(work)) => JobOutcome::Done(work),
            // Without budget the built-in compressor does the job, and the job is done. Explicitly requested notes
            // wait until there is budget again.
            Ok(Err(CompressionError::Spent(_)))
                if job.kind != JobKind::Notes || job.first_result == FirstResult::Owed =>
            {
                JobOutcome::Done(self.built_in(&material))
            }
            Ok(Err(error)) => {
                JobOutcome::Failed { error, stand_in: self.stand_in_for(&material, job.first_result) }
            }
            Err(_) => JobOutcome::Panicked { stand_in: self.stand_in_for(&material, job.first_result) },
        }
    }

    /// Computes the stand-in for a job whose thread is lost.
    pub fn stand_in(&self, job: &LeasedJob) -> Option<JobResult> {
        self.stand_in_for(&self.material(job).ok()?, job.first_result)
    }

    fn material(&self, job: &LeasedJob) -> Result<Material, StoreError> {
        self.readers.read_one_state(|snapshot| match (job.kind, job.batch) {
            (JobKind::Batch, Some(batch)) => {
                Ok(Material::Batch(Box::new(batch_material(snapshot, self.agents, batch)?)))
            }
            (JobKind::Notes, _) => {
                let due = snapshot.due_notes(job.session_row, job.lives)?;
                let material = notes_material(snapshot, self.agents, job.session_row, job.lives, &due)?;
                Ok(Material::Notes { material, due })
            }
            // This program never writes a batch job without a batch. Such a job is treated as the session's.
            (JobKind::Summary, _) | (JobKind::Batch, None) => {
                let due = snapshot.due_choice(job.session_row, job.lives)?;
                let material = session_material(snapshot, self.agents, job.session_row)?;
                let uses = uses_of(snapshot, self.agents, job.session_row, &material)?;
                let standing = self.standing(snapshot, job)?;
                Ok(Material::Session { material, lives: job.lives, due, uses, standing })
            }
        })
    }

    fn standing(&self, db: Reader<'_>, job: &LeasedJob) -> Result<Standing, StoreError> {
        let asks_models = !self.compressor.origin().is_built_in();
        if asks_models && self.unit == Unit::Turn {
            return Ok(Standing::Plain);
        }
        if db.is_noted(job.session_row)? {
            return Ok(Standing::Noted);
        }
        // Months of imported work would cost too much at once.
        let may_ask = asks_models && job.capture != Capture::Imported;
        let follow = may_ask && !db.due_notes(job.session_row, job.lives)?.is_empty();
        Ok(if follow { Standing::NotesFollow } else { Standing::Plain })
    }

    fn compress(&self, material: &Material, job: &LeasedJob) -> Result<JobOutput, CompressionError> {
        let job_context =
            JobContext { job: job.id, project: job.project, now: clock::now(), ledger: &*self.ledger };
        match material {
            _ if self.compressor.origin().is_built_in() => Ok(self.built_in(material)),
            Material::Notes { material, due } => {
                let Made { result, origin, cuts } = self.compressor.note(material, &job_context)?;
                Ok(JobOutput { result: of_notes(material, due, result), origin, cuts })
            }
            // Months of imported work would cost too much at once.
            _ if job.capture == Capture::Imported => Ok(self.built_in(material)),
            _ if self.unit == Unit::Session => Ok(self.built_in(material)),
            Material::Batch(batch) => {
                let Made { result: drafts, origin, cuts } = self.compressor.observe(batch, &job_context)?;
                let result = of_batch(batch, drafts);
                Ok(JobOutput { result, origin, cuts })
            }
            Material::Session { lives: Lives::On, .. } => Ok(self.built_in(material)),
            Material::Session { material, lives: Lives::NoLonger, due, uses, .. } => {
                let Made { result: summary, origin, cuts } =
                    self.compressor.summarize(material, &job_context)?;
                let choice = due.as_ref().map(|due| self.choose(material, due).0);
                let result = SessionResult { summary, choice, uses: uses.clone(), next: Next::Nothing };
                Ok(JobOutput { result: JobResult::Session(result), origin, cuts })
            }
        }
    }

    fn built_in(&self, material: &Material) -> JobOutput {
        let result = match material {
            Material::Batch(batch) => of_batch(batch, Extractive.announce(batch, &self.announced)),
            // Its built-in results are already stored.
            Material::Notes { .. } => JobResult::Session(SessionResult::default()),
            Material::Session { material, due, uses, standing, .. } => {
                let chosen = due.as_ref().map(|due| self.choose(material, due));
                let (choice, summary) = chosen.unzip();
                let summary = summary.flatten();
                let summary = match standing {
                    Standing::Noted => None,
                    _ => summary.unwrap_or_else(|| Extractive.sum_up(material)),
                };
                let next = if *standing == Standing::NotesFollow { Next::Notes } else { Next::Nothing };
                JobResult::Session(SessionResult { summary, choice, uses: uses.clone(), next })
            }
        };
        JobOutput { result, origin: NoteOrigin::built_in(), cuts: Cuts::default() }
    }

    /// Selects among the observations of a session's due batches. The summary covers the session if these are all of
    /// its batches.
    fn choose(
        &self,
        material: &SessionMaterial,
        due: &DueChoice,
    ) -> (SessionChoice, Option<Option<SummaryDraft>>) {
        let among = material.batches.get(..due.among).unwrap_or(&material.batches);
        let SessionDraft { summary, batches: mut drafts } =
            Extractive.draft_session_beside(among, due.extent, &self.announced);
        let summary = (due.among == material.batches.len()).then_some(summary);
        let chosen = due.batches.iter().filter_map(|of| {
            let batch = material.batches.get(of.index)?;
            let mut drafts = std::mem::take(drafts.get_mut(of.index)?);
            lineage::link_to_failed_check(batch, &mut drafts);
            Some(ChosenBatch { of: of.clone(), drafts, source_tokens: source_tokens(batch) })
        });
        let choice = SessionChoice { among: due.among, extent: due.extent, batches: chosen.collect() };
        (choice, summary)
    }

    /// Computes the built-in compressor's result. It may panic on the same input as a model's compressor.
    fn stand_in_for(&self, material: &Material, first_result: FirstResult) -> Option<JobResult> {
        match first_result {
            FirstResult::Given => None,
            FirstResult::Owed => catch_unwind(AssertUnwindSafe(|| self.built_in(material).result)).ok(),
        }
    }
}

/// Derives what a batch's work settled and what it leaves for later work. This is read from the batch itself, so it
/// does not depend on the compressor.
fn of_batch(batch: &BatchMaterial, mut drafts: Vec<ObservationDraft>) -> JobResult {
    lineage::link_to_failed_check(batch, &mut drafts);
    let (settled, traces) = (lineage::settled(batch), fixes::traces(batch));
    JobResult::Observations(BatchResult { drafts, settled, traces, source_tokens: source_tokens(batch) })
}

/// Converts a model's notes to observations of their batches. What this call did not cover is due next.
fn of_notes(material: &NotesMaterial, due: &[DueBatch], notes: SessionNotes) -> JobResult {
    let batches = &material.session.batches;
    let chosen = notes.turns.into_iter().filter_map(|(turn, mut drafts)| {
        let (of, batch) = (due.iter().find(|due| due.index == turn)?, batches.get(turn)?);
        lineage::link_to_failed_check(batch, &mut drafts);
        Some(ChosenBatch { of: of.clone(), drafts, source_tokens: source_tokens(batch) })
    });
    let chosen: Vec<ChosenBatch> = chosen.collect();
    let next = if chosen.len() < due.len() { Next::Notes } else { Next::Nothing };
    let choice = SessionChoice { among: batches.len(), extent: SessionExtent::Whole, batches: chosen };
    JobResult::Session(SessionResult {
        summary: notes.summary,
        choice: Some(choice),
        next,
        ..Default::default()
    })
}
