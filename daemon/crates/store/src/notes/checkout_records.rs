//! The checkouts in which batches began and ended.

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::operation::{Operation, WriteContext};
use crate::sessions::writes::session_row;
use recall_domain::checkout::Checkout;
use recall_domain::ids::{BranchName, CommitId, SessionKey};
use recall_domain::session::{Seq, Work};

/// The state of the repository in which a session works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckoutRecord {
    pub session: SessionKey,
    pub batches: Vec<(Seq, Work)>,
    pub checkout: Checkout,
}

/// Stores the checkout. The one at a batch's end counts; the one at its beginning is stored only if there is none yet,
/// because lookups may overtake each other. A private batch stores nothing.
impl Operation for CheckoutRecord {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        // The session was forgotten during the lookup.
        let Some(stored) = session_row(db, &self.session)? else { return Ok(()) };
        let Checkout { branch, commit } = &self.checkout;
        let (branch, commit) =
            (branch.as_ref().map(BranchName::as_str), commit.as_ref().map(CommitId::as_str));
        for (seq, work) in &self.batches {
            let set = match work {
                Work::Begins => {
                    "base_commit = ifnull(base_commit, ?4),
                 branch = iif(branch IS NULL AND head_commit IS NULL, ?3, branch),
                 head_commit = iif(branch IS NULL AND head_commit IS NULL, ?4, head_commit)"
                }
                Work::Ends => "branch = ?3, head_commit = ?4",
            };
            let sql = format!(
                "UPDATE prompt_batches SET {set} WHERE session = ?1 AND seq = ?2 AND source <> 'private'"
            );
            db.run(&sql, params![stored.session.0, seq.0, branch, commit])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Changes, empty_database, execute};

    #[test]
    fn a_batch_stores_its_final_checkout_and_a_private_batch_stores_none() {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        db.execute_batch(
            "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0);
             INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
             VALUES (1, 'a', 's', 1, 'active', 1, 0, 0);
             INSERT INTO prompt_batches (session, seq, prompt_number, source, status, opened_at)
             VALUES (1, 1, 1, 'user', 'open', 0), (1, 2, 2, 'user', 'open', 0), (1, 3, 3, 'private', 'open', 0)",
        )
        .unwrap();
        let see = |seq: u32, work: Work, branch: &str, commit: &str| {
            let session = SessionKey { agent: "a".into(), id: "s".into() };
            let checkout = Checkout { branch: Some(branch.into()), commit: Some(commit.into()) };
            let record = CheckoutRecord { session, batches: vec![(Seq(seq), work)], checkout };
            execute(&db, record, &mut Changes::default()).unwrap();
        };
        type Row = (Option<String>, Option<String>, Option<String>);
        let seen = |seq: u32| -> Row {
            let sql = "SELECT branch, head_commit, base_commit FROM prompt_batches WHERE seq = ?1";
            db.query_row(sql, [seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
        };
        let row = |branch: &str, commit: &str, base: &str| -> Row {
            (Some(branch.to_owned()), Some(commit.to_owned()), Some(base.to_owned()))
        };
        see(1, Work::Begins, "main", "1");
        assert_eq!(seen(1), row("main", "1", "1"));
        see(1, Work::Ends, "x", "2");
        assert_eq!(seen(1), row("x", "2", "1"));
        see(2, Work::Ends, "x", "2");
        see(2, Work::Begins, "main", "1");
        assert_eq!(seen(2), row("x", "2", "1"));
        see(3, Work::Begins, "main", "1");
        see(3, Work::Ends, "main", "1");
        assert_eq!(seen(3), (None, None, None));
        see(4, Work::Ends, "nowhere", "1");
    }
}
