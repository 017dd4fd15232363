//! Forgetting everywhere: the rows, and every other place where their words may lie.
//!
//! Rows go first, in one commit; from then on nothing of them is found or given, and nothing that is still on its way
//! brings them back. Then follow the places that hold copies: the spool, the index, the pages of the database, its
//! backups, and damaged databases that were set aside. Backups and damaged files cannot be cleaned row by row: they are
//! removed, and a new backup is made of what is left. What could not be cleaned is told, and
//! done when the housekeeper next comes by.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use recall_protocol::boot::BootStamp;
use recall_protocol::spool::Spool;
use tokio::sync::Mutex;

use super::clock;
use super::housekeeper::{HousekeeperDoor, HousekeeperMessage};
use super::indexer::{IndexerDoor, IndexerMessage};
use super::sessions::{SessionsDoor, SessionsMessage};
use super::writer::{WriteFailed, WriterHandle};
use crate::memory::ids::SessionKey;
use crate::memory::order::Order;
use crate::store::{self, Criteria, Forgotten, Readers, Selection, Write, Written, has_all_words};

/// A spool that takes longer to drain is looked through for what is left in it.
const DRAINED_WITHIN: Duration = Duration::from_secs(60);
/// An index that takes longer is in trouble.
const PURGED_WITHIN: Duration = Duration::from_secs(120);

/// Cheap to clone.
#[derive(Clone)]
pub struct Forgetting {
    pub writer: WriterHandle,
    pub indexer: IndexerDoor,
    pub sessions: SessionsDoor,
    pub housekeeper: HousekeeperDoor,
    pub readers: Readers,
    pub spool: Spool,
    pub database: PathBuf,
    pub backups: PathBuf,
    pub backing_up: BackingUp,
}

/// Held by whoever copies the database, or removes copies of it: a copy begun before something was forgotten must not
/// be finished after.
pub type BackingUp = Arc<Mutex<()>>;

/// Why something is not forgotten, or not everywhere.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    #[error("nothing was forgotten: {0}")]
    NotForgotten(#[from] WriteFailed),
    #[error("it is forgotten, but traces may be left in {}", .0.join(" and "))]
    TracesLeft(Vec<&'static str>),
}

impl Forgetting {
    /// Forgets and waits until it is so everywhere.
    ///
    /// # Errors
    /// When the database refused, or a place could not be cleaned.
    pub async fn forget(&self, what: Selection) -> Result<Forgotten, ForgetError> {
        let _alone = self.backing_up.lock().await;
        // What waits is stored first: then it goes with the rest.
        if self.housekeeper.ask(HousekeeperMessage::Drain, DRAINED_WITHIN).await.is_err() {
            tracing::warn!("the spool is not drained before forgetting");
        }
        let criteria = match &what {
            Selection::Matching(criteria) => criteria.clone(),
            _ => Criteria::default(),
        };
        let forgotten = match self.writer.write(Write::Forget { what, at: now() }).await? {
            Written::Forgotten(forgotten) => *forgotten,
            _ => Forgotten::default(),
        };
        // A supervisor that is just being restarted has no actor that remembers.
        let _ = self.sessions.tell(SessionsMessage::ReadAgain(forgotten.touched.clone()));
        tracing::info!(counts = ?forgotten.counts, "forgotten");
        self.clean(criteria, forgotten.sessions.clone()).await?;
        Ok(forgotten)
    }

    /// Goes on where a daemon ended before every place was clean.
    ///
    /// # Errors
    /// When a place cannot be cleaned.
    pub async fn finish(&self) -> Result<(), ForgetError> {
        let _alone = self.backing_up.lock().await;
        let readers = self.readers.clone();
        let left = tokio::task::spawn_blocking(move || readers.read(store::traces_left)).await;
        if !matches!(left, Ok(Ok(true))) {
            return Ok(());
        }
        tracing::warn!("cleaning up after forgetting was not finished");
        self.clean(Criteria::default(), Vec::new()).await
    }

    async fn clean(&self, criteria: Criteria, sessions: Vec<SessionKey>) -> Result<(), ForgetError> {
        let mut left = Vec::new();
        if !self.clean_spool(criteria, sessions).await {
            left.push("the spool");
        }
        if let Err(error) = self.indexer.ask(IndexerMessage::Purge, PURGED_WITHIN).await {
            tracing::error!(%error, "the index may hold what was forgotten");
            left.push("the index");
        }
        if let Err(error) = self.writer.rewrite().await {
            tracing::error!(%error, "free pages of the database may hold what was forgotten");
            left.push("free pages of the database");
        }
        if !self.clean_copies().await {
            left.push("backups");
        }
        if !left.is_empty() {
            return Err(ForgetError::TracesLeft(left));
        }
        self.writer.write(Write::TracesGone).await?;
        Ok(())
    }

    async fn clean_spool(&self, criteria: Criteria, sessions: Vec<SessionKey>) -> bool {
        let spool = self.spool.clone();
        let work = tokio::task::spawn_blocking(move || {
            let meant = Meant::new(criteria, &sessions);
            spool.purge(|bytes, at_ms| meant.is_meant(bytes, at_ms))
        });
        match work.await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                tracing::error!(%error, "the spool may hold what was forgotten");
                false
            }
            Err(_) => false,
        }
    }

    async fn clean_copies(&self) -> bool {
        let (readers, backups, database) =
            (self.readers.clone(), self.backups.clone(), self.database.clone());
        let work = tokio::task::spawn_blocking(move || {
            let renewed = readers.read(|db| Ok(store::renew_backups(db, &backups, clock::now())));
            let removed = store::remove_damaged(&database);
            if let Err(error) = &removed {
                tracing::error!(%error, "a damaged database that was set aside may hold what was forgotten");
            }
            match renewed {
                Ok(Ok(())) => removed.is_ok(),
                Ok(Err(error)) => {
                    tracing::error!(%error, "backups may hold what was forgotten");
                    false
                }
                Err(error) => {
                    tracing::error!(%error, "backups may hold what was forgotten");
                    false
                }
            }
        });
        work.await.unwrap_or(false)
    }
}

fn now() -> Order {
    let BootStamp { boot_id, boot_ns } = BootStamp::now();
    Order { boot: boot_id, boot_ns, wall: clock::now() }
}

/// Which files of the spool are meant. They hold the agent's JSON as it came, in a frame or cut off.
struct Meant {
    /// Ids of sessions as they stand in JSON.
    sessions: Vec<Vec<u8>>,
    criteria: Criteria,
}

impl Meant {
    fn new(criteria: Criteria, sessions: &[SessionKey]) -> Self {
        let quoted = |key: &SessionKey| serde_json::to_vec(key.id.as_str()).unwrap_or_default();
        Self { sessions: sessions.iter().map(quoted).collect(), criteria }
    }

    fn is_meant(&self, bytes: &[u8], at_ms: i64) -> bool {
        let contains = |part: &Vec<u8>| bytes.windows(part.len().max(1)).any(|window| window == part);
        self.sessions.iter().any(contains) || self.fits_criteria(bytes, at_ms)
    }

    fn fits_criteria(&self, bytes: &[u8], at_ms: i64) -> bool {
        let Criteria { projects, since, until, words } = &self.criteria;
        let narrows = !words.is_empty() || (projects.is_none() && (since.is_some() || until.is_some()));
        narrows
            && since.is_none_or(|since| at_ms >= since.0)
            && until.is_none_or(|until| at_ms < until.0)
            && (words.is_empty() || has_all_words(&String::from_utf8_lossy(bytes), words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ids::{AgentName, SessionId, Timestamp};

    #[track_caller]
    fn check(criteria: Criteria, sessions: &[&str], bytes: &str, expected: bool) {
        let keys: Vec<SessionKey> = sessions
            .iter()
            .map(|id| SessionKey { agent: AgentName::from("claude-code"), id: SessionId::from(*id) })
            .collect();
        assert_eq!(Meant::new(criteria, &keys).is_meant(bytes.as_bytes(), 100), expected, "{bytes}");
    }

    #[test]
    fn files_are_known_by_their_session_their_words_or_their_time() {
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
}
