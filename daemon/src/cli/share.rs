//! `recall share` and `recall unshare`: which projects' notes are sent to other machines. A share is a setting, which
//! the daemon applies.

use std::io::Write;
use std::path::Path;

use clap::Args;
use recall_protocol::query::{ConversationPart, Persons, SharePreview, SyncRound, SyncState, TermsPreview};
use serde_json::json;

use super::candidates;
use super::client::{Client, ROUND_WITHIN, Start, this_folder};
use super::consent::{Confirmation, Consent};
use super::failure::Failure;
use super::remote::{change, sharing};
use super::restricted::{Plan, Restricted, readers_of};
use super::sync::print;
use super::terminal::{self, BOLD, DIM, GOOD, WARNING, counted};
use recall_app::answers::sharing::PreviewAnswer;
use recall_app::capture_rules::project_files;
use recall_config::sharing::{RemoteSettings, SharedProject};
use recall_config::sharing_change::{add_share, remove_share};
use recall_repository::project_file::Proposal;
use recall_sync::address::RemoteKind;

/// The maximum number of notes that are listed by name.
const MOST_NAMED: usize = 5;

#[derive(Debug, Args)]
pub struct ShareArgs {
    /// A project's name or folder [default: the current folder's project]
    #[arg(add = candidates::projects())]
    project: Option<String>,
    /// Share through this remote of `recall remote list` [default: the one that the project's `.recall.toml`
    /// proposes]
    #[arg(long, value_name = "REMOTE")]
    with: Option<String>,
    /// Inject other people's notes into your sessions; otherwise you can only search them
    #[arg(long)]
    inject: bool,
    /// All machines are yours: also share preferences, corrections and pins
    #[arg(long)]
    personal: bool,
    /// Also share your prompts
    #[arg(long)]
    prompts: bool,
    /// Also share the agents' final answers
    #[arg(long)]
    answers: bool,
    /// Let only these members and you read it: people or machines from `recall team members`
    ///
    /// Name all of them each time: members that you leave out lose access to everything written afterwards. Only an
    /// owner of the team can restrict a project. Without --only, an earlier restriction stays; without one, the whole
    /// team can read the project.
    #[arg(long, value_name = "MEMBERS", value_delimiter = ',')]
    only: Vec<String>,
    /// Do not ask for confirmation
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would be shared, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// List what is shared
    #[arg(long, conflicts_with_all = ["project", "with", "inject", "personal", "prompts", "answers", "only", "yes", "dry_run"])]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct UnshareArgs {
    /// A project's name, folder or identity [default: the current folder's project]
    #[arg(add = candidates::projects())]
    project: Option<String>,
    /// Stop only for this remote
    #[arg(long, value_name = "REMOTE")]
    with: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// The remote or the project does not exist, or other machines cannot recognise the project.
pub fn run(args: &ShareArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if args.list {
        return list(args, out);
    }
    let project = named(args.project.as_deref());
    let Proposal { remote, injects } = match &args.with {
        Some(remote) => Proposal { remote: remote.clone(), injects: args.inject },
        None => proposed(&project, args)?,
    };
    let known = sharing()?.remote(&remote).cloned();
    let Some(known) = known else {
        let by = if args.with.is_none() { ", which the project's .recall.toml proposes" } else { "" };
        return Err(Failure::usage(format!("There is no remote {remote:?}{by}"))
            .hint(format!("Name a folder or a database first: `recall remote add {remote} FOLDER`."))
            .into());
    };
    let persons = if args.personal { Persons::One } else { Persons::Several };
    let mut client = Client::connect(Start::IfNeeded)?;
    let parts = [(args.prompts, ConversationPart::Prompts), (args.answers, ConversationPart::Answers)];
    let parts = parts.into_iter().filter(|(leaves, _)| *leaves).map(|(_, part)| part).collect();
    let preview = client.ask(TermsPreview { project, persons, said: parts })?.read()?;
    let restricting = match args.only.as_slice() {
        [] => None,
        only => Some(Plan::of(&known, &preview.identity, only)?),
    };
    if args.json && args.dry_run {
        return Ok(writeln!(out, "{}", serde_json::to_string(&preview)?)?);
    }
    if !args.json {
        show(&preview, &known, out)?;
        if let Some(plan) = &restricting {
            plan.show(out)?;
        }
        if args.with.is_none() {
            let injection_clause =
                if injects { ", and to inject other people's notes into sessions" } else { "" };
            writeln!(out, "The project's .recall.toml proposes this remote{injection_clause}.")?;
        }
    }
    let mut input = std::io::stdin().lock();
    let consent = match (args.dry_run, args.yes) {
        (true, _) => Consent::ShowOnly,
        (false, true) => Consent::Given,
        (false, false) => Consent::at_terminal(&mut input),
    };
    if consent.obtain(&format!("Share {} through {remote}?", preview.project), out)? == Confirmation::Leave {
        return Ok(());
    }
    let share = SharedProject {
        project: preview.identity,
        remote: remote.clone(),
        inject: injects,
        personal: args.personal,
        prompts: args.prompts,
        answers: args.answers,
    };
    // Nothing leaves before it is restricted.
    let words = restricting.as_ref().map(Plan::follow).transpose()?.flatten();
    if let (Some(plan), false) = (&restricting, args.json) {
        plan.print(words.as_deref(), out)?;
    }
    change(|text| add_share(text, &share))?;
    let answer = client.ask_within(SyncState { round: SyncRound::Now }, ROUND_WITHIN)?;
    if args.json {
        let Some(plan) = &restricting else {
            out.write_all(&answer.bytes)?;
            return Ok(writeln!(out)?);
        };
        let state: serde_json::Value = serde_json::from_slice(&answer.bytes)?;
        let output = json!({"readers": plan.json(), "words": words, "sync": state});
        return Ok(writeln!(out, "{output}")?);
    }
    writeln!(out, "{GOOD}Shared{GOOD:#} {} through {remote}.", preview.project)?;
    let answer = answer.read()?;
    let of = |shared: &&recall_app::answers::sharing::ShareAnswer| {
        shared.identity == share.project && shared.remote == *remote
    };
    answer.shares.iter().filter(of).try_for_each(|shared| print(shared, out))
}

/// Reads what a project's file proposes. Nothing is applied without the user's command.
fn proposed(project: &str, args: &ShareArgs) -> anyhow::Result<Proposal> {
    let folder = Path::new(project);
    let proposal = folder.is_absolute().then(|| proposal_in(folder)).flatten();
    let Some(proposal) = proposal else {
        let hint = "`recall share --with REMOTE`; `recall remote list` names the remotes.";
        let hint = match folder.is_absolute() {
            true => hint.to_owned(),
            // A name may be meant as a session.
            false => format!(
                "{hint} A session becomes a page with `recall handoff {project} --file session.html`."
            ),
        };
        return Err(Failure::usage("No remote was named, and the project's .recall.toml proposes none")
            .hint(hint)
            .into());
    };
    Ok(Proposal { injects: proposal.injects || args.inject, ..proposal })
}

/// The share that the files of a folder's project propose.
pub(super) fn proposal_in(folder: &Path) -> Option<Proposal> {
    let home = std::env::home_dir().unwrap_or_default();
    let files = project_files(folder, &recall_repository::facts(folder), &home);
    files.into_iter().find_map(|(_, rules)| rules.proposal)
}

/// Names a project as the daemon expects it: a folder becomes absolute, a name stays.
fn named(project: Option<&str>) -> String {
    match project {
        None | Some(".") => this_folder(),
        Some(given) if given.contains('/') => Path::new(given)
            .canonicalize()
            .map_or_else(|_| given.to_owned(), |path| path.to_string_lossy().into_owned()),
        Some(given) => given.to_owned(),
    }
}

fn show(preview: &PreviewAnswer, remote: &RemoteSettings, out: &mut dyn Write) -> std::io::Result<()> {
    let PreviewAnswer {
        project,
        identity,
        observations,
        summaries,
        plans,
        prompts,
        answers,
        sessions,
        personal,
        samples,
        held,
    } = preview;
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let mut what = vec![
        counted(count(*observations), "note", "notes"),
        counted(count(*summaries), "summary", "summaries"),
    ];
    if *plans > 0 {
        what.push(counted(count(*plans), "plan", "plans"));
    }
    if *prompts > 0 {
        what.push(counted(count(*prompts), "prompt", "prompts"));
    }
    if *answers > 0 {
        what.push(counted(count(*answers), "answer", "answers"));
    }
    let last = what.pop().unwrap_or_default();
    let what = format!("{} and {last}", what.join(", "));
    let from = counted(count(*sessions), "session", "sessions");
    writeln!(
        out,
        "{BOLD}{project}{BOLD:#} ({identity}) through {}: {what} of {from}, and new ones as they are made.",
        remote.name
    )?;
    for title in samples {
        writeln!(out, "  {title}")?;
    }
    if *personal > 0 {
        let kept =
            counted(count(*personal), "preference or correction stays", "preferences and corrections stay");
        writeln!(out, "{kept} on this machine.")?;
    }
    if !held.is_empty() {
        let kept =
            counted(held.len(), "item looks like a secret and stays", "items look like secrets and stay");
        writeln!(out, "{WARNING}{kept}:{WARNING:#}")?;
        for note in held.iter().take(MOST_NAMED) {
            let id = note.id.map(terminal::id).unwrap_or_default();
            writeln!(out, "  {id} {}", note.title.as_deref().unwrap_or_default())?;
        }
    }
    let readers = match remote.address().map(|address| address.kind()) {
        _ if !remote.plaintext => {
            return writeln!(
                out,
                "{DIM}Only the members of the team can read it; it is encrypted before it leaves.{DIM:#}"
            );
        }
        Ok(RemoteKind::Postgres) => "Every member of the database and everybody who administers its server",
        _ => "Whoever can read the remote's folder",
    };
    writeln!(out, "{DIM}{readers} can read all of it; it is not encrypted there.{DIM:#}")
}

fn list(args: &ShareArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let sharing = sharing()?;
    let readers = |share: &SharedProject| readers_of(share, sharing.remote(&share.remote));
    if args.json {
        let one = |share: &SharedProject| {
            let mut entry = json!(share);
            if let Some(readers) = readers(share) {
                entry["readers"] =
                    readers.map_or_else(|error| json!(error.to_string()), |known| known.json());
            }
            entry
        };
        return Ok(writeln!(
            out,
            "{}",
            json!({"shares": sharing.shares.iter().map(one).collect::<Vec<_>>()})
        )?);
    }
    if sharing.shares.is_empty() {
        return Ok(writeln!(out, "Nothing is shared. In a project's folder: `recall share --with REMOTE`.")?);
    }
    for share in &sharing.shares {
        let SharedProject { project, remote, inject, personal, prompts, answers } = share;
        let terms: Vec<&str> = [
            (*inject, "injected into sessions"),
            (*personal, "all machines are yours"),
            (*prompts, "with prompts"),
            (*answers, "with answers"),
        ]
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, term)| *term)
        .collect();
        let terms =
            if terms.is_empty() { String::new() } else { format!("  {DIM}{}{DIM:#}", terms.join(", ")) };
        writeln!(out, "{BOLD}{project}{BOLD:#}  {remote}{terms}")?;
        if let Some(readers) = readers(share) {
            let describe = |known: Restricted| known.describe();
            let description =
                readers.map_or_else(|error| format!("cannot find out who reads it: {error}"), describe);
            writeln!(out, "  {description}")?;
        }
    }
    Ok(())
}

/// # Errors
/// The project is not shared.
pub fn stop(args: &UnshareArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut client = Client::connect(Start::IfNeeded)?;
    let shares = client.ask(SyncState { round: SyncRound::No })?.read()?.shares;
    let project = named(args.project.as_deref());
    let identity = match Path::new(&project).is_absolute() {
        true => {
            client.ask(SharePreview { project: project.clone(), persons: Persons::Several })?.read()?.identity
        }
        false => project.clone(),
    };
    let is_meant = |share: &&recall_app::answers::sharing::ShareAnswer| {
        (share.identity == identity || share.project == project)
            && args.with.as_ref().is_none_or(|remote| share.remote == *remote)
    };
    let meant: Vec<_> = shares.iter().filter(is_meant).collect();
    if meant.is_empty() {
        return Err(Failure::failed(format!("{project} is not shared"))
            .hint("`recall share --list` shows what is.")
            .into());
    }
    for share in &meant {
        change(|text| remove_share(text, &share.identity, &share.remote))?;
    }
    let answer = client.ask_within(SyncState { round: SyncRound::Now }, ROUND_WITHIN)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    for share in meant {
        let went = counted(
            usize::try_from(share.received).unwrap_or_default(),
            "item from others was removed",
            "items from others were removed",
        );
        writeln!(
            out,
            "{GOOD}Stopped{GOOD:#} sharing {} through {}: {went}. Yours stay here and on machines that have them.",
            share.project, share.remote
        )?;
    }
    Ok(())
}
