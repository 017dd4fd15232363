//! Writes summaries and plans from the merged state of other machines' sessions.
//!
//! They have no session here. If this machine knows the session, because it recorded or imported it as well, there is
//! one row, and it belongs to this machine. Only the same person's machines can change what this machine has written
//! about its own sessions.

use rusqlite::Connection;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::database::text::Packed;
use crate::forgetting::{CopyOf, forgotten_at, is_forgotten};
use crate::operation::{WriteContext, log};
use crate::sharing::home::{Adopted, Home, home, text};
use crate::sharing::{Known, Share};
use recall_domain::document::DocumentKey;
use recall_domain::ids::{SessionKey, SessionRow};
use recall_domain::sync::fields::{PARTS, session_of};
use recall_domain::sync::item::SharedItem;
use recall_domain::sync::kind::{ItemKind, plan_of, summary_of};

/// Finds the row of this machine's own session.
pub(super) fn adopt(
    db: &Connection,
    share: &Share,
    item: &str,
    known: &mut Known,
) -> Result<Adopted, StoreError> {
    let Some(session) = session_of(&known.item) else { return Ok(Adopted::ToBeWritten) };
    let kind = ItemKind::of(item);
    let found: Option<(i64, i64)> = match kind {
        ItemKind::Summary if summary_of(&session) == item => db.first(
            "SELECT m.id, m.created_at FROM session_summaries m JOIN sessions s ON s.id = m.session
             WHERE s.agent = ?1 AND s.session_id = ?2 AND m.project = ?3",
            params![session.agent.as_str(), session.id.as_str(), share.project.0],
        )?,
        ItemKind::Plan => own_plan(db, share, item, &session)?,
        _ => None,
    };
    let Some((row, at)) = found else { return Ok(Adopted::ToBeWritten) };
    known.row = Some(row);
    let item_made_at = known.item.get(kind.made_at()).as_i64().unwrap_or_default();
    Ok(if at > item_made_at && known.item.removed().is_none() {
        Adopted::AsItIs
    } else {
        Adopted::ToBeWritten
    })
}

/// Finds the plan of this machine's own session with this name. The name is derived from the plan's path, which is
/// not sent.
fn own_plan(
    db: &Connection,
    share: &Share,
    item: &str,
    session: &SessionKey,
) -> Result<Option<(i64, i64)>, StoreError> {
    let plans: Vec<(i64, i64, String)> = db.all(
        "SELECT l.id, l.updated_at, l.path FROM plans l JOIN sessions s ON s.id = l.session
         WHERE s.agent = ?1 AND s.session_id = ?2 AND s.project = ?3 AND l.kind = 'plan'",
        params![session.agent.as_str(), session.id.as_str(), share.project.0],
    )?;
    Ok(plans
        .into_iter()
        .find(|(.., path)| plan_of(session, path) == item)
        .map(|(row, updated_at, _)| (row, updated_at)))
}

/// Whether it was forgotten here with its session, or exists in another project or share.
pub(super) fn is_unwanted(db: &Connection, item: &str, state: &SharedItem) -> Result<bool, StoreError> {
    let Some(session) = session_of(state) else { return Ok(true) };
    if is_forgotten(db, &session)? {
        return Ok(true);
    }
    match ItemKind::of(item) {
        ItemKind::Summary => Ok(forgotten_at(db, CopyOf::Summary(&session))?.is_some()
            || db.one(
                "SELECT EXISTS (SELECT 1 FROM session_summaries WHERE uuid = ?1)
                    OR EXISTS (SELECT 1 FROM session_summaries m JOIN sessions s ON s.id = m.session
                        WHERE s.agent = ?2 AND s.session_id = ?3)",
                params![item, session.agent.as_str(), session.id.as_str()],
            )?),
        _ => db.one("SELECT EXISTS (SELECT 1 FROM plans WHERE uuid = ?1)", [item]),
    }
}

pub(super) fn insert(
    db: &WriteContext<'_>,
    share: &Share,
    item: &str,
    state: &SharedItem,
) -> Result<i64, StoreError> {
    let kind = ItemKind::of(item);
    let (author, device) = (text(state, "author"), text(state, "device"));
    if kind == ItemKind::Plan {
        db.run(
            "INSERT INTO plans (kind, path, title, text, state, created_at, updated_at, share, uuid, author, device)
             VALUES ('plan', '', ?1, ?2, 'approved', ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                text(state, "title"),
                Packed(text(state, "text")),
                state.get("created_at").as_i64(),
                state.get("updated_at").as_i64(),
                share.id,
                item,
                author,
                device
            ],
        )?;
    } else {
        let [request, investigated, learned, completed, next_steps, notes] =
            PARTS.map(|name| text(state, name));
        db.run(
            "INSERT INTO session_summaries (project, title, request, investigated, learned, completed, next_steps, notes,
                    origin, created_at, share, uuid, author, device)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            params![
                share.project.0,
                text(state, "title"),
                request,
                investigated,
                learned,
                completed,
                next_steps,
                notes,
                share.origin_of(state),
                state.get("created_at").as_i64(),
                share.id,
                item,
                author,
                device
            ],
        )?;
    }
    let row = db.last_insert_rowid();
    log(db, DocumentKey { kind: kind.document(), row })?;
    Ok(row)
}

/// Writes the known fields. The row may have fields that the state lacks, because nobody has set them yet.
pub(super) fn update(
    db: &WriteContext<'_>,
    share: &Share,
    kind: ItemKind,
    row: i64,
    state: &SharedItem,
) -> Result<(), StoreError> {
    let key = DocumentKey { kind: kind.document(), row };
    let changed = match home(db, key)? {
        Some(Home::Elsewhere) => write(db, kind, row, state)? + write_author(db, share, kind, row, state)?,
        Some(Home::Here) if share.is_personal => write(db, kind, row, state)?,
        Some(Home::Here) | None => 0,
    };
    if changed > 0 { log(db, key) } else { Ok(()) }
}

/// Writes the texts, into this machine's own rows only if they are older. Returns the number of changed rows.
fn write(db: &Connection, kind: ItemKind, row: i64, state: &SharedItem) -> Result<usize, StoreError> {
    let text_of = |name: &str| state.get(name).as_str();
    let at = state.get(kind.made_at()).as_i64();
    if kind == ItemKind::Plan {
        return db.update(
            "UPDATE plans SET title = ifnull(?2, title), text = ifnull(?3, text), updated_at = ifnull(?4, updated_at)
             WHERE id = ?1 AND (share IS NOT NULL OR updated_at <= ?4)
                AND (title, updated_at, text) IS NOT (ifnull(?2, title), ifnull(?4, updated_at), ifnull(?3, text))",
            params![row, text_of("title"), text_of("text").map(Packed), at],
        );
    }
    let [request, investigated, learned, completed, next_steps, notes] = PARTS.map(text_of);
    db.update(
        "UPDATE session_summaries SET title = ifnull(?2, title), request = ifnull(?3, request),
                investigated = ifnull(?4, investigated), learned = ifnull(?5, learned),
                completed = ifnull(?6, completed), next_steps = ifnull(?7, next_steps), notes = ifnull(?8, notes),
                created_at = ifnull(?9, created_at)
         WHERE id = ?1 AND (share IS NOT NULL OR created_at <= ?9)
            AND (title, request, investigated, learned, completed, next_steps, notes, created_at)
            IS NOT (ifnull(?2, title), ifnull(?3, request), ifnull(?4, investigated), ifnull(?5, learned),
                ifnull(?6, completed), ifnull(?7, next_steps), ifnull(?8, notes), ifnull(?9, created_at))",
        params![
            row,
            text_of("title"),
            request,
            investigated,
            learned,
            completed,
            next_steps,
            notes,
            at
        ],
    )
}

/// Writes the fields that are set once. Two machines that know the same session both set them, and all others keep
/// the same values.
fn write_author(
    db: &Connection,
    share: &Share,
    kind: ItemKind,
    row: i64,
    state: &SharedItem,
) -> Result<usize, StoreError> {
    let (author, device) = (text(state, "author"), text(state, "device"));
    match kind {
        ItemKind::Plan => db.update(
            "UPDATE plans SET author = ?2, device = ?3, created_at = ifnull(?4, created_at)
             WHERE id = ?1 AND (author, device, created_at) IS NOT (?2, ?3, ifnull(?4, created_at))",
            params![row, author, device, state.get("created_at").as_i64()],
        ),
        _ => db.update(
            "UPDATE session_summaries SET author = ?2, device = ?3, origin = ?4
             WHERE id = ?1 AND (author, device, origin) IS NOT (?2, ?3, ?4)",
            params![row, author, device, share.origin_of(state)],
        ),
    }
}

fn is_sharing(db: &Connection) -> Result<bool, StoreError> {
    db.one("SELECT EXISTS (SELECT 1 FROM shares)", [])
}

/// Turns another machine's summary of a session into this machine's own, before this machine writes its summary.
pub(crate) fn claim_summary(db: &Connection, session: SessionRow) -> Result<(), StoreError> {
    if !is_sharing(db)? {
        return Ok(());
    }
    let key: SessionKey = db.one("SELECT agent, session_id FROM sessions WHERE id = ?1", params![session])?;
    db.run(
        "UPDATE session_summaries SET session = ?2, project = (SELECT project FROM sessions WHERE id = ?2), share = NULL,
                uuid = NULL, author = NULL, device = NULL
         WHERE uuid = ?1 AND NOT EXISTS (SELECT 1 FROM session_summaries WHERE session = ?2)",
        params![summary_of(&key), session],
    )
}

/// Does the same for a plan.
pub(crate) fn claim_plan(db: &Connection, session: SessionRow, path: &str) -> Result<(), StoreError> {
    if !is_sharing(db)? {
        return Ok(());
    }
    let key: SessionKey = db.one("SELECT agent, session_id FROM sessions WHERE id = ?1", params![session])?;
    db.run(
        "UPDATE plans SET session = ?2, path = ?3, share = NULL, uuid = NULL, author = NULL, device = NULL
         WHERE uuid = ?1 AND NOT EXISTS (SELECT 1 FROM plans WHERE session = ?2 AND kind = 'plan' AND path = ?3)",
        params![plan_of(&key, path), session, path],
    )
}
