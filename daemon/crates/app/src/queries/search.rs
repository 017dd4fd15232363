//! `recall search`: searches the index, or the stored texts while the index is incomplete.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recall_protocol::query::{Explain, Filter, Search};
use recall_protocol::wire::ErrorKind;

use super::marks::Marks;
use super::meant::meant;
use super::show::DocumentContext;
use super::{Answer, Refused, limit, projects, read};
use crate::answers::found::{ExplainedSource, Explanation, ReadAs, SearchAnswer, SearchResult, Unknown};
use crate::answers::{Moment, PublicId};
use crate::clock;
use crate::context_lookup::ContextLookup;
use crate::documents::title_and_text;
use crate::index_handle::IndexState;
use crate::sentences::Patience;
use recall_domain::changed::Statements;
use recall_domain::document::{DocumentKey, Whose};
use recall_domain::ids::{ProjectKey, Timestamp};
use recall_domain::injection::choice::{Words, newer_first};
use recall_domain::observation::Voice;
use recall_domain::tokens::estimate;
use recall_search::edit_distance::nearest_name;
use recall_search::index::Index;
use recall_search::query::{self, Query};
use recall_search::request::Spelling;
use recall_search::request::{Scope, SearchRequest};
use recall_search::snippet::{matches, snippet};
use recall_store::{DocumentRow, Named, PlainSearch, ProjectInfo, Reader, StoreError};

const SNIPPET_CHARS: usize = 240;
/// How long the stored texts are searched, because an answer is promised within a second.
const PLAIN_WITHIN: Duration = Duration::from_millis(600);
/// The same, if a search of an index that is probably intact found nothing.
const DOUBTED_WITHIN: Duration = Duration::from_millis(100);

/// A result before it is rendered.
struct Unrendered {
    key: DocumentKey,
    at: Timestamp,
    score: f32,
    why: Option<Explanation>,
}

/// The result of a search.
struct Findings {
    found: Vec<Unrendered>,
    total: usize,
    read_as: Vec<ReadAs>,
}

pub fn search(lookup: &ContextLookup, request: Search) -> Answer<SearchAnswer> {
    let started = Instant::now();
    let Search { text, filter, explain, folder } = request;
    if let Some(mistake) = query::mistake(&text) {
        return Err(Refused::new(ErrorKind::Invalid, mistake.what(), mistake.hint()));
    }
    let query = query::parse(&text);
    let scope = read(lookup, |db| projects(db, &filter))?;
    let whose = read(lookup, |db| Ok(whose(db, &query)?))?;
    let asked = Asked { query: &query, whose: &whose, projects: scope.as_deref(), filter: &filter };
    let (findings, degraded) = find(lookup, &asked, explain)?;
    let Findings { found, total, mut read_as } = findings;
    // A replaced word is highlighted as its replacement.
    let mut sought = query.clone();
    sought.words.extend(read_as.iter().map(|word| word.read.clone()));
    let results = read(lookup, |db| {
        let mut results = Vec::new();
        let mut marks = Marks::new(lookup, db, folder.as_deref())?;
        for found in found {
            // The document was removed after it was indexed.
            let Some(row) = db.load_document(found.key)? else { continue };
            let (title, body) = title_and_text(&row, lookup.agents);
            let place = DocumentContext::of(db, &row)?;
            let (author, device) = row.author_and_device();
            let (author, device) = (author.cloned(), device.cloned());
            results.push(SearchResult {
                made_on: marks.place(place.project_row, found.key)?,
                id: PublicId(found.key),
                kind: found.key.kind.as_str().into(),
                said_by: voice_of(&row).map(|voice| voice.as_str().into()),
                author,
                device,
                observation_type: place.observation_type.map(Into::into),
                status: place.status.map(|status| status.as_str().into()),
                tokens: estimate(&title) + estimate(&body),
                title,
                snippet: snippet(&body, &sought, SNIPPET_CHARS),
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
    let results = newer_choices_first(results);
    for word in &mut read_as {
        word.read = as_written(&word.read, &results).unwrap_or_else(|| word.read.clone());
    }
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let config_errors = lookup.settings.report().problems.clone();
    let unknown = read(lookup, |db| {
        let mut unknown = unknown(db, &query)?;
        if results.is_empty() {
            unknown.extend(mistyped_files(db, &query)?);
        }
        Ok(unknown)
    })?;
    Ok(SearchAnswer { results, total, took_ms, degraded, config_errors, unknown, read_as })
}

/// Swaps two results if their titles differ in one word, or if the newer changes what the older says, so that the
/// newer comes first: "We use Postgres" before "We use SQLite". A machine's note does not overtake a person's.
fn newer_choices_first(results: Vec<SearchResult>) -> Vec<SearchResult> {
    let compared = results.into_iter().map(|one| ((Words::of(&one.title), Statements::of(&one.title)), one));
    let mut compared: Vec<_> = compared.collect();
    newer_first(&mut compared, |((first, earlier), older), ((second, later), newer)| {
        let of_one_place = older.project == newer.project && older.said_by == newer.said_by;
        let is_newer = of_one_place && newer.created_at.0 > older.created_at.0;
        is_newer && (second.differs_in_a_word(first) || earlier.are_changed_by(later))
    });
    compared.into_iter().map(|(_, one)| one).collect()
}

fn voice_of(row: &DocumentRow) -> Option<Voice> {
    match row {
        DocumentRow::Observation { row, .. } => Voice::of(row.kind, &row.origin),
        _ => None,
    }
}

/// Returns a term of the index as a result spells it, because a stem is not a word.
fn as_written(term: &str, results: &[SearchResult]) -> Option<String> {
    let query = Query::plain(term);
    let mut texts = results.iter().flat_map(|result| [&result.title, &result.snippet]);
    let written = texts.find_map(|text| text.get(matches(text, &query).into_iter().next()?))?;
    Some(written.to_lowercase())
}

/// Returns the sessions, agents and projects in the filters that the store does not know.
fn unknown(db: Reader<'_>, query: &Query) -> Result<Vec<Unknown>, StoreError> {
    let mut unknown = Vec::new();
    for filter in &query.filters {
        let (key, of, value, is_known) = match filter {
            query::Filter::Session(start) => {
                ("session", Named::Session, start, !db.find_sessions(start)?.is_empty())
            }
            query::Filter::Agent(name) => ("agent", Named::Agent, name, db.has_agent(name)?),
            query::Filter::Project(name) => {
                ("project", Named::Project, name, !projects_called(db, name)?.is_empty())
            }
            query::Filter::By(name) => {
                let authors = db.authors()?;
                if authors.whose(name).is_none() {
                    let known = authors.names();
                    let meant = nearest_name(name, known.iter().map(String::as_str)).map(str::to_owned);
                    unknown.push(Unknown { key: "author".into(), value: name.clone(), meant });
                }
                continue;
            }
            query::Filter::Type(_)
            | query::Filter::Kind(_)
            | query::Filter::File(_)
            | query::Filter::Since(_) => continue,
        };
        if !is_known {
            let meant = meant(db, of, value)?;
            unknown.push(Unknown { key: key.into(), value: value.clone(), meant });
        }
    }
    Ok(unknown)
}

/// Returns file filters that resemble a file of an observation.
fn mistyped_files(db: Reader<'_>, query: &Query) -> Result<Vec<Unknown>, StoreError> {
    let mut mistyped = Vec::new();
    for filter in &query.filters {
        let query::Filter::File(value) = filter else { continue };
        if let Some(name) = meant(db, Named::File, value)? {
            mistyped.push(Unknown { key: "file".into(), value: value.clone(), meant: Some(name) });
        }
    }
    Ok(mistyped)
}

/// Returns the documents of each author that a query names.
fn whose(db: Reader<'_>, query: &Query) -> Result<HashMap<String, Whose>, StoreError> {
    let mut names = query.filters.iter().chain(&query.without.filters).filter_map(|filter| match filter {
        query::Filter::By(name) => Some(name.clone()),
        _ => None,
    });
    let Some(first) = names.next() else { return Ok(HashMap::new()) };
    let authors = db.authors()?;
    let named = [first].into_iter().chain(names);
    Ok(named.filter_map(|name| authors.whose(&name).map(|whose| (name, whose))).collect())
}

/// Returns the projects with this identity or display name.
fn projects_called(db: Reader<'_>, name: &str) -> Result<Vec<ProjectInfo>, StoreError> {
    match db.find_project(&[ProjectKey(name.to_owned())])? {
        Some(project) => Ok(vec![project]),
        None => db.projects_named(name),
    }
}

/// A parsed search, with what its words mean here.
#[derive(Clone, Copy)]
struct Asked<'a> {
    query: &'a Query,
    /// The authors that it names.
    whose: &'a HashMap<String, Whose>,
    /// The projects to search; all if `None`.
    projects: Option<&'a [ProjectInfo]>,
    filter: &'a Filter,
}

/// Searches the index if it is usable, and otherwise the texts. Also returns whether the result may be incomplete.
fn find(lookup: &ContextLookup, asked: &Asked<'_>, explain: Explain) -> Answer<(Findings, bool)> {
    let state = lookup.index.state();
    let by_index = match &state {
        IndexState::Complete(index) => ask_index(lookup, index, asked, explain),
        // Damaged files may lack the words.
        IndexState::Unexamined(index) => {
            ask_index(lookup, index, asked, explain).filter(|findings| !findings.found.is_empty())
        }
        IndexState::Absent | IndexState::Filling(_) => None,
    };
    if let Some(findings) = by_index {
        return Ok((findings, false));
    }
    // An empty store has nothing to miss.
    let degraded = read(lookup, |db| Ok(!db.is_empty()?))?;
    let within = match state {
        IndexState::Unexamined(_) => DOUBTED_WITHIN,
        _ => PLAIN_WITHIN,
    };
    Ok((read_texts(lookup, asked, within)?, degraded))
}

/// Searches the index. `None` if the search failed, which was reported to the indexer.
fn ask_index(lookup: &ContextLookup, index: &Index, asked: &Asked<'_>, explain: Explain) -> Option<Findings> {
    let Asked { whose, projects, filter, .. } = *asked;
    let mut query = asked.query.clone();
    let scope = match projects {
        None => Scope::Everything,
        Some([only]) => Scope::Project(only.key.clone()),
        Some(several) => {
            query.filters.extend(several.iter().map(|each| query::Filter::Project(each.key.0.clone())));
            Scope::Everything
        }
    };
    let request = SearchRequest {
        scope,
        since: filter.since_ms.map(Timestamp),
        limit: limit(filter) as usize,
        zone: jiff::tz::TimeZone::system(),
        spelling: Spelling::Forgiving,
        whose: whose.clone(),
        ..SearchRequest::new(query, clock::now())
    };
    let hits = lookup.index.search(index, &request, Patience::Person)?;
    let found = hits.hits.into_iter().map(|hit| Unrendered {
        key: hit.key,
        at: hit.at,
        score: hit.score,
        why: (explain == Explain::Yes).then(|| Explanation {
            relevance: hit.relevance,
            factors: hit
                .named_factors()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect(),
            sources: hit.sources.iter().map(ExplainedSource::from).collect(),
            matched: hit.matched,
            missing: hit.missing,
        }),
    });
    let read_as =
        hits.read_as.into_iter().map(|word| ReadAs { typed: word.typed, read: word.read }).collect();
    Some(Findings { found: found.collect(), total: hits.total, read_as })
}

/// Searches the database directly.
fn read_texts(lookup: &ContextLookup, asked: &Asked<'_>, within: Duration) -> Result<Findings, Refused> {
    let search = read(lookup, |db| Ok(plain(asked, |name| projects_called(db, name))?))?;
    // An unknown project has no documents.
    let Some(search) = search else {
        return Ok(Findings { found: Vec::new(), total: 0, read_as: Vec::new() });
    };
    let limit = (limit(asked.filter) as usize).min(SearchRequest::MOST_HITS);
    let hits = read(lookup, |db| Ok(db.search_plainly(&search, limit, within)?))?;
    let found =
        hits.hits.iter().map(|hit| Unrendered { key: hit.key, at: hit.at, score: hit.share, why: None });
    Ok(Findings { found: found.collect(), total: hits.total, read_as: Vec::new() })
}

/// Builds the query for a direct search of texts. `None` if nothing can match.
fn plain(
    asked: &Asked<'_>,
    named: impl Fn(&str) -> Result<Vec<ProjectInfo>, StoreError>,
) -> Result<Option<PlainSearch>, StoreError> {
    let Asked { query, whose, projects: scope, filter } = *asked;
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
            // The compared texts contain the paths.
            query::Filter::File(path) => search.phrases.push(path.clone()),
            query::Filter::Project(name) => {
                asks_projects = true;
                asked_projects.extend(named(name)?.into_iter().map(|project| project.row));
            }
            query::Filter::Agent(agent) => search.agents.push(agent.clone()),
            query::Filter::Session(start) => search.sessions.push(start.clone()),
            query::Filter::By(name) => {
                search.whose.push(whose.get(name).cloned().unwrap_or_else(of_unknown_author))
            }
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

/// Returns the documents of an unknown author: none.
fn of_unknown_author() -> Whose {
    Whose::These(Arc::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_domain::ids::ProjectRow;

    fn project(row: i64) -> ProjectInfo {
        ProjectInfo { row: ProjectRow(row), key: ProjectKey(format!("path:/{row}")), name: row.to_string() }
    }

    fn sought(
        query: &Query,
        projects: Option<&[ProjectInfo]>,
        named: impl Fn(&str) -> Result<Vec<ProjectInfo>, StoreError>,
    ) -> Option<PlainSearch> {
        let (whose, filter) = (HashMap::new(), Filter::default());
        plain(&Asked { query, whose: &whose, projects, filter: &filter }, named).unwrap()
    }

    #[track_caller]
    fn check(text: &str, scope: Option<&[i64]>, expected: Option<&[i64]>) {
        let scope: Option<Vec<ProjectInfo>> =
            scope.map(|rows| rows.iter().map(|row| project(*row)).collect());
        let named = |name: &str| Ok(name.parse().map(project).into_iter().collect());
        let search = sought(&query::parse(text), scope.as_deref(), named);
        let rows = search.map(|search| search.projects.iter().map(|row| row.0).collect::<Vec<_>>());
        assert_eq!(rows.as_deref(), expected, "for {text:?}");
    }

    #[test]
    fn project_filters_narrow_a_search_and_never_widen_it() {
        check("x", None, Some(&[]));
        check("x", Some(&[1, 2]), Some(&[1, 2]));
        check("x project:1", None, Some(&[1]));
        check("x project:1 project:2", None, Some(&[1, 2]));
        check("x project:1", Some(&[1, 2]), Some(&[1]));
        check("x project:3", Some(&[1, 2]), None);
        check("x project:unknown", None, None);
    }

    #[test]
    fn an_unknown_author_has_no_documents() {
        let query = query::parse("x by:Eve");
        let search = sought(&query, None, |_| Ok(Vec::new()));
        assert_eq!(search.unwrap().whose, [of_unknown_author()]);
    }

    #[test]
    fn words_phrases_and_filters_of_a_query_are_kept() {
        let query = query::parse(
            "slow \"login page\" -oauth type:decision kind:prompt file:a/b.rs session:ab since:2d",
        );
        let search = sought(&query, None, |_| Ok(Vec::new())).unwrap();
        assert_eq!(search.wanted, ["slow"]);
        assert_eq!(search.phrases, ["login page", "a/b.rs"]);
        assert_eq!(search.unwanted, ["oauth"]);
        assert_eq!((search.types.len(), search.kinds.len(), search.sessions.len()), (1, 1, 1));
        assert!(search.since.is_some());
    }
}
