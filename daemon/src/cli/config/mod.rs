//! `recall config`: shows, changes and checks the settings.

mod edit;
mod probe;
mod values;

use std::io::Write;

use anyhow::Context;
use clap::Subcommand;
use recall_protocol::paths::Paths;

use super::install::settings_file::SettingsFile;
use super::output::Output;
use super::terminal::WARNING;
use recall_config::change::{recipient_at, recipients};

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// List all keys with their values, defaults and origins
    List(values::ListArgs),
    /// Show the value of a key, or of all keys in a table
    Get(values::GetArgs),
    /// Set a key; keeps comments in the file
    Set(values::SetArgs),
    /// Remove a key from the file, so that its default applies
    Unset(values::UnsetArgs),
    /// Edit the settings file in your editor, and check it before it takes effect
    Edit(edit::EditArgs),
    /// Print the path of the settings file
    Path(values::PathArgs),
    /// Print a JSON Schema of the settings file, for completion and checks in an editor
    Schema,
    /// Test each configured model with a small session
    Test(probe::TestArgs),
}

/// Runs `recall config`. Fails when a key is unknown, a value is invalid, the settings have errors, or a model does
/// not respond.
pub fn run(command: &ConfigCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("Cannot find recall's folders")?;
    match command {
        ConfigCommand::List(args) => values::list(args, &paths, out),
        ConfigCommand::Get(args) => values::get(args, &paths, out),
        ConfigCommand::Set(args) => values::set(args, &paths, out),
        ConfigCommand::Unset(args) => values::unset(args, &paths, out),
        ConfigCommand::Edit(args) => edit::run(args, &paths, out),
        ConfigCommand::Path(args) => values::path(args, &paths, out),
        ConfigCommand::Schema => Ok(writeln!(out, "{:#}", recall_config::schema::schema())?),
        ConfigCommand::Test(args) => probe::run(args, out),
    }
}

impl ConfigCommand {
    pub(super) fn output(&self) -> Output {
        match self {
            Self::List(_) => Output::Page,
            Self::Get(_) | Self::Path(_) | Self::Schema => Output::Program,
            _ => Output::Lines,
        }
    }
}

/// Warns, before a change takes effect, where it will send text of sessions that was not sent there before.
fn print_recipients(before: &str, after: &str, out: &mut dyn Write) -> std::io::Result<()> {
    let known = recipients(before);
    for recipient in recipients(after).into_iter().filter(|recipient| !known.contains(recipient)) {
        writeln!(
            out,
            "{WARNING}Text of your sessions will leave this machine: it is sent to {recipient}, with secrets replaced.{WARNING:#}"
        )?;
    }
    Ok(())
}

/// Warns about an address that no backend uses yet.
fn print_address(address: &str, after: &str, out: &mut dyn Write) -> std::io::Result<()> {
    match recipient_at(address).filter(|host| !recipients(after).contains(host)) {
        None => Ok(()),
        Some(host) => writeln!(
            out,
            "{WARNING}Text of your sessions would be sent to {host}, off this machine, once a backend uses this address.{WARNING:#}"
        ),
    }
}

/// The file to change, with its text if it exists.
fn file(paths: &Paths) -> anyhow::Result<(SettingsFile, Option<String>)> {
    let file = SettingsFile::at(paths.config_file())?;
    let text = file.read()?;
    Ok((file, text))
}
