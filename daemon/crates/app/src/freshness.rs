//! Detects that a text may be outdated because the files that it is about changed afterwards.
//!
//! The file's modification time is checked first, which requires no reading. If it is later, the file is searched for
//! the lines that the work behind the text wrote: if all are there, the text holds, and if none is, it does not. The
//! recorded calls contain these lines, so nothing more is stored. Without such lines, the time decides.

use std::time::{Duration, Instant};

use recall_agents::Agents;
use recall_agents::format::tools::patched_files;
use recall_domain::ids::Timestamp;
use recall_domain::mentioned_files::mentioned_files;
use recall_domain::written_lines::{Kept, WrittenLines};
use recall_repository::work_tree::WorkTree;
use recall_store::{Reader, StoreError, WorkOf};

use super::changed_files::mark;

/// The maximum number of files examined per text.
const MOST_FILES: usize = 8;
/// The maximum number of files read per answer.
const MOST_READ: usize = 8;
/// Files are read for one in this many parts of an answer's time: 5 ms of 45.
const OF_ANSWER: u32 = 9;

/// A text, and the work that it came from.
pub(super) struct Dated<'a> {
    pub texts: [&'a str; 2],
    pub at: Timestamp,
    /// Files that the text is about according to its record. Others are named in the text.
    pub modified: &'a [String],
    pub work: Option<WorkOf<'a>>,
}

/// What happened to the files of a text since.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Since {
    /// Files that have changed.
    pub changed: Vec<String>,
    /// Whether a file contains none of the lines any more on which the text depends.
    pub(crate) is_contradicted: bool,
}

/// Compares texts with the files of a work tree.
pub(super) struct Freshness<'a> {
    db: Reader<'a>,
    agents: Agents,
    tree: WorkTree,
    read: usize,
    within: Duration,
    until: Option<Instant>,
}

impl<'a> Freshness<'a> {
    /// Prepares the comparison. `answer_within` is the time limit of the whole answer.
    pub(super) fn new(db: Reader<'a>, agents: Agents, tree: WorkTree, answer_within: Duration) -> Self {
        Self { db, agents, tree, read: 0, within: answer_within / OF_ANSWER, until: None }
    }

    pub(super) fn of(&mut self, text: &Dated<'_>) -> Result<Since, StoreError> {
        let mut files: Vec<&str> = text.modified.iter().map(String::as_str).collect();
        for file in text.texts.into_iter().flat_map(mentioned_files) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        files.truncate(MOST_FILES);
        files.retain(|file| self.tree.has_changed_since(file, text.at));
        let mut since = Since::default();
        for file in files {
            match self.kept(text, file)? {
                Some(Kept::All) => continue,
                Some(Kept::None) => since.is_contradicted = true,
                Some(Kept::Some) | None => {}
            }
            since.changed.push(file.to_owned());
        }
        Ok(since)
    }

    /// Returns how much of the text's lines the file still contains. `None` if unknown, or if there was no time to
    /// check.
    fn kept(&mut self, text: &Dated<'_>, file: &str) -> Result<Option<Kept>, StoreError> {
        let Some((work, path)) = text.work.zip(self.tree.relative(file)) else { return Ok(None) };
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.within);
        if self.read == MOST_READ || Instant::now() > until {
            return Ok(None);
        }
        let mut lines = WrittenLines::default();
        for call in self.db.calls_that_changed(work, mark(path))? {
            let input = call.input.unwrap_or_default();
            // A patch of several files does not say here which lines belong to which file.
            if patched_files(&input).len() > 1 {
                return Ok(None);
            }
            lines.add(&self.agents.spec(&call.agent).action(&call.tool_name, &input, None));
        }
        let lines = lines.named_in(&text.texts.join(" "));
        if lines.is_empty() {
            return Ok(None);
        }
        self.read += 1;
        Ok(self.tree.read(path).and_then(|content| lines.kept_in(&content)))
    }
}
