//! The answer about recurring problems.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Moment, PublicId, Text};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::friction::Friction;

/// `friction`: a recurring problem, with its evidence.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct FrictionAnswer {
    /// `failure`, `correction`, `stop`, `denial` or `workaround`.
    pub kind: Text,
    pub what: String,
    pub times: u32,
    /// One per session, latest first.
    pub met: Vec<MeetingAnswer>,
    /// One occurrence, verbatim.
    pub example: Option<String>,
    /// What may be worth remembering.
    pub remember: Option<SuggestionAnswer>,
    /// The note that already says so.
    pub note: Option<PublicId>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MeetingAnswer {
    pub session_id: String,
    pub at: Moment,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SuggestionAnswer {
    #[serde(rename = "type")]
    pub kind: Text,
    pub text: String,
}

impl From<Friction> for FrictionAnswer {
    fn from(friction: Friction) -> Self {
        let met = friction.met.into_iter();
        Self {
            kind: friction.kind.as_str().into(),
            what: friction.what,
            times: friction.times,
            met: met.map(|met| MeetingAnswer { session_id: met.session.0, at: Moment(met.at) }).collect(),
            example: friction.example,
            remember: friction
                .remember
                .map(|(kind, text)| SuggestionAnswer { kind: kind.as_str().into(), text }),
            note: friction
                .note
                .map(|id| PublicId(DocumentKey { kind: DocumentKind::Observation, row: id.0 })),
        }
    }
}
