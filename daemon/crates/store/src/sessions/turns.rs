//! Reads sessions for compressors and for people.

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::questions::reading::{ObservationRow, SummaryRow};
use crate::{ProjectInfo, Reader, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::event::ConversationPlace;
use recall_domain::ids::{
    ActivityId, AgentName, BatchId, BranchName, CommitId, EventId, InjectionId, ProjectRow, SessionId,
    SessionKey, SessionRow, Timestamp,
};
use recall_domain::material::BatchSource;
use recall_domain::session::{ActivityKind, BatchState, SessionStatus};

record! {
/// A session as shown to people.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo from "sessions s JOIN projects p ON p.id = s.project" {
    pub row: SessionRow = "s.id",
    pub agent: AgentName = "s.agent",
    pub id: SessionId = "s.session_id",
    pub project: ProjectInfo = "p.id, p.key, p.name",
    pub root: Option<String> = "s.root",
    pub status: SessionStatus = "s.status",
    pub reason: Option<String> = "s.reason",
    pub title: Option<String> = "s.title",
    pub prompts: u32 = "s.prompts",
    pub activities: u32 = "s.activities",
    pub started_at: Timestamp = "s.started_at",
    pub last_event_at: Timestamp = "s.last_event_at",
    pub ended_at: Option<Timestamp> = "s.ended_at",
    /// Since when the daemon has been away; cleared by the session's next event.
    pub suspended_at: Option<Timestamp> = "s.suspended_at",
    /// The session that was cleared for this one.
    pub resumed_from: Option<SessionId> = "s.resumed_from",
    /// The host's own counts, see [`HostFacts`](recall_domain::event::HostFacts).
    pub host_messages: Option<i64> = "s.host_messages",
    pub host_compacted: Option<i64> = "s.host_compacted",
}
}

impl Reader<'_> {
    /// Returns the agents that have reported since a time, each with its latest event and the folder of that session.
    /// Imported sessions do not count.
    ///
    /// # Errors
    /// Fails when the database refuses.
    pub fn reporting_agents(
        self,
        since: Timestamp,
    ) -> Result<Vec<(AgentName, Timestamp, Option<String>)>, StoreError> {
        self.0.all(
            "SELECT agent, max(last_event_at), root FROM sessions
             WHERE last_event_at > ?1 AND ifnull(reason, '') <> 'import' GROUP BY agent ORDER BY 2 DESC",
            params![since],
        )
    }

    /// Returns the session that continues when a message reaches an agent's program: that of the named conversation,
    /// or else of the place in a channel.
    ///
    /// # Errors
    /// Fails when the database refuses.
    pub fn session_in_place(
        self,
        agent: &AgentName,
        place: &ConversationPlace,
    ) -> Result<Option<SessionId>, StoreError> {
        let find = |condition: &str, [first, second, third]: [Option<&str>; 3]| {
            let sql = format!(
                "SELECT session_id FROM sessions WHERE agent = ?1 AND status <> 'completed' AND {condition}
             ORDER BY last_event_at DESC, id DESC LIMIT 1"
            );
            self.0.first::<SessionId>(&sql, params![agent.as_str(), first, second, third])
        };
        if let Some(key) = place.session_key.as_deref() {
            let is_key =
                "(session_id = ?2 OR (place IS NOT NULL AND json_extract(place, '$.session_key') = ?2))
                      AND ?3 IS NULL AND ?4 IS NULL";
            return find(is_key, [Some(key), None, None]);
        }
        let Some(conversation) = place.conversation_id.as_deref() else { return Ok(None) };
        // A field that one side lacks is no contradiction.
        let is_there = "place IS NOT NULL AND json_extract(place, '$.conversation_id') = ?2
                    AND ifnull(json_extract(place, '$.channel_id') = ?3, 1)
                    AND ifnull(json_extract(place, '$.account_id') = ?4, 1)";
        find(is_there, [Some(conversation), place.channel_id.as_deref(), place.account_id.as_deref()])
    }

    /// # Errors
    /// Fails when there is no such session or the database refuses.
    pub fn session_info(self, session: SessionRow) -> Result<SessionInfo, StoreError> {
        self.0.one(&format!("{} WHERE s.id = ?1", SessionInfo::SELECT), params![session])
    }

    /// Returns the sessions with this id, or else those whose id begins with it; latest first, at most three.
    pub fn find_sessions(self, id: &str) -> Result<Vec<SessionInfo>, StoreError> {
        let find = |condition: &str| {
            let sql = format!(
                "{} WHERE {condition} ORDER BY s.last_event_at DESC, s.id DESC LIMIT 3",
                SessionInfo::SELECT
            );
            self.0.all::<SessionInfo>(&sql, [id])
        };
        let found = find("s.session_id = ?1")?;
        if !found.is_empty() || id.is_empty() {
            return Ok(found);
        }
        find("substr(s.session_id, 1, length(?1)) = ?1")
    }

    /// Whether an agent of this name had a session.
    ///
    /// # Errors
    /// Fails when the database refuses.
    pub fn has_agent(self, name: &str) -> Result<bool, StoreError> {
        self.0.one("SELECT EXISTS (SELECT 1 FROM sessions WHERE agent = ?1)", [name])
    }

    /// Returns the sessions of some projects or of all, latest first.
    pub fn session_list(
        self,
        project: Option<&[ProjectRow]>,
        since: Option<Timestamp>,
        skip: u32,
        limit: u32,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let sql = format!(
            "{} WHERE {LISTED} ORDER BY s.last_event_at DESC, s.id DESC LIMIT ?3 OFFSET ?4",
            SessionInfo::SELECT
        );
        let project = project.map(serde_json::to_string).transpose()?;
        self.0.all(&sql, params![project, since.map_or(i64::MIN, |since| since.0), limit, skip])
    }

    /// Whether an agent worked a short while ago, or still works.
    pub fn has_open_session(self) -> Result<bool, StoreError> {
        self.0.one("SELECT EXISTS (SELECT 1 FROM sessions WHERE status IN ('initialized', 'active'))", [])
    }

    /// The number of such sessions.
    pub fn session_count(
        self,
        project: Option<&[ProjectRow]>,
        since: Option<Timestamp>,
    ) -> Result<u64, StoreError> {
        let project = project.map(serde_json::to_string).transpose()?;
        let sql = format!("SELECT count(*) FROM sessions s WHERE {LISTED}");
        self.0.one(&sql, params![project, since.map_or(i64::MIN, |since| since.0)])
    }

    /// Whether an active session only waits for its first summary: its last turn has ended, and a job has no result
    /// yet.
    pub fn is_summarizing(self, session: SessionRow) -> Result<bool, StoreError> {
        let found: Option<Option<bool>> = self.0.first(
            "SELECT s.status = 'active'
            AND (SELECT status = 'closed' AND close_reason = 'stop' FROM prompt_batches
                 WHERE session = s.id ORDER BY prompt_number DESC, seq DESC LIMIT 1)
            AND EXISTS (SELECT 1 FROM jobs
                        WHERE session = s.id AND status IN ('pending', 'running') AND NOT stood_in)
         FROM sessions s WHERE s.id = ?1",
            [session.0],
        )?;
        Ok(found.flatten().unwrap_or(false))
    }

    /// # Errors
    /// Fails when there is no such batch or the database refuses.
    pub fn batch_row(self, batch: BatchId) -> Result<StoredBatch, StoreError> {
        let db = self.0;
        let batch: BatchRow = db.one(&format!("{} WHERE id = ?1", BatchRow::SELECT), params![batch])?;
        let previous_response = db.first(
            "SELECT response FROM prompt_batches WHERE session = ?1 AND prompt_number < ?2 AND response IS
                 NOT NULL
         ORDER BY prompt_number DESC LIMIT 1",
            params![batch.session, batch.prompt_number],
        )?;
        Ok(StoredBatch { session: self.session_info(batch.session)?, previous_response, batch })
    }

    /// A session's batches in order.
    pub fn batches(self, session: SessionRow) -> Result<Vec<BatchRow>, StoreError> {
        self.0.all(
            &format!("{} WHERE session = ?1 ORDER BY prompt_number, seq", BatchRow::SELECT),
            params![session],
        )
    }

    /// Returns a session's activities in chronological order.
    pub fn session_activities(
        self,
        session: SessionRow,
        batch: Option<BatchId>,
    ) -> Result<Vec<ActivityRow>, StoreError> {
        let (column, id) = batch.map_or(("session", session.0), |batch| ("batch", batch.0));
        // Events of one boot are ordered by the time since boot, whatever the wall clock did; boots are ordered by
        // their earliest wall time.
        let sql = format!(
            "{} LEFT JOIN
            (SELECT event_id AS delivered, boot_id, boot_ns, captured_at FROM deliveries)
            ON delivered = ifnull(part_of, event_id)
         WHERE {column} = ?1 ORDER BY min(captured_at) OVER (PARTITION BY boot_id), boot_ns, at, id",
            ActivityRow::SELECT
        );
        self.0.all(&sql, [id])
    }

    /// Returns the tools of a session's latest calls with their inputs, latest first.
    pub fn latest_calls(self, session: SessionRow, limit: u32) -> Result<Vec<(String, String)>, StoreError> {
        self.0.all(
            "SELECT tool_name, input FROM activities
         WHERE session = ?1 AND kind = 'tool' AND failed = 0 AND input IS NOT NULL
         ORDER BY at DESC, id DESC LIMIT ?2",
            params![session, limit],
        )
    }

    /// Returns the prompts that a person typed in a session, with their times, in order.
    pub fn prompts_of_persons(self, session: SessionRow) -> Result<Vec<(Timestamp, String)>, StoreError> {
        self.0.all(
            "SELECT opened_at, prompt FROM prompt_batches
         WHERE session = ?1 AND prompt IS NOT NULL AND source IN ('user', 'queued') ORDER BY opened_at, seq",
            params![session],
        )
    }

    /// The user's first and last prompt in a session.
    pub fn first_and_last_prompt(
        self,
        session: SessionRow,
    ) -> Result<(Option<String>, Option<String>), StoreError> {
        let ask = |direction: &str| {
            let sql = format!(
                "SELECT prompt FROM prompt_batches
             WHERE session = ?1 AND prompt IS NOT NULL AND source IN ('user', 'plan', 'queued')
             ORDER BY prompt_number {direction} LIMIT 1"
            );
            self.0.first(&sql, params![session])
        };
        Ok((ask("ASC")?, ask("DESC")?))
    }

    /// Returns calls of skipped tools whose content is kept.
    pub fn asides_of_batch(self, batch: BatchId) -> Result<Vec<ActivityRow>, StoreError> {
        self.0.all(
        "SELECT id, batch, event_id, 'aside', tool_name, NULL, NULL, 0, NULL, input, response, at, NULL FROM asides
         WHERE batch = ?1 AND input IS NOT NULL
         ORDER BY at, (SELECT boot_ns FROM deliveries d WHERE d.event_id = asides.event_id), id",
        params![batch],
    )
    }

    /// Returns the observations of a session, and those of others that also rest on it, ordered by number.
    pub fn observations_of_session(self, session: SessionRow) -> Result<Vec<ObservationRow>, StoreError> {
        let sql = format!(
            "{} WHERE o.session = ?1
            OR o.id IN (SELECT observation FROM observation_sessions WHERE session = ?1) ORDER BY o.id",
            ObservationRow::SELECT
        );
        self.0.all(&sql, params![session])
    }

    pub fn summary_of_session(self, session: SessionRow) -> Result<Option<SummaryRow>, StoreError> {
        self.0.first(&format!("{} WHERE m.session = ?1", SummaryRow::SELECT), params![session])
    }

    /// Returns the title and text of each superseded or resolved observation of a session.
    pub fn outdated_observations(self, session: SessionRow) -> Result<Vec<(String, String)>, StoreError> {
        self.0.all(
            "SELECT title, narrative FROM observations WHERE session = ?1 AND status <> 'active' LIMIT 100",
            [session.0],
        )
    }

    /// Returns tools and inputs of a session's latest calls.
    pub fn calls_before(
        self,
        agent: &AgentName,
        session: &SessionId,
        most: u32,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let calls: Vec<(String, Option<String>)> = self.0.all(
            "SELECT tool_name, input FROM activities
             WHERE session = (SELECT id FROM sessions WHERE agent = ?1 AND session_id = ?2) AND kind = 'tool'
             ORDER BY at DESC LIMIT ?3",
            params![agent.as_str(), session.as_str(), most],
        )?;
        Ok(calls.into_iter().filter_map(|(tool, input)| Some((tool, input?))).collect())
    }

    /// Returns the turns of a session before a prompt, which need not be stored yet.
    pub fn turns_before(self, session: &SessionId, prompt: &str) -> Result<Turns, StoreError> {
        let db = self.0;
        const OF_SESSION: &str =
            "session IN (SELECT id FROM sessions WHERE session_id = ?1) AND prompt IS NOT NULL";
        let last: Option<(Option<String>, Option<String>)> = db.first(
            &format!(
                "SELECT prompt, response FROM prompt_batches WHERE {OF_SESSION}
             ORDER BY prompt_number DESC, seq DESC LIMIT 1"
            ),
            [session.as_str()],
        )?;
        let is_stored = matches!(&last, Some((Some(stored), None)) if stored == prompt);
        let prompts: u32 =
            db.one(&format!("SELECT count(*) FROM prompt_batches WHERE {OF_SESSION}"), [session.as_str()])?;
        let answer = db.first::<Option<String>>(
            &format!(
                "SELECT response FROM prompt_batches WHERE {OF_SESSION} AND response IS NOT NULL
             ORDER BY prompt_number DESC, seq DESC LIMIT 1"
            ),
            [session.as_str()],
        )?;
        let texts: Vec<(Option<String>, Option<String>)> = db.all(
            &format!(
            "SELECT substr(prompt, 1, {LONGEST_TEXT}), substr(response, 1, {LONGEST_TEXT}) FROM prompt_batches
             WHERE {OF_SESSION} ORDER BY prompt_number DESC, seq DESC LIMIT {TURNS_READ}"
        ),
            [session.as_str()],
        )?;
        let texts = texts.into_iter().skip(usize::from(is_stored));
        Ok(Turns {
            prompts: prompts.saturating_sub(u32::from(is_stored)),
            answer: answer.flatten(),
            texts: texts.flat_map(|(prompt, response)| [response, prompt]).flatten().collect(),
        })
    }

    /// Returns the last thousand injections of a document, latest first. The state of a session counts as its last
    /// prompt at that time, see [`Reader::last_prompt`].
    pub fn given(self, key: DocumentKey) -> Result<Vec<GivenRow>, StoreError> {
        let sql = format!(
        "{} WHERE json_extract(e.value, '$.kind') = ?1 AND json_extract(e.value, '$.id') = ?2
            OR ?1 = 'prompt' AND json_extract(e.value, '$.kind') = 'session' AND ?2 = (
                SELECT p.id FROM prompt_batches p
                WHERE p.session = json_extract(e.value, '$.id') AND p.opened_at <= i.at AND p.prompt IS NOT NULL
                ORDER BY p.prompt_number DESC LIMIT 1)
         ORDER BY i.id DESC LIMIT 1000",
        GivenRow::SELECT
    );
        self.0.all(&sql, params![key.kind.as_str(), key.row])
    }

    /// Returns the last prompt with a text in a session, up to a time.
    pub fn last_prompt(self, session: SessionRow, at: Timestamp) -> Result<Option<DocumentKey>, StoreError> {
        let row = self.0.first(
            "SELECT id FROM prompt_batches WHERE session = ?1 AND opened_at <= ?2 AND prompt IS NOT NULL
         ORDER BY prompt_number DESC LIMIT 1",
            params![session.0, at.0],
        )?;
        Ok(row.map(|row| DocumentKey { kind: DocumentKind::Prompt, row }))
    }

    pub fn injections(self, session: SessionRow) -> Result<Vec<InjectionRow>, StoreError> {
        self.0.all(&format!("{} WHERE session = ?1 ORDER BY id", InjectionRow::SELECT), params![session])
    }
}

/// The sessions of some projects with an event since a time.
const LISTED: &str =
    "(?1 IS NULL OR s.project IN (SELECT value FROM json_each(?1))) AND s.last_event_at >= ?2";

record! {
/// A batch's row with its texts.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchRow from "prompt_batches" {
    pub id: BatchId = "id",
    pub prompt_number: u32 = "prompt_number",
    pub source: BatchSource = "source",
    pub status: BatchState = "status",
    pub prompt: Option<String> = "prompt",
    pub prompt_event: Option<EventId> = "prompt_event",
    pub response: Option<String> = "response",
    pub response_event: Option<EventId> = "response_event",
    pub opened_at: Timestamp = "opened_at",
    /// What was checked out, see [`MadeOn`](recall_domain::checkout::MadeOn).
    pub branch: Option<BranchName> = "branch",
    pub commit: Option<CommitId> = "head_commit",
    session: SessionRow = "session",
}
}

/// A batch with its session and the answer before it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredBatch {
    pub batch: BatchRow,
    pub session: SessionInfo,
    pub previous_response: Option<String>,
}

record! {
/// An activity's row with its texts. An aside has the same form.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityRow from "activities" {
    pub id: ActivityId = "id",
    pub batch: Option<BatchId> = "batch",
    pub event: EventId = "event_id",
    pub kind: ActivityKind = "kind",
    pub tool_name: String = "tool_name",
    pub tool_use_id: Option<String> = "tool_use_id",
    pub subagent: Option<String> = "ifnull(subagent_type, subagent)",
    pub failed: bool = "failed",
    pub duration_ms: Option<i64> = "duration_ms",
    pub input: Option<String> = "input",
    pub response: Option<String> = "response",
    pub at: Timestamp = "at",
    /// The guard's rule that refused the call.
    pub refused_by: Option<String> = "refused_by",
}
}

record! {
/// An injection into a session: when, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenRow from "injections i JOIN sessions s ON s.id = i.session, json_each(iif(json_valid(i.items), i.items, '[]')) e" {
    pub session: SessionKey = "s.agent, s.session_id",
    pub at: Timestamp = "i.at",
    pub moment: String = "i.moment",
    pub reason: String = "ifnull(json_extract(e.value, '$.reason'), '')",
    /// How it was used, as comma-separated words.
    pub uses: Option<String> = "(SELECT group_concat(u.use) FROM told_uses u WHERE u.injection = i.id
        AND u.kind = json_extract(e.value, '$.kind') AND u.row = json_extract(e.value, '$.id'))",
}
}

/// The turns before a prompt in its session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// The number of prompts before it.
    pub prompts: u32,
    /// The last answer before it.
    pub answer: Option<String>,
    /// The texts of the last turns before it, prompts and answers, newest first, each shortened.
    pub texts: Vec<String>,
}

/// The number of turns read; older ones hardly matter to a prompt.
const TURNS_READ: u32 = 30;
/// The number of characters read of each text.
const LONGEST_TEXT: u32 = 8_000;

record! {
/// An injection into a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectionRow from "injections" {
    pub id: InjectionId = "id",
    pub at: Timestamp = "at",
    pub moment: String = "moment",
    pub tokens: u32 = "tokens",
    /// A JSON array.
    pub items: String = "items",
    /// The file that the injection was about.
    pub file: Option<String> = "file",
}
}
