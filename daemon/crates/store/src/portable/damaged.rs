//! Finds rows with unreadable values, as in a damaged or foreign database. Reading such a row returns what can be read
//! (`row.rs`), so nothing else fails. Here the rows are listed so that they can be deleted.

use rusqlite::Row;

use crate::database::row::Cells;
use crate::portable::tables::{Form, RowKind, TABLES, Table, key_of};
use crate::portable::value::is_readable;
use crate::{Reader, SqliteError, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::SessionId;

/// A row and its first unreadable value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRow {
    pub kind: RowKind,
    /// The document to forget; `None` if the row is removed with its session.
    pub document: Option<DocumentKey>,
    pub session: Option<SessionId>,
    pub column: &'static str,
}

impl Reader<'_> {
    /// Returns rows that cannot be read completely, at most `limit`. Reads everything.
    pub fn damaged_rows(self, limit: usize) -> Result<Vec<DamagedRow>, StoreError> {
        let mut found = Vec::new();
        for table in TABLES {
            let mut find = self.0.prepare(&select(table)).map_err(SqliteError)?;
            for row in find.query_map([], |row| damage(table, row)).map_err(SqliteError)? {
                found.extend(row.map_err(SqliteError)?);
                if found.len() >= limit {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }
}

/// Returns the row if it has an unreadable value.
fn damage(table: &Table, row: &Row<'_>) -> rusqlite::Result<Option<DamagedRow>> {
    let unreadable = table.columns.iter().enumerate().find_map(|(number, (column, form))| {
        let is_readable = row.get_ref(number).is_ok_and(|value| is_readable(*form, value));
        (!is_readable).then_some(*column)
    });
    let Some(column) = unreadable else { return Ok(None) };
    let (id, session) = row.cell(table.columns.len())?;
    let document = document_of(table).map(|kind| DocumentKey { kind, row: id });
    Ok(Some(DamagedRow { kind: table.kind, document, session, column: key_of(table, column) }))
}

/// Returns the kind of document by which a person can forget a row.
fn document_of(table: &Table) -> Option<DocumentKind> {
    table.documents.first().map(|(kind, _)| *kind)
}

fn select(table: &Table) -> String {
    let columns: Vec<_> = table.columns.iter().map(|(column, _)| format!("t.{column}")).collect();
    let has_session = table.columns.iter().any(|(_, form)| *form == Form::Session);
    // Rows without their own numbers are named by their session's.
    let id = if table.name == "deliveries" { "0" } else { "t.id" };
    let session = match (has_session, table.name) {
        (true, _) => "(SELECT s.session_id FROM sessions s WHERE s.id = t.session)",
        (false, "sessions") => "t.session_id",
        (false, _) => "NULL",
    };
    format!("SELECT {}, {id}, {session} FROM {} t", columns.join(", "), table.name)
}
