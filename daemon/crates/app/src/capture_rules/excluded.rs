//! The user's exclusion patterns, and which names and folders they cover.

use std::borrow::Cow;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{BELIEVED_FOR, MOST_PARENTS, resolved};
use recall_config::Excluded;
use recall_repository::project_file::{ExcludedNames, is_plain};

/// If the patterns contain more folders than this, their spellings are looked up less often.
const MANY_FOLDERS: usize = 500;
const MANY_BELIEVED_FOR: Duration = Duration::from_secs(20);

/// The user's exclusion patterns.
pub(super) enum ExcludedSet {
    Projects { names: ExcludedNames, folders: ExcludedFolders },
    Everything,
}

/// The folders that patterns name or begin with, by their identity on disk, because a folder may have many spellings.
pub(super) struct ExcludedFolders {
    spelled: Vec<String>,
    found: Mutex<Option<(Instant, Arc<Spellings>)>>,
}

/// The spellings of folders in the patterns, by device and inode.
type Spellings = HashMap<(u64, u64), Vec<String>>;

impl ExcludedFolders {
    fn new(patterns: &[String], home: &Path) -> Self {
        let spelled =
            patterns.iter().map(|pattern| split_at_folder(&spelled_out(pattern, home)).0.to_owned());
        let mut spelled: Vec<String> = spelled.filter(|folder| folder.starts_with('/')).collect();
        spelled.sort_unstable();
        spelled.dedup();
        Self { spelled, found: Mutex::default() }
    }

    /// Returns the current spellings. Folders may be created, moved or mounted at any time.
    fn spellings(&self) -> Arc<Spellings> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let believed_for = if self.spelled.len() > MANY_FOLDERS { MANY_BELIEVED_FOR } else { BELIEVED_FOR };
        if let Some((looked, spellings)) = &*found
            && looked.elapsed() < believed_for
        {
            return Arc::clone(spellings);
        }
        let mut spellings = Spellings::new();
        for folder in &self.spelled {
            if let Some(id) = id_of(Path::new(folder)) {
                spellings.entry(id).or_default().push(folder.clone());
            }
        }
        let spellings = Arc::new(spellings);
        *found = Some((Instant::now(), Arc::clone(&spellings)));
        spellings
    }
}

fn id_of(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// Whether an existing part of the path is in a folder that ignores case, so that the same file can be reached by its
/// name in any case.
fn lies_without_case(path: &Path) -> bool {
    let other_case = |name: &str| {
        let other = name.to_uppercase();
        if other == name { name.to_lowercase() } else { other }
    };
    path.ancestors().take(MOST_PARENTS).any(|place| {
        let Some((name, folder)) = place.file_name().and_then(|name| name.to_str()).zip(place.parent())
        else {
            return false;
        };
        let other = other_case(name);
        other != name && id_of(place).is_some_and(|id| id_of(&folder.join(other)) == Some(id))
    })
}

impl ExcludedSet {
    pub(super) fn new(excluded: &Excluded, home: &Path) -> Self {
        match excluded {
            Excluded::Everything => Self::Everything,
            Excluded::Projects(patterns) => match ExcludedNames::new(&with_resolved(patterns, home)) {
                Ok(names) => Self::Projects { names, folders: ExcludedFolders::new(patterns, home) },
                // Each pattern was already compiled when the configuration was read.
                Err(error) => {
                    tracing::error!(%error, "recording is off because capture.exclude cannot be applied");
                    Self::Everything
                }
            },
        }
    }

    pub(super) fn covers(&self, name: &str) -> bool {
        match self {
            Self::Projects { names, .. } => names.covers(name),
            Self::Everything => true,
        }
    }

    /// Whether a path, or the same place under another spelling, is excluded.
    pub(super) fn covers_place(&self, path: &Path) -> bool {
        if self.covers(&path.to_string_lossy()) {
            return true;
        }
        let Self::Projects { folders, names } = self else { return true };
        if !path.is_absolute() {
            return false;
        }
        let has_case = !names.has_globs() || !lies_without_case(path);
        let is_covered = |name: &str| names.covers(name) || (!has_case && names.covers_in_any_case(name));
        if !has_case && names.covers_in_any_case(&path.to_string_lossy()) {
            return true;
        }
        if folders.spelled.is_empty() {
            return false;
        }
        let spellings = folders.spellings();
        path.ancestors().take(MOST_PARENTS).any(|parent| {
            let Some(spelled) = id_of(parent).and_then(|id| spellings.get(&id)) else { return false };
            let rest = path.strip_prefix(parent).unwrap_or(Path::new(""));
            spelled.iter().any(|folder| is_covered(&Path::new(folder).join(rest).to_string_lossy()))
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Projects { names, .. } if names.is_empty())
    }
}

/// Returns the patterns, and each pattern that begins with a folder also with that folder's symlinks resolved.
fn with_resolved(patterns: &[String], home: &Path) -> Vec<String> {
    let mut all = patterns.to_vec();
    for pattern in patterns {
        let full = spelled_out(pattern, home);
        let (folder, rest) = split_at_folder(&full);
        if folder.starts_with('/') {
            let real = resolved(Path::new(folder));
            if pattern.starts_with("~/") || real != Path::new(folder) {
                let real = real.to_string_lossy();
                let real = if is_plain(&real) { real } else { Cow::Owned(globset::escape(&real)) };
                all.push(format!("{real}{rest}"));
            }
        }
    }
    all
}

/// Expands the user's home folder in a pattern.
pub(super) fn spelled_out(pattern: &str, home: &Path) -> String {
    match pattern.strip_prefix("~/") {
        Some(rest) => format!("{}/{rest}", home.display()),
        None => pattern.to_owned(),
    }
}

/// Splits a pattern into the folder that it names or begins with, and the rest.
fn split_at_folder(full: &str) -> (&str, &str) {
    let plain = full.find(['*', '?', '[', '{', '\\']).unwrap_or(full.len());
    let plain = full.get(..plain).unwrap_or_default();
    let cut = if plain.len() == full.len() { plain.len() } else { plain.rfind('/').unwrap_or(0) };
    full.split_at(cut)
}
