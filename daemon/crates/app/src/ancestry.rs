//! Asks git which commit contains which, and caches the answers.
//!
//! History does not change, so an answer is cached permanently. Only a question without an answer is asked again
//! later. A context lookup waits for git as long as it can; a late answer is cached for the next lookup.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use recall_domain::checkout::{Containment, Elsewhere, Here, History, MadeOn, Tip, elsewhere};
use recall_domain::ids::{BranchName, CommitId};
use recall_repository::history::containment;
use recall_repository::refs::{Refs, WorkLocation};

/// The maximum number of cached answers.
const MOST_KNOWN: usize = 4_000;
/// The maximum number of concurrent git processes.
const MOST_LOOKS: usize = 3;
/// The time after which an unanswered question is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(600);

/// Answers which commit contains which, from git and a cache. Cheap to clone.
#[derive(Clone, Default)]
pub struct Ancestry(Arc<Shared>);

#[derive(Default)]
struct Shared {
    asked: Mutex<Asked>,
    answered: Condvar,
}

#[derive(Default)]
struct Asked {
    known: HashMap<Question, (Containment, Instant)>,
    under_way: HashSet<Question>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    objects: PathBuf,
    head: CommitId,
    commit: CommitId,
}

impl Ancestry {
    /// Returns the branch context of an agent that works at this place. Waits for git for at most `patience` in total.
    /// Reads files, so it must run on a thread that may block.
    pub(crate) fn branch_context(&self, place: &WorkLocation, patience: Duration) -> BranchContext {
        let refs = place.refs();
        let here = refs.as_ref().map(Refs::here).unwrap_or_default();
        BranchContext { ancestry: self.clone(), refs, here, until: Instant::now() + patience }
    }

    fn ask(&self, question: Question, until: Instant) -> Containment {
        let mut asked = self.asked();
        loop {
            if let Some((answer, at)) = asked.known.get(&question)
                && (*answer != Containment::Unknown || at.elapsed() < ASK_AGAIN)
            {
                return *answer;
            }
            let patience = until.saturating_duration_since(Instant::now());
            let free = asked.under_way.len() < MOST_LOOKS;
            if free && asked.under_way.insert(question.clone()) {
                self.look(question.clone());
            }
            if patience.is_zero() {
                return Containment::Unknown;
            }
            let waited = self.0.answered.wait_timeout(asked, patience);
            asked = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn look(&self, question: Question) {
        let this = self.clone();
        std::thread::spawn(move || {
            let answer = containment(&question.objects, &question.head, &question.commit);
            let mut asked = this.asked();
            if asked.known.len() >= MOST_KNOWN {
                asked.known.clear();
            }
            asked.under_way.remove(&question);
            asked.known.insert(question, (answer, Instant::now()));
            this.0.answered.notify_all();
        });
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The repository in which the agent works.
pub struct BranchContext {
    ancestry: Ancestry,
    refs: Option<Refs>,
    here: Here,
    until: Instant,
}

impl BranchContext {
    /// Returns the mark for an observation that was made on these checkouts.
    pub fn mark(&self, made: &[MadeOn]) -> Option<Elsewhere> {
        elsewhere(made, &self.here, self)
    }

    /// Whether something was made on the reader's branch, and that is not the default branch.
    pub fn is_own(&self, made: &[MadeOn]) -> bool {
        let own = self.here.branch_of_its_own();
        own.is_some() && made.iter().any(|made| made.branch.as_ref() == own)
    }
}

impl History for BranchContext {
    fn tip(&self, branch: &BranchName) -> Tip {
        self.refs.as_ref().map_or(Tip::Unknown, |refs| refs.tip(branch))
    }

    fn contains(&self, commit: &CommitId) -> Containment {
        let head = self.here.checkout.as_ref().and_then(|checkout| checkout.commit.clone());
        let (Some(refs), Some(head)) = (&self.refs, head) else { return Containment::Unknown };
        if head == *commit {
            return Containment::Contained;
        }
        let Some(objects) = refs.objects() else { return Containment::Unknown };
        let question = Question { objects, head, commit: commit.clone() };
        match self.ancestry.ask(question, self.until) {
            // A shallow clone may lack the part of the history that contains the answer.
            Containment::Missing if refs.is_shallow() => Containment::Unknown,
            answer => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_a_repository_git_is_not_asked_and_containment_is_unknown() {
        let home = tempfile::tempdir().unwrap();
        let ancestry = Ancestry::default();
        let there = ancestry.branch_context(&WorkLocation::at(home.path()), Duration::ZERO);
        let made = MadeOn { branch: Some("x".into()), ..MadeOn::default() };
        assert_eq!(there.mark(&[made]).map(|mark| mark.to_string()).as_deref(), Some("on branch x"));
        assert_eq!(there.contains(&CommitId::from("a")), Containment::Unknown);
        assert!(ancestry.asked().known.is_empty());
    }

    #[test]
    fn an_unanswered_question_to_git_is_not_repeated_at_once() {
        let home = tempfile::tempdir().unwrap();
        let commit = |digit: &str| CommitId(digit.repeat(40));
        let question =
            || Question { objects: home.path().to_owned(), head: commit("a"), commit: commit("b") };
        let ancestry = Ancestry::default();
        let until = Instant::now() + Duration::from_secs(60);
        assert_eq!(ancestry.ask(question(), until), Containment::Unknown, "there are no such commits");
        let first = ancestry.asked().known[&question()].1;
        ancestry.ask(question(), until);
        assert_eq!(ancestry.asked().known[&question()].1, first);
    }
}
