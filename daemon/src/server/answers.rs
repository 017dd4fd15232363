//! The shapes that other programs may rely on: fields are added, never renamed. Times are RFC 3339.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::lineage::LineageAnswer;
use super::session_parts::{LifeEventAnswer, PlanAnswer, SubagentAnswer};
use crate::actors::clock;
use crate::actors::pause::PauseSwitch;
use crate::actors::subscriber::SubscriberCounters;
use crate::compression::ProviderState;
use crate::memory::budget::{Assumed, Usage};
use crate::memory::document::{DocumentKey, DocumentKind};
use crate::memory::ids::Timestamp;
use crate::store::{
    ActivityRow, BatchRow, CompressionTrouble, InjectionRow, JobRow, ObservationRow, Repair, SessionInfo,
    SpendingRow, SummaryRow, TimelineRow,
};

/// A point in time as others read it.
#[derive(Clone, Copy, Debug)]
pub struct Moment(pub Timestamp);

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Out of the calendar's range is damage; the beginning of time says so as well as anything.
        let time = jiff::Timestamp::from_millisecond(self.0.0).unwrap_or_default();
        serializer.collect_str(&time)
    }
}

/// An id as others read it: a number for an observation, a letter and a number for the rest.
#[derive(Clone, Copy, Debug)]
pub struct PublicId(pub DocumentKey);

impl Serialize for PublicId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.kind {
            DocumentKind::Observation => serializer.serialize_i64(self.0.row),
            _ => serializer.collect_str(&self.0),
        }
    }
}

#[derive(Serialize)]
pub struct SearchAnswer {
    pub results: Vec<SearchResult>,
    pub total: usize,
    pub took_ms: u64,
    /// The index is damaged or being made anew: the texts themselves were searched, for their plain words.
    pub degraded: bool,
}

#[derive(Serialize)]
pub struct SearchResult {
    pub id: PublicId,
    pub kind: &'static str,
    #[serde(rename = "type")]
    pub observation_type: Option<&'static str>,
    /// Of an observation: `active`, `resolved` or `superseded`.
    pub status: Option<&'static str>,
    pub title: String,
    pub snippet: String,
    pub project: String,
    pub agent: String,
    pub session_id: Option<String>,
    pub prompt_number: Option<u32>,
    pub created_at: Moment,
    #[serde(flatten)]
    pub made_on: MadeOnAnswer,
    pub score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Explanation>,
}

/// Where something was made; as in [`ObservationAnswer`].
#[derive(Default, Serialize)]
pub struct MadeOnAnswer {
    pub branch: Option<String>,
    pub commit: Option<String>,
    pub elsewhere: Option<String>,
}

/// How a score came about: the product of its factors.
#[derive(Serialize)]
pub struct Explanation {
    pub relevance: f32,
    pub factors: serde_json::Map<String, serde_json::Value>,
    pub matched: Vec<String>,
}

/// `context`.
#[derive(Serialize)]
pub struct ContextAnswer<T: Serialize> {
    #[serde(flatten)]
    pub block: TextAnswer<T>,
    /// Why nothing would be said whatever is known; absent where nothing forbids it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<Silence>,
}

/// What keeps recall silent.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    Paused,
    /// By the user's configuration, or by the project's own file.
    Excluded,
}

/// `show` and `timeline`.
#[derive(Serialize)]
pub struct TextAnswer<T: Serialize> {
    pub text: String,
    pub tokens: u32,
    pub items: Vec<T>,
}

#[derive(Serialize)]
pub struct ObservationAnswer {
    pub id: i64,
    pub uuid: String,
    #[serde(rename = "type")]
    pub observation_type: &'static str,
    pub title: String,
    pub subtitle: Option<String>,
    pub narrative: String,
    pub facts: Vec<String>,
    pub concepts: Vec<String>,
    pub files_read: Vec<String>,
    pub files_modified: Vec<String>,
    pub importance: u8,
    pub status: &'static str,
    pub superseded_by: Option<i64>,
    pub origin: String,
    pub session_id: Option<String>,
    pub prompt_number: Option<u32>,
    pub evidence: Vec<String>,
    pub created_at: Moment,
    /// What was checked out where it was made; null: a detached HEAD, no repository, or not known.
    pub branch: Option<String>,
    pub commit: Option<String>,
    /// That this is not to be found in what is checked out where the question was asked; null where nobody asked, too.
    pub elsewhere: Option<String>,
    /// What took its place or settled it, and what it took the place of; only where it is shown by itself, and there
    /// is any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<LineageAnswer>,
}

impl From<ObservationRow> for ObservationAnswer {
    fn from(row: ObservationRow) -> Self {
        let made_on = row.made_on.into_iter().next().unwrap_or_default();
        Self {
            branch: made_on.branch.map(|branch| branch.0),
            commit: made_on.commit.map(|commit| commit.0),
            elsewhere: None,
            id: row.id.0,
            uuid: row.uuid,
            observation_type: row.kind.as_str(),
            title: row.title,
            subtitle: row.subtitle,
            narrative: row.narrative,
            facts: row.facts,
            concepts: row.concepts,
            files_read: row.files_read,
            files_modified: row.files_modified,
            importance: row.importance.get(),
            status: row.status.as_str(),
            superseded_by: row.superseded_by.map(|id| id.0),
            origin: row.origin,
            session_id: row.session.map(|session| session.0),
            prompt_number: row.prompt_number,
            evidence: row.evidence,
            created_at: Moment(row.created_at),
            lineage: Vec::new(),
        }
    }
}

#[derive(Serialize)]
pub struct SummaryAnswer {
    pub id: PublicId,
    pub session_id: String,
    pub title: String,
    pub request: String,
    pub investigated: String,
    pub learned: String,
    pub completed: String,
    pub next_steps: String,
    pub notes: String,
    pub created_at: Moment,
    /// As in [`ObservationAnswer`], of the session's last work.
    pub branch: Option<String>,
    pub commit: Option<String>,
    pub elsewhere: Option<String>,
}

impl From<SummaryRow> for SummaryAnswer {
    fn from(row: SummaryRow) -> Self {
        Self {
            id: PublicId(DocumentKey { kind: DocumentKind::Summary, row: row.id.0 }),
            session_id: row.session.0,
            title: row.title,
            request: row.request,
            investigated: row.investigated,
            learned: row.learned,
            completed: row.completed,
            next_steps: row.next_steps,
            notes: row.notes,
            created_at: Moment(row.created_at),
            branch: row.made_on.branch.map(|branch| branch.0),
            commit: row.made_on.commit.map(|commit| commit.0),
            elsewhere: None,
        }
    }
}

/// Any other stored text: a prompt, an answer, an activity.
#[derive(Serialize)]
pub struct DocumentAnswer {
    pub id: PublicId,
    pub kind: &'static str,
    pub title: String,
    pub text: String,
    pub project: String,
    pub session_id: Option<String>,
    pub prompt_number: Option<u32>,
    pub created_at: Moment,
    #[serde(flatten)]
    pub made_on: MadeOnAnswer,
}

#[derive(Serialize)]
pub struct TimelineItem {
    pub id: Option<PublicId>,
    pub kind: String,
    #[serde(rename = "type")]
    pub observation_type: Option<String>,
    pub title: String,
    pub session_id: Option<String>,
    pub created_at: Moment,
    #[serde(flatten)]
    pub made_on: MadeOnAnswer,
}

impl TimelineItem {
    pub fn new(row: TimelineRow, made_on: MadeOnAnswer) -> Self {
        let key = row.key();
        let line = row.label.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            id: key.map(PublicId),
            kind: row.kind,
            observation_type: row.observation_type,
            title: shortened(&line, 160),
            session_id: row.session.map(|session| session.0),
            created_at: Moment(row.at),
            made_on,
        }
    }
}

/// At most `most` characters, the last an ellipsis where something is missing.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Which project a folder is taken for.
#[derive(Serialize)]
pub struct IdentityAnswer {
    /// The folder of its work tree.
    pub folder: String,
    pub project: String,
    pub doubted: Option<DoubtedAnswer>,
}

/// A project that a folder names as its own without showing a commit of it.
#[derive(Serialize)]
pub struct DoubtedAnswer {
    /// What its `.git/config` names, without credentials.
    pub remote: String,
    pub project: String,
    pub project_id: String,
}

#[derive(Serialize)]
pub struct SessionsAnswer {
    pub sessions: Vec<SessionLine>,
}

#[derive(Serialize)]
pub struct SessionLine {
    pub session_id: String,
    pub agent: String,
    pub project: String,
    pub status: String,
    pub title: Option<String>,
    pub prompts: u32,
    pub activities: u32,
    pub started_at: Moment,
    pub ended_at: Option<Moment>,
}

impl From<SessionInfo> for SessionLine {
    fn from(info: SessionInfo) -> Self {
        Self {
            session_id: info.id.0,
            agent: info.agent.0,
            project: info.project.name,
            status: info.status,
            title: info.title,
            prompts: info.prompts,
            activities: info.activities,
            started_at: Moment(info.started_at),
            ended_at: info.ended_at.map(Moment),
        }
    }
}

#[derive(Serialize)]
pub struct SessionAnswer {
    pub session_id: String,
    pub agent: String,
    pub project: String,
    pub project_id: String,
    pub status: String,
    pub reason: Option<String>,
    pub title: Option<String>,
    pub started_at: Moment,
    pub ended_at: Option<Moment>,
    /// The session that was cleared away for this one.
    pub resumed_from: Option<String>,
    pub batches: Vec<BatchAnswer>,
    /// Those that were changed last first.
    pub plans: Vec<PlanAnswer>,
    pub subagents: Vec<SubagentAnswer>,
    /// What was said of the session's lives, in order.
    pub life_events: Vec<LifeEventAnswer>,
    pub observations: Vec<ObservationAnswer>,
    pub summary: Option<SummaryAnswer>,
    pub injections: Vec<InjectionAnswer>,
}

#[derive(Serialize)]
pub struct BatchAnswer {
    pub prompt_number: u32,
    pub source: &'static str,
    pub status: &'static str,
    pub prompt: Option<String>,
    pub prompt_event_id: Option<String>,
    pub response: Option<String>,
    pub response_event_id: Option<String>,
    /// What was checked out at its end; see [`ObservationAnswer`].
    pub branch: Option<String>,
    pub commit: Option<String>,
    pub activities: Vec<ActivityAnswer>,
}

impl BatchAnswer {
    pub fn new(row: BatchRow, activities: Vec<ActivityRow>) -> Self {
        Self {
            prompt_number: row.prompt_number,
            source: row.source.as_str(),
            status: if row.status == "closed" { "closed" } else { "open" },
            prompt: row.prompt,
            prompt_event_id: row.prompt_event.map(|event| event.to_string()),
            response: row.response,
            response_event_id: row.response_event.map(|event| event.to_string()),
            branch: row.branch.map(|branch| branch.0),
            commit: row.commit.map(|commit| commit.0),
            activities: activities.into_iter().map(ActivityAnswer::from).collect(),
        }
    }
}

#[derive(Serialize)]
pub struct ActivityAnswer {
    pub event_id: String,
    pub kind: String,
    pub tool_name: String,
    pub tool_use_id: Option<String>,
    pub failed: bool,
    /// The agent's own JSON, or a text where it was none.
    pub input: Option<Box<RawValue>>,
    pub response: Option<Box<RawValue>>,
    pub subagent: Option<String>,
    pub duration_ms: Option<i64>,
    pub at: Moment,
}

impl From<ActivityRow> for ActivityAnswer {
    fn from(row: ActivityRow) -> Self {
        Self {
            event_id: row.event.to_string(),
            kind: row.kind,
            tool_name: row.tool_name,
            tool_use_id: row.tool_use_id,
            failed: row.failed,
            input: row.input.and_then(json_or_text),
            response: row.response.and_then(json_or_text),
            subagent: row.subagent,
            duration_ms: row.duration_ms,
            at: Moment(row.at),
        }
    }
}

/// Agents' JSON nested deeper than this is given as a text: readers, the command line's among them, commonly refuse
/// more than 128 levels, and with it the whole answer around it.
const MOST_LEVELS: usize = 100;

fn json_or_text(text: String) -> Option<Box<RawValue>> {
    let json = (levels(&text) <= MOST_LEVELS).then(|| RawValue::from_string(text.clone()).ok()).flatten();
    json.or_else(|| serde_json::value::to_raw_value(&text).ok())
}

/// How deep arrays and objects are nested, without recursion.
fn levels(json: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let mut bytes = json.bytes();
    let mut in_string = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            // What is escaped, a quote perhaps, ends nothing.
            b'\\' if in_string => drop(bytes.next()),
            b'[' | b'{' if !in_string => {
                open += 1;
                most = most.max(open);
            }
            b']' | b'}' if !in_string => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[derive(Serialize)]
pub struct InjectionAnswer {
    pub at: Moment,
    pub moment: String,
    pub tokens: u32,
    pub items: Option<Box<RawValue>>,
    /// At the moment `file`: which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl From<InjectionRow> for InjectionAnswer {
    fn from(row: InjectionRow) -> Self {
        Self {
            at: Moment(row.at),
            moment: row.moment,
            tokens: row.tokens,
            items: json_or_text(row.items),
            file: row.file,
        }
    }
}

#[derive(Serialize)]
pub struct WhyAnswer {
    pub session_id: String,
    pub injections: Vec<InjectionAnswer>,
}

#[derive(Serialize)]
pub struct JobsAnswer {
    pub jobs: Vec<JobLine>,
}

#[derive(Serialize)]
pub struct JobLine {
    pub id: i64,
    pub kind: String,
    pub session_id: String,
    pub status: String,
    pub attempts: u32,
    pub error: Option<String>,
    /// Who made the last result.
    pub origin: Option<String>,
    /// What a model was not shown; null where none was asked.
    pub cuts: Option<Box<RawValue>>,
}

impl From<JobRow> for JobLine {
    fn from(row: JobRow) -> Self {
        Self {
            id: row.id.0,
            kind: row.kind,
            session_id: row.session.0,
            status: row.status,
            attempts: row.attempts,
            error: row.error,
            origin: row.origin,
            cuts: row.cuts.and_then(|json| RawValue::from_string(json).ok()),
        }
    }
}

#[derive(Serialize)]
pub struct StatusAnswer {
    pub version: &'static str,
    pub pid: u32,
    pub uptime_s: u64,
    pub protocol: u8,
    pub home: String,
    pub sessions: SessionCounts,
    pub events: EventCounts,
    pub jobs: JobCounts,
    pub observations: i64,
    pub summaries: i64,
    pub index: IndexState,
    pub compression: CompressionState,
    pub subscribe: SubscriberCounters,
    pub bytes: ByteCounts,
    pub rss_bytes: u64,
    pub paused: Option<PauseAnswer>,
    /// Repairs of the database in the last week, the latest last.
    pub healed: Vec<RepairAnswer>,
}

/// A damaged database that was replaced.
#[derive(Serialize)]
pub struct RepairAnswer {
    pub at: Moment,
    pub why: String,
    /// Where the damaged file lies.
    pub damaged: String,
    /// The backup in its place; null: an empty database.
    pub restored: Option<String>,
    pub restored_from: Option<Moment>,
}

impl From<Repair> for RepairAnswer {
    fn from(repair: Repair) -> Self {
        Self {
            at: Moment(repair.at),
            why: repair.why,
            damaged: repair.damaged.to_string_lossy().into_owned(),
            restored: repair.restored.map(|backup| backup.to_string_lossy().into_owned()),
            restored_from: repair.restored_from.map(Moment),
        }
    }
}

/// That nothing is captured, and until when; no end: until somebody says so.
#[derive(Serialize)]
pub struct PauseAnswer {
    pub since: Moment,
    pub until: Option<Moment>,
}

impl PauseAnswer {
    /// `None`: recall captures.
    pub fn now(pauses: &PauseSwitch) -> Option<Self> {
        let pause = pauses.current(clock::now())?;
        Some(Self { since: Moment(pause.since), until: pause.until.map(Moment) })
    }
}

#[derive(Serialize)]
pub struct SessionCounts {
    pub live: i64,
    pub total: i64,
}

/// `duplicates` since the daemon started; `spooled`: files that wait now; `dropped`: events the full spool refused.
#[derive(Serialize)]
pub struct EventCounts {
    pub stored: i64,
    pub duplicates: u64,
    /// Of those, calls and prompts that two hooks have told of: they are registered twice.
    pub told_twice: u64,
    /// Taken in a pause and not kept, since the daemon started.
    pub paused: u64,
    /// Of projects of which nothing is captured, since the daemon started.
    pub excluded: u64,
    pub spooled: u64,
    pub dropped: u64,
    pub unparsed: i64,
}

#[derive(Serialize)]
pub struct JobCounts {
    pub pending: i64,
    pub running: i64,
    pub retrying: i64,
    pub done: i64,
    pub dead: i64,
}

#[derive(Serialize)]
pub struct IndexState {
    pub documents: u64,
    /// Log entries that the index does not hold yet.
    pub behind: i64,
    /// `complete`, `rebuilding` or `absent`.
    pub state: &'static str,
    /// How often it was made anew since the daemon started.
    pub rebuilds: u64,
}

#[derive(Serialize)]
pub struct CompressionState {
    pub backend: String,
    pub circuit: &'static str,
    pub tokens_today: u64,
    pub usd_today: f64,
    /// 0: no cap.
    pub tokens_per_day: u64,
    pub usd_per_day: f64,
    pub restarts: u64,
    pub threads_lost: u64,
    pub providers: Vec<ProviderState>,
    /// What models have failed at since their last success; null: nothing.
    pub trouble: Option<TroubleAnswer>,
}

#[derive(Serialize)]
pub struct TroubleAnswer {
    pub since: Moment,
    pub jobs: i64,
    pub error: String,
}

impl From<CompressionTrouble> for TroubleAnswer {
    fn from(trouble: CompressionTrouble) -> Self {
        Self { since: Moment(trouble.since), jobs: trouble.jobs, error: trouble.error }
    }
}

#[derive(Serialize)]
pub struct StatsAnswer {
    /// The earliest first; a day without calls is left out.
    pub spending: Vec<SpendingLine>,
    pub total: SpendingTotal,
}

#[derive(Serialize)]
pub struct SpendingLine {
    /// In the user's own time zone.
    pub day: String,
    pub backend: String,
    #[serde(flatten)]
    pub total: SpendingTotal,
}

#[derive(Clone, Copy, Default, Serialize)]
pub struct SpendingTotal {
    pub calls: i64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub usd: f64,
    /// Calls of which nobody knows what they cost, among the others; `tokens_in` and `tokens_out` hold their most.
    pub assumed_calls: i64,
    pub assumed_tokens: u64,
}

impl StatsAnswer {
    pub fn of(rows: Vec<SpendingRow>) -> Self {
        let mut calls = 0;
        let (mut sum, mut assumed) = (Usage::default(), Assumed::default());
        let spending = rows
            .into_iter()
            .map(|row| {
                calls += row.calls;
                sum.tokens_in += row.usage.tokens_in;
                sum.tokens_out += row.usage.tokens_out;
                sum.micro_usd += row.usage.micro_usd;
                assumed.calls += row.assumed.calls;
                assumed.tokens += row.assumed.tokens;
                let total = SpendingTotal::of(row.calls, row.usage, row.assumed);
                SpendingLine { day: row.day.0, backend: row.backend, total }
            })
            .collect();
        Self { spending, total: SpendingTotal::of(calls, sum, assumed) }
    }
}

impl SpendingTotal {
    fn of(calls: i64, usage: Usage, assumed: Assumed) -> Self {
        let Usage { tokens_in, tokens_out, micro_usd } = usage;
        let Assumed { calls: assumed_calls, tokens: assumed_tokens } = assumed;
        Self { calls, tokens_in, tokens_out, usd: dollars(micro_usd), assumed_calls, assumed_tokens }
    }
}

/// Millionths as dollars.
pub fn dollars(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1_000_000.0
}

#[derive(Serialize)]
pub struct ByteCounts {
    pub database: u64,
    pub index: u64,
    pub spool: u64,
    pub log: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_outside_strings() {
        let check = |json: &str, expected: usize| assert_eq!(levels(json), expected, "{json}");
        check("7", 0);
        check("[]", 1);
        check(r#"{"a":[{}],"b":[]}"#, 3);
        check(r#"["[[[\"[["]"#, 1);
        check(r#"["\\",[]]"#, 2);
        check("]]]", 0);
    }

    #[test]
    fn what_is_nested_too_deep_is_a_text() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let given = |text: String| json_or_text(text).map(|json| json.get().to_owned());
        assert_eq!(given(nested(MOST_LEVELS)), Some(nested(MOST_LEVELS)));
        assert_eq!(given(nested(MOST_LEVELS + 1)), Some(format!("{:?}", nested(MOST_LEVELS + 1))));
        assert_eq!(given("no json".to_owned()), Some("\"no json\"".to_owned()));
    }
}
