//! Decides what may be captured where, based on the user's excluded projects and the projects' own files.
//!
//! Every folder that an event names is checked, both as named and with symlinks resolved. The enclosing repository is
//! checked too, with its main work tree, the local repositories from which it was cloned, and all others that its
//! files mention. A single excluded folder is enough. Because this is checked for each event, the result for a folder
//! is cached briefly.

mod excluded;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{block_in_place, spawn_blocking};

use excluded::ExcludedSet;
use recall_config::Excluded;
use recall_domain::event::is_too_long;
use recall_domain::project::{RepositoryFacts, display_name, identities, normalise_remote};
use recall_repository::ProjectFile;
use recall_repository::mentions::{decoded, strip_file_scheme, without_dots};
use recall_repository::project_file::{Captured, NAME, ProjectRules};

/// How long the result for a folder is cached.
const BELIEVED_FOR: Duration = Duration::from_secs(1);
/// The maximum number of cached folders.
const MOST_FOLDERS: usize = 500;
/// The number of parent folders of a place that are checked.
const MOST_PARENTS: usize = 128;
/// The number of potential file names that are looked up on disk. Others are only compared with the patterns.
const MOST_NAMES: usize = 1_000;
/// The approximate number of disk lookups for the names of one event. Names beyond that are only compared with the
/// patterns.
const MOST_LOOKS: usize = 8_000;
/// The number of lookups that a folder's rules cost per ancestor folder.
const LOOKS_FOR_RULES: usize = 12;

/// The rules about what is recorded. Cheap to clone.
#[derive(Clone)]
pub struct CaptureRules {
    excluded: Arc<RwLock<Arc<ExcludedSet>>>,
    known: Arc<Mutex<HashMap<PathBuf, Known>>>,
    /// The user's home folder.
    home: Arc<PathBuf>,
    /// Counts replacements of the patterns.
    replaced: Arc<AtomicU64>,
}

struct Known {
    looked: Instant,
    rules: Arc<FolderRules>,
}

/// The rules for a folder.
#[derive(Clone, Debug, Default)]
pub struct FolderRules {
    pub captured: Captured,
    /// The project's configured display name, if any.
    pub alias: Option<String>,
    complaints: usize,
    /// The top folder of the enclosing repository.
    top: Option<PathBuf>,
    /// The folders whose own files apply here, with their rules.
    files: Vec<(PathBuf, ProjectRules)>,
}

impl FolderRules {
    /// Whether the content of a file with this name must not be stored.
    pub fn hides(&self, path: &str) -> bool {
        self.files.iter().any(|(root, rules)| match Path::new(path).strip_prefix(root) {
            Ok(relative) => rules.hides(&relative.to_string_lossy()),
            // The project's rules do not apply to a path outside the project.
            Err(_) => !Path::new(path).is_absolute() && rules.hides(path),
        })
    }

    pub fn hides_anything(&self) -> bool {
        self.files.iter().any(|(_, rules)| rules.hides_anything())
    }
}

/// The rules for an event.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventRules {
    /// The rules of each folder that the event names.
    pub rules: Vec<Arc<FolderRules>>,
    /// Names of files that belong to excluded projects.
    pub elsewhere: HashSet<String>,
}

impl EventRules {
    /// Whether the event may be captured. A single excluded folder forbids it.
    pub(crate) fn captured(&self) -> Captured {
        match self.rules.iter().any(|rules| rules.captured == Captured::No) {
            true => Captured::No,
            false => Captured::Yes,
        }
    }

    /// Whether the content of a file with this name must not be stored.
    pub(crate) fn hides(&self, path: &str) -> bool {
        self.rules.iter().any(|rules| rules.hides(path))
    }

    pub(crate) fn hides_anything(&self) -> bool {
        self.rules.iter().any(|rules| rules.hides_anything())
    }
}

impl CaptureRules {
    pub fn new(excluded: &Excluded) -> Self {
        let home = std::env::home_dir().filter(|home| home.is_absolute()).unwrap_or_default();
        let home = home.canonicalize().unwrap_or(home);
        Self {
            excluded: Arc::new(RwLock::new(Arc::new(ExcludedSet::new(excluded, &home)))),
            known: Arc::default(),
            home: Arc::new(home),
            replaced: Arc::default(),
        }
    }

    /// Replaces the exclusion patterns.
    pub fn exclude(&self, excluded: &Excluded) {
        let set = Arc::new(ExcludedSet::new(excluded, &self.home));
        *self.excluded.write().unwrap_or_else(PoisonError::into_inner) = set;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.replaced.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of replacements of the patterns so far. A decision made under another number used other rules.
    pub fn version(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Resolves `~` and `file://` in a path as a client names it.
    pub(crate) fn spelled_out<'a>(&self, named: &'a str) -> Cow<'a, str> {
        if let Some(path) = strip_file_scheme(named) {
            return Cow::Owned(decoded(path));
        }
        match named.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                Cow::Owned(format!("{}{rest}", self.home.display()))
            }
            _ => Cow::Borrowed(named),
        }
    }

    /// Returns the rules for a folder.
    pub async fn rules(&self, folder: &str) -> Arc<FolderRules> {
        self.event_rules(vec![PathBuf::from(folder)], Vec::new())
            .await
            .rules
            .into_iter()
            .next()
            .unwrap_or_default()
    }

    /// Returns the rules for an event that names these folders, and whose calls name these files. A file is named as
    /// in the call or the command, relative to one of the folders.
    pub(crate) async fn event_rules(&self, folders: Vec<PathBuf>, names: Vec<String>) -> EventRules {
        if names.is_empty() {
            let believed: Vec<_> = folders.iter().map_while(|folder| self.believed(folder)).collect();
            if believed.len() == folders.len() {
                return EventRules { rules: believed, elsewhere: HashSet::new() };
            }
        }
        let looked = match Handle::current().runtime_flavor() {
            // A lookup takes microseconds and an agent is waiting, so no other thread is woken for it. Meanwhile the
            // runtime moves this thread's other tasks away, because a folder may be on a disk that does not respond.
            RuntimeFlavor::MultiThread => {
                let look = || block_in_place(|| self.look_around(&folders, names));
                catch_unwind(AssertUnwindSafe(look)).ok()
            }
            // Tests with a paused clock use a single thread.
            _ => {
                let this = self.clone();
                spawn_blocking(move || this.look_around(&folders, names)).await.ok()
            }
        };
        looked.unwrap_or_else(|| {
            tracing::error!("the lookup of a project's rules panicked");
            let nothing = FolderRules { captured: Captured::No, ..FolderRules::default() };
            EventRules { rules: vec![Arc::new(nothing)], elsewhere: HashSet::new() }
        })
    }

    fn look_around(&self, folders: &[PathBuf], names: Vec<String>) -> EventRules {
        let mut event_rules = EventRules {
            rules: folders.iter().map(|folder| self.look_in(folder)).collect(),
            elsewhere: HashSet::new(),
        };
        if event_rules.captured() == Captured::No {
            return event_rules;
        }
        let (mut looked_at, effort) = (0, Effort::default());
        let is_elsewhere = |name: &String| {
            looked_at += 1;
            // Such a path is not resolved, so its target is unknown and nothing of it is stored.
            let is_long = || folders.iter().any(|folder| is_long(&whole(name, folder)));
            match looked_at > MOST_NAMES || effort.is_spent() {
                true => self.is_named_by_a_pattern(name, folders),
                false => is_long() || self.is_excluded_file(name, folders, &event_rules.rules, &effort),
            }
        };
        event_rules.elsewhere = names.into_iter().filter(is_elsewhere).collect();
        event_rules
    }

    /// Whether the user excludes anything.
    pub(crate) fn exclude_anything(&self) -> bool {
        !self.excluded().is_empty()
    }

    fn excluded(&self) -> Arc<ExcludedSet> {
        Arc::clone(&self.excluded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a project identity, such as `git:github.com/acme/shop`, belongs to an excluded project.
    pub(crate) fn excludes_project(&self, key: &str) -> bool {
        let excluded = self.excluded();
        let (_, name) = key.split_once(':').unwrap_or(("", key));
        [key, name].into_iter().any(|name| excluded.covers(name))
    }

    fn is_named_by_a_pattern(&self, name: &str, folders: &[PathBuf]) -> bool {
        let excluded = self.excluded();
        folders.iter().any(|folder| excluded.covers(&whole(name, folder).to_string_lossy()))
    }

    fn is_excluded_file(
        &self,
        name: &str,
        folders: &[PathBuf],
        own: &[Arc<FolderRules>],
        effort: &Effort,
    ) -> bool {
        let at_home = ["~/", "$HOME/", "${HOME}/"].iter().find_map(|start| name.strip_prefix(start));
        if let Some(rest) = at_home {
            return self.is_excluded_place(&self.home.join(rest), own, effort);
        }
        if Path::new(name).is_absolute() {
            return self.is_excluded_place(Path::new(name), own, effort);
        }
        // A word without a slash is a file in the folder itself, unless it is a folder or a symlink that leads
        // elsewhere.
        let leads_on = |path: &Path| path.symlink_metadata().is_ok_and(|file| !file.is_file());
        let is_excluded = |path: PathBuf| {
            (name.contains('/') || leads_on(&path)) && self.is_excluded_place(&path, own, effort)
        };
        folders.iter().any(|folder| is_excluded(folder.join(name)))
    }

    /// Whether a file or folder, which need not exist, is excluded. `own` are the rules of the event's own folder.
    fn is_excluded_place(&self, path: &Path, own: &[Arc<FolderRules>], effort: &Effort) -> bool {
        let path = without_dots(path);
        effort.spend(&path);
        let excluded = self.excluded();
        let (there, missing) = resolved_parts(&path);
        let resolved = if missing.as_os_str().is_empty() { there.clone() } else { there.join(&missing) };
        if excluded.covers(&path.to_string_lossy()) || excluded.covers_place(&resolved) {
            return true;
        }
        // A missing file cannot decide, so the last existing folder does.
        let folder = if there.is_dir() { there.as_path() } else { there.parent().unwrap_or(&there) };
        // The symlink leads to a file that the project itself hides.
        if resolved != path && own.iter().any(|rules| rules.hides(&resolved.to_string_lossy())) {
            return true;
        }
        if own.iter().filter_map(|rules| rules.top.as_deref()).any(|top| is_plainly_in(folder, top)) {
            return false;
        }
        if self.believed(folder).is_none() {
            effort.spend_on_rules(folder);
        }
        let rules = self.look_in(folder);
        // A plain folder also matches by its name.
        let mut names = missing.parent().into_iter().flat_map(Path::components);
        let mut is_named = || names.any(|name| excluded.covers(&name.as_os_str().to_string_lossy()));
        rules.captured == Captured::No
            || rules.hides(&resolved.to_string_lossy())
            || (rules.top.is_none() && is_named())
    }

    fn look_in(&self, folder: &Path) -> Arc<FolderRules> {
        if let Some(rules) = self.believed(folder) {
            return rules;
        }
        let excluded = self.excluded();
        let rules = Arc::new(self.look(folder, &excluded));
        self.remember(folder, &rules, &excluded);
        rules
    }

    fn believed(&self, folder: &Path) -> Option<Arc<FolderRules>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(folder).filter(|known| known.looked.elapsed() < BELIEVED_FOR)?;
        Some(Arc::clone(&found.rules))
    }

    /// Caches the rules of a folder. `excluded` are the patterns with which they were made.
    fn remember(&self, folder: &Path, rules: &Arc<FolderRules>, excluded: &Arc<ExcludedSet>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(excluded, &self.excluded()) {
            return;
        }
        if known.len() >= MOST_FOLDERS {
            known.clear();
        }
        let is_news = known.get(folder).is_none_or(|before| before.rules.complaints != rules.complaints);
        if is_news && rules.complaints > 0 {
            tracing::warn!(
                complaints = rules.complaints,
                "a project's .recall.toml has problems; run `recall doctor` in its folder"
            );
        }
        known.insert(folder.to_owned(), Known { looked: Instant::now(), rules: Arc::clone(rules) });
    }

    fn look(&self, folder: &Path, excluded: &ExcludedSet) -> FolderRules {
        let resolved = if is_long(folder) { folder.to_owned() } else { resolved(folder) };
        if is_long(&resolved) {
            // The path is not resolved, so it may be in any project.
            let captured = if excluded.is_empty() { Captured::Yes } else { Captured::No };
            return FolderRules { captured, ..FolderRules::default() };
        }
        let facts = recall_repository::facts(&resolved);
        let files = project_files(&resolved, &facts, &self.home);
        let mut rules = FolderRules {
            captured: Captured::Yes,
            alias: None,
            complaints: files.iter().map(|(_, rules)| rules.complaints.len()).sum(),
            top: facts.common_dir.as_ref().map(|_| PathBuf::from(&facts.folder)),
            files: Vec::new(),
        };
        let own = |root: &Path| root == Path::new(&facts.folder);
        for (root, file) in files {
            if file.captured == Captured::No {
                rules.captured = Captured::No;
            }
            if own(&root) {
                rules.alias.clone_from(&file.alias);
            }
            if file.hides_anything() {
                // The rules of another work tree of the repository also apply to equally named files here.
                if !resolved.starts_with(&root) {
                    rules.files.push((PathBuf::from(&facts.folder), file.clone()));
                }
                rules.files.push((root, file));
            }
        }
        let names = names_of(folder, &resolved, &facts, &self.home);
        let is_excluded = |name: &String| match name.starts_with('/') {
            true => excluded.covers_place(Path::new(name)),
            false => excluded.covers(name),
        };
        if names.iter().any(is_excluded) {
            rules.captured = Captured::No;
        }
        rules
    }
}

fn is_long(path: &Path) -> bool {
    is_too_long(&path.to_string_lossy())
}

/// The number of disk lookups that an event has cost so far.
#[derive(Default)]
struct Effort(Cell<usize>);

impl Effort {
    fn spend(&self, path: &Path) {
        self.0.set(self.0.get().saturating_add(path.components().count()));
    }

    /// Counts the lookups for a folder's rules, which are read from each ancestor folder.
    fn spend_on_rules(&self, folder: &Path) {
        self.0.set(self.0.get().saturating_add(folder.components().count().saturating_mul(LOOKS_FOR_RULES)));
    }

    fn is_spent(&self) -> bool {
        self.0.get() > MOST_LOOKS
    }
}

/// Whether a folder is in the work tree with this top, without another project or project file in between.
fn is_plainly_in(folder: &Path, top: &Path) -> bool {
    let has_no_project =
        |folder: &Path| [".git", NAME].iter().all(|name| folder.join(name).symlink_metadata().is_err());
    folder.starts_with(top) && folder.ancestors().take_while(|parent| *parent != top).all(has_no_project)
}

/// Makes a path that an event names absolute. A relative path is relative to `folder`. A path with a drive letter
/// belongs to another system and stays unchanged.
pub fn whole(path: &str, folder: &Path) -> PathBuf {
    match path.get(1..2) {
        Some(":") => PathBuf::from(path),
        _ => without_dots(&folder.join(path)),
    }
}

/// Resolves symlinks in the existing part of the path.
fn resolved(path: &Path) -> PathBuf {
    match resolved_parts(path) {
        (there, missing) if missing.as_os_str().is_empty() => there,
        (there, missing) => there.join(missing),
    }
}

/// Returns the existing part of a path with symlinks resolved, and the rest.
fn resolved_parts(path: &Path) -> (PathBuf, PathBuf) {
    let found = path.ancestors().find_map(|there| Some((there, there.canonicalize().ok()?)));
    let parts = found.and_then(|(there, real)| Some((real, path.strip_prefix(there).ok()?.to_owned())));
    parts.unwrap_or_else(|| (path.to_owned(), PathBuf::new()))
}

/// Returns the project files that apply to a folder, each with its folder. They are searched from the folder up to the
/// top of the repository or, without one, up to the user's home. Those of the repository's main work tree and of the
/// repository from which it was cloned follow.
pub fn project_files(folder: &Path, facts: &RepositoryFacts, home: &Path) -> Vec<(PathBuf, ProjectRules)> {
    let top = match facts.common_dir {
        Some(_) => Path::new(&facts.folder),
        None => home,
    };
    let mut roots: Vec<&Path> = Vec::new();
    for parent in folder.ancestors() {
        roots.push(parent);
        if parent == top {
            break;
        }
    }
    for facts in facts.asked() {
        roots.extend(trees_of(facts));
    }
    let mut known = HashSet::new();
    let roots = roots.into_iter().filter(|root| root.is_absolute() && known.insert(*root));
    roots.map(|root| (root.to_owned(), rules_in(root))).collect()
}

/// Returns the current work tree and the main one.
fn trees_of(facts: &RepositoryFacts) -> impl Iterator<Item = &Path> {
    let main = facts.common_dir.as_deref().and_then(|dir| dir.strip_suffix("/.git"));
    [Some(facts.folder.as_str()), main].into_iter().flatten().map(Path::new)
}

/// Returns the rules in a folder's own file.
pub(crate) fn rules_in(folder: &Path) -> ProjectRules {
    match recall_repository::project_file(folder) {
        ProjectFile::None => ProjectRules::default(),
        ProjectFile::Text(text) => ProjectRules::parse(&text),
        // Another user's file must not decide what is stored.
        ProjectFile::Foreign(why) => ProjectRules::ignored(format!("its .recall.toml is ignored: {why}")),
        ProjectFile::Unreadable(why) => {
            ProjectRules::nothing(format!("its .recall.toml cannot be read, so recording is off here: {why}"))
        }
    }
}

/// Returns the names that a pattern can match: folders, display names, identities.
fn names_of(named: &Path, resolved: &Path, facts: &RepositoryFacts, home: &Path) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut names = vec![text(named), text(resolved)];
    if facts.common_dir.is_none() {
        // A plain folder also matches by its name, including everything below it.
        let parents = resolved.ancestors().skip(1).take_while(|parent| *parent != home);
        names.extend(parents.filter_map(Path::file_name).map(|name| name.to_string_lossy().into_owned()));
    }
    // An unproven claim counts too, because it only makes recall capture less.
    for facts in facts.asked() {
        names.extend(trees_of(facts).map(text));
        names.extend(facts.common_dir.clone());
        names.push(display_name(facts));
        names.extend(identities(facts).into_iter().map(|key| key.0));
        names.extend(facts.mentions.paths.iter().cloned());
        let addresses = facts.mentions.addresses.iter().filter_map(|address| normalise_remote(address));
        names.extend(addresses.map(|address| format!("git:{address}")));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_repository::project_file::ExcludedNames;

    #[test]
    fn projects_are_excluded_by_folder_by_name_or_by_identity() {
        let check = |pattern: &str, expected: bool| {
            let set = ExcludedNames::new(&[pattern.to_owned()]).unwrap();
            let facts = RepositoryFacts {
                remote: Some("git@github.com:acme/shop.git".to_owned()),
                folder: "/code/acme/shop-2".to_owned(),
                ..RepositoryFacts::default()
            };
            let folder = Path::new(&facts.folder);
            let names = names_of(folder, folder, &facts, Path::new("/home/me"));
            assert_eq!(names.iter().any(|name| set.covers(name)), expected, "{pattern}");
        };
        check("/code/acme", true);
        check("/code/acme/*", true);
        check("/code/*", true);
        check("/code/acme/shop", false);
        check("shop-2", true);
        check("shop-*", true);
        check("shop", false);
        check("git:github.com/acme/*", true);
        check("git:github.com/other/*", false);
        assert!(ExcludedNames::new(&["[".to_owned()]).is_err());
    }

    #[test]
    fn a_pattern_matches_in_any_case_on_a_case_insensitive_disk() {
        let disk = tempfile::tempdir().unwrap();
        let root = disk.path().canonicalize().unwrap();
        for name in ["client-a/src", "client-b/src"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        // On such a disk both spellings lead to this one folder.
        std::os::unix::fs::symlink(root.join("client-a"), root.join("CLIENT-A")).unwrap();
        let covers = |pattern: String, name: &str| {
            let set = ExcludedSet::new(&Excluded::Projects(vec![pattern]), Path::new("/home/me"));
            set.covers_place(&root.join(name))
        };
        let below = |rest: &str| format!("{}/{rest}", root.display());
        for pattern in [below("Client-*"), below("*/SRC"), "**/Client-*".to_owned()] {
            assert!(covers(pattern.clone(), "client-a/src"), "{pattern}");
            assert!(!covers(pattern.clone(), "client-b/src"), "{pattern}");
        }
        assert!(!covers(below("Other-*"), "client-a/src"));
    }

    #[test]
    fn exclude_patterns_hide_only_files_of_their_project() {
        let files = vec![(PathBuf::from("/code/shop"), ProjectRules::parse("exclude = ['*.pem']"))];
        let rules = FolderRules { files, ..FolderRules::default() };
        for (path, hidden) in [
            ("/code/shop/tls/a.pem", true),
            ("tls/a.pem", true),
            ("/code/other/a.pem", false),
            ("/code/shop/a.rs", false),
        ] {
            assert_eq!(rules.hides(path), hidden, "{path}");
        }
    }
}
