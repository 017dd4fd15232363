//! Sends lines of an export, recall's own or one made of another tool's memory.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Context;
use recall_protocol::query::Restore;
use serde_json::Value;

use super::sender::{Connect, Line};
use crate::agents::history::{each_line, open};
use crate::app::answers::portable::RestoreAnswer;
use crate::cli::export::{FORMAT, FORMAT_VERSION};
use crate::cli::failure::Failure;

/// About how many bytes are sent at once.
const PART: usize = 1 << 20;
/// The first line of an export is short, in bytes.
const LONGEST_HEAD: u64 = 64 << 10;

/// Collects lines and sends them in parts. Without a client they are only counted.
pub(super) struct Lines<'a> {
    line: Line<'a>,
    waiting: Vec<String>,
    bytes: usize,
    pub(super) answer: RestoreAnswer,
}

impl<'a> Lines<'a> {
    pub(super) fn new(connect: &'a Connect<'a>) -> anyhow::Result<Self> {
        Ok(Self {
            line: Line::new(connect)?,
            waiting: Vec::new(),
            bytes: 0,
            answer: RestoreAnswer::default(),
        })
    }

    pub(super) fn push(&mut self, line: String) -> anyhow::Result<()> {
        self.bytes += line.len();
        self.waiting.push(line);
        if self.bytes >= PART { self.send() } else { Ok(()) }
    }

    /// Sends what waits.
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
        self.answer.add(client.ask(Restore { lines })?.read()?);
        Ok(())
    }
}

/// Reads a file that `recall export` wrote.
pub(super) fn read(path: &Path, lines: &mut Lines<'_>) -> anyhow::Result<()> {
    let file = open(path).map_err(|error| {
        Failure::failed(format!("Cannot read {}: {error}", path.display()))
            .hint("Name a file that `recall export` wrote.")
    })?;
    let mut reader = BufReader::new(file);
    let mut head = Vec::new();
    reader.by_ref().take(LONGEST_HEAD).read_until(b'\n', &mut head).context("reading the export")?;
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
            outcome = lines.push(String::from_utf8_lossy(line).into_owned());
        }
    })
    .context("reading the export")?;
    outcome?;
    lines.send()
}
