//! A session's summary, as several commands show it.

use std::io::Write;

use super::terminal::BOLD;
use crate::app::answers::found::SummaryAnswer;

/// The fields of a summary that are not empty.
pub(super) fn fields(out: &mut dyn Write, summary: &SummaryAnswer) -> std::io::Result<()> {
    for (label, value) in [
        ("Asked", &summary.request),
        ("Looked at", &summary.investigated),
        ("Learned", &summary.learned),
        ("Done", &summary.completed),
        ("Open", &summary.next_steps),
        ("Notes", &summary.notes),
    ] {
        if !value.is_empty() {
            writeln!(out, "{BOLD}{label}:{BOLD:#} {value}")?;
        }
    }
    Ok(())
}
