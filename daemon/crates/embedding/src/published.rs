//! The table of models that `recall model get` can download: where each is published, and the size and hash of each
//! file.
//!
//! **Invariant:** this module opens no connection. A file whose size or SHA-256 differs from the table is refused.

use serde::Deserialize;

/// The built-in table.
const TABLE: &str = include_str!("published.toml");

/// A published model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The model's name in recall.
    pub name: String,
    /// The publisher's name for the model.
    pub title: String,
    pub language: String,
    pub licence: String,
    /// A web page for people.
    pub page: String,
    pub revision: String,
    /// The base address of the files of that revision.
    pub address: String,
    /// Hosts to which a download may be redirected.
    pub hosts: Vec<String>,
    pub package: Option<Package>,
    pub installed_bytes: u64,
    pub files: Vec<PublishedFile>,
}

/// A Python package with the files of a model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    pub name: String,
    pub version: String,
}

/// One of a model's files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedFile {
    /// The path in the model's folder.
    pub name: String,
    pub size: u64,
    /// The hash in hexadecimal digits.
    pub sha256: String,
}

#[derive(Deserialize)]
struct Table {
    model: Vec<Published>,
}

impl Published {
    /// All known models.
    pub fn all() -> Vec<Self> {
        let parsed: Option<Table> = toml::from_str(&table()).ok();
        parsed.map(|table| table.model).unwrap_or_default()
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|model| model.name == name)
    }

    /// The total size of the download.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// The hash of the published weights.
    pub fn weights_sha256(&self) -> &str {
        let weights = self.files.iter().find(|file| file.name == super::model_folder::WEIGHTS);
        weights.map_or("", |file| file.sha256.as_str())
    }

    /// Whether a download may be redirected to this host.
    pub fn allows(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| match known.strip_prefix('*') {
            Some(below) => host.strip_suffix(below).is_some_and(|name| !name.is_empty()),
            None => known == host,
        })
    }
}

/// Returns the table. In test builds a file may contain a different one, with small models published on this machine.
#[cfg(feature = "faults")]
fn table() -> String {
    let other = std::env::var_os("RECALL_PUBLISHED").and_then(|path| std::fs::read_to_string(path).ok());
    other.unwrap_or_else(|| TABLE.to_owned())
}

#[cfg(not(feature = "faults"))]
fn table() -> String {
    TABLE.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_published_models_is_valid() {
        let known = toml::from_str::<Table>(TABLE).unwrap().model;
        assert_eq!(known[0].name, "minilm");
        for model in &known {
            assert!(crate::is_model_name(&model.name));
            assert!(model.address.starts_with("https://") && model.address.ends_with(&model.revision));
            assert_eq!(model.weights_sha256().len(), 64, "{}", model.name);
            for file in &model.files {
                assert!(file.size > 0 && file.size < 1 << 30, "{}", file.name);
                assert!(file.sha256.len() == 64 && file.sha256.bytes().all(|c| c.is_ascii_hexdigit()));
                assert!(super::super::model_folder::FILES.contains(&file.name.as_str()), "{}", file.name);
            }
        }
    }

    #[test]
    fn redirects_are_allowed_only_to_listed_hosts_and_wildcard_subdomains() {
        let model = toml::from_str::<Table>(TABLE).unwrap().model.remove(0);
        for host in ["huggingface.co", "cdn-lfs.hf.co", "us.aws.cdn.hf.co"] {
            assert!(model.allows(host), "{host}");
        }
        for host in ["hf.co", "cdn.hf.co", "huggingface.co.example", "evilcdn.hf.co", "localhost", ""] {
            assert!(!model.allows(host), "{host}");
        }
    }
}
