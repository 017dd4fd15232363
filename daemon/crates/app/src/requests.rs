//! The answer type of each request: one table for the daemon and the command line.
//!
//! A [`ReadRequest`] changes nothing; a [`Command`] may. A new request compiles on neither side until it has its row
//! here.

use recall_protocol::query::{
    AgentRemark, Backup, Blame, Captured, Changes, Check, Context, Days, Edit, Entries, Export, Fix, Flush,
    Forget, Friction, Glance, HandOver, Handoff, How, Identity, Improvable, Improve, Improving, Jobs, Mark,
    OpenGateway, Outline, Pause, PinUp, Ping, Projects, Prune, Query, Reindex, Remember, Restore,
    RestoreBackup, RestoreFrom, Resume, Retry, Review, Search, Session, SessionPage, Sessions, SharePreview,
    Show, Sql, Stats, Status, Stop, SyncState, TakeMemories, TermsPreview, ThreadPage, Threads, Timeline,
    Undo, UndoOf, Unreviewed, Why, Wrong,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answers::TextAnswer;
use super::answers::browsing::{
    DaysAnswer, EntriesAnswer, ProjectsAnswer, ReviewAnswer, ThreadsAnswer, UnreviewedAnswer,
};
use super::answers::by_hand::{ChangesAnswer, ForgetAnswer, UndoAnswer};
use super::answers::found::{
    ContextAnswer, IdentityAnswer, ObservationAnswer, RememberedAnswer, SearchAnswer, ShownItem, TimelineItem,
};
use super::answers::friction::FrictionAnswer;
use super::answers::handoff::{HandedOverAnswer, HandoffAnswer};
use super::answers::improving::{ImprovableAnswer, ImproveAnswer, ImprovingAnswer};
use super::answers::outline::PlaceAnswer;
use super::answers::past_work::{InvocationAnswer, MetAnswer, TouchAnswer};
use super::answers::portable::{ExportAnswer, MemoriesAnswer, RestoreAnswer};
use super::answers::session::{self, CapturedAnswer, SessionAnswer, SessionsAnswer};
use super::answers::sharing::{PreviewAnswer, SyncAnswer};
use super::answers::status::{
    CaptureAnswer, FlushAnswer, GatewayAnswer, GlanceAnswer, JobsAnswer, PingAnswer, RetryAnswer,
    StatsAnswer, StatusAnswer, StopAnswer,
};

use super::answers::injection_uses::WrongAnswer;
use super::answers::upkeep::{BackupAnswer, CheckAnswer, ReindexAnswer, RestoreBackupAnswer, SqlAnswer};

/// A request, with the type of its answer.
pub trait Request: Into<Query> {
    type Response: Serialize + DeserializeOwned + Send + 'static;
}

/// A request that changes nothing.
pub trait ReadRequest: Request {}

/// A request that may change stored data or the daemon's state.
pub trait Command: Request {}

macro_rules! requests {
    ($effect:ident: $($request:ty => $response:ty,)+) => {
        $(impl Request for $request {
            type Response = $response;
        }
        impl $effect for $request {})+
    };
}

requests! { ReadRequest:
    Ping => PingAnswer,
    Status => StatusAnswer,
    Sessions => SessionsAnswer,
    SessionPage => SessionsAnswer,
    Session => SessionAnswer,
    Jobs => JobsAnswer,
    Stats => StatsAnswer,
    Search => SearchAnswer,
    Show => TextAnswer<ShownItem>,
    Timeline => TextAnswer<TimelineItem>,
    Context => ContextAnswer,
    Why => session::Why,
    Identity => IdentityAnswer,
    Sql => SqlAnswer,
    Check => CheckAnswer,
    Captured => CapturedAnswer,
    Export => ExportAnswer,
    Changes => ChangesAnswer,
    Glance => GlanceAnswer,
    Days => DaysAnswer,
    Entries => EntriesAnswer,
    Projects => ProjectsAnswer,
    Threads => ThreadsAnswer,
    ThreadPage => ThreadsAnswer,
    Improvable => ImprovableAnswer,
    Improving => ImprovingAnswer,
    How => TextAnswer<InvocationAnswer>,
    Fix => TextAnswer<MetAnswer>,
    Blame => TextAnswer<TouchAnswer>,
    Handoff => HandoffAnswer,
    Friction => TextAnswer<FrictionAnswer>,
    Outline => TextAnswer<PlaceAnswer>,
    Unreviewed => UnreviewedAnswer,
}

requests! { Command:
    Flush => FlushAnswer,
    Stop => StopAnswer,
    Pause => CaptureAnswer,
    Resume => CaptureAnswer,
    Retry => RetryAnswer,
    Forget => ForgetAnswer,
    Remember => RememberedAnswer,
    AgentRemark => TextAnswer<ObservationAnswer>,
    Mark => TextAnswer<ObservationAnswer>,
    Restore => RestoreAnswer,
    RestoreFrom => RestoreAnswer,
    Backup => BackupAnswer,
    RestoreBackup => RestoreBackupAnswer,
    Prune => ForgetAnswer,
    Reindex => ReindexAnswer,
    Edit => TextAnswer<ObservationAnswer>,
    PinUp => TextAnswer<ObservationAnswer>,
    Undo => UndoAnswer,
    UndoOf => UndoAnswer,
    OpenGateway => GatewayAnswer,
    Improve => ImproveAnswer,
    Wrong => WrongAnswer,
    SharePreview => PreviewAnswer,
    TermsPreview => PreviewAnswer,
    SyncState => SyncAnswer,
    HandOver => HandedOverAnswer,
    Review => ReviewAnswer,
    TakeMemories => MemoriesAnswer,
}
