//! Reads conversations of Antigravity CLI as hook events: their prompts and answers.
//!
//! Format: `brain/<id>/.system_generated/logs/transcript_full.jsonl`, one step per line, with times in whole seconds.
//! According to measurements of `Kewton/CommandMate` with 1.1.18 (41 records), `USER_INPUT` from `USER_EXPLICIT` is a
//! prompt inside `<USER_REQUEST>`, and `PLANNER_RESPONSE` is the model's text. Nothing marks a turn's end. According
//! to several public readers, a conversation's folder is in `history.jsonl`.
//!
//! Left out: calls. No record says which step has the result of which call, or whether it was refused.

use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::history::{HistoryFolder, RecordedHistory, RecordedSession, each_record, moment, open};

pub(super) const HISTORY: RecordedHistory = RecordedHistory {
    place: HistoryFolder::Agent("brain"),
    also: &[],
    is_session: |path| path.file_name().is_some_and(|name| name == "transcript_full.jsonl"),
    inside: None,
    read,
    each: None,
    tail: Some(|reader, _| session(reader, RecordedSession::default())),
    prompts: None,
    kin: None,
    end: None,
};

/// A line of a conversation's record.
#[derive(Deserialize)]
struct Step {
    step_index: i64,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    source: String,
    created_at: String,
    #[serde(default)]
    content: Value,
}

/// An entry of the list of prompts.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    conversation_id: String,
    workspace: String,
}

fn read(path: &Path, _: Option<&str>) -> io::Result<RecordedSession> {
    let conversation = path.ancestors().nth(3).unwrap_or(path);
    let id = conversation.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let list = conversation.ancestors().nth(2).unwrap_or(path).join("history.jsonl");
    let cwd = folder_of(&id, &list).ok_or_else(|| {
        io::Error::other("the folder of its project is unknown: history.jsonl does not contain it")
    })?;
    session(&mut BufReader::new(open(path)?), RecordedSession { id, cwd, ..RecordedSession::default() })
}

fn folder_of(id: &str, list: &Path) -> Option<String> {
    let mut folder = None;
    let reader = BufReader::new(open(list).ok()?);
    each_record(reader, |listed: Option<Listed>| {
        folder = listed
            .filter(|listed| listed.conversation_id == id)
            .map(|listed| listed.workspace)
            .or(folder.take());
    })
    .ok()?;
    folder.filter(|folder| !folder.is_empty())
}

fn session(reader: &mut dyn BufRead, mut session: RecordedSession) -> io::Result<RecordedSession> {
    let mut answer: Option<(i64, String, String)> = None;
    each_record(reader, |step: Option<Step>| {
        let Some(step) = step else {
            session.unreadable += 1;
            return;
        };
        let (Some(at_ms), Some(text)) = (moment(&step.created_at), step.content.as_str()) else { return };
        let id = format!("step {}", step.step_index);
        match (step.kind.as_str(), step.source.as_str()) {
            ("USER_INPUT", "USER_EXPLICIT") => {
                end_turn(&mut session, answer.take());
                session.push(at_ms, id, "UserPromptSubmit", json!({"prompt": request(text)}));
            }
            ("PLANNER_RESPONSE", _) if !text.trim().is_empty() => {
                answer = Some((at_ms, format!("{id} answer"), text.to_owned()));
            }
            _ => {}
        }
    })?;
    end_turn(&mut session, answer);
    Ok(session)
}

fn end_turn(session: &mut RecordedSession, answer: Option<(i64, String, String)>) {
    if let Some((at_ms, id, text)) = answer {
        session.push(at_ms, id, "Stop", json!({"last_assistant_message": text}));
    }
}

/// Extracts what the user typed, without what the program adds.
fn request(content: &str) -> &str {
    let inside =
        content.split_once("<USER_REQUEST>").and_then(|(_, rest)| rest.split_once("</USER_REQUEST>"));
    inside.map_or(content, |(request, _)| request).trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AGENTS;

    const RECORD: &str = include_str!("../../../../../tests/fixtures/antigravity/transcript_full.jsonl");

    #[test]
    fn prompts_are_the_typed_text_and_answers_the_last_text_of_a_turn() {
        let session = session(&mut RECORD.as_bytes(), RecordedSession::default()).unwrap();
        assert_eq!(session.unreadable, 1);
        let turns = session.turns(AGENTS.spec("antigravity"));
        let prompts_and_answers: Vec<_> = turns
            .iter()
            .map(|turn| {
                (turn.prompt.as_deref().unwrap(), turn.answer.as_ref().map(|answer| answer.text.as_str()))
            })
            .collect();
        assert_eq!(
            prompts_and_answers,
            [
                ("Fix the cart total.", Some("The total now multiplies **price by quantity**.")),
                ("And the tests?", None),
            ]
        );
    }

    #[test]
    fn a_conversations_folder_is_read_from_history_jsonl() {
        let own = tempfile::tempdir().unwrap();
        let logs = own.path().join("brain/c-1/.system_generated/logs");
        std::fs::create_dir_all(&logs).unwrap();
        let path = logs.join("transcript_full.jsonl");
        std::fs::write(&path, RECORD).unwrap();
        assert!((HISTORY.is_session)(&path));
        assert!(read(&path, None).is_err());
        let list = r#"{"display":"x","timestamp":1,"workspace":"/other","conversationId":"c-2"}
{"display":"x","timestamp":2,"workspace":"/shop","conversationId":"c-1"}
"#;
        std::fs::write(own.path().join("history.jsonl"), list).unwrap();
        let session = read(&path, None).unwrap();
        assert_eq!((session.id.as_str(), session.cwd.as_str(), session.events.len()), ("c-1", "/shop", 3));
    }
}
