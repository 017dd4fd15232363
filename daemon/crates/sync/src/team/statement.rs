//! What one machine says about a team: signed, in a space of the remote that all machines read.

use std::collections::{BTreeMap, BTreeSet};

use bip39::Mnemonic;
use serde::{Deserialize, Serialize};
use x25519_dalek::{PublicKey, StaticSecret};

use super::super::device::{Device, is_signed};
use super::super::hex::hex;
use super::super::key::SealingKey;
use super::{InvitationCode, TeamError, Upto, WrappedKey};
use recall_domain::sync::DeviceId;

/// The number of words that two people compare.
const COMPARED: usize = 6;

/// A machine's statement about the team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamStatement {
    pub(super) remote: String,
    pub device: DeviceId,
    pub(super) public: String,
    /// Its public key, with which others wrap keys for it.
    pub(super) exchange: String,
    /// The name of a key, and the author's names sealed with that key.
    pub(super) who: Option<(String, String)>,
    /// For each key that it has, by name: its number, and a proof that only its holders can make.
    pub(super) proofs: BTreeMap<String, (u32, String)>,
    /// The name of the current key, and the earlier keys sealed with it.
    pub(super) older: Option<(String, String)>,
    pub(super) wrapped: Vec<WrappedKey>,
    pub(super) removed: BTreeMap<DeviceId, Upto>,
    pub(super) owners: BTreeSet<DeviceId>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) restricted: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) named: BTreeSet<DeviceId>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) before: BTreeMap<DeviceId, u64>,
    /// A request for admission with a code.
    pub(super) asks: Option<String>,
}

impl TeamStatement {
    pub(super) fn bare(remote: &str, device: &Device) -> Self {
        Self {
            remote: remote.to_owned(),
            device: device.id.clone(),
            public: device.public_key(),
            exchange: hex(PublicKey::from(&exchange_of(device)).as_bytes()),
            who: None,
            proofs: BTreeMap::new(),
            older: None,
            wrapped: Vec::new(),
            removed: BTreeMap::new(),
            owners: BTreeSet::new(),
            restricted: BTreeSet::new(),
            named: BTreeSet::new(),
            before: BTreeMap::new(),
            asks: None,
        }
    }

    /// Composes the statement of a machine that asks for admission with a code.
    pub fn asking(
        remote: &str,
        device: &Device,
        code: &InvitationCode,
        author: &str,
        name: &str,
    ) -> Result<Self, TeamError> {
        let mut statement = Self::bare(remote, device);
        let names = serde_json::json!([author, name]).to_string();
        statement.who = Some((String::new(), code.key.seal(&[remote, &device.id.0, "who"], &names)?));
        statement.asks = Some(statement.ask(code));
        Ok(statement)
    }

    fn ask(&self, code: &InvitationCode) -> String {
        hex(code.key.derived(&["ask", &self.remote, &self.device.0, &self.exchange]).bytes())
    }

    /// The author and name of the machine that asks with this code; `None` if it is not this one.
    pub fn asks_with(&self, code: &InvitationCode) -> Option<(String, String)> {
        let (_, who) = self.who.as_ref()?;
        if self.asks.as_ref() != Some(&self.ask(code)) {
            return None;
        }
        let names = code.key.open(&[&self.remote, &self.device.0, "who"], who).ok()?;
        serde_json::from_str(&names).ok()
    }

    /// Words that both sides see if nobody intercepts the exchange.
    pub fn compared(&self, code: &InvitationCode) -> String {
        let key = code.key.derived(&["compare", &self.remote, &self.device.0, &self.exchange]);
        let words = Mnemonic::from_entropy(key.bytes()).map(|words| words.to_string()).unwrap_or_default();
        words.split(' ').take(COMPARED).collect::<Vec<_>>().join(" ")
    }

    /// A proof for this machine that only holders of a key can make.
    pub(super) fn proof(&self, key: &SealingKey, number: u32) -> String {
        let number = number.to_string();
        hex(key.derived(&["proof", &self.remote, &self.device.0, &self.exchange, &number]).bytes())
    }

    pub(super) fn proves(&self, key: &SealingKey, number: u32) -> bool {
        self.proofs.get(&key.name()) == Some(&(number, self.proof(key, number)))
    }

    /// Encodes the signed text.
    pub fn encode(&self, device: &Device) -> serde_json::Result<String> {
        let body = serde_json::to_string(self)?;
        let signature = device.sign(&signed(&body));
        Ok(format!("{body}\n{signature}\n"))
    }

    /// Decodes a machine's text. Returns `None` if it did not sign it, or if it is about another remote.
    pub fn decode(text: &str, remote: &str, device: &DeviceId) -> Option<Self> {
        let (body, signature) = text.trim_end().split_once('\n')?;
        let statement: Self = serde_json::from_str(body).ok()?;
        let is_its = statement.remote == remote
            && statement.device == *device
            && is_signed(device, &statement.public, &signed(body), signature);
        is_its.then_some(statement)
    }
}

fn signed(body: &str) -> String {
    // No log or progress file begins like this.
    format!("team\n{body}")
}

/// The key pair with which a machine receives keys.
pub(super) fn exchange_of(device: &Device) -> StaticSecret {
    StaticSecret::from(*device.derived("recall-exchange-1").bytes())
}
