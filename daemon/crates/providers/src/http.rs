//! Sends one POST request with JSON, within limits: no redirect is followed, the proxy variables of the environment
//! are ignored, no body is read beyond its size limit, and everything ends at the deadline however slowly bytes
//! arrive.

use std::sync::{Once, OnceLock};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use serde_json::Value;
use tokio::runtime::Handle;

use super::retry_after::{wait_ms, wait_of_ms};
use super::{Paid, ProviderError, ProviderSetupError, barred};
use recall_domain::ids::Timestamp;
use recall_domain::plain::visible;
use recall_system::faults::{Fault, planted};

/// The limits of a call's time and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub connect: Duration,
    /// The maximum time from the first byte sent to the last byte received.
    pub total: Duration,
    pub body_bytes: usize,
}

impl Limits {
    pub(super) const MOST: Self =
        Self { connect: Duration::from_secs(5), total: Duration::from_secs(60), body_bytes: 1024 * 1024 };
}

/// A client for one server. It is created at the first call, so it costs nothing before.
pub(super) struct Http {
    client: OnceLock<reqwest::Client>,
    proxy: Option<reqwest::Proxy>,
    limits: Limits,
    runtime: Handle,
}

/// Why a call failed.
pub(super) struct HttpError {
    /// The HTTP status, if the provider responded.
    pub(super) status: Option<u16>,
    pub(super) error: ProviderError,
}

impl From<ProviderError> for HttpError {
    fn from(error: ProviderError) -> Self {
        Self { status: None, error }
    }
}

impl Http {
    pub(super) fn new(
        limits: Limits,
        proxy: Option<&str>,
        runtime: Handle,
    ) -> Result<Self, ProviderSetupError> {
        let proxy = proxy.map(reqwest::Proxy::all).transpose();
        let proxy = proxy.map_err(|error| ProviderSetupError::Proxy(error.to_string()))?;
        Ok(Self { client: OnceLock::new(), proxy, limits, runtime })
    }

    /// Sends a body and returns that of the response. Blocks, so it must not run on the runtime's threads.
    pub(super) fn post(
        &self,
        url: &str,
        headers: &[(&'static str, &str)],
        body: &Value,
        now: Timestamp,
    ) -> Result<Value, HttpError> {
        self.runtime.block_on(self.call(url, headers, body, now))
    }

    async fn call(
        &self,
        url: &str,
        headers: &[(&'static str, &str)],
        body: &Value,
        now: Timestamp,
    ) -> Result<Value, HttpError> {
        let headers = header_map(headers)?;
        let client = self.client(url)?;
        let body = serde_json::to_vec(body).map_err(|error| unacceptable(error.to_string()))?;
        let request = client.post(url).headers(headers).body(body);
        let exchanged = tokio::time::timeout(self.limits.total, exchange(request, &self.limits)).await;
        let too_late = |_| {
            let within = self.limits.total.as_secs_f32();
            trouble(format!("the provider has not answered in {within} s"), Paid::Perhaps)
        };
        judged(exchanged.map_err(too_late)??, now)
    }

    fn client(&self, url: &str) -> Result<&reqwest::Client, ProviderError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let made = self.make_client(url).map_err(|error| unacceptable(error.to_string()))?;
        // Another thread may have created a client in the meantime; either one is fine.
        Ok(self.client.get_or_init(|| made))
    }

    fn make_client(&self, url: &str) -> Result<reqwest::Client, ProviderSetupError> {
        client(url, self.proxy.clone(), self.limits.connect)
    }
}

/// Creates a client for the server of this address.
///
/// # Errors
/// Fails when the system's certificates cannot be used.
pub fn client(
    url: &str,
    proxy: Option<reqwest::Proxy>,
    connect_within: Duration,
) -> Result<reqwest::Client, ProviderSetupError> {
    static TLS: Once = Once::new();
    TLS.call_once(|| {
        // An error means that a crypto provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let builder = reqwest::Client::builder()
        .redirect(redirects())
        .retry(reqwest::retry::never())
        .no_proxy()
        .connect_timeout(connect_within)
        .pool_idle_timeout(Duration::from_secs(30))
        .user_agent(concat!("recall/", env!("CARGO_PKG_VERSION")));
    let builder = match proxy {
        Some(proxy) => builder.proxy(proxy),
        None => builder,
    };
    // A server on this machine needs no certificates, and a machine may have none.
    let builder = if url.starts_with("http://") { builder.tls_certs_only([]) } else { builder };
    builder.build().map_err(|error| ProviderSetupError::Client(error.to_string()))
}

/// Never follows redirects: only the configured address may respond.
fn redirects() -> Policy {
    if planted(Fault::FollowRedirects) { Policy::limited(1) } else { Policy::none() }
}

/// A response before its status is evaluated.
struct HttpAnswer {
    status: u16,
    /// The value of `retry-after-ms`, or of `retry-after` if there is none.
    retry_after_ms: Option<String>,
    retry_after: Option<String>,
    body: Vec<u8>,
}

async fn exchange(request: reqwest::RequestBuilder, limits: &Limits) -> Result<HttpAnswer, ProviderError> {
    let mut response = request.send().await.map_err(|error| broken(&error))?;
    let header = |name: &str| {
        let value = response.headers().get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_owned)
    };
    let (retry_after_ms, retry_after) = (header("retry-after-ms"), header("retry-after"));
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| broken(&error))? {
        if body.len() + chunk.len() > limits.body_bytes {
            let why = format!("the provider's answer is larger than {} bytes", limits.body_bytes);
            return Err(trouble(why, Paid::Perhaps));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(HttpAnswer { status, retry_after_ms, retry_after, body })
}

/// Determines what a status means for the next call.
fn judged(answer: HttpAnswer, now: Timestamp) -> Result<Value, HttpError> {
    let body: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let status = answer.status;
    if (200..300).contains(&status) {
        return match body {
            None => Err(unreadable("the provider's answer is not JSON".to_owned()).into()),
            Some(body) => match error_message(&body) {
                Some(message) => {
                    Err(unreadable(format!("the provider responded with an error: {message}")).into())
                }
                None => Ok(body),
            },
        };
    }
    let code = body.as_ref().map(code).unwrap_or_default();
    let detail = if code.is_empty() { String::new() } else { format!(" ({code})") };
    let is_out_of_money = OUT_OF_MONEY.iter().any(|known| error_contains(body.as_ref(), known));
    let error = match status {
        _ if is_out_of_money => {
            barred(format!("the provider says that the account is empty: {status}{detail}"))
        }
        401 => barred(format!("the provider rejects the key: 401{detail}")),
        402 => barred(format!("the provider requires payment: 402{detail}")),
        403 => barred(format!("the provider forbids the call: 403{detail}")),
        300..=399 => unacceptable(format!(
            "the provider redirects to another address, which is not followed: {status}"
        )),
        408 | 409 | 425 | 429 | 500..=599 => {
            let milliseconds = answer.retry_after_ms.as_deref().and_then(wait_of_ms);
            let wait = milliseconds.or_else(|| wait_ms(answer.retry_after.as_deref()?, now));
            let why = match status {
                429 if code.is_empty() => "rate limited (429)".to_owned(),
                429 => format!("rate limited (429, {code})"),
                status => format!("the provider has a problem: {status}{detail}"),
            };
            ProviderError::Trouble { why, wait_ms: wait, paid: Paid::No }
        }
        _ => unacceptable(format!("the provider does not accept the request: {status}{detail}")),
    };
    Err(HttpError { status: Some(status), error })
}

/// How providers say that an account is empty, under statuses that otherwise mean a temporary problem.
const OUT_OF_MONEY: [&str; 4] =
    ["insufficient_quota", "billing_hard_limit", "credit balance is too low", "billing_error"];

fn error_contains(body: Option<&Value>, known: &str) -> bool {
    let error = body.and_then(|body| body.get("error"));
    let texts =
        ["code", "type", "message"].map(|key| error.and_then(|error| error.get(key)).and_then(Value::as_str));
    texts.into_iter().flatten().any(|text| text.contains(known))
}

/// The error message that a provider sent instead of a result, shortened to one line.
fn error_message(body: &Value) -> Option<String> {
    const LONGEST: usize = 120;
    let error = body.get("error").filter(|error| !error.is_null())?;
    if ["choices", "content"].iter().any(|answer| body.get(answer).is_some()) {
        return None;
    }
    let message = error.get("message").unwrap_or(error).as_str();
    Some(visible(message.unwrap_or("no message")).chars().take(LONGEST).collect())
}

/// The error's short code. The message is left out, because it may quote the request.
fn code(body: &Value) -> String {
    const LONGEST: usize = 60;
    let error = body.get("error").unwrap_or(&Value::Null);
    let name = ["code", "type", "status"].iter().find_map(|key| error.get(*key).and_then(Value::as_str));
    let is_name = |name: &&str| {
        name.len() <= LONGEST
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    name.filter(is_name).unwrap_or_default().to_owned()
}

fn header_map(headers: &[(&'static str, &str)]) -> Result<HeaderMap, ProviderError> {
    let mut map = HeaderMap::new();
    map.insert(reqwest::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| unacceptable(format!("the header {name} cannot contain its value")))?;
        // Excludes it from all debug output.
        value.set_sensitive(true);
        map.insert(HeaderName::from_static(name), value);
    }
    Ok(map)
}

/// A call whose connection failed. The address is left out, because it may contain a user name.
fn broken(error: &reqwest::Error) -> ProviderError {
    if error.is_connect() {
        let why = if error.is_timeout() { "in time" } else { "at all" };
        return trouble(format!("the provider cannot be reached {why}"), Paid::No);
    }
    let why = if error.is_timeout() { "the provider took too long" } else { "the connection broke" };
    trouble(why.to_owned(), Paid::Perhaps)
}

fn trouble(why: String, paid: Paid) -> ProviderError {
    ProviderError::Trouble { why, wait_ms: None, paid }
}

fn unreadable(why: String) -> ProviderError {
    ProviderError::Unreadable { why }
}

fn unacceptable(why: String) -> ProviderError {
    ProviderError::Unacceptable { why }
}

#[cfg(test)]
mod tests;
