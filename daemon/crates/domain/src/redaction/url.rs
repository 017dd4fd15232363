//! Redacts the password in `scheme://user:password@host` and keeps the rest of the url.

use std::ops::Range;

use super::beginning;
use super::byte_set::ByteSet;
use super::plausibility::{Name, ValuePosition, is_secret};

pub(super) const SEPARATOR: &str = "://";
/// The longest user information, in bytes.
const MOST: usize = 256;
/// Characters that end the authority of a url, or the url itself.
const ENDS: ByteSet = ByteSet::of(b" \t\n\r\x0b\x0c/?#\"'`<>\\(),;|");

/// Characters of a host name.
const HOST: ByteSet = ByteSet::alphanumeric_and(b"-.");

/// First characters of the placeholders in [`is_sample`].
const BEGINS_MARK: ByteSet = ByteSet::of(b"${<[*%xX.");

/// Returns the password of the url whose `://` begins at `start`, or a token in the place of the user.
pub(super) fn password(text: &str, start: usize) -> Option<Range<usize>> {
    let before = text.as_bytes().get(start.checked_sub(1)?)?;
    if !before.is_ascii_alphanumeric() {
        return None;
    }
    let from = start + SEPARATOR.len();
    let rest = beginning(text.get(from..)?, MOST);
    let authority = rest.bytes().position(|byte| ENDS.has(byte)).unwrap_or(rest.len());
    let user = &rest.get(..authority)?;
    // A port is a number. Anything else before a slash begins a password that contains a slash.
    let has_slash = rest.as_bytes().get(authority) == Some(&b'/')
        && user.rsplit_once(':').is_some_and(|(_, port)| port.bytes().any(|byte| !byte.is_ascii_digit()));
    let user = match has_slash {
        true => {
            rest.get(..rest.bytes().position(|byte| byte != b'/' && ENDS.has(byte)).unwrap_or(rest.len()))?
        }
        false => user,
    };
    let user = user.get(..host_sign(user)?)?;
    match user.split_once(':') {
        Some((name, password)) => {
            let start = from + name.len() + 1;
            (!is_sample(name, password)).then_some(start..start + password.len())
        }
        None => is_secret(user, Name::Token, ValuePosition::Quoted).then(|| from..from + user.len()),
    }
}

/// Returns the `@` before the host: the first that precedes a host name, or else the last.
fn host_sign(address: &str) -> Option<usize> {
    let is_host = |at: &usize| {
        let rest = address.get(at + 1..).unwrap_or_default();
        let host = HOST.run(rest.as_bytes());
        let after = rest.as_bytes().get(host);
        let name = rest.get(..host).unwrap_or_default();
        let has_shape = name.contains('.') || name == "localhost" || after == Some(&b':');
        has_shape && !name.is_empty() && matches!(after, None | Some(b'/' | b':'))
    };
    let mut signs = address.match_indices('@').map(|(at, _)| at).filter(|at| {
        // Excludes the `@` of a scoped package or a user in a path, as in `/@scope`.
        at.checked_sub(1).and_then(|before| address.as_bytes().get(before)) != Some(&b'/')
    });
    let first = signs.next()?;
    if is_host(&first) {
        return Some(first);
    }
    let rest: Vec<_> = signs.collect();
    rest.iter().copied().find(is_host).or_else(|| rest.last().copied()).or(Some(first))
}

/// Whether the password is an example or a placeholder.
fn is_sample(user: &str, password: &str) -> bool {
    let words = [
        "password", "pass", "passwd", "pwd", "secret", "pw", "p", "token", "postgres", "root", "guest",
        "user",
    ];
    let marks = ["$", "{", "<", "[", "*", "%s", "%v", "xxx", "..."];
    let begins =
        |mark: &str| password.get(..mark.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(mark));
    password.is_empty()
        || password.contains("[redacted:")
        || user.contains("[redacted")
        || words.iter().any(|word| password.eq_ignore_ascii_case(word))
        || user.eq_ignore_ascii_case(password)
        || (BEGINS_MARK.has(password.as_bytes().first().copied().unwrap_or_default())
            && marks.iter().any(|mark| begins(mark)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let start = text.find(SEPARATOR).unwrap();
        assert_eq!(password(text, start).and_then(|range| text.get(range)), expected, "{text}");
    }

    #[test]
    fn passwords_and_tokens_in_urls_are_found() {
        check("postgres://app:s3cr3t@db.test:5432/shop", Some("s3cr3t"));
        check("URL=\"redis://:swordfish@cache\"", Some("swordfish"));
        check("amqp://u:p@ss@host/", Some("p@ss"));
        check("postgres://app:p@ss/w0rd@db/shop", Some("p@ss/w0rd"));
        check("postgres://app:pa/ss@db.test:5432/shop", Some("pa/ss"));
        check("https://app:p@ss@db.test/@scope/x", Some("p@ss"));
        check("pip install git+https://me:s3cr3t@h.test/a.git@v1", Some("s3cr3t"));
        check("git clone https://a8Kd93jfLs02mQpz71Xc@git.test/x", Some("a8Kd93jfLs02mQpz71Xc"));
    }

    #[test]
    fn urls_without_a_password_or_with_a_placeholder_are_not_matched() {
        for text in [
            "https://example.test/a@b:c",
            "https://user:password@host/",
            "postgres://postgres:postgres@localhost/x",
            "postgres://$USER:$PASS@host",
            "http://[::1]:80/",
            "ssh://git@github.com/a/b",
            "http://localhost:8080/@scope/x",
            "http://host:8080/a@b",
            "https://[redacted:token]@git.test/x",
            "see http://a.test, mail b@c.test",
            "://x:y@z",
        ] {
            check(text, None);
        }
    }
}
