//! The entries of the table of routes: a path, its input, and its answer.

use hyper::Method;
use recall_protocol::query::Query;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use super::answer::Refusal;
use super::call::Call;
use super::hooks::HookCall;
use recall_app::requests::Request;

/// Builds a request from a call.
pub(super) type Reading = fn(&Call) -> Result<Query, Refusal>;

#[derive(Clone, Copy)]
pub(super) enum Endpoint {
    /// Public: anybody on this machine may know that the gateway exists.
    Health,
    /// Gives a token to a page that knows a link's key.
    Open,
    Ask(Reading, AnswerSchema),
    /// Like `Ask`, but the answer is the text of the agent's context block.
    AskText(Reading),
    Hook(HookCall),
    Processing,
    Live,
    Metrics,
    OpenApi,
}

pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) what: &'static str,
    pub(super) parameters: &'static [Parameter],
    /// The schema of the body, if there is one.
    pub(super) body: Option<AnswerSchema>,
    pub(super) endpoint: Endpoint,
}

/// A parameter of the query.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) value: ParameterValue,
    pub(super) required: Required,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ParameterValue {
    Text,
    /// 0 or more.
    Number,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Required {
    Yes,
    No,
}

pub(super) const fn text(name: &'static str) -> Parameter {
    Parameter { name, value: ParameterValue::Text, required: Required::No }
}

pub(super) const fn number(name: &'static str) -> Parameter {
    Parameter { name, value: ParameterValue::Number, required: Required::No }
}

pub(super) const fn needed(name: &'static str) -> Parameter {
    Parameter { name, value: ParameterValue::Text, required: Required::Yes }
}

pub(super) const fn get(
    path: &'static str,
    what: &'static str,
    parameters: &'static [Parameter],
    endpoint: Endpoint,
) -> Route {
    Route { method: Method::GET, path, what, parameters, body: None, endpoint }
}

pub(super) const fn post(
    path: &'static str,
    what: &'static str,
    body: Option<AnswerSchema>,
    endpoint: Endpoint,
) -> Route {
    Route { method: Method::POST, path, what, parameters: &[], body, endpoint }
}

/// A call that is converted to a hook event.
pub(super) const fn hook(
    path: &'static str,
    what: &'static str,
    body: AnswerSchema,
    call: HookCall,
) -> Route {
    post(path, what, Some(body), Endpoint::Hook(call))
}

/// Generates the schema of an answer or a body.
pub(super) type AnswerSchema = fn(&mut SchemaGenerator) -> Schema;

/// The schema of the answer to a request.
pub(super) fn of<R: Request<Response: JsonSchema>>(schemas: &mut SchemaGenerator) -> Schema {
    schemas.subschema_for::<R::Response>()
}

pub(super) fn schema_of<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Schema {
    schemas.subschema_for::<T>()
}

#[derive(Serialize, JsonSchema)]
pub(super) struct OpenAnswer {
    /// For `Authorization: Bearer TOKEN`.
    pub(super) token: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct HealthAnswer {
    pub(super) status: &'static str,
    /// The proof for the challenge, if one was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) proof: Option<String>,
}
