//! `recall remember`: keeping what the user says.

use std::io::{Read, Write};

use anyhow::Context;
use clap::Args;
use recall_protocol::privacy::strip_text;
use recall_protocol::query::Remember;

use super::client::{Client, Start};
use super::failure::Failure;
use super::filter::project;
use super::terminal::ACCENT;

#[derive(Debug, Args)]
pub struct RememberArgs {
    /// What is worth knowing, in a sentence or a few; `-` reads it from stdin
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
    let said = match args.text.as_slice() {
        [only] if only == "-" => read_all(std::io::stdin().lock())?,
        words => words.join(" "),
    };
    // What is private does not leave this program.
    let visible = strip_text(&said);
    if visible.text.trim().is_empty() {
        let failure = match said.trim().is_empty() {
            true => Failure::usage("There is nothing to remember").hint("Say it in a sentence or a few."),
            false => Failure::usage("All of it is private, so nothing was kept")
                .hint("Say what may be remembered outside of <private>."),
        };
        return Err(failure.into());
    }
    let remark = Remember {
        text: visible.text.trim().to_owned(),
        title: args.title.as_deref().map(|title| strip_text(title).text.into_owned()),
        kind: args.kind.clone(),
        project: project(&args.project)?,
        files: args.file.iter().map(|file| absolute(file)).collect::<anyhow::Result<_>>()?,
        importance: args.importance,
    };
    let answer = Client::connect(Start::IfNeeded)?.ask(remark)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    for item in answer.read()?.items {
        writeln!(out, "Remembered as {ACCENT}#{}{ACCENT:#}: {}", item.id, item.title)?;
    }
    Ok(())
}

/// More than this is no remark; the daemon says so.
const MOST_BYTES: u64 = 64 << 10;

fn read_all(input: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    input.take(MOST_BYTES).read_to_end(&mut bytes).context("reading stdin")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The file need not be there any more.
fn absolute(file: &str) -> anyhow::Result<String> {
    let folder = std::env::current_dir().context("finding the current folder")?;
    let folder = std::fs::canonicalize(&folder).unwrap_or(folder);
    Ok(folder.join(file.trim_start_matches("./")).to_string_lossy().into_owned())
}
