//! `recall remote`: the folders and databases through which machines share notes. They are settings; naming one sends
//! nothing. `recall remote init` sets up a database and connects to its server directly.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use recall_protocol::paths::Paths;
use serde_json::json;

use super::failure::Failure;
use super::install::settings_file::SettingsFile;
use super::terminal::{BOLD, GOOD, WARNING};
use recall_config::Config;
use recall_config::change::ChangeError;
use recall_config::sharing::{RemoteSettings, Sharing};
use recall_config::sharing_change::{add_remote, remove_remote};
use recall_sync::address::{Address, DatabaseAddress, RemoteKind};
use recall_sync::postgres::DatabaseError;
use recall_sync::postgres::setup::{self, SetupError, SetupOutcome};

/// Characters that must be encoded in an address.
const NOT_IN_ADDRESS: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'#').add(b'?');

#[derive(Debug, Subcommand)]
pub enum RemoteCommand {
    /// Add a folder or PostgreSQL database that your machines can access
    Add(AddArgs),
    /// Set up a PostgreSQL database, or update it
    ///
    /// Creates the schema `recall` and the roles recall_owner, recall_member and recall_reader in one transaction.
    /// Running it again updates only what is outdated. The role in the URL needs CREATEROLE, and CREATE on the
    /// database.
    Init(InitArgs),
    /// List the remotes
    List(ListArgs),
    /// Remove a remote that no project uses
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub struct AddArgs {
    /// A name for it, such as `mine` or `team`
    name: String,
    /// The folder, as a path or file:///media/stick/recall, or the database: postgres://mia@db.example.com/recall
    url: String,
    #[command(flatten)]
    password: PasswordArgs,
    /// Do not encrypt shared data: anybody with access to the remote can read it, and queries on a server can, too
    #[arg(long)]
    plaintext: bool,
}

#[derive(Debug, Args)]
pub struct InitArgs {
    /// The database's URL, e.g. postgres://admin@db.example.com/recall, or a remote's name
    #[arg(value_name = "URL")]
    place: String,
    #[command(flatten)]
    password: PasswordArgs,
    /// Also let this server role use the database
    #[arg(long = "member", value_name = "ROLE")]
    members: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Where the password of a database is [default: PGPASSFILE or ~/.pgpass]
#[derive(Debug, Args)]
#[group(multiple = false)]
struct PasswordArgs {
    /// Read the password from this file, which only you may read
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Read the password from this variable of the daemon's environment
    #[arg(long, value_name = "NAME")]
    password_env: Option<String>,
    /// Read the password from the system's keyring: service `recall`, this account
    #[arg(long, value_name = "ACCOUNT")]
    password_keyring: Option<String>,
}

impl PasswordArgs {
    fn remote(&self, name: &str, url: String) -> anyhow::Result<RemoteSettings> {
        Ok(RemoteSettings {
            name: name.to_owned(),
            url,
            password_env: self.password_env.clone(),
            password_file: self.password_file.as_ref().map(std::path::absolute).transpose()?,
            password_keyring: self.password_keyring.clone(),
            plaintext: false,
        })
    }
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The remote's name in `recall remote list`
    name: String,
}

/// # Errors
/// The folder does not exist, or the settings reject the change.
pub fn run(command: &RemoteCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        RemoteCommand::Add(args) => add(args, out),
        RemoteCommand::Init(args) => init(args, out),
        RemoteCommand::List(args) => list(args, out),
        RemoteCommand::Remove(args) => remove(args, out),
    }
}

fn add(args: &AddArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let url = match Path::new(&args.url) {
        path if path.is_absolute() => {
            if !path.is_dir() {
                return Err(Failure::failed(format!("There is no folder {}", path.display()))
                    .hint("Create it first. Every machine that shares needs access to it.")
                    .into());
            }
            format!("file://{}", utf8_percent_encode(&args.url, NOT_IN_ADDRESS))
        }
        _ => args.url.clone(),
    };
    let remote = RemoteSettings { plaintext: args.plaintext, ..args.password.remote(&args.name, url)? };
    address_of(&remote)?;
    change(|text| add_remote(text, &remote))?;
    writeln!(out, "{GOOD}Added{GOOD:#} {} at {}.", remote.name, remote.url)?;
    if remote.plaintext {
        writeln!(out, "{WARNING}Data shared through it is not encrypted.{WARNING:#}")?;
    } else {
        let name = &remote.name;
        writeln!(
            out,
            "It is encrypted: create a team with `recall team init {name}`, or join one with `recall team join {name}`."
        )?;
    }
    Ok(writeln!(out, "Nothing is shared yet: `recall share --with {}` in a project's folder.", remote.name)?)
}

/// Returns a remote's address. An error does not repeat it, because it may contain a password.
fn address_of(remote: &RemoteSettings) -> Result<Address, Failure> {
    remote.address().map_err(|why| Failure::usage(format!("The address {why}")))
}

fn init(args: &InitArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let remote = match sharing()?.remote(&args.place) {
        Some(known) => known.clone(),
        None => args.password.remote("init", args.place.clone())?,
    };
    let address = match address_of(&remote)? {
        Address::Postgres(address) => address,
        Address::Folder(_) => {
            return Err(Failure::usage("A folder needs no setup")
                .hint("`recall remote add NAME FOLDER` names it.")
                .into());
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime
        .block_on(setup::init(&address, &remote.password(), &args.members))
        .map_err(|error| not_set_up(&error, &address))?;
    let DatabaseAddress { database, .. } = &address;
    let server = address.server();
    if args.json {
        let outcome = match outcome {
            SetupOutcome::Made => "made",
            SetupOutcome::Updated { .. } => "updated",
            SetupOutcome::Current => "current",
        };
        return Ok(writeln!(out, "{}", json!({"database": database, "server": server, "outcome": outcome}))?);
    }
    match outcome {
        SetupOutcome::Made => writeln!(out, "{GOOD}Set up{GOOD:#} the database {database} on {server}.")?,
        SetupOutcome::Updated { .. } => {
            writeln!(out, "{GOOD}Updated{GOOD:#}: the database {database} on {server}.")?;
        }
        SetupOutcome::Current => writeln!(out, "The database {database} on {server} is up to date.")?,
    }
    writeln!(out, "Each person needs a server role with access. Add one with `--member ROLE`, or in SQL:")?;
    writeln!(out, "  CREATE ROLE mia LOGIN PASSWORD '...' IN ROLE recall_member;")?;
    Ok(writeln!(out, "Then, on each machine: `recall remote add team postgres://mia@{server}/{database}`.")?)
}

fn not_set_up(error: &SetupError, address: &DatabaseAddress) -> Failure {
    let failure = Failure::failed(format!("{error}"));
    match error {
        SetupError::Database(DatabaseError::NoPassword { .. }) => {
            let DatabaseAddress { host, port, database, user, .. } = address;
            failure.hint(format!("A line in ~/.pgpass (mode 0600): {host}:{port}:{database}:{user}:PASSWORD"))
        }
        _ => failure.hint("Nothing was changed in the database."),
    }
}

fn list(args: &ListArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let Sharing { remotes, shares, .. } = sharing()?;
    if args.json {
        return Ok(writeln!(out, "{}", json!({"remotes": remotes}))?);
    }
    if remotes.is_empty() {
        return Ok(writeln!(
            out,
            "No remotes. Name a folder or a database that several machines can access: `recall remote add NAME FOLDER`."
        )?);
    }
    for RemoteSettings { name, url, plaintext, .. } in remotes {
        let projects = shares.iter().filter(|share| share.remote == name).count();
        let shared = super::terminal::counted(projects, "project", "projects");
        let open = if plaintext { "  not encrypted" } else { "" };
        writeln!(out, "{BOLD}{name}{BOLD:#}  {url}  {shared}{open}")?;
    }
    Ok(())
}

fn remove(args: &RemoveArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let name = &args.name;
    let Sharing { remotes, shares, .. } = sharing()?;
    let Some(known) = remotes.iter().find(|remote| remote.name == *name) else {
        return Err(Failure::usage(format!("There is no remote {name:?}"))
            .hint("`recall remote list` shows them.")
            .into());
    };
    let projects = shares.iter().filter(|share| share.remote == *name).count();
    if projects > 0 {
        let shared = super::terminal::counted(projects, "project is", "projects are");
        return Err(Failure::failed(format!("{shared} still shared through {name}"))
            .hint("Stop sharing them first with `recall unshare`; `recall share --list` shows them.")
            .into());
    }
    change(|text| remove_remote(text, name))?;
    let place = match known.address().map(|address| address.kind()) {
        Ok(RemoteKind::Postgres) => "database",
        _ => "folder",
    };
    Ok(writeln!(out, "{GOOD}Removed{GOOD:#} {name}. The {place} stays as it is.")?)
}

/// The sharing part of the settings.
pub(super) fn sharing() -> anyhow::Result<Sharing> {
    let paths = Paths::from_env().context("Cannot find recall's folders")?;
    Ok(Config::load(paths.config_file()).config.sharing)
}

/// Changes the settings file.
pub(super) fn change(change: impl FnOnce(&str) -> Result<String, ChangeError>) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("Cannot find recall's folders")?;
    let file = SettingsFile::at(paths.config_file())?;
    let text = file.read()?.unwrap_or_default();
    let changed = change(&text).map_err(|error| {
        Failure::usage(error.to_string()).hint("`recall config edit` opens the settings.")
    })?;
    Ok(file.write(&changed)?)
}
