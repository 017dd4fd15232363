//! Reads which names the source files of a repository declare, and finds those that a text is about.
//!
//! Grammars make an outline from the files themselves, and it is kept only in memory. A file is not read if its
//! repository ignores it, if it looks like a file of secrets, or if a rule hides it. Reading is bounded, and files
//! are opened by `system/trusted_file`, because anybody may have written them.
//!
//! **Invariant:** this room never writes.

mod declared;
mod folder;
mod language;
mod related;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::SystemTime;

pub use folder::{MOST_BYTES, MOST_FILES, read};
pub use language::Language;
pub use related::Asked;

use recall_domain::context::Declaration;

/// A name that a file declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) name: Box<str>,
    /// In the language's own word: `struct`, `class`, `def`.
    pub(crate) kind: &'static str,
    /// The enclosing type, class or module; empty without one.
    pub(crate) within: Box<str>,
    /// Counted from 1.
    pub(crate) line: u32,
}

/// A file's metadata that show whether its content changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) written: Option<SystemTime>,
    pub(crate) bytes: u64,
}

/// The declarations of one file.
#[derive(Clone, Debug)]
pub(crate) struct FileOutline {
    /// Relative to the repository's folder.
    pub(crate) path: Box<str>,
    pub(crate) stamp: Stamp,
    /// The content's hash.
    pub(crate) content: u64,
    pub(crate) declared: Vec<Declared>,
}

pub(crate) fn content_hash(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The declarations in the source files of a repository.
#[derive(Debug, Default)]
pub struct Outline {
    files: Vec<FileOutline>,
    /// The places of each name.
    names: HashMap<Box<str>, Vec<Spot>>,
    /// The places of the names that contain each word, in names of several words.
    words: HashMap<Box<str>, Vec<Spot>>,
    /// The number of declared names.
    declared: usize,
    /// Whether a limit left files out.
    pub coverage: Coverage,
}

/// How much of a repository was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coverage {
    #[default]
    Whole,
    /// A limit was reached.
    Part,
}

/// A declared name: the index of its file, and its index in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Spot {
    file: u32,
    at: u32,
}

impl Outline {
    pub(crate) fn of(mut files: Vec<FileOutline>, coverage: Coverage) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut outline = Self { coverage, ..Self::default() };
        for (file, outlined) in (0_u32..).zip(&files) {
            for (at, declared) in (0_u32..).zip(&outlined.declared) {
                let spot = Spot { file, at };
                outline.declared += 1;
                outline.names.entry(declared.name.clone()).or_default().push(spot);
                let words = related::words_of_name(&declared.name);
                if words.len() > 1 {
                    for word in words {
                        outline.words.entry(word.into()).or_default().push(spot);
                    }
                }
            }
        }
        outline.files = files;
        outline
    }

    /// An outline of texts, each with its path.
    pub fn of_texts<'t>(texts: impl Iterator<Item = (&'t str, &'t str)>) -> Self {
        let files = texts.filter_map(|(path, text)| {
            let declared = declared::declared(text.as_bytes(), Language::of(path)?);
            let stamp = Stamp { written: None, bytes: text.len() as u64 };
            Some(FileOutline { path: path.into(), stamp, content: content_hash(text.as_bytes()), declared })
        });
        Self::of(files.collect(), Coverage::Whole)
    }

    pub fn files(&self) -> usize {
        self.files.len()
    }

    pub fn names(&self) -> usize {
        self.declared
    }

    /// Returns the declarations of a file, in order. The path is relative to the repository's folder, or the end of
    /// such a path.
    pub fn of_file(&self, path: &str) -> Vec<Declaration> {
        let path = path.trim_start_matches("./");
        let is_it = |file: &&FileOutline| Path::new(&*file.path).ends_with(path);
        let exact = self.files.iter().find(|file| &*file.path == path);
        let Some(file) = exact.or_else(|| self.files.iter().find(is_it)) else { return Vec::new() };
        file.declared.iter().map(|declared| place(file, declared)).collect()
    }

    fn at(&self, spot: Spot) -> Option<(&FileOutline, &Declared)> {
        let file = self.files.get(spot.file as usize)?;
        Some((file, file.declared.get(spot.at as usize)?))
    }

    fn file(&self, path: &str) -> Option<&FileOutline> {
        self.files.binary_search_by(|file| (*file.path).cmp(path)).ok().and_then(|at| self.files.get(at))
    }
}

fn place(file: &FileOutline, declared: &Declared) -> Declaration {
    Declaration {
        file: file.path.to_string(),
        line: declared.line,
        kind: declared.kind,
        within: declared.within.to_string(),
        name: declared.name.to_string(),
    }
}

#[cfg(test)]
mod tests;
