//! Where a session runs: its project, and the real folders behind links.

use std::path::{Path, PathBuf};

use recall_app::identity::{Identity, identify};
use recall_domain::event::HookEvent;
use recall_domain::ids::ProjectKey;
use recall_domain::linked_folder::LinkedFolder;
use recall_domain::order::Order;
use recall_domain::project::identifying_folder;
use recall_protocol::wire::Deliver;
use recall_store::{Precedence, ProjectInfo, SessionOrigin, StoreError};

use super::{OriginState, SessionState};

/// The maximum number of folders per session that are checked for links.
const MOST_FOLDERS: usize = 16;

impl SessionState {
    /// Returns where the session runs. The first event decides. An event that was captured earlier but arrives later
    /// causes another lookup, so that the order of arrival does not matter.
    pub(super) async fn origin(
        &mut self,
        event: &HookEvent,
        deliver: &Deliver,
        order: Order,
    ) -> Result<SessionOrigin, StoreError> {
        let mut origin = SessionOrigin {
            cwd: event.cwd.clone(),
            transcript_path: event.transcript_path.clone(),
            place: event.origin.as_deref().map(|origin| Box::new(origin.into())),
            ..SessionOrigin::default()
        };
        match self.loaded.as_ref().map(|loaded| &loaded.origin) {
            Some(OriginState::Stored(decided)) => {
                if !decided.is_some_and(|decided| order.is_before(&decided)) {
                    return Ok(origin);
                }
                origin.precedence = Precedence::Earlier;
            }
            Some(OriginState::Found(found, decided)) => {
                if !order.is_before(decided) {
                    let SessionOrigin { cwd, transcript_path, place, .. } = origin;
                    let precedence = Precedence::Later;
                    return Ok(SessionOrigin { cwd, transcript_path, place, precedence, ..found.clone() });
                }
                origin.precedence = Precedence::Earlier;
            }
            Some(OriginState::Unknown) | None => {}
        }
        let shim = &deliver.context;
        let named = [shim.project_dir.as_deref(), event.cwd.as_deref(), Some(&*shim.cwd)];
        let folder = identifying_folder(&named.map(Option::unwrap_or_default)).to_owned();
        let readers = self.context.context_lookup.readers.clone();
        let look_up = tokio::task::spawn_blocking(move || {
            let facts = recall_repository::facts(Path::new(&folder));
            readers.read(|db| identify(db, &facts)).map(|identity| (identity, facts.folder))
        });
        let (Identity { keys, name, replaced, .. }, root) =
            look_up.await.map_err(|error| StoreError::Unavailable(error.to_string()))??;
        // The store gets the redacted path; the lookup uses the real one.
        let redactor = self.context.redactor.get();
        let redact = |text: &str| redactor.redact_id(text).into_owned();
        origin.project = keys.iter().map(|key| ProjectKey(redact(key.as_str()))).collect();
        (origin.project_name, origin.root) = (redact(&name), Some(redact(&root)));
        if let Some(ProjectInfo { row, name, .. }) = replaced {
            tracing::info!(session = %self.key.id, project = row.0, "the folder now contains another project");
            origin.replaced = Some(name);
        }
        if let Some(loaded) = &mut self.loaded {
            loaded.root = Some(root);
            loaded.origin = OriginState::Found(origin.clone(), order);
        }
        Ok(origin)
    }

    /// Returns the event with real paths of files whose folder the session names by a link. Each folder is checked
    /// once.
    pub(super) async fn with_real_paths(&mut self, mut event: HookEvent, deliver: &Deliver) -> HookEvent {
        let Some(loaded) = &mut self.loaded else { return event };
        let Some(root) = &loaded.root else { return event };
        let shim = &deliver.context;
        let named = [shim.project_dir.as_deref(), event.cwd.as_deref(), Some(&*shim.cwd)];
        for folder in named.into_iter().flatten().filter(|folder| folder.starts_with('/')) {
            if loaded.links.len() >= MOST_FOLDERS || loaded.links.iter().any(|(known, _)| known == folder) {
                continue;
            }
            let path = PathBuf::from(folder);
            let real = tokio::task::spawn_blocking(move || path.canonicalize()).await;
            let redactor = self.context.redactor.get();
            let link = real.ok().and_then(Result::ok).and_then(|real| {
                // Paths in events are redacted.
                let [named, real] =
                    [folder, &*real.to_string_lossy()].map(|path| redactor.redact_id(path).into_owned());
                LinkedFolder::new(&named, &real, root)
            });
            loaded.links.push((folder.to_owned(), link));
        }
        for (_, link) in &loaded.links {
            if let Some(link) = link {
                event = link.with_real_paths(event);
            }
        }
        event
    }
}
