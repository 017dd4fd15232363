//! Generates the OpenAPI document from the table of routes and the types of the answers.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::answer::JSON;
use super::hooks::{Accepted, HookCall, ProcessingAnswer, PromptAnswer, StartAnswer};
use super::route::{Endpoint, HealthAnswer, OpenAnswer, ParameterValue, Required, Route, schema_of};

pub(super) fn document(routes: &[Route]) -> Value {
    let placed = |settings: SchemaSettings| {
        settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator()
    };
    let mut schemas = placed(SchemaSettings::draft2020_12().for_serialize());
    // Optional fields of a body are not optional in an answer.
    let mut bodies = placed(SchemaSettings::draft2020_12().for_deserialize());
    let mut paths = Map::new();
    for route in routes {
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
        parameters.extend(route.parameters.iter().map(|parameter| {
            let schema = match parameter.value {
                ParameterValue::Text => json!({"type": "string"}),
                ParameterValue::Number => json!({"type": "integer", "minimum": 0}),
            };
            let required = parameter.required == Required::Yes;
            json!({"name": parameter.name, "in": "query", "required": required, "schema": schema})
        }));
        if let Some(body) = route.body {
            let schema = body(&mut bodies).to_value();
            operation["requestBody"] = json!({"required": true, "content": {JSON: {"schema": schema}}});
        }
        operation["parameters"] = Value::Array(parameters);
        if matches!(route.endpoint, Endpoint::Health | Endpoint::Open) {
            operation["security"] = json!([]);
        }
        let place = paths.entry(route.path).or_insert_with(|| json!({}));
        place[route.method.as_str().to_lowercase()] = operation;
    }
    let text = json!({"type": "string"});
    let mut known = schemas.take_definitions(true);
    known.append(&mut bodies.take_definitions(true));
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

/// The content of an endpoint's answer, by media type.
fn content(endpoint: Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let text = json!({"type": "string"});
    let (kind, schema) = match endpoint {
        Endpoint::AskText(_) => ("text/markdown", text),
        Endpoint::Metrics => ("text/plain", text),
        Endpoint::Live => ("text/event-stream", text),
        Endpoint::Ask(_, schema) => (JSON, schema(schemas).to_value()),
        Endpoint::Hook(HookCall::Start) => (JSON, schema_of::<StartAnswer>(schemas).to_value()),
        Endpoint::Hook(HookCall::Prompt) => (JSON, schema_of::<PromptAnswer>(schemas).to_value()),
        Endpoint::Hook(HookCall::ToolUse | HookCall::Answer | HookCall::End) => {
            (JSON, schema_of::<Accepted>(schemas).to_value())
        }
        Endpoint::Health => (JSON, schema_of::<HealthAnswer>(schemas).to_value()),
        Endpoint::Open => (JSON, schema_of::<OpenAnswer>(schemas).to_value()),
        // Each agent has its own format.
        Endpoint::Hook(HookCall::Raw) => (JSON, json!({})),
        Endpoint::Processing => (JSON, schema_of::<ProcessingAnswer>(schemas).to_value()),
        Endpoint::OpenApi => (JSON, object(&["openapi", "paths"])),
    };
    json!({kind: {"schema": schema}})
}

fn object(required: &[&str]) -> Value {
    json!({"type": "object", "required": required})
}
