//! `recall remote`: the folders through which machines share notes. They are settings; nothing leaves by naming one.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::{Args, Subcommand};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use recall_protocol::paths::Paths;
use serde_json::json;

use super::failure::Failure;
use super::install::settings_file::SettingsFile;
use super::terminal::{BOLD, GOOD};
use recall_config::Config;
use recall_config::change::ChangeError;
use recall_config::sharing::{Remote, Sharing};
use recall_config::sharing_change::{add_remote, remove_remote};

/// What cannot stand in an address as it is.
const NOT_IN_ADDRESS: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'#').add(b'?');

#[derive(Debug, Subcommand)]
pub enum RemoteCommand {
    /// Name a folder that several machines see
    Add(AddArgs),
    /// List the remotes
    List(ListArgs),
    /// Remove a remote through which nothing is shared any more
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub struct AddArgs {
    /// A name for it, such as `mine` or `team`
    name: String,
    /// The folder: a path, or file:///media/stick/recall
    url: String,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct RemoveArgs {
    name: String,
}

/// # Errors
/// When the folder is not there, or the settings refuse the change.
pub fn run(command: &RemoteCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        RemoteCommand::Add(args) => add(args, out),
        RemoteCommand::List(args) => list(args, out),
        RemoteCommand::Remove(args) => remove(args, out),
    }
}

fn add(args: &AddArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let url = match Path::new(&args.url) {
        path if path.is_absolute() => {
            if !path.is_dir() {
                return Err(Failure::failed(format!("There is no folder {}", path.display()))
                    .hint("Make it first; every machine that shares has to see it.")
                    .into());
            }
            format!("file://{}", utf8_percent_encode(&args.url, NOT_IN_ADDRESS))
        }
        _ => args.url.clone(),
    };
    let remote = Remote { name: args.name.clone(), url };
    change(|text| add_remote(text, &remote))?;
    writeln!(out, "{GOOD}Added{GOOD:#} {} at {}.", remote.name, remote.url)?;
    Ok(writeln!(out, "Nothing is shared yet: `recall share --with {}` in a project's folder.", remote.name)?)
}

fn list(args: &ListArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let Sharing { remotes, shares, .. } = sharing()?;
    if args.json {
        return Ok(writeln!(out, "{}", json!({"remotes": remotes}))?);
    }
    if remotes.is_empty() {
        return Ok(writeln!(
            out,
            "No remotes. Name a folder that several machines see: `recall remote add NAME FOLDER`."
        )?);
    }
    for Remote { name, url } in remotes {
        let projects = shares.iter().filter(|share| share.remote == name).count();
        let shared = super::terminal::counted(projects, "project", "projects");
        writeln!(out, "{BOLD}{name}{BOLD:#}  {url}  {shared}")?;
    }
    Ok(())
}

fn remove(args: &RemoveArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let name = &args.name;
    let Sharing { remotes, shares, .. } = sharing()?;
    if !remotes.iter().any(|remote| remote.name == *name) {
        return Err(Failure::usage(format!("There is no remote {name:?}"))
            .hint("`recall remote list` shows them.")
            .into());
    }
    let projects = shares.iter().filter(|share| share.remote == *name).count();
    if projects > 0 {
        let shared = super::terminal::counted(projects, "project is", "projects are");
        return Err(Failure::failed(format!("{shared} still shared through {name}"))
            .hint("End that first with `recall unshare`; `recall share --list` shows them.")
            .into());
    }
    change(|text| remove_remote(text, name))?;
    Ok(writeln!(out, "{GOOD}Removed{GOOD:#} {name}. The folder stays as it is.")?)
}

/// What the settings share.
pub(super) fn sharing() -> anyhow::Result<Sharing> {
    let paths = Paths::from_env().context("finding recall's folders")?;
    Ok(Config::load(paths.config_file()).config.sharing)
}

/// Changes the settings.
pub(super) fn change(change: impl FnOnce(&str) -> Result<String, ChangeError>) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("finding recall's folders")?;
    let file = SettingsFile::at(paths.config_file())?;
    let text = file.read()?.unwrap_or_default();
    let changed = change(&text).map_err(|error| {
        Failure::usage(error.to_string()).hint("`recall config edit` opens the settings.")
    })?;
    Ok(file.write(&changed)?)
}
