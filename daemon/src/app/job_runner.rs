//! Runs a compression job on a thread of its own: reads the material, compresses it, and computes a stand-in if that
//! fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::clock;
use super::material::{batch_material, session_material, source_tokens};
use crate::agents::Agents;
use crate::compression::extractive::{Extractive, SessionDraft};
use crate::compression::{CompressionError, Compressor, Cuts, EXTRACTIVE, JobContext, Made};
use crate::memory::fixes;
use crate::memory::lineage;
use crate::memory::material::{BatchMaterial, SessionMaterial};
use crate::memory::observation::{ObservationDraft, SummaryDraft};
use crate::providers::ledger::Ledger;
use crate::store::{
    BatchResult, Capture, Choice, ChosenBatch, DueChoice, FirstResult, JobKind, JobResult, LeasedJob, Lives,
    Readers, SessionResult, StoreError, due_choice,
};

/// All that a job needs.
pub struct JobRunner {
    pub agents: Agents,
    pub readers: Readers,
    pub compressor: Arc<dyn Compressor>,
    pub ledger: Arc<dyn Ledger>,
    pub max_attempts: u32,
}

/// The outcome of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobOutcome {
    Done(JobOutput),
    /// `stand_in`: what is stored meanwhile, if the job has no result yet and one could be computed.
    Failed {
        error: CompressionError,
        stand_in: Option<JobResult>,
    },
    Panicked {
        stand_in: Option<JobResult>,
    },
}

/// A result to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOutput {
    pub result: JobResult,
    pub origin: String,
    pub cuts: Cuts,
}

enum Material {
    Batch(Box<BatchMaterial>),
    Session {
        material: SessionMaterial,
        lives: Lives,
        /// Set if the observations of its batches are to be chosen again.
        due: Option<DueChoice>,
    },
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
            return JobOutcome::Failed { error, stand_in: stand_in(&material, job.first_result) };
        }
        match catch_unwind(AssertUnwindSafe(|| self.compress(&material, job))) {
            Ok(Ok(work)) => JobOutcome::Done(work),
            // Without budget the built-in compressor does the job, and the job is done.
            Ok(Err(CompressionError::Spent(_))) => JobOutcome::Done(built_in(&material)),
            Ok(Err(error)) => JobOutcome::Failed { error, stand_in: stand_in(&material, job.first_result) },
            Err(_) => JobOutcome::Panicked { stand_in: stand_in(&material, job.first_result) },
        }
    }

    /// The stand-in for a job whose thread is lost.
    pub fn stand_in(&self, job: &LeasedJob) -> Option<JobResult> {
        stand_in(&self.material(job).ok()?, job.first_result)
    }

    fn material(&self, job: &LeasedJob) -> Result<Material, StoreError> {
        self.readers.read(|db| match (job.kind, job.batch) {
            (JobKind::Batch, Some(batch)) => {
                Ok(Material::Batch(Box::new(batch_material(db, self.agents, batch)?)))
            }
            // This program writes no batch job without a batch. Such a job is treated as the session's.
            (JobKind::Summary, _) | (JobKind::Batch, None) => {
                // Both are read in one snapshot.
                let snapshot = db.unchecked_transaction()?;
                let due = due_choice(&snapshot, job.session_row, job.lives)?;
                let material = session_material(&snapshot, self.agents, job.session_row)?;
                Ok(Material::Session { material, lives: job.lives, due })
            }
        })
    }

    fn compress(&self, material: &Material, job: &LeasedJob) -> Result<JobOutput, CompressionError> {
        let job_context =
            JobContext { job: job.id, project: job.project, now: clock::now(), ledger: &*self.ledger };
        match material {
            // Months of work would cost too much at once.
            _ if job.capture == Capture::Imported => Ok(built_in(material)),
            Material::Batch(batch) => {
                let Made { result: drafts, origin, cuts } = self.compressor.observe(batch, &job_context)?;
                let result = of_batch(batch, drafts);
                Ok(JobOutput { result, origin, cuts })
            }
            Material::Session { lives: Lives::On, .. } => Ok(built_in(material)),
            Material::Session { .. } if self.compressor.origin() == EXTRACTIVE => Ok(built_in(material)),
            Material::Session { material, lives: Lives::NoLonger, due } => {
                let Made { result: summary, origin, cuts } =
                    self.compressor.summarize(material, &job_context)?;
                let choice = due.as_ref().map(|due| choose(material, due).0);
                Ok(JobOutput { result: JobResult::Session(SessionResult { summary, choice }), origin, cuts })
            }
        }
    }
}

/// What the work of a batch has settled, and what it leaves for later work. This is read from the batch itself, so that
/// it does not depend on the compressor.
fn of_batch(batch: &BatchMaterial, mut drafts: Vec<ObservationDraft>) -> JobResult {
    lineage::link_to_failed_check(batch, &mut drafts);
    let (settled, traces) = (lineage::settled(batch), fixes::traces(batch));
    JobResult::Observations(BatchResult { drafts, settled, traces, source_tokens: source_tokens(batch) })
}

fn built_in(material: &Material) -> JobOutput {
    let result = match material {
        Material::Batch(batch) => of_batch(batch, Extractive.draft(batch)),
        Material::Session { material, due, .. } => {
            let chosen = due.as_ref().map(|due| choose(material, due));
            let (choice, summary) = chosen.unzip();
            let summary = summary.flatten().unwrap_or_else(|| Extractive.sum_up(material));
            JobResult::Session(SessionResult { summary, choice })
        }
    };
    JobOutput { result, origin: EXTRACTIVE.to_owned(), cuts: Cuts::default() }
}

/// Chooses among the observations of a session's batches that are due. The summary is the session's if these are all of
/// its batches.
fn choose(material: &SessionMaterial, due: &DueChoice) -> (Choice, Option<Option<SummaryDraft>>) {
    let SessionDraft { summary, batches: mut drafts } = match material.batches.get(..due.among) {
        Some(first) if due.among < material.batches.len() => {
            Extractive.draft_session(&SessionMaterial { batches: first.to_vec() })
        }
        _ => Extractive.draft_session(material),
    };
    let summary = (due.among == material.batches.len()).then_some(summary);
    let chosen = due.batches.iter().filter_map(|of| {
        let batch = material.batches.get(of.index)?;
        let mut drafts = std::mem::take(drafts.get_mut(of.index)?);
        lineage::link_to_failed_check(batch, &mut drafts);
        Some(ChosenBatch { of: of.clone(), drafts, source_tokens: source_tokens(batch) })
    });
    let choice = Choice { among: due.among, batches: chosen.collect() };
    (choice, summary)
}

/// The built-in compressor's result. It may panic on the same input as a model's compressor.
fn stand_in(material: &Material, first_result: FirstResult) -> Option<JobResult> {
    match first_result {
        FirstResult::Given => None,
        FirstResult::Owed => catch_unwind(AssertUnwindSafe(|| built_in(material).result)).ok(),
    }
}
