//! A part of a log as a file: a header line that names the log, one line for each entry, and a last line with the
//! hash of the last entry and a signature. A file without its last line is incomplete.

use serde::{Deserialize, Serialize};

use super::device::{Device, is_signed};
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::{MOST_BODY, Record};

const FORMAT: &str = "recall-sync";
const VERSION: u32 = 1;
/// The maximum number of entries in a file.
pub const MOST_RECORDS: usize = 500;
/// Names of authors and devices are truncated to this many characters.
const MOST_NAME: usize = 60;

/// Names the log to which the entries belong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentHeader {
    format: String,
    version: u32,
    pub space: String,
    pub device: DeviceId,
    key: String,
    pub author: String,
    /// The device's name for people.
    pub name: String,
    /// The name of the key that seals the bodies, and the sealed names. If set, the names above are empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct End {
    end: String,
    signature: String,
}

/// A part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub header: SegmentHeader,
    pub records: Vec<Record>,
    /// The hash of the last entry.
    pub end: String,
}

/// Why a file is not used. Each message continues "the file ...".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableSegment {
    #[error("is not complete yet")]
    Partial,
    #[error("was written by a newer recall (format {0})")]
    Newer(u32),
    #[error("is damaged")]
    Damaged,
    #[error("belongs to another project or another machine")]
    Misplaced,
    #[error("is not signed by its machine")]
    Forged,
}

impl SegmentHeader {
    pub fn of(device: &Device, space: &str, author: &str, name: &str) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            space: space.to_owned(),
            device: device.id.clone(),
            key: device.public_key(),
            author: shortened(author),
            name: shortened(name),
            sealed: None,
            who: None,
        }
    }

    /// Replaces the names by sealed ones.
    pub(crate) fn sealed_with(self, key: &str, who: String) -> Self {
        let none = String::new();
        Self { author: none.clone(), name: none, sealed: Some(key.to_owned()), who: Some(who), ..self }
    }

    /// Sets the names in plain text.
    pub(crate) fn of_persons(self, author: &str, name: &str) -> Self {
        Self { author: shortened(author), name: shortened(name), sealed: None, who: None, ..self }
    }

    /// Reads the first line of a file in the folder of this space and device.
    pub(crate) fn read(line: &str, space: &str, device: &DeviceId) -> Result<Self, UnusableSegment> {
        let version: serde_json::Value = serde_json::from_str(line).map_err(|_| UnusableSegment::Damaged)?;
        match version["version"].as_u64().and_then(|version| u32::try_from(version).ok()) {
            Some(VERSION) if version["format"] == FORMAT => {}
            Some(newer) if newer > VERSION => return Err(UnusableSegment::Newer(newer)),
            _ => return Err(UnusableSegment::Damaged),
        }
        let mut header: Self = serde_json::from_str(line).map_err(|_| UnusableSegment::Damaged)?;
        if header.space != space || header.device != *device {
            return Err(UnusableSegment::Misplaced);
        }
        (header.author, header.name) = (shortened(&header.author), shortened(&header.name));
        Ok(header)
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

fn shortened(name: &str) -> String {
    name.chars().filter(|char| !char.is_control()).take(MOST_NAME).collect()
}

/// The header of a machine's entries, and the signature over the header and the last hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    pub head: String,
    pub end: String,
    pub signature: String,
}

impl Seal {
    pub fn of(header: &SegmentHeader, end: &str, device: &Device) -> serde_json::Result<Self> {
        let head = serde_json::to_string(header)?;
        let signature = device.sign(&signed(&head, end));
        Ok(Self { head, end: end.to_owned(), signature })
    }

    /// Checks that the seal is of this space and this device.
    fn opened(&self, space: &str, device: &DeviceId) -> Result<SegmentHeader, UnusableSegment> {
        let header = SegmentHeader::read(&self.head, space, device)?;
        match is_signed(device, &header.key, &signed(&self.head, &self.end), &self.signature) {
            true => Ok(header),
            false => Err(UnusableSegment::Forged),
        }
    }
}

/// Checks the seal of entries. The caller compares the last hash with the chain, because that needs the entries
/// before.
pub fn unsealed(
    seal: Seal,
    records: Vec<Record>,
    space: &str,
    device: &DeviceId,
) -> Result<Segment, UnusableSegment> {
    let header = seal.opened(space, device)?;
    checked(header, records, seal.end)
}

fn checked(header: SegmentHeader, records: Vec<Record>, end: String) -> Result<Segment, UnusableSegment> {
    // A sealed body is compared when it is opened.
    let is_sealed = header.sealed.is_some();
    let is_usable = |record: &Record| (is_sealed || record.is_whole()) && record.item.len() <= MOST_BODY;
    match records.len() <= MOST_RECORDS && records.iter().all(is_usable) {
        true => Ok(Segment { header, records, end }),
        false => Err(UnusableSegment::Damaged),
    }
}

/// Encodes entries as a file.
pub fn encode(
    header: &SegmentHeader,
    records: &[Record],
    end: &str,
    device: &Device,
) -> serde_json::Result<String> {
    let Seal { head, end, signature } = Seal::of(header, end, device)?;
    let mut text = head + "\n";
    for record in records {
        text.push_str(&serde_json::to_string(record)?);
        text.push('\n');
    }
    text.push_str(&serde_json::to_string(&End { end, signature })?);
    text.push('\n');
    Ok(text)
}

/// Decodes a file in the folder of this space and device. The caller compares the last hash with the chain, because
/// that needs the entries before.
pub fn decode(text: &str, space: &str, device: &DeviceId) -> Result<Segment, UnusableSegment> {
    let mut lines: Vec<&str> = text.lines().collect();
    let (Some(last), true) = (lines.pop().filter(|_| lines.len() > 1), text.ends_with('\n')) else {
        return Err(UnusableSegment::Partial);
    };
    let head = lines.remove(0);
    // A file of a later version is reported as such before the rest is parsed.
    let header = SegmentHeader::read(head, space, device)?;
    let Ok(End { end, signature }) = serde_json::from_str(last) else { return Err(UnusableSegment::Partial) };
    let seal = Seal { head: head.to_owned(), end, signature };
    seal.opened(space, device)?;
    if lines.len() > MOST_RECORDS {
        return Err(UnusableSegment::Damaged);
    }
    let read = |line: &&str| serde_json::from_str(line).map_err(|_| UnusableSegment::Damaged);
    checked(header, lines.iter().map(read).collect::<Result<_, _>>()?, seal.end)
}

fn signed(head: &str, end: &str) -> String {
    format!("{head}\n{end}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use recall_domain::sync::item::ItemChange;

    #[test]
    fn a_log_file_is_decoded_whole_or_rejected() {
        let home = tempfile::tempdir().unwrap();
        let device = Device::load_or_create(&home.path().join("a")).unwrap();
        let other = Device::load_or_create(&home.path().join("b")).unwrap();
        let header = SegmentHeader::of(&device, "space", "Mia\u{7}", &"x".repeat(100));
        let set = |title: &str| ItemChange::Set([("title".to_owned(), json!(title))].into());
        let records =
            vec![Record::of(1, "u", 7, &set("one"), "chance"), Record::of(2, "u", 8, &set("two"), "chance")];
        let text = encode(&header, &records, "end", &device).unwrap();
        let read = decode(&text, "space", &device.id).unwrap();
        assert_eq!((&read.records, read.end.as_str()), (&records, "end"));
        assert_eq!((read.header.author.as_str(), read.header.name.len()), ("Mia", MOST_NAME));

        // Truncated anywhere, it is incomplete or damaged, never a shorter log.
        for length in 0..text.len() {
            assert!(decode(&text[..length], "space", &device.id).is_err(), "{length}");
        }
        let without_middle: Vec<&str> = text.lines().collect();
        assert_eq!(
            decode(&without_middle[..2].join("\n"), "space", &device.id),
            Err(UnusableSegment::Partial)
        );
        assert_eq!(decode(&text, "another", &device.id), Err(UnusableSegment::Misplaced));
        assert_eq!(decode(&text, "space", &other.id), Err(UnusableSegment::Misplaced));
        let forged = encode(&header, &records, "end", &other).unwrap();
        assert_eq!(decode(&forged, "space", &device.id), Err(UnusableSegment::Forged));
        let renamed = text.replace("\"author\":\"Mia\"", "\"author\":\"Eve\"");
        assert_eq!(decode(&renamed, "space", &device.id), Err(UnusableSegment::Forged));
        assert_eq!(decode(&text.replace("two", "six"), "space", &device.id), Err(UnusableSegment::Damaged));
        let newer = text.replace("\"version\":1", "\"version\":2");
        assert_eq!(decode(&newer, "space", &device.id), Err(UnusableSegment::Newer(2)));
    }
}
