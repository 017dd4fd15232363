//! `recall sql`: runs a read-only SQL query. `recall sql-reader`: the process in which the daemon runs such a query.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Sql;
use serde_json::Value;

use super::client::{Client, Start};
use super::page::{self, columns};
use super::terminal::{WARNING, table};
use recall_app::queries::sql_reader;

/// The maximum width of a table cell on a terminal, in characters. Other output is not truncated.
const WIDEST: usize = 60;

#[derive(Debug, Args)]
#[command(
    after_help = "Views: sdk_sessions, user_prompts, observations, session_summaries, prompts, calls, plans."
)]
pub struct SqlArgs {
    /// One read-only statement
    query: String,
    /// Maximum number of rows
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1_000)]
    limit: u32,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
}

pub fn run(args: &SqlArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer =
        Client::connect(Start::IfNeeded)?.ask(Sql { text: args.query.clone(), limit: args.limit })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let found = answer.read()?;
    if args.csv {
        let line = |cells: Vec<String>| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",");
        writeln!(out, "{}", line(found.columns))?;
        for row in &found.rows {
            writeln!(out, "{}", line(row.iter().map(text).collect()))?;
        }
    } else {
        let head: Vec<&str> = found.columns.iter().map(String::as_str).collect();
        let is_screen = page::width().is_some();
        let widest = if is_screen { WIDEST } else { usize::MAX };
        let cells = |row: &Vec<Value>| row.iter().map(|value| cell(value, widest)).collect();
        let rows: Vec<Vec<String>> = found.rows.iter().map(cells).collect();
        if is_screen { table(out, &head, &rows)? } else { whole(out, &head, &rows)? }
    }
    if found.more {
        let mut err = anstream::AutoStream::auto(std::io::stderr().lock());
        writeln!(
            err,
            "{WARNING}There are more rows than these {}.{WARNING:#} Use --limit.",
            found.rows.len()
        )?;
    }
    Ok(())
}

/// Prints a table with complete cells. A longer cell shifts only the rest of its own row.
fn whole(out: &mut dyn Write, head: &[&str], rows: &[Vec<String>]) -> std::io::Result<()> {
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let all = || std::iter::once(&head).chain(rows);
    let width = |column: usize| {
        let cells = all().filter_map(|row| row.get(column)).map(|cell| columns(cell));
        cells.filter(|width| *width <= WIDEST).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for row in all() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width.saturating_sub(columns(cell)) + 2));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[derive(Debug, Args)]
#[command(name = sql_reader::COMMAND)]
pub struct SqlReaderArgs {}

/// Takes its task from stdin. Run by hand, it can read only what that user may read.
pub fn serve(out: &mut dyn Write) -> anyhow::Result<()> {
    sql_reader::serve(std::io::stdin().lock(), out)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Formats a value as one line of at most this many characters.
fn cell(value: &Value, widest: usize) -> String {
    let text = text(value);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(widest) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// A value quoted as in RFC 4180.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_only_where_needed() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b \"c\"\n"), "\"a,b \"\"c\"\"\n\"");
    }

    #[test]
    fn cells_are_one_line() {
        let of = |value: Value| cell(&value, WIDEST);
        assert_eq!(of(Value::from("a\n  b\tc")), "a b c");
        assert_eq!(of(Value::from("é".repeat(61))), format!("{}…", "é".repeat(60)));
        assert_eq!(cell(&Value::from("é".repeat(61)), usize::MAX), "é".repeat(61));
        assert_eq!((of(Value::Null), of(Value::from(1.5))), (String::new(), "1.5".to_owned()));
    }
}
