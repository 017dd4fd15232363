//! `recall resolve`: marks an observation as resolved or active, even if recall itself had superseded or settled it.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Explain, Filter, Mark, Search, Show, Validity};
use serde_json::json;

use super::candidates;
use super::client::{Client, Start};
use super::consent::{Confirmation, Consent};
use super::filter;
use super::search::refuse_slips;
use super::terminal::{ACCENT, counted};
use recall_app::answers::found::{Explanation, ShownItem};

/// The maximum number of observations that one command marks.
const MOST: u32 = 100;

#[derive(Debug, Args)]
pub struct ResolveArgs {
    /// Number of an observation, e.g. 12 or #12
    #[arg(required_unless_present = "query", add = candidates::observations())]
    id: Vec<String>,
    /// All observations that this search finds; shows them, then asks
    #[arg(long, value_name = "QUERY", conflicts_with = "id")]
    query: Option<String>,
    /// With --query: only in this project
    #[arg(long, requires = "query", default_value = ".", add = candidates::projects())]
    project: String,
    /// Do not ask for confirmation
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would be marked, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Mark it as active again
    #[arg(long, visible_alias = "undo")]
    reopen: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ResolveArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let validity = if args.reopen { Validity::Active } else { Validity::Resolved };
    if let Some(query) = &args.query {
        refuse_slips(query)?;
    }
    let mut client = Client::connect(Start::IfNeeded)?;
    let ids = match &args.query {
        None if args.dry_run => return would_mark(&mut client, args, out),
        None => args.id.clone(),
        Some(query) => match found(&mut client, args, query, validity, out)? {
            ids if ids.is_empty() && args.json => return Ok(writeln!(out, "{}", json!({"items": []}))?),
            ids if ids.is_empty() => return Ok(()),
            ids => ids,
        },
    };
    let answer = client.ask(Mark { ids, validity })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    for item in answer.read()?.items {
        writeln!(out, "{ACCENT}#{}{ACCENT:#} is {}: {}", item.id, item.status, item.title)?;
    }
    Ok(())
}

/// Shows the named observations without marking them.
fn would_mark(client: &mut Client, args: &ResolveArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut items = Vec::new();
    for id in &args.id {
        items.extend(client.ask(Show { id: id.clone(), folder: None })?.read()?.items);
    }
    if args.json {
        return Ok(writeln!(out, "{}", json!({"items": items}))?);
    }
    for item in &items {
        if let ShownItem::Observation(item) = item {
            writeln!(out, "{ACCENT}#{}{ACCENT:#} {}", item.id, item.title)?;
        }
    }
    Consent::ShowOnly.obtain("", out).map(drop)
}

/// Whether a hit has a word of the query or is very close in meaning, because a search also shows loosely related
/// hits. A hit for conditions alone has neither.
fn is_meant(why: &Explanation) -> bool {
    /// Chosen by hand: too few marks cost another query, while too many hide notes.
    const VERY_CLOSE: f32 = 0.6;
    let mut cosines = why.sources.iter().filter_map(|source| source.cosine).peekable();
    !why.matched.is_empty() || cosines.peek().is_none() || cosines.any(|cosine| cosine >= VERY_CLOSE)
}

/// Returns the observations that a search finds and that are not marked yet, if the user agrees.
fn found(
    client: &mut Client,
    args: &ResolveArgs,
    query: &str,
    validity: Validity,
    out: &mut dyn Write,
) -> anyhow::Result<Vec<String>> {
    let project = Some(filter::project(&args.project)?);
    let filter = Filter { project, since_ms: None, limit: Some(MOST) };
    let text = format!("{query} kind:observation");
    let found = client.ask(Search { text, filter, explain: Explain::Yes, folder: None })?.read()?;
    let is_wanted = |status: &str| (status == "active") == (validity == Validity::Resolved);
    let wanted = found.results.iter().filter(|result| result.status.as_deref().is_some_and(is_wanted));
    let wanted: Vec<_> = wanted.filter(|result| result.why.as_ref().is_none_or(is_meant)).collect();
    if wanted.is_empty() && !args.json {
        writeln!(out, "No observation found that would change.")?;
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    if !args.json {
        for result in &wanted {
            writeln!(out, "{ACCENT}#{}{ACCENT:#} {}", result.id.0.row, result.title)?;
        }
    }
    let (verb, count) = match validity {
        Validity::Resolved => ("Resolve", counted(wanted.len(), "observation", "observations")),
        Validity::Active => ("Reopen", counted(wanted.len(), "observation", "observations")),
    };
    let mut input = std::io::stdin().lock();
    let consent = match (args.dry_run, args.yes) {
        (true, _) => Consent::ShowOnly,
        (false, true) => Consent::Given,
        (false, false) => Consent::at_terminal(&mut input),
    };
    match consent.obtain(&format!("{verb} {count}?"), out)? {
        Confirmation::Leave => Ok(Vec::new()),
        Confirmation::Go => Ok(wanted.iter().map(|result| result.id.0.row.to_string()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_app::answers::found::ExplainedSource;

    #[test]
    fn a_vaguely_similar_observation_is_not_marked() {
        let found = |cosine: Option<f32>, matched: &[&str]| {
            let matched = matched.iter().map(|word| (*word).to_owned()).collect();
            let sources = cosine
                .map(|cosine| ExplainedSource {
                    source: "meaning".into(),
                    fit: 0.1,
                    relevance: 0.1,
                    cosine: Some(cosine),
                })
                .into_iter()
                .collect();
            let factors = serde_json::Map::new();
            is_meant(&Explanation { relevance: 0.1, factors, sources, matched, missing: Vec::new() })
        };
        assert!(found(Some(0.3), &["flag"]) && found(Some(0.7), &[]));
        assert!(!found(Some(0.4), &[]));
        assert!(found(None, &[]), "only conditions were asked for");
    }
}
