//! Applies changes of `config.toml` while the daemon runs. Rules that keep data out, and settings of injected context,
//! are applied here; [`CurrentConfig`] notifies the rest of the daemon.
//!
//! The housekeeper watches the file's folder and checks the file's stamp every ten seconds, but never during an event.
//! A change takes effect once two checks see the same stamp, because a program may still be writing.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::capture_rules::CaptureRules;
use super::current_config::CurrentConfig;
use recall_config::{Ambient, Code, Config, Deleted, Excluded, Loaded, Notice};
use recall_domain::context::Budgets;
use recall_domain::guard::Guards;
use recall_domain::hint::Hints;
use recall_domain::redaction::{RedactionMode, RedactionPolicy, Redactor};
use recall_domain::review::Injectable;
use recall_system::faults::{Fault, planted};

/// The current redactor. Cheap to clone.
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

/// The files of the configuration.
#[derive(Clone, Debug)]
pub struct SettingsFiles {
    pub config: PathBuf,
    /// The file that contains the last valid configuration.
    pub last_good: PathBuf,
}

/// Whether a change must settle before it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckMode {
    /// Leaves a file that may still be being written to the next check.
    AfterSettling,
    Now,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The settings in force match the file.
    Settled,
    /// The file has changed and may still be being written, so it should be checked again soon.
    Changing,
}

/// The settings that each event reads. Cheap to clone.
#[derive(Clone)]
pub struct Settings {
    /// `None` means that the configuration is never reloaded.
    files: Arc<Option<SettingsFiles>>,
    config: CurrentConfig,
    redactor: CurrentRedactor,
    capture_rules: CaptureRules,
    seen: Arc<Mutex<Seen>>,
    report: Arc<RwLock<Arc<ConfigReport>>>,
    context: Arc<RwLock<ContextSettings>>,
    /// `None` means that all guards are off.
    guards: Arc<RwLock<Option<Arc<Guards>>>>,
    hints: Arc<RwLock<Arc<Hints>>>,
}

/// `[context]`: the context that sessions receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSettings {
    pub budgets: Budgets,
    /// Whether the user sees a line about the context at a session's start.
    pub notice: Notice,
    pub ambient: Ambient,
    pub code: Code,
    /// Which notes may be injected unasked.
    pub injectable: Injectable,
}

impl ContextSettings {
    fn of(config: &Config) -> Self {
        Self {
            budgets: config.budgets,
            notice: config.notice,
            ambient: config.ambient,
            code: config.code,
            injectable: config.injectable,
        }
    }
}

/// The state of the configuration, for users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigReport {
    /// All problems, with line numbers.
    pub problems: Vec<String>,
    /// The consequence of the problems; `None` if there are none.
    pub consequence: Option<&'static str>,
    pub(crate) nothing_is_captured: bool,
}

impl ConfigReport {
    fn of(loaded: &Loaded) -> Self {
        Self {
            problems: loaded.problems.iter().map(ToString::to_string).collect(),
            consequence: (!loaded.problems.is_empty()).then(|| loaded.consequence()),
            nothing_is_captured: loaded.config.excluded == Excluded::Everything,
        }
    }

    /// Returns one line for the user; `None` if there are no problems.
    pub fn notice(&self) -> Option<String> {
        let consequence = self.consequence?;
        let (first, more) = self.problems.split_first()?;
        let more = match more.len() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Some(format!(
            "recall: config.toml has errors: {first}{more}. {consequence} Run `recall doctor` for details."
        ))
    }
}

struct Seen {
    redaction: RedactionPolicy,
    excluded: Excluded,
    /// `None` if the file was not checked yet.
    taken: Option<Option<Stamp>>,
    /// A change found by the last check.
    changed: Option<Option<Stamp>>,
}

/// Metadata that changes with the file.
type Stamp = (u64, u64, i64, i64, i64, i64);

impl Settings {
    /// Creates the settings. `loaded` is the configuration at the daemon's start.
    pub fn new(
        files: Option<SettingsFiles>,
        loaded: &Loaded,
        config: CurrentConfig,
        redactor: CurrentRedactor,
        capture_rules: CaptureRules,
    ) -> Self {
        let seen = Seen {
            redaction: loaded.config.redaction.clone(),
            excluded: loaded.config.excluded.clone(),
            // The first checks find changes made since the start.
            taken: None,
            changed: None,
        };
        Self {
            files: Arc::new(files),
            config,
            redactor,
            capture_rules,
            seen: Arc::new(Mutex::new(seen)),
            report: Arc::new(RwLock::new(Arc::new(ConfigReport::of(loaded)))),
            context: Arc::new(RwLock::new(ContextSettings::of(&loaded.config))),
            guards: Arc::new(RwLock::new(guards_of(&loaded.config))),
            hints: Arc::new(RwLock::new(hints_of(&loaded.config))),
        }
    }

    pub fn can_reload(&self) -> bool {
        self.files.is_some()
    }

    pub fn report(&self) -> Arc<ConfigReport> {
        Arc::clone(&self.report.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn context(&self) -> ContextSettings {
        *self.context.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happens to a session that is deleted in its agent.
    pub fn deleted(&self) -> Deleted {
        self.config.get().deleted
    }

    /// The redactor in force.
    pub fn redactor(&self) -> Arc<Redactor> {
        self.redactor.get()
    }

    /// The guards in force; `None` if all are off.
    pub fn guards(&self) -> Option<Arc<Guards>> {
        self.guards.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the user's hints for prompts.
    pub fn hints(&self) -> Arc<Hints> {
        Arc::clone(&self.hints.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks for a change and applies it. Blocks.
    pub fn check(&self, mode: CheckMode) -> CheckResult {
        let Some(files) = &*self.files else { return CheckResult::Settled };
        let stamp = stamp(files);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.taken == Some(stamp) {
            seen.changed = None;
            return CheckResult::Settled;
        }
        if mode == CheckMode::AfterSettling && seen.changed != Some(stamp) {
            seen.changed = Some(stamp);
            return CheckResult::Changing;
        }
        let loaded = Config::in_force(&files.config, &files.last_good);
        (seen.taken, seen.changed) = (Some(stamp), None);
        self.take(&loaded, &mut seen);
        CheckResult::Settled
    }

    /// Returns the folder of the file, which need not exist.
    pub fn folder(&self) -> Option<&Path> {
        self.files.as_ref().as_ref()?.config.parent()
    }

    fn take(&self, loaded: &Loaded, seen: &mut Seen) {
        let config = &loaded.config;
        if config.excluded != seen.excluded {
            seen.excluded = config.excluded.clone();
            self.capture_rules.exclude(&config.excluded);
            tracing::info!("applied a change of capture.exclude");
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
                    tracing::info!("applied a change of [redaction]");
                }
                // Each pattern was already compiled when the file was read.
                Err(_) => tracing::error!("cannot apply a change of [redaction]"),
            }
        }
        *self.context.write().unwrap_or_else(PoisonError::into_inner) = ContextSettings::of(config);
        *self.guards.write().unwrap_or_else(PoisonError::into_inner) = guards_of(config);
        *self.hints.write().unwrap_or_else(PoisonError::into_inner) = hints_of(config);
        self.config.was_read(config);
        let report = ConfigReport::of(loaded);
        if !report.problems.is_empty() {
            tracing::warn!(
                problems = report.problems.len(),
                "the configuration has errors; run `recall doctor`"
            );
        }
        *self.report.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(report);
    }
}

/// The guards of a configuration; `None` if all are off.
pub fn guards_of(config: &Config) -> Option<Arc<Guards>> {
    let home = std::env::var("HOME").unwrap_or_default();
    // Each pattern was already compiled when the file was read.
    let guards = Guards::new(&config.guards, &home).inspect_err(|_| tracing::error!("cannot apply [guards]"));
    guards.ok().flatten().map(Arc::new)
}

fn hints_of(config: &Config) -> Arc<Hints> {
    // Each pattern was already compiled when the file was read.
    let hints = Hints::new(&config.hints).inspect_err(|_| tracing::error!("cannot apply [[hint]]"));
    Arc::new(hints.unwrap_or_default())
}

/// Returns the file's stamp; `None` if there is no file.
fn stamp(files: &SettingsFiles) -> Option<Stamp> {
    let file = std::fs::metadata(&files.config).ok()?;
    Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()))
}
