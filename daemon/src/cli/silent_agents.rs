//! Finds agents that have stopped reporting, and warns about them.
//!
//! Either their hooks are gone, or a setting turns them off, or the hooks exist but do not run. In the last case the
//! agent keeps records of sessions in which it reported nothing. Checking the records costs a bounded number of stats
//! and opens no file.

use std::collections::BinaryHeap;
use std::fmt;
use std::fs::read_dir;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::client::{Soon, this_folder};
use super::import::files::folders;
use super::install::inspection::{NoHooks, has_connected, no_hooks, user_hooks_file, was_connected};
use super::terminal::{WARNING, ago};
use recall_agents::{AGENTS, AgentSpec, Agents};
use recall_app::answers::Moment;
use recall_app::answers::status::GlanceAnswer;
use recall_app::clock;
use recall_domain::ids::Timestamp;
use recall_protocol::query::Glance;

/// The maximum number of files and folders that are checked for one agent.
const MOST_STATS: usize = 400;
/// The number of them that are checked even after the time limit.
const LEAST_STATS: usize = 32;
/// The time limit for checking the records of all agents.
const LOOK_WITHIN: Duration = Duration::from_millis(15);
/// Deeper folders are not searched.
const MOST_DEEP: usize = 5;
/// How much later than the last report a record must be to count. Agents also write after their last hook.
const LATER_BY_MS: i64 = 10 * 60_000;
/// The maximum age of a record that counts.
const LATELY_MS: i64 = 24 * 3_600_000;

/// An agent that has stopped reporting.
#[derive(Clone, Debug)]
pub(crate) struct SilentAgent {
    pub(crate) spec: &'static AgentSpec,
    /// When it last reported.
    pub(crate) last: Moment,
    pub(crate) why: Silence,
}

/// Why an agent is silent.
#[derive(Clone, Debug)]
pub(crate) enum Silence {
    Gone,
    /// A setting in this file turns all hooks off.
    Off(&'static str, PathBuf),
    /// It wrote a record then, and reported nothing.
    Unreported(Moment),
}

impl fmt::Display for SilentAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, last) = (self.spec.title, ago(self.last));
        match &self.why {
            Silence::Gone => write!(f, "the hooks of {title} are gone; it last reported {last}"),
            Silence::Off(setting, file) => {
                write!(
                    f,
                    "{setting} in {} turns the hooks of {title} off; it last reported {last}",
                    file.display()
                )
            }
            Silence::Unreported(at) => {
                write!(f, "{title} recorded a session {}, but its hooks last reported {last}", ago(*at))
            }
        }
    }
}

impl SilentAgent {
    /// Returns what to do, in words.
    pub(crate) fn hint(&self) -> String {
        let name = self.spec.name;
        match &self.why {
            Silence::Gone => format!(
                "Run `recall install --agent {name}`, or `recall uninstall --agent {name}` if you removed them on purpose."
            ),
            Silence::Off(setting, _) => {
                format!("Remove {setting}, or run `recall uninstall --agent {name}` if you set it on purpose.")
            }
            Silence::Unreported(_) => {
                "Start a new session of it. If `recall events` then shows nothing, a policy, an untrusted folder or an option keeps its hooks from running."
                    .to_owned()
            }
        }
    }

    /// Describes it in a few words, for a status line.
    pub(crate) fn in_short(&self) -> String {
        let title = self.spec.title;
        match self.why {
            Silence::Gone => format!("no hooks in {title}, see recall doctor"),
            Silence::Off(..) => format!("hooks of {title} are off, see recall doctor"),
            Silence::Unreported(_) => format!("{title} is silent, see recall doctor"),
        }
    }
}

/// Prints a warning on stderr for each silent agent.
pub fn warn() {
    if !has_connected(AGENTS) {
        return;
    }
    // Without a daemon nothing is known of when they reported.
    let Ok(mut soon) = Soon::connect() else { return };
    let Some(glance) = soon.ask(Glance { folder: this_folder() }) else { return };
    let mut err = anstream::AutoStream::auto(std::io::stderr().lock());
    for agent in silent(AGENTS, &glance) {
        let _ = writeln!(err, "{WARNING}warning:{WARNING:#} {agent}.\n  hint: {}", agent.hint());
    }
}

/// Returns the silent ones of the agents that `recall install` connected for the user and that reported recently.
/// Starts no program.
pub(crate) fn silent(agents: Agents, glance: &GlanceAnswer) -> Vec<SilentAgent> {
    let until = Instant::now() + LOOK_WITHIN;
    let mut found = Vec::new();
    for one in &glance.reported {
        let Some(spec) = agents.named(&one.agent) else { continue };
        let why = match no_hooks(agents, spec, one) {
            Some(NoHooks::Gone) => Some(Silence::Gone),
            Some(NoHooks::Off(setting)) => {
                Some(Silence::Off(setting, user_hooks_file(spec).unwrap_or_default()))
            }
            None => unreported_record(spec, one.at, glance, until).map(Silence::Unreported),
        };
        found.extend(why.map(|why| SilentAgent { spec, last: one.at, why }));
    }
    found
}

/// Returns when the agent wrote a record without reporting anything. Only a record from a time in which recall stored
/// all reports shows that.
fn unreported_record(
    spec: &'static AgentSpec,
    last: Moment,
    glance: &GlanceAnswer,
    until: Instant,
) -> Option<Moment> {
    let since = glance.stored_since?;
    let now = clock::now().0;
    let after = last.0.0.max(since.0.0).saturating_add(LATER_BY_MS).max(now.saturating_sub(LATELY_MS));
    if glance.paused || now < after || !was_connected(spec) {
        return None;
    }
    let home = std::env::home_dir().filter(|home| home.is_absolute())?;
    // A file with all sessions also changes when the program only starts.
    let history = spec.history.as_ref().filter(|history| history.inside.is_none())?;
    record_after(&folders(spec, &home), history.is_session, after, until)
}

/// Returns the time of a record that was written after this moment, in milliseconds since 1970. The folders that
/// changed last are searched first. Symlinks are not followed.
fn record_after(
    folders: &[PathBuf],
    is_session: fn(&Path) -> bool,
    after: i64,
    until: Instant,
) -> Option<Moment> {
    let mut stats = 0;
    let mut waiting: BinaryHeap<(i64, usize, PathBuf)> =
        folders.iter().map(|folder| (i64::MAX, MOST_DEEP, folder.clone())).collect();
    while let Some((_, deep, folder)) = waiting.pop() {
        for entry in read_dir(folder).into_iter().flatten().flatten() {
            if stats == MOST_STATS || (stats >= LEAST_STATS && Instant::now() > until) {
                return None;
            }
            stats += 1;
            let Ok(known) = entry.metadata() else { continue };
            let at = known.modified().map_or(0, |time| clock::of(time).0);
            let path = entry.path();
            if known.is_dir() && deep > 0 {
                waiting.push((at, deep - 1, path));
            } else if known.is_file() && at > after && is_session(&path) {
                return Some(Moment(Timestamp(at)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, create_dir_all};
    use std::time::SystemTime;

    fn is_session(path: &Path) -> bool {
        path.extension().is_some_and(|ending| ending == "jsonl")
    }

    #[test]
    fn a_newer_session_record_is_found_within_the_search_limits() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let now = clock::now().0;
        let file = |name: &str, minutes: u64| {
            let path = root.join(name);
            create_dir_all(path.parent().unwrap()).unwrap();
            let later = SystemTime::now() + Duration::from_secs(60 * minutes);
            File::create(path).unwrap().set_modified(later).unwrap();
        };
        let found = |after_minutes: i64, until: Instant| {
            record_after(std::slice::from_ref(&root), is_session, now + after_minutes * 60_000, until)
                .is_some()
        };
        let soon = || Instant::now() + Duration::from_secs(60);
        file("2026/11/27/a.jsonl", 30);
        file("2026/11/27/notes.md", 90);
        assert!(found(20, soon()));
        assert!(!found(60, soon()), "it is older, or no session");
        assert!(found(20, Instant::now()), "a few are looked at in any case");
        assert!(record_after(&[root.join("nowhere")], is_session, 0, soon()).is_none());
        for number in 0..MOST_STATS {
            file(&format!("full/{number}.txt"), 120);
        }
        file("1/2/3/4/5/6/deep.jsonl", 30);
        std::fs::remove_dir_all(root.join("2026")).unwrap();
        assert!(!found(20, soon()), "too many, or too deep");
    }
}
