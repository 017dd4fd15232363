//! Escapes in the strings of JSON.

/// Decodes the escape at the front: returns its character and its length in bytes. An invalid escape becomes U+FFFD or
/// the character after its backslash. `escape` must begin with a backslash.
pub fn read(escape: &[u8]) -> (char, usize) {
    let unit = |at: usize| -> Option<u16> {
        let [b'\\', b'u', digits @ ..] = escape.get(at..at.saturating_add(6))? else { return None };
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let character = match escape.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => {
            let Some(first) = unit(0) else { return (char::REPLACEMENT_CHARACTER, 2) };
            return match char::decode_utf16([first, unit(6).unwrap_or(0)]).next() {
                Some(Ok(character)) => (character, 6 * character.len_utf16()),
                Some(Err(_)) | None => (char::REPLACEMENT_CHARACTER, 6),
            };
        }
        Some(byte) if byte.is_ascii() => char::from(*byte),
        Some(_) | None => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (character, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_is_read_with_its_character_and_length() {
        for (escape, expected) in [
            (r"\n", ('\n', 2)),
            (r#"\""#, ('"', 2)),
            (r"\\", ('\\', 2)),
            (r"\u00e9x", ('é', 6)),
            (r"\ud83d\ude00", ('😀', 12)),
            (r"\ud83d\u0041", ('\u{FFFD}', 6)),
            (r"\ud83d", ('\u{FFFD}', 6)),
            (r"\u12", ('\u{FFFD}', 2)),
            (r"\é", ('\u{FFFD}', 1)),
            (r"\", ('\u{FFFD}', 1)),
        ] {
            assert_eq!(read(escape.as_bytes()), expected, "{escape}");
        }
    }
}
