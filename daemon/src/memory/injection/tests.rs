use super::*;
use crate::memory::document::{DocumentKey, DocumentKind};
use crate::memory::ids::Timestamp;
use crate::memory::observation::Importance;
use crate::memory::passage::{PassageMatch, PassageTerm};
use crate::memory::ranking::Commonness;

fn term(text: &str, information: f32, passages: u32) -> PassageTerm {
    PassageTerm { text: text.to_owned(), information, passages, commonness: Commonness::Content }
}

fn found(row: i64, conversation: u64, strength: f32, found: u32) -> PassageMatch {
    PassageMatch {
        key: PassageKey { document: DocumentKey { kind: DocumentKind::Response, row }, part: 0 },
        at: Timestamp(row),
        conversation,
        importance: Importance::clamped(5),
        observation_type: None,
        length: 80,
        strength,
        found,
    }
}

/// One passage has all the words, and others of its session some; a passage of another session has one.
fn clear() -> PassageMatches {
    PassageMatches {
        terms: vec![term("bcrypt", 1.1, 2), term("login", 0.9, 6), term("slow", 0.8, 8)],
        population: 400,
        matches: vec![found(1, 1, 0.7, 0b111), found(2, 1, 0.5, 0b110), found(3, 2, 0.1, 0b100)],
    }
}

fn first(prompt: &str) -> Situation<'_> {
    Situation { prompt, ..Situation::default() }
}

#[test]
fn a_clear_answer_to_a_first_question_is_told() {
    let decision =
        decide(&first("why did we make the login with bcrypt so slow?"), &clear(), built_in(), FLOOR);
    let told: Vec<i64> = decision.told.iter().map(|one| one.key.document.row).collect();
    assert_eq!(told.first(), Some(&1), "{decision:?}");
    assert!(!told.contains(&3), "{decision:?}");
    assert!(!decision.prompt_parts.is_empty() && decision.best.is_some());
}

#[test]
fn words_that_the_project_hardly_knows_are_no_answer() {
    let mut matches = clear();
    matches.terms[0].passages = 0;
    matches.matches = vec![found(2, 1, 0.12, 0b100), found(3, 2, 0.1, 0b100)];
    let decision =
        decide(&first("why did we make the login with bcrypt so slow?"), &matches, built_in(), FLOOR);
    assert!(decision.told.is_empty(), "{decision:?}");
    let nothing = decide(&first("why is the login slow?"), &PassageMatches::default(), built_in(), FLOOR);
    assert!(nothing.told.is_empty() && nothing.best.is_none());
}

#[test]
fn what_goes_on_with_the_conversation_is_left_alone() {
    for prompt in ["yes", "ok, go ahead", "commit this", "now push", "option 2", "thanks!", "/review"] {
        let situation = Situation {
            prompt,
            prompts_before: 3,
            answer_before: "The login is slow because of bcrypt. Shall I change its cost?",
        };
        assert!(!may_speak(&situation, built_in(), FLOOR), "{prompt}");
    }
    assert!(may_speak(&first("does the login use bcrypt already?"), built_in(), FLOOR));
}

/// Form, place and names decide, so other languages are understood, too.
#[test]
fn a_first_question_in_another_language_may_be_answered() {
    for prompt in ["Warum ist das Anmelden mit `bcrypt` so langsam?", "为什么登录很慢？"] {
        assert!(may_speak(&first(prompt), built_in(), FLOOR), "{prompt}");
    }
}

#[test]
fn without_weights_nothing_is_said() {
    let decision = decide(&first("why is the login slow?"), &clear(), &Weights::none(), 0.0);
    assert!(decision.told.is_empty());
    assert!(!may_speak(&first("why is the login slow?"), &Weights::none(), FLOOR));
}

#[test]
fn the_shipped_weights_name_the_features_of_today() {
    let names =
        |model: &str| built_in().models.get(model).map(|(names, _)| names.clone()).unwrap_or_default();
    assert_eq!(names(PROMPT), prompt::features(&first("x")).names());
    let matches = clear();
    let features = candidate::features(&matches);
    assert_eq!(names(ANSWER), features[0].1.names());
}
