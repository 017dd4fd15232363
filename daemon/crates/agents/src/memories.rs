//! Reads agents' own memories: rules and notes in Markdown files, split into single notes.
//!
//! A note is an item of a list or a paragraph, with the headings above it. Code stays with the words before it. Notes
//! that only refer to another file are left out, and so are files that recall wrote.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::AgentSpec;
use super::settings::OwnFile;
use recall_system::trusted_file::{self, Links};

/// The maximum size of a file of notes, in bytes. Larger ones are skipped.
const LARGEST: u64 = 1 << 20;
/// The maximum length of a note, in characters. Longer ones are cut.
const LONGEST: usize = 8_000;
/// The minimum length of a note, in words. Shorter ones say nothing.
const FEWEST_WORDS: usize = 3;
/// The maximum number of files of one agent about one project, and of notes.
const MOST_FILES: usize = 200;
const MOST_NOTES: usize = 1_000;

/// The location of an agent's own memory.
#[derive(Clone, Copy, Debug)]
pub struct Memories {
    /// Files in a project's folder. `*` in a file's name stands for any letters.
    pub of_project: &'static [&'static str],
    /// Files in the agent's own folder.
    pub own: Option<OwnMemories>,
}

#[derive(Clone, Copy, Debug)]
pub enum OwnMemories {
    /// Files in a folder for each project. The folder's name is the project's path, with a dash for each character
    /// that is neither a letter nor a digit.
    Folders { before: &'static str, after: &'static str },
    /// One file, with a part for each project.
    Parts(Parts),
}

/// A file with a part for each project.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub file: &'static str,
    /// The start of a part's first line.
    pub heading: &'static str,
    /// The start of the line that names the part's folders, up to a `;`.
    pub folders: &'static str,
    /// The start of the line that describes the part.
    pub about: &'static str,
    /// Headings of sections that only point elsewhere.
    pub left_out: &'static [&'static str],
}

/// A note of an agent's own memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptNote {
    pub file: String,
    /// The headings above it.
    pub heading: String,
    pub text: String,
    /// When the file was last written, in milliseconds since 1970.
    pub at_ms: i64,
}

/// What an agent's own memory says about a project.
#[derive(Clone, Debug, Default)]
pub struct KeptMemories {
    pub notes: Vec<KeptNote>,
    pub files: usize,
    /// Files that could not be read, and why.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// Reads what an agent keeps about the project in this folder. `moved` is where the user moved the agent's folder. Blocks.
pub fn kept(spec: &AgentSpec, project: &Path, home: &Path, moved: Option<&str>) -> KeptMemories {
    let mut kept = KeptMemories::default();
    let Some(memories) = spec.memories else { return kept };
    let mut files: Vec<PathBuf> =
        memories.of_project.iter().flat_map(|pattern| matching(&project.join(pattern))).collect();
    let own = spec.host.folders(home, moved);
    match memories.own {
        Some(OwnMemories::Folders { before, after }) => {
            let folders = own.iter().map(|own| own.join(before).join(dashed(project)).join(after));
            files.extend(folders.flat_map(|folder| matching(&folder.join("*.md"))));
        }
        Some(OwnMemories::Parts(parts)) => {
            for file in own.iter().map(|own| own.join(parts.file)).filter(|file| file.exists()) {
                kept.read(&file, |text| {
                    let parts = parts.of(text, project);
                    parts.flat_map(|(title, part, left_out)| notes_of(&part, &title, left_out)).collect()
                });
            }
        }
        None => {}
    }
    files.truncate(MOST_FILES);
    let names: Vec<String> =
        files.iter().filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned())).collect();
    for file in files {
        let title = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        kept.read(&file, |text| {
            let mut notes = notes_of(text, &title, &[]);
            notes.retain(|(_, note)| !names.iter().any(|name| note.contains(&format!("]({name})"))));
            notes
        });
    }
    kept.notes.truncate(MOST_NOTES);
    kept
}

impl KeptMemories {
    fn read(&mut self, file: &Path, cut: impl FnOnce(&str) -> Vec<(String, String)>) {
        let text = match trusted_file::read_text(file, Links::OfOurs, LARGEST) {
            Ok(text) => text,
            Err(refused) => {
                self.unreadable.push((file.to_owned(), refused.to_string()));
                return;
            }
        };
        if text.contains(OwnFile::MARK) {
            return;
        }
        self.files += 1;
        let written = fs::metadata(file).and_then(|found| found.modified()).ok();
        let since = written.and_then(|written| written.duration_since(UNIX_EPOCH).ok());
        let at_ms = since.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or_default();
        let path = file.to_string_lossy().into_owned();
        let note = |(heading, text)| KeptNote { file: path.clone(), heading, text, at_ms };
        self.notes.extend(cut(&text).into_iter().map(note));
    }
}

/// Expands a path with a `*` in its last part, in order.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some((start, end)) = name.split_once('*') else {
        return Some(pattern.to_owned()).filter(|file| file.exists()).into_iter().collect();
    };
    let entries = pattern.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
    let is_meant = |name: &OsStr| {
        let name = name.to_string_lossy();
        name.starts_with(start) && name.ends_with(end) && !name.starts_with('.')
    };
    let files = entries.flatten().filter(|entry| is_meant(&entry.file_name())).map(|entry| entry.path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

/// Converts a path into a folder's name as some agents do.
fn dashed(path: &Path) -> String {
    let path = path.to_string_lossy();
    path.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '-' }).collect()
}

impl Parts {
    /// Finds the parts about the project in this folder: title, text, and the headings that are left out.
    fn of<'a>(
        self,
        text: &'a str,
        project: &'a Path,
    ) -> impl Iterator<Item = (String, String, &'static [&'static str])> + 'a {
        let mut parts: Vec<(String, Vec<&str>)> = Vec::new();
        for line in text.lines() {
            match (line.strip_prefix(self.heading), parts.last_mut()) {
                (Some(title), _) => parts.push((title.trim().to_owned(), Vec::new())),
                (None, Some((_, lines))) => lines.push(line),
                (None, None) => {}
            }
        }
        let is_meant = move |lines: &[&str]| {
            let named = lines.iter().find_map(|line| line.strip_prefix(self.folders));
            let named = named.map(|rest| rest.split(';').next().unwrap_or(rest).trim());
            // A folder's name may contain the separator.
            let is_in = |folder: &str| Path::new(folder.trim()).starts_with(project);
            named.is_some_and(|named| is_in(named) || named.split(" and ").any(is_in))
        };
        parts.into_iter().filter(move |(_, lines)| is_meant(lines)).map(move |(title, lines)| {
            let is_content = |line: &&&str| !line.starts_with(self.folders) && !line.starts_with(self.about);
            let lines: Vec<&str> = lines.iter().filter(is_content).copied().collect();
            (title, lines.join("\n"), self.left_out)
        })
    }
}

/// The state of splitting a text into notes.
struct Cutting<'a> {
    /// The title of the text, and the words that introduce a list.
    title: String,
    lead: Option<String>,
    /// The current headings, with their levels.
    headings: Vec<(usize, String)>,
    /// The level of a heading whose section is left out.
    skipped: Option<usize>,
    left_out: &'a [&'a str],
    block: Vec<String>,
    is_item: bool,
    notes: Vec<(String, String)>,
}

/// The notes in a Markdown text, each with the headings above it.
fn notes_of(text: &str, title: &str, left_out: &[&str]) -> Vec<(String, String)> {
    let (about, body) = front_matter(text);
    let title = match about {
        Some(about) => format!("{title}: {about}"),
        None => title.to_owned(),
    };
    let mut cutting = Cutting {
        title,
        lead: None,
        headings: Vec::new(),
        skipped: None,
        left_out,
        block: Vec::new(),
        is_item: false,
        notes: Vec::new(),
    };
    let body = without_comments(body);
    let mut fence = None;
    for line in body.lines() {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        if fence.is_some() || mark.is_some() {
            // Code belongs to the words before it, even after an empty line.
            cutting.block.push(line.to_owned());
            fence = match (fence, mark) {
                (None, mark) => mark,
                (Some(open), Some(mark)) if open == mark => None,
                (open, _) => open,
            };
        } else {
            cutting.take(line);
        }
    }
    cutting.end_block();
    cutting.notes
}

impl Cutting<'_> {
    fn take(&mut self, line: &str) {
        let trimmed = line.trim();
        let is_indented = line.starts_with([' ', '\t']);
        if let Some((level, heading)) = heading_of(line) {
            self.end_block();
            self.lead = None;
            self.headings.retain(|(above, _)| *above < level);
            self.skipped = self.skipped.filter(|skipped| *skipped < level);
            if self.left_out.iter().any(|name| heading.eq_ignore_ascii_case(name)) {
                self.skipped.get_or_insert(level);
            }
            self.headings.push((level, heading.to_owned()));
        } else if trimmed.is_empty() {
            // An item may have paragraphs, which are indented, and a paragraph may introduce a list or code.
            if !self.is_item && !self.block.last().is_some_and(|line| line.trim_end().ends_with(':')) {
                self.end_block();
            }
        } else if let Some(item) = item_of(line) {
            self.begin_item(item);
        } else if self.is_item && !is_indented && self.block.last().is_some_and(String::is_empty) {
            self.end_block();
            self.lead = None;
            self.block.push(trimmed.to_owned());
        } else {
            self.block.push(if self.is_item { trimmed.to_owned() } else { line.to_owned() });
        }
        if trimmed.is_empty() && self.is_item {
            self.block.push(String::new());
        }
    }

    fn begin_item(&mut self, item: &str) {
        let introduces = self.block.last().is_some_and(|line| line.trim_end().ends_with(':'));
        if !self.is_item && introduces {
            let lead = std::mem::take(&mut self.block).join(" ");
            self.lead = Some(lead.trim().trim_end_matches(':').to_owned());
        } else {
            self.end_block();
        }
        self.is_item = true;
        self.block.push(item.to_owned());
    }

    fn end_block(&mut self) {
        let text = std::mem::take(&mut self.block).join("\n");
        if !std::mem::take(&mut self.is_item) {
            self.lead = None;
        }
        let text: String = text.trim().chars().take(LONGEST).collect();
        let points_elsewhere = text.lines().all(|line| line.starts_with('@') || line.starts_with("---"));
        let is_table_rule = text.chars().all(|sign| "|-: ".contains(sign));
        if self.skipped.is_some()
            || points_elsewhere
            || is_table_rule
            || text.split_whitespace().count() < FEWEST_WORDS
        {
            return;
        }
        let headings = self.headings.iter().map(|(_, heading)| heading.as_str());
        let above = std::iter::once(self.title.as_str()).chain(headings).chain(self.lead.as_deref());
        self.notes.push((above.collect::<Vec<_>>().join(" › "), text));
    }
}

fn heading_of(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let rest = line.get(level..)?.strip_prefix(' ')?;
    (1..=6).contains(&level).then(|| (level, rest.trim().trim_end_matches('#').trim()))
}

/// Returns the text of a top-level list item.
fn item_of(line: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "+ "].into_iter().find_map(|bullet| line.strip_prefix(bullet));
    let number = || {
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let rest = line.get(digits..).filter(|_| (1..=3).contains(&digits))?;
        rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))
    };
    let item = bullet.or_else(number)?.trim();
    let unticked = ["[ ] ", "[x] ", "[X] "].into_iter().find_map(|tick| item.strip_prefix(tick));
    Some(unticked.unwrap_or(item))
}

/// Splits front matter from a text: what it says the text is about, and the rest.
fn front_matter(text: &str) -> (Option<String>, &str) {
    let text = text.trim_start_matches('\u{feff}');
    let inside = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"));
    let Some((matter, body)) = inside.and_then(|inside| inside.split_once("\n---")) else {
        return (None, text);
    };
    let field = |name: &str| {
        let mut values = matter.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value = values.next()?.trim().trim_matches(['"', '\'']).to_owned();
        Some(value).filter(|value| !value.is_empty())
    };
    let body = body.split_once('\n').map_or("", |(_, body)| body);
    (field("description").or_else(|| field("name")), body)
}

fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("<!--") {
        out.push_str(before);
        rest = inside.split_once("-->").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AGENTS;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let found = notes_of(text, "RULES.md", &["keywords"]);
        let found: Vec<_> = found.iter().map(|(heading, text)| (heading.as_str(), text.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn items_and_paragraphs_are_notes_with_their_headings() {
        check(
            "Money is whole cents.\nNever use floats.\n\n# Build\n\n- Run `make all` first\n- Then run the tests\n  - with --locked\n\n\
             ## Release\n1. Tag the commit first\n",
            &[
                ("RULES.md", "Money is whole cents.\nNever use floats."),
                ("RULES.md › Build", "Run `make all` first"),
                ("RULES.md › Build", "Then run the tests\nwith --locked".replace("with", "- with").as_str()),
                ("RULES.md › Build › Release", "Tag the commit first"),
            ],
        );
    }

    #[test]
    fn code_and_lists_keep_the_words_that_introduce_them() {
        check(
            "To build everything:\n\n```sh\nmake all\n\nmake check\n```\n\nBefore each commit:\n\n- format all the code\n- run all tests\n\nNothing else is needed.\n",
            &[
                ("RULES.md", "To build everything:\n```sh\nmake all\n\nmake check\n```"),
                ("RULES.md › Before each commit", "format all the code"),
                ("RULES.md › Before each commit", "run all tests"),
                ("RULES.md", "Nothing else is needed."),
            ],
        );
    }

    #[test]
    fn references_comments_and_keyword_lists_are_no_notes() {
        check(
            "---\nname: x\ndescription: \"How to test\"\n---\n@docs/other.md\n\n<!-- a hidden\nremark -->\nTODO\n\n---\n\n### keywords\n- a, b, c, d\n\n### Rest\nRun one test at a time.\n",
            &[("RULES.md: How to test › Rest", "Run one test at a time.")],
        );
        check("", &[]);
    }

    #[test]
    fn memory_parts_for_other_folders_are_skipped() {
        let own = tempfile::tempdir().unwrap();
        let memory = "# Task Group: cart rounding\nscope: money\napplies_to: cwd=/shop; reuse_rule=safe\n\n## Reusable knowledge\n\
             - Totals are rounded half-even, once.\n\n### keywords\n- cart, rounding, half-even\n\n\
             # Task Group: elsewhere\napplies_to: cwd=/other\n\n- Nothing of this concerns the shop.\n\n\
             # Task Group: both\napplies_to: cwd=/other and /shop/worktrees/a; reuse_rule=x\n\n- Keep reports short and plain.\n";
        fs::create_dir_all(own.path().join(".codex/memories")).unwrap();
        fs::write(own.path().join(".codex/memories/MEMORY.md"), memory).unwrap();
        let kept = kept(AGENTS.spec("codex"), Path::new("/shop"), own.path(), None);
        let notes: Vec<_> =
            kept.notes.iter().map(|note| (note.heading.as_str(), note.text.as_str())).collect();
        assert_eq!(
            notes,
            [
                ("cart rounding › Reusable knowledge", "Totals are rounded half-even, once."),
                ("both", "Keep reports short and plain."),
            ]
        );
    }

    #[test]
    fn notes_are_read_from_the_project_and_from_the_agents_memory_folder() {
        let home = tempfile::tempdir().unwrap();
        let shop = home.path().join("my.shop");
        let memory = home.path().join(".claude/projects").join(dashed(&shop)).join("memory");
        fs::create_dir_all(&memory).unwrap();
        fs::create_dir_all(&shop).unwrap();
        fs::write(shop.join("CLAUDE.md"), "- Use the cents type for money.\n").unwrap();
        let index = "- [Testing](testing.md) — how the tests run\n- The ledger rounds half-even.\n";
        fs::write(memory.join("MEMORY.md"), index).unwrap();
        fs::write(memory.join("testing.md"), "Run `make check` alone.\n").unwrap();
        let kept = kept(AGENTS.spec("claude-code"), &shop, home.path(), None);
        let texts: Vec<_> = kept.notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(
            texts,
            ["Use the cents type for money.", "The ledger rounds half-even.", "Run `make check` alone."]
        );
        assert_eq!((kept.files, kept.unreadable.len()), (3, 0));
    }
}
