//! `recall context`: what an agent would be told.

use std::path::Path;

use recall_protocol::query::Context;

use super::given::public_items;
use super::{Answer, blocking, read};
use crate::actors::services::Services;
use crate::app::clock;
use crate::app::context_lookup::ContextRequest;
use crate::app::identity::identify;
use crate::memory::event::{Audience, StartSource};
use crate::memory::file_memory::InjectedSet;
use crate::memory::ids::{ProjectKey, ProjectRow, Timestamp};
use crate::memory::session::Ask;
use crate::project_file::Captured;
use crate::repository;
use crate::repository::refs::WorkLocation;
use crate::server::answers::TextAnswer;
use crate::server::answers::found::{ContextAnswer, Silence};
use crate::store::{self, ProjectInfo, StoreError};

pub(super) async fn context(services: &Services, request: Context) -> Answer<ContextAnswer> {
    let Context { cwd, prompt } = request;
    let ingest = &services.ingest;
    let silent = match ingest.pauses.current(clock::now()) {
        Some(_) => Some(Silence::Paused),
        None => {
            (ingest.capture_rules.rules(&cwd).await.captured == Captured::No).then_some(Silence::Excluded)
        }
    };
    if silent.is_some() {
        let block = TextAnswer { text: String::new(), tokens: 0, items: Vec::new() };
        return Ok(ContextAnswer { block, silent });
    }
    let services = services.clone();
    blocking(move || context_in(&services, &cwd, prompt)).await
}

fn context_in(services: &Services, cwd: &str, prompt: Option<String>) -> Answer<ContextAnswer> {
    let facts = repository::facts(Path::new(cwd));
    let (identity, known) = services.readers.read(|db| {
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
    let place = WorkLocation::at(Path::new(cwd));
    let context_request = ContextRequest {
        project,
        session: None,
        injected: InjectedSet::default(),
        last_event: Timestamp(0),
        place,
    };
    let ask = prompt.map_or(Ask::Start(StartSource::Startup, Audience::Nobody), Ask::Prompt);
    let block = services.context_lookup.recall(&ask, &context_request)?.block;
    let items = serde_json::to_string(&block.items).map_err(StoreError::from)?;
    let items = read(services, |db| Ok(public_items(db, &items, clock::now())?))?;
    let block = TextAnswer { text: block.text, tokens: block.tokens, items };
    Ok(ContextAnswer { block, silent: None })
}
