//! The words that admit a machine, as people read them to each other.

use bip39::{Language, Mnemonic};

use super::super::key::SealingKey;
use super::TeamError;

/// Size in bytes of a code that admits one machine.
const CODE: usize = 16;

/// Words that admit a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryWords {
    /// The team's own key.
    Recovery(SealingKey),
    /// A code for one machine.
    Code(InvitationCode),
}

/// A code that admits one machine. People pass it on to each other, never through the remote. Its `Debug` output
/// hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct InvitationCode {
    pub(super) key: SealingKey,
    words: String,
}

impl std::fmt::Debug for InvitationCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Code(…)")
    }
}

impl InvitationCode {
    pub fn random() -> Result<Self, TeamError> {
        let random = SealingKey::random()?;
        Self::of(random.bytes().get(..CODE).unwrap_or_default())
    }

    fn of(entropy: &[u8]) -> Result<Self, TeamError> {
        let words = Mnemonic::from_entropy(entropy).map_err(|_| TeamError::Words)?.to_string();
        let key = [entropy, b"recall-code-1..."].concat();
        let key = SealingKey::from_bytes(&key).ok_or(TeamError::Words)?.derived(&["code"]);
        Ok(Self { key, words })
    }

    pub fn words(&self) -> &str {
        &self.words
    }
}

impl EntryWords {
    /// Reads the 24 words of a team, or the 12 of an invitation.
    pub fn read(words: &str) -> Result<Self, TeamError> {
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let read = Mnemonic::parse_in_normalized(Language::English, &words).map_err(|_| TeamError::Words)?;
        let entropy = read.to_entropy();
        match entropy.len() {
            CODE => Ok(Self::Code(InvitationCode::of(&entropy)?)),
            _ => SealingKey::from_bytes(&entropy).map(Self::Recovery).ok_or(TeamError::Words),
        }
    }
}
