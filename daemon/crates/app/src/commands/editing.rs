//! `recall edit`, `pin` and `undo`.

use recall_protocol::privacy::strip_text;
use recall_protocol::query::{Changes, Edit, Pin, PinUp, UndoOf};
use recall_protocol::wire::ErrorKind;

use super::CommandContext;
use super::by_hand::{not_written, quarantined, show, unanswered};
use crate::answers::TextAnswer;
use crate::answers::by_hand::{ChangeAnswer, ChangesAnswer, QUARANTINED, UndoAnswer};
use crate::answers::found::ObservationAnswer;
use crate::clock;
use crate::context_lookup::ContextLookup;
use crate::ports::{Ports, Writer};
use crate::queries::show::{load, parse_id};
use crate::queries::{Answer, Refused, read};
use recall_domain::document::DocumentKind;
use recall_domain::ids::ObservationId;
use recall_domain::observation::ObservationType;
use recall_store::{Changed, EditObservation, EditedText, PinObservations, Reader, UndoChange, Undone};

/// The maximum length of a title in characters. It must fit on one line of an index.
const MOST_TITLE_CHARS: usize = 200;
/// The maximum length of the text with its facts. An observation is a note, not a document.
const MOST_CHARS: usize = 8_000;
const MOST_FILES: usize = 50;
const MOST_CHANGES: u32 = 200;

pub async fn edit(
    context: &CommandContext<impl Ports>,
    request: Edit,
) -> Answer<TextAnswer<ObservationAnswer>> {
    let asked = context.clone();
    let edit = tokio::task::spawn_blocking(move || {
        let id = read(&asked.context_lookup, |db| observation(db, &request.id))?;
        let redactor = asked.ingest.redactor.get();
        let text = edited(request, &|text| redactor.redact_text(&strip_text(text).text).trim().to_owned())?;
        Ok::<_, Refused>(EditObservation { id, text, at: clock::now() })
    });
    let edit = edit.await.map_err(|_| unanswered())??;
    let id = edit.id;
    context.ports.writer().write(edit).await.map_err(not_written)?;
    show(context, vec![id]).await
}

pub async fn pin(
    context: &CommandContext<impl Ports>,
    request: PinUp,
) -> Answer<TextAnswer<ObservationAnswer>> {
    let asked = context.clone();
    let ids = tokio::task::spawn_blocking(move || {
        read(&asked.context_lookup, |db| {
            request.ids.iter().map(|id| observation(db, id)).collect::<Result<Vec<_>, _>>()
        })
    });
    let ids = ids.await.map_err(|_| unanswered())??;
    let pin = match request.pin {
        Pin::On => recall_store::Pin::On,
        Pin::Off => recall_store::Pin::Off,
    };
    let change = PinObservations { ids: ids.clone(), pin, at: clock::now() };
    context.ports.writer().write(change).await.map_err(not_written)?;
    show(context, ids).await
}

pub async fn undo(context: &CommandContext<impl Ports>) -> Answer<UndoAnswer> {
    reverted(context, UndoChange::NewestOwn).await
}

pub async fn undo_of(context: &CommandContext<impl Ports>, request: UndoOf) -> Answer<UndoAnswer> {
    let what = match request.id.trim().starts_with(QUARANTINED) {
        true => Changed::Quarantined(quarantined(&request.id)?),
        false => {
            let asked = context.clone();
            let found = tokio::task::spawn_blocking(move || {
                read(&asked.context_lookup, |db| observation(db, &request.id))
            });
            Changed::Observation(found.await.map_err(|_| unanswered())??)
        }
    };
    reverted(context, UndoChange::NewestOf(what)).await
}

async fn reverted(context: &CommandContext<impl Ports>, undo: UndoChange) -> Answer<UndoAnswer> {
    match context.ports.writer().write(undo).await.map_err(not_written)? {
        Undone::Change(change) => Ok(UndoAnswer { undone: Some(change.into()) }),
        Undone::Nothing => Ok(UndoAnswer { undone: None }),
        Undone::Covered { by } => {
            let by = ChangeAnswer::from(by);
            let author = by.author.as_deref().unwrap_or_default();
            let what = format!("{author} has changed {} since ({})", by.id, by.change);
            let id = by.id.to_string();
            let hint = format!(
                "`recall undo {}` reverts the newest change of {id}, also another person's.",
                id.trim_start_matches('#')
            );
            Err(Refused::new(ErrorKind::Conflict, what, hint))
        }
    }
}

pub fn changes(lookup: &ContextLookup, request: Changes) -> Answer<ChangesAnswer> {
    let (changes, forgotten) = read(lookup, |db| {
        Ok::<_, Refused>((db.hand_changes(request.limit.min(MOST_CHANGES))?, db.forgotten_elsewhere()?))
    })?;
    Ok(ChangesAnswer {
        changes: changes.into_iter().map(Into::into).collect(),
        forgotten: forgotten.into_iter().map(Into::into).collect(),
    })
}

pub(super) fn observation(db: Reader<'_>, id: &str) -> Result<ObservationId, Refused> {
    let key = parse_id(id)?;
    if key.kind != DocumentKind::Observation {
        return Err(Refused::new(
            ErrorKind::Invalid,
            format!("{key} is not an observation"),
            "Only observations can be edited: 12 or #12.",
        ));
    }
    load(db, key)?;
    Ok(ObservationId(key.row))
}

fn edited(request: Edit, redact: &dyn Fn(&str) -> String) -> Result<EditedText, Refused> {
    let refused = |what: String, hint: &str| Refused::new(ErrorKind::Invalid, what, hint);
    let kind = ObservationType::parse(&request.kind).ok_or_else(|| {
        let known = ObservationType::ALL.map(|(_, name)| name).join(", ");
        refused(format!("{:?} is not a type", request.kind), &format!("The types are {known}."))
    })?;
    let title = redact(&request.title).split_whitespace().collect::<Vec<_>>().join(" ");
    let facts: Vec<String> =
        request.facts.iter().map(|fact| redact(fact)).filter(|fact| !fact.is_empty()).collect();
    let narrative = redact(&request.narrative);
    let files: Vec<String> =
        request.files.iter().map(|file| redact(file)).filter(|file| !file.is_empty()).collect();
    if title.is_empty() {
        return Err(refused("The title is empty".to_owned(), "Say it in one sentence."));
    }
    let length = title.chars().count();
    if length > MOST_TITLE_CHARS {
        let what = format!("The title has {length} characters; at most {MOST_TITLE_CHARS} are kept");
        return Err(refused(what, "Say it in one sentence."));
    }
    let chars = facts.iter().chain([&narrative]).map(|text| text.chars().count()).sum::<usize>();
    if chars > MOST_CHARS {
        let what = format!("The text and the facts have {chars} characters; at most {MOST_CHARS} are kept");
        return Err(refused(what, "Keep what matters."));
    }
    if files.len() > MOST_FILES {
        let what = format!("There are {} files; at most {MOST_FILES} are kept", files.len());
        return Err(refused(what, "Keep what matters."));
    }
    Ok(EditedText { kind, title, narrative, facts, files })
}
