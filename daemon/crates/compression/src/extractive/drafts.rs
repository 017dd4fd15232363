//! Creates drafts from selected statements: with the files that they name, the events that support them, and an
//! importance.

use super::SessionDraft;
use super::announced::{Announced, Announcement, Standing};
use super::files::{About, TouchedFiles};
use super::incidents::shortened;
use super::{incidents, prompts};
use crate::salience::sentences::sentences;
use crate::salience::{ChosenNote, Overtaken, Salience};
use crate::wording;
use recall_domain::ids::EventId;
use recall_domain::linear::Weights;
use recall_domain::material::{BatchMaterial, BatchSource, SessionExtent};
use recall_domain::observation::{Importance, ObservationDraft, ObservationType, SummaryDraft, UNANSWERED};
use recall_domain::subject;
use recall_domain::thread::{MOST_OF_IT, ThreadWords};

/// The importance of the least valuable statement, and the range that its value adds. Even in a small session the
/// best statement is notable.
const LEAST: f64 = 5.0;
const BY_WORTH: f64 = 1.6;

/// Maximum characters of an unanswered prompt in the summary.
const OPEN_PROMPT: usize = 200;

/// The maximum number of observations of one batch.
pub(super) const MOST: usize = 8;

/// The share of words, in percent, from which a title or a sentence counts as repeating an overtaken statement.
const OVERTAKEN: usize = 80;

/// How much less important an observation is if the session would not have selected it.
const LEFT: i64 = 3;

/// Drafts each batch of a session. Provisional observations stay, unless another batch repeats most of their words.
pub fn of_session(batches: &[BatchMaterial], extent: SessionExtent, weights: &Weights) -> SessionDraft {
    of_session_beside(batches, extent, weights, &Announced::default())
}

/// Like [`of_session`], with a cache of provisional observations.
pub(super) fn of_session_beside(
    batches: &[BatchMaterial],
    extent: SessionExtent,
    weights: &Weights,
    known: &Announced,
) -> SessionDraft {
    let selected = Salience::of(batches, weights).session();
    let mut drafts: Vec<Announcement> =
        batches.iter().map(|batch| known.of(batch, |batch| announced(batch, weights))).collect();
    for overtaken in selected.overtaken {
        replace(&mut drafts, overtaken, batches);
    }
    let chosen = match extent {
        SessionExtent::SoFar => Vec::new(),
        SessionExtent::Whole => selected.observations,
    };
    for (note, importance) in ranked(chosen) {
        if let (Some(drafts), Some(batch)) = (drafts.get_mut(note.batch), batches.get(note.batch)) {
            choose(drafts, draft(note, importance, batch));
        }
    }
    for batch in 0..drafts.len() {
        hand_over(&mut drafts, batch);
    }
    let weighed = |(standing, mut draft): (Standing, ObservationDraft)| {
        if (standing, extent) == (Standing::Left, SessionExtent::Whole) {
            draft.importance = draft.importance.min(Importance::clamped(LEFT));
        }
        draft
    };
    let drafts = drafts.into_iter().map(|drafts| drafts.into_iter().map(weighed).collect());
    SessionDraft { summary: with_open_prompt(selected.summary, batches), batches: drafts.collect() }
}

/// Drafts only the summary of a session.
pub(super) fn summary_of(batches: &[BatchMaterial], weights: &Weights) -> Option<SummaryDraft> {
    with_open_prompt(Salience::of(batches, weights).session().summary, batches)
}

/// The provisional observations of a batch.
pub(super) fn announced(batch: &BatchMaterial, weights: &Weights) -> Announcement {
    let by_rule = by_rule(batch).len();
    let standing = |(number, draft): (usize, ObservationDraft)| match number < by_rule {
        true => (Standing::Chosen, draft),
        false => (Standing::Left, draft),
    };
    of_batch(batch, weights).into_iter().enumerate().map(standing).collect()
}

/// Replaces overtaken statements with later ones, and removes them from the bodies of others. A statement without a
/// wording for its replacement keeps its own, so nothing disappears.
fn replace(drafts: &mut [Announcement], overtaken: Overtaken, batches: &[BatchMaterial]) {
    let of = ThreadWords::of([overtaken.text.as_str()]);
    let repeats_it = |text: &str| {
        let words = ThreadWords::of([text]);
        words.share_in(&of) >= OVERTAKEN && of.share_in(&words) >= MOST_OF_IT
    };
    let earlier = overtaken.by.as_ref().map_or(drafts.len(), |by| by.batch);
    let mut gone: Vec<ObservationDraft> = Vec::new();
    let earlier_drafts = drafts.iter_mut().take(earlier).flatten();
    for (_, draft) in earlier_drafts.filter(|(standing, _)| *standing == Standing::Left) {
        if ThreadWords::of([draft.title.as_str()]).share_in(&of) >= OVERTAKEN {
            gone.extend(overtaken.by.is_some().then(|| draft.clone()));
            continue;
        }
        let kept = sentences(&draft.narrative).into_iter().filter(|sentence| !repeats_it(sentence));
        draft.narrative = kept.collect::<Vec<_>>().join(" ");
        draft.facts.retain(|fact| !repeats_it(fact));
    }
    let Some(by) = overtaken.by.filter(|_| !gone.is_empty()) else { return };
    for announcement in drafts.iter_mut().take(earlier) {
        announcement.retain(|(standing, draft)| *standing != Standing::Left || !gone.contains(draft));
    }
    let (Some(announcement), Some(batch)) = (drafts.get_mut(by.batch), batches.get(by.batch)) else { return };
    let importance = gone.iter().map(|draft| draft.importance).max().unwrap_or(Importance::clamped(LEFT));
    let heir = draft(by, importance, batch);
    let known = announcement.iter().position(|(_, known)| known.title == heir.title);
    let place = known.unwrap_or_else(|| {
        announcement.push((Standing::Chosen, heir));
        announcement.len() - 1
    });
    if let Some((standing, heir)) = announcement.get_mut(place) {
        *standing = Standing::Chosen;
        heir.importance = heir.importance.max(importance);
        gone.into_iter().for_each(|draft| add_evidence(heir, draft.evidence));
    }
}

/// Adds an observation that the session selected. If the batch already reported it in other words, those words stay.
fn choose(drafts: &mut Vec<(Standing, ObservationDraft)>, chosen: ObservationDraft) {
    let of = words_of(&chosen);
    let repeats_it = |(standing, draft): &(Standing, ObservationDraft)| {
        let is_left = *standing == Standing::Left;
        draft.title == chosen.title || is_left && words_of(draft).share_in(&of) >= MOST_OF_IT
    };
    if let Some((standing, draft)) = drafts.iter().position(repeats_it).and_then(|at| drafts.get_mut(at)) {
        *standing = Standing::Chosen;
        draft.importance = chosen.importance;
        add_evidence(draft, chosen.evidence);
    } else if drafts.len() < MOST {
        drafts.push((Standing::Chosen, chosen));
    }
}

/// Removes observations that other batches repeat. The session's selection has no repetitions, so only observations
/// that it would not have selected are removed.
fn hand_over(drafts: &mut [Vec<(Standing, ObservationDraft)>], batch: usize) {
    let Some(own) = drafts.get_mut(batch).map(std::mem::take) else { return };
    let mut kept = Vec::new();
    for (standing, draft) in own {
        let words = words_of(&draft);
        let share = |(_, other): &(Standing, ObservationDraft)| words.share_in(&words_of(other));
        let others = drafts.iter_mut().flatten().filter(|_| standing == Standing::Left);
        match others.max_by_key(|other| share(other)).filter(|other| share(other) >= MOST_OF_IT) {
            Some((_, heir)) => add_evidence(heir, draft.evidence),
            None => kept.push((standing, draft)),
        }
    }
    if let Some(drafts) = drafts.get_mut(batch) {
        *drafts = kept;
    }
}

fn add_evidence(draft: &mut ObservationDraft, more: Vec<EventId>) {
    for event in more {
        if !draft.evidence.contains(&event) {
            draft.evidence.push(event);
        }
    }
}

fn words_of(draft: &ObservationDraft) -> ThreadWords {
    let texts = [&draft.title, &draft.narrative].into_iter().chain(&draft.facts);
    ThreadWords::of(texts.map(String::as_str))
}

/// Adds the last prompt to the open items if nothing answered it.
fn with_open_prompt(summary: Option<SummaryDraft>, batches: &[BatchMaterial]) -> Option<SummaryDraft> {
    let last = batches.iter().rev().find(|batch| batch.source == BatchSource::User);
    let asked = last.filter(|batch| batch.response.is_none()).and_then(|batch| batch.prompt.as_ref());
    let asked = asked.map(|prompt| shortened(&wording::own_words(&prompt.text), OPEN_PROMPT));
    let Some(asked) = asked.filter(|asked| !asked.is_empty()) else { return summary };
    let mut summary = summary.unwrap_or_else(|| SummaryDraft {
        title: wording::session_title(None, &[], None, Some(&asked)).unwrap_or_default(),
        ..SummaryDraft::default()
    });
    if !summary.next_steps.contains(&asked) {
        let separator = if summary.next_steps.is_empty() { "" } else { "\n" };
        summary.next_steps.push_str(&format!("{separator}{UNANSWERED}{asked}"));
    }
    Some(summary)
}

/// The drafts of a single batch: those made by rule, then the others, best first.
pub(super) fn of_batch(batch: &BatchMaterial, weights: &Weights) -> Vec<ObservationDraft> {
    let before = batch.previous_response.as_deref().unwrap_or_default();
    let notes = Salience::of([batch], weights).observations(before);
    let drafts = ranked(notes).map(|(note, importance)| draft(note, importance, batch));
    by_rule(batch).into_iter().chain(drafts).take(MOST).collect()
}

/// Preferences, rejected calls, and failing checks. A later batch in which the check passes settles it.
fn by_rule(batch: &BatchMaterial) -> Vec<ObservationDraft> {
    let from_user = prompts::of_batch(batch).into_iter().chain(incidents::rejections(batch));
    from_user.chain(incidents::left_failing(batch)).collect()
}

/// Assigns each statement its importance, by its value, and less than the one before it.
fn ranked(notes: Vec<ChosenNote>) -> impl Iterator<Item = (ChosenNote, Importance)> {
    let mut most = 10;
    notes.into_iter().map(move |note| {
        let importance = (LEAST + note.worth.sqrt() * BY_WORTH).round().clamp(1.0, most as f64) as i64;
        most = (importance - 1).max(1);
        (note, Importance::clamped(importance))
    })
}

fn draft(note: ChosenNote, importance: Importance, batch: &BatchMaterial) -> ObservationDraft {
    let text = format!("{} {} {}", note.title, note.narrative, note.facts.join(" "));
    let about = match note.kind {
        ObservationType::Bugfix
        | ObservationType::Feature
        | ObservationType::Refactor
        | ObservationType::Change => About::WorkKind,
        _ => About::Knowledge,
    };
    let touched = TouchedFiles::of(batch).named_in(&text, about);
    let mut modified = TouchedFiles::written_by(batch, &note.events);
    if modified.is_empty() {
        modified = touched.modified;
    }
    let mut evidence = note.events;
    for event in touched.events {
        if !evidence.contains(&event) {
            evidence.push(event);
        }
    }
    ObservationDraft {
        subject: subject::of_title(note.kind, &note.title),
        kind: note.kind,
        title: note.title,
        subtitle: None,
        narrative: note.narrative,
        facts: note.facts,
        concepts: Vec::new(),
        files_read: touched.read,
        files_modified: modified,
        importance,
        evidence,
    }
}
