//! Browsing: by day, by project, and by thread.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use recall_protocol::query::{Days, Entries, EntryFilter, Filter, Projects, ThreadPage, Threads};
use recall_protocol::wire::ErrorKind;

use super::{Answer, MOST_ROWS, Refused, projects, read};
use crate::answers::Moment;
use crate::answers::browsing::{
    DayLine, DaysAnswer, EntriesAnswer, Entry, ProjectsAnswer, Statement, ThreadAnswer, ThreadsAnswer,
};
use crate::answers::lineage::LineageAnswer;
use crate::context_lookup::ContextLookup;
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{ObservationId, ProjectRow, Timestamp};
use recall_domain::observation::ObservationType;
use recall_store::{BROWSED, Browsed, QUARTER_MS, Quarter, Reader, Relation};

pub fn days(lookup: &ContextLookup, Days { of }: Days) -> Answer<DaysAnswer> {
    let zone = TimeZone::system();
    read(lookup, |db| {
        let browsed = browsed(db, &of)?;
        let mut days: BTreeMap<Date, DayLine> = BTreeMap::new();
        for kind in &browsed.kinds {
            let counts = db.quarters(&browsed, *kind)?;
            by_day(&mut days, &zone, counts, |day, quarter| match kind {
                DocumentKind::Observation => day.observations += quarter.count,
                DocumentKind::Summary => day.summaries += quarter.count,
                _ => day.prompts += quarter.count,
            });
        }
        by_day(&mut days, &zone, db.quarters_of_sessions(&browsed)?, |day, quarter| {
            day.sessions += quarter.count;
            day.calls += quarter.calls;
        });
        Ok(DaysAnswer { days: days.into_values().rev().collect() })
    })
}

/// Adds counts to their days.
fn by_day(
    days: &mut BTreeMap<Date, DayLine>,
    zone: &TimeZone,
    counts: Vec<Quarter>,
    add: impl Fn(&mut DayLine, &Quarter),
) {
    for quarter in counts {
        // A time outside the calendar indicates damage.
        let Ok(time) = jiff::Timestamp::from_millisecond(quarter.number.saturating_mul(QUARTER_MS)) else {
            continue;
        };
        let date = zone.to_datetime(time).date();
        add(days.entry(date).or_insert_with(|| day_line(date, zone)), &quarter);
    }
}

fn day_line(day: Date, zone: &TimeZone) -> DayLine {
    let begins = |date: Date| {
        let start = date.to_zoned(zone.clone()).map(|start| start.timestamp().as_millisecond());
        Moment(Timestamp(start.unwrap_or(0)))
    };
    DayLine {
        day: day.to_string(),
        since: begins(day),
        until: begins(day.tomorrow().unwrap_or(day)),
        observations: 0,
        prompts: 0,
        summaries: 0,
        sessions: 0,
        calls: 0,
    }
}

pub fn entries(lookup: &ContextLookup, request: Entries) -> Answer<EntriesAnswer> {
    let Entries { of, since_ms, until_ms, skip, limit } = request;
    let (from, until) = (Timestamp(since_ms.unwrap_or(i64::MIN)), Timestamp(until_ms.unwrap_or(i64::MAX)));
    read(lookup, |db| {
        let browsed = browsed(db, &of)?;
        let mut entries = Vec::new();
        for (key, at) in db.entries(&browsed, from, until, skip, limit.min(MOST_ROWS))? {
            entries.extend(db.entry(key)?.map(|row| Entry::new(key, at, row)));
        }
        Ok(EntriesAnswer { entries })
    })
}

pub fn project_list(lookup: &ContextLookup, Projects: Projects) -> Answer<ProjectsAnswer> {
    let lines = read(lookup, |db| Ok(db.project_lines()?))?;
    Ok(ProjectsAnswer { projects: lines.into_iter().map(Into::into).collect() })
}

pub fn threads(lookup: &ContextLookup, Threads { project, of, limit }: Threads) -> Answer<ThreadsAnswer> {
    let of = of.map(|id| observation_id(&id)).transpose()?;
    threads_after(lookup, project, of, 0, limit)
}

pub fn thread_page(
    lookup: &ContextLookup,
    ThreadPage { project, skip, limit }: ThreadPage,
) -> Answer<ThreadsAnswer> {
    threads_after(lookup, project, None, skip, limit)
}

fn threads_after(
    lookup: &ContextLookup,
    project: Option<String>,
    of: Option<ObservationId>,
    skip: u32,
    limit: u32,
) -> Answer<ThreadsAnswer> {
    read(lookup, |db| {
        let mut found = db.histories(rows(db, project)?.as_deref())?;
        if let Some(id) = of {
            found.retain(|thread| thread.contains(&id));
        }
        let total = found.len();
        let found = found.into_iter().skip(skip as usize).take(limit.min(MOST_ROWS) as usize);
        let thread = |ids: Vec<ObservationId>| -> Result<ThreadAnswer, Refused> {
            let statements = db.statements(&ids)?.into_iter().map(|row| {
                let id = row.id;
                let statement = Statement::from(row);
                match of {
                    Some(_) => Ok(Statement { reason: why_not_any_more(db, id)?, ..statement }),
                    None => Ok(Statement { narrative: None, ..statement }),
                }
            });
            Ok(ThreadAnswer { statements: statements.collect::<Result<_, Refused>>()? })
        };
        let threads = found.map(thread).collect::<Result<_, Refused>>()?;
        Ok(ThreadsAnswer { threads, total })
    })
}

fn why_not_any_more(db: Reader<'_>, id: ObservationId) -> Result<Option<crate::answers::Text>, Refused> {
    let lineage = db.lineage(id)?;
    let ended = lineage.into_iter().find(|row| row.relation != Relation::Supersedes);
    Ok(ended.map(|row| LineageAnswer::from(row).reason))
}

fn observation_id(id: &str) -> Result<ObservationId, Refused> {
    match DocumentKey::parse(id) {
        Some(DocumentKey { kind: DocumentKind::Observation, row }) => Ok(ObservationId(row)),
        _ => {
            Err(Refused::new(ErrorKind::Invalid, format!("{id:?} is not an observation"), "For example 12."))
        }
    }
}

fn rows(db: Reader<'_>, project: Option<String>) -> Result<Option<Vec<ProjectRow>>, Refused> {
    let found = projects(db, &Filter { project, ..Filter::default() })?;
    Ok(found.map(|found| found.iter().map(|project| project.row).collect()))
}

fn browsed(db: Reader<'_>, of: &EntryFilter) -> Result<Browsed, Refused> {
    let unknown = |what: &str, hint: String| Refused::new(ErrorKind::Invalid, what.to_owned(), hint);
    let kind = |name: &String| {
        let known = DocumentKind::parse(name).filter(|kind| BROWSED.contains(kind));
        let names = BROWSED.map(DocumentKind::as_str).join(", ");
        known.ok_or_else(|| {
            unknown(&format!("There are no entries of the kind {name:?}"), format!("One of {names}."))
        })
    };
    let observation_type = |name: &String| {
        let names = ObservationType::ALL.map(|(_, name)| name).join(", ");
        ObservationType::parse(name)
            .ok_or_else(|| unknown(&format!("There is no type {name:?}"), format!("One of {names}.")))
    };
    let kinds = of.kinds.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
    Ok(Browsed {
        projects: rows(db, of.project.clone())?,
        kinds: if kinds.is_empty() { BROWSED.to_vec() } else { kinds },
        types: of.types.iter().map(observation_type).collect::<Result<_, _>>()?,
    })
}
