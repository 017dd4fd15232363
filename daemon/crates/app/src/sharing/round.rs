//! A round with every remote: reads what other machines have logged, then sends what is new here.
//!
//! Each round asks the remote what it has. So a remote that was restored from an older copy receives again what it
//! lacks. A log there that differs from this machine's is detected, too: either another data folder has the same
//! name, or the local database is older than what it once sent. In that case the data folder takes a new name, logs
//! its items again, and reads the old log as another machine's. Nothing is lost.

use std::collections::{BTreeMap, BTreeSet};

use super::access::TeamView;
use super::exchange::Exchange;
use super::names::names;
use super::syncing::{SyncError, Syncing, blocking};
use crate::clock;
use crate::ports::{Ports, Writer};
use recall_config::sharing::{SharedProject, Sharing};
use recall_domain::ids::ProjectKey;
use recall_domain::sync::record::space_of;
use recall_store::{CloseShare, OpenShare, RenewDevice, Share, ShareTerms};
use recall_sync::device::Device;
use recall_sync::remote::Remote;
use recall_sync::team::{Team, TeamError};

/// Which remotes take part in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All except those that failed recently.
    Due,
    All,
}

/// A remote during a round, with its team if it is encrypted.
struct Prepared {
    remote: Remote,
    team: Option<TeamView>,
}

impl<P: Ports> Syncing<P> {
    /// Whether a project is shared, or was until now.
    pub fn has_work(&self) -> bool {
        !self.config.get().sharing.shares.is_empty()
            || self.readers.read(|db| db.shares()).is_ok_and(|shares| !shares.is_empty())
    }

    /// Runs one round with each of these remotes. Failures are kept for `recall sync`.
    pub async fn round(&self, which: Which) {
        let sharing = self.config.get().sharing.clone();
        let agreed = self.agree(&sharing).await;
        let trouble = agreed.as_ref().err().map(SyncError::to_string);
        if let Some(error) = &trouble {
            tracing::warn!(error, "cannot prepare the sharing of projects");
        }
        let waiting = self.note_trouble(trouble, clock::now());
        // One for all projects of a remote, so that they share a connection.
        let mut remotes: BTreeMap<String, Prepared> = BTreeMap::new();
        let mut failed: BTreeSet<String> = BTreeSet::new();
        for share in agreed.unwrap_or_default() {
            if which == Which::Due && waiting.contains(&share.remote) {
                continue;
            }
            let outcome = match self.remote(&mut remotes, &share, &sharing).await {
                Ok(prepared) => self.round_with(&share, prepared, &sharing).await,
                Err(error) => Err(error),
            };
            // Who may not read one project can go on with the others.
            if outcome.as_ref().is_err_and(|error| !error.is_of_project()) {
                failed.insert(share.remote.clone());
            }
            self.note_end(&share, outcome.err());
        }
        self.note_remotes(remotes.keys(), &failed, clock::now());
    }

    /// Updates the store's shares to match the configuration. Returns the shares to work on.
    async fn agree(&self, sharing: &Sharing) -> Result<Vec<Share>, SyncError> {
        let mut stored = self.read(|db| db.shares()).await?;
        // If the file has errors, it is unknown which shares the user removed.
        let is_whole = self.settings.report().problems.is_empty();
        let is_meant = |share: &Share| sharing.shares.iter().any(|meant| is_same(meant, share));
        for share in stored.iter().filter(|share| is_whole && !is_meant(share)) {
            let removed = self.ports.writer().write(CloseShare { share: share.id, at: clock::now() }).await?;
            tracing::info!(share = share.id.0, removed, "a project is no longer shared");
        }
        stored.retain(is_meant);
        if sharing.shares.is_empty() {
            return Ok(Vec::new());
        }
        let device = self.device().await?;
        if stored.iter().any(|share| share.device != device.id) {
            self.ports.writer().write(RenewDevice { device: device.id.clone() }).await?;
        }
        let (author, device_name) = names(sharing);
        for meant in &sharing.shares {
            let terms = ShareTerms {
                injects: meant.inject,
                is_personal: meant.personal,
                has_prompts: meant.prompts,
                has_answers: meant.answers,
            };
            let is_as_stored = |share: &&Share| {
                is_same(meant, share)
                    && (share.author.as_str(), share.device_name.as_str())
                        == (author.as_str(), device_name.as_str())
                    && share.terms() == terms
            };
            let key = ProjectKey::from(meant.project.as_str());
            let wanted = key.clone();
            let known = self.read(move |db| db.find_project(&[wanted])).await?;
            // An unknown project waits for its first session, which proves its folder.
            let (None, Some(project)) = (stored.iter().find(is_as_stored), known) else { continue };
            let open = OpenShare {
                project: key,
                project_name: project.name,
                remote: meant.remote.clone(),
                space: space_of(&meant.project),
                device: device.id.clone(),
                author: author.clone(),
                device_name: device_name.clone(),
                terms,
                at: clock::now(),
            };
            self.ports.writer().write(open).await?;
        }
        let mut shares = self.read(|db| db.shares()).await?;
        shares.retain(is_meant);
        Ok(shares)
    }

    /// Returns the remote of a share. It is created for the first project that is shared through it.
    async fn remote<'r>(
        &self,
        remotes: &'r mut BTreeMap<String, Prepared>,
        share: &Share,
        sharing: &Sharing,
    ) -> Result<&'r Prepared, SyncError> {
        let name = &share.remote;
        let known = sharing.remote(name).ok_or_else(|| SyncError::NoRemote(name.clone()))?;
        let address = known.address().map_err(|why| SyncError::Address { name: name.clone(), why })?;
        let made = || Prepared { remote: Remote::at(address, known.password()), team: None };
        let prepared = remotes.entry(name.clone()).or_insert_with(made);
        if prepared.team.is_none() && !known.plaintext {
            prepared.team = Some(self.keep_up(&prepared.remote, share, sharing).await?);
        }
        Ok(prepared)
    }

    /// Reads all machines' statements about the team, and writes this machine's.
    async fn keep_up(
        &self,
        remote: &Remote,
        share: &Share,
        sharing: &Sharing,
    ) -> Result<TeamView, SyncError> {
        let id = remote.enter(share.marker.clone()).await?;
        let (data, asked) = (self.data_folder(), id.clone());
        let (_lock, known) = blocking(move || {
            let lock = Team::lock(&data)?;
            Ok((lock, Team::load(&data, &asked)?))
        })
        .await?;
        let mut team = known.ok_or(TeamError::NoKey)?;
        let before = team.clone();
        let device = self.device().await?;
        let mut received = self.received_statements(&id);
        let statements = remote.statements(&id, &mut received).await?;
        self.keep_received_statements(id.clone(), received);
        let standings = team.keep_up(&device, &statements)?;
        // So a person who has lost a machine can remove it from any other one.
        if sharing.shares.iter().any(|meant| meant.remote == share.remote && meant.personal) {
            team.name_members(&device, &standings);
        }
        if team != before {
            let (data, changed) = (self.data_folder(), team.clone());
            blocking(move || Ok(changed.save(&data)?)).await?;
        }
        let (author, name) = names(sharing);
        let now = team.statement(&device, &author, &name)?;
        let own = statements.iter().find(|statement| statement.device == device.id);
        if !own.is_some_and(|own| team.is_unchanged(own, &now)) {
            // A read-only member loses nothing until the key changes.
            if let Err(error) = remote.state(&now, &device).await {
                tracing::warn!(%error, "cannot write this machine's team statement");
            }
        }
        Ok(TeamView { team, standings, statements })
    }

    async fn round_with(
        &self,
        share: &Share,
        prepared: &Prepared,
        sharing: &Sharing,
    ) -> Result<(), SyncError> {
        let Prepared { remote, team } = prepared;
        let access = match team {
            Some(view) => Some(self.access(remote, view, share, sharing).await?),
            None => None,
        };
        let access = access.as_ref();
        let device = self.device().await?;
        match (Exchange { syncing: self, remote, share, device: &device, access }).run().await {
            Err(SyncError::Fork) => {
                let renamed = self.take_a_new_name(share).await?;
                let device = self.device().await?;
                (Exchange { syncing: self, remote, share: &renamed, device: &device, access }).run().await
            }
            outcome => outcome,
        }
    }

    fn note_end(&self, share: &Share, error: Option<SyncError>) {
        let error = error.map(|error| error.to_string());
        if let Some(error) = &error {
            tracing::warn!(share = share.id.0, error, "cannot sync a project");
        }
        self.note(share.id, |outcome| {
            if error.is_none() {
                outcome.synced_at = Some(clock::now());
            }
            outcome.error = error;
        });
    }

    async fn take_a_new_name(&self, share: &Share) -> Result<Share, SyncError> {
        let file = self.device_file.clone();
        let device =
            blocking(move || Device::renew(&file).map_err(|source| SyncError::Key { path: file, source }))
                .await?;
        self.ports.writer().write(RenewDevice { device: device.id.clone() }).await?;
        let notice = format!(
            "Another copy of this data folder has sent notes as {}, or an older backup was restored here. This one is \
             {} from now on; nothing is lost.",
            share.device.short(),
            device.id.short()
        );
        tracing::warn!(device = device.id.short(), "this data folder took a new name");
        self.note_new_name(notice);
        Ok(Share { device: device.id, ..share.clone() })
    }
}

fn is_same(meant: &SharedProject, share: &Share) -> bool {
    meant.remote == share.remote && space_of(&meant.project) == share.space
}
