//! How sessions used the items that were injected into them.

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::operation::{Operation, WriteContext};
use crate::{Reader, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{InjectionId, SessionKey, SessionRow, Timestamp};
use recall_domain::used::{Disfavour, FromElsewhere, Occasion, Use};

record! {
/// An injected item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedItemRow from "injections i, json_each(iif(json_valid(i.items), i.items, '[]')) e" {
    pub injection: InjectionId = "i.id",
    pub at: Timestamp = "i.at",
    pub moment: String = "i.moment",
    kind: Option<String> = "json_extract(e.value, '$.kind')",
    row: Option<i64> = "json_extract(e.value, '$.id')",
}
}

impl InjectedItemRow {
    /// The document; `None` for the state of a session, which is derived from its prompts.
    pub fn key(&self) -> Option<DocumentKey> {
        Some(DocumentKey { kind: DocumentKind::parse(self.kind.as_deref()?)?, row: self.row? })
    }
}

impl Reader<'_> {
    /// Returns the items injected into a session, earliest first.
    pub fn injected_items(self, session: SessionRow) -> Result<Vec<InjectedItemRow>, StoreError> {
        self.0.all(&format!("{} WHERE i.session = ?1 ORDER BY i.id", InjectedItemRow::SELECT), [session.0])
    }

    /// Returns the uses of a session's injections: injection, item, use.
    pub fn uses_of_session(
        self,
        session: SessionRow,
    ) -> Result<Vec<(InjectionId, DocumentKey, Use)>, StoreError> {
        let rows: Vec<(InjectionId, String, i64, String)> = self.0.all(
        "SELECT u.injection, u.kind, u.row, u.use FROM injections i CROSS JOIN told_uses u ON u.injection = i.id
         WHERE i.session = ?1 ORDER BY u.injection, u.at",
        [session.0],
    )?;
        Ok(rows
            .into_iter()
            .filter_map(|(injection, kind, row, what)| {
                Some((injection, DocumentKey { kind: DocumentKind::parse(&kind)?, row }, Use::parse(&what)?))
            })
            .collect())
    }

    pub fn injection_use_counts(self, since: Timestamp) -> Result<InjectionUseCounts, StoreError> {
        self.0.one(InjectionUseCounts::SELECT, [since.0])
    }

    /// Returns the strikes against injecting items again. Rewriting an observation clears earlier strikes.
    pub fn disfavour(self) -> Result<Disfavour, StoreError> {
        let db = self.0;
        let rows: Vec<(String, i64, String, String)> = db.all(
            "SELECT u.kind, u.row, u.use, i.moment
         FROM told_uses u INDEXED BY told_uses_against CROSS JOIN injections i ON i.id = u.injection
         WHERE u.use IN ('contradicted', 'wrong')
           AND NOT (u.kind = 'observation' AND EXISTS (SELECT 1 FROM hand_changes h
                WHERE h.observation = u.row AND h.what = 'edit' AND NOT h.undone AND h.author IS NULL AND h.at > u.at))",
            [],
        )?;
        // A machine that shares nothing reads no row here.
        let foreign: Vec<(DocumentKey, bool)> = db.all(
            "SELECT 'observation', o.id, s.inject FROM observations o INDEXED BY observations_of_others
             JOIN shares s ON s.id = o.share WHERE o.share IS NOT NULL
             UNION ALL SELECT 'summary', m.id, s.inject FROM session_summaries m INDEXED BY session_summaries_of_others
             JOIN shares s ON s.id = m.share WHERE m.share IS NOT NULL
             UNION ALL SELECT 'plan', l.id, s.inject FROM plans l INDEXED BY plans_of_others
             JOIN shares s ON s.id = l.share WHERE l.share IS NOT NULL",
            [],
        )?;
        let foreign = foreign.into_iter().map(|(key, injects)| {
            (key, if injects { FromElsewhere::Injectable } else { FromElsewhere::OnlyFound })
        });
        Ok(Disfavour::of(rows.into_iter().filter_map(|(kind, row, what, moment)| {
            let key = DocumentKey { kind: DocumentKind::parse(&kind)?, row };
            Some((key, Occasion::of(&moment), Use::parse(&what)?))
        }))
        .and_from_elsewhere(foreign))
    }
}

/// A use of an injected item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectionUse {
    pub injection: InjectionId,
    pub key: DocumentKey,
    pub what: Use,
    pub at: Timestamp,
}

/// Stores uses. Known ones stay; those of undelivered injections are dropped.
pub(crate) fn keep_uses(db: &Connection, uses: &[InjectionUse]) -> Result<(), StoreError> {
    for InjectionUse { injection, key, what, at } in uses {
        db.run(
            "INSERT OR IGNORE INTO told_uses (injection, kind, row, use, at)
             SELECT id, ?2, ?3, ?4, ?5 FROM injections WHERE id = ?1",
            params![injection, key.kind.as_str(), key.row, what.as_str(), at.0],
        )?;
    }
    Ok(())
}

record! {
/// The number of items injected since a day, and their uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InjectionUseCounts from "told_uses u JOIN injections i ON i.id = u.injection WHERE i.at >= ?1" {
    pub told: u64 = "(SELECT count(*) FROM injections i, json_each(iif(json_valid(i.items), i.items, '[]')) WHERE i.at >= ?1)",
    pub opened: u64 = "count(*) FILTER (WHERE u.use = 'opened')",
    pub followed: u64 = "count(*) FILTER (WHERE u.use = 'followed')",
    pub repeated: u64 = "count(*) FILTER (WHERE u.use = 'repeated')",
    pub contradicted: u64 = "count(*) FILTER (WHERE u.use = 'contradicted')",
    pub wrong: u64 = "count(*) FILTER (WHERE u.use = 'wrong')",
}
}

record! {
/// Where something was injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectionPlace from "injections i JOIN sessions s ON s.id = i.session, json_each(iif(json_valid(i.items), i.items, '[]')) e" {
    injection: InjectionId = "i.id",
    pub session: SessionKey = "s.agent, s.session_id",
    pub at: Timestamp = "i.at",
    pub moment: String = "i.moment",
}
}

/// Records that an item should not have been injected where it last was, or last was in this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkWrong {
    pub key: DocumentKey,
    pub session: Option<SessionRow>,
    pub now: Timestamp,
}

impl Operation for MarkWrong {
    /// `None` if it was never injected.
    type Output = Option<InjectionPlace>;

    fn execute(self, db: &WriteContext<'_>) -> Result<Self::Output, StoreError> {
        let Self { key, session, now } = self;
        let place: Option<InjectionPlace> = db.first(
            &format!(
                "{} WHERE json_extract(e.value, '$.kind') = ?1 AND json_extract(e.value, '$.id') = ?2
                    AND (?3 IS NULL OR i.session = ?3) ORDER BY i.id DESC LIMIT 1",
                InjectionPlace::SELECT
            ),
            params![key.kind.as_str(), key.row, session.map(|session| session.0)],
        )?;
        if let Some(place) = &place {
            keep_uses(db, &[InjectionUse { injection: place.injection, key, what: Use::Wrong, at: now }])?;
        }
        Ok(place)
    }
}

/// Clears all strikes against an item, by persons and by observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClearWrong {
    pub key: DocumentKey,
}

impl Operation for ClearWrong {
    /// The number of cleared strikes.
    type Output = usize;

    fn execute(self, db: &WriteContext<'_>) -> Result<usize, StoreError> {
        db.update(
            "DELETE FROM told_uses WHERE kind = ?1 AND row = ?2 AND use IN ('contradicted', 'wrong')",
            params![self.key.kind.as_str(), self.key.row],
        )
    }
}
