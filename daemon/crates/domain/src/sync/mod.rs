//! Notes, summaries and plans that several machines share: what a change is, how changes merge, and how a machine's changes
//! are chained.
//!
//! A machine logs its own changes. Every other machine reads that log and merges it. Merging takes the greatest value of
//! each field by its stamp. A deletion beats everything, and what was taken back all that was said before. So machines that have read the same logs agree, whatever the
//! order was and however often an entry came.

pub mod fields;
pub mod item;
pub mod kind;
pub mod quarantine;
pub mod record;
pub mod skew;

use serde::{Deserialize, Serialize};

/// A data folder's name in all spaces: the hash of its public key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceId(pub String);

impl DeviceId {
    /// `None` if the text is not 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 32 && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    /// Enough of it for people.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

/// When something was said, and by which device. Later beats earlier; at the same time the greater name beats the other.
///
/// The time is the device's clock, or one more than the latest stamp of the item if the clock is behind it. So a change
/// always beats what its author had seen, however wrong the clocks are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    pub at: i64,
    pub device: DeviceId,
}
