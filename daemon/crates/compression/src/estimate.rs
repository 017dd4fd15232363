//! Estimates the cost of noting a session, before a model is called.

use super::notes::NotesMaterial;
use super::policy::CompressionPolicy;
use super::{condense, prompt};
use recall_domain::budget::Usage;
use recall_domain::tokens;

/// The tokens of an answer. The contract allows twelve observations and a summary, and most sessions need less.
const ANSWER: u64 = 900;

/// An estimate that assumes one good answer for each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    pub calls: u64,
    pub usage: Usage,
}

impl Estimate {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let usage = Usage {
            tokens_in: self.usage.tokens_in + other.usage.tokens_in,
            tokens_out: self.usage.tokens_out + other.usage.tokens_out,
            micro_usd: self.usage.micro_usd + other.usage.micro_usd,
        };
        Self { calls: self.calls + other.calls, usage }
    }
}

/// Estimates with the first model of the policy. A long session takes several calls.
pub fn of_notes(mut material: NotesMaterial, policy: &CompressionPolicy) -> Estimate {
    let prices = policy.backends.first().map(|backend| backend.prices).unwrap_or_default();
    let mut estimate = Estimate::default();
    while !material.due.is_empty() {
        let part = material.first_part();
        let request = prompt::notes(&condense::notes(&part, policy.material_tokens).text, &part);
        let sent = tokens::estimate(&request.system) + tokens::estimate(&request.user);
        let call = Estimate { calls: 1, usage: prices.of(sent.into(), ANSWER) };
        estimate = estimate.and(call);
        material.due.drain(..part.due.len().max(1));
    }
    estimate
}
