//! Reads a turn's answer from the record of a session, because the end of a turn does not tell it.
//!
//! The record is a growing file of JSON lines, of the same form in Copilot CLI and in VS Code.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::agents::ReplyRequest;
use crate::agents::named_file::{self, Refused};

/// Bytes read from the end.
const TAIL: u64 = 4 << 20;
/// The record is written a moment after the end of the turn is reported.
const LOOKS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(15);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    #[serde(rename = "type")]
    kind: String,
    /// The subagent that wrote it.
    agent_id: Option<String>,
    #[serde(default)]
    data: Data,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    #[serde(default)]
    content: serde_json::Value,
    /// The call that started the subagent that wrote it.
    parent_tool_call_id: Option<String>,
}

/// The last message of the last turn. The record must lie in one of these folders.
///
/// # Errors
/// The file is not trusted.
pub(in crate::agents) fn reply_of(
    folders: Vec<PathBuf>,
    request: &ReplyRequest,
) -> Result<Option<String>, Refused> {
    let mut file = named_file::open(&folders, Path::new(&request.transcript), "jsonl")?;
    for _ in 0..LOOKS {
        let bytes = named_file::tail(&mut file, TAIL)?;
        if let Some(said) = last_words(&String::from_utf8_lossy(&bytes)) {
            return Ok(Some(said));
        }
        std::thread::sleep(BETWEEN);
    }
    Ok(None)
}

fn last_words(record: &str) -> Option<String> {
    let mut said = None;
    for line in record.lines() {
        // Most lines are large and irrelevant, and are not parsed.
        if !line.contains("\"assistant.message\"") && !line.contains("\"user.message\"") {
            continue;
        }
        let Ok(Record { kind, agent_id: None, data }) = serde_json::from_str::<Record>(line) else {
            continue;
        };
        match (kind.as_str(), data) {
            (_, Data { parent_tool_call_id: Some(_), .. }) => {}
            ("user.message", _) => said = None,
            ("assistant.message", Data { content: serde_json::Value::String(text), .. })
                if !text.trim().is_empty() =>
            {
                said = Some(text);
            }
            _ => {}
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_of_the_last_turn_is_its_answer() {
        let user = r#"{"type":"user.message","data":{"content":"Go"}}"#;
        let said = |text: &str, more: &str| {
            format!(r#"{{"type":"assistant.message","data":{{"content":"{text}"{more}}}}}"#)
        };
        let helper = said("A helper's", r#","parentToolCallId":"call_1""#);
        let own = r#"{"type":"assistant.message","agentId":"a1","data":{"content":"A helper's"}}"#;
        let lines = [user, &said("I look.", ""), &said("Done.", ""), &said("", ""), &helper, own, "{ half"];
        assert_eq!(last_words(&lines.join("\n")).as_deref(), Some("Done."));
        assert_eq!(last_words(&[&said("Done.", ""), user].join("\n")), None);
        assert_eq!(last_words(""), None);
    }
}
