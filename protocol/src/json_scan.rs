//! Cleans an agent's stdin for the wire while it arrives.
//!
//! In one pass and constant memory the scanner
//! - finds the end of the first complete JSON value, because some agents leave stdin open;
//! - removes private text and recall's own blocks from every string ([`crate::privacy`]);
//! - shortens strings over 256 KiB ([`crate::elision`]) and keeps the total below 4 MiB: once a container reaches the
//!   limit for its depth, the rest of it is dropped. Outer levels have higher limits than inner ones, so a short field
//!   survives wherever it is, even after a giant array.
//!
//! Input that needs no change passes through byte for byte, except that leading white space and long runs of it are
//! dropped. Nesting costs one bit per level and no recursion. Input that is not JSON is kept as well, with tags
//! removed as from plain text. The scanner checks structure, not the contents of strings or numbers; the parser of the
//! result decides what is valid.

use crate::elision::{self, MARK_ROOM, Shortened, Shortener};
use crate::nesting::{Container, Nesting};
use crate::privacy::{Carry, Removed, Stripper};
use crate::tag::Opens;
use crate::wire::Flags;

/// The largest payload, in bytes.
pub const MAX_PAYLOAD: usize = 4 * 1024 * 1024;
/// The longest string that is kept complete, in bytes as written.
pub const MAX_STRING: usize = 256 * 1024;

/// Bytes reserved for the last member that began before the limit.
const SLACK: usize = 8 * 1024;
/// Bytes that each level of nesting reserves for the level around it, for the first nine levels.
const RESERVE: usize = 64 * 1024;
/// The limit in bytes for the last string that began in time. Ids and paths are shorter.
const MIN_STRING: usize = 512;
/// Longer runs of white space are shortened.
const MAX_SPACE: usize = 256;

/// Keys whose strings are never hidden by a tag left open in an earlier array element. They form the document's
/// structure; a block without them cannot be read.
const STRUCTURAL_KEYS: [&[u8]; 4] = [b"type", b"role", b"id", b"tool_use_id"];

const _: () = assert!(MIN_STRING >= 4 * MARK_ROOM && MAX_STRING < MAX_PAYLOAD / 4);

/// Whether more input is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    /// The first value is complete. Later input is ignored.
    Complete,
}

/// The cleaned input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// At most [`MAX_PAYLOAD`] bytes.
    pub payload: Vec<u8>,
    /// `INCOMPLETE`, `SHORTENED`, `STRIPPED` and `NOT_JSON`, as applicable.
    pub flags: Flags,
}

/// Cleans complete input.
pub fn clean(bytes: &[u8]) -> Cleaned {
    let mut scanner = Scanner::default();
    scanner.feed(bytes);
    scanner.finish()
}

/// The scanner. Feed it chunks of any size, then finish.
#[derive(Debug, Default)]
pub struct Scanner {
    out: Vec<u8>,
    state: State,
    nesting: Nesting,
    stripper: Stripper,
    carry: Carry,
    shortener: Shortener,
    /// The length of the output before the last comma, to remove it if there is no room for the next value.
    before_comma: usize,
    /// The length of the current run of white space.
    space: usize,
    /// The beginning of the last key, if it can be one of [`STRUCTURAL_KEYS`].
    key: Vec<u8>,
    /// The end of the first string that left a tag open, and the tags it left open. Needed only if the input turns out
    /// not to be JSON, where an open tag hides everything after it.
    left_open: Option<(usize, Opens)>,
    /// Bytes of the last chunk after the value.
    behind: usize,
    flags: Flags,
}

/// The next expected part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the first byte.
    #[default]
    Start,
    /// After this many bytes of a byte order mark, which some shells write first.
    ByteOrderMark(usize),
    /// After `[`.
    ElementOrEnd,
    /// After a comma in an array.
    Element,
    /// After `{`.
    KeyOrEnd,
    /// After a comma in an object.
    Key,
    /// After a key.
    Colon,
    /// After a colon.
    Member,
    /// Inside a string.
    InString {
        role: Role,
        escape: Escape,
        before: Opens,
    },
    /// Inside a number or a word.
    InScalar {
        start: usize,
        len: u64,
    },
    /// After a value inside a container.
    AfterValue,
    /// Inside a dropped part of a container, in which `nested` more are open.
    Skipping {
        nested: u64,
        inside: Inside,
    },
    NotJson,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Key,
    Value,
}

/// Whether the next byte of a string is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    No,
    Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Structure,
    String(Escape),
}

impl Scanner {
    /// Processes the next bytes.
    pub fn feed(&mut self, chunk: &[u8]) -> Progress {
        let mut rest = chunk;
        while let Some(first) = rest.first().copied() {
            let used = match self.state {
                State::Done => {
                    self.behind = rest.len();
                    return Progress::Complete;
                }
                State::NotJson => self.feed_raw(rest),
                State::InString { role, escape, before } => self.feed_string(rest, role, escape, before),
                State::Skipping { nested, inside } => self.skip(rest, nested, inside),
                State::InScalar { start, len } => self.feed_scalar(rest, start, len),
                State::Start
                | State::ByteOrderMark(_)
                | State::ElementOrEnd
                | State::Element
                | State::KeyOrEnd
                | State::Key
                | State::Colon
                | State::Member
                | State::AfterValue => self.feed_structure(rest, first),
            };
            rest = rest.get(used..).unwrap_or_default();
        }
        if self.state == State::Done { Progress::Complete } else { Progress::More }
    }

    /// How many bytes of the last chunk follow the complete value.
    pub fn behind(&self) -> usize {
        self.behind
    }

    /// Ends the input. An incomplete value was cut off here.
    pub fn finish(mut self) -> Cleaned {
        match self.state {
            State::Done => {}
            State::InScalar { start, len } if self.nesting.depth == 0 => self.end_scalar(start, len),
            State::InScalar { start, len } => self.shorten_scalar(start, len),
            State::InString { .. } => {
                self.stripper.finish(&mut |piece| self.shortener.push(piece, &mut self.out));
                if self.shortener.finish(&mut self.out) == Shortened::Yes {
                    self.flag(Flags::SHORTENED);
                }
            }
            State::ByteOrderMark(_) => self.give_up(),
            State::Start
            | State::ElementOrEnd
            | State::Element
            | State::KeyOrEnd
            | State::Key
            | State::Colon
            | State::Member
            | State::AfterValue
            | State::Skipping { .. }
            | State::NotJson => {}
        }
        if self.state == State::NotJson {
            self.stripper.finish(&mut |piece| self.out.extend_from_slice(piece));
            self.flag(Flags::NOT_JSON);
        } else if self.state != State::Done {
            self.flag(Flags::INCOMPLETE);
        }
        if self.stripper.removed() == Removed::Tags {
            self.flag(Flags::STRIPPED);
        }
        self.out.truncate(MAX_PAYLOAD);
        Cleaned { payload: self.out, flags: self.flags }
    }

    fn flag(&mut self, flag: Flags) {
        self.flags = self.flags.with(flag);
    }

    /// The maximum size of the output, in bytes, at which a value may still begin at this depth.
    fn room(&self) -> usize {
        let reserved = RESERVE.saturating_mul(self.nesting.depth.saturating_sub(1).min(8));
        // Every open container still needs its closing bracket.
        let used = self.out.len().saturating_add(self.nesting.depth);
        (MAX_PAYLOAD - SLACK).saturating_sub(reserved).saturating_sub(used)
    }

    fn string_cap(&self) -> usize {
        (self.room() / 2).clamp(MIN_STRING, MAX_STRING)
    }

    /// Processes one byte outside of strings and scalars, or a run of white space.
    fn feed_structure(&mut self, rest: &[u8], first: u8) -> usize {
        let in_mark = matches!(self.state, State::ByteOrderMark(_));
        if matches!(first, b' ' | b'\t' | b'\n' | b'\r') && !in_mark {
            return self.feed_space(rest);
        }
        self.space = 0;
        match (self.state, first) {
            (State::Start, 0xef) => self.state = State::ByteOrderMark(1),
            (State::ByteOrderMark(1), 0xbb) => self.state = State::ByteOrderMark(2),
            (State::ByteOrderMark(2), 0xbf) => self.state = State::Start,
            (State::ElementOrEnd | State::Element | State::KeyOrEnd | State::Key, b)
                if !matches!(b, b']' | b'}') && self.room() == 0 =>
            {
                self.start_skipping();
                return 0;
            }
            (State::Start | State::ElementOrEnd | State::Element | State::Member, _)
                if self.start_value(first) => {}
            (State::ElementOrEnd, b']') | (State::KeyOrEnd, b'}') => self.close(first),
            (State::KeyOrEnd | State::Key, b'"') => self.start_string(Role::Key),
            (State::Colon, b':') => {
                self.out.push(first);
                self.state = State::Member;
            }
            (State::AfterValue, b',') => self.comma(),
            (State::AfterValue, b'}') if self.nesting.innermost() == Some(Container::Object) => {
                self.close(first)
            }
            (State::AfterValue, b']') if self.nesting.innermost() == Some(Container::Array) => {
                self.close(first)
            }
            _ => {
                self.give_up();
                return 0;
            }
        }
        1
    }

    /// Begins the value that starts with `first`. `false` if no value does.
    fn start_value(&mut self, first: u8) -> bool {
        match first {
            b'"' => self.start_string(Role::Value),
            b'{' => self.open(Container::Object),
            b'[' => self.open(Container::Array),
            b'-' | b'+' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.state = State::InScalar { start: self.out.len(), len: 1 };
                self.out.push(first);
            }
            _ => return false,
        }
        true
    }

    fn open(&mut self, container: Container) {
        self.nesting.push(container);
        self.key.clear();
        let (bracket, state) = match container {
            Container::Object => (b'{', State::KeyOrEnd),
            Container::Array => (b'[', State::ElementOrEnd),
        };
        self.out.push(bracket);
        self.before_comma = self.out.len();
        self.state = state;
    }

    fn close(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.carry.container_ended(self.nesting.depth);
        self.nesting.pop();
        self.key.clear();
        self.value_ended();
    }

    fn value_ended(&mut self) {
        self.state = if self.nesting.depth == 0 { State::Done } else { State::AfterValue };
    }

    fn comma(&mut self) {
        self.before_comma = self.out.len();
        self.out.push(b',');
        self.state = match self.nesting.innermost() {
            Some(Container::Object) => State::Key,
            Some(Container::Array) | None => {
                self.carry.element_ended(self.nesting.depth);
                State::Element
            }
        };
    }

    fn feed_space(&mut self, rest: &[u8]) -> usize {
        let run = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        if self.state != State::Start {
            let keep = run.min(MAX_SPACE.saturating_sub(self.space)).min(self.room());
            self.out.extend_from_slice(rest.get(..keep).unwrap_or_default());
            self.space = self.space.saturating_add(keep);
        }
        run
    }

    fn start_string(&mut self, role: Role) {
        let structural = role == Role::Value
            && self.state == State::Member
            && STRUCTURAL_KEYS.contains(&self.key.as_slice());
        if role == Role::Key {
            self.key.clear();
        }
        let before = if role == Role::Key || structural { Opens::default() } else { self.carry.opens() };
        self.out.push(b'"');
        self.stripper.start(before);
        self.shortener.start(&self.out, self.string_cap());
        self.state = State::InString { role, escape: Escape::No, before };
    }

    fn feed_string(&mut self, rest: &[u8], role: Role, escape: Escape, before: Opens) -> usize {
        let (len, end) = string_run(rest, escape);
        let inside = rest.get(..len).unwrap_or_default();
        if role == Role::Key && self.key.len() <= MAX_STRUCTURAL_KEY {
            let few = inside.get(..inside.len().min(MAX_STRUCTURAL_KEY + 1)).unwrap_or_default();
            self.key.extend_from_slice(few);
        }
        let (shortener, out) = (&mut self.shortener, &mut self.out);
        self.stripper.feed(inside, &mut |piece| shortener.push(piece, out));
        match end {
            RunEnd::Quote => {
                self.end_string(role, before);
                len.saturating_add(1)
            }
            RunEnd::Input(escape) => {
                self.state = State::InString { role, escape, before };
                len
            }
        }
    }

    fn end_string(&mut self, role: Role, before: Opens) {
        let (shortener, out) = (&mut self.shortener, &mut self.out);
        let after = self.stripper.finish(&mut |piece| shortener.push(piece, out));
        if self.shortener.finish(&mut self.out) == Shortened::Yes {
            self.flag(Flags::SHORTENED);
        }
        self.out.push(b'"');
        if after.any() && self.left_open.is_none() {
            self.left_open = Some((self.out.len(), after));
        }
        match role {
            Role::Key => self.state = State::Colon,
            Role::Value => {
                if before != after {
                    self.carry.string_ended(before, after, self.nesting.innermost_array());
                }
                self.value_ended();
            }
        }
    }

    fn feed_scalar(&mut self, rest: &[u8], start: usize, len: u64) -> usize {
        let is_scalar = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let run = rest.iter().take_while(|byte| is_scalar(byte)).count();
        let room = MAX_STRING.saturating_sub(self.out.len().saturating_sub(start));
        self.out.extend_from_slice(rest.get(..run.min(room)).unwrap_or_default());
        let len = len.saturating_add(run as u64);
        self.state = State::InScalar { start, len };
        if run < rest.len() {
            self.end_scalar(start, len);
        }
        run
    }

    fn end_scalar(&mut self, start: usize, len: u64) {
        let text = self.out.get(start..).unwrap_or_default();
        // Inside a container an unknown word does no harm. On its own it may be the first word of a text.
        if self.nesting.depth == 0 && scalar_kind(text) == Scalar::Word {
            self.give_up();
            return;
        }
        self.shorten_scalar(start, len);
        self.value_ended();
    }

    /// Replaces an absurdly long number by a string that says so.
    fn shorten_scalar(&mut self, start: usize, len: u64) {
        if len <= MIN_STRING.max(self.string_cap().min(4096)) as u64 {
            return;
        }
        self.out.truncate(start);
        self.out.push(b'"');
        self.out.extend_from_slice(elision::mark(len, 0).trim().as_bytes());
        self.out.push(b'"');
        self.flag(Flags::SHORTENED);
    }

    fn start_skipping(&mut self) {
        if matches!(self.state, State::Element | State::Key) {
            self.out.truncate(self.before_comma);
        }
        self.flag(Flags::SHORTENED);
        self.state = State::Skipping { nested: 0, inside: Inside::Structure };
    }

    /// Skips the dropped part, up to the bracket that closes the container.
    fn skip(&mut self, rest: &[u8], mut nested: u64, mut inside: Inside) -> usize {
        let mut at = 0;
        while let Some(byte) = rest.get(at) {
            if let Inside::String(escape) = inside {
                let (len, end) = string_run(rest.get(at..).unwrap_or_default(), escape);
                at = at.saturating_add(len);
                match end {
                    RunEnd::Quote => {
                        inside = Inside::Structure;
                        at = at.saturating_add(1);
                    }
                    RunEnd::Input(escape) => inside = Inside::String(escape),
                }
                continue;
            }
            match byte {
                b'"' => inside = Inside::String(Escape::No),
                b'[' | b'{' => nested = nested.saturating_add(1),
                b']' | b'}' if nested == 0 => {
                    self.state = State::AfterValue;
                    return at;
                }
                b']' | b'}' => nested = nested.saturating_sub(1),
                _ => {}
            }
            at = at.saturating_add(1);
        }
        self.state = State::Skipping { nested, inside };
        at
    }

    /// The input is not JSON. From here on it is text.
    fn give_up(&mut self) {
        if let State::ByteOrderMark(seen) = self.state {
            self.out.extend_from_slice(b"\xef\xbb".get(..seen).unwrap_or_default());
        }
        let mut opens = Opens::default();
        if let Some((len, left_open)) = self.left_open {
            self.out.truncate(len);
            opens = left_open;
        }
        self.stripper.start(opens);
        self.state = State::NotJson;
    }

    fn feed_raw(&mut self, rest: &[u8]) -> usize {
        let out = &mut self.out;
        let mut cut = Shortened::No;
        self.stripper.feed(rest, &mut |piece| {
            let room = MAX_PAYLOAD.saturating_sub(out.len());
            if piece.len() > room {
                cut = Shortened::Yes;
            }
            out.extend_from_slice(piece.get(..piece.len().min(room)).unwrap_or_default());
        });
        if cut == Shortened::Yes {
            self.flag(Flags::SHORTENED);
        }
        rest.len()
    }
}

const MAX_STRUCTURAL_KEY: usize = 16;

pub(crate) enum RunEnd {
    Quote,
    /// The input ended inside the string.
    Input(Escape),
}

/// The number of bytes that belong to the inside of a string, and what follows them.
pub(crate) fn string_run(bytes: &[u8], escape: Escape) -> (usize, RunEnd) {
    let mut at = match escape {
        Escape::No => 0,
        Escape::Next if bytes.is_empty() => return (0, RunEnd::Input(Escape::Next)),
        Escape::Next => 1,
    };
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
            return (bytes.len(), RunEnd::Input(Escape::No));
        };
        at = at.saturating_add(found);
        if bytes.get(at) == Some(&b'"') {
            return (at, RunEnd::Quote);
        }
        at = at.saturating_add(2);
        if at > bytes.len() {
            return (bytes.len(), RunEnd::Input(Escape::Next));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scalar {
    Json,
    Word,
}

/// Whether a run of letters and digits can be a JSON value.
fn scalar_kind(text: &[u8]) -> Scalar {
    let number = text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
        && text.iter().any(u8::is_ascii_digit);
    if number || [&b"true"[..], b"false", b"null"].contains(&text) { Scalar::Json } else { Scalar::Word }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn clean_in_chunks(bytes: &[u8], size: usize) -> Cleaned {
        let mut scanner = Scanner::default();
        for chunk in bytes.chunks(size) {
            if scanner.feed(chunk) == Progress::Complete {
                break;
            }
        }
        scanner.finish()
    }

    #[track_caller]
    fn check(input: &str, expected: &str, flags: Flags) {
        for size in [1, 2, 3, 7, 64, 1 << 20] {
            let cleaned = clean_in_chunks(input.as_bytes(), size);
            assert_eq!(String::from_utf8_lossy(&cleaned.payload), expected, "in chunks of {size}");
            assert_eq!(cleaned.flags, flags, "in chunks of {size}");
        }
    }

    const PLAIN: Flags = Flags(0);

    #[test]
    fn values_pass_through_as_they_are() {
        for value in [
            r#"{"a": 1, "b" : [true,false , null, -1.5e9, "x\"y\\"],"c":{}, "d":[ ]}"#,
            "[]",
            "{}",
            r#""text""#,
            r#""\ud800 \u0000""#,
            r#"{"a":1,"a":2}"#,
            "[NaN]",
            "[[[[]]],{}]",
        ] {
            check(value, value, PLAIN);
        }
        check(" \n[1]\n", "[1]", PLAIN);
        check("\u{feff}{}", "{}", PLAIN);
        check(&format!("[1,{}2]", " ".repeat(1000)), &format!("[1,{}2]", " ".repeat(256)), PLAIN);
    }

    #[test]
    fn reading_stops_after_the_first_json_value() {
        check(r#"{"a":"}"}{"b":1}"#, r#"{"a":"}"}"#, PLAIN);
        check("[] trailing", "[]", PLAIN);
        check("1 2", "1", PLAIN);
        check("null\n", "null", PLAIN);
        let mut scanner = Scanner::default();
        assert_eq!(scanner.feed(br#"{"a":"#), Progress::More);
        assert_eq!(scanner.feed(b"[1]}"), Progress::Complete);
        assert_eq!(scanner.feed(b"x"), Progress::Complete);
        assert_eq!(scanner.finish().payload, br#"{"a":[1]}"#);
    }

    #[test]
    fn truncated_json_is_kept_and_marked() {
        for start in [r#"{"a":"#, r#"{"a":"b"#, r#"{"a":"b\"#, "[1", "[1,", "{", "tr", "", r#""x"#] {
            let flags = if start == "tr" { Flags::NOT_JSON } else { Flags::INCOMPLETE };
            check(start, start, flags);
        }
        check("true", "true", PLAIN);
        check(r#"{"prompt":"a <private>b"#, r#"{"prompt":"a "#, Flags::INCOMPLETE.with(Flags::STRIPPED));
    }

    #[test]
    fn input_that_is_not_json_is_kept_as_text() {
        for text in [
            "hello world",
            "{'a': 1}",
            "[1 2]",
            "{\"a\" 1}",
            "[1}",
            "{]",
            "nul",
            "<html>",
            "{\"a\":}",
            "[,1]",
        ] {
            check(text, text, Flags::NOT_JSON);
        }
        // An incomplete byte order mark does not count, whatever follows.
        let cleaned = clean(b"\xef \xbb\xbfnull");
        assert_eq!(cleaned, Cleaned { payload: b"\xef \xbb\xbfnull".to_vec(), flags: Flags::NOT_JSON });
        check("hello <private>x</private> world", "hello  world", Flags::NOT_JSON.with(Flags::STRIPPED));
        // In text, a tag that a string left open hides everything after it.
        check(r#"{"a":"<private>x","b":"y" oops "z"}"#, r#"{"a":"""#, Flags::NOT_JSON.with(Flags::STRIPPED));
    }

    #[test]
    fn private_text_is_removed_from_every_string() {
        let stripped = Flags::STRIPPED;
        check(r#"{"a":"x<private>y</private>z","b":"c"}"#, r#"{"a":"xz","b":"c"}"#, stripped);
        check(r#"{"a":"x\u003cprivate\u003ey","b":"c"}"#, r#"{"a":"x","b":"c"}"#, stripped);
        check(r#"{"a":["<recall-context v=\"1\">x</recall-context>"]}"#, r#"{"a":[""]}"#, stripped);
        check(r#"{"<private>k</private>":1}"#, r#"{"":1}"#, stripped);
        check(r#""<private>x\"y</private>z""#, r#""z""#, stripped);
    }

    #[test]
    fn an_open_tag_hides_the_following_elements_of_its_array() {
        let stripped = Flags::STRIPPED;
        check(r#"["a<private>b","c","d</private>e","f"]"#, r#"["a","","e","f"]"#, stripped);
        check(r#"{"x":["<private>b","c"],"y":"z"}"#, r#"{"x":["",""],"y":"z"}"#, stripped);
        check(
            r#"[{"type":"text","text":"a<private>b"},{"type":"text","text":"c</private>d"},{"text":"e"}]"#,
            r#"[{"type":"text","text":"a"},{"type":"text","text":"d"},{"text":"e"}]"#,
            stripped,
        );
        check(r#"[["<private>a","b"],"c"]"#, r#"[["",""],"c"]"#, stripped);
        check(r#"["<private>a",["b",{"k":"c"}],"d"]"#, r#"["",["",{"k":""}],""]"#, stripped);
        check(r#"["<private>a",["b</private>"],"d"]"#, r#"["",[""],"d"]"#, stripped);
        check(r#"[{"t":"<private>a","u":"b"},"c"]"#, r#"[{"t":"","u":"b"},""]"#, stripped);
    }

    #[test]
    fn long_strings_are_shortened_and_short_fields_stay() {
        let long = "x".repeat(10 << 20);
        let input = format!(r#"{{"session_id":"s","out":"START{long}END","tool_use_id":"t"}}"#);
        let cleaned = clean(input.as_bytes());
        assert_eq!(cleaned.flags, Flags::SHORTENED);
        let value: Value = serde_json::from_slice(&cleaned.payload).expect("valid");
        assert_eq!((&value["session_id"], &value["tool_use_id"]), (&json!("s"), &json!("t")));
        let out = value["out"].as_str().expect("a string");
        assert!(out.starts_with("STARTxx") && out.ends_with("xxEND") && out.len() <= MAX_STRING);
        assert!(out.contains(&format!("of {} {}", long.len() + 8, elision::ELISION)));
    }

    #[test]
    fn a_string_at_the_length_limit_is_not_shortened() {
        let input = format!(r#"["{}"]"#, "x".repeat(MAX_STRING));
        assert_eq!(clean(input.as_bytes()), Cleaned { payload: input.into_bytes(), flags: PLAIN });
    }

    #[test]
    fn an_open_tag_in_the_omitted_part_hides_the_tail() {
        let (head, tail) = ("a".repeat(1 << 20), "b".repeat(1 << 20));
        let input = format!(r#"{{"x":"{head}<private>{tail}SECRET","y":"z"}}"#);
        let text = String::from_utf8(clean(input.as_bytes()).payload).expect("utf-8");
        assert!(!text.contains("SECRET") && !text.contains("bb") && text.ends_with(r#"","y":"z"}"#));
        let closed = format!(r#"["{head}<private>{tail}","{tail}</private>END"]"#);
        let text = String::from_utf8(clean(closed.as_bytes()).payload).expect("utf-8");
        assert!(!text.contains("bb") && text.ends_with(r#"","END"]"#));
    }

    /// Streams a value made of `start`, `count` times `piece`, and `end`, and returns the parsed result.
    fn stream(start: &str, piece: &str, count: usize, end: &str) -> (Value, usize) {
        let mut scanner = Scanner::default();
        scanner.feed(start.as_bytes());
        for _ in 0..count {
            scanner.feed(piece.as_bytes());
        }
        scanner.feed(end.as_bytes());
        let cleaned = scanner.finish();
        assert!(cleaned.flags.contains(Flags::SHORTENED) && !cleaned.flags.contains(Flags::INCOMPLETE));
        assert!(cleaned.payload.len() <= MAX_PAYLOAD);
        (serde_json::from_slice(&cleaned.payload).expect("valid"), cleaned.payload.len())
    }

    #[test]
    fn many_short_values_leave_room_for_the_outer_fields() {
        let crowds = [
            (r#"{"r":{"items":["#, r#""some short text","#, r#"0],"after":"n"},"id":"t"}"#),
            (r#"{"r":{"items":[{"#, r#""k":"v","#, r#""k":"v"}],"after":"n"},"id":"t"}"#),
            (r#"{"r":{"items":["#, "[1,{}],", r#"0],"after":"n"},"id":"t"}"#),
            (r#"{"r":{"items":["#, "          1,\n", r#"0],"after":"n"},"id":"t"}"#),
        ];
        for (start, piece, end) in crowds {
            let (value, len) = stream(start, piece, 2_000_000, end);
            assert_eq!((&value["id"], &value["r"]["after"]), (&json!("t"), &json!("n")), "{piece}");
            assert!(len > MAX_PAYLOAD - (1 << 20), "{len} of {piece}");
        }
        let long = format!(r#""{}","#, "y".repeat(300_000));
        let (value, _) = stream(r#"{"r":{"items":["#, &long, 100, r#"0],"after":"n"},"id":"t"}"#);
        assert_eq!((&value["id"], &value["r"]["after"]), (&json!("t"), &json!("n")));
    }

    #[test]
    fn an_overlong_number_is_replaced_by_a_note() {
        let (value, _) = stream(r#"{"n":1"#, "0000000000", 100_000, r#","id":"t"}"#);
        assert_eq!(value["id"], "t");
        assert!(value["n"].as_str().expect("a note").contains("1000001 bytes elided"));
    }

    #[test]
    fn overlong_keys_and_runs_of_spaces_are_shortened() {
        let (value, _) = stream(r#"{"id":"t","k"#, "kkkkkkkkkk", 100_000, r#"":1}"#);
        assert_eq!(value["id"], "t");
        let mut scanner = Scanner::default();
        for _ in 0..100_000 {
            scanner.feed(b"                    ");
        }
        scanner.feed(b"[1]");
        assert_eq!(scanner.finish().payload, b"[1]");
    }

    #[test]
    fn deep_nesting_is_kept_and_truncated_only_at_the_size_limit() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        check_equal(&deep);
        let deep = format!("{}1{}", r#"{"a":["#.repeat(100_000), "]}".repeat(100_000));
        check_equal(&deep);
        let open = "[".repeat(100_000);
        assert_eq!(clean(open.as_bytes()), Cleaned { payload: open.into_bytes(), flags: Flags::INCOMPLETE });
        let far_too_deep = format!("{}{}", "[".repeat(3_000_000), "]".repeat(3_000_000));
        let cleaned = clean(far_too_deep.as_bytes());
        assert!(cleaned.payload.len() <= MAX_PAYLOAD && cleaned.flags == Flags::SHORTENED);
        let opened = cleaned.payload.iter().filter(|byte| **byte == b'[').count();
        assert_eq!(opened * 2, cleaned.payload.len());
    }

    fn check_equal(input: &str) {
        let cleaned = clean(input.as_bytes());
        assert!(cleaned.payload == input.as_bytes());
        assert_eq!(cleaned.flags, PLAIN);
    }

    #[test]
    fn text_that_is_not_json_is_limited_in_size() {
        let cleaned = clean("no json ".repeat(1_000_000).as_bytes());
        assert_eq!(cleaned.flags, Flags::NOT_JSON.with(Flags::SHORTENED));
        assert_eq!(cleaned.payload.len(), MAX_PAYLOAD);
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            ".{0,12}",
            Just("a<private>b</private>c".to_owned()),
            Just("<private>".to_owned()),
            Just("x</private>".to_owned()),
            Just("<recall-context v=\"1\">old".to_owned()),
            Just("\\u003cprivate\\u003e".to_owned()),
            Just("<pri".to_owned()),
            Just("\\\\\"".to_owned()),
        ]
    }

    fn any_json(text: impl Strategy<Value = String> + Clone + 'static) -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec((text.clone(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn json_without_tags_is_unchanged(value in any_json("[^<&\\\\]{0,12}".boxed()), size in 1_usize..40) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).expect("writes")] {
                let cleaned = clean_in_chunks(text.as_bytes(), size);
                prop_assert_eq!(String::from_utf8(cleaned.payload).expect("utf-8"), text);
                prop_assert_eq!(cleaned.flags, PLAIN);
            }
        }

        #[test]
        fn json_with_tags_stays_valid_and_cleaning_it_again_changes_nothing(value in any_json(any_text().boxed()), size in 1_usize..40) {
            let cleaned = clean_in_chunks(value.to_string().as_bytes(), size);
            prop_assert!(serde_json::from_slice::<Value>(&cleaned.payload).is_ok());
            prop_assert!(!cleaned.flags.contains(Flags::NOT_JSON));
            let again = clean(&cleaned.payload);
            prop_assert_eq!(again, Cleaned { payload: cleaned.payload, flags: PLAIN });
        }

        #[test]
        fn chunks_of_any_size_give_the_same_result(bytes in proptest::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(&b"{}[]\",:\\ tn<private>/"[..])], 0..200), size in 1_usize..20)
        {
            prop_assert_eq!(clean_in_chunks(&bytes, size), clean(&bytes));
        }

        #[test]
        fn a_secret_after_an_open_tag_is_always_removed(value in any_json(any_text().boxed()), cut in any::<prop::sample::Index>()) {
            let text = format!(r#"[{value},"<private>","SECRET",{{"k":["SECRET"]}},{value}"#);
            prop_assert!(!String::from_utf8_lossy(&clean(text.as_bytes()).payload).contains("SECRET"));
            let at = (0..=cut.index(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let broken = format!("{}{}", &text[at..], r#""<private>HIDDEN""#);
            prop_assert!(!String::from_utf8_lossy(&clean(broken.as_bytes()).payload).contains("HIDDEN"));
        }
    }
}
