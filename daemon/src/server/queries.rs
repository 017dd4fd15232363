//! What can be asked over the socket, and the answers in JSON. Reading goes to read-only connections on threads
//! that may block; a query changes nothing.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recall_protocol::frame::PROTOCOL_VERSION;
use recall_protocol::wire::{Filter, Query, Reply};
use rusqlite::Connection;
use serde::Serialize;

use super::answers::{
    BatchAnswer, ByteCounts, CompressionState, ContextAnswer, DocumentAnswer, EventCounts,
    IndexState as IndexCounts, JobCounts, JobsAnswer, Moment, ObservationAnswer, PauseAnswer, PublicId,
    SessionAnswer, SessionCounts, SessionsAnswer, Silence, StatsAnswer, StatusAnswer, SummaryAnswer,
    TextAnswer, TimelineItem, TroubleAnswer, dollars,
};
use super::by_hand::{Switch, mark, remember, switch_capture};
use super::flush::flush;
use super::forget::forget;
use super::gate::Reception;
use super::marks::Marks;
use super::run::repair_note;
use super::search::search;
use super::session_parts::{PlanAnswer, SubagentAnswer};
use super::why::why;
use crate::actors::clock;
use crate::actors::compression::CompressionMessage;
use crate::actors::documents::title_and_text;
use crate::actors::house::House;
use crate::actors::identity::{identify, project_of};
use crate::actors::indexer::IndexerMessage;
use crate::actors::recollection::{Asker, IndexState};
use crate::actors::subscriber::SubscriberMessage;
use crate::memory::checkout::MadeOn;
use crate::memory::document::{DocumentKey, DocumentKind};
use crate::memory::event::{Audience, StartSource};
use crate::memory::file_memory::Told;
use crate::memory::ids::{JobId, ProjectKey, ProjectRow, Timestamp};
use crate::memory::session::Ask;
use crate::memory::tokens::estimate;
use crate::project_file::Captured;
use crate::repository;
use crate::repository::refs::Workplace;
use crate::store::{
    self, DocumentRow, Jobs, ProjectInfo, SessionInfo, StoreError, Write, Written, recent_repairs,
};

/// Rows of a listing unless the user says otherwise.
const LIMIT: u32 = 20;
const MOST_ROWS: u32 = 10_000;
const OBSERVE_WITHIN: Duration = Duration::from_secs(2);

/// Why a query has no answer, in words for the user.
pub(super) struct Refused {
    what: String,
    hint: String,
    /// Where it was the database.
    cause: Option<StoreError>,
}

impl Refused {
    pub(super) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into(), cause: None }
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let what = format!("The database refused: {error}");
        let hint = "Run `recall doctor`; the daemon's log says more.";
        Self { cause: Some(error), ..Self::new(what, hint) }
    }
}

/// Answers a query. Never fails: a refusal is an answer.
pub async fn answer(query: Query, reception: &Reception) -> Reply {
    let house = reception.house.clone();
    let answer = match query {
        Query::Ping => {
            json(&serde_json::json!({"version": env!("CARGO_PKG_VERSION"), "pid": std::process::id()}))
        }
        Query::Status => status(reception).await,
        Query::Flush => match flush(&house).await {
            Ok(flushed) => json(&flushed),
            Err(error) => Err(Refused::new(
                format!("Not everything is done: {error}"),
                "See `recall ctl status` and `recall ctl jobs`.",
            )),
        },
        Query::Stop => {
            // Somebody has asked already if it is full.
            let _ = reception.stop.try_send(());
            json(&serde_json::json!({"stopping": true}))
        }
        Query::Sessions(filter) => blocking(move || sessions(&house, &filter)).await,
        Query::Session { id } => blocking(move || session(&house, &id)).await,
        Query::Jobs(filter) => blocking(move || jobs(&house, Jobs::All, &filter)).await,
        Query::DeadJobs(filter) => blocking(move || jobs(&house, Jobs::Dead, &filter)).await,
        Query::Retry { job } => retry(&house, job.map(JobId)).await,
        Query::Stats { days } => blocking(move || stats(&house, days)).await,
        Query::Search { text, filter, explain } => {
            blocking(move || search(&house, &text, (&filter, explain), None)).await
        }
        Query::SearchFrom { folder, text, filter, explain } => {
            blocking(move || search(&house, &text, (&filter, explain), Some(&folder))).await
        }
        Query::Show { id } => blocking(move || show(&house, &id, None)).await,
        Query::ShowFrom { folder, id } => blocking(move || show(&house, &id, Some(&folder))).await,
        Query::Timeline { id, before, after } => {
            blocking(move || timeline(&house, &id, (before, after))).await
        }
        Query::Context { cwd, prompt } => context(&house, cwd, prompt).await,
        Query::Why { id } => blocking(move || why(&house, &id)).await,
        Query::Forget { what, step } => forget(&house, what, step).await,
        Query::Remember(remark) => remember(&house, remark).await,
        Query::Mark { ids, standing } => mark(&house, ids, standing).await,
        Query::Pause { until_ms } => {
            switch_capture(&house, Switch::Pause { until: until_ms.map(Timestamp) }).await
        }
        Query::Resume => switch_capture(&house, Switch::Resume).await,
        // It has many answers; a connection sees to it by itself.
        Query::Follow { .. } => Err(Refused::new("Events are followed on a connection of their own", "")),
    };
    match answer {
        Ok(bytes) => Reply::Json(bytes),
        Err(Refused { what, hint, .. }) => Reply::Failed { what, hint },
    }
}

pub(super) type Answer = Result<Vec<u8>, Refused>;

pub(super) async fn blocking(work: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        tracing::error!("a query panicked");
        Err(Refused::new("The daemon could not answer", "This is a bug; its log says more."))
    })
}

pub(super) fn json(value: &impl Serialize) -> Answer {
    serde_json::to_vec(value).map_err(|error| Refused::new(format!("Cannot write the answer: {error}"), ""))
}

pub(super) fn limit(filter: &Filter) -> u32 {
    filter.limit.unwrap_or(LIMIT).min(MOST_ROWS)
}

/// The projects a filter means; `None`: all of them.
pub(super) fn projects(db: &Connection, filter: &Filter) -> Result<Option<Vec<ProjectInfo>>, Refused> {
    let Some(name) = &filter.project else { return Ok(None) };
    let found = if Path::new(name).is_absolute() {
        project_of(db, Path::new(name))?.into_iter().collect()
    } else {
        store::projects_named(db, name)?
    };
    if found.is_empty() {
        let what = format!("Nothing is remembered of a project {name:?}");
        return Err(Refused::new(what, "`recall ctl sessions` shows the projects there are."));
    }
    Ok(Some(found))
}

fn sessions(house: &House, filter: &Filter) -> Answer {
    let found: Result<Vec<SessionInfo>, Refused> = read(house, |db| {
        let rows: Option<Vec<ProjectRow>> =
            projects(db, filter)?.map(|found| found.iter().map(|project| project.row).collect());
        Ok(store::session_list(db, rows.as_deref(), filter.since_ms.map(Timestamp), limit(filter))?)
    });
    json(&SessionsAnswer { sessions: found?.into_iter().map(Into::into).collect() })
}

/// Reads with a reader whose refusals are words for the user.
pub(super) fn read<T>(
    house: &House,
    query: impl FnOnce(&Connection) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let answer = house.readers.read(|db| Ok(query(db)))?;
    if let Err(Refused { cause: Some(error), .. }) = &answer {
        house.readers.suspect(error);
    }
    answer
}

fn jobs(house: &House, which: Jobs, filter: &Filter) -> Answer {
    let since = filter.since_ms.map(Timestamp);
    let rows = house.readers.read(|db| store::jobs(db, which, since, limit(filter)))?;
    json(&JobsAnswer { jobs: rows.into_iter().map(Into::into).collect() })
}

async fn retry(house: &House, only: Option<JobId>) -> Answer {
    // First the providers: a job that is tried before they may be asked is put off again.
    let _ = house.compression.tell(CompressionMessage::Reconsider);
    match house.writer.write(Write::Retry { only }).await {
        Ok(Written::Retried(0)) if only.is_some() => Err(Refused::new(
            "There is no such job that waits or was given up",
            "`recall ctl jobs --dead` lists those that were.",
        )),
        Ok(Written::Retried(jobs)) => json(&serde_json::json!({"retried": jobs})),
        Ok(_) => Err(Refused::new("The writer gave an answer to something else", "Try again.")),
        Err(error) => Err(Refused::new(
            format!("The jobs could not be changed: {error}"),
            "Try again; the daemon's log says more.",
        )),
    }
}

fn stats(house: &House, days: u32) -> Answer {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let back = i64::from(days.clamp(1, 3_660) - 1) * DAY_MS;
    let since = clock::day_of(Timestamp(clock::now().0.saturating_sub(back)));
    let rows = house.readers.read(|db| store::spending(db, &since))?;
    json(&StatsAnswer::of(rows))
}

/// The one session an id means.
pub(super) fn one_session(db: &Connection, id: &str) -> Result<SessionInfo, Refused> {
    let mut found = store::find_sessions(db, id)?;
    match found.len() {
        0 => Err(Refused::new(
            format!("There is no session {id:?}"),
            "`recall ctl sessions` lists those there are.",
        )),
        1 => Ok(found.remove(0)),
        _ if found.iter().all(|session| session.id.as_str() == id) => Ok(found.remove(0)),
        _ => Err(Refused::new(format!("Several sessions begin with {id:?}"), "Give more of the id.")),
    }
}

fn session(house: &House, id: &str) -> Answer {
    let answer = read(house, |db| {
        let info = one_session(db, id)?;
        let mut batches = Vec::new();
        for batch in store::batches(db, info.row)? {
            let activities = store::session_activities(db, info.row, Some(batch.id))?;
            batches.push(BatchAnswer::new(batch, activities));
        }
        let observations = store::observations_of_session(db, info.row)?;
        let mut subagents = Vec::new();
        for subagent in store::subagents_of_session(db, info.row)? {
            let number = subagent.batch.map(|batch| store::prompt_number(db, batch)).transpose()?;
            subagents.push(SubagentAnswer::new(subagent, number));
        }
        Ok(SessionAnswer {
            plans: store::plans_of_session(db, info.row)?.into_iter().map(Into::into).collect(),
            life_events: store::life_events(db, info.row)?.into_iter().map(Into::into).collect(),
            subagents,
            resumed_from: info.resumed_from.map(|session| session.0),
            batches,
            observations: observations.into_iter().map(Into::into).collect(),
            summary: store::summary_of_session(db, info.row)?.map(SummaryAnswer::from),
            injections: store::injections(db, info.row)?.into_iter().map(Into::into).collect(),
            session_id: info.id.0,
            agent: info.agent.0,
            project: info.project.name,
            project_id: info.project.key.0,
            status: info.status,
            reason: info.reason,
            title: info.title,
            started_at: Moment(info.started_at),
            ended_at: info.ended_at.map(Moment),
        })
    })?;
    json(&answer)
}

/// Where a document belongs, for showing.
pub(super) struct Place {
    pub(super) project: String,
    pub(super) agent: String,
    pub(super) session: Option<String>,
    pub(super) prompt_number: Option<u32>,
    pub(super) observation_type: Option<&'static str>,
    /// Only observations can stop to hold.
    pub(super) status: Option<&'static str>,
    pub(super) at: Timestamp,
    pub(super) project_row: ProjectRow,
}

impl Place {
    pub(super) fn of(db: &Connection, row: &DocumentRow) -> Result<Self, StoreError> {
        let of_session = |session: &SessionInfo, prompt_number, at| Self {
            project: session.project.name.clone(),
            agent: session.agent.0.clone(),
            session: Some(session.id.0.clone()),
            prompt_number,
            observation_type: None,
            status: None,
            at,
            project_row: session.project.row,
        };
        Ok(match row {
            DocumentRow::Observation { row, session, project } => Self {
                project: project.name.clone(),
                agent: session.as_ref().map(|session| session.agent.0.clone()).unwrap_or_default(),
                session: row.session.as_ref().map(|session| session.0.clone()),
                prompt_number: row.prompt_number,
                observation_type: Some(row.kind.as_str()),
                status: Some(row.status.as_str()),
                at: row.created_at,
                project_row: row.project,
            },
            DocumentRow::Summary { row, session } => of_session(session, None, row.created_at),
            DocumentRow::Plan { row, session } => {
                of_session(session, row.prompt_numbers.first().copied(), row.updated_at)
            }
            DocumentRow::Prompt { number, at, session, .. }
            | DocumentRow::Response { number, at, session, .. } => of_session(session, Some(*number), *at),
            DocumentRow::Activity { row, session } => {
                let number = row.batch.map(|batch| store::prompt_number(db, batch)).transpose()?;
                of_session(session, number, row.at)
            }
        })
    }
}

pub(super) fn parse_id(id: &str) -> Result<DocumentKey, Refused> {
    DocumentKey::parse(id).ok_or_else(|| {
        Refused::new(
            format!("{id:?} is no id"),
            "An observation's id is a number (123 or #123); others are a letter and a number (p12, r12, s12, l12, a12).",
        )
    })
}

pub(super) fn load(db: &Connection, key: DocumentKey) -> Result<DocumentRow, Refused> {
    store::load_document(db, key)?.ok_or_else(|| {
        let what = format!("There is no {} {key}", key.kind.as_str());
        Refused::new(what, "`recall search WORDS` finds what there is.")
    })
}

fn show(house: &House, id: &str, folder: Option<&str>) -> Answer {
    let key = parse_id(id)?;
    let (row, place, elsewhere, lineage) = read(house, |db| {
        let row = load(db, key)?;
        let place = Place::of(db, &row)?;
        let elsewhere = Marks::new(house, db, folder)?.of(place.project_row, made_on(&row))?;
        let lineage = match &row {
            DocumentRow::Observation { row, .. } => store::lineage(db, row.id)?,
            _ => Vec::new(),
        };
        Ok((row, place, elsewhere, lineage))
    })?;
    let (title, body) = title_and_text(&row);
    let mark = elsewhere.as_ref().map(|elsewhere| format!(" ({elsewhere})")).unwrap_or_default();
    let text = format!("{title}{mark}\n\n{body}");
    let tokens = estimate(&text);
    match row {
        DocumentRow::Observation { row, .. } => {
            let lineage = lineage.into_iter().map(Into::into).collect();
            let item = ObservationAnswer { elsewhere, lineage, ..(*row).into() };
            json(&TextAnswer { text, tokens, items: vec![item] })
        }
        DocumentRow::Summary { row, .. } => {
            json(&TextAnswer { text, tokens, items: vec![SummaryAnswer { elsewhere, ..(*row).into() }] })
        }
        DocumentRow::Plan { row, .. } => {
            json(&TextAnswer { text: body, tokens, items: vec![PlanAnswer::from(*row)] })
        }
        DocumentRow::Prompt { .. } | DocumentRow::Response { .. } | DocumentRow::Activity { .. } => {
            let item = DocumentAnswer {
                id: PublicId(key),
                kind: key.kind.as_str(),
                title,
                text: body.clone(),
                project: place.project,
                session_id: place.session,
                prompt_number: place.prompt_number,
                created_at: Moment(place.at),
            };
            json(&TextAnswer { text: body, tokens, items: vec![item] })
        }
    }
}

/// Where a document was made, of those that say what holds.
pub(super) fn made_on(row: &DocumentRow) -> &[MadeOn] {
    match row {
        DocumentRow::Observation { row, .. } => &row.made_on,
        DocumentRow::Summary { row, .. } => std::slice::from_ref(&row.made_on),
        DocumentRow::Plan { .. }
        | DocumentRow::Prompt { .. }
        | DocumentRow::Response { .. }
        | DocumentRow::Activity { .. } => &[],
    }
}

fn timeline(house: &House, id: &str, around: (u32, u32)) -> Answer {
    let rows = read(house, |db| {
        // A document's id, or a session's.
        let (project, at) = match DocumentKey::parse(id) {
            Some(key) => {
                let place = Place::of(db, &load(db, key)?)?;
                (place.project_row, place.at)
            }
            None => {
                let session = one_session(db, id)?;
                (session.project.row, session.started_at)
            }
        };
        Ok(store::timeline(db, project, at, around)?)
    })?;
    let items: Vec<TimelineItem> = rows.into_iter().map(Into::into).collect();
    let lines: Vec<String> = items.iter().map(timeline_line).collect();
    let text = lines.join("\n");
    json(&TextAnswer { tokens: estimate(&text), text, items })
}

fn timeline_line(item: &TimelineItem) -> String {
    let time = jiff::Timestamp::from_millisecond(item.created_at.0.0).unwrap_or_default();
    let id = match item.id {
        Some(PublicId(key)) if key.kind == DocumentKind::Observation => format!("#{key} "),
        Some(PublicId(key)) => format!("{key} "),
        None => String::new(),
    };
    let kind = item.observation_type.as_deref().unwrap_or(&item.kind);
    format!("{} {id}{kind}: {}", time.strftime("%Y-%m-%d %H:%M"), item.title)
}

async fn context(house: &House, cwd: String, prompt: Option<String>) -> Answer {
    let intake = &house.intake;
    let silent = match intake.pauses.current(clock::now()) {
        Some(_) => Some(Silence::Paused),
        None => {
            (intake.boundaries.rules(&cwd).await.rules.captured == Captured::No).then_some(Silence::Excluded)
        }
    };
    if silent.is_some() {
        let block = TextAnswer::<()> { text: String::new(), tokens: 0, items: Vec::new() };
        return json(&ContextAnswer { block, silent });
    }
    let house = house.clone();
    blocking(move || context_in(&house, &cwd, prompt)).await
}

fn context_in(house: &House, cwd: &str, prompt: Option<String>) -> Answer {
    let facts = repository::facts(Path::new(cwd));
    let (identity, known) = house.readers.read(|db| {
        let identity = identify(db, &facts)?;
        let known = store::find_project(db, &identity.keys)?;
        Ok((identity, known))
    })?;
    // A project nobody has worked in has nothing to say, which is an answer.
    let project = known.unwrap_or_else(|| ProjectInfo {
        row: ProjectRow(0),
        key: identity.keys.into_iter().next().unwrap_or_else(|| ProjectKey(String::new())),
        name: identity.name,
    });
    let place = Workplace::at(Path::new(cwd));
    let asker = Asker { project, session: None, told: Told::default(), last_event: Timestamp(0), place };
    let ask = prompt.map_or(Ask::Start(StartSource::Startup, Audience::Nobody), Ask::Prompt);
    let block = house.recollection.recall(&ask, &asker)?.block;
    let block = TextAnswer { text: block.text, tokens: block.tokens, items: block.items };
    json(&ContextAnswer { block, silent: None })
}

async fn status(reception: &Reception) -> Answer {
    let house = &reception.house;
    let compression =
        house.compression.ask(CompressionMessage::Observe, OBSERVE_WITHIN).await.unwrap_or_default();
    let index = house.indexer.ask(IndexerMessage::Observe, OBSERVE_WITHIN).await.unwrap_or_default();
    let subscribe =
        house.subscriber.ask(SubscriberMessage::Observe, OBSERVE_WITHIN).await.unwrap_or_default();
    let reception = reception.clone();
    blocking(move || {
        let house = &reception.house;
        let paths = &reception.home;
        let today = clock::day_of(clock::now());
        let (counts, newest, spent, trouble) = house.readers.read(|db| {
            let (spent, trouble) = (store::spent(db, &today)?, store::compression_trouble(db)?);
            Ok((store::statistics(db)?, store::highest_log_entry(db)?, spent, trouble))
        })?;
        let caps = house.config.compression.caps;
        let spool = house.spool.settle().unwrap_or_default();
        let database = ["", "-wal", "-shm"].iter().map(|suffix| {
            let mut path = paths.database().into_os_string();
            path.push(suffix);
            file_bytes(Path::new(&path))
        });
        json(&StatusAnswer {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_s: reception.started_at.elapsed().as_secs(),
            protocol: PROTOCOL_VERSION,
            home: paths.data_dir().to_string_lossy().into_owned(),
            sessions: SessionCounts { live: counts.sessions_live, total: counts.sessions },
            events: EventCounts {
                stored: counts.events,
                duplicates: house.intake.counters.duplicates.load(Ordering::Relaxed),
                told_twice: house.intake.counters.told_twice.load(Ordering::Relaxed),
                paused: house.intake.counters.paused.load(Ordering::Relaxed),
                excluded: house.intake.counters.excluded.load(Ordering::Relaxed),
                spooled: spool.files,
                dropped: house.spool.dropped(),
                unparsed: counts.unparsed,
            },
            jobs: JobCounts {
                pending: counts.jobs_pending,
                running: counts.jobs_running,
                retrying: counts.jobs_retrying,
                done: counts.jobs_done,
                dead: counts.jobs_dead,
            },
            observations: counts.observations,
            summaries: counts.summaries,
            index: IndexCounts {
                documents: house.recollection.index.index().map_or(0, |index| index.documents()),
                behind: (newest - index.high_water).max(0),
                state: match house.recollection.index.state() {
                    IndexState::Absent => "absent",
                    IndexState::Filling(_) => "rebuilding",
                    IndexState::Complete(_) => "complete",
                },
                rebuilds: index.rebuilds,
            },
            compression: CompressionState {
                backend: house.backend.clone(),
                circuit: compression.circuit.as_str(),
                tokens_today: spent.tokens(),
                usd_today: dollars(spent.micro_usd),
                tokens_per_day: caps.tokens,
                usd_per_day: dollars(caps.micro_usd),
                restarts: compression.restarts,
                threads_lost: compression.threads_lost,
                providers: compression.providers,
                trouble: trouble.map(TroubleAnswer::from),
            },
            subscribe,
            bytes: ByteCounts {
                database: database.sum(),
                index: folder_bytes(&paths.index_dir()),
                spool: spool.bytes,
                log: folder_bytes(&paths.log_dir()),
            },
            rss_bytes: rss_bytes(),
            paused: PauseAnswer::now(&house.intake.pauses),
            healed: recent_repairs(&repair_note(paths), clock::now()).into_iter().map(Into::into).collect(),
        })
    })
    .await
}

fn file_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

/// Resident memory of this process as proc(5) tells it; 0 where there is no such file.
fn rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
