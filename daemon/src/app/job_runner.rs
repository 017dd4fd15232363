//! What a compressor does with a job, on a thread of its own: reads the material, compresses it, and makes what stands
//! in where that fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::clock;
use super::material::{batch_material, session_material, source_tokens};
use crate::compression::extractive::Extractive;
use crate::compression::ledger::Ledger;
use crate::compression::{CompressionError, Compressor, Cuts, EXTRACTIVE, JobContext, Made};
use crate::memory::fixes;
use crate::memory::lineage;
use crate::memory::material::{BatchMaterial, SessionMaterial};
use crate::memory::observation::ObservationDraft;
use crate::store::{BatchResult, FirstResult, JobKind, JobResult, LeasedJob, Lives, Readers, StoreError};

/// All that a job needs.
pub struct JobRunner {
    pub readers: Readers,
    pub compressor: Arc<dyn Compressor>,
    pub ledger: Arc<dyn Ledger>,
    pub max_attempts: u32,
}

/// How a job went.
#[derive(Clone, Debug, PartialEq)]
pub enum JobOutcome {
    Done(JobOutput),
    /// `stand_in`: what is stored meanwhile, where a first result was owed and could be made.
    Failed {
        error: CompressionError,
        stand_in: Option<JobResult>,
    },
    Panicked {
        stand_in: Option<JobResult>,
    },
}

/// A result on its way to the store.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOutput {
    pub result: JobResult,
    pub origin: String,
    pub cuts: Cuts,
}

enum Material {
    Batch(BatchMaterial),
    Session { told: SessionMaterial, lives: Lives },
}

impl JobRunner {
    /// Does the job. Blocks; never panics.
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
            // Whoever took it before did not live to say what was wrong.
            let error = CompressionError::Refused("it ended the daemon each time it was tried".to_owned());
            return JobOutcome::Failed { error, stand_in: stand_in(&material, job.first_result) };
        }
        match catch_unwind(AssertUnwindSafe(|| self.compress(&material, job))) {
            Ok(Ok(work)) => JobOutcome::Done(work),
            // What the user's budget does not buy is done without it, and that is the job's end.
            Ok(Err(CompressionError::Spent(_))) => JobOutcome::Done(built_in(&material)),
            Ok(Err(error)) => JobOutcome::Failed { error, stand_in: stand_in(&material, job.first_result) },
            Err(_) => JobOutcome::Panicked { stand_in: stand_in(&material, job.first_result) },
        }
    }

    /// What stands in for a job whose thread is lost.
    pub fn stand_in(&self, job: &LeasedJob) -> Option<JobResult> {
        stand_in(&self.material(job).ok()?, job.first_result)
    }

    fn material(&self, job: &LeasedJob) -> Result<Material, StoreError> {
        self.readers.read(|db| match (job.kind, job.batch) {
            (JobKind::Batch, Some(batch)) => Ok(Material::Batch(batch_material(db, batch)?)),
            // A batch's job without a batch is none that this program writes; the session is all there is.
            (JobKind::Summary, _) | (JobKind::Batch, None) => {
                Ok(Material::Session { told: session_material(db, job.session_row)?, lives: job.lives })
            }
        })
    }

    fn compress(&self, material: &Material, job: &LeasedJob) -> Result<JobOutput, CompressionError> {
        let job_context =
            JobContext { job: job.id, project: job.project, now: clock::now(), ledger: &*self.ledger };
        match material {
            Material::Batch(batch) => {
                let Made { result: drafts, origin, cuts } = self.compressor.observe(batch, &job_context)?;
                let result = of_batch(batch, drafts);
                Ok(JobOutput { result, origin, cuts })
            }
            Material::Session { lives: Lives::On, .. } => Ok(built_in(material)),
            Material::Session { told, lives: Lives::NoLonger } => {
                let Made { result, origin, cuts } = self.compressor.summarize(told, &job_context)?;
                Ok(JobOutput { result: JobResult::Summary(result), origin, cuts })
            }
        }
    }
}

/// What the work of a batch has settled, and what it leaves for later work to go on from, is read from the batch itself,
/// so that it is the same whoever compressed it.
fn of_batch(batch: &BatchMaterial, mut drafts: Vec<ObservationDraft>) -> JobResult {
    lineage::link_to_failed_check(batch, &mut drafts);
    let (settled, traces) = (lineage::settled(batch), fixes::traces(batch));
    JobResult::Observations(BatchResult { drafts, settled, traces, source_tokens: source_tokens(batch) })
}

fn built_in(material: &Material) -> JobOutput {
    let result = match material {
        Material::Batch(batch) => of_batch(batch, Extractive.draft(batch)),
        Material::Session { told, .. } => JobResult::Summary(Extractive.sum_up(told)),
    };
    JobOutput { result, origin: EXTRACTIVE.to_owned(), cuts: Cuts::default() }
}

/// The built-in compressor's result. What makes a model's compressor panic may do the same to this one.
fn stand_in(material: &Material, first_result: FirstResult) -> Option<JobResult> {
    match first_result {
        FirstResult::Given => None,
        FirstResult::Owed => catch_unwind(AssertUnwindSafe(|| built_in(material).result)).ok(),
    }
}
