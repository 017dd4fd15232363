//! `[embedding]`: whether texts get vectors, and which model makes them.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::compression::{WrittenEndpoint, check_proxy};
use recall_providers::{Backend, BackendKind, CallSettings};

/// Which model turns texts into vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EmbeddingPolicy {
    #[default]
    None,
    /// A model that runs on this machine: an installed one by name, or a folder by path.
    Local { model: String },
    /// A server with the embeddings API. Texts are sent to it.
    OpenAi { backend: Backend, settings: CallSettings },
}

impl EmbeddingPolicy {
    /// The backend as written in the file.
    pub fn backend(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Local { .. } => "local",
            Self::OpenAi { .. } => "openai",
        }
    }

    /// The model's name as written in the file; empty without one.
    pub fn model(&self) -> &str {
        match self {
            Self::None => "",
            Self::Local { model } => model,
            Self::OpenAi { backend, .. } => &backend.model,
        }
    }
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WrittenEmbedding {
    backend: WrittenBackend,
    model: Option<String>,
    base_url: Option<String>,
    api_key_env: Option<String>,
    api_key_file: Option<PathBuf>,
    api_key_keyring: Option<String>,
    proxy: Option<String>,
    timeout_s: i64,
    usd_per_mtok_in: f64,
}

/// The known backends. The error for an unknown one lists them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum WrittenBackend {
    #[default]
    None,
    Local,
    OpenAi,
}

impl Default for WrittenEmbedding {
    fn default() -> Self {
        Self {
            backend: WrittenBackend::None,
            model: None,
            base_url: None,
            api_key_env: None,
            api_key_file: None,
            api_key_keyring: None,
            proxy: None,
            timeout_s: 30,
            usd_per_mtok_in: 0.0,
        }
    }
}

impl WrittenEmbedding {
    pub(super) fn ranges(&self) -> [(&'static str, i64, std::ops::RangeInclusive<i64>); 1] {
        [("embedding.timeout_s", self.timeout_s, 1..=60)]
    }

    /// All mistakes apart from numbers out of range.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        match self.backend {
            WrittenBackend::None => {}
            WrittenBackend::Local => {
                let model = self.model.as_deref().unwrap_or_default();
                let is_name = || recall_embedding::is_model_name(model);
                if model.is_empty() {
                    problems.push(
                        "embedding.model is missing: name a model of `recall model list`, or a folder"
                            .to_owned(),
                    );
                } else if !model.starts_with('/') && !is_name() {
                    problems
                        .push("embedding.model must be the name of a model or an absolute path".to_owned());
                }
            }
            WrittenBackend::OpenAi => {
                let (endpoint, proxy) = (self.endpoint(), self.proxy.as_deref());
                endpoint.check("embedding", BackendKind::OpenAi, &mut problems);
                endpoint.check_proxied(("embedding", "embedding"), proxy, &mut problems);
                check_proxy("embedding", proxy, &mut problems);
            }
        }
        problems
    }

    /// Must only be called for values in range.
    pub(super) fn policy(&self) -> EmbeddingPolicy {
        match self.backend {
            WrittenBackend::None => EmbeddingPolicy::None,
            WrittenBackend::Local => EmbeddingPolicy::Local { model: self.model.clone().unwrap_or_default() },
            WrittenBackend::OpenAi => EmbeddingPolicy::OpenAi {
                backend: self.endpoint().backend(BackendKind::OpenAi),
                settings: CallSettings {
                    timeout: Duration::from_secs(self.timeout_s.unsigned_abs()),
                    proxy: self.proxy.clone(),
                },
            },
        }
    }

    fn endpoint(&self) -> WrittenEndpoint {
        WrittenEndpoint {
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            api_key_env: self.api_key_env.clone(),
            api_key_file: self.api_key_file.clone(),
            api_key_keyring: self.api_key_keyring.clone(),
            usd_per_mtok_in: self.usd_per_mtok_in,
            usd_per_mtok_out: 0.0,
        }
    }
}
