//! `recall import memories`: stores the notes that an agent keeps as its own memory.

use std::path::{Path, PathBuf};

use recall_protocol::privacy::strip_text;
use recall_protocol::query::{AgentNote, MemoryStep, TakeMemories};
use recall_protocol::wire::ErrorKind;
use sha2::{Digest, Sha256};

use super::CommandContext;
use super::by_hand::{RemarkProject, not_written, unanswered};
use crate::answers::portable::MemoriesAnswer;
use crate::clock;
use crate::ports::{Ports, Writer};
use crate::queries::{Answer, Refused};
use recall_domain::ids::Timestamp;
use recall_domain::observation::NoteOrigin;
use recall_repository::project_file::Captured;
use recall_store::{KeepMemories, MemoryNote, Write};

/// Replaces the stored notes of an agent's own memory about a project with these.
pub async fn take_memories(
    context: &CommandContext<impl Ports>,
    request: TakeMemories,
) -> Answer<MemoriesAnswer> {
    if !Path::new(&request.folder).is_absolute()
        || context.context_lookup.agents.named(&request.agent).is_none()
    {
        return Err(Refused::new(
            ErrorKind::Invalid,
            "The request lacks a known agent or an absolute folder",
            "Use `recall import memories`.",
        ));
    }
    let given = request.notes.len() as u64;
    let capture_rules = &context.ingest.capture_rules;
    let files: Vec<String> = request.notes.iter().map(|note| note.file.clone()).collect();
    let rules = capture_rules.event_rules(vec![PathBuf::from(&request.folder)], files).await;
    let (asked, folder) = (context.clone(), request.folder.clone());
    let at_home = tokio::task::spawn_blocking(move || RemarkProject::of(&asked, &folder));
    let RemarkProject { project, project_name, .. } = at_home.await.map_err(|_| unanswered())??;
    let is_excluded = rules.captured() == Captured::No
        || capture_rules.excludes_project(&project_name)
        || project.iter().any(|key| capture_rules.excludes_project(&key.0));
    if is_excluded {
        return Ok(MemoriesAnswer { left_out: given, ..MemoriesAnswer::default() });
    }
    let origin = NoteOrigin::imported(&request.agent);
    let redactor = context.ingest.redactor.get();
    let key = project.first().map(|key| key.0.clone()).unwrap_or_default();
    let of_project = format!("{origin}\n{key}");
    let notes = request.notes.into_iter().filter(|note| {
        let is_elsewhere = rules.elsewhere.contains(&note.file);
        !is_elsewhere && !rules.hides(&note.file)
    });
    let notes: Vec<AgentNote> = notes.collect();
    let cleaned = tokio::task::spawn_blocking(move || {
        let clean = |text: &str| redactor.redact_text(&strip_text(text).text).trim().to_owned();
        let cleaned = notes.into_iter().map(|note| {
            let (text, heading, file) = (clean(&note.text), clean(&note.heading), clean(&note.file));
            let uuid = uuid_of([&of_project, &file, &heading, &text]);
            MemoryNote { uuid, file, heading, text, at: Timestamp(note.at_ms) }
        });
        cleaned.filter(|note| !note.text.is_empty()).collect::<Vec<_>>()
    });
    let mut notes = cleaned.await.map_err(|_| unanswered())?;
    let mut known = std::collections::HashSet::new();
    notes.retain(|note| known.insert(note.uuid.clone()));
    let left_out = given - notes.len() as u64;
    let write = match request.step {
        MemoryStep::Preview => Write::Nothing,
        MemoryStep::Store => Write::All,
    };
    let kept = KeepMemories { project, project_name, origin, notes, write, at: clock::now() };
    let changes = context.ports.writer().write(kept).await.map_err(not_written)?;
    Ok(MemoriesAnswer {
        added: changes.added,
        kept: changes.kept,
        replaced: changes.replaced,
        resolved: changes.resolved,
        forgotten: changes.forgotten,
        left_out,
    })
}

/// Returns the uuid of a note, which is the same whenever the same words are at the same place.
fn uuid_of(parts: [&str; 4]) -> String {
    let hash = Sha256::digest(parts.join("\n\n"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}
