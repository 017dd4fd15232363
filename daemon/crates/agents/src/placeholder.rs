//! Placeholders that some programs send instead of a session's id.
//!
//! A program that does not know its session yet sends a word instead of the id, the same for all its sessions. Used
//! as an id, it would merge unrelated sessions. So such a session gets an id derived from its folder.

use std::fmt::Write;

use recall_protocol::wire::Deliver;
use sha2::{Digest, Sha256};

use super::format::letters;
use recall_domain::event::HookEvent;
use recall_domain::ids::SessionId;

/// Known placeholders, in [`letters`].
const WORDS: &[&str] = &[
    "unknown",
    "undefined",
    "null",
    "none",
    "nil",
    "nan",
    "na",
    "default",
    "pending",
    "placeholder",
    "anonymous",
    "session",
    "sessionid",
    "emptystatedraft",
    "draft",
    "objectobject",
    "true",
    "false",
];

fn is_placeholder(id: &str) -> bool {
    let letters = letters(id);
    letters.bytes().all(|byte| byte == b'0') || WORDS.contains(&letters.as_str())
}

/// Gives a session without an id one that is derived from its folder.
pub(super) fn replace_placeholder(event: &mut HookEvent, delivery: &Deliver) {
    if !event.session.is_known() || !is_placeholder(event.session.as_str()) {
        return;
    }
    let context = &delivery.context;
    let folder = context.project_dir.as_deref().filter(|folder| !folder.is_empty());
    let folder = folder.or(event.cwd.as_deref()).unwrap_or(&context.cwd);
    let mut id = event.session.as_str().to_owned();
    id.push('-');
    for byte in Sha256::digest(folder.trim_end_matches('/')).iter().take(4) {
        let _ = write!(id, "{byte:02x}");
    }
    event.session = SessionId(id);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholder_words_and_zeros_are_not_session_ids() {
        for id in [
            "unknown",
            "undefined",
            "null",
            "empty-state-draft",
            "00000000-0000-0000-0000-000000000000",
            "N/A",
        ] {
            assert!(is_placeholder(id), "{id}");
        }
        for id in ["5b8f0c52-6d0e-4a53-9a57-0f6f1c1f2a11", "agent:main:unknown", "s1", "ses_0", "10"] {
            assert!(!is_placeholder(id), "{id}");
        }
    }
}
