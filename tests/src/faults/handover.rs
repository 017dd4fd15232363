//! Delivers an event to the daemon, or to the spool if the daemon does not acknowledge it. This uses the shim's own
//! code, but no process for each event.

use std::time::Duration;

use recall_protocol::client::Connection;
use recall_protocol::frame::{self, Deadline};
use recall_protocol::losses::Losses;
use recall_protocol::paths::Paths;
use recall_protocol::spool::{Spool, SpoolName};
use recall_protocol::wire::{Deliver, Reply, Request};
use serde_json::Value;

use crate::Stage;

/// What accepted an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptedBy {
    Daemon,
    Spool,
    /// The shim, which does not report which of the two it used.
    Shim,
}

/// Delivers each event over its own connection.
pub struct Handover<'a> {
    stage: &'a Stage,
    paths: Paths,
    spool: Spool,
    patience: Duration,
}

impl<'a> Handover<'a> {
    /// Makes a handover that waits this long for an answer before it uses the spool.
    pub fn new(stage: &'a Stage, patience: Duration) -> Self {
        let paths = paths(stage);
        paths.create_state_folder().unwrap();
        let spool = Spool::new(&paths);
        spool.create_folders().unwrap();
        Self { stage, paths, spool, patience }
    }

    /// Returns how many events were lost.
    pub fn dropped(&self) -> u64 {
        Losses::new(&self.paths).lost().events
    }

    /// Returns the daemon's reply, or `None` if there is none in time.
    pub fn ask(&self, delivery: &Deliver) -> Option<Reply> {
        let deadline = Deadline::after(self.patience);
        let mut connection = Connection::open(&self.paths, deadline).ok()?;
        connection.ask(&Request::Deliver(delivery.clone()), deadline).ok()
    }

    /// Delivers to the daemon, or to the spool if the daemon does not acknowledge the event.
    ///
    /// # Errors
    /// When neither accepted the event.
    pub fn deliver(&self, delivery: &Deliver) -> Result<AcceptedBy, String> {
        match self.ask(delivery) {
            Some(Reply::Ack { .. } | Reply::Duplicate { .. }) => Ok(AcceptedBy::Daemon),
            _ => self.keep(delivery),
        }
    }

    /// Delivers to the spool, as if the daemon had not answered.
    ///
    /// # Errors
    /// When the spool did not accept it.
    pub fn keep(&self, delivery: &Deliver) -> Result<AcceptedBy, String> {
        let frame =
            frame::encode_frame(&Request::Deliver(delivery.clone())).map_err(|error| error.to_string())?;
        let name = SpoolName::new(delivery.captured_at_ms, delivery.event_id);
        match self.spool.write(&name, &frame) {
            Ok(()) => Ok(AcceptedBy::Spool),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Runs the shim with the event.
    ///
    /// # Errors
    /// When it does not end as an agent expects.
    pub fn run_shim(&self, event: &Value) -> Result<AcceptedBy, String> {
        let output = self.stage.hook_bytes(&["claude-code"], event.to_string().as_bytes());
        if output.code() != 0 || !output.stderr.is_empty() {
            return Err(format!("{output:?}"));
        }
        Ok(AcceptedBy::Shim)
    }
}

/// Returns the paths of this stage's files.
pub fn paths(stage: &Stage) -> Paths {
    let home = stage.home();
    Paths::from_variables(&|name| (name == "RECALL_HOME").then(|| home.clone().into())).unwrap()
}
