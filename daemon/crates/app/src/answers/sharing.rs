//! The answers about what is shared with other machines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Moment, PublicId};
use recall_sync::address::RemoteKind;

/// What would leave if a project were shared.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct PreviewAnswer {
    pub project: String,
    /// The identity by which other machines know the project.
    pub identity: String,
    pub observations: u64,
    /// Summaries of sessions.
    #[serde(default)]
    pub summaries: u64,
    /// Approved plans.
    #[serde(default)]
    pub plans: u64,
    /// What was asked, and what was answered at last, if that leaves.
    #[serde(default)]
    pub prompts: u64,
    #[serde(default)]
    pub answers: u64,
    pub sessions: u64,
    /// Preferences and corrections, which stay.
    pub personal: u64,
    /// A few titles, newest first.
    pub samples: Vec<String>,
    pub held: Vec<HeldNote>,
}

/// A note, a summary, a plan, or a change of one that does not leave.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct HeldNote {
    /// `null` if it is not here any more.
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
    /// What should be known once, such as a new name of this data folder.
    pub notices: Vec<String>,
}

/// A project that is shared through a remote.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ShareAnswer {
    pub project: String,
    /// The identity by which other machines know the project.
    pub identity: String,
    pub remote: String,
    pub url: String,
    /// What kind of place the remote is: `folder` or `postgres`.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only members of a team can read what is there.
    #[serde(default)]
    pub encrypted: bool,
    pub inject: bool,
    pub personal: bool,
    /// What is asked here leaves, and what agents answer at last.
    #[serde(default)]
    pub prompts: bool,
    #[serde(default)]
    pub answers: bool,
    /// The number of this machine's last change, and of the last that the remote has.
    pub logged: u64,
    pub sent: u64,
    /// How many changes the last round sent and read.
    #[serde(default)]
    pub sent_last: u64,
    #[serde(default)]
    pub read_last: u64,
    /// How many notes, summaries, plans, prompts and answers of others are here.
    pub received: u64,
    pub held: Vec<HeldNote>,
    /// Changes that a newer version of recall wrote.
    pub parked: u64,
    /// What reads like instructions to a model, and waits for a person.
    #[serde(default)]
    pub quarantined: u64,
    pub devices: Vec<DeviceAnswer>,
    /// What was forgotten here and is to go everywhere.
    #[serde(default)]
    pub forgotten: ForgottenAnswer,
    /// Why the last round with the remote failed; `null` if it did not.
    pub error: Option<String>,
    /// The last round that succeeded since the daemon's start.
    pub synced_at: Option<Moment>,
    /// When a failed round is tried again.
    pub next_try: Option<Moment>,
}

impl ShareAnswer {
    /// How many machines are like this.
    fn count(&self, is_so: fn(&&DeviceAnswer) -> bool) -> u64 {
        self.devices.iter().filter(is_so).count() as u64
    }
}

/// What became of deletions elsewhere, as the machines said that the last round saw.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
pub struct ForgottenAnswer {
    /// How many notes, summaries and plans were forgotten here.
    pub total: u64,
    /// How many of them every known machine has deleted.
    pub everywhere: u64,
    /// The other known machines.
    pub machines: u64,
    /// Those that some machine has not deleted yet, the newest first, at most 20.
    pub waiting: Vec<WaitingDeletion>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct WaitingDeletion {
    pub at: Moment,
    /// How many machines have deleted it.
    pub confirmed: u64,
    /// The others.
    pub missing: Vec<String>,
}

/// What is shared through a remote, in short.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RemoteState {
    pub remote: String,
    /// What kind of place it is: `folder` or `postgres`.
    #[serde(default)]
    pub kind: Option<String>,
    pub projects: u64,
    /// Changes from here that the remote does not have yet.
    pub waiting: u64,
    /// Notes, summaries and plans that do not leave.
    pub held: u64,
    /// Changes of others that a newer version of recall wrote.
    pub parked: u64,
    /// What others sent that reads like instructions to a model, and waits for a person.
    #[serde(default)]
    pub quarantined: u64,
    /// Changes of others that are not read yet.
    #[serde(default)]
    pub to_come: u64,
    /// Machines of which no more is read, because something is wrong with their logs.
    #[serde(default)]
    pub stopped: u64,
    /// Machines whose clocks are off.
    #[serde(default)]
    pub clocks_off: u64,
    /// Why the last round failed; `null` if it did not.
    pub error: Option<String>,
    /// The last round that succeeded with all projects since the daemon's start.
    pub synced_at: Option<Moment>,
}

impl RemoteState {
    /// The remote, and what it is.
    pub fn title(&self) -> String {
        let kind = RemoteKind::ALL.into_iter().find(|kind| self.kind.as_deref() == Some(kind.as_str()));
        kind.map_or_else(|| self.remote.clone(), |kind| format!("{} ({kind})", self.remote))
    }

    /// One for each remote, by name.
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
            // The least is none, if there is one without.
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
    /// The number of its last change that is here.
    pub seq: u64,
    /// The number of its last change in the remote, if the last round saw it.
    pub available: Option<u64>,
    /// When something of it last came.
    pub at: Option<Moment>,
    /// Changes that could not be used.
    pub refused: u64,
    /// The number of the last change of this machine that it has read; `null` if it has not said.
    #[serde(default)]
    pub has_read: Option<u64>,
    /// How far its clock is ahead of this machine's, or behind if negative; it may be farther off. `null` if nothing is known
    /// to be wrong.
    #[serde(default)]
    pub clock_ahead_ms: Option<i64>,
    /// It has logged more than is read in a round. The rest is read in the next ones.
    #[serde(default)]
    pub deferred: bool,
    /// Why no more of it is read; `null` if nothing is wrong.
    pub error: Option<String>,
}

impl DeviceAnswer {
    /// How many of its changes are known to be there and are not read yet.
    pub fn to_come(&self) -> u64 {
        self.available.unwrap_or(self.seq).saturating_sub(self.seq)
    }

    /// What people call it.
    pub fn title(&self) -> String {
        let short = self.device.get(..8).unwrap_or(&self.device);
        match self.author.as_str() {
            "" => short.to_owned(),
            author => format!("{author}, {} ({short})", self.name),
        }
    }
}
