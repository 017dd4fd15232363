//! The command line: one file per command.
//!
//! **Invariant:** commands talk to the daemon over its socket and never open the database while a daemon runs.

mod commands;
mod examples;
mod parser_message;
mod output;
mod overview;
pub mod failure;
pub mod client;
pub mod terminal;
pub mod filter;
pub mod page;
pub mod keeping;
pub mod in_the_way;
pub(crate) mod consent;
pub mod daemon;
pub mod search;
mod summary;
pub mod show;
pub mod timeline;
pub mod context;
pub mod why;
pub mod past_work;
pub mod handoff;
pub mod friction;
pub mod outline;
pub mod wrong;
pub mod stats;
pub mod sql;
pub mod silent_agents;
pub mod statusline;
pub mod config;
pub mod guard;
pub mod model;
pub mod forget;
pub mod remember;
pub mod resolve;
pub mod review;
pub mod remote;
mod restricted;
pub mod share;
pub mod sync;
pub mod team;
mod team_place;
pub mod ctl;
pub mod install;
pub mod uninstall;
mod purge;
pub mod doctor;
pub mod demo;
pub mod edit;
pub mod pin;
pub mod undo;
pub mod export;
pub mod import;
pub mod improve;
pub mod ui;
pub mod mcp;
pub mod completions;
pub mod man;
mod candidates;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};

use commands::Command;
use failure::{ExitKind, Failure};
use output::{Notices, Output};

use recall_system::faults::VERSION;

/// A memory for coding agents that outlives the session.
///
/// recall uses your agents' hooks to record what they do. It makes these records searchable, and gives later sessions
/// the relevant part. Nothing leaves this machine unless you configure a remote model or share a project.
#[derive(Debug, Parser)]
#[command(name = "recall", version = VERSION, max_term_width = 100)]
struct Arguments {
    /// When to use colours: auto, always or never; NO_COLOR also turns them off
    #[arg(
        long,
        global = true,
        display_order = 900,
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    color: Colour,
    /// Print long output without a pager
    #[arg(long, global = true, display_order = 901)]
    no_pager: bool,
    #[command(subcommand)]
    command: Command,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Colour {
    /// On a terminal.
    Auto,
    Always,
    Never,
}

impl From<Colour> for anstream::ColorChoice {
    fn from(colour: Colour) -> Self {
        match colour {
            Colour::Auto => Self::Auto,
            // Unconditionally, as a pipe or a pager needs them.
            Colour::Always => Self::AlwaysAnsi,
            Colour::Never => Self::Never,
        }
    }
}

/// Runs a command line and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(code) = completions::answer(&arguments) {
        return code;
    }
    let arguments = search::shield(arguments);
    let words: Vec<String> =
        arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let matches = command_line().try_get_matches_from(arguments);
    let parsed = matches.and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    let (parsed, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version are not errors; clap picks the right stream for each.
            let code = if error.use_stderr() { ExitKind::Usage.code() } else { 0 };
            parser_message::print(error, &words);
            return ExitCode::from(code);
        }
    };
    // The MCP library locks stdout for each message.
    if matches!(parsed.command, Command::Mcp(_)) {
        return mcp::run().map_or_else(|error| report(&error), |()| ExitCode::SUCCESS);
    }
    anstream::ColorChoice::from(parsed.color).write_global();
    let (output, notices) = (parsed.command.output(), parsed.command.notices());
    let is_json = asks_for_json(&matches);
    let outcome = if output == Output::Page && !is_json {
        let paging = if parsed.no_pager { page::Paging::Off } else { page::Paging::Allowed };
        let mut read = Vec::new();
        let outcome = parsed.command.run(&mut read);
        let text = page::harmless(&String::from_utf8_lossy(&read));
        let fitted = page::width().map_or_else(|| text.clone(), |width| page::fit(&text, width));
        page::print(&fitted, paging).map_err(anyhow::Error::from).and(outcome)
    } else {
        let out = anstream::AutoStream::auto(std::io::stdout().lock());
        let width = page::width().filter(|_| output == Output::Lines && !is_json);
        let mut out = page::Fitted::new(out, width);
        if output == Output::Program || is_json {
            parsed.command.run(&mut out).and_then(|()| Ok(out.flush()?))
        } else {
            let mut out = page::Harmless::new(out);
            parsed.command.run(&mut out).and_then(|()| Ok(out.flush()?))
        }
    };
    if notices != Notices::None {
        keeping::warn();
    }
    if notices == Notices::All && output != Output::Program {
        silent_agents::warn();
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

/// Whether the command has `--json`.
fn asks_for_json(matches: &ArgMatches) -> bool {
    let mut here = matches;
    while let Some((_, inner)) = here.subcommand() {
        here = inner;
    }
    here.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or_default()
}

/// Whether the reader of our output has closed it.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// Prints what happened, why, and what to do next.
fn report(error: &anyhow::Error) -> ExitCode {
    let mut err = anstream::AutoStream::auto(std::io::stderr().lock());
    let (red, bold) = (terminal::ERROR, terminal::BOLD);
    // The name of a file or folder may contain anything.
    let what = page::harmless(&error.to_string());
    let _ = writeln!(err, "{red}error:{red:#} {bold}{what}{bold:#}{}", full_stop(&what));
    for cause in error.chain().skip(1) {
        let _ = writeln!(err, "  because: {}", page::harmless(&cause.to_string()));
    }
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    if let Some(hint) = failure.and_then(|failure| failure.hint.as_ref()) {
        let _ = writeln!(err, "  hint: {}", page::harmless(hint));
    }
    ExitCode::from(failure.map_or(ExitKind::Failed, |failure| failure.kind).code())
}

/// Returns a full stop, unless the sentence ends with its own punctuation.
fn full_stop(sentence: &str) -> &'static str {
    if sentence.ends_with(['.', '?', '!']) { "" } else { "." }
}

/// The clap command, for completion scripts.
pub(crate) fn command_line() -> clap::Command {
    overview::with_overview(examples::with_examples(Arguments::command()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_definition_is_valid() {
        super::command_line().debug_assert();
    }
}
