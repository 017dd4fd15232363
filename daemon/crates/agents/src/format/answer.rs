//! The envelopes in which agents accept context and notices.

use serde_json::{Map, Value, json};

use crate::HookOutput;
use recall_domain::guard::Refusal;

/// `{"systemMessage", "hookSpecificOutput": {"hookEventName", "additionalContext"}}`.
pub fn nested(event: &str, output: &HookOutput) -> Vec<u8> {
    let mut object = Map::new();
    if let Some(notice) = &output.notice {
        object.insert("systemMessage".to_owned(), json!(notice));
    }
    if let Some(context) = &output.context {
        object.insert("hookSpecificOutput".to_owned(), specific(event, context));
    }
    line(object)
}

/// Like [`nested`], without a notice, and with the context repeated at the top level: two hosts read the same file,
/// and each takes its own field.
pub(crate) fn nested_and_flat(event: &str, output: &HookOutput) -> Vec<u8> {
    let mut object = Map::new();
    if let Some(context) = &output.context {
        object.insert("additionalContext".to_owned(), json!(context));
        object.insert("hookSpecificOutput".to_owned(), specific(event, context));
    }
    line(object)
}

/// Refuses a call, or asks the user: `{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision",
/// "permissionDecisionReason"}}`.
pub fn refusal(refusal: Refusal, reason: &str) -> Vec<u8> {
    let specific = json!({
        "hookEventName": "PreToolUse",
        "permissionDecision": refusal.name(),
        "permissionDecisionReason": reason,
    });
    line([("hookSpecificOutput".to_owned(), specific)].into_iter().collect())
}

/// Like [`refusal`], for an agent that does not accept `ask`: the call is refused.
pub(crate) fn plain_refusal(wanted: Refusal, reason: &str) -> Vec<u8> {
    match wanted {
        Refusal::Deny => refusal(Refusal::Deny, reason),
        Refusal::Ask => {
            refusal(Refusal::Deny, &format!("{reason} A hook cannot ask here, so the call is refused."))
        }
    }
}

/// Informs the model about an allowed call. Without a decision the agent's own rules for the call apply.
pub fn advice(text: &str) -> Vec<u8> {
    line([("hookSpecificOutput".to_owned(), specific("PreToolUse", text))].into_iter().collect())
}

/// Adds a call's new input to an answer before the call. Without a decision the agent's own rules apply.
pub(crate) fn with_input(event: &str, field: &str, answer: &[u8], input: Map<String, Value>) -> Vec<u8> {
    let mut object = object(answer);
    let specific = object.entry("hookSpecificOutput").or_insert_with(|| json!({"hookEventName": event}));
    if let Value::Object(specific) = specific {
        specific.insert(field.to_owned(), input.into());
    }
    line(object)
}

/// Parses an answer's object; an empty answer is an empty object.
pub(crate) fn object(answer: &[u8]) -> Map<String, Value> {
    serde_json::from_slice(answer).unwrap_or_default()
}

/// Adds a warning to a call's result, like [`nested`].
pub fn warning(text: &str) -> Vec<u8> {
    line([("hookSpecificOutput".to_owned(), specific("PostToolUse", text))].into_iter().collect())
}

fn specific(event: &str, context: &str) -> Value {
    json!({"hookEventName": event, "additionalContext": context})
}

/// Renders an object on one line; an empty object gives no output.
pub fn line(object: Map<String, Value>) -> Vec<u8> {
    if object.is_empty() {
        return Vec::new();
    }
    let mut bytes = Value::Object(object).to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}
