//! Reads recorded sessions of Copilot CLI and of Copilot in VS Code as hook events.
//!
//! Format: lines of `{type, data, id, timestamp}`, those of a subagent with its `agentId`. Copilot CLI keeps them in
//! `session-state/<session>/events.jsonl` (checked against 1.0.102), VS Code below `workspaceStorage` (according to
//! its extension's source). Records of hooks repeat the hooks' inputs and outputs, and are not read.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::chain::{Chain, Link};
use crate::format::typed;
use crate::history::{HistoryFolder, RecordedHistory, RecordedSession, each_record, moment, open};

pub(super) const HISTORY: RecordedHistory = RecordedHistory {
    place: HistoryFolder::Agent("session-state"),
    also: &[],
    is_session: |path| path.file_name().is_some_and(|name| name == "events.jsonl"),
    inside: None,
    read,
    each: None,
    tail: Some(read_records),
    prompts: None,
    kin: None,
    end: Some("SessionEnd"),
};

/// The text between a call's result and the text that hooks added to it.
const ADDED: &str = " succeeded. Additional guidance from postToolUse hooks:";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    parent_id: Option<String>,
    timestamp: String,
    /// The subagent that wrote the record.
    agent_id: Option<String>,
    #[serde(default)]
    data: Value,
}

#[derive(Default)]
struct Reading {
    session: RecordedSession,
    /// The tool and input of each call, by the call's id.
    calls: HashMap<String, (String, Value)>,
    /// The types of subagents, by their ids.
    kinds: HashMap<String, String>,
    /// The newest text of each agent, with its record and time. The main conversation has no id.
    answers: HashMap<Option<String>, (String, i64, String)>,
    chain: Chain,
}

pub(crate) fn read(path: &Path, _: Option<&str>) -> io::Result<RecordedSession> {
    read_records(&mut BufReader::new(open(path)?), "jsonl")
}

pub(crate) fn read_records(reader: &mut dyn BufRead, _: &str) -> io::Result<RecordedSession> {
    let mut reading = Reading::default();
    each_record(reader, |record| match record {
        Some(record) => reading.take(record),
        None => reading.session.unreadable += 1,
    })?;
    reading.end_turn();
    Ok(reading.session)
}

/// Whether a message names a source that is not a person.
fn is_other(source: &str) -> bool {
    !source.is_empty() && !typed::is_person(source)
}

impl Reading {
    fn take(&mut self, Record { kind, id, parent_id, timestamp, agent_id, data }: Record) {
        let Some(at_ms) = moment(&timestamp) else { return };
        if kind == "user.message" && agent_id.is_none() {
            self.chain.begin(&id);
        } else if self.chain.follow(&id, parent_id.as_deref()) == Link::Broken && kind == "assistant.message"
        {
            // The call answers a prompt that is lost, so the turn before is over.
            return self.end_turn();
        }
        let text = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
        match (kind.as_str(), agent_id) {
            // A resumed session continues in the same file.
            ("session.start", None) if self.session.id.is_empty() => {
                self.session.id = text("sessionId");
                self.session.cwd = data["context"]["cwd"].as_str().unwrap_or_default().to_owned();
                self.push(at_ms, id, None, "SessionStart", json!({"source": "startup"}));
            }
            // A subagent's prompt comes from its caller. Texts that the program inserts, for a skill or a command,
            // belong to a turn and do not begin one.
            ("user.message", None) if is_other(&text("source")) => {}
            ("user.message", None) if !text("content").trim().is_empty() => {
                self.end_turn();
                self.push(at_ms, id, None, "UserPromptSubmit", json!({"prompt": text("content")}));
            }
            // In VS Code a subagent's message names the call that started it.
            ("assistant.message", None) if data["parentToolCallId"].is_string() => {}
            ("assistant.message", side) if !text("content").trim().is_empty() => {
                self.answers.insert(side, (id, at_ms, text("content")));
            }
            ("tool.execution_start", _) => {
                let call = (text("toolName"), data["arguments"].clone());
                self.calls.insert(text("toolCallId"), call);
            }
            ("tool.execution_complete", side) => self.result(at_ms, side.as_deref(), &data),
            ("subagent.started", Some(agent)) => {
                self.kinds.insert(agent.clone(), text("agentName"));
                self.push(at_ms, id, Some(&agent), "SubagentStart", json!({}));
            }
            ("subagent.completed" | "subagent.failed", Some(agent)) => {
                let answer = self.answers.remove(&Some(agent.clone())).map(|(_, _, answer)| answer);
                let fields = json!({"last_assistant_message": answer});
                self.push(at_ms, id, Some(&agent), "SubagentStop", fields);
            }
            ("session.compaction_start", None) => {
                self.push(at_ms, id, None, "PreCompact", json!({"trigger": "auto"}));
            }
            ("session.compaction_complete", None) if data["summaryContent"].is_string() => {
                let fields = json!({"trigger": "auto", "compact_summary": text("summaryContent")});
                self.push(at_ms, id, None, "PostCompact", fields);
            }
            _ => {}
        }
    }

    fn push(&mut self, at_ms: i64, id: String, subagent: Option<&str>, name: &str, mut fields: Value) {
        if let Some(agent) = subagent {
            fields["agent_id"] = json!(agent);
            fields["agent_type"] = json!(self.kinds.get(agent).map_or("general-purpose", String::as_str));
        }
        self.session.push(at_ms, id, name, fields);
    }

    fn result(&mut self, at_ms: i64, side: Option<&str>, data: &Value) {
        let Some(id) = data["toolCallId"].as_str() else { return };
        let Some((tool, input)) = self.calls.remove(id) else { return };
        let output = data["result"]["content"].as_str().unwrap_or_default();
        let output = without_what_hooks_added(output, &tool);
        let mut fields = json!({"tool_name": tool, "tool_input": input, "tool_use_id": id});
        let name = if data["success"] == false {
            fields["error"] = json!(data["error"]["message"].as_str().unwrap_or(output));
            "PostToolUseFailure"
        } else {
            fields["tool_result"] = json!({"result_type": "success", "text_result_for_llm": output});
            "PostToolUse"
        };
        self.push(at_ms, format!("{} {id}", self.session.id), side, name, fields);
    }

    fn end_turn(&mut self) {
        if let Some((id, at_ms, text)) = self.answers.remove(&None) {
            self.push(at_ms, format!("{id} stop"), None, "Stop", json!({"last_assistant_message": text}));
        }
    }
}

fn without_what_hooks_added<'a>(output: &'a str, tool: &str) -> &'a str {
    output.split_once(&format!("\n\nTool \"{tool}\"{ADDED}")).map_or(output, |(before, _)| before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_added_by_hooks_is_removed_from_a_result() {
        let output =
            "ok\n\nTool \"bash\" succeeded. Additional guidance from postToolUse hooks:\nrecall: noted.";
        assert_eq!(without_what_hooks_added(output, "bash"), "ok");
        assert_eq!(without_what_hooks_added(output, "view"), output);
    }
}
