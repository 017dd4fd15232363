//! What a round needs, and what is known of the rounds since the daemon's start.

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
use recall_sync::remote::{Heard, RemoteError};
use recall_sync::team::TeamError;

/// The first wait after a failure, and the longest.
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
    #[error("the project's sharing changed meanwhile")]
    NotShared,
    /// Another log has this data folder's name.
    #[error("another log has this machine's name")]
    Fork,
}

/// What is known of the last round with a share's remote.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub error: Option<String>,
    pub synced_at: Option<Timestamp>,
    /// What the last round that began did.
    pub moved: Moved,
    /// The number of the last own entry that the remote has.
    pub sent: u64,
    /// The number of the last entry there is of each other machine.
    pub available: BTreeMap<DeviceId, u64>,
    /// Why no more is read of a machine.
    pub stopped: BTreeMap<DeviceId, String>,
    /// How far each other machine has read this one's log, as it says.
    pub readers: BTreeMap<DeviceId, LogReader>,
    /// By what it is known that a machine says the same as before.
    pub marks: BTreeMap<DeviceId, String>,
    /// The machines whose clocks are off.
    pub skews: BTreeMap<DeviceId, Skew>,
    /// The machines that have logged more than is read in a round.
    pub deferred: BTreeSet<DeviceId>,
    /// When the remote was last asked what there is.
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

/// What is known of all rounds since the daemon's start.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub outcomes: BTreeMap<ShareId, Outcome>,
    /// Why the last round exchanged nothing with any remote.
    pub trouble: Option<String>,
    /// What was heard of the teams of remotes, by the remotes' ids.
    pub heard: BTreeMap<String, Heard>,
    /// The remotes that failed, by name.
    pub failing: BTreeMap<String, Failing>,
    pub notices: Vec<String>,
}

/// A remote that failed in its last round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// How often in a row.
    pub times: u32,
    /// It is not asked again before.
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
    pub known: Arc<Mutex<Known>>,
}

impl Known {
    /// The remotes that are not asked yet.
    fn waiting(&self, now: Timestamp) -> BTreeSet<String> {
        // A clock that was ahead and was set back must not let a remote wait for a year.
        let is_near = |at: Timestamp| at > now && at.0.saturating_sub(now.0) <= millis(MOST_BACKOFF * 2);
        let waiting = self.failing.iter().filter(|(_, failing)| is_near(failing.not_before));
        waiting.map(|(remote, _)| remote.clone()).collect()
    }

    /// A remote that fails waits longer each time, and no other one does for it.
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
            self.failing.insert(remote.clone(), Failing { times, not_before });
        }
    }
}

impl<P> Syncing<P> {
    /// Whether a round has left something that the next one can read.
    pub fn has_more(&self) -> bool {
        self.locked().outcomes.values().any(|outcome| !outcome.deferred.is_empty())
    }

    pub(super) fn outcome(&self, share: ShareId) -> Outcome {
        self.locked().outcomes.get(&share).cloned().unwrap_or_default()
    }

    pub(super) fn heard(&self, remote: &str) -> Heard {
        self.locked().heard.get(remote).cloned().unwrap_or_default()
    }

    pub(super) fn keep_heard(&self, remote: String, heard: Heard) {
        self.locked().heard.insert(remote, heard);
    }

    pub fn known(&self) -> Known {
        self.locked().clone()
    }

    pub(super) fn note(&self, share: ShareId, change: impl FnOnce(&mut Outcome)) {
        change(self.locked().outcomes.entry(share).or_default());
    }

    /// Notes why nothing could be exchanged, if so. Returns the remotes that are not asked yet.
    pub(super) fn note_trouble(&self, trouble: Option<String>, now: Timestamp) -> BTreeSet<String> {
        let mut known = self.locked();
        known.trouble = trouble;
        known.waiting(now)
    }

    /// Notes which remotes of a round failed.
    pub(super) fn note_remotes<'r>(
        &self,
        asked: impl Iterator<Item = &'r String>,
        failed: &BTreeSet<String>,
        now: Timestamp,
    ) {
        self.locked().note_remotes(asked, failed, now);
    }

    /// Notes that this data folder has another name.
    pub(super) fn note_new_name(&self, notice: String) {
        let mut known = self.locked();
        known.notices.push(notice);
        // What others say of their progress is read again, for it names logs by their machines.
        known.outcomes.values_mut().for_each(|outcome| outcome.marks.clear());
    }

    /// The folder with the keys of teams.
    pub(super) fn data_folder(&self) -> PathBuf {
        self.device_file.parent().map(PathBuf::from).unwrap_or_default()
    }

    fn locked(&self) -> MutexGuard<'_, Known> {
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

/// One minute, two, four ... at most half an hour, each up to a quarter longer by chance, so that machines do not all come
/// back at once.
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
    fn after_failures_it_waits_longer_and_not_for_ever() {
        for (failures, least) in [(1, 60), (2, 120), (3, 240), (20, 1800), (u32::MAX, 1800)] {
            let wait = backoff(failures).as_secs();
            assert!((least..=least + least / 4).contains(&wait), "{failures}: {wait}");
        }
    }

    #[test]
    fn a_remote_that_fails_is_left_out_for_a_while_and_no_other_one() {
        let mut known = Known::default();
        let names = ["team".to_owned(), "mine".to_owned()];
        let failed = BTreeSet::from(["team".to_owned()]);
        let waiting = |known: &Known, at: i64| known.waiting(Timestamp(at)).into_iter().collect::<Vec<_>>();
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
