//! Names the process that keeps a daemon from starting because it holds the lock or the lease of the data folder.

use recall_protocol::paths::{LockNote, Paths};

use crate::server::instance::{Instance, InstanceError};
use recall_system::holding::{self, Holder};

/// The holder of the data folder if no daemon responds, and the user's next step.
pub struct InTheWay {
    pub what: String,
    pub hint: String,
    pub who: Who,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A daemon on this machine, which may be starting or ending.
    Daemon,
    /// Another program, or a daemon elsewhere.
    Other,
}

/// Returns the holder. `None` if nobody holds it, or the system does not report it.
pub fn in_the_way(paths: &Paths) -> Option<InTheWay> {
    let (folder, lock) = (paths.data_dir(), paths.lock_file());
    if !lock.exists() {
        return None;
    }
    let is_locked = matches!(Instance::claim(&lock), Err(InstanceError::Taken(_)));
    let holder = holding::holder(folder, &lock);
    if !is_locked && holder.is_none() {
        return None;
    }
    let note = LockNote::read(&lock);
    let is_daemon = holder.as_ref().zip(note.as_ref()).is_some_and(|(holder, note)| holder.pid == note.pid);
    let is_daemon = is_daemon && holder.as_ref().is_some_and(|holder| holder.host.is_none());
    let (what, hint) = match holder {
        Some(Holder { pid, host: Some(host) }) => (
            format!(
                "a daemon on {host} (pid {pid}), another machine or container, holds {}",
                folder.display()
            ),
            "Stop it there with `recall ctl stop`, or set RECALL_HOME to a folder of its own.".to_owned(),
        ),
        Some(Holder { pid, host: None }) if is_daemon => (
            format!("a daemon (pid {pid}) holds {} and does not respond on its socket", lock.display()),
            format!(
                "See the log, {}, or end it with `kill {pid}`; the next hook starts another.",
                paths.log_file().display()
            ),
        ),
        Some(Holder { pid, host: None }) => (
            format!("process {pid} holds the lock {}", lock.display()),
            format!("`ps -p {pid}` shows what it is. A daemon can start once it releases the lock."),
        ),
        None => (
            format!("an unknown process holds the lock {}", lock.display()),
            format!(
                "`fuser {}` names the process. A daemon can start once it releases the lock.",
                lock.display()
            ),
        ),
    };
    let who = if is_daemon { Who::Daemon } else { Who::Other };
    Some(InTheWay { what, hint, who })
}
