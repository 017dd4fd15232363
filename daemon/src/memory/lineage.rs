//! When an observation no longer holds: a newer one about the same subject took its place, or work settled it.
//!
//! Everything here follows from what is stored and from nothing else, so that it comes out the same in whatever order
//! results arrive, and comes out again when one of them goes.

use super::check::{CheckStatus, Checked, checked};
use super::fixes::{Span, Trail};
use super::ids::{BatchId, EventId, ObservationId, SessionRow, Timestamp};
use super::material::{Action, BatchMaterial};
use super::observation::ObservationDraft;
use super::sameness::lifecycle_json;
use super::subject::{self, SubjectKey};

/// Who made an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    User,
    Compressor,
}

/// An observation among others about the same subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub id: ObservationId,
    pub author: Author,
    /// `None` for what a user said by hand.
    pub session: Option<SessionRow>,
    /// Claims of one batch do not take each other's place.
    pub batch: Option<BatchId>,
    pub at: Timestamp,
    /// Names that are equal for equal files.
    pub files: Vec<String>,
}

impl Claim {
    /// Whether this one takes the older one's place. Both are about the same subject.
    fn succeeds(&self, older: &Self) -> bool {
        let is_later = (self.at, self.id) > (older.at, older.id);
        let may = older.author == Author::Compressor || self.author == Author::User;
        let apart = self.batch.is_none() || self.batch != older.batch;
        is_later && may && apart && share_a_file(&self.files, &older.files)
    }
}

/// Two that name files are about the same only if one of them is.
fn share_a_file(one: &[String], other: &[String]) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|file| other.contains(file))
}

/// Which claim takes the place of `older`: the first after it that can. `is_undone`: the user would not have it.
pub fn successor<'a>(
    older: &Claim,
    claims: &'a [Claim],
    is_undone: impl Fn(ObservationId) -> bool,
) -> Option<&'a Claim> {
    let later = claims.iter().filter(|newer| newer.succeeds(older) && !is_undone(newer.id));
    later.min_by_key(|newer| (newer.at, newer.id))
}

/// How work settles an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Settling {
    /// A check that had failed passes after something was changed, be it in an earlier batch.
    Passed,
    /// What was left to do is reported done.
    Done,
    /// What was not pushed or committed is, in the same session.
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

/// What a batch has settled, by its own evidence: whoever compresses the batch, it is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub subject: SubjectKey,
    pub how: Settling,
    /// What the batch changed before, relative to the project's folder: for a check perhaps nothing.
    pub files: Vec<String>,
    pub evidence: Vec<EventId>,
}

/// The same as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub by: Span,
    pub how: Settling,
    /// Named as those of a [`Claim`].
    pub files: Vec<String>,
    pub evidence: Vec<String>,
}

impl Settlement {
    /// Whether this could settle the claim, whatever was changed. What a user said by hand only a user takes back.
    pub fn comes_after(&self, claim: &Claim) -> bool {
        let is_later = self.by.end() > claim.at && claim.batch != Some(self.by.batch);
        is_later && claim.author == Author::Compressor
    }

    /// The events that show that this settled the claim; `None`: it did not. `trail` leads to this batch.
    pub fn settles(&self, claim: &Claim, trail: &Trail<'_>) -> Option<Vec<String>> {
        if !self.comes_after(claim) {
            return None;
        }
        match self.how {
            Settling::Passed => self.mends(claim, trail),
            Settling::Done => Some(self.evidence.clone()),
            Settling::Delivered => (claim.session == Some(self.by.session)).then(|| self.evidence.clone()),
        }
    }

    /// A pass is explained by what its own batch changed or, else, by what others did since the check failed last.
    fn mends(&self, claim: &Claim, trail: &Trail<'_>) -> Option<Vec<String>> {
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

/// Of the calls that changed something, so many are named.
const MOST_CHANGES: usize = 4;

/// What a batch has settled: checks that pass (if something was changed since they failed), work that its answer or a commit reports done.
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
            let deeds =
                command.split(['\'', '"', '\n']).filter(|_| verb == "commit").filter_map(subject::of_deed);
            deeds.for_each(|subject| {
                add(Settled { subject, how: Settling::Done, files: Vec::new(), evidence: evidence.clone() });
            });
            if let Some(subject) = subject::of_delivery(verb) {
                add(Settled { subject, how: Settling::Delivered, files: Vec::new(), evidence });
            }
        }
    }
    if let Some(answer) = &batch.response {
        let sentences = answer.text.lines().flat_map(|line| line.split_inclusive(". "));
        for subject in sentences.filter_map(|said| subject::of_deed(plain(said))) {
            add(Settled { subject, how: Settling::Done, files: Vec::new(), evidence: vec![answer.event] });
        }
    }
    found
}

/// Whether a command line has `git push` or the like in it; one that only tries does not.
fn runs_git(command: &str, verb: &str) -> bool {
    let runs = |part: &str| {
        let mut words = part.split_whitespace();
        words.next() == Some("git") && words.next() == Some(verb) && !words.any(|word| word == "--dry-run")
    };
    command.split("&&").flat_map(|part| part.split([';', '\n'])).any(runs)
}

/// A line of an answer without its bullet.
fn plain(line: &str) -> &str {
    line.trim().trim_start_matches(['-', '*', '•', ' '])
}

/// Says of the one observation that tells of a check left failing what it is about, whoever worded it: the next pass is
/// to resolve it.
pub fn aim_at_failing(batch: &BatchMaterial, drafts: &mut [ObservationDraft]) {
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

/// Which of a batch's new observations goes on with one that the batch does not make any more, when it is worded anew:
/// the only one that rests on some of the same and names all that it named, or, where it named nothing, on all of the
/// same.
pub fn heir(title: &str, evidence: &[EventId], drafts: &[ObservationDraft]) -> Option<usize> {
    let names = lifecycle_json(title);
    let goes_on = |draft: &ObservationDraft| {
        let said = format!("{} {} {}", draft.title, draft.narrative, draft.facts.join(" "));
        if names.is_empty() {
            return !evidence.is_empty() && evidence.iter().all(|event| draft.evidence.contains(event));
        }
        let shares = evidence.iter().any(|event| draft.evidence.contains(event));
        shares && names.is_subset(&lifecycle_json(&said))
    };
    let mut heirs = drafts.iter().enumerate().filter(|(_, draft)| draft.subject.is_none() && goes_on(draft));
    let (first, _) = heirs.next()?;
    heirs.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests;
