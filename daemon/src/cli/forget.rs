//! `recall forget`: shows what would go, asks, and has it forgotten everywhere.

use std::io::Write;

use clap::Args;
use recall_protocol::wire::{ForgetStep, Forgettable, Query};
use serde_json::Value;

use super::client::{Client, FLUSH_WITHIN, Start};
use super::consent::{Answer, Consent};
use super::failure::Failure;
use super::filter::{project, since};
use super::terminal::{self, ACCENT, BOLD, DIM, WARNING, list, number, text};

#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// 12 or #12 an observation, p12 a prompt, r12 an answer, s12 a summary, l12 a plan, a12 a call, c12 a compaction's summary
    #[arg(conflicts_with_all = ["session", "project", "since", "until", "query", "unreadable"])]
    id: Vec<String>,
    /// A whole session: its id or the beginning of it
    #[arg(long, value_name = "ID", conflicts_with_all = ["project", "since", "until", "query"])]
    session: Option<String>,
    /// All of a project: its name, a folder, or `.` for the one here
    #[arg(long)]
    project: Option<String>,
    /// Only what is newer: `2d`, `3 weeks`, `yesterday`, `2026-11-01`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only what is older
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only texts that hold all these words; quote them to mean a phrase
    #[arg(long, value_name = "WORDS")]
    query: Vec<String>,
    /// Also events and spool files that cannot be read, whosever they are
    #[arg(long)]
    unreadable: bool,
    /// Do not ask
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would go and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Write JSON: how much went
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When nothing or too much is named, nobody can be asked, or something could not be forgotten everywhere.
pub fn run(args: &ForgetArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let what = args.what()?;
    let mut client = Client::connect(Start::IfNeeded)?;
    let query = |step| match args.unreadable {
        true => Query::ForgetUnreadable { what: what.clone(), step },
        false => Query::Forget { what: what.clone(), step },
    };
    let preview = client.ask_within(query(ForgetStep::Preview), FLUSH_WITHIN)?;
    if is_nothing(&preview.value) && !args.json {
        writeln!(out, "Nothing of that is remembered.")?;
        return Ok(unreadable(out, &preview.value)?);
    }
    let mut input = std::io::stdin().lock();
    let consent = match (args.dry_run, args.yes) {
        (true, _) => Consent::ShowOnly,
        (false, true) => Consent::Given,
        (false, false) => Consent::at_terminal(&mut input),
    };
    if args.json && args.dry_run {
        out.write_all(&preview.bytes)?;
        return Ok(writeln!(out)?);
    }
    if consent.shows_changes() {
        show(out, &preview.value)?;
    }
    if consent.obtain("Forget this for good?", out)? == Answer::Leave {
        return Ok(());
    }
    let done = client.ask_within(query(ForgetStep::Forget), FLUSH_WITHIN)?;
    if args.json {
        out.write_all(&done.bytes)?;
        return Ok(writeln!(out)?);
    }
    writeln!(out, "Forgotten: {}.", counts(&done.value))?;
    Ok(unreadable(out, &done.value)?)
}

impl ForgetArgs {
    fn what(&self) -> anyhow::Result<Forgettable> {
        let what = Forgettable {
            ids: self.id.clone(),
            session: self.session.clone(),
            project: self.project.as_deref().map(project).transpose()?,
            since_ms: self.since.as_deref().map(since).transpose()?,
            until_ms: self.until.as_deref().map(since).transpose()?,
            words: self.query.iter().flat_map(|words| texts(words)).collect(),
        };
        let asks_for_words = !self.query.is_empty() && what.words.is_empty();
        if (what == Forgettable::default() && !self.unreadable) || asks_for_words {
            return Err(Failure::usage("Specify what to forget")
                .hint("Name ids, or one --session, or any of --project, --since, --until and --query, or --unreadable.")
                .into());
        }
        Ok(what)
    }
}

/// The words, and the phrases between quotes.
fn texts(query: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for (part, piece) in query.split('"').enumerate() {
        match part % 2 {
            0 => texts.extend(piece.split_whitespace().map(str::to_owned)),
            _ => texts.extend(Some(piece.trim().to_owned()).filter(|phrase| !phrase.is_empty())),
        }
    }
    texts
}

type Kind = (&'static str, &'static str, &'static str);

const KINDS: [Kind; 10] = [
    ("sessions", "session", "sessions"),
    ("observations", "observation", "observations"),
    ("summaries", "summary", "summaries"),
    ("prompts", "prompt", "prompts"),
    ("responses", "answer", "answers"),
    ("plans", "plan", "plans"),
    ("activities", "call", "calls"),
    ("unparsed", "unreadable event", "unreadable events"),
    ("spool_files", "unreadable spool file", "unreadable spool files"),
    ("asides", "aside", "asides"),
];

/// What cannot be read and stays.
const UNREADABLE: [Kind; 3] = [
    ("events", "event", "events"),
    ("damaged_files", "damaged spool file", "damaged spool files"),
    ("other_version_files", "spool file of another version", "spool files of another version"),
];

fn is_nothing(answer: &Value) -> bool {
    KINDS.iter().all(|(key, ..)| number(answer, key) == 0) && list(answer, "items").is_empty()
}

fn counts(answer: &Value) -> String {
    let parts = counted(answer, &KINDS);
    if parts.is_empty() { "nothing".to_owned() } else { parts }
}

fn counted(answer: &Value, kinds: &[Kind]) -> String {
    let counted = |(key, one, many): &Kind| match number(answer, key) {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    };
    kinds.iter().filter_map(counted).collect::<Vec<_>>().join(", ")
}

/// Names what may hold something of it and stays, for nobody can say.
fn unreadable(out: &mut dyn Write, answer: &Value) -> std::io::Result<()> {
    let stays = &answer["unreadable"];
    let parts = counted(stays, &UNREADABLE);
    if !parts.is_empty() {
        writeln!(
            out,
            "{WARNING}Cannot be read, and stays:{WARNING:#} {parts}. Nobody can say whose that is; with --unreadable it goes too."
        )?;
    }
    if number(stays, "waiting_files") > 0 {
        writeln!(
            out,
            "{WARNING}Some events in the spool cannot be stored at this moment.{WARNING:#} Run this again when `recall ctl status` shows none."
        )?;
    }
    Ok(())
}

fn show(out: &mut dyn Write, answer: &Value) -> std::io::Result<()> {
    writeln!(out, "{BOLD}This would be forgotten:{BOLD:#} {}", counts(answer))?;
    let items = list(answer, "items");
    for item in items {
        let (id, kind) = (terminal::id(item), text(item, "kind"));
        writeln!(out, "  {ACCENT}{id}{ACCENT:#} {DIM}{kind}{DIM:#} {}", text(item, "title"))?;
    }
    let listed = ["observations", "summaries", "prompts", "responses", "plans", "activities"];
    let counted: i64 = listed.iter().map(|key| number(answer, key)).sum();
    let more = counted - i64::try_from(items.len()).unwrap_or(counted);
    if more > 0 {
        writeln!(out, "  {DIM}and {more} more{DIM:#}")?;
    }
    unreadable(out, answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_phrases_are_told_apart() {
        let check = |query: &str, expected: &[&str]| assert_eq!(texts(query), expected, "{query}");
        check("cart total", &["cart", "total"]);
        check(r#"cart "sum of lines" x"#, &["cart", "sum of lines", "x"]);
        check(r#""open phrase"#, &["open phrase"]);
        check(r#" "" "#, &[]);
    }
}
