//! Notes of sessions that a model writes anew: which, for how much, and how far that is.

use serde::{Deserialize, Serialize};

use super::Moment;
use recall_store::{ImprovableSession, JobProgress};

/// `improve --dry-run`: what would be asked.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImprovableAnswer {
    /// Who would be asked, as an observation's origin names it.
    pub backend: String,
    /// The latest first, which is the order of the work.
    pub sessions: Vec<ImprovableLine>,
    /// Sessions beyond the limit.
    pub more: u64,
    /// About so much, if each call is answered well.
    pub calls: u64,
    pub tokens: u64,
    /// Null: the model's price is not set.
    pub usd: Option<f64>,
    pub today: SpentToday,
    /// Jobs that are queued already, and whose sessions are not among these.
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

/// What models have cost today, and the caps. 0: no cap.
#[derive(Debug, Serialize, Deserialize)]
pub struct SpentToday {
    pub tokens: u64,
    pub tokens_per_day: u64,
    pub usd: f64,
    pub usd_per_day: f64,
}

/// What was queued.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImproveAnswer {
    pub jobs: Vec<i64>,
}

/// `improve`: how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImprovingAnswer {
    pub done: u64,
    pub running: u64,
    pub waiting: u64,
    /// They were given up.
    pub dead: u64,
    /// In how many milliseconds the first of those that wait is tried; null: at once, or none waits.
    pub next_try_in_ms: Option<i64>,
    /// Why the last of those that were tried has no result.
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
