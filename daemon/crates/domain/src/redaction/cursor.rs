//! A position in a text from which assignments, headers and commands are parsed.

use std::ops::Range;

use super::beginning;
use super::byte_set::ByteSet;

/// The number of bytes of a value that are examined to judge it.
const DOUBT: usize = 64;
/// The longest value that may fill the rest of its line, in bytes.
const LINE: usize = 512;
/// Bytes that end an unquoted value. All are ASCII, so a range never splits a character.
const VALUE_ENDS: ByteSet = ByteSet::of(b" \t\n\r\x0c\"'`,;)}]&<>|([\\");

/// Characters allowed in a parameter's name.
const NAME: ByteSet = ByteSet::alphanumeric_and(b"_-.;");

/// A position in a text.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips at most `most` of these ASCII bytes and returns their number.
    pub(super) fn skip_some(&mut self, bytes: &[u8], most: usize) -> usize {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let count = rest.iter().take(most).take_while(|byte| bytes.contains(byte)).count();
        self.at += count;
        count
    }

    pub(super) fn starts_with(&self, lower: &str) -> bool {
        let here = self.text.as_bytes().get(self.at..self.at + lower.len());
        here.is_some_and(|here| here.eq_ignore_ascii_case(lower.as_bytes()))
    }

    /// The beginning of an unquoted value, long enough to judge it.
    pub(super) fn run(&self) -> Range<usize> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let length = value_length(rest.get(..DOUBT).unwrap_or(rest));
        let mut end = self.at + length;
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        self.at..end
    }

    /// The complete unquoted value.
    pub(super) fn whole_run(&self) -> Range<usize> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let length = value_length(rest);
        self.at..self.at + length
    }

    /// Whether the unquoted value at this position is the last on its line.
    pub(super) fn ends_line(&self) -> bool {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let rest = rest.get(..LINE).unwrap_or(rest);
        let value = value_length(rest);
        let after = rest.get(value..).unwrap_or_default();
        let blanks = after.iter().take_while(|byte| b" \t\r".contains(byte)).count();
        value > 0
            && match after.get(blanks) {
                None => value + blanks == rest.len(),
                Some(b'\n') => true,
                Some(b'#') => blanks > 0,
                Some(_) => false,
            }
    }

    /// The text from here to the end of the line, at most `most` bytes.
    pub(super) fn line(&self, most: usize) -> &'a str {
        let rest = beginning(self.text.get(self.at..).unwrap_or_default(), most);
        rest.split(['\n', '\r']).next().unwrap_or_default()
    }
}

/// The length of the unquoted value that begins here. An ampersand ends it only if another parameter or an operator
/// follows.
fn value_length(rest: &[u8]) -> usize {
    let mut length = 0;
    loop {
        length +=
            rest.get(length..).unwrap_or_default().iter().take_while(|byte| !VALUE_ENDS.has(**byte)).count();
        let after = rest.get(length + 1..).unwrap_or_default();
        let is_inside = rest.get(length) == Some(&b'&')
            && after.first().is_some_and(u8::is_ascii_alphanumeric)
            && rest.get(..length).unwrap_or_default().iter().take(DOUBT).any(u8::is_ascii_digit)
            && after.get(after.iter().take(DOUBT).take_while(|byte| NAME.has(**byte)).count()) != Some(&b'=');
        if !is_inside {
            return length;
        }
        length += 1;
    }
}
