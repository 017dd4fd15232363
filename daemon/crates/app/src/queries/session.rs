//! `recall ctl sessions` and `recall ctl session`.

use recall_protocol::query::{Session, SessionPage, Sessions};
use recall_protocol::wire::ErrorKind;

use super::given::injections;
use super::marks::checkout;
use super::meant::{did_you_mean, meant};
use super::{Answer, Refused, limit, projects, read};
use crate::answers::Moment;
use crate::answers::found::SummaryAnswer;
use crate::answers::session::{
    BatchAnswer, PlanAnswer, SessionAnswer, SessionLine, SessionsAnswer, SubagentAnswer,
};
use crate::context_lookup::ContextLookup;
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{ProjectRow, SessionRow, Timestamp};
use recall_domain::session::SessionStatus;
use recall_store::{Named, Reader, SessionInfo, StoreError};

/// The displayed state of a session between a Stop and the first result of its jobs. It is not stored, and nothing
/// waits for it.
const SUMMARIZING: &str = "summarizing";

pub fn sessions(lookup: &ContextLookup, Sessions { filter }: Sessions) -> Answer<SessionsAnswer> {
    session_page(lookup, SessionPage { filter, skip: 0 })
}

pub fn session_page(
    lookup: &ContextLookup,
    SessionPage { filter, skip }: SessionPage,
) -> Answer<SessionsAnswer> {
    read(lookup, |db| {
        let rows: Option<Vec<ProjectRow>> =
            projects(db, &filter)?.map(|found| found.iter().map(|project| project.row).collect());
        let since = filter.since_ms.map(Timestamp);
        let total = db.session_count(rows.as_deref(), since)?;
        let found = db.session_list(rows.as_deref(), since, skip, limit(&filter))?;
        let lines = found
            .into_iter()
            .map(|info| displayed_state(db, &info).map(|state| SessionLine::new(info, state)));
        Ok(SessionsAnswer { sessions: lines.collect::<Result<_, _>>()?, total })
    })
}

/// The status as people see it.
fn displayed_state(db: Reader<'_>, info: &SessionInfo) -> Result<&'static str, StoreError> {
    let is_summarizing = info.status == SessionStatus::Active && db.is_summarizing(info.row)?;
    Ok(if is_summarizing { SUMMARIZING } else { info.status.as_str() })
}

/// Returns the only session that matches an id.
pub fn one_session(db: Reader<'_>, id: &str) -> Result<SessionInfo, Refused> {
    let mut found = db.find_sessions(id)?;
    match found.len() {
        0 => {
            let meant = did_you_mean(meant(db, Named::Session, id)?);
            let hint = format!("{meant}`recall sessions --all` lists all sessions.");
            Err(Refused::new(ErrorKind::NotFound, format!("There is no session {id:?}"), hint))
        }
        1 => Ok(found.remove(0)),
        _ if found.iter().all(|session| session.id.as_str() == id) => Ok(found.remove(0)),
        _ => Err(Refused::new(
            ErrorKind::Conflict,
            format!("Several sessions begin with {id:?}"),
            "Give more of the id.",
        )),
    }
}

/// Returns the store's number of the session with exactly this id, and its number of prompts.
pub fn session_number(lookup: &ContextLookup, id: &str) -> Answer<(i64, u32)> {
    read(lookup, |db| {
        let found = db.find_sessions(id)?.into_iter().find(|info| info.id.as_str() == id);
        let unknown = || Refused::new(ErrorKind::NotFound, format!("There is no session {id:?}"), "");
        found.map(|info| (info.row.0, info.prompts)).ok_or_else(unknown)
    })
}

/// Returns the agent's id of the session with this number.
pub fn session_of_number(lookup: &ContextLookup, number: i64) -> Answer<String> {
    read(lookup, |db| Ok(db.session_info(SessionRow(number))?.id.0))
}

pub fn session(lookup: &ContextLookup, Session { id }: Session) -> Answer<SessionAnswer> {
    read(lookup, |db| {
        let info = one_session(db, &id)?;
        let status = displayed_state(db, &info)?.to_owned();
        let mut batches = Vec::new();
        for batch in db.batches(info.row)? {
            let activities = db.session_activities(info.row, Some(batch.id))?;
            batches.push(BatchAnswer::new(batch, activities));
        }
        let observations = db.observations_of_session(info.row)?;
        let mut subagents = Vec::new();
        for subagent in db.subagents_of_session(info.row)? {
            let number = subagent.batch.map(|batch| db.prompt_number(batch)).transpose()?;
            subagents.push(SubagentAnswer::new(subagent, number));
        }
        Ok(SessionAnswer {
            plans: plans(db, info.row)?,
            life_events: db.life_events(info.row)?.into_iter().map(Into::into).collect(),
            subagents,
            resumed_from: info.resumed_from.map(|session| session.0),
            host_message_count: info.host_messages,
            host_compacted_count: info.host_compacted,
            batches,
            observations: observations.into_iter().map(Into::into).collect(),
            summary: db.summary_of_session(info.row)?.map(SummaryAnswer::from),
            first_user_prompt: db.first_and_last_prompt(info.row)?.0,
            compaction_summaries: db.compaction_summaries(info.row)?.into_iter().map(Into::into).collect(),
            suspended_at: info.suspended_at.map(Moment),
            injections: injections(db, info.row)?,
            session_id: info.id.0,
            agent: info.agent.0,
            project: info.project.name,
            project_id: info.project.key.0,
            workspace: info.root,
            status,
            reason: info.reason,
            title: info.title,
            started_at: Moment(info.started_at),
            ended_at: info.ended_at.map(Moment),
        })
    })
}

fn plans(db: Reader<'_>, session: SessionRow) -> Result<Vec<PlanAnswer>, StoreError> {
    let rows = db.plans_of_session(session)?.into_iter();
    rows.map(|row| {
        let key = DocumentKey { kind: DocumentKind::Plan, row: row.id.0 };
        Ok(PlanAnswer::new(row, checkout(&db.made_where(key)?)))
    })
    .collect()
}
