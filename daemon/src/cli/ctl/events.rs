//! `recall events`: prints session events live.

use std::fmt::Write as _;
use std::io::Write;

use clap::Args;
use recall_protocol::query::Follow;
use recall_protocol::wire::Reply;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::cli::candidates;
use crate::cli::client::{Client, Start};
use crate::cli::failure::Failure;
use crate::cli::page;
use crate::cli::terminal::{self, ACCENT, BOLD, DIM, WARNING, defuse};
use recall_domain::plain::is_invisible;

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Print events until Ctrl-C or until the daemon stops
    #[arg(long, hide = true)]
    follow: bool,
    /// Stop after N events
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
    /// Only the session whose ID begins with this
    #[arg(long, value_name = "ID", add = candidates::sessions())]
    session: Option<String>,
    /// Only these kinds, e.g. session_start,session_end
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// Prints events until the daemon stops. Fails if the connection breaks without an end message.
pub fn run(args: &EventsArgs, start: Start, out: &mut dyn Write) -> anyhow::Result<()> {
    let query = Follow { session: args.session.clone(), kinds: args.kinds.clone() };
    let mut left = args.count;
    let mut answers = Client::connect(start)?.follow(query)?;
    while left != Some(0) {
        let reply = answers.wait().map_err(|error| {
            Failure::unreachable(format!("Lost the connection to the daemon: {error}"))
                .hint("Follow again once it runs. `recall ctl session ID` shows what was recorded.")
        })?;
        match reply {
            Reply::Json(bytes) if args.json => {
                let line = String::from_utf8_lossy(&bytes);
                count(&mut left, &serde_json::from_slice::<FollowedEvent>(&bytes)?);
                writeln!(out, "{}", escaped(&line))?;
            }
            Reply::Json(bytes) => {
                let mut event = serde_json::from_slice(&bytes)?;
                defuse(&mut event);
                let event: FollowedEvent = serde_json::from_value(event)?;
                count(&mut left, &event);
                print(out, &event)?;
            }
            Reply::ShuttingDown => {
                return if args.json { Ok(()) } else { Ok(writeln!(out, "The daemon stopped.")?) };
            }
            Reply::Failed { kind, what, hint } => {
                return Err(Failure::refused(kind, what).hint(hint).into());
            }
            Reply::Busy => {
                return Err(Failure::failed("Too many clients follow events already")
                    .hint("Stop one of them.")
                    .into());
            }
            other => {
                let what = format!("Unexpected answer from the daemon: {other:?}");
                return Err(Failure::failed(what).into());
            }
        }
        out.flush()?;
    }
    Ok(())
}

/// Counts an event. Messages about the stream itself are not events.
fn count(left: &mut Option<u64>, event: &FollowedEvent) {
    if let Some(left) = left
        && !matches!(event.event.as_str(), "following" | "lagged")
    {
        *left = left.saturating_sub(1);
    }
}

/// One line of the stream. Each event also has its own fields.
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

/// Prints one event. Its texts contain no terminal control characters.
fn print(out: &mut dyn Write, followed: &FollowedEvent) -> std::io::Result<()> {
    match followed.event.as_str() {
        "following" => writeln!(out, "{DIM}Following events; press Ctrl-C to stop.{DIM:#}"),
        "lagged" => {
            let missed = followed.lagged;
            writeln!(out, "{WARNING}up to {missed} events missed{WARNING:#}")
        }
        name => {
            let session = one_line(&terminal::session(followed.session_id.as_deref().unwrap_or_default()));
            let (time, fields) = (local_second(&followed.at), fields(&followed.fields));
            let name = one_line(name);
            let line = format!(
                "{DIM}{time}{DIM:#}  {BOLD}{name:LONGEST_NAME$}{BOLD:#}  {ACCENT}{session}{ACCENT:#}  {fields}"
            );
            let width = page::width().unwrap_or(usize::MAX);
            writeln!(out, "{}", page::hang(&line, 0, INDENT, width))
        }
    }
}

/// The width of the names of events, including `observation_replaced`.
const LONGEST_NAME: usize = 20;
/// The indentation of a continued line.
const INDENT: usize = 10;

/// Formats the event's own fields on one line, without those that are already part of the session's id.
fn fields(fields: &Map<String, Value>) -> String {
    let is_shown = |key: &str, value: &Value| !value.is_null() && !matches!(key, "session_key" | "workspace");
    let shown = fields.iter().filter(|(key, value)| is_shown(key, value));
    shown.map(|(key, value)| field(&one_line(key), value)).collect::<Vec<_>>().join(" ")
}

fn field(key: &str, value: &Value) -> String {
    match (key.strip_suffix("_ms"), value) {
        (Some(name), Value::Number(ms)) => {
            let ms = ms.as_f64().unwrap_or_default();
            if ms < 60_000.0 {
                format!("{name}={:.1}s", ms / 1000.0)
            } else {
                format!("{name}={:.0}min", ms / 60_000.0)
            }
        }
        // One word needs no quotes.
        (_, Value::String(text)) if !text.is_empty() && !text.contains([' ', '"', '\n', '\r', '\t']) => {
            format!("{key}={text}")
        }
        _ => format!("{key}={value}"),
    }
}

/// Replaces line breaks, so that an event cannot forge another line.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r', '\t'], " ")
}

/// Escapes invisible and control characters in JSON as `\uXXXX`. In JSON they occur only inside strings.
fn escaped(json: &str) -> String {
    if !json.contains(is_invisible) {
        return json.to_owned();
    }
    let mut out = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_invisible(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(character);
        }
    }
    out
}

fn local_second(at: &str) -> String {
    let local = at.parse::<jiff::Timestamp>().map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    local.map(|time| time.strftime("%H:%M:%S").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_with_line_breaks_is_printed_on_one_line() {
        let forged = "s\n12:00:00  session_end  other";
        let mut event = json!({"event": forged, "session_id": forged, "at": "", "reason": forged, forged: 1});
        defuse(&mut event);
        let event: FollowedEvent = serde_json::from_value(event).unwrap();
        let mut out = Vec::new();
        print(&mut out, &event).unwrap();
        let output = String::from_utf8(out).unwrap();
        assert_eq!(output.matches(['\n', '\r']).count(), 1, "{output:?}");
    }

    #[test]
    fn event_fields_are_printed_in_short_form() {
        let fields = |value: Value| super::fields(value.as_object().unwrap());
        assert_eq!(
            fields(
                json!({"session_key": "a:b", "workspace": "/w", "life": 1, "reason": "other", "from": null})
            ),
            "life=1 reason=other"
        );
        assert_eq!(
            fields(json!({"duration_ms": 3074, "title": "two words"})),
            "duration=3.1s title=\"two words\""
        );
        assert_eq!(fields(json!({"life_ms": 7_200_000})), "life=120min");
    }

    #[test]
    fn invisible_characters_in_json_are_escaped_without_changing_its_value() {
        let hostile = "a\u{9b}2J\u{202e}\u{200b}\u{2028}\u{2029}\u{3164}\u{115f}\u{e0041}\u{fc}\n";
        let plain = json!({"reason": hostile}).to_string();
        let shown = escaped(&plain);
        assert!(
            !shown.contains(is_invisible) && shown.contains("\\u009b2J\\u202e") && shown.contains('\u{fc}'),
            "{shown}"
        );
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), json!({"reason": hostile}));
        assert_eq!(escaped("{\"a\":1}"), "{\"a\":1}");
    }
}
