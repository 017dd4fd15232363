//! `recall context`: what an agent would be told.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Context;

use super::client::{Client, Start};
use super::failure::Failure;
use super::terminal::DIM;
use crate::server::answers::found::Silence;

#[derive(Debug, Args)]
pub struct ContextArgs {
    /// The folder in which the session would start
    #[arg(long, value_name = "DIR", default_value = ".")]
    cwd: String,
    /// What this prompt would be given, instead of a session that starts
    #[arg(long)]
    prompt: Option<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer or the folder is not there.
pub fn run(args: &ContextArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let folder = std::path::absolute(&args.cwd).map_err(|error| {
        Failure::usage(format!("{:?} is no folder: {error}", args.cwd)).hint("Name a folder with --cwd.")
    })?;
    let query = Context { cwd: folder.to_string_lossy().into_owned(), prompt: args.prompt.clone() };
    let answer = Client::connect(Start::IfNeeded)?.ask(query)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let context = answer.read()?;
    if context.block.text.is_empty() {
        let why = match context.silent {
            Some(Silence::Paused) => "recall is paused. It goes on with `recall ctl resume`.",
            Some(Silence::Excluded) => {
                "this project is excluded, by `capture.exclude` or by its own `.recall.toml`."
            }
            None => "recall knows nothing that bears on it yet.",
        };
        return Ok(writeln!(out, "Nothing would be said: {why}")?);
    }
    writeln!(out, "{}", context.block.text)?;
    let tokens = context.block.tokens;
    Ok(writeln!(out, "{DIM}about {tokens} tokens{DIM:#}")?)
}
