//! Reads the answer of a turn from Claude Code's transcript, for a turn that ended without reporting one.
//!
//! A transcript is a growing file of JSON lines, most of them bookkeeping. User records, including results of calls,
//! carry the id of their turn. Assistant records follow the turn they belong to, one for each block of a message.
//! Subagents have files of their own, and older versions mark their records as a side chain.

use std::path::Path;

use serde::Deserialize;

use super::super::history::moment;
use super::super::named_file::{self, RefusedFile};
use super::super::{RecordedReply, ReplyRequest};

/// How many bytes are read from the end of a transcript. Little else follows a turn's last message.
const TAIL: u64 = 4 << 20;

/// Returns the last message of the requested turn; without an id, of the last turn.
///
/// # Errors
/// The file is not trusted.
pub(super) fn reply(request: &ReplyRequest) -> Result<Option<RecordedReply>, RefusedFile> {
    let own = super::SPEC.host.folders(&request.home, request.config_dir.as_deref());
    let projects: Vec<_> = own.iter().map(|folder| folder.join("projects")).collect();
    let path = Path::new(&request.transcript);
    let mut file = named_file::open(&projects, path, "jsonl")?;
    let bytes = named_file::tail(&mut file, TAIL)?;
    Ok(last_words(&String::from_utf8_lossy(&bytes), request.prompt.as_ref().map(|id| id.as_str())))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    is_sidechain: bool,
    #[serde(default)]
    is_api_error_message: bool,
    prompt_id: Option<String>,
    timestamp: Option<String>,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    id: Option<String>,
    #[serde(default)]
    content: Content,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Blocks(Vec<Block>),
    Other(serde::de::IgnoredAny),
}

impl Default for Content {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

/// A non-empty message of the agent.
struct Words {
    turn: Option<String>,
    message: Option<String>,
    at_ms: Option<i64>,
    text: String,
}

fn last_words(transcript: &str, turn: Option<&str>) -> Option<RecordedReply> {
    let (mut current, mut turns_are_named) = (None, false);
    let mut found: Option<Words> = None;
    for line in transcript.lines() {
        // Skips most lines, which are large and irrelevant, before they are parsed.
        if !line.contains("\"user\"") && !line.contains("\"assistant\"") {
            continue;
        }
        let Ok(record) = serde_json::from_str::<Record>(line) else { continue };
        match record.kind.as_str() {
            _ if record.is_sidechain || record.is_api_error_message => {}
            "user" => {
                turns_are_named |= record.prompt_id.is_some();
                current = record.prompt_id;
            }
            "assistant" => {
                let Some(message) = record.message else { continue };
                let wanted = turn.is_none() || current.is_none() || current.as_deref() == turn;
                if let Some(text) = text_of(message.content).filter(|_| wanted) {
                    let (turn, at_ms) = (current.clone(), record.timestamp.as_deref().and_then(moment));
                    found = Some(joined(found, Words { turn, message: message.id, at_ms, text }));
                }
            }
            _ => {}
        }
    }
    let found = found.filter(|words| turn.is_none() || !turns_are_named || words.turn.as_deref() == turn)?;
    let text = super::SPEC.without_injected_blocks(&found.text).trim().to_owned();
    (!text.is_empty()).then_some(RecordedReply { text, at_ms: found.at_ms })
}

/// Merges the blocks of one message. A new message replaces the previous one.
fn joined(before: Option<Words>, mut words: Words) -> Words {
    if let Some(before) = before.filter(|before| words.message.is_some() && before.message == words.message) {
        words.text = format!("{}\n\n{}", before.text, words.text);
    }
    words
}

fn text_of(content: Content) -> Option<String> {
    let Content::Blocks(blocks) = content else { return None };
    let texts = blocks.into_iter().filter(|block| block.kind == "text").filter_map(|block| block.text);
    let text = texts.collect::<Vec<_>>().join("\n\n");
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(turn: &str, text: &str) -> String {
        format!(
            r#"{{"type":"user","promptId":"{turn}","isSidechain":false,"message":{{"role":"user","content":"{text}"}}}}"#
        )
    }

    fn assistant(id: &str, text: &str, more: &str) -> String {
        format!(
            r#"{{"type":"assistant"{more},"message":{{"id":"{id}","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    }

    #[track_caller]
    fn check(lines: &[String], turn: Option<&str>, expected: Option<&str>) {
        let found = last_words(&lines.join("\n"), turn).map(|found| found.text);
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn the_last_message_of_the_turn_is_its_answer() {
        let result =
            r#"{"type":"user","promptId":"p1","message":{"content":[{"type":"tool_result","content":"x"}]}}"#;
        let lines = [
            user("p1", "Go"),
            assistant("m1", "I look first.", ""),
            result.to_owned(),
            assistant("m2", "Half", ""),
            r#"{"type":"assistant","message":{"id":"m2","content":[{"type":"tool_use","id":"t"}]}}"#
                .to_owned(),
            assistant("m2", "done. <system-reminder>x</system-reminder>", ""),
            r#"{"type":"attachment","attachment":{"type":"hook_success","content":"\"assistant\""}}"#
                .to_owned(),
            user("p2", "Next"),
        ];
        check(&lines, Some("p1"), Some("Half\n\ndone."));
        check(&lines, Some("p2"), None);
        check(&lines, Some("p3"), None);
    }

    #[test]
    fn messages_of_subagents_and_api_errors_are_not_the_answer() {
        let lines = [
            user("p1", "Go"),
            assistant("m1", "Mine", ""),
            assistant("m2", "A helper's", r#","isSidechain":true"#),
            assistant("m3", "API Error", r#","isApiErrorMessage":true"#),
            "{\"type\":\"assistant\", half".to_owned(),
            r#"{"type":"assistant","message":{"id":"m4","content":"text"}}"#.to_owned(),
        ];
        check(&lines, Some("p1"), Some("Mine"));
    }

    #[test]
    fn without_turn_ids_the_last_message_is_the_answer() {
        let plain = r#"{"type":"user","message":{"content":"Go"}}"#.to_owned();
        check(&[plain.clone(), assistant("m1", "Done.", ""), plain], Some("p1"), Some("Done."));
        check(&[user("p1", "Go"), assistant("m1", "Done.", "")], None, Some("Done."));
        check(&[], None, None);
    }
}
