//! The OpenAPI document, made of the table of routes and of the types of the answers.

use hyper::Method;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::answer::JSON;
use super::hooks::HookCall;
use super::routes::{Endpoint, ROUTES};
use crate::app::requests::Request;

/// Makes the schema of an answer.
pub(super) type AnswerSchema = fn(&mut SchemaGenerator) -> Schema;

/// The schema of what answers a request.
pub(super) fn of<R: Request<Response: JsonSchema>>(schemas: &mut SchemaGenerator) -> Schema {
    schemas.subschema_for::<R::Response>()
}

pub(super) fn document() -> Value {
    let mut schemas = SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let mut paths = Map::new();
    for route in ROUTES {
        let mut parameters = Vec::new();
        if route.path.contains("{id}") {
            parameters
                .push(json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}));
        }
        let mut operation = json!({
            "summary": route.what,
            "responses": {
                "200": {"description": "Done", "content": content(route.endpoint, &mut schemas)},
                "default": {"description": "Refused", "content": {JSON: {"schema": {"$ref": "#/components/schemas/Refusal"}}}},
            },
        });
        if route.method == Method::GET {
            let query = |name: &&str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
            parameters.extend(route.parameters.iter().map(query));
        } else {
            let fields: Map<String, Value> =
                route.parameters.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
            operation["requestBody"] =
                json!({"content": {JSON: {"schema": {"type": "object", "properties": fields}}}});
        }
        operation["parameters"] = Value::Array(parameters);
        if matches!(route.endpoint, Endpoint::Health) {
            operation["security"] = json!([]);
        }
        let place = paths.entry(route.path).or_insert_with(|| json!({}));
        place[route.method.as_str().to_lowercase()] = operation;
    }
    let text = json!({"type": "string"});
    let mut known = schemas.take_definitions(true);
    known.insert(
        "Refusal".to_owned(),
        json!({"type": "object", "required": ["error"], "properties": {"error": {
            "type": "object", "required": ["kind", "what", "hint"],
            "properties": {"kind": text, "what": text, "hint": text}}}}),
    );
    json!({
        "openapi": "3.1.0",
        "info": {"title": "recall", "version": env!("CARGO_PKG_VERSION")},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": known,
        },
    })
}

/// What an endpoint answers, by its media type.
fn content(endpoint: Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let text = json!({"type": "string"});
    let (kind, schema) = match endpoint {
        Endpoint::AskText(_) => ("text/markdown", text),
        Endpoint::Metrics => ("text/plain", text),
        Endpoint::Live => ("text/event-stream", text),
        Endpoint::Ask(_, schema) => (JSON, schema(schemas).to_value()),
        Endpoint::Hook(HookCall::Start) => (JSON, object(&["status", "context"])),
        Endpoint::Hook(HookCall::Prompt) => (JSON, object(&["sessionDbId", "promptNumber", "skipped"])),
        Endpoint::Hook(HookCall::ToolUse | HookCall::Answer | HookCall::End) | Endpoint::Health => {
            (JSON, object(&["status"]))
        }
        // Each agent has a format of its own.
        Endpoint::Hook(HookCall::Raw) => (JSON, json!({})),
        Endpoint::Processing => (JSON, object(&["isProcessing", "queueDepth"])),
        Endpoint::OpenApi => (JSON, object(&["openapi", "paths"])),
    };
    json!({kind: {"schema": schema}})
}

fn object(required: &[&str]) -> Value {
    json!({"type": "object", "required": required})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_every_route() {
        let document = document();
        for route in ROUTES {
            assert!(
                document["paths"][route.path][route.method.as_str().to_lowercase()].is_object(),
                "{}",
                route.path
            );
        }
    }
}
