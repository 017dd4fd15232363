//! `recall review`: looks through what machines noted, newest first.

use std::io::{IsTerminal, Write};

use clap::Args;
use recall_protocol::query::{Review, ReviewVerdict, Unreviewed};

use super::candidates;
use super::client::{Client, Start};
use super::filter::{AskedProjects, ScopeArgs};
use super::terminal::{self, ACCENT, DIM, counted, table};
use super::ui;
use recall_app::answers::browsing::JudgedItem;

mod quarantine;

#[derive(Debug, Args)]
#[command(
    after_help = "recall quarantines shared items that read like instructions to a model, until you decide. Their IDs begin \
                        with q. Their text is shown only on a terminal and with --json.\n\n\
                        An observation that you write, edit, pin, resolve or reopen counts as reviewed. `recall undo` reverts a \
                        verdict; `--keep` also reverts a rejection."
)]
pub struct ReviewArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Print the unreviewed observations instead of opening `recall ui`; --since and --limit also print them
    #[arg(long)]
    list: bool,
    /// Keep these: 12 or #12, or q3 for a quarantined item
    #[arg(long, value_name = "ID", num_args = 1.., conflicts_with = "list", add = candidates::observations())]
    keep: Vec<String>,
    /// Reject these: recall no longer injects them, and never accepts a quarantined item (q3)
    #[arg(long, value_name = "ID", num_args = 1.., conflicts_with = "list", add = candidates::observations())]
    reject: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ReviewArgs {
    /// Whether the command lists what waits, and neither opens the terminal interface nor changes anything.
    pub fn lists(&self) -> bool {
        !self.judges() && !self.opens()
    }

    /// Whether the command opens the terminal interface.
    fn opens(&self) -> bool {
        let is_asked = !self.judges() && !self.list && !self.json && !self.scope.is_a_part();
        is_asked && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
    }

    fn judges(&self) -> bool {
        !self.keep.is_empty() || !self.reject.is_empty()
    }
}

/// # Errors
/// Fails when an ID is not an observation's, or the daemon does not answer.
pub fn run(args: &ReviewArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if args.judges() {
        return judge(args, out);
    }
    if args.opens() {
        let project = args.scope.chosen()?;
        quarantine::ask_about_each(project.clone(), out)?;
        out.flush()?;
        return ui::review(project);
    }
    list(args, out)
}

fn judge(args: &ReviewArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut client = Client::connect(Start::IfNeeded)?;
    let (mut items, mut apart) = (Vec::new(), Vec::new());
    for (ids, verdict) in [(&args.keep, ReviewVerdict::Kept), (&args.reject, ReviewVerdict::Rejected)] {
        if !ids.is_empty() {
            let answer = client.ask(Review { ids: ids.clone(), verdict })?.read()?;
            items.extend(answer.items);
            apart.extend(answer.quarantined.into_iter().map(|item| (item, verdict)));
        }
    }
    if args.json {
        let apart: Vec<JudgedItem> = apart.into_iter().map(|(item, _)| item).collect();
        return Ok(writeln!(out, "{}", serde_json::json!({"items": items, "quarantined": apart}))?);
    }
    for item in items {
        let state = if item.rejected { "rejected" } else { "kept" };
        writeln!(out, "{ACCENT}#{}{ACCENT:#} is {state}: {}", item.id, item.title)?;
    }
    apart.iter().try_for_each(|(item, verdict)| quarantine::print_outcome(item, *verdict, out))
}

fn list(args: &ReviewArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut client = Client::connect(Start::IfNeeded)?;
    let (answer, scope) =
        args.scope.ask(&mut client, |filter| Unreviewed { filter, until_ms: None, skip: 0 })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let found = answer.read()?;
    quarantine::list(&found, out)?;
    if found.entries.is_empty() {
        if !found.quarantined.is_empty() {
            return Ok(());
        }
        return Ok(writeln!(out, "Nothing waits for a review{}.", here(scope))?);
    }
    let shown = found.entries.len();
    let rows = found.entries.into_iter().map(|entry| {
        let project = (scope == AskedProjects::Chosen).then_some(entry.project);
        let kind = terminal::kind(&entry.observation_type.unwrap_or(entry.kind)).to_owned();
        let row = [terminal::id(entry.id)].into_iter().chain(project);
        row.chain([kind, terminal::ago(entry.created_at), entry.title]).collect()
    });
    let mut head = vec!["ID", "PROJECT", "TYPE", "MADE", "TITLE"];
    head.retain(|column| scope == AskedProjects::Chosen || *column != "PROJECT");
    table(out, &head, &rows.collect::<Vec<Vec<String>>>())?;
    let waiting =
        counted(i64::try_from(found.waiting).unwrap_or(i64::MAX), "observation waits", "observations wait");
    let shown =
        if shown as u64 == found.waiting { String::new() } else { format!("; the newest {shown} are shown") };
    Ok(writeln!(
        out,
        "{DIM}{waiting} for a review{}{shown}. `recall show ID` shows one; `recall review --keep ID` or `--reject ID` decides.{DIM:#}",
        here(scope)
    )?)
}

fn here(scope: AskedProjects) -> &'static str {
    match scope {
        AskedProjects::Here => " in this project",
        AskedProjects::Chosen => "",
    }
}
