//! Sends recorded sessions to the daemon, over one connection per thread.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use recall_protocol::query::Captured;
use recall_protocol::wire::{Deliver, Reply};

use super::Wanted;
use super::completion::keep_missing;
use super::files::SessionFile;
use crate::cli::client::Client;
use crate::cli::failure::Failure;
use recall_agents::AgentSpec;
use recall_agents::history::{RecordedEvent, RecordedSession, open};
use recall_app::answers::session::{CapturedPause, CapturedSession};
use recall_app::clock;

/// A session with a later event may still be running, so its end is left to the agent, or to silence. In milliseconds.
const RECENT_MS: i64 = 3_600_000;
/// How often an event is offered to a busy daemon.
const TRIES: u32 = 60;
const WAIT: Duration = Duration::from_millis(250);
/// A larger file is not a session.
const LARGEST: u64 = 4 << 30;

/// The daemon closes silent connections. A connection that was silent for this long is replaced.
const FRESH: Duration = Duration::from_secs(2);

/// A connection that is replaced after a silence, because reading a large file takes longer than the daemon waits.
pub(super) struct Line<'a> {
    connect: &'a Connect<'a>,
    /// `None` if sessions are only counted.
    client: Option<Client>,
    used: Instant,
}

/// Connects to the daemon if anything is to be stored.
pub(super) type Connect<'a> = dyn Fn() -> anyhow::Result<Option<Client>> + Sync + 'a;

impl<'a> Line<'a> {
    pub(super) fn new(connect: &'a Connect<'a>) -> anyhow::Result<Self> {
        Ok(Self { connect, client: connect()?, used: Instant::now() })
    }

    /// Returns the connection to the daemon. Fails if no daemon answers.
    pub(super) fn client(&mut self) -> anyhow::Result<Option<&mut Client>> {
        if self.client.is_some() && self.used.elapsed() > FRESH {
            self.client = (self.connect)()?;
        }
        self.used = Instant::now();
        Ok(self.client.as_mut())
    }
}

pub(super) struct Sender<'a> {
    line: Line<'a>,
}

/// The result for a session.
pub(super) enum Taken {
    Stored {
        prompts: usize,
        events: usize,
        cwd: String,
        unreadable: usize,
    },
    /// Hooks captured it, and a missing part was added.
    Completed {
        events: usize,
        unreadable: usize,
    },
    Known,
    LeftOut,
    Empty,
    /// It is not wanted.
    Other,
    Unreadable(String),
}

impl<'a> Sender<'a> {
    pub(super) fn new(connect: &'a Connect<'a>) -> anyhow::Result<Self> {
        Ok(Self { line: Line::new(connect)? })
    }

    /// Returns why the file was not read.
    pub(super) fn failed_at(&self, file: &SessionFile) -> Option<String> {
        match open(&file.path).and_then(|file| file.metadata()) {
            Ok(known) => (known.len() > LARGEST).then(|| "the file is too large".to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Imports a session. Fails if the daemon does not respond.
    pub(super) fn take(
        &mut self,
        file: &SessionFile,
        mut session: RecordedSession,
        wanted: &Wanted,
    ) -> anyhow::Result<Taken> {
        let spec = file.spec;
        let prompts = count_prompts(&session, spec);
        if session.events.is_empty() && session.unreadable > 0 {
            return Ok(Taken::Unreadable("none of its lines can be read".to_owned()));
        }
        let Some(last_ms) = session.last_ms().filter(|_| prompts > 0) else { return Ok(Taken::Empty) };
        if session.id.is_empty() {
            return Ok(Taken::Unreadable("it does not name its session".to_owned()));
        }
        if !wanted.is_met_by(&session.cwd, last_ms) {
            return Ok(Taken::Other);
        }
        let events = session.events.len();
        let mut stored =
            Taken::Stored { prompts, events, cwd: session.cwd.clone(), unreadable: session.unreadable };
        let Some(client) = self.line.client()? else { return Ok(stored) };
        let (before, pauses) = captured(client, spec, &session.id)?;
        // Checked here as well as by the daemon, because an event may be sent with a time other than its own.
        let is_paused = |at_ms| pauses.iter().any(|pause| pause.covers(at_ms));
        session.events.retain(|event| !is_paused(event.at_ms) && !is_paused(event.occurred_ms));
        if session.events.is_empty() {
            return Ok(Taken::LeftOut);
        }
        match before.since_ms {
            Some(since_ms) => {
                keep_missing(&mut session, spec, &before, since_ms);
                let prompts = count_prompts(&session, spec);
                let (events, cwd) = (session.events.len(), session.cwd.clone());
                stored = match prompts {
                    0 => Taken::Completed { events, unreadable: session.unreadable },
                    prompts => Taken::Stored { prompts, events, cwd, unreadable: session.unreadable },
                };
            }
            None if clock::now().0.saturating_sub(last_ms) > RECENT_MS => {
                if let Some(name) = spec.history.and_then(|history| history.end) {
                    session.end(name);
                }
            }
            None => {}
        }
        if session.events.is_empty() || before.imported >= session.events.len() as u64 {
            return Ok(Taken::Known);
        }
        self.send_all(file, &session)?;
        let Some(client) = self.line.client()? else { return Ok(stored) };
        let (after, _) = captured(client, spec, &session.id)?;
        Ok(match after.imported {
            0 => Taken::LeftOut,
            imported if imported == before.imported => Taken::Known,
            _ => stored,
        })
    }
}

impl Sender<'_> {
    /// Sends all events. If only an outline of the session is in memory, the contents are read again, event by event.
    fn send_all(&mut self, file: &SessionFile, session: &RecordedSession) -> anyhow::Result<()> {
        let mut is_sent = vec![false; session.events.len()];
        let each = file.spec.history.and_then(|history| history.each);
        if let Some(each) = each.filter(|_| session.events.iter().any(RecordedEvent::is_outlined)) {
            let places: HashMap<&str, usize> =
                session.events.iter().enumerate().map(|(place, event)| (event.id.as_str(), place)).collect();
            let mut outcome = Ok(());
            each(&file.path, &mut |again| {
                let Some(place) = places.get(again.id.as_str()).copied() else { return };
                let (Some(event), Some(is_sent)) = (session.events.get(place), is_sent.get_mut(place)) else {
                    return;
                };
                if outcome.is_ok() && !std::mem::replace(is_sent, true) {
                    let event = if event.is_outlined() { &event.filled(again) } else { event };
                    outcome = self.send(&event.deliver(file.spec, &session.cwd, place));
                }
            })?;
            outcome?;
        }
        for (place, event) in session.events.iter().enumerate() {
            // An event that has vanished from the record since the first reading is skipped.
            if is_sent.get(place) == Some(&false) && !event.is_outlined() {
                self.send(&event.deliver(file.spec, &session.cwd, place))?;
            }
        }
        Ok(())
    }

    fn send(&mut self, deliver: &Deliver) -> anyhow::Result<()> {
        match self.line.client()? {
            Some(client) => send(client, deliver),
            None => Ok(()),
        }
    }
}

fn count_prompts(session: &RecordedSession, spec: &AgentSpec) -> usize {
    session.turns(spec).len()
}

fn captured(
    client: &mut Client,
    spec: &AgentSpec,
    id: &str,
) -> anyhow::Result<(CapturedSession, Vec<CapturedPause>)> {
    let request = Captured { agent: spec.name.to_owned(), sessions: vec![id.to_owned()] };
    let answer = client.ask(request)?.unchanged()?;
    Ok((answer.sessions.into_iter().next().unwrap_or_default(), answer.pauses))
}

fn send(client: &mut Client, deliver: &Deliver) -> anyhow::Result<()> {
    for _ in 0..TRIES {
        match client.deliver(deliver)? {
            // The event is too large, or an agent would never have sent it. The rest of the session is worth more.
            Reply::Ack { .. } | Reply::Duplicate { .. } | Reply::TooBig | Reply::Invalid(_) => return Ok(()),
            Reply::Busy | Reply::Unsaved { .. } => std::thread::sleep(WAIT),
            _ => break,
        }
    }
    Err(Failure::unreachable("The daemon is busy or shutting down")
        .hint("Run the same command again: it continues where it stopped.")
        .into())
}

impl Wanted {
    pub(super) fn is_met_by(&self, cwd: &str, last_ms: i64) -> bool {
        let is_project = |project: &String| match Path::new(project).is_absolute() {
            true => Path::new(cwd).starts_with(project),
            false => Path::new(cwd).file_name().is_some_and(|name| *name == **project),
        };
        self.since_ms.is_none_or(|since| last_ms >= since) && self.project.as_ref().is_none_or(is_project)
    }
}
