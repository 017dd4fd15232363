//! Searches without the index: reads and compares texts, newest first, for a limited time.
//!
//! Used while the index is damaged or being rebuilt. It matches only substrings, without word forms and term weights.
//! It searches observations, both kinds of summaries, prompts and responses, but not activities, because there are too
//! many.

use std::time::{Duration, Instant};

use regex::{Regex, RegexBuilder};
use rusqlite::Row;

use crate::database::row::next;
use crate::{Reader, SqliteError, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind, Whose};
use recall_domain::ids::{ProjectRow, Timestamp};
use recall_domain::observation::ObservationType;

/// The kinds to search. They share the time.
const KINDS: [DocumentKind; 6] = [
    DocumentKind::Observation,
    DocumentKind::Summary,
    DocumentKind::Compaction,
    DocumentKind::Prompt,
    DocumentKind::Response,
    DocumentKind::ReceivedText,
];

/// The minimum number of texts of each kind that are compared, however slow the machine is.
const LEAST_TEXTS: usize = 500;

/// The conditions of a search. An empty query matches everything, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlainSearch {
    /// Words and phrases, of which one must match. More matches rank higher.
    pub wanted: Vec<String>,
    /// Required words.
    pub phrases: Vec<String>,
    pub unwanted: Vec<String>,
    /// Empty for all kinds.
    pub kinds: Vec<DocumentKind>,
    /// Empty for all types, including none.
    pub types: Vec<ObservationType>,
    /// Empty for all projects.
    pub projects: Vec<ProjectRow>,
    /// Prefixes of session ids; empty for all sessions.
    pub sessions: Vec<String>,
    /// Names of agents; empty for all agents.
    pub agents: Vec<String>,
    pub since: Option<Timestamp>,
    /// Empty for all authors.
    pub whose: Vec<Whose>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlainHit {
    pub key: DocumentKey,
    pub at: Timestamp,
    /// The share of the wanted words that the text contains, from 0 to 1.
    pub share: f32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlainHits {
    /// Sorted by share of words, then newest first.
    pub hits: Vec<PlainHit>,
    /// The number of hits found in the time available.
    pub total: usize,
}

impl Reader<'_> {
    /// Returns at most `limit` hits and stops after about `within`.
    pub fn search_plainly(
        self,
        search: &PlainSearch,
        limit: usize,
        within: Duration,
    ) -> Result<PlainHits, StoreError> {
        let matcher = Matcher::new(search);
        let mut hits = Vec::new();
        let searched = KINDS.iter().filter(|kind| search.kinds.is_empty() || search.kinds.contains(kind));
        for kind in searched {
            // Only observations have a type.
            if *kind != DocumentKind::Observation && !search.types.is_empty() {
                continue;
            }
            let deadline = Instant::now() + within / KINDS.len() as u32;
            let since = [search.since.map_or(i64::MIN, |since| since.0)];
            let mut statement = self.0.prepare_cached(sql(*kind)).map_err(SqliteError)?;
            let rows = statement.query_map(since, PlainRow::read).map_err(SqliteError)?;
            for (compared, row) in rows.enumerate() {
                if compared >= LEAST_TEXTS && Instant::now() >= deadline {
                    break;
                }
                let candidate = row.map_err(SqliteError)?;
                let key = DocumentKey { kind: *kind, row: candidate.row };
                let is_theirs = search.whose.is_empty() || search.whose.iter().any(|whose| whose.has(key));
                if !candidate.fits(search) || !is_theirs {
                    continue;
                }
                if let Some(share) = matcher.share(&candidate.text) {
                    hits.push(PlainHit { key, at: candidate.at, share });
                }
            }
        }
        let total = hits.len();
        hits.sort_by(|one, other| {
            other.share.total_cmp(&one.share).then(other.at.cmp(&one.at)).then(one.key.cmp(&other.key))
        });
        hits.truncate(limit);
        Ok(PlainHits { hits, total })
    }
}

/// Selects rows of one kind since a time, newest first: id, time, project, agent, session, type, text.
fn sql(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Summary => {
            "SELECT m.id, m.created_at, m.project, s.agent, s.session_id, NULL,
                    concat_ws(char(10), m.title, m.request, m.investigated, m.learned, m.completed, m.next_steps, m.notes)
             FROM session_summaries m LEFT JOIN sessions s ON s.id = m.session
             WHERE m.created_at >= ?1 ORDER BY m.created_at DESC, m.id DESC"
        }
        DocumentKind::Prompt => {
            "SELECT b.id, b.opened_at, s.project, s.agent, s.session_id, NULL, b.prompt
             FROM prompt_batches b JOIN sessions s ON s.id = b.session
             WHERE b.prompt IS NOT NULL AND b.opened_at >= ?1 ORDER BY b.id DESC"
        }
        DocumentKind::Response => {
            "SELECT b.id, b.opened_at, s.project, s.agent, s.session_id, NULL, b.response
             FROM prompt_batches b JOIN sessions s ON s.id = b.session
             WHERE b.response IS NOT NULL AND b.opened_at >= ?1 ORDER BY b.id DESC"
        }
        DocumentKind::Plan => {
            "SELECT p.id, p.updated_at, ifnull(s.project, h.project), s.agent, s.session_id, NULL, p.text
             FROM plans p LEFT JOIN sessions s ON s.id = p.session LEFT JOIN shares h ON h.id = p.share
             WHERE p.updated_at >= ?1
             ORDER BY p.updated_at DESC, p.id DESC"
        }
        DocumentKind::Compaction => {
            "SELECT c.id, c.ended_at, s.project, s.agent, s.session_id, NULL, c.summary
             FROM compactions c JOIN sessions s ON s.id = c.session
             WHERE c.summary IS NOT NULL AND c.ended_at >= ?1 ORDER BY c.ended_at DESC, c.id DESC"
        }
        DocumentKind::ReceivedText => {
            "SELECT t.id, t.created_at, h.project, NULL, NULL, NULL, t.text
             FROM said_elsewhere t JOIN shares h ON h.id = t.share
             WHERE t.created_at >= ?1 ORDER BY t.created_at DESC, t.id DESC"
        }
        DocumentKind::Observation | DocumentKind::Activity => {
            "SELECT o.id, o.created_at, o.project, s.agent, s.session_id, o.type,
                    concat_ws(char(10), o.title, o.subtitle, o.narrative, o.facts, o.concepts, o.files_modified, o.files_read)
             FROM observations o LEFT JOIN sessions s ON s.id = o.session
             WHERE o.created_at >= ?1 ORDER BY o.created_at DESC, o.id DESC"
        }
    }
}

/// A row of [`sql`], in the order of its columns.
struct PlainRow {
    row: i64,
    at: Timestamp,
    project: ProjectRow,
    agent: Option<String>,
    session: Option<String>,
    observation_type: Option<ObservationType>,
    text: String,
}

impl PlainRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let mut at = 0;
        Ok(Self {
            row: next(row, &mut at)?,
            at: next(row, &mut at)?,
            project: next(row, &mut at)?,
            agent: next(row, &mut at)?,
            session: next(row, &mut at)?,
            observation_type: next(row, &mut at)?,
            text: next(row, &mut at)?,
        })
    }

    fn fits(&self, search: &PlainSearch) -> bool {
        let agent = self.agent.as_deref().unwrap_or_default();
        let session = self.session.as_deref().unwrap_or_default();
        (search.projects.is_empty() || search.projects.contains(&self.project))
            && (search.agents.is_empty()
                || search.agents.iter().any(|asked| asked.eq_ignore_ascii_case(agent)))
            && (search.sessions.is_empty()
                || search.sessions.iter().any(|start| session.starts_with(start.as_str())))
            && (search.types.is_empty()
                || self.observation_type.is_some_and(|one| search.types.contains(&one)))
    }
}

struct Matcher {
    wanted: Vec<Regex>,
    phrases: Vec<Regex>,
    unwanted: Vec<Regex>,
}

impl Matcher {
    fn new(search: &PlainSearch) -> Self {
        // Escaped text is always a valid regex. A pattern too long for the engine matches nothing.
        let each = |texts: &[String]| -> Vec<Regex> {
            let build =
                |text: &String| RegexBuilder::new(&regex::escape(text)).case_insensitive(true).build().ok();
            texts.iter().filter_map(build).collect()
        };
        Self {
            wanted: each(&search.wanted),
            phrases: each(&search.phrases),
            unwanted: each(&search.unwanted),
        }
    }

    /// Returns the share of matching words; `None` if the row does not match.
    fn share(&self, text: &str) -> Option<f32> {
        if !self.phrases.iter().all(|phrase| phrase.is_match(text))
            || self.unwanted.iter().any(|unwanted| unwanted.is_match(text))
        {
            return None;
        }
        if self.wanted.is_empty() {
            return Some(1.0);
        }
        let found = self.wanted.iter().filter(|word| word.is_match(text)).count();
        let is_hit = found > 0 || !self.phrases.is_empty();
        is_hit.then(|| found as f32 / self.wanted.len() as f32)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::empty_database;

    const LONG: Duration = Duration::from_secs(60);

    fn memory() -> (tempfile::TempDir, Connection) {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        db.execute_batch(
            "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0), (2, 'path:/blog', 'blog', 0);
             INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
             VALUES (1, 'claude-code', 'ab12', 1, 'active', 1, 0, 0), (2, 'codex', 'cd34', 2, 'active', 1, 0, 0);
             INSERT INTO observations (uuid, session, project, type, title, narrative, facts, concepts,
             files_read,
                                       files_modified, importance, evidence, origin, created_at)
             VALUES ('u1', 1, 1, 'bugfix', 'Login was slow', 'Bcrypt ran on the request thread.', '[]', '[]',
                     '[]', '[\"src/login.rs\"]', 5, '[]', 'x', 10),
                    ('u2', 2, 2, 'decision', 'Login with passkeys', 'Über alles decided: 100% of logins.', '[]',
                     '[]', '[]', '[]', 5, '[]', 'x', 20);
             INSERT INTO session_summaries (session, project, title, request, investigated, learned,
             completed,
                                            next_steps, notes, origin, created_at)
             VALUES (1, 1, 'Made login fast', '', '', '', '', 'measure bcrypt again', '', 'x', 30);",
        )
        .unwrap();
        let long = format!("{} the needle in the login haystack", "hay ".repeat(4000));
        db.execute(
            "INSERT INTO prompt_batches (session, seq, prompt_number, source, status, prompt, response,
                     opened_at)
             VALUES (1, 1, 1, 'user', 'closed', 'why is the login slow?', ?1, 5)",
            [crate::database::text::Packed(&long)],
        )
        .unwrap();
        (home, db)
    }

    fn words(text: &str) -> PlainSearch {
        let wanted = text.split_whitespace().map(str::to_owned).collect();
        PlainSearch { wanted, ..PlainSearch::default() }
    }

    #[track_caller]
    fn check(search: &PlainSearch, expected: &str) {
        let (_home, db) = memory();
        let found = Reader(&db).search_plainly(search, 10, LONG).unwrap();
        let keys: Vec<String> = found.hits.iter().map(|hit| hit.key.to_string()).collect();
        assert_eq!(keys.join(" "), expected, "for {search:?}");
        assert_eq!(found.total, keys.len());
    }

    #[test]
    fn results_are_ranked_by_matching_words_and_then_newest_first() {
        check(&words("LOGIN"), "s1 2 1 p1 r1");
        check(&words("login slow"), "1 p1 s1 2 r1");
        check(&words("needle"), "r1");
        check(&words("über"), "2");
        check(&words("src/login.rs"), "1");
        check(&words("100% _og"), "2");
        check(&words("(a+)+$ nowhere"), "");
        check(&words(""), "s1 2 1 p1 r1");
    }

    #[test]
    fn phrases_negations_and_filters_limit_the_results() {
        let second = DocumentKey { kind: DocumentKind::Observation, row: 2 };
        let these = || std::sync::Arc::new([second].into());
        check(&PlainSearch { whose: vec![Whose::These(these())], ..words("login") }, "2");
        check(&PlainSearch { whose: vec![Whose::AllBut(these())], ..words("login") }, "s1 1 p1 r1");
        let phrase = |text: &str| PlainSearch { phrases: vec![text.to_owned()], ..words("login") };
        check(&phrase("request thread"), "1");
        check(&phrase("thread request"), "");
        check(&PlainSearch { unwanted: vec!["bcrypt".to_owned()], ..words("login") }, "2 p1 r1");
        check(&PlainSearch { kinds: vec![DocumentKind::Prompt], ..words("login") }, "p1");
        check(&PlainSearch { types: vec![ObservationType::Decision], ..words("login") }, "2");
        check(&PlainSearch { projects: vec![ProjectRow(2)], ..words("login") }, "2");
        check(&PlainSearch { sessions: vec!["cd".to_owned()], ..words("login") }, "2");
        check(&PlainSearch { agents: vec!["Codex".to_owned()], ..words("login") }, "2");
        check(&PlainSearch { since: Some(Timestamp(20)), ..words("login") }, "s1 2");
    }

    #[test]
    fn the_limit_truncates_the_results_but_not_the_total() {
        let (_home, db) = memory();
        let found = Reader(&db).search_plainly(&words("login"), 2, LONG).unwrap();
        assert_eq!((found.hits.len(), found.total), (2, 5));
    }

    #[test]
    fn a_search_out_of_time_still_compares_the_newest_texts() {
        let (_home, db) = memory();
        let count = LEAST_TEXTS + 10;
        for row in 0..count {
            db.execute(
                "INSERT INTO observations (uuid, project, type, title, narrative, facts, concepts, files_read,
                                           files_modified, importance, evidence, origin, created_at)
                 VALUES ('z' || ?1, 1, 'discovery', 'zanzibar', '', '[]', '[]', '[]', '[]', 5, '[]', 'x', 100 + ?1)",
                [row as i64],
            )
            .unwrap();
        }
        let found = |within| Reader(&db).search_plainly(&words("zanzibar"), 2, within).unwrap().total;
        assert_eq!((found(Duration::ZERO), found(LONG)), (LEAST_TEXTS, count));
    }
}
