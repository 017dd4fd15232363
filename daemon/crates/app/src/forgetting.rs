//! Forgetting: removes rows, and their text from all other places.
//!
//! The rows go first, in one commit. From then on they are neither found nor injected, and no write in flight brings
//! them back. Then the copies are cleaned: the spool, the index, the vector files, the free pages of the database, its
//! backups, and damaged databases that were set aside. Events in the spool are stored before the preview is shown.
//! Unreadable spool files are counted; they are removed if they name a matching session or the user requests it.
//! Backups and damaged files cannot be cleaned row by row, so they are removed and a new backup is made. A place that
//! could not be cleaned is reported, and retried within seconds and then in each round of the housekeeper.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use recall_protocol::boot::BootStamp;
use recall_protocol::spool::{Remains, RemainsState, Spool};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::clock;
use super::ports::{Ports, WriteFailed, Writer};
use super::sentences::Sentences;
use super::vector_files::MakeError;
use recall_domain::ids::{SessionKey, Timestamp};
use recall_domain::order::Order;
use recall_store::{
    Criteria, DropVectorFiles, Forget, Forgotten, Readers, Selection, TracesRemoved, Unreadable,
    has_all_words,
};
use recall_system::faults::{self, Point};

/// If draining takes longer, the remaining spool files are examined as they are.
const DRAINED_WITHIN: Duration = Duration::from_secs(60);
/// The minimum age of a spool file that counts as one that cannot be stored. A newer file may only be waiting.
const STORED_WITHIN: Duration = Duration::from_secs(2);
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// The pauses before retries of a failed cleanup. The obstacle is often temporary: a long reader, a full disk. After
/// these retries the housekeeper tries in each of its rounds.
const FINISH_AFTER: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
];
/// If flushing the index takes longer, something is wrong with the index.
const PURGED_WITHIN: Duration = Duration::from_secs(120);

/// Removes data from the store, the index, the spool and the backups. Cheap to clone.
#[derive(Clone)]
pub struct Forgetting<P> {
    pub ports: P,
    pub readers: Readers,
    pub spool: Spool,
    pub database: PathBuf,
    pub backups: PathBuf,
    pub backing_up: BackingUp,
    pub sentences: Sentences,
}

/// Locked while copies of the database are made or removed, so that a copy begun before a forgetting is not finished
/// after it.
pub type BackingUp = Arc<Mutex<()>>;

/// Why something was not forgotten, or not everywhere.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    #[error("nothing was removed: {0}")]
    NotForgotten(#[from] WriteFailed),
    #[error("the events in the spool are still being stored")]
    StillDraining,
    #[error("the spool cannot be read: {0}")]
    Spool(#[from] std::io::Error),
    #[error("removed, but traces may remain in {}", .0.join(" and "))]
    TracesLeft(Vec<String>),
}

/// Why vector files may remain.
#[derive(Debug, thiserror::Error)]
enum VectorsLeft {
    #[error(transparent)]
    Write(#[from] WriteFailed),
    #[error(transparent)]
    Files(#[from] MakeError),
    #[error("the thread that removes them panicked")]
    Panicked,
}

/// The items to forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub what: Selection,
    pub unreadable: Unreadable,
}

/// Counts of spool files by what happens to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolFiles {
    /// Unreadable files to be removed.
    pub meant: u64,
    /// Unreadable files of unknown sessions.
    pub damaged: u64,
    pub(crate) other_version: u64,
    /// Files with events that cannot be stored now.
    pub waiting: u64,
}

impl<P: Ports> Forgetting<P> {
    /// Stores the events in the spool, because only stored events can be matched. Fails if it takes too long.
    pub(crate) async fn store_spooled_events(&self) -> Result<(), ForgetError> {
        let deadline = Instant::now() + STORED_WITHIN;
        loop {
            let drain = self.ports.drain_spool(DRAINED_WITHIN).await;
            let drained = drain.map_err(|_| ForgetError::StillDraining)?;
            let waiting = drained.left.saturating_sub(drained.other_version);
            if waiting == 0 || Instant::now() >= deadline {
                return Ok(());
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// Compares the files in the spool with the selection. Events that came after `now` are ignored. Fails if the
    /// spool cannot be read.
    pub fn spool_files(
        &self,
        request: &Request,
        sessions: &[SessionKey],
        now: Timestamp,
    ) -> std::io::Result<SpoolFiles> {
        let meant = SpoolSelection::new(request.clone(), sessions);
        let mut files = SpoolFiles::default();
        self.spool.look_through(|remains| {
            let spans = request.what.spans(Timestamp(remains.at_ms));
            match remains.state {
                RemainsState::Waiting if remains.at_ms < now.0 && spans => files.waiting += 1,
                RemainsState::Waiting | RemainsState::Unfinished => {}
                _ if meant.is_meant(remains) => files.meant += 1,
                RemainsState::Damaged if spans => files.damaged += 1,
                RemainsState::OtherVersion if spans => files.other_version += 1,
                RemainsState::Damaged | RemainsState::OtherVersion => {}
            }
        })?;
        Ok(files)
    }

    /// Forgets, and waits until every place is clean. Fails if the database refuses, or if a place could not be
    /// cleaned.
    pub async fn forget(&self, request: Request) -> Result<Forgotten, ForgetError> {
        let _alone = self.backing_up.lock().await;
        // Events in the spool are stored first, so that they are removed too.
        if self.ports.drain_spool(DRAINED_WITHIN).await.is_err() {
            tracing::warn!("cannot drain the spool before forgetting");
        }
        let Request { what, unreadable } = request.clone();
        let forgotten = self.ports.writer().write(Forget { what, unreadable, at: now() }).await?;
        self.ports.reload(forgotten.touched.clone());
        tracing::info!(counts = ?forgotten.counts, "forgotten");
        if let Err(error) = self.clean(Some(request), forgotten.sessions.clone()).await {
            self.finish_soon();
            return Err(error);
        }
        Ok(forgotten)
    }

    /// Forgets the rows, and cleans the other places afterwards. For callers that cannot wait.
    ///
    /// # Errors
    /// The database refuses; nothing was removed.
    pub(crate) async fn forget_rows(&self, request: Request) -> Result<(), WriteFailed> {
        let Request { what, unreadable } = request.clone();
        let forgotten = self.ports.writer().write(Forget { what, unreadable, at: now() }).await?;
        self.ports.reload(forgotten.touched);
        tracing::info!(counts = ?forgotten.counts, "forgotten");
        let this = self.clone();
        tokio::spawn(async move {
            let _alone = this.backing_up.lock().await;
            if let Err(error) = this.clean(Some(request), forgotten.sessions).await {
                tracing::error!(%error, "cannot finish forgetting");
                this.finish_soon();
            }
        });
        Ok(())
    }

    /// Finishes an incomplete cleanup, even one of an earlier daemon. A place that cannot be cleaned is retried soon.
    pub(crate) async fn finish_or_retry(&self) {
        if let Err(error) = self.finish().await {
            tracing::error!(%error, "cannot finish forgetting");
            self.finish_soon();
        }
    }

    fn finish_soon(&self) {
        let this = self.clone();
        tokio::spawn(async move {
            for pause in FINISH_AFTER {
                tokio::time::sleep(pause).await;
                match this.finish().await {
                    Ok(()) => return,
                    Err(error) => tracing::error!(%error, "cannot finish forgetting"),
                }
            }
        });
    }

    /// Finishes an incomplete cleanup. Fails if a place cannot be cleaned.
    async fn finish(&self) -> Result<(), ForgetError> {
        let _alone = self.backing_up.lock().await;
        let readers = self.readers.clone();
        let left = tokio::task::spawn_blocking(move || readers.read(|db| db.traces_left())).await;
        if !matches!(left, Ok(Ok(true))) {
            return Ok(());
        }
        tracing::warn!("finishing an interrupted cleanup after forgetting");
        self.clean(None, Vec::new()).await
    }

    /// Cleans every place. Without a request the selection is no longer known, and the spool is left unchanged.
    async fn clean(&self, request: Option<Request>, sessions: Vec<SessionKey>) -> Result<(), ForgetError> {
        let mut left = Vec::new();
        if let Some(request) = request
            && !self.clean_spool(request, sessions).await
        {
            left.push("the spool".to_owned());
        }
        if let Err(error) = self.ports.purge_index(PURGED_WITHIN).await {
            tracing::error!(%error, "the index may contain forgotten data");
            left.push("the index".to_owned());
        }
        if let Err(error) = self.clean_vectors().await {
            tracing::error!(%error, "vector files may contain forgotten data");
            left.push("the vector files".to_owned());
        }
        if let Err(error) = self.ports.writer().rewrite().await {
            tracing::error!(%error, "free pages of the database may contain forgotten data");
            left.push("free pages of the database".to_owned());
        }
        if let Err(why) = self.clean_copies().await {
            tracing::error!(%why, "backups may contain forgotten data");
            left.push(format!("backups ({why})"));
        }
        if !left.is_empty() {
            return Err(ForgetError::TracesLeft(left));
        }
        self.ports.writer().write(TracesRemoved).await?;
        Ok(())
    }

    /// Removes the files that may contain vectors of the removed rows. They are recreated from the remaining rows.
    async fn clean_vectors(&self) -> Result<(), VectorsLeft> {
        let _alone = self.sentences.files.alone().await;
        self.ports.writer().write(DropVectorFiles::WithGone).await?;
        faults::reach(Point::VectorFilesDropped);
        self.sentences.drop_kept();
        let (readers, files) = (self.readers.clone(), self.sentences.files.clone());
        tokio::task::spawn_blocking(move || files.sweep(&readers))
            .await
            .map_err(|_| VectorsLeft::Panicked)??;
        Ok(())
    }

    async fn clean_spool(&self, request: Request, sessions: Vec<SessionKey>) -> bool {
        let spool = self.spool.clone();
        let work = tokio::task::spawn_blocking(move || {
            let meant = SpoolSelection::new(request, &sessions);
            spool.purge(|remains| meant.is_meant(remains))
        });
        match work.await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                tracing::error!(%error, "the spool may contain forgotten data");
                false
            }
            Err(_) => false,
        }
    }

    /// Removes the copies of the database. The error names the file that prevents it.
    async fn clean_copies(&self) -> Result<(), String> {
        let (readers, backups, database) =
            (self.readers.clone(), self.backups.clone(), self.database.clone());
        let work = tokio::task::spawn_blocking(move || {
            let renewed = readers.read(|db| Ok(db.renew_backups(&backups, clock::now())));
            let removed = recall_store::remove_damaged(&database);
            match renewed {
                Ok(Ok(())) => removed.map_err(|error| error.to_string()),
                Ok(Err(error)) => Err(recall_store::in_full(&error)),
                Err(error) => Err(error.to_string()),
            }
        });
        work.await.unwrap_or_else(|_| Err("the thread that removes them panicked".to_owned()))
    }
}

fn now() -> Order {
    let BootStamp { boot_id, boot_ns } = BootStamp::now();
    Order { boot: boot_id, boot_ns, wall: clock::now() }
}

/// Selects the spool files to remove. They contain the agent's JSON in a complete or truncated frame.
struct SpoolSelection {
    /// Session ids as written in JSON.
    sessions: Vec<Vec<u8>>,
    request: Request,
}

impl SpoolSelection {
    fn new(request: Request, sessions: &[SessionKey]) -> Self {
        let quoted = |key: &SessionKey| serde_json::to_vec(key.id.as_str()).unwrap_or_default();
        Self { sessions: sessions.iter().map(quoted).collect(), request }
    }

    fn is_meant(&self, remains: &Remains<'_>) -> bool {
        let contains = |part: &Vec<u8>| remains.bytes.windows(part.len().max(1)).any(|window| window == part);
        self.sessions.iter().any(contains) || self.fits_criteria(remains) || self.is_unwanted(remains)
    }

    /// Whether to remove a spool file: an unreadable one if the user requested it, but never one that is only waiting,
    /// which is an event that somebody needs.
    fn is_unwanted(&self, remains: &Remains<'_>) -> bool {
        self.request.unreadable == Unreadable::Goes
            && matches!(remains.state, RemainsState::Damaged | RemainsState::OtherVersion)
            && self.request.what.spans(Timestamp(remains.at_ms))
    }

    fn fits_criteria(&self, remains: &Remains<'_>) -> bool {
        let Selection::Matching(Criteria { projects, since, until, words }) = &self.request.what else {
            return false;
        };
        let narrows = !words.is_empty() || (projects.is_none() && (since.is_some() || until.is_some()));
        narrows
            && self.request.what.spans(Timestamp(remains.at_ms))
            && (words.is_empty() || has_all_words(&String::from_utf8_lossy(remains.bytes), words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_domain::ids::{AgentName, ProjectRow, SessionId, SessionRow};

    fn is_meant(
        (what, unreadable): (Selection, Unreadable),
        sessions: &[&str],
        (bytes, state): (&str, RemainsState),
    ) -> bool {
        let keys: Vec<SessionKey> = sessions
            .iter()
            .map(|id| SessionKey { agent: AgentName::from("claude-code"), id: SessionId::from(*id) })
            .collect();
        let remains = Remains { bytes: bytes.as_bytes(), at_ms: 100, state };
        SpoolSelection::new(Request { what, unreadable }, &keys).is_meant(&remains)
    }

    #[track_caller]
    fn check(criteria: Criteria, sessions: &[&str], bytes: &str, expected: bool) {
        let asked = (Selection::Matching(criteria), Unreadable::Stays);
        assert_eq!(is_meant(asked, sessions, (bytes, RemainsState::Damaged)), expected, "{bytes}");
    }

    #[test]
    fn damaged_spool_files_are_matched_by_session_words_or_time() {
        let words = |text: &str| Criteria { words: vec![text.to_owned()], ..Criteria::default() };
        check(Criteria::default(), &["s1"], r#"{"session_id":"s1"}"#, true);
        check(Criteria::default(), &["s1"], r#"{"session_id":"s12"}"#, false);
        check(Criteria::default(), &[], "anything", false);
        check(words("Canary"), &[], "a canary sings", true);
        check(words("canary"), &[], "a bird sings", false);
        check(Criteria { since: Some(Timestamp(100)), ..Criteria::default() }, &[], "x", true);
        check(Criteria { until: Some(Timestamp(100)), ..Criteria::default() }, &[], "x", false);
        check(Criteria { since: Some(Timestamp(101)), ..words("canary") }, &[], "a canary", false);
        let of_project =
            Criteria { projects: Some(Vec::new()), since: Some(Timestamp(1)), ..Criteria::default() };
        check(of_project, &[], "x", false);
    }

    #[test]
    fn unreadable_spool_files_are_removed_on_request_and_waiting_ones_never() {
        let session = || Selection::Session(SessionRow(1));
        let project = |until| {
            let projects = Some(vec![ProjectRow(1)]);
            Selection::Matching(Criteria { projects, until: Some(Timestamp(until)), ..Criteria::default() })
        };
        let check = |what: Selection, unreadable, state, expected: bool| {
            assert_eq!(
                is_meant((what.clone(), unreadable), &[], ("x", state)),
                expected,
                "{what:?} {state:?}"
            );
        };
        for state in [RemainsState::Damaged, RemainsState::OtherVersion] {
            check(session(), Unreadable::Goes, state, true);
            check(session(), Unreadable::Stays, state, false);
            check(project(101), Unreadable::Goes, state, true);
            check(project(100), Unreadable::Goes, state, false);
            check(Selection::Documents(Vec::new()), Unreadable::Goes, state, false);
        }
        check(session(), Unreadable::Goes, RemainsState::Waiting, false);
        check(session(), Unreadable::Goes, RemainsState::Unfinished, false);
    }
}
