//! The head and tail of a long text, with a mark between them that shows how much is missing.

use crate::Cuts;

/// Makes excerpts, and counts what they omit.
#[derive(Debug, Default)]
pub(super) struct Excerpts {
    pub(super) cuts: Cuts,
}

impl Excerpts {
    /// Shortens a text to about `most` bytes: three fifths from its beginning, the rest from its end.
    pub(super) fn of(&mut self, text: &str, most: usize) -> String {
        // The first line keeps its indentation, which in a diff is the sign.
        let text = text.trim_start_matches('\n').trim_end();
        self.cuts.bytes += text.len() as u64;
        if text.len() <= most {
            return text.to_owned();
        }
        self.cuts.shortened += 1;
        let head = back_to_break(text, most * 3 / 5);
        let tail = on_to_break(text, text.len() - (most - most * 3 / 5)).max(head);
        let (beginning, end) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
        let missing = text.get(head..tail).unwrap_or_default();
        let lines = missing.matches('\n').count();
        let size = if lines > 1 { format!("{lines} lines") } else { format!("{} bytes", missing.len()) };
        format!("{}\n[… {size} left out …]\n{}", beginning.trim_end(), end.trim_start())
    }

    /// Counts a repeated text.
    pub(super) fn repeated(&mut self, bytes: usize) {
        self.cuts.repeated += 1;
        self.cuts.bytes += bytes as u64;
    }
}

/// The end of the last line before `at`, or of the last character if a line break would lose more than a third.
fn back_to_break(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    let line = text.get(..at).and_then(|head| head.rfind('\n'));
    line.filter(|line| *line > at * 2 / 3).unwrap_or(at)
}

fn on_to_break(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    let line = text.get(at..).and_then(|tail| tail.find('\n'));
    line.filter(|line| *line < (text.len() - at) / 3).map_or(at, |line| at + line + 1)
}
