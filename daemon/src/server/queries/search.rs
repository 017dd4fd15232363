//! `recall search`: asks the index, and the texts themselves while there is no index to rely on.

use std::time::{Duration, Instant};

use recall_protocol::query::{Explain, Filter, Search};

use super::marks::Marks;
use super::show::DocumentContext;
use super::{Answer, Refused, limit, projects, read};
use crate::actors::services::Services;
use crate::app::clock;
use crate::app::documents::title_and_text;
use crate::app::index_handle::IndexState;
use crate::memory::document::DocumentKey;
use crate::memory::ids::{ProjectKey, Timestamp};
use crate::search::index::Index;
use crate::search::query::{self, Query};
use crate::search::request::{Request, Scope};
use crate::search::snippet::snippet;
use crate::server::answers::found::{Explanation, SearchAnswer, SearchResult};
use crate::server::answers::{Moment, PublicId};
use crate::store::{self, PlainSearch, ProjectInfo, StoreError};

const SNIPPET_CHARS: usize = 240;
/// How long the texts themselves are read: the answer is promised within a second.
const PLAIN_WITHIN: Duration = Duration::from_millis(600);

/// What was found before it is shown.
struct Found {
    key: DocumentKey,
    at: Timestamp,
    score: f32,
    why: Option<Explanation>,
}

/// What a search came to.
struct Findings {
    found: Vec<Found>,
    total: usize,
}

pub(super) fn search(services: &Services, request: Search) -> Answer<SearchAnswer> {
    let started = Instant::now();
    let Search { text, filter, explain, folder } = request;
    let query = query::parse(&text);
    let scope = read(services, |db| projects(db, &filter))?;
    let by_index = match services.context_lookup.index.state() {
        IndexState::Complete(index) => {
            ask_index(services, &index, &query, scope.as_deref(), &filter, explain)
        }
        IndexState::Absent | IndexState::Filling(_) => None,
    };
    let degraded = by_index.is_none();
    let findings = match by_index {
        Some(findings) => findings,
        None => read_texts(services, &query, scope.as_deref(), &filter)?,
    };
    let results = read(services, |db| {
        let mut results = Vec::new();
        let mut marks = Marks::new(services, db, folder.as_deref())?;
        for found in findings.found {
            // Gone since it was indexed: not found.
            let Some(row) = store::load_document(db, found.key)? else { continue };
            let (title, body) = title_and_text(&row);
            let place = DocumentContext::of(db, &row)?;
            results.push(SearchResult {
                made_on: marks.place(place.project_row, found.key)?,
                id: PublicId(found.key),
                kind: found.key.kind.as_str().into(),
                observation_type: place.observation_type.map(Into::into),
                status: place.status.map(Into::into),
                title,
                snippet: snippet(&body, &query, SNIPPET_CHARS),
                project: place.project,
                agent: place.agent,
                session_id: place.session,
                prompt_number: place.prompt_number,
                created_at: Moment(found.at),
                score: found.score,
                why: found.why,
            });
        }
        Ok(results)
    })?;
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let config_errors = services.ingest.settings.report().problems.clone();
    Ok(SearchAnswer { results, total: findings.total, took_ms, degraded, config_errors })
}

/// `None`: the index has failed, and the indexer knows.
fn ask_index(
    services: &Services,
    index: &Index,
    query: &Query,
    projects: Option<&[ProjectInfo]>,
    filter: &Filter,
    explain: Explain,
) -> Option<Findings> {
    let mut query = query.clone();
    let scope = match projects {
        None => Scope::Everything,
        Some([only]) => Scope::Project(only.key.clone()),
        Some(several) => {
            query.filters.extend(several.iter().map(|each| query::Filter::Project(each.key.0.clone())));
            Scope::Everything
        }
    };
    let request = Request {
        scope,
        since: filter.since_ms.map(Timestamp),
        limit: limit(filter) as usize,
        zone: jiff::tz::TimeZone::system(),
        ..Request::new(query, clock::now())
    };
    let hits = index
        .search(&request)
        .inspect_err(|error| {
            tracing::error!(%error, "a search failed");
            services.context_lookup.suspect_index();
        })
        .ok()?;
    let found = hits.hits.into_iter().map(|hit| Found {
        key: hit.key,
        at: hit.at,
        score: hit.score,
        why: (explain == Explain::Yes).then(|| Explanation {
            relevance: hit.relevance,
            factors: hit
                .factors
                .named()
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).into()))
                .collect(),
            matched: hit.matched,
        }),
    });
    Some(Findings { found: found.collect(), total: hits.total })
}

/// Searches the database itself.
fn read_texts(
    services: &Services,
    query: &Query,
    scope: Option<&[ProjectInfo]>,
    filter: &Filter,
) -> Result<Findings, Refused> {
    let search = read(services, |db| {
        let named = |name: &str| -> Result<Vec<ProjectInfo>, StoreError> {
            match store::find_project(db, &[ProjectKey(name.to_owned())])? {
                Some(project) => Ok(vec![project]),
                None => store::projects_named(db, name),
            }
        };
        Ok(plain(query, scope, filter, named)?)
    })?;
    // A project that nobody knows has nothing.
    let Some(search) = search else { return Ok(Findings { found: Vec::new(), total: 0 }) };
    let limit = (limit(filter) as usize).min(Request::MOST_HITS);
    let hits = read(services, |db| Ok(store::search_plainly(db, &search, limit, PLAIN_WITHIN)?))?;
    let found = hits.hits.iter().map(|hit| Found { key: hit.key, at: hit.at, score: hit.share, why: None });
    Ok(Findings { found: found.collect(), total: hits.total })
}

/// The query as far as comparing texts can follow it. `None`: nothing can fit.
fn plain(
    query: &Query,
    scope: Option<&[ProjectInfo]>,
    filter: &Filter,
    named: impl Fn(&str) -> Result<Vec<ProjectInfo>, StoreError>,
) -> Result<Option<PlainSearch>, StoreError> {
    let mut search = PlainSearch {
        wanted: query.words.clone(),
        phrases: query.phrases.clone(),
        unwanted: query.without.texts.clone(),
        projects: scope.unwrap_or_default().iter().map(|project| project.row).collect(),
        since: filter.since_ms.map(Timestamp),
        ..PlainSearch::default()
    };
    let mut asked_projects = Vec::new();
    let mut asks_projects = false;
    for condition in &query.filters {
        match condition {
            query::Filter::Type(one) => search.types.push(*one),
            query::Filter::Kind(kind) => search.kinds.push(*kind),
            // Paths stand in the texts that are compared.
            query::Filter::File(path) => search.phrases.push(path.clone()),
            query::Filter::Project(name) => {
                asks_projects = true;
                asked_projects.extend(named(name)?.into_iter().map(|project| project.row));
            }
            query::Filter::Agent(agent) => search.agents.push(agent.clone()),
            query::Filter::Session(start) => search.sessions.push(start.clone()),
            query::Filter::Since(since) => {
                let asked = since.resolve(clock::now(), &jiff::tz::TimeZone::system());
                search.since = search.since.max(asked);
            }
        }
    }
    if asks_projects {
        asked_projects.retain(|row| scope.is_none() || search.projects.contains(row));
        search.projects = asked_projects;
    }
    let nothing_fits = search.projects.is_empty() && (asks_projects || scope.is_some());
    Ok((!nothing_fits).then_some(search))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ids::ProjectRow;

    fn project(row: i64) -> ProjectInfo {
        ProjectInfo { row: ProjectRow(row), key: ProjectKey(format!("path:/{row}")), name: row.to_string() }
    }

    #[track_caller]
    fn check(text: &str, scope: Option<&[i64]>, expected: Option<&[i64]>) {
        let scope: Option<Vec<ProjectInfo>> =
            scope.map(|rows| rows.iter().map(|row| project(*row)).collect());
        let named = |name: &str| Ok(name.parse().map(project).into_iter().collect());
        let search = plain(&query::parse(text), scope.as_deref(), &Filter::default(), named).unwrap();
        let rows = search.map(|search| search.projects.iter().map(|row| row.0).collect::<Vec<_>>());
        assert_eq!(rows.as_deref(), expected, "for {text:?}");
    }

    #[test]
    fn projects_narrow_and_never_widen() {
        check("x", None, Some(&[]));
        check("x", Some(&[1, 2]), Some(&[1, 2]));
        check("x project:1", None, Some(&[1]));
        check("x project:1 project:2", None, Some(&[1, 2]));
        check("x project:1", Some(&[1, 2]), Some(&[1]));
        check("x project:3", Some(&[1, 2]), None);
        check("x project:unknown", None, None);
    }

    #[test]
    fn the_rest_of_a_query_is_kept() {
        let query = query::parse(
            "slow \"login page\" -oauth type:decision kind:prompt file:a/b.rs session:ab since:2d",
        );
        let search = plain(&query, None, &Filter::default(), |_| Ok(Vec::new())).unwrap().unwrap();
        assert_eq!(search.wanted, ["slow"]);
        assert_eq!(search.phrases, ["login page", "a/b.rs"]);
        assert_eq!(search.unwanted, ["oauth"]);
        assert_eq!((search.types.len(), search.kinds.len(), search.sessions.len()), (1, 1, 1));
        assert!(search.since.is_some());
    }
}
