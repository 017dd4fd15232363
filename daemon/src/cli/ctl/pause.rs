//! `recall pause` and `recall resume`: stop recording and injecting for a while.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Pause, Resume};

use crate::cli::client::{Client, Start};
use crate::cli::failure::Failure;
use crate::cli::terminal;
use recall_app::answers::status::PauseAnswer;
use recall_app::clock;

#[derive(Debug, Args)]
pub struct PauseArgs {
    /// How long, e.g. `30m`, `2h`, `1 day` [default: until `recall resume`]
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn pause(args: &PauseArgs, start: Start, out: &mut dyn Write) -> anyhow::Result<()> {
    let until_ms = args.duration.as_deref().map(end_of).transpose()?;
    let answer = Client::connect(start)?.ask(Pause { until_ms })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(writeln!(out, "{}", sentence(answer.read()?.paused.as_ref()))?)
}

pub fn resume(args: &ResumeArgs, start: Start, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(start)?.ask(Resume)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(writeln!(out, "{}", sentence(answer.read()?.paused.as_ref()))?)
}

/// Describes the pause for people.
pub fn sentence(pause: Option<&PauseAnswer>) -> String {
    match pause.map(|pause| pause.until) {
        None => "Recording resumed.".to_owned(),
        Some(None) => "Paused until `recall resume`; nothing is recorded or injected.".to_owned(),
        Some(Some(until)) => {
            format!("Paused until {}; nothing is recorded or injected.", terminal::time(until))
        }
    }
}

/// The end of a pause of this length, in milliseconds since 1970.
fn end_of(duration: &str) -> anyhow::Result<i64> {
    let refused =
        || Failure::usage(format!("Invalid duration {duration:?}")).hint("Try 30m, 2h or \"1 day\".");
    let span: jiff::Span = duration.parse().map_err(|_| refused())?;
    let now = jiff::Timestamp::from_millisecond(clock::now().0).map_err(|_| refused())?;
    let end = now.to_zoned(jiff::tz::TimeZone::system()).checked_add(span).map_err(|_| refused())?;
    let end = end.timestamp().as_millisecond();
    if end <= clock::now().0 { Err(refused().into()) } else { Ok(end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_durations_end_in_the_future_and_invalid_ones_are_rejected() {
        let minute = end_of("30m").unwrap() - clock::now().0;
        assert!((29 * 60_000..=30 * 60_000).contains(&minute), "{minute}");
        assert!(end_of("2h").unwrap() < end_of("1 day").unwrap());
        for wrong in ["", "soon", "-1h", "0s"] {
            assert!(end_of(wrong).is_err(), "{wrong}");
        }
    }
}
