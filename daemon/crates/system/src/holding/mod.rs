//! Ensures that only one daemon holds the data folder.
//!
//! Where all processes see the same locks, the lock on `recall.lock` ensures this. For other file systems there is a
//! lease next to it (`recall.lease`), which names the process that holds the folder. A daemon that finds the lease of
//! a running process exits.
//!
//! The folder can be deleted, moved or replaced while a daemon is running, and another process can take over the lease
//! while this machine is suspended. So the daemon calls [`Holding::check`] in each round and before it writes, and
//! exits if it no longer holds the folder: otherwise it would write, by path, into a folder that belongs to another
//! daemon.

pub mod file_system;
mod lease;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use file_system::FileSystem;
use lease::{Lease, Life};

/// The interval of heartbeats on a file system where locks may not be shared.
pub const BEAT: Duration = Duration::from_secs(5);
/// Without a heartbeat for this long, a lease has expired.
const PATIENCE: Duration = Duration::from_secs(13);
/// After taking over a lease, a daemon checks again after this time, in case another one did so simultaneously.
const SETTLES: Duration = Duration::from_millis(500);

/// The file name of the lease, which is next to the lock file.
const LEASE: &str = "recall.lease";

/// The path of the lease in a data folder.
pub fn lease_file(folder: &Path) -> PathBuf {
    folder.join(LEASE)
}

/// A file's device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity(u64, u64);

impl FileIdentity {
    pub fn of(found: &std::fs::Metadata) -> Self {
        Self(found.dev(), found.ino())
    }
}

/// The process that holds a data folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// The name of its machine or container, unless it is this one.
    pub host: Option<String>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            None => write!(out, "pid {}", self.pid),
            Some(host) => write!(out, "pid {} on {host}, another machine or container", self.pid),
        }
    }
}

/// Why a daemon cannot hold the folder.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// Another daemon uses the folder, although its lock is not visible here.
    #[error("another daemon uses {} ({holder})", folder.display())]
    Held { folder: PathBuf, holder: Holder },
    #[error("cannot use {}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// Why a daemon no longer holds its data folder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    #[error("{} was deleted or moved", .0.display())]
    Gone(PathBuf),
    #[error("{} was replaced with another one", .0.display())]
    Replaced(PathBuf),
    #[error("another daemon has taken over the data folder ({0})")]
    TakenOver(Holder),
}

/// The right to write to the data folder. Cheap to clone. The default value is never lost.
#[derive(Clone, Default)]
pub struct Holding(Option<Arc<Held>>);

struct Held {
    folder: PathBuf,
    system: FileSystem,
    /// The folder and the lock file, with their identities. Both must stay in place.
    places: [(PathBuf, FileIdentity); 2],
    /// The lock file, kept open so that no other file gets its inode.
    opened: File,
    lease: Mutex<Option<Written>>,
    lost: watch::Sender<Option<Lost>>,
}

/// The lease that this process has written.
struct Written {
    lease: Lease,
    file: File,
    identity: FileIdentity,
}

impl Holding {
    /// Takes a folder whose lock this process already holds. Blocks, for some seconds if only heartbeats show whether
    /// an existing lease has expired.
    ///
    /// # Errors
    /// Fails when another daemon uses it, or the folder cannot be read.
    pub fn take(folder: &Path, lock: &Path) -> Result<Self, TakeError> {
        Self::take_on(folder, lock, FileSystem::of(folder), PATIENCE)
    }

    fn take_on(
        folder: &Path,
        lock: &Path,
        system: FileSystem,
        patience: Duration,
    ) -> Result<Self, TakeError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| TakeError::Io { path, source }
        };
        let opened = File::open(folder).map_err(failed(folder))?;
        let folder_id = FileIdentity::of(&opened.metadata().map_err(failed(folder))?);
        let lock_found = std::fs::symlink_metadata(lock).map_err(failed(lock))?;
        let own = Lease::of_this_process(lock_found.ino());
        let path = lease_file(folder);
        let held =
            |lease: &Lease| TakeError::Held { folder: folder.to_owned(), holder: holder_of(lease, &own) };
        if let Some(found) = Lease::read(&path) {
            let life = match found.judged_by(&own, system) {
                Life::Unclear => {
                    tracing::info!(
                        host = found.host,
                        pid = found.pid,
                        "waiting for a heartbeat of another daemon"
                    );
                    found.beats_within(&path, patience)
                }
                life => life,
            };
            if life == Life::Living {
                return Err(held(&found));
            }
        }
        let written = match write(&path, own.clone()) {
            Ok(written) => Some(written),
            Err(error) => {
                tracing::warn!(%error, "cannot write the lease; only the lock protects the data folder");
                None
            }
        };
        let (lost, _) = watch::channel(None);
        let taken = Self(Some(Arc::new(Held {
            folder: folder.to_owned(),
            system,
            places: [(folder.to_owned(), folder_id), (lock.to_owned(), FileIdentity::of(&lock_found))],
            opened,
            lease: Mutex::new(written),
            lost,
        })));
        if system != FileSystem::Local {
            std::thread::sleep(SETTLES);
            if let Err(Lost::TakenOver(holder)) = taken.check() {
                return Err(TakeError::Held { folder: folder.to_owned(), holder });
            }
        }
        Ok(taken)
    }

    /// The kind of the file system that contains the folder.
    pub fn file_system(&self) -> FileSystem {
        self.0.as_ref().map_or(FileSystem::Local, |held| held.system)
    }

    /// The open folder, even if it was moved; `None` for a value that is never lost.
    pub fn folder(&self) -> Option<&File> {
        self.0.as_ref().map(|held| &held.opened)
    }

    /// Checks whether the folder is still held. Costs three system calls. [`Self::lost`] returns the first loss.
    ///
    /// # Errors
    /// Fails when the folder was deleted, moved or replaced, or another daemon has taken it over. After that nothing may be
    /// written to it.
    pub fn check(&self) -> Result<(), Lost> {
        let Some(held) = &self.0 else { return Ok(()) };
        if let Some(lost) = &*held.lost.borrow() {
            return Err(lost.clone());
        }
        held.look().inspect_err(|lost| {
            held.lost.send_if_modified(|known| {
                let is_news = known.is_none();
                known.get_or_insert_with(|| lost.clone());
                is_news
            });
        })
    }

    /// Writes a heartbeat, if a daemon elsewhere may be watching. Restores a missing lease.
    ///
    /// # Errors
    /// See [`Self::check`].
    pub fn renew(&self) -> Result<(), Lost> {
        self.check()?;
        let Some(held) = &self.0 else { return Ok(()) };
        let mut lease = held.lease.lock().unwrap_or_else(PoisonError::into_inner);
        let path = lease_file(&held.folder);
        let renewed = match &mut *lease {
            Some(written) if path.symlink_metadata().is_ok() => match held.system {
                FileSystem::Local => Ok(()),
                FileSystem::Shared(_) => written.beat(),
            },
            missing => {
                let [_, (_, FileIdentity(_, lock))] = held.places;
                write(&path, Lease::of_this_process(lock)).map(|written| *missing = Some(written))
            }
        };
        if let Err(error) = renewed {
            tracing::warn!(%error, "cannot renew the lease of the data folder");
        }
        Ok(())
    }

    /// Returns when the folder is no longer held.
    pub async fn lost(&self) -> Lost {
        let Some(held) = &self.0 else { return std::future::pending().await };
        let mut lost = held.lost.subscribe();
        loop {
            if let Some(lost) = &*lost.borrow_and_update() {
                return lost.clone();
            }
            if lost.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Releases the folder.
    pub fn release(&self) {
        let Some(held) = &self.0 else { return };
        if self.check().is_ok() && held.lease.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
        {
            let _ = std::fs::remove_file(lease_file(&held.folder));
        }
    }
}

impl Held {
    fn look(&self) -> Result<(), Lost> {
        for (path, identity) in &self.places {
            match std::fs::symlink_metadata(path) {
                Ok(found) if FileIdentity::of(&found) == *identity => {}
                Ok(_) => return Err(Lost::Replaced(path.clone())),
                Err(error) if is_absence(&error) => return Err(Lost::Gone(path.clone())),
                // An error of the disk does not prove a loss.
                Err(_) => {}
            }
        }
        let lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(written) = &*lease else { return Ok(()) };
        let path = lease_file(&self.folder);
        let is_own = |found: &std::fs::Metadata| FileIdentity::of(found) == written.identity;
        if lease::open(&path).and_then(|file| file.metadata()).map_or(true, |found| is_own(&found)) {
            return Ok(());
        }
        match Lease::read(&path) {
            // A copy of our own lease that somebody has restored still counts as ours.
            Some(found) if !found.is_of_same_process(&written.lease) => {
                Err(Lost::TakenOver(holder_of(&found, &written.lease)))
            }
            _ => Ok(()),
        }
    }
}

impl Written {
    fn beat(&mut self) -> std::io::Result<()> {
        self.lease.beat = self.lease.beat.wrapping_add(1);
        self.file.write_all_at(self.lease.to_text().as_bytes(), 0)
    }
}

fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// Writes a lease atomically.
fn write(path: &Path, lease: Lease) -> std::io::Result<Written> {
    let aside = path.with_extension(format!("lease-{}", lease.pid));
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(&aside)?;
    let placed = file.write_all(lease.to_text().as_bytes()).and_then(|()| std::fs::rename(&aside, path));
    if let Err(error) = placed {
        let _ = std::fs::remove_file(&aside);
        return Err(error);
    }
    let identity = FileIdentity::of(&file.metadata()?);
    Ok(Written { lease, file, identity })
}

fn holder_of(lease: &Lease, own: &Lease) -> Holder {
    let is_here = lease.is_of_same_system(own);
    Holder { pid: lease.pid, host: (!is_here).then(|| lease.host.clone()) }
}

/// Finds the process that holds a data folder's lock, from its lease, or else from the kernel's list of locks.
pub fn holder(folder: &Path, lock: &Path) -> Option<Holder> {
    let found = std::fs::symlink_metadata(lock).ok()?;
    if let Some(pid) = locked_by(&found) {
        return Some(Holder { pid, host: None });
    }
    let lease = Lease::read(&lease_file(folder))?;
    let own = Lease::of_this_process(found.ino());
    (lease.judged_by(&own, FileSystem::of(folder)) != Life::Over).then(|| holder_of(&lease, &own))
}

/// Whether another process holds the lock of a file, and which one, if known. Takes a free lock for a moment.
pub fn locked_by_another(lock: &Path) -> Option<Option<u32>> {
    let file = File::open(lock).ok()?;
    match file.try_lock() {
        Err(std::fs::TryLockError::WouldBlock) => {}
        Ok(()) | Err(std::fs::TryLockError::Error(_)) => return None,
    }
    let holder = locked_by(&file.metadata().ok()?);
    (holder != Some(std::process::id())).then_some(holder)
}

/// The process that holds a lock of this file, according to `/proc/locks`. `None` if the system does not provide it,
/// or the process has no id in this namespace.
fn locked_by(lock: &std::fs::Metadata) -> Option<u32> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let of_file = |line: &&str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        fields.next() == Some("FLOCK")
            && fields.nth(3).and_then(|place| place.rsplit(':').next())
                == Some(lock.ino().to_string().as_str())
    };
    let line = locks.lines().find(of_file)?;
    line.split_ascii_whitespace().nth(4)?.parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NFS: FileSystem = FileSystem::Shared("NFS");

    /// A data folder with its lock file.
    fn folder() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("data");
        std::fs::create_dir(&folder).unwrap();
        let lock = folder.join("recall.lock");
        std::fs::write(&lock, "").unwrap();
        (home, folder, lock)
    }

    fn lease_of(folder: &Path) -> Lease {
        Lease::read(&lease_file(folder)).unwrap()
    }

    #[test]
    fn a_folder_is_held_until_it_is_released() {
        let (_home, folder, lock) = folder();
        let holding = Holding::take(&folder, &lock).unwrap();
        assert_eq!(holding.check(), Ok(()));
        assert_eq!(lease_of(&folder).pid, std::process::id());
        // A deleted lease comes back.
        std::fs::remove_file(lease_file(&folder)).unwrap();
        assert_eq!(holding.renew(), Ok(()));
        assert_eq!(lease_of(&folder).pid, std::process::id());
        holding.release();
        assert!(!lease_file(&folder).exists());
    }

    #[test]
    fn a_moved_deleted_or_replaced_folder_is_no_longer_held() {
        type Change = fn(&Path, &Path);
        let moved: Change = |folder, _| std::fs::rename(folder, folder.with_extension("moved")).unwrap();
        let deleted: Change = |folder, _| std::fs::remove_dir_all(folder).unwrap();
        let replaced: Change = |folder, lock| {
            std::fs::rename(folder, folder.with_extension("moved")).unwrap();
            std::fs::create_dir(folder).unwrap();
            std::fs::write(lock, "").unwrap();
        };
        let unlocked: Change = |_, lock| std::fs::remove_file(lock).unwrap();
        let above: Change = |folder, _| std::fs::remove_dir_all(folder.parent().unwrap()).unwrap();
        for (change, is_gone) in
            [(moved, true), (deleted, true), (replaced, false), (unlocked, true), (above, true)]
        {
            let (_home, folder, lock) = folder();
            let holding = Holding::take(&folder, &lock).unwrap();
            change(&folder, &lock);
            let lost = holding.check().unwrap_err();
            assert_eq!(matches!(lost, Lost::Gone(_)), is_gone, "{lost}");
            // The folder that is there later is not the one that was held.
            std::fs::create_dir_all(&folder).unwrap();
            assert_eq!(holding.check(), Err(lost));
            holding.release();
        }
    }

    #[test]
    fn a_lease_taken_over_by_another_daemon_is_lost_and_not_removed() {
        let (_home, folder, lock) = folder();
        let holding = Holding::take(&folder, &lock).unwrap();
        let other = Lease { boot: "ab".repeat(16), host: "far".to_owned(), ..lease_of(&folder) };
        let _written = write(&lease_file(&folder), other).unwrap();
        let Err(Lost::TakenOver(holder)) = holding.check() else { panic!("it is not lost") };
        assert_eq!(holder.host.as_deref(), Some("far"));
        // The other daemon's lease is not removed either.
        holding.release();
        assert_eq!(lease_of(&folder).host, "far");
    }

    #[test]
    fn a_lease_with_a_heartbeat_is_respected_on_a_network_file_system() {
        let (_home, folder, lock) = folder();
        let holding = Holding::take_on(&folder, &lock, NFS, PATIENCE).unwrap();
        let before = lease_of(&folder);
        holding.renew().unwrap();
        assert_eq!(lease_of(&folder), Lease { beat: before.beat + 1, ..before });
        holding.release();

        let far = Lease { boot: "ab".repeat(16), host: "far".to_owned(), ..Lease::of_this_process(0) };
        let far = Lease { lock: std::fs::metadata(&lock).unwrap().ino(), ..far };
        let mut written = write(&lease_file(&folder), far).unwrap();
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| Holding::take_on(&folder, &lock, NFS, Duration::from_secs(60)));
            while !taking.is_finished() {
                written.beat().unwrap();
            }
            let Err(TakeError::Held { holder, .. }) = taking.join().unwrap() else { panic!("both hold it") };
            assert_eq!(holder.host.as_deref(), Some("far"));
        });
        let taken = Holding::take_on(&folder, &lock, NFS, Duration::ZERO).unwrap();
        assert_eq!(taken.check(), Ok(()), "one that is still is over");
    }

    #[test]
    fn a_reported_lock_holder_is_the_process_that_holds_the_lock() {
        let (_home, folder, lock) = folder();
        assert_eq!(holder(&folder, &lock), None);
        let file = File::open(&lock).unwrap();
        file.lock().unwrap();
        let reported = holder(&folder, &lock);
        assert!(reported.is_none_or(|holder| holder.pid == std::process::id() && holder.host.is_none()));
    }

    #[tokio::test]
    async fn a_waiting_task_is_notified_when_the_folder_is_lost() {
        let (_home, folder, lock) = folder();
        let holding = Holding::take(&folder, &lock).unwrap();
        std::fs::remove_file(&lock).unwrap();
        let waiting = tokio::spawn({
            let holding = holding.clone();
            async move { holding.lost().await }
        });
        let lost = holding.check().unwrap_err();
        assert_eq!(waiting.await.unwrap(), lost);
    }
}
