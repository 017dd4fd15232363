//! The sections of a page of bounded length.

use crate::plain::plain_line;
use crate::text::shortened;
use crate::tokens::Measure;

/// The maximum numbers of lines and characters of a quotation, and of entries of a list. The rest is available on
/// request.
const MOST_QUOTED: usize = 24;
const QUOTED_CHARS: usize = 400;
const MOST_ENTRIES: usize = 15;

/// A heading with its lines, most important first.
pub(super) struct Section {
    heading: String,
    lines: Vec<String>,
    /// The number of lines that are omitted in any case.
    hidden: usize,
    /// Where to find the omitted lines.
    rest: Option<String>,
}

impl Section {
    pub(super) fn new(heading: impl Into<String>, lines: impl IntoIterator<Item = String>) -> Self {
        let lines = lines.into_iter().filter(|line| !line.trim().is_empty()).collect();
        Self { heading: heading.into(), lines, hidden: 0, rest: None }
    }

    pub(super) fn of_list(heading: impl Into<String>, entries: impl IntoIterator<Item = String>) -> Self {
        Self::new(heading, entries.into_iter().map(|entry| format!("- {entry}"))).with_most(MOST_ENTRIES)
    }

    /// Builds a section of stored text, line by line, as a quotation. Nothing in a quotation can pass for a heading of
    /// the page.
    pub(super) fn quoted(heading: impl Into<String>, text: &str) -> Self {
        let lines = text.lines().map(|line| plain_line(line).trim_end().to_owned());
        let lines = lines.filter(|line| !line.trim().is_empty());
        Self::new(heading, lines.map(|line| format!("> {}", shortened(&line, QUOTED_CHARS))))
            .with_most(MOST_QUOTED)
    }

    #[must_use]
    pub(super) fn with_rest(self, rest: String) -> Self {
        Self { rest: Some(rest), ..self }
    }

    fn with_most(mut self, most: usize) -> Self {
        self.hidden = self.lines.len().saturating_sub(most);
        self.lines.truncate(most);
        self
    }

    /// The remark that this many lines are omitted.
    fn left_out(&self, lines: usize) -> String {
        match (&self.rest, lines) {
            (_, 0) => String::new(),
            (Some(rest), _) => format!("(the rest: {rest})\n"),
            (None, _) => format!("(and {lines} more)\n"),
        }
    }
}

/// Renders the page. Sections take turns adding lines, so that a long one leaves room for those after it.
pub(super) fn page(head: &str, sections: &[Section], closing: &str, most: u32) -> String {
    let mut measure = Measure::of(head).and(Measure::of(closing));
    let mut shown = vec![0_usize; sections.len()];
    let mut is_full = vec![false; sections.len()];
    let longest = sections.iter().map(|section| section.lines.len()).max().unwrap_or_default();
    for row in 0..longest {
        for ((section, shown), is_full) in sections.iter().zip(&mut shown).zip(&mut is_full) {
            let Some(line) = section.lines.get(row).filter(|_| !*is_full) else { continue };
            // The first line needs its heading, and possibly the remark that more is omitted.
            let heading = match row {
                0 => format!("\n## {}\n{}", section.heading, section.left_out(999)),
                _ => String::new(),
            };
            let larger = measure.and(Measure::of(&heading)).and(Measure::of(line)).and(Measure::of("\n"));
            *is_full = larger.spent() > most;
            if !*is_full {
                measure = larger;
                *shown = row + 1;
            }
        }
    }
    let mut text = head.to_owned();
    for (section, shown) in sections.iter().zip(shown).filter(|(_, shown)| *shown > 0) {
        text.push_str(&format!("\n## {}\n", section.heading));
        for line in section.lines.iter().take(shown) {
            text.push_str(line);
            text.push('\n');
        }
        text.push_str(&section.left_out(section.lines.len() - shown + section.hidden));
    }
    text + closing
}
