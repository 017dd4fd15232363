//! Entries of a machine's log. Each hash covers the entry and the hash before it, so changing, dropping or reordering
//! an entry is detected. The hash covers only the body's hash: a body may be omitted because of a secret, or emptied
//! when its note is forgotten, and the chain stays valid. A body begins with a random salt, so its hash reveals
//! nothing about it.

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::DeviceId;
use super::item::{ItemChange, ItemFields, ItemRemoval};
use super::kind::ItemKind;

/// The hash before the first entry.
pub const BEGINNING: &str = "";
/// The maximum size of a body, in bytes. A larger one is neither sent nor accepted.
pub const MOST_BODY: usize = 128 * 1024;

const FORGET: &str = "forget";
const WITHDRAW: &str = "withdraw";
/// The mark of a change that a person made.
const PERSON: &str = "person";

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub seq: u64,
    pub kind: String,
    /// The uuid of the item.
    pub item: String,
    pub at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    pub body_hash: String,
}

/// The log to which an entry belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogChain<'a> {
    pub space: &'a str,
    pub device: &'a DeviceId,
}

impl LogChain<'_> {
    /// The hash of an entry that follows the one with the hash `before`.
    pub fn hash(&self, before: &str, record: &Record) -> String {
        let (seq, at) = (record.seq.to_string(), record.at.to_string());
        let parts = ["recall-sync-1", self.space, &self.device.0, &seq, &record.kind, &record.item, &at];
        hash(parts.into_iter().chain([record.body_hash.as_str(), before]))
    }
}

impl LogChain<'_> {
    /// Computes the hashes of consecutive entries. The entries follow the given number and hash.
    ///
    /// # Errors
    /// An entry is missing, or the last hash is not `end`.
    pub fn follow(
        &self,
        seq: u64,
        hash: &str,
        records: &[Record],
        end: &str,
    ) -> Result<Vec<String>, BrokenChain> {
        let mut hashes: Vec<String> = Vec::with_capacity(records.len());
        for (expected, record) in (seq + 1..).zip(records) {
            if record.seq != expected {
                return Err(BrokenChain::Gap { known: expected - 1, first: record.seq });
            }
            let before = hashes.last().map_or(hash, String::as_str);
            hashes.push(self.hash(before, record));
        }
        match (hashes.last(), records.last()) {
            (Some(last), Some(record)) if last != end => Err(BrokenChain::WrongHash { at: record.seq }),
            _ => Ok(hashes),
        }
    }
}

/// Why entries do not continue what was read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenChain {
    /// Entries before these are missing.
    Gap { known: u64, first: u64 },
    /// The entries were changed, or they continue another log.
    WrongHash { at: u64 },
}

/// Whether a person made a change. It decides only who may undo it, and takes no part in merging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    Person,
    #[default]
    Machine,
}

/// A change with its cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CausedChange<'a> {
    pub cause: Cause,
    pub change: &'a ItemChange,
}

impl<'a> From<&'a ItemChange> for CausedChange<'a> {
    /// A change that no person made.
    fn from(change: &'a ItemChange) -> Self {
        Self { cause: Cause::Machine, change }
    }
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordContent {
    Change(ItemChange),
    /// The body was omitted or emptied.
    Empty,
    /// A kind from a later version.
    Unknown,
    /// The body is invalid, or the kind contradicts the item's name.
    Malformed,
}

impl Record {
    /// Creates the entry for a change. `salt` is random.
    pub fn of<'a>(seq: u64, item: &str, at: i64, change: impl Into<CausedChange<'a>>, salt: &str) -> Self {
        let CausedChange { cause, change } = change.into();
        let (kind, body) = match change {
            ItemChange::Set(fields) => {
                let mut body = json!({"salt": salt, "fields": fields});
                if cause == Cause::Person {
                    body["by"] = json!(PERSON);
                }
                (ItemKind::of(item).as_str(), body.to_string())
            }
            ItemChange::Remove(ItemRemoval::Forgotten) => (FORGET, String::new()),
            ItemChange::Remove(ItemRemoval::Withdrawn) => (WITHDRAW, String::new()),
        };
        Self {
            seq,
            kind: kind.to_owned(),
            item: item.to_owned(),
            at,
            body_hash: hash([body.as_str()]),
            body: Some(body).filter(|body| !body.is_empty()),
        }
    }

    /// Whether its content is [`RecordContent::Unknown`], without parsing the body.
    pub fn is_unknown(&self) -> bool {
        let is_removal = [FORGET, WITHDRAW].contains(&self.kind.as_str());
        let is_short = self.body.as_ref().is_none_or(|body| body.len() <= MOST_BODY);
        !is_removal && is_short && ItemKind::parse(&self.kind).is_none()
    }

    pub fn content(&self) -> RecordContent {
        match self.kind.as_str() {
            FORGET => RecordContent::Change(ItemChange::Remove(ItemRemoval::Forgotten)),
            WITHDRAW => RecordContent::Change(ItemChange::Remove(ItemRemoval::Withdrawn)),
            kind => match (ItemKind::parse(kind), &self.body) {
                (None, _) if self.is_unknown() => RecordContent::Unknown,
                (None, _) => RecordContent::Malformed,
                // An item's name determines its kind.
                (Some(kind), _) if kind != ItemKind::of(&self.item) => RecordContent::Malformed,
                (Some(_), None) => RecordContent::Empty,
                (Some(_), Some(body)) if body.len() > MOST_BODY => RecordContent::Malformed,
                (Some(_), Some(body)) => fields_of(body).map_or(RecordContent::Malformed, |fields| {
                    RecordContent::Change(ItemChange::Set(fields))
                }),
            },
        }
    }

    /// Whether the sender says that a person made this change. Earlier versions do not say so.
    pub fn cause(&self) -> Cause {
        #[derive(Deserialize)]
        struct Declared {
            by: Option<String>,
        }
        let declared = self.body.as_ref().and_then(|body| serde_json::from_str::<Declared>(body).ok());
        if declared.and_then(|declared| declared.by).is_some_and(|by| by == PERSON) {
            Cause::Person
        } else {
            Cause::Machine
        }
    }

    /// Whether the body matches its hash. An entry without a body does.
    pub fn is_whole(&self) -> bool {
        self.body.as_ref().is_none_or(|body| hash([body.as_str()]) == self.body_hash)
    }
}

fn fields_of(body: &str) -> Option<ItemFields> {
    #[derive(Deserialize)]
    struct Body {
        fields: ItemFields,
    }
    serde_json::from_str::<Body>(body).ok().map(|body| body.fields)
}

/// Computes the name of a project's space. All machines that know the project by this identity use it.
pub fn space_of(identity: &str) -> String {
    let mut name = hash(["recall-space-1", identity]);
    name.truncate(32);
    name
}

/// SHA-256 of parts, each preceded by its length, as hexadecimal digits.
pub fn hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{SessionId, SessionKey};
    use crate::sync::kind::{plan_of, summary_of};

    fn set(title: &str) -> ItemChange {
        ItemChange::Set([("title".to_owned(), json!(title))].into())
    }

    #[test]
    fn a_change_is_read_back_from_its_log_entry() {
        let session = SessionKey { agent: "codex".into(), id: SessionId("s".to_owned()) };
        for (item, kind) in [
            ("uuid".to_owned(), "observation"),
            (summary_of(&session), "summary"),
            (plan_of(&session, "/plan.md"), "plan"),
        ] {
            for change in [
                set("a"),
                ItemChange::Remove(ItemRemoval::Forgotten),
                ItemChange::Remove(ItemRemoval::Withdrawn),
            ] {
                let record = Record::of(1, &item, 7, &change, "chance");
                assert_eq!(record.content(), RecordContent::Change(change.clone()));
                let by_person =
                    Record::of(1, &item, 7, CausedChange { cause: Cause::Person, change: &change }, "chance");
                assert_eq!(by_person.content(), record.content());
                let is_set = matches!(change, ItemChange::Set(_));
                let causes = (record.cause(), by_person.cause() == Cause::Person);
                assert_eq!(causes, (Cause::Machine, is_set), "{by_person:?}");
                assert!(record.is_whole());
                assert!(record.kind == kind || change != set("a"), "{}", record.kind);
            }
            // The kind must agree with the item's name.
            let posed = Record { kind: "plan".to_owned(), ..Record::of(1, &item, 7, &set("a"), "chance") };
            assert_eq!(posed.content() == RecordContent::Malformed, kind != "plan");
        }
    }

    #[test]
    fn an_entrys_hash_covers_every_part_and_survives_an_emptied_body() {
        let device = DeviceId("d".to_owned());
        let chain = LogChain { space: "s", device: &device };
        let record = Record::of(1, "uuid", 7, &set("a"), "chance");
        let whole = chain.hash(BEGINNING, &record);
        let emptied = Record { body: None, ..record.clone() };
        assert_eq!(
            (chain.hash(BEGINNING, &emptied), emptied.content()),
            (whole.clone(), RecordContent::Empty)
        );
        for other in [
            Record { seq: 2, ..record.clone() },
            Record { kind: FORGET.to_owned(), ..record.clone() },
            Record { item: "other".to_owned(), ..record.clone() },
            Record { at: 8, ..record.clone() },
            Record::of(1, "uuid", 7, &set("a"), "other chance"),
        ] {
            assert_ne!(chain.hash(BEGINNING, &other), whole);
        }
        assert_ne!(chain.hash("before", &record), whole);
        assert_ne!(LogChain { space: "t", device: &device }.hash(BEGINNING, &record), whole);
        assert!(!Record { body: Some("{}".to_owned()), ..record }.is_whole());
    }

    #[test]
    fn a_log_with_a_gap_or_a_wrong_hash_is_rejected() {
        let device = DeviceId("d".to_owned());
        let chain = LogChain { space: "s", device: &device };
        let records: Vec<Record> =
            (1..=3).map(|seq| Record::of(seq, "uuid", 7, &set("a"), "chance")).collect();
        let first = chain.hash(BEGINNING, &records[0]);
        let hashes = [first.clone(), chain.hash(&first, &records[1])];
        let [_, second] = &hashes;
        assert_eq!(chain.follow(0, BEGINNING, &records[..2], second), Ok(hashes.to_vec()));
        assert_eq!(chain.follow(1, &first, &records[1..2], second), Ok(vec![second.clone()]));
        assert_eq!(chain.follow(2, second, &[], "any"), Ok(Vec::new()));
        assert_eq!(chain.follow(0, BEGINNING, &records[..2], &first), Err(BrokenChain::WrongHash { at: 2 }));
        assert_eq!(chain.follow(1, "other", &records[1..2], second), Err(BrokenChain::WrongHash { at: 2 }));
        let with_gap = [records[0].clone(), records[2].clone()];
        assert_eq!(chain.follow(0, BEGINNING, &with_gap, ""), Err(BrokenChain::Gap { known: 1, first: 3 }));
    }

    #[test]
    fn an_invalid_entry_is_malformed_and_one_of_a_later_kind_is_unknown() {
        let with = |kind: &str, body: &str| Record {
            kind: kind.to_owned(),
            body: Some(body.to_owned()),
            ..Record::of(1, "uuid", 7, &set("a"), "chance")
        };
        for body in ["", "{", "[]", "{}", "{\"fields\": 7}"] {
            assert_eq!(with("observation", body).content(), RecordContent::Malformed, "{body}");
        }
        assert_eq!(with("observation", &"x".repeat(MOST_BODY + 1)).content(), RecordContent::Malformed);
        assert_eq!(with("picture", "{}").content(), RecordContent::Unknown);
        assert_eq!(with("picture", &"x".repeat(MOST_BODY + 1)).content(), RecordContent::Malformed);
    }
}
