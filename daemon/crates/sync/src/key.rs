//! Keys, and texts sealed with them. Each sealed text has its own key, derived from this one and a random salt, so no
//! key is used twice. Texts are padded, so their length reveals little. A text opens only in its place, which the
//! seal covers.

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD as BASE64;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::hex::{hex, unhex};

const SALT: usize = 32;
/// Texts are padded to a multiple of this many bytes.
const PADDED_TO: usize = 256;
const LENGTH: usize = 4;

/// A text cannot be opened: the key is wrong, or the text was changed or moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot be opened with the team's key")]
pub struct Closed;

/// The system's random number generator failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system's random number generator failed")]
pub struct NoRandomness;

/// A key of 256 bits. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SealingKey([u8; 32]);

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Serialize for SealingKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for SealingKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        unhex(&text).and_then(|bytes| Self::from_bytes(&bytes)).ok_or_else(|| D::Error::custom("not a key"))
    }
}

impl SealingKey {
    pub fn random() -> Result<Self, NoRandomness> {
        let mut key = [0; 32];
        SystemRandom::new().fill(&mut key).map_err(|_| NoRandomness)?;
        Ok(Self(key))
    }

    pub(crate) fn of(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns `None` unless there are 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Derives a key for one purpose. It does not reveal this one.
    pub(crate) fn derived(&self, purpose: &[&str]) -> Self {
        let parts: Vec<Vec<u8>> = purpose.iter().map(|part| with_length(part)).collect();
        self.salted(&[], &parts.concat())
    }

    /// A key that follows from this one and another one, for one purpose. Who lacks either does not learn it.
    pub(crate) fn with(&self, other: &Self, purpose: &[&str]) -> Self {
        let parts: Vec<Vec<u8>> = purpose.iter().map(|part| with_length(part)).collect();
        self.salted(&other.0, &parts.concat())
    }

    fn salted(&self, salt: &[u8], purpose: &[u8]) -> Self {
        let mut key = [0; 32];
        let purposes = [purpose];
        let derived = Salt::new(HKDF_SHA256, salt).extract(&self.0);
        let derived = derived.expand(&purposes, HKDF_SHA256).and_then(|derived| derived.fill(&mut key));
        // Only an invalid length fails, and 32 is valid.
        debug_assert!(derived.is_ok());
        Self(key)
    }

    /// The key's name, which reveals nothing about it.
    pub fn name(&self) -> String {
        let mut name = hex(self.derived(&["name"]).bytes());
        name.truncate(16);
        name
    }

    /// Seals a text for a place.
    pub(crate) fn seal(&self, place: &[&str], text: &str) -> Result<String, NoRandomness> {
        self.seal_bytes(place, text.as_bytes())
    }

    /// Like [`Self::seal`], for bytes.
    pub(crate) fn seal_bytes(&self, place: &[&str], bytes: &[u8]) -> Result<String, NoRandomness> {
        let mut salt = [0; SALT];
        SystemRandom::new().fill(&mut salt).map_err(|_| NoRandomness)?;
        let mut bytes = padded(bytes);
        let place: Vec<u8> = place.iter().map(|part| with_length(part)).collect::<Vec<_>>().concat();
        self.once(&salt)
            .ok_or(NoRandomness)?
            .seal_in_place_append_tag(no_nonce(), Aad::from(&place), &mut bytes)
            .map_err(|_| NoRandomness)?;
        Ok(BASE64.encode([salt.as_slice(), &bytes].concat()))
    }

    /// Opens a text that was sealed for this place.
    pub(crate) fn open(&self, place: &[&str], sealed: &str) -> Result<String, Closed> {
        String::from_utf8(self.open_bytes(place, sealed)?).map_err(|_| Closed)
    }

    /// Like [`Self::open`], for bytes.
    pub(crate) fn open_bytes(&self, place: &[&str], sealed: &str) -> Result<Vec<u8>, Closed> {
        let bytes = BASE64.decode(sealed).map_err(|_| Closed)?;
        let (salt, bytes) = bytes.split_at_checked(SALT).ok_or(Closed)?;
        let mut bytes = bytes.to_vec();
        let place: Vec<u8> = place.iter().map(|part| with_length(part)).collect::<Vec<_>>().concat();
        let opened = self
            .once(salt)
            .ok_or(Closed)?
            .open_in_place(no_nonce(), Aad::from(&place), &mut bytes)
            .map_err(|_| Closed)?;
        unpadded(opened).ok_or(Closed)
    }

    /// Derives the key for one text.
    fn once(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let Self(key) = self.salted(salt, b"recall-seal-1");
        UnboundKey::new(&CHACHA20_POLY1305, &key).ok().map(LessSafeKey::new)
    }
}

/// Returns a fixed nonce. That is safe because each key is used once.
fn no_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn with_length(part: &str) -> Vec<u8> {
    [&(part.len() as u64).to_le_bytes()[..], part.as_bytes()].concat()
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut bytes = [&length.to_le_bytes()[..], bytes].concat();
    bytes.resize(bytes.len().next_multiple_of(PADDED_TO), 0);
    bytes
}

fn unpadded(bytes: &[u8]) -> Option<Vec<u8>> {
    let (length, bytes) = bytes.split_first_chunk::<LENGTH>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    bytes.get(..length).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_text_opens_only_unchanged_with_its_key_and_in_its_place() {
        let (key, other) = (SealingKey::random().unwrap(), SealingKey::random().unwrap());
        for text in ["", "short", &"long ".repeat(1000)] {
            let sealed = key.seal(&["a", "b"], text).unwrap();
            assert_eq!(key.open(&["a", "b"], &sealed).as_deref(), Ok(text));
            assert_ne!(sealed, key.seal(&["a", "b"], text).unwrap());
            assert_eq!(key.open(&["ab", ""], &sealed), Err(Closed));
            assert_eq!(other.open(&["a", "b"], &sealed), Err(Closed));
            let mut bytes = BASE64.decode(&sealed).unwrap();
            for at in (0..bytes.len()).step_by(37) {
                bytes[at] ^= 1;
                assert_eq!(key.open(&["a", "b"], &BASE64.encode(&bytes)), Err(Closed), "{at}");
                bytes[at] ^= 1;
            }
        }
        assert_eq!(key.seal(&[], "a").unwrap().len(), key.seal(&[], &"a".repeat(200)).unwrap().len());
        for broken in ["", "x", "!"] {
            assert_eq!(key.open(&[], broken), Err(Closed));
        }
        assert_eq!(format!("{key:?}"), "Key(…)");
    }
}
