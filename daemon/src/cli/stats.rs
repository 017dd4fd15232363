//! `recall stats`: what models have cost, day by day.

use std::io::Write;

use clap::Args;
use recall_protocol::wire::Query;
use serde_json::Value;

use super::client::{Client, Start};
use super::terminal::{ACCENT, DIM, list, number, table, text};

#[derive(Debug, Args)]
pub struct StatsArgs {
    /// So many days, today included
    #[arg(long, value_name = "N", default_value_t = 14)]
    days: u32,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Cells of the longest bar.
const LONGEST_BAR: u64 = 24;

/// # Errors
/// When the daemon does not answer.
pub fn run(args: &StatsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::IfNeeded)?.ask(Query::Stats { days: args.days })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(tell(out, &answer.value, args.days)?)
}

fn tell(out: &mut dyn Write, stats: &Value, days: u32) -> std::io::Result<()> {
    let lines = list(stats, "spending");
    if lines.is_empty() {
        return writeln!(out, "No model was asked in the last {days} days.");
    }
    let most = lines.iter().map(tokens).max().unwrap_or(0);
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            vec![
                text(line, "day").to_owned(),
                text(line, "backend").to_owned(),
                number(line, "calls").to_string(),
                tokens(line).to_string(),
                usd(line),
                bar(tokens(line), most),
            ]
        })
        .collect();
    table(out, &["DAY", "BACKEND", "CALLS", "TOKENS", "USD", ""], &rows)?;
    let total = stats.get("total").unwrap_or(&Value::Null);
    writeln!(
        out,
        "{DIM}in all {} calls, {} tokens, {} USD{DIM:#}",
        number(total, "calls"),
        tokens(total),
        usd(total)
    )?;
    let assumed = number(total, "assumed_calls");
    if assumed > 0 {
        writeln!(
            out,
            "{DIM}of these {assumed} at the most they can have cost, {} tokens: the answer never came, or the daemon ended \
             before it was booked{DIM:#}",
            number(total, "assumed_tokens")
        )?;
    }
    Ok(())
}

fn tokens(line: &Value) -> u64 {
    let count = |key: &str| line.get(key).and_then(Value::as_u64).unwrap_or(0);
    count("tokens_in").saturating_add(count("tokens_out"))
}

fn usd(line: &Value) -> String {
    format!("{:.4}", line.get("usd").and_then(Value::as_f64).unwrap_or(0.0))
}

/// Eighths of a cell, so that small days differ, too. What cost anything is never invisible.
fn bar(value: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = u128::from(value) * u128::from(LONGEST_BAR) * 8 / u128::from(most.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(0).max(usize::from(value > 0));
    let rest = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    format!("{ACCENT}{}{rest}{ACCENT:#}", "█".repeat(eighths / 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn days_are_told_with_a_bar_each() {
        let line = |day: &str, tokens: u64, usd: f64| json!({"day": day, "backend": "openai:m", "calls": 2, "tokens_in": tokens, "tokens_out": 0, "usd": usd});
        let stats = json!({
            "spending": [line("2031-05-18", 1, 0.0), line("2031-05-19", 3_000, 0.0015), line("2031-05-20", 12_000, 1.25)],
            "total": {"calls": 6, "tokens_in": 15_001, "tokens_out": 0, "usd": 1.2515, "assumed_calls": 1,
                "assumed_tokens": 4_812}});
        let mut out = Vec::new();
        tell(&mut out, &stats, 14).unwrap();
        let plain = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        insta::assert_snapshot!(plain);
    }
}
