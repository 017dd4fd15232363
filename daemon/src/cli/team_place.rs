//! A remote with a team, as `recall team` and `recall share --only` come to it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use recall_protocol::paths::Paths;
use tokio::runtime::Runtime;

use super::failure::Failure;
use super::remote::sharing;
use super::terminal::BOLD;
use recall_app::sharing::names::names;
use recall_config::sharing::Sharing;
use recall_domain::sync::DeviceId;
use recall_sync::device::Device;
use recall_sync::remote::{Remote, RemoteError, StatementCache};
use recall_sync::team::readers::{Readers, readers_space};
use recall_sync::team::{Team, TeamError, TeamStatement};

/// How often the remote is checked for the other side's answer.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long two people may take.
const LONGEST_WAIT: Duration = Duration::from_secs(900);

/// A remote, and this machine's identity there.
pub(super) struct Place {
    runtime: Runtime,
    remote: Remote,
    pub(super) name: String,
    /// The remote's own id.
    pub(super) id: String,
    pub(super) data: PathBuf,
    pub(super) device: Device,
    pub(super) sharing: Sharing,
}

impl Place {
    pub(super) fn open(name: &str) -> anyhow::Result<Self> {
        let sharing = sharing()?;
        let Some(known) = sharing.remote(name) else {
            return Err(Failure::usage(format!("There is no remote {name:?}"))
                .hint("`recall remote list` shows them.")
                .into());
        };
        if known.plaintext {
            return Err(Failure::failed(format!("{name} is not encrypted, so it needs no team")).into());
        }
        let address =
            known.address().map_err(|why| Failure::usage(format!("The address of {name} {why}")))?;
        let paths = Paths::from_env().context("Cannot find recall's folders")?;
        let data = paths.database().parent().map(PathBuf::from).unwrap_or_default();
        std::fs::create_dir_all(&data)?;
        let device = Device::load_or_create(&data.join("device.json"))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let remote = Remote::at(address, known.password());
        let id = runtime.block_on(remote.enter(None)).map_err(|error| unreachable(&error))?;
        Ok(Self { runtime, remote, name: name.to_owned(), id, data, device, sharing })
    }

    pub(super) fn statements(&self) -> Result<Vec<TeamStatement>, Failure> {
        self.runtime
            .block_on(self.remote.statements(&self.id, &mut StatementCache::default()))
            .map_err(|error| unreachable(&error))
    }

    /// Loads this machine's part of the team.
    pub(super) fn team(&self) -> Result<Team, Failure> {
        Team::load(&self.data, &self.id)
            .map_err(|error| refused(&error))?
            .ok_or_else(|| refused(&TeamError::NoKey))
    }

    /// Saves the team's file, and informs the others.
    pub(super) fn keep(&self, team: &Team) -> Result<(), Failure> {
        team.save(&self.data).map_err(|error| refused(&error))?;
        let (author, name) = names(&self.sharing);
        let statement = team.statement(&self.device, &author, &name).map_err(|error| refused(&error))?;
        self.state(&statement)
    }

    /// Loads all machines' statements about the readers of a restricted project.
    pub(super) fn reader_statements(&self, space: &str, id: &str) -> Result<Vec<TeamStatement>, Failure> {
        let mut received = StatementCache::default();
        let statements = self.remote.statements_in(readers_space(space), id, &mut received);
        self.runtime.block_on(statements).map_err(|error| unreachable(&error))
    }

    /// Saves the file of a project's readers, and informs them.
    pub(super) fn keep_readers(&self, readers: &Readers, space: &str) -> Result<(), Failure> {
        readers.save(&self.data).map_err(|error| refused(&error))?;
        let (author, name) = names(&self.sharing);
        let statement = readers.statement(&self.device, &author, &name).map_err(|error| refused(&error))?;
        let space = readers_space(space);
        let stated = self.remote.state_in(&space, &statement, &self.device);
        self.runtime.block_on(stated).map_err(|error| unreachable(&error))
    }

    /// The last entry of each log of a project in the remote.
    pub(super) fn heads(&self, space: &str) -> Result<BTreeMap<DeviceId, u64>, Failure> {
        let logs = self.runtime.block_on(self.remote.logs(space, &BTreeMap::new()));
        let logs = logs.map_err(|error| unreachable(&error))?;
        Ok(logs.into_iter().map(|log| (log.device.clone(), log.last)).collect())
    }

    pub(super) fn state(&self, statement: &TeamStatement) -> Result<(), Failure> {
        self.runtime.block_on(self.remote.state(statement, &self.device)).map_err(|error| unreachable(&error))
    }

    /// Polls the remote until `found` returns a value.
    pub(super) fn wait_for<T>(&self, found: impl Fn(&[TeamStatement]) -> Option<T>) -> Result<T, Failure> {
        let began = Instant::now();
        while began.elapsed() < LONGEST_WAIT {
            if let Some(found) = found(&self.statements()?) {
                return Ok(found);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err(Failure::failed("The other side did not answer within 15 minutes")
            .hint("Start again with `recall team invite`."))
    }
}

pub(super) fn print_words(words: &str, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "These words are its key; any machine can join with them. They are not shown again, so write them down:"
    )?;
    let words: Vec<&str> = words.split(' ').collect();
    for line in words.chunks(6) {
        writeln!(out, "  {BOLD}{}{BOLD:#}", line.join(" "))?;
    }
    Ok(())
}

pub(super) fn not_owner() -> anyhow::Error {
    refused(&TeamError::NotOwner).hint("`recall team members` lists the owners; one of them can add this machine with `recall team owner`.").into()
}

pub(super) fn unreachable(error: &RemoteError) -> Failure {
    Failure::failed(error.to_string()).hint("Nothing was changed.")
}

pub(super) fn refused(error: &TeamError) -> Failure {
    Failure::failed(error.to_string())
}
