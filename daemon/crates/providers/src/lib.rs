//! Calls to models outside the daemon: the HTTP client, keys, `Retry-After`, the circuit breaker, and the rules of the
//! ledger of costs.
//!
//! [`chat`] sends a text and receives a text; [`embeddings`] sends texts and receives vectors. [`CallGuard`] decides
//! whether a call is made.
//!
//! **Invariant:** nothing here knows the purpose of a call, or the meaning of its result.

mod backend;
mod retry_after;
mod http;
mod breaker;
pub mod ledger;
mod guard;
pub mod chat;
pub mod embeddings;

use serde_json::Value;

pub use backend::{Backend, BackendKind, CallSettings};
pub use breaker::Circuit;
pub use guard::{CallError, CallGuard, Payer};
pub use http::client;
pub use recall_system::secret::KeySource;

use recall_domain::budget::{Prices, Usage};

/// The numbers of tokens of a call, as counted by the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    pub into: u64,
    pub out: u64,
}

impl Tokens {
    pub fn usage(self, prices: Prices) -> Usage {
        prices.of(self.into, self.out)
    }
}

/// Why a call failed. The messages contain no key and no part of the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// A later call may succeed. `wait_ms` is the pause that the provider asks for.
    #[error("{why}")]
    Trouble { why: String, wait_ms: Option<u64>, paid: Paid },
    /// The provider refuses this request, but may accept others.
    #[error("{why}")]
    Unacceptable { why: String },
    /// The provider's response cannot be read. The call may have cost something.
    #[error("{why}")]
    Unreadable { why: String },
    /// The provider refuses every request until a person has acted.
    #[error("{why}")]
    Barred { why: String },
}

/// Whether a failed call may have cost something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paid {
    /// The provider refused the call, or never received it.
    No,
    /// The call was in progress, so only the provider knows.
    Perhaps,
}

/// Why the settings are invalid for an HTTP client.
#[derive(Debug, thiserror::Error)]
pub enum ProviderSetupError {
    #[error("cannot create the HTTP client: {0}")]
    Client(String),
    #[error("the proxy is invalid: {0}")]
    Proxy(String),
}

/// The state of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderState {
    /// `provider:model`.
    pub name: String,
    pub circuit: Circuit,
}

fn barred(why: String) -> ProviderError {
    ProviderError::Barred { why }
}

/// A count in a provider's response; `None` if it is not a count.
fn count(usage: &Value, key: &str) -> Option<u64> {
    usage.get(key).and_then(Value::as_u64)
}
