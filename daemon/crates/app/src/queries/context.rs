//! `recall context`: the context that an agent would receive.

use std::path::Path;

use recall_protocol::query::{Context, Filter};
use recall_protocol::wire::ErrorKind;

use crate::answers::TextAnswer;
use crate::answers::found::{ContextAnswer, Silence};
use crate::clock;
use crate::context_lookup::{ContextLookup, ContextReply, ContextRequest};
use crate::identity::identify;
use crate::ingest::Ingest;
use crate::queries::given::public_items;
use crate::queries::{Answer, Refused, blocking, projects, read};
use recall_domain::event::{Audience, StartSource};
use recall_domain::file_memory::InjectedSet;
use recall_domain::ids::{ProjectKey, ProjectRow, Timestamp};
use recall_domain::review::Injectable;
use recall_domain::session::ContextAsk;
use recall_repository::project_file::Captured;
use recall_repository::refs::WorkLocation;
use recall_store::{ProjectInfo, StoreError, Unreviewed};

pub async fn context<P>(
    lookup: &ContextLookup,
    ingest: &Ingest<P>,
    request: Context,
) -> Answer<ContextAnswer> {
    let Context { cwd, prompt } = request;
    let cwd = folder(lookup, cwd).await?;
    let silent = match ingest.pauses.current(&clock::moment()) {
        Some(_) => Some(Silence::Paused),
        None => {
            (ingest.capture_rules.rules(&cwd).await.captured == Captured::No).then_some(Silence::Excluded)
        }
    };
    if silent.is_some() {
        let block = TextAnswer { text: String::new(), tokens: 0, items: Vec::new() };
        return Ok(ContextAnswer { block, silent, decision: None, unreviewed: None });
    }
    let lookup = lookup.clone();
    blocking(move || context_in(&lookup, &cwd, prompt)).await
}

/// Returns a folder as given. For a project's name, the folder where it was last worked on.
async fn folder(lookup: &ContextLookup, given: String) -> Answer<String> {
    if Path::new(&given).is_absolute() {
        return Ok(given);
    }
    let lookup = lookup.clone();
    let find = move || {
        read(&lookup, |db| {
            let named = Filter { project: Some(given.clone()), ..Filter::default() };
            let mut root = None;
            for project in projects(db, &named)?.unwrap_or_default() {
                root = root.or(db.latest_root(project.row)?);
            }
            root.ok_or_else(|| {
                let what = format!("recall knows no folder of the project {given:?}");
                Refused::new(ErrorKind::NotFound, what, "Give the folder instead.")
            })
        })
    };
    blocking(find).await
}

fn context_in(lookup: &ContextLookup, cwd: &str, prompt: Option<String>) -> Answer<ContextAnswer> {
    let facts = recall_repository::facts(Path::new(cwd));
    let (identity, known) = lookup.readers.read(|db| {
        let identity = identify(db, &facts)?;
        let known = db.find_project(&identity.keys)?;
        Ok((identity, known))
    })?;
    let unreviewed = known.as_ref().map(|project| unreviewed(lookup, project.row)).transpose()?.flatten();
    // A project without sessions has an empty context, which is an answer and not an error.
    let project = known.unwrap_or_else(|| ProjectInfo {
        row: ProjectRow(0),
        key: identity.keys.into_iter().next().unwrap_or_else(|| ProjectKey(String::new())),
        name: identity.name,
    });
    let place = WorkLocation::at(Path::new(cwd));
    let context_request = ContextRequest {
        // A limit that suits every agent.
        cap: lookup.agents.cap(),
        project,
        session: None,
        agent: None,
        injected: InjectedSet::default(),
        last_event: Timestamp(0),
        place,
        replaced: None,
    };
    let ask = prompt.map_or(ContextAsk::Start(StartSource::Startup, Audience::Nobody), ContextAsk::Prompt);
    let ContextReply { block, decision, .. } = lookup.look_up(&ask, &context_request)?;
    let items = serde_json::to_string(&block.items).map_err(StoreError::from)?;
    let items = read(lookup, |db| Ok(public_items(db, &items, clock::now())?))?;
    let block = TextAnswer { text: block.text, tokens: block.tokens, items };
    Ok(ContextAnswer { block, silent: None, decision: decision.map(Into::into), unreviewed })
}

/// Returns how many observations of a project are not injected because nobody has reviewed them. `None` if review is
/// not required.
fn unreviewed(lookup: &ContextLookup, project: ProjectRow) -> Result<Option<u64>, Refused> {
    if lookup.settings.context().injectable == Injectable::Everything {
        return Ok(None);
    }
    let which =
        Unreviewed { projects: Some(vec![project]), from: Timestamp(i64::MIN), until: Timestamp(i64::MAX) };
    read(lookup, |db| Ok(Some(db.count_unreviewed(&which)?)))
}
