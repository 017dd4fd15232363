//! How far a machine has read the logs of others: one signed file in its folder, replaced when that changes. From it
//! others learn which machines have read a deletion. It is not an entry of a log, because an entry about reading
//! would have to be read, too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::device::{Device, is_signed};
use super::segment::SegmentHeader;
use recall_domain::ids::Timestamp;
use recall_domain::sync::DeviceId;

/// How far a machine has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadProgress {
    pub header: SegmentHeader,
    /// The number of the last entry read in each other machine's log.
    pub read: BTreeMap<DeviceId, u64>,
    /// The machine's clock when it wrote the file.
    pub at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Body {
    read: BTreeMap<DeviceId, u64>,
    #[serde(default)]
    at: i64,
}

#[derive(Serialize, Deserialize)]
struct End {
    signature: String,
}

/// Encodes the file's text.
pub fn encode(progress: &ReadProgress, device: &Device) -> serde_json::Result<String> {
    let head = serde_json::to_string(&progress.header)?;
    let body = serde_json::to_string(&Body { read: progress.read.clone(), at: progress.at.0 })?;
    let signature = device.sign(&signed(&head, &body));
    Ok(format!("{head}\n{body}\n{}\n", serde_json::to_string(&End { signature })?))
}

/// Decodes the file of this device. Returns `None` if it is incomplete, not signed by the device, or of a later
/// version.
pub fn decode(text: &str, space: &str, device: &DeviceId) -> Option<ReadProgress> {
    let mut lines = text.lines();
    let (head, body, end) = (lines.next()?, lines.next()?, lines.next()?);
    let header = SegmentHeader::read(head, space, device).ok()?;
    let End { signature } = serde_json::from_str(end).ok()?;
    if !is_signed(device, header.key(), &signed(head, body), &signature) {
        return None;
    }
    let Body { read, at } = serde_json::from_str(body).ok()?;
    Some(ReadProgress { header, read, at: Timestamp(at) })
}

fn signed(head: &str, body: &str) -> String {
    // No log ends like this, so neither file can replace the other.
    format!("progress\n{head}\n{body}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_progress_is_accepted_only_with_its_machines_signature() {
        let home = tempfile::tempdir().unwrap();
        let device = Device::load_or_create(&home.path().join("a")).unwrap();
        let other = Device::load_or_create(&home.path().join("b")).unwrap();
        let progress = ReadProgress {
            header: SegmentHeader::of(&device, "space", "mia", "laptop"),
            read: [(other.id.clone(), 7)].into(),
            at: Timestamp(11),
        };
        let text = encode(&progress, &device).unwrap();
        assert_eq!(decode(&text, "space", &device.id), Some(progress.clone()));
        assert_eq!(decode(&text, "another", &device.id), None);
        assert_eq!(decode(&text, "space", &other.id), None);
        assert_eq!(decode(&encode(&progress, &other).unwrap(), "space", &device.id), None);
        assert_eq!(decode(&text.replace(":7", ":9"), "space", &device.id), None);
        for length in 0..text.len() - 1 {
            assert_eq!(decode(&text[..length], "space", &device.id), None, "{length}");
        }
    }
}
