//! Judged real prompts: whether a colleague who remembers everything should speak up, and what they should say.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use recall_domain::document::Document;
use recall_domain::passage::PassageKey;
use recall_search::Index;
use serde::Deserialize;

use crate::asked::{self, Asked, Everything, Occasion, SessionPassage};
use crate::corpus::{self, Played};
use crate::sentences::Sentences;

/// Before the name of a project, because the other set has sessions of the same projects.
const SET: &str = "moments/";

/// A judged prompt.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Moment {
    pub(crate) project: String,
    session_id: String,
    prompt_number: u32,
    /// 2: certainly; 1: perhaps; 0: nobody should speak.
    pub(crate) need: u8,
    good: Vec<Good>,
    /// An earlier session contains the same prompt.
    #[serde(default)]
    repeat: bool,
}

/// Where something stands that should be said.
#[derive(Clone, Debug, Deserialize)]
struct Good {
    session_id: Option<String>,
}

impl Moment {
    /// Whether a passage of a session should be injected here. `None` if one should, but the judgement does not say
    /// which.
    pub(crate) fn wants(&self, passage: &SessionPassage) -> Option<bool> {
        if self.need == 0 {
            return Some(false);
        }
        self.has_good().then(|| self.is_of_good_session(passage))
    }

    /// For example `mise 0fe1 prompt 3`.
    pub(crate) fn place(&self) -> String {
        format!("{} {} prompt {}", self.project, self.session_id, self.prompt_number)
    }

    /// Whether it is known what should be said.
    pub(crate) fn has_good(&self) -> bool {
        self.good.iter().any(|good| good.session_id.is_some())
    }

    pub(crate) fn is_of_good_session(&self, passage: &SessionPassage) -> bool {
        self.good.iter().any(|good| good.session_id.as_ref() == Some(&passage.session))
    }
}

/// Plays the sessions of the set in `folder` in the order in which they happened, and stops at each moment.
pub(crate) fn add(
    everything: &mut Everything,
    folder: &Path,
    mut sentences: Option<&mut Sentences>,
) -> anyhow::Result<()> {
    let dates: HashMap<String, String> = serde_json::from_slice(&std::fs::read(folder.join("dates.json"))?)?;
    let mut moments: Vec<Moment> = corpus::lines(&folder.join("moments.jsonl"))?;
    moments.retain(|moment| !moment.repeat);
    let mut rows = everything.passages.keys().map(|key| key.document.row).max().unwrap_or_default();
    let mut played = corpus::in_order(&folder.join("sessions"), SET, &dates, &mut rows)?;
    let judged: HashSet<String> = moments.iter().map(|one| format!("{SET}{}", one.project)).collect();
    played.retain(|one| judged.contains(&one.project));
    let index = tempfile::tempdir()?;
    let mut opened = Index::open(index.path())?;
    for one in &played {
        for (number, moment) in moments.iter().enumerate().filter(|(_, it)| it.session_id == one.id) {
            let found = at(&opened.index, one, (number, moment), sentences.as_deref_mut())?;
            everything.asked.extend(found);
        }
        let documents: &[Document] = &one.documents;
        asked::put(&mut opened.writer, documents)?;
        if let Some(sentences) = sentences.as_deref_mut() {
            sentences.add(&one.project, documents);
        }
        let passages: Vec<(PassageKey, SessionPassage)> = asked::texts(one).collect();
        everything.passages.extend(passages);
    }
    everything.moments = moments;
    Ok(())
}

/// A moment with what is found of the sessions before.
fn at(
    index: &Index,
    one: &Played,
    (number, moment): (usize, &Moment),
    sentences: Option<&mut Sentences>,
) -> anyhow::Result<Option<Asked>> {
    let asked = asked::in_session(index, one, (moment.prompt_number, Occasion::Moment(number)), sentences)?;
    let project = moment.project.clone();
    Ok(asked.map(|asked| Asked { place: project.clone(), project, ..asked }))
}
