//! `recall import`: imports the sessions that agents recorded before recall was installed.
//!
//! Each record becomes the hook event that would have reported it and is handled like any other, so the rules for
//! excluded projects, private text, secrets and forgotten sessions apply. If hooks captured a session, it is imported
//! up to their first event. Stored events are recognised, so an import may be interrupted and repeated.

mod claude_mem;
mod completion;
mod family;
pub(super) mod files;
mod lines;
mod memories;
mod offer;
mod sender;

pub(crate) use offer::offer;

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use clap::Args;
use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use recall_protocol::query::RowSource;
use serde::Serialize;

use super::candidates;
use super::client::{Client, Start};
use super::consent::Confirmation;
use super::failure::Failure;
use super::filter;
use super::terminal::{DIM, WARNING, counted};
use family::{FamilyContent, families};
use files::SessionFile;
use lines::{Claims, Lines};
use recall_agents::AGENTS;
use recall_app::answers::portable::RestoreAnswer;
use sender::{Connect, Sender, Taken};

/// Sources other than agents.
const CLAUDE_MEM: &str = "claude-mem";
const EXPORT: &str = "recall";
/// The source for agents' own memories.
const MEMORIES: &str = "memories";
/// The number of files read and sent concurrently. The daemon also serves hooks in the meantime.
const MOST_AT_ONCE: usize = 4;
/// How many unreadable files are named.
const MOST_NAMED: usize = 10;

/// Import the sessions that agents recorded before recall was installed
///
/// Their dates are kept. Notes are made from them without any model. Repeating it adds only what is new.
#[derive(Debug, Default, Args)]
pub struct ImportArgs {
    /// An agent, `claude-mem` (its database), `recall` (an export), or `memories` (the agents' own memories)
    /// [default: every source found]
    #[arg(value_parser = sources())]
    source: Option<String>,
    /// A file or folder of that source [default: the source's usual folder]
    path: Option<PathBuf>,
    /// With `memories`: only those of this agent
    #[arg(long, value_name = "AGENT", value_parser = memories::agents())]
    agent: Option<String>,
    /// Only sessions that were active since then, e.g. `30d`, `3 months`, `2026-11-01`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only sessions of this project: a name, a folder, or `.` for the current one
    #[arg(long, add = candidates::projects())]
    project: Option<String>,
    /// The export is your own: also import pins, authors, and the projects' other identities
    #[arg(long)]
    own: bool,
    /// Count what was found, and store nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn sources() -> PossibleValuesParser {
    let agents = AGENTS.iter().filter(|agent| agent.history.is_some()).map(|agent| agent.name);
    PossibleValuesParser::new(agents.chain([CLAUDE_MEM, EXPORT, MEMORIES]))
}

/// The findings, and what happened to them.
#[derive(Debug, Default, Serialize)]
struct Counts {
    /// Sessions that were stored or, with `--dry-run`, could be.
    sessions: usize,
    prompts: usize,
    /// The events of these sessions: prompts, calls, answers.
    events: usize,
    /// The folders of these sessions.
    projects: BTreeSet<String>,
    /// Sessions that hooks captured and that lacked an answer.
    completed: usize,
    /// Sessions that were already stored.
    known: usize,
    /// Sessions of excluded projects, forgotten sessions, and sessions during a pause.
    left_out: usize,
    /// Files without a prompt.
    empty: usize,
    /// Sessions that `--since` or `--project` excludes.
    other: usize,
    /// Unreadable lines.
    unreadable_lines: usize,
    /// The sessions that contain these lines.
    damaged: BTreeSet<String>,
    unreadable_files: Vec<UnreadableFile>,
    /// Rows from claude-mem or an export.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<RestoreAnswer>,
}

#[derive(Debug, Serialize)]
struct UnreadableFile {
    path: String,
    error: String,
}

/// Which sessions are wanted.
pub(super) struct Wanted {
    since_ms: Option<i64>,
    project: Option<String>,
}

pub fn run(args: &ImportArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if args.source.as_deref() == Some(MEMORIES) {
        return memories::run(args, out);
    }
    if args.agent.is_some() {
        return Err(Failure::usage("--agent applies only to agents' memories")
            .hint("Name the agent as the source: recall import AGENT. Or: recall import memories --agent AGENT.")
            .into());
    }
    let counts = take_in(args, out)?;
    if counts.has_only_unreadable_files() {
        return Err(Failure::failed("Nothing was imported, because no file could be read")
            .hint("Name a file that the agent wrote and that belongs to you. The lines above say what is wrong with each file.")
            .into());
    }
    Ok(())
}

/// Imports, and counts the results.
fn take_in(args: &ImportArgs, out: &mut dyn Write) -> anyhow::Result<Counts> {
    let wanted = Wanted {
        since_ms: args.since.as_deref().map(filter::since).transpose()?,
        project: args.project.as_deref().map(filter::project).transpose()?,
    };
    let source = args.source.as_deref();
    let files = match source {
        Some(CLAUDE_MEM | EXPORT) => Vec::new(),
        source => files::find(source, args.path.as_deref())?,
    };
    if !args.dry_run {
        // Starts a single daemon instead of one per thread.
        Client::connect(Start::IfNeeded)?;
    }
    let connect = || (!args.dry_run).then(|| Client::connect(Start::Never)).transpose();
    let mut counts = each_file(files, &connect, &wanted)?;
    counts.rows = rows(args, Lines::new(&connect)?, &wanted, out)?;
    if args.json {
        serde_json::to_writer(&mut *out, &counts)?;
        writeln!(out)?;
    } else {
        print(out, &counts, args)?;
    }
    Ok(counts)
}

/// Imports sources that are not agents' sessions, if they are named or found.
fn rows(
    args: &ImportArgs,
    mut lines: Lines<'_>,
    wanted: &Wanted,
    out: &mut dyn Write,
) -> anyhow::Result<Option<RestoreAnswer>> {
    let (source, path) = (args.source.as_deref(), args.path.as_deref());
    let missing = |hint: &str| Failure::usage("Name the file to import").hint(hint.to_owned());
    match source {
        Some(EXPORT) => {
            let path = path.ok_or_else(|| missing("recall import recall FILE"))?;
            if is_own(args, path, out)? {
                lines = lines.from(RowSource::OwnExport);
            }
            lines::read(path, &mut lines)?;
        }
        Some(CLAUDE_MEM) | None => {
            let found = path.filter(|_| source.is_some()).map(Path::to_owned).or_else(claude_mem::database);
            let Some(path) = found else {
                return match source {
                    None => Ok(None),
                    Some(_) => Err(Failure::failed("No database of claude-mem was found")
                        .hint("Name it: recall import claude-mem FILE.")
                        .into()),
                };
            };
            lines = lines.from(RowSource::OtherMemory);
            claude_mem::read(&path, &mut lines, wanted)
                .with_context(|| format!("Cannot import {}", path.display()))?;
        }
        Some(_) => return Ok(None),
    }
    Ok(Some(lines.answer))
}

/// Whether to accept all claims of an export. Asks the user if possible, and only if there are claims that a stranger
/// must not make.
fn is_own(args: &ImportArgs, path: &Path, out: &mut dyn Write) -> anyhow::Result<bool> {
    if args.own || args.dry_run || args.json || !std::io::stdin().is_terminal() {
        return Ok(args.own);
    }
    let Claims { pins, authored, aliases } = lines::claims(path)?;
    let claims: Vec<String> = [
        (pins, "pinned note", "pinned notes"),
        (authored, "note by you", "notes by you"),
        (aliases, "other identity of a project", "other identities of projects"),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, one, many)| counted(count, one, many))
    .collect();
    if claims.is_empty() {
        return Ok(false);
    }
    writeln!(out, "The file contains {}. Anybody could have written that into it.", claims.join(", "))?;
    let question = "Is it an unchanged export of your own memory? Then recall imports these, too.";
    Ok(Confirmation::read(&mut std::io::stdin().lock(), question, out)? == Confirmation::Go)
}

/// Reads all files, and sends their sessions if there is a client.
fn each_file(files: Vec<SessionFile>, connect: &Connect<'_>, wanted: &Wanted) -> anyhow::Result<Counts> {
    let bar = ProgressBar::new(files.len() as u64);
    bar.set_style(ProgressStyle::with_template(
        "{bar:32.cyan/dim} {pos}/{len} sessions, {per_sec}, {eta} left",
    )?);
    let families = families(files);
    let (next, counts) = (AtomicUsize::new(0), Mutex::new(Counts::default()));
    let work = || -> anyhow::Result<()> {
        let mut sender = Sender::new(connect)?;
        while let Some(family) = families.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut family_content = FamilyContent::default();
            for file in family {
                let (taken, damaged) = take_file(&mut sender, file, &mut family_content, wanted)?;
                let mut counts = counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                counts.add(file, taken);
                counts.damaged.extend(damaged);
                bar.inc(1);
            }
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_AT_ONCE));
    let outcome = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::failed("Reading a session failed unexpectedly").into()),
        })
    });
    bar.finish_and_clear();
    outcome?;
    Ok(counts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Imports one file. Also returns the session in which a part was unreadable.
fn take_file(
    sender: &mut Sender<'_>,
    file: &SessionFile,
    family_content: &mut FamilyContent,
    wanted: &Wanted,
) -> anyhow::Result<(Taken, Option<String>)> {
    let Some(history) = file.spec.history else { return Ok((Taken::Empty, None)) };
    if let Some(error) = sender.failed_at(file) {
        return Ok((Taken::Unreadable(error), None));
    }
    match (history.read)(&file.path, file.inside.as_deref()) {
        Ok(mut session) => {
            let damaged = (session.unreadable > 0).then(|| session.id.clone());
            family_content.without_repeated(&mut session, file.spec);
            Ok((sender.take(file, session, wanted)?, damaged))
        }
        Err(error) => Ok((Taken::Unreadable(error.to_string()), None)),
    }
}

impl Counts {
    fn add(&mut self, file: &SessionFile, taken: Taken) {
        match taken {
            Taken::Stored { prompts, events, cwd, unreadable } => {
                self.sessions += 1;
                self.prompts += prompts;
                self.events += events;
                self.projects.insert(cwd);
                self.unreadable_lines += unreadable;
            }
            Taken::Completed { events, unreadable } => {
                self.completed += 1;
                self.events += events;
                self.unreadable_lines += unreadable;
            }
            Taken::Known => self.known += 1,
            Taken::LeftOut => self.left_out += 1,
            Taken::Empty => self.empty += 1,
            Taken::Other => self.other += 1,
            Taken::Unreadable(error) => {
                let path = match &file.inside {
                    Some(session) => format!("{} (session {session})", file.path.display()),
                    None => file.path.display().to_string(),
                };
                self.unreadable_files.push(UnreadableFile { path, error });
            }
        }
    }
}

impl Counts {
    /// Whether no source contained anything.
    fn is_nothing(&self) -> bool {
        self.seen() == 0 && self.unreadable_files.is_empty() && self.rows.is_none()
    }

    fn seen(&self) -> usize {
        let (known, others) = (self.known + self.completed, self.left_out + self.empty + self.other);
        self.sessions + known + others + self.unreadable_lines
    }

    /// Whether every file found was unreadable.
    fn has_only_unreadable_files(&self) -> bool {
        self.seen() == 0 && !self.unreadable_files.is_empty() && self.rows.is_none()
    }
}

/// Reports where it looked, and how to name another place.
fn nothing_found(args: &ImportArgs) -> String {
    let named = args.source.as_deref().and_then(|source| AGENTS.named(source));
    let Some(spec) = named else {
        let agents: Vec<_> =
            AGENTS.iter().filter(|spec| spec.history.is_some()).map(|spec| spec.name).collect();
        return format!(
            "No recorded sessions were found. If they are elsewhere, name their agent and the place: \
             `recall import AGENT FOLDER`, where AGENT is {}.",
            agents.join(", ")
        );
    };
    let (title, name) = (spec.title, spec.name);
    if let Some(path) = &args.path {
        return format!(
            "No recorded sessions of {title} were found in {}. If they are another agent's, name that one: \
             `recall import AGENT {}`.",
            path.display(),
            path.display()
        );
    }
    let home = std::env::home_dir().unwrap_or_default();
    let places: Vec<_> =
        files::folders(spec, &home).iter().map(|folder| folder.display().to_string()).collect();
    format!(
        "No recorded sessions of {title} were found in {}. If they are elsewhere, name the place: \
         `recall import {name} FOLDER`.",
        places.join(" or ")
    )
}

/// Reports what a file contains that recall did not import.
fn print_excluded_rows(out: &mut dyn Write, rows: &RestoreAnswer) -> std::io::Result<()> {
    let (unpinned, aliases) = (rows.unpinned, rows.aliases);
    for (count, what) in [
        (rows.forgotten, "left out: you have forgotten them here"),
        (unpinned, "pinned in the file and imported without the pin: `recall pin ID` pins one"),
        (aliases, "other names of projects left out, because a file cannot merge projects"),
        (rows.unsigned, "with an author in the file, imported without the author"),
    ] {
        if count > 0 {
            writeln!(out, "{DIM}{count} {what}{DIM:#}")?;
        }
    }
    if unpinned + aliases + rows.unsigned > 0 {
        writeln!(out, "{DIM}If the export is your own, `--own` imports these, too.{DIM:#}")?;
    }
    for (field, count) in rows.unfit.iter().take(MOST_NAMED) {
        let lines = counted(*count, "line", "lines");
        let Some((kind, field)) = field.split_once('.') else {
            writeln!(out, "{WARNING}Left out {lines}, too long to be read{WARNING:#}")?;
            continue;
        };
        writeln!(
            out,
            "{WARNING}Left out {lines} of kind {kind}: `{field}` has an impossible value{WARNING:#}"
        )?;
    }
    Ok(())
}

fn print(out: &mut dyn Write, counts: &Counts, args: &ImportArgs) -> std::io::Result<()> {
    let sessions = counted(counts.sessions, "session", "sessions");
    let folders = counted(counts.projects.len(), "folder", "folders");
    let prompts = counted(counts.prompts, "prompt", "prompts");
    match (args.dry_run, counts.sessions) {
        (_, 0) if counts.is_nothing() => writeln!(out, "{}", nothing_found(args))?,
        (true, 0) if counts.rows.is_some() => {}
        (true, _) => writeln!(out, "Found {sessions} of {folders} with {prompts}. Nothing was stored.")?,
        (false, 0) if counts.rows.is_some() => {}
        (false, 0) if counts.completed > 0 || counts.has_only_unreadable_files() => {}
        (false, 0) => writeln!(out, "Nothing new to import.")?,
        (false, _) => writeln!(out, "Imported {sessions} of {folders} with {prompts}.")?,
    }
    if counts.completed > 0 {
        let completed = counted(counts.completed, "session", "sessions");
        writeln!(out, "Completed {completed} with answers that hooks had not reported.")?;
    }
    if let Some(rows) = &counts.rows {
        let added: Vec<_> = rows.added.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let added = if added.is_empty() { "nothing new".to_owned() } else { added.join(", ") };
        let verb = if args.dry_run { "Found" } else { "Added" };
        writeln!(
            out,
            "{verb} as it was written: {added} ({} here already, {} skipped).",
            rows.known, rows.skipped
        )?;
    }
    if let Some(rows) = &counts.rows {
        print_excluded_rows(out, rows)?;
    }
    let rest = [
        (counts.known, "here already"),
        (counts.left_out, "left out: excluded, forgotten, or from a time when recall was paused"),
        (counts.other, "not selected"),
        (counts.empty, "without a prompt"),
    ];
    for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
        writeln!(out, "{DIM}{count} {what}{DIM:#}")?;
    }
    if counts.unreadable_lines > 0 {
        let lines = counted(counts.unreadable_lines, "line", "lines");
        let first: Vec<&str> = counts.damaged.iter().take(MOST_NAMED).map(String::as_str).collect();
        writeln!(out, "{DIM}{lines} could not be read and left out, of {}{DIM:#}", first.join(", "))?;
    }
    for file in counts.unreadable_files.iter().take(MOST_NAMED) {
        writeln!(out, "{WARNING}Cannot read {}: {}{WARNING:#}", file.path, file.error)?;
    }
    if let Some(more) = counts.unreadable_files.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        writeln!(out, "{WARNING}... and {more} more that cannot be read{WARNING:#}")?;
    }
    if !args.dry_run && counts.sessions > 0 {
        writeln!(
            out,
            "recall makes notes from them in the background; `recall ctl status` shows how many wait."
        )?;
    }
    Ok(())
}
