//! The models that can be asked, one file each, behind one trait.
//!
//! A provider makes one call and says how it went. Retrying, pausing, falling back and paying are decided above it.

mod key;
mod retry_after;
mod http;
mod anthropic;
mod openai;
mod claude_cli;

use std::time::Duration;

use serde_json::Value;

pub use http::Limits;

use super::policy::{Backend, BackendKind, CompressionPolicy};
use super::prompt::Question;
use crate::memory::budget::{Prices, Usage};
use crate::memory::ids::Timestamp;

/// A model that can be asked. Called on threads that may block.
pub trait Provider: Send + Sync + 'static {
    /// Makes one call, or refuses to within its own deadline.
    ///
    /// # Errors
    /// When there is no answer; the error says what that means for the next call.
    fn ask(&self, question: &Question, now: Timestamp) -> Result<Reply, ProviderError>;
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The answer as text, JSON where the provider enforces the schema.
    pub text: String,
    /// What the provider says that it costs. `None`: it does not say.
    pub tokens: Option<Tokens>,
    /// Where the provider itself names a price, in millionths of a US dollar.
    pub micro_usd: Option<u64>,
}

/// Tokens as a provider counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    pub into: u64,
    pub out: u64,
}

/// Why there is no answer. Nothing here holds a key or any of the material.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// It may be better next time. `wait_ms`: not before, the provider says.
    #[error("{why}")]
    Trouble { why: String, wait_ms: Option<u64>, paid: Paid },
    /// This request will not be answered, others may be.
    #[error("{why}")]
    Unacceptable { why: String },
    /// It has answered, and nothing can be made of the answer; it may have to be paid for.
    #[error("{why}")]
    Unreadable { why: String },
    /// No request will be answered before a person has seen to it.
    #[error("{why}")]
    Barred { why: String },
}

/// Whether a call that brought nothing may have cost something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paid {
    /// The provider refused it, or never got it.
    No,
    /// It was on its way; only the provider knows.
    Perhaps,
}

/// Why a provider cannot be made of its settings.
#[derive(Debug, thiserror::Error)]
pub enum ProviderSetupError {
    #[error("the HTTP client cannot be made: {0}")]
    Client(String),
    #[error("compression.proxy is no proxy: {0}")]
    Proxy(String),
}

/// Makes the provider of a backend. Nothing is sent and no key is read before the first call.
///
/// # Errors
/// When the settings make no client.
pub fn provider(
    backend: &Backend,
    policy: &CompressionPolicy,
    runtime: &tokio::runtime::Handle,
) -> Result<Box<dyn Provider>, ProviderSetupError> {
    let limits =
        Limits { total: Duration::from_secs(policy.timeout_s).min(Limits::MOST.total), ..Limits::MOST };
    let http = || http::Http::new(limits, policy.proxy.as_deref(), runtime.clone());
    Ok(match backend.kind {
        BackendKind::Anthropic => Box::new(anthropic::Anthropic::new(backend, http()?)),
        BackendKind::OpenAi => Box::new(openai::OpenAi::new(backend, http()?)),
        BackendKind::ClaudeCli => {
            Box::new(claude_cli::ClaudeCli::new(&backend.model, Duration::from_secs(policy.timeout_s)))
        }
    })
}

/// A count in a provider's answer; what is none is none.
fn count(usage: &Value, key: &str) -> Option<u64> {
    usage.get(key).and_then(Value::as_u64)
}

impl Tokens {
    pub fn usage(self, prices: Prices) -> Usage {
        prices.of(self.into, self.out)
    }
}
