//! Checks what happened to events, with the daemon's answers and counts.

use recall_protocol::wire::Reply;
use serde_json::json;

use crate::Stage;

/// Expects this many stored events and this many duplicates. No event may wait or be unreadable.
#[track_caller]
pub fn stored(stage: &Stage, expected: usize, duplicates: usize) {
    stage.flush();
    let events = &stage.json(["ctl", "status"])["events"];
    assert_eq!(
        (&events["stored"], &events["duplicates"]),
        (&json!(expected), &json!(duplicates)),
        "{events}"
    );
    assert_eq!((&events["spooled"], &events["unparsed"]), (&json!(0), &json!(0)), "{events}");
}

#[track_caller]
pub fn is_stored(reply: Option<&Reply>) {
    assert!(matches!(reply, Some(Reply::Ack { .. })), "not stored: {reply:?}");
}

#[track_caller]
pub fn is_duplicate(reply: Option<&Reply>) {
    assert!(matches!(reply, Some(Reply::Duplicate { .. })), "not known: {reply:?}");
}
