//! The figures of one project, for `recall statusline`.

use std::path::Path;

use recall_protocol::query::Glance;

use super::{Answer, read};
use crate::answers::Moment;
use crate::answers::status::{GlanceAnswer, ReportedAnswer};
use crate::clock;
use crate::context_lookup::ContextLookup;
use crate::identity::project_of;
use crate::pause::PauseSwitch;
use recall_domain::ids::Timestamp;
use recall_store::ProjectNotes;

/// How long an agent counts as reporting, in milliseconds: 30 days.
const LATELY_MS: i64 = 30 * 24 * 3_600_000;

/// `stored_since` is the moment since which everything that the hooks reported is stored.
pub fn glance(
    lookup: &ContextLookup,
    pauses: &PauseSwitch,
    stored_since: Timestamp,
    request: &Glance,
) -> Answer<GlanceAnswer> {
    let since = Timestamp(clock::now().0.saturating_sub(LATELY_MS));
    let (known, reported) = read(lookup, |db| {
        let reported = db.reporting_agents(since)?;
        let Some(project) = project_of(db, Path::new(&request.folder))? else { return Ok((None, reported)) };
        Ok((Some((db.notes_of_project(project.row)?, project.name)), reported))
    })?;
    let reported = reported.into_iter().map(|(agent, at, folder)| ReportedAnswer {
        agent: agent.0,
        at: Moment(at),
        folder,
    });
    let reported = reported.collect();
    let (ProjectNotes { active, open }, project) = match known {
        Some((notes, name)) => (notes, Some(name)),
        None => (ProjectNotes::default(), None),
    };
    let paused = pauses.current(&clock::moment()).is_some();
    let (notes, open) = (active.unsigned_abs(), open.unsigned_abs());
    Ok(GlanceAnswer { project, notes, open, paused, stored_since: Some(Moment(stored_since)), reported })
}
