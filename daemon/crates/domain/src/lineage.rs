//! Decides when an observation no longer holds: a newer one about the same subject supersedes it, or work resolves it.
//!
//! The result depends only on what is stored. So it does not depend on the order in which results arrive, and it is
//! recomputed when one of them is deleted.

use super::check::{CheckStatus, Checked, checked};
use super::fixes::{BatchSpan, Trail};
use super::ids::{BatchId, EventId, ObservationId, SessionRow, Timestamp};
use super::material::BatchMaterial;
use super::observation::ObservationDraft;
use super::sameness::distinctive_words;
use super::subject::{self, SubjectKey};

/// The maker of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    User,
    Compressor,
}

/// Whether sessions of this machine may receive an observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    #[default]
    Sessions,
    /// Another machine's observation that only a search finds.
    Searches,
}

impl Audience {
    /// Whether an observation for this audience may replace one for the other. Otherwise sessions would receive neither.
    pub fn may_replace(self, older: Self) -> bool {
        self == Self::Sessions || older == Self::Searches
    }
}

/// An observation, prepared for comparison with others about the same subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub id: ObservationId,
    /// Its name on all machines. It orders claims of the same time.
    pub name: String,
    pub author: Author,
    /// The name of the person on whose machine it was made. Only that person replaces what they wrote by hand.
    pub person: String,
    pub audience: Audience,
    /// `None` if the user wrote it by hand.
    pub session: Option<SessionRow>,
    /// Claims of the same batch do not supersede each other. `None` also for a claim of another machine.
    pub batch: Option<BatchId>,
    pub at: Timestamp,
    /// Normalised names; equal files have equal names.
    pub files: Vec<String>,
}

impl Claim {
    /// Whether this claim supersedes the older one. Both must be about the same subject.
    fn supersedes(&self, older: &Self) -> bool {
        let is_later = (self.at, &self.name) > (older.at, &older.name);
        let is_same_person = self.author == Author::User && self.person == older.person;
        let may = older.author == Author::Compressor || is_same_person;
        is_later
            && may
            && self.audience.may_replace(older.audience)
            && !self.is_of_the_batch_of(older)
            && share_a_file(&self.files, &older.files)
    }

    /// Claims of a batch have the time of its end.
    fn is_of_the_batch_of(&self, other: &Self) -> bool {
        match (self.batch, other.batch) {
            (Some(one), Some(two)) => one == two,
            _ => self.session.is_some() && self.session == other.session && self.at == other.at,
        }
    }
}

/// Whether both claims name a common file, or one of them names none.
fn share_a_file(one: &[String], other: &[String]) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|file| other.contains(file))
}

/// Returns the claim that supersedes `older`: the first later one that can. `is_undone` tells whether the user
/// reverted one.
pub fn successor<'a>(
    older: &Claim,
    claims: &'a [Claim],
    is_undone: impl Fn(ObservationId) -> bool,
) -> Option<&'a Claim> {
    let later = claims.iter().filter(|newer| newer.supersedes(older) && !is_undone(newer.id));
    later.min_by_key(|newer| (newer.at, &newer.name))
}

/// A check that passed in a batch, independent of the compressor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub subject: SubjectKey,
    /// Files that the batch changed earlier, relative to the project's folder.
    pub files: Vec<String>,
    pub evidence: Vec<EventId>,
}

/// A [`Settled`] as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub by: BatchSpan,
    /// Normalised like those of a [`Claim`].
    pub files: Vec<String>,
    pub evidence: Vec<String>,
}

impl Settlement {
    /// Whether this could resolve the claim, regardless of what was changed. Only the user can retire what they wrote.
    pub fn comes_after(&self, claim: &Claim) -> bool {
        let is_later = self.by.end() > claim.at && claim.batch != Some(self.by.batch);
        is_later && claim.author == Author::Compressor
    }

    /// Returns the events that prove that this resolved the claim, or `None`. `trail` leads to this batch. A pass is
    /// explained by its own batch's changes or, failing that, by other batches' changes since the last failure.
    pub fn settles(&self, claim: &Claim, trail: &Trail<'_>) -> Option<Vec<String>> {
        if !self.comes_after(claim) {
            return None;
        }
        let mut before = trail.since(claim.batch, claim.at, &self.by);
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

/// The maximum number of changing calls that are named.
const MOST_CHANGES: usize = 4;

/// The checks that pass at the end of a batch.
pub fn settled(batch: &BatchMaterial) -> Vec<Settled> {
    let passed = checked(batch).into_iter().filter(|checked| checked.status == CheckStatus::Passed);
    let settled = passed.map(|checked| {
        let changes = checked.changed.iter().rev().take(MOST_CHANGES).map(|changed| changed.event);
        Settled {
            subject: subject::of_check(&checked.name),
            evidence: changes.chain([checked.event]).collect(),
            files: checked.changed.into_iter().map(|changed| changed.path).collect(),
        }
    });
    settled.collect()
}

/// Sets the subject of the only observation about a failing check, whatever its wording, so that the next pass
/// resolves it.
pub fn link_to_failed_check(batch: &BatchMaterial, drafts: &mut [ObservationDraft]) {
    const FAILS: [&str; 5] = ["fail", "fails", "failing", "failed", "broken"];
    let fails = |checked: &Checked| matches!(checked.status, CheckStatus::Failed { .. });
    let Some(last) = checked(batch).pop().filter(fails) else { return };
    let key = subject::of_check(&last.name);
    let reports_failure = |draft: &ObservationDraft| {
        let title = draft.title.to_lowercase();
        let mut words = title.split(|gap: char| !gap.is_alphanumeric());
        draft.evidence.contains(&last.event) && words.any(|word| FAILS.contains(&word))
    };
    if drafts.iter().any(|draft| draft.subject.as_ref() == Some(&key)) {
        return;
    }
    let mut found = drafts.iter_mut().filter(|draft| draft.subject.is_none() && reports_failure(draft));
    if let (Some(only), None) = (found.next(), found.next()) {
        only.subject = Some(key);
    }
}

/// Finds the new observation that replaces one which the recompressed batch no longer has: the only one that shares
/// evidence and contains all code names of the old title or, if that has none, has the same evidence.
pub fn replacement(title: &str, evidence: &[EventId], drafts: &[ObservationDraft]) -> Option<usize> {
    let names = distinctive_words(title);
    let replaces = |draft: &ObservationDraft| {
        let text = format!("{} {} {}", draft.title, draft.narrative, draft.facts.join(" "));
        if names.is_empty() {
            return !evidence.is_empty() && evidence.iter().all(|event| draft.evidence.contains(event));
        }
        let shares = evidence.iter().any(|event| draft.evidence.contains(event));
        shares && names.is_subset(&distinctive_words(&text))
    };
    let mut replacements =
        drafts.iter().enumerate().filter(|(_, draft)| draft.subject.is_none() && replaces(draft));
    let (first, _) = replacements.next()?;
    replacements.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests;
