//! Parses `KEY=value` in all its spellings: a sensitive name, an assignment operator and a value.
//!
//! Covers environment files, code, YAML, JSON inside text (with escaped quotes or not), XML, headers and command-line
//! flags. The text examined around a name is bounded, so even a text made only of names is read in linear time.

use std::ops::Range;

use super::byte_set::ByteSet;
use super::cursor::Cursor;
use super::plausibility::{
    Name, ValuePosition, is_broken, is_secret, is_words, looks_random, may_be_password,
};

/// Words that make a name sensitive, in any case.
pub(super) const WORDS: &[(&str, Name)] = &[
    ("password", Name::Password),
    ("passwd", Name::Password),
    ("passwort", Name::Password),
    ("passphrase", Name::Password),
    ("passcode", Name::Password),
    ("kennwort", Name::Password),
    ("mot de passe", Name::Password),
    ("contraseña", Name::Password),
    ("contrasena", Name::Password),
    ("senha", Name::Password),
    ("wachtwoord", Name::Password),
    ("hasło", Name::Password),
    ("пароль", Name::Password),
    ("Пароль", Name::Password),
    ("密码", Name::Password),
    ("密碼", Name::Password),
    ("パスワード", Name::Password),
    ("securestring", Name::Password),
    ("identified by", Name::Password),
    ("pwd", Name::Password),
    ("pw", Name::Password),
    ("_pass", Name::Password),
    ("pass", Name::Pass),
    ("credentials", Name::Pair),
    ("creds", Name::Pair),
    ("api key", Name::Key),
    ("access key", Name::Key),
    ("private key", Name::Key),
    ("encryption key", Name::Token),
    ("signing key", Name::Key),
    ("master key", Name::Key),
    ("session key", Name::Key),
    ("recovery key", Name::Key),
    ("fernet key", Name::Key),
    ("hmac key", Name::Key),
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
    ("client-key-data", Name::Key),
    ("token", Name::Token),
    ("_pat", Name::Token),
    ("_key", Name::Token),
    ("auth", Name::Login),
];

/// Shorter words are often part of others, so no letter may precede them.
const SHORT: usize = 4;

/// Suffixes that leave a name sensitive.
const SUFFIXES: [&str; 15] = [
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

/// Words that make a sensitive name harmless: .NET assembly names, positions in a list.
const HARMLESS: [&str; 5] = ["public", "next", "page", "continuation", "cancel"];

/// The maximum distance in bytes from a name to its beginning, and to its value.
const NAME: usize = 48;
const TYPE: usize = 32;
/// The maximum distance in bytes back to the beginning of the line, and to the words of a netrc.
const INDENT: usize = 40;
const NETRC: usize = 96;

/// Characters allowed in names.
const NAME_BYTES: ByteSet = ByteSet::alphanumeric_and(b"_-.");
/// Characters allowed in a type between a name and its value.
const TYPE_BYTES: ByteSet = ByteSet::alphanumeric_and(b"_&<>' :[]?");

/// Returns the value assigned to the name `key`, if it looks like a secret.
pub(super) fn assigned(text: &str, key: &Range<usize>, name: Name) -> Option<Range<usize>> {
    if name == Name::Pair {
        return pair(text, key.end);
    }
    let mut at = Cursor { text, at: key.end };
    at.skip_some(b"\\", 8);
    let key_is_quoted = at.skip_some(b"\"'`", 1) > 0;
    at.skip_some(b"]", 1);
    let is_certain = is_certain(text, key);
    let blanks = at.skip_some(b" \t", 8);
    let before = preceding(text, key.start);
    if name == Name::Password
        && let Some(range) = phrase(at)
    {
        return Some(range);
    }
    match at.peek()? {
        b'=' => {
            at.skip_some(b"=", 3);
            let arrow = at.skip_some(b">", 1);
            if is_certain && let Some(range) = quoted_as(at, name, ValuePosition::Certain) {
                return Some(range);
            }
            let spaced = blanks + arrow + at.skip_some(b" \t", 8) > 0;
            let place = match (spaced, line_start(text, key.start)) {
                (false, _) if is_environment(text, key, before, name) => ValuePosition::Environment,
                (false, LineStart::Margin) if at.ends_line() => ValuePosition::Line,
                (true, LineStart::Margin) if at.ends_line() => ValuePosition::Sentence,
                (false, _) if is_certain && stands_alone(at, before) => ValuePosition::Certain,
                (false, _) => ValuePosition::Sentence,
                (true, _) => ValuePosition::Bare,
            };
            value(at, name, place)
        }
        b':' => {
            at.at += 1;
            if at.peek() == Some(b':') {
                return None;
            }
            at.skip_some(b"=", 1);
            let spaced = at.skip_some(b" \t", 8) > 0;
            if key_is_quoted
                && is_certain
                && let Some(range) = quoted_as(at, name, ValuePosition::Certain)
            {
                return Some(range);
            }
            if let Some(block) = block_scalar(at) {
                return value(block, name, ValuePosition::Line);
            }
            let place = match line_start(text, key.start) {
                LineStart::Margin | LineStart::Indented if spaced && at.ends_line() => ValuePosition::Line,
                _ => ValuePosition::Sentence,
            };
            value(at, name, place).or_else(|| after_type(at, name))
        }
        b'(' => {
            at.at += 1;
            quoted(at, name)
                .or_else(|| is_declared(text, key).then(|| quoted_as(at, name, ValuePosition::Certain))?)
        }
        b'>' if before == Some(b'<') => {
            at.at += 1;
            let place = if is_certain { ValuePosition::Certain } else { ValuePosition::Quoted };
            value(at, name, ValuePosition::Bare).or_else(|| element(at, name, place))
        }
        // The full-width colon of Chinese and Japanese.
        b'\xef' if at.starts_with("：") => {
            at.at += "：".len();
            at.skip_some(b" ", 1);
            value(at, name, if at.ends_line() { ValuePosition::Line } else { ValuePosition::Sentence })
        }
        // `--password hunter2`, and SQL's `PASSWORD 'hunter2'`.
        _ if blanks > 0 && text.get(key.clone())?.starts_with('-') => {
            value(at, name, flag_place(name)).or_else(|| argument(at, name))
        }
        sign @ (b'\'' | b'"')
            if blanks > 0
                && name == Name::Password
                // In SQL, double quotes enclose names.
                && (sign == b'\'' || !text.get(key.clone())?.contains(' ')) =>
        {
            quoted(at, name).or_else(|| {
                let is_value = is_declared(text, key) || is_statement(text, key);
                is_value.then(|| quoted_as(at, name, ValuePosition::Certain))?
            })
        }
        // `IDENTIFIED WITH mysql_native_password BY 'hunter2'`
        b'B' | b'b' if blanks > 0 && at.starts_with("by ") => {
            at.at += "by ".len();
            quoted_as(at, name, ValuePosition::Certain)
        }
        // `ConvertTo-SecureString -String 'hunter2'`
        b'-' if blanks > 0 && at.starts_with("-string ") => {
            at.at += "-string ".len();
            quoted_as(at, name, ValuePosition::Certain)
        }
        // `<add key="ApiSecret" value="…">`
        b'v' if key_is_quoted && blanks > 0 && at.starts_with("value=") => {
            at.at += "value=".len();
            quoted_as(at, name, if is_certain { ValuePosition::Certain } else { ValuePosition::Quoted })
        }
        // `ENV DB_PASSWORD swordfish`
        _ if blanks > 0 && shouted(text, key) && is_dockerfile(text, key.start) => {
            value(at, name, ValuePosition::Environment)
        }
        // `config set //HOST/:_authToken VALUE`
        _ if blanks > 0 && name != Name::Password => {
            let word = text.get(at.run())?.trim_end_matches(['.', ':']);
            (word.len() >= 20 && looks_random(word) && is_secret(word, name, ValuePosition::Bare))
                .then(|| at.at..at.at + word.len())
        }
        // `machine HOST login NAME password WORD` of a netrc.
        _ if name == Name::Password && is_netrc(text, key.start) => {
            value(at, name, ValuePosition::Environment)
        }
        _ => None,
    }
}

/// Returns the whole name if the word ends it, possibly with a suffix.
pub(super) fn key(text: &str, word: &Range<usize>) -> Option<Range<usize>> {
    let mut at = Cursor { text, at: word.end };
    while let Some(tail) = suffix_length(at) {
        at.at += tail;
        if at.at - word.end > NAME {
            return None;
        }
    }
    if at.peek().is_some_and(|byte| NAME_BYTES.has(byte) && byte != b'.') {
        return None;
    }
    let head = text.as_bytes().get(..word.start)?;
    if word.len() <= SHORT
        && text.as_bytes().get(word.start).is_some_and(u8::is_ascii_alphabetic)
        && head.last().is_some_and(u8::is_ascii_alphanumeric)
        && !text.get(word.clone())?.eq_ignore_ascii_case("pwd")
    {
        return None;
    }
    let own = head.iter().rev().take(NAME).take_while(|byte| NAME_BYTES.has(**byte)).count();
    let start = word.start - own;
    let lower = text.get(start..word.start)?.to_ascii_lowercase();
    (!HARMLESS.iter().any(|part| lower.contains(part))).then_some(start..at.at)
}

/// The text between the beginning of a line and a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineStart {
    /// No text.
    Margin,
    /// Blanks and a list dash.
    Indented,
    /// Anything else.
    No,
}

fn line_start(text: &str, start: usize) -> LineStart {
    let head = text.as_bytes().get(..start).unwrap_or_default();
    let blanks = head.iter().rev().take(INDENT).take_while(|byte| b" \t-".contains(byte)).count();
    match head.get(..start - blanks).and_then(<[u8]>::last) {
        None | Some(b'\n') if blanks == 0 => LineStart::Margin,
        None | Some(b'\n') => LineStart::Indented,
        Some(_) => LineStart::No,
    }
}

/// Whether the preceding words form a netrc entry, on one line or several.
fn is_netrc(text: &str, start: usize) -> bool {
    let from = (start.saturating_sub(NETRC)..=start).find(|at| text.is_char_boundary(*at)).unwrap_or(start);
    let mut words = text.get(from..start).unwrap_or_default().split_ascii_whitespace().rev();
    let _name = words.next();
    words.next() == Some("login")
}

/// The length of a harmless suffix of a name at this position.
fn suffix_length(mut at: Cursor<'_>) -> Option<usize> {
    let joint = at.skip_some(b"_-", 1);
    at.peek().filter(u8::is_ascii_alphanumeric)?;
    if at.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        return Some(joint + at.skip_some(b"0123456789", 4));
    }
    SUFFIXES.iter().find(|tail| at.starts_with(tail)).map(|tail| joint + tail.len())
}

/// Whether only a value can follow `NAME=`.
fn is_environment(text: &str, key: &Range<usize>, before: Option<u8>, name: Name) -> bool {
    let written = text.get(key.clone()).unwrap_or_default();
    let shouted = !written.bytes().any(|byte| byte.is_ascii_lowercase());
    let alone = matches!(before, None | Some(b'\n' | b' ' | b'\t' | b'"' | b'\''));
    // `;Password=…` of a connection string, `?token=…` of a url.
    shouted && alone
        || matches!(before, Some(b';' | b'?' | b'&'))
        || (before.is_none() && name == Name::Password)
}

/// Whether the name says password or secret and nothing else.
fn is_certain(text: &str, key: &Range<usize>) -> bool {
    let written = text.as_bytes().get(key.clone()).unwrap_or_default();
    ["password", "passwd", "pwd", "secret", "passphrase"].iter().any(|word| {
        let tail = written.len().checked_sub(word.len()).and_then(|from| written.get(from..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(word.as_bytes()))
    })
}

/// Whether `name=value` is a word of its own, as in a log line or after a command's option, and not an argument of a
/// call.
fn stands_alone(at: Cursor<'_>, before: Option<u8>) -> bool {
    let after = at.text.as_bytes().get(at.run().end);
    matches!(before, None | Some(b'\n' | b' ' | b'\t' | b'"' | b'\'' | b'=' | b','))
        && (matches!(after, None | Some(b'\n' | b'\r' | b' ' | b'"' | b'\'' | b'\\'))
            // An item of a list without blanks.
            || before == Some(b',') && after == Some(&b','))
}

/// Whether a quoted value directly after the name, without an operator, can only be its value: in SQL and PowerShell.
fn is_declared(text: &str, key: &Range<usize>) -> bool {
    let written = text.get(key.clone()).unwrap_or_default();
    let before = text.as_bytes().get(..key.start).unwrap_or_default();
    shouted(text, key) || written.contains([' ', '-']) || before.ends_with(b"with ")
}

/// Whether the text is `storePassword "…"` at the beginning of a line, as in a build file.
fn is_statement(text: &str, key: &Range<usize>) -> bool {
    let compound = text.get(key.clone()).and_then(|written| written.strip_suffix("Password"));
    compound.is_some_and(|head| head.ends_with(|last: char| last.is_ascii_lowercase()))
        && line_start(text, key.start) != LineStart::No
}

fn shouted(text: &str, key: &Range<usize>) -> bool {
    let written = text.as_bytes().get(key.clone()).unwrap_or_default();
    written.iter().any(u8::is_ascii_uppercase) && !written.iter().any(u8::is_ascii_lowercase)
}

/// Whether `ENV` or `ARG` precedes the name, as in a Dockerfile.
fn is_dockerfile(text: &str, start: usize) -> bool {
    let head = text.as_bytes().get(..start).unwrap_or_default();
    [b"ENV ", b"ARG "].iter().any(|word| head.ends_with(*word))
}

/// The beginning of the value of YAML's `key: >-` or `key: |`, on the next line.
fn block_scalar(mut at: Cursor<'_>) -> Option<Cursor<'_>> {
    (at.skip_some(b">|", 1) > 0).then_some(())?;
    at.skip_some(b"-+", 1);
    at.skip_some(b"\r", 1);
    (at.skip_some(b"\n", 1) > 0 && at.skip_some(b" ", 32) > 0).then_some(at)
}

/// The password of `credentials: user/password`.
fn pair(text: &str, start: usize) -> Option<Range<usize>> {
    let mut at = Cursor { text, at: start };
    at.skip_some(b"\\\"'`", 3);
    let link = [" are ", " is ", ": ", ":", " = ", "="].into_iter().find(|link| at.starts_with(link))?;
    at.at += link.len();
    at.skip_some(b" \\\"'`", 4);
    let run = text.get(at.run())?;
    let cut = run.find(['/', ':']).filter(|cut| *cut > 0)?;
    let start = at.at + cut + 1;
    let password = run.get(cut + 1..)?.trim_end_matches(['.', ',', ';']);
    (is_broken(password) && is_secret(password, Name::Password, ValuePosition::Sentence))
        .then(|| start..start + password.len())
}

/// The words of a passphrase that fill the rest of the line after a colon or an equals sign.
fn phrase(mut at: Cursor<'_>) -> Option<Range<usize>> {
    /// A longer line is prose.
    const LONGEST: usize = 128;
    if at.skip_some(b"=:", 1) == 0 {
        return None;
    }
    at.skip_some(b" \t", 8);
    let line = at.line(LONGEST + 1);
    let words = line.trim_end();
    (line.len() <= LONGEST && is_words(words)).then(|| at.at..at.at + words.len())
}

/// A plain word after an option, if the text is a command and not prose about the option.
fn argument(at: Cursor<'_>, name: Name) -> Option<Range<usize>> {
    let word = at.run();
    let value = at.text.get(word.clone()).filter(|_| name == Name::Password)?;
    let rest = at.text.get(word.end..)?;
    let next = rest.trim_start_matches([' ', '\t']).split_whitespace().next().unwrap_or_default();
    let goes_on = rest.starts_with([' ', '\t'])
        && !next.starts_with(['-', '|', '>', '<', '&', ';', '$', '"', '\''])
        && !next.contains(['.', '/', ':', '@', '=']);
    let is_end = !goes_on && !rest.starts_with([',', '.', ')', ']', '>', '|']);
    (is_end && may_be_password(value) && is_secret(value, name, ValuePosition::Certain)).then_some(word)
}

fn flag_place(name: Name) -> ValuePosition {
    match name {
        Name::Password => ValuePosition::Quoted,
        Name::Key | Name::Token | Name::Login | Name::Pass | Name::Pair => ValuePosition::Environment,
    }
}

/// A quoted or unquoted value.
pub(super) fn value(mut at: Cursor<'_>, name: Name, place: ValuePosition) -> Option<Range<usize>> {
    at.skip_some(b" \t", 8);
    if let Some(range) = quoted(at, name) {
        return Some(range);
    }
    let run = at.run();
    // The text is another assignment, which is examined separately.
    let value = at.text.get(run)?;
    let is_certain = matches!(place, ValuePosition::Environment | ValuePosition::Line);
    if value.trim_end_matches('=').contains('=') && !is_certain {
        return None;
    }
    // The text is a call, an index or a path, so this is code.
    let end = at.at + value.len();
    if matches!(at.text.as_bytes().get(end), Some(b'(' | b'[' | b'<')) && !is_certain {
        return None;
    }
    let is_one = is_secret(value, name, place)
        || (place == ValuePosition::Certain && is_secret(value, name, ValuePosition::Sentence));
    is_one.then(|| at.whole_run())
}

/// A quoted value, also with escaped quotes or a prefix such as `r` or `&`.
pub(super) fn quoted(at: Cursor<'_>, name: Name) -> Option<Range<usize>> {
    quoted_as(at, name, ValuePosition::Quoted)
}

pub(super) fn quoted_as(mut at: Cursor<'_>, name: Name, place: ValuePosition) -> Option<Range<usize>> {
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
    let is_one = is_secret(value, name, place)
        || (place == ValuePosition::Certain && is_secret(value, name, ValuePosition::Quoted));
    is_one.then(|| at.at..at.at + value.len())
}

/// `token: &str = "…"`: the value follows the type.
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
fn element(at: Cursor<'_>, name: Name, place: ValuePosition) -> Option<Range<usize>> {
    let run = at.run();
    is_secret(at.text.get(run)?, name, place).then(|| at.whole_run())
}

/// The byte before `start`.
fn preceding(text: &str, start: usize) -> Option<u8> {
    text.as_bytes().get(start.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value found for the first sensitive word that has one.
    fn found(text: &str) -> Option<&str> {
        let lower = text.to_ascii_lowercase();
        WORDS
            .iter()
            .filter_map(|(word, name)| {
                let start = lower.find(word)?;
                let key = key(text, &(start..start + word.len()))?;
                text.get(assigned(text, &key, *name)?)
            })
            .next()
    }

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(found(text), expected, "{text}");
    }

    #[test]
    fn secrets_are_found_in_all_spellings_of_an_assignment() {
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
    fn code_is_not_taken_for_an_assigned_secret() {
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
}
