//! What may be captured where: the user's excluded projects, and what a project says of itself.
//!
//! Asked once for each event, so what was found for a folder is believed for a moment.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use globset::GlobSet;

use crate::memory::project::{RepositoryFacts, display_name, identities};
use crate::project_file::{Captured, ProjectRules, excluded_projects};
use crate::repository::{self, ProjectFile};

/// So long a folder is not looked at again.
const BELIEVED_FOR: Duration = Duration::from_secs(1);
/// Folders that are remembered.
const MOST_FOLDERS: usize = 500;

/// Cheap to clone.
#[derive(Clone)]
pub struct Boundaries {
    excluded: Arc<GlobSet>,
    known: Arc<Mutex<HashMap<String, Known>>>,
}

struct Known {
    looked: Instant,
    rules: Arc<FolderRules>,
}

/// What holds in a folder.
#[derive(Clone, Debug, Default)]
pub struct FolderRules {
    pub rules: ProjectRules,
    /// The project's folder.
    root: String,
}

impl FolderRules {
    /// Whether the content of a file of this name is not to be kept.
    pub fn hides(&self, path: &str) -> bool {
        let beneath = Path::new(path).strip_prefix(&self.root).ok().filter(|_| !self.root.is_empty());
        match beneath {
            Some(relative) => self.rules.hides(&relative.to_string_lossy()),
            // A path of elsewhere is none of the project's business.
            None => !Path::new(path).is_absolute() && self.rules.hides(path),
        }
    }
}

impl Boundaries {
    /// `excluded`: patterns of projects, checked by the config.
    pub fn new(excluded: &[String]) -> Self {
        let set = excluded_projects(excluded).unwrap_or_else(|error| {
            tracing::error!(%error, "capture.exclude is not followed");
            GlobSet::empty()
        });
        Self { excluded: Arc::new(set), known: Arc::default() }
    }

    /// What holds in a folder.
    pub async fn rules(&self, folder: &str) -> Arc<FolderRules> {
        if let Some(rules) = self.believed(folder) {
            return rules;
        }
        let (this, asked) = (self.clone(), folder.to_owned());
        let looked = tokio::task::spawn_blocking(move || this.look(&asked)).await;
        let rules = Arc::new(looked.unwrap_or_else(|_| FolderRules {
            rules: ProjectRules::nothing("looking at the project panicked"),
            root: String::new(),
        }));
        self.remember(folder, &rules);
        rules
    }

    fn believed(&self, folder: &str) -> Option<Arc<FolderRules>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(folder).filter(|known| known.looked.elapsed() < BELIEVED_FOR)?;
        Some(Arc::clone(&found.rules))
    }

    fn remember(&self, folder: &str, rules: &Arc<FolderRules>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_FOLDERS {
            known.clear();
        }
        let is_news =
            known.get(folder).is_none_or(|before| before.rules.rules.complaints != rules.rules.complaints);
        if is_news && !rules.rules.complaints.is_empty() {
            tracing::warn!(
                complaints = rules.rules.complaints.len(),
                "a project's own file is not followed in everything; `recall doctor` in its folder says more"
            );
        }
        known.insert(folder.to_owned(), Known { looked: Instant::now(), rules: Arc::clone(rules) });
    }

    fn look(&self, folder: &str) -> FolderRules {
        let facts = repository::facts(Path::new(folder));
        let mut rules = project_rules(&facts);
        if names_of(&facts).iter().any(|name| self.excluded.is_match(name)) {
            rules.captured = Captured::No;
        }
        FolderRules { rules, root: facts.folder }
    }
}

/// What the project itself says.
pub fn project_rules(facts: &RepositoryFacts) -> ProjectRules {
    match repository::project_file(&PathBuf::from(&facts.folder)) {
        ProjectFile::None => ProjectRules::default(),
        ProjectFile::Text(text) => ProjectRules::parse(&text),
        // Whoever may put a file here must not decide what is kept.
        ProjectFile::Foreign(why) => ProjectRules::ignored(format!("its .recall.toml is ignored: {why}")),
        ProjectFile::Unreadable(why) => ProjectRules::nothing(format!(
            "its .recall.toml is not read, so nothing is kept of this project: {why}"
        )),
    }
}

/// What a pattern may be about: the folder, the name people see, an identity.
fn names_of(facts: &RepositoryFacts) -> Vec<String> {
    let mut names = vec![facts.folder.clone()];
    // What a folder only says of itself counts, too: it makes recall do less.
    for facts in std::iter::successors(Some(facts), |facts| facts.origin.as_deref()) {
        names.push(display_name(facts));
        names.extend(identities(facts).into_iter().map(|key| key.0));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_are_excluded_by_folder_name_or_identity() {
        let check = |pattern: &str, expected: bool| {
            let set = excluded_projects(&[pattern.to_owned()]).unwrap();
            let facts = RepositoryFacts {
                remote: Some("git@github.com:acme/shop.git".to_owned()),
                folder: "/code/acme/shop-2".to_owned(),
                ..RepositoryFacts::default()
            };
            assert_eq!(names_of(&facts).iter().any(|name| set.is_match(name)), expected, "{pattern}");
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
        assert!(excluded_projects(&["[".to_owned()]).is_err());
    }

    #[test]
    fn only_the_projects_own_files_are_hidden() {
        let rules =
            FolderRules { rules: ProjectRules::parse("exclude = ['*.pem']"), root: "/code/shop".to_owned() };
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
