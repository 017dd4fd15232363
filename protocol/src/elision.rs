//! Shortens a long JSON string while streaming it: keeps the head and the tail, and marks the cut with the original
//! length.
//!
//! Both ends of a long tool output matter: the command's first lines and the final error. The cut never splits an
//! escape, a surrogate pair or a UTF-8 sequence, so a valid string stays valid.

/// The part of the mark that identifies it.
pub const ELISION: &str = "bytes elided by recall";

/// The longest mark, in bytes.
pub(crate) const MARK_ROOM: usize = 96;

/// The text that replaces the middle of a string of `total` bytes, of which `kept` bytes are kept. Both are counted as
/// written in the JSON.
pub(crate) fn mark(total: u64, kept: u64) -> String {
    format!(" [... {} of {total} {ELISION} ...] ", total.saturating_sub(kept))
}

/// Copies the contents of a string, fed in pieces, to an output, and shortens it if necessary.
#[derive(Debug, Default)]
pub(crate) struct Shortener {
    /// The offset in the output where the string's contents begin.
    start: usize,
    /// The maximum number of bytes that the string may take in the output.
    cap: usize,
    /// The number of bytes fed so far.
    total: u64,
    /// The last bytes fed. `None` until the string exceeds the cap.
    tail: Option<Vec<u8>>,
}

impl Shortener {
    /// Begins a string at the end of the output. `cap` must be at least four times [`MARK_ROOM`].
    pub(crate) fn start(&mut self, out: &[u8], cap: usize) {
        *self = Self { start: out.len(), cap, total: 0, tail: None };
    }

    /// Feeds a piece. Output and tail together stay below 2.5 times the cap plus the piece's length.
    pub(crate) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.total = self.total.saturating_add(piece.len() as u64);
        if let Some(tail) = &mut self.tail {
            tail.extend_from_slice(piece);
            if tail.len() > self.cap.saturating_mul(2) {
                keep_tail(tail, self.cap / 2);
            }
            return;
        }
        out.extend_from_slice(piece);
        let inside = out.get(self.start..).unwrap_or_default();
        if inside.len() > self.cap {
            let head = boundary(inside, self.cap / 2, Toward::Start);
            self.tail = Some(inside.get(head..).unwrap_or_default().to_vec());
            out.truncate(self.start.saturating_add(head));
        }
    }

    /// Ends the string. Returns whether it was shortened.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Shortened {
        let Some(mut tail) = self.tail.take() else { return Shortened::No };
        keep_tail(&mut tail, (self.cap / 2).saturating_sub(MARK_ROOM));
        let head = out.len().saturating_sub(self.start);
        out.extend_from_slice(mark(self.total, (head as u64).saturating_add(tail.len() as u64)).as_bytes());
        out.append(&mut tail);
        Shortened::Yes
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortened {
    No,
    Yes,
}

/// Drops bytes from the front until at most `most` are left. The front stays on a character boundary.
fn keep_tail(tail: &mut Vec<u8>, most: usize) {
    let surplus = tail.len().saturating_sub(most);
    let cut = boundary(tail, surplus, Toward::End).min(tail.len());
    tail.drain(..cut);
}

/// The direction in which to search for a boundary.
#[derive(Clone, Copy)]
enum Toward {
    Start,
    End,
}

/// Returns the character boundary of a JSON string nearest to `wanted`. `inside` must begin at a boundary.
fn boundary(inside: &[u8], wanted: usize, toward: Toward) -> usize {
    let mut at = 0;
    while at < wanted {
        let rest = inside.get(at..).unwrap_or_default();
        let plain = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
        if at.saturating_add(plain) >= wanted {
            return character_boundary(inside, at, at.saturating_add(plain), wanted, toward);
        }
        at = at.saturating_add(plain);
        let escape = escape_len(inside.get(at..).unwrap_or_default());
        if escape == 0 {
            return at;
        }
        let after = at.saturating_add(escape);
        if after > wanted {
            return match toward {
                Toward::Start => at,
                Toward::End => after,
            };
        }
        at = after;
    }
    at
}

/// Returns a boundary in plain text between `low` and `high`. A UTF-8 character has at most three continuation bytes;
/// invalid UTF-8 is cut anywhere.
fn character_boundary(inside: &[u8], low: usize, high: usize, wanted: usize, toward: Toward) -> usize {
    let is_boundary =
        |at: usize| at <= low || at >= high || inside.get(at).is_none_or(|byte| byte & 0xc0 != 0x80);
    let near = (0..=3).map(|step| match toward {
        Toward::Start => wanted.saturating_sub(step).max(low),
        Toward::End => wanted.saturating_add(step).min(high),
    });
    near.into_iter().find(|at| is_boundary(*at)).unwrap_or(wanted)
}

/// The length in bytes of the escape at the front, or 0 if there is none. A surrogate pair counts as one escape.
fn escape_len(bytes: &[u8]) -> usize {
    let is_unicode = |at: usize| bytes.get(at..at.saturating_add(2)) == Some(b"\\u");
    let unit = |at: usize| {
        let digits = std::str::from_utf8(bytes.get(at.saturating_add(2)..at.saturating_add(6))?).ok()?;
        u16::from_str_radix(digits, 16).ok()
    };
    match bytes {
        [b'\\', b'u', ..] => {
            let high = unit(0).is_some_and(|unit| (0xd800..0xdc00).contains(&unit));
            let low = high && is_unicode(6) && unit(6).is_some_and(|unit| (0xdc00..0xe000).contains(&unit));
            if low { 12 } else { 6 }
        }
        [b'\\', ..] => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shorten(inside: &[u8], cap: usize, piece: usize) -> (Vec<u8>, Shortened) {
        let mut out = b"before:".to_vec();
        let mut shortener = Shortener::default();
        shortener.start(&out, cap);
        for piece in inside.chunks(piece) {
            shortener.push(piece, &mut out);
        }
        let shortened = shortener.finish(&mut out);
        (out.split_off(b"before:".len()), shortened)
    }

    #[test]
    fn a_short_string_is_untouched() {
        assert_eq!(shorten(&[b'x'; 400], 400, 7), (vec![b'x'; 400], Shortened::No));
    }

    #[test]
    fn a_long_string_keeps_both_ends_and_states_its_original_length() {
        let inside: Vec<u8> = (0..100_000_u32).flat_map(|n| format!("{n:06}").into_bytes()).collect();
        let (out, shortened) = shorten(&inside, 4096, 1000);
        let text = String::from_utf8(out).expect("ascii");
        assert_eq!(shortened, Shortened::Yes);
        assert!(text.len() <= 4096 && text.len() > 3800, "{}", text.len());
        assert!(text.starts_with("000000000001000002"));
        assert!(text.ends_with("099998099999"));
        let kept = text.len() - mark(600_000, 0).len();
        assert!(text.contains(&format!("of 600000 {ELISION}")), "{kept}");
    }

    #[test]
    fn boundaries_respect_escapes_and_characters() {
        let check = |text: &str, wanted: usize, start: usize, end: usize| {
            assert_eq!(boundary(text.as_bytes(), wanted, Toward::Start), start, "{text} at {wanted}");
            assert_eq!(boundary(text.as_bytes(), wanted, Toward::End), end, "{text} at {wanted}");
        };
        check("abc", 2, 2, 2);
        check(r"a\nb", 2, 1, 3);
        check(r"\\\\n", 3, 2, 4);
        check(r"a\u00e4b", 4, 1, 7);
        check(r"\ud83d\ude00x", 6, 0, 12);
        check(r"\ud83d\u0041x", 6, 6, 6);
        check("a€b", 2, 1, 4);
        check("😀", 3, 0, 4);
    }

    fn json_string() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[a-z]{0,40}",
            Just("\\n".to_owned()),
            Just("\\\\".to_owned()),
            Just("\\\"".to_owned()),
            Just("\\u00e4".to_owned()),
            Just("\\ud83d\\ude00".to_owned()),
            Just("äöü€😀".to_owned()),
        ];
        proptest::collection::vec(piece, 0..200).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_shortened_string_stays_valid_and_within_the_limit(inside in json_string(), piece in 1_usize..50) {
            let (out, _) = shorten(inside.as_bytes(), 4 * MARK_ROOM, piece);
            prop_assert!(out.len() <= 4 * MARK_ROOM, "{}", out.len());
            let quoted = format!("\"{}\"", String::from_utf8(out).expect("utf-8"));
            prop_assert!(serde_json::from_str::<String>(&quoted).is_ok(), "{}", quoted);
        }
    }
}
