//! `recall sessions`: lists sessions.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Sessions;

use crate::cli::client::{Client, Start};
use crate::cli::filter::{AskedProjects, ScopeArgs};
use crate::cli::install::inspection::connected;
use crate::cli::terminal::{DIM, SHORT_ID, WHOLE_ID, ago, state, table};
use recall_agents::AGENTS;

#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &SessionsArgs, start: Start, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut client = Client::connect(start)?;
    let (answer, scope) = args.scope.ask(&mut client, |filter| Sessions { filter })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let sessions = answer.read()?.sessions;
    let ids = short_ids(sessions.iter().map(|session| session.session_id.as_str()).collect());
    let rows: Vec<Vec<String>> = sessions
        .into_iter()
        .zip(ids)
        .map(|(session, id)| {
            // All are of one project.
            let project = (scope == AskedProjects::Chosen).then_some(session.project);
            let figures = [session.prompts.to_string(), session.activities.to_string()];
            let row =
                [id].into_iter().chain(project).chain([state(&session.status), ago(session.started_at)]);
            row.chain(figures).chain([session.title.unwrap_or_default()]).collect()
        })
        .collect();
    if rows.is_empty() {
        let next = match connected(AGENTS).is_empty() {
            true => "Run `recall install` to connect your agents.",
            false => "Start one in this folder.",
        };
        return Ok(writeln!(out, "No sessions yet. {next}")?);
    }
    let mut head = vec!["SESSION", "PROJECT", "STATUS", "STARTED", "PROMPTS", "CALLS", "TITLE"];
    head.retain(|column| scope == AskedProjects::Chosen || *column != "PROJECT");
    table(out, &head, &rows)?;
    match scope {
        AskedProjects::Here => Ok(writeln!(out, "{DIM}Sessions of this project; `--all` lists all.{DIM:#}")?),
        AskedProjects::Chosen => Ok(()),
    }
}

/// Returns the shortest unique prefixes of these ids. Commands accept them in place of the whole id.
fn short_ids(ids: Vec<&str>) -> Vec<String> {
    let first = |id: &str, length: usize| id.chars().take(length).collect::<String>();
    ids.iter()
        .map(|id| {
            let others = || ids.iter().filter(|other| *other != id);
            let is_unique =
                |length: &usize| !others().any(|other| first(other, *length) == first(id, *length));
            let length = id.chars().count();
            match length {
                ..=WHOLE_ID => (*id).to_owned(),
                _ => first(id, (SHORT_ID..length).find(is_unique).unwrap_or(length)),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_shortened_and_stay_unique() {
        let ids = [
            "0198c0de-1111-7000-8000-000000000000",
            "0198c0de-1234-7000-8000-000000000000",
            "52ab9f00-1234-4000-8000-000000000000",
            "first-session",
        ];
        assert_eq!(short_ids(ids.to_vec()), ["0198c0de-11", "0198c0de-12", "52ab9f00", "first-session"]);
    }
}
