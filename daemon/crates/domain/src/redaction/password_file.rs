//! Finds the password in a line of PostgreSQL's password file: `host:port:database:user:password`.

use std::ops::Range;

use super::beginning;
use super::byte_set::ByteSet;
use super::command_line::is_password;
use super::cursor::Cursor;

/// The port field with its colons.
pub(super) const PORTS: &[&str] = &[":5432:", ":5433:", ":6432:", ":*:"];

/// The number of bytes examined on either side of the port.
const MOST: usize = 128;
const NAME: ByteSet = ByteSet::alphanumeric_and(b"_-.*@+");

/// Returns the password of the line whose port field is at `port`.
pub(super) fn password(text: &str, port: Range<usize>) -> Option<Range<usize>> {
    let before = text.as_bytes().get(..port.start)?;
    let host = before.iter().rev().take(MOST).take_while(|byte| NAME.has(**byte)).count();
    // An ARN also has colons, but more text precedes it.
    let is_first = !matches!(before.get(..port.start - host)?.last(), Some(b':' | b'/' | b']'));
    if host == 0 || !is_first {
        return None;
    }
    let mut at = Cursor { text, at: port.end };
    for _field in ["database", "user"] {
        let length = NAME.run(beginning(text.get(at.at..)?, MOST).as_bytes());
        at.at += length;
        if length == 0 || at.skip_some(b":", 1) == 0 {
            return None;
        }
    }
    let password = at.line(MOST).split(['"', '\'', ' ', '\\', ':']).next()?;
    is_password(password).then(|| at.at..at.at + password.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifth_field_of_a_password_file_line_is_the_password() {
        for (text, expected) in [
            ("db.test:5432:shop:app:swordfish\n", Some("swordfish")),
            ("x\n*:*:*:app:swordfish", Some("swordfish")),
            ("echo 'h:5432:*:app:swordfish' >> x", Some("swordfish")),
            ("arn:aws:logs:*:*:group:swordfish", None),
            ("127.0.0.1:5432:5432", None),
            ("h:5432:shop:app:$PASS", None),
            ("postgres://u@h:5432:a b:c:d", None),
        ] {
            let port = PORTS.iter().find_map(|port| text.find(port).map(|at| at..at + port.len())).unwrap();
            assert_eq!(password(text, port).and_then(|range| text.get(range)), expected, "{text}");
        }
    }
}
