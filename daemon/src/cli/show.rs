//! `recall show`: shows items and sessions in full.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Session, Show};
use recall_protocol::wire::ErrorKind;

use super::candidates;
use super::client::{Answer, Client, Start, this_folder};
use super::ctl::session;
use super::failure::{Failure, refused_as};
use super::summary::fields;
use super::terminal::{self, ACCENT, BOLD, DIM};
use recall_app::answers::Moment;
use recall_app::answers::found::{ObservationAnswer, ShownItem, SummaryAnswer};
use recall_app::answers::lineage::LineageAnswer;
use recall_app::answers::observation::{EvidenceAnswer, SpeakerAnswer};
use recall_domain::document::DocumentKey;
use recall_domain::observation::NoteOrigin;

/// The number of digits of a commit id to show.
const COMMIT_DIGITS: usize = 10;

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// 123 or #123 for an observation; p12 a prompt, r12 an answer, s12 a summary, l12 a plan, a12 a call, c12 a
    /// compaction's summary, t12 a shared prompt or answer; or a session ID, or its first characters
    #[arg(required = true, add = candidates::items_and_sessions())]
    id: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The item behind an ID.
enum Asked {
    Item(Answer<Show>),
    Session(Answer<Session>),
}

/// Prints several items as JSON, one per line.
pub fn run(args: &ShowArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut client = Client::connect(Start::IfNeeded)?;
    // All are looked up before any is shown, so that an error is not hidden above the others.
    let found: Vec<Asked> = args.id.iter().map(|id| find(&mut client, id)).collect::<Result<_, _>>()?;
    for (place, found) in found.iter().enumerate() {
        if place > 0 && !args.json {
            writeln!(out)?;
        }
        match found {
            Asked::Item(answer) if args.json => out.write_all(&answer.bytes)?,
            Asked::Session(answer) if args.json => out.write_all(&answer.bytes)?,
            Asked::Item(answer) => print(out, answer.read()?.items)?,
            Asked::Session(answer) => session::print(out, &answer.read()?)?,
        }
        if args.json {
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Finds an item by its ID, or else a session as `recall sessions` lists it.
fn find(client: &mut Client, id: &str) -> anyhow::Result<Asked> {
    let item = client.ask(Show { id: id.to_owned(), folder: Some(this_folder()) });
    let refused = match item {
        Ok(item) => return Ok(Asked::Item(item)),
        Err(error) => error,
    };
    // The short ID of a session may look like the ID of an item.
    let looks_like_an_item = DocumentKey::parse(id).is_some();
    let may_be_a_session = match refused_as(&refused) {
        Some(ErrorKind::Invalid) => true,
        Some(ErrorKind::NotFound) => looks_like_an_item && id.len() >= terminal::SHORT_ID,
        _ => false,
    };
    if !may_be_a_session {
        return Err(refused);
    }
    match client.ask(Session { id: id.to_owned() }) {
        Ok(session) => Ok(Asked::Session(session)),
        Err(error) if refused_as(&error) == Some(ErrorKind::NotFound) && looks_like_an_item => Err(refused),
        Err(error) if refused_as(&error) == Some(ErrorKind::NotFound) => {
            let what = format!("{id:?} is not an ID, and no session's ID begins with it");
            let hint = "An observation's ID is a number (123 or #123); other IDs are a letter and a number (p12, r12, \
                        s12, l12, a12, c12, t12). `recall sessions --all` lists the sessions.";
            Err(Failure::usage(what).hint(hint).into())
        }
        Err(error) => Err(error),
    }
}

/// The items in full, for people.
pub fn print(out: &mut dyn Write, items: Vec<ShownItem>) -> std::io::Result<()> {
    for item in items {
        match item {
            ShownItem::Observation(item) => observation(out, &item)?,
            ShownItem::Summary(item) => summary(out, &item)?,
            ShownItem::Plan(item) => {
                let by = by(&item.author, &item.device);
                let (id, origin) = (terminal::id(item.id), origin(item.created_at, &[&item.kind, &by], None));
                writeln!(out, "{ACCENT}{id}{ACCENT:#} {DIM}{origin}{DIM:#}")?;
                let made_on = item.made_on;
                checkout(out, &made_on.branch, &made_on.commit, &made_on.elsewhere)?;
                writeln!(out, "\n{}", item.text)?;
            }
            ShownItem::Document(item) => {
                let by = by(&item.author, &item.device);
                let parts = [terminal::kind(&item.kind), &item.project, &by];
                let (id, origin) =
                    (terminal::id(item.id), origin(item.created_at, &parts, item.session_id.as_deref()));
                // For the other kinds the text is enough.
                match item.kind.as_ref() {
                    "activity" => {
                        writeln!(out, "{ACCENT}{id}{ACCENT:#} {BOLD}{}{BOLD:#}", item.title)?;
                        writeln!(out, "{DIM}{origin}{DIM:#}")?;
                    }
                    _ => writeln!(out, "{ACCENT}{id}{ACCENT:#} {DIM}{origin}{DIM:#}")?,
                }
                let made_on = item.made_on;
                checkout(out, &made_on.branch, &made_on.commit, &made_on.elsewhere)?;
                writeln!(out, "\n{}", item.text)?;
            }
        }
    }
    Ok(())
}

fn origin(at: Moment, words: &[&str], session: Option<&str>) -> String {
    let mut parts = vec![terminal::time_and_age(at)];
    parts.extend(words.iter().filter(|word| !word.is_empty()).map(|word| (*word).to_owned()));
    parts.extend(session.map(|id| format!("session {}", terminal::session(id))));
    parts.join(" · ")
}

fn observation(out: &mut dyn Write, item: &ObservationAnswer) -> std::io::Result<()> {
    writeln!(out, "{ACCENT}#{}{ACCENT:#} {BOLD}{}{BOLD:#}", item.id, item.title)?;
    let made_by = Some(by(&item.author, &item.device)).filter(|by| !by.is_empty());
    let made_by = made_by.unwrap_or_else(|| made_by_maker(&item.origin));
    let origin =
        origin(item.created_at, &[item.observation_type.as_ref(), &made_by], item.session_id.as_deref());
    // `active` is the normal case and is not printed.
    let status = match item.status.as_ref() {
        "active" => String::new(),
        _ if item.rejected => " · rejected".to_owned(),
        status => format!(" · {status}"),
    };
    let is_kept = item.reviewed && !item.rejected && item.origin != NoteOrigin::USER;
    let pinned = match (item.pinned, is_kept) {
        (true, _) => " · pinned",
        (false, true) => " · reviewed",
        (false, false) => "",
    };
    writeln!(out, "{DIM}{origin} · importance {}{status}{pinned}{DIM:#}", item.importance)?;
    checkout(out, &item.branch, &item.commit, &item.elsewhere)?;
    if let Some(at) = item.edited_at {
        let ago = terminal::ago(at);
        writeln!(out, "Edited by you {ago}{DIM}; no later compression changes it{DIM:#}")?;
    }
    if let Some(change) = &item.changed_elsewhere {
        let made_by = by(&change.author, &change.device);
        let (what, ago) = (&change.change, terminal::ago(change.at));
        writeln!(
            out,
            "Last changed {made_by} {ago} ({what}){DIM}; `recall undo {}` reverts it{DIM:#}",
            item.id
        )?;
    }
    if let Some(statement) = &item.said_by {
        print_statement_author(out, statement)?;
    }
    item.lineage.iter().try_for_each(|entry| lineage(out, entry))?;
    for part in [item.subtitle.as_deref().unwrap_or_default(), &item.narrative] {
        if !part.is_empty() {
            writeln!(out, "\n{part}")?;
        }
    }
    if !item.facts.is_empty() {
        writeln!(out)?;
        item.facts.iter().try_for_each(|fact| writeln!(out, "- {fact}"))?;
    }
    let lists = [("Concepts", &item.concepts), ("Changed", &item.files_modified), ("Read", &item.files_read)];
    for (label, values) in lists {
        if !values.is_empty() {
            writeln!(out, "{DIM}{label}:{DIM:#} {}", values.join(", "))?;
        }
    }
    if !item.rests_on.is_empty() {
        writeln!(out, "{DIM}Evidence:{DIM:#}")?;
    }
    for EvidenceAnswer { id, title, .. } in &item.rests_on {
        writeln!(out, "  {ACCENT}{}{ACCENT:#} {}", terminal::id(*id), terminal::whole_words(title))?;
    }
    Ok(())
}

/// Prints who made a statement that holds until it is withdrawn.
fn print_statement_author(out: &mut dyn Write, statement: &SpeakerAnswer) -> std::io::Result<()> {
    let at = terminal::time_and_age(statement.at);
    match (statement.who.as_ref(), statement.prompt) {
        ("you", Some(prompt)) => writeln!(out, "You said so in {}{DIM}, {at}{DIM:#}", terminal::id(prompt)),
        ("you", None) => writeln!(out, "You said so{DIM}, {at}{DIM:#}"),
        (NoteOrigin::AGENT, _) => writeln!(out, "An agent noted it{DIM}, {at}{DIM:#}"),
        ("member", _) => writeln!(out, "Another person who shares the project said so{DIM}, {at}{DIM:#}"),
        _ => writeln!(out, "It came with an import, so its author is unknown{DIM}, {at}{DIM:#}"),
    }
}

/// Describes the author, if it came from another machine.
pub(super) fn by(author: &Option<String>, device: &Option<String>) -> String {
    match (author, device) {
        (Some(author), Some(device)) => format!("by {author}, {device}"),
        _ => String::new(),
    }
}

/// The maker of an observation.
fn made_by_maker(origin: &str) -> String {
    match origin {
        NoteOrigin::USER => "by you".to_owned(),
        NoteOrigin::AGENT => "noted by an agent".to_owned(),
        NoteOrigin::BUILT_IN => "made without a model".to_owned(),
        origin => match origin.strip_prefix(NoteOrigin::IMPORTED) {
            Some(NoteOrigin::USER) => "imported, by a person".to_owned(),
            Some(NoteOrigin::BUILT_IN) => "imported, made without a model".to_owned(),
            Some(maker) => format!("imported, made by {maker}"),
            None => format!("made by {origin}"),
        },
    }
}

/// Describes the branch and commit where it was made, if known.
fn checkout(
    out: &mut dyn Write,
    branch: &Option<String>,
    commit: &Option<String>,
    elsewhere: &Option<String>,
) -> std::io::Result<()> {
    let commit = commit.as_deref().map(|commit| commit.get(..COMMIT_DIGITS).unwrap_or(commit));
    let made_on = match (branch, commit) {
        (None, None) => return Ok(()),
        (Some(branch), None) => format!("made on branch {branch}"),
        (None, Some(commit)) => format!("made at commit {commit}"),
        (Some(branch), Some(commit)) => format!("made on branch {branch} at commit {commit}"),
    };
    writeln!(out, "{DIM}{made_on}{DIM:#}{}", terminal::elsewhere(elsewhere.as_deref()))
}

/// Prints a line about what superseded or settled it, or what it superseded.
fn lineage(out: &mut dyn Write, entry: &LineageAnswer) -> std::io::Result<()> {
    if entry.reason == LineageAnswer::REJECTED {
        return writeln!(out, "Rejected in a review");
    }
    let relation = match entry.relation.as_ref() {
        "superseded_by" => "Superseded by",
        "supersedes" => "Supersedes",
        _ => "Resolved",
    };
    let work = entry
        .session_id
        .as_ref()
        .map(|id| (terminal::session(id), entry.prompt_number.unwrap_or_default()))
        .map(|(session, prompt)| format!(" (session {session}, prompt {prompt})"));
    let title = entry.title.clone().filter(|title| !title.is_empty());
    let reference: Vec<String> = entry.id.map(|id| format!("#{id}")).into_iter().chain(title).collect();
    let why = match (reference.is_empty(), entry.reason.as_ref()) {
        (true, LineageAnswer::MANUALLY) => " by you".to_owned(),
        (true, reason) => format!(": {reason}"),
        (false, _) => format!(" {}", reference.join(" ")),
    };
    writeln!(out, "{relation}{why}{DIM}{}{DIM:#}", work.unwrap_or_default())
}

fn summary(out: &mut dyn Write, item: &SummaryAnswer) -> std::io::Result<()> {
    writeln!(out, "{ACCENT}{}{ACCENT:#} {BOLD}{}{BOLD:#}", terminal::id(item.id), item.title)?;
    let by = by(&item.author, &item.device);
    writeln!(out, "{DIM}{}{DIM:#}", origin(item.created_at, &[&by], item.session_id.as_deref()))?;
    checkout(out, &item.branch, &item.commit, &item.elsewhere)?;
    fields(out, item)
}
