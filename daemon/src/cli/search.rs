//! `recall search`: searches the memory.

use std::ffi::OsString;
use std::io::Write;

use anstyle::Style;
use clap::Args;
use recall_protocol::query::{Explain, Search};

use super::candidates;
use super::client::{Client, Start, this_folder};
use super::failure::Failure;
use super::filter::{AskedProjects, ScopeArgs};
use super::page;
use super::terminal::{self, ACCENT, BOLD, DIM, MATCH, WARNING, counted, thousands};
use recall_app::answers::found::{ExplainedSource, Explanation, ReadAs, SearchAnswer, SearchResult, Unknown};
use recall_search::query::{self, Query, mistake};
use recall_search::snippet::matches;

/// The indentation of a result's continued lines, in columns.
const INDENT: usize = 3;
/// The maximum number of lines of a snippet on a screen.
const SNIPPET_LINES: usize = 2;

#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Words, "exact phrases", -without, and the filters type: kind: file: project: agent: session: by: since:
    #[arg(required_unless_present_any = ["by", "mine"], add = candidates::filters())]
    query: Vec<String>,
    /// Only items that this person made, in shared projects
    #[arg(long, value_name = "NAME", add = candidates::authors())]
    by: Option<String>,
    /// Only items that you made, on any of your machines
    #[arg(long, conflicts_with = "by")]
    mine: bool,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Show how each score was computed
    #[arg(long)]
    explain: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lets `-word` reach the query at any position among the options.
///
/// clap parses `-word` as an option. With `allow_hyphen_values`, it would parse options after the first word as words.
/// A leading space, which the query ignores, makes it a word and does not affect options. Arguments that may be a
/// one-letter option (`-n 5`, `-n5`) stay unchanged.
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
    let rest = text.strip_prefix('-').unwrap_or_default();
    // A phrase to exclude. No option begins with a quote.
    if rest.starts_with(query::is_quote) {
        return true;
    }
    let mut letters = rest.chars();
    let first_two = (letters.next(), letters.next());
    matches!(first_two, (Some(first), Some(second)) if first.is_alphanumeric() && !second.is_ascii_digit())
}

pub fn run(args: &SearchArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut text = args.query.join(" ");
    if let Some(author) = args.by.as_deref().or(args.mine.then_some(query::ME)) {
        text.push_str(&format!(" by:\"{}\"", author.replace('"', "")));
    }
    refuse_slips(&text)?;
    let explain = if args.explain { Explain::Yes } else { Explain::No };
    let parsed = query::parse(&text);
    let request = |filter| Search { text: text.clone(), filter, explain, folder: Some(this_folder()) };
    let mut client = Client::connect(Start::IfNeeded)?;
    // A query that names a project or a session has its own scope.
    let has_own_scope = parsed
        .filters
        .iter()
        .any(|filter| matches!(filter, query::Filter::Project(_) | query::Filter::Session(_)));
    let (answer, scope) = match has_own_scope {
        true => args.scope.ask_everywhere(&mut client, request)?,
        false => args.scope.ask(&mut client, request)?,
    };
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(print(out, &answer.read()?, &parsed, scope)?)
}

/// Rejects parts of the query that are probably mistakes, so that the user can correct them.
pub(super) fn refuse_slips(query: &str) -> anyhow::Result<()> {
    if query.trim().is_empty() {
        return Err(Failure::usage("The query is empty: what should be found?")
            .hint("Name a word, a \"phrase\", or a filter such as type:decision.")
            .into());
    }
    let Some(mistake) = mistake(query) else { return Ok(()) };
    Err(Failure::usage(mistake.what()).hint(mistake.hint()).into())
}

fn print(
    out: &mut dyn Write,
    answer: &SearchAnswer,
    query: &Query,
    scope: AskedProjects,
) -> std::io::Result<()> {
    // A replaced word is highlighted as its replacement.
    let mut sought = query.clone();
    sought.words.extend(answer.read_as.iter().map(|word| word.read.clone()));
    for result in &answer.results {
        entry(out, result, &sought, scope)?;
    }
    let (shown, total, took) = (answer.results.len(), answer.total, answer.took_ms);
    for Unknown { key, value, meant } in &answer.unknown {
        let meant = meant.as_ref().map(|name| format!(" Did you mean {name:?}?")).unwrap_or_default();
        match key.as_ref() {
            "session" => writeln!(out, "No session is known whose id begins with {value:?}.{meant}")?,
            key => writeln!(out, "No {key} {value:?} is known.{meant}")?,
        }
    }
    for ReadAs { typed, read } in &answer.read_as {
        writeln!(out, "No match for {typed:?}; searched for {read:?} instead.")?;
    }
    if shown == 0 {
        let elsewhere = match scope {
            _ if query.asks_for_nothing() => ": the query contains no words to search for",
            // An unknown name matches in no project, so `--all` is not suggested.
            AskedProjects::Here if answer.unknown.is_empty() => " in this project; `--all` searches all",
            AskedProjects::Here | AskedProjects::Chosen => "",
        };
        writeln!(out, "Nothing found{elsewhere}.")?;
    } else {
        let found = match total {
            total if total > shown => format!("{} of {} matches", thousands(shown), thousands(total)),
            _ => counted(shown, "match", "matches"),
        };
        let here = if scope == AskedProjects::Here { " in this project" } else { "" };
        writeln!(out, "{DIM}{found}{here}, {took} ms. `recall show ID` shows one in full.{DIM:#}")?;
    }
    if answer.degraded {
        writeln!(out, "{WARNING}The search index is not ready yet; results may be incomplete.{WARNING:#}")?;
    }
    if let Some(first) = answer.config_errors.first() {
        writeln!(
            out,
            "{WARNING}config.toml has errors: {first}. Run `recall doctor` for details.{WARNING:#}"
        )?;
    }
    Ok(())
}

fn entry(
    out: &mut dyn Write,
    result: &SearchResult,
    query: &Query,
    scope: AskedProjects,
) -> std::io::Result<()> {
    let kind = terminal::kind(result.observation_type.as_ref().unwrap_or(&result.kind));
    let (id, time) = (terminal::id(result.id), terminal::ago(result.created_at));
    let title = &terminal::whole_words(&result.title);
    let width = page::width().unwrap_or(usize::MAX);
    let head = format!("{ACCENT}{id}{ACCENT:#} {}", highlighted(title, query, BOLD));
    writeln!(out, "{}", page::hang(&head, 0, INDENT, width))?;
    // Within one project the name is the same for all.
    let project = match scope {
        AskedProjects::Here => String::new(),
        AskedProjects::Chosen => format!(", {}", result.project),
    };
    let status = result.status.as_deref().filter(|status| *status != "active");
    let status = status.map(|status| format!(", {status}")).unwrap_or_default();
    let elsewhere = terminal::elsewhere(result.made_on.elsewhere.as_deref());
    let by = match (&result.author, &result.device) {
        (Some(author), Some(device)) => format!(", by {author}, {device}"),
        _ => String::new(),
    };
    writeln!(out, "   {DIM}{kind}{project}, {time}{status}{by}{DIM:#}{elsewhere}")?;
    let snippet = beyond(&result.snippet, title);
    if !snippet.is_empty() {
        let snippet = highlighted(snippet, query, Style::new());
        writeln!(out, "   {}", page::first_lines(&snippet, INDENT, width, SNIPPET_LINES))?;
    }
    if let Some(why) = &result.why {
        explain(out, result.score, why)?;
        match result.said_by.as_deref() {
            Some("you") => writeln!(out, "   {DIM}you said so{DIM:#}")?,
            Some("agent") => writeln!(out, "   {DIM}an agent noted it{DIM:#}")?,
            Some("member") => writeln!(out, "   {DIM}another person who shares the project said so{DIM:#}")?,
            Some(_) => writeln!(out, "   {DIM}from an import, so its author is unknown{DIM:#}")?,
            None => {}
        }
    }
    Ok(())
}

/// Returns the part of a snippet after the title with which it may begin.
fn beyond<'a>(snippet: &'a str, title: &str) -> &'a str {
    let title = title.trim_end_matches(['…', ' ']);
    let text = snippet.trim_start_matches(['#', '*', '-', '>', ' ']);
    match text.strip_prefix(title) {
        // Only at the end of a word.
        Some(rest) if !rest.starts_with(char::is_alphanumeric) => {
            rest.trim_start_matches(['*', '.', ':', '—', ' '])
        }
        _ => snippet,
    }
}

/// A text in this style, with the query's words highlighted.
fn highlighted(text: &str, query: &Query, style: Style) -> String {
    let mut shown = String::new();
    let mut done = 0;
    let mut add = |part: &str, style: Style| {
        if !part.is_empty() {
            shown.push_str(&format!("{style}{part}{style:#}"));
        }
    };
    for found in matches(text, query) {
        add(text.get(done..found.start).unwrap_or_default(), style);
        add(text.get(found.clone()).unwrap_or_default(), MATCH);
        done = found.end;
    }
    add(text.get(done..).unwrap_or_default(), style);
    shown
}

/// Prints the factors of a score, one per line, each with its meaning. Their product is the score.
fn explain(out: &mut dyn Write, score: f32, why: &Explanation) -> std::io::Result<()> {
    writeln!(out, "   {DIM}score {score:.4} is the product of{DIM:#}")?;
    for (name, value) in &why.factors {
        let value = value.as_f64().unwrap_or_default();
        writeln!(out, "   {DIM}  {name:10} {value:.4}  {}{DIM:#}", meaning(name))?;
    }
    // A hit found by meaning alone may have none of the words.
    if !(why.matched.is_empty() && why.missing.is_empty()) {
        let words = |words: &[String]| if words.is_empty() { "nothing".to_owned() } else { words.join(" ") };
        let (matched, missing) = (words(&why.matched), words(&why.missing));
        writeln!(out, "   {DIM}has {matched}; lacks {missing}{DIM:#}")?;
    }
    for part in &why.sources {
        let ExplainedSource { source, fit, relevance, cosine } = part;
        let cosine = cosine.map(|cosine| format!(", cosine {cosine:.2}")).unwrap_or_default();
        let source = if source.as_ref() == "lexical" { "words" } else { source.as_ref() };
        writeln!(out, "   {DIM}found by {source}: fit {fit:.4}, relevance {relevance:.2}{cosine}{DIM:#}")?;
    }
    Ok(())
}

/// Explains a factor of a score.
fn meaning(factor: &str) -> &'static str {
    match factor {
        "text" => "how prominent the query's words are in it, rare words most",
        "coverage" => "how much of the query it contains",
        "proximity" => "more than 1 if words of the query are close together in it",
        "fit" => "how well it matches the query",
        "moment" => "more than 1 if events just before or after also match",
        "kind" => "conclusions count more than messages, and messages more than calls",
        "recency" => "up to 15 % more for the newest",
        "importance" => "3 % for each step above or below 5",
        "status" => "less if it is resolved or superseded",
        "by_hand" => "4 if a person wrote or pinned it and it is still valid",
        _ => "",
    }
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
    fn a_snippet_does_not_repeat_its_title() {
        assert_eq!(beyond("### The hooks **Two** of them", "The hooks"), "Two** of them");
        assert_eq!(beyond("Rounding happens once.", "Rounding happens once."), "");
        assert_eq!(beyond("…after summing", "Rounding"), "…after summing");
        assert_eq!(beyond("Both call `round` once.", "Both call …"), "`round` once.");
        assert_eq!(beyond("Both call rounding.", "Both call round…"), "Both call rounding.");
    }

    #[test]
    fn excluded_words_are_distinguished_from_options() {
        check("recall|search|a|-cents|--json|-n|5|-n5", "recall|search|a| -cents|--json|-n|5|-n5");
        check("recall|search|-exact phrase|-type:bugfix", "recall|search| -exact phrase| -type:bugfix");
        check("recall|search|--|-cents", "recall|search|--|-cents");
        check("recall|search|-\"single sign on\" login", "recall|search| -\"single sign on\" login");
        check("recall|search|-|-x", "recall|search|-|-x");
        check("recall|install|-yes", "recall|install|-yes");
    }
}
