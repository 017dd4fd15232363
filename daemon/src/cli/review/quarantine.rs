//! Items from other machines that read like instructions to a model: lists them, and lets a person judge each.
//!
//! Its text is shown to a person only. An agent that runs the command has no terminal, and sees numbers.

use std::io::{BufRead, IsTerminal, Write};

use recall_protocol::query::{Filter, Review, ReviewVerdict, Unreviewed};

use crate::cli::client::{Client, Start};
use crate::cli::terminal::{self, ACCENT, BOLD, DIM, WARNING, counted};
use recall_app::answers::browsing::{JudgedItem, QuarantinedItem, UnreviewedAnswer};
use recall_domain::text::shortened_line;

/// Lines of a text that are shown, and letters of each.
const MOST_LINES: usize = 12;
const MOST_LETTERS: usize = 200;

/// Prints what is kept apart, if anything.
pub(super) fn list(found: &UnreviewedAnswer, out: &mut dyn Write) -> std::io::Result<()> {
    let UnreviewedAnswer { quarantined, quarantined_in_all, .. } = found;
    if quarantined.is_empty() {
        return Ok(());
    }
    let count = usize::try_from(*quarantined_in_all).unwrap_or(usize::MAX);
    let items = counted(count, "shared item reads", "shared items read");
    writeln!(out, "{WARNING}{items} like instructions to a model{WARNING:#}. Quarantined until you decide:")?;
    for item in quarantined {
        show(item, out)?;
    }
    let shown = quarantined.len();
    let rest = if shown < count { format!(" The newest {shown} are shown.") } else { String::new() };
    writeln!(out, "{DIM}`recall review --keep ID` accepts one, `--reject ID` rejects it.{rest}{DIM:#}\n")
}

fn show(item: &QuarantinedItem, out: &mut dyn Write) -> std::io::Result<()> {
    let QuarantinedItem { id, kind, author, device, text, why, project, noticed_at, .. } = item;
    let at = terminal::ago(*noticed_at);
    writeln!(
        out,
        "{ACCENT}{id}{ACCENT:#}  {kind} of {project}, by {}, {}, {at}: {BOLD}{why}{BOLD:#}",
        shortened_line(author, MOST_LETTERS),
        shortened_line(device, MOST_LETTERS)
    )?;
    if !std::io::stdout().is_terminal() {
        return Ok(());
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    for line in lines.iter().take(MOST_LINES) {
        writeln!(out, "    {}", shortened_line(line, MOST_LETTERS))?;
    }
    match lines.len().saturating_sub(MOST_LINES) {
        0 => Ok(()),
        more => writeln!(
            out,
            "    {DIM}and {}; `--json` prints all{DIM:#}",
            counted(more, "line more", "lines more")
        ),
    }
}

/// Prints what the decision about an item did.
pub(super) fn print_outcome(
    item: &JudgedItem,
    verdict: ReviewVerdict,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let JudgedItem { id, title, found_as } = item;
    let title = shortened_line(title, MOST_LETTERS);
    Ok(match (verdict, found_as) {
        (ReviewVerdict::Kept, Some(found)) => {
            writeln!(out, "{ACCENT}{id}{ACCENT:#} is kept, as {}: {title}", terminal::id(*found))
        }
        (ReviewVerdict::Kept, None) => {
            writeln!(out, "{ACCENT}{id}{ACCENT:#} is kept, and was forgotten here before")
        }
        (ReviewVerdict::Rejected, Some(own)) => {
            writeln!(out, "{ACCENT}{id}{ACCENT:#} is rejected; {} stays as it is here", terminal::id(*own))
        }
        (ReviewVerdict::Rejected, None) => {
            writeln!(out, "{ACCENT}{id}{ACCENT:#} is rejected and will not be stored")
        }
    }?)
}

/// Shows each item to the user, and applies the user's decision.
pub(super) fn ask_about_each(project: Option<String>, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut client = Client::connect(Start::IfNeeded)?;
    let filter = Filter { project, ..Filter::default() };
    // A project that is not known yet has nothing, and the interface says so.
    let Ok(found) = client.ask(Unreviewed { filter, until_ms: None, skip: 0 }) else { return Ok(()) };
    let mut input = std::io::stdin().lock();
    for item in found.read()?.quarantined {
        writeln!(
            out,
            "{WARNING}This reads like instructions to a model. No search or session receives it yet.{WARNING:#}"
        )?;
        show(&item, out)?;
        write!(out, "k keeps it, r rejects it, Enter leaves it for later: ")?;
        out.flush()?;
        let mut word = String::new();
        input.read_line(&mut word)?;
        let verdict = match word.trim() {
            "k" => ReviewVerdict::Kept,
            "r" => ReviewVerdict::Rejected,
            _ => continue,
        };
        let judged = client.ask(Review { ids: vec![item.id], verdict })?.read()?.quarantined;
        judged.iter().try_for_each(|item| print_outcome(item, verdict, out))?;
    }
    Ok(())
}
