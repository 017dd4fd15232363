//! `[[remote]]`, `[[share]]` and `[sync]`: which project's notes leave this machine, and where they go. Without a share
//! nothing does.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use recall_sync::folder::Folder;

/// A place that several machines see.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    pub name: String,
    pub url: String,
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
    /// The address of a remote.
    pub fn url_of(&self, remote: &str) -> Option<&str> {
        self.remotes.iter().find(|known| known.name == remote).map(|known| known.url.as_str())
    }
}

/// The mistakes of single entries. Each begins with its key.
pub(super) fn problems(remotes: &[Remote], shares: &[SharedProject]) -> Vec<String> {
    let mut problems = Vec::new();
    for Remote { name, url } in remotes {
        let is_word = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        if name.is_empty() || !name.chars().all(is_word) {
            problems.push(format!("remote.name: {name:?} must be of letters, digits, `-`, `_` and `.`"));
        }
        if Folder::at(url).is_none() {
            let example = "file:///media/stick/recall";
            problems.push(format!("remote.url: {url:?} is not the address of a folder, such as {example}"));
        }
    }
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
