//! The Messages API. To enforce the schema, a request offers a single tool and requires its use.

use serde_json::{Value, json};

use super::{ChatProvider, ChatReply, ChatRequest};
use crate::http::Http;
use crate::{Backend, KeySource, ProviderError, Tokens, barred, count};
use recall_domain::ids::Timestamp;
use recall_system::secret::{Secret, read_key};

/// The API version whose requests and responses this module implements.
const VERSION: &str = "2023-06-01";

pub(super) struct Anthropic {
    http: Http,
    url: String,
    model: String,
    key: KeySource,
}

impl Anthropic {
    pub(super) fn new(backend: &Backend, http: Http) -> Self {
        // Some users include the version in the base address, which is usual for the other API.
        let base = backend.base_url.trim_end_matches("/v1");
        Self {
            http,
            url: format!("{base}/v1/messages"),
            model: backend.model.clone(),
            key: backend.key.clone(),
        }
    }
}

impl ChatProvider for Anthropic {
    fn ask(&self, request: &ChatRequest, now: Timestamp) -> Result<ChatReply, ProviderError> {
        let key = read_key(&self.key).map_err(barred)?;
        let key = key.as_ref().map(Secret::reveal);
        let mut headers = vec![("anthropic-version", VERSION)];
        headers.extend(key.map(|key| ("x-api-key", key)));
        let answer = self
            .http
            .post(&self.url, &headers, &body(&self.model, request), now)
            .map_err(|error| error.error)?;
        Ok(reply(&answer))
    }
}

fn body(model: &str, request: &ChatRequest) -> Value {
    let name = request.form.name;
    json!({
        "model": model,
        "max_tokens": request.most_out,
        "system": request.system,
        "messages": [{"role": "user", "content": request.user}],
        "tools": [{
            "name": name,
            "description": "Receives the answer.",
            "input_schema": request.form.schema,
        }],
        "tool_choice": {"type": "tool", "name": name},
    })
}

/// Returns the tool's input, or the text if there is none.
fn reply(answer: &Value) -> ChatReply {
    let blocks = answer.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let input = blocks.iter().find_map(|block| block.get("input")).map(Value::to_string);
    let all_text =
        || blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str)).collect::<String>();
    ChatReply { text: input.unwrap_or_else(all_text), tokens: tokens(answer.get("usage")), micro_usd: None }
}

/// Counts the tokens, including those read from or written to a cache.
pub(super) fn tokens(usage: Option<&Value>) -> Option<Tokens> {
    let usage = usage?;
    let cached =
        ["cache_creation_input_tokens", "cache_read_input_tokens"].map(|key| count(usage, key).unwrap_or(0));
    Some(Tokens {
        into: count(usage, "input_tokens")?.saturating_add(cached.iter().sum()),
        out: count(usage, "output_tokens")?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::request;
    use super::*;

    #[test]
    fn a_request_offers_one_tool_and_asks_for_it() {
        let body = body("claude-test", &request("keep_observations"));
        let mut short = body.clone();
        for path in ["/system", "/tools/0/input_schema", "/messages/0/content"] {
            *short.pointer_mut(path).unwrap() = json!("…");
        }
        insta::assert_json_snapshot!(short);
    }

    #[test]
    fn answers_are_read_from_the_tool_or_from_prose() {
        let answer = json!({"content": [{"type": "text", "text": "Here:"},
            {"type": "tool_use", "name": "keep_observations", "input": {"observations": []}}],
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 2}});
        let read = reply(&answer);
        assert_eq!(read.text, r#"{"observations":[]}"#);
        assert_eq!(read.tokens, Some(Tokens { into: 15, out: 2 }));
        let read =
            reply(&json!({"content": [{"type": "text", "text": "{}"}], "usage": {"input_tokens": -1}}));
        assert_eq!((read.text.as_str(), read.tokens), ("{}", None));
        assert_eq!(reply(&json!([])).text, "");
    }
}
