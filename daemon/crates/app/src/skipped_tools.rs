//! Calls of the tools in `capture.skip_tools`: their input and output are not stored.
//!
//! The user's answers to the agent's questions and the task list are kept, because they are worth more than most
//! calls. The ids of all other calls are kept too, because they identify repeated events.

use recall_agents::AgentSpec;
use recall_domain::event::{HookEvent, HookEventKind, ToolCall, ToolResult};
use recall_domain::material::Action;

/// Removes the input and the output of a skipped tool's call.
pub fn remove_contents(event: &mut HookEvent, agent: &AgentSpec, skip_tools: &[String]) {
    let is_skipped = |name: &String| skip_tools.contains(name);
    match &mut event.what {
        HookEventKind::ToolStart(start) if is_skipped(&start.name) => start.task = None,
        HookEventKind::Tool(call) if is_skipped(&call.name) && !informs(call, agent) => {
            call.input.clear();
            call.result = match &call.result {
                ToolResult::Done(_) => ToolResult::Done(String::new()),
                ToolResult::Failed(_) => ToolResult::Failed(String::new()),
            };
            (call.plan, call.rewrote) = (None, None);
        }
        _ => {}
    }
}

/// Whether the call contains the user's answers or the task list.
fn informs(call: &ToolCall, agent: &AgentSpec) -> bool {
    let ToolResult::Done(response) = &call.result else { return false };
    let action = agent.action(&call.name, &call.input, Some(response));
    matches!(action, Action::Ask { .. } | Action::Tasks { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_agents::AGENTS;
    use recall_domain::event::{SubagentTask, ToolStart};
    use recall_domain::ids::SessionId;
    use recall_domain::plan::PlanChange;

    fn after(what: HookEventKind) -> HookEventKind {
        let mut event = HookEvent::bare(SessionId::from("s"), what);
        let skipped = ["Write", "Agent", "AskUserQuestion", "TodoWrite"].map(str::to_owned);
        remove_contents(&mut event, AGENTS.spec("claude-code"), &skipped);
        event.what
    }

    fn call(name: &str, input: &str, result: ToolResult) -> ToolCall {
        ToolCall {
            name: name.to_owned(),
            use_id: Some("t".into()),
            input: input.to_owned(),
            result,
            duration_ms: None,
            plan: Some(PlanChange::File { path: "p.md".to_owned(), text: "text".to_owned() }),
            launched: Some("a1".to_owned()),
            rewrote: Some("p.md".to_owned()),
        }
    }

    #[test]
    fn calls_of_skipped_tools_keep_only_ids_user_answers_and_tasks() {
        for result in [ToolResult::Done("\"out\"".to_owned()), ToolResult::Failed("out".to_owned())] {
            let HookEventKind::Tool(left) = after(HookEventKind::Tool(call("Write", "{\"in\":1}", result)))
            else {
                panic!("it is another event")
            };
            let (ToolResult::Done(output) | ToolResult::Failed(output)) = &left.result;
            assert_eq!((left.input.as_str(), output.as_str()), ("", ""));
            assert_eq!((&left.plan, &left.rewrote), (&None, &None));
            assert_eq!((left.use_id, left.launched.as_deref()), (Some("t".into()), Some("a1")));
        }
        let done = |text: &str| ToolResult::Done(text.to_owned());
        for whole in [
            call("Read", "{}", done("\"out\"")),
            call("AskUserQuestion", "{}", done(r#"{"answers":{"Which?":"EUR"}}"#)),
            call("TodoWrite", r#"{"todos":[{"content":"A","status":"pending"}]}"#, done("{}")),
        ] {
            assert_eq!(after(HookEventKind::Tool(whole.clone())), HookEventKind::Tool(whole));
        }
        let task = Some(SubagentTask { kind: "explore".to_owned(), text: "find it".to_owned() });
        let (use_id, input, file, refused_by) = (None, "{}".to_owned(), None, None);
        let start = ToolStart { name: "Agent".to_owned(), use_id, input, file, task, refused_by };
        let without = ToolStart { task: None, ..start.clone() };
        assert_eq!(after(HookEventKind::ToolStart(start)), HookEventKind::ToolStart(without));
    }
}
