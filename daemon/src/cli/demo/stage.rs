//! A temporary home with a daemon, and hooks run as an agent runs them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use recall_protocol::agents::AgentRow;
use recall_protocol::paths::Paths;
use recall_protocol::query::Stop;
use serde_json::Value;

use crate::cli::client::{Answer, Client, FLUSH_WITHIN, Start};
use crate::cli::failure::Failure;
use recall_agents::AgentSpec;
use recall_app::requests::Request;

const START_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

pub(super) struct DemoStage {
    home: tempfile::TempDir,
    paths: Paths,
    shim: PathBuf,
    spec: &'static AgentSpec,
    daemon: Child,
}

/// A hook's output and duration.
pub(super) struct Played {
    pub(super) stdout: Value,
    pub(super) took: Duration,
}

impl DemoStage {
    /// Starts the daemon and waits until it responds.
    pub(super) fn open(program: &Path, shim: &Path, spec: &'static AgentSpec) -> anyhow::Result<Self> {
        let home = tempfile::Builder::new()
            .prefix("recall-demo-")
            .tempdir()
            .context("Cannot create a temporary home")?;
        let folder = home.path().as_os_str().to_owned();
        let variable = |name: &str| (name == "RECALL_HOME").then(|| folder.clone());
        let paths = Paths::from_variables(&variable).context("Cannot find the temporary home's folders")?;
        let daemon = Command::new(program)
            .arg("daemon")
            .env("RECALL_HOME", home.path())
            .env_remove("LISTEN_FDS")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("Cannot start {} daemon", program.display()))?;
        let mut stage = Self { home, paths, shim: shim.to_owned(), spec, daemon };
        stage.wait()?;
        Ok(stage)
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_WITHIN;
        while Client::connect_at(&self.paths, Start::Never).is_err() {
            let ended = self.daemon.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                return Err(Failure::failed("The demo's daemon failed to start")
                    .hint("Run `RECALL_HOME=$(mktemp -d) recall daemon` to see why.")
                    .into());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Runs one hook and waits for it, as an agent does. Fails if the shim cannot be run, or prints anything except
    /// one JSON object or nothing.
    pub(super) fn hook(&mut self, event: &Value) -> anyhow::Result<Played> {
        use std::io::Write as _;
        let begun = Instant::now();
        let mut command = Command::new(&self.shim);
        for variable in AgentRow::of(self.spec.name).project_dir {
            command.env_remove(variable);
        }
        let mut child = command
            .arg(self.spec.name)
            .env("RECALL_HOME", self.home.path())
            .env("RECALL_NO_DAEMON_START", "1")
            .env_remove("RECALL_DISABLE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("Cannot run {}", self.shim.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            let mut line = serde_json::to_vec(event)?;
            line.push(b'\n');
            stdin.write_all(&line).context("Cannot send an event to the shim")?;
        }
        let output = child.wait_with_output().context("Cannot wait for the shim")?;
        let took = begun.elapsed();
        let stdout = match output.stdout.as_slice() {
            [] => Value::Null,
            bytes => serde_json::from_slice(bytes).context("Cannot read the shim's answer")?,
        };
        Ok(Played { stdout, took })
    }

    pub(super) fn ask<R: Request>(&mut self, request: R) -> anyhow::Result<Answer<R>> {
        Client::connect_at(&self.paths, Start::Never)?.ask_within(request, FLUSH_WITHIN)
    }

    /// Stops the daemon. Dropping this value removes the home.
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
        // Only needed after a failure; a daemon that has ended cannot be killed.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}
