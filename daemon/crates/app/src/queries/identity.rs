//! The project that a folder belongs to, as `recall doctor` explains it.

use std::path::Path;

use recall_protocol::query::Identity;

use super::{Answer, read};
use crate::answers::found::{IdentityAnswer, UnprovenClaimAnswer};
use crate::context_lookup::ContextLookup;
use crate::identity::identify;

pub fn identity(lookup: &ContextLookup, request: Identity) -> Answer<IdentityAnswer> {
    let facts = recall_repository::facts(Path::new(&request.folder));
    let identity = read(lookup, |db| Ok(identify(db, &facts)?))?;
    let doubted = identity.doubted.map(|doubted| UnprovenClaimAnswer {
        remote: doubted.remote,
        project: doubted.project.name,
        project_id: doubted.project.key.0,
    });
    Ok(IdentityAnswer { folder: facts.folder, project: identity.name, doubted })
}
