//! What a folder's repository says about itself, read from its files.
//!
//! Starting git costs more than a whole hook may take, so its files are read as gitrepository-layout(5) and
//! git-config(5) describe them. Whatever cannot be read is simply not known. Only `history` starts git, for what no
//! file tells, and an answer waits for it only while it has time.
//!
//! Anybody can pack a folder whose `.git` points at somebody else's repository. Such a pointer is followed where the
//! repository points back; an origin, on this disk or elsewhere, is only told of.
//!
//! **Invariant:** reads a handful of small files and never writes.

pub mod refs;
pub mod objects;
pub mod history;

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::memory::ids::CommitId;
use crate::memory::project::RepositoryFacts;
use refs::Refs;

/// No file of interest is larger; what is, is read up to here.
const MOST_BYTES: u64 = 256 * 1024;
/// A project's own file says little.
const MOST_PROJECT_FILE: u64 = 64 * 1024;
/// Each is looked up in every pack.
const MOST_LOOKED_FOR: usize = 100;
/// A clone of a clone of a clone on one disk; more is a circle.
const MOST_CLONES: u32 = 4;

/// Reads what can be known of the project in `folder`.
pub fn facts(folder: &Path) -> RepositoryFacts {
    if !folder.is_absolute() {
        // Another system's path, or nonsense; whatever lies below our own folder has nothing to do with it.
        return RepositoryFacts { folder: text(folder), ..Default::default() };
    }
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    follow(&folder, MOST_CLONES)
}

fn follow(folder: &Path, clones: u32) -> RepositoryFacts {
    let Some((tree, git_dir)) = find_git_dir(folder) else {
        return RepositoryFacts { folder: text(folder), ..Default::default() };
    };
    let common_dir = common_dir(&git_dir);
    let remote = read(&common_dir.join("config")).and_then(|config| remote_url(&config));
    let root_commit = read(&common_dir.join("logs/HEAD")).and_then(|log| first_commit(&log));
    let mut facts = RepositoryFacts {
        remote,
        root_commit,
        common_dir: Some(text(&common_dir)),
        folder: text(&tree),
        origin: None,
    };
    let origin = origin_on_this_disk(&facts, &tree).filter(|_| clones > 0);
    facts.origin = origin.map(|origin| Box::new(follow(&origin, clones - 1)));
    facts
}

/// Whether a repository has commits of another one, or knows the names of some. What it has is what lies in its own
/// folder: it may say that it borrows from anywhere.
pub fn knows_of(git_dir: &Path, known: &[CommitId]) -> bool {
    let names = Refs::of_git_dir(git_dir).map(|refs| refs.known_commits()).unwrap_or_default();
    let names: HashSet<CommitId> = names.into_iter().collect();
    known.iter().any(|commit| names.contains(commit))
        || known.iter().take(MOST_LOOKED_FOR).any(|commit| objects::holds(&git_dir.join("objects"), commit))
}

fn origin_on_this_disk(facts: &RepositoryFacts, tree: &Path) -> Option<PathBuf> {
    let remote = facts.remote.as_deref()?;
    let path = remote.strip_prefix("file://").unwrap_or(remote);
    let is_path = path.starts_with('/') || path.starts_with("./") || path.starts_with("../");
    let origin = fs::canonicalize(tree.join(is_path.then_some(path)?)).ok()?;
    (Some(text(&origin)) != facts.common_dir && find_git_dir(&origin).is_some()).then_some(origin)
}

/// The work tree around `folder` and its git folder.
fn find_git_dir(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    folder.ancestors().find_map(|tree| {
        let dot_git = tree.join(".git");
        let kind = fs::symlink_metadata(&dot_git).ok();
        if kind.as_ref().is_some_and(fs::Metadata::is_file) {
            // A worktree or submodule: the file points at the folder.
            let pointer = read(&dot_git)?;
            let target = pointer.trim().strip_prefix("gitdir:")?.trim().to_owned();
            let git_dir = fs::canonicalize(tree.join(target)).ok()?;
            return belongs_to(&git_dir, tree).then(|| (tree.to_owned(), git_dir));
        }
        if dot_git.join("HEAD").is_file() {
            let git_dir = fs::canonicalize(&dot_git).unwrap_or(dot_git);
            return belongs_to(&git_dir, tree).then(|| (tree.to_owned(), git_dir));
        }
        // A bare repository is its own git folder.
        let bare =
            tree.join("HEAD").is_file() && tree.join("objects").is_dir() && tree.join("config").is_file();
        bare.then(|| (tree.to_owned(), tree.to_owned()))
    })
}

/// Whether a git folder is this work tree's: it lies in it, or points back at it, or is nobody's: neither in another
/// work tree nor without any. What a worktree points back at may have been moved away.
fn belongs_to(git_dir: &Path, tree: &Path) -> bool {
    if git_dir.starts_with(tree) {
        return true;
    }
    if let Some(back) = read(&git_dir.join("gitdir")) {
        let back = git_dir.join(back.trim());
        return fs::canonicalize(&back).map_or(!back.exists(), |back| back == tree.join(".git"));
    }
    let config = read(&git_dir.join("config")).unwrap_or_default();
    let worktree = setting(&config, "core", "worktree").map(|tree| git_dir.join(tree));
    match worktree.and_then(|tree| fs::canonicalize(tree).ok()) {
        Some(back) => back == tree,
        None => {
            let is_bare = setting(&config, "core", "bare").is_some_and(|bare| bare != "false");
            !is_bare && !git_dir.iter().any(|part| part == ".git")
        }
    }
}

/// The folder that all worktrees of a repository share. Only what lies among its worktrees can be one.
fn common_dir(git_dir: &Path) -> PathBuf {
    let shared = read(&git_dir.join("commondir")).map(|relative| git_dir.join(relative.trim()));
    let shared = shared.and_then(|dir| fs::canonicalize(dir).ok());
    shared
        .filter(|shared| git_dir.parent() == Some(&shared.join("worktrees")))
        .unwrap_or_else(|| git_dir.to_owned())
}

/// The value of a setting in a section without a name of its own.
fn setting(config: &str, wanted: &str, key: &str) -> Option<String> {
    let mut within = false;
    for line in config.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            within = header.trim_end_matches(']').trim().eq_ignore_ascii_case(wanted);
        } else if let Some((name, value)) = line.split_once('=').filter(|_| within)
            && name.trim().eq_ignore_ascii_case(key)
        {
            return Some(value.trim().trim_matches('"').to_owned());
        }
    }
    None
}

/// The address of `origin`, else of the first remote in the file.
fn remote_url(config: &str) -> Option<String> {
    let mut section = None;
    let mut urls: Vec<(String, String)> = Vec::new();
    for line in config.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section =
                header.strip_prefix("remote \"").and_then(|rest| rest.split('"').next()).map(str::to_owned);
        } else if let (Some(remote), Some((key, value))) = (&section, line.split_once('='))
            && key.trim().eq_ignore_ascii_case("url")
        {
            urls.push((remote.clone(), value.trim().trim_matches('"').to_owned()));
        }
    }
    let origin = urls.iter().position(|(remote, _)| remote == "origin").unwrap_or(0);
    urls.into_iter().nth(origin).map(|(_, url)| url)
}

/// The commit the repository began with, where its own log remembers the beginning: the first entry of a
/// repository that was not cloned has no commit before it.
fn first_commit(log: &str) -> Option<String> {
    let mut words = log.lines().next()?.split_whitespace();
    let (before, first) = (words.next()?, words.next()?);
    let is_hash = |text: &str| text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let initial = before.bytes().all(|byte| byte == b'0') && log.lines().next()?.contains("commit (initial)");
    (initial && is_hash(first)).then(|| first.to_owned())
}

/// What lies where a project's own file would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectFile {
    None,
    Text(String),
    /// A link, a pipe, too large, or not to be read.
    Unreadable,
}

/// Reads the project's own file in its folder. A link is not followed: it may lead out of the project.
pub fn project_file(folder: &Path) -> ProjectFile {
    let path = folder.join(crate::project_file::NAME);
    let metadata = match fs::symlink_metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return ProjectFile::None,
        Err(_) => return ProjectFile::Unreadable,
    };
    if !metadata.is_file() || metadata.len() > MOST_PROJECT_FILE {
        return ProjectFile::Unreadable;
    }
    // A link may have taken its place meanwhile.
    read_with(&path, OFlags::NOFOLLOW).map_or(ProjectFile::Unreadable, ProjectFile::Text)
}

fn read(path: &Path) -> Option<String> {
    read_with(path, OFlags::empty())
}

fn read_with(path: &Path, flags: OFlags) -> Option<String> {
    let mut bytes = Vec::new();
    open_plain(path, flags)?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Opens a regular file. A pipe in its place is opened and left, not waited for.
fn open_plain(path: &Path, flags: OFlags) -> Option<fs::File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::project::{display_name, identities};

    const COMMIT: &str = "8b1a9953c4611296a827abf8c47804d78b1a9953";

    fn repository(folder: &Path, config: &str) {
        fs::create_dir_all(folder.join(".git/logs")).unwrap();
        fs::create_dir_all(folder.join("src/api")).unwrap();
        fs::write(folder.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(folder.join(".git/config"), config).unwrap();
        let zero = "0".repeat(40);
        let log =
            format!("{zero} {COMMIT} Dev <dev@example.com> 1700000000 +0000\tcommit (initial): Start\n");
        fs::write(folder.join(".git/logs/HEAD"), log).unwrap();
    }

    fn keys(folder: &Path) -> Vec<String> {
        identities(&facts(folder)).into_iter().map(|key| key.0).collect()
    }

    #[test]
    fn a_subfolder_a_worktree_and_a_local_clone_are_the_same_project() {
        let home = tempfile::tempdir().unwrap();
        let shop = home.path().join("shop");
        repository(&shop, "[core]\n\tbare = false\n");
        let root = format!("root:{COMMIT}");
        assert_eq!(keys(&shop)[0], root);
        assert_eq!(keys(&shop.join("src/api")), keys(&shop));

        let worktree = home.path().join("shop-feature");
        fs::create_dir_all(shop.join(".git/worktrees/feature")).unwrap();
        fs::create_dir_all(&worktree).unwrap();
        fs::write(shop.join(".git/worktrees/feature/commondir"), "../..\n").unwrap();
        fs::write(shop.join(".git/worktrees/feature/gitdir"), worktree.join(".git").to_str().unwrap())
            .unwrap();
        fs::write(worktree.join(".git"), "gitdir: ../shop/.git/worktrees/feature\n").unwrap();
        assert_eq!(keys(&worktree), keys(&shop));
        assert_eq!(display_name(&facts(&worktree)), "shop");

        let clone = home.path().join("elsewhere");
        repository(&clone, &format!("[remote \"origin\"]\n\turl = {}\n", shop.display()));
        let origin = facts(&clone).origin.expect("it is on this disk");
        assert_eq!(identities(&origin).into_iter().map(|key| key.0).collect::<Vec<_>>(), keys(&shop));
    }

    #[test]
    fn what_points_at_somebody_elses_repository_is_not_it() {
        let home = tempfile::tempdir().unwrap();
        let (secret, thief) = (home.path().join("secret"), home.path().join("thief"));
        repository(&secret, "[remote \"origin\"]\n\turl = git@github.com:acme/secret\n");
        let git = secret.join(".git");
        fs::create_dir_all(git.join("worktrees/tree")).unwrap();
        fs::create_dir_all(home.path().join("tree")).unwrap();
        fs::write(git.join("worktrees/tree/commondir"), "../..").unwrap();
        fs::write(git.join("worktrees/tree/gitdir"), home.path().join("tree/.git").to_str().unwrap())
            .unwrap();
        fs::write(git.join("worktrees/tree/HEAD"), "ref: refs/heads/tree").unwrap();
        let pointer = format!("gitdir: {}", git.join("worktrees/tree").display());
        fs::write(home.path().join("tree/.git"), &pointer).unwrap();
        let victim = keys(&secret);
        assert_eq!(keys(&home.path().join("tree")), victim);

        #[track_caller]
        fn check(thief: &Path, victim: &[String]) {
            let found = keys(thief);
            assert!(found.iter().all(|key| !victim.contains(key)), "{found:?}");
            fs::remove_dir_all(thief).unwrap();
        }
        let steal = || fs::create_dir_all(&thief).unwrap();
        steal();
        fs::write(thief.join(".git"), format!("gitdir: {}", git.display())).unwrap();
        check(&thief, &victim);
        steal();
        fs::write(thief.join(".git"), &pointer).unwrap();
        check(&thief, &victim);
        steal();
        std::os::unix::fs::symlink(&git, thief.join(".git")).unwrap();
        check(&thief, &victim);
        let bare = home.path().join("bare.git");
        fs::create_dir_all(bare.join("objects")).unwrap();
        fs::write(bare.join("HEAD"), "ref: refs/heads/main").unwrap();
        fs::write(bare.join("config"), "[core]\n\tbare = true\n").unwrap();
        steal();
        fs::write(thief.join(".git"), format!("gitdir: {}", bare.display())).unwrap();
        check(&thief, &keys(&bare));
        for (name, text) in [
            ("commondir", git.to_string_lossy().into_owned()),
            ("config", format!("[remote \"origin\"]\n\turl = {}\n", secret.display())),
            ("config", "[remote \"origin\"]\n\turl = ../secret\n".to_owned()),
        ] {
            fs::create_dir_all(thief.join(".git/objects")).unwrap();
            fs::write(thief.join(".git/HEAD"), "ref: refs/heads/main").unwrap();
            fs::write(thief.join(".git").join(name), text).unwrap();
            check(&thief, &victim);
        }
    }

    #[test]
    fn a_submodule_and_a_git_folder_elsewhere_are_their_trees() {
        let home = tempfile::tempdir().unwrap();
        let (module, tree) = (home.path().join("shop/.git/modules/coins"), home.path().join("shop/coins"));
        fs::create_dir_all(&module).unwrap();
        fs::create_dir_all(&tree).unwrap();
        fs::write(module.join("HEAD"), "ref: refs/heads/main").unwrap();
        fs::write(module.join("config"), "[core]\n\tworktree = ../../../coins\n").unwrap();
        fs::write(tree.join(".git"), "gitdir: ../.git/modules/coins").unwrap();
        assert!(keys(&tree)[0].ends_with("/.git/modules/coins"), "{:?}", keys(&tree));
        let (apart, other) = (home.path().join("apart.git"), home.path().join("other"));
        fs::create_dir_all(&apart).unwrap();
        fs::create_dir_all(&other).unwrap();
        fs::write(apart.join("HEAD"), "ref: refs/heads/main").unwrap();
        fs::write(other.join(".git"), format!("gitdir: {}", apart.display())).unwrap();
        assert!(keys(&other)[0].ends_with("/apart.git"), "{:?}", keys(&other));
    }

    #[test]
    fn the_remote_names_the_project_and_origin_comes_first() {
        let home = tempfile::tempdir().unwrap();
        let config = "[remote \"fork\"]\n\turl = git@github.com:me/shop.git\n[remote \"origin\"]\n\
                      \tfetch = +refs/heads/*\n\turl = https://github.com/acme/shop.git\n[branch \"main\"]\n\tremote = fork\n";
        repository(home.path(), config);
        assert_eq!(keys(home.path())[0], "git:github.com/acme/shop");
    }

    #[test]
    fn without_a_repository_the_path_is_all_there_is() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("notes");
        fs::create_dir(&folder).unwrap();
        let found = keys(&folder);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("path:/") && found[0].ends_with("/notes"));
        // Two folders of the same name are two projects; one that is not there is no error.
        assert_ne!(found, keys(&home.path().join("other/notes")));
        // Not ours to look up: this very project lies below the test's own folder.
        assert_eq!(keys(Path::new("C:\\code\\shop")), ["path:C:\\code\\shop"]);
        assert_eq!(keys(Path::new("src")), ["path:src"]);
    }
}
