//! Decides whether work done on another branch is contained in the current checkout.
//!
//! Notes about work on another branch are marked, because the code is not in the reader's checkout. Git knows
//! branches, commits, and which commit contains which, but a squash merge loses this relation. So while the branch
//! exists, its tip decides; a branch that was deleted, and the default branch, count as merged.

use std::fmt;

use super::ids::{BranchName, CommitId};

/// The branch and commit that a work tree has checked out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkout {
    /// `None` if HEAD is detached.
    pub branch: Option<BranchName>,
    /// `None` if the branch has no commit yet.
    pub commit: Option<CommitId>,
}

/// The reader's checkout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Here {
    /// `None` if there is no repository, or it cannot be read.
    pub checkout: Option<Checkout>,
    /// The default branch according to the remote. If unknown, [`DEFAULT_BRANCHES`] count as default branches.
    pub default_branch: Option<BranchName>,
}

/// Usual names of a default branch.
const DEFAULT_BRANCHES: [&str; 3] = ["main", "master", "trunk"];

/// Where something remembered was made. Unknown fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeOn {
    pub branch: Option<BranchName>,
    /// The commit at the end of the work, or at its beginning if the end was not seen.
    pub commit: Option<CommitId>,
    /// The commit at the beginning of the work.
    pub base: Option<CommitId>,
    pub touched: Touched,
}

/// Whether the work changed files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Touched {
    #[default]
    Nothing,
    Files,
}

/// The commit that a branch points at now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tip {
    Unknown,
    Gone,
    At(CommitId),
}

/// Whether a commit is contained in the reader's checkout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containment {
    Unknown,
    Contained,
    Missing,
}

/// Questions about the reader's repository.
pub trait History {
    fn tip(&self, branch: &BranchName) -> Tip;
    /// Whether the reader's commit contains this one.
    fn contains(&self, commit: &CommitId) -> Containment;
}

/// The note for people and agents that something was made on another branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    place: MadeAt,
    merged: Merged,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MadeAt {
    Branch(BranchName),
    Commit(CommitId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merged {
    No,
    /// Git could not be run, or has not responded yet.
    Unknown,
}

/// The maximum length of a displayed branch name, in characters.
const NAME_CHARS: usize = 60;
/// The number of digits shown of a commit hash.
const SHORT_COMMIT: usize = 10;

impl fmt::Display for Elsewhere {
    /// For example `on branch feature-x, not merged here`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            MadeAt::Branch(branch) => {
                let shown: String = branch.as_str().chars().take(NAME_CHARS).collect();
                write!(f, "on branch {shown}")?;
            }
            MadeAt::Commit(commit) => {
                write!(f, "at commit {}", commit.as_str().get(..SHORT_COMMIT).unwrap_or_default())?;
            }
        }
        match self.merged {
            Merged::No => f.write_str(", not merged here"),
            Merged::Unknown => Ok(()),
        }
    }
}

/// The mark of a memory that was made at all of these places. `None` if one of them is merged or unknown.
pub fn elsewhere(made: &[MadeOn], here: &Here, history: &impl History) -> Option<Elsewhere> {
    let mut mark = None;
    for place in made {
        mark = Some(mark_of(place, here, history)?);
    }
    mark
}

fn mark_of(made: &MadeOn, here: &Here, history: &impl History) -> Option<Elsewhere> {
    match &made.branch {
        Some(branch) => {
            let merged = merged_branch(branch, made, here, history)?;
            Some(Elsewhere { place: MadeAt::Branch(branch.clone()), merged })
        }
        None => {
            let commit = made.commit.as_ref()?;
            let is_here = here.checkout.as_ref().and_then(|here| here.commit.as_ref()) == Some(commit);
            // A detached commit has no branch name, so it is marked only if it is known to be missing.
            (!is_here && history.contains(commit) == Containment::Missing)
                .then(|| Elsewhere { place: MadeAt::Commit(commit.clone()), merged: Merged::No })
        }
    }
}

/// Returns whether the branch is merged, or `None` if it counts as merged.
fn merged_branch(branch: &BranchName, made: &MadeOn, here: &Here, history: &impl History) -> Option<Merged> {
    if here.is_default(branch) {
        return None;
    }
    let Some(checkout) = &here.checkout else { return Some(Merged::Unknown) };
    if checkout.branch.as_ref() == Some(branch) {
        return None;
    }
    let tip = match history.tip(branch) {
        Tip::Gone => return None,
        Tip::Unknown => return Some(Merged::Unknown),
        Tip::At(tip) => tip,
    };
    // Nothing was committed since the work began, so no mergeable commit contains it.
    if made.touched == Touched::Files && made.base.as_ref() == Some(&tip) {
        return Some(Merged::No);
    }
    if checkout.commit.as_ref() == Some(&tip) {
        return None;
    }
    match history.contains(&tip) {
        Containment::Contained => None,
        Containment::Missing => Some(Merged::No),
        Containment::Unknown => Some(Merged::Unknown),
    }
}

impl Here {
    /// The checked-out branch, unless it is the default branch.
    pub fn branch_of_its_own(&self) -> Option<&BranchName> {
        let branch = self.checkout.as_ref()?.branch.as_ref()?;
        (!self.is_default(branch)).then_some(branch)
    }

    fn is_default(&self, branch: &BranchName) -> bool {
        match &self.default_branch {
            Some(default) => default == branch,
            None => DEFAULT_BRANCHES.contains(&branch.as_str()),
        }
    }
}

impl BranchName {
    /// Parses a branch name by git's rules (git-check-ref-format(1)), so that it is safe in a path and in a line.
    /// `None` if it is invalid.
    pub fn parse(name: &str) -> Option<Self> {
        const MOST_BYTES: usize = 250;
        let is_odd = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
        let part_is_fine =
            |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
        let is_fine = name.len() <= MOST_BYTES
            && !name.starts_with('-')
            && !name.contains("..")
            && !name.contains(is_odd)
            && name.split('/').all(part_is_fine);
        is_fine.then(|| Self(name.to_owned()))
    }
}

impl CommitId {
    /// Parses a full hash of 40 or 64 digits.
    pub fn parse(hash: &str) -> Option<Self> {
        let is_hash = matches!(hash.len(), 40 | 64) && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| Self(hash.to_ascii_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: char = 'a';
    const TIP: char = 'b';
    const HEAD: char = 'c';

    fn commit(digit: char) -> CommitId {
        CommitId::parse(&digit.to_string().repeat(40)).unwrap()
    }

    struct Git {
        tip: Tip,
        contains: Containment,
    }

    impl History for Git {
        fn tip(&self, _branch: &BranchName) -> Tip {
            self.tip.clone()
        }

        fn contains(&self, _commit: &CommitId) -> Containment {
            self.contains
        }
    }

    fn made(branch: &str, touched: Touched) -> MadeOn {
        let branch = Some(BranchName::from(branch));
        MadeOn { branch, commit: Some(commit(BASE)), base: Some(commit(BASE)), touched }
    }

    fn on(branch: Option<&str>) -> Here {
        let checkout = Checkout { branch: branch.map(BranchName::from), commit: Some(commit(HEAD)) };
        Here { checkout: Some(checkout), default_branch: None }
    }

    #[track_caller]
    fn check(made: &MadeOn, here: &Here, tip: Tip, contains: Containment, expected: &str) {
        let mark = elsewhere(std::slice::from_ref(made), here, &Git { tip, contains });
        assert_eq!(mark.map(|mark| mark.to_string()).unwrap_or_default(), expected);
    }

    const NOT_MERGED: &str = "on branch x, not merged here";
    const BY_NAME: &str = "on branch x";

    #[test]
    fn a_branch_is_marked_until_it_is_merged_or_deleted() {
        let x = made("x", Touched::Nothing);
        let tip = || Tip::At(commit(TIP));
        use Containment::{Contained, Missing, Unknown};
        for here in [on(Some("main")), on(Some("y")), on(None)] {
            check(&x, &here, tip(), Missing, NOT_MERGED);
            check(&x, &here, tip(), Contained, "");
            check(&x, &here, tip(), Unknown, BY_NAME);
            check(&x, &here, Tip::Unknown, Missing, BY_NAME);
            // The branch was squashed and deleted, or deleted for another reason; git cannot tell which.
            check(&x, &here, Tip::Gone, Missing, "");
            // Its tip is the commit that is checked out, even if git cannot answer.
            check(&x, &here, Tip::At(commit(HEAD)), Unknown, "");
        }
        check(&x, &on(Some("x")), tip(), Missing, "");
        check(&x, &Here::default(), tip(), Missing, BY_NAME);
    }

    #[test]
    fn the_default_branch_is_never_marked() {
        let from = |branch| made(branch, Touched::Files);
        let tip = || Tip::At(commit(TIP));
        for branch in ["main", "master", "trunk"] {
            check(&from(branch), &on(Some("y")), tip(), Containment::Missing, "");
            check(&from(branch), &Here::default(), tip(), Containment::Missing, "");
        }
        let here = Here { default_branch: Some("develop".into()), ..on(Some("y")) };
        check(&from("develop"), &here, tip(), Containment::Missing, "");
        check(&from("main"), &here, tip(), Containment::Missing, "on branch main, not merged here");
    }

    #[test]
    fn uncommitted_work_does_not_count_as_merged() {
        let here = on(Some("main"));
        let at_base = || Tip::At(commit(BASE));
        check(&made("x", Touched::Files), &here, at_base(), Containment::Contained, NOT_MERGED);
        // No file was changed: the finding belongs to the commit, which is checked out.
        check(&made("x", Touched::Nothing), &here, at_base(), Containment::Contained, "");
        // Committed since, and merged.
        check(&made("x", Touched::Files), &here, Tip::At(commit(TIP)), Containment::Contained, "");
    }

    #[test]
    fn work_on_a_detached_head_is_marked_by_its_commit() {
        let detached = MadeOn { branch: None, ..made("x", Touched::Files) };
        let here = on(Some("main"));
        check(&detached, &here, Tip::Gone, Containment::Missing, "at commit aaaaaaaaaa, not merged here");
        check(&detached, &here, Tip::Gone, Containment::Contained, "");
        check(&detached, &here, Tip::Gone, Containment::Unknown, "");
        let at_head = MadeOn { commit: Some(commit(HEAD)), ..detached };
        check(&at_head, &here, Tip::Gone, Containment::Missing, "");
    }

    #[test]
    fn work_made_on_several_branches_is_marked_only_if_all_are_unmerged() {
        let git = Git { tip: Tip::At(commit(TIP)), contains: Containment::Missing };
        let (x, y) = (made("x", Touched::Files), made("y", Touched::Files));
        let here = on(Some("main"));
        let mark = |made: &[MadeOn]| elsewhere(made, &here, &git).map(|mark| mark.to_string());
        assert_eq!(mark(&[x.clone(), y.clone()]).as_deref(), Some("on branch y, not merged here"));
        assert_eq!(mark(&[x.clone(), made("main", Touched::Files), y]), None);
        assert_eq!(mark(&[x, MadeOn::default()]), None, "nobody knows where");
        assert_eq!(mark(&[]), None, "by hand");
    }

    #[test]
    fn invalid_branch_names_and_commit_hashes_are_rejected() {
        for name in ["main", "feature/x-1", "Ümlaut", "a.b", "release@2"] {
            assert!(BranchName::parse(name).is_some(), "{name}");
        }
        let long = "x".repeat(251);
        for name in
            ["", "/", "a//b", "/etc", "../x", "a/../b", ".hidden", "a b", "a\nb", "-x", "x.lock", &long]
        {
            assert!(BranchName::parse(name).is_none(), "{name}");
        }
        assert!(CommitId::parse(&"A1".repeat(20)).is_some());
        assert!(CommitId::parse("abc").is_none() && CommitId::parse(&"g".repeat(40)).is_none());
    }
}
