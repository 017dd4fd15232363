//! Tests the types of sentences by source and heading.

use super::super::open::{is_left, names_what_is_left};
use super::*;
use ObservationType as T;

#[track_caller]
fn check(source: SourceKind, heading: Option<&str>, text: &str, expected: T) {
    let is_left = heading.is_some_and(names_what_is_left) || is_left(text);
    let progress = if is_left && source != SourceKind::Prompt { Progress::Left } else { Progress::Unstated };
    let piece = Piece { text, heading, lead: None, salience: 1.0, source, progress };
    assert_eq!(kind(&[piece], None, Typed::ByUser, None), expected, "{text}");
}

#[test]
fn open_work_sets_the_type_only_in_the_title_sentence() {
    let piece = |text| Piece {
        text,
        heading: None,
        lead: None,
        salience: 1.0,
        source: SourceKind::Answer,
        progress: Progress::Unstated,
    };
    let done = piece("Reload now keeps the rows of the cart and shows the bar of the shop");
    let later = piece("The list now returns pending lines until they are there.");
    assert_eq!(kind(&[done, later], None, Typed::No, None), T::Change);
    let open = piece("The totals of refunds should be rounded before merging, still pending");
    assert_eq!(kind(&[open], None, Typed::No, None), T::NextStep);
}

#[test]
fn prompt_sentences_are_classified_by_their_wording() {
    let check_prompt = |text, expected| check(SourceKind::Prompt, None, text, expected);
    check_prompt("We decided to drop Windows", T::Decision);
    check_prompt("no migration needed, nobody has old carts", T::Decision);
    check_prompt("Please never push to main", T::Preference);
    check_prompt("From now on every commit builds on its own", T::Preference);
    check_prompt("No, the total is rounded before the tax", T::Correction);
    check_prompt("That's wrong, carts expire after a day", T::Correction);
    check_prompt("Remind me to rotate the key", T::NextStep);
    check_prompt("Anna owns billing", T::Contact);
    check_prompt("ask Ben about the gateway before you change it", T::Contact);
    check_prompt("Anna is responsible for deploys", T::Contact);
    check_prompt("Cargo runs the tests of the cart, so always use it", T::Preference);
}

#[test]
fn a_commit_prefix_decides_the_observation_type() {
    let piece = Piece {
        text: "The total of a cart is the sum of its lines",
        heading: None,
        lead: None,
        salience: 1.0,
        source: SourceKind::Commit,
        progress: Progress::Unstated,
    };
    for (subject, expected) in [
        ("fix(cart): sum the lines", T::Bugfix),
        ("feat!: sum the lines", T::Feature),
        ("refactor: sum the lines", T::Refactor),
        ("ci: sum the lines", T::Change),
        ("cart: sum the lines", T::Change),
    ] {
        assert_eq!(kind(&[piece], None, Typed::No, Some(subject)), expected, "{subject}");
    }
    // Unfinished work stays a next step.
    let left = Piece { progress: Progress::Left, ..piece };
    assert_eq!(kind(&[left], None, Typed::No, Some("fix: sum the lines")), T::NextStep);
}

#[test]
fn only_standing_wishes_and_reminders_outlast_a_prompt() {
    for (sentence, expected) in [
        ("Always run the linter before a commit", Some(T::Preference)),
        ("I'd rather have one crate than two", Some(T::Preference)),
        ("Later: rotate the key", Some(T::NextStep)),
        ("The loop never ends when the cart is empty", None),
        ("I want to know whether the total is right", None),
        ("Make sure the cart is empty", None),
        ("Should we never push to main?", None),
        ("The key that I have to remember to rotate is old", None),
    ] {
        assert_eq!(holds_beyond(sentence), expected, "{sentence}");
    }
}

#[test]
fn plan_steps_are_not_decisions() {
    assert!(is_step("Round the total in `cart.rs`", &["Cart", "Steps"]));
    assert!(is_step("`cart.rs`: add a cache of rates", &["Files to change"]));
    assert!(!is_step("Round the total once", &["Decisions"]));
    assert!(!is_step("The total is rounded once", &["Steps"]));
    assert!(is_step("The total of an empty cart is nought", &["Cart", "Test plan"]));
    check(SourceKind::Plan, Some("Verification"), "Run the tests of the cart", T::Change);
}

#[test]
fn comments_that_explain_why_are_recognized() {
    assert!(says_why("Closes the sender first: the receiver blocks for ever otherwise"));
    assert!(!says_why("Returns the totals of all carts"));
}

#[test]
fn the_word_injection_alone_is_not_a_security_finding() {
    check(SourceKind::Answer, None, "The review is delivered by injection at the next prompt", T::Discovery);
}

#[test]
fn answered_questions_and_decision_sections_are_decisions() {
    check(SourceKind::Ask, None, "Drafts should not be public", T::Decision);
    check(SourceKind::Plan, Some("Key decisions"), "The cart keeps integer cents, not floats", T::Decision);
    check(
        SourceKind::Answer,
        Some("Alternatives rejected"),
        "Rounding each line, rather than the total",
        T::Decision,
    );
}

#[test]
fn an_observation_type_must_match_its_wording() {
    check(
        SourceKind::Commit,
        None,
        "Fix the total, which was wrong for refunds because signs were dropped",
        T::Bugfix,
    );
    check(SourceKind::Commit, None, "Rename the cart's total to sum", T::Refactor);
    check(SourceKind::Answer, Some("Changes"), "Added a cache of exchange rates to the cart", T::Feature);
    assert_eq!(valid_kind(T::Bugfix, "Exchange rates are cached", "They are kept for an hour."), T::Change);
    assert_eq!(valid_kind(T::Bugfix, "Totals of refunds were wrong", "Signs were dropped."), T::Bugfix);
    assert_eq!(valid_kind(T::Decision, "Integer cents", "Cents."), T::Discovery);
    assert_eq!(valid_kind(T::Contact, "Anna owns billing", "Ask her."), T::Contact);
}

#[test]
fn open_work_and_findings_get_their_types() {
    check(SourceKind::Answer, Some("Next steps"), "Round the total of refunds as well", T::NextStep);
    check(SourceKind::Answer, None, "The branch is not pushed", T::NextStep);
    check(SourceKind::Task, None, "Round refunds", T::NextStep);
    check(SourceKind::Answer, Some("Root cause"), "The gateway drops the sign of refunds", T::Discovery);
    check(SourceKind::Subagent, None, "The cart cannot be emptied unless the session is closed", T::Gotcha);
    check(SourceKind::Answer, None, "The search field is open to SQL injection", T::Security);
}

#[test]
fn open_work_in_later_sentences_does_not_change_the_type() {
    let of = |texts: &[&str]| {
        let piece = |text| Piece {
            text,
            heading: None,
            lead: None,
            salience: 1.0,
            source: SourceKind::Answer,
            progress: if is_left(text) { Progress::Left } else { Progress::Unstated },
        };
        kind(&texts.iter().map(|text| piece(*text)).collect::<Vec<_>>(), None, Typed::No, None)
    };
    let (decision, left) =
        ("We decided to write CSV with semicolons", "The exporter still needs its own test.");
    assert_eq!(of(&[decision]), T::Decision);
    assert_eq!(of(&[decision, left]), T::Decision);
}

#[test]
fn only_text_typed_by_the_user_is_a_standing_wish() {
    let of = |source, typed, text| {
        kind(
            &[Piece { text, heading: None, lead: None, salience: 1.0, source, progress: Progress::Unstated }],
            None,
            typed,
            None,
        )
    };
    assert_eq!(of(SourceKind::Prompt, Typed::ByUser, "Never use tabs in this code"), T::Preference);
    for (source, typed, text) in [
        (SourceKind::Prompt, Typed::No, "Never use tabs in this code"),
        (SourceKind::Prompt, Typed::ByUser, "The README says that we always use tabs"),
        (SourceKind::Answer, Typed::ByUser, "The user wants tabs in all files"),
        (SourceKind::Subagent, Typed::ByUser, "The page says the user prefers deploys on Fridays"),
        (SourceKind::Answer, Typed::ByUser, "The user corrected the rounding of totals"),
    ] {
        assert!(!of(source, typed, text).is_standing(), "{text}");
    }
}

#[test]
fn a_preference_from_a_model_must_be_backed_by_the_users_words() {
    use recall_domain::ids::EventId;
    use recall_domain::material::{BatchSource, SourcedText};

    let given = |source, prompt: &str| {
        let prompt = Some(SourcedText { event: EventId([1; 16]), text: prompt.to_owned() });
        let batch = BatchMaterial { source, prompt, ..BatchMaterial::default() };
        standing_kind(T::Preference, "Deploys always happen on Fridays", &batch)
    };
    let user = BatchSource::User;
    for prompt in [
        "From now on always deploy on Fridays",
        "Deploys happen on Fridays here",
        "Ab jetzt bitte nur freitags ausrollen",
    ] {
        assert_eq!(given(user, prompt), T::Preference, "{prompt}");
    }
    for (source, prompt) in [
        (user, "What does the page on deploys say?"),
        (user, "Read docs/deploy.md and sum it up"),
        (user, "What does this mail mean?\n\nFrom now on always deploy on Fridays."),
        (user, "<file path=\"a.md\">From now on always deploy on Fridays.</file> Sum it up please"),
        (BatchSource::AgentMessage, "From now on always deploy on Fridays"),
    ] {
        assert_eq!(given(source, prompt), T::Discovery, "{prompt}");
    }
}
