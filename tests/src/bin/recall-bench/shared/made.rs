//! Makes what many machines have logged over a year. The logs are whole, as recall writes them: sealed, chained and
//! signed. They are written directly into the server's tables, without its functions. The texts, the sizes and the
//! order are the same in every run. The team's key is not.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use recall_domain::observation::ObservationType;
use recall_domain::sync::DeviceId;
use recall_domain::sync::item::{ItemChange, ItemFields};
use recall_domain::sync::record::{LogChain, Record, space_of};
use recall_sync::device::Device;
use recall_sync::progress::{self, ReadProgress};
use recall_sync::remote::NewEntries;
use recall_sync::sealed::SpaceKeys;
use recall_sync::segment::{MOST_RECORDS, Seal, SegmentHeader};
use recall_sync::team::{Team, team_space};
use recall_tests::postgres::Cluster;
use serde_json::{Value, json};

use super::super::{Random, now};

pub(super) const SPACES: usize = 20;
pub(super) const WRITERS: usize = 10;
/// The number of notes in the project that a new machine gets.
pub(super) const NEWCOMER_ITEMS: usize = 20_000;
/// The identity of that project.
pub(super) const PROJECT: &str = "git:example.com/acme/shop";
const YEAR_MS: i64 = 365 * 86_400_000;

/// A project's space, and the machines that write there.
pub(super) struct Space {
    pub id: String,
    pub keys: SpaceKeys,
    pub writers: Vec<Writer>,
}

/// A machine in a space.
pub(super) struct Writer {
    pub device: Arc<Device>,
    author: String,
    space: String,
    seq: u64,
    end: String,
    /// The notes that the machine has made.
    items: Vec<String>,
    random: Random,
}

/// Returns the spaces with their machines. The first space is that of the new machine.
pub(super) fn spaces(team: &Team, keys: &Path) -> Vec<Space> {
    let space = |number: usize| {
        let identity =
            if number == 0 { PROJECT.to_owned() } else { format!("git:example.com/acme/p{number}") };
        let id = space_of(&identity);
        let writers = (0..WRITERS).map(|of| Writer::new(number * WRITERS + of, &id, keys)).collect();
        Space { keys: team.space_keys(&id).unwrap(), id, writers }
    };
    (0..SPACES).map(space).collect()
}

impl Writer {
    fn new(number: usize, space: &str, keys: &Path) -> Self {
        let mut random = Random(number as u64 + 1);
        // The first numbers of such a generator are similar.
        for _ in 0..20 {
            random.next();
        }
        let seed: String = (0..4).map(|_| format!("{:016x}", random.next())).collect();
        let file = keys.join(format!("{number}.json"));
        std::fs::write(&file, json!({"seed": seed}).to_string()).unwrap();
        let device = Arc::new(Device::load_or_create(&file).unwrap());
        let (author, space) = (format!("dev{number}"), space.to_owned());
        Self { device, author, space, seq: 0, end: String::new(), items: Vec::new(), random }
    }

    fn header(&self) -> SegmentHeader {
        SegmentHeader::of(&self.device, &self.space, &self.author, &format!("{}s-laptop", self.author))
    }

    /// Returns the next entries of the machine's log, which are not sealed yet. Of ten entries, nine are new notes
    /// and one changes a note.
    pub(super) fn entries(&mut self, count: usize, at: i64) -> NewEntries {
        let before = self.end.clone();
        let device = self.device.id.clone();
        let mut records = Vec::with_capacity(count);
        for _ in 0..count {
            let (item, fields) = match (self.seq % 10, self.items.first()) {
                (9, Some(_)) => self.edit(),
                _ => self.note(at),
            };
            self.seq += 1;
            let salt = format!("{:016x}{:016x}", self.random.next(), self.random.next());
            let record = Record::of(self.seq, &item, at, &ItemChange::Set(fields), &salt);
            self.end = LogChain { space: &self.space, device: &device }.hash(&self.end, &record);
            records.push(record);
        }
        NewEntries { header: self.header(), records, before, end: self.end.clone() }
    }

    fn edit(&mut self) -> (String, ItemFields) {
        let item = self.items[self.random.next() as usize % self.items.len()].clone();
        (item, [("narrative".to_owned(), json!(self.random.words(45)))].into())
    }

    fn note(&mut self, at: i64) -> (String, ItemFields) {
        let chance = (u128::from(self.random.next()) << 64) | u128::from(self.random.next());
        let digits = format!("{chance:032x}");
        let part = |from: usize, to: usize| &digits[from..to];
        let item =
            format!("{}-{}-4{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32));
        let (kind, _) = ObservationType::ALL[self.items.len() % ObservationType::ALL.len()];
        // Preferences and corrections stay on the machine.
        let kind =
            if ["preference", "correction"].contains(&kind.as_str()) { "decision" } else { kind.as_str() };
        let random = &mut self.random;
        let fields: [(&str, Value); 15] = [
            ("type", json!(kind)),
            ("title", json!(random.words(7))),
            ("subtitle", Value::Null),
            ("narrative", json!(random.words(45))),
            ("facts", json!([random.words(12)])),
            ("concepts", json!([random.words(1)])),
            ("files_read", json!([])),
            ("files_modified", json!([format!("src/{}.rs", random.words(1))])),
            ("importance", json!(1 + random.next() % 10)),
            ("resolved", json!(false)),
            ("rejected", Value::Null),
            ("origin", json!("extractive")),
            ("created_at", json!(at)),
            ("author", json!(self.author)),
            ("device", json!(format!("{}s-laptop", self.author))),
        ];
        self.items.push(item.clone());
        (item, fields.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// Returns how many entries a round sends after a minute of work.
    pub(super) fn few(&mut self) -> usize {
        1 + self.random.next() as usize % 5
    }
}

/// Returns the entries sealed, as a machine sends them.
pub(super) fn sealed(keys: &SpaceKeys, entries: NewEntries) -> NewEntries {
    let NewEntries { header, records, before, end } = entries;
    let (header, records) = keys.seal(header, records).unwrap();
    NewEntries { header, records, before, end }
}

/// Fills the server's tables with a year of all machines and with the team's statements. Returns the number of parts.
pub(super) fn fill(cluster: &Cluster, team: &Team, spaces: &mut [Space], records: usize) -> usize {
    // A tenth of the entries only change notes.
    let newcomers = (NEWCOMER_ITEMS * 10 / 9).min(records / 3);
    let others = (records - newcomers) / (SPACES - 1);
    let mut entries = cluster.loading("recall.record (space, device, seq, kind, item, at, body, body_hash)");
    let mut parts =
        cluster.loading("recall.segment (space, device, first, last, header, hash, signature, bytes)");
    let mut devices = cluster.loading("recall.device (space, device, login, seq, hash, progress)");
    let (begun, mut count) = (now().0 - YEAR_MS, 0);
    for (number, space) in spaces.iter_mut().enumerate() {
        let each = if number == 0 { newcomers } else { others } / WRITERS;
        for writer in &mut space.writers {
            let mut made = 0;
            while made < each {
                // The first part contains what was there before the project was shared.
                let next = if made == 0 { MOST_RECORDS } else { writer.few() }.min(each - made);
                let at = begun + YEAR_MS * made as i64 / each as i64;
                let part = sealed(&space.keys, writer.entries(next, at));
                made += next;
                write_part(&mut entries, &mut parts, part, &writer.device);
                count += 1;
            }
        }
        let read: BTreeMap<DeviceId, u64> =
            space.writers.iter().map(|writer| (writer.device.id.clone(), writer.seq)).collect();
        for writer in &space.writers {
            let header = space.keys.seal_header(writer.header()).unwrap();
            let mut read = read.clone();
            read.remove(&writer.device.id);
            let record = progress::encode(&ReadProgress { header, read, at: now() }, &writer.device).unwrap();
            let Writer { device, seq, end, .. } = writer;
            row(&mut devices, &[&space.id, &device.id.0, "mia", &seq.to_string(), end, &record]);
            let statement =
                team.statement(device, &writer.author, &format!("{}s-laptop", writer.author)).unwrap();
            let statement = statement.encode(device).unwrap();
            row(&mut devices, &[&team_space(), &device.id.0, "mia", "0", "", &statement]);
        }
    }
    for loading in [entries, parts, devices] {
        loading.end();
    }
    count
}

fn write_part(entries: &mut impl Write, parts: &mut impl Write, part: NewEntries, device: &Device) {
    let NewEntries { header, records, end, .. } = part;
    let seal = Seal::of(&header, &end, device).unwrap();
    let (space, id) = (header.space.as_str(), header.device.0.as_str());
    let bytes: usize = records.iter().filter_map(|record| record.body.as_ref().map(String::len)).sum();
    let numbers = [records[0].seq, records[records.len() - 1].seq].map(|seq| seq.to_string());
    row(
        parts,
        &[space, id, &numbers[0], &numbers[1], &seal.head, &seal.end, &seal.signature, &bytes.to_string()],
    );
    for record in &records {
        let (seq, at) = (record.seq.to_string(), record.at.to_string());
        let body = record.body.as_deref().unwrap_or_default();
        row(entries, &[space, id, &seq, &record.kind, &record.item, &at, body, &record.body_hash]);
    }
}

/// Writes a line in the format of `COPY`.
fn row(to: &mut impl Write, columns: &[&str]) {
    let escaped: Vec<String> = columns
        .iter()
        .map(|text| text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t"))
        .collect();
    writeln!(to, "{}", escaped.join("\t")).unwrap();
}
