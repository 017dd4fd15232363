//! Determines from a folder's repository which project the folder belongs to.
//!
//! Starting git takes longer than a whole hook may, so the files are read directly, as described in
//! gitrepository-layout(5) and git-config(5). Facts that cannot be read count as unknown. Only `history` starts git,
//! for questions that no file answers, and a hook waits for it only while it has time left.
//!
//! Anybody can create a folder whose `.git` points at another user's repository. Such a pointer is followed only if
//! the repository points back to this place. Otherwise the folder is identified by its path alone, and the repository
//! is only listed as mentioned, like all remotes, local or not (`mentions`). No link or path inside a git folder is
//! followed out of it (`git_folder`). A repository committed inside a work tree counts as a part of that tree. Files
//! that other users can write are ignored.
//!
//! **Invariant:** this crate reads only a few small files and never writes.

pub mod project_file;
mod git_config;
pub mod git_folder;
pub mod mentions;
pub mod refs;
pub mod work_tree;
mod objects;
pub mod history;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use git_config::Setting;
use git_folder::GitFolder;
use mentions::Survey;
use recall_domain::event::is_too_long;
use recall_domain::ids::CommitId;
use recall_domain::project::{FolderMark, Mentions, RepositoryFacts, normalise_remote};
use recall_system::trusted_file::{self, Folder, Links, Refused};
use refs::Refs;

/// The size limit of a file. All useful files are smaller.
const MOST_BYTES: u64 = 256 * 1024;
/// The size limit of `.recall.toml`.
const MOST_PROJECT_FILE: u64 = 64 * 1024;
/// The size limit of a `.git` file, which contains one path.
const MOST_POINTER: u64 = 16 * 1024;
/// The folders of other version control systems. They are at the top of the work tree, except in very old Subversion.
const OTHER_SYSTEMS: [&str; 7] = [".jj", ".hg", ".sl", ".svn", ".bzr", ".pijul", "_darcs"];
/// How many levels of local clones are followed. More levels mean a cycle.
const MOST_CLONES: u32 = 4;

/// A file or folder of a repository that is ignored because it is not trusted.
#[derive(Debug)]
pub struct Ignored {
    pub path: PathBuf,
    pub why: Refused,
}

/// Reads the facts that identify the project in `folder`.
pub fn facts(folder: &Path) -> RepositoryFacts {
    if !folder.is_absolute() || is_too_long(&folder.to_string_lossy()) {
        // A path of another operating system, or an invalid one. It must not be resolved relative to our own folder.
        return RepositoryFacts { folder: text(folder), ..Default::default() };
    }
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    follow(&folder, MOST_CLONES, &mut Survey::default())
}

/// Returns the ignored parts of the surrounding repository, with reasons.
pub fn ignored(folder: &Path) -> Vec<Ignored> {
    let mut ignored = Vec::new();
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let found = find(&folder, &mut |what| ignored.push(what));
    if let Some((_, git_dir)) = found {
        let common_dir = git_dir.common();
        ignored.extend(git_dir.refused(&["HEAD"], &[]));
        ignored.extend(common_dir.refused(&["config", "packed-refs", "logs/HEAD"], &["objects", "refs"]));
    }
    ignored
}

/// What contains a folder.
enum Containing {
    /// A work tree and its git folder.
    Repository(PathBuf, GitFolder),
    /// A folder whose `.git` points at a git folder that does not point back.
    Unproven(PathBuf, GitFolder),
    Plain,
}

fn follow(folder: &Path, clones: u32, survey: &mut Survey) -> RepositoryFacts {
    match place(folder, &mut |_| {}) {
        Containing::Repository(tree, git_dir) => facts_of(&tree, &git_dir, clones, survey),
        Containing::Unproven(tree, git_dir) => {
            let target = git_dir.common();
            let around = tree.parent().map(|parent| survey.visit(parent, clones));
            let pointed_at = facts_of(target.path(), &target, clones, survey);
            RepositoryFacts {
                folder: text(&tree),
                made: mark_of(&tree),
                mentions: Mentions {
                    pointed_at: Some(text(git_dir.path())),
                    repositories: std::iter::once(pointed_at).chain(around.flatten()).collect(),
                    ..Mentions::default()
                },
                ..RepositoryFacts::default()
            }
        }
        Containing::Plain => {
            let folder = top_of_other_system(folder).unwrap_or(folder);
            RepositoryFacts { folder: text(folder), made: mark_of(folder), ..RepositoryFacts::default() }
        }
    }
}

/// Returns the surrounding work tree of another version control system.
fn top_of_other_system(folder: &Path) -> Option<&Path> {
    let is_there = |name: &&str, tree: &Path| Folder::open(&tree.join(name)).is_ok();
    folder.ancestors().find(|tree| OTHER_SYSTEMS.iter().any(|name| is_there(name, tree)))
}

/// Returns the mark of a folder without a repository. `None` without a creation time, because the inode may already
/// belong to another folder.
fn mark_of(folder: &Path) -> Option<FolderMark> {
    let found = fs::metadata(folder).ok().filter(fs::Metadata::is_dir)?;
    mark(&found, found.created().ok()?)
}

/// Combines the inode of a folder and its creation time.
fn mark(found: &fs::Metadata, made: SystemTime) -> Option<FolderMark> {
    let made = made.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    (made > 0).then(|| FolderMark(format!("{}-{made}", found.ino())))
}

fn facts_of(tree: &Path, git_dir: &GitFolder, clones: u32, survey: &mut Survey) -> RepositoryFacts {
    let common_dir = git_dir.common();
    let config = git_config::parse(&common_dir.read("config").unwrap_or_default());
    let remote = remote_url(&config);
    let log = common_dir.read("logs/HEAD");
    let beginning = log.as_deref().and_then(Beginning::read);
    // The log alone does not prove that the commit exists.
    let beginning = beginning.filter(|beginning| common_dir.holds(&beginning.commit));
    let root_commit = beginning.as_ref().filter(|beginning| beginning.is_initial());
    let is_of_here = root_commit.is_some() || (log.is_none() && has_no_commit(&common_dir));
    let mut facts = RepositoryFacts {
        root_commit: root_commit.map(|beginning| beginning.commit.0.clone()),
        came_with: beginning.as_ref().and_then(|it| it.of_another(remote.as_deref())).map(|commit| commit.0),
        remote,
        common_dir: Some(text(common_dir.path())),
        folder: text(tree),
        made: common_dir.mark(),
        made_in: is_of_here.then(|| mark_of(tree)).flatten(),
        origin: None,
        mentions: Mentions::default(),
    };
    let origin = origin_on_this_disk(&facts, tree).filter(|_| clones > 0);
    facts.origin = origin.map(|origin| Box::new(follow(&origin, clones - 1, survey)));
    facts.mentions = mentions::of(&facts, git_dir, config, clones, survey);
    facts
}

fn origin_on_this_disk(facts: &RepositoryFacts, tree: &Path) -> Option<PathBuf> {
    let remote = facts.remote.as_deref()?;
    let path = remote.strip_prefix("file://").unwrap_or(remote);
    let is_path = path.starts_with('/') || path.starts_with("./") || path.starts_with("../");
    let origin = fs::canonicalize(tree.join(is_path.then_some(path)?)).ok()?;
    (Some(text(&origin)) != facts.common_dir && find(&origin, &mut |_| {}).is_some()).then_some(origin)
}

/// Finds the work tree around `folder` and its git folder. A bare repository counts as its own work tree, except
/// inside another work tree, where it may have been committed.
fn find(folder: &Path, ignored: &mut dyn FnMut(Ignored)) -> Option<(PathBuf, GitFolder)> {
    match place(folder, ignored) {
        Containing::Repository(tree, git_dir) => Some((tree, git_dir)),
        Containing::Unproven(..) | Containing::Plain => None,
    }
}

/// Finds the repository around `folder`. One without a work tree counts as its own work tree, except inside another
/// work tree, where it may have been committed.
fn place(folder: &Path, ignored: &mut dyn FnMut(Ignored)) -> Containing {
    let mut bare = None;
    for tree in folder.ancestors() {
        match git_dir_of(tree) {
            Ok(Some(git_dir)) if belongs_to(&git_dir, tree) => {
                return Containing::Repository(tree.to_owned(), git_dir);
            }
            Ok(Some(git_dir)) => return Containing::Unproven(tree.to_owned(), git_dir),
            Ok(None) => {}
            Err(why) if why.is_absence() => {}
            Err(why) => ignored(Ignored { path: tree.join(".git"), why }),
        }
        if bare.is_none() && tree.join("HEAD").is_file() && tree.join("objects").is_dir() {
            match GitFolder::open(tree.to_owned()) {
                Ok(git_dir) => bare = Some(git_dir).filter(GitFolder::is_bare),
                Err(why) => ignored(Ignored { path: tree.to_owned(), why }),
            }
        }
    }
    bare.map_or(Containing::Plain, |git_dir| Containing::Repository(git_dir.path().to_owned(), git_dir))
}

/// Returns the git folder that a work tree's `.git` is or points at.
fn git_dir_of(tree: &Path) -> Result<Option<GitFolder>, Refused> {
    let dot_git = tree.join(".git");
    let found = fs::symlink_metadata(&dot_git)?;
    if found.is_dir() {
        return Ok(Some(GitFolder::open(dot_git)?).filter(GitFolder::is_one));
    }
    let target = if found.is_symlink() {
        // The owner must be trusted, because the pointer decides which folder is used.
        trusted_file::check_owner_of(&dot_git)?;
        dot_git
    } else {
        // In a worktree or submodule `.git` is a file that contains the path.
        let pointer = trusted_file::read(&dot_git, Links::Refused, MOST_POINTER)?;
        let pointer = String::from_utf8_lossy(&pointer).into_owned();
        let Some(target) = pointer.trim().strip_prefix("gitdir:") else { return Ok(None) };
        tree.join(target.trim())
    };
    // The target no longer exists.
    let Ok(git_dir) = fs::canonicalize(target) else { return Ok(None) };
    Ok(Some(GitFolder::open(git_dir)?))
}

/// Whether a git folder belongs to this work tree: it is directly inside, or points back at it. Otherwise (it points
/// elsewhere, at a missing folder, or at nothing) it proves nothing.
fn belongs_to(git_dir: &GitFolder, tree: &Path) -> bool {
    let path = git_dir.path();
    if path.parent() == Some(tree) {
        return true;
    }
    if let Some(back) = git_dir.read("gitdir") {
        return fs::canonicalize(path.join(back.trim())).is_ok_and(|back| back == tree.join(".git"));
    }
    let config = git_config::parse(&git_dir.read("config").unwrap_or_default());
    let worktree = config.iter().rev().find(|setting| setting.is("core", "worktree"));
    worktree.is_some_and(|back| fs::canonicalize(path.join(&back.value)).is_ok_and(|back| back == tree))
}

/// The address of `origin`, or else of the first remote in the file.
fn remote_url(config: &[Setting]) -> Option<String> {
    let mut urls = config.iter().filter(|setting| setting.is("remote", "url"));
    let origin = urls.clone().find(|setting| setting.subsection == "origin");
    origin.or_else(|| urls.next()).map(|setting| setting.value.clone())
}

/// The first entry of a repository's reflog, if the log goes back to the beginning.
struct Beginning {
    commit: CommitId,
    what: String,
}

impl Beginning {
    fn read(log: &str) -> Option<Self> {
        let line = log.lines().next()?;
        let mut words = line.split_whitespace();
        let (before, first) = (words.next()?, words.next()?);
        // A tab follows the author.
        let what = line.split_once('\t').map(|(_, what)| what.to_owned()).unwrap_or_default();
        let commit = CommitId::parse(first)?;
        before.bytes().all(|byte| byte == b'0').then_some(Self { commit, what })
    }

    /// Whether it is the very first commit of a repository that was not cloned.
    fn is_initial(&self) -> bool {
        self.what.contains("commit (initial)")
    }

    /// The commit, if the repository was cloned from a different place than this remote.
    fn of_another(&self, remote: Option<&str>) -> Option<CommitId> {
        let from = normalise_remote(self.what.strip_prefix("clone: from ")?);
        (from != remote.and_then(normalise_remote)).then(|| self.commit.clone())
    }
}

fn has_no_commit(git_dir: &GitFolder) -> bool {
    // Without logs nothing is known about commits in a reftable.
    !git_dir.is_folder("reftable")
        && Refs::of_git_dir(git_dir).checkout().is_none_or(|checkout| checkout.commit.is_none())
}

/// The state of a project's `.recall.toml`.
#[derive(Debug)]
pub enum ProjectFile {
    None,
    Text(String),
    /// It belongs to another user and is ignored.
    Foreign(Refused),
    /// It is a link or a pipe, too large, writable by others, or unreadable.
    Unreadable(Refused),
}

/// Reads `.recall.toml` in the project's folder. Links are not followed, because they may lead out of the project.
pub fn project_file(folder: &Path) -> ProjectFile {
    let path = folder.join(crate::project_file::NAME);
    match trusted_file::read(&path, Links::Refused, MOST_PROJECT_FILE) {
        Ok(bytes) => ProjectFile::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Err(why) if why.is_absence() => ProjectFile::None,
        Err(why @ Refused::Foreign(_)) => ProjectFile::Foreign(why),
        Err(why) => ProjectFile::Unreadable(why),
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::objects::tests::write_commit;
    use recall_domain::project::{display_name, identities};

    /// Creates a repository with a first commit and returns the commit's name.
    fn repository(folder: &Path, config: &str) -> String {
        fs::create_dir_all(folder.join(".git/logs")).unwrap();
        fs::create_dir_all(folder.join("src/api")).unwrap();
        fs::write(folder.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(folder.join(".git/config"), config).unwrap();
        let commit = write_commit(&folder.join(".git/objects"), "Start").0;
        fs::write(folder.join(".git/logs/HEAD"), log_of(&commit)).unwrap();
        commit
    }

    fn log_of(first: &str) -> String {
        let zero = "0".repeat(40);
        format!("{zero} {first} Dev <dev@example.com> 1700000000 +0000\tcommit (initial): Start\n")
    }

    fn keys(folder: &Path) -> Vec<String> {
        identities(&facts(folder)).into_iter().map(|key| key.0).collect()
    }

    #[test]
    fn a_subfolder_a_worktree_and_a_local_clone_are_the_same_project() {
        let home = tempfile::tempdir().unwrap();
        let shop = home.path().join("shop");
        let root = format!("root:{}", repository(&shop, "[core]\n\tbare = false\n"));
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
    fn a_folder_pointing_at_another_repository_is_not_identified_as_it() {
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
    fn symlinks_inside_a_git_folder_are_not_followed_out_of_it() {
        let home = tempfile::tempdir().unwrap();
        let (secret, thief) = (home.path().join("secret"), home.path().join("thief"));
        repository(&secret, "[remote \"origin\"]\n\turl = git@github.com:acme/secret\n");
        let victim = keys(&secret);
        fs::create_dir_all(thief.join("src")).unwrap();
        let check = |git_dir: &Path, name: &str| {
            fs::create_dir_all(git_dir.join("objects")).unwrap();
            fs::write(git_dir.join("HEAD"), "ref: refs/heads/main").unwrap();
            fs::write(git_dir.join("config"), "").unwrap();
            let _ = fs::remove_file(git_dir.join(name)).or_else(|_| fs::remove_dir_all(git_dir.join(name)));
            fs::create_dir_all(git_dir.join(name).parent().unwrap()).unwrap();
            symlink(secret.join(".git").join(name), git_dir.join(name)).unwrap();
            let found = keys(&thief.join("src"));
            assert!(found.iter().all(|key| !victim.contains(key)), "{name}: {found:?}");
            fs::remove_dir_all(git_dir).unwrap();
            found
        };
        for name in ["logs/HEAD", "logs", "config", "objects", "HEAD"] {
            let found = check(&thief.join(".git"), name);
            let own = if name == "HEAD" { "path:" } else { "dir:" };
            assert!(found.len() == 1 && found[0].starts_with(own), "{name}: {found:?}");
            // A bare repository that was committed into a folder.
            fs::create_dir_all(thief.join("src")).unwrap();
            check(&thief.join("src"), name);
            fs::create_dir_all(thief.join("src")).unwrap();
        }
        // A log that names a missing commit.
        fs::create_dir_all(thief.join(".git/logs")).unwrap();
        fs::write(thief.join(".git/HEAD"), "ref: refs/heads/main").unwrap();
        fs::copy(secret.join(".git/logs/HEAD"), thief.join(".git/logs/HEAD")).unwrap();
        assert_eq!(keys(&thief).len(), 1, "{:?}", keys(&thief));
    }

    #[test]
    fn a_bare_repository_inside_a_work_tree_belongs_to_that_work_tree() {
        let home = tempfile::tempdir().unwrap();
        let shop = home.path().join("shop");
        repository(&shop, "");
        let bare = |folder: PathBuf| {
            fs::create_dir_all(folder.join("objects")).unwrap();
            fs::create_dir_all(folder.join("hooks")).unwrap();
            fs::write(folder.join("HEAD"), "ref: refs/heads/main").unwrap();
            fs::write(folder.join("config"), "[remote \"origin\"]\n\turl = git@github.com:acme/secret\n")
                .unwrap();
            folder.join("hooks")
        };
        let within = bare(shop.join("packages/app"));
        assert_eq!(keys(&within), keys(&shop));
        assert_eq!(facts(&within).folder, facts(&shop).folder);
        assert_eq!(keys(&shop.join(".git")), keys(&shop));
        let alone = bare(home.path().join("alone.git"));
        assert_eq!(keys(&alone)[0], "git:github.com/acme/secret");
    }

    #[test]
    fn files_writable_by_other_users_are_ignored_and_listed() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let shop = home.path().join("shop");
        repository(&shop, "[remote \"origin\"]\n\turl = git@github.com:acme/secret\n");
        let open =
            |name: &str| fs::set_permissions(shop.join(name), fs::Permissions::from_mode(0o777)).unwrap();
        let names = || -> Vec<_> { ignored(&shop.join("src")).into_iter().map(|it| it.path).collect() };
        assert_eq!(names(), Vec::<PathBuf>::new());
        open(".git/config");
        assert!(keys(&shop)[0].starts_with("root:"), "{:?}", keys(&shop));
        assert_eq!(names(), [fs::canonicalize(shop.join(".git/config")).unwrap()]);
        open(".git/objects");
        assert!(keys(&shop)[0].starts_with("dir:"), "{:?}", keys(&shop));
        open(".git");
        assert!(keys(&shop)[0].starts_with("path:"), "{:?}", keys(&shop));
        assert_eq!(names(), [fs::canonicalize(shop.join(".git")).unwrap()]);
        fs::remove_dir_all(shop.join(".git")).unwrap();
        fs::write(shop.join(".recall.toml"), "disable = true").unwrap();
        assert!(matches!(project_file(&shop), ProjectFile::Text(_)));
        open(".recall.toml");
        assert!(matches!(project_file(&shop), ProjectFile::Unreadable(Refused::Writable)));
    }

    #[test]
    fn an_external_git_folder_counts_only_if_it_points_back_at_the_work_tree() {
        let home = tempfile::tempdir().unwrap();
        let (module, tree) = (home.path().join("shop/.git/modules/coins"), home.path().join("shop/coins"));
        fs::create_dir_all(&module).unwrap();
        fs::create_dir_all(&tree).unwrap();
        fs::write(module.join("HEAD"), "ref: refs/heads/main").unwrap();
        fs::write(module.join("config"), "[core]\n\tworktree = ../../../coins\n").unwrap();
        fs::write(tree.join(".git"), "gitdir: ../.git/modules/coins").unwrap();
        assert!(keys(&tree)[0].ends_with("/.git/modules/coins"), "{:?}", keys(&tree));
        // As `git init --separate-git-dir` makes it: nothing in it names its work tree.
        let (apart, other) = (home.path().join("apart.git"), home.path().join("other"));
        fs::create_dir_all(&apart).unwrap();
        fs::create_dir_all(other.join("src")).unwrap();
        fs::write(apart.join("HEAD"), "ref: refs/heads/main").unwrap();
        let pointer = format!("gitdir: {}", apart.display());
        let own = format!("path:{}", fs::canonicalize(&other).unwrap().display());
        fs::write(apart.join("config"), "[core]\n\tbare = false\n").unwrap();
        fs::write(other.join(".git"), &pointer).unwrap();
        assert_eq!(keys(&other.join("src")), std::slice::from_ref(&own));
        let target = fs::canonicalize(&apart).unwrap();
        let facts_of_other = facts(&other);
        assert_eq!(facts_of_other.mentions.pointed_at, Some(text(&target)));
        // The check of exclusions still sees it.
        assert!(facts_of_other.asked().any(|facts| facts.common_dir == Some(text(&target))));
        fs::remove_file(other.join(".git")).unwrap();
        symlink(&apart, other.join(".git")).unwrap();
        assert_eq!(keys(&other.join("src")), [own]);
        fs::write(apart.join("config"), format!("[core]\n\tworktree = {}\n", other.display())).unwrap();
        assert!(keys(&other)[0].ends_with("/apart.git"), "{:?}", keys(&other));
        // A folder that contains a repository and that repository's work trees.
        let within = home.path().join("within");
        fs::create_dir_all(within.join(".bare")).unwrap();
        fs::write(within.join(".bare/HEAD"), "ref: refs/heads/main").unwrap();
        fs::write(within.join(".bare/config"), "[core]\n\tbare = true\n").unwrap();
        fs::write(within.join(".git"), "gitdir: ./.bare").unwrap();
        assert!(keys(&within)[0].ends_with("/within/.bare"), "{:?}", keys(&within));
    }

    #[test]
    fn a_folder_pointing_at_a_removed_worktree_does_not_join_its_project() {
        let home = tempfile::tempdir().unwrap();
        let (shop, thief) = (home.path().join("shop"), home.path().join("thief"));
        repository(&shop, "[remote \"origin\"]\n\turl = git@github.com:acme/secret\n");
        let stale = shop.join(".git/worktrees/gone");
        fs::create_dir_all(&stale).unwrap();
        fs::create_dir_all(&thief).unwrap();
        fs::write(stale.join("commondir"), "../..\n").unwrap();
        fs::write(stale.join("HEAD"), "ref: refs/heads/gone").unwrap();
        fs::write(stale.join("gitdir"), home.path().join("gone/.git").to_str().unwrap()).unwrap();
        fs::write(thief.join(".git"), format!("gitdir: {}", stale.display())).unwrap();
        assert_eq!(keys(&thief), [format!("path:{}", fs::canonicalize(&thief).unwrap().display())]);
        let shop = text(&fs::canonicalize(shop.join(".git")).unwrap());
        assert!(facts(&thief).asked().any(|facts| facts.common_dir.as_ref() == Some(&shop)));
        // Inside another repository it is still its own.
        fs::create_dir_all(home.path().join(".git/objects")).unwrap();
        fs::write(home.path().join(".git/HEAD"), "ref: refs/heads/main").unwrap();
        assert!(keys(&thief)[0].starts_with("path:"));
        let around = text(&fs::canonicalize(home.path().join(".git")).unwrap());
        assert!(facts(&thief).asked().any(|facts| facts.common_dir.as_ref() == Some(&around)));
    }

    #[test]
    fn the_origin_remote_identifies_the_project_before_other_remotes() {
        let home = tempfile::tempdir().unwrap();
        let config = "[remote \"fork\"]\n\turl = git@github.com:me/shop.git\n[remote \"origin\"]\n\
                      \tfetch = +refs/heads/*\n\turl = https://github.com/acme/shop.git\n[branch \"main\"]\n\tremote = fork\n";
        repository(home.path(), config);
        assert_eq!(keys(home.path())[0], "git:github.com/acme/shop");
    }

    #[test]
    fn a_folder_without_a_repository_is_identified_by_its_path_alone() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("notes");
        fs::create_dir(&folder).unwrap();
        let found = keys(&folder);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("path:/") && found[0].ends_with("/notes"));
        // Two folders of the same name are two projects. A missing folder is not an error.
        assert_ne!(found, keys(&home.path().join("other/notes")));
        // This path must not be resolved, because this very project is below the test's own folder.
        assert_eq!(keys(Path::new("C:\\code\\shop")), ["path:C:\\code\\shop"]);
        assert_eq!(keys(Path::new("src")), ["path:src"]);
    }
}
