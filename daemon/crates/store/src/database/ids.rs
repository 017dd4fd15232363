//! Ids and names in rows and in statements. They belong to a crate that knows no SQL.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql};

use crate::database::bind::Bind;
use crate::database::row::FromRow;
use recall_domain::ids::{
    ActivityId, AgentName, AsideId, BatchId, BranchName, CallId, CommitId, CompactionId, InjectionId, JobId,
    LogSeq, ObservationId, PlanId, ProjectKey, ProjectRow, PromptId, ReceivedTextId, SessionId, SessionRow,
    ShareId, SubagentId, SummaryId, VectorId,
};
use recall_domain::observation::NoteOrigin;
use recall_domain::sync::DeviceId;

macro_rules! newtypes {
    ($($name:ident: $inner:ty),+ $(,)?) => {$(
        impl Bind for $name {
            fn bind(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                self.0.to_sql()
            }
        }

        impl FromRow for $name {
            fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
                <$inner>::from_row(row, first).map($name)
            }

            fn is_there(value: ValueRef<'_>) -> bool {
                <$inner>::is_there(value)
            }
        }
    )+};
}

newtypes! {
    ActivityId: i64,
    AgentName: String,
    AsideId: i64,
    BatchId: i64,
    BranchName: String,
    CallId: String,
    CommitId: String,
    CompactionId: i64,
    DeviceId: String,
    InjectionId: i64,
    JobId: i64,
    LogSeq: i64,
    NoteOrigin: String,
    ObservationId: i64,
    PlanId: i64,
    ProjectKey: String,
    ProjectRow: i64,
    PromptId: String,
    ReceivedTextId: i64,
    SessionId: String,
    ShareId: i64,
    SubagentId: i64,
    SummaryId: i64,
    VectorId: i64,
    SessionRow: i64,
}
