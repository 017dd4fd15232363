//! `recall friction`: recurring problems, with their evidence.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Filter, Friction};

use super::client::{Client, Start};
use super::filter::ScopeArgs;
use super::terminal::{self, ACCENT, BOLD, DIM, counted};
use recall_app::answers::friction::FrictionAnswer;
use recall_app::clock;

/// How far back to look without `--since`, in milliseconds.
const A_WEEK_MS: i64 = 7 * 86_400_000;
/// The maximum number of sessions named.
const MOST_NAMED: usize = 4;

/// The kinds with their headings, in the order in which they are shown.
const HEADINGS: [(&str, &str); 5] = [
    ("failure", "The same failure in several sessions"),
    ("correction", "What you corrected"),
    ("stop", "Turns that ended without an answer"),
    ("denial", "Calls that you denied repeatedly"),
    ("workaround", "Workarounds"),
];

#[derive(Debug, Args)]
#[command(after_help = "Without --since, it covers the last 7 days.")]
pub struct FrictionArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The time from which on it is looked without `--since`.
pub(super) fn a_week_ago() -> i64 {
    clock::now().0.saturating_sub(A_WEEK_MS)
}

/// # Errors
/// Fails when the daemon does not respond, or the project is unknown.
pub fn run(args: &FrictionArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut client = Client::connect(Start::IfNeeded)?;
    let since = |filter: Filter| Filter { since_ms: filter.since_ms.or(Some(a_week_ago())), ..filter };
    let (answer, _) = args.scope.ask(&mut client, |filter| Friction { filter: since(filter) })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let found = answer.read()?.items;
    if found.is_empty() {
        return Ok(writeln!(
            out,
            "No recurring problems here. `--since 30d` looks further back, `--all` in all projects."
        )?);
    }
    let mut is_first = true;
    for (kind, heading) in HEADINGS {
        let mut of_kind = found.iter().filter(|one| *one.kind == *kind).peekable();
        if of_kind.peek().is_none() {
            continue;
        }
        if !is_first {
            writeln!(out)?;
        }
        is_first = false;
        writeln!(out, "{ACCENT}{heading}{ACCENT:#}")?;
        of_kind.try_for_each(|one| print(out, one))?;
    }
    Ok(())
}

fn print(out: &mut dyn Write, friction: &FrictionAnswer) -> std::io::Result<()> {
    writeln!(out, "{BOLD}{}{BOLD:#}", friction.what)?;
    let named = friction
        .met
        .iter()
        .take(MOST_NAMED)
        .map(|met| format!("{} {}", terminal::session(&met.session_id), terminal::ago(met.at)));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = friction.met.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let times = counted(friction.times, "time", "times");
    let sessions = counted(friction.met.len(), "session", "sessions");
    writeln!(out, "  {DIM}{times} in {sessions}: {named}{more}{DIM:#}")?;
    if let Some(example) = &friction.example {
        writeln!(out, "  for example: {example}")?;
    }
    match (friction.note, &friction.remember) {
        (Some(id), _) => writeln!(
            out,
            "  noted as #{0}; `recall pin {0}` injects it at every start",
            terminal::id(id).trim_start_matches('#')
        ),
        (None, Some(suggestion)) => {
            // Only a text with a zero byte cannot be quoted, and displayed text contains none.
            let text = shlex::try_quote(&suggestion.text).unwrap_or_default();
            writeln!(out, "  recall remember {text} --type {}", &*suggestion.kind)
        }
        (None, None) => Ok(()),
    }
}
