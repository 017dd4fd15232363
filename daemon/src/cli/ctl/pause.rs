//! `recall ctl pause` and `recall ctl resume`: for a while nothing is captured and nothing given back.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Pause, Resume};

use crate::app::clock;
use crate::cli::client::{Client, Start};
use crate::cli::failure::Failure;
use crate::cli::terminal;
use crate::server::answers::status::PauseAnswer;

#[derive(Debug, Args)]
pub struct PauseArgs {
    /// How long: `30m`, `2h`, `1 day`; without it until `recall ctl resume`
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the duration makes no sense, no daemon answers, or the pause cannot be written down.
pub fn pause(args: &PauseArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let until_ms = args.duration.as_deref().map(end_of).transpose()?;
    let answer = Client::connect(Start::Never)?.ask(Pause { until_ms })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(writeln!(out, "{}", sentence(answer.read()?.paused.as_ref()))?)
}

/// # Errors
/// When no daemon answers, or the end of the pause cannot be written down.
pub fn resume(args: &ResumeArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask(Resume)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(writeln!(out, "{}", sentence(answer.read()?.paused.as_ref()))?)
}

/// What a pause means, for people.
pub fn sentence(pause: Option<&PauseAnswer>) -> String {
    match pause.map(|pause| pause.until) {
        None => "recall captures".to_owned(),
        Some(None) => "recall is paused until `recall ctl resume`: nothing is kept or given".to_owned(),
        Some(Some(until)) => {
            format!("recall is paused until {}: nothing is kept or given", terminal::time(until))
        }
    }
}

/// The moment a pause of this length ends, in milliseconds since 1970.
fn end_of(duration: &str) -> anyhow::Result<i64> {
    let refused = || {
        Failure::usage(format!("{duration:?} is no duration"))
            .hint("Durations are written like 30m, 2h or 1 day.")
    };
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
    fn durations_end_in_the_future_or_make_no_sense() {
        let minute = end_of("30m").unwrap() - clock::now().0;
        assert!((29 * 60_000..=30 * 60_000).contains(&minute), "{minute}");
        assert!(end_of("2h").unwrap() < end_of("1 day").unwrap());
        for wrong in ["", "soon", "-1h", "0s"] {
            assert!(end_of(wrong).is_err(), "{wrong}");
        }
    }
}
