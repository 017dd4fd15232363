//! How injected items were used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Moment, PublicId};
use recall_domain::document::DocumentKey;
use recall_store::{InjectionPlace, InjectionUseCounts};

/// The number of items injected in a period, and their known uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InjectionTotal {
    pub told: u64,
    /// The agent read the item in full.
    pub opened: u64,
    /// The agent ran a command that the item names.
    pub followed: u64,
    /// The agent ran a command that the item warns about.
    pub repeated: u64,
    /// The user's next words contradicted it.
    pub contradicted: u64,
    /// A person said that it should not have been injected.
    pub wrong: u64,
}

impl From<InjectionUseCounts> for InjectionTotal {
    fn from(counts: InjectionUseCounts) -> Self {
        let InjectionUseCounts { told: injected, opened, followed, repeated, contradicted, wrong } = counts;
        Self { told: injected, opened, followed, repeated, contradicted, wrong }
    }
}

/// `wrong`: items that are no longer injected where they were.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct WrongAnswer {
    pub items: Vec<WrongLine>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct WrongLine {
    pub id: PublicId,
    pub title: String,
    /// Where it was injected; null if earlier objections were cleared.
    pub told: Option<WrongPlace>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct WrongPlace {
    pub session_id: String,
    pub at: Moment,
    pub moment: String,
}

impl WrongLine {
    pub fn new(key: DocumentKey, title: String, place: Option<InjectionPlace>) -> Self {
        let place = place.map(|place| WrongPlace {
            session_id: place.session.id.0,
            at: Moment(place.at),
            moment: place.moment,
        });
        Self { id: PublicId(key), title, told: place }
    }
}
