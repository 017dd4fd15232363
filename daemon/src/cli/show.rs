//! `recall show`: everything about one thing.

use std::io::Write;

use clap::Args;
use recall_protocol::wire::Query;
use serde_json::Value;

use super::client::{Client, Start, this_folder};
use super::terminal::{self, ACCENT, BOLD, DIM, list, number, text};

/// Of a commit's name so many digits are shown.
const COMMIT_DIGITS: usize = 10;

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// 123 or #123 for an observation; p12 a prompt, r12 an answer, s12 a summary, l12 a plan, a12 a call, c12 a compaction's summary
    id: String,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer or there is no such thing.
pub fn run(args: &ShowArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::IfNeeded)?
        .ask(Query::ShowFrom { folder: this_folder(), id: args.id.clone() })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    for item in list(&answer.value, "items") {
        if item.get("narrative").is_some() {
            observation(out, item)?;
        } else if item.get("request").is_some() {
            summary(out, item)?;
        } else {
            writeln!(out, "{ACCENT}{}{ACCENT:#} {DIM}{}{DIM:#}", terminal::id(item), origin(item))?;
            checkout(out, item)?;
            writeln!(out, "\n{}", text(item, "text"))?;
        }
    }
    Ok(())
}

fn origin(item: &Value) -> String {
    let mut parts = vec![terminal::time(item, "created_at")];
    for key in ["type", "kind", "project", "origin"] {
        parts.extend(Some(text(item, key).to_owned()).filter(|part| !part.is_empty()));
    }
    let session = text(item, "session_id");
    if !session.is_empty() {
        parts.push(format!("session {session}"));
    }
    parts.join(", ")
}

fn observation(out: &mut dyn Write, item: &Value) -> std::io::Result<()> {
    writeln!(out, "{ACCENT}{}{ACCENT:#} {BOLD}{}{BOLD:#}", terminal::id(item), text(item, "title"))?;
    let (status, importance) = (text(item, "status"), number(item, "importance"));
    writeln!(out, "{DIM}{}, importance {importance}, {status}{DIM:#}", origin(item))?;
    checkout(out, item)?;
    list(item, "lineage").iter().try_for_each(|entry| lineage(out, entry))?;
    for part in [text(item, "subtitle"), text(item, "narrative")] {
        if !part.is_empty() {
            writeln!(out, "\n{part}")?;
        }
    }
    let texts = |key| list(item, key).iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let facts = texts("facts");
    if !facts.is_empty() {
        writeln!(out)?;
        facts.iter().try_for_each(|fact| writeln!(out, "- {fact}"))?;
    }
    for (label, key) in [("Concepts", "concepts"), ("Changed", "files_modified"), ("Read", "files_read")] {
        let values = texts(key);
        if !values.is_empty() {
            writeln!(out, "{DIM}{label}:{DIM:#} {}", values.join(", "))?;
        }
    }
    Ok(())
}

/// What was checked out where it was made, if that is known.
fn checkout(out: &mut dyn Write, item: &Value) -> std::io::Result<()> {
    let commit = text(item, "commit");
    let made_on = match (text(item, "branch"), commit.get(..COMMIT_DIGITS).unwrap_or(commit)) {
        ("", "") => return Ok(()),
        (branch, "") => format!("made on branch {branch}"),
        ("", commit) => format!("made at commit {commit}"),
        (branch, commit) => format!("made on branch {branch} at commit {commit}"),
    };
    writeln!(out, "{DIM}{made_on}{DIM:#}{}", terminal::elsewhere(item))
}

/// One line for what took its place or settled it, or what it took the place of.
fn lineage(out: &mut dyn Write, entry: &Value) -> std::io::Result<()> {
    let said = match text(entry, "relation") {
        "superseded_by" => "Superseded by",
        "supersedes" => "Supersedes",
        _ => "Resolved",
    };
    let other = entry.get("id").and_then(Value::as_i64).map(|_| terminal::id(entry)).unwrap_or_default();
    let title = Some(text(entry, "title")).filter(|title| !title.is_empty());
    let work = Some(text(entry, "session_id")).filter(|session| !session.is_empty());
    let work = work.map(|session| format!(" (session {session}, prompt {})", number(entry, "prompt_number")));
    let told: Vec<&str> =
        [other.as_str(), title.unwrap_or_default()].into_iter().filter(|part| !part.is_empty()).collect();
    let why = match told.is_empty() {
        true => text(entry, "reason").to_owned(),
        false => told.join(" "),
    };
    writeln!(
        out,
        "{said}{} {why}{DIM}{}{DIM:#}",
        if told.is_empty() { ":" } else { "" },
        work.unwrap_or_default()
    )
}

fn summary(out: &mut dyn Write, item: &Value) -> std::io::Result<()> {
    writeln!(out, "{ACCENT}{}{ACCENT:#} {BOLD}{}{BOLD:#}", terminal::id(item), text(item, "title"))?;
    writeln!(out, "{DIM}{}{DIM:#}", origin(item))?;
    checkout(out, item)?;
    fields(out, item)
}

/// A summary's fields that say something.
///
/// # Errors
/// When the output cannot be written.
pub fn fields(out: &mut dyn Write, summary: &Value) -> std::io::Result<()> {
    for (label, key) in [
        ("Asked", "request"),
        ("Looked at", "investigated"),
        ("Learned", "learned"),
        ("Done", "completed"),
        ("Open", "next_steps"),
        ("Notes", "notes"),
    ] {
        let value = text(summary, key);
        if !value.is_empty() {
            writeln!(out, "{BOLD}{label}:{BOLD:#} {value}")?;
        }
    }
    Ok(())
}
