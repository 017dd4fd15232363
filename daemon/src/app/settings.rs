//! What of the configuration is taken up while the daemon runs: what keeps things out. All else counts from its start.
//!
//! The housekeeper watches the file's folder and looks at the file's stamp every ten seconds, never for an event. A change counts when two looks
//! have found it the same, for a program may be writing just then.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::capture_rules::CaptureRules;
use crate::config::{Config, Excluded, Loaded};
use crate::faults::{Fault, planted};
use crate::memory::redaction::{RedactionMode, RedactionPolicy, Redactor};

/// The redactor of the moment. Cheap to clone.
#[derive(Clone)]
pub struct CurrentRedactor(Arc<RwLock<Arc<Redactor>>>);

impl CurrentRedactor {
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self(Arc::new(RwLock::new(redactor)))
    }

    pub fn get(&self) -> Arc<Redactor> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, redactor: Redactor) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(redactor);
    }
}

/// Where the configuration is read from.
#[derive(Clone, Debug)]
pub struct SettingsFiles {
    pub config: PathBuf,
    /// What remembers the last configuration without a mistake.
    pub last_good: PathBuf,
}

/// How long a change is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A change that may still be being written is left for the next look.
    Patient,
    Now,
}

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// What is in force is what the file says.
    Settled,
    /// The file has changed and may still be being written: look again in a moment.
    Changing,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Settings {
    /// `None`: nothing is read again.
    files: Arc<Option<SettingsFiles>>,
    redactor: CurrentRedactor,
    capture_rules: CaptureRules,
    seen: Arc<Mutex<Seen>>,
    report: Arc<RwLock<Arc<ConfigReport>>>,
}

/// What is told of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigReport {
    /// All that is wrong with it, with lines.
    pub problems: Vec<String>,
    /// What follows from that; `None` where nothing is wrong.
    pub consequence: Option<&'static str>,
    pub nothing_is_captured: bool,
    /// Parts of it that have changed and count after a restart.
    pub after_restart: Vec<&'static str>,
}

impl ConfigReport {
    fn of(loaded: &Loaded, running: &Config) -> Self {
        let (new, old) = (&loaded.config, running);
        let parts = [
            ("capture", new.capture != old.capture),
            ("durability", new.durability != old.durability),
            (
                "timers",
                (new.idle, new.housekeeping_s, new.retention_days)
                    != (old.idle, old.housekeeping_s, old.retention_days),
            ),
            ("context", (new.budgets, new.notice) != (old.budgets, old.notice)),
            ("compression", new.compression != old.compression),
            ("subscribe", new.subscriptions != old.subscriptions),
        ];
        Self {
            problems: loaded.problems.iter().map(ToString::to_string).collect(),
            consequence: (!loaded.problems.is_empty()).then(|| loaded.consequence()),
            nothing_is_captured: new.excluded == Excluded::Everything,
            after_restart: parts.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect(),
        }
    }

    /// One line for the user; `None`: nothing is wrong.
    pub fn notice(&self) -> Option<String> {
        let consequence = self.consequence?;
        let (first, more) = self.problems.split_first()?;
        let more = match more.len() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Some(format!(
            "recall: config.toml has errors: {first}{more}. {consequence} `recall doctor` names them."
        ))
    }
}

struct Seen {
    running: Config,
    redaction: RedactionPolicy,
    excluded: Excluded,
    /// `None`: the file was not looked at yet.
    taken: Option<Option<Stamp>>,
    /// A change that the last look has found.
    changed: Option<Option<Stamp>>,
}

/// What changes when a file does.
type Stamp = (u64, u64, i64, i64, i64, i64);

impl Settings {
    /// `loaded`: what the daemon starts with.
    pub fn new(
        files: Option<SettingsFiles>,
        loaded: &Loaded,
        redactor: CurrentRedactor,
        capture_rules: CaptureRules,
    ) -> Self {
        let seen = Seen {
            running: loaded.config.clone(),
            redaction: loaded.config.redaction.clone(),
            excluded: loaded.config.excluded.clone(),
            // What was changed since it was read is found by the first looks.
            taken: None,
            changed: None,
        };
        Self {
            files: Arc::new(files),
            redactor,
            capture_rules,
            seen: Arc::new(Mutex::new(seen)),
            report: Arc::new(RwLock::new(Arc::new(ConfigReport::of(loaded, &loaded.config)))),
        }
    }

    pub fn are_read_again(&self) -> bool {
        self.files.is_some()
    }

    pub fn report(&self) -> Arc<ConfigReport> {
        Arc::clone(&self.report.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a change up. Blocks.
    pub fn look(&self, look: Look) -> Looked {
        let Some(files) = &*self.files else { return Looked::Settled };
        let stamp = stamp(files);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.taken == Some(stamp) {
            seen.changed = None;
            return Looked::Settled;
        }
        if look == Look::Patient && seen.changed != Some(stamp) {
            seen.changed = Some(stamp);
            return Looked::Changing;
        }
        let loaded = Config::in_force(&files.config, &files.last_good);
        (seen.taken, seen.changed) = (Some(stamp), None);
        self.take(&loaded, &mut seen);
        Looked::Settled
    }

    /// The folder in which the file lies or would lie.
    pub fn folder(&self) -> Option<&Path> {
        self.files.as_ref().as_ref()?.config.parent()
    }

    fn take(&self, loaded: &Loaded, seen: &mut Seen) {
        let config = &loaded.config;
        if config.excluded != seen.excluded {
            seen.excluded = config.excluded.clone();
            self.capture_rules.exclude(&config.excluded);
            tracing::info!("capture.exclude has changed and is followed from now on");
        }
        let mut redaction = config.redaction.clone();
        if planted(Fault::KeepSecrets) {
            redaction.mode = RedactionMode::Off;
        }
        if redaction != seen.redaction {
            match Redactor::new(&redaction) {
                Ok(redactor) => {
                    self.redactor.set(redactor);
                    seen.redaction = redaction;
                    tracing::info!("[redaction] has changed and is followed from now on");
                }
                // Each pattern was compiled when the file was read.
                Err(_) => tracing::error!("[redaction] has changed and cannot be followed"),
            }
        }
        let report = ConfigReport::of(loaded, &seen.running);
        if !report.problems.is_empty() {
            tracing::warn!(
                problems = report.problems.len(),
                "the configuration has errors; `recall doctor` names them"
            );
        }
        *self.report.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(report);
    }
}

/// `None`: there is no file.
fn stamp(files: &SettingsFiles) -> Option<Stamp> {
    let file = std::fs::metadata(&files.config).ok()?;
    Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()))
}
