//! `recall statusline`: one line about the current project, for a shell's prompt or an agent's status line.
//!
//! Shells and agents run it often and wait for it, so it never fails, starts nothing, and gives up quickly.

use std::io::{IsTerminal, Read, Write};
use std::time::Duration;

use clap::Args;
use recall_protocol::client::ConnectError;
use recall_protocol::frame::{self, Deadline, Waited};
use recall_protocol::query::Glance;
use rustix::event::PollFlags;
use serde_json::Value;

use super::client::{Soon, this_folder};
use super::silent_agents::{SilentAgent, silent};
use super::terminal::counted;
use recall_agents::AGENTS;
use recall_app::answers::status::GlanceAnswer;

/// How long an agent may take to send its folder.
const INPUT_WITHIN: Duration = Duration::from_millis(50);
/// Longer input names the folder near its beginning or not at all.
const MOST_BYTES: usize = 64 << 10;

#[derive(Debug, Args)]
pub struct StatuslineArgs {
    /// Project folder [default: the one named by JSON on stdin, or the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Fails only if stdout fails.
pub fn run(args: &StatuslineArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let folder = args.cwd.clone().or_else(folder_of_agent).unwrap_or_else(this_folder);
    let folder = std::path::absolute(&folder).map_or(folder, |folder| folder.to_string_lossy().into_owned());
    let (glance, why) = match Soon::connect() {
        Ok(mut soon) => (soon.ask(Glance { folder }), "recall is busy"),
        Err(ConnectError::Deadline) => (None, "recall is busy"),
        Err(ConnectError::Forbidden) => (None, "recall cannot be reached from this sandbox"),
        Err(_) => (None, "recall is not running"),
    };
    if args.json {
        let glance = glance.as_ref().map(serde_json::to_value).transpose()?;
        return Ok(writeln!(out, "{}", glance.unwrap_or(Value::Null))?);
    }
    let line = glance.map_or_else(
        || why.to_owned(),
        |glance| {
            let silent = silent(AGENTS, &glance);
            line(&glance, silent.first().map(SilentAgent::in_short))
        },
    );
    Ok(writeln!(out, "{line}")?)
}

/// Builds the line. `silent` is what to say of an agent that reports nothing any more.
fn line(glance: &GlanceAnswer, silent: Option<String>) -> String {
    let GlanceAnswer { project, notes, open, paused, .. } = glance;
    let mut parts = vec![counted(*notes, "note", "notes")];
    if *open > 0 {
        parts.push(format!("{open} open"));
    }
    if *paused {
        parts.push("paused".to_owned());
    }
    parts.extend(silent);
    // An unknown project has no name.
    parts.extend(project.iter().map(|name| name.replace(['\n', '\t'], " ")));
    format!("recall {}", parts.join(" · "))
}

/// Returns the folder that an agent names on stdin. A person's terminal is not read.
fn folder_of_agent() -> Option<String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return None;
    }
    let mut stdin = stdin.lock();
    let deadline = Deadline::after(INPUT_WITHIN);
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    while bytes.len() < MOST_BYTES {
        let left = deadline.remaining()?;
        if matches!(frame::wait(&rustix::stdio::stdin(), PollFlags::IN, left).ok()?, Waited::NotYet) {
            continue;
        }
        match stdin.read(&mut buffer).ok()? {
            0 => break,
            length => bytes.extend_from_slice(buffer.get(..length)?),
        }
        // A writer that keeps the pipe open may have already written everything.
        if let Some(folder) = folder_in(&bytes) {
            return Some(folder);
        }
    }
    folder_in(&bytes)
}

fn folder_in(bytes: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let folder = value.pointer("/workspace/current_dir").or_else(|| value.get("cwd"))?;
    folder.as_str().filter(|folder| !folder.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_shows_counts_pause_and_project() {
        let glance = |project: Option<&str>, notes, open, paused| {
            let project = project.map(str::to_owned);
            line(
                &GlanceAnswer { project, notes, open, paused, stored_since: None, reported: Vec::new() },
                None,
            )
        };
        assert_eq!(glance(Some("shop"), 12, 2, false), "recall 12 notes · 2 open · shop");
        assert_eq!(glance(Some("shop"), 1, 0, true), "recall 1 note · paused · shop");
        assert_eq!(glance(None, 0, 0, false), "recall 0 notes");
    }

    #[test]
    fn the_folder_is_read_from_the_agents_input() {
        let folder = |text: &str| folder_in(text.as_bytes());
        assert_eq!(folder(r#"{"cwd": "/a", "workspace": {"current_dir": "/b"}}"#).as_deref(), Some("/b"));
        assert_eq!(folder(r#"{"cwd": "/a"}"#).as_deref(), Some("/a"));
        for none in ["", "{", "[]", r#"{"cwd": 7}"#, r#"{"cwd": ""}"#] {
            assert_eq!(folder(none), None, "{none}");
        }
    }
}
