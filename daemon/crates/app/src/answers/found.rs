//! The answers of queries: a search, a document, a timeline, the context for an agent, and the identity of a folder.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::observation::{ObservationAnswer, SummaryAnswer};
pub use super::session::InjectedItem;
use super::session::PlanAnswer;
use super::{MadeOnAnswer, Moment, PublicId, Text, TextAnswer};
use recall_domain::injection::{FLOORS, PromptDecision};
use recall_domain::text::shortened_line;
use recall_search::request::SourceScore;
use recall_store::TimelineRow;

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SearchAnswer {
    pub results: Vec<SearchResult>,
    pub total: usize,
    pub took_ms: u64,
    /// The index is damaged or being rebuilt, so the stored texts were searched directly.
    pub degraded: bool,
    /// The problems in `config.toml`; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_errors: Vec<String>,
    /// Filters of the query that match nothing in the store; absent if all match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<Unknown>,
    /// Words that nothing contains, with their replacements; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_as: Vec<ReadAs>,
}

/// A word of the query that was probably mistyped.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ReadAs {
    pub typed: String,
    /// The replacement's stem, as indexed.
    pub read: String,
}

/// A session, agent or project that has no events, or a file that was probably mistyped.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Unknown {
    /// `session`, `agent`, `project` or `file`.
    pub key: Text,
    pub value: String,
    /// The known name that was probably meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meant: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SearchResult {
    pub id: PublicId,
    pub kind: Text,
    #[serde(rename = "type")]
    pub observation_type: Option<Text>,
    /// For an observation: `active`, `resolved` or `superseded`.
    pub status: Option<Text>,
    /// The speaker of a statement that holds until it is withdrawn: `you`; `agent`, whose model noted it; `import`, a
    /// file that anybody may have written; or `member`, another person who shares the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_by: Option<Text>,
    /// The person and machine that made it. Absent if it was this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    pub title: String,
    pub snippet: String,
    /// The approximate tokens of title and text in full.
    #[serde(default)]
    pub tokens: u32,
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

/// How a score was computed. The score is the product of its factors.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    pub relevance: f32,
    pub factors: serde_json::Map<String, serde_json::Value>,
    /// The sources that found it. Their fits add up to the fit, which is the first factor or, if only words were
    /// searched, the product of the first three.
    #[serde(default)]
    pub sources: Vec<ExplainedSource>,
    pub matched: Vec<String>,
    /// The query's words that it lacks.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// One source's share of a score.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ExplainedSource {
    pub source: Text,
    pub fit: f32,
    pub relevance: f32,
    /// The cosine of the question's vector and that of the closest passage; absent for other sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosine: Option<f32>,
}

impl From<&(&'static str, SourceScore)> for ExplainedSource {
    fn from((source, part): &(&'static str, SourceScore)) -> Self {
        Self { source: (*source).into(), fit: part.fit, relevance: part.relevance, cosine: part.cosine }
    }
}

/// The answer of `remember`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct RememberedAnswer {
    #[serde(flatten)]
    pub said: TextAnswer<ObservationAnswer>,
    /// The project's name.
    pub project: String,
    /// Its position among the notes by hand that a starting session receives, from 1; absent if there is no room for
    /// it. At prompts that concern it, it is injected in either case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place_at_start: Option<usize>,
}

/// The answer of `context`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ContextAnswer {
    #[serde(flatten)]
    pub block: TextAnswer<InjectedItem>,
    /// Why nothing is injected, whatever is known; absent if nothing prevents it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<Silence>,
    /// For a prompt: why recall injects something or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionAnswer>,
    /// If only reviewed notes may be injected: how many observations of the project await review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreviewed: Option<u64>,
}

/// Why recall injects something at a prompt or not: it does if `prompt` times `known` is at least `floor`, or `need`
/// at least `need_floor`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct DecisionAnswer {
    pub floor: f64,
    /// The probability that other sessions can help with the prompt.
    pub prompt: f64,
    /// What each feature adds to the log odds, greatest first.
    pub prompt_parts: Vec<DecisionPart>,
    /// The probability that this project knows what is asked; 0 if nothing was searched.
    #[serde(default)]
    pub known: f64,
    #[serde(default)]
    pub known_parts: Vec<DecisionPart>,
    /// The probability that somebody who remembers would speak up. Absent at a question that opens a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need_floor: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub need_parts: Vec<DecisionPart>,
    /// The probability that the best passage answers the prompt; 0 without one.
    pub answer: f64,
    /// The document of the best passage.
    pub best: Option<PublicId>,
    pub answer_parts: Vec<DecisionPart>,
}

/// What one feature adds to the log odds.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct DecisionPart {
    pub feature: Text,
    pub log_odds: f64,
}

impl From<PromptDecision> for DecisionAnswer {
    fn from(decision: PromptDecision) -> Self {
        let parts = |parts: Vec<(&'static str, f64)>| {
            let shown = parts.into_iter().filter(|(_, log_odds)| log_odds.abs() >= LEAST_LOG_ODDS);
            shown.map(|(feature, log_odds)| DecisionPart { feature: feature.into(), log_odds }).collect()
        };
        let (need, need_parts) = decision.need.map(|it| (it.probability, it.parts)).unzip();
        let (best, answer) = decision.best.unzip();
        let answer = answer.unwrap_or_default();
        Self {
            floor: if need.is_some() { FLOORS.certain } else { FLOORS.question },
            prompt: decision.prompt.probability,
            prompt_parts: parts(decision.prompt.parts),
            known: decision.known.probability,
            known_parts: parts(decision.known.parts),
            need,
            need_floor: need.map(|_| FLOORS.need),
            need_parts: parts(need_parts.unwrap_or_default()),
            answer: answer.probability,
            best: best.map(|best| PublicId(best.document)),
            answer_parts: parts(answer.parts),
        }
    }
}

/// Features that add less are omitted.
const LEAST_LOG_ODDS: f64 = 0.005;

/// Why recall is silent.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    Paused,
    /// The folder is excluded, by the user's configuration or by the project's own file.
    Excluded,
}

/// Any other stored text: a prompt, an answer, an activity.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct DocumentAnswer {
    pub id: PublicId,
    pub kind: Text,
    pub title: String,
    pub text: String,
    pub project: String,
    pub session_id: Option<String>,
    pub prompt_number: Option<u32>,
    pub created_at: Moment,
    /// Who said it and on which machine. Absent if it is this machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(flatten)]
    pub made_on: MadeOnAnswer,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct TimelineItem {
    pub id: PublicId,
    pub kind: String,
    #[serde(rename = "type")]
    pub observation_type: Option<String>,
    pub title: String,
    /// The person and machine that made it. Absent if it was this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    pub session_id: Option<String>,
    pub created_at: Moment,
    #[serde(flatten)]
    pub made_on: MadeOnAnswer,
}

impl TimelineItem {
    pub fn new(row: TimelineRow, made_on: MadeOnAnswer) -> Self {
        Self {
            id: PublicId(row.key),
            kind: row.key.kind.as_str().to_owned(),
            observation_type: row.observation_type.map(|kind| kind.as_str().to_owned()),
            title: shortened_line(&row.label, 160),
            author: row.author,
            session_id: row.session.map(|session| session.0),
            created_at: Moment(row.at),
            made_on,
        }
    }
}

/// One item of `show`. Untagged, because its fields distinguish the variants.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ShownItem {
    Observation(Box<ObservationAnswer>),
    Summary(SummaryAnswer),
    Plan(PlanAnswer),
    Document(DocumentAnswer),
}

/// The project that a folder belongs to.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct IdentityAnswer {
    /// The folder of the work tree.
    pub folder: String,
    pub project: String,
    pub doubted: Option<UnprovenClaimAnswer>,
}

/// A project that a folder claims without having one of its commits.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct UnprovenClaimAnswer {
    /// The remote that the folder's `.git/config` names, without credentials.
    pub remote: String,
    pub project: String,
    pub project_id: String,
}
