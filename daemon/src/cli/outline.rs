//! `recall outline`: where the code declares a name, or what a file declares.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Outline;

use super::client::{Client, Start, this_folder};
use super::filter::count;
use super::terminal::{ACCENT, DIM};

#[derive(Debug, Args)]
#[command(after_help = "Works only while `context.code` is on.")]
pub struct OutlineArgs {
    /// A source file, a name, or words of a name
    #[arg(required = true, value_name = "FILE|WORDS", value_hint = clap::ValueHint::FilePath)]
    asked: Vec<String>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", value_parser = count)]
    limit: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// Fails when the daemon does not respond, the outline is off, or the folder is in no repository.
pub fn run(args: &OutlineArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let asked = args.asked.join(" ");
    let mut client = Client::connect(Start::IfNeeded)?;
    let answer = client.ask(Outline { folder: this_folder(), asked: asked.clone(), limit: args.limit })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let found = answer.read()?.items;
    if found.is_empty() {
        return Ok(writeln!(out, "Nothing here declares {asked:?}.")?);
    }
    for place in &found {
        let (file, line) = (&place.file, place.line);
        writeln!(out, "{DIM}{file}:{line}{DIM:#} {} {ACCENT}{}{ACCENT:#}", place.kind, place.symbol)?;
    }
    Ok(())
}
