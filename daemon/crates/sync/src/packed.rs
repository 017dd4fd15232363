//! Compresses bodies before they are sealed, because sealed bodies do not compress.

use zstd::bulk::{Compressor, Decompressor};

use recall_domain::sync::record::MOST_BODY;

/// The first byte of a packed body. An unpacked body begins with a brace.
const PACKED: u8 = 1;
const LEVEL: i32 = 9;
/// The dictionary: texts that bodies have in common, the most frequent last. It is part of the format, so another
/// dictionary needs another first byte.
const COMMON: &[u8] = br##"{"salt":"","fields":{"agent":"","author":"","completed":"","created_at":17,"device":"","investigated":"","learned":"","next_steps":"","notes":"","origin":"extractive","request":"","session":"","text":"# Plan: ","title":"","updated_at":17}} the that this with from because instead test error function file config before after when only must never always {"salt":"","fields":{"author":"","concepts":[""],"created_at":17,"device":"","facts":[""],"files_modified":["src/"],"files_read":["src/"],"importance":5,"narrative":"","origin":"extractive","rejected":null,"resolved":false,"subtitle":null,"title":"","type":"decision"}} "pinned":false,"reviewed":null,"rejected":true,"resolved":true "type":"bugfix" "type":"feature" "type":"discovery" "type":"gotcha" "origin":"user" .rs", .ts", .py", .md"]"##;

/// Compresses bodies. It is reused for many.
pub(crate) struct Packer(Option<Compressor<'static>>);

impl Packer {
    pub(crate) fn new() -> Self {
        Self(Compressor::with_dictionary(LEVEL, COMMON).ok())
    }

    /// Returns the bytes to seal. A body that does not get shorter stays unpacked.
    pub(crate) fn pack(&mut self, body: &str) -> Vec<u8> {
        let packed = self.0.as_mut().and_then(|compressor| compressor.compress(body.as_bytes()).ok());
        match packed {
            Some(packed) if packed.len() + 1 < body.len() => [&[PACKED], packed.as_slice()].concat(),
            _ => body.as_bytes().to_vec(),
        }
    }
}

/// Decompresses bodies. It is reused for many.
pub(crate) struct Unpacker(Option<Decompressor<'static>>);

impl Unpacker {
    pub(crate) fn new() -> Self {
        Self(Decompressor::with_dictionary(COMMON).ok())
    }

    /// Returns `None` if the bytes are invalid, or longer than any body.
    pub(crate) fn unpack(&mut self, bytes: Vec<u8>) -> Option<String> {
        let text = match bytes.split_first() {
            Some((&PACKED, packed)) => self.0.as_mut()?.decompress(packed, MOST_BODY).ok()?,
            _ => bytes,
        };
        String::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_packed_body_is_never_longer_and_is_unpacked_unchanged() {
        let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
        for body in ["", "{", "{}", &"x".repeat(MOST_BODY), "\u{1}not packed, but it begins so"] {
            let packed = packer.pack(body);
            assert!(packed.len() <= body.len());
            let back = unpacker.unpack(packed);
            assert!(back.as_deref() == Some(body) || body.starts_with('\u{1}'), "{body}");
        }
        let bomb = packer.pack(&"x".repeat(MOST_BODY + 1));
        assert!(bomb.len() < 1000);
        assert_eq!(unpacker.unpack(bomb), None);
        for broken in [&[PACKED, 7, 7, 7][..], &[0xff, 0xfe]] {
            assert_eq!(unpacker.unpack(broken.to_vec()), None);
        }
    }

    #[test]
    fn a_typical_note_is_packed_to_less_than_half_its_size() {
        let note = json!({"salt": concat!("5f3c9a7e1b2d4f60", "718293a4b5c6d7e8"), "fields": {
            "author": "mia", "concepts": ["rounding"], "created_at": 1_764_000_000_000_i64, "device": "laptop",
            "facts": ["`Cart::total` rounds once, at the end", "The test `totals_agree` covers it"],
            "files_modified": ["src/cart.rs", "tests/totals.rs"], "files_read": [], "importance": 6,
            "narrative": "Discounts were rounded for each line, so the sum of an order differed from its invoice by a cent. \
                          The total is now computed in tenths of a cent, and rounded when the order is placed.",
            "origin": "extractive", "rejected": null, "resolved": false, "subtitle": null,
            "title": "Rounding happens once, when an order is placed", "type": "bugfix"}});
        let body = note.to_string();
        let packed = Packer::new().pack(&body);
        assert!(packed.len() * 2 < body.len(), "{} of {}", packed.len(), body.len());
    }
}
