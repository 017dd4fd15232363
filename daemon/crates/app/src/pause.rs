//! Whether recording is paused (`recall pause`), stored in its own file.
//!
//! It is not stored in the database, because a backup that replaces a damaged database must not end a pause. An
//! unreadable file counts as a pause, because the user may have requested one; `status` and `doctor` show it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;

use recall_domain::ids::Timestamp;
use recall_domain::order::Order;
use recall_domain::pause::{Pause, Pauses};
use recall_system::trusted_file::{self, Links};

/// The maximum size of the file in bytes. A pause takes about 300 bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Pauses and resumes recording. Cheap to clone.
#[derive(Clone)]
pub struct PauseSwitch {
    note: Arc<PathBuf>,
    pauses: Arc<RwLock<Pauses>>,
}

impl PauseSwitch {
    /// Loads the pauses. Without the file nothing is paused.
    pub fn load(note: &Path) -> Self {
        let pauses = read(note).unwrap_or_else(|error| {
            tracing::error!(note = %note.display(), %error, "recording is off because the file of pauses cannot be read");
            Pauses::unknown()
        });
        Self { note: Arc::new(note.to_owned()), pauses: Arc::new(RwLock::new(pauses)) }
    }

    pub fn covers(&self, at: &Order) -> bool {
        self.pauses.read().unwrap_or_else(PoisonError::into_inner).cover(at)
    }

    pub fn current(&self, now: &Order) -> Option<Pause> {
        self.pauses.read().unwrap_or_else(PoisonError::into_inner).current(now)
    }

    /// Returns the begin and end of each pause by the wall clock.
    pub fn spans(&self) -> Vec<(Timestamp, Option<Timestamp>)> {
        self.pauses.read().unwrap_or_else(PoisonError::into_inner).spans().collect()
    }

    /// Starts a pause, writing the file first. Blocks. If the file cannot be written, nothing changes.
    pub fn pause(&self, now: &Order, until: Option<Timestamp>) -> io::Result<()> {
        self.change(|pauses| pauses.begin(now, until))
    }

    /// Ends a pause; see [`Self::pause`].
    pub fn resume(&self, now: &Order) -> io::Result<()> {
        self.change(|pauses| pauses.end(now))
    }

    fn change(&self, change: impl FnOnce(&mut Pauses)) -> io::Result<()> {
        let mut pauses = self.pauses.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = pauses.clone();
        change(&mut changed);
        write_note(&self.note, &changed)?;
        *pauses = changed;
        Ok(())
    }
}

fn read(note: &Path) -> io::Result<Pauses> {
    match trusted_file::read(note, Links::Refused, MOST_BYTES) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(why) if why.is_absence() => Ok(Pauses::default()),
        Err(why) => Err(why.into()),
    }
}

/// Replaces a small state file atomically.
pub(super) fn write_note(note: &Path, content: &impl Serialize) -> io::Result<()> {
    let draft = note.with_extension("part");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&serde_json::to_vec(content)?)?;
    file.sync_all()?;
    fs::rename(&draft, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: i64) -> Order {
        Order { wall: Timestamp(wall), ..Order::default() }
    }

    #[test]
    fn a_pause_survives_a_restart_and_a_damaged_file_counts_as_a_pause() {
        let home = tempfile::tempdir().unwrap();
        let note = home.path().join("pauses.json");
        let switch = PauseSwitch::load(&note);
        assert!(!switch.covers(&at(5)));
        switch.pause(&at(5), None).unwrap();
        assert!(PauseSwitch::load(&note).covers(&at(6)));
        switch.resume(&at(7)).unwrap();
        let again = PauseSwitch::load(&note);
        assert!(again.covers(&at(6)) && !again.covers(&at(7)));
        fs::write(&note, "torn").unwrap();
        let torn = PauseSwitch::load(&note);
        assert!(torn.covers(&at(0)));
        torn.resume(&at(9)).unwrap();
        assert!(!PauseSwitch::load(&note).covers(&at(9)));
        let nowhere = PauseSwitch::load(&home.path().join("no/such/folder/pauses.json"));
        assert!(nowhere.pause(&at(1), None).is_err());
        assert!(!nowhere.covers(&at(2)));
    }
}
