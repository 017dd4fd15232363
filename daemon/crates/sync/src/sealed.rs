//! What only the members of a team can read: the bodies of entries, and the names of their authors.

use std::collections::BTreeMap;

use super::key::{Closed, NoRandomness, SealingKey};
use super::packed::{Packer, Unpacker};
use super::segment::{Segment, SegmentHeader};
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::Record;

/// The keys of a project's space: the one that seals, and all that open.
#[derive(Clone, Debug)]
pub struct SpaceKeys {
    space: String,
    /// The name of the sealing key, and the key.
    current: (String, SealingKey),
    keys: BTreeMap<String, SealingKey>,
}

impl SpaceKeys {
    /// Derives a space's keys from a team's.
    pub fn of<'k>(space: &str, current: &SealingKey, all: impl IntoIterator<Item = &'k SealingKey>) -> Self {
        let of_space = |key: &SealingKey| (key.name(), key.derived(&["space", space]));
        let mut keys: BTreeMap<String, SealingKey> = all.into_iter().map(of_space).collect();
        let current = of_space(current);
        keys.insert(current.0.clone(), current.1.clone());
        Self { space: space.to_owned(), current, keys }
    }

    /// Seals the author's names and the bodies of the entries.
    pub fn seal(
        &self,
        header: SegmentHeader,
        records: Vec<Record>,
    ) -> Result<(SegmentHeader, Vec<Record>), NoRandomness> {
        let device = header.device.clone();
        let mut packer = Packer::new();
        let seal = |record: Record| {
            let seq = record.seq.to_string();
            let place = self.place(&device, &[&seq, &record.kind, &record.item]);
            let packed = record.body.as_deref().map(|body| packer.pack(body));
            let body = packed.map(|packed| self.key().seal_bytes(&place, &packed)).transpose()?;
            Ok(Record { body, ..record })
        };
        let records = records.into_iter().map(seal).collect::<Result<_, _>>()?;
        Ok((self.seal_header(header)?, records))
    }

    /// Returns the header with its author's names sealed.
    pub fn seal_header(&self, header: SegmentHeader) -> Result<SegmentHeader, NoRandomness> {
        let who = serde_json::json!([header.author, header.name]).to_string();
        let who = self.key().seal(&self.place(&header.device, &["who"]), &who)?;
        Ok(header.sealed_with(&self.current.0, who))
    }

    /// Opens a segment of another machine.
    pub fn open(&self, segment: Segment) -> Result<Segment, Closed> {
        let Segment { header, records, end } = segment;
        let key = self.key_of(&header)?;
        let mut unpacker = Unpacker::new();
        let open = |record: Record| {
            let seq = record.seq.to_string();
            let place = self.place(&header.device, &[&seq, &record.kind, &record.item]);
            let packed = record.body.as_deref().map(|body| key.open_bytes(&place, body)).transpose()?;
            let body = packed.map(|packed| unpacker.unpack(packed).ok_or(Closed)).transpose()?;
            let record = Record { body, ..record };
            // The body must match the hash in the chain.
            if record.is_whole() { Ok(record) } else { Err(Closed) }
        };
        let records = records.into_iter().map(open).collect::<Result<_, _>>()?;
        Ok(Segment { records, end, header: self.open_header(header.clone())? })
    }

    /// Opens the author's names.
    pub fn open_header(&self, header: SegmentHeader) -> Result<SegmentHeader, Closed> {
        let who = header.who.as_deref().ok_or(Closed)?;
        let who = self.key_of(&header)?.open(&self.place(&header.device, &["who"]), who)?;
        let (author, name): (String, String) = serde_json::from_str(&who).map_err(|_| Closed)?;
        Ok(header.of_persons(&author, &name))
    }

    fn key_of(&self, header: &SegmentHeader) -> Result<&SealingKey, Closed> {
        header.sealed.as_ref().and_then(|name| self.keys.get(name)).ok_or(Closed)
    }

    fn key(&self) -> &SealingKey {
        &self.current.1
    }

    fn place<'p>(&'p self, device: &'p DeviceId, more: &[&'p str]) -> Vec<&'p str> {
        ["recall-sync-1", &self.space, &device.0].into_iter().chain(more.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use recall_domain::sync::item::ItemChange;

    #[test]
    fn sealed_entries_open_only_with_their_key_and_in_their_place() {
        let home = tempfile::tempdir().unwrap();
        let device = Device::load_or_create(&home.path().join("a")).unwrap();
        let (first, second) = (SealingKey::random().unwrap(), SealingKey::random().unwrap());
        let header = SegmentHeader::of(&device, "space", "Mia Berg", "laptop");
        let change = ItemChange::Set([("title".to_owned(), serde_json::json!("Hedwig"))].into());
        let records = vec![
            Record::of(1, "u", 7, &change, "chance"),
            Record { body: None, ..Record::of(2, "u", 8, &change, "c") },
        ];
        let old = SpaceKeys::of("space", &first, []);
        let (sealed, bodies) = old.seal(header.clone(), records.clone()).unwrap();
        let text = serde_json::to_string(&(&sealed, &bodies)).unwrap();
        assert!(!["Hedwig", "Mia Berg", "laptop"].iter().any(|word| text.contains(word)), "{text}");
        let segment = Segment { header: sealed, records: bodies, end: "end".to_owned() };
        let now = SpaceKeys::of("space", &second, [&first]);
        let opened = now.open(segment.clone()).unwrap();
        assert_eq!((opened.records, opened.header), (records, header));
        for closed in [SpaceKeys::of("space", &second, []), SpaceKeys::of("other", &first, [])] {
            assert_eq!(closed.open(segment.clone()), Err(Closed));
        }
        // A body moved to another entry.
        let mut moved = segment;
        moved.records[1].body = moved.records[0].body.take();
        assert_eq!(now.open(moved), Err(Closed));
    }
}
