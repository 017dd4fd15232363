//! `recall stats`: the cost of models per day, and the use of injected items.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Stats;

use super::client::{Client, Start};
use super::filter::whole;
use super::terminal::{ACCENT, DIM, counted, table};
use recall_app::answers::injection_uses::InjectionTotal;
use recall_app::answers::status::{SpendingTotal, StatsAnswer};

#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Number of days, including today
    #[arg(long, value_name = "N", default_value_t = 14, value_parser = whole)]
    days: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The width of the longest bar in cells.
const LONGEST_BAR: u64 = 24;

pub fn run(args: &StatsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::IfNeeded)?.ask(Stats { days: args.days })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(print(out, &answer.read()?, args.days)?)
}

fn print(out: &mut dyn Write, stats: &StatsAnswer, days: u32) -> std::io::Result<()> {
    let lines = &stats.spending;
    if lines.is_empty() {
        writeln!(out, "No model calls in the last {days} days.")?;
        return print_injected(out, &stats.told, days);
    }
    let most = lines.iter().map(|line| tokens(&line.total)).max().unwrap_or(0);
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            vec![
                line.day.clone(),
                line.backend.clone(),
                line.total.calls.to_string(),
                tokens(&line.total).to_string(),
                usd(&line.total),
                bar(tokens(&line.total), most),
            ]
        })
        .collect();
    table(out, &["DAY", "BACKEND", "CALLS", "TOKENS", "USD", ""], &rows)?;
    let total = &stats.total;
    writeln!(out, "{DIM}total: {} calls, {} tokens, {} USD{DIM:#}", total.calls, tokens(total), usd(total))?;
    let assumed = total.assumed_calls;
    if assumed > 0 {
        writeln!(
            out,
            "{DIM}{assumed} of them without a reported cost, counted at their maximum ({} tokens){DIM:#}",
            total.assumed_tokens
        )?;
    }
    print_injected(out, &stats.told, days)
}

/// Prints what was injected into sessions, and its known uses.
fn print_injected(out: &mut dyn Write, injected: &InjectionTotal, days: u32) -> std::io::Result<()> {
    if injected.told == 0 {
        return Ok(());
    }
    let uses = [
        (injected.opened, "opened"),
        (injected.followed, "followed"),
        (injected.repeated, "done anyway"),
        (injected.contradicted, "contradicted"),
        (injected.wrong, "marked as wrong there"),
    ];
    let seen: Vec<String> =
        uses.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let seen = if seen.is_empty() { "no use seen".to_owned() } else { seen.join(", ") };
    writeln!(out, "Injected {} in the last {days} days: {seen}.", counted(injected.told, "item", "items"))
}

fn tokens(total: &SpendingTotal) -> u64 {
    total.tokens_in.saturating_add(total.tokens_out)
}

fn usd(total: &SpendingTotal) -> String {
    format!("{:.4}", total.usd)
}

/// Draws a bar in eighths of a cell, so that small amounts differ. A cost above zero is always visible.
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
    use recall_app::answers::status::SpendingLine;

    #[test]
    fn each_day_is_shown_with_a_bar() {
        let total =
            |calls, tokens_in, usd| SpendingTotal { calls, tokens_in, usd, ..SpendingTotal::default() };
        let line = |day: &str, tokens, usd| SpendingLine {
            day: day.to_owned(),
            backend: "openai:m".to_owned(),
            total: total(2, tokens, usd),
        };
        let stats = StatsAnswer {
            spending: vec![
                line("2031-05-18", 1, 0.0),
                line("2031-05-19", 3_000, 0.0015),
                line("2031-05-20", 12_000, 1.25),
            ],
            total: SpendingTotal { assumed_calls: 1, assumed_tokens: 4_812, ..total(6, 15_001, 1.2515) },
            told: InjectionTotal::default(),
        };
        let mut out = Vec::new();
        print(&mut out, &stats, 14).unwrap();
        let plain = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        insta::assert_snapshot!(plain);
    }
}
