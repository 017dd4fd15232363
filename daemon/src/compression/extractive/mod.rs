//! The built-in compressor: deterministic, without a model or a network.
//!
//! It believes that the knowledge of a batch has already been written down by somebody: by the agent in its final
//! answer, in commit messages and notes, by the user in the prompt. It cuts these texts into passages, weighs each by
//! its wording (causes, rules, changes, choices, names, numbers), and writes the best of them out without saying
//! anything twice. Source that was merely read and the output of tools are hardly looked at: they are large and say
//! little that the answer does not.
//!
//! The time is linear in the size of a batch, and of every text only the beginning is looked at.

mod candidate;
mod comment;
mod compose;
mod cue;
mod failure;
mod files;
mod gather;
mod identifier;
mod markdown;
mod request;
mod selection;
mod sentence;
mod shell;
mod statement;
mod summary;

use compose::{Composed, Detail, Setting, Work};
use files::TouchedFiles;

use super::{CompressionError, Compressor};
use crate::memory::material::{Action, BatchMaterial, Said, SessionMaterial};
use crate::memory::observation::{ObservationDraft, ObservationType, SummaryDraft};

/// The built-in compressor. It has no settings and never fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extractive;

impl Compressor for Extractive {
    fn origin(&self) -> String {
        "extractive".to_owned()
    }

    fn observe(&self, batch: &BatchMaterial) -> Result<Vec<ObservationDraft>, CompressionError> {
        Ok(observations(batch).into_iter().map(|composed| composed.draft).collect())
    }

    fn summarize(&self, session: &SessionMaterial) -> Result<Option<SummaryDraft>, CompressionError> {
        Ok(summary::summarize(session))
    }
}

/// The observations of a batch with what they were worth, best first.
fn observations(batch: &BatchMaterial) -> Vec<Composed> {
    let files = TouchedFiles::of(batch);
    let question = request::own_words(batch)
        .and_then(|words| request::sentences(&words).into_iter().rfind(|said| said.ends_with('?')));
    let setting = Setting {
        files: &files,
        work: work(batch, &files),
        detail: detail(batch),
        question: question.as_deref(),
    };
    let candidates = gather::candidates(batch, setting.work);
    if std::env::var("DBG").is_ok() {
        for c in &candidates {
            if let Some(d) = compose::compose(c, setting) {
                eprintln!(
                    "{}",
                    serde_json::json!({"b": batch.prompt_number, "worth": d.worth, "origin": format!("{:?}", c.origin), "kind": d.draft.kind, "h": c.passage.heading, "imp": d.draft.importance, "title": d.draft.title, "narrative": d.draft.narrative, "facts": d.draft.facts, "subtitle": d.draft.subtitle, "cues": format!("{:?}", c.cues())})
                );
            }
        }
    }
    let composed = candidates.iter().filter_map(|candidate| compose::compose(candidate, setting)).collect();
    selection::select(composed, batch.previous_response.as_deref().unwrap_or_default())
}

/// Answers up to this many bytes are told in full.
const SHORT_ANSWER: usize = 1_200;

fn detail(batch: &BatchMaterial) -> Detail {
    let length = gather::answer(batch).map_or(0, |answer| answer.text.len());
    if length <= SHORT_ANSWER { Detail::Full } else { Detail::Brief }
}

/// What sort of work a batch was, from what it changed and how people spoke of it.
fn work(batch: &BatchMaterial, files: &TouchedFiles) -> Work {
    let committed = batch.steps.iter().any(|step| match &step.action {
        Action::Command { command, output, .. } => {
            !step.outcome.is_failed() && !statement::statements(command, output).is_empty()
        }
        _ => false,
    });
    if !files.any_modified() && !committed {
        return Work::Inquiry;
    }
    const REPAIR: &str = "fix, fixed, fixes, bug, error, broken, fails, failing, issue, regression, crash, problem, wrong, \
        fehler, kaputt, behoben";
    const EXTENSION: &str = "add, adds, added, implement, implemented, support, introduce, create, new, build, feature, \
        neu, neue, hinzufügen, füge, baue";
    const REORDERING: &str = "refactor, refactored, rename, renamed, extract, extracted, simplify, clean up, cleanup, \
        split, move, moved, umbenennen, aufräumen";
    let head = |said: &Option<Said>| {
        said.as_ref().map_or(String::new(), |said| said.text.chars().take(600).collect())
    };
    let (asked, answered) = (head(&batch.prompt), head(&batch.response));
    let kinds = [
        (REPAIR, ObservationType::Bugfix),
        (REORDERING, ObservationType::Refactor),
        (EXTENSION, ObservationType::Feature),
    ];
    // The request says it better than the answer, which mentions errors and additions on the way.
    let kind = [asked, answered]
        .iter()
        .find_map(|text| kinds.iter().find(|(words, _)| cue::mentions(text, words)).map(|(_, kind)| *kind));
    Work::Done(kind.unwrap_or(ObservationType::Change))
}
