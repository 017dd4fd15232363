//! Which project a folder is taken for, as `recall doctor` explains it.

use std::path::Path;

use super::{Answer, json, read};
use crate::actors::house::House;
use crate::actors::identity::identify;
use crate::repository;
use crate::server::answers::found::{DoubtedAnswer, IdentityAnswer};

pub(super) fn identity(house: &House, folder: &str) -> Answer {
    let facts = repository::facts(Path::new(folder));
    let identity = read(house, |db| Ok(identify(db, &facts)?))?;
    let doubted = identity.doubted.map(|doubted| DoubtedAnswer {
        remote: doubted.remote,
        project: doubted.project.name,
        project_id: doubted.project.key.0,
    });
    json(&IdentityAnswer { folder: facts.folder, project: identity.name, doubted })
}
