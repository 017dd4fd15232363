//! Answers about sharing with other machines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Moment, PublicId};
use recall_sync::address::RemoteKind;

/// Lists what would leave if a project were shared.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct PreviewAnswer {
    pub project: String,
    /// The identity that the project has on all machines.
    pub identity: String,
    pub observations: u64,
    /// The number of sessions' summaries.
    #[serde(default)]
    pub summaries: u64,
    /// The number of approved plans.
    #[serde(default)]
    pub plans: u64,
    /// The number of prompts, and of final answers, if they are shared.
    #[serde(default)]
    pub prompts: u64,
    #[serde(default)]
    pub answers: u64,
    pub sessions: u64,
    /// The number of preferences and corrections, which stay.
    pub personal: u64,
    /// A few titles, newest first.
    pub samples: Vec<String>,
    pub held: Vec<HeldNote>,
}

/// A note, a summary or a plan that does not leave, or a change of one.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct HeldNote {
    /// `null` if it no longer exists here.
    pub id: Option<PublicId>,
    pub title: Option<String>,
    pub why: String,
}

/// The answer of `sync`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SyncAnswer {
    /// This data folder's name; `null` before the first share.
    pub device: Option<String>,
    pub author: String,
    pub device_name: String,
    pub shares: Vec<ShareAnswer>,
    /// One-time notices, such as a new name of this data folder.
    pub notices: Vec<String>,
}

/// A project that is shared through a remote.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ShareAnswer {
    pub project: String,
    /// The identity that the project has on all machines.
    pub identity: String,
    pub remote: String,
    pub url: String,
    /// The kind of the remote: `folder` or `postgres`.
    #[serde(default)]
    pub kind: Option<String>,
    /// Whether only members of a team can read the remote.
    #[serde(default)]
    pub encrypted: bool,
    pub inject: bool,
    pub personal: bool,
    /// Whether prompts leave; `answers` says the same of final answers.
    #[serde(default)]
    pub prompts: bool,
    #[serde(default)]
    pub answers: bool,
    /// The number of this machine's last change, and of the last one in the remote.
    pub logged: u64,
    pub sent: u64,
    /// How many changes the last round sent and read.
    #[serde(default)]
    pub sent_last: u64,
    #[serde(default)]
    pub read_last: u64,
    /// The number of others' notes, summaries, plans, prompts and answers on this machine.
    pub received: u64,
    pub held: Vec<HeldNote>,
    /// The number of changes that a newer version of recall wrote.
    pub parked: u64,
    /// The number of items that read like instructions to a model, and wait for a person.
    #[serde(default)]
    pub quarantined: u64,
    pub devices: Vec<DeviceAnswer>,
    /// Deletions made here, which apply to all machines.
    #[serde(default)]
    pub forgotten: ForgottenAnswer,
    /// Why the last round with the remote failed; `null` if it succeeded.
    pub error: Option<String>,
    /// The time of the last successful round since the daemon's start.
    pub synced_at: Option<Moment>,
    /// The time at which a failed round is tried again.
    pub next_try: Option<Moment>,
}

impl ShareAnswer {
    /// Counts the machines that match.
    fn count(&self, is_so: fn(&&DeviceAnswer) -> bool) -> u64 {
        self.devices.iter().filter(is_so).count() as u64
    }
}

/// How far deletions have reached other machines, as those reported in the last round.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
pub struct ForgottenAnswer {
    /// The number of notes, summaries and plans that were forgotten here.
    pub total: u64,
    /// The number of them that every known machine has deleted.
    pub everywhere: u64,
    /// The number of other known machines.
    pub machines: u64,
    /// Deletions that some machine has not made yet, the newest first, at most 20.
    pub waiting: Vec<WaitingDeletion>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct WaitingDeletion {
    pub at: Moment,
    /// The number of machines that have made it.
    pub confirmed: u64,
    /// The machines that have not made it yet.
    pub missing: Vec<String>,
}

/// The state of a remote, in short.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RemoteState {
    pub remote: String,
    /// The kind of the remote: `folder` or `postgres`.
    #[serde(default)]
    pub kind: Option<String>,
    pub projects: u64,
    /// The number of local changes that the remote lacks.
    pub waiting: u64,
    /// The number of notes, summaries and plans that do not leave.
    pub held: u64,
    /// The number of others' changes that a newer version of recall wrote.
    pub parked: u64,
    /// The number of others' items that read like instructions to a model, and wait for a person.
    #[serde(default)]
    pub quarantined: u64,
    /// The number of others' changes that are not read yet.
    #[serde(default)]
    pub to_come: u64,
    /// The number of machines whose logs are no longer read, because something is wrong with them.
    #[serde(default)]
    pub stopped: u64,
    /// The number of machines whose clocks are off.
    #[serde(default)]
    pub clocks_off: u64,
    /// Why the last round failed; `null` if it succeeded.
    pub error: Option<String>,
    /// The time of the last round since the daemon's start that succeeded with all projects.
    pub synced_at: Option<Moment>,
}

impl RemoteState {
    /// The remote's name and kind.
    pub fn title(&self) -> String {
        let kind = RemoteKind::ALL.into_iter().find(|kind| self.kind.as_deref() == Some(kind.as_str()));
        kind.map_or_else(|| self.remote.clone(), |kind| format!("{} ({kind})", self.remote))
    }

    /// Summarises shares by remote, ordered by name.
    pub fn of(shares: &[ShareAnswer]) -> Vec<Self> {
        let mut remotes: BTreeMap<&str, Vec<&ShareAnswer>> = BTreeMap::new();
        for share in shares {
            remotes.entry(&share.remote).or_default().push(share);
        }
        let sum = |shares: &[&ShareAnswer], of: fn(&ShareAnswer) -> u64| shares.iter().map(|it| of(it)).sum();
        let state = |(remote, shares): (&str, Vec<&ShareAnswer>)| Self {
            remote: remote.to_owned(),
            kind: shares.iter().find_map(|share| share.kind.clone()),
            projects: shares.len() as u64,
            waiting: sum(&shares, |share| share.logged.saturating_sub(share.sent)),
            held: sum(&shares, |share| share.held.len() as u64),
            parked: sum(&shares, |share| share.parked),
            quarantined: sum(&shares, |share| share.quarantined),
            to_come: sum(&shares, |share| share.devices.iter().map(DeviceAnswer::to_come).sum()),
            stopped: sum(&shares, |share| share.count(|device| device.error.is_some())),
            clocks_off: sum(&shares, |share| share.count(|device| device.clock_ahead_ms.is_some())),
            error: shares.iter().find_map(|share| share.error.clone()),
            // The minimum is `None` if one of them is.
            synced_at: shares
                .iter()
                .map(|share| share.synced_at)
                .min_by_key(|at| at.map(|at| at.0))
                .flatten(),
        };
        remotes.into_iter().map(state).collect()
    }
}

/// Another machine.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct DeviceAnswer {
    pub device: String,
    pub author: String,
    pub name: String,
    /// The number of its last change that was read here.
    pub seq: u64,
    /// The number of its last change in the remote, if the last round saw it.
    pub available: Option<u64>,
    /// When a change of it last arrived.
    pub at: Option<Moment>,
    /// The number of its changes that could not be used.
    pub refused: u64,
    /// The number of this machine's last change that it has read; `null` if unknown.
    #[serde(default)]
    pub has_read: Option<u64>,
    /// A lower bound of how far its clock is ahead of this machine's, or behind if negative. `null` if no skew is
    /// known.
    #[serde(default)]
    pub clock_ahead_ms: Option<i64>,
    /// Whether its log has more entries than one round reads. The next rounds read the rest.
    #[serde(default)]
    pub deferred: bool,
    /// Why its log is no longer read; `null` if nothing is wrong.
    pub error: Option<String>,
}

impl DeviceAnswer {
    /// The number of its changes that are known to exist and are not read yet.
    pub fn to_come(&self) -> u64 {
        self.available.unwrap_or(self.seq).saturating_sub(self.seq)
    }

    /// The name that people see.
    pub fn title(&self) -> String {
        let short = self.device.get(..8).unwrap_or(&self.device);
        match self.author.as_str() {
            "" => short.to_owned(),
            author => format!("{author}, {} ({short})", self.name),
        }
    }
}
