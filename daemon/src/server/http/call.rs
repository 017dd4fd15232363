//! The parts of a request: the variable part of its path, its query, and its body.

use hyper::http::request::Parts;
use serde_json::{Map, Value};

use super::answer::Refusal;

pub(super) struct Call {
    /// The variable part of the path.
    pub id: Option<String>,
    parameters: Vec<(String, String)>,
    /// The fields of the body; empty if there is no body.
    pub body: Map<String, Value>,
    pub last_event_id: Option<String>,
}

impl Call {
    pub(super) fn new(head: &Parts, id: Option<String>) -> Self {
        let query = head.uri.query().unwrap_or_default();
        let last_event_id = head.headers.get("last-event-id").and_then(|id| id.to_str().ok());
        Self {
            id,
            parameters: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
            body: Map::new(),
            last_event_id: last_event_id.map(str::to_owned),
        }
    }

    pub(super) fn read_body(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.body =
            serde_json::from_slice(bytes).map_err(|_| Refusal::invalid("The body is not a JSON object"))?;
        Ok(())
    }

    /// Returns the text in the query or body under the first of these names that exists.
    pub(super) fn text(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| {
            let given = self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
            let text = given.or_else(|| match self.body.get(*name) {
                Some(Value::String(text)) => Some(text.clone()),
                Some(Value::Number(number)) => Some(number.to_string()),
                _ => None,
            });
            text.filter(|text| !text.is_empty())
        })
    }

    pub(super) fn number(&self, names: &[&str]) -> Result<Option<u32>, Refusal> {
        let Some(text) = self.text(names) else { return Ok(None) };
        let wrong =
            |_| Refusal::invalid(format!("{} is not a number: {text:?}", names.first().unwrap_or(&"it")));
        text.parse().map(Some).map_err(wrong)
    }

    /// Like [`Self::text`], but a missing text is an error.
    pub(super) fn needed(&self, names: &[&str]) -> Result<String, Refusal> {
        let missing = || Refusal::invalid(format!("{} is missing", names.first().unwrap_or(&"something")));
        self.text(names).ok_or_else(missing)
    }
}
