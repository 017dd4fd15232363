//! Calls the user's own `claude` program, for users with a subscription.
//!
//! It runs without tools, hooks, settings and memory, in an empty folder and in its own process group. The whole group
//! is killed at the deadline, when the program ends, and when the daemon dies, so no child process is left behind. The
//! program gets only the variables that [`is_passed_on`] allows. `RECALL_DISABLE` disables recall's own hook if one
//! runs anyway.

use std::io::{Read, Write};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{ChatProvider, ChatReply, ChatRequest, anthropic};
use crate::http::Limits;
use crate::{Paid, ProviderError, barred};
use recall_domain::ids::Timestamp;
use recall_system::process_group::{ProcessGroup, until};

/// The pipes of a killed group close at once, unless a process outside the group holds one open.
const PIPES_WITHIN: Duration = Duration::from_secs(1);

pub(super) struct ClaudeCli {
    model: String,
    within: Duration,
}

impl ClaudeCli {
    pub(super) fn new(model: &str, within: Duration) -> Self {
        Self { model: model.to_owned(), within }
    }

    fn command(&self, request: &ChatRequest, folder: &std::path::Path) -> Command {
        let mut command = Command::new("claude");
        command
            .args(["-p", "--output-format", "json", "--tools", "", "--setting-sources", ""])
            .args(["--strict-mcp-config", "--no-session-persistence", "--disable-slash-commands"])
            .args(["--settings", r#"{"disableAllHooks":true}"#])
            .args(["--model", &self.model, "--system-prompt", &request.system])
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_passed_on)))
            .env("RECALL_DISABLE", "1")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }
}

/// Whether a variable of the daemon is passed to the program: those that any program needs, and those with which this
/// one logs in. Others are withheld; `CLAUDECODE` and similar ones would make the program believe that it runs inside
/// the session that started the daemon.
fn is_passed_on(name: &str) -> bool {
    const NEEDED: [&str; 6] = ["HOME", "PATH", "USER", "LANG", "TERM", "TMPDIR"];
    /// The location of its login, and the login itself if it comes from `claude setup-token`.
    const LOGIN: [&str; 2] = ["CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN"];
    NEEDED.contains(&name)
        || LOGIN.contains(&name)
        || ["LC_", "XDG_", "ANTHROPIC_"].iter().any(|begin| name.starts_with(begin))
}

impl ChatProvider for ClaudeCli {
    fn ask(&self, request: &ChatRequest, _now: Timestamp) -> Result<ChatReply, ProviderError> {
        let folder = tempfile::tempdir()
            .map_err(|error| trouble(format!("cannot create a folder for `claude`: {error}")))?;
        let mut command = self.command(request, folder.path());
        let group = ProcessGroup::spawn_guarded(&mut command).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => barred("there is no `claude` in the daemon's PATH".to_owned()),
            _ => trouble(format!("cannot start `claude`: {error}")),
        })?;
        let Ended { status, output } = finish(group, "claude", request.user.clone(), self.within)?;
        let answer: Value = serde_json::from_slice(&output)
            .map_err(|_| trouble("`claude` did not respond with JSON".to_owned()))?;
        read(&answer, status)
    }
}

/// A program's exit status and output.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) output: Vec<u8>,
}

/// Passes the input to the program and waits until it ends.
pub(super) fn finish(
    mut group: ProcessGroup,
    name: &str,
    input: String,
    within: Duration,
) -> Result<Ended, ProviderError> {
    if let Some(mut stdin) = group.take_stdin() {
        // The program may end before it has read everything. Its output then shows whether that was a failure.
        std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    }
    let output = group.take_stdout().map(read_output);
    let status = group
        .finish(until(Instant::now() + within))
        .map_err(|error| trouble(format!("`{name}` is lost: {error}")))?;
    let status =
        status.ok_or_else(|| trouble(format!("`{name}` was killed after {} s", within.as_secs_f32())))?;
    let output = output
        .and_then(|output| output.recv_timeout(PIPES_WITHIN).ok())
        .ok_or_else(|| trouble(format!("a process started by `{name}` keeps its output open")))?;
    if output.len() > Limits::MOST.body_bytes {
        let most = Limits::MOST.body_bytes;
        return Err(trouble(format!("`{name}` responded with more than {most} bytes")));
    }
    Ok(Ended { status, output })
}

/// Reads one byte more than allowed to detect an excess; the rest stays in the pipe.
fn read_output(stdout: ChildStdout) -> mpsc::Receiver<Vec<u8>> {
    let (sender, output) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let most = Limits::MOST.body_bytes as u64 + 1;
        let _ = stdout.take(most).read_to_end(&mut bytes);
        // After the deadline nobody receives it.
        let _ = sender.send(bytes);
    });
    output
}

/// Parses the response. `is_error` and the exit status are reliable, `subtype` is not.
fn read(answer: &Value, status: ExitStatus) -> Result<ChatReply, ProviderError> {
    let is_error = answer.get("is_error").and_then(Value::as_bool).unwrap_or(true);
    if is_error || !status.success() {
        let status = answer.get("api_error_status").and_then(Value::as_u64);
        let message = answer.get("result").and_then(Value::as_str).unwrap_or_default();
        return Err(match status {
            Some(401..=403) => {
                barred(format!("the provider of `claude` rejects it: {}", status.unwrap_or(0)))
            }
            None if message.contains("/login") => barred("`claude` is not logged in".to_owned()),
            Some(400) => {
                ProviderError::Unacceptable { why: "`claude` does not accept the request: 400".to_owned() }
            }
            Some(status) => trouble(format!("`claude` failed: {status}")),
            None => trouble("`claude` failed".to_owned()),
        });
    }
    let text = answer.get("result").and_then(Value::as_str).unwrap_or_default().to_owned();
    let dollars = answer.get("total_cost_usd").and_then(Value::as_f64);
    Ok(ChatReply {
        text,
        tokens: anthropic::tokens(answer.get("usage")),
        micro_usd: dollars.map(|dollars| (dollars.max(0.0) * 1_000_000.0).ceil() as u64),
    })
}

fn trouble(why: String) -> ProviderError {
    ProviderError::Trouble { why, wait_ms: None, paid: Paid::Perhaps }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn failed() -> ExitStatus {
        std::os::unix::process::ExitStatusExt::from_raw(256)
    }

    #[test]
    fn a_response_that_claims_success_despite_an_error_is_a_failure() {
        let not_logged_in =
            json!({"is_error": true, "subtype": "success", "result": "Invalid API key · Please run /login"});
        assert_eq!(read(&not_logged_in, failed()), Err(barred("`claude` is not logged in".to_owned())));
        let refused = json!({"is_error": true, "api_error_status": 401, "result": "no"});
        assert!(matches!(read(&refused, failed()), Err(ProviderError::Barred { .. })));
        let busy = json!({"is_error": true, "api_error_status": 529});
        assert!(matches!(read(&busy, failed()), Err(ProviderError::Trouble { .. })));
        assert!(
            read(&json!({"is_error": false, "result": "{}"}), failed()).is_err(),
            "the exit code counts, too"
        );
        assert!(
            read(&json!({"result": "{}"}), ExitStatus::default()).is_err(),
            "no word about it is no success"
        );
    }

    #[test]
    fn only_login_and_basic_variables_are_passed_to_the_program() {
        for name in [
            "HOME",
            "PATH",
            "LC_ALL",
            "XDG_CONFIG_HOME",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CONFIG_DIR",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ] {
            assert!(is_passed_on(name), "{name}");
        }
        for name in [
            "CLAUDECODE",
            "CLAUDE_CODE_MESSAGING_TOKEN",
            "CLAUDE_CODE_ENTRYPOINT",
            "OPENAI_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "NODE_OPTIONS",
            "LD_PRELOAD",
            "SSH_AUTH_SOCK",
            "RECALL_HOME",
        ] {
            assert!(!is_passed_on(name), "{name}");
        }
    }

    #[test]
    fn the_cost_and_tokens_of_a_response_are_read() {
        let answer = json!({"is_error": false, "result": "{}", "total_cost_usd": 0.0012341,
                            "usage": {"input_tokens": 3, "output_tokens": 4}});
        let read = read(&answer, ExitStatus::default()).unwrap();
        assert_eq!(read.micro_usd, Some(1235));
        assert_eq!(read.tokens.unwrap().out, 4);
    }
}
