//! `recall context`: what an agent would be told.

use std::path::Path;

use super::given::public_items;
use super::{Answer, blocking, json, read};
use crate::actors::clock;
use crate::actors::house::House;
use crate::actors::identity::identify;
use crate::actors::recollection::Asker;
use crate::memory::event::{Audience, StartSource};
use crate::memory::file_memory::Told;
use crate::memory::ids::{ProjectKey, ProjectRow, Timestamp};
use crate::memory::session::Ask;
use crate::project_file::Captured;
use crate::repository;
use crate::repository::refs::Workplace;
use crate::server::answers::TextAnswer;
use crate::server::answers::found::{ContextAnswer, Silence};
use crate::store::{self, ProjectInfo, StoreError};

pub(super) async fn context(house: &House, cwd: String, prompt: Option<String>) -> Answer {
    let intake = &house.intake;
    let silent = match intake.pauses.current(clock::now()) {
        Some(_) => Some(Silence::Paused),
        None => (intake.boundaries.rules(&cwd).await.captured == Captured::No).then_some(Silence::Excluded),
    };
    if silent.is_some() {
        let block = TextAnswer::<()> { text: String::new(), tokens: 0, items: Vec::new() };
        return json(&ContextAnswer { block, silent });
    }
    let house = house.clone();
    blocking(move || context_in(&house, &cwd, prompt)).await
}

fn context_in(house: &House, cwd: &str, prompt: Option<String>) -> Answer {
    let facts = repository::facts(Path::new(cwd));
    let (identity, known) = house.readers.read(|db| {
        let identity = identify(db, &facts)?;
        let known = store::find_project(db, &identity.keys)?;
        Ok((identity, known))
    })?;
    // A project nobody has worked in has nothing to say, which is an answer.
    let project = known.unwrap_or_else(|| ProjectInfo {
        row: ProjectRow(0),
        key: identity.keys.into_iter().next().unwrap_or_else(|| ProjectKey(String::new())),
        name: identity.name,
    });
    let place = Workplace::at(Path::new(cwd));
    let asker = Asker { project, session: None, told: Told::default(), last_event: Timestamp(0), place };
    let ask = prompt.map_or(Ask::Start(StartSource::Startup, Audience::Nobody), Ask::Prompt);
    let block = house.recollection.recall(&ask, &asker)?.block;
    let items = serde_json::to_string(&block.items).map_err(StoreError::from)?;
    let items = read(house, |db| Ok(public_items(db, &items, clock::now())?))?;
    let block = TextAnswer { text: block.text, tokens: block.tokens, items };
    json(&ContextAnswer { block, silent: None })
}
