//! `[[remote]]`, `[[share]]` and `[sync]`: which project's notes leave this machine, and where they go. Without a share
//! nothing does.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use recall_sync::address::{Address, AddressError};
use recall_system::secret::KeySource;

/// A place that several machines see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    pub name: String,
    pub url: String,
    /// Where the password of a database is, if not in a file of passwords as `psql` uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_keyring: Option<String>,
    /// What is there can be read by everybody who can read the place. Else only by the members of a team.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plaintext: bool,
}

impl Remote {
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

    /// Each begins with its key.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let Self { name, password_env, password_file, password_keyring, .. } = self;
        let is_word = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        if name.is_empty() || !name.chars().all(is_word) {
            problems.push(format!("remote.name: {name:?} must be of letters, digits, `-`, `_` and `.`"));
        }
        let sources = [password_env.is_some(), password_file.is_some(), password_keyring.is_some()];
        let sources = sources.iter().filter(|is_given| **is_given).count();
        match self.address() {
            // The address is not repeated: it may have a password.
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
            problems.push(format!("remote.password_file: that of {name:?} must be an absolute path"));
        }
        problems
    }
}

/// A project whose notes are shared through a remote.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SharedProject {
    /// The identity by which other machines know it.
    pub project: String,
    pub remote: String,
    /// Notes of others are told to sessions, not only found.
    #[serde(default)]
    pub inject: bool,
    /// The machines are one person's: preferences, corrections and pins travel, too.
    #[serde(default)]
    pub personal: bool,
    /// What is asked here leaves, too.
    #[serde(default)]
    pub prompts: bool,
    /// What agents answer at last leaves, too.
    #[serde(default)]
    pub answers: bool,
}

/// What is shared, and under which names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    pub remotes: Vec<Remote>,
    pub shares: Vec<SharedProject>,
    /// Who writes on this machine. `None`: the user's name here.
    pub author: Option<String>,
    /// What this machine is called. `None`: its host name.
    pub device: Option<String>,
}

impl Sharing {
    pub fn remote(&self, name: &str) -> Option<&Remote> {
        self.remotes.iter().find(|known| known.name == name)
    }
}

/// The mistakes of single entries. Each begins with its key.
pub(super) fn problems(remotes: &[Remote], shares: &[SharedProject]) -> Vec<String> {
    let mut problems: Vec<String> = remotes.iter().flat_map(Remote::problems).collect();
    for SharedProject { project, .. } in shares {
        if !["git:", "root:"].iter().any(|kind| project.starts_with(kind)) {
            problems.push(format!("share.project: {project:?} is not an identity that other machines know"));
        }
    }
    problems
}

/// Leaves out entries that contradict others, and names them.
pub(super) fn settle(remotes: &mut Vec<Remote>, shares: &mut Vec<SharedProject>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    remotes.retain(|Remote { name, .. }| {
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
