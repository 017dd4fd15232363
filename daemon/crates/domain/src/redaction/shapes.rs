//! Finds secrets without a literal: tokens of a known shape, random values assigned to a name, and the secret key near
//! an AWS id.
//!
//! A separate pass finds long runs of token characters. It examines every twentieth byte until it hits one.

use std::ops::Range;
use std::sync::OnceLock;

use regex::Regex;

use super::beginning;
use super::byte_set::ByteSet;
use super::plausibility::{base64, looks_random};

/// The kind of a value that only its assignment reveals.
pub(super) const UNNAMED: &str = "secret";

/// Which secrets to search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchScope {
    Everywhere,
    /// Only those with a known format: ids and paths have no meaningful names beside values.
    FormatsOnly,
}

/// Shorter runs are not recognised as secrets by their shape alone.
const SHORTEST: usize = 20;
const RUN: ByteSet = ByteSet::alphanumeric_and(b"_.~+/-");
/// Characters that separate a token from a surrounding path or base64.
const JOINTS: [char; 2] = ['/', '+'];

/// A token format without a literal.
struct Shape {
    kind: &'static str,
    /// Minimum and maximum length, in bytes.
    length: (usize, usize),
    pattern: &'static str,
}

const SHAPES: &[Shape] = &[
    // A bot's id in base64, a timestamp, and a signature.
    Shape {
        kind: "discord-token",
        length: (57, 80),
        pattern: r"[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,42}",
    },
    Shape { kind: "azure-devops-token", length: (52, 52), pattern: r"[a-z2-7]{52}" },
    Shape { kind: "azure-devops-token", length: (80, 88), pattern: r"[A-Za-z0-9]{72,80}AZDO[A-Za-z0-9]{4}" },
    Shape { kind: "ngrok-token", length: (44, 50), pattern: r"[12][A-Za-z0-9]{22,27}_[A-Za-z0-9]{18,22}" },
    Shape { kind: "vault-token", length: (26, 40), pattern: r"s\.[A-Za-z0-9]{24}(?:\.[A-Za-z0-9]{5,12})?" },
    Shape { kind: "mailchimp-key", length: (36, 37), pattern: r"[a-f0-9]{32}-us[0-9]{1,2}" },
];

/// Names of values that are random or computed but not secret.
const HARMLESS: [&str; 46] = [
    "id",
    "ids",
    "hash",
    "sha",
    "sum",
    "digest",
    "commit",
    "rev",
    "etag",
    "uuid",
    "guid",
    "version",
    "url",
    "uri",
    "path",
    "file",
    "name",
    "href",
    "src",
    "data",
    "image",
    "icon",
    "font",
    "public",
    "pub",
    "fingerprint",
    "integrity",
    "nonce",
    "test",
    "expected",
    "input",
    "output",
    "msg",
    "cert",
    "ref",
    "tag",
    "label",
    "title",
    "base",
    "secure",
    "cursor",
    "trace",
    "span",
    "request",
    "signature",
    "class",
];
/// Names whose hexadecimal value is a secret.
const KEYS: [&str; 8] = ["key", "auth", "salt", "seed", "hmac", "pepper", "pat", "signing"];

/// The maximum distance of an AWS secret key from its id, in bytes.
const BESIDE: usize = 200;
/// The length of an AWS secret key.
const AWS: usize = 40;
const AWS_BYTES: ByteSet = ByteSet::alphanumeric_and(b"+/");
/// The possible lengths of a value that only its assignment reveals. Longer ones are data.
const VALUE: Range<usize> = 24..200;

/// Parallel to `SHAPES`, compiled on first use.
#[derive(Default)]
pub(super) struct Shapes(OnceLock<Vec<(&'static Shape, Option<Regex>)>>);

/// The findings in the long runs of a text.
#[derive(Default)]
pub(super) struct LongRuns {
    /// The ranges and kinds of the secrets.
    pub(super) secrets: Vec<(Range<usize>, &'static str)>,
    /// Base64 texts, with their decoded contents.
    pub(super) encoded: Vec<(Range<usize>, String)>,
}

impl Shapes {
    pub(super) fn find(&self, text: &str, scope: SearchScope) -> LongRuns {
        let (mut found, mut encoded) = (Vec::new(), Vec::new());
        for run in (Runs { bytes: text.as_bytes(), at: 0 }) {
            let Some(written) =
                text.get(run.clone()).filter(|run| run.bytes().any(|byte| byte.is_ascii_digit()))
            else {
                continue;
            };
            let before = found.len();
            let mut start = run.start;
            for part in written.split(JOINTS) {
                found.extend(
                    self.shape(part).map(|(range, kind)| (start + range.start..start + range.end, kind)),
                );
                start += part.len() + 1;
            }
            if found.len() == before && scope == SearchScope::Everywhere {
                found.extend(assigned(text, &run).map(|range| (range, UNNAMED)));
                encoded.extend(decoded(written).map(|plain| (padded(text, run), plain)));
            }
        }
        LongRuns { secrets: found, encoded }
    }

    fn shape(&self, part: &str) -> Option<(Range<usize>, &'static str)> {
        let from = part.len() - part.trim_start_matches(['_', '.', '-', '~']).len();
        let part = part.get(from..)?.trim_end_matches(['_', '.', '-', '~']);
        // Bytes before the token that may belong to a colour code, an option's letter or an escaped line break.
        const BEFORE: usize = 4;
        let is_near = |shape: &Shape| (shape.length.0..=shape.length.1 + BEFORE).contains(&part.len());
        if !SHAPES.iter().any(is_near) {
            return None;
        }
        let compile = |shape: &'static Shape| {
            (shape, Regex::new(&format!(r"\A(?-u)(?:[0-9;]{{0,3}}m|[a-z])?({})\z", shape.pattern)).ok())
        };
        let shapes = self.0.get_or_init(|| SHAPES.iter().map(compile).collect());
        shapes.iter().filter(|(shape, _)| is_near(shape)).find_map(|(shape, pattern)| {
            let range = pattern.as_ref()?.captures(part)?.get(1)?.range();
            looks_random(part.get(range.clone())?)
                .then_some((from + range.start..from + range.end, shape.kind))
        })
    }
}

/// The length of base64 that is decoded, in bytes.
const ENCODED: Range<usize> = 24..16_384;
/// The number of base64 characters that show whether it is text.
const SECRET_COMMANDS: usize = 16;

/// Decodes a run that is text in base64.
fn decoded(run: &str) -> Option<String> {
    let is_text = |plain: &[u8]| {
        !plain.is_empty() && plain.iter().all(|byte| byte.is_ascii_graphic() || b" \t\r\n".contains(byte))
    };
    let is_long = ENCODED.contains(&run.len()) && !run.bytes().any(|byte| matches!(byte, b'.' | b'~'));
    if !is_long || !is_text(&base64(run.get(..SECRET_COMMANDS)?)) {
        return None;
    }
    let plain = base64(run);
    is_text(&plain).then(|| String::from_utf8(plain).ok())?
}

fn padded(text: &str, run: Range<usize>) -> Range<usize> {
    let tail = text.get(run.end..).unwrap_or_default();
    let padding = tail.len() - tail.trim_start_matches('=').len();
    run.start..run.end + padding.min(2)
}

/// Whether a text may contain such secrets after decoding its strings.
pub(super) fn may_hold(text: &str) -> bool {
    let runs = Runs { bytes: text.as_bytes(), at: 0 };
    runs.filter_map(|run| text.get(run)).any(|run| {
        let has = |is: fn(&u8) -> bool| run.bytes().any(|byte| is(&byte));
        has(u8::is_ascii_digit) && (run.len() >= 32 || has(u8::is_ascii_uppercase))
    })
}

/// Returns the value around the run, if it is random and assigned to a name.
fn assigned(text: &str, run: &Range<usize>) -> Option<Range<usize>> {
    let head = text.get(..run.start)?;
    let unquoted = head.trim_end_matches(['"', '\'', '`', '\\']);
    let is_quoted = unquoted.len() < head.len();
    // Longer than a quote and its escapes, so it is something else.
    if head.len() - unquoted.len() > 4 {
        return None;
    }
    let tail = text.get(run.end..)?;
    let padding = tail.len() - tail.trim_start_matches('=').len();
    let range = run.start..run.end + padding.min(2);
    let closes = tail.as_bytes().get(padding);
    let is_closed =
        closes.is_none_or(|byte| b"\"'`\\ \t\r\n".contains(byte)) || (!is_quoted && closes == Some(&b'&'));
    let value = text.get(range.clone())?;
    if !VALUE.contains(&value.len()) || !is_closed {
        return None;
    }
    let written = name(unquoted)?;
    let name = written.to_ascii_lowercase();
    let mut words =
        name.split(['_', '-', '.']).map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()));
    // A hash in an environment file is hexadecimal or base64; one of letters and digits alone is a key.
    let is_named_hash = written.ends_with("_HASH")
        && (32..64).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_named_hash
        && (name.contains("64") || words.any(|word| HARMLESS.iter().any(|harmless| word.ends_with(harmless))))
    {
        return None;
    }
    let is_hex = value.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_key = KEYS.iter().any(|key| name.ends_with(key));
    let counts = if is_hex {
        is_key && value.len() >= 32 && looks_random(value)
    } else {
        looks_random(value) && is_dense(value)
    };
    counts.then_some(range)
}

/// Whether the value mixes upper case, lower case and digits, ignoring the words and separators of names and paths.
fn is_dense(value: &str) -> bool {
    let count = |is: fn(&u8) -> bool| value.bytes().filter(is).count();
    let (digits, capitals, small) =
        (count(u8::is_ascii_digit), count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let signs = value.len() - digits - capitals - small;
    digits >= 3 && capitals >= 3 && small >= 3 && signs * 10 <= value.len()
}

/// Returns the name before the assignment operator at the end of `head`.
fn name(head: &str) -> Option<&str> {
    let head = head.trim_end_matches([' ', '\t']);
    let head = head
        .strip_suffix("=>")
        .or_else(|| head.strip_suffix(":="))
        .or_else(|| head.strip_suffix(['=', ':']))?;
    let head = head.trim_end_matches([' ', '\t']).trim_end_matches(['"', '\'', '\\', ']']);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let length = head.bytes().rev().take(64).take_while(is_name).count();
    head.get(head.len() - length..).filter(|name| name.bytes().any(|byte| byte.is_ascii_alphabetic()))
}

/// Returns the secret key near an AWS id.
pub(super) fn aws_secret(text: &str, id: &Range<usize>) -> Option<Range<usize>> {
    let after = beginning(text.get(id.end..)?, BESIDE);
    let from = (id.start.saturating_sub(BESIDE)..=id.start).find(|at| text.is_char_boundary(*at))?;
    in_part(after, id.end).or_else(|| in_part(text.get(from..id.start)?, from))
}

fn in_part(part: &str, offset: usize) -> Option<Range<usize>> {
    let bytes = part.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let length = AWS_BYTES.run(bytes.get(at..)?);
        let run = part.get(at..at + length)?;
        if length == AWS && is_dense(run) && looks_random(run) {
            return Some(offset + at..offset + at + length);
        }
        at += length + 1;
        while !part.is_char_boundary(at.min(bytes.len())) {
            at += 1;
        }
    }
    None
}

/// Iterates over runs of at least [`SHORTEST`] bytes.
struct Runs<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Iterator for Runs<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            let probe = self.at + SHORTEST - 1;
            let inside = self.bytes.get(self.at..=probe)?;
            match inside.iter().rposition(|byte| !RUN.has(*byte)) {
                Some(last) => self.at += last + 1,
                None => {
                    let start = self.at;
                    let end = start + RUN.run(self.bytes.get(start..)?);
                    self.at = end;
                    return Some(start..end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_of_token_characters_are_found_at_any_position() {
        for (before, length, after) in [(0, 20, 0), (1, 20, 3), (17, 41, 1), (0, 19, 5), (30, 200, 30)] {
            let text = [" ".repeat(before), "a".repeat(length), " ".repeat(after)].concat();
            let runs: Vec<_> = Runs { bytes: text.as_bytes(), at: 0 }.collect();
            let expected: Vec<_> =
                Some(before..before + length).filter(|_| length >= SHORTEST).into_iter().collect();
            assert_eq!(runs, expected);
        }
    }

    #[test]
    fn random_values_assigned_to_a_name_are_found() {
        let shapes = Shapes::default();
        let found = |text: &str| {
            shapes
                .find(text, SearchScope::Everywhere)
                .secrets
                .first()
                .map(|(range, _)| text[range.clone()].to_owned())
        };
        for text in [
            "x = \"a8Kd93jfLs02mQpz71XcV5uT\"",
            "DEPLOY_X=a8Kd93jfLs02mQpz71XcV5uT\n",
            "\\\"x\\\": \\\"a8Kd93jfLs02mQpz71XcV5uT\\\"",
            "x: a8Kd93jfLs02mQpz71XcV5uT",
        ] {
            assert_eq!(found(text).as_deref(), Some("a8Kd93jfLs02mQpz71XcV5uT"), "{text}");
        }
        for text in [
            "request_id = \"a8Kd93jfLs02mQpz71XcV5uT\"",
            "\"sha512\": \"a8Kd93jfLs02mQpz71XcV5uT\"",
            "see a8Kd93jfLs02mQpz71XcV5uT",
            "x = some::Path2::With3Words4AndMore",
            "checksum = \"9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015\"",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
