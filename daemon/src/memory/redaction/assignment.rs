//! `KEY=value` in all its spellings: a telling name, a sign of assignment, and a value beside it.
//!
//! Environment files, code, YAML, JSON inside text (quotes escaped or not), XML, headers, command-line flags. What is
//! looked at around a name is bounded, so that a text made of names alone is still read in linear time.

use std::ops::Range;

use super::byte_set::ByteSet;
use super::plausibility::{Name, Place, is_secret};

/// The words that make a name telling, in any spelling of capitals.
pub(super) const WORDS: &[(&str, Name)] = &[
    ("password", Name::Password),
    ("passwd", Name::Password),
    ("passwort", Name::Password),
    ("passphrase", Name::Password),
    ("passcode", Name::Password),
    ("pwd", Name::Password),
    ("_pass", Name::Password),
    ("secret", Name::Key),
    ("apikey", Name::Key),
    ("api_key", Name::Key),
    ("api-key", Name::Key),
    ("accesskey", Name::Key),
    ("access_key", Name::Key),
    ("access-key", Name::Key),
    ("privatekey", Name::Key),
    ("private_key", Name::Key),
    ("private-key", Name::Key),
    ("encryptionkey", Name::Key),
    ("encryption_key", Name::Key),
    ("signingkey", Name::Key),
    ("signing_key", Name::Key),
    ("masterkey", Name::Key),
    ("master_key", Name::Key),
    ("accountkey", Name::Key),
    ("account_key", Name::Key),
    ("license_key", Name::Key),
    ("authkey", Name::Key),
    ("auth_key", Name::Key),
    ("credential", Name::Key),
    ("token", Name::Token),
];

/// What may follow the word and leaves the name telling.
const TAILS: [&str; 15] = [
    "access",
    "key",
    "base64",
    "base",
    "b64",
    "value",
    "production",
    "prod",
    "staging",
    "dev",
    "test",
    "live",
    "plain",
    "raw",
    "str",
];

/// Names that hold a telling word and no secret: .NET's assembly names, positions in a list.
const HARMLESS: [&str; 5] = ["public", "next", "page", "continuation", "cancel"];

/// How far to look from a name, in bytes: for its beginning, for its value, for the end of a value in doubt.
const NAME: usize = 48;
const TYPE: usize = 32;
const DOUBT: usize = 64;

/// What names are made of.
const NAME_BYTES: ByteSet = ByteSet::alphanumeric_and(b"_-.");
/// What a type is made of that stands between a name and its value.
const TYPE_BYTES: ByteSet = ByteSet::alphanumeric_and(b"_&<>' :[]?");
/// What ends a value without quotes. Bytes beyond ASCII do not, so that a range never cuts a character.
const VALUE_ENDS: ByteSet = ByteSet::of(b" \t\n\r\x0c\"'`,;)}]&<>|([\\");

/// The value that is assigned to the name around `word`, if it looks like a secret.
pub(super) fn assigned(text: &str, word: Range<usize>, name: Name) -> Option<Range<usize>> {
    let key = key(text, &word)?;
    let mut at = Cursor { text, at: key.end };
    at.skip_some(b"\\", 8);
    at.skip_some(b"\"'`", 1);
    at.skip_some(b"]", 1);
    let blanks = at.skip_some(b" \t", 8);
    let before = preceding(text, key.start);
    match at.peek()? {
        b'=' => {
            at.skip_some(b"=", 3);
            let arrow = at.skip_some(b">", 1);
            let place = if blanks + arrow == 0 && is_environment(text, &key, before, name) {
                Place::Environment
            } else {
                Place::Bare
            };
            value(at, name, place)
        }
        b':' => {
            at.at += 1;
            if at.peek() == Some(b':') {
                return None;
            }
            at.skip_some(b"=", 1);
            value(at, name, Place::Bare).or_else(|| after_type(at, name))
        }
        b'(' => {
            at.at += 1;
            quoted(at, name)
        }
        b'>' if before == Some(b'<') => {
            at.at += 1;
            value(at, name, Place::Bare).or_else(|| element(at, name))
        }
        // `--password hunter2`, and SQL's `PASSWORD 'hunter2'`.
        _ if blanks > 0 && text.get(key.clone())?.starts_with("--") => value(at, name, flag_place(name)),
        b'\'' if blanks > 0 && name == Name::Password => quoted(at, name),
        _ => None,
    }
}

/// The credentials of an `Authorization` header whose name ends at `end`.
pub(super) fn authorization(text: &str, end: usize) -> Option<Range<usize>> {
    let mut at = Cursor { text, at: end };
    at.skip_some(b"\\\"'`", 4);
    at.skip_some(b" \t", 8);
    at.skip_some(b":=", 2);
    at.skip_some(b" \t", 8);
    at.skip_some(b"\\\"'`", 4);
    let schemes = ["bearer ", "basic ", "token ", "digest ", "apikey "];
    let scheme = schemes.iter().find(|scheme| at.starts_with(scheme))?;
    credentials(text, at.at + scheme.len())
}

/// What follows `Bearer `.
pub(super) fn credentials(text: &str, start: usize) -> Option<Range<usize>> {
    let mut at = Cursor { text, at: start };
    at.skip_some(b" ", 2);
    let run = at.run();
    is_secret(text.get(run.clone())?, Name::Token, Place::Environment).then(|| at.whole_run())
}

/// The whole name, when the word ends it (or nearly so).
pub(super) fn key(text: &str, word: &Range<usize>) -> Option<Range<usize>> {
    let mut at = Cursor { text, at: word.end };
    while let Some(tail) = at.tail() {
        at.at += tail;
        if at.at - word.end > NAME {
            return None;
        }
    }
    if at.peek().is_some_and(|byte| NAME_BYTES.has(byte) && byte != b'.') {
        return None;
    }
    let head = text.as_bytes().get(..word.start)?;
    let own = head.iter().rev().take(NAME).take_while(|byte| NAME_BYTES.has(**byte)).count();
    let start = word.start - own;
    let lower = text.get(start..word.start)?.to_ascii_lowercase();
    (!HARMLESS.iter().any(|part| lower.contains(part))).then_some(start..at.at)
}

/// Whether nothing but a value can follow `NAME=`.
fn is_environment(text: &str, key: &Range<usize>, before: Option<u8>, name: Name) -> bool {
    let written = text.get(key.clone()).unwrap_or_default();
    let shouted = !written.bytes().any(|byte| byte.is_ascii_lowercase());
    let alone = matches!(before, None | Some(b'\n' | b' ' | b'\t' | b'"' | b'\''));
    // `;Password=…` of a connection string, `?token=…` of an address.
    shouted && alone
        || matches!(before, Some(b';' | b'?' | b'&'))
        || (before.is_none() && name == Name::Password)
}

fn flag_place(name: Name) -> Place {
    match name {
        Name::Password => Place::Quoted,
        Name::Key | Name::Token => Place::Environment,
    }
}

/// A value in quotes or without.
fn value(mut at: Cursor<'_>, name: Name, place: Place) -> Option<Range<usize>> {
    at.skip_some(b" \t", 8);
    if let Some(range) = quoted(at, name) {
        return Some(range);
    }
    let run = at.run();
    // Another assignment: judged on its own.
    let value = at.text.get(run)?;
    if value.trim_end_matches('=').contains('=') && place != Place::Environment {
        return None;
    }
    // A call, an index or a path: code.
    let end = at.at + value.len();
    if matches!(at.text.as_bytes().get(end), Some(b'(' | b'[' | b'<')) && place != Place::Environment {
        return None;
    }
    is_secret(value, name, place).then(|| at.whole_run())
}

/// A value in quotes, escaped ones too, perhaps behind a prefix such as `r` or `&`.
fn quoted(mut at: Cursor<'_>, name: Name) -> Option<Range<usize>> {
    at.skip_some(b" \t", 8);
    if at.text.as_bytes().get(at.at + 1).is_some_and(|next| b"\"'".contains(next)) {
        at.skip_some(b"rbuL@&", 1);
    }
    at.skip_some(b"\\", 8);
    let quote = at.peek().filter(|byte| b"\"'`".contains(byte))?;
    at.at += 1;
    let rest = at.text.get(at.at..)?;
    let end = rest.find([char::from(quote), '\n'])?;
    let value = rest.get(..end)?.trim_end_matches('\\');
    is_secret(value, name, Place::Quoted).then(|| at.at..at.at + value.len())
}

/// `token: &str = "…"`: the value stands behind its type.
fn after_type(mut at: Cursor<'_>, name: Name) -> Option<Range<usize>> {
    let rest = at.text.as_bytes().get(at.at..)?;
    let length = TYPE_BYTES.run(rest.get(..TYPE).unwrap_or(rest));
    if rest.get(length) != Some(&b'=') {
        return None;
    }
    at.at += length + 1;
    quoted(at, name)
}

/// `<password>hunter2</password>`
fn element(at: Cursor<'_>, name: Name) -> Option<Range<usize>> {
    let run = at.run();
    is_secret(at.text.get(run)?, name, Place::Quoted).then(|| at.whole_run())
}

/// The byte before `start`.
fn preceding(text: &str, start: usize) -> Option<u8> {
    text.as_bytes().get(start.checked_sub(1)?).copied()
}

/// A place in a text.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes at most `most` of these ASCII bytes and says how many.
    fn skip_some(&mut self, bytes: &[u8], most: usize) -> usize {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let count = rest.iter().take(most).take_while(|byte| bytes.contains(byte)).count();
        self.at += count;
        count
    }

    fn starts_with(&self, lower: &str) -> bool {
        let here = self.text.as_bytes().get(self.at..self.at + lower.len());
        here.is_some_and(|here| here.eq_ignore_ascii_case(lower.as_bytes()))
    }

    /// The length of a harmless continuation of a name that stands here.
    fn tail(&self) -> Option<usize> {
        let mut inner = *self;
        let joint = inner.skip_some(b"_-", 1);
        inner.peek().filter(u8::is_ascii_alphanumeric)?;
        if inner.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Some(joint + inner.skip_some(b"0123456789", 4));
        }
        TAILS.iter().find(|tail| inner.starts_with(tail)).map(|tail| joint + tail.len())
    }

    /// The beginning of an unquoted value: enough of it to decide.
    fn run(&self) -> Range<usize> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let length = rest.iter().take(DOUBT).take_while(|byte| !VALUE_ENDS.has(**byte)).count();
        let mut end = self.at + length;
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        self.at..end
    }

    /// All of an unquoted value.
    fn whole_run(&self) -> Range<usize> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| !VALUE_ENDS.has(**byte)).count();
        self.at..self.at + length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value found for the first telling word of the text that has one.
    fn found(text: &str) -> Option<&str> {
        let lower = text.to_ascii_lowercase();
        WORDS
            .iter()
            .filter_map(|(word, name)| {
                let start = lower.find(word)?;
                text.get(assigned(text, start..start + word.len(), *name)?)
            })
            .next()
    }

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(found(text), expected, "{text}");
    }

    #[test]
    fn all_spellings_of_an_assignment_are_read() {
        for text in [
            "API_KEY=a8Kd93jfLs02mQpz71Xc",
            "export MY_API_KEY_PROD='a8Kd93jfLs02mQpz71Xc'",
            "\"apiKey\": \"a8Kd93jfLs02mQpz71Xc\",",
            "\\\"api_key\\\": \\\"a8Kd93jfLs02mQpz71Xc\\\",",
            "api_key: a8Kd93jfLs02mQpz71Xc\n",
            "x-api-key: a8Kd93jfLs02mQpz71Xc",
            "let api_key: &'static str = \"a8Kd93jfLs02mQpz71Xc\";",
            "'api_key' => 'a8Kd93jfLs02mQpz71Xc'",
            "config[\"api_key\"] = \"a8Kd93jfLs02mQpz71Xc\"",
            "setApiKey(\"a8Kd93jfLs02mQpz71Xc\")",
            "<ApiKey>a8Kd93jfLs02mQpz71Xc</ApiKey>",
            "https://x.test/?api_key=a8Kd93jfLs02mQpz71Xc&b=1",
            "tool --api-key a8Kd93jfLs02mQpz71Xc --verbose",
            "tool --api-key=a8Kd93jfLs02mQpz71Xc --verbose",
        ] {
            check(text, Some("a8Kd93jfLs02mQpz71Xc"));
        }
        check("Server=db;User=sa;Password=swordfish;", Some("swordfish"));
        check("DB_PASSWORD=swordfish\n", Some("swordfish"));
        check("CREATE USER a IDENTIFIED WITH PASSWORD 'hunter2'", Some("hunter2"));
    }

    #[test]
    fn code_is_no_assignment_of_a_secret() {
        for text in [
            "let token = next_token();",
            "password: String,",
            "API_KEY=$FOO",
            "API_KEY=\"${API_KEY}\"",
            "secrets::load(\"a8Kd93jfLs02mQpz71Xc\")",
            "tokens = 4096",
            "max_tokens: 128000",
            "tokenizer = \"a8Kd93jfLs02mQpz71Xc\"",
            "PublicKeyToken=b77a5c561934e089",
            "if token == Token::Ident { }",
            "password_hash: PasswordHash2,",
            "secret = derive_x25519_secret(key)",
            "const PASSWORD_FIELD: &str = \"password\";",
            "nextPageToken: \"a8Kd93jfLs02mQpz71Xc\"",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn headers_carry_credentials() {
        for (text, expected) in [
            ("Authorization: Bearer a8Kd93jfLs02mQpz71Xc", Some("a8Kd93jfLs02mQpz71Xc")),
            ("\"Authorization\": \"Basic dXNlcjpodW50ZXIy\"", Some("dXNlcjpodW50ZXIy")),
            ("Authorization: Bearer $TOKEN", None),
            ("authorization: none", None),
        ] {
            let end = text.to_ascii_lowercase().find("authorization").unwrap() + "authorization".len();
            assert_eq!(authorization(text, end).and_then(|range| text.get(range)), expected, "{text}");
        }
    }
}
