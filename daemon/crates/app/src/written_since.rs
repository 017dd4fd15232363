//! Tells whether a text may be outdated, because files that it is about were written after it.

use recall_domain::ids::Timestamp;
use recall_domain::mentioned_files::mentioned_files;
use recall_repository::work_tree::WorkTree;

/// The most files of one text that are looked at.
const MOST_FILES: usize = 8;

/// Returns those files that a text is about, by record or by name, and that were written after it.
pub(super) fn written_since(
    tree: &WorkTree,
    modified: &[String],
    texts: [&str; 2],
    at: Timestamp,
) -> Vec<String> {
    let mut files: Vec<&str> = modified.iter().map(String::as_str).collect();
    for file in texts.into_iter().flat_map(mentioned_files) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files.truncate(MOST_FILES);
    files.retain(|file| tree.has_changed_since(file, at));
    files.into_iter().map(str::to_owned).collect()
}
