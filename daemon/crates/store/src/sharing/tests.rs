//! Machines are databases here, and a log is handed from one to the other by hand.

use rusqlite::Connection;
use serde_json::json;

use super::*;
use crate::Reader;
use crate::{
    Changes, Durability, EditObservation, EditedText, Forget, MarkObservations, Operation, Pin,
    PinObservations, RemarkAuthor, Remembered, Selection, Unreadable, Validity, execute, open_writer,
};
use recall_domain::ids::{ProjectKey, Timestamp};
use recall_domain::observation::{Importance, ObservationDraft, ObservationType};
use recall_domain::order::Order;
use recall_domain::review::Tellable;
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::{BEGINNING, Chain, space_of};

const KEY: &str = "git:host/acme/shop";

struct Machine {
    _home: tempfile::TempDir,
    db: Connection,
    name: char,
    share: Option<ShareId>,
}

impl Machine {
    fn new(name: char) -> Self {
        let home = tempfile::tempdir().unwrap();
        let db = open_writer(&home.path().join("recall.db"), home.path(), Durability::Normal).unwrap();
        Self { _home: home, db, name, share: None }
    }

    fn sharing(name: char, terms: Terms) -> Self {
        let mut machine = Self::new(name);
        machine.open(terms);
        machine
    }

    fn open(&mut self, terms: Terms) {
        let open = OpenShare {
            project: ProjectKey::from(KEY),
            project_name: "shop".to_owned(),
            remote: "team".to_owned(),
            space: space_of(KEY),
            device: self.device(),
            author: format!("author {}", self.name),
            device_name: format!("laptop {}", self.name),
            terms,
            at: Timestamp(1),
        };
        self.share = Some(self.write(open));
    }

    fn device(&self) -> DeviceId {
        DeviceId(self.name.to_string().repeat(32))
    }

    fn write<O: Operation>(&self, operation: O) -> O::Output {
        execute(&self.db, operation, &mut Changes::default()).unwrap()
    }

    fn remember(&self, kind: ObservationType, title: &str) -> ObservationId {
        let draft = ObservationDraft {
            kind,
            title: title.to_owned(),
            subtitle: None,
            narrative: format!("{title}, at length"),
            facts: vec!["a fact".to_owned()],
            concepts: Vec::new(),
            files_read: vec!["src/cart.rs".to_owned()],
            files_modified: Vec::new(),
            importance: Importance::clamped(9),
            evidence: Vec::new(),
            subject: None,
        };
        self.write(Remembered {
            project: vec![ProjectKey::from(KEY)],
            project_name: "shop".to_owned(),
            draft,
            author: RemarkAuthor::User,
            at: Timestamp(7),
        })
    }

    fn edit(&self, id: ObservationId, title: &str) {
        let text = EditedText {
            kind: ObservationType::Decision,
            title: title.to_owned(),
            narrative: String::new(),
            facts: Vec::new(),
            files: Vec::new(),
        };
        self.write(EditObservation { id, text, at: Timestamp(8) });
    }

    fn mark(&self, id: ObservationId, validity: Validity) {
        self.write(MarkObservations { ids: vec![id], validity, at: Timestamp(9) });
    }

    fn forget(&self, id: ObservationId) {
        let at = Order { boot: [0; 16], boot_ns: 0, wall: Timestamp(10) };
        self.write(Forget { what: Selection::Documents(vec![id.into()]), unreadable: Unreadable::Stays, at });
    }

    fn log(&self) -> Vec<Logged> {
        Reader(&self.db).logged(self.share.unwrap(), (1, u64::MAX), 1_000).unwrap()
    }

    fn kinds(&self) -> Vec<String> {
        self.log().into_iter().map(|logged| logged.record.kind).collect()
    }

    fn pull(&self, from: &Self) -> Applied {
        let log = from.log();
        let end = log.last().map(|last| last.hash.clone()).unwrap_or_default();
        self.apply(from, log.into_iter().map(|logged| logged.record).collect(), end)
    }

    fn apply(&self, from: &Self, records: Vec<Record>, end: String) -> Applied {
        self.write(ApplyRecords {
            share: self.share.unwrap(),
            device: from.device(),
            author: format!("author {}", from.name),
            name: format!("laptop {}", from.name),
            records,
            end,
            now: Timestamp(20),
        })
    }

    fn exchange(&self, other: &Self) {
        other.pull(self);
        self.pull(other);
    }

    /// Titles with their marks, without the machine's own numbers.
    fn notes(&self) -> Vec<String> {
        self.db.all("SELECT title || ' ' || status || iif(pinned_at IS NULL, '', ' pinned') FROM observations ORDER BY uuid", []).unwrap()
    }

    fn only(&self) -> ObservationId {
        self.db.one("SELECT id FROM observations", []).unwrap()
    }

    fn contains(&self, text: &str) -> bool {
        let tables: Vec<String> = self
            .db
            .all("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'sync%'", [])
            .unwrap();
        let mut found = false;
        for table in tables {
            let rows: Vec<String> = self
                .db
                .all(
                    &format!(
                        "SELECT json_group_array(json_array({})) FROM {table}",
                        match table.as_str() {
                            "sync_log" => "body",
                            "sync_items" => "state",
                            "sync_parked" => "body",
                            _ => "name",
                        }
                    ),
                    [],
                )
                .unwrap();
            found |= rows.iter().any(|row| row.contains(text));
        }
        found
    }
}

const TEAM: Terms = Terms { injects: false, is_personal: false };
const MINE: Terms = Terms { injects: true, is_personal: true };

#[test]
fn nothing_is_logged_for_a_project_that_is_not_shared() {
    let machine = Machine::new('a');
    let id = machine.remember(ObservationType::Decision, "Round once");
    machine.edit(id, "Round twice");
    for table in ["sync_log", "sync_items"] {
        let rows: i64 = machine.db.one(&format!("SELECT count(*) FROM {table}"), []).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

#[test]
fn each_change_is_logged_once_without_gaps_in_a_chain() {
    let machine = Machine::sharing('a', TEAM);
    let first = machine.remember(ObservationType::Decision, "Round once");
    machine.remember(ObservationType::Gotcha, "Cents are integers");
    machine.edit(first, "Round half even");
    machine.mark(first, Validity::Resolved);
    machine.mark(first, Validity::Resolved);
    machine.forget(first);
    assert_eq!(machine.kinds(), ["observation", "observation", "observation", "observation", "forget"]);
    let (device, mut hash) = (machine.device(), BEGINNING.to_owned());
    for (seq, logged) in (1..).zip(machine.log()) {
        assert_eq!(logged.record.seq, seq);
        hash = Chain { space: &space_of(KEY), device: &device }.hash(&hash, &logged.record);
        assert_eq!(logged.hash, hash);
    }
    // What was said of the forgotten note is gone from the log.
    assert_eq!(Reader(&machine.db).emptied(machine.share.unwrap()).unwrap(), [1, 3, 4]);
    assert!(!machine.contains("Round") && machine.contains("Cents"));
}

#[test]
fn what_was_there_before_is_logged_in_steps_and_once() {
    let mut machine = Machine::new('a');
    for number in 0..5 {
        machine.remember(ObservationType::Decision, &format!("Number {number}"));
    }
    machine.open(TEAM);
    let share = machine.share.unwrap();
    let lefts: Vec<Left> = (0..3).map(|_| machine.write(LogExisting { share, most: 2 })).collect();
    assert_eq!(lefts, [Left::Some, Left::Some, Left::Nothing]);
    machine.write(LogExisting { share, most: 2 });
    assert_eq!(machine.log().len(), 5);
}

#[test]
fn a_note_arrives_with_its_author_and_is_not_logged_again() {
    let (a, b) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM));
    a.remember(ObservationType::Decision, "Round once");
    assert!(matches!(b.pull(&a), Applied::All { new: 1, .. }));
    let row = Reader(&b.db).observation(b.only()).unwrap().unwrap();
    assert_eq!((row.title.as_str(), row.narrative.as_str()), ("Round once", "Round once, at length"));
    assert_eq!((row.author.as_deref(), row.device.as_deref()), (Some("author a"), Some("laptop a")));
    assert_eq!(
        (row.origin.as_str(), row.files_read.as_slice()),
        ("shared:user", ["src/cart.rs".to_owned()].as_slice())
    );
    assert!(b.log().is_empty());
    // Delivered again, it changes nothing.
    assert_eq!(b.pull(&a), Applied::All { new: 0, touched: Vec::new() });
    assert_eq!(b.notes().len(), 1);
}

#[test]
fn edits_resolves_and_deletions_go_both_ways() {
    let (a, b) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM));
    let id = a.remember(ObservationType::Decision, "Round once");
    b.pull(&a);
    b.edit(b.only(), "Round half even");
    b.mark(b.only(), Validity::Resolved);
    a.exchange(&b);
    assert_eq!((a.notes(), b.notes()), (vec!["Round half even resolved".to_owned()], a.notes()));
    a.mark(id, Validity::Holds);
    a.exchange(&b);
    assert_eq!((a.notes(), b.notes()), (vec!["Round half even active".to_owned()], a.notes()));
    b.forget(b.only());
    a.exchange(&b);
    assert_eq!((a.notes(), b.notes()), (Vec::new(), Vec::new()));
    assert!(!a.contains("Round") && !b.contains("Round"));
    // Neither logs what the other said.
    assert_eq!(
        (a.kinds().len(), b.kinds()),
        (2, vec!["observation".to_owned(), "observation".to_owned(), "forget".to_owned()])
    );
}

#[test]
fn a_former_text_that_is_forgotten_leaves_the_log() {
    let (a, b) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM));
    let id = a.remember(ObservationType::Decision, "Round for Zacharias");
    a.edit(id, "Round once");
    assert!(a.contains("Zacharias"));
    let at = Order { boot: [0; 16], boot_ns: 0, wall: Timestamp(10) };
    let words = vec!["Zacharias".to_owned()];
    let what = Selection::Matching(crate::Criteria { words, ..Default::default() });
    a.write(Forget { what, unreadable: Unreadable::Stays, at });
    assert!(!a.contains("Zacharias"));
    b.pull(&a);
    let row = Reader(&b.db).observation(b.only()).unwrap().unwrap();
    assert_eq!((row.title.as_str(), row.author.as_deref()), ("Round once", Some("author a")));
}

#[test]
fn what_was_forgotten_stays_forgotten_whatever_comes_later() {
    let (a, b, c) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM), Machine::sharing('c', TEAM));
    a.remember(ObservationType::Decision, "Round once");
    b.pull(&a);
    let said = a.log();
    b.forget(b.only());
    // C learns of the deletion before it learns of the note.
    c.pull(&b);
    c.apply(&a, said.iter().map(|logged| logged.record.clone()).collect(), said[0].hash.clone());
    assert!(c.notes().is_empty());
    // The same words under another name were forgotten by b, too.
    let other = Machine::sharing('d', TEAM);
    other.remember(ObservationType::Decision, "Round once");
    b.pull(&other);
    assert!(b.notes().is_empty());
}

#[test]
fn personal_notes_and_pins_stay_with_one_person() {
    let (a, b) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM));
    a.remember(ObservationType::Preference, "I like tabs");
    let pinned = a.remember(ObservationType::Gotcha, "Cents are integers");
    a.write(PinObservations { ids: vec![pinned], pin: Pin::On, at: Timestamp(9) });
    b.pull(&a);
    assert_eq!((b.notes(), a.contains("tabs")), (vec!["Cents are integers active".to_owned()], false));

    let (mut a, b) = (Machine::sharing('a', MINE), Machine::sharing('b', MINE));
    a.remember(ObservationType::Preference, "I like tabs");
    let pinned = a.remember(ObservationType::Gotcha, "Cents are integers");
    a.write(PinObservations { ids: vec![pinned], pin: Pin::On, at: Timestamp(9) });
    b.pull(&a);
    assert_eq!(b.notes(), ["I like tabs active", "Cents are integers active pinned"]);
    let origin: String = b.db.one("SELECT DISTINCT origin FROM observations", []).unwrap();
    assert_eq!(origin, "user");
    // Taken back: what is personal goes elsewhere, and stays here.
    a.open(TEAM);
    a.write(LogExisting { share: a.share.unwrap(), most: 100 });
    b.pull(&a);
    assert_eq!(b.notes(), ["Cents are integers active pinned"]);
    assert_eq!(a.notes().len(), 2);
}

#[test]
fn a_machine_that_keeps_less_takes_nothing_from_others() {
    let (a, b) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM));
    a.db.execute_batch(
        "INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
         VALUES (1, 'x', 's', 1, 'completed', 1, 0, 0)",
    )
    .unwrap();
    let id = a.remember(ObservationType::Decision, "Round once");
    a.db.execute("UPDATE observations SET session = 1 WHERE id = ?1", params![id]).unwrap();
    b.pull(&a);
    let at = Order { boot: [0; 16], boot_ns: 0, wall: Timestamp(10) };
    a.write(Forget { what: Selection::SilentSince(Timestamp(5)), unreadable: Unreadable::Stays, at });
    b.edit(b.only(), "Round half even");
    a.exchange(&b);
    assert_eq!((a.notes(), b.notes()), (Vec::new(), vec!["Round half even active".to_owned()]));
}

#[test]
fn a_gap_or_a_wrong_hash_stops_a_machine_and_applies_nothing() {
    let (a, b) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM));
    for number in 0..3 {
        a.remember(ObservationType::Decision, &format!("Number {number}"));
    }
    let log = a.log();
    let end = log[2].hash.clone();
    let records: Vec<Record> = log.iter().map(|logged| logged.record.clone()).collect();
    assert_eq!(b.apply(&a, records[1..].to_vec(), end.clone()), Applied::Gap { known: 0, first: 2 });
    let mut forged = records.clone();
    forged[1].at += 1;
    assert_eq!(b.apply(&a, forged, end.clone()), Applied::WrongHash { at: 3 });
    let swapped = vec![records[1].clone(), records[0].clone(), records[2].clone()];
    assert_eq!(b.apply(&a, swapped, end.clone()), Applied::Gap { known: 0, first: 2 });
    assert!(b.notes().is_empty() && Reader(&b.db).heads(b.share.unwrap()).unwrap().is_empty());
    assert!(matches!(b.apply(&a, records, end), Applied::All { new: 3, .. }));
}

/// Entries that a hostile member or a later version wrote, in a valid chain.
fn written(from: &Machine, entries: &[(&str, &str, i64, Option<String>)]) -> (Vec<Record>, String) {
    let (device, mut hash) = (from.device(), BEGINNING.to_owned());
    let mut records = Vec::new();
    for (seq, (kind, item, at, body)) in (1..).zip(entries) {
        let body_hash = recall_domain::sync::record::hash([body.as_deref().unwrap_or_default()]);
        let record = Record {
            seq,
            kind: (*kind).to_owned(),
            item: (*item).to_owned(),
            at: *at,
            body: body.clone(),
            body_hash,
        };
        hash = Chain { space: &space_of(KEY), device: &device }.hash(&hash, &record);
        records.push(record);
    }
    (records, hash)
}

const UUID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[test]
fn what_cannot_be_used_is_counted_or_parked_and_stops_nothing() {
    let (a, b) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM));
    let body = |fields: serde_json::Value| Some(json!({"salt": "s", "fields": fields}).to_string());
    let good = json!({"type": "decision", "title": "Round once", "narrative": "", "importance": 5,
                      "created_at": 7, "origin": "user", "author": "x", "device": "y"});
    let (records, end) = written(
        &a,
        &[
            ("observation", "no-uuid", 1, body(good.clone())),
            ("observation", UUID, i64::MAX, body(good.clone())),
            ("observation", UUID, 1, body(json!({"title": ""}))),
            ("observation", UUID, 1, Some("{".to_owned())),
            // The body was left out for a secret.
            ("observation", UUID, 1, None),
            ("picture", UUID, 1, Some("later".to_owned())),
            ("observation", UUID, 2, body(good)),
        ],
    );
    assert!(matches!(b.apply(&a, records, end), Applied::All { new: 7, .. }));
    assert_eq!(b.notes(), ["Round once active"]);
    let share = b.share.unwrap();
    assert_eq!(
        (Reader(&b.db).heads(share).unwrap()[0].refused, Reader(&b.db).count_parked(share).unwrap()),
        (4, 1)
    );
    // An update knows the kind.
    assert_eq!(b.write(ApplyParked { share, now: Timestamp(30) }), 0);
    b.db.execute("UPDATE sync_parked SET kind = 'forget'", []).unwrap();
    assert_eq!(b.write(ApplyParked { share, now: Timestamp(30) }), 1);
    assert_eq!((b.notes().len(), Reader(&b.db).count_parked(share).unwrap()), (0, 0));
}

#[test]
fn an_edit_that_arrives_before_its_note_waits_for_it() {
    let (a, b, c) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM), Machine::sharing('c', TEAM));
    a.remember(ObservationType::Decision, "Round once");
    b.pull(&a);
    b.edit(b.only(), "Round half even");
    c.pull(&b);
    assert!(c.notes().is_empty());
    c.pull(&a);
    assert_eq!(c.notes(), ["Round half even active"]);
    assert!(c.log().is_empty());
}

#[test]
fn leaving_removes_what_came_and_keeps_what_is_ones_own() {
    let (mut a, b) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM));
    a.remember(ObservationType::Decision, "Round once");
    b.remember(ObservationType::Gotcha, "Cents are integers");
    a.exchange(&b);
    assert_eq!(a.write(CloseShare { share: a.share.unwrap(), at: Timestamp(30) }), 1);
    assert_eq!(a.notes(), ["Round once active"]);
    let left: i64 = a.db.one("SELECT (SELECT count(*) FROM shares) + (SELECT count(*) FROM sync_log) + (SELECT count(*) FROM sync_items) + (SELECT count(*) FROM sync_heads)", []).unwrap();
    assert_eq!(left, 0);
    // It may come back.
    a.open(TEAM);
    a.pull(&b);
    assert_eq!(a.notes().len(), 2);
}

#[test]
fn what_was_changed_while_one_was_away_is_not_lost() {
    let (a, b) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM));
    let edited = a.remember(ObservationType::Decision, "Round once");
    a.remember(ObservationType::Gotcha, "Cents are integers");
    b.pull(&a);
    a.write(CloseShare { share: a.share.unwrap(), at: Timestamp(30) });
    // Later than all that was logged.
    let text = EditedText {
        kind: ObservationType::Decision,
        title: "Round half even".to_owned(),
        narrative: String::new(),
        facts: Vec::new(),
        files: Vec::new(),
    };
    a.write(EditObservation { id: edited, text, at: Timestamp(i64::MAX / 2) });
    let of_gotcha: ObservationId = b.db.one("SELECT id FROM observations WHERE type = 'gotcha'", []).unwrap();
    b.edit(of_gotcha, "Cents are whole numbers");
    let old = b.log();
    let mut back = Machine { name: 'c', ..a };
    back.open(TEAM);
    back.apply(&b, old.iter().map(|logged| logged.record.clone()).collect(), old[0].hash.clone());
    back.write(LogExisting { share: back.share.unwrap(), most: 100 });
    b.pull(&back);
    let titles = |machine: &Machine| -> Vec<String> {
        machine.db.all("SELECT title FROM observations ORDER BY uuid", []).unwrap()
    };
    assert_eq!(titles(&back), ["Round half even", "Cents are whole numbers"]);
    assert_eq!(titles(&b), titles(&back));
}

#[test]
fn under_a_new_name_everything_is_said_again_and_nothing_changes() {
    let (a, b) = (Machine::sharing('a', TEAM), Machine::sharing('b', TEAM));
    let id = a.remember(ObservationType::Decision, "Round once");
    a.edit(id, "Round half even");
    b.pull(&a);
    let renamed = Machine { name: 'e', ..a };
    renamed.write(RenewDevice { device: renamed.device() });
    assert!(matches!(b.pull(&renamed), Applied::All { new: 2, .. }));
    assert_eq!(b.notes(), ["Round half even active"]);
    assert!(b.log().is_empty());
}

#[test]
fn notes_of_others_are_told_only_where_the_share_says_so() {
    let told = |terms: Terms| {
        let (a, b) = (Machine::sharing('a', terms), Machine::sharing('b', terms));
        a.remember(ObservationType::Decision, "Round once");
        b.remember(ObservationType::Decision, "Cents are integers");
        b.pull(&a);
        let project = recall_domain::ids::ProjectRow(1);
        let rows = Reader(&b.db).candidates(project, 10, Tellable::Everything).unwrap();
        let by_hand = Reader(&b.db).kept_by_hand(project, 10, Tellable::Everything).unwrap().len();
        let disfavour = Reader(&b.db).disfavour().unwrap();
        let foreign: i64 = b.db.one("SELECT id FROM observations WHERE share IS NOT NULL", []).unwrap();
        let worth = disfavour.worth(
            ObservationId(foreign).into(),
            recall_domain::used::Occasion::Prompt,
            Importance::clamped(9),
        );
        (rows.len(), by_hand, worth.map(Importance::get))
    };
    assert_eq!(told(TEAM), (1, 1, None));
    assert_eq!(told(MINE), (2, 2, Some(8)));
}
