//! The cost ledger: model costs per day, project and backend, with reservations for running calls.

use rusqlite::{Connection, Row};

use crate::database::bind::params;
use crate::database::row::{Cells, FromRow, Sql, record};
use crate::operation::{Operation, WriteContext};
use crate::{Reader, StoreError};
use recall_domain::budget::{Assumed, Caps, Charge, Cost, Day, OverCap, ReservationId, Usage};
use recall_domain::ids::ProjectRow;

record! {
/// The cost of one backend on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendingRow from "booked" {
    pub day: Day = "day",
    pub backend: String = "backend",
    pub calls: i64 = "sum(calls)",
    pub usage: Usage = "sum(tokens_in), sum(tokens_out), sum(micro_usd)",
    pub assumed: Assumed = "sum(assumed_calls), sum(assumed_tokens)",
}
}

impl FromRow for Day {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        row.cell(first).map(Self)
    }
}

impl FromRow for Usage {
    const WIDTH: usize = 3;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        FromRow::from_row(row, first).map(|(tokens_in, tokens_out, micro_usd)| Self {
            tokens_in,
            tokens_out,
            micro_usd,
        })
    }
}

impl FromRow for Assumed {
    const WIDTH: usize = 2;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        FromRow::from_row(row, first).map(|(calls, tokens)| Self { calls, tokens })
    }
}

/// Reserves the maximum cost of a call if the daily caps allow it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReserveCost {
    pub charge: Charge,
    pub caps: Caps,
    pub day: Day,
}

impl Operation for ReserveCost {
    type Output = Result<ReservationId, OverCap>;

    fn execute(self, db: &WriteContext<'_>) -> Result<Self::Output, StoreError> {
        let Self { charge, caps, day } = self;
        let all = spent_by(db, &day, None)?;
        let project = spent_by(db, &day, Some(charge.project))?;
        if let Err(cap) = caps.allow(all, project, charge.most) {
            return Ok(Err(cap));
        }
        db.run(
            "INSERT INTO reservations (day, project, backend, job, tokens_in, tokens_out, micro_usd)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                day.0,
                charge.project.0,
                charge.backend,
                charge.job.0,
                number(charge.most.tokens_in),
                number(charge.most.tokens_out),
                number(charge.most.micro_usd),
            ],
        )?;
        Ok(Ok(ReservationId(db.last_insert_rowid())))
    }
}

/// Records the cost of a call. If its reservation is gone, the full amount was already recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettleCost {
    pub reservation: ReservationId,
    pub cost: Cost,
}

impl Operation for SettleCost {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Self { reservation, cost } = self;
        if let Cost::Known(usage) = cost {
            db.run(
                "UPDATE reservations SET tokens_in = ?2, tokens_out = ?3, micro_usd = ?4 WHERE id = ?1",
                params![
                    reservation.0,
                    number(usage.tokens_in),
                    number(usage.tokens_out),
                    number(usage.micro_usd),
                ],
            )?;
        }
        let assumed = match cost {
            Cost::Known(_) => 0,
            Cost::AtMost => 1,
        };
        book(db, "id = ?1", params![reservation.0, assumed])?;
        db.run("DELETE FROM reservations WHERE id = ?1", [reservation.0])
    }
}

/// Records the reservations of an ended daemon in full, because the actual cost is unknown. Returns their number.
pub(crate) fn book_abandoned(db: &Connection) -> Result<usize, StoreError> {
    // Deleting from an empty table counts as a change, and the start would wait for the disk.
    if db.one("SELECT EXISTS (SELECT 1 FROM reservations)", [])? {
        book(db, "?1", params![true, 1])?;
        return db.update("DELETE FROM reservations", []);
    }
    Ok(0)
}

/// Moves reservations to the spent amounts. The second parameter marks the cost as assumed (1) or not (0).
fn book(db: &Connection, which: &str, given: impl rusqlite::Params) -> Result<(), StoreError> {
    db.run(&format!(
        "INSERT INTO spending (day, project, backend, calls, tokens_in, tokens_out, micro_usd,
                 assumed_calls, assumed_tokens)
         SELECT day, project, backend, count(*), sum(tokens_in), sum(tokens_out), sum(micro_usd),
         count(*) * ?2,
                sum(tokens_in + tokens_out) * ?2
         FROM reservations WHERE {which} GROUP BY day, project, backend
         ON CONFLICT (day, project, backend) DO UPDATE SET calls = calls + excluded.calls,
                tokens_in = tokens_in + excluded.tokens_in, tokens_out = tokens_out + excluded.tokens_out,
                micro_usd = micro_usd + excluded.micro_usd, assumed_calls = assumed_calls + excluded.assumed_calls,
                assumed_tokens = assumed_tokens + excluded.assumed_tokens"
    ), given)
}

impl Reader<'_> {
    /// Returns the cost of a day so far, including reservations.
    pub fn spent(self, day: &Day) -> Result<Usage, StoreError> {
        spent_by(self.0, day, None)
    }

    /// Returns the cost per backend and day since this day, earliest first. Running calls count with their
    /// reservation.
    pub fn spending(self, since: &Day) -> Result<Vec<SpendingRow>, StoreError> {
        let sql = format!(
            "WITH booked AS (
            SELECT day, backend, calls, tokens_in, tokens_out, micro_usd, assumed_calls, assumed_tokens
            FROM spending WHERE day >= ?1
            UNION ALL
            SELECT day, backend, 1, tokens_in, tokens_out, micro_usd, 0, 0 FROM reservations WHERE day >= ?1)
         {} GROUP BY day, backend ORDER BY day, backend",
            SpendingRow::SELECT
        );
        self.0.all(&sql, [&since.0])
    }
}

fn spent_by(db: &Connection, day: &Day, project: Option<ProjectRow>) -> Result<Usage, StoreError> {
    db.one(
        "SELECT ifnull(sum(tokens_in), 0), ifnull(sum(tokens_out), 0), ifnull(sum(micro_usd), 0) FROM (
            SELECT tokens_in, tokens_out, micro_usd FROM spending WHERE day = ?1 AND (?2 IS NULL OR
            project = ?2)
            UNION ALL
            SELECT tokens_in, tokens_out, micro_usd FROM reservations WHERE day = ?1 AND (?2 IS NULL OR project = ?2))",
        params![day.0, project],
    )
}

/// Converts to SQLite's signed integers. Larger values are capped, far above any cost limit, so that sums do not
/// overflow.
fn number(value: u64) -> i64 {
    const MOST: i64 = 1 << 50;
    i64::try_from(value).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Changes, ReleaseLeases, empty_database, execute};
    use recall_domain::ids::JobId;

    struct Book {
        db: Connection,
        _home: tempfile::TempDir,
    }

    impl Book {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let db = empty_database(home.path());
            Self { db, _home: home }
        }

        fn reserve(
            &self,
            project: i64,
            tokens: u64,
            caps: Caps,
            day: &str,
        ) -> Result<ReservationId, OverCap> {
            let charge = Charge {
                job: JobId(1),
                project: ProjectRow(project),
                backend: "openai:m".to_owned(),
                most: Usage { tokens_in: tokens, tokens_out: 0, micro_usd: tokens },
            };
            let write = ReserveCost { charge, caps, day: Day(day.to_owned()) };
            execute(&self.db, write, &mut Changes::default()).unwrap()
        }

        fn spent(&self, day: &str) -> u64 {
            Reader(&self.db).spent(&Day(day.to_owned())).unwrap().tokens()
        }
    }

    const MONDAY: &str = "2031-05-19";
    const TUESDAY: &str = "2031-05-20";

    #[test]
    fn a_day_never_exceeds_its_token_cap_and_the_next_starts_at_zero() {
        let book = Book::new();
        let caps = Caps { tokens: 100, ..Caps::default() };
        let first = book.reserve(1, 60, caps, MONDAY).unwrap();
        assert_eq!(book.reserve(1, 60, caps, MONDAY), Err(OverCap::Tokens));
        let cost = Usage { tokens_in: 10, tokens_out: 5, micro_usd: 7 };
        execute(
            &book.db,
            SettleCost { reservation: first, cost: Cost::Known(cost) },
            &mut Changes::default(),
        )
        .unwrap();
        assert_eq!(book.spent(MONDAY), 15);
        // Settling twice has no further effect.
        execute(
            &book.db,
            SettleCost { reservation: first, cost: Cost::Known(cost) },
            &mut Changes::default(),
        )
        .unwrap();
        assert_eq!(book.spent(MONDAY), 15);
        assert!(book.reserve(2, 85, caps, MONDAY).is_ok());
        assert_eq!(book.reserve(2, 1, caps, MONDAY), Err(OverCap::Tokens));
        assert!(book.reserve(2, 100, caps, TUESDAY).is_ok());
    }

    #[test]
    fn a_call_of_unknown_cost_is_booked_at_its_maximum_and_counted_apart() {
        let book = Book::new();
        let [known, unknown] = [60, 40].map(|most| book.reserve(1, most, Caps::default(), MONDAY).unwrap());
        let cost = Usage { tokens_in: 10, tokens_out: 5, micro_usd: 7 };
        for (reservation, cost) in [(known, Cost::Known(cost)), (unknown, Cost::AtMost)] {
            execute(&book.db, SettleCost { reservation, cost }, &mut Changes::default()).unwrap();
        }
        let rows = Reader(&book.db).spending(&Day(MONDAY.to_owned())).unwrap();
        let expected = SpendingRow {
            day: Day(MONDAY.to_owned()),
            backend: "openai:m".to_owned(),
            calls: 2,
            usage: Usage { tokens_in: 50, tokens_out: 5, micro_usd: 47 },
            assumed: Assumed { calls: 1, tokens: 40 },
        };
        assert_eq!(rows, [expected]);
    }

    #[test]
    fn each_project_has_its_own_cap() {
        let book = Book::new();
        let caps = Caps { project_tokens: 50, ..Caps::default() };
        assert!(book.reserve(1, 50, caps, MONDAY).is_ok());
        assert_eq!(book.reserve(1, 1, caps, MONDAY), Err(OverCap::ProjectTokens));
        assert!(book.reserve(2, 50, caps, MONDAY).is_ok());
    }

    #[test]
    fn reservations_of_a_dead_daemon_count_as_spent() {
        let book = Book::new();
        let open = book.reserve(1, 40, Caps::default(), MONDAY).unwrap();
        book.reserve(1, 30, Caps::default(), MONDAY).unwrap();
        execute(&book.db, ReleaseLeases, &mut Changes::default()).unwrap();
        execute(&book.db, ReleaseLeases, &mut Changes::default()).unwrap();
        execute(&book.db, SettleCost { reservation: open, cost: Cost::AtMost }, &mut Changes::default())
            .unwrap();
        assert_eq!(book.spent(MONDAY), 70);
        let rows = Reader(&book.db).spending(&Day(MONDAY.to_owned())).unwrap();
        assert_eq!((rows.len(), rows[0].calls), (1, 2));
        assert_eq!(rows[0].assumed, Assumed { calls: 2, tokens: 70 });
        let left: i64 = book.db.query_row("SELECT count(*) FROM reservations", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
    }
}
