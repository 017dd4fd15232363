use super::prompt::Author;
use super::spoken::Spoken;
use super::*;
use crate::document::{DocumentKey, DocumentKind};
use crate::ids::Timestamp;
use crate::observation::Importance;
use crate::passage::{PassageMatch, PassageTerm};
use crate::ranking::{Background, Commonness};

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
        cosine: None,
    }
}

/// Returns three passages. One has all the words. Another passage of its session has some, and a passage of another
/// session has one.
pub(super) fn clear() -> PassageMatches {
    PassageMatches {
        terms: vec![term("bcrypt", 1.1, 2), term("login", 0.9, 6), term("slow", 0.8, 8)],
        population: 400,
        background: None,
        matches: vec![found(1, 1, 0.7, 0b111), found(2, 1, 0.5, 0b110), found(3, 2, 0.1, 0b100)],
    }
}

/// Returns the same passages, judged by a sentence model too. It finds the answer close and the others not close.
fn with_vectors() -> PassageMatches {
    let mut matches = clear();
    for (one, cosine) in matches.matches.iter_mut().zip([0.7, 0.3, 0.1]) {
        one.cosine = Some(cosine);
    }
    matches.background = Some(Background::of([0.1, 0.0, 0.2].into_iter()));
    matches
}

/// Returns the same passages without a word of the prompt. One passage is close.
pub(super) fn without_words() -> PassageMatches {
    let mut matches = with_vectors();
    for one in &mut matches.matches {
        (one.strength, one.found) = (0.0, 0);
    }
    matches
}

pub(super) fn first(prompt: &str) -> Situation<'_> {
    Situation { prompt, ..Situation::default() }
}

/// With these floors everything that is found is injected.
const EVER: Floors = Floors { question: 0.0, prompt: 0.0, need: 0.0, certain: 0.0 };
const ALMOST_EVER: Floors = Floors { question: 0.01, prompt: 0.01, need: 0.01, certain: 0.01 };

#[test]
fn a_clear_answer_to_a_first_question_is_injected() {
    let decision =
        decide(&first("why did we make the login with bcrypt so slow?"), &clear(), built_in(), FLOORS);
    let rows: Vec<i64> = decision.chosen.iter().map(|one| one.key.document.row).collect();
    assert_eq!(rows.first(), Some(&1), "{decision:?}");
    assert!(!rows.contains(&3), "{decision:?}");
    assert!(!decision.prompt.parts.is_empty() && decision.best.is_some());
}

#[test]
fn words_raise_an_answers_probability_and_suffice_without_a_vector() {
    let situation = first("why did we make the login with bcrypt so slow?");
    let judged = |matches: &PassageMatches| {
        decide(&situation, matches, built_in(), FLOORS).best.map(|(_, answer)| answer.probability).unwrap()
    };
    assert!(judged(&with_vectors()) > judged(&without_words()));
    // If other passages have vectors, a passage without one is judged by its words.
    let mut one_lacks = with_vectors();
    one_lacks.matches[0].cosine = None;
    let decision = decide(&situation, &one_lacks, built_in(), EVER);
    let words = decide(&situation, &clear(), built_in(), EVER);
    assert!(decision.chosen.iter().any(
        |one| (one.key.document.row, one.probability) == (1, words.best.as_ref().unwrap().1.probability)
    ));
}

#[test]
fn weak_matches_are_not_injected() {
    let mut matches = clear();
    matches.terms[0].passages = 0;
    matches.matches = vec![found(2, 1, 0.12, 0b100), found(3, 2, 0.1, 0b100)];
    let decision =
        decide(&first("why did we make the login with bcrypt so slow?"), &matches, built_in(), FLOORS);
    assert!(decision.chosen.is_empty(), "{decision:?}");
    let nothing = decide(&first("why is the login slow?"), &PassageMatches::default(), built_in(), FLOORS);
    assert!(nothing.chosen.is_empty() && nothing.best.is_none());
}

#[test]
fn replies_that_continue_the_conversation_get_no_injection() {
    for prompt in ["yes", "ok, go ahead", "commit this", "now push", "option 2", "thanks!", "/review"] {
        let situation = Situation {
            prompt,
            prompts_before: 3,
            answer_before: "The login is slow because of bcrypt. Shall I change its cost?",
            ..Situation::default()
        };
        assert!(!may_inject(&situation, built_in(), FLOORS), "{prompt}");
    }
    assert!(may_inject(&first("does the login use bcrypt already?"), built_in(), FLOORS));
}

#[test]
fn pasted_text_gets_no_injection_and_a_stack_trace_is_not_pasted_text() {
    let question = "why did we make the login with bcrypt so slow?";
    let step = "- The login hashes with bcrypt, so that it is slow.\n";
    let plan = format!("{question}\n# Plan\n{}", step.repeat(14));
    let frames = "    at login (src/login.js:4:2)\n".repeat(40);
    let error = format!("{question}\nError: bcrypt: the cost is too high\n{frames}");
    let is_pasted = |situation: &Situation<'_>| {
        let decision = decide(situation, &clear(), built_in(), FLOORS);
        decision.prompt.parts.iter().any(|(name, _)| *name == "is pasted")
    };
    let pasted = decide(&first(&plan), &clear(), built_in(), ALMOST_EVER);
    assert!(is_pasted(&first(&plan)) && pasted.chosen.is_empty(), "{pasted:?}");
    assert!(!may_inject(&first(&plan), built_in(), ALMOST_EVER));
    assert!(!is_pasted(&first(question)) && !is_pasted(&first(&error)));
    // The task of a subagent is as long, but nobody pasted it.
    let task = Situation { author: Author::Agent, ..first(&plan) };
    assert!(!is_pasted(&task) && !decide(&task, &clear(), built_in(), ALMOST_EVER).chosen.is_empty());
}

/// Form, place and names decide, so prompts in other languages work too.
#[test]
fn a_first_question_in_another_language_may_be_answered() {
    for prompt in ["Warum ist das Anmelden mit `bcrypt` so langsam?", "为什么登录很慢？"] {
        assert!(may_inject(&first(prompt), built_in(), FLOORS), "{prompt}");
    }
}

#[test]
fn without_weights_nothing_is_injected() {
    let decision = decide(&first("why is the login slow?"), &clear(), &Weights::none(), EVER);
    assert!(decision.chosen.is_empty());
    assert!(!may_inject(&first("why is the login slow?"), &Weights::none(), FLOORS));
}

#[test]
fn the_shipped_weights_match_the_current_features() {
    let matches = with_vectors();
    let judged = judge(&matches, built_in());
    let mut sections = 0;
    for (model, features) in [
        (PROMPT, FeatureSet::of_words(prompt::features(&first("x")))),
        (ANSWER, judged[0].1.features.clone()),
        (KNOWN, known::features(&matches, &[])),
        (NEED, need_of(&first("x"), 0.5, &judged).unwrap()),
    ] {
        let by_meaning = model.meaning.map(|section| (section, features.meaning.unwrap()));
        for (section, features) in by_meaning.into_iter().chain([(model.words, features.words)]) {
            assert_eq!(built_in().models[section].0, features.names(), "{section}");
            sections += 1;
        }
    }
    assert_eq!(sections, built_in().models.len());
}

/// Returns a prompt in the middle of a session. `spoken` is what the session has read.
fn later<'a>(prompt: &'a str, spoken: &'a Spoken) -> Situation<'a> {
    Situation { prompt, prompts_before: 6, spoken: Some(spoken), ..Situation::default() }
}

#[test]
fn need_or_certainty_decides_about_injection_at_a_later_prompt() {
    let question = "don't we have a rule for why the login with bcrypt was so slow?";
    let spoken = Spoken::of(["The cart is rounded."]);
    let of_question = decide(&first(question), &clear(), built_in(), FLOORS);
    assert!(of_question.need.is_none() && !of_question.chosen.is_empty(), "{of_question:?}");
    let decision = decide(&later(question, &spoken), &clear(), built_in(), FLOORS);
    assert!(decision.need.as_ref().is_some_and(|need| need.probability >= FLOORS.need), "{decision:?}");
    assert!(!decision.chosen.is_empty() && decision.need.as_ref().is_some_and(|need| !need.parts.is_empty()));
    let product = decision.prompt.probability * decision.known.probability;
    let is_injected = |need: f64, certain: f64| {
        let floors = Floors { need, certain, ..FLOORS };
        !decide(&later(question, &spoken), &clear(), built_in(), floors).chosen.is_empty()
    };
    let need = decision.need.unwrap().probability;
    assert!(!is_injected(need + 0.01, product + 0.01) && is_injected(need, product + 0.01));
    assert!(is_injected(need + 0.01, product), "or there is little doubt");
    // A first prompt that is not a question is judged by its need too.
    assert!(decide(&first("the login with bcrypt is slow"), &clear(), built_in(), FLOORS).need.is_some());
}

#[test]
fn words_already_read_and_routine_prompts_lower_the_need() {
    let need = |prompt: &str, spoken: &Spoken| {
        decide(&later(prompt, spoken), &clear(), built_in(), FLOORS).need.unwrap().probability
    };
    let other = Spoken::of(["The cart is rounded."]);
    let prompt = "the login with bcrypt was slow already";
    let all = need(prompt, &other);
    assert!(need(prompt, &Spoken::of([prompt])) < all);
    assert!(need("ok, commit, push, then the login with bcrypt pr", &other) < all);
}

#[test]
fn a_prompt_is_never_the_best_answer() {
    let mut matches = clear();
    matches.matches[0].key.document.kind = DocumentKind::Prompt;
    let judged = judge(&matches, built_in());
    assert_eq!(best_injectable(&judged).unwrap().0.key.document.row, 2);
    matches.matches.truncate(1);
    assert!(best_injectable(&judge(&matches, built_in())).is_none());
}
