//! The embeddings API that many servers implement: several texts in one request, one vector for each.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::http::{Http, Limits};
use super::{Backend, CallSettings, KeySource, ProviderError, ProviderSetupError, Tokens, barred, count};
use recall_domain::budget::{Prices, Usage};
use recall_domain::ids::Timestamp;
use recall_domain::tokens;
use recall_system::secret::read_key;

/// The maximum size of a response. A vector has at most a few thousand numbers, and a request a few dozen texts.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// A model on a server that turns texts into vectors.
pub struct EmbeddingProvider {
    http: Http,
    url: String,
    model: String,
    key: KeySource,
}

/// A provider's response.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingReply {
    /// One vector for each text, in the same order, all of the same length.
    pub vectors: Vec<Vec<f32>>,
    /// The token count that the provider reports for the call.
    pub tokens: Option<u64>,
}

impl EmbeddingProvider {
    /// `within` is the maximum duration of one call. The constructor sends nothing and reads no key.
    ///
    /// # Errors
    /// Fails when the settings are invalid for an HTTP client.
    pub fn new(
        backend: &Backend,
        settings: &CallSettings,
        within: Duration,
        runtime: &Handle,
    ) -> Result<Self, ProviderSetupError> {
        let limits = Limits {
            total: within.min(settings.timeout).min(Limits::MOST.total),
            body_bytes: MOST_BYTES,
            ..Limits::MOST
        };
        Ok(Self {
            http: Http::new(limits, settings.proxy.as_deref(), runtime.clone())?,
            url: format!("{}/embeddings", backend.base_url),
            model: backend.model.clone(),
            key: backend.key.clone(),
        })
    }

    /// Makes one call. Blocks, so it must not run on the runtime's threads.
    ///
    /// # Errors
    /// Fails when there are no vectors. The error tells what that means for the next call.
    pub fn embed(&self, texts: &[String], now: Timestamp) -> Result<EmbeddingReply, ProviderError> {
        let key = read_key(&self.key).map_err(barred)?;
        let bearer = key.as_ref().map(|key| format!("Bearer {}", key.reveal()));
        let headers: Vec<(&'static str, &str)> =
            bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        let body = json!({"model": self.model, "input": texts, "encoding_format": "float"});
        let answer = self.http.post(&self.url, &headers, &body, now).map_err(|failed| failed.error)?;
        reply(&answer, texts.len()).ok_or_else(|| ProviderError::Unreadable {
            why: "the provider's answer does not have a vector for each text".to_owned(),
        })
    }
}

/// The maximum cost of a call: a token is at least two bytes of text.
pub fn most(texts: &[String], prices: Prices) -> Usage {
    let bytes: usize = texts.iter().map(String::len).sum();
    prices.of((bytes as u64).div_ceil(2) + texts.len() as u64, 0)
}

/// The cost of a call; an estimate if the provider does not report it.
pub fn cost(texts: &[String], reply: &EmbeddingReply, prices: Prices) -> Usage {
    let estimated = || texts.iter().map(|text| u64::from(tokens::estimate(text))).sum();
    Tokens { into: reply.tokens.unwrap_or_else(estimated), out: 0 }.usage(prices)
}

fn reply(answer: &Value, texts: usize) -> Option<EmbeddingReply> {
    let data = answer.get("data")?.as_array()?;
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
    for (place, entry) in data.iter().enumerate() {
        let index =
            entry.get("index").and_then(Value::as_u64).map_or(Some(place), |index| index.try_into().ok())?;
        let numbers = entry.get("embedding")?.as_array()?;
        let vector: Option<Vec<f32>> =
            numbers.iter().map(|number| number.as_f64().map(|number| number as f32)).collect();
        *vectors.get_mut(index)? = vector;
    }
    let vectors: Vec<Vec<f32>> = vectors.into_iter().collect::<Option<_>>()?;
    let length = vectors.first()?.len();
    let is_whole = length > 0 && vectors.iter().all(|vector| vector.len() == length);
    let tokens = answer.get("usage").and_then(|usage| count(usage, "prompt_tokens"));
    is_whole.then_some(EmbeddingReply { vectors, tokens })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_put_in_the_order_of_their_texts() {
        let answer = json!({"data": [{"index": 1, "embedding": [0.5, 1]}, {"index": 0, "embedding": [1, 0]}],
            "usage": {"prompt_tokens": 9}});
        let read = reply(&answer, 2).unwrap();
        assert_eq!((read.vectors, read.tokens), (vec![vec![1.0, 0.0], vec![0.5, 1.0]], Some(9)));
        let unnumbered = json!({"data": [{"embedding": [1]}, {"embedding": [2]}]});
        assert_eq!(reply(&unnumbered, 2).unwrap().vectors, [[1.0], [2.0]]);
    }

    #[test]
    fn an_answer_without_a_valid_vector_for_each_text_is_rejected() {
        for answer in [
            json!({}),
            json!({"data": []}),
            json!({"data": [{"embedding": [1]}]}),
            json!({"data": [{"embedding": [1]}, {"embedding": [1, 2]}]}),
            json!({"data": [{"embedding": [1]}, {"embedding": ["x"]}]}),
            json!({"data": [{"embedding": []}, {"embedding": []}]}),
            json!({"data": [{"index": 0, "embedding": [1]}, {"index": 7, "embedding": [1]}]}),
        ] {
            assert_eq!(reply(&answer, 2), None, "{answer}");
        }
    }
}
