//! Sends lines of an export: recall's own, or one converted from another tool's memory.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Context;
use recall_protocol::query::{Restore, RestoreFrom, RowSource};
use serde_json::Value;

use super::sender::{Connect, Line};
use crate::cli::client::WORK_WITHIN;
use crate::cli::export::{FORMAT, FORMAT_VERSION};
use crate::cli::failure::Failure;
use recall_agents::history::{each_line, open};
use recall_app::answers::portable::RestoreAnswer;
use recall_domain::observation::NoteOrigin;

/// The approximate number of bytes sent at once.
const PART: usize = 1 << 20;
/// The maximum length of a line. A longer one does not fit in a message to the daemon, and recall never writes one.
const LONGEST: usize = 12 << 20;
/// The maximum length of the first line of an export, in bytes.
const LONGEST_HEAD: u64 = 64 << 10;

/// Collects lines and sends them in parts. Without a client they are only counted.
pub(super) struct Lines<'a> {
    line: Line<'a>,
    /// `None` for an export from an unknown author.
    source: Option<RowSource>,
    waiting: Vec<String>,
    bytes: usize,
    pub(super) answer: RestoreAnswer,
}

impl<'a> Lines<'a> {
    pub(super) fn new(connect: &'a Connect<'a>) -> anyhow::Result<Self> {
        Ok(Self {
            line: Line::new(connect)?,
            source: None,
            waiting: Vec::new(),
            bytes: 0,
            answer: RestoreAnswer::default(),
        })
    }

    pub(super) fn from(self, source: RowSource) -> Self {
        Self { source: Some(source), ..self }
    }

    pub(super) fn push(&mut self, line: String) -> anyhow::Result<()> {
        if line.len() > LONGEST {
            self.leave_out(RestoreAnswer::TOO_LONG);
            return Ok(());
        }
        if self.bytes + line.len() > LONGEST {
            self.send()?;
        }
        self.bytes += line.len();
        self.waiting.push(line);
        if self.bytes >= PART { self.send() } else { Ok(()) }
    }

    /// Counts a line or row that is not imported, and why.
    pub(super) fn leave_out(&mut self, why: &str) {
        *self.answer.unfit.entry(why.to_owned()).or_default() += 1;
    }

    /// Sends the collected lines.
    pub(super) fn send(&mut self) -> anyhow::Result<()> {
        self.bytes = 0;
        let lines = std::mem::take(&mut self.waiting);
        let Some(client) = self.line.client()? else {
            for line in lines {
                let line: Value = serde_json::from_str(&line).unwrap_or_default();
                let kind = line["kind"].as_str().unwrap_or_default().to_owned();
                *self.answer.added.entry(kind).or_default() += 1;
            }
            return Ok(());
        };
        self.answer.add(match self.source {
            None => client.ask_within(Restore { lines }, WORK_WITHIN)?.read()?,
            Some(source) => client.ask_within(RestoreFrom { lines, source }, WORK_WITHIN)?.read()?,
        });
        Ok(())
    }
}

/// Claims in an export that a stranger must not make.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) pins: usize,
    pub(super) authored: usize,
    pub(super) aliases: usize,
}

/// Searches an export for claims that a stranger must not make.
pub(super) fn claims(path: &Path) -> anyhow::Result<Claims> {
    let mut claims = Claims::default();
    each(path, |line| {
        // Few lines can contain a claim, and most lines are long.
        let has = |word: &[u8]| line.windows(word.len()).any(|part| part == word);
        if !(has(b"\"aliases\"") || has(b"\"pinned_at\"") || has(b"\"user\"")) {
            return Ok(());
        }
        let line: Value = serde_json::from_slice(line).unwrap_or_default();
        match line["kind"].as_str() {
            Some("project") => {
                let aliases = line["aliases"].as_array().map_or(0, Vec::len);
                claims.aliases += aliases.saturating_sub(1);
            }
            Some("observation") => {
                claims.pins += usize::from(!line["pinned_at"].is_null());
                claims.authored += usize::from(line["origin"] == NoteOrigin::USER);
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(claims)
}

/// Reads a file that `recall export` wrote.
pub(super) fn read(path: &Path, lines: &mut Lines<'_>) -> anyhow::Result<()> {
    each(path, |line| lines.push(String::from_utf8_lossy(line).into_owned()))?;
    lines.send()
}

/// Passes on each line after the first.
fn each(path: &Path, mut take: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let file = open(path).map_err(|error| {
        Failure::failed(format!("Cannot read {}: {error}", path.display()))
            .hint("Name a file that `recall export` wrote.")
    })?;
    let mut reader = BufReader::new(file);
    let mut head = Vec::new();
    reader.by_ref().take(LONGEST_HEAD).read_until(b'\n', &mut head).context("Cannot read the export")?;
    let head: Value = serde_json::from_slice(&head).unwrap_or_default();
    if head["format"] != FORMAT {
        return Err(Failure::failed(format!("{} is not an export of recall", path.display()))
            .hint("Its first line must be {\"format\": \"recall-export\", ...}.")
            .into());
    }
    if head["version"].as_u64().is_none_or(|version| version > FORMAT_VERSION) {
        return Err(Failure::failed(format!("{} was written by a newer recall", path.display()))
            .hint("Update recall here, then import it.")
            .into());
    }
    let mut outcome = Ok(());
    each_line(reader, |line| {
        if outcome.is_ok() && !line.is_empty() {
            outcome = take(line);
        }
    })
    .context("Cannot read the export")?;
    outcome
}
