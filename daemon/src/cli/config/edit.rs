//! `recall config edit`: opens the file in the user's editor.
//!
//! The user edits a copy, so the daemon never reads half of a change, and a copy with mistakes is never used.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::Context;
use clap::Args;
use recall_protocol::paths::Paths;

use crate::cli::edit::open;
use crate::cli::failure::Failure;
use crate::cli::terminal::{ERROR, GOOD};
use recall_config::change::problems;
use recall_config::keys::template;

#[derive(Debug, Args)]
pub struct EditArgs {}

/// # Errors
/// Fails when there is no editor, it fails, or the text has mistakes and nobody can be asked.
pub(super) fn run(EditArgs {}: &EditArgs, paths: &Paths, out: &mut dyn Write) -> anyhow::Result<()> {
    let (file, text) = super::file(paths)?;
    let before = text.clone().unwrap_or_else(template);
    let mut draft = tempfile::Builder::new()
        .prefix("recall-config-")
        .suffix(".toml")
        .tempfile()
        .context("Cannot create a file to edit")?;
    draft.write_all(before.as_bytes())?;
    draft.flush()?;
    loop {
        open(draft.path())?;
        let after = std::fs::read_to_string(draft.path()).context("Cannot read the edited file")?;
        if after == before {
            return Ok(writeln!(out, "Nothing was changed.")?);
        }
        let problems = problems(&after);
        if problems.is_empty() {
            super::print_recipients(text.as_deref().unwrap_or_default(), &after, out)?;
            file.write(&after)?;
            return Ok(writeln!(out, "{GOOD}Saved{GOOD:#} {}.", file.path().display())?);
        }
        for problem in &problems {
            writeln!(out, "{ERROR}error:{ERROR:#} {problem}")?;
        }
        if !again(out)? {
            let (_, kept) = draft.keep().context("Cannot keep the edited file")?;
            return Err(Failure::failed("The settings have errors, so they were not saved")
                .hint(format!("Your changes are in {}.", kept.display()))
                .into());
        }
    }
}

/// Whether the user wants to continue editing. Without a terminal, nobody can be asked.
fn again(out: &mut dyn Write) -> anyhow::Result<bool> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Ok(false);
    }
    write!(out, "Edit again? [Y/n] ")?;
    out.flush()?;
    let mut answer = String::new();
    let length = stdin.lock().read_line(&mut answer)?;
    Ok(length > 0 && !answer.trim().to_lowercase().starts_with('n'))
}
