//! Notes of sessions that a model rewrites: which ones, at what cost, and the progress.

use serde::{Deserialize, Serialize};

use super::Moment;
use recall_store::{ImprovableSession, JobProgress};

/// `improve --dry-run`: what would be requested.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImprovableAnswer {
    /// The model that would be asked, named as in an observation's origin.
    pub backend: String,
    /// Latest first, which is the order of the work.
    pub sessions: Vec<ImprovableLine>,
    /// Sessions beyond the limit.
    pub more: u64,
    /// The approximate number of calls, if each succeeds.
    pub calls: u64,
    pub tokens: u64,
    /// Null if the model's price is not set.
    pub usd: Option<f64>,
    pub today: SpentToday,
    /// Jobs that are already queued, for sessions other than these.
    pub under_way: Vec<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ImprovableLine {
    pub row: i64,
    pub session_id: String,
    pub agent: String,
    pub project: String,
    pub title: Option<String>,
    pub at: Moment,
}

impl From<ImprovableSession> for ImprovableLine {
    fn from(session: ImprovableSession) -> Self {
        let ImprovableSession { row, id, agent, project, title, at } = session;
        Self { row: row.0, session_id: id.0, agent, project, title, at: Moment(at) }
    }
}

/// The cost of models today, and the caps. 0 means no cap.
#[derive(Debug, Serialize, Deserialize)]
pub struct SpentToday {
    pub tokens: u64,
    pub tokens_per_day: u64,
    pub usd: f64,
    pub usd_per_day: f64,
}

/// The queued jobs.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImproveAnswer {
    pub jobs: Vec<i64>,
}

/// `improve`: the progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImprovingAnswer {
    pub done: u64,
    pub running: u64,
    pub waiting: u64,
    /// Jobs that were given up.
    pub dead: u64,
    /// In how many milliseconds the first waiting job is tried; null if at once, or if none is waiting.
    pub next_try_in_ms: Option<i64>,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

impl ImprovingAnswer {
    pub fn of(asked: u64, progress: JobProgress, now_ms: i64) -> Self {
        let JobProgress { waiting, running, dead, next_try, error } = progress;
        let next_try_in_ms = next_try.map(|at| at.0 - now_ms).filter(|left| *left > 0);
        let done = asked.saturating_sub(waiting + running + dead);
        Self { done, running, waiting, dead, next_try_in_ms, error }
    }
}
