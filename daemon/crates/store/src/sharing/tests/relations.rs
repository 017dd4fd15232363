//! Tests that notes replace each other in the same way on all machines.

use super::*;
use crate::notes::results::{ObservationScope, insert};
use crate::notes::subjects::{SubjectHash, aim};
use crate::notes::threads::rethread;
use crate::sessions::lineage::settle;
use recall_domain::ids::ProjectRow;
use recall_domain::subject::of_title;

/// Stores a note, as a compressor does in a session.
struct Find {
    session: SessionRow,
    at: i64,
    title: String,
}

impl Operation for Find {
    type Output = ObservationId;

    fn execute(self, db: &WriteContext<'_>) -> Result<ObservationId, StoreError> {
        let Self { session, at, title } = self;
        let subject = of_title(ObservationType::Decision, &title).map(|subject| SubjectHash::of(&subject));
        let draft = ObservationDraft {
            kind: ObservationType::Decision,
            title,
            subtitle: None,
            narrative: String::new(),
            facts: Vec::new(),
            concepts: Vec::new(),
            files_read: Vec::new(),
            files_modified: Vec::new(),
            importance: Importance::clamped(5),
            evidence: Vec::new(),
            subject: None,
        };
        let project = ProjectRow(1);
        let place = ObservationScope { session: Some(session), batch: None, project, at: Timestamp(at) };
        let id = insert(db, &place, &draft, &NoteOrigin::built_in(), 0)?;
        log_document(db, id)?;
        if let Some(subject) = subject {
            aim(db, id, Some(subject))?;
            settle(db, project, &[subject].into(), Timestamp(at))?;
        }
        rethread(db, project, &[id].into())?;
        Ok(id)
    }
}

fn find(machine: &Machine, session: &str, at: i64, title: &str) -> ObservationId {
    let session = machine.session(session, at);
    machine.write(Find { session, at, title: title.to_owned() })
}

const PER_CUSTOMER: &str = "Invoices are numbered per customer, starting anew each January";
const PER_SHOP: &str = "Invoices are numbered per shop now, not per customer, starting anew each January";

/// Stores one of a few notes that may replace each other. They come from few sessions and few times.
pub(super) fn find_any(machine: &Machine, what: usize, at: i64) {
    let title = [PER_CUSTOMER, PER_SHOP, "Image uploads are limited to 20 megabytes each"][what % 3];
    find(machine, &format!("s{}", what / 3), at, title);
}

/// Returns the status of each note under the uuid that all machines know, and the time of the note that replaced it.
pub(super) fn statuses(machine: &Machine) -> Vec<String> {
    machine
        .db
        .all(
            "SELECT o.uuid || ' ' || o.title || ' ' || o.created_at || ' ' || o.status || ' ' || ifnull(n.created_at, '')
             FROM observations o LEFT JOIN observations n ON n.id = o.superseded_by ORDER BY o.uuid",
            [],
        )
        .unwrap()
}

const INJECTING: ShareTerms = ShareTerms { injects: true, ..TEAM };

#[test]
fn a_newer_note_supersedes_an_older_one_in_any_order_of_delivery() {
    let (a, b) = (Machine::sharing('a', INJECTING), Machine::sharing('b', INJECTING));
    find(&a, "s1", 10, PER_CUSTOMER);
    find(&b, "s2", 20, PER_SHOP);
    let (c, d) = (Machine::sharing('c', INJECTING), Machine::sharing('d', INJECTING));
    c.pull(&a);
    c.pull(&b);
    d.pull(&b);
    d.pull(&a);
    let logged = (a.log().len(), b.log().len());
    a.exchange(&b);
    let of_all = [&a, &b, &c, &d].map(statuses);
    assert!(of_all.iter().all(|statuses| *statuses == of_all[0]), "{of_all:?}");
    assert!(
        of_all[0]
            .iter()
            .any(|note| note.contains("per customer, starting anew each January 10 superseded 20"))
    );
    assert_eq!((a.log().len(), b.log().len()), logged, "no machine tells another");
    assert!(c.log().is_empty() && d.log().is_empty());
    // Without the newer note, the older one holds again.
    b.forget(b.only_titled(PER_SHOP));
    c.pull(&b);
    a.pull(&b);
    for machine in [&a, &b, &c] {
        assert_eq!(machine.notes(), [format!("{PER_CUSTOMER} active")]);
    }
}

#[test]
fn notes_of_one_session_do_not_replace_each_other_on_other_machines() {
    let (a, b) = (Machine::sharing('a', INJECTING), Machine::sharing('b', INJECTING));
    find(&a, "s1", 10, PER_CUSTOMER);
    find(&a, "s1", 20, PER_SHOP);
    b.pull(&a);
    assert!(b.notes().iter().all(|note| note.ends_with("active")), "{:?}", b.notes());
    // This machine has the session too.
    b.session("s1", 20);
    find(&b, "s1", 30, PER_SHOP);
    a.pull(&b);
    for machine in [&a, &b] {
        assert_eq!(machine.notes().iter().filter(|note| note.ends_with("active")).count(), 3);
    }
}

#[test]
fn a_note_that_is_not_injected_replaces_no_injected_note() {
    let (mut a, b) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM));
    find(&a, "s1", 10, PER_CUSTOMER);
    find(&b, "s2", 20, PER_SHOP);
    a.exchange(&b);
    let status = |machine: &Machine| {
        machine.notes().into_iter().find(|note| note.starts_with(PER_CUSTOMER)).unwrap_or_default()
    };
    assert_eq!(status(&a), format!("{PER_CUSTOMER} active"), "sessions would receive neither");
    assert_eq!(status(&b), format!("{PER_CUSTOMER} superseded"));
    a.open(INJECTING);
    assert_eq!(status(&a), format!("{PER_CUSTOMER} superseded"));
    a.open(TEAM);
    assert_eq!(status(&a), format!("{PER_CUSTOMER} active"));
    a.open(INJECTING);
    a.write(CloseShare { share: a.share.unwrap(), at: Timestamp(30) });
    assert_eq!(a.notes(), [format!("{PER_CUSTOMER} active")]);
}

#[test]
fn a_note_edited_by_hand_is_replaced_on_no_machine() {
    let (a, b) = (Machine::sharing('a', INJECTING), Machine::sharing('b', INJECTING));
    let edited = find(&a, "s1", 5, "Something else");
    b.pull(&a);
    a.edit(edited, PER_CUSTOMER);
    find(&b, "s2", 20, PER_SHOP);
    a.exchange(&b);
    let active = [PER_CUSTOMER, PER_SHOP].map(|title| format!("{title} active"));
    for machine in [&a, &b] {
        let mut notes = machine.notes();
        notes.sort();
        assert_eq!(notes, active);
    }
    // The edit is undone, so the note is a compressor's again.
    a.write(UndoChange::NewestOwn);
    find(&a, "s1", 6, PER_CUSTOMER);
    a.exchange(&b);
    assert_eq!(statuses(&a), statuses(&b));
    assert_eq!(a.notes().iter().filter(|note| note.ends_with("superseded")).count(), 1);
}

#[test]
fn the_newer_of_two_notes_on_one_subject_is_active_on_every_machine() {
    let (a, b) = (Machine::sharing('a', INJECTING), Machine::sharing('b', INJECTING));
    let (old, new) = ("The upload limit is 20 megabytes", "The upload limit is 50 megabytes");
    let find_about = |machine: &Machine, session: &str, at: i64, title: &str| {
        let id = find(machine, session, at, title);
        let subject = SubjectHash([7; 16]);
        machine.write(Aim { id, subject, at });
    };
    find_about(&a, "s1", 10, old);
    find_about(&b, "s2", 20, new);
    let c = Machine::sharing('c', INJECTING);
    c.pull(&b);
    c.pull(&a);
    a.exchange(&b);
    for machine in [&a, &b, &c] {
        assert_eq!(statuses(machine), statuses(&a));
        let mut notes = machine.notes();
        notes.sort();
        assert_eq!(notes, [format!("{old} superseded"), format!("{new} active")]);
    }
    // A person lets both notes hold. That decision reaches every machine.
    let both = a.only_titled(old);
    a.mark(both, Validity::Holds);
    a.exchange(&b);
    c.pull(&a);
    for machine in [&a, &b, &c] {
        assert!(machine.notes().iter().all(|note| note.ends_with("active")), "{:?}", machine.notes());
    }
    assert_eq!(a.write(UndoChange::NewestOwn).change().unwrap().what, "reopen");
    a.exchange(&b);
    c.pull(&a);
    for machine in [&a, &b, &c] {
        assert_eq!(statuses(machine), statuses(&a));
        assert!(machine.notes().contains(&format!("{old} superseded")));
    }
}

/// Gives a note a subject, as a compressor does.
struct Aim {
    id: ObservationId,
    subject: SubjectHash,
    at: i64,
}

impl Operation for Aim {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        aim(db, self.id, Some(self.subject))?;
        log_document(db, self.id)?;
        settle(db, ProjectRow(1), &[self.subject].into(), Timestamp(self.at))?;
        rethread(db, ProjectRow(1), &[self.id].into())
    }
}

#[test]
fn a_resolved_note_stays_resolved_when_its_successor_is_forgotten() {
    let (a, b) = (Machine::sharing('a', INJECTING), Machine::sharing('b', INJECTING));
    let id = find(&a, "s1", 10, PER_CUSTOMER);
    a.mark(id, Validity::Resolved);
    b.pull(&a);
    let logged = a.log().len();
    find(&b, "s2", 20, PER_SHOP);
    a.exchange(&b);
    assert_eq!((a.log().len(), statuses(&a)), (logged, statuses(&b)));
    b.forget(b.only_titled(PER_SHOP));
    a.exchange(&b);
    assert_eq!((a.notes(), b.notes()), (vec![format!("{PER_CUSTOMER} resolved")], a.notes()));
}

#[test]
fn notes_received_before_the_daemon_was_killed_are_compared_later() {
    let (a, b) = (Machine::sharing('a', INJECTING), Machine::sharing('b', INJECTING));
    find(&a, "s1", 10, PER_CUSTOMER);
    find(&b, "s2", 20, PER_SHOP);
    let merge = |records: Vec<Logged>| {
        let end = records.last().unwrap().hash.clone();
        a.merge(&b, records.into_iter().map(|logged| logged.record).collect(), end)
    };
    merge(b.log());
    assert_eq!(a.log().len(), 1, "what is not compared yet says nothing of others' notes");
    let waiting = || a.db.one::<u32>("SELECT count(*) FROM sync_uncompared", []).unwrap();
    assert_eq!(waiting(), 1);
    assert!(a.notes().iter().all(|note| note.ends_with("active")), "{:?}", a.notes());
    // The next round brings nothing new.
    assert_eq!(a.pull(&b), Applied::All { new: 0, touched: Vec::new() });
    assert_eq!(waiting(), 0);
    b.pull(&a);
    assert_eq!(statuses(&a), statuses(&b));
    assert!(a.notes().contains(&format!("{PER_CUSTOMER} superseded")));
}

#[test]
fn closing_a_share_reactivates_notes_that_waited_to_be_compared() {
    let (a, b) = (Machine::sharing('a', INJECTING), Machine::sharing('b', INJECTING));
    find(&a, "s1", 10, PER_CUSTOMER);
    find(&b, "s2", 20, PER_SHOP);
    a.pull(&b);
    assert!(a.notes().contains(&format!("{PER_CUSTOMER} superseded")));
    b.forget(b.only_titled(PER_SHOP));
    let log = b.log();
    let end = log.last().unwrap().hash.clone();
    a.merge(&b, log.into_iter().map(|logged| logged.record).collect(), end);
    a.write(CloseShare { share: a.share.unwrap(), at: Timestamp(30) });
    assert_eq!(a.notes(), [format!("{PER_CUSTOMER} active")]);
    assert_eq!(a.db.one::<u32>("SELECT count(*) FROM sync_uncompared", []).unwrap(), 0);
}
