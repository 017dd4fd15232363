//! Where work was done, and whether what is checked out now holds it.
//!
//! Whoever hears of work that lies on another branch must know that it is not to be found here. What is known of it is
//! what git tells: branches, commits, and which commit contains which. A squash keeps nothing of that, so the rule
//! goes by the branch while there is one and lets a branch that is gone, and the default branch, pass for merged.

use std::fmt;

use super::ids::{BranchName, CommitId};

/// What is checked out somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkout {
    /// `None`: HEAD is detached.
    pub branch: Option<BranchName>,
    /// `None`: the branch has no commit yet.
    pub commit: Option<CommitId>,
}

/// What somebody who listens has checked out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Here {
    /// `None`: no repository, or one that cannot be read.
    pub checkout: Option<Checkout>,
    /// The remote's word; where there is none, [`DEFAULT_BRANCHES`] count as such.
    pub default_branch: Option<BranchName>,
}

/// The names that a default branch usually has.
const DEFAULT_BRANCHES: [&str; 3] = ["main", "master", "trunk"];

/// Where something remembered was made. All empty: nobody knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeOn {
    pub branch: Option<BranchName>,
    /// At the work's end, or at its beginning where the end was not seen.
    pub commit: Option<CommitId>,
    /// At the work's beginning.
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

/// Where a branch stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tip {
    Unknown,
    Gone,
    At(CommitId),
}

/// Whether a commit is contained in what is checked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containment {
    Unknown,
    Contained,
    Missing,
}

/// What can be asked of the repository that the listener works in.
pub trait History {
    fn tip(&self, branch: &BranchName) -> Tip;
    /// Whether the listener's commit contains this one.
    fn contains(&self, commit: &CommitId) -> Containment;
}

/// That something was made elsewhere, in words for people and agents.
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
    /// Git could not be asked, or has not answered yet.
    Unknown,
}

/// A longer branch name is cut for display, in characters.
const NAME_CHARS: usize = 60;
/// So many digits of a commit are shown.
const SHORT_COMMIT: usize = 10;

impl fmt::Display for Elsewhere {
    /// `on branch feature-x, not merged here`.
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

/// Whether something is to be marked that was made at each of these places. What was made again where it is merged, or
/// where nobody knows, is not.
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
            // Nothing names it: as long as it is not known to be missing there is nothing to say.
            (!is_here && history.contains(commit) == Containment::Missing)
                .then(|| Elsewhere { place: MadeAt::Commit(commit.clone()), merged: Merged::No })
        }
    }
}

/// `None`: it counts as merged.
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
    // Nothing was committed there since the work began, so its changes lie in no commit that could be merged.
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
    fn is_default(&self, branch: &BranchName) -> bool {
        match &self.default_branch {
            Some(default) => default == branch,
            None => DEFAULT_BRANCHES.contains(&branch.as_str()),
        }
    }
}

impl BranchName {
    /// Reads a name as git allows it (git-check-ref-format(1)): it can be part of a path and of a line. `None`: it is
    /// none.
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
    /// Reads a full hash of either length, 40 or 64 digits; `None`: it is none.
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
    fn a_branch_is_marked_until_it_is_merged_or_gone() {
        let x = made("x", Touched::Nothing);
        let tip = || Tip::At(commit(TIP));
        use Containment::{Contained, Missing, Unknown};
        for here in [on(Some("main")), on(Some("y")), on(None)] {
            check(&x, &here, tip(), Missing, NOT_MERGED);
            check(&x, &here, tip(), Contained, "");
            check(&x, &here, tip(), Unknown, BY_NAME);
            check(&x, &here, Tip::Unknown, Missing, BY_NAME);
            // Merged by a squash and deleted, or deleted for another reason: nobody knows.
            check(&x, &here, Tip::Gone, Missing, "");
            // Its last commit is the one that is checked out, whatever git cannot say.
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
    fn what_was_never_committed_cannot_be_merged() {
        let here = on(Some("main"));
        let at_base = || Tip::At(commit(BASE));
        check(&made("x", Touched::Files), &here, at_base(), Containment::Contained, NOT_MERGED);
        // Nothing was changed: what it found out holds for the commit, which is here.
        check(&made("x", Touched::Nothing), &here, at_base(), Containment::Contained, "");
        // Committed since, and merged.
        check(&made("x", Touched::Files), &here, Tip::At(commit(TIP)), Containment::Contained, "");
    }

    #[test]
    fn a_detached_head_is_known_by_its_commit() {
        let detached = MadeOn { branch: None, ..made("x", Touched::Files) };
        let here = on(Some("main"));
        check(&detached, &here, Tip::Gone, Containment::Missing, "at commit aaaaaaaaaa, not merged here");
        check(&detached, &here, Tip::Gone, Containment::Contained, "");
        check(&detached, &here, Tip::Gone, Containment::Unknown, "");
        let at_head = MadeOn { commit: Some(commit(HEAD)), ..detached };
        check(&at_head, &here, Tip::Gone, Containment::Missing, "");
    }

    #[test]
    fn what_was_made_again_where_it_is_merged_is_here() {
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
    fn names_that_lead_astray_are_none() {
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
