//! `recall show`: one document and its surroundings.

use recall_protocol::query::Show;
use recall_protocol::wire::ErrorKind;

use super::marks::Marks;
use super::{Answer, Refused, read};
use crate::answers::found::{DocumentAnswer, ObservationAnswer, ShownItem, SummaryAnswer};
use crate::answers::observation::{EvidenceAnswer, SpeakerAnswer};
use crate::answers::session::PlanAnswer;
use crate::answers::{Moment, PublicId, TextAnswer};
use crate::context_lookup::ContextLookup;
use crate::documents::title_and_text;
use recall_domain::document::{DocumentKey, DocumentKind, Status};
use recall_domain::ids::{ProjectRow, Timestamp};
use recall_domain::observation::Voice;
use recall_domain::text::shortened_line;
use recall_domain::tokens::estimate;
use recall_store::{DocumentRow, ObservationRow, ProjectInfo, Reader, SessionInfo, StoreError};

/// The maximum number of evidence lines shown per observation, and the maximum length of each.
const MOST_EVIDENCE: usize = 20;
const EVIDENCE_CHARS: usize = 160;

/// The surroundings of a document, for display.
pub(crate) struct DocumentContext {
    pub project: String,
    pub agent: String,
    pub session: Option<String>,
    pub prompt_number: Option<u32>,
    pub observation_type: Option<&'static str>,
    /// Only observations can be superseded or resolved.
    pub status: Option<Status>,
    pub at: Timestamp,
    pub(crate) project_row: ProjectRow,
}

impl DocumentContext {
    pub(crate) fn of(db: Reader<'_>, row: &DocumentRow) -> Result<Self, StoreError> {
        let of_project = |project: &ProjectInfo, session: Option<&SessionInfo>, prompt_number, at| Self {
            project: project.name.clone(),
            agent: session.map(|session| session.agent.0.clone()).unwrap_or_default(),
            session: session.map(|session| session.id.0.clone()),
            prompt_number,
            observation_type: None,
            status: None,
            at,
            project_row: project.row,
        };
        let of_session =
            |session: &SessionInfo, number, at| of_project(&session.project, Some(session), number, at);
        Ok(match row {
            DocumentRow::Observation { row, session, project } => Self {
                observation_type: Some(row.kind.as_str()),
                status: Some(row.status),
                ..of_project(project, session.as_deref(), row.prompt_number, row.created_at)
            },
            DocumentRow::Summary { row, session, project } => {
                of_project(project, session.as_deref(), None, row.created_at)
            }
            DocumentRow::Plan { row, session, project } => {
                of_project(project, session.as_deref(), row.prompt_numbers.first().copied(), row.updated_at)
            }
            DocumentRow::Compaction { row, session } => of_session(session, row.prompt_number, row.at),
            DocumentRow::ReceivedText { row, project } => of_project(project, None, None, row.created_at),
            DocumentRow::Prompt { number, at, session, .. }
            | DocumentRow::Response { number, at, session, .. } => of_session(session, Some(*number), *at),
            DocumentRow::Activity { row, session } => {
                let number = row.batch.map(|batch| db.prompt_number(batch)).transpose()?;
                of_session(session, number, row.at)
            }
        })
    }
}

pub(crate) fn parse_id(id: &str) -> Result<DocumentKey, Refused> {
    DocumentKey::parse(id).ok_or_else(|| {
        Refused::new(
            ErrorKind::Invalid,
            format!("{id:?} is not an ID"),
            "An observation's ID is a number (123 or #123); other IDs are a letter and a number (p12, r12, s12, l12, a12, c12, t12).",
        )
    })
}

pub fn load(db: Reader<'_>, key: DocumentKey) -> Result<DocumentRow, Refused> {
    if let Some(found) = db.load_document(key)? {
        return Ok(found);
    }
    let newest = match key.kind {
        DocumentKind::Observation => db.newest_observation()?,
        _ => None,
    };
    let newest = newest.map(|newest| format!("The newest is {newest}. ")).unwrap_or_default();
    let what = format!("There is no {} {key}", key.kind.word());
    Err(Refused::new(
        ErrorKind::NotFound,
        what,
        format!("{newest}`recall search WORDS` finds what there is."),
    ))
}

/// Returns the author of an observation: the author of the first prompt in its evidence, if any.
fn author_of_statement(
    voice: Voice,
    row: &ObservationRow,
    rests_on: &[(EvidenceAnswer, Option<Timestamp>)],
) -> SpeakerAnswer {
    let mut prompts = rests_on.iter().filter_map(|(evidence, at)| Some((evidence.id, (*at)?)));
    let prompt = prompts.next();
    SpeakerAnswer {
        who: voice.as_str().into(),
        prompt: prompt.map(|(id, _)| id),
        at: Moment(prompt.map_or(row.created_at, |(_, at)| at)),
    }
}

/// Returns the evidence of an observation, one line each, and the time of each prompt.
fn evidence(
    lookup: &ContextLookup,
    db: Reader<'_>,
    row: &ObservationRow,
) -> Result<Vec<(EvidenceAnswer, Option<Timestamp>)>, Refused> {
    let mut shown = Vec::new();
    for key in db.evidence(row.id, &row.evidence)?.into_iter().take(MOST_EVIDENCE) {
        if let Some(document) = db.load_document(key)? {
            let (title, _) = title_and_text(&document, lookup.agents);
            let title = shortened_line(&title, EVIDENCE_CHARS);
            let typed_at = match &document {
                DocumentRow::Prompt { at, .. } => Some(*at),
                _ => None,
            };
            shown.push((
                EvidenceAnswer { id: PublicId(key), kind: key.kind.as_str().into(), title },
                typed_at,
            ));
        }
    }
    Ok(shown)
}

pub fn show(lookup: &ContextLookup, request: Show) -> Answer<TextAnswer<ShownItem>> {
    let Show { id, folder } = request;
    let key = parse_id(&id)?;
    let (row, place, made_on, lineage, changed, rests_on) = read(lookup, |db| {
        let row = load(db, key)?;
        let place = DocumentContext::of(db, &row)?;
        let made_on = Marks::new(lookup, db, folder.as_deref())?.place(place.project_row, key)?;
        let (lineage, changed, rests_on) = match &row {
            DocumentRow::Observation { row, .. } => {
                let changed = (db.edited_at(row.id)?, db.changed_elsewhere(row.id)?);
                (db.lineage(row.id)?, changed, evidence(lookup, db, row)?)
            }
            _ => (Vec::new(), (None, None), Vec::new()),
        };
        Ok((row, place, made_on, lineage, changed, rests_on))
    })?;
    let (title, body) = title_and_text(&row, lookup.agents);
    let (author, device) = row.author_and_device();
    let (author, device) = (author.cloned(), device.cloned());
    let mark = made_on.elsewhere.as_ref().map(|elsewhere| format!(" ({elsewhere})")).unwrap_or_default();
    let text = format!("{title}{mark}\n\n{body}");
    let tokens = estimate(&text);
    let (text, item) = match row {
        DocumentRow::Observation { row, .. } => {
            let lineage = lineage.into_iter().map(Into::into).collect();
            let voice = Voice::of(row.kind, &row.origin);
            let speaker = voice.map(|voice| author_of_statement(voice, &row, &rests_on));
            let item = ObservationAnswer {
                said_by: speaker,
                elsewhere: made_on.elsewhere,
                lineage,
                edited_at: changed.0.map(Moment),
                changed_elsewhere: changed.1.map(Into::into),
                rests_on: rests_on.into_iter().map(|(evidence, _)| evidence).collect(),
                ..(*row).into()
            };
            (text, ShownItem::Observation(Box::new(item)))
        }
        DocumentRow::Summary { row, .. } => {
            let item = SummaryAnswer { elsewhere: made_on.elsewhere, ..(*row).into() };
            (text, ShownItem::Summary(item))
        }
        DocumentRow::Plan { row, .. } => (body, ShownItem::Plan(PlanAnswer::new(*row, made_on))),
        DocumentRow::Prompt { .. }
        | DocumentRow::Response { .. }
        | DocumentRow::Activity { .. }
        | DocumentRow::Compaction { .. }
        | DocumentRow::ReceivedText { .. } => {
            let item = DocumentAnswer {
                id: PublicId(key),
                kind: key.kind.as_str().into(),
                title,
                text: body.clone(),
                project: place.project,
                session_id: place.session,
                prompt_number: place.prompt_number,
                created_at: Moment(place.at),
                author,
                device,
                made_on,
            };
            (body, ShownItem::Document(item))
        }
    };
    Ok(TextAnswer { text, tokens, items: vec![item] })
}
