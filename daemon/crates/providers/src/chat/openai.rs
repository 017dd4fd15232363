//! The Chat Completions API, which many servers implement. Not all support schemas: if a server refuses the first
//! request with a schema but accepts it without, later requests contain none, and the answers are parsed leniently.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{ChatProvider, ChatReply, ChatRequest};
use crate::http::{Http, HttpError};
use crate::{Backend, KeySource, ProviderError, Tokens, barred, count};
use recall_domain::ids::Timestamp;
use recall_system::secret::read_key;

pub(super) struct OpenAi {
    http: Http,
    url: String,
    model: String,
    key: KeySource,
    /// The server has refused a request with a schema, and accepted the same request without.
    knows_no_schemas: AtomicBool,
}

/// Whether the answer's shape is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Enforced,
    Asked,
}

impl OpenAi {
    pub(super) fn new(backend: &Backend, http: Http) -> Self {
        Self {
            http,
            url: format!("{}/chat/completions", backend.base_url),
            model: backend.model.clone(),
            key: backend.key.clone(),
            knows_no_schemas: AtomicBool::new(false),
        }
    }

    fn call(&self, request: &ChatRequest, shape: Shape, now: Timestamp) -> Result<Value, HttpError> {
        let key = read_key(&self.key).map_err(barred)?;
        let bearer = key.as_ref().map(|key| format!("Bearer {}", key.reveal()));
        let headers: Vec<(&'static str, &str)> =
            bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        self.http.post(&self.url, &headers, &body(&self.model, &self.url, request, shape), now)
    }
}

impl ChatProvider for OpenAi {
    fn ask(&self, request: &ChatRequest, now: Timestamp) -> Result<ChatReply, ProviderError> {
        let shape =
            if self.knows_no_schemas.load(Ordering::Relaxed) { Shape::Asked } else { Shape::Enforced };
        let answer = match self.call(request, shape, now) {
            Err(HttpError { status: Some(400 | 422), error: ProviderError::Unacceptable { .. } })
                if shape == Shape::Enforced =>
            {
                // A refused request costs nothing.
                let answer = self.call(request, Shape::Asked, now);
                self.knows_no_schemas.fetch_or(answer.is_ok(), Ordering::Relaxed);
                answer
            }
            other => other,
        };
        Ok(reply(&answer.map_err(|error| error.error)?))
    }
}

fn body(model: &str, url: &str, request: &ChatRequest, shape: Shape) -> Value {
    let mut body = json!({
        "model": model,
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.user},
        ],
    });
    // OpenAI has renamed the field and refuses the old name for newer models; other servers only know the old name.
    let limit =
        if url.starts_with("https://api.openai.com/") { "max_completion_tokens" } else { "max_tokens" };
    body[limit] = json!(request.most_out);
    if shape == Shape::Enforced {
        body["response_format"] = json!({
            "type": "json_schema",
            "json_schema": {"name": request.form.name, "strict": true, "schema": request.form.schema},
        });
    }
    body
}

fn reply(answer: &Value) -> ChatReply {
    let content = answer.pointer("/choices/0/message/content").unwrap_or(&Value::Null);
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    };
    ChatReply { text, tokens: tokens(answer.get("usage")), micro_usd: None }
}

fn tokens(usage: Option<&Value>) -> Option<Tokens> {
    let usage = usage?;
    Some(Tokens { into: count(usage, "prompt_tokens")?, out: count(usage, "completion_tokens")? })
}

#[cfg(test)]
mod tests {
    use super::super::tests::request;
    use super::*;

    #[test]
    fn a_request_carries_the_schema_where_it_is_enforced() {
        let request = request("keep_summary");
        let mut enforced =
            body("gpt-test", "https://api.openai.com/v1/chat/completions", &request, Shape::Enforced);
        for path in ["/messages/0/content", "/response_format/json_schema/schema"] {
            *enforced.pointer_mut(path).unwrap() = json!("…");
        }
        insta::assert_json_snapshot!(enforced);
        let asked = body("llama", "http://127.0.0.1:11434/v1/chat/completions", &request, Shape::Asked);
        assert_eq!(asked.get("response_format"), None);
        assert_eq!(asked["max_tokens"], request.most_out);
    }

    #[test]
    fn answers_are_read_whole_or_in_parts() {
        let usage = json!({"prompt_tokens": 7, "completion_tokens": 3});
        let read = reply(&json!({"choices": [{"message": {"content": "{}"}}], "usage": usage}));
        assert_eq!((read.text.as_str(), read.tokens), ("{}", Some(Tokens { into: 7, out: 3 })));
        let parts =
            json!({"choices": [{"message": {"content": [{"type": "text", "text": "{"}, {"text": "}"}]}}]});
        assert_eq!(reply(&parts).text, "{}");
        assert_eq!(reply(&json!({"choices": []})).text, "");
    }
}
