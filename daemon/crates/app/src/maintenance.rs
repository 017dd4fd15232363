//! Regular maintenance of the database: the daily backup, deleting old jobs, forgetting expired sessions, and moving
//! the write-ahead log into the database.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::clock;
use super::clock_watch::ClockWatch;
use super::forgetting::{Forgetting, Request};
use super::ports::{Ports, Writer};
use recall_domain::ids::Timestamp;
use recall_domain::wall_clock::Trust;
use recall_store::{BackupError, DeleteDoneJobs, Readers, Selection, Unreadable};

/// How long a finished job is kept.
const JOBS_KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// How often old jobs are deleted.
const FORGET_EVERY: Duration = Duration::from_secs(60 * 60);
/// How often expired sessions are forgotten. Each time, the copies of the database are renewed.
const EXPIRE_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// A log shorter than this, in bytes, is left to SQLite's own checkpoints.
const SHORT_LOG: u64 = 1024 * 1024;

#[derive(Clone)]
pub struct Maintenance<P> {
    pub database: PathBuf,
    pub backups: PathBuf,
    pub readers: Readers,
    pub forgetting: Forgetting<P>,
    /// Sessions whose last event is older are forgotten; 0 means never.
    pub retention_days: u32,
    pub clock: ClockWatch,
}

/// When each task was last done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastDone {
    jobs: Option<Instant>,
    sessions: Option<Instant>,
    /// The modification time of the log that was last moved into the database.
    log: Option<SystemTime>,
}

impl<P: Ports> Maintenance<P> {
    /// Performs one round. Returns when each task was last done.
    pub async fn run(self, last: LastDone) -> LastDone {
        self.forgetting.finish_or_retry().await;
        let watch = self.clock.clone();
        let clock = tokio::task::spawn_blocking(move || watch.look()).await;
        self.back_up().await;
        let jobs = match last.jobs {
            Some(at) if at.elapsed() < FORGET_EVERY => Some(at),
            _ => self.forget_done_jobs().await,
        };
        let sessions = match last.sessions {
            Some(at) if at.elapsed() < EXPIRE_EVERY => Some(at),
            _ if !matches!(clock, Ok(Trust::Believed)) => None,
            _ => self.forget_expired_sessions().await,
        };
        let log = self.restart_log(last.log);
        LastDone { jobs, sessions, log }
    }

    async fn back_up(&self) {
        let _alone = self.forgetting.backing_up.lock().await;
        let (readers, folder) = (self.readers.clone(), self.backups.clone());
        let work = tokio::task::spawn_blocking(move || back_up_if_due(&readers, &folder));
        match work.await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(made))) => tracing::info!(backup = %made.display(), "backed up the database"),
            Ok(Err(error)) => tracing::error!(%error, "cannot back up the database"),
            Err(_) => tracing::error!("the backup of the database panicked"),
        }
    }

    async fn forget_done_jobs(&self) -> Option<Instant> {
        let before = Timestamp(clock::now().0.saturating_sub(JOBS_KEPT_MS));
        let readers = self.readers.clone();
        let found = tokio::task::spawn_blocking(move || readers.read(|db| db.has_done_jobs(before))).await;
        if matches!(found, Ok(Ok(false))) {
            return Some(Instant::now());
        }
        match self.forgetting.ports.writer().write(DeleteDoneJobs { before }).await {
            Ok(_) => Some(Instant::now()),
            Err(error) => {
                tracing::warn!(%error, "cannot delete old jobs");
                None
            }
        }
    }

    async fn forget_expired_sessions(&self) -> Option<Instant> {
        let kept_ms = i64::from(self.retention_days) * 24 * 60 * 60 * 1000;
        if kept_ms == 0 {
            return Some(Instant::now());
        }
        let expired = Selection::SilentSince(Timestamp(clock::now().0.saturating_sub(kept_ms)));
        let (readers, looked_for) = (self.readers.clone(), expired.clone());
        let found =
            tokio::task::spawn_blocking(move || readers.read(|db| db.find_rows_to_forget(&looked_for))).await;
        match found {
            Ok(Ok(to_forget)) if to_forget.counts().sessions == 0 => return Some(Instant::now()),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot look for expired sessions");
                return None;
            }
            Err(_) => return None,
        }
        match self.forgetting.forget(Request { what: expired, unreadable: Unreadable::Stays }).await {
            Ok(_) => Some(Instant::now()),
            Err(error) => {
                tracing::warn!(%error, "cannot forget expired sessions");
                None
            }
        }
    }

    /// Moves a long log into the database if it was written since the last time. Returns its modification time.
    fn restart_log(&self, last: Option<SystemTime>) -> Option<SystemTime> {
        let mut log = self.database.clone().into_os_string();
        log.push("-wal");
        let log = std::fs::metadata(log).ok()?;
        let written = log.modified().ok();
        if log.len() >= SHORT_LOG && written != last {
            self.forgetting.ports.writer().restart_log();
        }
        written
    }
}

fn back_up_if_due(readers: &Readers, folder: &Path) -> Result<Option<PathBuf>, BackupError> {
    if !recall_store::daily_backup_is_due(folder, SystemTime::now()) {
        return Ok(None);
    }
    let made = readers.read(|db| Ok(db.back_up_daily(folder, clock::now())))?;
    if let Err(BackupError::Source(error)) = &made {
        readers.suspect(error);
    }
    made
}
