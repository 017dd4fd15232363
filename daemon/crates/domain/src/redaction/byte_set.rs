//! Byte sets with constant-time lookup in a table. Values and names are read byte by byte, and a text made of names is
//! read many times.

/// A subset of the 256 bytes.
pub(super) struct ByteSet([bool; 256]);

impl ByteSet {
    /// Builds the set of exactly these bytes.
    #[allow(clippy::indexing_slicing, reason = "run by the compiler, and a byte is below 256")]
    pub(super) const fn of(bytes: &[u8]) -> Self {
        let mut table = [false; 256];
        let mut at = 0;
        while at < bytes.len() {
            table[bytes[at] as usize] = true;
            at += 1;
        }
        Self(table)
    }

    /// Builds the set of these bytes and all ASCII letters and digits.
    #[allow(clippy::indexing_slicing, reason = "run by the compiler, and a byte is below 256")]
    pub(super) const fn alphanumeric_and(bytes: &[u8]) -> Self {
        let Self(mut table) = Self::of(bytes);
        let mut byte = 0;
        while byte < table.len() {
            table[byte] |= (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        Self(table)
    }

    pub(super) fn has(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte)).copied().unwrap_or_default()
    }

    /// The length of the longest prefix whose bytes are all in the set.
    pub(super) fn run(&self, bytes: &[u8]) -> usize {
        bytes.iter().position(|byte| !self.has(*byte)).unwrap_or(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_set_contains_exactly_its_bytes() {
        const SIGNS: ByteSet = ByteSet::of(b"\0-\xff");
        const NAME: ByteSet = ByteSet::alphanumeric_and(b"_");
        let all = || 0..=u8::MAX;
        assert_eq!(all().filter(|byte| SIGNS.has(*byte)).collect::<Vec<_>>(), b"\0-\xff");
        assert!(all().all(|byte| NAME.has(byte) == (byte == b'_' || byte.is_ascii_alphanumeric())));
        assert_eq!(NAME.run(b"a_1-b"), 3);
        assert_eq!(NAME.run(b"all"), 3);
        assert_eq!(NAME.run(b""), 0);
    }
}
