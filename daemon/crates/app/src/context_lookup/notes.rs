//! Stored notes and summaries as candidates for a block.

use std::collections::{BTreeMap, BTreeSet};

use crate::ancestry::BranchContext;
use crate::freshness::{Dated, Freshness};
use recall_compression::alone;
use recall_domain::context::{Note, SummaryNote};
use recall_domain::file_memory::LEAST_IMPORTANCE;
use recall_domain::ids::{ObservationId, ProjectRow, SessionId};
use recall_domain::observation::{Maker, ObservationType, Voice};
use recall_domain::review::Injectable;
use recall_store::{NotesWanted, ObservationRow, Reader, SessionInfo, StoreError, SummaryRow, WorkOf};

/// Types of observations that warn about a file.
const WARNINGS: [ObservationType; 3] =
    [ObservationType::Gotcha, ObservationType::Security, ObservationType::Correction];

/// The maximum number of warnings about one file at a start, newest first.
const WARNINGS_EACH: u32 = 3;

/// The number of files of the branch that are looked up at a start.
const MOST_FILES: usize = 40;

/// Builds a candidate. `None` if the current state of its files contradicts it and no person wrote it.
pub(super) fn noted(
    row: ObservationRow,
    warnings: &BTreeMap<ObservationId, String>,
    branch_context: &BranchContext,
    freshness: Option<&mut Freshness<'_>>,
) -> Result<Option<Note>, StoreError> {
    let (modified, evidence) = (row.files_modified.clone(), row.evidence.clone());
    let mut note = note(row, branch_context);
    note.alone = alone(&note.title);
    note.warns_of = warnings.get(&note.id).cloned();
    // Work on another branch is about other versions of the files.
    if let Some(freshness) = freshness.filter(|_| note.elsewhere.is_none()) {
        let since = freshness.of(&Dated {
            texts: [&note.title, &note.narrative],
            at: note.at,
            modified: &modified,
            work: Some(WorkOf::Events(&evidence)),
        })?;
        if since.is_contradicted && note.maker == Maker::Machine {
            return Ok(None);
        }
        note.changed = since.changed;
    }
    Ok(Some(note))
}

/// Returns warnings about files that the newest work on the reader's branch changed, each with its file. The files
/// come from recall's own records, because a start does not wait for git.
pub(super) fn warnings_of_branch(
    db: Reader<'_>,
    project: ProjectRow,
    injectable: Injectable,
    newest: &[ObservationRow],
    branch_context: &BranchContext,
) -> Result<BTreeMap<ObservationId, String>, StoreError> {
    let on_branch = newest.iter().filter(|row| branch_context.is_own(&row.made_on));
    let files: BTreeSet<&str> = on_branch.flat_map(|row| &row.files_modified).map(String::as_str).collect();
    let wanted =
        NotesWanted { kinds: &WARNINGS, least_importance: LEAST_IMPORTANCE, most: WARNINGS_EACH, injectable };
    let mut warnings = BTreeMap::new();
    for file in files.into_iter().take(MOST_FILES) {
        for row in db.notes_about(project, file, wanted)? {
            warnings.entry(row.id).or_insert_with(|| file.to_owned());
        }
    }
    Ok(warnings)
}

pub(super) fn own_state(
    db: Reader<'_>,
    session: &SessionId,
) -> Result<(Option<SummaryRow>, Option<SessionInfo>), StoreError> {
    match db.find_sessions(session.as_str())?.into_iter().next() {
        Some(info) => Ok((db.summary_of_session(info.row)?, Some(info))),
        None => Ok((None, None)),
    }
}

pub fn note(row: ObservationRow, branch_context: &BranchContext) -> Note {
    Note {
        elsewhere: branch_context.mark(&row.made_on),
        maker: row.maker(),
        id: row.id,
        kind: row.kind,
        title: row.title,
        narrative: row.narrative,
        facts: row.facts,
        importance: row.importance,
        alone: 0,
        voice: Voice::of(row.kind, &row.origin),
        author: row.author,
        is_of_others: row.origin.is_shared(),
        is_pinned: row.is_pinned,
        warns_of: None,
        at: row.created_at,
        changed: Vec::new(),
    }
}

pub(super) fn summary_note(row: SummaryRow, branch_context: &BranchContext) -> SummaryNote {
    SummaryNote {
        elsewhere: branch_context.mark(std::slice::from_ref(&row.made_on)),
        id: row.id.0,
        author: row.author,
        title: row.title,
        request: row.request,
        completed: row.completed,
        learned: row.learned,
        next_steps: row.next_steps,
        at: row.created_at,
    }
}
