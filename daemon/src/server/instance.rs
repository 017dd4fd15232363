//! Ensures that each home has only one daemon.
//!
//! The lock on the open file decides. The process id and the socket in the file are only informative. The system
//! releases the lock when the process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recall_protocol::paths::LockNote;

/// The held lock. Dropping it lets another daemon start.
pub struct Instance {
    file: File,
    last_stop: LastStop,
}

/// How often, and after which pause, a lock is retried if the file names no live holder.
const PASSERS_BY: usize = 5;
const PASSING_BY: Duration = Duration::from_millis(20);

/// How the previous daemon ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastStop {
    /// It shut down, or there was none.
    Clean,
    /// It was killed, or the machine crashed.
    Sudden,
}

#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Not a fault: another daemon already serves this home.
    #[error("another daemon is running{}", .0.as_ref().map(|note| format!(" (pid {})", note.pid)).unwrap_or_default())]
    Taken(Option<LockNote>),
    #[error("cannot use lock file {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl Instance {
    /// Takes the lock, or reports who holds it. Never waits.
    ///
    /// # Errors
    /// Fails when another daemon holds the lock or the file cannot be used.
    pub fn claim(path: &Path) -> Result<Self, InstanceError> {
        let failed = |source| InstanceError::File { path: path.to_owned(), source };
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                // A non-empty note was not retracted.
                let note = file.metadata().map_err(failed)?.len();
                let last_stop = if note == 0 { LastStop::Clean } else { LastStop::Sudden };
                Ok(Self { file, last_stop })
            }
            Err(TryLockError::WouldBlock) => Err(InstanceError::Taken(LockNote::read(path))),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Like [`Self::claim`], but retries: a command that checks whether a daemon runs holds the lock for a moment.
    ///
    /// # Errors
    /// See [`Self::claim`].
    pub async fn claim_patiently(path: &Path) -> Result<Self, InstanceError> {
        for _ in 0..PASSERS_BY {
            match Self::claim(path) {
                Err(InstanceError::Taken(note)) if !note.as_ref().is_some_and(lives) => {
                    tokio::time::sleep(PASSING_BY).await;
                }
                claimed => return claimed,
            }
        }
        Self::claim(path)
    }

    pub fn last_stop(&self) -> LastStop {
        self.last_stop
    }

    /// Records where this daemon listens, for clients that find nothing at their own path. If the daemon is killed,
    /// the note remains. It survives a power failure once the returned file is synced.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn announce(&mut self, socket: &Path) -> std::io::Result<File> {
        let note = LockNote { pid: std::process::id(), socket: socket.to_owned() };
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&note.to_bytes())?;
        self.file.try_clone()
    }

    /// Removes the note from the file.
    pub fn retract(&mut self) {
        if let Err(error) = self.file.set_len(0) {
            tracing::warn!(%error, "cannot remove the note from the lock file");
        }
    }
}

/// Whether the process in a note is alive. A killed daemon leaves its note behind.
fn lives(note: &LockNote) -> bool {
    let pid = i32::try_from(note.pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A child that another test has just forked holds every lock of this process until it runs its program.
    fn claim_again(path: &Path) -> Instance {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match Instance::claim(path) {
                Err(InstanceError::Taken(_)) if Instant::now() < deadline => std::thread::yield_now(),
                claimed => return claimed.unwrap(),
            }
        }
    }

    #[test]
    fn a_second_claim_is_rejected_with_the_owners_process_id() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        let mut first = Instance::claim(&path).unwrap();
        first.announce(Path::new("/run/user/7/recall/recall.sock")).unwrap();
        let Err(InstanceError::Taken(Some(note))) = Instance::claim(&path) else { panic!("claimed twice") };
        assert_eq!(note.pid, std::process::id());
        assert_eq!(first.last_stop(), LastStop::Clean);
        drop(first);
        let mut second = claim_again(&path);
        assert_eq!(second.last_stop(), LastStop::Sudden);
        second.retract();
        drop(second);
        assert_eq!(claim_again(&path).last_stop(), LastStop::Clean);
    }

    #[tokio::test]
    async fn claiming_waits_for_a_brief_holder_of_a_dead_daemons_lock() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let note = LockNote { pid: gone.id(), socket: "/run/user/7/recall/recall.sock".into() };
        std::fs::write(&path, note.to_bytes()).unwrap();
        let passing_by = claim_again(&path);
        let (claimed, ()) = tokio::join!(Instance::claim_patiently(&path), async move {
            tokio::time::sleep(PASSING_BY).await;
            drop(passing_by);
        });
        assert_eq!(claimed.unwrap().last_stop(), LastStop::Sudden);
    }

    #[test]
    fn a_symlink_is_rejected_as_lock_file() {
        let home = tempfile::tempdir().unwrap();
        let (path, target) = (home.path().join("lock"), home.path().join("target"));
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(matches!(Instance::claim(&path), Err(InstanceError::File { .. })));
        assert!(!target.exists());
    }
}
