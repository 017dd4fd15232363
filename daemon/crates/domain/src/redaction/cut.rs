//! Redacts around a truncation mark, where a secret may have been cut in two and no longer matches a known format.
//!
//! The missing middle is unknown, so everything that could be a fragment is redacted. Little is lost, because the text
//! has lost its middle anyway.

use std::ops::Range;

use super::byte_set::ByteSet;
use super::key_block;

/// Characters that a secret may contain.
const FRAGMENT_BYTES: ByteSet = ByteSet::alphanumeric_and(b"_-+/.=~%!@#$^&*:");
/// Half of the longest mark, in bytes.
const MARK: usize = 64;
/// The minimum length of a fragment of only letters, only digits or only hexadecimal digits.
const PLAIN: usize = 16;

/// Returns the fragments on both sides of the mark that contains `hit`.
pub(super) fn fragments_at(text: &str, hit: Range<usize>) -> Vec<Range<usize>> {
    let mark = mark_around(text, hit);
    mark.map(|mark| before(text, mark.start).into_iter().chain(after(text, mark.end)).collect())
        .unwrap_or_default()
}

/// The whole mark, ` [... 9 of 99 bytes elided by recall ...] `.
fn mark_around(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    let floor = (hit.start.saturating_sub(MARK)..hit.start).find(|at| text.is_char_boundary(*at))?;
    let start = floor + text.get(floor..hit.start)?.rfind(" [... ")?;
    let end = text.get(hit.end..)?.strip_prefix(" ...] ")?;
    Some(start..text.len() - end.len())
}

fn before(text: &str, end: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes().get(..end)?;
    let start = end - bytes.iter().rev().take_while(|byte| FRAGMENT_BYTES.has(**byte)).count();
    // A last line of base64 below others belongs to a private key.
    let lines = key_block::lines_before(text, end, 0).map(|first| first..end);
    lines.filter(|lines| is_block(text, lines.clone())).or_else(|| fragment(text, start..end))
}

fn after(text: &str, start: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes().get(start..)?;
    let end = start + FRAGMENT_BYTES.run(bytes);
    let first = start + bytes.iter().take_while(|byte| key_block::is_base64(**byte)).count();
    let lines = key_block::lines(text, first).map(|last| start..last);
    lines.filter(|lines| is_block(text, lines.clone())).or_else(|| fragment(text, start..end))
}

/// Whether the range has at least two lines, each as long as a line of a key.
fn is_block(text: &str, range: Range<usize>) -> bool {
    let block = text.get(range).unwrap_or_default().replace("\\n", "\n");
    let wide = block.lines().filter(|line| (60..=80).contains(&line.trim().len())).count();
    wide >= 1 && block.lines().count() >= 2
}

/// Returns the range if it looks like a fragment of a secret: letters mixed with digits, or long without a blank.
fn fragment(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let fragment = text.get(range.clone())?.trim_end_matches(['.', ':']);
    let has = |is: fn(&u8) -> bool| fragment.bytes().any(|byte| is(&byte));
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    let is_long = fragment.len() >= PLAIN && (has(u8::is_ascii_alphabetic) || has(u8::is_ascii_digit));
    (fragment.len() >= 4 && is_mixed || is_long).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let mark = " [... 1000 of 2000 bytes elided by recall ...] ";
        let text = text.replace('§', mark);
        let at = text.find(recall_protocol::elision::ELISION).unwrap();
        let found = fragments_at(&text, at..at + recall_protocol::elision::ELISION.len());
        assert_eq!(found.into_iter().map(|range| &text[range]).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn secret_fragments_on_both_sides_of_a_cut_are_redacted() {
        check("x ghp_a8Kd93§", &["ghp_a8Kd93"]);
        check("x §jfLs02mQpz71Xc y", &["jfLs02mQpz71Xc"]);
        check("ghp_a8Kd§Ls02mQ\n", &["ghp_a8Kd", "Ls02mQ"]);
        check("the cart rounds§down twice", &[]);
        check("[redacted:cut-secret]§[redacted:cut-secret]", &[]);
    }

    #[test]
    fn lines_of_a_truncated_key_are_redacted_with_its_fragment() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let (head, tail) = (format!("{line}\n{line}\nMIIEv"), format!("QIBAD\n{line}\nabcd=="));
        let (kept, gone) = (format!("a\n{head}"), format!("{tail}\nb"));
        check(&format!("{kept}§x"), &[&head]);
        check(&format!("x§{gone}"), &[format!("QIBAD\n{line}\n").trim_end()]);
    }
}
