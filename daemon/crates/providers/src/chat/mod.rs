//! Models that respond to a text with a text: one file per API, behind one trait.

mod anthropic;
mod openai;
mod claude_cli;
mod program;

use serde_json::Value;

use program::Program;

use super::http::{Http, Limits};
use super::{Backend, BackendKind, CallSettings, ProviderError, ProviderSetupError, Tokens};
use recall_domain::budget::{Prices, Usage};
use recall_domain::ids::Timestamp;
use recall_domain::tokens;

/// One stateless request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatRequest {
    pub system: String,
    pub user: String,
    pub form: AnswerForm,
    /// The maximum number of tokens in the answer.
    pub most_out: u32,
}

/// The JSON object that an answer must be. Not every provider enforces the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerForm {
    /// The name of the schema, and of the tool that enforces it.
    pub name: &'static str,
    pub schema: Value,
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatReply {
    /// The answer; JSON if the provider enforces the schema.
    pub text: String,
    /// The usage that the provider reports. `None` if it reports none.
    pub tokens: Option<Tokens>,
    /// The price that the provider reports, in millionths of a US dollar.
    pub micro_usd: Option<u64>,
}

/// A model that can be called. Called on threads that may block.
pub trait ChatProvider: Send + Sync + 'static {
    /// Makes one call, which ends within its own deadline.
    ///
    /// # Errors
    /// Fails when there is no answer. The error tells what that means for the next call.
    fn ask(&self, request: &ChatRequest, now: Timestamp) -> Result<ChatReply, ProviderError>;
}

impl ChatRequest {
    /// The maximum cost of a call. In all measurements a token was at least two bytes of text; the provider itself
    /// limits the length of the answer.
    pub fn most(&self, prices: Prices) -> Usage {
        const FORM_TOKENS: u64 = 1_000;
        let text = self.system.len() + self.user.len();
        prices.of((text as u64).div_ceil(2) + FORM_TOKENS, self.most_out.into())
    }

    /// The cost of a call; an estimate if the provider does not report it.
    pub fn cost(&self, reply: &ChatReply, prices: Prices) -> Usage {
        let estimated = || Tokens {
            into: (tokens::estimate(&self.system) + tokens::estimate(&self.user)).into(),
            out: tokens::estimate(&reply.text).into(),
        };
        let usage = reply.tokens.unwrap_or_else(estimated).usage(prices);
        Usage { micro_usd: reply.micro_usd.unwrap_or(usage.micro_usd), ..usage }
    }
}

/// Creates the provider of a backend. This sends nothing and reads no key.
///
/// # Errors
/// Fails when the settings are invalid for an HTTP client.
pub fn provider(
    backend: &Backend,
    settings: &CallSettings,
    runtime: &tokio::runtime::Handle,
) -> Result<Box<dyn ChatProvider>, ProviderSetupError> {
    let limits = Limits { total: settings.timeout.min(Limits::MOST.total), ..Limits::MOST };
    let http = || Http::new(limits, settings.proxy.as_deref(), runtime.clone());
    Ok(match backend.kind {
        BackendKind::Anthropic => Box::new(anthropic::Anthropic::new(backend, http()?)),
        BackendKind::OpenAi => Box::new(openai::OpenAi::new(backend, http()?)),
        BackendKind::ClaudeCli => Box::new(claude_cli::ClaudeCli::new(&backend.model, settings.timeout)),
        _ => Box::new(Program::new(backend, settings.timeout)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn request(name: &'static str) -> ChatRequest {
        ChatRequest {
            system: "(rules)".to_owned(),
            user: "<material>\n(material)\n</material>".to_owned(),
            form: AnswerForm { name, schema: serde_json::json!({"type": "object"}) },
            most_out: 4096,
        }
    }
}
