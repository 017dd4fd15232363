//! How compression work is done: which backends, with what, and within which bounds. Read from `[compression]`.

use std::time::Duration;

use recall_domain::budget::Caps;
use recall_providers::{Backend, BackendKind, CallSettings};

/// A job begins no call after so many times the longest call, so that it ends.
pub(crate) const LONGEST_CALLS_BEFORE_LAST: u32 = 2;

/// What a model is asked about at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// A session, when it ends or is compacted. Until then it has built-in results.
    #[default]
    Session,
    /// Each turn, when it ends, and each session once more for its summary.
    Turn,
}

/// How compression work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionPolicy {
    /// In the order in which they are asked; none: the built-in compressor does all. It also stands in whenever they
    /// have no result, whether it is listed or not.
    pub backends: Vec<Backend>,
    pub unit: Unit,
    /// For one call; a job of the built-in compressor.
    pub timeout_s: u64,
    /// Jobs at the same time, those that need no model although there are some aside.
    pub concurrency: usize,
    pub max_attempts: u32,
    /// Tokens of material in one call, estimated.
    pub material_tokens: u32,
    pub caps: Caps,
    /// Whom calls go through; the environment's proxy is never taken.
    pub proxy: Option<String>,
}

impl CompressionPolicy {
    /// Whether recall knows what each model costs. `claude` says what a call has cost.
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

    /// For one job: each backend may be asked more than once, and then the next.
    pub fn job_within(&self) -> Duration {
        let call = self.longest_call();
        match u32::try_from(self.backends.len()) {
            Ok(0) => call,
            // Each backend may begin a last call at the last moment.
            backends => call
                .saturating_mul(LONGEST_CALLS_BEFORE_LAST + 1)
                .saturating_mul(backends.unwrap_or(u32::MAX)),
        }
    }
}
