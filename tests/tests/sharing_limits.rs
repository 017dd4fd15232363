//! Tests the limits of what one machine can ask of the others: a flood of entries, entries of any length or kind, a
//! clock that is a year off, a backlog, and a disk without room at either end.

use std::path::Path;
use std::sync::Arc;

use recall_domain::sync::item::ItemChange;
use recall_domain::sync::record::{BEGINNING, LogChain, MOST_BODY, Record, space_of};
use recall_sync::address::Address;
use recall_sync::device::Device;
use recall_sync::remote::{NewEntries, Remote};
use recall_sync::segment::{MOST_RECORDS, SegmentHeader};
use recall_system::secret::KeySource;
use recall_tests::faults::disk::SmallDisk;
use recall_tests::faults::process::peak_memory;
use recall_tests::postgres::Cluster;
use recall_tests::{Stage, archive};
use serde_json::{Value, json};

use super::sharing::{MOSS, RULE, Shared, done, exchange, found, id_of, machine, remember, share, sync};
use super::sharing_database::{add, init, passwords, url};

/// The number of entries of one machine's log that a round reads at most.
const MOST_READ: u64 = 10_000;

/// A member that writes entries which no recall would write.
struct Hostile {
    device: Arc<Device>,
    remote: Remote,
    space: String,
    seq: u64,
    end: String,
}

impl Hostile {
    fn at(folder: &Path, keys: &Path) -> Self {
        let address = Address::parse(&format!("file://{}", folder.display())).unwrap();
        let device = Device::load_or_create(&keys.join("device.json")).unwrap();
        Self {
            device: Arc::new(device),
            remote: Remote::at(address, KeySource::None),
            space: space_of("git:example.com/acme/shop"),
            seq: 0,
            end: BEGINNING.to_owned(),
        }
    }

    /// Logs entries of any kind and body. Their chain and their signature are valid.
    fn write(&mut self, count: usize, entry: impl Fn(u64) -> Record) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let mut left = count;
        while left > 0 {
            let chain = LogChain { space: &self.space, device: &self.device.id };
            let before = self.end.clone();
            let records: Vec<Record> = (0..left.min(MOST_RECORDS) as u64)
                .map(|nth| Record { seq: self.seq + nth + 1, ..entry(self.seq + nth + 1) })
                .collect();
            for record in &records {
                self.end = chain.hash(&self.end, record);
            }
            left -= records.len();
            self.seq += records.len() as u64;
            let header = SegmentHeader::of(&self.device, &self.space, "eve", "box");
            let new = NewEntries { header, records, before, end: self.end.clone() };
            runtime.block_on(self.remote.append(new, &self.device)).unwrap();
        }
    }
}

fn edit(item: u64, field: &str, value: Value) -> Record {
    let change = ItemChange::Set([(field.to_owned(), value)].into());
    Record::of(1, &format!("01890a5d-ac96-474b-bcce-{item:012x}"), 7, &change, "chance")
}

/// Starts a machine that shares the project, and adds a hostile member.
fn beside_a_hostile(shared: &Shared, keys: &Path) -> (Stage, Hostile) {
    let stage = machine("ben", "desktop", "");
    share(&stage, shared, &[]);
    (stage, Hostile::at(&shared.path(), keys))
}

fn device<'s>(state: &'s Value, author: &str) -> &'s Value {
    let devices = state["shares"][0]["devices"].as_array().unwrap();
    devices.iter().find(|device| device["author"] == author).unwrap_or_else(|| panic!("{state}"))
}

#[test]
fn a_sync_round_reads_a_limited_part_of_a_flood_and_reports_the_rest() {
    let (shared, keys) = (Shared::new(), tempfile::tempdir().unwrap());
    let (ben, mut eve) = beside_a_hostile(&shared, keys.path());
    eve.write(MOST_READ as usize + 500, |seq| edit(seq % 7, "mood", json!(seq)));
    let mia = machine("mia", "laptop", "");
    share(&mia, &shared, &[]);
    remember(&mia, RULE);
    sync(&mia);
    let state = sync(&ben);
    let flood = device(&state, "eve");
    let read = flood["seq"].as_u64().unwrap();
    assert!(read > 0 && read <= MOST_READ, "{state}");
    assert_eq!((&flood["deferred"], &flood["error"]), (&json!(true), &Value::Null), "{state}");
    let output = ben.recall(["sync"]).stdout;
    assert!(output.contains("to come in the next rounds"), "{output}");
    // The flood does not delay the entries of other machines.
    assert_eq!(found(&ben, "invoices")["author"], "mia");
    let mut rounds = 0;
    while device(&ben.json(["sync"]), "eve")["deferred"] == true {
        sync(&ben);
        rounds += 1;
        assert!(rounds < 20, "it ends");
    }
    assert_eq!(device(&ben.json(["sync"]), "eve")["seq"], eve.seq);
}

#[test]
fn oversized_and_unknown_entries_are_counted_or_stop_only_their_machine() {
    let (shared, keys) = (Shared::new(), tempfile::tempdir().unwrap());
    let (ben, mut eve) = beside_a_hostile(&shared, keys.path());
    let mia = machine("mia", "laptop", "");
    share(&mia, &shared, &[]);
    remember(&mia, RULE);
    sync(&mia);
    let long = "x".repeat(MOST_BODY);
    let kind = |record: Record| Record { kind: "picture".to_owned(), ..record };
    eve.write(1, |_| edit(1, "title", json!(long)));
    eve.write(1, |_| edit(1, "mood", json!("x".repeat(MOST_BODY / 2))));
    eve.write(1, |_| kind(edit(1, "title", json!(long))));
    eve.write(100, |seq| edit(1, &format!("field {seq}"), json!(1)));
    let state = sync(&ben);
    let refused = device(&state, "eve")["refused"].as_u64().unwrap();
    assert!((3 + 100 - 64..=103).contains(&refused), "{state}");
    // At most 10,000 entries of a later version are kept. Then the machine's log waits for an update.
    eve.write(10_001, |seq| kind(edit(seq, "title", json!("x"))));
    let state = ben.json(["sync", "--now"]);
    sync(&ben);
    let state = if device(&state, "eve")["error"].is_null() { ben.json(["sync"]) } else { state };
    let error = device(&state, "eve")["error"].as_str().unwrap_or_else(|| panic!("{state}"));
    assert!(error.contains("update recall"), "{error}");
    assert!(state["shares"][0]["parked"].as_u64() <= Some(10_000), "{state}");
    assert_eq!(found(&ben, "invoices")["author"], "mia");
}

#[test]
fn a_clock_a_year_off_is_shown_and_the_latest_change_still_applies() {
    // A year and an hour, because the message gives a lower bound.
    const YEAR_MS: i64 = 365 * 86_400_000 + 3_600_000;
    for (ahead, expected) in [(YEAR_MS, "365 days or more ahead of"), (-YEAR_MS, "365 days or more behind")] {
        let Some(cluster) = Cluster::start() else { return };
        init(&cluster);
        let mia = Stage::new().config("[sync]\nauthor = \"mia\"\ndevice = \"laptop\"\n");
        let repository = recall_tests::repository::Repository::init(&mia.project());
        repository.git(&["remote", "add", "origin", "git@example.com:acme/shop.git"]);
        let mia = mia.variable("RECALL_CLOCK_AHEAD_MS", &ahead.to_string()).daemon();
        let ben = machine("ben", "desktop", "");
        for (stage, author) in [(&mia, "mia"), (&ben, "ben")] {
            passwords(stage, &[author]);
            done(&add(stage, &url(author, cluster.port(), ""), &[]));
        }
        remember(&mia, RULE);
        exchange(&[&mia, &ben]);
        // Each machine has received the other's change, and then makes a later one.
        for (stage, other, title) in
            [(&ben, &mia, "Ottilie cancels invoices"), (&mia, &ben, "Hedwig files invoices")]
        {
            done(&stage.recall(["edit", &id_of(stage, "invoices"), "--title", title]));
            exchange(&[stage, other]);
            for stage in [stage, other] {
                assert_eq!(found(stage, "invoices")["title"], title, "{ahead}");
            }
        }
        remember(&ben, MOSS);
        exchange(&[&ben, &mia]);
        let state = sync(&ben);
        let clock = device(&state, "mia")["clock_ahead_ms"].as_i64().unwrap_or_else(|| panic!("{state}"));
        assert!((clock - ahead).abs() < 600_000, "{state}");
        let shown = ben.recall(["sync"]).stdout;
        assert!(shown.contains(&format!("its clock is {expected}")), "{shown}");
        done(&ben.recall(["forget", &id_of(&ben, "invoices"), "--yes"]));
        exchange(&[&ben, &mia]);
        assert_eq!(found(&mia, "invoices"), Value::Null);
    }
}

/// Imports an archive and shares it at once.
fn share_a_backlog_of(bytes: usize) {
    let shared = Shared::new();
    let mia = machine("mia", "laptop", "");
    let export = mia.user_home().join("memory.jsonl");
    remember(&mia, RULE);
    let notes = archive::write(&mia, &export, bytes);
    done(&mia.recall(["import", "recall", export.to_str().unwrap()]));
    mia.flush();
    let before = peak_memory(mia.daemon_pid());
    share(&mia, &shared, &[]);
    let state = sync(&mia);
    assert!(state["shares"][0]["sent"].as_u64() > Some(notes as u64), "{state}");
    assert_eq!(state["shares"][0]["sent"], state["shares"][0]["logged"]);
    let grown = peak_memory(mia.daemon_pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    let largest = shared.files().iter().map(|path| path.metadata().unwrap().len()).max();
    assert!(largest < Some(2 << 20), "{largest:?}");
}

#[test]
fn a_large_backlog_is_sent_in_pieces_and_uses_little_memory() {
    share_a_backlog_of(40_000_000);
}

#[test]
fn a_full_disk_of_a_remote_or_a_machine_loses_no_notes() {
    let shared = Shared::new();
    let Some(disk) = SmallDisk::mount(&shared.path(), 256) else {
        println!("skipped: nothing can be mounted here");
        return;
    };
    let mia = machine("mia", "laptop", "");
    share(&mia, &shared, &[]);
    disk.fill();
    remember(&mia, RULE);
    let output = mia.recall(["sync", "--now"]);
    assert!(output.code() == 1 && output.stdout.contains("cannot write into"), "{output:?}");
    assert!(output.stdout.contains("No space left") && output.stdout.contains("1 waiting"), "{output:?}");
    disk.make_room();
    sync(&mia);

    let home = Stage::new();
    let Some(small) = SmallDisk::mount(&home.home(), 24 << 10) else { return };
    let ben = home.config("[sync]\nauthor = \"ben\"\ndevice = \"desktop\"\n");
    let repository = recall_tests::repository::Repository::init(&ben.project());
    repository.git(&["remote", "add", "origin", "git@example.com:acme/shop.git"]);
    let ben = ben.daemon();
    share(&ben, &shared, &[]);
    assert_eq!(sync(&ben)["shares"][0]["received"], 1);
    // These notes need more than one commit. A failed commit must not be hidden by the error of a later one.
    for nth in 0..130 {
        remember(
            &mia,
            &format!("Rule {nth} of the house: {}", "who closes the boiler writes it down. ".repeat(20)),
        );
    }
    sync(&mia);
    small.fill();
    let output = ben.recall(["sync", "--now"]);
    small.make_room();
    assert!(output.code() == 1 && !output.stdout.contains("changed meanwhile"), "{output:?}");
    assert_eq!(sync(&ben)["shares"][0]["received"], 131);
}
