//! Sends to a collector using OTLP/HTTP with binary protobuf, the specification's default
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp>). No redirect is followed, and the proxy variables of the
//! environment are ignored.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use reqwest::header::CONTENT_TYPE;

use super::{Metric, resource, scope};
use recall_domain::ids::Timestamp;
use recall_providers::{ProviderSetupError, client};

const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// The maximum time from connecting to the last byte of the response. It is the specification's default.
const WITHIN: Duration = Duration::from_secs(10);
/// The maximum size of a response. A collector responds with a few bytes.
const MOST_ANSWER_BYTES: usize = 64 * 1024;

/// A receiver of traces and metrics. Cheap to clone.
#[derive(Clone)]
pub struct Collector {
    client: reqwest::Client,
    /// Without a trailing slash.
    endpoint: String,
}

/// The collector's response to sent spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The number of rejected spans.
    pub rejected: u64,
}

/// Why nothing was sent. The messages contain no address, because the path may contain a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// A later attempt may succeed.
    #[error("{0}")]
    Later(String),
    /// No later attempt can succeed.
    #[error("{0}")]
    Never(String),
}

impl Collector {
    /// # Errors
    /// Fails when no HTTP client can be created.
    pub fn new(endpoint: &str) -> Result<Self, ProviderSetupError> {
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        Ok(Self { client: client(&endpoint, None, CONNECT_WITHIN)?, endpoint })
    }

    /// # Errors
    /// Fails when the collector did not accept the request.
    pub async fn send_spans(&self, spans: Vec<Span>) -> Result<Sent, NotSent> {
        let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans, ..ScopeSpans::default() }];
        let of_recall = ResourceSpans { resource: Some(resource()), scope_spans, ..ResourceSpans::default() };
        let request = ExportTraceServiceRequest { resource_spans: vec![of_recall] };
        let answer = self.post("/v1/traces", request.encode_to_vec()).await?;
        // Whatever the response contains, the collector has accepted the request.
        let answer = ExportTraceServiceResponse::decode(answer.as_slice()).unwrap_or_default();
        let rejected = answer.partial_success.map_or(0, |partly| partly.rejected_spans);
        Ok(Sent { rejected: u64::try_from(rejected).unwrap_or(0) })
    }

    /// `since` is the start time of the daemon.
    ///
    /// # Errors
    /// Fails when the collector did not accept the request.
    pub async fn send_metrics(
        &self,
        metrics: &[Metric],
        since: Timestamp,
        now: Timestamp,
    ) -> Result<(), NotSent> {
        let metrics = metrics.iter().map(|metric| metric.to_otlp(since, now)).collect();
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() }];
        let of_recall =
            ResourceMetrics { resource: Some(resource()), scope_metrics, ..ResourceMetrics::default() };
        let request = ExportMetricsServiceRequest { resource_metrics: vec![of_recall] };
        self.post("/v1/metrics", request.encode_to_vec()).await.map(drop)
    }

    async fn post(&self, path: &str, body: Vec<u8>) -> Result<Vec<u8>, NotSent> {
        let request = self
            .client
            .post(format!("{}{path}", self.endpoint))
            .header(CONTENT_TYPE, "application/x-protobuf")
            .timeout(WITHIN)
            .body(body);
        let mut answer = request.send().await.map_err(|error| broken(&error))?;
        let status = answer.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| broken(&error))? {
            if body.len() + chunk.len() > MOST_ANSWER_BYTES {
                return Err(NotSent::Never("the collector's response is too long".to_owned()));
            }
            body.extend_from_slice(&chunk);
        }
        match status {
            200..=299 => Ok(body),
            // The specification requires a retry for these statuses.
            429 | 502 | 503 | 504 => Err(NotSent::Later(format!("the collector responded with {status}"))),
            _ => Err(NotSent::Never(format!("the collector responded with {status}"))),
        }
    }
}

fn broken(error: &reqwest::Error) -> NotSent {
    let why = match (error.is_connect(), error.is_timeout()) {
        (true, _) => "the collector cannot be reached",
        (false, true) => "the collector took too long",
        (false, false) => "the connection to the collector broke",
    };
    NotSent::Later(why.to_owned())
}
