//! `recall remember`: keeping what the user says.

use std::io::Write;

use anyhow::Context;
use clap::Args;
use recall_protocol::wire::{Query, Remark};

use super::client::{Client, Start};
use super::failure::Failure;
use super::filter::project;
use super::terminal::{self, ACCENT, list, text};

#[derive(Debug, Args)]
pub struct RememberArgs {
    /// What is worth knowing, in a sentence or a few
    #[arg(required = true)]
    text: Vec<String>,
    /// bugfix, feature, refactor, change, discovery, decision, gotcha, trade_off or security
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// One line for the index, if the first line of the text is none
    #[arg(long)]
    title: Option<String>,
    /// The project it is about: its name or a folder
    #[arg(long, default_value = ".")]
    project: String,
    /// A file that it is about; may be given several times
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// From 1, trivia, to 10, whoever works here must know it; 9 unless you say
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10))]
    importance: Option<u8>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer or refuses.
pub fn run(args: &RememberArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let text_said = args.text.join(" ");
    if text_said.trim().is_empty() {
        return Err(Failure::usage("There is nothing to remember")
            .hint("Say it in a sentence or a few.")
            .into());
    }
    let remark = Remark {
        text: text_said,
        title: args.title.clone(),
        kind: args.kind.clone(),
        project: project(&args.project)?,
        files: args.file.iter().map(|file| absolute(file)).collect::<anyhow::Result<_>>()?,
        importance: args.importance,
    };
    let answer = Client::connect(Start::IfNeeded)?.ask(Query::Remember(remark))?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    for item in list(&answer.value, "items") {
        writeln!(out, "Remembered as {ACCENT}{}{ACCENT:#}: {}", terminal::id(item), text(item, "title"))?;
    }
    Ok(())
}

/// The file need not be there any more.
fn absolute(file: &str) -> anyhow::Result<String> {
    let folder = std::env::current_dir().context("finding the current folder")?;
    let folder = std::fs::canonicalize(&folder).unwrap_or(folder);
    Ok(folder.join(file.trim_start_matches("./")).to_string_lossy().into_owned())
}
