//! Every question and every labelled prompt with what the index finds for it.

use std::collections::HashMap;
use std::path::Path;

use recall::memory::document::Document;
use recall::memory::ids::{ProjectKey, SessionId, Timestamp};
use recall::memory::injection::prompt::Situation;
use recall::memory::passage::{PassageKey, PassageMatches};
use recall::search::{Index, PassageRequest, Writer};

use crate::corpus::{self, Label, LabelledPrompt, Played, Question};

/// As many passages as the daemon looks at.
const FOUND: usize = 300;

/// A passage as it is told.
pub(crate) struct Told {
    pub(crate) session: String,
    pub(crate) at: Timestamp,
    pub(crate) text: String,
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
}

/// Something asked, and what was found.
pub(crate) struct Asked {
    /// The project of the question or the session, whose examples are left out when it is judged.
    pub(crate) project: String,
    /// Where it was asked.
    pub(crate) place: String,
    pub(crate) occasion: Occasion,
    pub(crate) prompt: String,
    pub(crate) prompts_before: u32,
    pub(crate) answer_before: String,
    pub(crate) found: PassageMatches,
}

impl Asked {
    pub(crate) fn situation(&self) -> Situation<'_> {
        Situation {
            prompt: &self.prompt,
            prompts_before: self.prompts_before,
            answer_before: &self.answer_before,
        }
    }
}

/// All that was asked, and the texts of all passages.
pub(crate) struct Everything {
    pub(crate) projects: Vec<String>,
    pub(crate) questions: Vec<Question>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) passages: HashMap<PassageKey, Told>,
}

/// Plays the sessions and asks.
pub(crate) fn everything(sessions: &Path, queries: &Path, prompts: &Path) -> anyhow::Result<Everything> {
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
            asked.extend(passing(&opened.index, one, label)?);
        }
        put(&mut opened.writer, &one.documents)?;
    }
    for (number, question) in questions.iter().enumerate() {
        let own = projects.iter().position(|name| *name == question.scope).unwrap_or_default();
        for step in 0..projects.len() {
            let place = projects[(own + step) % projects.len()].clone();
            let occasion =
                if step == 0 { Occasion::Own(number) } else { Occasion::Elsewhere(number, step - 1) };
            let found = find(&opened.index, &question.query, &place, None)?;
            let (project, prompt) = (question.scope.clone(), question.query.clone());
            let answer_before = String::new();
            asked.push(Asked { project, place, occasion, prompt, prompts_before: 0, answer_before, found });
        }
    }
    let passages = played.iter().flat_map(texts).collect();
    Ok(Everything { projects, questions, asked, passages })
}

/// A labelled prompt at its place in its session, with the memory of the sessions before.
fn passing(index: &Index, one: &Played, label: &LabelledPrompt) -> anyhow::Result<Option<Asked>> {
    let mut batches = one.material.batches.iter();
    let Some(batch) = batches.find(|batch| batch.prompt_number == label.prompt_number) else {
        return Ok(None);
    };
    let Some(said) = &batch.prompt else { return Ok(None) };
    Ok(Some(Asked {
        project: one.project.clone(),
        place: one.project.clone(),
        occasion: Occasion::Passing(label.label),
        prompt: said.text.clone(),
        prompts_before: label.prompt_number.saturating_sub(1),
        answer_before: batch.previous_response.clone().unwrap_or_default(),
        found: find(index, &said.text, &one.project, Some(&one.id))?,
    }))
}

fn find(index: &Index, prompt: &str, project: &str, except: Option<&str>) -> anyhow::Result<PassageMatches> {
    let except = except.map(SessionId::from);
    let project = ProjectKey::from(project);
    Ok(index.passages(&PassageRequest {
        prompt,
        project: &project,
        except: except.as_ref(),
        limit: FOUND,
    })?)
}

fn put(writer: &mut Writer, documents: &[Document]) -> anyhow::Result<()> {
    for document in documents {
        writer.put(document)?;
    }
    Ok(writer.commit(1)?)
}

fn texts(one: &Played) -> impl Iterator<Item = (PassageKey, Told)> {
    one.documents.iter().flat_map(move |document| {
        document.passages.iter().zip(0..).map(move |(passage, part)| {
            let text = format!("{} {}", passage.heading, passage.text);
            let told = Told { session: one.id.clone(), at: document.at, text };
            (PassageKey { document: document.key, part }, told)
        })
    })
}
