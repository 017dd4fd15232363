//! How compression works: which backends, with which settings and limits. Read from `[compression]`.

use std::time::Duration;

use recall_domain::budget::Caps;
use recall_providers::{Backend, BackendKind, CallSettings};

/// After this many times the longest call, a job starts no further call. So a job always ends.
pub(crate) const LONGEST_CALLS_BEFORE_LAST: u32 = 2;

/// How much one model call covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// A session, when it ends or is compacted. Until then it has built-in results.
    #[default]
    Session,
    /// A turn, when it ends; a session's summary is another call.
    Turn,
}

/// How compression works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionPolicy {
    /// The backends, in the order in which they are tried. If the list is empty, the built-in compressor does
    /// everything. It also stands in whenever they have no result, whether listed or not.
    pub backends: Vec<Backend>,
    pub unit: Unit,
    /// The time limit in seconds of one call, and of a job of the built-in compressor.
    pub timeout_s: u64,
    /// The number of parallel jobs, not counting those that need no model although backends are configured.
    pub concurrency: usize,
    pub max_attempts: u32,
    /// The estimated maximum tokens of material in one call.
    pub material_tokens: u32,
    pub caps: Caps,
    /// The proxy for calls. The environment's proxy is never used.
    pub proxy: Option<String>,
}

impl CompressionPolicy {
    /// Whether recall knows the price of each model. `claude` reports what a call has cost.
    pub fn is_priced(&self) -> bool {
        self.backends.iter().all(|backend| {
            let prices = &backend.prices;
            backend.kind == BackendKind::ClaudeCli || prices.per_mtok_in > 0 || prices.per_mtok_out > 0
        })
    }

    pub fn longest_call(&self) -> Duration {
        Duration::from_secs(self.timeout_s)
    }

    pub fn call_settings(&self) -> CallSettings {
        CallSettings { timeout: self.longest_call(), proxy: self.proxy.clone() }
    }

    /// The time limit of a job, in which each backend may be called more than once.
    pub fn job_within(&self) -> Duration {
        let call = self.longest_call();
        match u32::try_from(self.backends.len()) {
            Ok(0) => call,
            // Each backend may start a last call at the last moment.
            backends => call
                .saturating_mul(LONGEST_CALLS_BEFORE_LAST + 1)
                .saturating_mul(backends.unwrap_or(u32::MAX)),
        }
    }
}
