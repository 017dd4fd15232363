//! A throw-away home with a daemon in it, and hooks that are run as an agent would.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use recall_protocol::paths::Paths;
use recall_protocol::query::Stop;
use serde_json::Value;

use crate::cli::client::{Answer, Client, FLUSH_WITHIN, Start};
use crate::cli::failure::Failure;
use crate::server::requests::Request;

const START_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

pub(super) struct DemoStage {
    home: tempfile::TempDir,
    paths: Paths,
    shim: PathBuf,
    daemon: Child,
}

/// What a hook said and how long the agent waited for it.
pub(super) struct Played {
    pub(super) stdout: Value,
    pub(super) took: Duration,
}

impl DemoStage {
    /// Starts the daemon and waits until it answers.
    ///
    /// # Errors
    /// When there is no room for the home or the daemon does not start.
    pub(super) fn open(program: &Path, shim: &Path) -> anyhow::Result<Self> {
        let home =
            tempfile::Builder::new().prefix("recall-demo-").tempdir().context("making a throw-away home")?;
        let folder = home.path().as_os_str().to_owned();
        let variable = |name: &str| (name == "RECALL_HOME").then(|| folder.clone());
        let paths = Paths::from_variables(&variable).context("finding the throw-away home's folders")?;
        let daemon = Command::new(program)
            .arg("daemon")
            .env("RECALL_HOME", home.path())
            .env_remove("LISTEN_FDS")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {} daemon", program.display()))?;
        let mut stage = Self { home, paths, shim: shim.to_owned(), daemon };
        stage.wait()?;
        Ok(stage)
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_WITHIN;
        while Client::connect_at(&self.paths, Start::Never).is_err() {
            let ended = self.daemon.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                return Err(Failure::failed("The throw-away daemon does not start")
                    .hint("`RECALL_HOME=$(mktemp -d) recall daemon` says why.")
                    .into());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Runs one hook and waits for its end, as an agent does.
    ///
    /// # Errors
    /// When the shim cannot be run, or breaks its promise to say one JSON object or nothing.
    pub(super) fn hook(&mut self, event: &Value) -> anyhow::Result<Played> {
        use std::io::Write as _;
        let begun = Instant::now();
        let mut child = Command::new(&self.shim)
            .arg("claude-code")
            .env("RECALL_HOME", self.home.path())
            .env("RECALL_NO_DAEMON_START", "1")
            .env_remove("RECALL_DISABLE")
            .env_remove("CLAUDE_PROJECT_DIR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("running {}", self.shim.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            let mut line = serde_json::to_vec(event)?;
            line.push(b'\n');
            stdin.write_all(&line).context("telling the shim an event")?;
        }
        let output = child.wait_with_output().context("waiting for the shim")?;
        let took = begun.elapsed();
        let stdout = match output.stdout.as_slice() {
            [] => Value::Null,
            said => serde_json::from_slice(said).context("reading what the shim said")?,
        };
        Ok(Played { stdout, took })
    }

    /// # Errors
    /// When the daemon does not answer.
    pub(super) fn ask<R: Request>(&mut self, request: R) -> anyhow::Result<Answer<R>> {
        Client::connect_at(&self.paths, Start::Never)?.ask_within(request, FLUSH_WITHIN)
    }

    /// Ends the daemon; the home goes with this value.
    pub(super) fn close(&mut self) {
        let _ = self.ask(Stop);
        let deadline = Instant::now() + START_WITHIN;
        while matches!(self.daemon.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for DemoStage {
    fn drop(&mut self) {
        // After a failure on the way; a daemon that has ended is not there to be killed.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}
