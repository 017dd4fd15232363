//! `recall import memories`: imports what agents keep as their own memory about the projects that recall knows.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use recall_protocol::query::{AgentNote, MemoryStep, Projects, TakeMemories};
use serde::Serialize;

use super::ImportArgs;
use crate::cli::client::{Client, Start};
use crate::cli::failure::Failure;
use crate::cli::filter;
use crate::cli::terminal::{DIM, WARNING, counted};
use crate::service::environment::Environment;
use recall_agents::{AGENTS, AgentSpec, memories};
use recall_app::answers::portable::MemoriesAnswer;

/// The approximate number of bytes of notes sent at once. The daemon compares all notes of a project, so they are not
/// split.
const MOST_BYTES: usize = 8 << 20;
/// The maximum number of unreadable files that are named.
const MOST_NAMED: usize = 10;

pub(super) fn agents() -> PossibleValuesParser {
    PossibleValuesParser::new(with_memories().map(|spec| spec.name))
}

fn with_memories() -> impl Iterator<Item = &'static AgentSpec> {
    AGENTS.iter().filter(|spec| spec.memories.is_some())
}

/// What was found, by agent.
#[derive(Debug, Default, Serialize)]
struct FoundMemories {
    agents: BTreeMap<&'static str, OfAgent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable_files: Vec<super::UnreadableFile>,
}

#[derive(Debug, Default, Serialize)]
struct OfAgent {
    projects: usize,
    files: usize,
    #[serde(flatten)]
    changes: MemoriesAnswer,
}

pub(super) fn run(args: &ImportArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if args.path.is_some() || args.since.is_some() || args.own {
        return Err(Failure::usage("--since and --own do not apply to agents' memories")
            .hint("recall import memories [--agent AGENT] [--project P]")
            .into());
    }
    let environment = Environment::of_process()
        .ok_or_else(|| Failure::failed("The home folder is not known").hint("Set HOME to its path."))?;
    let mut client = Client::connect(Start::IfNeeded)?;
    let folders = folders(&mut client, args.project.as_deref())?;
    let mut found = FoundMemories::default();
    for spec in with_memories().filter(|spec| args.agent.as_deref().is_none_or(|name| name == spec.name)) {
        for folder in &folders {
            take(&mut client, (spec, folder), args, &environment, &mut found)?;
        }
    }
    if args.json {
        serde_json::to_writer(&mut *out, &found)?;
        writeln!(out)?;
        return Ok(());
    }
    print(out, &found, args)
}

/// Returns the folders of the projects: all known ones and the one here, or the named one.
fn folders(client: &mut Client, named: Option<&str>) -> anyhow::Result<Vec<PathBuf>> {
    let named = named.map(filter::project).transpose()?;
    if let Some(folder) = named.as_deref().map(Path::new).filter(|folder| folder.is_absolute()) {
        return Ok(vec![folder.to_owned()]);
    }
    let known = client.ask(Projects)?.read()?.projects;
    let meant = known.into_iter().filter(|project| {
        named.as_deref().is_none_or(|name| project.name == name || project.project_id == name)
    });
    let mut folders: Vec<PathBuf> = meant.filter_map(|project| project.folder.map(PathBuf::from)).collect();
    if named.is_none() {
        folders.extend(repository_here().filter(|here| !folders.contains(here)));
    }
    if let (true, Some(name)) = (folders.is_empty(), named) {
        return Err(Failure::failed(format!("recall knows no folder of a project {name:?}"))
            .hint("Name its folder: --project /path/to/it.")
            .into());
    }
    Ok(folders)
}

/// Returns the repository around the current folder. It need not be known yet.
fn repository_here() -> Option<PathBuf> {
    let folder = std::env::current_dir().ok()?;
    folder.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_owned)
}

fn take(
    client: &mut Client,
    (spec, folder): (&'static AgentSpec, &Path),
    args: &ImportArgs,
    environment: &Environment,
    found: &mut FoundMemories,
) -> anyhow::Result<()> {
    let moved = spec.host.folder_variable.and_then(|name| environment.variable(name)?.to_str());
    let kept = memories::kept(spec, folder, environment.home(), moved);
    for (path, error) in kept.unreadable {
        found.unreadable_files.push(super::UnreadableFile { path: path.display().to_string(), error });
    }
    let mut bytes = 0;
    let notes = kept.notes.into_iter().take_while(|note| {
        bytes += note.text.len() + note.heading.len() + note.file.len();
        bytes <= MOST_BYTES
    });
    let notes = notes.map(|note| AgentNote {
        file: note.file,
        heading: note.heading,
        text: note.text,
        at_ms: note.at_ms,
    });
    let request = TakeMemories {
        agent: spec.name.to_owned(),
        folder: folder.to_string_lossy().into_owned(),
        notes: notes.collect(),
        step: if args.dry_run { MemoryStep::Preview } else { MemoryStep::Store },
    };
    let changes = client.ask(request)?.read()?;
    if kept.files > 0 || changes != MemoriesAnswer::default() {
        let of_agent = found.agents.entry(spec.name).or_default();
        of_agent.projects += 1;
        of_agent.files += kept.files;
        of_agent.changes.add(changes);
    }
    Ok(())
}

fn print(out: &mut dyn Write, found: &FoundMemories, args: &ImportArgs) -> anyhow::Result<()> {
    if found.agents.is_empty() {
        writeln!(out, "No agents' memories were found, neither here nor in the projects that recall knows.")?;
    }
    for (agent, of_agent) in &found.agents {
        let title = AGENTS.named(agent).map_or(*agent, |spec| spec.title);
        let changes = &of_agent.changes;
        let parts = [
            (changes.added, "new"),
            (changes.replaced, "superseded by a changed version"),
            (changes.resolved, "resolved, because the file no longer contains it"),
            (changes.kept, "unchanged"),
            (changes.forgotten, "forgotten before"),
            (changes.left_out, "left out"),
        ];
        let counts =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let counts: Vec<String> = counts.collect();
        let counts = if counts.is_empty() { "nothing to store".to_owned() } else { counts.join(", ") };
        let files = counted(of_agent.files, "file", "files");
        let projects = counted(of_agent.projects, "project", "projects");
        writeln!(out, "{title}: {counts} {DIM}({files} of {projects}){DIM:#}")?;
    }
    for file in found.unreadable_files.iter().take(MOST_NAMED) {
        writeln!(out, "{WARNING}Cannot read{WARNING:#} {}: {}", file.path, file.error)?;
    }
    if args.dry_run {
        writeln!(out, "Dry run; nothing was stored.")?;
    }
    Ok(())
}
