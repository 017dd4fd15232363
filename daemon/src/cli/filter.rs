//! The options that narrow what a reading command shows.

use clap::Args;
use recall_protocol::query::Filter;

use super::failure::Failure;
use crate::app::clock;
use crate::search::query::Since;

#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Only this project: its name, a folder, or `.` for the one here
    #[arg(long)]
    project: Option<String>,
    /// Only what is newer: `2d`, `3 weeks`, `yesterday`, `2026-11-01`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// At most so many
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

impl FilterArgs {
    /// # Errors
    /// When a time makes no sense or the current folder is gone.
    pub fn filter(&self) -> anyhow::Result<Filter> {
        let since_ms = self.since.as_deref().map(since).transpose()?;
        let project = self.project.as_deref().map(project).transpose()?;
        Ok(Filter { project, since_ms, limit: self.limit })
    }
}

/// A time as a user writes it, in milliseconds.
///
/// # Errors
/// When it makes no sense.
pub(super) fn since(text: &str) -> anyhow::Result<i64> {
    let meant =
        Since::parse(text).and_then(|since| since.resolve(clock::now(), &jiff::tz::TimeZone::system()));
    meant
        .map(|time| time.0)
        .ok_or_else(|| Failure::usage(format!("Invalid time {text:?}: try 2h, yesterday, 2026-11-01")).into())
}

/// A folder, written in whatever way, becomes absolute; a name stays a name.
///
/// # Errors
/// When there is no such folder.
pub(super) fn project(text: &str) -> anyhow::Result<String> {
    let is_folder = text.starts_with('.') || text.contains('/') && std::path::Path::new(text).exists();
    if !is_folder {
        return Ok(text.to_owned());
    }
    let folder = std::fs::canonicalize(text).map_err(|error| {
        Failure::usage(format!("There is no folder {text:?}: {error}")).hint("Name a project or a folder.")
    })?;
    Ok(folder.to_string_lossy().into_owned())
}
