//! `recall export`: writes the memory as lines of JSON, or as a folder of pages. `docs/export.md` describes both.

mod markdown;

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use recall_protocol::query::{Export, Filter};
use serde_json::json;

use super::candidates;
use super::client::{Client, Start};
use super::failure::Failure;
use super::filter;
use super::terminal::counted;
use recall_app::answers::portable::ExportAnswer;
use recall_app::clock;
use recall_system::faults::VERSION;

/// The format's name in the first line.
pub(super) const FORMAT: &str = "recall-export";
/// New fields and kinds of lines do not need a new version.
pub(super) const FORMAT_VERSION: u64 = 1;

/// Write the memory as lines of JSON, for another machine or program, or as Markdown pages
#[derive(Debug, Args)]
#[command(after_help = "`recall import recall FILE` imports an export, on this or another machine.")]
pub struct ExportArgs {
    /// The file to write; it must not exist [default: stdout]
    path: Option<PathBuf>,
    /// Write Markdown pages into this folder instead, and remove pages of deleted items
    #[arg(long, value_name = "DIR", conflicts_with = "path", value_hint = clap::ValueHint::DirPath)]
    markdown: Option<PathBuf>,
    /// Update the pages whenever the memory changes, until Ctrl-C
    #[arg(long, requires = "markdown")]
    watch: bool,
    /// Only this project: a name, a folder, or `.` for the current one
    #[arg(long, add = candidates::projects())]
    project: Option<String>,
    /// Only sessions that were active since then, e.g. `30d`, `2026-11-01`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

pub fn run(args: &ExportArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let filter = Filter {
        project: args.project.as_deref().map(filter::project).transpose()?,
        since_ms: args.since.as_deref().map(filter::since).transpose()?,
        limit: None,
    };
    match &args.markdown {
        Some(folder) if args.watch => return markdown::watch(folder, &filter, out),
        Some(folder) => return markdown::write_once(folder, &filter, out),
        None => {}
    }
    let mut client = Client::connect(Start::IfNeeded)?;
    // This request fails for an unknown project before a file is created.
    let first = client.ask(Export { filter: filter.clone(), from: None })?.unchanged()?;
    match args.path.as_deref().filter(|path| *path != Path::new("-")) {
        None => write(&mut client, &filter, first, out).map(drop),
        Some(path) => {
            // The file contains the memory, so it is equally private.
            let file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
                    Failure::failed(format!("Cannot create {}: {error}", path.display()))
                        .hint("Name a file that does not exist yet.")
                })?;
            let mut file = BufWriter::new(file);
            let lines = write(&mut client, &filter, first, &mut file)?;
            file.into_inner()
                .context("Cannot write the export")?
                .sync_all()
                .context("Cannot write the export")?;
            Ok(writeln!(out, "Wrote {} to {}.", counted(lines, "line", "lines"), path.display())?)
        }
    }
}

/// Writes the first part and those that follow. Returns the number of lines.
fn write(
    client: &mut Client,
    filter: &Filter,
    first: ExportAnswer,
    out: &mut dyn Write,
) -> anyhow::Result<usize> {
    let at = jiff::Timestamp::from_millisecond(clock::now().0).unwrap_or_default();
    let head = json!({"format": FORMAT, "version": FORMAT_VERSION, "recall": VERSION, "exported_at": at.to_string()});
    writeln!(out, "{head}")?;
    let (mut part, mut lines) = (first, 1);
    loop {
        lines += part.lines.len();
        for line in &part.lines {
            writeln!(out, "{line}")?;
        }
        let Some(next) = part.next else { return Ok(lines) };
        // Bypasses `Answer::read`, which removes control characters.
        part = client.ask(Export { filter: filter.clone(), from: Some(next) })?.unchanged()?;
    }
}
