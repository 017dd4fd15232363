//! The figures of one project for `recall statusline`.

use std::path::Path;

use recall_protocol::query::Glance;

use super::{Answer, read};
use crate::answers::status::GlanceAnswer;
use crate::clock;
use crate::context_lookup::ContextLookup;
use crate::identity::project_of;
use crate::pause::PauseSwitch;
use recall_store::ProjectNotes;

pub fn glance(lookup: &ContextLookup, pauses: &PauseSwitch, request: &Glance) -> Answer<GlanceAnswer> {
    let known = read(lookup, |db| {
        let Some(project) = project_of(db, Path::new(&request.folder))? else { return Ok(None) };
        Ok(Some((db.notes_of_project(project.row)?, project.name)))
    })?;
    let (ProjectNotes { active, open }, project) = match known {
        Some((notes, name)) => (notes, Some(name)),
        None => (ProjectNotes::default(), None),
    };
    let paused = pauses.current(&clock::moment()).is_some();
    Ok(GlanceAnswer { project, notes: active.unsigned_abs(), open: open.unsigned_abs(), paused })
}
