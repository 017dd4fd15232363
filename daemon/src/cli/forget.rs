//! `recall forget`: shows what would be removed, asks, and removes it everywhere.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Forget, ForgetStep, Forgettable, Unreadable};
use recall_protocol::wire::ErrorKind;

use super::candidates;
use super::client::{Client, Start, WORK_WITHIN};
use super::consent::{Confirmation, Consent};
use super::failure::{Failure, refused_as};
use super::filter::{AskedProjects, project, since};
use super::remote::sharing;
use super::terminal::{self, ACCENT, BOLD, DIM, WARNING};
use recall_app::answers::by_hand::{ForgetAnswer, UnreadableAnswer};
use recall_search::query::{self, Query};
use recall_store::ForgottenCounts;

#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// 12 or #12 an observation, p12 a prompt, r12 an answer, s12 a summary, l12 a plan, a12 a call, c12 a
    /// compaction's summary, t12 a shared prompt or answer
    #[arg(conflicts_with_all = ["session", "project", "all", "since", "until", "query", "unreadable"], add = candidates::items())]
    id: Vec<String>,
    /// A whole session, by its ID or its first characters
    #[arg(long, value_name = "ID", conflicts_with_all = ["project", "all", "since", "until", "query"], add = candidates::sessions())]
    session: Option<String>,
    /// All of a project: a name, a folder, or `.` for the current one. With --since, --until or --query: only matches
    /// in that project [default: the current one]
    #[arg(long, add = candidates::projects())]
    project: Option<String>,
    /// With --since, --until or --query: in all projects, not only the current one
    #[arg(long, short, conflicts_with = "project")]
    all: bool,
    /// Only newer than this, e.g. `2d`, `3 weeks`, `yesterday`, `2026-11-01`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only older than this
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only texts with all these words; quote a phrase
    #[arg(long, value_name = "WORDS")]
    query: Vec<String>,
    /// Also unreadable events and spool files of all projects
    #[arg(long)]
    unreadable: bool,
    /// Do not ask for confirmation
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would be forgotten, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Removes what is selected, after the user confirms. Fails if nothing or too much is selected, if nobody can
/// confirm, or if something could not be removed everywhere.
pub fn run(args: &ForgetArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (what, scope) = args.what()?;
    let mut client = Client::connect(Start::IfNeeded)?;
    let unreadable = if args.unreadable { Unreadable::Goes } else { Unreadable::Stays };
    let request = |step| Forget { what: what.clone(), unreadable, step };
    let answer = client
        .ask_within(request(ForgetStep::Preview), WORK_WITHIN)
        .map_err(|error| unknown_here(error, scope))?;
    let preview = answer.read()?;
    if is_nothing(&preview) && !args.json {
        match scope {
            AskedProjects::Here => writeln!(out, "Nothing matches in this project; `--all` searches all.")?,
            AskedProjects::Chosen => writeln!(out, "Nothing matches.")?,
        }
        return Ok(print_unreadable(out, &preview.unreadable)?);
    }
    let mut input = std::io::stdin().lock();
    let consent = match (args.dry_run, args.yes) {
        (true, _) => Consent::ShowOnly,
        (false, true) => Consent::Given,
        (false, false) => Consent::at_terminal(&mut input),
    };
    if args.json && args.dry_run {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    if consent.shows_changes() {
        show(out, &preview)?;
    }
    if consent.obtain("Forget this permanently?", out)? == Confirmation::Leave {
        return Ok(());
    }
    let done = client.ask_within(request(ForgetStep::Forget), WORK_WITHIN)?;
    if args.json {
        out.write_all(&done.bytes)?;
        return Ok(writeln!(out)?);
    }
    let done = done.read()?;
    writeln!(out, "Forgotten: {}.", counts(&done))?;
    if sharing().is_ok_and(|sharing| !sharing.shares.is_empty()) {
        writeln!(
            out,
            "If its project is shared, other machines delete it when they next sync; `recall sync` shows which machines have."
        )?;
    }
    Ok(print_unreadable(out, &done.unreadable)?)
}

impl ForgetArgs {
    /// The items to forget and their scope. Filters apply to the current project unless another one or all are named.
    fn what(&self) -> anyhow::Result<(Forgettable, AskedProjects)> {
        if self.query.iter().any(|words| has_filter(words)) {
            return Err(Failure::usage("--query takes words and \"phrases\", not filters")
                .hint(
                    "Use the options --project, --session, --since and --until instead. To forget texts that contain these very words, quote them: '\"type:bugfix\"'.",
                )
                .into());
        }
        let filters = self.since.is_some() || self.until.is_some() || !self.query.is_empty();
        let (named, scope) = match &self.project {
            Some(named) => (Some(named.as_str()), AskedProjects::Chosen),
            None if filters && !self.all => (Some("."), AskedProjects::Here),
            None => (None, AskedProjects::Chosen),
        };
        let what = Forgettable {
            ids: self.id.clone(),
            session: self.session.clone(),
            project: named.map(project).transpose()?,
            since_ms: self.since.as_deref().map(since).transpose()?,
            until_ms: self.until.as_deref().map(since).transpose()?,
            words: self.query.iter().flat_map(|words| texts(words)).collect(),
        };
        let asks_for_words = !self.query.is_empty() && what.words.is_empty();
        if (what == Forgettable::default() && !self.unreadable) || asks_for_words {
            return Err(Failure::usage("Specify what to forget")
                .hint("Use ids, --session, --project, --since, --until, --query or --unreadable.")
                .into());
        }
        Ok((what, scope))
    }
}

/// Rewords the error if nothing is known about the current folder: other projects are never used instead.
fn unknown_here(error: anyhow::Error, scope: AskedProjects) -> anyhow::Error {
    if scope == AskedProjects::Chosen || refused_as(&error) != Some(ErrorKind::NotFound) {
        return error;
    }
    Failure::refused(ErrorKind::NotFound, "recall knows no project in this folder")
        .hint("Name one with --project, or use --all for all projects.")
        .into()
}

/// Whether a search would interpret part of the text as a filter, or reject it as a mistyped one.
fn has_filter(query: &str) -> bool {
    let Query { filters, without, .. } = query::parse(query);
    !filters.is_empty() || !without.filters.is_empty() || query::mistake(query).is_some()
}

/// Splits the input into words and quoted phrases.
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

/// A count with the singular and the plural of its kind.
type Counted = (u64, &'static str, &'static str);

/// The items that can be listed one by one.
fn listed(counts: &ForgottenCounts) -> [Counted; 6] {
    [
        (counts.observations as u64, "observation", "observations"),
        (counts.summaries as u64, "summary", "summaries"),
        (counts.prompts as u64, "prompt", "prompts"),
        (counts.responses as u64, "answer", "answers"),
        (counts.plans as u64, "plan", "plans"),
        (counts.activities as u64, "call", "calls"),
    ]
}

/// All counts.
fn counted(counts: &ForgottenCounts, spool_files: u64) -> Vec<Counted> {
    let mut all = vec![(counts.sessions as u64, "session", "sessions")];
    all.extend(listed(counts));
    all.extend([
        (counts.unparsed as u64, "unreadable event", "unreadable events"),
        (spool_files, "unreadable spool file", "unreadable spool files"),
        (counts.asides as u64, "other text", "other texts"),
    ]);
    all
}

fn is_nothing(answer: &ForgetAnswer) -> bool {
    counted(&answer.counts, answer.spool_files).iter().all(|(count, ..)| *count == 0)
        && answer.items.iter().flatten().next().is_none()
}

/// The counts of forgotten items, in words.
pub fn counts(answer: &ForgetAnswer) -> String {
    let parts = items_in_words(&answer.counts, answer.spool_files);
    if parts.is_empty() { "nothing".to_owned() } else { parts }
}

/// Empty if there are none.
pub(super) fn items_in_words(counts: &ForgottenCounts, spool_files: u64) -> String {
    in_words(&counted(counts, spool_files))
}

fn in_words(counted: &[Counted]) -> String {
    let words = |(count, one, many): &Counted| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    };
    counted.iter().filter_map(words).collect::<Vec<_>>().join(", ")
}

/// Lists files that may still contain forgotten data, because they cannot be checked.
fn print_unreadable(out: &mut dyn Write, stays: &UnreadableAnswer) -> std::io::Result<()> {
    let parts = in_words(&[
        (stays.events as u64, "event", "events"),
        (stays.damaged_files, "damaged spool file", "damaged spool files"),
        (stays.other_version_files, "spool file of another version", "spool files of another version"),
    ]);
    if !parts.is_empty() {
        writeln!(
            out,
            "{WARNING}Unreadable, and kept:{WARNING:#} {parts}. Use --unreadable to remove these too."
        )?;
    }
    if stays.waiting_files > 0 {
        writeln!(
            out,
            "{WARNING}Some events in the spool could not be stored yet.{WARNING:#} Run this again once `recall ctl status` shows none."
        )?;
    }
    Ok(())
}

/// Shows the items that would be forgotten.
pub fn show(out: &mut dyn Write, answer: &ForgetAnswer) -> std::io::Result<()> {
    writeln!(out, "{BOLD}To be forgotten:{BOLD:#} {}", counts(answer))?;
    let items = answer.items.as_deref().unwrap_or_default();
    for item in items {
        let id = terminal::id(item.id);
        let (kind, title) = (terminal::kind(&item.kind), terminal::whole_words(&item.title));
        writeln!(out, "  {ACCENT}{id}{ACCENT:#} {DIM}{kind}, {}:{DIM:#} {title}", item.project)?;
    }
    let all: u64 = listed(&answer.counts).iter().map(|(count, ..)| count).sum();
    let more = all.saturating_sub(items.len() as u64);
    if more > 0 {
        writeln!(out, "  {DIM}and {more} more{DIM:#}")?;
    }
    print_unreadable(out, &answer.unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_split_into_words_and_phrases() {
        let check = |query: &str, expected: &[&str]| assert_eq!(texts(query), expected, "{query}");
        check("cart total", &["cart", "total"]);
        check(r#"cart "sum of lines" x"#, &["cart", "sum of lines", "x"]);
        check(r#""open phrase"#, &["open phrase"]);
        check(r#" "" "#, &[]);
    }
}
