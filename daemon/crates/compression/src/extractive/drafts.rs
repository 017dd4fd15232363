//! Makes drafts of what is told: with the files that it names, the events that it rests on and its importance.

use super::SessionDraft;
use super::files::{About, TouchedFiles};
use super::incidents::shortened;
use super::{incidents, prompts};
use crate::salience::{Told, ToldSession};
use crate::wording;
use recall_domain::material::{BatchMaterial, BatchSource};
use recall_domain::observation::{Importance, ObservationDraft, ObservationType, SummaryDraft, UNANSWERED};
use recall_domain::subject;

/// The importance of what is barely worth telling, and what worth adds. The best of a small session is still of note.
const LEAST: f64 = 5.0;
const BY_WORTH: f64 = 1.6;

/// Characters of an unanswered prompt in the summary.
const OPEN_PROMPT: usize = 200;

/// Observations of one batch.
pub(super) const MOST: usize = 8;

/// The drafts of each batch of a session.
pub fn of_session(told: ToldSession, batches: &[BatchMaterial]) -> SessionDraft {
    let mut drafts = vec![Vec::new(); batches.len()];
    for (batch, drafts) in batches.iter().zip(&mut drafts) {
        drafts.extend(prompts::of_batch(batch));
        drafts.extend(incidents::rejections(batch));
        // Whether it passes later is settled by the batch in which it does.
        drafts.extend(incidents::left_failing(batch));
    }
    for (told, importance) in ranked(told.observations) {
        if let (Some(drafts), Some(batch)) = (drafts.get_mut(told.batch), batches.get(told.batch)) {
            drafts.push(draft(told, importance, batch));
        }
    }
    drafts.iter_mut().for_each(|drafts| drafts.truncate(MOST));
    SessionDraft { summary: with_open_prompt(told.summary, batches), batches: drafts }
}

/// Adds the last prompt to what is open if nothing answered it.
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

/// The drafts of a single batch, best first.
pub fn of_batch(told: Vec<Told>, batch: &BatchMaterial) -> Vec<ObservationDraft> {
    let told = ranked(told).map(|(told, importance)| draft(told, importance, batch));
    let said = prompts::of_batch(batch).into_iter().chain(incidents::rejections(batch));
    said.chain(incidents::left_failing(batch)).chain(told).take(MOST).collect()
}

/// Each with its importance: what it is worth, and less than the one before it.
fn ranked(told: Vec<Told>) -> impl Iterator<Item = (Told, Importance)> {
    let mut most = 10;
    told.into_iter().map(move |told| {
        let importance = (LEAST + told.worth.sqrt() * BY_WORTH).round().clamp(1.0, most as f64) as i64;
        most = (importance - 1).max(1);
        (told, Importance::clamped(importance))
    })
}

fn draft(told: Told, importance: Importance, batch: &BatchMaterial) -> ObservationDraft {
    let text = format!("{} {} {}", told.title, told.narrative, told.facts.join(" "));
    let about = match told.kind {
        ObservationType::Bugfix
        | ObservationType::Feature
        | ObservationType::Refactor
        | ObservationType::Change => About::WorkKind,
        _ => About::Knowledge,
    };
    let touched = TouchedFiles::of(batch).named_in(&text, about);
    let mut modified = TouchedFiles::written_by(batch, &told.events);
    if modified.is_empty() {
        modified = touched.modified;
    }
    let mut evidence = told.events;
    for event in touched.events {
        if !evidence.contains(&event) {
            evidence.push(event);
        }
    }
    ObservationDraft {
        subject: subject::of_title(told.kind, &told.title),
        kind: told.kind,
        title: told.title,
        subtitle: None,
        narrative: told.narrative,
        facts: told.facts,
        concepts: Vec::new(),
        files_read: touched.read,
        files_modified: modified,
        importance,
        evidence,
    }
}
