//! Reads the outline of a repository's folder.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use recall_domain::context::Declaration;
use recall_domain::redaction::is_secret_file;
use recall_system::trusted_file::{Folder, Refused};

use super::declared::declared;
use super::{Coverage, FileOutline, Language, Outline, Stamp, content_hash, place};

/// The maximum number of files of an outline.
pub const MOST_FILES: usize = 100_000;
/// The maximum number of bytes of the files of an outline.
pub const MOST_BYTES: u64 = 200_000_000;
/// The maximum length of a file. Longer ones are generated.
const LONGEST_FILE: u64 = 512 * 1024;
/// The maximum average length of a file's lines. Files with longer lines are generated.
const LONGEST_LINES: usize = 300;
/// The maximum number of names of an outline. Further ones are dropped.
const MOST_NAMES: usize = 1_000_000;
/// The maximum number of folders that are read.
const MOST_FOLDERS: usize = 100_000;
/// Folders that are never part of the source, ignored or not.
const NEVER: [&str; 5] = ["node_modules", "target", "__pycache__", "venv", "site-packages"];
/// The files that list ignored paths, the stronger last.
const IGNORES: [&str; 2] = [".gitignore", ".ignore"];
const LONGEST_IGNORE: u64 = 256 * 1024;
/// How long before it was read a file must have been written to count as unchanged. A later write may have the same
/// time.
const SETTLED: Duration = Duration::from_secs(2);
/// The maximum number of bytes that are parsed again before places are injected.
const MOST_FRESH: u64 = 128 * 1024;

/// A folder to read, with the ignore rules that apply to it, the outermost first.
struct Pending {
    path: PathBuf,
    rules: Vec<Arc<Gitignore>>,
}

/// Reads what the source files below a folder declare. An unchanged file is not parsed again. `hides` decides which
/// absolute paths must stay hidden.
///
/// # Errors
///
/// The folder is missing or not trusted.
pub fn read(root: &Path, before: &Outline, hides: &dyn Fn(&Path) -> bool) -> Result<Outline, Refused> {
    let top = Folder::open(root)?;
    let exclude = rules(&top, root, &[".git/info/exclude"]);
    let mut pending = vec![Pending { path: PathBuf::new(), rules: exclude.into_iter().collect() }];
    let (mut files, mut bytes, mut names, mut folders) = (Vec::new(), 0, 0, 0);
    let mut coverage = Coverage::Whole;
    while let Some(Pending { path, mut rules }) = pending.pop() {
        let Ok(folder) = top.folder(&path) else { continue };
        // Another repository.
        if !path.as_os_str().is_empty() && folder.names().any(|name| name == ".git") {
            continue;
        }
        folders += 1;
        rules.extend(self::rules(&folder, &root.join(&path), &IGNORES));
        let mut entries: Vec<_> = folder.names().collect();
        entries.sort();
        for name in entries {
            if is_left_out(&name) {
                continue;
            }
            let within = path.join(&name);
            let whole = root.join(&within);
            let Some(text) = within.to_str() else { continue };
            match Language::of(text) {
                Some(language) => {
                    let is_read = !is_ignored(&rules, &whole, Entry::File);
                    if !is_read || is_secret_file(&whole.to_string_lossy()) || hides(&whole) {
                        continue;
                    }
                    if files.len() >= MOST_FILES || bytes >= MOST_BYTES || names >= MOST_NAMES {
                        coverage = Coverage::Part;
                        break;
                    }
                    let Ok(file) = folder.file(Path::new(&name)) else { continue };
                    let Some(outlined) = outlined(file, text, language, before.file(text)) else {
                        continue;
                    };
                    bytes += outlined.stamp.bytes;
                    names += outlined.declared.len();
                    files.push(outlined);
                }
                // A file with an ending that is no language's is no folder, nearly always, and opening says so.
                None if within.extension().is_some_and(|ending| ending.len() <= 4) => {}
                None if is_ignored(&rules, &whole, Entry::Folder) => {}
                None if pending.len() + folders >= MOST_FOLDERS => coverage = Coverage::Part,
                None => pending.push(Pending { path: within, rules: rules.clone() }),
            }
        }
    }
    Ok(Outline::of(files, coverage))
}

fn is_left_out(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with('.') || NEVER.contains(&&*name)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    File,
    Folder,
}

/// Whether the innermost rule about an entry ignores it.
fn is_ignored(rules: &[Arc<Gitignore>], path: &Path, entry: Entry) -> bool {
    for rule in rules.iter().rev() {
        match rule.matched(path, entry == Entry::Folder) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => {}
        }
    }
    false
}

/// The rules in these files of a folder.
fn rules(folder: &Folder, path: &Path, names: &[&str]) -> Option<Arc<Gitignore>> {
    let mut builder = GitignoreBuilder::new(path);
    let mut lines = 0;
    for name in names {
        let Ok(file) = folder.file(Path::new(name)) else { continue };
        let Some(text) = bounded(file, LONGEST_IGNORE) else { continue };
        for line in String::from_utf8_lossy(&text).lines() {
            // A pattern with a mistake ignores nothing, as in git.
            lines += usize::from(builder.add_line(None, line).is_ok());
        }
    }
    (lines > 0).then(|| builder.build().ok()).flatten().map(Arc::new)
}

fn bounded(file: File, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= most).then_some(bytes)
}

fn stamp(file: &File) -> Option<Stamp> {
    let metadata = file.metadata().ok()?;
    let now = SystemTime::now();
    let settled = |at: &SystemTime| now.duration_since(*at).is_ok_and(|since| since > SETTLED);
    Some(Stamp { written: metadata.modified().ok().filter(settled), bytes: metadata.len() })
}

/// Returns the declarations of a file. An unchanged file is not read again. `None` if the file is too long.
fn outlined(file: File, path: &str, language: Language, before: Option<&FileOutline>) -> Option<FileOutline> {
    let stamp = stamp(&file)?;
    if let Some(before) = before.filter(|before| stamp.written.is_some() && before.stamp == stamp) {
        return Some(before.clone());
    }
    if stamp.bytes > LONGEST_FILE {
        return None;
    }
    let text = bounded(file, LONGEST_FILE)?;
    let content = content_hash(&text);
    if let Some(before) = before.filter(|before| before.content == content) {
        return Some(FileOutline { stamp, ..before.clone() });
    }
    let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
    let declared = match text.len() / lines > LONGEST_LINES {
        true => Vec::new(),
        false => declared(&text, language),
    };
    Some(FileOutline { path: path.into(), stamp, content, declared })
}

impl Outline {
    /// The places as they are now. A changed file is read again, within a small limit. A name is left out if it is
    /// gone, or if its file cannot be read in time.
    pub fn as_now(&self, root: &Path, places: Vec<Declaration>) -> Vec<Declaration> {
        let Ok(top) = Folder::open(root) else { return Vec::new() };
        let mut left = MOST_FRESH;
        places.into_iter().filter_map(|declaration| self.place_now(&top, declaration, &mut left)).collect()
    }

    fn place_now(&self, top: &Folder, declaration: Declaration, left: &mut u64) -> Option<Declaration> {
        let before = self.file(&declaration.file)?;
        let file = top.file(Path::new(&declaration.file)).ok()?;
        let stamp = stamp(&file)?;
        if stamp.written.is_some() && stamp == before.stamp {
            return Some(declaration);
        }
        *left = left.checked_sub(stamp.bytes)?;
        let now = outlined(file, &declaration.file, Language::of(&declaration.file)?, Some(before))?;
        let is_it = |declared: &&super::Declared| {
            *declared.name == *declaration.name && *declared.within == *declaration.within
        };
        let here = now
            .declared
            .iter()
            .filter(is_it)
            .min_by_key(|declared| declared.line.abs_diff(declaration.line))?;
        Some(place(&now, here))
    }
}
