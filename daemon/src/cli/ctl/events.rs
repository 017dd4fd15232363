//! `recall ctl events --follow`: what happens to sessions, as it happens.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Follow;
use recall_protocol::wire::Reply;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::cli::client::{Client, Start};
use crate::cli::failure::Failure;
use crate::cli::terminal::{BOLD, DIM, WARNING, defuse};

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Go on until Ctrl-C or the daemon's end
    #[arg(long, required = true)]
    follow: bool,
    /// Only of sessions whose id begins so
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only these events, e.g. session_start,session_end
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Write JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When no daemon answers, or it is gone without a word.
pub fn run(args: &EventsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let query = Follow { session: args.session.clone(), kinds: args.kinds.clone() };
    let mut answers = Client::connect(Start::Never)?.follow(query)?;
    loop {
        let reply = answers.wait().map_err(|error| {
            Failure::unreachable(format!("The daemon is gone: {error}"))
                .hint("Follow again once it runs; `recall ctl session ID` has what a session went through.")
        })?;
        match reply {
            Reply::Json(bytes) if args.json => {
                out.write_all(&bytes)?;
                writeln!(out)?;
            }
            Reply::Json(bytes) => {
                let mut event = serde_json::from_slice(&bytes)?;
                defuse(&mut event);
                tell(out, &serde_json::from_value(event)?)?;
            }
            Reply::ShuttingDown => {
                return if args.json { Ok(()) } else { Ok(writeln!(out, "The daemon has stopped.")?) };
            }
            Reply::Failed { kind, what, hint } => {
                return Err(Failure::refused(kind, what).hint(hint).into());
            }
            Reply::Busy => {
                return Err(Failure::failed("Too many follow the events already")
                    .hint("End one of the others.")
                    .into());
            }
            other => {
                let what = format!("The daemon gave an answer nobody asked for: {other:?}");
                return Err(Failure::failed(what).into());
            }
        }
        out.flush()?;
    }
}

/// One line of what is followed. What is said of an event has fields of its own.
#[derive(Deserialize)]
struct FollowedEvent {
    event: String,
    #[serde(default)]
    at: String,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default, rename = "agent")]
    _agent: Option<IgnoredAny>,
    #[serde(default)]
    lagged: u64,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// Tells of one event. Its texts are free of what steers a terminal.
fn tell(out: &mut dyn Write, followed: &FollowedEvent) -> std::io::Result<()> {
    match followed.event.as_str() {
        "following" => writeln!(out, "{DIM}Following; Ctrl-C ends it.{DIM:#}"),
        "lagged" => {
            let missed = followed.lagged;
            writeln!(out, "{WARNING}up to {missed} happenings were missed{WARNING:#}")
        }
        name => {
            let session = followed.session_id.as_deref().unwrap_or_default();
            let (time, fields) = (local_second(&followed.at), fields(&followed.fields));
            writeln!(out, "{DIM}{time}{DIM:#}  {BOLD}{name}{BOLD:#}  {session}  {fields}")
        }
    }
}

/// The event's own fields in one line.
fn fields(fields: &Map<String, Value>) -> String {
    let told = fields.iter().filter(|(_, value)| !value.is_null());
    told.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

fn local_second(at: &str) -> String {
    let local = at.parse::<jiff::Timestamp>().map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    local.map(|time| time.strftime("%H:%M:%S").to_string()).unwrap_or_default()
}
