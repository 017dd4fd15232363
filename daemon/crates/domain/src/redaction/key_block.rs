//! Finds armoured private keys: complete, truncated, or with line breaks written as `\n`.

use std::ops::Range;

use super::beginning;

/// The beginning of every armoured key.
pub(super) const BEGIN: &str = "-----BEGIN ";
/// The beginning of a key's end mark.
pub(super) const END: &str = "-----END ";
/// The beginning of a PuTTY key's private part.
pub(super) const PUTTY: &str = "Private-Lines:";

const DASHES: &str = "-----";
/// Shorter runs are words of a text about keys.
const LINE: usize = 16;

/// Returns the key whose armour begins at `start`, up to its end mark or, without one, to the last base64 line.
pub(super) fn armoured(text: &str, start: usize) -> Option<Range<usize>> {
    let label = text.get(start + BEGIN.len()..)?;
    let (label, _) = beginning(label, 64).split_once(DASHES)?;
    if !label.ends_with("PRIVATE KEY") && !label.ends_with("PRIVATE KEY BLOCK") {
        return None;
    }
    let body = start + BEGIN.len() + label.len() + DASHES.len();
    let rest = text.get(body..)?;
    if let Some(next) = rest.find(DASHES) {
        let mark = rest.get(next..)?;
        if mark.starts_with("-----END ")
            && rest.get(..next)?.bytes().filter(|byte| is_base64(*byte)).count() >= 2 * LINE
        {
            let end = mark.get(DASHES.len()..)?.find(DASHES).filter(|length| *length < 64);
            let length = end.map_or("-----END ".len(), |length| length + 2 * DASHES.len());
            return Some(start..body + next + length);
        }
    }
    lines(text, body).map(|end| start..end)
}

/// Returns the end of a key whose beginning is missing: the end mark at `start` and the lines before it, down to
/// `floor`.
pub(super) fn tail(text: &str, start: usize, floor: usize) -> Option<Range<usize>> {
    let label = text.get(start + END.len()..)?;
    let (label, _) = beginning(label, 64).split_once(DASHES)?;
    if !label.ends_with("PRIVATE KEY") && !label.ends_with("PRIVATE KEY BLOCK") {
        return None;
    }
    let first = lines_before(text, start, floor)?;
    Some(first..start + END.len() + label.len() + DASHES.len())
}

/// Returns the beginning of the base64 lines that end at `end`, if there is at least one. Nothing before `floor` is
/// examined.
pub(super) fn lines_before(text: &str, end: usize, floor: usize) -> Option<usize> {
    let bytes = text.as_bytes().get(floor..end)?;
    let (mut at, mut first) = (bytes.len(), None);
    loop {
        at -= gap_before(bytes.get(..at)?);
        let length = bytes.get(..at)?.iter().rev().take_while(|byte| is_base64(**byte)).count();
        // A line break written as `\n` leaves its `n` at the beginning of the line.
        let escaped = usize::from(at.checked_sub(length + 1).and_then(|at| bytes.get(at)) == Some(&b'\\'));
        let length = length.saturating_sub(escaped);
        // Only the last line may be short.
        if length < LINE && (first.is_some() || length == 0) {
            return first.map(|first: usize| floor + first);
        }
        at -= length;
        first = Some(at);
    }
}

/// The length of trailing blanks, line breaks and joining operators.
fn gap_before(bytes: &[u8]) -> usize {
    let mut at = bytes.len();
    while let Some(last) = at.checked_sub(1) {
        at = match (bytes.get(last), last.checked_sub(1).and_then(|before| bytes.get(before))) {
            (Some(b'n' | b'r' | b't'), Some(b'\\')) => last - 1,
            (Some(b'\\' | b'"' | b'\'' | b',' | b' ' | b'\n' | b'\r' | b'\t'), _) => last,
            _ => break,
        };
    }
    bytes.len() - at
}

/// Returns the private part of a PuTTY key.
pub(super) fn putty_private_part(text: &str, start: usize) -> Option<Range<usize>> {
    let rest = text.get(start + PUTTY.len()..)?;
    let count = rest.bytes().take(12).take_while(|byte| byte.is_ascii_digit() || *byte == b' ').count();
    lines(text, start + PUTTY.len() + count).map(|end| start..end)
}

/// Returns the end of the base64 lines that begin at `start`, if there is at least one.
pub(super) fn lines(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut end) = (start, None);
    loop {
        at += gap(bytes.get(at..)?);
        let length = bytes.get(at..)?.iter().take_while(|byte| is_base64(**byte)).count();
        if length < LINE {
            return end;
        }
        at += length;
        end = Some(at);
    }
}

/// The length of leading blanks, line breaks (also written as `\n`), and the quotes and operators that join lines in
/// code.
fn gap(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += match (byte, bytes.get(at + 1)) {
            (b'\\', Some(b'n' | b'r' | b't')) => 2,
            (b'\\' | b'"' | b'\'' | b',' | b' ' | b'\n' | b'\r' | b'\t', _) => 1,
            _ => break,
        };
    }
    at
}

pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7\n";

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(armoured(text, text.find(BEGIN).unwrap()).and_then(|range| text.get(range)), expected);
    }

    #[test]
    fn a_whole_private_key_is_found_with_its_begin_and_end_marks() {
        let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{BODY}-----END RSA PRIVATE KEY-----");
        check(&format!("a {key}\nb"), Some(&key));
        let escaped = key.replace('\n', "\\n");
        check(&format!("\"{escaped}\\n\""), Some(&escaped));
    }

    #[test]
    fn a_truncated_private_key_is_found_up_to_its_last_base64_line() {
        let cut = format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{BODY}");
        check(&format!("{cut}and more"), Some(cut.trim_end()));
    }

    #[test]
    fn the_end_of_a_private_key_is_found_without_its_beginning() {
        for text in [
            format!("x: 1\n{BODY}AbCd==\n-----END RSA PRIVATE KEY-----\n"),
            format!("x: 1\n{}AbCd==\\n-----END RSA PRIVATE KEY-----", BODY.replace('\n', "\\n")),
            "x: 1\nMIIE==\n-----END RSA PRIVATE KEY-----\n".to_owned(),
        ] {
            let range = tail(&text, text.find(END).unwrap(), 0).unwrap();
            assert_eq!((&text[..range.start], text[range.end..].trim_end()), ("x: 1\n", ""), "{text}");
        }
        let text = format!("{BODY}-----END CERTIFICATE-----");
        assert_eq!(tail(&text, text.find(END).unwrap(), 0), None);
    }

    #[test]
    fn certificates_and_mentions_of_key_marks_are_no_private_keys() {
        check("look for -----BEGIN PRIVATE KEY----- in the file", None);
        check(&format!("-----BEGIN CERTIFICATE-----\n{BODY}-----END CERTIFICATE-----"), None);
        check("contains(\"-----BEGIN PRIVATE KEY-----\") && contains(\"-----END PRIVATE KEY-----\")", None);
    }
}
