//! Tests titles of sentences in many styles.

use super::super::Progress;
use super::*;

fn piece<'a>(text: &'a str, heading: Option<&'a str>, salience: f32) -> Piece<'a> {
    Piece { text, heading, lead: None, salience, source: SourceKind::Answer, progress: Progress::Unstated }
}

#[track_caller]
fn check(pieces: &[Piece<'_>], expected: &str) -> Title {
    let found = title(pieces).unwrap();
    assert_eq!(found.text, expected);
    found
}

#[track_caller]
fn check_one(text: &str, heading: Option<&str>, expected: &str) {
    check(&[piece(text, heading, 1.0)], expected);
}

#[test]
fn a_whole_statement_becomes_the_title() {
    check_one("- **The cart rounds its total once.**", None, "The cart rounds its total once");
    check_one(
        "However, `Cart::total` returns cents for refunds.",
        None,
        "Cart::total returns cents for refunds",
    );
}

#[test]
fn a_speaker_label_behind_list_marks_is_removed() {
    for text in [
        ". - - User: Ada is the cashier",
        "- - - - User: Ada is the cashier",
        "- User: - User: - User: Ada is the cashier",
    ] {
        check_one(text, None, "Ada is the cashier");
    }
}

#[test]
fn text_cut_from_a_title_is_kept_in_the_rest() {
    let long = "The cart rounds its total once after all lines are summed — every line had lost up to a cent of its own until now.";
    let title = check(&[piece(long, None, 1.0)], "The cart rounds its total once after all lines are summed");
    assert_eq!(title.rest, "every line had lost up to a cent of its own until now.");
    assert_eq!(title.piece, 0);
    let aside = "`Cart::total` rounds the sum of all lines to cents (half to even, as the tax office wants it since the spring of this year)";
    let title = check(&[piece(aside, None, 1.0)], "Cart::total rounds the sum of all lines to cents");
    assert_eq!(title.rest, "half to even, as the tax office wants it since the spring of this year");
}

#[test]
fn a_missing_subject_comes_from_heading_file_or_previous_sentence() {
    check_one(
        "Returns nothing on errors",
        Some("3. `Cart::total`"),
        "Cart::total: returns nothing on errors",
    );
    check_one("src/shop/cart.rs — rounds the total once", None, "cart.rs: rounds the total once");
    check_one(
        "Never rounded per line",
        Some("Totals of refunds"),
        "Totals of refunds: Never rounded per line",
    );
    let pieces = [
        piece("`Cart::total` adds up all lines of a cart.", None, 0.2),
        piece("It never rounds a single line of them", None, 1.9),
    ];
    check(&pieces, "Cart::total never rounds a single line of them");
}

#[test]
fn a_generic_heading_or_label_is_left_out() {
    check_one(
        "Rounded the total of the cart once",
        Some("Summary of changes"),
        "Rounded the total of the cart once",
    );
    check_one("Impact: carts show a cent too little", None, "Carts show a cent too little");
    check_one("The problem is on checkout — `Cart::total` rounds twice", None, "Cart::total rounds twice");
}

#[test]
fn numbering_and_first_person_openings_are_removed_from_a_title() {
    check_one("Phase 2: The cart rounds its total once", None, "The cart rounds its total once");
    check_one("I've added a cache of rates to the cart", None, "Added a cache of rates to the cart");
    check_one("We now cached every rate of the cart", None, "Cached every rate of the cart");
}

#[test]
fn a_title_prefers_a_finding_to_a_step_or_a_file_pointer() {
    let stands = "Totals of refunds are rounded once after every line was summed";
    for step in [
        "Checked every caller of the cart and its totals",
        "Moved it back to the cart of the shop",
        "The fix is in cart_total.rs",
    ] {
        check(&[piece(step, None, 1.0), piece(stands, None, 1.0)], stands);
    }
}

#[test]
fn a_self_contained_title_is_preferred_to_one_that_needs_context() {
    let stands = "Totals of refunds are rounded once after every line was summed";
    for leaning in [
        "At that point the cart holds a stale total",
        "With the cache gone, it returns a stale total",
        "Option B rounds the total of the cart once",
        "Bug #4 rounds the total of the cart twice",
        "When called: the cart rounds its total twice",
        "The fix changes how totals of the cart are rounded",
    ] {
        let pieces = [piece(leaning, None, 1.0), piece(stands, None, 1.0)];
        assert_eq!(check(&pieces, stands).piece, 1, "{leaning}");
    }
}

#[test]
fn open_work_becomes_the_title_only_without_another_statement() {
    let done = "The invoice rounded each line half up, and the ledger rounds half even";
    let left = Piece {
        progress: Progress::Left,
        ..piece("The nightly export of `money.rs` still rounds half up", None, 2.0)
    };
    check(&[piece(done, None, 1.0), left], done);
    check(&[left, piece(done, None, 1.0)], done);
    check(&[left], "The nightly export of money.rs still rounds half up");
}

#[test]
fn quotation_marks_are_removed_only_around_a_whole_title() {
    for (written, expected) in [
        ("\"Lost and found\" has a shelf of its own", "\"Lost and found\" has a shelf of its own"),
        ("\"The till is counted at noon\"", "The till is counted at noon"),
        ("“The till is counted at noon”", "The till is counted at noon"),
        ("The label says \"Fragile goods\"", "The label says \"Fragile goods\""),
        ("\"Fragile\" and \"Return\"", "\"Fragile\" and \"Return\""),
    ] {
        assert_eq!(clean_title(written).unwrap().text, expected);
    }
}

#[test]
fn a_title_is_not_cut_after_an_abbreviation() {
    let long = "The cart keeps prices, taxes, vouchers, etc. Before every sale its lines are summed, rounded once and then sent on to the gateway of the shop";
    assert!(!title(&[piece(long, None, 1.0)]).unwrap().text.ends_with("etc"));
}

#[test]
fn a_commit_title_drops_its_type_and_any_repeated_scope() {
    let commit = |text| Piece { source: SourceKind::Commit, ..piece(text, None, 1.0) };
    check(&[commit("fix(cart): round totals once")], "Cart: round totals once");
    check(&[commit("fix(cart): round the cart's totals once")], "Round the cart's totals once");
}

#[test]
fn a_statement_is_preferred_to_announcements_and_questions() {
    let pieces = [
        piece("Let me show you what I found.", None, 1.0),
        piece("Two things were wrong:", None, 1.0),
        piece("The gateway drops the sign of a refund", None, 1.0),
        piece("Should I go on?", None, 1.5),
    ];
    assert_eq!(check(&pieces, "The gateway drops the sign of a refund").piece, 2);
}

#[test]
fn questions_commands_paths_and_code_are_not_titles() {
    for text in [
        "Should drafts be public?",
        "What changed:",
        "cargo test --workspace",
        "src/cart.rs",
        "Done!",
        "let total = cart.total();",
        "// BEFORE total",
    ] {
        assert_eq!(title(&[piece(text, None, 1.0)]), None, "{text}");
    }
    assert_eq!(title(&[]), None);
}

#[track_caller]
fn clean(written: &str, expected: Option<&str>) {
    assert_eq!(clean_title(written).map(|title| title.text).as_deref(), expected, "{written}");
}

#[test]
fn a_written_title_is_cleaned_shortened_or_rejected() {
    clean("User: **always** use tabs", Some("Always use tabs"));
    clean("Plan: Open: - round once…", Some("Round once"));
    clean("cart.rs: rounds once", Some("cart.rs: rounds once"));
    clean("Should drafts be public?", None);
    clean("Summary", None);
    clean("", None);
    let long = "The gateway answers every request of the shop twice whenever a customer pays with two vouchers of different kinds at once";
    let title = clean_title(long).unwrap();
    assert!(title.text.chars().count() <= LONGEST_TITLE && !title.text.ends_with("of"), "{title:?}");
    assert!(!title.rest.is_empty());
}

#[test]
fn a_heading_over_a_bracketed_fragment_makes_no_title() {
    let pieces = [piece("— (rounded \")", Some("What the cart does with prices"), 0.5)];
    assert_eq!(title(&pieces).map(|title| title.text), None);
}

proptest::proptest! {
    #[test]
    fn any_text_gives_a_title_within_its_bounds_or_none(
        text in ".{0,200}|[ -~]{0,240}|(the |cart |is |rounded |— |, |\\(|\\)|`|\"|: |x.rs |It ){0,40}",
        heading in ".{0,40}",
    ) {
        let pieces = [piece(&text, Some(&heading), 0.5), piece(&text, None, 0.5)];
        for found in title(&pieces).into_iter().chain(clean_title(&text)) {
            proptest::prop_assert!(found.text.chars().count() <= LONGEST_TITLE);
            proptest::prop_assert!(!found.text.ends_with(['?', ':', '…']));
            proptest::prop_assert!(found.text.chars().any(char::is_alphabetic));
        }
    }
}

#[test]
fn the_line_above_a_list_says_what_an_entry_is_about() {
    let entry = |text, lead| Piece { lead: Some(lead), ..piece(text, None, 1.0) };
    check(&[entry("rounds once", "Carts of the shop")], "Carts of the shop: rounds once");
    // A lead that is a sentence is not put before another sentence.
    check(&[entry("vouchers are lines of the cart", "It has three rules")], "Vouchers are lines of the cart");
}

#[test]
fn a_label_that_ends_with_a_colon_gets_no_second_one() {
    check_one(
        "`Caused by:`: the pool of the till is empty",
        None,
        "Caused by: the pool of the till is empty",
    );
}

#[test]
fn a_sentence_that_points_back_yields_to_a_self_contained_title() {
    for pointing in [
        "Both tills are open at night",
        "Changed the till so that it unwraps those rows",
        "Every row in it has a price of its own",
        "Fixed by closing the drawer of the till first",
    ] {
        check(
            &[
                piece(pointing, None, 1.0),
                piece("`Printer::wait` ends when the drawer of the till is closed", None, 1.0),
            ],
            "Printer::wait ends when the drawer of the till is closed",
        );
    }
}
