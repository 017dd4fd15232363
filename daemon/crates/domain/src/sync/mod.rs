//! Notes, summaries and plans that several machines share: changes, how they merge, and how a machine's changes are
//! chained.
//!
//! A machine logs its own changes. Every other machine reads that log and merges it. Of each field the value with the
//! greatest stamp wins. A deletion beats everything. A withdrawal beats everything said before it. So machines that
//! have read the same logs agree, whatever the order was and however often an entry arrived.

pub mod fields;
pub mod item;
pub mod kind;
pub mod quarantine;
pub mod record;
pub mod skew;

use serde::{Deserialize, Serialize};

/// A data folder's name in all spaces: the hash of its public key, in hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceId(pub String);

impl DeviceId {
    /// `None` if the text is not 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 32 && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    /// The first digits, enough for people to tell devices apart.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

/// The time and the device of a statement. The later one wins; at the same time the greater device name wins.
///
/// The time is the device's clock, or one millisecond more than the item's latest stamp if the clock is behind it. So
/// a change always beats what its author had seen, however wrong the clocks are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    pub at: i64,
    pub device: DeviceId,
}
