//! `recall search`: finding things again.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use recall_protocol::query::{Explain, Search};

use super::client::{Client, Start, this_folder};
use super::failure::Failure;
use super::filter::FilterArgs;
use super::terminal::{self, ACCENT, BOLD, DIM, WARNING};
use crate::search::query::{Mistake, mistake};
use crate::server::answers::found::{SearchAnswer, SearchResult};

#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Words, "exact phrases", -without, and type: kind: file: project: agent: session: since:
    #[arg(required = true)]
    query: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Say how each score came about
    #[arg(long)]
    explain: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Lets `-word` through to the query wherever it stands among the options.
///
/// clap takes it for options; told to take hyphens for words, it takes the options behind the first word for words
/// too. A space before it, which means nothing to the query, makes it a word and leaves the options alone. What may
/// be an option of one letter (`-n 5`, `-n5`) is left as it is.
pub fn shield(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_some_and(|command| command == "search") {
        for argument in arguments.iter_mut().skip(2).take_while(|argument| *argument != "--") {
            if let Some(word) = argument.to_str().filter(|text| is_excluded_word(text)) {
                *argument = format!(" {word}").into();
            }
        }
    }
    arguments
}

fn is_excluded_word(text: &str) -> bool {
    let mut letters = text.strip_prefix('-').unwrap_or_default().chars();
    let first_two = (letters.next(), letters.next());
    matches!(first_two, (Some(first), Some(second)) if first.is_alphanumeric() && !second.is_ascii_digit())
}

/// # Errors
/// When the daemon does not answer or refuses.
pub fn run(args: &SearchArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let text = args.query.join(" ");
    refuse_slips(&text)?;
    let filter = args.filter.filter()?;
    let explain = if args.explain { Explain::Yes } else { Explain::No };
    let query = Search { text, filter, explain, folder: Some(this_folder()) };
    let answer = Client::connect(Start::IfNeeded)?.ask(query)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(tell(out, &answer.read()?)?)
}

/// Says what cannot have been meant: a person is there to ask again.
fn refuse_slips(query: &str) -> anyhow::Result<()> {
    if query.trim().is_empty() {
        return Err(Failure::usage("There is nothing to search for")
            .hint("Name a word, a \"phrase\", or a filter such as type:decision.")
            .into());
    }
    let Some(mistake) = mistake(query) else { return Ok(()) };
    let Mistake { typed, key, value, known } = &mistake;
    let what = match known.is_empty() {
        true => format!("Invalid time {value:?}: try 2h, yesterday, 2026-11-01"),
        false => format!("There is no {key} {value:?}"),
    };
    let instead = match (mistake.nearest(), known.is_empty()) {
        (Some(nearest), _) => format!("Did you mean {key}:{nearest}?"),
        (None, false) => format!("There are {}.", known.join(", ")),
        (None, true) => String::new(),
    };
    Err(Failure::usage(what)
        .hint(format!("{instead} To look for the text itself, quote it: '\"{typed}\"'.").trim_start())
        .into())
}

fn tell(out: &mut dyn Write, answer: &SearchAnswer) -> std::io::Result<()> {
    for result in &answer.results {
        entry(out, result)?;
    }
    let (shown, total, took) = (answer.results.len(), answer.total, answer.took_ms);
    if shown == 0 {
        writeln!(out, "Nothing found.")?;
    } else {
        writeln!(out, "{DIM}{shown} of {total}, {took} ms. `recall show ID` tells more.{DIM:#}")?;
    }
    if answer.degraded {
        writeln!(
            out,
            "{WARNING}The index is being made anew: plain words were compared, activities were left out.{WARNING:#}"
        )?;
    }
    if let Some(first) = answer.config_errors.first() {
        writeln!(
            out,
            "{WARNING}config.toml has errors: {first}. `recall doctor` names them and says what follows.{WARNING:#}"
        )?;
    }
    Ok(())
}

fn entry(out: &mut dyn Write, result: &SearchResult) -> std::io::Result<()> {
    let kind = result.observation_type.as_ref().unwrap_or(&result.kind);
    let (id, time) = (terminal::id(result.id), terminal::time(result.created_at));
    let (title, project) = (&result.title, &result.project);
    writeln!(out, "{ACCENT}{id}{ACCENT:#} {BOLD}{title}{BOLD:#}")?;
    let status = result.status.as_deref().filter(|status| *status != "active");
    let status = status.map(|status| format!(", {status}")).unwrap_or_default();
    let elsewhere = terminal::elsewhere(result.made_on.elsewhere.as_deref());
    writeln!(out, "   {DIM}{kind}, {project}, {time}{status}{DIM:#}{elsewhere}")?;
    if !result.snippet.is_empty() && result.snippet != *title {
        writeln!(out, "   {}", result.snippet)?;
    }
    if let Some(why) = &result.why {
        let factor = |(name, value): (&String, &serde_json::Value)| {
            format!("{name} {:.2}", value.as_f64().unwrap_or_default())
        };
        let factors: Vec<String> = why.factors.iter().map(factor).collect();
        writeln!(out, "   {DIM}score {:.3} = {}{DIM:#}", result.score, factors.join(" x "))?;
        let matched = why.matched.join(" ");
        writeln!(out, "   {DIM}relevance {:.2}, matched {matched}{DIM:#}", why.relevance)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let shielded = shield(line.split('|').map(OsString::from));
        let text: Vec<_> = shielded.iter().map(|argument| argument.to_string_lossy()).collect();
        assert_eq!(text.join("|"), expected);
    }

    #[test]
    fn words_to_leave_out_are_told_from_options() {
        check("recall|search|a|-cents|--json|-n|5|-n5", "recall|search|a| -cents|--json|-n|5|-n5");
        check("recall|search|-exact phrase|-type:bugfix", "recall|search| -exact phrase| -type:bugfix");
        check("recall|search|--|-cents", "recall|search|--|-cents");
        check("recall|search|-|-x", "recall|search|-|-x");
        check("recall|install|-yes", "recall|install|-yes");
    }
}
