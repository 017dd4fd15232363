//! Private keys in their armour, whole, cut off, or with line breaks written as `\n`.

use std::ops::Range;

use super::beginning;

/// What begins every armoured key.
pub(super) const BEGIN: &str = "-----BEGIN ";
/// What begins the secret half of a PuTTY key.
pub(super) const PUTTY: &str = "Private-Lines:";

const DASHES: &str = "-----";
/// Fewer characters in a row are words of a text that speaks about keys.
const LINE: usize = 16;

/// The key whose armour begins at `start`: up to its end mark, or, where that was cut off, all that looks like it.
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

/// The secret half of a PuTTY key.
pub(super) fn putty(text: &str, start: usize) -> Option<Range<usize>> {
    let rest = text.get(start + PUTTY.len()..)?;
    let count = rest.bytes().take(12).take_while(|byte| byte.is_ascii_digit() || *byte == b' ').count();
    lines(text, start + PUTTY.len() + count).map(|end| start..end)
}

/// The end of the base64 lines that begin at `start`, if there is at least one.
fn lines(text: &str, start: usize) -> Option<usize> {
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

/// Blanks, line breaks (written out too) and the quotes and signs by which code joins lines.
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

fn is_base64(byte: u8) -> bool {
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
    fn a_whole_key_goes_with_its_marks() {
        let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{BODY}-----END RSA PRIVATE KEY-----");
        check(&format!("a {key}\nb"), Some(&key));
        let escaped = key.replace('\n', "\\n");
        check(&format!("\"{escaped}\\n\""), Some(&escaped));
    }

    #[test]
    fn a_key_that_was_cut_off_goes_as_far_as_it_looks_like_one() {
        let cut = format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{BODY}");
        check(&format!("{cut}and more"), Some(cut.trim_end()));
    }

    #[test]
    fn talk_about_keys_and_public_ones_stay() {
        check("look for -----BEGIN PRIVATE KEY----- in the file", None);
        check(&format!("-----BEGIN CERTIFICATE-----\n{BODY}-----END CERTIFICATE-----"), None);
        check("contains(\"-----BEGIN PRIVATE KEY-----\") && contains(\"-----END PRIVATE KEY-----\")", None);
    }
}
