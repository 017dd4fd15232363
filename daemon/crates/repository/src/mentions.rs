//! Finds the other repositories that a repository's files mention: all its remotes, as written and as resolved.
//!
//! The result is only used to record less, so every possible meaning counts: each `insteadOf` that matches, and each
//! included file whatever its condition.

use std::path::{Component, Path, PathBuf};

use super::git_config::{self, Setting};
use super::git_folder::GitFolder;
use super::{MOST_BYTES, find, follow, text};
use recall_domain::project::{Mentions, RepositoryFacts};
use recall_system::trusted_file::{self, Links, Refused};

/// The maximum number of included files of a configuration.
const MOST_INCLUDES: usize = 32;
/// The maximum number of repositories examined for one folder, not counting the origins.
const MOST_REPOSITORIES: usize = 64;
/// The maximum number of addresses of one repository.
const MOST_ADDRESSES: usize = 500;

/// The repositories that were already examined for one folder.
#[derive(Default)]
pub(super) struct Survey {
    seen: Vec<PathBuf>,
}

impl Survey {
    /// Examines the repository around a folder. `None` if there is none or it was examined before.
    pub(super) fn visit(&mut self, folder: &Path, clones: u32) -> Option<RepositoryFacts> {
        let folder = folder.canonicalize().ok()?;
        if clones == 0 || self.seen.len() >= MOST_REPOSITORIES || self.seen.contains(&folder) {
            return None;
        }
        self.seen.push(folder.clone());
        let facts = follow(&folder, clones - 1, self);
        (facts.common_dir.is_some() || facts.mentions.pointed_at.is_some()).then_some(facts)
    }
}

/// `config` is the configuration file of the repository itself.
pub(super) fn of(
    facts: &RepositoryFacts,
    git_dir: &GitFolder,
    config: Vec<Setting>,
    clones: u32,
    survey: &mut Survey,
) -> Mentions {
    let mut mentions = Mentions::default();
    let common_dir = git_dir.common();
    let mut settings = config;
    if let Some(text) = git_dir.read("config.worktree") {
        settings.extend(git_config::parse(&text));
    }
    include(&common_dir, &mut settings, &mut mentions.unread);
    mentions.addresses = addresses(&settings);
    let main_tree = facts.common_dir.as_deref().and_then(|dir| dir.strip_suffix("/.git"));
    for address in &mentions.addresses {
        for base in [Some(facts.folder.as_str()), main_tree].into_iter().flatten() {
            for path in paths_of(address, Path::new(base)) {
                let path = text(&path);
                if !mentions.paths.contains(&path) {
                    mentions.paths.push(path);
                }
            }
        }
    }
    for path in mentions.paths.clone() {
        let Ok(real) = Path::new(&path).canonicalize() else { continue };
        let is_known = |facts: &RepositoryFacts| facts.common_dir == find(&real, &mut |_| {}).map(dir_of);
        if !is_known(facts) && !facts.origin.as_deref().is_some_and(is_known) {
            mentions.repositories.extend(survey.visit(&real, clones));
        }
        if real != Path::new(&path) {
            mentions.paths.push(text(&real));
        }
    }
    mentions
}

fn dir_of((_, git_dir): (PathBuf, GitFolder)) -> String {
    text(git_dir.common().path())
}

/// Adds the settings of all included files, and lists the unreadable ones in `unread`.
fn include(common_dir: &GitFolder, settings: &mut Vec<Setting>, unread: &mut Vec<String>) {
    let mut folders = vec![common_dir.path().to_owned(); settings.len()];
    let mut included: Vec<PathBuf> = Vec::new();
    let mut at = 0;
    while let Some((setting, folder)) = settings.get(at).zip(folders.get(at)) {
        at += 1;
        if !setting.is("include", "path") && !setting.is("includeif", "path") {
            continue;
        }
        let path = at_home(&setting.value).unwrap_or_else(|| folder.join(&setting.value));
        let path = without_dots(&path);
        if included.contains(&path) {
            continue;
        }
        if included.len() >= MOST_INCLUDES {
            unread.push(format!("{}: it is one of more than {MOST_INCLUDES}", path.display()));
            return;
        }
        match read(common_dir, &path) {
            Ok(text) => {
                settings.extend(git_config::parse(&text));
                folders.resize(settings.len(), path.parent().unwrap_or(&path).to_owned());
            }
            Err(why) if why.is_absence() => {}
            Err(why) => unread.push(format!("{}: {why}", path.display())),
        }
        included.push(path);
    }
}

/// Reads a file. In the git folder no symlink is followed; elsewhere the file must belong to us or root.
fn read(common_dir: &GitFolder, path: &Path) -> Result<String, Refused> {
    if let Some(within) = path.strip_prefix(common_dir.path()).ok().and_then(Path::to_str) {
        common_dir.open_file(within)?;
        return Ok(common_dir.read(within).unwrap_or_default());
    }
    let bytes = trusted_file::read(path, Links::OfOurs, MOST_BYTES)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn addresses(settings: &[Setting]) -> Vec<String> {
    let mut addresses: Vec<String> = Vec::new();
    let mut add = |address: &str| {
        if !address.is_empty()
            && addresses.len() < MOST_ADDRESSES
            && !addresses.iter().any(|it| it == address)
        {
            addresses.push(address.to_owned());
        }
    };
    let rewrites = || settings.iter().filter(|it| it.is("url", "insteadof") || it.is("url", "pushinsteadof"));
    for setting in settings {
        let is_address = setting.is("remote", "url") || setting.is("remote", "pushurl");
        // A branch may have an address instead of a remote's name.
        if is_address || setting.is("branch", "remote") || setting.is("branch", "pushremote") {
            add(&setting.value);
            for rewrite in rewrites() {
                if let Some(rest) = setting.value.strip_prefix(&rewrite.value) {
                    add(&format!("{}{rest}", rewrite.subsection));
                }
            }
        }
    }
    addresses
}

/// The paths that an address may denote when git runs in `base`.
fn paths_of(address: &str, base: &Path) -> Vec<PathBuf> {
    let mut spelled = vec![];
    if let Some(url) = strip_file_scheme(address) {
        spelled.extend([PathBuf::from(url), PathBuf::from(decoded(url))]);
    } else if let Some(path) = at_home(address) {
        spelled.push(path);
    } else if !address.contains("://") {
        let is_path = ["/", "./", "../"].iter().any(|start| address.starts_with(start));
        let path = base.join(address);
        if is_path || path.symlink_metadata().is_ok() {
            spelled.push(path);
        }
    }
    let mut paths = Vec::new();
    for path in spelled.iter().map(|path| without_dots(path)).filter(|path| path.is_absolute()) {
        // Git appends the extension `.git` itself.
        if path.symlink_metadata().is_err() {
            paths.push(PathBuf::from(format!("{}.git", path.display())));
        }
        paths.push(path);
    }
    paths
}

/// The path in an address that begins with `file://` and is on this machine.
pub fn strip_file_scheme<'a>(address: &'a str) -> Option<&'a str> {
    let after = |text: &'a str, start: &str| {
        let begins_so = text.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start));
        text.get(start.len()..).filter(|_| begins_so)
    };
    let path = after(address, "file://")?;
    Some(after(path, "localhost").filter(|path| path.starts_with('/')).unwrap_or(path))
}

/// Decodes escapes such as `%41` (`A`). Invalid escapes are kept.
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| *first == b'%');
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Resolves a path that begins with the user's home folder.
fn at_home(path: &str) -> Option<PathBuf> {
    let rest = path.strip_prefix("~/")?;
    std::env::home_dir().map(|home| home.join(rest))
}

/// Removes `.` and `..` from a path, whether or not it exists.
pub fn without_dots(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                whole.pop();
            }
            part => whole.push(part),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_addresses_are_listed_as_written_and_as_resolved() {
        let settings = git_config::parse(
            "[remote \"up\"]\nurl = acme:shop\npushurl = file://localhost/x/a%62\n[remote \"origin\"]\nurl = clone\n\
             [url \"/x/\"]\ninsteadOf = acme:\n[branch \"main\"]\nremote = ../b\n",
        );
        let found = addresses(&settings);
        assert_eq!(found, ["acme:shop", "/x/shop", "file://localhost/x/a%62", "clone", "../b"]);
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("clone")).unwrap();
        let paths = |address: &str| paths_of(address, home.path());
        assert_eq!(paths("clone"), [home.path().join("clone")]);
        assert_eq!(paths("other"), Vec::<PathBuf>::new());
        assert!(paths("file://localhost/x/a%62").contains(&PathBuf::from("/x/ab")));
        assert!(paths("/x/shop").contains(&PathBuf::from("/x/shop.git")));
        assert_eq!(paths("https://example.com/x"), Vec::<PathBuf>::new());
        assert_eq!(decoded("%4%%41é%zz"), "%4%Aé%zz");
    }

    #[test]
    fn config_includes_are_followed_and_unsafe_ones_are_listed_as_unread() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let git = home.join("shop/.git");
        std::fs::create_dir_all(git.join("objects")).unwrap();
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main").unwrap();
        let outer = home.join("outer.config");
        std::fs::write(
            git.join("config"),
            format!(
                "[include]\npath = inner\npath = {}\npath = link\npath = gone\npath = pipe\n",
                outer.display()
            ),
        )
        .unwrap();
        std::fs::write(git.join("inner"), "[include]\npath = inner\n[remote \"a\"]\nurl = /x/a\n").unwrap();
        std::fs::write(&outer, "[includeIf \"gitdir:/nowhere\"]\npath = more\n[remote \"b\"]\nurl = /x/b\n")
            .unwrap();
        std::fs::write(home.join("more"), "[remote \"c\"]\nurl = /x/c\n").unwrap();
        std::os::unix::fs::symlink(&outer, git.join("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, git.join("pipe"), 0o600.into()).unwrap();
        let facts = crate::facts(&home.join("shop"));
        assert_eq!(facts.mentions.addresses, ["/x/a", "/x/b", "/x/c"]);
        let unread = facts.mentions.unread;
        assert_eq!(unread.len(), 2, "{unread:?}");
        assert!(unread[0].ends_with("/link: it is a symlink"), "{unread:?}");
        assert!(unread[1].ends_with("/pipe: it is not a regular file"), "{unread:?}");
        // Only the folder's own file decides which project it may join.
        assert_eq!(facts.remote, None);
    }
}
