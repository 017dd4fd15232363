//! Every question and every labelled prompt, with its search results.

use std::collections::HashMap;
use std::path::Path;

use recall_domain::document::{Document, DocumentKind};
use recall_domain::ids::{LogSeq, ProjectKey, SessionId, Timestamp};
use recall_domain::injection::spoken::Spoken;
use recall_domain::injection::{self, prompt::Situation};
use recall_domain::passage::{Passage, PassageKey, PassageMatches};
use recall_search::{FreshPassages, Index, PassageRequest, Writer, other_sources, search_passages};

use crate::corpus::{self, Label, LabelledPrompt, Played, Question};
use crate::moments::Moment;
use crate::sentences::Sentences;

/// The number of passages that the daemon examines by their words.
const FOUND: usize = 300;

/// A passage as it is injected.
pub(crate) struct SessionPassage {
    pub(crate) session: String,
    pub(crate) kind: DocumentKind,
    pub(crate) at: Timestamp,
    pub(crate) passage: Passage,
}

impl SessionPassage {
    pub(crate) fn text(&self) -> String {
        format!("{} {}", self.passage.heading, self.passage.text)
    }
}

/// Why something was asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// The question of this number in the project that it is about.
    Own(usize),
    /// The same in another project; `0` is the first other one.
    Elsewhere(usize, usize),
    /// A real prompt while its session is played.
    Passing(Label),
    /// The judged moment of this number.
    Moment(usize),
}

/// A question or a prompt, and its results.
pub(crate) struct Asked {
    /// The project of the question or the session, whose examples are left out when it is judged.
    pub(crate) project: String,
    /// Where it was asked.
    pub(crate) place: String,
    pub(crate) occasion: Occasion,
    pub(crate) prompt: String,
    pub(crate) prompts_before: u32,
    pub(crate) answer_before: String,
    pub(crate) spoken: Spoken,
    /// The conversation before it, newest first.
    pub(crate) conversation: Vec<String>,
    /// By words alone, and by meaning as well.
    pub(crate) found: PassageMatches,
    pub(crate) found_by_meaning: Option<PassageMatches>,
}

/// Whether there is a sentence model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    Words,
    Meaning,
}

impl Asked {
    pub(crate) fn situation(&self) -> Situation<'_> {
        Situation {
            prompt: &self.prompt,
            prompts_before: self.prompts_before,
            answer_before: &self.answer_before,
            spoken: Some(&self.spoken),
            ..Situation::default()
        }
    }

    pub(crate) fn found(&self, search: Search) -> Option<&PassageMatches> {
        match search {
            Search::Words => Some(&self.found),
            Search::Meaning => self.found_by_meaning.as_ref(),
        }
    }
}

/// All questions and prompts, and the texts of all passages.
pub(crate) struct Everything {
    pub(crate) projects: Vec<String>,
    pub(crate) questions: Vec<Question>,
    pub(crate) moments: Vec<Moment>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) passages: HashMap<PassageKey, SessionPassage>,
}

/// Plays the sessions and asks.
pub(crate) fn everything(
    (sessions, queries, prompts): (&Path, &Path, &Path),
    mut sentences: Option<&mut Sentences>,
) -> anyhow::Result<Everything> {
    let played = corpus::sessions(sessions)?;
    let questions: Vec<Question> = corpus::lines(queries)?;
    let labels: Vec<LabelledPrompt> = corpus::lines(prompts)?;
    let mut projects: Vec<String> = played.iter().map(|one| one.project.clone()).collect();
    projects.dedup();
    let folder = tempfile::tempdir()?;
    let mut opened = Index::open(folder.path())?;
    let mut asked = Vec::new();
    for one in &played {
        for label in labels.iter().filter(|label| label.session_id == one.id) {
            let at = (label.prompt_number, Occasion::Passing(label.label));
            asked.extend(in_session(&opened.index, one, at, sentences.as_deref_mut())?);
        }
        put(&mut opened.writer, &one.documents)?;
        if let Some(sentences) = sentences.as_deref_mut() {
            sentences.add(&one.project, &one.documents);
        }
    }
    for (number, question) in questions.iter().enumerate() {
        let own = projects.iter().position(|name| *name == question.scope).unwrap_or_default();
        for step in 0..projects.len() {
            let place = projects[(own + step) % projects.len()].clone();
            let occasion =
                if step == 0 { Occasion::Own(number) } else { Occasion::Elsewhere(number, step - 1) };
            let found = find(&opened.index, &question.query, &place, None, None)?;
            let found_by_meaning = match sentences.as_deref_mut() {
                Some(sentences) => Some(find(&opened.index, &question.query, &place, None, Some(sentences))?),
                None => None,
            };
            let (project, prompt) = (question.scope.clone(), question.query.clone());
            let answer_before = String::new();
            asked.push(Asked {
                project,
                place,
                occasion,
                prompt,
                prompts_before: 0,
                answer_before,
                spoken: Spoken::default(),
                conversation: Vec::new(),
                found,
                found_by_meaning,
            });
        }
    }
    let passages = played.iter().flat_map(texts).collect();
    Ok(Everything { projects, questions, moments: Vec::new(), asked, passages })
}

/// A prompt at its place in its session, with the memory of the sessions before.
pub(crate) fn in_session(
    index: &Index,
    one: &Played,
    (prompt_number, occasion): (u32, Occasion),
    sentences: Option<&mut Sentences>,
) -> anyhow::Result<Option<Asked>> {
    let mut batches = one.material.batches.iter();
    let Some(batch) = batches.find(|batch| batch.prompt_number == prompt_number) else {
        return Ok(None);
    };
    let Some(prompt) = &batch.prompt else { return Ok(None) };
    let found_by_meaning = match sentences {
        Some(sentences) => Some(find(index, &prompt.text, &one.project, Some(&one.id), Some(sentences))?),
        None => None,
    };
    let before = conversation_before(one, prompt_number);
    Ok(Some(Asked {
        project: one.project.clone(),
        place: one.project.clone(),
        occasion,
        prompt: prompt.text.clone(),
        prompts_before: prompt_number.saturating_sub(1),
        answer_before: batch.previous_response.clone().unwrap_or_default(),
        spoken: Spoken::of(before.iter().map(String::as_str)),
        conversation: before,
        found: find(index, &prompt.text, &one.project, Some(&one.id), None)?,
        found_by_meaning,
    }))
}

/// The numbers of turns that are read, and of characters of each, as in the daemon.
const TURNS: usize = 30;
const OF_EACH: usize = 8_000;

/// The conversation of a session before a prompt, newest first.
fn conversation_before(one: &Played, prompt_number: u32) -> Vec<String> {
    let before = one.material.batches.iter().filter(|batch| batch.prompt_number < prompt_number).rev();
    let texts = before.take(TURNS).flat_map(|batch| [&batch.response, &batch.prompt]).flatten();
    texts.map(|message| message.text.chars().take(OF_EACH).collect()).collect()
}

pub(crate) fn find(
    index: &Index,
    prompt: &str,
    project: &str,
    except: Option<&str>,
    sentences: Option<&mut Sentences>,
) -> anyhow::Result<PassageMatches> {
    let except = except.map(SessionId::from);
    let prompt = &injection::asked::of(prompt);
    let compared = sentences.and_then(|sentences| sentences.compared(prompt, project));
    let sources = other_sources(index, compared);
    let request = PassageRequest {
        prompt,
        project: &ProjectKey::from(project),
        except: except.as_ref(),
        limit: FOUND,
        near: &[],
    };
    Ok(search_passages(index, &FreshPassages::default(), &sources, &request)?)
}

pub(crate) fn put(writer: &mut Writer, documents: &[Document]) -> anyhow::Result<()> {
    for document in documents {
        writer.put(document)?;
    }
    Ok(writer.commit(LogSeq(1))?)
}

pub(crate) fn texts(one: &Played) -> impl Iterator<Item = (PassageKey, SessionPassage)> {
    one.documents.iter().flat_map(move |document| {
        document.passages.iter().zip(0..).map(move |(passage, part)| {
            let kind = document.key.kind;
            let session_passage =
                SessionPassage { session: one.id.clone(), kind, at: document.at, passage: passage.clone() };
            (PassageKey { document: document.key, part }, session_passage)
        })
    })
}
