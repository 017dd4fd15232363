//! `[compression]`: the models, their addresses and keys, and the limits of their costs.
//!
//! The keys in the same table as `backend` describe that backend. A backend listed in `fallback` has its own table,
//! such as `[compression.openai]`, with the same keys. So settings of one provider are never sent to another.

use super::tables::{Compression, Compressor, Endpoint, RequestUnit};
use recall_compression::EXTRACTIVE;
use recall_compression::policy::{CompressionPolicy, Unit};
use recall_domain::budget::{Caps, Prices};
use recall_providers::{Backend, BackendKind, KeySource};

impl Compressor {
    fn kind(self) -> Option<BackendKind> {
        match self {
            Self::Extractive => None,
            Self::Anthropic => Some(BackendKind::Anthropic),
            Self::OpenAi => Some(BackendKind::OpenAi),
            Self::ClaudeCli => Some(BackendKind::ClaudeCli),
            Self::CodexCli => Some(BackendKind::CodexCli),
            Self::GeminiCli => Some(BackendKind::GeminiCli),
            Self::QwenCli => Some(BackendKind::QwenCli),
            Self::CopilotCli => Some(BackendKind::CopilotCli),
            Self::OpenCodeCli => Some(BackendKind::OpenCodeCli),
            Self::Command => Some(BackendKind::Command),
        }
    }
}

impl Compression {
    /// All problems except numbers out of range.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let dollars = [("usd_per_day", self.usd_per_day), ("project_usd_per_day", self.project_usd_per_day)];
        for (key, value) in dollars {
            problems.extend(self.unpriced().filter(|_| value > 0.0).map(|(place, model)| {
                format!(
                    "compression.{key} has no effect, because the price of {model} is not set: \
                     set {place}.usd_per_mtok_in and {place}.usd_per_mtok_out first, or cap compression.tokens_per_day"
                )
            }));
        }
        let has_command = self.command.first().is_some_and(|program| !program.trim().is_empty());
        for (place, kind, endpoint) in self.endpoints() {
            if kind == BackendKind::Command && !has_command {
                problems.push("compression.command is missing: the backend command runs it".to_owned());
            }
            endpoint.check(&place, kind, &mut problems);
            endpoint.check_proxied(&place, "compression", self.proxy.as_deref(), &mut problems);
        }
        check_proxy("compression", self.proxy.as_deref(), &mut problems);
        problems
    }

    /// Returns the policy of these settings. All values must be in range.
    pub(super) fn policy(&self) -> CompressionPolicy {
        CompressionPolicy {
            backends: self
                .endpoints()
                .into_iter()
                .map(|(_, kind, endpoint)| Backend {
                    command: self.command.clone(),
                    ..endpoint.backend(kind)
                })
                .collect(),
            unit: match self.unit {
                RequestUnit::Session => Unit::Session,
                RequestUnit::Turn => Unit::Turn,
            },
            timeout_s: self.timeout_s.unsigned_abs(),
            concurrency: usize::try_from(self.concurrency).unwrap_or(2),
            max_attempts: u32::try_from(self.max_attempts).unwrap_or(5),
            material_tokens: u32::try_from(self.material_tokens).unwrap_or(6_000),
            caps: Caps {
                tokens: self.tokens_per_day.unsigned_abs(),
                micro_usd: micro(self.usd_per_day),
                project_tokens: self.project_tokens_per_day.unsigned_abs(),
                project_micro_usd: micro(self.project_usd_per_day),
            },
            proxy: self.proxy.clone(),
        }
    }

    /// The first backend in use that has no price, with the prefix of its keys. `claude` reports the cost of a call
    /// itself, and a server on this machine is free.
    fn unpriced(&self) -> Option<(String, String)> {
        self.endpoints().into_iter().find_map(|(place, kind, endpoint)| {
            let is_priced = endpoint.usd_per_mtok_in > 0.0 || endpoint.usd_per_mtok_out > 0.0;
            let is_free = kind == BackendKind::ClaudeCli || endpoint.is_on_this_machine();
            let model = endpoint.backend(kind).model;
            (!is_priced && !is_free).then_some((place, model))
        })
    }

    /// The backends in use, in order of preference, each with the prefix of its keys.
    fn endpoints(&self) -> Vec<(String, BackendKind, Endpoint)> {
        let mut endpoints = Vec::new();
        if let Some(kind) = self.backend.kind() {
            endpoints.push(("compression".to_owned(), kind, self.own_endpoint()));
        }
        let others = self.fallback.iter().filter(|backend| **backend != self.backend);
        for kind in others.filter_map(|backend| backend.kind()) {
            let table = match kind {
                BackendKind::Anthropic => &self.anthropic,
                BackendKind::OpenAi => &self.openai,
                BackendKind::ClaudeCli => &self.claude_cli,
                BackendKind::CodexCli => &self.codex_cli,
                BackendKind::GeminiCli => &self.gemini_cli,
                BackendKind::QwenCli => &self.qwen_cli,
                BackendKind::CopilotCli => &self.copilot_cli,
                BackendKind::OpenCodeCli => &self.opencode_cli,
                BackendKind::Command => &None,
            };
            endpoints.push((format!("compression.{kind}"), kind, table.clone().unwrap_or_default()));
        }
        endpoints
    }

    fn own_endpoint(&self) -> Endpoint {
        Endpoint {
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            api_key_env: self.api_key_env.clone(),
            api_key_file: self.api_key_file.clone(),
            api_key_keyring: self.api_key_keyring.clone(),
            usd_per_mtok_in: self.usd_per_mtok_in,
            usd_per_mtok_out: self.usd_per_mtok_out,
        }
    }
}

impl Endpoint {
    /// `place` is the table of this endpoint, `table` is the one that contains the proxy.
    pub(super) fn check_proxied(
        &self,
        place: &str,
        table: &str,
        proxy: Option<&str>,
        problems: &mut Vec<String>,
    ) {
        if proxy.is_some() && self.is_on_this_machine() {
            problems.push(format!(
                "{place}.base_url is on this machine, but {table}.proxy would send its requests elsewhere, \
                 unencrypted: remove one of the two"
            ));
        }
    }

    pub(super) fn check(&self, place: &str, kind: BackendKind, problems: &mut Vec<String>) {
        if self.model.is_none() && kind.default_model().is_none() {
            problems.push(format!("{place}.model is missing: {kind} has no default model"));
        }
        if self.model.as_ref().is_some_and(|model| model.trim().is_empty() || model.starts_with('-')) {
            problems.push(format!("{place}.model is not the name of a model"));
        }
        if let Some(url) = &self.base_url
            && let Err(problem) = check_url(url)
        {
            problems.push(format!("{place}.base_url {problem}"));
        }
        let keys = [self.api_key_env.is_some(), self.api_key_file.is_some(), self.api_key_keyring.is_some()];
        if keys.iter().filter(|is_given| **is_given).count() > 1 {
            problems.push(format!(
                "{place} has several keys; use one of api_key_env, api_key_file, api_key_keyring"
            ));
        }
        if self.api_key_file.as_ref().is_some_and(|path| !path.is_absolute()) {
            problems.push(format!("{place}.api_key_file must be an absolute path"));
        }
        check_dollars(&format!("{place}.usd_per_mtok_in"), self.usd_per_mtok_in, problems);
        check_dollars(&format!("{place}.usd_per_mtok_out"), self.usd_per_mtok_out, problems);
    }

    fn is_on_this_machine(&self) -> bool {
        let url = self.base_url.as_ref().and_then(|url| reqwest::Url::parse(url).ok());
        url.is_some_and(|url| may_be_this_machine(&url))
    }

    pub(super) fn backend(&self, kind: BackendKind) -> Backend {
        let base_url = self.base_url.as_deref().unwrap_or(kind.default_base_url());
        let model = self.model.as_deref().or(kind.default_model()).unwrap_or(EXTRACTIVE);
        Backend {
            kind,
            model: model.trim().to_owned(),
            base_url: base_url.trim_end_matches('/').to_owned(),
            command: Vec::new(),
            key: self.key(kind),
            prices: Prices {
                per_mtok_in: micro(self.usd_per_mtok_in),
                per_mtok_out: micro(self.usd_per_mtok_out),
            },
        }
    }

    /// Without a configured API key, the key is read from the provider's usual variable, but only for the provider's own
    /// url: a key is never sent to a different server.
    fn key(&self, kind: BackendKind) -> KeySource {
        if let Some(path) = &self.api_key_file {
            return KeySource::File(path.clone());
        }
        if let Some(account) = &self.api_key_keyring {
            return KeySource::Keyring(account.clone());
        }
        if let Some(name) = &self.api_key_env {
            return KeySource::Environment(name.clone());
        }
        match (kind, &self.base_url) {
            (BackendKind::Anthropic, None) => KeySource::Environment("ANTHROPIC_API_KEY".to_owned()),
            (BackendKind::OpenAi, None) => KeySource::Environment("OPENAI_API_KEY".to_owned()),
            _ => KeySource::None,
        }
    }
}

pub(super) fn check_proxy(table: &str, proxy: Option<&str>, problems: &mut Vec<String>) {
    if proxy.is_some_and(|proxy| !["http://", "https://"].iter().any(|scheme| proxy.starts_with(scheme))) {
        problems.push(format!("{table}.proxy must begin with http:// or https://"));
    }
}

/// Checks that the url is encrypted or on this machine.
pub(super) fn check_url(text: &str) -> Result<(), String> {
    let url = reqwest::Url::parse(text).map_err(|error| format!("is not a valid address: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user name or password".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must end with its path".to_owned());
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback(&url) => Ok(()),
        _ => Err("must use https unless it is on this machine".to_owned()),
    }
}

/// Whether the url is on this machine.
fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.to_canonical().is_loopback())
}

/// The host of an address, if text sent to it leaves this machine.
pub(super) fn other_host(base_url: &str) -> Option<String> {
    let url = reqwest::Url::parse(base_url).ok()?;
    (!is_loopback(&url)).then(|| url.host_str().map(str::to_owned))?
}

/// Whether an address may denote this machine. A name below `localhost` may resolve to another one, so this function
/// permits nothing: [`is_loopback`] decides what may be sent unencrypted.
fn may_be_this_machine(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.');
    let is_unspecified = || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.to_canonical().is_unspecified());
    host == "localhost" || host.ends_with(".localhost") || is_loopback(url) || is_unspecified()
}

fn check_dollars(key: &str, value: f64, problems: &mut Vec<String>) {
    const MOST: f64 = 1_000_000.0;
    if !(0.0..=MOST).contains(&value) {
        problems.push(format!("{key} is {value}; it must be 0 to {MOST}"));
    }
}

/// Converts dollars to millionths.
fn micro(dollars: f64) -> u64 {
    (dollars * 1_000_000.0).round() as u64
}
