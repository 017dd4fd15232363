//! What a round needs, and the results of the rounds since the daemon's start.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::current_config::CurrentConfig;
use crate::ports::WriteFailed;
use crate::settings::{CurrentRedactor, Settings};
use recall_domain::ids::{ShareId, Timestamp};
use recall_domain::sync::DeviceId;
use recall_domain::sync::skew::Skew;
use recall_store::{Reader, Readers, StoreError};
use recall_sync::address::AddressError;
use recall_sync::device::Device;
use recall_sync::remote::{RemoteError, StatementCache};
use recall_sync::team::TeamError;

/// The delay after the first failure, and the longest delay.
const LEAST_BACKOFF: Duration = Duration::from_secs(60);
const MOST_BACKOFF: Duration = Duration::from_secs(1800);

/// Why a round with a remote failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Write(#[from] WriteFailed),
    #[error(
        "cannot use this data folder's key in {}: {source}. Bring the file back, or delete it: this machine then has a new \
         name, and nothing is lost",
        path.display()
    )]
    Key { path: PathBuf, source: std::io::Error },
    #[error("the address of {name} {why}")]
    Address { name: String, why: AddressError },
    #[error("there is no remote {0}")]
    NoRemote(String),
    #[error(transparent)]
    Team(#[from] TeamError),
    #[error("a thread panicked")]
    Panicked,
    #[error("the project's share changed meanwhile")]
    NotShared,
    /// Another data folder's log has this one's name.
    #[error("another log has this machine's name")]
    Fork,
}

impl SyncError {
    /// Whether the failure concerns one project alone. Then the remote still works for all others.
    pub(super) fn is_of_project(&self) -> bool {
        use TeamError::{NotReader, RestrictedTwice, TookOutEachOther};
        matches!(self, Self::Team(NotReader | RestrictedTwice | TookOutEachOther))
    }
}

/// The result of the last round with a share's remote.
#[derive(Clone, Debug, Default)]
pub struct RoundOutcome {
    pub error: Option<String>,
    pub synced_at: Option<Timestamp>,
    /// What the last round has exchanged so far.
    pub moved: Moved,
    /// The number of the last own entry that the remote has.
    pub sent: u64,
    /// The number of the last entry of each other machine in the remote.
    pub available: BTreeMap<DeviceId, u64>,
    /// Why reading stopped at a machine's log.
    pub stopped: BTreeMap<DeviceId, String>,
    /// How far each other machine has read this one's log, as it reports.
    pub readers: BTreeMap<DeviceId, LogReader>,
    /// Marks that change when a machine's progress report does.
    pub marks: BTreeMap<DeviceId, String>,
    /// The machines whose clocks are off.
    pub skews: BTreeMap<DeviceId, Skew>,
    /// The machines whose logs have more entries than one round reads.
    pub deferred: BTreeSet<DeviceId>,
    /// When the remote was last asked.
    pub asked_at: Option<Timestamp>,
}

/// How many entries a round exchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub sent: u64,
    pub read: u64,
}

/// Another machine that reads this one's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReader {
    pub author: String,
    pub name: String,
    /// The number of the last own entry that it has read.
    pub seq: u64,
}

/// The results of all rounds since the daemon's start.
#[derive(Clone, Debug, Default)]
pub struct RoundHistory {
    pub outcomes: BTreeMap<ShareId, RoundOutcome>,
    /// Why the last round could not start with any remote.
    pub trouble: Option<String>,
    /// Team statements, by the remotes' ids.
    pub received_statements: BTreeMap<String, StatementCache>,
    /// The remotes that failed, by name.
    pub failing: BTreeMap<String, FailingRemote>,
    pub notices: Vec<String>,
}

/// A remote that failed in its last round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingRemote {
    /// The number of failures in a row.
    pub times: u32,
    /// The remote is not asked again before this time.
    pub not_before: Timestamp,
}

/// The services of a round. Cheap to clone.
#[derive(Clone)]
pub struct Syncing<P> {
    pub ports: P,
    pub readers: Readers,
    pub config: CurrentConfig,
    pub settings: Settings,
    pub redactor: CurrentRedactor,
    /// The file with this data folder's key.
    pub device_file: PathBuf,
    pub known: Arc<Mutex<RoundHistory>>,
}

impl RoundHistory {
    /// The remotes whose retry delay has not passed.
    fn waiting(&self, now: Timestamp) -> BTreeSet<String> {
        // If a clock was ahead and is set back, a remote must not wait for a year.
        let is_near = |at: Timestamp| at > now && at.0.saturating_sub(now.0) <= millis(MOST_BACKOFF * 2);
        let waiting = self.failing.iter().filter(|(_, failing)| is_near(failing.not_before));
        waiting.map(|(remote, _)| remote.clone()).collect()
    }

    /// Records a remote's failure: its own delay grows, and no other's.
    fn note_remotes<'r>(
        &mut self,
        asked: impl Iterator<Item = &'r String>,
        failed: &BTreeSet<String>,
        now: Timestamp,
    ) {
        for remote in asked.filter(|remote| !failed.contains(*remote)) {
            self.failing.remove(remote);
        }
        for remote in failed {
            let times = self.failing.get(remote).map_or(0, |failing| failing.times).saturating_add(1);
            let not_before = Timestamp(now.0.saturating_add(millis(backoff(times))));
            self.failing.insert(remote.clone(), FailingRemote { times, not_before });
        }
    }
}

impl<P> Syncing<P> {
    /// Whether the last round left entries that the next one can read.
    pub fn has_more(&self) -> bool {
        self.locked().outcomes.values().any(|outcome| !outcome.deferred.is_empty())
    }

    pub(super) fn outcome(&self, share: ShareId) -> RoundOutcome {
        self.locked().outcomes.get(&share).cloned().unwrap_or_default()
    }

    pub(super) fn received_statements(&self, remote: &str) -> StatementCache {
        self.locked().received_statements.get(remote).cloned().unwrap_or_default()
    }

    pub(super) fn keep_received_statements(&self, remote: String, received: StatementCache) {
        self.locked().received_statements.insert(remote, received);
    }

    pub fn known(&self) -> RoundHistory {
        self.locked().clone()
    }

    pub(super) fn note(&self, share: ShareId, change: impl FnOnce(&mut RoundOutcome)) {
        change(self.locked().outcomes.entry(share).or_default());
    }

    /// Records why no remote could be asked, if so. Returns the remotes whose retry delay has not passed.
    pub(super) fn note_trouble(&self, trouble: Option<String>, now: Timestamp) -> BTreeSet<String> {
        let mut known = self.locked();
        known.trouble = trouble;
        known.waiting(now)
    }

    /// Records which remotes failed in a round.
    pub(super) fn note_remotes<'r>(
        &self,
        asked: impl Iterator<Item = &'r String>,
        failed: &BTreeSet<String>,
        now: Timestamp,
    ) {
        self.locked().note_remotes(asked, failed, now);
    }

    /// Records that this data folder has a new name.
    pub(super) fn note_new_name(&self, notice: String) {
        let mut known = self.locked();
        known.notices.push(notice);
        // Progress reports are read again, because they name logs by their machines.
        known.outcomes.values_mut().for_each(|outcome| outcome.marks.clear());
    }

    /// The folder with the keys of teams.
    pub(super) fn data_folder(&self) -> PathBuf {
        self.device_file.parent().map(PathBuf::from).unwrap_or_default()
    }

    fn locked(&self) -> MutexGuard<'_, RoundHistory> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn device(&self) -> Result<Arc<Device>, SyncError> {
        let file = self.device_file.clone();
        blocking(move || {
            Device::load_or_create(&file)
                .map(Arc::new)
                .map_err(|source| SyncError::Key { path: file, source })
        })
        .await
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(Reader<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, SyncError> {
        let readers = self.readers.clone();
        blocking(move || Ok(readers.read(query)?)).await
    }
}

/// The retry delay: one minute, two, four ... at most half an hour. Each is lengthened by a random part of up to a
/// quarter, so that machines do not all return at once.
fn backoff(failures: u32) -> Duration {
    let doubled = LEAST_BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(MOST_BACKOFF);
    let chance = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
    doubled + doubled / 1024 * chance
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SyncError> + Send + 'static,
) -> Result<T, SyncError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(SyncError::Panicked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_after_failures_grows_up_to_a_limit() {
        for (failures, least) in [(1, 60), (2, 120), (3, 240), (20, 1800), (u32::MAX, 1800)] {
            let wait = backoff(failures).as_secs();
            assert!((least..=least + least / 4).contains(&wait), "{failures}: {wait}");
        }
    }

    #[test]
    fn only_the_remote_that_failed_is_skipped_for_a_while() {
        let mut known = RoundHistory::default();
        let names = ["team".to_owned(), "mine".to_owned()];
        let failed = BTreeSet::from(["team".to_owned()]);
        let waiting =
            |known: &RoundHistory, at: i64| known.waiting(Timestamp(at)).into_iter().collect::<Vec<_>>();
        known.note_remotes(names.iter(), &failed, Timestamp(0));
        assert_eq!(waiting(&known, 59_000), ["team"]);
        assert_eq!(waiting(&known, 80_000), Vec::<String>::new());
        known.note_remotes(names.iter(), &failed, Timestamp(80_000));
        assert_eq!(waiting(&known, 199_000), ["team"]);
        // The clock was set back.
        assert_eq!(waiting(&known, -10_000_000), Vec::<String>::new());
        known.note_remotes(names.iter(), &BTreeSet::new(), Timestamp(300_000));
        assert!(known.failing.is_empty());
    }
}
