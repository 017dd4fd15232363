//! Answers queries from the socket through [`recall_app::queries`] and [`recall_app::commands`]. Queries that need
//! actors are handled here.

use recall_protocol::query::{
    AgentRemark, Backup, Captured, Context, Edit, Flush, Forget, Glance, HandOver, Improvable, Improve, Mark,
    OpenGateway, Pause, PinUp, Ping, Prune, Query, Reindex, Remember, Restore, RestoreBackup, RestoreFrom,
    Resume, Retry, Review, SharePreview, Sql, Status, Stop, SyncState, TakeMemories, TermsPreview, Undo,
    UndoOf, Wrong,
};
use recall_protocol::wire::{ErrorKind, Reply};

use super::connection_context::ConnectionContext;
use super::gateway::GatewayError;
use super::http;
use crate::actors::services::Services;
use recall_app::answers::status::{PingAnswer, StopAnswer};
use recall_app::commands::by_hand::{Switch, mark, remember, remember_for_agent, switch_capture};
use recall_app::commands::editing::{changes, edit, pin, undo, undo_of};
use recall_app::commands::forget::forget;
use recall_app::commands::handoff::hand_over;
use recall_app::commands::improve::improve;
use recall_app::commands::memories::take_memories;
use recall_app::commands::restore::{restore, restore_from};
use recall_app::commands::retry::retry;
use recall_app::commands::review::{review, unreviewed};
use recall_app::commands::upkeep::{backup, prune, reindex, restore_backup};
use recall_app::commands::wrong::wrong;
use recall_app::context_lookup::ContextLookup;
use recall_app::queries::browsing::{days, entries, project_list, thread_page, threads};
use recall_app::queries::captured::captured;
use recall_app::queries::context::context;
use recall_app::queries::export::export;
use recall_app::queries::friction::friction;
use recall_app::queries::glance::glance;
use recall_app::queries::handoff::handoff;
use recall_app::queries::identity::identity;
use recall_app::queries::improving::{improvable, improving};
use recall_app::queries::jobs::{jobs, stats};
use recall_app::queries::outline::outline;
use recall_app::queries::past_work::{blame, fix, how};
use recall_app::queries::search::search;
use recall_app::queries::session::{session, session_page, sessions};
use recall_app::queries::show::show;
use recall_app::queries::sql::{check, sql};
use recall_app::queries::timeline::timeline;
use recall_app::queries::why::why;
use recall_app::queries::{Answer, Refused, blocking};
use recall_app::requests::{Command, ReadRequest, Request};
use recall_app::sharing::preview::{preview, terms_preview};
use recall_domain::ids::{JobId, Timestamp};

pub mod flush;
pub(super) mod status;
mod sync;

use flush::flush;
use status::status;
use sync::sync_state;

/// Answers a query. Never fails: a refusal is also an answer.
pub async fn answer(query: Query, connection: &ConnectionContext) -> Reply {
    let services = &connection.services;
    let commands = || services.commands();
    match query {
        Query::Ping(Ping) => read_reply::<Ping>(Ok(PingAnswer {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
        })),
        Query::Status(Status) => read_reply::<Status>(status(connection).await),
        Query::Context(request) => {
            let answer = context(&services.context_lookup, &services.ingest, request).await;
            read_reply::<Context>(answer)
        }
        Query::Sessions(request) => read_with(services, request, sessions).await,
        Query::SessionPage(request) => read_with(services, request, session_page).await,
        Query::Session(request) => read_with(services, request, session).await,
        Query::Jobs(request) => read_with(services, request, jobs).await,
        Query::Stats(request) => read_with(services, request, stats).await,
        Query::Search(request) => read_with(services, request, search).await,
        Query::Show(request) => read_with(services, request, show).await,
        Query::Timeline(request) => read_with(services, request, timeline).await,
        Query::Why(request) => read_with(services, request, why).await,
        Query::How(request) => read_with(services, request, how).await,
        Query::Fix(request) => read_with(services, request, fix).await,
        Query::Blame(request) => read_with(services, request, blame).await,
        Query::Outline(request) => read_with(services, request, outline).await,
        Query::Friction(request) => read_with(services, request, friction).await,
        Query::Handoff(request) => read_with(services, request, handoff).await,
        Query::HandOver(request) => command_reply::<HandOver>(hand_over(&commands(), request).await),
        Query::Identity(request) => read_with(services, request, identity).await,
        Query::Days(request) => read_with(services, request, days).await,
        Query::Entries(request) => read_with(services, request, entries).await,
        Query::Projects(request) => read_with(services, request, project_list).await,
        Query::Threads(request) => read_with(services, request, threads).await,
        Query::ThreadPage(request) => read_with(services, request, thread_page).await,
        Query::Captured(request) => {
            let (lookup, pauses) = (services.context_lookup.clone(), services.ingest.pauses.clone());
            read_reply::<Captured>(blocking(move || captured(&lookup, &pauses, request)).await)
        }
        Query::Improvable(request) => {
            let (lookup, config) = (services.context_lookup.clone(), services.config.get());
            let reckoned = blocking(move || improvable(&lookup, &config.compression, request)).await;
            read_reply::<Improvable>(reckoned)
        }
        Query::Improving(request) => read_with(services, request, improving).await,
        Query::Improve(request) => {
            let config = services.config.get();
            command_reply::<Improve>(improve(&commands(), &config.compression, request).await)
        }
        Query::Export(request) => read_with(services, request, export).await,
        Query::Restore(request) => command_reply::<Restore>(restore(&commands(), request).await),
        Query::RestoreFrom(request) => command_reply::<RestoreFrom>(restore_from(&commands(), request).await),
        Query::Flush(Flush) => command_reply::<Flush>(flush(services).await.map_err(Refused::from)),
        Query::Stop(Stop) => {
            // If the channel is full, a stop was already requested.
            let _ = connection.stop.try_send(());
            command_reply::<Stop>(Ok(StopAnswer { stopping: true }))
        }
        Query::Pause(Pause { until_ms }) => {
            let switch = Switch::Pause { until: until_ms.map(Timestamp) };
            command_reply::<Pause>(switch_capture(&commands(), switch).await)
        }
        Query::Resume(Resume) => command_reply::<Resume>(switch_capture(&commands(), Switch::Resume).await),
        Query::Retry(Retry { job }) => command_reply::<Retry>(retry(&commands(), job.map(JobId)).await),
        Query::Forget(request) => command_reply::<Forget>(forget(&commands(), request).await),
        Query::Remember(request) => command_reply::<Remember>(remember(&commands(), request).await),
        Query::AgentRemark(request) => {
            command_reply::<AgentRemark>(remember_for_agent(&commands(), request).await)
        }
        Query::Mark(request) => command_reply::<Mark>(mark(&commands(), request).await),
        Query::Edit(request) => command_reply::<Edit>(edit(&commands(), request).await),
        Query::PinUp(request) => command_reply::<PinUp>(pin(&commands(), request).await),
        Query::Unreviewed(request) => read_with(services, request, unreviewed).await,
        Query::Review(request) => command_reply::<Review>(review(&commands(), request).await),
        Query::TakeMemories(request) => {
            command_reply::<TakeMemories>(take_memories(&commands(), request).await)
        }
        Query::Wrong(request) => command_reply::<Wrong>(wrong(&commands(), request).await),
        Query::SharePreview(request) => command_reply::<SharePreview>(preview(&commands(), request).await),
        Query::TermsPreview(request) => {
            command_reply::<TermsPreview>(terms_preview(&commands(), request).await)
        }
        Query::SyncState(request) => command_reply::<SyncState>(sync_state(services, request).await),
        Query::UndoOf(request) => command_reply::<UndoOf>(undo_of(&commands(), request).await),
        Query::Undo(Undo) => command_reply::<Undo>(undo(&commands()).await),
        Query::Changes(request) => read_with(services, request, changes).await,
        Query::Glance(request) => {
            let (lookup, pauses) = (services.context_lookup.clone(), services.ingest.pauses.clone());
            let since = services.ingest.counters.stored_since(connection.started_at.elapsed());
            read_reply::<Glance>(blocking(move || glance(&lookup, &pauses, since, &request)).await)
        }
        Query::Sql(request) => read_reply::<Sql>(sql(&services.context_lookup, request).await),
        Query::Check(request) => read_with(services, request, check).await,
        Query::Backup(request) => command_reply::<Backup>(backup(&commands(), request).await),
        Query::RestoreBackup(request) => {
            command_reply::<RestoreBackup>(restore_backup(&commands(), request).await)
        }
        Query::Prune(request) => command_reply::<Prune>(prune(&commands(), request).await),
        Query::Reindex(Reindex) => command_reply::<Reindex>(reindex(&commands()).await),
        Query::OpenGateway(OpenGateway) => {
            let opened = http::open(connection).await;
            let refused = |error: GatewayError| {
                let hint = "Choose another `gateway.port` in config.toml, or 0 for any free one.";
                Refused::new(ErrorKind::Unavailable, error.to_string(), hint)
            };
            command_reply::<OpenGateway>(opened.map_err(refused))
        }
        // A connection handles this one itself, because it has many answers.
        Query::Follow(_) => {
            let what = "Following events needs a connection of its own";
            refusal(Refused::new(ErrorKind::Invalid, what, ""))
        }
    }
}

/// Answers a request that changes nothing, on a thread that may block.
async fn read_with<R: ReadRequest + Send + 'static>(
    services: &Services,
    request: R,
    handler: fn(&ContextLookup, R) -> Answer<R::Response>,
) -> Reply {
    let lookup = services.context_lookup.clone();
    read_reply::<R>(blocking(move || handler(&lookup, request)).await)
}

fn read_reply<R: ReadRequest>(answer: Answer<R::Response>) -> Reply {
    reply::<R>(answer)
}

fn command_reply<R: Command>(answer: Answer<R::Response>) -> Reply {
    reply::<R>(answer)
}

fn reply<R: Request>(answer: Answer<R::Response>) -> Reply {
    match answer.and_then(|response| serde_json::to_vec(&response).map_err(Refused::from)) {
        Ok(json) => Reply::Json(json),
        Err(refused) => refusal(refused),
    }
}

fn refusal(Refused { kind, what, hint, .. }: Refused) -> Reply {
    Reply::Failed { kind, what, hint }
}
