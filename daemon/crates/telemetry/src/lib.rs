//! Traces and metrics for an OpenTelemetry collector, sent by OTLP over HTTP.
//!
//! [`spans`] builds spans from the store. A span is sent after its operation has ended, so nothing is kept in memory
//! until then, and a restart loses no span. Ids are hashes of names, so a child knows its parent's id before the
//! parent is sent. [`Collector`] sends the spans.
//!
//! **Invariant:** names, ids, times and counts are sent, but never the text of a prompt, a call or an observation.

mod collector;
mod metric;
pub mod spans;

pub use collector::{Collector, NotSent, Sent};
pub use metric::{Metric, MetricChange, Sample, exposition};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
pub use opentelemetry_proto::tonic::trace::v1::Span;

/// Converts milliseconds since 1970 to nanoseconds.
fn nanoseconds(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0).saturating_mul(1_000_000)
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

fn number(key: &str, value: impl TryInto<i64>) -> KeyValue {
    attribute(key, Value::IntValue(value.try_into().unwrap_or(i64::MAX)))
}

/// The OpenTelemetry resource: this program.
fn resource() -> Resource {
    let attributes = vec![text("service.name", "recall"), text("service.version", env!("CARGO_PKG_VERSION"))];
    Resource { attributes, ..Resource::default() }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope { name: "recall".to_owned(), ..InstrumentationScope::default() }
}
