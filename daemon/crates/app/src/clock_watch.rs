//! Checks the wall clock for deletions by age, and keeps its record in a file across daemon restarts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::clock;
use super::pause::write_note;
use recall_domain::wall_clock::{ClockRecord, Jump, Look, Trust};
use recall_system::trusted_file::{self, Links};

const MOST_BYTES: u64 = 4096;
/// How often the file is written if nothing changes.
const WRITE_EVERY: Duration = Duration::from_secs(60 * 60);

/// Compares the wall clock with earlier readings. Cheap to clone.
#[derive(Clone)]
pub struct ClockWatch {
    note: Arc<PathBuf>,
    /// `None` before the first check, at the daemon's start.
    state: Arc<Mutex<Option<State>>>,
}

struct State {
    record: ClockRecord,
    looked: Instant,
    written: Instant,
}

impl ClockWatch {
    pub fn new(note: &Path) -> Self {
        Self { note: Arc::new(note.to_owned()), state: Arc::default() }
    }

    /// Checks the clock. Blocks while it reads and writes the file.
    pub fn look(&self) -> Trust {
        let mut state = self.locked();
        let (now, moment) = (Instant::now(), clock::moment());
        let (record, before, written) = match &*state {
            None => (read(&self.note).unwrap_or_default().look(&moment, Look::Start), None, None),
            Some(State { record, looked, written }) => {
                let ms = i64::try_from(now.duration_since(*looked).as_millis()).unwrap_or(i64::MAX);
                (record.look(&moment, Look::Running { ms }), Some(record.trust()), Some(*written))
            }
        };
        let trust = record.trust();
        let is_news = before != Some(trust);
        let written = written.filter(|at| !is_news && now.duration_since(*at) < WRITE_EVERY);
        *state = Some(State { record, looked: now, written: written.unwrap_or(now) });
        drop(state);
        if is_news {
            log_jump(trust);
        }
        if written.is_none() {
            self.write(&record);
        }
        trust
    }

    /// Returns the clock jump that currently prevents deletions.
    pub fn jump(&self) -> Option<Jump> {
        match self.locked().as_ref()?.record.trust() {
            Trust::Believed => None,
            Trust::NotYet(jump) => jump,
        }
    }

    fn locked(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the file. Best effort: without it a later start counts as the first one, so less is deleted.
    fn write(&self, record: &ClockRecord) {
        if let Err(error) = write_note(&self.note, record) {
            tracing::warn!(%error, "cannot record the clock's state");
        }
    }
}

fn log_jump(trust: Trust) {
    if let Trust::NotYet(Some(Jump { from, to })) = trust {
        tracing::warn!(
            from = from.0,
            to = to.0,
            "the clock jumped; nothing is deleted by age until another start or a day of running"
        );
    }
}

fn read(note: &Path) -> Option<ClockRecord> {
    let bytes = trusted_file::read(note, Links::Refused, MOST_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_record_survives_a_restart_and_a_damaged_file_is_ignored() {
        clock::follow_the_runtime();
        let home = tempfile::tempdir().unwrap();
        let note = home.path().join("clock.json");
        assert_eq!(ClockWatch::new(&note).look(), Trust::NotYet(None));
        assert_eq!(ClockWatch::new(&note).look(), Trust::Believed);
        std::fs::write(&note, "torn").unwrap();
        let watch = ClockWatch::new(&note);
        assert_eq!(watch.look(), Trust::NotYet(None));
        tokio::time::advance(Duration::from_secs(25 * 60 * 60)).await;
        assert_eq!((watch.look(), watch.jump()), (Trust::Believed, None));
        // The file cannot be written, so each start counts as the first.
        let nowhere = home.path().join("no/clock.json");
        for _ in 0..3 {
            assert_eq!(ClockWatch::new(&nowhere).look(), Trust::NotYet(None));
        }
    }
}
