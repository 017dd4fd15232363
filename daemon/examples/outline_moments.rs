//! Finds the code that judged prompts of recorded sessions are about, and counts how often their sessions then opened
//! it.
//!
//! ```text
//! cargo run --example outline_moments -- DATES.json MOMENTS.jsonl SESSIONS
//! ```
//!
//! `SESSIONS` has a folder for each project with recordings (`replay/mod.rs` describes the format), `DATES.json` says
//! when each session began, and each line of `MOMENTS.jsonl` names a prompt. The repositories are not there. So a
//! project's files are what its earlier sessions, and this one before the prompt, have read and written of them, as of
//! then. Compared are the places that `context.code` injects, and the known files that the prompt names by their path
//! or file name.

// A report for a reader.
#![allow(clippy::print_stdout)]

#[allow(dead_code, reason = "only its reading of files is needed")]
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context;
use recall_domain::context::Declaration;
use recall_outline::{Asked, Outline};
use serde_json::Value;

/// The places that a prompt gets, as in `app/outlines.rs`.
const MOST_PLACES: usize = 3;
/// The number of places examined, before those in opened files are dropped.
const MOST_LOOKED_AT: usize = 8;
/// A file name that is shorter, or that more files have, names none.
const SHORTEST_NAME: usize = 5;

fn main() -> anyhow::Result<()> {
    let usage = "usage: outline_moments DATES.json MOMENTS.jsonl SESSIONS";
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().context(usage);
    let (dates, moments, folder) = (next()?, next()?, next()?);
    let dates: BTreeMap<String, String> = serde_json::from_str(&std::fs::read_to_string(dates)?)?;
    let moments = asked_at(&std::fs::read_to_string(moments)?)?;
    let mut all = Counts::default();
    for project in entries(Path::new(&folder))? {
        let counts = project_counts(&project, &dates, &moments)?;
        if counts.prompts > 0 {
            let name = project.file_name().unwrap_or_default().to_string_lossy().into_owned();
            println!("{name}: {counts:?}");
            all.add(&counts);
        }
    }
    all.print();
    Ok(())
}

/// The judged prompts: session and number, counted from 1. Those that an earlier session repeats are left out.
fn asked_at(lines: &str) -> anyhow::Result<BTreeSet<(String, u64)>> {
    let mut asked = BTreeSet::new();
    for line in lines.lines() {
        let moment: Value = serde_json::from_str(line)?;
        if moment["repeat"] != true {
            let session = moment["session_id"].as_str().context("a moment names a session")?;
            asked.insert((session.to_owned(), moment["prompt_number"].as_u64().context("a prompt")?));
        }
    }
    Ok(asked)
}

fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let paths = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

#[derive(Debug, Default)]
struct Counts {
    prompts: usize,
    /// With places, and of these: with one in a file that the session opened later.
    placed: usize,
    placed_well: usize,
    places: usize,
    /// In a file that the session opened in the same turn, or ever after.
    same_turn: usize,
    later: usize,
    /// An edit has the name, or a part that was read has the line.
    symbol_later: usize,
    /// In a file that the prompt does not name, and of these opened ever after.
    unnamed: usize,
    unnamed_later: usize,
    naming: usize,
    naming_well: usize,
    named: usize,
    named_same_turn: usize,
    named_later: usize,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        for (mine, more) in [
            (&mut self.prompts, other.prompts),
            (&mut self.placed, other.placed),
            (&mut self.placed_well, other.placed_well),
            (&mut self.places, other.places),
            (&mut self.same_turn, other.same_turn),
            (&mut self.later, other.later),
            (&mut self.symbol_later, other.symbol_later),
            (&mut self.unnamed, other.unnamed),
            (&mut self.unnamed_later, other.unnamed_later),
            (&mut self.naming, other.naming),
            (&mut self.naming_well, other.naming_well),
            (&mut self.named, other.named),
            (&mut self.named_same_turn, other.named_same_turn),
            (&mut self.named_later, other.named_later),
        ] {
            *mine += more;
        }
    }

    fn print(&self) {
        let of = |part: usize, whole: usize| format!("{part} of {whole} ({} %)", 100 * part / whole.max(1));
        println!("prompts: {}", self.prompts);
        println!("outline: prompts with places {}", of(self.placed, self.prompts));
        println!("  of these with one in a file opened later {}", of(self.placed_well, self.placed));
        println!("  places in a file opened in the same turn {}", of(self.same_turn, self.places));
        println!("  places in a file opened later {}", of(self.later, self.places));
        println!("  places whose symbol was read or changed later {}", of(self.symbol_later, self.places));
        println!("  places in a file that the prompt does not name {}", of(self.unnamed, self.places));
        println!("  of these in a file opened later {}", of(self.unnamed_later, self.unnamed));
        println!("names in the prompt: prompts with files {}", of(self.naming, self.prompts));
        println!("  of these with one opened later {}", of(self.naming_well, self.naming));
        println!("  files opened in the same turn {}", of(self.named_same_turn, self.named));
        println!("  files opened later {}", of(self.named_later, self.named));
    }
}

/// The needed part of a hook event.
struct Event {
    prompt: Option<String>,
    /// The file of a file tool, relative to the session's folder.
    file: Option<String>,
    command: String,
    /// What an edit replaced and wrote.
    edited: String,
    /// The lines that a partial read returned.
    lines: Option<Range<usize>>,
    content: Content,
}

/// What an event shows of its file.
enum Content {
    None,
    Whole(String),
    /// Lines from this one on, counted from 0.
    Part(usize, String),
    /// What an edit replaced and wrote. The rest of the file is unknown.
    Changed(String, String),
}

/// The file and the first line of a command that prints a file or a part of it, and nothing else.
fn printed(command: &str) -> Option<(&str, usize)> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["cat", path] => Some((path, 0)),
        ["sed", "-n", lines, path] => {
            let first = lines.trim_matches(['\'', '"']).split(',').next()?;
            Some((path, first.parse::<usize>().ok()?.saturating_sub(1)))
        }
        _ => None,
    }
}

/// A path with slashes, relative to the root.
fn beneath(path: &str, root: &str) -> Option<String> {
    let (path, root) = (path.replace('\\', "/"), root.replace('\\', "/"));
    if !path.starts_with('/') && path.get(1..2) != Some(":") {
        return Some(path).filter(|path| !path.is_empty());
    }
    let below = path.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/')?;
    Some(below.to_owned()).filter(|path| !path.is_empty())
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

impl Event {
    fn of(event: &Value, root: &str) -> Self {
        let (input, response) = (&event["tool_input"], &event["tool_response"]);
        let is_prompt = text(event, "hook_event_name") == "UserPromptSubmit";
        let tool = text(event, "tool_name");
        let path = if ["Read", "Edit", "Write"].contains(&tool) { text(input, "file_path") } else { "" };
        let command = text(input, "command").replace('\\', "/");
        let shown = printed(&command).filter(|_| tool == "Bash" && response["stdout"].is_string());
        let path = shown.map_or(path, |(path, _)| path);
        let file = beneath(path, root);
        let part = &response["file"];
        let begin =
            part["startLine"].as_u64().and_then(|line| usize::try_from(line).ok()).unwrap_or(1).max(1) - 1;
        let read = part["content"].as_str();
        let lines =
            read.filter(|_| !input["limit"].is_null()).map(|text| begin..begin + text.lines().count());
        let content = match (tool, read, response["originalFile"].as_str()) {
            ("Read", Some(text), _) => Content::Part(begin, text.to_owned()),
            ("Write", ..) if response.is_object() => Content::Whole(text(input, "content").to_owned()),
            ("Edit", _, Some(before)) if !before.is_empty() => {
                let (old, new) = (text(input, "old_string"), text(input, "new_string"));
                let times = if input["replace_all"] == true { usize::MAX } else { 1 };
                Content::Whole(before.replacen(old, new, times))
            }
            ("Edit", ..) if response.is_object() => {
                Content::Changed(text(input, "old_string").to_owned(), text(input, "new_string").to_owned())
            }
            _ => match shown {
                Some((_, first)) => Content::Part(first, text(response, "stdout").to_owned()),
                None => Content::None,
            },
        };
        Self {
            prompt: is_prompt.then(|| text(event, "prompt").to_owned()),
            file,
            command,
            edited: format!("{} {}", text(input, "old_string"), text(input, "new_string")),
            lines,
            content,
        }
    }

    /// Whether it opened the file: with a file tool, or by its path in a command.
    fn opens(&self, path: &str) -> bool {
        self.file.as_deref() == Some(path) || self.command.contains(path)
    }

    fn shows(&self, place: &Declaration) -> bool {
        let line = usize::try_from(place.line).unwrap_or_default();
        let is_read = self.lines.as_ref().is_some_and(|lines| lines.contains(&line.saturating_sub(1)));
        self.file.as_deref() == Some(&*place.file) && (is_read || self.edited.contains(&*place.name))
    }
}

/// The known parts of a project's files, from its sessions.
#[derive(Default)]
struct Known {
    files: BTreeMap<String, Vec<String>>,
    outline: Option<Outline>,
}

impl Known {
    fn learn(&mut self, event: &Event) {
        let Some(path) = &event.file else { return };
        match &event.content {
            Content::None => return,
            Content::Whole(text) => {
                self.files.insert(path.clone(), text.lines().map(str::to_owned).collect());
            }
            Content::Changed(old, new) => {
                let lines = self.files.entry(path.clone()).or_default();
                let known = lines.join("\n");
                let now = match known.contains(old.as_str()) && !old.is_empty() {
                    true => known.replacen(old.as_str(), new, 1),
                    false => format!("{known}\n{new}"),
                };
                *lines = now.lines().map(str::to_owned).collect();
            }
            Content::Part(begin, text) => {
                let lines = self.files.entry(path.clone()).or_default();
                for (at, line) in text.lines().enumerate() {
                    let at = begin + at;
                    if lines.len() <= at {
                        lines.resize(at + 1, String::new());
                    }
                    if let Some(known) = lines.get_mut(at) {
                        line.clone_into(known);
                    }
                }
            }
        }
        self.outline = None;
    }

    fn outline(&mut self) -> &Outline {
        let files = &self.files;
        self.outline.get_or_insert_with(|| {
            let texts: Vec<(&str, String)> =
                files.iter().map(|(path, lines)| (path.as_str(), lines.join("\n"))).collect();
            Outline::of_texts(texts.iter().map(|(path, text)| (*path, text.as_str())))
        })
    }

    /// The files that a prompt names by their path, or by a name that at most three files have.
    fn named_in(&self, prompt: &str) -> BTreeSet<String> {
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let is_named = |path: &&String| {
            let name = name(path);
            let alike = self.files.keys().filter(|other| other.rsplit('/').next() == Some(&name)).count();
            let has_name = name.len() >= SHORTEST_NAME && name.contains('.') && prompt.contains(&name);
            prompt.contains(path.as_str()) || (has_name && alike <= MOST_PLACES)
        };
        self.files.keys().filter(is_named).cloned().collect()
    }
}

fn project_counts(
    project: &Path,
    dates: &BTreeMap<String, String>,
    moments: &BTreeSet<(String, u64)>,
) -> anyhow::Result<Counts> {
    let mut sessions: Vec<(String, PathBuf)> = Vec::new();
    for file in entries(project)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let id = name.split('.').next().unwrap_or_default().to_owned();
        sessions.push((id, file));
    }
    sessions.sort_by_key(|(id, _)| dates.get(id).cloned());
    let (mut known, mut counts) = (Known::default(), Counts::default());
    for (id, file) in sessions {
        let events = events(&file)?;
        let mut number = 0;
        for (at, event) in events.iter().enumerate() {
            if let Some(prompt) = &event.prompt {
                number += 1;
                if moments.contains(&(id.clone(), number)) {
                    judge(prompt, &mut known, (&events, at), &mut counts);
                }
            }
            known.learn(event);
        }
    }
    Ok(counts)
}

fn events(file: &Path) -> anyhow::Result<Vec<Event>> {
    let text = replay::text(file)?;
    let values = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let root = values.iter().find_map(|value| value["cwd"].as_str()).unwrap_or("/").to_owned();
    Ok(values.iter().map(|value| Event::of(value, &root)).collect())
}

/// Counts what the prompt at this place of a session gets.
fn judge(prompt: &str, known: &mut Known, (events, at): (&[Event], usize), counts: &mut Counts) {
    let (before, after) = events.split_at(at);
    let after = after.get(1..).unwrap_or_default();
    let end = after.iter().position(|event| event.prompt.is_some()).unwrap_or(after.len());
    let is_new = |path: &str| !before.iter().any(|event| event.opens(path));
    let in_turn = |path: &str| after.iter().take(end).any(|event| event.opens(path));
    let later = |path: &str| after.iter().any(|event| event.opens(path));
    let all_named = known.named_in(prompt);
    let named: Vec<&String> = all_named.iter().filter(|path| is_new(path)).take(MOST_PLACES).collect();
    let places = known.outline().related(prompt, Asked::Unasked, MOST_LOOKED_AT);
    let places: Vec<Declaration> =
        places.into_iter().filter(|place| is_new(&place.file)).take(MOST_PLACES).collect();

    counts.prompts += 1;
    counts.placed += usize::from(!places.is_empty());
    counts.placed_well += usize::from(places.iter().any(|place| later(&place.file)));
    counts.places += places.len();
    for place in &places {
        counts.same_turn += usize::from(in_turn(&place.file));
        counts.later += usize::from(later(&place.file));
        counts.symbol_later += usize::from(after.iter().any(|event| event.shows(place)));
        if !all_named.contains(&*place.file) {
            counts.unnamed += 1;
            counts.unnamed_later += usize::from(later(&place.file));
        }
    }
    counts.naming += usize::from(!named.is_empty());
    counts.naming_well += usize::from(named.iter().any(|path| later(path)));
    counts.named += named.len();
    counts.named_same_turn += named.iter().filter(|path| in_turn(path)).count();
    counts.named_later += named.iter().filter(|path| later(path)).count();
}
