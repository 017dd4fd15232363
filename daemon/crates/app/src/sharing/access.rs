//! What an encrypted remote lets this machine read of a project: whose logs, how far, and with which keys.

use super::names::names;
use super::syncing::{SyncError, Syncing, blocking};
use recall_config::sharing::Sharing;
use recall_domain::sync::DeviceId;
use recall_store::Share;
use recall_sync::remote::Remote;
use recall_sync::sealed::SpaceKeys;
use recall_sync::team::readers::{Readers, Within, readers_space};
use recall_sync::team::{Reads, Standings, Team, TeamStatement};

/// A team, as it is for this machine in one round.
pub(super) struct TeamView {
    pub(super) team: Team,
    pub(super) standings: Standings,
    /// What machines say of it.
    pub(super) statements: Vec<TeamStatement>,
}

/// What this machine may read of one project.
pub(super) struct Access {
    pub(super) keys: SpaceKeys,
    team: Standings,
    /// Of a restricted project.
    readers: Option<Standings>,
}

impl Access {
    /// How far a machine's log is read.
    pub(super) fn reads(&self, device: &DeviceId, space: &str) -> Reads {
        let of_team = self.team.reads(device, space);
        self.readers.as_ref().map_or(of_team, |readers| of_team.min(readers.reads(device, space)))
    }

    /// Why nothing is read of a log.
    pub(super) fn why_nothing(&self, device: &DeviceId, space: &str) -> &'static str {
        match self.team.reads(device, space) {
            Reads::Nothing => "it has not proved that it has the team's key",
            _ => "its machine may not read this project",
        }
    }

    /// Why no more is read of a log.
    pub(super) fn why_no_more(&self, device: &DeviceId, space: &str) -> &'static str {
        match self.team.reads(device, space) {
            Reads::All => "its machine may not read this project",
            _ => "it was removed from the team",
        }
    }
}

impl<P> Syncing<P> {
    /// What this machine may read of a project. Fails if the project is restricted and this machine is not among its readers.
    pub(super) async fn access(
        &self,
        remote: &Remote,
        view: &TeamView,
        share: &Share,
        sharing: &Sharing,
    ) -> Result<Access, SyncError> {
        let TeamView { team, standings, statements: of_team } = view;
        let space = share.space.as_str();
        if !team.restricts(space) {
            return Ok(Access { keys: team.space_keys(space)?, team: standings.clone(), readers: None });
        }
        let device = self.device().await?;
        let within = Within { team, device: &device, of_team, space };
        let (place, id) = (readers_space(space), within.id());
        let mut received = self.received_statements(&id);
        let statements = remote.statements_in(place.clone(), &id, &mut received).await?;
        self.keep_received_statements(id.clone(), received);
        let data = self.data_folder();
        let (_lock, known) = blocking(move || {
            let lock = Team::lock(&data)?;
            Ok((lock, Readers::load(&data, &id)?))
        })
        .await?;
        let before = known.clone();
        let mut readers = known.map_or_else(|| Readers::granted(within, &statements), Ok)?;
        let kept_up = readers.keep_up(within, &statements)?;
        if before.as_ref() != Some(&readers) {
            let (data, changed) = (self.data_folder(), readers.clone());
            blocking(move || Ok(changed.save(&data)?)).await?;
        }
        let (author, name) = names(sharing);
        let now = readers.statement(&device, &author, &name)?;
        let own = statements.iter().find(|statement| statement.device == device.id);
        if !own.is_some_and(|own| readers.is_unchanged(own, &now))
            && let Err(error) = remote.state_in(&place, &now, &device).await
        {
            tracing::warn!(%error, "cannot write this machine's statement about a project's readers");
        }
        let keys = readers.space_keys(within)?;
        Ok(Access { keys, team: standings.clone(), readers: Some(kept_up) })
    }
}
