//! Promises that hold for any input. The fuzz targets (`fuzz/`) look for input that breaks one of them, and `corpus.rs`
//! replays the inputs worth keeping.
//!
//! Each function takes the fuzzer's bytes and panics if a promise is broken.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::os::unix::ffi::OsStrExt;

use recall_protocol::codec::Message;
use recall_protocol::frame::{self, FrameError, HEADER_LEN, MAX_VERSION, MIN_VERSION, PROTOCOL_VERSION};
use recall_protocol::json_field::field;
use recall_protocol::json_scan::{Cleaned, MAX_PAYLOAD, MAX_STRING, Progress, Scanner, clean};
use recall_protocol::privacy::{Removed, strip_bytes, strip_text};
use recall_protocol::spool::{self, SpoolName, SpoolReadError};
use recall_protocol::wire::{Flags, Reply, Request};
use serde::de::IgnoredAny;
use serde_json::Value;

/// Private text that must never appear in an output. Its control characters are in no other input, see [`plant`].
const SECRET: &[u8] = b"\x01\x02SECRET\x02\x01";
/// More bytes than a payload may have, so that every bound is reached.
const FLOOD: usize = MAX_PAYLOAD + (MAX_PAYLOAD >> 2);

/// Decoding never panics, and each message has exactly one encoding: encoding what was decoded gives the same bytes.
pub(crate) fn frame_decode(bytes: &[u8]) {
    decode_as::<Request>(bytes);
    decode_as::<Reply>(bytes);
}

fn decode_as<M: Message + PartialEq + Debug>(bytes: &[u8]) {
    read_back::<M>(bytes);
    // The same bytes as the body of a valid frame, because chance alone seldom makes a valid header.
    let header = frame::header(bytes.len(), PROTOCOL_VERSION).expect("a fuzzer's input is small");
    read_back::<M>(&[&header, bytes].concat());
}

fn read_back<M: Message + PartialEq + Debug>(bytes: &[u8]) {
    match frame::decode_frame::<M>(bytes) {
        Ok(message) => {
            assert_eq!(
                frame::encode_frame(&message).expect("it came in a frame"),
                bytes,
                "written otherwise"
            );
        }
        Err(FrameError::Torn) => {
            let announced = bytes.first_chunk::<4>().map_or(u32::MAX, |len| u32::from_le_bytes(*len));
            assert!(bytes.len() < HEADER_LEN + announced as usize, "a whole frame is not torn");
        }
        Err(FrameError::Header(_) | FrameError::Decode(_)) => {}
        Err(other) => panic!("no reason to refuse bytes: {other:?}"),
    }
}

/// The first 48 bytes are the file's name, the rest its content.
///
/// A valid name means one file and one event. A file is an event, damaged, or of another version; only a header that
/// names another version makes it one.
pub(crate) fn spool_decode(bytes: &[u8]) {
    let (name, content) = bytes.split_at(bytes.len().min(48));
    let Some(name) = SpoolName::parse(OsStr::from_bytes(name)) else { return };
    assert_eq!(SpoolName::parse(OsStr::new(name.as_str())).as_ref(), Some(&name));
    assert!(!name.as_str().contains('/'), "a name never leaves its folder");
    let event_id = name.event_id().expect("a name carries an id");
    let version = content.get(4).copied().unwrap_or(PROTOCOL_VERSION);
    let understood = (MIN_VERSION..=MAX_VERSION).contains(&version);
    match spool::decode(&name, content) {
        Ok(deliver) => {
            assert!(understood && deliver.event_id == event_id);
            let frame = frame::encode_frame(&Request::Deliver(deliver)).expect("it came in a frame");
            assert_eq!(frame, content, "written otherwise");
        }
        Err(SpoolReadError::UnknownVersion { version: stored }) => assert!(!understood && stored == version),
        Err(SpoolReadError::Bad { .. }) => assert!(understood),
        Err(other) => panic!("the disk has no part in this: {other:?}"),
    }
}

/// The first byte is the size of the chunks, the rest what an agent writes to stdin.
pub(crate) fn stdin_scan(bytes: &[u8]) {
    let Some((size, input)) = bytes.split_first() else { return };
    let cleaned = clean(input);
    assert_eq!(clean_in_chunks(input, usize::from(*size).max(1)), cleaned, "chunks change the result");
    check_bounds(input.len(), &cleaned);
    check_nothing_private(&cleaned);
    check_json(input, &cleaned);
    check_field(&cleaned.payload);
    if let Some(planted) = plant(input, usize::from(*size)) {
        assert!(!contains_secret(&clean(&planted).payload), "a secret got out");
    }
}

/// Two bytes 0xff divide the input into a beginning, a piece and an end. The piece is repeated until the whole is
/// larger than a payload may be.
pub(crate) fn stdin_flood(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == 0xff);
    let (Some(start), Some(piece), Some(end)) = (parts.next(), parts.next(), parts.next()) else { return };
    if piece.is_empty() {
        return;
    }
    let input = [start, &piece.repeat(FLOOD / piece.len()), end].concat();
    let cleaned = clean(&input);
    assert!(clean_in_chunks(&input, 64 * 1024 - 1) == cleaned, "chunks change the result");
    check_bounds(input.len(), &cleaned);
    check_nothing_private(&cleaned);
    if is_json(&input) {
        assert!(is_json(&cleaned.payload), "what was JSON is none any more");
        assert!(!cleaned.flags.contains(Flags::NOT_JSON) && !cleaned.flags.contains(Flags::INCOMPLETE));
    }
}

/// Takes the input as a text, and as the inside of a JSON string.
pub(crate) fn tag_strip(bytes: &[u8]) {
    let (visible, removed) = strip_bytes(bytes);
    assert_eq!(removed == Removed::Nothing, *visible == *bytes, "removed and the same");
    assert!(strip_bytes(&visible).1 == Removed::Nothing, "stripped again, there is more to strip");
    assert!(is_rest_of(&visible, bytes), "something was added");
    // The scanner must do the same in pieces. A leading dash makes its input something other than JSON.
    let raw = [b"- ", bytes].concat();
    let in_pieces = clean_in_chunks(&raw, bytes.first().map_or(1, |byte| usize::from(byte % 16) + 1));
    assert_eq!(in_pieces.payload.strip_prefix(b"- "), Some(&*visible), "pieces change the result");
    if let Some(planted) = plant(bytes, bytes.len()) {
        assert!(!contains_secret(&strip_bytes(&planted).0), "a secret got out");
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_text(text);
    }
}

fn check_text(text: &str) {
    let stripped = strip_text(text).text;
    assert!(!stripped.contains(char::REPLACEMENT_CHARACTER) || text.contains(char::REPLACEMENT_CHARACTER));
    let quoted = serde_json::to_string(text).expect("text is JSON");
    let cleaned = clean(quoted.as_bytes());
    let inside: String = serde_json::from_slice(&cleaned.payload).expect("a string stays a string");
    // If quoting changes nothing in the text, both ways give the same result.
    if quoted.len() == text.len() + 2 && cleaned.payload.len() < MAX_STRING {
        assert_eq!(inside, stripped, "JSON and text are stripped differently");
    }
}

fn clean_in_chunks(bytes: &[u8], size: usize) -> Cleaned {
    let mut scanner = Scanner::default();
    let complete = bytes.chunks(size).any(|chunk| scanner.feed(chunk) == Progress::Complete);
    let cleaned = scanner.finish();
    assert!(!complete || !cleaned.flags.contains(Flags::INCOMPLETE), "complete and incomplete");
    cleaned
}

fn check_bounds(read: usize, cleaned: &Cleaned) {
    assert!(cleaned.payload.len() <= MAX_PAYLOAD, "{} bytes go on", cleaned.payload.len());
    // Removing a tag may leave a space.
    assert!(
        cleaned.payload.len() <= read || cleaned.flags.contains(Flags::SHORTENED),
        "{} bytes go on of {read}",
        cleaned.payload.len()
    );
}

/// No tag is left, and a second pass changes nothing.
fn check_nothing_private(cleaned: &Cleaned) {
    assert!(strip_bytes(&cleaned.payload).1 == Removed::Nothing, "a tag is left");
    if !cleaned.flags.contains(Flags::NOT_JSON) && !cleaned.flags.contains(Flags::INCOMPLETE) {
        let again = clean(&cleaned.payload);
        assert!(again.payload == cleaned.payload && again.flags == Flags::default(), "{:?}", again.flags);
    }
}

fn check_json(input: &[u8], cleaned: &Cleaned) {
    let Some(value) = first_value::<IgnoredAny>(input).map(|_| first_value::<Value>(input)) else { return };
    let flags = cleaned.flags;
    assert!(!flags.contains(Flags::NOT_JSON) && !flags.contains(Flags::INCOMPLETE), "{flags:?} of JSON");
    assert!(is_json(&cleaned.payload), "what was JSON is none any more");
    if let Some(value) = value
        && flags == Flags::default()
    {
        let kept: Value = serde_json::from_slice(&cleaned.payload).expect("untouched JSON stays readable");
        assert_eq!(kept, value, "nothing was to be done, and it is another value");
    }
}

/// The reader without a tree finds the same field as a JSON tree.
fn check_field(payload: &[u8]) {
    // The reader does not find keys that are written with escapes.
    if memchr::memchr(b'\\', payload).is_some() {
        return;
    }
    let Ok(value @ Value::Object(_)) = serde_json::from_slice::<Value>(payload) else { return };
    for name in ["hook_event_name", "prompt", "a"] {
        assert_eq!(field(payload, name).as_deref(), value[name].as_str(), "{name}");
    }
}

fn first_value<'a, T: serde::Deserialize<'a>>(input: &'a [u8]) -> Option<T> {
    serde_json::Deserializer::from_slice(input).into_iter::<T>().next()?.ok()
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// Inserts a private secret at one place of the input. `None` if the input contains the secret's bytes already.
fn plant(input: &[u8], at: usize) -> Option<Vec<u8>> {
    if memchr::memchr2(1, 2, input).is_some() {
        return None;
    }
    let (before, after) = input.split_at(at % (input.len() + 1));
    Some([before, b"<private>", SECRET, b"</private>", after].concat())
}

fn contains_secret(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, SECRET).is_some()
}

/// Whether `rest` is `whole` with some bytes removed. Spaces do not count: a removed tag may leave one.
fn is_rest_of(rest: &[u8], whole: &[u8]) -> bool {
    let mut left = whole.iter();
    rest.iter().filter(|byte| **byte != b' ').all(|byte| left.any(|other| other == byte))
}
