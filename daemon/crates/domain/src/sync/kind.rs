//! Kinds of shared items, and the names of items that belong to a session.
//!
//! A session has one summary, and one plan for each file. Their names are derived from the session, so the same
//! session has the same names on two machines. Such a name is a UUID of version 8 that begins with the mark of its
//! kind. So a name alone tells the kind, and a deletion needs nothing else.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::document::DocumentKind;
use crate::ids::SessionKey;

/// What a shared item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemKind {
    Observation,
    Summary,
    Plan,
    /// What a person asked in a session. Shared only if the share includes prompts.
    Prompt,
    /// The agent's final answer. Shared only if the share includes answers.
    Answer,
}

/// The first hexadecimal digits of the names, by kind.
const SUMMARY_MARK: &str = "5e551025";
const PLAN_MARK: &str = "5e55107a";
const PROMPT_MARK: &str = "5e551090";
const ANSWER_MARK: &str = "5e5510a5";
/// The position of the version digit in a UUID.
const VERSION: usize = 14;

impl ItemKind {
    const ALL: [Self; 5] = [Self::Observation, Self::Summary, Self::Plan, Self::Prompt, Self::Answer];

    /// Derives the kind from the item's name.
    pub fn of(item: &str) -> Self {
        let is_derived = item.as_bytes().get(VERSION) == Some(&b'8');
        match item.get(..SUMMARY_MARK.len()) {
            Some(SUMMARY_MARK) if is_derived => Self::Summary,
            Some(PLAN_MARK) if is_derived => Self::Plan,
            Some(PROMPT_MARK) if is_derived => Self::Prompt,
            Some(ANSWER_MARK) if is_derived => Self::Answer,
            _ => Self::Observation,
        }
    }

    pub fn as_str(self) -> &'static str {
        self.document().as_str()
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The kind of document from which its author's machine made it.
    pub fn document(self) -> DocumentKind {
        match self {
            Self::Observation => DocumentKind::Observation,
            Self::Summary => DocumentKind::Summary,
            Self::Plan => DocumentKind::Plan,
            Self::Prompt => DocumentKind::Prompt,
            Self::Answer => DocumentKind::Response,
        }
    }

    /// Whether it is an unchanging text of a session: its name is derived from the text.
    pub fn is_message(self) -> bool {
        matches!(self, Self::Prompt | Self::Answer)
    }

    /// The name of the field with its creation time.
    pub fn made_at(self) -> &'static str {
        match self {
            Self::Plan => "updated_at",
            Self::Observation | Self::Summary | Self::Prompt | Self::Answer => "created_at",
        }
    }

    /// Whether documents of this kind can be shared.
    pub fn has_document(kind: DocumentKind) -> bool {
        kind == DocumentKind::ReceivedText || Self::ALL.iter().any(|known| known.document() == kind)
    }
}

/// The name of a session's summary.
pub fn summary_of(session: &SessionKey) -> String {
    derived(SUMMARY_MARK, &["recall-summary-1", session.agent.as_str(), session.id.as_str()])
}

/// The name of a session's plan in this file.
pub fn plan_of(session: &SessionKey, path: &str) -> String {
    derived(PLAN_MARK, &["recall-plan-1", session.agent.as_str(), session.id.as_str(), path])
}

/// The name of a session's prompt or answer. The same text twice in a session is one item.
pub fn message_of(session: &SessionKey, kind: ItemKind, text: &str) -> String {
    let mark = if kind == ItemKind::Answer { ANSWER_MARK } else { PROMPT_MARK };
    derived(mark, &["recall-said-1", session.agent.as_str(), session.id.as_str(), text])
}

fn derived(mark: &str, parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let mut digits = String::new();
    for byte in hash.finalize() {
        let _ = write!(digits, "{byte:02x}");
    }
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    // Version 8, then the variant.
    format!("{mark}-{}-8{}-8{}-{}", part(0, 4), part(4, 7), part(7, 10), part(10, 22))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SessionId;

    #[test]
    fn a_sessions_items_have_stable_distinct_names_that_show_their_kind() {
        let key = |agent: &str, id: &str| SessionKey { agent: agent.into(), id: SessionId(id.to_owned()) };
        let name = summary_of(&key("claude-code", "s1"));
        assert_eq!(name, "5e551025-1084-8654-8360-91933878eee8");
        assert_eq!(ItemKind::of(&name), ItemKind::Summary);
        assert_ne!(name, summary_of(&key("codex", "s1")));
        assert_ne!(summary_of(&key("a", "bc")), summary_of(&key("ab", "c")));
        let plan = plan_of(&key("claude-code", "s1"), "/plans/a.md");
        assert_eq!(ItemKind::of(&plan), ItemKind::Plan);
        assert_ne!(plan, plan_of(&key("claude-code", "s1"), ""));
        for kind in [ItemKind::Prompt, ItemKind::Answer] {
            let message_name = message_of(&key("claude-code", "s1"), kind, "Why is the total rounded once?");
            assert_eq!(ItemKind::of(&message_name), kind);
            assert_ne!(
                message_name,
                message_of(&key("claude-code", "s2"), kind, "Why is the total rounded once?")
            );
            assert_ne!(message_name, message_of(&key("claude-code", "s1"), kind, "Why?"));
        }
        // A random name is an observation's, even with the same beginning.
        for other in ["01890a5d-ac96-774b-bcce-b302099a8057", "5e551025-ac96-474b-bcce-b302099a8057", ""] {
            assert_eq!(ItemKind::of(other), ItemKind::Observation, "{other}");
        }
    }
}
