//! Earlier statements that a batch may have made outdated: which of them to show to a model, and when the model's
//! answer retires one.
//!
//! A model phrases a new value freely, so often no subject can be parsed from its sentence, and the old value would
//! remain current. So the model may point at the old statement. That alone retires nothing, because a web page that a
//! tool read may have suggested it. The new statement must itself name the subject of the old one, and rest on
//! evidence about one of its files. Anyone who can write that could also write the plain form, which supersedes the
//! old statement anyway. Only values can be pointed at, never what the user said, decided or insisted on.

use super::observation::{ObservationDraft, ObservationType};
use super::subject::{self, SubjectKey};

/// The maximum number of statements shown to a model with each batch. They cost tokens.
pub const MOST_SHOWN: usize = 5;

/// The importance from which statements cannot be retired this way; a user's correction has it.
pub const IMPORTANT: u8 = 8;

/// Types that cannot be retired this way, whatever their wording.
pub const SETTLED: [ObservationType; 4] = [
    ObservationType::Decision,
    ObservationType::Security,
    ObservationType::Preference,
    ObservationType::Correction,
];

/// An earlier statement about a file that the batch touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// The subject, possibly inherited from an even earlier statement in a plainer form.
    pub subject: SubjectKey,
    pub title: String,
    pub files: Vec<String>,
}

impl Earlier {
    /// Whether it states a value. Only such statements can be retired.
    pub fn is_a_value(&self) -> bool {
        self.subject.named_value().is_some()
    }

    /// Returns the subject that a new observation inherits from this one, if the new title contains every word that
    /// names the value.
    pub fn inherited_by(&self, draft: &ObservationDraft) -> Option<SubjectKey> {
        let title = subject::words(&draft.title);
        let names_it =
            self.subject.named_value()?.all(|word| title.iter().any(|title_word| title_word == word));
        let mut files = draft.files_read.iter().chain(&draft.files_modified);
        let is_seen = files.any(|file| self.files.contains(file));
        (names_it && is_seen).then(|| self.subject.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Importance;

    fn earlier(kind: ObservationType, title: &str) -> Option<Earlier> {
        let (subject, files) = (subject::of_title(kind, title)?, vec!["src/gateway.rs".to_owned()]);
        Some(Earlier { subject, title: title.to_owned(), files })
    }

    /// Whether a new title about this file inherits the subject.
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
        assert_eq!(old.inherited_by(&draft), expected, "{old:?} {new:?}");
    }

    #[test]
    fn a_new_statement_inherits_a_subject_it_names_in_the_same_file() {
        let new = "Since the gateway is slow, requests are tried up to 5 times (`max_retries`)";
        check("`max_retries` is 3", new, "src/gateway.rs", true);
        check("`max_retries` is 3", new, "src/cart.rs", false);
        check("`max_retries` is 3", "The gateway gives up later now", "src/gateway.rs", false);
        check("`max_connections` is 3", new, "src/gateway.rs", false);
        // A condition is part of the subject.
        check("`max_retries` is 3 for uploads", new, "src/gateway.rs", false);
        check(
            "`max_retries` is 3 for uploads",
            "Uploads: `max_retries` for them went to 5",
            "src/gateway.rs",
            true,
        );
    }

    #[test]
    fn only_statements_of_a_value_can_be_inherited() {
        let value = |kind, title: &str| earlier(kind, title).is_some_and(|one| one.is_a_value());
        assert!(value(ObservationType::Discovery, "`max_retries` is 3"));
        assert!(value(ObservationType::Change, "Raised `max_retries` from 3 to 5"));
        assert!(!value(ObservationType::Decision, "Never use tabs in the gateway"));
        assert!(!value(ObservationType::Discovery, "Open: Raise `max_retries`"));
        assert!(!value(ObservationType::Gotcha, "The gateway must never be asked twice"));
    }
}
