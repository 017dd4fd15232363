//! Starts the daemon if no service manager does, at most once every ten seconds.
//!
//! The daemon must outlive the hook and must not delay it: agents wait until a hook's stdout is closed everywhere, and
//! kill its process group on timeout. So the daemon gets its own process group, none of the shim's descriptors, and
//! only a few environment variables. Agents put API keys and session tokens into a hook's environment, and folders of
//! the current project into its `PATH`.
//!
//! Hooks come in bursts, so the decision is made under a lock on the stamp file beside the spool, whose age is the
//! time since the last attempt. A lock cannot be taken from its owner, unlike a file that is removed and created
//! again.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use recall_protocol::environment::{DAEMON_SETTINGS, stays};
use recall_protocol::paths::Paths;
use recall_protocol::{folder, search_path};
use rustix::fs::OFlags;

/// The minimum time between two starts.
const PAUSE: Duration = Duration::from_secs(10);
/// How long after an attempt a session start still waits for the daemon.
const WORTH_WAITING: Duration = Duration::from_secs(1);

/// The result of trying to start the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launch {
    /// A shim tried to start the daemon this long ago, which is less than a second. The daemon may be up soon.
    JustTried(Duration),
    /// A start was tried too recently to try again.
    TriedBefore,
    /// A service manager or the user controls the daemon.
    NotOurs,
}

/// Starts `recall daemon`, unless something else manages it or a start was tried a moment ago.
pub(crate) fn start_daemon(paths: &Paths) -> Launch {
    if std::env::var_os("RECALL_NO_DAEMON_START").is_some_and(|value| !value.is_empty() && value != "0")
        || is_managed(paths)
    {
        return Launch::NotOurs;
    }
    // The very first hook finds no folder. If it cannot be created, or is not ours, a daemon cannot run either.
    if paths.state_folders().iter().try_for_each(|folder| folder::secure(folder)).is_err() {
        return Launch::NotOurs;
    }
    if let Some(launch) = tried_lately(&paths.start_stamp(), SystemTime::now()) {
        return launch;
    }
    match spawn() {
        Ok(()) => Launch::JustTried(Duration::ZERO),
        Err(_) => Launch::TriedBefore,
    }
}

/// Whether systemd starts the daemon: its user manager is running and the socket unit is enabled. It never manages a
/// `RECALL_HOME`.
fn is_managed(paths: &Paths) -> bool {
    let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    if !cfg!(target_os = "linux") || !unset("RECALL_HOME") {
        return false;
    }
    let enabled = "systemd/user/sockets.target.wants/recall.socket";
    let runs = std::env::var_os("XDG_RUNTIME_DIR")
        .is_some_and(|dir| Path::new(&dir).join("systemd/private").exists());
    let config_home = paths.config_file().parent().and_then(Path::parent);
    runs && config_home.is_some_and(|config| config.join(enabled).is_symlink())
}

/// Claims the right to start the daemon. `None` means that the claim succeeded and the stamp was renewed.
fn tried_lately(stamp: &Path, now: SystemTime) -> Option<Launch> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(stamp);
    // If the stamp cannot be written, the daemon cannot write its files either.
    let Ok(mut stamp) = opened else { return Some(Launch::NotOurs) };
    if stamp.try_lock().is_err() {
        return Some(Launch::JustTried(Duration::ZERO));
    }
    if let Some(age) = age(&stamp, now)
        && age < PAUSE
    {
        return Some(if age < WORTH_WAITING { Launch::JustTried(age) } else { Launch::TriedBefore });
    }
    // The single byte marks the stamp as used; the file system sets its time.
    let renewed = stamp.set_len(0).and_then(|()| stamp.write_all(b"."));
    renewed.err().map(|_| Launch::NotOurs)
}

/// The time since the stamp was renewed. `None` if the stamp is new, or in the future after a clock step.
fn age(stamp: &File, now: SystemTime) -> Option<Duration> {
    let found = stamp.metadata().ok()?;
    if found.len() == 0 {
        return None;
    }
    let modified = found.modified().ok()?;
    match now.duration_since(modified) {
        Ok(age) => Some(age),
        // The file system's clock ticks more coarsely than `now`.
        Err(ahead) if ahead.duration() < WORTH_WAITING => Some(Duration::ZERO),
        Err(_) => None,
    }
}

fn spawn() -> std::io::Result<()> {
    Command::new(program())
        .arg("daemon")
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(stays)))
        .env("PATH", search_path::of_process())
        .envs(DAEMON_SETTINGS)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map(|_| ())
}

/// The daemon's binary next to our own or, failing that, from the daemon's `PATH`.
fn program() -> PathBuf {
    std::env::current_exe()
        .ok()
        .and_then(|shim| Some(shim.parent()?.join("recall")))
        .filter(|beside| beside.is_file())
        .unwrap_or_else(|| PathBuf::from("recall"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_is_started_at_most_once_in_ten_seconds() {
        let dir = tempfile::tempdir().expect("temp dir");
        let stamp = dir.path().join("stamp");
        let now = SystemTime::now();
        assert_eq!(tried_lately(&stamp, now), None, "the first");
        assert!(matches!(tried_lately(&stamp, SystemTime::now()), Some(Launch::JustTried(_))));
        let later = SystemTime::now() + Duration::from_secs(5);
        assert_eq!(tried_lately(&stamp, later), Some(Launch::TriedBefore));
        let much_later = SystemTime::now() + Duration::from_secs(11);
        assert_eq!(tried_lately(&stamp, much_later), None, "stale");
    }

    #[test]
    fn a_start_stamp_from_the_future_is_ignored() {
        let dir = tempfile::tempdir().expect("temp dir");
        let stamp = dir.path().join("stamp");
        assert_eq!(tried_lately(&stamp, SystemTime::now()), None);
        let before = SystemTime::now() - Duration::from_secs(3600);
        assert_eq!(tried_lately(&stamp, before), None);
    }

    #[test]
    fn a_locked_start_stamp_prevents_a_second_start() {
        let dir = tempfile::tempdir().expect("temp dir");
        let stamp = dir.path().join("stamp");
        let holder = File::create(&stamp).expect("creates");
        holder.lock().expect("locks");
        assert_eq!(tried_lately(&stamp, SystemTime::now()), Some(Launch::JustTried(Duration::ZERO)));
    }

    #[test]
    fn no_daemon_is_started_if_the_start_stamp_cannot_be_opened() {
        let dir = tempfile::tempdir().expect("temp dir");
        assert_eq!(tried_lately(&dir.path().join("no/stamp"), SystemTime::now()), Some(Launch::NotOurs));
        std::os::unix::fs::symlink("elsewhere", dir.path().join("link")).expect("symlink");
        assert_eq!(tried_lately(&dir.path().join("link"), SystemTime::now()), Some(Launch::NotOurs));
    }
}
