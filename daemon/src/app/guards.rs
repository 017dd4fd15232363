//! What the guards say of an event, in the agent's spelling.

use crate::agents::AgentSpec;
use crate::agents::format::tools::{is_of_server, patched_files};
use crate::memory::event::{HookEvent, HookEventKind, ToolCall, ToolResult, ToolStart};
use crate::memory::guard::{GuardedCall, Guards, Verdict, Warning, fetches};
use crate::memory::material::Action;

/// What a guard says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardFinding {
    Refusal(Verdict),
    Warning(Warning),
}

/// What a guard says, and how the agent is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardAnswer {
    pub finding: GuardFinding,
    /// The hook's stdout.
    pub stdout: Vec<u8>,
}

/// What the guards say of an event. `cwd`: where the hook ran. An agent that cannot be told is not looked at.
pub fn judge(guards: &Guards, spec: &AgentSpec, event: &HookEvent, cwd: &str) -> Option<GuardAnswer> {
    match &event.what {
        HookEventKind::ToolStart(start) if guards.judge_calls() => {
            let refuse = spec.guards.refusal?;
            let verdict = verdict(guards, spec, start, event.cwd.as_deref().unwrap_or(cwd))?;
            let stdout = refuse(verdict.decision, &verdict.reason());
            Some(GuardAnswer { finding: GuardFinding::Refusal(verdict), stdout })
        }
        HookEventKind::Tool(call) if guards.warn_of_outside() => {
            let warn = spec.guards.warning?;
            let cwd = event.cwd.as_deref().unwrap_or(cwd);
            let warning = guards.warning(&from_outside(guards, spec, call, cwd)?)?;
            Some(GuardAnswer { finding: GuardFinding::Warning(warning), stdout: warn(&warning.text()) })
        }
        _ => None,
    }
}

fn verdict(guards: &Guards, spec: &AgentSpec, start: &ToolStart, cwd: &str) -> Option<Verdict> {
    let writes = match (spec.action)(&start.name, &start.input, None) {
        Action::Edit { path, .. } | Action::Write { path, .. } => {
            let mut writes = patched_files(&start.input);
            writes.push(path);
            writes
        }
        _ => Vec::new(),
    };
    guards.verdict(GuardedCall { input: &start.input, writes: &writes, cwd })
}

/// What a call has brought in from a web page, an MCP server, the network or a document of others.
fn from_outside(guards: &Guards, spec: &AgentSpec, call: &ToolCall, cwd: &str) -> Option<String> {
    let ToolResult::Done(response) = &call.result else { return None };
    match (spec.action)(&call.name, &call.input, Some(response)) {
        Action::Fetch { output, .. } => Some(output),
        Action::Command { command, output, .. } if fetches(&command) => Some(output),
        // As the agent's JSON has it.
        Action::Read { path } if guards.is_from_outside(&path, cwd) => Some(response.clone()),
        Action::Other { output, .. } if is_of_server(&call.name) => Some(output),
        _ => None,
    }
}
