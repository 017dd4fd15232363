//! A session's summary, as several commands print it.

use std::io::Write;

use super::terminal::BOLD;
use recall_app::answers::found::SummaryAnswer;

/// Prints the non-empty fields of a summary.
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
