//! Decides when an observation no longer holds: a newer one about the same subject supersedes it, or work resolves it.
//!
//! The result depends only on what is stored. It is therefore the same in whatever order results arrive, and is
//! recomputed when one of them is deleted.

use super::check::{CheckStatus, Checked, checked};
use super::fixes::{Span, Trail};
use super::ids::{BatchId, EventId, ObservationId, SessionRow, Timestamp};
use super::material::{Action, BatchMaterial};
use super::observation::ObservationDraft;
use super::sameness::distinctive_words;
use super::subject::{self, SubjectKey};

/// Who made an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    User,
    Compressor,
}

/// An observation, compared with others about the same subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub id: ObservationId,
    pub author: Author,
    /// `None` if the user wrote it by hand.
    pub session: Option<SessionRow>,
    /// Claims of one batch do not supersede each other.
    pub batch: Option<BatchId>,
    pub at: Timestamp,
    /// Normalised names, equal for equal files.
    pub files: Vec<String>,
}

impl Claim {
    /// Whether this claim supersedes the older one. Both are about the same subject.
    fn supersedes(&self, older: &Self) -> bool {
        let is_later = (self.at, self.id) > (older.at, older.id);
        let may = older.author == Author::Compressor || self.author == Author::User;
        let apart = self.batch.is_none() || self.batch != older.batch;
        is_later && may && apart && share_a_file(&self.files, &older.files)
    }
}

/// Claims that both name files must share one.
fn share_a_file(one: &[String], other: &[String]) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|file| other.contains(file))
}

/// The claim that supersedes `older`: the first later one that can. `is_undone` tells whether the user reverted one.
pub fn successor<'a>(
    older: &Claim,
    claims: &'a [Claim],
    is_undone: impl Fn(ObservationId) -> bool,
) -> Option<&'a Claim> {
    let later = claims.iter().filter(|newer| newer.supersedes(older) && !is_undone(newer.id));
    later.min_by_key(|newer| (newer.at, newer.id))
}

/// How work resolves an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Settling {
    /// A failed check passes after something was changed, possibly in an earlier batch.
    Passed,
    /// An open task is reported done.
    Done,
    /// Unpushed or uncommitted work was pushed or committed in the same session.
    Delivered,
}

impl Settling {
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Passed, "passed"), (Self::Done, "done"), (Self::Delivered, "delivered")];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(settling, _)| *settling == self).map_or("done", |(_, name)| name)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(settling, _)| *settling)
    }
}

/// What a batch resolved by its own evidence. It does not depend on the compressor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub subject: SubjectKey,
    pub how: Settling,
    /// What the batch changed before, relative to the project's folder. Can be empty for a check.
    pub files: Vec<String>,
    pub evidence: Vec<EventId>,
}

/// A [`Settled`] as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub by: Span,
    pub how: Settling,
    /// Normalised like those of a [`Claim`].
    pub files: Vec<String>,
    pub evidence: Vec<String>,
}

impl Settlement {
    /// Whether this could resolve the claim, regardless of what was changed. Only the user can retire what they wrote
    /// by hand.
    pub fn comes_after(&self, claim: &Claim) -> bool {
        let is_later = self.by.end() > claim.at && claim.batch != Some(self.by.batch);
        is_later && claim.author == Author::Compressor
    }

    /// The events that prove that this resolved the claim, or `None`. `trail` leads to this batch.
    pub fn settles(&self, claim: &Claim, trail: &Trail<'_>) -> Option<Vec<String>> {
        if !self.comes_after(claim) {
            return None;
        }
        match self.how {
            Settling::Passed => self.passing_evidence(claim, trail),
            Settling::Done => Some(self.evidence.clone()),
            Settling::Delivered => (claim.session == Some(self.by.session)).then(|| self.evidence.clone()),
        }
    }

    /// A pass is explained by its own batch's changes or, failing that, by changes of other batches since the last
    /// failure.
    fn passing_evidence(&self, claim: &Claim, trail: &Trail<'_>) -> Option<Vec<String>> {
        let mut before = trail.since(claim, &self.by);
        let is_explained = !self.files.is_empty() || trail.explains(&before, &self.by);
        let is_about_it = |file: &String| claim.files.is_empty() || claim.files.contains(file);
        before.retain(|change| is_about_it(&change.file));
        if !is_explained || (before.is_empty() && !self.files.iter().any(is_about_it)) {
            return None;
        }
        let shown = before.iter().skip(before.len().saturating_sub(MOST_CHANGES));
        Some(shown.map(|change| change.event.clone()).chain(self.evidence.iter().cloned()).collect())
    }
}

/// The number of changing calls that are named.
const MOST_CHANGES: usize = 4;

/// What a batch resolved: checks that pass after a change, and work that the answer or a commit reports done.
pub fn settled(batch: &BatchMaterial) -> Vec<Settled> {
    let mut found: Vec<Settled> = Vec::new();
    let mut add = |settled: Settled| {
        if !found.iter().any(|known| known.subject == settled.subject) {
            found.push(settled);
        }
    };
    for checked in checked(batch).into_iter().filter(|checked| checked.status == CheckStatus::Passed) {
        let changes = checked.changed.iter().rev().take(MOST_CHANGES).map(|changed| changed.event);
        add(Settled {
            subject: subject::of_check(&checked.name),
            how: Settling::Passed,
            evidence: changes.chain([checked.event]).collect(),
            files: checked.changed.into_iter().map(|changed| changed.path).collect(),
        });
    }
    for step in batch.steps.iter().filter(|step| !step.outcome.is_failed()) {
        let Action::Command { command, .. } = &step.action else { continue };
        let delivered = ["push", "commit"].into_iter().filter(|verb| runs_git(command, verb));
        for verb in delivered.collect::<Vec<_>>() {
            let evidence = vec![step.event];
            let done = command
                .split(['\'', '"', '\n'])
                .filter(|_| verb == "commit")
                .filter_map(subject::of_completed_task);
            done.for_each(|subject| {
                add(Settled { subject, how: Settling::Done, files: Vec::new(), evidence: evidence.clone() });
            });
            if let Some(subject) = subject::of_delivery(verb) {
                add(Settled { subject, how: Settling::Delivered, files: Vec::new(), evidence });
            }
        }
    }
    if let Some(answer) = &batch.response {
        let sentences = answer.text.lines().flat_map(|line| line.split_inclusive(". "));
        for subject in sentences.filter_map(|said| subject::of_completed_task(without_bullet(said))) {
            add(Settled { subject, how: Settling::Done, files: Vec::new(), evidence: vec![answer.event] });
        }
    }
    found
}

/// Whether a command line runs `git push` or the like. Dry runs do not count.
fn runs_git(command: &str, verb: &str) -> bool {
    let runs = |part: &str| {
        let mut words = part.split_whitespace();
        words.next() == Some("git") && words.next() == Some(verb) && !words.any(|word| word == "--dry-run")
    };
    command.split("&&").flat_map(|part| part.split([';', '\n'])).any(runs)
}

/// A line of an answer without its bullet.
fn without_bullet(line: &str) -> &str {
    line.trim().trim_start_matches(['-', '*', '•', ' '])
}

/// Sets the subject of the only observation about a failing check, however it was worded, so that the next pass
/// resolves it.
pub fn link_to_failed_check(batch: &BatchMaterial, drafts: &mut [ObservationDraft]) {
    const FAILS: [&str; 5] = ["fail", "fails", "failing", "failed", "broken"];
    let fails = |checked: &Checked| matches!(checked.status, CheckStatus::Failed { .. });
    let Some(last) = checked(batch).pop().filter(fails) else { return };
    let key = subject::of_check(&last.name);
    let says_so = |draft: &ObservationDraft| {
        let title = draft.title.to_lowercase();
        let mut words = title.split(|gap: char| !gap.is_alphanumeric());
        draft.evidence.contains(&last.event) && words.any(|word| FAILS.contains(&word))
    };
    if drafts.iter().any(|draft| draft.subject.as_ref() == Some(&key)) {
        return;
    }
    let mut found = drafts.iter_mut().filter(|draft| draft.subject.is_none() && says_so(draft));
    if let (Some(only), None) = (found.next(), found.next()) {
        only.subject = Some(key);
    }
}

/// Finds the new observation that replaces one which the recompressed batch no longer has: the only one that shares
/// evidence and contains all code names of the old title or, if that has none, has the same evidence.
pub fn replacement(title: &str, evidence: &[EventId], drafts: &[ObservationDraft]) -> Option<usize> {
    let names = distinctive_words(title);
    let replaces = |draft: &ObservationDraft| {
        let said = format!("{} {} {}", draft.title, draft.narrative, draft.facts.join(" "));
        if names.is_empty() {
            return !evidence.is_empty() && evidence.iter().all(|event| draft.evidence.contains(event));
        }
        let shares = evidence.iter().any(|event| draft.evidence.contains(event));
        shares && names.is_subset(&distinctive_words(&said))
    };
    let mut replacements =
        drafts.iter().enumerate().filter(|(_, draft)| draft.subject.is_none() && replaces(draft));
    let (first, _) = replacements.next()?;
    replacements.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests;
