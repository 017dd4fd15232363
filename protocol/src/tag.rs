//! Recognises the tags whose content recall must not keep: the user's `<private>` and recall's own injected blocks.
//!
//! Matching works on bytes, both of plain text and of JSON strings as they are on the wire. A bracket has three
//! spellings: itself; `\u003c` with any number of backslashes (JSON encoders that escape for HTML, and JSON inside a
//! JSON string); and, for recall's own blocks only, `&lt;`, because one agent returns injected text that way. A user's
//! page about HTML must not vanish because it mentions `&lt;private&gt;`. Names match in any case, and any letter may
//! be written as an escape such as `\u0070`, which means the same in JSON.

use crate::planted::{Fault, planted};

/// Tag names, in the order of [`Opens`].
const NAMES: [&[u8]; 4] = [b"private", b"recall-context", b"claude-recall-context", b"claude-mem-context"];
/// The index of `private` in [`NAMES`].
const PRIVATE: usize = 0;

/// Longer runs of backslashes are passed on in pieces; see [`match_tag`].
pub(crate) const MAX_RUN: usize = 64;
/// The maximum number of backslashes before an escaped letter: three levels of nested JSON strings.
const MAX_LETTER_RUN: usize = 7;
/// The length of the longest of [`NAMES`].
const LONGEST_NAME: usize = 21;
/// An upper bound for the undecided beginning of a tag, in bytes.
pub(crate) const MAX_UNDECIDED: usize = 2 * MAX_RUN + LONGEST_NAME * (MAX_LETTER_RUN + 5) + 32;
/// The maximum number of backslash runs and brackets in an undecided beginning of a tag.
pub(crate) const MAX_BEGINNINGS: usize = LONGEST_NAME + 2;

/// The number of open tags of each name. A count instead of a flag, because blocks may be nested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opens([u32; NAMES.len()]);

impl Opens {
    pub(crate) fn any(self) -> bool {
        self != Self::default()
    }

    pub(crate) fn apply(&mut self, tag: Tag) {
        if let Some(count) = self.0.get_mut(tag.name) {
            *count = match tag.side {
                Side::Open => count.saturating_add(1),
                Side::Close => count.saturating_sub(1),
            };
        }
    }

    /// Everything that is open in either of the two.
    pub(crate) fn union(self, other: Self) -> Self {
        let mut both = self;
        for (count, more) in both.0.iter_mut().zip(other.0) {
            *count = (*count).max(more);
        }
        both
    }
}

/// A recognised tag, from its bracket to the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    name: usize,
    pub(crate) side: Side,
    /// Bytes from the bracket to the end of the name. Attributes and the closing bracket follow.
    pub(crate) len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Open,
    Close,
}

/// The result of matching bytes against a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match<T> {
    Yes(T),
    /// No match. This many bytes belong together and can be skipped.
    No(usize),
    /// More bytes are needed to decide.
    Undecided,
}

/// Checks whether a tag starts at the first byte, which must be `<`, `\` or `&`.
///
/// A tag's name ends with white space, `>`, `/` or the beginning of a bracket. So `<private` at the end of a text is
/// text, and `<privateer` is a different name. A run of backslashes is always consumed whole, because splitting it
/// could turn an escaped backslash into an escape of the next character.
pub(crate) fn match_tag(bytes: &[u8]) -> Match<Tag> {
    if planted(Fault::KeepPrivate) {
        return Match::No(1);
    }
    let (lead, spelling) = match match_bracket(bytes, Bracket::Less) {
        Match::Yes(found) => found,
        Match::No(len) => return Match::No(len),
        Match::Undecided => return Match::Undecided,
    };
    let no = Match::No(if spelling == Spelling::Escape { backslashes(bytes) } else { 1 });
    let after_lead = bytes.get(lead..).unwrap_or_default();
    // Nearly every bracket belongs to some other tag, as the next byte shows.
    if after_lead.first().is_some_and(|byte| !may_follow_bracket(*byte)) {
        return no;
    }
    let run = backslashes(after_lead);
    if run > MAX_RUN {
        return no;
    }
    let (side, slash) = match after_lead.get(run) {
        Some(b'/') => (Side::Close, run + 1),
        None => return Match::Undecided,
        Some(_) if run > 0 => match letter(after_lead) {
            Match::Yes((b'/', len)) => (Side::Close, len),
            Match::Yes(_) => (Side::Open, 0),
            Match::No(_) => return no,
            Match::Undecided => return Match::Undecided,
        },
        Some(_) => (Side::Open, 0),
    };
    let name = after_lead.get(slash..).unwrap_or_default();
    match match_name(name, spelling) {
        Match::Yes((name, len)) => Match::Yes(Tag { name, side, len: lead + slash + len }),
        Match::No(_) => no,
        Match::Undecided => Match::Undecided,
    }
}

/// Returns the index in [`NAMES`] of the name at the front, and its length as written.
fn match_name(bytes: &[u8], spelling: Spelling) -> Match<(usize, usize)> {
    let mut alive = NAMES.map(|_| true);
    alive[PRIVATE] = spelling != Spelling::Entity;
    let mut at = 0;
    for index in 0..=LONGEST_NAME {
        let Some(next) = bytes.get(at) else { return Match::Undecided };
        let complete = NAMES.iter().zip(alive).position(|(name, alive)| alive && name.len() == index);
        if let Some(name) = complete
            && matches!(next, b' ' | b'\t' | b'\n' | b'\r' | 0x0c | b'>' | b'/' | b'\\' | b'<' | b'&')
        {
            return Match::Yes((name, at));
        }
        let (letter, len) = match letter(bytes.get(at..).unwrap_or_default()) {
            Match::Yes(found) => found,
            Match::No(len) => return Match::No(len),
            Match::Undecided => return Match::Undecided,
        };
        for (alive, name) in alive.iter_mut().zip(NAMES) {
            *alive &= name.get(index).is_some_and(|wanted| wanted.eq_ignore_ascii_case(&letter));
        }
        if alive == NAMES.map(|_| false) {
            break;
        }
        at += len;
    }
    Match::No(1)
}

/// Returns the ASCII character at the front, which may be escaped, and its length as written.
fn letter(bytes: &[u8]) -> Match<(u8, usize)> {
    let Some(first) = bytes.first() else { return Match::Undecided };
    if *first != b'\\' {
        return Match::Yes((*first, 1));
    }
    let run = backslashes(bytes);
    let escape = bytes.get(run..).unwrap_or_default();
    if run > MAX_LETTER_RUN || escape.first().is_some_and(|byte| *byte != b'u') {
        return Match::No(1);
    }
    let mut value = 0_u32;
    for at in 1..5 {
        let Some(digit) = escape.get(at) else { return Match::Undecided };
        let Some(digit) = char::from(*digit).to_digit(16) else { return Match::No(1) };
        value = value * 16 + digit;
    }
    match u8::try_from(value) {
        Ok(letter) if letter.is_ascii() => Match::Yes((letter, run + 5)),
        _ => Match::No(1),
    }
}

fn may_follow_bracket(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\')
        || NAMES.iter().any(|name| name.first().is_some_and(|first| first.eq_ignore_ascii_case(&byte)))
}

/// Checks whether a closing bracket starts at the first byte, which must be `>`, `\` or `&`. Returns its length.
pub(crate) fn match_closing_bracket(bytes: &[u8]) -> Match<usize> {
    match match_bracket(bytes, Bracket::Greater) {
        Match::Yes((len, _)) => Match::Yes(len),
        Match::No(len) => Match::No(len),
        Match::Undecided => Match::Undecided,
    }
}

#[derive(Clone, Copy)]
enum Bracket {
    Less,
    Greater,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Plain,
    Escape,
    Entity,
}

fn match_bracket(bytes: &[u8], bracket: Bracket) -> Match<(usize, Spelling)> {
    let (plain, escape, entity): (u8, &[u8], &[u8]) = match bracket {
        Bracket::Less => (b'<', b"u003c", b"&lt;"),
        Bracket::Greater => (b'>', b"u003e", b"&gt;"),
    };
    match bytes.first() {
        Some(byte) if *byte == plain => Match::Yes((1, Spelling::Plain)),
        Some(b'\\') => {
            let run = backslashes(bytes);
            if run > MAX_RUN {
                // An even number, so the rest of the run keeps its meaning.
                return Match::No(MAX_RUN);
            }
            match starts_with(bytes.get(run..).unwrap_or_default(), escape) {
                Match::Yes(len) => Match::Yes((run + len, Spelling::Escape)),
                Match::No(_) => Match::No(run),
                Match::Undecided => Match::Undecided,
            }
        }
        Some(b'&') => match starts_with(bytes, entity) {
            Match::Yes(len) => Match::Yes((len, Spelling::Entity)),
            Match::No(_) => Match::No(1),
            Match::Undecided => Match::Undecided,
        },
        Some(_) => Match::No(1),
        None => Match::Undecided,
    }
}

fn starts_with(bytes: &[u8], wanted: &[u8]) -> Match<usize> {
    let len = bytes.len().min(wanted.len());
    match (bytes.get(..len), wanted.get(..len)) {
        (Some(start), Some(wish)) if start.eq_ignore_ascii_case(wish) => {
            if len == wanted.len() {
                Match::Yes(len)
            } else {
                Match::Undecided
            }
        }
        _ => Match::No(1),
    }
}

/// The length of the run at the front. [`MAX_RUN`] plus one stands for all longer ones, so that a run passed on in
/// pieces is not counted to its end for each piece.
fn backslashes(bytes: &[u8]) -> usize {
    bytes.iter().take(MAX_RUN + 1).take_while(|byte| **byte == b'\\').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Match<(Side, usize)>) {
        let found = match match_tag(text.as_bytes()) {
            Match::Yes(tag) => Match::Yes((tag.side, tag.len)),
            Match::No(len) => Match::No(len),
            Match::Undecided => Match::Undecided,
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn every_spelling_of_a_tag_is_found() {
        check("<private>", Match::Yes((Side::Open, 8)));
        check("</private>", Match::Yes((Side::Close, 9)));
        check("<PriVate x=\"1\">", Match::Yes((Side::Open, 8)));
        check("<private/>", Match::Yes((Side::Open, 8)));
        check("<private<", Match::Yes((Side::Open, 8)));
        check("<recall-context v=\"1\">", Match::Yes((Side::Open, 15)));
        check("<claude-recall-context>", Match::Yes((Side::Open, 22)));
        check("</claude-mem-context\n>", Match::Yes((Side::Close, 20)));
        check(r"\u003cprivate\u003e", Match::Yes((Side::Open, 13)));
        check(r"\\\u003C\\/private\\u003E", Match::Yes((Side::Close, 18)));
        check(r"<\/private>", Match::Yes((Side::Close, 10)));
        check(r"<\u0070rivate>", Match::Yes((Side::Open, 13)));
        check(r"<\u0050RIV\u0041te>", Match::Yes((Side::Open, 18)));
        check(r"\\u003c\\u002f\\u0070rivat\\u0065\\u003e", Match::Yes((Side::Close, 33)));
        check(r"<\u002Fprivate >", Match::Yes((Side::Close, 14)));
        check(r"<recall\u002dcontext v", Match::Yes((Side::Open, 20)));
        check("&lt;recall-context&gt;", Match::Yes((Side::Open, 18)));
    }

    #[test]
    fn text_that_only_looks_like_a_tag_is_not_matched() {
        check("<privateer>", Match::No(1));
        check("<private-part>", Match::No(1));
        check("< private>", Match::No(1));
        check("<p>", Match::No(1));
        check("&lt;private&gt;", Match::No(1));
        check("&amp;", Match::No(1));
        check(r"\n<private>", Match::No(1));
        check(r"\\\\n", Match::No(4));
        check(r"\u003e", Match::No(1));
        check(r"<\private>", Match::No(1));
        check(r"<\u0071rivate>", Match::No(1));
        check(r"<\u0070rivateer>", Match::No(1));
        check(r"<\u00e9>", Match::No(1));
        check(r"<\u00zz>", Match::No(1));
    }

    #[test]
    fn the_beginning_of_a_tag_is_undecided() {
        let spelled = r"<\u0063laude-\u0072ecall-context>";
        for tag in ["</claude-recall-context>", r"\\u003c\/private>", "&lt;recall-context&gt;", spelled] {
            let Match::Yes(found) = match_tag(tag.as_bytes()) else { panic!("{tag} is a tag") };
            for cut in 1..=found.len {
                check(&tag[..cut], Match::Undecided);
            }
        }
    }

    #[test]
    fn overlong_runs_of_backslashes_are_not_matched() {
        check(&"\\".repeat(MAX_RUN + 1), Match::No(MAX_RUN));
        check(&"\\".repeat(MAX_RUN), Match::Undecided);
        check(&format!("<{}", "\\".repeat(MAX_RUN + 1)), Match::No(1));
    }

    #[test]
    fn all_three_spellings_of_a_closing_bracket_are_matched() {
        assert_eq!(match_closing_bracket(b">x"), Match::Yes(1));
        assert_eq!(match_closing_bracket(br"\\u003ex"), Match::Yes(7));
        assert_eq!(match_closing_bracket(b"&gt;"), Match::Yes(4));
        assert_eq!(match_closing_bracket(br"\u003"), Match::Undecided);
        assert_eq!(match_closing_bracket(br"\n"), Match::No(1));
    }
}
