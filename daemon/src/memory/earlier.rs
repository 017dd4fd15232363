//! Earlier statements that a batch may have made outdated: what a model is shown of them, and what its word is worth.
//!
//! A model words a new value in a sentence of its own, from which no subject can be read, and the old value stands beside
//! it for ever. So it may point at the old one. Its word alone retires nothing, for a page that a tool has read may have
//! put it there: the new statement must itself name what the old one is about, on the evidence of a file of the old one.
//! Whoever could write that could as well write the plain form, which takes the old one's place without being asked. Only
//! values can be pointed at, never what the user said, decided or insisted on.

use super::observation::{ObservationDraft, ObservationType};
use super::subject::{self, SubjectKey};

/// So many are shown: they cost tokens with each batch.
pub const MOST_SHOWN: usize = 5;

/// What is as important as what a user has corrected is not pointed at.
pub const IMPORTANT: u8 = 8;

/// The sorts that are not pointed at, however they are worded.
pub const SETTLED: [ObservationType; 2] = [ObservationType::Decision, ObservationType::Security];

/// A statement from before the batch, about a file that the batch touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// Perhaps from a statement before that one, in a plainer form.
    pub subject: SubjectKey,
    pub title: String,
    pub files: Vec<String>,
}

impl Earlier {
    /// Whether it says of something what its value is; nothing else may be pointed at.
    pub fn is_a_value(&self) -> bool {
        self.subject.named_value().is_some()
    }

    /// The subject that a new observation takes over from it, if it may. Each word by which the value is named stands in
    /// the new title.
    pub fn passed_on_to(&self, draft: &ObservationDraft) -> Option<SubjectKey> {
        let title = subject::words(&draft.title);
        let names_it = self.subject.named_value()?.all(|word| title.iter().any(|said| said == word));
        let mut files = draft.files_read.iter().chain(&draft.files_modified);
        let is_seen = files.any(|file| self.files.contains(file));
        (names_it && is_seen).then(|| self.subject.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::observation::Importance;

    fn earlier(kind: ObservationType, title: &str) -> Option<Earlier> {
        let (subject, files) = (subject::of_title(kind, title)?, vec!["src/gateway.rs".to_owned()]);
        Some(Earlier { subject, title: title.to_owned(), files })
    }

    /// Whether a new title about this file takes over the subject.
    #[track_caller]
    fn check(old: &str, new: &str, file: &str, expected: bool) {
        let draft = ObservationDraft {
            kind: ObservationType::Change,
            title: new.to_owned(),
            subtitle: None,
            narrative: "It names `max_retries`.".to_owned(),
            facts: Vec::new(),
            concepts: Vec::new(),
            files_read: Vec::new(),
            files_modified: vec![file.to_owned()],
            importance: Importance::clamped(5),
            evidence: Vec::new(),
            subject: None,
        };
        let old = earlier(ObservationType::Discovery, old).unwrap();
        let expected = expected.then(|| old.subject.clone());
        assert_eq!(old.passed_on_to(&draft), expected, "{old:?} {new:?}");
    }

    #[test]
    fn a_value_is_passed_on_to_what_names_it_in_its_file() {
        let new = "Since the gateway is slow, requests are tried up to 5 times (`max_retries`)";
        check("`max_retries` is 3", new, "src/gateway.rs", true);
        check("`max_retries` is 3", new, "src/cart.rs", false);
        check("`max_retries` is 3", "The gateway gives up later now", "src/gateway.rs", false);
        check("`max_connections` is 3", new, "src/gateway.rs", false);
        // A condition is part of what it is about.
        check("`max_retries` is 3 for uploads", new, "src/gateway.rs", false);
        check(
            "`max_retries` is 3 for uploads",
            "Uploads: `max_retries` for them went to 5",
            "src/gateway.rs",
            true,
        );
    }

    #[test]
    fn only_values_are_passed_on() {
        let value = |kind, title: &str| earlier(kind, title).is_some_and(|one| one.is_a_value());
        assert!(value(ObservationType::Discovery, "`max_retries` is 3"));
        assert!(value(ObservationType::Change, "Raised `max_retries` from 3 to 5"));
        assert!(!value(ObservationType::Decision, "Never use tabs in the gateway"));
        assert!(!value(ObservationType::Discovery, "Open: Raise `max_retries`"));
        assert!(!value(ObservationType::Gotcha, "The gateway must never be asked twice"));
    }
}
