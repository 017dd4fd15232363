//! Reads the current checkout and the branch tips from the files described in gitrepository-layout(5): HEAD, loose
//! refs and packed refs. Refs that are in a reftable or cannot be read count as unknown.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::find;
use super::git_folder::GitFolder;
use recall_domain::checkout::{Checkout, Here, Tip};
use recall_domain::ids::{BranchName, CommitId};

/// The size limit of the packed refs. Branches are listed before tags and other remotes.
const MOST_PACKED: u64 = 8 << 20;
/// How many symbolic refs are followed in a row. More mean a cycle.
const MOST_HOPS: u32 = 4;
/// The maximum number of remote branches whose tips are returned.
const MOST_TIPS: usize = 32;

/// Where an agent works in a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkLocation {
    /// The current folder, which may be outside the project.
    pub cwd: Option<String>,
    /// The project's own folder.
    pub root: Option<String>,
}

impl WorkLocation {
    /// The location of a command that runs in `folder`.
    pub fn at(folder: &Path) -> Self {
        Self { cwd: None, root: Some(folder.to_string_lossy().into_owned()) }
    }

    /// The refs of the current folder's work tree if it belongs to the project, else of the project's.
    pub fn refs(&self) -> Option<Refs> {
        let of = |folder: &Option<String>| folder.as_deref().and_then(|folder| Refs::of(Path::new(folder)));
        let root = of(&self.root);
        let cwd = of(&self.cwd);
        match (&cwd, &root) {
            (Some(here), Some(home)) if here.common_dir == home.common_dir => cwd,
            (Some(_), None) if self.root.is_none() => cwd,
            _ => root,
        }
    }
}

/// The refs of a repository as seen from one of its work trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refs {
    git_dir: GitFolder,
    common_dir: GitFolder,
}

/// The content of a ref's file.
enum Content {
    Commit(CommitId),
    Symbolic(String),
}

impl Refs {
    /// `None` if the folder is in no repository.
    pub fn of(folder: &Path) -> Option<Self> {
        if !folder.is_absolute() {
            return None;
        }
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let (_, git_dir) = find(&folder, &mut |_| {})?;
        Some(Self::of_git_dir(&git_dir))
    }

    pub fn of_git_dir(git_dir: &GitFolder) -> Self {
        Self { common_dir: git_dir.common(), git_dir: git_dir.clone() }
    }

    /// The current checkout. `None` if unknown.
    pub fn checkout(&self) -> Option<Checkout> {
        match content(&self.git_dir.read("HEAD")?)? {
            Content::Commit(commit) => Some(Checkout { branch: None, commit: Some(commit) }),
            Content::Symbolic(name) => {
                let branch = BranchName::parse(name.strip_prefix("refs/heads/")?)?;
                let commit = self.commit(&name);
                Some(Checkout { branch: Some(branch), commit })
            }
        }
    }

    /// The current checkout as evidence, without a commit that is only named by a ref but missing from the repository.
    pub fn own_checkout(&self) -> Option<Checkout> {
        let Checkout { branch, commit } = self.checkout()?;
        Some(Checkout { branch, commit: commit.filter(|commit| self.common_dir.holds(commit)) })
    }

    /// The position of a reader in this work tree.
    pub fn here(&self) -> Here {
        let default =
            self.common_dir.read("refs/remotes/origin/HEAD").and_then(|text| content(&text)).and_then(
                |content| match content {
                    Content::Symbolic(name) => BranchName::parse(name.strip_prefix("refs/remotes/origin/")?),
                    Content::Commit(_) => None,
                },
            );
        Here { checkout: self.checkout(), default_branch: default }
    }

    /// The tip of a local branch, or else of the remote's branch as last fetched.
    pub fn tip(&self, branch: &BranchName) -> Tip {
        if self.common_dir.is_folder("reftable") {
            return Tip::Unknown;
        }
        let own = self.commit(&format!("refs/heads/{branch}"));
        let tip = own.or_else(|| self.commit(&format!("refs/remotes/origin/{branch}")));
        tip.map_or(Tip::Gone, Tip::At)
    }

    /// Commits named by refs and logs of the repository: present and past checkouts, and the remote's branches as last
    /// fetched. Use [`GitFolder::holds`] to check whether the repository contains them.
    pub fn named_commits(&self) -> Vec<CommitId> {
        const REMOTE: &str = "refs/remotes/origin";
        let mut commits: Vec<CommitId> = self.checkout().and_then(|it| it.commit).into_iter().collect();
        for name in self.common_dir.names(REMOTE).into_iter().take(MOST_TIPS) {
            let text = name.to_str().and_then(|name| self.common_dir.read(&format!("{REMOTE}/{name}")));
            if let Some(Content::Commit(commit)) = text.and_then(|text| content(&text)) {
                commits.push(commit);
            }
        }
        let packed = self.packed().filter(|line| line.contains(" refs/remotes/origin/")).take(MOST_TIPS);
        commits.extend(packed.filter_map(|line| CommitId::parse(line.split(' ').next()?)));
        // Each line contains the previous commit, the new commit and the author.
        let log = self.common_dir.read("logs/HEAD").unwrap_or_default();
        commits.extend(log.lines().filter_map(|line| CommitId::parse(line.split(' ').nth(1)?)));
        // All zeros mean no commit.
        commits.retain(|commit| commit.as_str().bytes().any(|digit| digit != b'0'));
        commits
    }

    /// The folder that contains the objects.
    pub fn objects(&self) -> Option<PathBuf> {
        self.common_dir.is_folder("objects").then(|| self.common_dir.path().join("objects"))
    }

    /// Whether the clone is shallow.
    pub fn is_shallow(&self) -> bool {
        self.common_dir.open_file("shallow").map_or_else(|why| !why.is_absence(), |_| true)
    }

    fn commit(&self, name: &str) -> Option<CommitId> {
        let mut name = name.to_owned();
        for _ in 0..MOST_HOPS {
            match self.common_dir.read(&name).and_then(|text| content(&text)) {
                Some(Content::Commit(commit)) => return Some(commit),
                // The name becomes part of a path, so it must be valid.
                Some(Content::Symbolic(next)) => name = BranchName::parse(&next)?.0,
                None => return self.packed_commit(&name),
            }
        }
        None
    }

    fn packed_commit(&self, name: &str) -> Option<CommitId> {
        let found = self.packed().find_map(|line| {
            let (hash, packed) = line.split_once(' ')?;
            (packed.trim_end() == name).then(|| hash.to_owned())
        })?;
        CommitId::parse(&found)
    }

    fn packed(&self) -> impl Iterator<Item = String> {
        let file = self.common_dir.open_file("packed-refs").ok();
        let lines = file.map(|file| BufReader::new(file.take(MOST_PACKED)).lines());
        lines.into_iter().flatten().map_while(Result::ok)
    }
}

fn content(text: &str) -> Option<Content> {
    let text = text.trim();
    match text.strip_prefix("ref:") {
        Some(name) => Some(Content::Symbolic(name.trim().to_owned())),
        None => CommitId::parse(text).map(Content::Commit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    /// Creates a repository with these files below `.git`.
    fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = home.path().join(".git").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        home
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: Option<(Option<&str>, Option<&str>)>) {
        let home = repository(files);
        let checkout = Refs::of(home.path()).and_then(|refs| refs.checkout());
        let expected = expected.map(|(branch, commit)| Checkout {
            branch: branch.map(BranchName::from),
            commit: commit.map(CommitId::from),
        });
        assert_eq!(checkout, expected, "{files:?}");
    }

    #[test]
    fn head_is_read_in_all_its_forms() {
        let main = ("HEAD", "ref: refs/heads/main\n");
        let packed =
            format!("# pack-refs with: peeled fully-peeled sorted \n{ONE} refs/heads/main\n^{TWO}\n");
        check(&[main, ("refs/heads/main", ONE)], Some((Some("main"), Some(ONE))));
        check(&[main, ("packed-refs", &packed)], Some((Some("main"), Some(ONE))));
        // The loose ref is newer than the packed one.
        check(&[main, ("packed-refs", &packed), ("refs/heads/main", TWO)], Some((Some("main"), Some(TWO))));
        check(&[main], Some((Some("main"), None)));
        check(&[("HEAD", ONE)], Some((None, Some(ONE))));
        check(&[("HEAD", "ref: refs/heads/a/b\n"), ("refs/heads/a/b", ONE)], Some((Some("a/b"), Some(ONE))));
        check(
            &[main, ("refs/heads/main", "ref: refs/heads/other"), ("refs/heads/other", ONE)],
            Some((Some("main"), Some(ONE))),
        );
    }

    #[test]
    fn an_unreadable_head_or_ref_is_unknown() {
        check(&[("HEAD", "ref: refs/heads/.invalid\n"), ("reftable/tables.list", "")], None);
        check(&[("HEAD", "")], None);
        check(&[("HEAD", "ref: refs/heads/../../../etc/passwd")], None);
        check(&[("HEAD", "ref: /etc/passwd")], None);
        check(&[], None);
        let main = ("HEAD", "ref: refs/heads/main\n");
        check(&[main, ("refs/heads/main", "ref: refs/heads/main")], Some((Some("main"), None)));
        check(&[main, ("refs/heads/main", "ref: ../../etc/passwd")], Some((Some("main"), None)));
        check(
            &[main, ("packed-refs", "\u{0}\n \nrefs/heads/main\nzz refs/heads/main")],
            Some((Some("main"), None)),
        );
    }

    #[test]
    fn a_branch_tip_is_found_in_a_local_or_remote_ref_or_is_missing() {
        let home = repository(&[
            ("HEAD", "ref: refs/heads/main\n"),
            ("refs/heads/mine", ONE),
            ("refs/remotes/origin/HEAD", "ref: refs/remotes/origin/develop"),
            ("packed-refs", &format!("{TWO} refs/remotes/origin/theirs\n{TWO} refs/tags/old\n")),
        ]);
        let refs = Refs::of(home.path()).unwrap();
        let tip = |name: &str| refs.tip(&BranchName::from(name));
        assert_eq!(tip("mine"), Tip::At(CommitId::from(ONE)));
        assert_eq!(tip("theirs"), Tip::At(CommitId::from(TWO)));
        assert_eq!((tip("old"), tip("none")), (Tip::Gone, Tip::Gone));
        assert_eq!(refs.here().default_branch, Some(BranchName::from("develop")));
        assert_eq!(refs.named_commits(), [CommitId::from(TWO)]);
    }

    #[test]
    fn a_worktree_has_its_own_head_and_other_repositories_are_ignored() {
        let home = tempfile::tempdir().unwrap();
        let (shop, tree, other) =
            (home.path().join("shop"), home.path().join("tree"), home.path().join("other"));
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(shop.join(".git/HEAD"), "ref: refs/heads/main");
        write(shop.join(".git/refs/heads/x"), ONE);
        write(shop.join(".git/worktrees/tree/HEAD"), "ref: refs/heads/x");
        write(shop.join(".git/worktrees/tree/commondir"), "../..");
        write(shop.join(".git/worktrees/tree/gitdir"), &tree.join(".git").to_string_lossy());
        write(tree.join(".git"), &format!("gitdir: {}", shop.join(".git/worktrees/tree").display()));
        write(other.join(".git/HEAD"), "ref: refs/heads/elsewhere");
        let branch = |cwd: Option<&Path>, root: Option<&Path>| {
            let text = |path: Option<&Path>| path.map(|path| path.to_string_lossy().into_owned());
            let refs = WorkLocation { cwd: text(cwd), root: text(root) }.refs();
            refs.and_then(|refs| refs.checkout()?.branch).map(|branch| branch.0)
        };
        assert_eq!(branch(Some(&tree), Some(&shop)).as_deref(), Some("x"));
        assert_eq!(branch(Some(&other), Some(&shop)).as_deref(), Some("main"));
        assert_eq!(branch(None, Some(&tree)).as_deref(), Some("x"));
        assert_eq!(branch(Some(home.path()), Some(&shop)).as_deref(), Some("main"));
        // A project without a repository has no branch, wherever the agent is.
        assert_eq!(branch(Some(&shop), Some(home.path())), None);
    }
}
