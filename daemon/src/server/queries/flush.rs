//! `recall ctl flush`: returns once everything accepted before it is stored, compressed once and searchable by words
//! and, with a sentence model, by meaning.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recall_protocol::wire::ErrorKind;
use tokio::time::{Instant, timeout};

use crate::actors::embedder::EmbedderMessage;
use crate::actors::housekeeper_message::HousekeeperMessage;
use crate::actors::indexer::IndexerMessage;
use crate::actors::services::Services;
use recall_app::answers::status::FlushAnswer;
use recall_app::ports::{Drained, NoAnswer};
use recall_app::queries::Refused;
use recall_app::settings::CheckMode;
use recall_system::holding;

/// The time limit for everything but the index. A sleeping machine or a hanging model must not block a script forever.
const WITHIN: Duration = Duration::from_secs(300);
/// The time limit for the whole flush. Indexing a large import takes minutes on a busy machine, but it ends.
const INDEXED_WITHIN: Duration = Duration::from_secs(900);
/// A failing writer restarts within this time, even if the database must be repaired first.
const RESTARTED_WITHIN: Duration = Duration::from_secs(30);
/// A spool file that cannot be read at first becomes readable within this time, or never.
const SPOOL_WITHIN: Duration = Duration::from_secs(2);
/// How often to check for finished jobs, in case an event on the bus was missed.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The pause between two checks of another process's index lock, and the number of checks.
const LOOK_AT_LOCKS: Duration = Duration::from_secs(1);
const LOOKS: u32 = 5;
const INDEX_LOCKS: [&str; 2] = [".tantivy-meta.lock", ".tantivy-writer.lock"];

/// Why a flush did not return in time.
#[derive(Debug, thiserror::Error)]
pub enum FlushError {
    #[error("part of the daemon is not responding")]
    NoAnswer(#[from] NoAnswer),
    #[error("the events in the spool are still being stored")]
    StillDraining,
    #[error("{0} compression jobs are still unfinished")]
    StillWorking(i64),
    #[error("the search index does not contain everything yet")]
    StillIndexing,
    #[error("{who} holds the lock {} of the search index", path.display())]
    IndexLocked { path: PathBuf, who: LockHolder },
    #[error("the database is not responding: {0}")]
    Store(#[from] recall_store::StoreError),
}

/// The holder of a lock, if the system reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder(Option<u32>);

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("another process"),
        }
    }
}

impl From<FlushError> for Refused {
    fn from(error: FlushError) -> Self {
        let kind = match &error {
            FlushError::NoAnswer(_) => ErrorKind::Unavailable,
            FlushError::StillDraining
            | FlushError::StillWorking(_)
            | FlushError::StillIndexing
            | FlushError::IndexLocked { .. } => ErrorKind::Busy,
            FlushError::Store(_) => ErrorKind::Internal,
        };
        let what = format!("Not everything is done: {error}");
        let hint = match &error {
            FlushError::IndexLocked { who: LockHolder(Some(pid)), .. } => {
                format!(
                    "`ps -p {pid}` shows what it is. Everything is stored; recall continues once the lock is free."
                )
            }
            FlushError::IndexLocked { path, .. } => {
                format!(
                    "`fuser {}` names it. Everything is stored; recall continues once the lock is free.",
                    path.display()
                )
            }
            FlushError::StillIndexing => {
                "Everything is stored, and recall continues to index it. Run `recall ctl flush` again."
                    .to_owned()
            }
            _ => "See `recall ctl status` and `recall ctl jobs`.".to_owned(),
        };
        Self::new(kind, what, hint)
    }
}

/// # Errors
/// Fails when part of the daemon does not respond, or work is unfinished after five minutes, or the index is after 15.
pub async fn flush(services: &Services) -> Result<FlushAnswer, FlushError> {
    let started = Instant::now();
    // A client that changed the configuration may rely on it after a flush.
    let settings = services.ingest.settings.clone();
    let _ = tokio::task::spawn_blocking(move || settings.check(CheckMode::Now)).await;
    services.config.settle().await;
    let drained = store_everything(services, started + RESTARTED_WITHIN).await?;
    // Checkout lookups that time out are skipped.
    services.checkouts.settle().await;
    services.answers.settle().await;
    wait_for_jobs(services, started + WITHIN).await?;
    wait_for_index(services, started).await?;
    // A failing model must not block a script, and a restarting embedder is not awaited.
    let left = (started + WITHIN).saturating_duration_since(Instant::now());
    let _ = services.embedder.ask(EmbedderMessage::Flush, left).await;
    let readers = services.readers.clone();
    let open = tokio::task::spawn_blocking(move || readers.read(|db| db.open_jobs()));
    Ok(FlushAnswer {
        jobs: open.await.map_err(|_| NoAnswer)??.into(),
        spooled_stored: drained.stored,
        spooled_left: drained.left,
        took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// Empties the spool and waits for the commits. Repeats if the writer was replaced, because its uncommitted events
/// were spooled, and for a while if a spool file could not be read.
async fn store_everything(services: &Services, deadline: Instant) -> Result<Drained, FlushError> {
    let spool_deadline = Instant::now() + SPOOL_WITHIN;
    let mut all = Drained::default();
    loop {
        let drain = services.ports.housekeeper.ask(HousekeeperMessage::Drain, WITHIN).await;
        let drained = drain.map_err(|NoAnswer| FlushError::StillDraining)?;
        all.stored += drained.stored;
        all.bad += drained.bad;
        all.left = drained.left;
        match services.ports.writer.settle().await {
            Ok(()) if drained.left == 0 || Instant::now() >= spool_deadline => return Ok(all),
            Err(NoAnswer) if Instant::now() >= deadline => return Err(NoAnswer.into()),
            Ok(()) | Err(NoAnswer) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

/// Waits until the index contains everything, even if it is rebuilt several times.
async fn wait_for_index(services: &Services, started: Instant) -> Result<(), FlushError> {
    let ask = |left| services.ports.indexer.ask(IndexerMessage::Flush, left);
    tokio::select! {
        flushed = flush_index(started, ask) => flushed,
        locked = index_stays_locked(&services.index_folder) => Err(locked),
    }
}

async fn flush_index<F>(started: Instant, ask: impl Fn(Duration) -> F) -> Result<(), FlushError>
where
    F: Future<Output = Result<(), NoAnswer>>,
{
    loop {
        let left = (started + INDEXED_WITHIN).saturating_duration_since(Instant::now());
        if ask(left).await.is_ok() {
            return Ok(());
        }
        match started.elapsed() {
            elapsed if elapsed >= INDEXED_WITHIN => return Err(FlushError::StillIndexing),
            // The indexer failed and did not restart.
            elapsed if elapsed >= WITHIN => return Err(NoAnswer.into()),
            _ => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

/// Returns once another process has held a lock of the index at several consecutive checks: it may never release it.
async fn index_stays_locked(folder: &Path) -> FlushError {
    let mut looks = 0;
    loop {
        tokio::time::sleep(LOOK_AT_LOCKS).await;
        let locks = INDEX_LOCKS.map(|name| folder.join(name));
        let look = || locks.into_iter().find_map(|path| Some((holding::locked_by_another(&path)?, path)));
        match tokio::task::spawn_blocking(look).await {
            Ok(Some((holder, path))) if looks == LOOKS => {
                return FlushError::IndexLocked { path, who: LockHolder(holder) };
            }
            Ok(Some(_)) => looks += 1,
            Ok(None) | Err(_) => looks = 0,
        }
    }
}

/// Waits until every job has its first result. Retries of failed jobs are not awaited.
async fn wait_for_jobs(services: &Services, deadline: Instant) -> Result<(), FlushError> {
    let mut bus_events = services.bus.listen();
    loop {
        let readers = services.readers.clone();
        let counted = tokio::task::spawn_blocking(move || readers.read(|db| db.unfinished_jobs())).await;
        let unfinished = counted.map_err(|_| NoAnswer)??;
        if unfinished == 0 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(FlushError::StillWorking(unfinished));
        }
        // Any event, or a timeout, leads to the next check.
        let _ = timeout(LOOK_AGAIN, bus_events.recv()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_index_being_filled_gets_more_time_than_a_failed_one() {
        let takes = |minutes: u64| {
            move |left| async move {
                let work = tokio::time::sleep(Duration::from_secs(minutes * 60));
                timeout(left, work).await.map_err(|_| NoAnswer)
            }
        };
        assert!(flush_index(Instant::now(), takes(14)).await.is_ok());
        let started = Instant::now();
        let error = flush_index(started, takes(60)).await.unwrap_err();
        assert!(matches!(error, FlushError::StillIndexing) && started.elapsed() == INDEXED_WITHIN, "{error}");
        let started = Instant::now();
        let error = flush_index(started, async |_: Duration| Err(NoAnswer)).await.unwrap_err();
        assert!(
            matches!(error, FlushError::NoAnswer(_)) && started.elapsed() <= WITHIN + LOOK_AGAIN,
            "{error}"
        );
    }
}
