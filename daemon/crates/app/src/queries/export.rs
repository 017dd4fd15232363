//! Exports the memory as lines that another memory can import.

use recall_protocol::query::{Export, ExportFrom};

use super::{Answer, projects, read};
use crate::answers::portable::ExportAnswer;
use crate::context_lookup::ContextLookup;
use recall_domain::ids::Timestamp;
use recall_store::{PageStart, Portion};

/// The approximate size of a part in bytes. A frame has room for many times as much.
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
        let (lines, next) = db.export_page(&portion, from, BYTES)?;
        let next = next.map(|next| ExportFrom { table: next.table, after: next.after });
        Ok(ExportAnswer { lines, next })
    })
}
