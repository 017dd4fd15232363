//! Prints the output of reading commands: fitted to the terminal's width, and through a pager if it is longer than the
//! screen.
//!
//! Lines are broken only between words, and continue indented to where their text began. In a pipe nothing is broken,
//! because scripts read it.

use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};

use unicode_width::UnicodeWidthChar;

use recall_domain::plain::is_invisible;

/// Narrower screens are treated as this wide.
const LEAST_WIDTH: usize = 40;
/// The divisor for the minimum room of a continued line: a quarter of the width.
const LEAST_ROOM: usize = 4;

/// Whether a long output goes through a pager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paging {
    Allowed,
    Off,
}

/// Returns the width at which lines are broken, in columns; `None` in a pipe. `COLUMNS` overrides both.
pub fn width() -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let screen = || screen().map(|(columns, _)| columns);
    set.filter(|columns| *columns > 0).or_else(screen).map(|columns: usize| columns.max(LEAST_WIDTH))
}

/// The columns and rows of the terminal.
fn screen() -> Option<(usize, usize)> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let (columns, rows) = ratatui::crossterm::terminal::size().ok()?;
    (columns > 0 && rows > 0).then(|| (columns.into(), rows.into()))
}

/// Prints a text that may contain colours.
///
/// # Errors
/// Fails when stdout cannot be written to. A pager that cannot be started, or is closed early, is not an error.
pub fn print(text: &str, paging: Paging) -> std::io::Result<()> {
    let is_long = screen().is_some_and(|(_, rows)| text.lines().count() >= rows);
    let stdout = std::io::stdout();
    let choice = anstream::AutoStream::choice(&stdout);
    if is_long && paging == Paging::Allowed {
        let mut shown = anstream::AutoStream::new(Vec::new(), choice);
        shown.write_all(text.as_bytes())?;
        if page(&shown.into_inner()) {
            return Ok(());
        }
    }
    let mut out = anstream::AutoStream::new(stdout.lock(), choice);
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Returns false if there is no pager.
fn page(text: &[u8]) -> bool {
    let named = ["RECALL_PAGER", "PAGER"].iter().find_map(|name| std::env::var(name).ok());
    let pager = named.unwrap_or_else(|| "less".to_owned());
    // An empty value or `cat` disables it.
    if matches!(pager.trim(), "" | "cat") {
        return false;
    }
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("exec {pager}")).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // A closed pager means that the reader has seen enough.
        let _ = input.write_all(text);
    }
    // The shell exits with 127 if the program does not exist.
    child.wait().is_ok_and(|status| status.code() != Some(127))
}

/// Breaks lines at this width, between words; `None` leaves them unchanged.
pub struct Fitted<W> {
    out: W,
    width: Option<usize>,
    /// An unfinished line.
    begun: Vec<u8>,
}

impl<W: Write> Fitted<W> {
    pub fn new(out: W, width: Option<usize>) -> Self {
        Self { out, width, begun: Vec::new() }
    }
}

impl<W: Write> Write for Fitted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let Some(width) = self.width else { return self.out.write(bytes) };
        self.begun.extend_from_slice(bytes);
        if let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') {
            let lines: Vec<u8> = self.begun.drain(..=end).collect();
            self.out.write_all(fit(&String::from_utf8_lossy(&lines), width).as_bytes())?;
        }
        Ok(bytes.len())
    }

    /// A question has no line end, so it is written out as is.
    fn flush(&mut self) -> std::io::Result<()> {
        self.out.write_all(&self.begun)?;
        self.begun.clear();
        self.out.flush()
    }
}

/// Passes on text that is safe to show: without control characters, invisible characters, and characters that change
/// the direction. Colours are kept.
pub struct Harmless<W> {
    out: W,
    escape: Escape,
}

/// The part of a colour's escape that was read.
#[derive(Debug, Default)]
struct Escape(String);

impl Escape {
    /// Adds the safe part of the text to `kept`.
    fn pass(&mut self, text: &str, kept: &mut String) {
        for character in text.chars() {
            if !self.0.is_empty() {
                match character {
                    '[' if self.0.len() == 1 => {
                        self.0.push(character);
                        continue;
                    }
                    '0'..='9' | ';' | ':' if (2..LONGEST_COLOUR).contains(&self.0.len()) => {
                        self.0.push(character);
                        continue;
                    }
                    'm' if self.0.len() > 1 => {
                        kept.push_str(&self.0);
                        kept.push(character);
                        self.0.clear();
                        continue;
                    }
                    // This is not a colour. The rest is text.
                    _ => {
                        kept.push_str(self.0.trim_start_matches('\u{1b}'));
                        self.0.clear();
                    }
                }
            }
            match character {
                '\u{1b}' => self.0.push(character),
                '\n' | '\t' => kept.push(character),
                hidden if is_invisible(hidden) => {}
                shown => kept.push(shown),
            }
        }
    }
}

/// The longest escape that sets a colour, in bytes.
const LONGEST_COLOUR: usize = 32;

/// Applies [`Harmless`] to a text.
pub fn harmless(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    Escape::default().pass(text, &mut kept);
    kept
}

impl<W: Write> Harmless<W> {
    pub fn new(out: W) -> Self {
        Self { out, escape: Escape::default() }
    }
}

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut kept = String::with_capacity(bytes.len());
        self.escape.pass(&String::from_utf8_lossy(bytes), &mut kept);
        self.out.write_all(kept.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// The text with lines of at most `width` columns, broken between words.
pub fn fit(text: &str, width: usize) -> String {
    let mut fitted = String::with_capacity(text.len() + text.len() / 16);
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        fitted.push_str(&hang(body, 0, text_column(body), width));
        fitted.push_str(end);
    }
    fitted
}

/// Returns the column where a line's text begins: after its indentation, its bullet, or its label with two or more
/// spaces.
fn text_column(line: &str) -> usize {
    let plain = anstream::adapter::strip_str(line).to_string();
    let text = plain.trim_start_matches(' ');
    let spaces = plain.len() - text.len();
    if ["- ", "* ", "→ "].iter().any(|mark| text.starts_with(mark)) {
        return spaces + 2;
    }
    let rest = text.find(' ').and_then(|end| text.get(end..)).unwrap_or_default();
    let gap = rest.len() - rest.trim_start_matches(' ').len();
    match (spaces, gap) {
        (2, 2..) => columns(&plain) - columns(rest.trim_start_matches(' ')),
        _ => spaces,
    }
}

/// Breaks one line that begins at column `start` and indents its continuation. Colours take no columns.
pub fn hang(line: &str, start: usize, indent: usize, width: usize) -> String {
    if start + columns(line) <= width {
        return line.to_owned();
    }
    let indent = indent.min(width - width / LEAST_ROOM);
    let (mut out, mut at, mut gap, mut has_word) = (String::new(), start, String::new(), false);
    let mut rest = line;
    while !rest.is_empty() {
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        let (blank, after) = rest.split_at(spaces);
        let end = after.find(' ').unwrap_or(after.len());
        let (word, next) = after.split_at(end);
        gap.push_str(blank);
        let wide = columns(word);
        if has_word && wide > 0 && at + gap.len() + wide > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            at = indent;
        } else {
            out.push_str(&gap);
            at += gap.len();
        }
        gap.clear();
        out.push_str(word);
        at += wide;
        has_word |= wide > 0;
        rest = next;
    }
    out
}

/// Returns the first lines of a text that begins at column `indent` and continues there; an ellipsis marks omitted
/// text. In a pipe, with unbounded width, returns all of it.
pub fn first_lines(text: &str, indent: usize, width: usize, most: usize) -> String {
    let lines = hang(text, indent, indent, width);
    let end = lines.match_indices('\n').nth(most - 1).map(|(end, _)| end);
    let Some(shown) = end.and_then(|end| lines.get(..end)) else { return lines };
    // Leaves room for the ellipsis, and no open colour.
    let (start, last) = shown.rsplit_once('\n').map_or((indent, shown), |(_, last)| (0, last));
    let fits = start + columns(last) + 2 <= width;
    let shown = if fits { shown } else { shown.rsplit_once(' ').map_or(shown, |(before, _)| before) };
    let ended = if shown.contains('\u{1b}') { "\u{1b}[0m" } else { "" };
    format!("{}{ended} …", shown.trim_end_matches([' ', '…']))
}

/// The columns of a text, without its colours.
pub fn columns(text: &str) -> usize {
    let (mut columns, mut inside) = (0, false);
    for character in text.chars() {
        match character {
            '\u{1b}' => inside = true,
            'm' if inside => inside = false,
            _ if inside => {}
            _ => columns += character.width().unwrap_or(0),
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn output_can_set_styles_but_not_control_the_terminal() {
        for (given, shown) in [
            ("a\u{202e}b\u{200b}c\u{1b}[2Jd\r\u{7}", "abc[2Jd"),
            ("\u{1b}[1mbold\u{1b}[0m \u{1b}[38;5;12mblue", "\u{1b}[1mbold\u{1b}[0m \u{1b}[38;5;12mblue"),
            ("\u{1b}]0;title\u{7}x", "]0;titlex"),
            ("\u{1b}\u{1b}[31mred", "\u{1b}[31mred"),
            ("\u{9b}31m und ü\n\t", "31m und ü\n\t"),
        ] {
            assert_eq!(harmless(given), shown, "{given:?}");
            let mut out = Harmless::new(Vec::new());
            given.chars().for_each(|part| write!(out, "{part}").unwrap());
            assert_eq!(String::from_utf8(out.out).unwrap(), shown, "in parts: {given:?}");
        }
    }

    #[test]
    fn a_wrapped_line_continues_where_its_text_began() {
        assert_eq!(fit("  one two three\nfour\n", 9), "  one two\n  three\nfour\n");
        assert_eq!(fit("short\n\n", 9), "short\n\n");
        assert_eq!(fit("\u{1b}[1mone two\u{1b}[0m three", 7), "\u{1b}[1mone two\u{1b}[0m\nthree");
        assert_eq!(fit("incomprehensibilities of\n", 9), "incomprehensibilities\nof\n");
        assert_eq!(fit("日本 日本 日本", 9), "日本 日本\n日本");
        assert_eq!(hang("one two", 5, 5, 10), "one\n     two");
        assert_eq!(fit("- one two\n", 7), "- one\n  two\n");
        assert_eq!(
            fit("  \u{1b}[32mok\u{1b}[0m    one two\n", 12),
            "  \u{1b}[32mok\u{1b}[0m    one\n        two\n"
        );
    }

    #[test]
    fn lines_are_wrapped_when_they_are_complete() {
        let mut out = Fitted::new(Vec::new(), Some(9));
        out.write_all(b"one two th").unwrap();
        assert_eq!(out.out, b"");
        out.write_all(b"ree\nfour").unwrap();
        assert_eq!(out.out, b"one two\nthree\n");
        out.flush().unwrap();
        assert_eq!(out.out, b"one two\nthree\nfour");
        let mut out = Fitted::new(Vec::new(), None);
        out.write_all(b"one two three four").unwrap();
        assert_eq!(out.out, b"one two three four");
    }

    #[test]
    fn a_long_text_is_truncated_to_its_first_lines() {
        assert_eq!(first_lines("one two three four", 2, 9, 2), "one two\n  three …");
        assert_eq!(first_lines("one two three four", 2, 9, 1), "one …");
        assert_eq!(first_lines("one two", 2, 9, 1), "one two");
        assert_eq!(first_lines("one two", 2, usize::MAX, 1), "one two");
        assert_eq!(first_lines("\u{1b}[1mone two\u{1b}[0m three", 0, 7, 1), "\u{1b}[1mone\u{1b}[0m …");
    }

    proptest! {
        #[test]
        fn wrapping_keeps_every_word_whole(text in "[a-cé日 \n]{0,80}", width in 5_usize..40) {
            let fitted = fit(&text, width);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(words(&fitted), words(&text));
            for line in fitted.lines() {
                let has_one_word = line.split_whitespace().count() <= 1;
                prop_assert!(has_one_word || columns(line.trim_end()) <= width, "{line:?} {width}");
            }
        }
    }
}
