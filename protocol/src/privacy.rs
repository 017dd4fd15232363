//! Removes text that recall must not keep: `<private>…</private>` and the blocks that recall itself injected.
//!
//! The shim does this before it sends or writes anything. The daemon uses the same code for other text (transcripts,
//! imports). In doubt, text is hidden:
//! - an unclosed tag hides the rest of its text and, inside a JSON array, the following elements too, up to the
//!   closing tag or the end of the array (an agent may split one prompt into several text blocks);
//! - a closing tag without an opening one is removed, and an unfinished opening tag (`<private` and a space) counts as
//!   a tag;
//! - blocks may be nested, and the outer one ends at its own closing tag;
//! - removing a block cannot create a new tag: a space is inserted where the remaining parts could form one.
//!
//! This module does not know JSON: `json_scan` finds the strings and feeds them through a [`Stripper`].

use std::borrow::Cow;

use crate::tag::{MAX_BEGINNINGS, MAX_UNDECIDED, Match, Opens, Side, match_closing_bracket, match_tag};

/// Text with tags and their contents removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripped<'a> {
    /// Borrowed if nothing was removed.
    pub text: Cow<'a, str>,
    pub removed: Removed,
}

/// Whether a tag was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    Nothing,
    Tags,
}

/// Removes private text and recall's own blocks from plain text.
pub fn strip_text(text: &str) -> Stripped<'_> {
    let (visible, removed) = strip_bytes(text.as_bytes());
    let text = match visible {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        // Tags are ASCII, so the result is valid UTF-8; the lossy conversion avoids having to prove it.
        Cow::Owned(bytes) => Cow::Owned(
            String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()),
        ),
    };
    Stripped { text, removed }
}

/// Whether the bytes contain a tag in any spelling.
pub fn has_tags(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(found) = memchr::memchr3(b'<', b'\\', b'&', rest) {
        rest = rest.get(found..).unwrap_or_default();
        match match_tag(rest) {
            Match::Yes(_) => return true,
            Match::No(len) => rest = rest.get(len.max(1)..).unwrap_or_default(),
            // An undecided match extends to the end, and no other tag begins inside it.
            Match::Undecided => return false,
        }
    }
    false
}

/// Removes private text and recall's own blocks from bytes, treated as one text.
pub fn strip_bytes(bytes: &[u8]) -> (Cow<'_, [u8]>, Removed) {
    // Most texts contain no bracket in any spelling, so nothing is copied.
    if memchr::memchr3(b'<', b'\\', b'&', bytes).is_none() {
        return (Cow::Borrowed(bytes), Removed::Nothing);
    }
    let mut stripper = Stripper::default();
    let mut visible = Vec::new();
    stripper.feed(bytes, &mut |piece| visible.extend_from_slice(piece));
    stripper.finish(&mut |piece| visible.extend_from_slice(piece));
    match stripper.removed() {
        Removed::Nothing => (Cow::Borrowed(bytes), Removed::Nothing),
        Removed::Tags => (Cow::Owned(visible), Removed::Tags),
    }
}

/// Removes tags from texts that arrive in pieces. Memory use is constant.
#[derive(Debug, Default)]
pub(crate) struct Stripper {
    opens: Opens,
    place: TextPosition,
    /// The possible beginning of a tag, at most `MAX_UNDECIDED` bytes.
    undecided: Vec<u8>,
    /// The end of the visible text so far. It might form a tag together with the text after a removed block.
    recent: Vec<u8>,
    removed: Option<Removed>,
}

/// The stripper's position in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TextPosition {
    /// Outside of tags. Visible unless a block is open.
    #[default]
    Text,
    /// Between the name of an opening tag and its closing bracket.
    Attributes,
    /// After the name of a closing tag. Only white space may precede the bracket.
    ClosingTag,
}

/// The result of one step over the input.
enum Step {
    /// Continue at this position.
    To(usize),
    /// The input from this position may be the beginning of a tag.
    Undecided(usize),
}

impl Stripper {
    /// Begins a new text inside the blocks that are already open.
    pub(crate) fn start(&mut self, opens: Opens) {
        self.opens = opens;
        self.place = TextPosition::Text;
        self.undecided.clear();
        self.recent.clear();
    }

    /// Feeds a piece of the text and passes its visible part to `visible`.
    pub(crate) fn feed(&mut self, piece: &[u8], visible: &mut dyn FnMut(&[u8])) {
        if self.undecided.is_empty() {
            self.walk(piece, visible);
            return;
        }
        let mut joined = std::mem::take(&mut self.undecided);
        joined.extend_from_slice(piece);
        self.walk(&joined, visible);
    }

    /// Ends the text. An undecided rest is not a tag. Returns the tags that are still open.
    pub(crate) fn finish(&mut self, visible: &mut dyn FnMut(&[u8])) -> Opens {
        let rest = std::mem::take(&mut self.undecided);
        if self.place != TextPosition::Attributes && !self.opens.any() {
            visible(&rest);
        }
        self.opens
    }

    /// Whether any text so far contained a tag.
    pub(crate) fn removed(&self) -> Removed {
        self.removed.unwrap_or(Removed::Nothing)
    }

    fn walk(&mut self, input: &[u8], visible: &mut dyn FnMut(&[u8])) {
        let mut at = 0;
        while at < input.len() {
            let step = match self.place {
                TextPosition::Text => self.walk_text(input, at, visible),
                TextPosition::Attributes => self.walk_attributes(input, at),
                TextPosition::ClosingTag => self.walk_closing_tag(input, at),
            };
            match step {
                Step::To(next) => at = next,
                Step::Undecided(from) => {
                    let rest = input.get(from..).unwrap_or_default();
                    debug_assert!(rest.len() <= MAX_UNDECIDED);
                    self.undecided.extend_from_slice(rest);
                    return;
                }
            }
        }
    }

    /// Skips text up to the next tag.
    fn walk_text(&mut self, input: &[u8], from: usize, visible: &mut dyn FnMut(&[u8])) -> Step {
        let mut at = from;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let Some(found) = memchr::memchr3(b'<', b'\\', b'&', rest) else {
                self.show(input.get(from..).unwrap_or_default(), visible);
                return Step::To(input.len());
            };
            at = at.saturating_add(found);
            match match_tag(input.get(at..).unwrap_or_default()) {
                Match::No(len) => at = at.saturating_add(len.max(1)),
                Match::Undecided => {
                    self.show(input.get(from..at).unwrap_or_default(), visible);
                    return Step::Undecided(at);
                }
                Match::Yes(tag) => {
                    self.show(input.get(from..at).unwrap_or_default(), visible);
                    self.keep_apart(visible);
                    self.removed = Some(Removed::Tags);
                    self.opens.apply(tag);
                    self.place = match tag.side {
                        Side::Open => TextPosition::Attributes,
                        Side::Close => TextPosition::ClosingTag,
                    };
                    return Step::To(at.saturating_add(tag.len));
                }
            }
        }
    }

    fn walk_attributes(&mut self, input: &[u8], from: usize) -> Step {
        let mut at = from;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let Some(found) = memchr::memchr3(b'>', b'\\', b'&', rest) else {
                return Step::To(input.len());
            };
            at = at.saturating_add(found);
            match match_closing_bracket(input.get(at..).unwrap_or_default()) {
                Match::No(len) => at = at.saturating_add(len.max(1)),
                Match::Undecided => return Step::Undecided(at),
                Match::Yes(len) => {
                    self.place = TextPosition::Text;
                    return Step::To(at.saturating_add(len));
                }
            }
        }
    }

    fn walk_closing_tag(&mut self, input: &[u8], from: usize) -> Step {
        let rest = input.get(from..).unwrap_or_default();
        let space = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let at = from.saturating_add(space);
        let rest = input.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return Step::To(at);
        }
        match match_closing_bracket(rest) {
            Match::Undecided => Step::Undecided(at),
            Match::Yes(len) => {
                self.place = TextPosition::Text;
                Step::To(at.saturating_add(len))
            }
            Match::No(_) => {
                self.place = TextPosition::Text;
                Step::To(at)
            }
        }
    }

    fn show(&mut self, piece: &[u8], visible: &mut dyn FnMut(&[u8])) {
        if piece.is_empty() || self.opens.any() {
            return;
        }
        visible(piece);
        let end = piece.get(piece.len().saturating_sub(MAX_UNDECIDED)..).unwrap_or_default();
        if end.len() == MAX_UNDECIDED {
            self.recent.clear();
        }
        self.recent.extend_from_slice(end);
        let surplus = self.recent.len().saturating_sub(MAX_UNDECIDED);
        self.recent.drain(..surplus);
    }

    /// Inserts a space if the visible text ends with the possible beginning of a tag that the text after a removed
    /// block could complete.
    fn keep_apart(&mut self, visible: &mut dyn FnMut(&[u8])) {
        if self.opens.any() {
            return;
        }
        let mut at = last_beginnings(&self.recent);
        while let Some(found) = memchr::memchr3(b'<', b'\\', b'&', self.recent.get(at..).unwrap_or_default())
        {
            at = at.saturating_add(found);
            match match_tag(self.recent.get(at..).unwrap_or_default()) {
                Match::Undecided => {
                    self.show(b" ", visible);
                    return;
                }
                Match::No(len) => at = at.saturating_add(len.max(1)),
                Match::Yes(tag) => at = at.saturating_add(tag.len),
            }
        }
    }
}

/// The position of the last characters that may begin a tag. It covers as many as an unfinished tag can contain: its
/// bracket, and the escapes of its slash and letters. Examining all earlier text at every tag would be quadratic.
fn last_beginnings(text: &[u8]) -> usize {
    let mut from = text.len();
    for _ in 0..MAX_BEGINNINGS {
        let before = text.get(..from).unwrap_or_default();
        let Some(at) = memchr::memrchr3(b'<', b'\\', b'&', before) else { break };
        let run = before.iter().rev().skip(before.len() - at - 1).take_while(|byte| **byte == b'\\').count();
        from = at + 1 - run.max(1);
    }
    from
}

/// Blocks that an array element leaves open for the following elements.
#[derive(Debug, Default)]
pub(crate) struct Carry {
    /// The enclosing arrays with open blocks, the innermost last.
    arrays: Vec<OpenArray>,
}

#[derive(Debug)]
struct OpenArray {
    /// Open containers inside the document, including this array.
    depth: usize,
    opens: Opens,
    reach: ElementState,
}

/// Whether the element that left the block open has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementState {
    SameElement,
    FollowingElements,
}

/// Inner arrays beyond this nesting depth of open blocks count as part of the outer one, which hides more.
const MAX_OPEN_ARRAYS: usize = 1024;

impl Carry {
    /// The tags that are open at the start of the next string.
    pub(crate) fn opens(&self) -> Opens {
        let reaching = self.arrays.iter().rev().find(|array| array.reach == ElementState::FollowingElements);
        reaching.map_or_else(Opens::default, |array| array.opens)
    }

    /// Records that a string which started with `before` open ended with `after` open. `array_depth` is the depth of
    /// the innermost array.
    pub(crate) fn string_ended(&mut self, before: Opens, after: Opens, array_depth: Option<usize>) {
        if before == after {
            return;
        }
        if !after.any() {
            self.arrays.clear();
            return;
        }
        let Some(depth) = array_depth else { return };
        let full = self.arrays.len() >= MAX_OPEN_ARRAYS;
        match self.arrays.last_mut() {
            Some(array) if array.depth == depth && array.reach == ElementState::FollowingElements => {
                array.opens = after
            }
            Some(array) if array.depth == depth || full => array.opens = array.opens.union(after),
            Some(_) | None => {
                self.arrays.push(OpenArray { depth, opens: after, reach: ElementState::SameElement })
            }
        }
    }

    /// Records a comma between two elements of the array at `depth`.
    pub(crate) fn element_ended(&mut self, depth: usize) {
        if let Some(array) = self.arrays.last_mut().filter(|array| array.depth == depth) {
            array.reach = ElementState::FollowingElements;
        }
    }

    /// Records that the container at `depth` closed.
    pub(crate) fn container_ended(&mut self, depth: usize) {
        self.arrays.pop_if(|array| array.depth >= depth);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let stripped = strip_text(text);
        assert_eq!(stripped.text, expected, "{text}");
        assert_eq!(has_tags(text.as_bytes()), text != expected, "{text}");
        assert_eq!(stripped.removed == Removed::Nothing, text == expected, "{text}");
    }

    #[test]
    fn private_text_and_injected_blocks_are_removed() {
        check("a <private>b</private> c", "a  c");
        check("a<PRIVATE class=\"x\">b</Private >c", "ac");
        check("<recall-context v=\"1\">old</recall-context>new", "new");
        check("<claude-recall-context>old</claude-recall-context>new", "new");
        check("x<claude-mem-context>\nold\n</claude-mem-context>", "x");
        check("&lt;recall-context&gt;old&lt;/recall-context&gt; new", " new");
        check(r"{\u003cprivate\u003eb\u003c/private\u003ec", "{c");
        check(r#"{"a":"\\u003cprivate\\u003eb\\u003c\\/private\\u003ec"}"#, r#"{"a":"c"}"#);
        check(r"a<\u0070rivate>b</privat\u0065>c", "ac");
        check(r"a\u003c\u0070\u0072\u0069\u0076\u0061\u0074\u0065\u003eb", "a");
    }

    #[test]
    fn an_open_tag_hides_the_rest_of_the_text() {
        check("a <private>b", "a ");
        check("a <private", "a <private");
        check("a <private b", "a ");
        check("<private a=\"</private>\">b</private>c", "c");
        check("a <private>b</private", "a ");
        check("<private></privat>b", "");
    }

    #[test]
    fn a_lone_closing_tag_is_removed() {
        check("a</private> b", "a b");
        check("a</private", "a</private");
        check("a</private b", "ab");
    }

    #[test]
    fn nested_blocks_end_with_the_outer_one() {
        check("a<private>b<private>c</private>d</private>e", "ae");
        check("a<private>b<recall-context>c</private>d</recall-context>e", "ae");
        check("a<recall-context>b<private>c</recall-context>d</private>e", "ae");
    }

    #[test]
    fn removing_a_tag_does_not_form_a_new_tag() {
        check("<pri<private>x</private>vate>y", "<pri vate>y");
        check("<</private>private>y", "< private>y");
        check(r"\</private>u003cprivate>y", r"\ u003cprivate>y");
        check("<pri</private>va</private>te>y", "<pri vate>y");
        check(r"<\u0070\u0072\u0069\u</private>0076ate>y", r"<\u0070\u0072\u0069\u 0076ate>y");
        check(r"<\u0070ri<private>x</private>vate>y", r"<\u0070ri vate>y");
        check("&l</private>t;recall-context>y", "&l t;recall-context>y");
    }

    #[test]
    fn text_without_tags_is_neither_changed_nor_copied() {
        for text in [
            "",
            "plain",
            "a < b && c > d",
            "<privateer>",
            "Vec<private::Key>",
            r"C:\users\n",
            "&lt;private&gt;",
        ] {
            check(text, text);
            assert!(matches!(strip_text(text).text, Cow::Borrowed(_)));
        }
    }

    /// Text with many tags and fragments of tags.
    fn tagged_text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("<private>"),
            Just("</private>"),
            Just("<recall-context v=\"1\">"),
            Just("</recall-context>"),
            Just("<claude-mem-context>"),
            Just("</claude-mem-context>"),
            Just("<"),
            Just("</"),
            Just("<pri"),
            Just("vate"),
            Just(">"),
            Just("private"),
            Just("\\"),
            Just("\\u003c"),
            Just("\\\\u003e"),
            Just("u003c"),
            Just("&lt;"),
            Just("&l"),
            Just("t;"),
            Just("&gt;"),
            Just("recall-context"),
            Just("/"),
            Just(" "),
            Just("x"),
            Just("ä€😀"),
            Just("\n"),
            Just("PRIVATE"),
            Just("\""),
        ];
        proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn stripping_twice_changes_nothing_more(text in tagged_text()) {
            let once = strip_text(&text);
            let twice = strip_text(&once.text);
            prop_assert_eq!(&twice.text, &once.text);
            prop_assert_eq!(twice.removed, Removed::Nothing);
        }

        #[test]
        fn pieces_of_any_size_give_the_same_result(text in tagged_text(), size in 1_usize..9) {
            let mut stripper = Stripper::default();
            let mut visible = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                stripper.feed(piece, &mut |piece| visible.extend_from_slice(piece));
            }
            stripper.finish(&mut |piece| visible.extend_from_slice(piece));
            prop_assert_eq!(String::from_utf8(visible).expect("utf-8"), strip_text(&text).text);
        }

        #[test]
        fn a_secret_between_tags_is_always_removed(before in tagged_text(), after in tagged_text()) {
            let text = format!("{before}<private>SECRET</private>{after}");
            prop_assert!(!strip_text(&text).text.contains("SECRET"));
        }

        #[test]
        fn tags_are_detected_exactly_if_stripping_removes_any(text in tagged_text()) {
            prop_assert_eq!(has_tags(text.as_bytes()), strip_text(&text).removed == Removed::Tags);
        }

        #[test]
        fn bytes_change_only_if_tags_are_removed(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (visible, removed) = strip_bytes(&bytes);
            prop_assert!(removed == Removed::Tags || visible == bytes);
        }
    }
}
