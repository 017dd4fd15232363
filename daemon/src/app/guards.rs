//! The guards' verdict on an event, in the agent's own format.

use super::changed_files;
use crate::agents::format::tools::is_of_server;
use crate::agents::{AgentSpec, Asking};
use crate::memory::event::{HookEvent, HookEventKind, ToolCall, ToolResult, ToolStart};
use crate::memory::guard::{Decision, GuardedCall, Guards, Rule, Verdict, Warning, fetches};
use crate::memory::material::Action;

/// A guard's verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardFinding {
    /// With the decision as the agent carries it out.
    Refusal(Verdict),
    Warning(Warning),
}

/// A guard's verdict, and how the agent is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardAnswer {
    pub finding: GuardFinding,
    /// The hook's stdout.
    pub stdout: Vec<u8>,
}

impl GuardAnswer {
    /// The rule that keeps the call from running. `None` if the user is asked, or if it may run.
    pub fn refused_by(&self) -> Option<Rule> {
        match &self.finding {
            GuardFinding::Refusal(Verdict { rule, decision: Decision::Deny, .. }) => Some(*rule),
            GuardFinding::Refusal(_) | GuardFinding::Warning(_) => None,
        }
    }
}

/// Judges an event by the guards. `cwd`: where the hook ran. Events of an agent that cannot be told are not judged.
pub fn judge(guards: &Guards, spec: &AgentSpec, event: &HookEvent, cwd: &str) -> Option<GuardAnswer> {
    match &event.what {
        HookEventKind::ToolStart(start) if guards.judge_calls() => {
            let refuse = spec.guards.refusal?;
            let verdict = verdict(guards, spec, start, event.cwd.as_deref().unwrap_or(cwd))?;
            let stdout = refuse(verdict.decision, &verdict.reason());
            let decision = match spec.guards.asking {
                Asking::Asks => verdict.decision,
                Asking::Refuses => Decision::Deny,
            };
            Some(GuardAnswer { finding: GuardFinding::Refusal(Verdict { decision, ..verdict }), stdout })
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
    let writes = changed_files::of_call(spec, &start.name, &start.input);
    guards.verdict(GuardedCall { input: &start.input, writes: &writes, cwd })
}

/// The text that a call brought in from a web page, an MCP server, the network or another's document.
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
