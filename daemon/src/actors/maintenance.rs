//! What is done for the database now and then, beside everybody's work: the daily backup, forgetting jobs that were
//! done long ago, and keeping the log beside it short.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::clock;
use super::writer::WriterHandle;
use crate::memory::ids::Timestamp;
use crate::store::{self, BackupError, Readers, Write};

/// So long a done job can be looked up.
const JOBS_KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// How often old jobs are looked for.
const FORGET_EVERY: Duration = Duration::from_secs(60 * 60);
/// A log below this is left to SQLite's own checkpoints, in bytes.
const SHORT_LOG: u64 = 1024 * 1024;

#[derive(Clone)]
pub struct Maintenance {
    pub database: PathBuf,
    pub backups: PathBuf,
    pub readers: Readers,
    pub writer: WriterHandle,
}

impl Maintenance {
    /// One round. `forgot_at`: when old jobs were last looked for; returned anew.
    pub(super) async fn run(self, forgot_at: Option<Instant>) -> Option<Instant> {
        self.back_up().await;
        let forgot_at = match forgot_at {
            Some(at) if at.elapsed() < FORGET_EVERY => Some(at),
            _ => self.forget_done_jobs().await,
        };
        self.shorten_log();
        forgot_at
    }

    async fn back_up(&self) {
        let (readers, folder) = (self.readers.clone(), self.backups.clone());
        let work = tokio::task::spawn_blocking(move || back_up_if_due(&readers, &folder));
        match work.await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(made))) => tracing::info!(backup = %made.display(), "the database is backed up"),
            Ok(Err(error)) => tracing::error!(%error, "the database is not backed up"),
            Err(_) => tracing::error!("backing the database up panicked"),
        }
    }

    async fn forget_done_jobs(&self) -> Option<Instant> {
        let before = Timestamp(clock::now().0.saturating_sub(JOBS_KEPT_MS));
        match self.writer.write(Write::ForgetDoneJobs { before }).await {
            Ok(_) => Some(Instant::now()),
            Err(error) => {
                tracing::warn!(%error, "old jobs are not forgotten");
                None
            }
        }
    }

    fn shorten_log(&self) {
        let mut log = self.database.clone().into_os_string();
        log.push("-wal");
        if std::fs::metadata(log).is_ok_and(|log| log.len() >= SHORT_LOG) {
            self.writer.empty_log();
        }
    }
}

fn back_up_if_due(readers: &Readers, folder: &Path) -> Result<Option<PathBuf>, BackupError> {
    if !store::daily_backup_is_due(folder, SystemTime::now()) {
        return Ok(None);
    }
    let made = readers.read(|db| Ok(store::back_up_daily(db, folder, clock::now())))?;
    if let Err(BackupError::Source(error)) = &made {
        readers.suspect(error);
    }
    made
}
