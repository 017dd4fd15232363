//! Caches the declarations in the source files of the repositories in use, and finds those that a prompt is about.
//! Kept only in memory: nothing is stored, so nothing needs to be forgotten.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::capture_rules::rules_in;
use recall_domain::context::Declaration;
use recall_domain::ids::SessionId;
use recall_outline::{Asked, Outline, read};
use recall_repository::project_file::ProjectRules;

/// The maximum number of cached repositories. The least recently used is dropped.
const MOST_REPOSITORIES: usize = 4;
/// The maximum age of an outline. An older one is read again at the next query.
const FRESH: Duration = Duration::from_secs(30);
/// Reading takes at most one in this many parts of the time.
const PAUSE: u32 = 20;
/// The maximum number of places injected at a prompt.
const MOST_PLACES: usize = 3;
/// The number of places considered for those. Places that the session already received are skipped.
const CONSIDERED: usize = 8;
/// The maximum number of sessions whose injected places are remembered.
const MOST_SESSIONS: usize = 64;

/// The cached outlines of the repositories in use. Cheap to clone; clones share what they know.
#[derive(Clone, Default)]
pub struct Outlines(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// Most recently used last.
    outlines: Vec<Read>,
    /// The folder that is being read. Only one is read at a time.
    reading: Option<PathBuf>,
    injected: HashMap<SessionId, HashSet<(String, String)>>,
    /// The sessions, in the order of their first injection.
    sessions: VecDeque<SessionId>,
}

struct Read {
    folder: PathBuf,
    outline: Arc<Outline>,
    at: Instant,
    took: Duration,
}

impl Outlines {
    /// Returns the outline of a repository's folder. `None` if it was not read yet. A thread then reads it, and reads
    /// it again if it is older than a moment; nobody waits for that.
    pub fn of(&self, folder: &Path) -> Option<Arc<Outline>> {
        let mut known = self.known();
        let at = known.outlines.iter().position(|read| read.folder == folder);
        let found = at.map(|at| known.outlines.remove(at));
        let is_due = found.as_ref().is_none_or(|read| read.at.elapsed() > FRESH.max(read.took * PAUSE));
        let outline = found.map(|read| {
            let outline = Arc::clone(&read.outline);
            known.outlines.push(read);
            outline
        });
        if is_due && known.reading.is_none() {
            known.reading = Some(folder.to_owned());
            drop(known);
            self.read(folder.to_owned(), outline.clone().unwrap_or_default());
        }
        outline
    }

    /// Drops everything, because the user turned the feature off.
    pub fn clear(&self) {
        let mut known = self.known();
        (known.outlines, known.injected, known.sessions) = Default::default();
    }

    fn read(&self, folder: PathBuf, before: Arc<Outline>) {
        let this = self.clone();
        let reading = std::thread::Builder::new().name("outline".to_owned()).spawn(move || {
            let done = Done(this);
            let began = Instant::now();
            let rules = rules_in(&folder);
            match read(&folder, &before, &|path| is_hidden(&rules, &folder, path)) {
                Ok(outline) => done.0.keep(folder, outline, began),
                Err(error) => tracing::debug!(%error, "cannot read the outline of a repository"),
            }
        });
        if let Err(error) = reading {
            tracing::warn!(%error, "cannot start a thread that reads an outline");
            self.known().reading = None;
        }
    }

    fn keep(&self, folder: PathBuf, outline: Outline, began: Instant) {
        tracing::debug!(files = outline.files(), names = outline.names(), "read the outline of a repository");
        let mut known = self.known();
        known.outlines.retain(|read| read.folder != folder);
        if known.outlines.len() >= MOST_REPOSITORIES {
            known.outlines.remove(0);
        }
        let (outline, at) = (Arc::new(outline), Instant::now());
        known.outlines.push(Read { folder, outline, at, took: began.elapsed() });
    }

    /// Returns the places that a prompt is about, as they are now, without those that its session has received or whose
    /// files it has read or written. `seen` lists these files.
    pub fn about(
        &self,
        folder: &Path,
        prompt: &str,
        session: Option<&SessionId>,
        seen: impl FnOnce() -> Vec<String>,
    ) -> Vec<Declaration> {
        let Some(outline) = self.of(folder) else { return Vec::new() };
        let mut places = outline.related(prompt, Asked::Unasked, CONSIDERED);
        let key = |place: &Declaration| (place.file.clone(), place.symbol());
        if let Some(injected) = session.and_then(|session| self.known().injected.get(session).cloned()) {
            places.retain(|place| !injected.contains(&key(place)));
        }
        if !places.is_empty() {
            let seen: HashSet<String> = seen().iter().map(|path| within(folder, path)).collect();
            places.retain(|place| !seen.contains(&place.file));
        }
        places.truncate(MOST_PLACES);
        let places = outline.as_now(folder, places);
        if let Some(session) = session.filter(|_| !places.is_empty()) {
            self.known().remember(session, places.iter().map(key));
        }
        places
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn remember(&mut self, session: &SessionId, places: impl Iterator<Item = (String, String)>) {
        if !self.injected.contains_key(session) {
            self.sessions.push_back(session.clone());
        }
        self.injected.entry(session.clone()).or_default().extend(places);
        while self.sessions.len() > MOST_SESSIONS {
            if let Some(oldest) = self.sessions.pop_front() {
                self.injected.remove(&oldest);
            }
        }
    }
}

/// Records when it is dropped, even by a panic, that no folder is being read.
struct Done(Outlines);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.known().reading = None;
    }
}

/// Returns a path relative to the repository's folder; a path outside of it stays as it is.
fn within(folder: &Path, path: &str) -> String {
    let relative = Path::new(path).strip_prefix(folder).unwrap_or(Path::new(path));
    relative.to_string_lossy().trim_start_matches("./").to_owned()
}

/// Whether the repository's own file hides a path.
fn is_hidden(rules: &ProjectRules, folder: &Path, path: &Path) -> bool {
    let relative = path.strip_prefix(folder).unwrap_or(path);
    rules.hides(&relative.to_string_lossy())
}
