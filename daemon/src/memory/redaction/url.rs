//! `scheme://user:password@host`: the password goes, the rest of the address stays.

use std::ops::Range;

use super::beginning;
use super::byte_set::ByteSet;
use super::plausibility::{Name, Place, is_secret};

pub(super) const SEPARATOR: &str = "://";
/// Longer user information is none.
const MOST: usize = 256;
/// What ends an address's authority, in an address or in the text around it.
const ENDS: ByteSet = ByteSet::of(b" \t\n\r\x0b\x0c/?#\"'`<>\\(),;|");

/// What the marks of [`is_sample`] begin with.
const BEGINS_MARK: ByteSet = ByteSet::of(b"${<[*%xX.");

/// The password of the address whose `://` begins at `start`, or a token that stands in the user's place.
pub(super) fn password(text: &str, start: usize) -> Option<Range<usize>> {
    let before = text.as_bytes().get(start.checked_sub(1)?)?;
    if !before.is_ascii_alphanumeric() {
        return None;
    }
    let from = start + SEPARATOR.len();
    let rest = beginning(text.get(from..)?, MOST);
    let authority = rest.bytes().position(|byte| ENDS.has(byte)).unwrap_or(rest.len());
    let user = rest.get(..authority)?.rfind('@')?;
    let user = rest.get(..user)?;
    match user.split_once(':') {
        Some((name, password)) => {
            let start = from + name.len() + 1;
            (!is_sample(name, password)).then_some(start..start + password.len())
        }
        None => is_secret(user, Name::Token, Place::Quoted).then(|| from..from + user.len()),
    }
}

/// Passwords of examples, and what only names one.
fn is_sample(user: &str, password: &str) -> bool {
    let words = [
        "password", "pass", "passwd", "pwd", "secret", "pw", "p", "token", "postgres", "root", "guest",
        "user",
    ];
    let marks = ["$", "{", "<", "[", "*", "%s", "%v", "xxx", "..."];
    let begins =
        |mark: &str| password.get(..mark.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(mark));
    password.is_empty()
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
    fn passwords_are_found_wherever_the_address_stands() {
        check("postgres://app:s3cr3t@db.test:5432/shop", Some("s3cr3t"));
        check("URL=\"redis://:swordfish@cache\"", Some("swordfish"));
        check("amqp://u:p@ss@host/", Some("p@ss"));
        check("git clone https://a8Kd93jfLs02mQpz71Xc@git.test/x", Some("a8Kd93jfLs02mQpz71Xc"));
    }

    #[test]
    fn addresses_without_one_and_samples_stay() {
        for text in [
            "https://example.test/a@b:c",
            "https://user:password@host/",
            "postgres://postgres:postgres@localhost/x",
            "postgres://$USER:$PASS@host",
            "http://[::1]:80/",
            "ssh://git@github.com/a/b",
            "see http://a.test, mail b@c.test",
            "://x:y@z",
        ] {
            check(text, None);
        }
    }
}
