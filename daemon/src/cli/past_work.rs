//! `recall how`, `recall fix` and `recall blame`: answers from the stored calls of sessions.

use std::io::{IsTerminal, Read, Write};
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use recall_protocol::query::{Blame, Fix, How};

use super::client::{Client, Start, this_folder};
use super::failure::Failure;
use super::filter::{ScopeArgs, count};
use super::terminal::{self, ACCENT, BOLD, DIM, counted};
use recall_app::answers::past_work::{CureStepAnswer, InvocationAnswer, MetAnswer, TouchAnswer};

/// The maximum size of an output read from stdin, in bytes.
const MOST_BYTES: u64 = 1 << 20;

#[derive(Debug, Args)]
pub struct HowArgs {
    /// The command, or some of its words
    #[arg(required = true)]
    command: Vec<String>,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct FixArgs {
    /// The error message; `-` reads a program's output from stdin
    #[arg(required = true)]
    error: Vec<String>,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct BlameArgs {
    /// A file, or a file and a line number, e.g. src/cart.rs:42
    #[arg(value_name = "FILE[:LINE]", value_hint = clap::ValueHint::FilePath)]
    file: String,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", value_parser = count)]
    limit: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// Fails when the daemon does not respond, or the project is unknown.
pub fn how(args: &HowArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let command = args.command.join(" ");
    let mut client = Client::connect(Start::IfNeeded)?;
    let (answer, _) = args.scope.ask(&mut client, |filter| How { command: command.clone(), filter })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let runs = answer.read()?.items;
    if runs.is_empty() {
        return Ok(writeln!(out, "No session here ran {command:?}.")?);
    }
    runs.iter().try_for_each(|run| invocation(out, run))?;
    Ok(())
}

fn invocation(out: &mut dyn Write, run: &InvocationAnswer) -> std::io::Result<()> {
    let (ago, session) = (terminal::ago(run.at), terminal::session(&run.session_id));
    let times = counted(run.worked, "time", "times");
    let outcome = match run.worked {
        0 => format!("never worked; failed last {ago} in session {session}"),
        _ => format!("worked {times}, last {ago} in session {session}"),
    };
    writeln!(out, "{BOLD}{}{BOLD:#}\n  {DIM}{outcome}{DIM:#}", run.command)?;
    if let Some(error) = &run.error {
        writeln!(out, "  it said: {error}")?;
    }
    if let Some(before) = &run.before {
        let error = before.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        writeln!(out, "  before that failed: {}{error}", before.command)?;
    }
    Ok(())
}

/// # Errors
/// Fails when the daemon does not respond, the project is unknown, or stdin cannot be read.
pub fn fix(args: &FixArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let error = match args.error.as_slice() {
        [dash] if dash == "-" => output_on_stdin()?,
        words => words.join(" "),
    };
    if error.trim().is_empty() {
        return Err(Failure::usage("No error was given")
            .hint("Give the line that was printed, or pipe the output: `recall fix - < make.log`.")
            .into());
    }
    let mut client = Client::connect(Start::IfNeeded)?;
    let (answer, _) = args.scope.ask(&mut client, |filter| Fix { error: error.clone(), filter })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let met = answer.read()?.items;
    if met.is_empty() {
        return Ok(writeln!(out, "This error did not occur in any session here.")?);
    }
    met.iter().try_for_each(|one| meeting(out, one))?;
    Ok(())
}

fn output_on_stdin() -> anyhow::Result<String> {
    if std::io::stdin().is_terminal() {
        return Err(Failure::usage("`-` reads an output from stdin, which is a terminal")
            .hint("Pipe it: `make 2>&1 | recall fix -`.")
            .into());
    }
    let mut bytes = Vec::new();
    std::io::stdin().take(MOST_BYTES).read_to_end(&mut bytes).context("Cannot read stdin")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn meeting(out: &mut dyn Write, met: &MetAnswer) -> std::io::Result<()> {
    let (ago, session) = (terminal::ago(met.at), terminal::session(&met.session_id));
    let times = match met.times {
        1 => String::new(),
        times => format!(", {times} times in a row"),
    };
    writeln!(
        out,
        "{BOLD}{}{BOLD:#}\n  {DIM}{} {ago} in session {session}{times}{DIM:#}",
        met.error, met.call
    )?;
    match (&met.passed_at, met.steps.is_empty()) {
        (Some(_), true) if met.passed_as.is_some() => {}
        (Some(_), true) => writeln!(out, "  it passed without a change in between")?,
        (Some(_), false) => writeln!(out, "  it passed after:")?,
        (None, _) => writeln!(out, "  it did not pass in that session")?,
    }
    for step in &met.steps {
        match step {
            CureStepAnswer::Changed(path) => writeln!(out, "    changed {ACCENT}{path}{ACCENT:#}")?,
            CureStepAnswer::Ran(command) => writeln!(out, "    ran {command}")?,
        }
    }
    match &met.passed_as {
        Some(line) => writeln!(out, "  it passed as: {line}"),
        None => Ok(()),
    }
}

/// # Errors
/// Fails when the daemon does not respond, the project is unknown, or the file has no such line.
pub fn blame(args: &BlameArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (file, line) = file_and_line(&args.file)?;
    let request = Blame { file, line, limit: args.limit };
    let answer = Client::connect(Start::IfNeeded)?.ask(request)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let touches = answer.read()?.items;
    if touches.is_empty() {
        return Ok(writeln!(out, "No recorded session changed {}.", args.file)?);
    }
    touches.iter().try_for_each(|touch| turn(out, touch))?;
    Ok(())
}

fn turn(out: &mut dyn Write, touch: &TouchAnswer) -> std::io::Result<()> {
    let (ago, session) = (terminal::ago(touch.at), terminal::session(&touch.session_id));
    let changes = counted(touch.changes, "change", "changes");
    let asked = touch.asked.as_deref().unwrap_or("(without a prompt)");
    let prompt = touch.prompt_number;
    writeln!(
        out,
        "{BOLD}{asked}{BOLD:#}\n  {DIM}{changes} {ago}, prompt {prompt} of session {session}{DIM:#}"
    )?;
    match &touch.answered {
        Some(answer) => writeln!(out, "  {answer}"),
        None => Ok(()),
    }
}

/// Returns the absolute path, and the text of the line if a number follows the path.
fn file_and_line(given: &str) -> anyhow::Result<(String, Option<String>)> {
    let numbered = given.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse::<usize>().ok()?)));
    let (file, number) = match numbered {
        Some((file, number)) if !Path::new(given).exists() => (file, Some(number)),
        _ => (given, None),
    };
    let path = Path::new(&this_folder()).join(file.trim_start_matches("./"));
    let Some(number) = number else { return Ok((path.to_string_lossy().into_owned(), None)) };
    let text = std::fs::read_to_string(&path).with_context(|| format!("Cannot read {file}"))?;
    let line = number.checked_sub(1).and_then(|at| text.lines().nth(at));
    let Some(line) = line else {
        let lines = text.lines().count();
        return Err(Failure::usage(format!("{file} has no line {number}"))
            .hint(format!("It has {}.", counted(lines, "line", "lines")))
            .into());
    };
    if line.trim().is_empty() {
        return Err(Failure::usage(format!("Line {number} of {file} is empty"))
            .hint("An empty line does not show who wrote it. Name a line next to it.")
            .into());
    }
    Ok((path.to_string_lossy().into_owned(), Some(line.to_owned())))
}
