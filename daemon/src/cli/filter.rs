//! Options that filter the output of a reading command.

use clap::Args;
use recall_protocol::query::Filter;
use recall_protocol::wire::ErrorKind;

use super::candidates;
use super::client::{Answer, Client, this_folder};
use super::failure::{Failure, refused_as};
use recall_app::clock;
use recall_app::requests::Request;
use recall_search::query::Since;

#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Only this project: a name, a folder, or `.` for the current one
    #[arg(long, add = candidates::projects())]
    project: Option<String>,
    /// Only newer than this, e.g. `2d`, `3 weeks`, `yesterday`, `2026-11-01`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", value_parser = count)]
    limit: Option<u32>,
}

impl FilterArgs {
    pub fn filter(&self) -> anyhow::Result<Filter> {
        let since_ms = self.since.as_deref().map(since).transpose()?;
        let project = self.project.as_deref().map(project).transpose()?;
        Ok(Filter { project, since_ms, limit: self.limit })
    }
}

/// Filters of commands that default to the current project.
#[derive(Debug, Args)]
pub struct ScopeArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// All projects, not only the current one
    #[arg(long, short, conflicts_with = "project")]
    all: bool,
}

/// The scope of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedProjects {
    /// The current folder's project, because the user named no other.
    Here,
    Chosen,
}

impl ScopeArgs {
    /// Returns the project that the user means: the named one, or else the current folder's. `None` means all.
    pub fn chosen(&self) -> anyhow::Result<Option<String>> {
        let named = self.filter.project.as_deref().map(project).transpose()?;
        Ok(named.or_else(|| (!self.all).then(this_folder)))
    }

    /// Whether the user asked only for a part.
    pub fn is_a_part(&self) -> bool {
        self.filter.since.is_some() || self.filter.limit.is_some()
    }

    /// Asks in the current project if recall knows it and the user named no other; otherwise as the user says.
    pub fn ask<R: Request>(
        &self,
        client: &mut Client,
        request: impl Fn(Filter) -> R,
    ) -> anyhow::Result<(Answer<R>, AskedProjects)> {
        let filter = self.filter.filter()?;
        if !self.all && filter.project.is_none() {
            let here = Filter { project: Some(this_folder()), ..filter.clone() };
            match client.ask(request(here)) {
                // The current folder belongs to no known project.
                Err(error) if refused_as(&error) == Some(ErrorKind::NotFound) => {}
                answer => return Ok((answer?, AskedProjects::Here)),
            }
        }
        Ok((client.ask(request(filter))?, AskedProjects::Chosen))
    }

    /// Asks as the user says, ignoring the current folder.
    pub fn ask_everywhere<R: Request>(
        &self,
        client: &mut Client,
        request: impl Fn(Filter) -> R,
    ) -> anyhow::Result<(Answer<R>, AskedProjects)> {
        Ok((client.ask(request(self.filter.filter()?))?, AskedProjects::Chosen))
    }
}

/// Parses a whole number in an argument.
pub(super) fn whole(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "give a whole number")
}

pub fn count(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|count| *count > 0).ok_or("give a whole number from 1 on")
}

/// Parses a time that the user typed, in milliseconds since 1970.
pub(super) fn since(text: &str) -> anyhow::Result<i64> {
    let meant =
        Since::parse(text).and_then(|since| since.resolve(clock::now(), &jiff::tz::TimeZone::system()));
    meant
        .map(|time| time.0)
        .ok_or_else(|| Failure::usage(format!("Invalid time {text:?}: try 2h, yesterday, 2026-11-01")).into())
}

/// Makes a folder absolute and leaves a name as it is. Fails if the folder does not exist.
pub(super) fn project(text: &str) -> anyhow::Result<String> {
    let is_folder = text.starts_with('.') || text.contains('/') && std::path::Path::new(text).exists();
    if !is_folder {
        return Ok(text.to_owned());
    }
    let folder = std::fs::canonicalize(text).map_err(|error| {
        Failure::usage(format!("No folder {text:?}: {error}"))
            .hint("Give a project's name or an existing folder.")
    })?;
    Ok(folder.to_string_lossy().into_owned())
}
