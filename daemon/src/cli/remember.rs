//! `recall remember`: stores a note of the user.

use std::io::{Read, Write};

use anyhow::Context;
use clap::Args;
use recall_protocol::privacy::strip_text;
use recall_protocol::query::Remember;

use super::candidates;
use super::client::{Client, Start};
use super::failure::Failure;
use super::filter::project;
use super::terminal::ACCENT;
use recall_domain::plain::visible;

#[derive(Debug, Args)]
pub struct RememberArgs {
    /// The note, one or a few sentences; `-` alone reads stdin
    #[arg(required = true)]
    text: Vec<String>,
    /// One of bugfix, feature, refactor, change, discovery, decision, gotcha, trade_off, security, preference,
    /// correction, next_step, contact
    #[arg(long = "type", value_name = "TYPE", add = candidates::types())]
    kind: Option<String>,
    /// Title [default: the first line of the text]
    #[arg(long)]
    title: Option<String>,
    /// Project: a name or a folder
    #[arg(long, default_value = ".", add = candidates::projects())]
    project: String,
    /// Related file; can be given several times
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// From 1 (trivia) to 10 (everybody must know it) [default: 9]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10))]
    importance: Option<u8>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &RememberArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let text = match args.text.as_slice() {
        [only] if only == "-" => read_all(std::io::stdin().lock())?,
        [first, .., last] if first == "-" || last == "-" => {
            return Err(Failure::usage("`-` must stand alone: it reads the whole note from stdin")
                .hint("Leave out the other words, or the `-`.")
                .into());
        }
        words => words.join(" "),
    };
    // Removes private parts before the text leaves this program.
    let kept = strip_text(&text);
    if kept.text.trim().is_empty() {
        let failure = match text.trim().is_empty() {
            true => Failure::usage("There is no text to remember").hint("Write one or a few sentences."),
            false => Failure::usage("The whole text is private, so nothing was stored")
                .hint("Put text that may be stored outside of <private>."),
        };
        return Err(failure.into());
    }
    let remark = Remember {
        text: kept.text.trim().to_owned(),
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
    let remembered = answer.read()?;
    let project = visible(&remembered.project);
    for item in &remembered.said.items {
        writeln!(out, "Remembered as {ACCENT}#{}{ACCENT:#}: {}", item.id, item.title)?;
        match remembered.place_at_start {
            Some(place) => writeln!(
                out,
                "Sessions in {project} get this note when they start (position {place}), and at prompts and commands about it."
            )?,
            None => writeln!(
                out,
                "Sessions in {project} get this note at prompts and commands about it. The text at their start has no room \
                 for it; `recall pin {}` puts it first.",
                item.id
            )?,
        }
    }
    Ok(())
}

/// The maximum size in bytes. A longer text is too long for a note anyway; the daemon rejects it.
const MOST_BYTES: u64 = 64 << 10;

fn read_all(input: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    input.take(MOST_BYTES).read_to_end(&mut bytes).context("Cannot read stdin")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Makes a path absolute. The file may have been deleted.
fn absolute(file: &str) -> anyhow::Result<String> {
    let folder = std::env::current_dir().context("Cannot find the current folder")?;
    let folder = std::fs::canonicalize(&folder).unwrap_or(folder);
    Ok(folder.join(file.trim_start_matches("./")).to_string_lossy().into_owned())
}
