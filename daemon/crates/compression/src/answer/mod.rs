//! Parses a model's answer, and accepts it only as far as the evidence supports it.
//!
//! Models wrap their JSON in prose and fences, and some write elements instead; both are parsed. The result must be
//! valid: a type from the closed list, texts within their lengths, at most eight observations. Files and evidence
//! from the model are checked against the batch: a file that no step touched is dropped. A claim that an earlier note
//! is replaced is checked by [`recall_domain::earlier`].

mod elements;
mod notes;

use recall_domain::text::one_line;
use serde::Deserialize;
use serde_json::Value;

use crate::condense;
use crate::wording::{self, SourceKind, Within};
use recall_domain::ids::EventId;
use recall_domain::material::{Action, BatchMaterial};
use recall_domain::observation::{Importance, ObservationDraft, ObservationType, SummaryDraft};
use recall_domain::subject;

pub use notes::{MOST_NOTES, notes};

pub(crate) const MOST_OBSERVATIONS: usize = 8;
/// Lengths in characters.
/// A longer title is rejected. One longer than [`wording::LONGEST_TITLE`] is cut, and continues in the narrative.
const LONGEST_WRITTEN_TITLE: usize = 240;
const LONGEST_SUBTITLE: usize = 240;
const LONGEST_NARRATIVE: usize = 4_000;
const LONGEST_FACT: usize = 600;
const LONGEST_CONCEPT: usize = 60;
const LONGEST_FIELD: usize = 2_000;
const MOST_FACTS: usize = 16;
const MOST_CONCEPTS: usize = 8;

/// The problem with an answer, as a text for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnusableAnswer(pub String);

/// Parses the observations of an answer. The list may be empty.
///
/// # Errors
/// The answer has no such list, or one of its observations is invalid.
pub fn observations(answer: &str, batch: &BatchMaterial) -> Result<Vec<ObservationDraft>, UnusableAnswer> {
    let object = first_object(answer, "observations");
    let written = written(answer, object.as_ref(), MOST_OBSERVATIONS)?;
    let evidence = Evidence::of(batch);
    written
        .into_iter()
        .enumerate()
        .filter(|(_, one)| one.may_be_one())
        .map(|(at, one)| {
            let draft = one.check(&evidence, batch);
            draft.map_err(|UnusableAnswer(why)| UnusableAnswer(format!("observation {}: {why}", at + 1)))
        })
        .collect()
}

/// Finds the observations in an answer, whatever surrounds them.
fn written(answer: &str, object: Option<&Value>, most: usize) -> Result<Vec<Written>, UnusableAnswer> {
    let written: Vec<Written> = match object {
        Some(object) => {
            let list = object.get("observations").cloned().unwrap_or(Value::Null);
            serde_json::from_value(list)
                .map_err(|error| UnusableAnswer(format!("`observations` is wrong: {error}")))?
        }
        None => elements::observations(answer)
            .ok_or_else(|| UnusableAnswer("there is no JSON object with `observations` in it".to_owned()))?,
    };
    if written.len() > most {
        return Err(UnusableAnswer(format!(
            "there are {} observations, at most {most} are taken",
            written.len()
        )));
    }
    Ok(written)
}

/// Parses the summary of an answer. Returns `None` if the model found nothing to summarise.
///
/// # Errors
/// See [`observations`].
pub fn summary(answer: &str) -> Result<Option<SummaryDraft>, UnusableAnswer> {
    let object = first_object(answer, "title")
        .or_else(|| elements::summary(answer))
        .ok_or_else(|| UnusableAnswer("there is no JSON object with `title` in it".to_owned()))?;
    summary_of(&object)
}

fn summary_of(object: &Value) -> Result<Option<SummaryDraft>, UnusableAnswer> {
    let field = |name: &str| -> Result<String, UnusableAnswer> {
        let text = match object.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.trim().to_owned(),
            // Some models prefer lists.
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).map(str::trim).collect::<Vec<_>>().join("; ")
            }
            Some(_) => return Err(UnusableAnswer(format!("`{name}` is not a text"))),
        };
        within(name, &text, LONGEST_FIELD).map(|()| text)
    };
    let draft = SummaryDraft {
        title: field("title")?,
        request: field("request")?,
        investigated: field("investigated")?,
        learned: field("learned")?,
        completed: field("completed")?,
        next_steps: field("next_steps")?,
        notes: field("notes")?,
    };
    within("title", &draft.title, LONGEST_WRITTEN_TITLE)?;
    if draft == SummaryDraft::default() {
        return Ok(None);
    }
    if draft.title.is_empty() {
        return Err(UnusableAnswer("`title` is empty".to_owned()));
    }
    let title = wording::clean_title(&draft.title).map_or_else(|| draft.title.clone(), |title| title.text);
    // Do not repeat as learned what is listed as completed.
    let learned = sentences_not_in(&draft.learned, &draft.completed);
    Ok(Some(SummaryDraft { title, learned, ..draft }))
}

/// Finds the first JSON object in a text that has this key, whatever surrounds it.
fn first_object(text: &str, key: &str) -> Option<Value> {
    // Limits the attempts, so that a hostile answer costs no more than a long one.
    const MOST_BEGINNINGS: usize = 64;
    text.match_indices('{').take(MOST_BEGINNINGS).find_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(text.get(at..)?).into_iter::<Value>();
        values.next()?.ok().filter(|value| value.get(key).is_some())
    })
}

/// An observation as the model wrote it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Written {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    subtitle: Option<String>,
    narrative: String,
    facts: Vec<String>,
    concepts: Vec<String>,
    files_read: Vec<String>,
    files_modified: Vec<String>,
    importance: Option<f64>,
    /// Numbers of steps.
    evidence: Vec<f64>,
    /// The handle of an earlier note.
    replaces: Option<String>,
    /// The number of its turn, if several were shown.
    turn: Option<f64>,
}

impl Written {
    /// Whether it may become an observation. Some texts never do, even if a model wrote them.
    fn may_be_one(&self) -> bool {
        let title = self.title.trim();
        title.is_empty() || wording::never(title, SourceKind::Answer, Within::Earlier).is_none()
    }

    fn check(self, evidence: &Evidence, batch: &BatchMaterial) -> Result<ObservationDraft, UnusableAnswer> {
        let earlier = &batch.earlier;
        let kind = ObservationType::parse(self.kind.trim()).ok_or_else(|| {
            let known: Vec<&str> = ObservationType::ALL.iter().map(|(_, name)| *name).collect();
            UnusableAnswer(format!("type {:?} is none of {}", shown(&self.kind), known.join(", ")))
        })?;
        let (written, narrative) = (one_line(&self.title), self.narrative.trim().to_owned());
        if written.is_empty() || narrative.is_empty() {
            return Err(UnusableAnswer("title and narrative must not be empty".to_owned()));
        }
        within("title", &written, LONGEST_WRITTEN_TITLE)?;
        let title = wording::clean_title(&written).ok_or_else(|| {
            UnusableAnswer(format!("title {:?} is no statement that names its subject", shown(&written)))
        })?;
        let narrative = if title.rest.is_empty() {
            narrative
        } else {
            format!("{}. {narrative}", title.rest.trim_end_matches('.'))
        };
        let title = title.text;
        let kind = wording::valid_kind(kind, &title, &narrative);
        let kind = wording::standing_kind(kind, &title, batch);
        within("narrative", &narrative, LONGEST_NARRATIVE)?;
        let subtitle = self.subtitle.map(|text| one_line(&text)).filter(|text| !text.is_empty());
        within("subtitle", subtitle.as_deref().unwrap_or_default(), LONGEST_SUBTITLE)?;
        let files_modified = evidence.of_modified(&self.files_modified);
        let mut draft = ObservationDraft {
            subject: subject::of_title(kind, &title),
            kind,
            title,
            subtitle,
            narrative,
            facts: lines("facts", self.facts, MOST_FACTS, LONGEST_FACT)?,
            concepts: lines("concepts", self.concepts, MOST_CONCEPTS, LONGEST_CONCEPT)?,
            files_read: evidence.of_read(&self.files_read, &files_modified),
            evidence: evidence.events(&self.evidence, &files_modified),
            files_modified,
            // A value out of range is clamped, not rejected.
            importance: Importance::clamped(self.importance.map_or(5, |value| value.round() as i64)),
        };
        // An unknown or unsuitable handle is ignored.
        let handle = self.replaces.as_deref().map(str::trim).unwrap_or_default();
        let mut named = earlier.iter().enumerate().filter(|(at, _)| condense::handle(*at) == handle);
        if let (None, Some((_, earlier))) = (&draft.subject, named.next()) {
            draft.subject = earlier.inherited_by(&draft);
        }
        Ok(draft)
    }
}

/// The sentences of a field that another field lacks.
fn sentences_not_in(field: &str, other: &str) -> String {
    let sentences: Vec<&str> = field.split_inclusive(['.', ';', '\n']).map(str::trim).collect();
    if wording::without_repeats(&sentences, &[other]).len() == sentences.len() {
        return field.to_owned();
    }
    let kept =
        sentences.iter().filter(|sentence| !wording::without_repeats(&[sentence], &[other]).is_empty());
    kept.copied().collect::<Vec<_>>().join(" ")
}

/// Trims texts, drops empty ones, and keeps at most `most`.
fn lines(name: &str, texts: Vec<String>, most: usize, longest: usize) -> Result<Vec<String>, UnusableAnswer> {
    let texts: Vec<String> =
        texts.iter().map(|text| one_line(text)).filter(|text| !text.is_empty()).take(most).collect();
    texts.iter().try_for_each(|text| within(name, text, longest))?;
    Ok(texts)
}

fn within(name: &str, text: &str, longest: usize) -> Result<(), UnusableAnswer> {
    let length = text.chars().count();
    if length > longest {
        return Err(UnusableAnswer(format!("`{name}` has {length} characters, at most {longest} are taken")));
    }
    Ok(())
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The facts of a batch against which an answer is checked.
struct Evidence {
    /// Event ids in order; a step's position is its number minus one.
    steps: Vec<EventId>,
    messages: Vec<EventId>,
    read: Vec<(String, EventId)>,
    modified: Vec<(String, EventId)>,
}

impl Evidence {
    fn of(batch: &BatchMaterial) -> Self {
        let folder = batch.folder();
        let mut evidence = Self {
            steps: batch.steps.iter().map(|step| step.event).collect(),
            messages: [&batch.prompt, &batch.response]
                .into_iter()
                .flatten()
                .map(|message| message.event)
                .collect(),
            read: Vec::new(),
            modified: Vec::new(),
        };
        for step in batch.steps.iter().filter(|step| !step.outcome.is_failed()) {
            match &step.action {
                Action::Read { path } => {
                    evidence.read.extend(folder.beneath(path).map(|it| (it, step.event)))
                }
                Action::Edit { path, .. } | Action::Write { path, .. } => {
                    evidence.modified.extend(folder.beneath(path).map(|it| (it, step.event)));
                }
                _ => {}
            }
        }
        evidence
    }

    fn of_modified(&self, named: &[String]) -> Vec<String> {
        known(named, &self.modified)
    }

    /// Named files that were only read. A changed file is listed among the modified ones.
    fn of_read(&self, named: &[String], modified: &[String]) -> Vec<String> {
        let mut read = known(named, &self.read);
        read.retain(|path| !modified.contains(path));
        read
    }

    /// The events of the named steps, of the changes of the named files, and of the prompt and answer. Not empty
    /// unless the batch has no events.
    fn events(&self, named: &[f64], modified: &[String]) -> Vec<EventId> {
        let steps = named.iter().filter(|number| **number >= 1.0).filter_map(|number| {
            // An invalid number finds nothing.
            self.steps.get(*number as usize - 1).copied()
        });
        let changes =
            self.modified.iter().filter(|(path, _)| modified.contains(path)).map(|(_, event)| *event);
        let mut events: Vec<EventId> = Vec::new();
        for event in self.messages.iter().copied().chain(steps).chain(changes) {
            if !events.contains(&event) {
                events.push(event);
            }
        }
        events
    }
}

/// Maps named files to known paths, because models shorten paths.
fn known(named: &[String], files: &[(String, EventId)]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in named.iter().map(|name| name.trim().trim_start_matches("./")).filter(|name| !name.is_empty())
    {
        let ends_so =
            |path: &str| path.strip_suffix(name).is_some_and(|head| head.is_empty() || head.ends_with('/'));
        let file = files.iter().find(|(path, _)| path == name).or_else(|| {
            let mut candidates = files.iter().filter(|(path, _)| ends_so(path));
            let first = candidates.next()?;
            candidates.all(|(path, _)| *path == first.0).then_some(first)
        });
        if let Some((path, _)) = file
            && !found.contains(path)
        {
            found.push(path.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests;
