//! Finds secrets in HTTP: credentials in headers, cookies, and url parameters.

use std::ops::Range;

use super::cursor::Cursor;
use super::plausibility::{Name, ValuePosition, is_secret};

/// Url parameters whose value is a secret. Names that are sensitive everywhere are in `assignment::WORDS`.
pub(super) const PARAMETERS: &[&str] = &[
    "?key=",
    "&key=",
    "u0026key=",
    "?code=",
    "&code=",
    "u0026code=",
    "?auth=",
    "&auth=",
    "?sig=",
    "&sig=",
    "?signature=",
    "&signature=",
    "?hmac=",
    "&hmac=",
    "?sid=",
    "&sid=",
    "?pat=",
    "&pat=",
    "x-amz-signature=",
    "x-goog-signature=",
];

/// The number of bytes of a cookie header that are examined.
const COOKIES: usize = 4096;
/// Parts of a cookie's name that mark its value as a secret.
const SECRET_COMMANDS: [&str; 12] = [
    "sess",
    "sid",
    "auth",
    "token",
    "csrf",
    "xsrf",
    "jwt",
    "login",
    "remember",
    "clearance",
    "secret",
    "identity",
];
/// Cookie attributes.
const ATTRIBUTES: [&str; 6] = ["path", "domain", "expires", "max-age", "samesite", "priority"];

/// Returns the value of the parameter whose `=` ends at `start`.
pub(super) fn parameter(text: &str, start: usize) -> Option<Range<usize>> {
    let at = Cursor { text, at: start };
    is_secret(text.get(at.run())?, Name::Token, ValuePosition::Environment).then(|| at.whole_run())
}

/// Returns the secret cookies of a header whose `cookie` ends at `end`, and where they end.
pub(super) fn cookies(text: &str, end: usize) -> (Vec<Range<usize>>, usize) {
    let mut at = Cursor { text, at: end };
    at.skip_some(b"\\\"'`", 4);
    at.skip_some(b" \t", 4);
    if at.skip_some(b":=", 1) == 0 {
        return (Vec::new(), end);
    }
    at.skip_some(b" \t", 4);
    at.skip_some(b"\\\"'`", 4);
    cookie_list(at)
}

/// Returns the secret cookies in `a=b; c=d`.
pub(super) fn cookie_list(at: Cursor<'_>) -> (Vec<Range<usize>>, usize) {
    let line = at.line(COOKIES);
    let line = line.split(['"', '\'', '`', '<', '\\']).next().unwrap_or_default();
    let mut start = at.at;
    let mut found = Vec::new();
    for cookie in line.split(';') {
        let end = start + cookie.len();
        if let Some((name, value)) = cookie.split_once('=') {
            let from = end - value.trim_start().len();
            let value = value.trim();
            if is_cookie(name.trim(), value) {
                found.push(from..from + value.len());
            }
        }
        start = end + 1;
    }
    (found, at.at + line.len())
}

fn is_cookie(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let may_be_password = SECRET_COMMANDS.iter().any(|part| name.contains(part));
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let is_word = value.bytes().all(|byte| byte.is_ascii_graphic() && !b"${}<>()[]*".contains(&byte));
    !ATTRIBUTES.contains(&name.as_str())
        && is_word
        && !value.starts_with('.')
        && (may_be_password && value.len() >= 8 && (digits > 0 || value.len() >= 16)
            || value.len() >= 16 && letters > 0 && digits > 1)
}

/// Returns the credentials of an `Authorization` header whose name ends at `end`.
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

/// Returns the credentials after `Bearer `.
pub(super) fn credentials(text: &str, start: usize) -> Option<Range<usize>> {
    let mut at = Cursor { text, at: start };
    at.skip_some(b" ", 2);
    let run = at.run();
    is_secret(text.get(run.clone())?, Name::Token, ValuePosition::Environment).then(|| at.whole_run())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_authorization_headers_are_found() {
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
