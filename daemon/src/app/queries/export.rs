//! Exports the memory as lines that another memory can import.

use recall_protocol::query::{Export, ExportFrom};

use super::{Answer, projects, read};
use crate::app::answers::portable::ExportAnswer;
use crate::app::context_lookup::ContextLookup;
use crate::memory::ids::Timestamp;
use crate::store::{self, PageStart, Portion};

/// The approximate size of a part. A frame has room for many times as much.
const BYTES: usize = 1 << 20;

pub fn export(lookup: &ContextLookup, request: Export) -> Answer<ExportAnswer> {
    let from = request
        .from
        .map_or_else(PageStart::default, |from| PageStart { table: from.table, after: from.after });
    read(lookup, |db| {
        let chosen = projects(db, &request.filter)?;
        let portion = Portion {
            projects: chosen.map(|projects| projects.into_iter().map(|project| project.row).collect()),
            since: request.filter.since_ms.map(Timestamp),
        };
        let (lines, next) = store::export_page(db, &portion, from, BYTES)?;
        let next = next.map(|next| ExportFrom { table: next.table, after: next.after });
        Ok(ExportAnswer { lines, next })
    })
}
