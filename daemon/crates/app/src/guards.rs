//! Reports the guards' verdict on an event in the agent's own format.

use super::changed_files;
use recall_agents::format::tools::is_of_server;
use recall_agents::{Advised, AgentSpec, Asking};
use recall_domain::event::{HookEvent, HookEventKind, ToolCall, ToolResult, ToolStart};
use recall_domain::guard::{GuardDecision, GuardedCall, Guards, Rule, Violation, Warning, fetches};
use recall_domain::material::Action;
use serde_json::{Map, Value};

/// A guard's verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardFinding {
    /// A refusal, with the decision that the agent enforces.
    Refusal(Violation),
    /// The call proceeds, and the model or the user is notified.
    Advice(Violation),
    Warning(Warning),
}

/// A guard's verdict, with the answer that reports it to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardAnswer {
    pub finding: GuardFinding,
    /// The hook's stdout.
    pub stdout: Vec<u8>,
}

impl GuardAnswer {
    /// Returns the rule that stops the call. `None` if the user is asked, or if the call may run.
    pub fn refused_by(&self) -> Option<Rule> {
        match &self.finding {
            GuardFinding::Refusal(Violation { rule, decision: GuardDecision::Deny, .. }) => Some(*rule),
            GuardFinding::Refusal(_) | GuardFinding::Advice(_) | GuardFinding::Warning(_) => None,
        }
    }
}

/// A shell command that is modified before it runs.
#[derive(Clone, Debug)]
pub struct ChangedCall {
    input: Map<String, Value>,
    add: fn(&[u8], Map<String, Value>) -> Vec<u8>,
}

impl ChangedCall {
    /// Returns the answer with the new input.
    pub fn added_to(self, answer: &[u8]) -> Vec<u8> {
        (self.add)(answer, self.input)
    }
}

/// Returns the modification of a call's command. `None` if it stays unchanged.
pub fn changed(guards: &Guards, spec: &AgentSpec, event: &HookEvent) -> Option<ChangedCall> {
    let HookEventKind::ToolStart(start) = &event.what else { return None };
    let change = spec.guards.command_change.filter(|change| change.tools.contains(&&*start.name))?;
    let mut input: Map<String, Value> = serde_json::from_str(&start.input).ok()?;
    let command = input.get_mut(COMMAND)?;
    *command = guards.changed_command(command.as_str()?)?.into();
    Some(ChangedCall { input, add: change.add })
}

/// The field that contains a shell's command.
const COMMAND: &str = "command";

/// Restores the commands that the agent wanted to run in an event's calls. Otherwise the modification would be stored
/// as the agent's.
pub(crate) fn as_wanted(guards: &Guards, event: &mut HookEvent) {
    let unchanged = |input: &mut String| {
        if let Some(wanted) = guards.unchanged_input(input) {
            *input = wanted;
        }
    };
    match &mut event.what {
        HookEventKind::ToolStart(start) => unchanged(&mut start.input),
        HookEventKind::Tool(call) => unchanged(&mut call.input),
        HookEventKind::ToolBatch(calls) => calls.iter_mut().for_each(|call| unchanged(&mut call.input)),
        _ => {}
    }
}

/// Checks an event against the guards. `cwd` is where the hook ran. Events of unknown agents are not checked.
pub fn judge(guards: &Guards, spec: &AgentSpec, event: &HookEvent, cwd: &str) -> Option<GuardAnswer> {
    match &event.what {
        HookEventKind::ToolStart(start) if guards.judge_calls() => {
            let refuse = spec.guards.refusal?;
            let verdict = verdict(guards, spec, start, event.cwd.as_deref().unwrap_or(cwd))?;
            let Some(refusal) = verdict.decision.refusal() else { return advice(spec, verdict) };
            let stdout = refuse(refusal, &verdict.reason());
            let decision = match spec.guards.asking {
                Asking::Asks => verdict.decision,
                Asking::Refuses => GuardDecision::Deny,
            };
            Some(GuardAnswer { finding: GuardFinding::Refusal(Violation { decision, ..verdict }), stdout })
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

/// Returns the notice. `None` if the agent passes on no text before a call.
fn advice(spec: &AgentSpec, verdict: Violation) -> Option<GuardAnswer> {
    let advice = spec.guards.advice?;
    let text = match advice.to {
        Advised::Model => verdict.reason(),
        Advised::User => verdict.notice(),
    };
    Some(GuardAnswer { finding: GuardFinding::Advice(verdict), stdout: (advice.answer)(&text) })
}

fn verdict(guards: &Guards, spec: &AgentSpec, start: &ToolStart, cwd: &str) -> Option<Violation> {
    let writes = changed_files::of_call(spec, &start.name, &start.input);
    guards.verdict(GuardedCall { input: &start.input, writes: &writes, cwd })
}

/// Returns the text that a call brought in from a web page, an MCP server, the network or a foreign document.
fn from_outside(guards: &Guards, spec: &AgentSpec, call: &ToolCall, cwd: &str) -> Option<String> {
    let ToolResult::Done(response) = &call.result else { return None };
    match spec.action(&call.name, &call.input, Some(response)) {
        Action::Fetch { output, .. } => Some(output),
        Action::Command { command, output, .. } if fetches(&command) => Some(output),
        // The text as it is in the agent's JSON.
        Action::Read { path } if guards.is_from_outside(&path, cwd) => Some(response.clone()),
        Action::Other { output, .. } if is_of_server(&call.name) => Some(output),
        _ => None,
    }
}
