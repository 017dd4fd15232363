//! Terminal output: colours, aligned columns, and plain text in a pipe.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use super::page::{self, columns, hang};
use recall_app::answers::status::RepairAnswer;
use recall_app::answers::{Moment, PublicId};
use recall_app::clock;
use recall_domain::document::DocumentKind;
use recall_domain::plain::is_invisible;

pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const WARNING: Style = AnsiColor::Yellow.on_default();
/// The style of a word that was searched for.
pub const MATCH: Style = AnsiColor::Yellow.on_default().bold();
pub const ACCENT: Style = AnsiColor::Cyan.on_default();

/// "1 job", "2 jobs".
pub fn counted(count: impl TryInto<i64>, one: &str, several: &str) -> String {
    // Numbers that do not fit are plural.
    let count = count.try_into().unwrap_or(i64::MAX);
    format!("{count} {}", if count == 1 { one } else { several })
}

/// "1,290".
pub fn thousands(count: usize) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// An id as users write it.
pub fn id(id: PublicId) -> String {
    match id.0.kind {
        DocumentKind::Observation => format!("#{}", id.0.row),
        _ => id.0.to_string(),
    }
}

/// The number of characters shown of a session's id, if that is unambiguous.
pub const SHORT_ID: usize = 8;
/// Ids up to this length are shown completely.
pub const WHOLE_ID: usize = 16;

/// A session's id, shortened. Commands accept it in place of the whole one.
pub fn session(id: &str) -> String {
    match id.chars().count() {
        ..=WHOLE_ID => id.to_owned(),
        _ => id.chars().take(SHORT_ID).collect(),
    }
}

/// The everyday name of an item's kind or of an observation's type.
pub fn kind(name: &str) -> &str {
    match name {
        "response" => "answer",
        "activity" => "call",
        name => name,
    }
}

/// The state of a session, in its colour.
pub fn state(name: &str) -> String {
    match name {
        "active" => format!("{GOOD}{name}{GOOD:#}"),
        "suspended" => format!("{WARNING}{name}{WARNING:#}"),
        _ => name.to_owned(),
    }
}

/// A shortened title of one line, without a partial word at the end.
pub fn whole_words(title: &str) -> String {
    let cut = title.strip_suffix('…').and_then(|rest| rest.rsplit_once(' '));
    cut.map_or_else(|| title.to_owned(), |(words, _)| format!("{} …", words.trim_end()))
}

/// A local time, to the minute.
pub fn time(moment: Moment) -> String {
    let local =
        jiff::Timestamp::from_millisecond(moment.0.0).map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    local.map(|time| time.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default()
}

/// A local time: hour and minute, with the day unless it is today.
pub fn clock_time(moment: Moment) -> String {
    let (time, now) = (time(moment), time(Moment(clock::now())));
    match (time.split_once(' '), now.split_once(' ')) {
        (Some((day, hour)), Some((today, _))) if day == today => hour.to_owned(),
        _ => time.clone(),
    }
}

/// A local time, with its age if it is recent.
pub fn time_and_age(moment: Moment) -> String {
    let (time, ago) = (time(moment), ago(moment));
    if time.starts_with(&ago) { time } else { format!("{time} ({ago})") }
}

/// The age of a moment, as people say it; a date after a month.
pub fn ago(moment: Moment) -> String {
    let minutes = (clock::now().0 - moment.0.0) / 60_000;
    match minutes {
        ..0 => time(moment),
        0 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..2_880 => format!("{} h ago", minutes / 60),
        2_880..43_200 => format!("{} days ago", minutes / 1_440),
        _ => time(moment).split(' ').next().unwrap_or_default().to_owned(),
    }
}

/// Removes control and invisible characters from all texts, because stored text may be hostile. Line breaks are kept.
pub fn defuse(value: &mut Value) {
    match value {
        Value::String(text) => {
            let steers = |c: char| is_invisible(c) && !matches!(c, '\n' | '\t');
            if text.contains(steers) {
                *text = text.replace("\r\n", "\n").replace(steers, "");
            }
        }
        Value::Array(list) => list.iter_mut().for_each(defuse),
        Value::Object(object) => object.values_mut().for_each(defuse),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the mark of an item that was made on another branch or in another folder; empty without one.
pub fn elsewhere(mark: Option<&str>) -> String {
    mark.map(|mark| format!(" {WARNING}({mark}){WARNING:#}")).unwrap_or_default()
}

/// Describes the repair of a damaged database.
pub fn repair(repair: &RepairAnswer) -> String {
    let (at, damaged) = (time(repair.at), &repair.damaged);
    let instead = match repair.restored_from {
        None => "there was no backup, so an empty one was created".to_owned(),
        Some(made) => format!("restored the backup of {}", time(made)),
    };
    format!("{at}: the database was damaged; {instead}. The damaged file is at {damaged}")
}

/// Formats a time span in seconds, in the largest unit that fits.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{} s", seconds.max(1)),
        60..5_400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3_600)),
    }
}

/// A size with a unit.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or("B");
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {name}") }
}

/// The minimum width of a last column beside the others. With less room it moves below them.
const LEAST_COLUMN: usize = 28;

/// Prints a table with aligned columns. The last column is not padded; if it is too long for the screen, it continues
/// below itself.
pub fn table(out: &mut dyn Write, head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| columns(cell));
        cells.chain(head.get(column).map(|cell| columns(cell))).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    if head.iter().any(|cell| !cell.is_empty()) {
        write!(out, "{DIM}")?;
        line(out, &widths, head)?;
        writeln!(out, "{DIM:#}")?;
    }
    for row in rows {
        line(out, &widths, row)?;
        writeln!(out)?;
    }
    Ok(())
}

fn line<S: AsRef<str>>(out: &mut dyn Write, widths: &[usize], cells: &[S]) -> io::Result<()> {
    let screen = page::width().unwrap_or(usize::MAX);
    let mut at = 0;
    for (column, cell) in cells.iter().enumerate() {
        let cell = cell.as_ref();
        let last = column + 1 == cells.len();
        if last && at + columns(cell) > screen && at + LEAST_COLUMN > screen {
            write!(out, "\n  {}", hang(cell, 2, 2, screen))?;
            continue;
        }
        let width = if last { 0 } else { widths.get(column).copied().unwrap_or(0) };
        let padding = width.saturating_sub(columns(cell)) + if last { 0 } else { 2 };
        let cell = if last { hang(cell, at, at, screen) } else { cell.to_owned() };
        write!(out, "{cell}{}", " ".repeat(padding))?;
        at += width + 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut out = Vec::new();
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["über".to_owned(), "22".to_owned()]];
        table(&mut out, &["NAME", "N"], &rows).unwrap();
        let plain = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert_eq!(plain, "NAME  N\na     1\nüber  22\n");
    }

    #[test]
    fn responses_and_activities_are_shown_as_answers_and_calls() {
        assert_eq!(["response", "activity", "bugfix"].map(kind), ["answer", "call", "bugfix"]);
    }

    #[test]
    fn control_characters_are_removed_from_stored_texts() {
        let mut answer =
            serde_json::json!({"a": ["\u{1b}[2Jx\u{7}", {"b": "one\r\ntwo\tthree\u{202e}"}], "n": 1});
        defuse(&mut answer);
        assert_eq!(answer, serde_json::json!({"a": ["[2Jx", {"b": "one\ntwo\tthree"}], "n": 1}));
    }

    #[test]
    fn long_session_ids_are_shortened() {
        assert_eq!(session("52ab9f04-61c3-4b8e-a0a3-5d1c7f0e9b21"), "52ab9f04");
        assert_eq!(session("first-session"), "first-session");
    }

    #[test]
    fn a_truncated_title_ends_with_a_whole_word() {
        assert_eq!(whole_words("Both call `round_half_ev…"), "Both call …");
        assert_eq!(whole_words("Both call it"), "Both call it");
        assert_eq!(whole_words("incomprehensi…"), "incomprehensi…");
    }

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!([7, 128, 1_290, 1_000_000].map(thousands), ["7", "128", "1,290", "1,000,000"]);
    }

    #[test]
    fn a_count_of_one_is_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "job", "jobs")), ["0 jobs", "1 job", "2 jobs"]);
    }

    #[test]
    fn times_are_rounded_up() {
        assert_eq!([0, 59, 61, 5_400].map(span), ["1 s", "59 s", "2 min", "2 h"]);
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!([0, 1023, 1024, 5 << 20].map(bytes), ["0 B", "1023 B", "1.0 KiB", "5.0 MiB"]);
    }
}
