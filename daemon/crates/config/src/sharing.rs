//! `[[remote]]`, `[[share]]` and `[sync]`: which projects' notes leave this machine, and where they go. Without a
//! share nothing leaves.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use recall_sync::address::{Address, AddressError};
use recall_system::secret::KeySource;

/// A folder or database through which machines exchange notes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteSettings {
    pub name: String,
    pub url: String,
    /// Where a database's password is, unless it is in a password file of `psql`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_keyring: Option<String>,
    /// Whether shared data is stored unencrypted. Otherwise only members of a team can read it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plaintext: bool,
}

impl RemoteSettings {
    pub fn address(&self) -> Result<Address, AddressError> {
        Address::parse(&self.url)
    }

    pub fn password(&self) -> KeySource {
        if let Some(path) = &self.password_file {
            return KeySource::File(path.clone());
        }
        if let Some(account) = &self.password_keyring {
            return KeySource::Keyring(account.clone());
        }
        self.password_env.clone().map_or(KeySource::None, KeySource::Environment)
    }

    /// Describes the errors of this entry. Each begins with its key.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let Self { name, password_env, password_file, password_keyring, .. } = self;
        let is_word = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        if name.is_empty() || !name.chars().all(is_word) {
            problems
                .push(format!("remote.name: {name:?} may contain only letters, digits, `-`, `_` and `.`"));
        }
        let sources = [password_env.is_some(), password_file.is_some(), password_keyring.is_some()];
        let sources = sources.iter().filter(|is_given| **is_given).count();
        match self.address() {
            // The address is not repeated: it may contain a password.
            Err(why) => problems.push(format!("remote.url: the address of {name:?} {why}")),
            Ok(Address::Folder(_)) if sources > 0 => {
                problems.push(format!("remote: {name:?} is a folder and needs no password"));
            }
            Ok(_) => {}
        }
        if sources > 1 {
            let ways = "password_env, password_file, password_keyring";
            problems.push(format!("remote: {name:?} has several passwords; use one of {ways}"));
        }
        if password_file.as_ref().is_some_and(|path| !path.is_absolute()) {
            problems.push(format!("remote.password_file: {name:?} needs an absolute path"));
        }
        problems
    }
}

/// A project whose notes are shared through a remote.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SharedProject {
    /// The identity that the project has on all machines.
    pub project: String,
    pub remote: String,
    /// Whether others' notes are delivered to sessions. Otherwise they can only be searched.
    #[serde(default)]
    pub inject: bool,
    /// Whether all machines belong to one person. If so, preferences, corrections and pins are shared, too.
    #[serde(default)]
    pub personal: bool,
    /// Whether prompts are shared.
    #[serde(default)]
    pub prompts: bool,
    /// Whether agents' final answers are shared.
    #[serde(default)]
    pub answers: bool,
}

/// The shares and remotes, and the names under which this machine shares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    pub remotes: Vec<RemoteSettings>,
    pub shares: Vec<SharedProject>,
    /// The author's name. `None` means the user's login name.
    pub author: Option<String>,
    /// The name of this machine. `None` means its host name.
    pub device: Option<String>,
}

impl Sharing {
    pub fn remote(&self, name: &str) -> Option<&RemoteSettings> {
        self.remotes.iter().find(|known| known.name == name)
    }
}

/// Describes the errors of single entries. Each begins with its key.
pub(super) fn problems(remotes: &[RemoteSettings], shares: &[SharedProject]) -> Vec<String> {
    let mut problems: Vec<String> = remotes.iter().flat_map(RemoteSettings::problems).collect();
    for SharedProject { project, .. } in shares {
        if !["git:", "root:"].iter().any(|kind| project.starts_with(kind)) {
            problems.push(format!("share.project: {project:?} is not an identity that other machines know"));
        }
    }
    problems
}

/// Removes entries that contradict others, and describes them.
pub(super) fn settle(remotes: &mut Vec<RemoteSettings>, shares: &mut Vec<SharedProject>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    remotes.retain(|RemoteSettings { name, .. }| {
        let is_new = names.insert(name.clone());
        problems.extend((!is_new).then(|| format!("remote.name: there are two remotes {name:?}")));
        is_new
    });
    let mut known = BTreeSet::new();
    shares.retain(|SharedProject { project, remote, .. }| {
        let is_new = known.insert((project.clone(), remote.clone()));
        let problem = match (names.contains(remote), is_new) {
            (false, _) => format!("share.remote: there is no remote {remote:?}"),
            (true, false) => format!("share.project: {project:?} is shared with {remote:?} twice"),
            (true, true) => return true,
        };
        problems.push(problem);
        false
    });
    problems
}
