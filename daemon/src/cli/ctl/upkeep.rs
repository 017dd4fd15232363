//! `recall ctl backup`, `restore`, `check`, `prune` and `reindex`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use recall_protocol::query::{Backup, Check, ForgetStep, Prune, Reindex, RestoreBackup};

use crate::cli::client::{Client, Start, WORK_WITHIN};
use crate::cli::consent::{Confirmation, Consent};
use crate::cli::failure::Failure;
use crate::cli::filter::since;
use crate::cli::forget::{self, items_in_words};
use crate::cli::terminal::{GOOD, WARNING, bytes, counted};
use recall_domain::text::one_line;

#[derive(Debug, Args)]
pub struct BackupArgs {
    /// A new file, or a folder [default: the backup folder beside the database]
    path: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn backup(args: &BackupArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let path = args.path.as_deref().map(target).transpose()?;
    let answer = Client::connect(Start::Never)?.ask_within(Backup { path }, WORK_WITHIN)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let made = answer.read()?;
    Ok(writeln!(out, "Backed up to {} ({}).", made.path, bytes(made.bytes))?)
}

/// Returns the absolute path of the new file.
fn target(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path).context("Cannot find the current folder")?;
    let path = if path.is_dir() { path.join("recall.db") } else { path };
    text(&path)
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage("The path is not UTF-8").hint("Choose another name.").into())
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// A backup made by `recall ctl backup` or by the daemon
    path: PathBuf,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn restore(args: &RestoreArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let path = std::fs::canonicalize(&args.path).map_err(|error| {
        Failure::usage(format!("No file {}: {error}", args.path.display())).hint("Name an existing backup.")
    })?;
    let path = text(&path)?;
    let mut client = Client::connect(Start::Never)?;
    let mut input = std::io::stdin().lock();
    let consent = if args.yes { Consent::Given } else { Consent::at_terminal(&mut input) };
    if consent.obtain(
        "Replace the database with this backup? Anything recorded after it stays only in the old file. \
             Items that you have forgotten since stay forgotten.",
        out,
    )? == Confirmation::Leave
    {
        return Ok(());
    }
    let answer = client.ask_within(RestoreBackup { path }, WORK_WITHIN)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let done = answer.read()?;
    writeln!(out, "Restored {}.", done.restored)?;
    let forgotten = items_in_words(&done.forgotten, 0);
    if !forgotten.is_empty() {
        writeln!(out, "Left out because it has since been forgotten: {forgotten}.")?;
    }
    if !done.left_behind.is_empty() {
        writeln!(
            out,
            "{WARNING}The backup contains parts that recall did not make.{WARNING:#} Only rows of its own tables were restored. Left behind:"
        )?;
        for thing in &done.left_behind {
            writeln!(out, "  {}", one_line(thing))?;
        }
    }
    Ok(writeln!(out, "The previous database is kept: {}", done.kept)?)
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks the data. Fails if something is wrong.
pub fn check(args: &CheckArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask_within(Check, WORK_WITHIN)?;
    let found = answer.read()?;
    if args.json {
        out.write_all(&answer.bytes)?;
        writeln!(out)?;
    } else {
        for problem in &found.problems {
            writeln!(out, "{WARNING}!{WARNING:#} {problem}")?;
        }
        if found.healthy {
            let (sessions, documents) = (found.sessions, found.documents);
            let sessions = counted(sessions, "session", "sessions");
            writeln!(
                out,
                "{GOOD}No problems found:{GOOD:#} {sessions}, {documents} documents in the index."
            )?;
        }
    }
    if found.healthy {
        return Ok(());
    }
    out.flush()?;
    let hint =
        "A damaged database is replaced with its newest backup; `recall ctl restore` uses a different one.";
    Err(Failure::failed("The check found problems").hint(hint).into())
}

#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Forget sessions without an event for this long, e.g. `90d`, `6 months`
    #[arg(long, value_name = "TIME")]
    older_than: String,
    /// Do not ask for confirmation
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would be forgotten, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn prune(args: &PruneArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let silent_since_ms = since(&args.older_than)?;
    let mut client = Client::connect(Start::Never)?;
    let preview = client.ask_within(Prune { silent_since_ms, step: ForgetStep::Preview }, WORK_WITHIN)?;
    let found = preview.read()?;
    if args.json && args.dry_run {
        out.write_all(&preview.bytes)?;
        return Ok(writeln!(out)?);
    }
    if found.counts.sessions == 0 && !args.json {
        return Ok(writeln!(out, "No session is that old.")?);
    }
    let mut input = std::io::stdin().lock();
    let consent = match (args.dry_run, args.yes) {
        (true, _) => Consent::ShowOnly,
        (false, true) => Consent::Given,
        (false, false) => Consent::at_terminal(&mut input),
    };
    if consent.shows_changes() {
        forget::show(out, &found)?;
    }
    if consent.obtain("Forget this permanently?", out)? == Confirmation::Leave {
        return Ok(());
    }
    let done = client.ask_within(Prune { silent_since_ms, step: ForgetStep::Forget }, WORK_WITHIN)?;
    if args.json {
        out.write_all(&done.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(writeln!(out, "Forgotten: {}.", forget::counts(&done.read()?))?)
}

#[derive(Debug, Args)]
pub struct ReindexArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn reindex(args: &ReindexArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask_within(Reindex, WORK_WITHIN)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(writeln!(out, "The index was rebuilt: {} documents.", answer.read()?.documents)?)
}
