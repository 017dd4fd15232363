//! `[embedding]`: whether vectors of texts are computed, and by which model.

use std::time::Duration;

use super::compression::check_proxy;
use super::tables::{Embedding, Endpoint, VectorMaker};
use recall_providers::{Backend, BackendKind, CallSettings};

/// The model that computes vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EmbeddingPolicy {
    #[default]
    None,
    /// A model that runs on this machine: the name of an installed one, or the path of a folder.
    Local { model: String },
    /// A server with the embeddings API, which receives the texts.
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

    /// The model's name as written in the file; empty if there is none.
    pub fn model(&self) -> &str {
        match self {
            Self::None => "",
            Self::Local { model } => model,
            Self::OpenAi { backend, .. } => &backend.model,
        }
    }
}

impl Embedding {
    /// All problems except numbers out of range.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        match self.backend {
            VectorMaker::None => {}
            VectorMaker::Local => {
                let model = self.model.as_deref().unwrap_or_default();
                let is_name = || recall_embedding::is_model_name(model);
                if model.is_empty() {
                    problems.push(
                        "embedding.model is missing: set a model from `recall model list`, or a folder"
                            .to_owned(),
                    );
                } else if !model.starts_with('/') && !is_name() {
                    problems
                        .push("embedding.model must be the name of a model or an absolute path".to_owned());
                }
            }
            VectorMaker::OpenAi => {
                let (endpoint, proxy) = (self.endpoint(), self.proxy.as_deref());
                endpoint.check("embedding", BackendKind::OpenAi, &mut problems);
                endpoint.check_proxied("embedding", "embedding", proxy, &mut problems);
                check_proxy("embedding", proxy, &mut problems);
            }
        }
        problems
    }

    /// All values must be in range.
    pub(super) fn policy(&self) -> EmbeddingPolicy {
        match self.backend {
            VectorMaker::None => EmbeddingPolicy::None,
            VectorMaker::Local => EmbeddingPolicy::Local { model: self.model.clone().unwrap_or_default() },
            VectorMaker::OpenAi => EmbeddingPolicy::OpenAi {
                backend: self.endpoint().backend(BackendKind::OpenAi),
                settings: CallSettings {
                    timeout: Duration::from_secs(self.timeout_s.unsigned_abs()),
                    proxy: self.proxy.clone(),
                },
            },
        }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint {
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
