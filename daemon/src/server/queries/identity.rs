//! Which project a folder is taken for, as `recall doctor` explains it.

use std::path::Path;

use recall_protocol::query::Identity;

use super::{Answer, read};
use crate::actors::services::Services;
use crate::app::identity::identify;
use crate::repository;
use crate::server::answers::found::{IdentityAnswer, UnprovenClaimAnswer};

pub(super) fn identity(services: &Services, request: Identity) -> Answer<IdentityAnswer> {
    let facts = repository::facts(Path::new(&request.folder));
    let identity = read(services, |db| Ok(identify(db, &facts)?))?;
    let doubted = identity.doubted.map(|doubted| UnprovenClaimAnswer {
        remote: doubted.remote,
        project: doubted.project.name,
        project_id: doubted.project.key.0,
    });
    Ok(IdentityAnswer { folder: facts.folder, project: identity.name, doubted })
}
