//! Texts that are never observations, recognised by form where possible.

use super::SourceKind;
use super::clause::{Opening, opening};
use super::plain::plain;
use super::subject::{Label, labelled};
use super::word::{bare, is_english, is_file, is_identifier, phrases, verb_at};

/// The place of a text in its session. Offers and next steps count only at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    Earlier,
    /// In the last answer, or after it.
    End,
}

/// Why a sentence is not an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Never {
    Acknowledgement,
    Offer,
    Status,
    Announcement,
    Options,
    /// A notice of the agent's program, the editor or the system.
    Notice,
    /// A log, a review or a program's output.
    Pasted,
    Boilerplate,
    TemporaryCode,
    TestCounts,
    GitRoutine,
    /// Names without a reason.
    FileList,
    /// Tests, changelogs and the like, which go with every change.
    Chore,
    /// Only a text in brackets.
    Aside,
}

/// Why this sentence or entry cannot be an observation. `None` if it may be one.
pub(crate) fn never(text: &str, source: SourceKind, place: Within) -> Option<Never> {
    let raw = text.trim();
    if let Some(found) = by_marks(raw) {
        return Some(found);
    }
    let text = plain(raw);
    let lower = text.to_lowercase().replace('\u{2019}', "'");
    let words: Vec<String> = text.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect();
    let is_report = matches!(
        source,
        SourceKind::Answer
            | SourceKind::Subagent
            | SourceKind::Commit
            | SourceKind::PullRequest
            | SourceKind::Document
            | SourceKind::Plan
    );
    if is_aside(raw) {
        return Some(Never::Aside);
    }
    if is_acknowledgement(&lower, &words) || is_report && is_short_answer(&lower, &text, &words) {
        return Some(Never::Acknowledgement);
    }
    if is_report && place == Within::Earlier && is_offer(&lower) {
        return Some(Never::Offer);
    }
    if is_test_count(&lower, &words) {
        return Some(Never::TestCounts);
    }
    if is_git_routine(&lower, &words) {
        return Some(Never::GitRoutine);
    }
    if is_report && (is_status(&lower, &words) || is_of_the_moment(&lower, &words)) {
        return Some(Never::Status);
    }
    if is_report && is_announcement(&lower, &text) {
        return Some(Never::Announcement);
    }
    if is_report && is_chore(&lower, &words, &text) {
        return Some(Never::Chore);
    }
    if is_menu(&lower, &words) {
        return Some(Never::Options);
    }
    if is_temporary(&lower) {
        return Some(Never::TemporaryCode);
    }
    let names_only = !words.is_empty()
        && text.split_whitespace().all(|word| {
            is_file(word)
                || matches!(
                    bare(word).as_str(),
                    "" | "and" | "new" | "modified" | "created" | "deleted" | "updated" | "same"
                )
        })
        && text.split_whitespace().any(is_file);
    (names_only || is_report && is_named_file(&text)).then_some(Never::FileList)
}

/// `cart.rs — rounding of totals`: a file without a statement of what it does.
fn is_named_file(text: &str) -> bool {
    let (Label::File(_), statement) = labelled(text) else { return false };
    let words: Vec<&str> = statement.split_whitespace().collect();
    words.len() < 10
        && is_english(text)
        && opening(statement) == Opening::Fragment
        && verb_at(&words, 0).is_none()
        && !words.iter().any(|word| matches!(bare(word).as_str(), "no" | "not" | "only" | "now" | "instead"))
}

/// `(as of today)`.
fn is_aside(raw: &str) -> bool {
    let text = raw.trim_start_matches(['-', '*', ' ']).trim_end_matches('.');
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    inner.is_some_and(|inner| !inner.contains(['(', ')']))
}

/// `Yes, it does.`, `No, carts are empty.`: the question is elsewhere.
fn is_short_answer(lower: &str, text: &str, words: &[String]) -> bool {
    let is_opening_word = starts(lower, "yes, no, ah, oh, hm, hmm, yep, nope, correct, right, exactly");
    let is_set_off = words.first().is_some_and(|first| {
        lower
            .trim_start()
            .get(first.len()..)
            .is_some_and(|rest| rest.starts_with([',', '.', '!']) || rest.starts_with(" —"))
    });
    is_opening_word
        && is_set_off
        && words.len() <= 12
        && !text.split_whitespace().any(is_identifier)
        && !phrases("because, but, only, unless, instead").any(|why| words.iter().any(|word| word == why))
}

/// `Added tests for refunds`, `Updated the changelog`, `Verdict: fine`.
fn is_chore(lower: &str, words: &[String], text: &str) -> bool {
    const DEEDS: &str = "add, added, adds, update, updated, updates, extend, extended, write, wrote, create, created, fix, fixed, new";
    const CHORES: &str = "test, tests, changelog, snapshot, snapshots, fixtures, testdata, unit, integration, e2e, \
    regression, version, lockfile";
    // `TestCart`, `Test_cart`, `test_cart`
    let is_name = |word: &str| {
        let word = word.trim_matches(|edge: char| !edge.is_alphanumeric());
        word.strip_prefix("Test").is_some_and(|rest| rest.starts_with(|c: char| c.is_uppercase() || c == '_'))
            || word.starts_with("test_")
    };
    let names_test = text.split_whitespace().take(3).any(is_name);
    let does = words.first().is_some_and(|first| phrases(DEEDS).any(|deed| deed == first));
    let mut early =
        words.iter().skip(1).take(3).filter(|word| !word.chars().all(|c| c.is_ascii_digit())).take(2);
    let explains =
        phrases("because, instead, only, unless, never, now").any(|why| words.iter().any(|word| word == why));
    (does && (names_test || early.any(|word| phrases(CHORES).any(|chore| chore == word))) && !explains)
        || starts(lower, "verdict, bump version, bumped version, release notes, agent-logs-url")
        || lower.starts_with("fixup!")
        || text.split_whitespace().next().is_some_and(is_name)
}

fn starts(text: &str, openings: &str) -> bool {
    phrases(openings).any(|opening| {
        text.strip_prefix(opening)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '\''))
    })
}

/// Recognizes such texts by marks alone: tags, rules, bars, traces, logs.
fn by_marks(raw: &str) -> Option<Never> {
    let letters = raw.chars().filter(|c| c.is_alphabetic()).count();
    if letters < 2 || letters * 4 < raw.chars().filter(|c| !c.is_whitespace()).count() {
        return Some(Never::Status);
    }
    const NOTICES: &str = "<stdin, [Request interrupted, [Image, Caveat: The messages below";
    const BOILERPLATE: &str = "Base directory for this skill, This session is being continued from, ARGUMENTS:, Co-Authored-By:, \
    Signed-off-by:, If you need specific details from before";
    // Programs mark what they write with tags of two words, `<ide_selection>`; HTML has none.
    let tag = raw.strip_prefix("</").or_else(|| raw.strip_prefix('<')).unwrap_or_default();
    let name =
        tag.split(|c: char| !(c.is_ascii_lowercase() || c == '-' || c == '_')).next().unwrap_or_default();
    if name.contains(['-', '_']) || phrases(NOTICES).any(|notice| raw.starts_with(notice)) {
        return Some(Never::Notice);
    }
    let is_signature = [
        "generated with ",
        "generated by ",
        "this comment was generated",
        "this pr was generated",
        "this pull request was",
    ]
    .iter()
    .any(|signature| raw.trim_start_matches(['*', '_', ' ']).to_lowercase().starts_with(signature));
    if phrases(BOILERPLATE).any(|phrase| raw.starts_with(phrase)) || is_signature || raw.starts_with("🤖") {
        return Some(Never::Boilerplate);
    }
    let first = raw.split_whitespace().next().unwrap_or_default();
    // `2026-01-02T03:04:05Z ERROR ...`, `at f (a.js:1:2)`, `+++ b/a`, `@@ -1 +1 @@`
    let is_stamp = first.len() >= 10
        && first.starts_with(|c: char| c.is_ascii_digit())
        && first.chars().filter(char::is_ascii_digit).count() >= 8
        && first.contains([':', '-'])
        && first
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | 'T' | 'Z' | '+' | '[' | ']'));
    let is_trace = (raw.starts_with("at ") && raw.ends_with(')') && raw.contains(':'))
        || raw.starts_with("Traceback (most recent");
    // `::git-commit{cwd="/home/kim/shop"}`: Codex tells its interface what it did.
    let is_directive = raw.strip_prefix("::").and_then(|rest| rest.split_once('{'));
    if is_directive.is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_lowercase() || c == '-')) {
        return Some(Never::Notice);
    }
    let is_diff = ["+++ ", "@@ ", "diff --git "].iter().any(|mark| raw.starts_with(mark));
    (is_stamp || is_trace || is_diff).then_some(Never::Pasted)
}

fn is_acknowledgement(lower: &str, words: &[String]) -> bool {
    const WORDS: &str = "yes, no, ok, okay, sure, thanks, thank, you, great, perfect, excellent, good, nice, done, right, \
    absolutely, exactly, agreed, understood, got, it, please, do, go, ahead, continue, proceed, lgtm, \
    cool, yep, yeah, fine, sounds, makes, sense, that, that's, correct, all, set, awesome, ja, nein, \
    danke, genau, passt, weiter, gerne, bitte, you're, welcome, sorry, apologies, i, see, a, the, point, \
    catch, question, idea, is, are, so, much, for";
    let openings = "you're right, you are right, you're absolutely right, you raise a good point, good catch, good \
    question, good point, good idea, great question, thanks for, thank you for, i apologize, sorry \
    about, my apologies, sorry for, i think i understand, i understand";
    !words.is_empty()
        && (words.len() <= 7 && words.iter().all(|word| phrases(WORDS).any(|known| known == word))
            || starts(lower, openings) && words.len() < 14 && !lower.contains(['—', ':', ';']))
}

fn is_offer(lower: &str) -> bool {
    let openings = "want me to, would you like, shall i, should i, do you want, let me know, happy to, feel free, ready \
    to proceed, ready when, ready for feedback, ready for review, say the word, just say, just tell, i \
    can also, if you'd like, if you want, if you like, soll ich, möchtest du, what do you prefer, what \
    would you, which do you, which style, what's your preference, which approach, which option, how \
    would you like, does that, please log in, please confirm, please try, please update, please restart, please run, \
    please revoke, now please, could you, can you, if you approve, approve this, want me, which would be, fresh terminal, \
    restart your, restart the, ready to use";
    // How to try it: over when it is read.
    const TRY: &str = "you can test, you can now test, you can try, you can now try, you can verify, you should now see, type /, \
    type `/, run /, run `/";
    starts(lower, openings)
        || phrases(TRY).any(|how| lower.contains(how))
        || lower.ends_with('?')
            && phrases("want me to, would you like me to, do you want me to, should i, shall i, do you prefer, or would you")
            .any(|offer| lower.contains(offer))
}

/// `All 98 tests pass`, `lint: 0 issues`, `Tests: 12 passed, 0 failed`.
fn is_test_count(lower: &str, words: &[String]) -> bool {
    const CHECKS: &str = "test, tests, lint, linting, linter, typecheck, type-check, types, ci, build, builds, fmt, format, \
    formatting, checks, check, suite, unit, integration, vet, clippy, e2e, specs, compiles, compilation, \
    gofmt, eslint, tsc, prettier, test:ci";
    const FINE: &str = "pass, passes, passed, passing, clean, green, ok, succeeds, succeeded, success, successful, \
    successfully, cleanly, 0, zero, fine";
    const EXPLAINS: &str = "because,  but ,  except,  although,  only ,  without,  never,  no-op,  instead,  if ,  until,  even though";
    // `Tests: 12 passed`, not `the clean check of the tests`.
    let check = words.iter().take(7).position(|word| phrases(CHECKS).any(|known| known == word));
    let fine = words.iter().rposition(|word| phrases(FINE).any(|known| known == word));
    // `Validated with cargo test and a smoke check`
    const VALIDATED: &str = "validated with, validated by, validated using, revalidated, re-validated, verified with, verify:, \
    i also ran, i ran";
    starts(lower, VALIDATED) && !phrases(EXPLAINS).any(|why| lower.contains(why))
        || words.len() <= 16
            && check.is_some_and(|check| fine.is_some_and(|fine| check < fine))
            && !phrases(EXPLAINS).any(|why| lower.contains(why))
            && !lower.contains(['—'])
}

/// `Committed as f2c1bde`, `Pushed to main`, `PR created: https://…`.
fn is_git_routine(lower: &str, words: &[String]) -> bool {
    let openings = "committed, pushed, amended, commit created, commit is, created commit, branch pushed, pr created, pr \
    opened, opened pr, created pr, created branch, switched to branch, rebased onto, the branch is \
    ready, branch is ready, force-pushed, force pushed, merged main, working tree clean, tree clean, \
    nothing to commit, staged, pushed and, committed and, commit amended, todo saved, todo added, moved \
    the todo, memory saved, the commit is in, checked out";
    let explains = phrases("because,  not , unpushed, only , left out, instead,  since , without")
        .any(|why| lower.contains(why));
    let is_pure_link = words.len() <= 8 && lower.contains("github.com/") && lower.contains("/pull/");
    let closes = words.len() <= 3
        && ["closes #", "fixes #", "refs #", "resolves #"].iter().any(|opening| lower.starts_with(opening));
    // `Addressed both review threads and pushed 2e20f69`, but `Addressed it by rounding once`, `Addressed both: ...`.
    const REVIEW: &str = "replied to, addressed in, addressed and, addressed the, addressed both, addressed all, rebased the, \
    merged release, merged pr, created ready-for-review";
    let explains_how = lower.contains(" by ") || lower.contains(": ");
    (starts(lower, openings) || starts(lower, REVIEW) && !explains_how) && words.len() <= 16 && !explains
        || is_pure_link
        || closes
}

fn is_status(lower: &str, words: &[String]) -> bool {
    let openings = "done, all done, implemented, complete, completed, fixed, all set, everything is, everything works, \
    no changes needed, the implementation is complete, implementation complete, implementation is \
    complete, the app is running, app is running, all changes are, all tasks, changes are in place, \
    ready, in progress, verified, i found the bug, that was a bug, found it, it works, works now, the \
    fix is in, this is ready, progress";
    // `Fixed the label` is work, `Fixed and ready` is not.
    let is_deed = words.len() > 3
        && words.first().is_some_and(|first| matches!(first.as_str(), "fixed" | "implemented" | "completed"))
        && !lower.starts_with("fixed and");
    words.len() <= 8
        && !is_deed
        && starts(lower, openings)
        && !lower.contains([':', '—', ';'])
        && !words.iter().any(|word| is_identifier(word))
        || lower.starts_with("progress:")
        || lower.contains("integration is complete") && words.len() < 8
}

/// `All code is committed and pushed`, `No threads need a response`: true when it was said, and misleading a day later.
fn is_of_the_moment(lower: &str, words: &[String]) -> bool {
    const STATES: &str = "committed, pushed, committed and pushed, in progress, underway, running, up to date, in sync, green, \
    passing, clean, queued, pending, open, ready, done, complete, in place";
    const NEEDS: &str = "need a response, needs a response, need attention, needs attention, need action, needs action, need a \
    reply, needs a reply, need changes, left to do, to commit, to push";
    let sentence = lower.trim_end_matches(['.', '!']);
    let explains =
        phrases("because, but, only, until, unless, instead, since, when, if, after, before, must, never")
            .any(|why| words.iter().any(|word| word == why));
    let is_state = phrases(STATES).any(|state| {
        let subject = sentence.strip_suffix(state).map(str::trim_end).unwrap_or_default();
        let subject = ["now", "still", "all", "already", "currently", "fully"]
            .iter()
            .find_map(|adverb| subject.strip_suffix(adverb))
            .unwrap_or(subject)
            .trim_end();
        subject.ends_with(" is") || subject.ends_with(" are")
    });
    let is_need =
        starts(lower, "no, nothing, none of the") && phrases(NEEDS).any(|need| sentence.ends_with(need));
    let names = words.iter().any(|word| is_identifier(word));
    // What a look at the checks or at the review found.
    const LOOKED: &str = "no failing, is now ready for review, is ready for review, fully green, currently running, still running, \
    has restarted, have restarted, when i checked, when inspected, remains open for, are still pending, is still pending, \
    no further action, pending — ";
    let is_look = words.len() <= 16 && phrases(LOOKED).any(|looked| lower.contains(looked));
    words.len() <= 10 && !names && !explains && (is_state || is_need) || is_look && !explains
}

fn is_announcement(lower: &str, text: &str) -> bool {
    let openings = "let me, i'll, i will, now i'll, now let, now i have, i now have, i have all, i have enough, let's, \
    here's, here is, here are, below is, below are, based on, the following, i'm going to, looking at, \
    now i, this document, i've reviewed, i've analyzed, ich werde, zuerst, schauen wir, evaluate this, \
    as you requested, as requested";
    starts(lower, openings) && (text.chars().count() < 160 || text.ends_with(':')) && !text.contains('—')
}

/// `/clear to start over`, `q to exit`, `Option A`, `Reply with a number`.
fn is_menu(lower: &str, words: &[String]) -> bool {
    let slash = lower.strip_prefix(['`', '\'']).unwrap_or(lower);
    let is_command = slash.starts_with('/')
        && slash.split_whitespace().next().is_some_and(|first| {
            first.len() > 1 && !first.get(1..).unwrap_or_default().trim_end_matches('`').contains(['/', '.'])
        });
    let is_key = words.len() >= 3
        && words.first().is_some_and(|first| first.len() == 1)
        && words.get(1).is_some_and(|to| to == "to");
    let is_option = words.len() <= 3
        && words
            .first()
            .is_some_and(|first| matches!(first.as_str(), "option" | "variant" | "alternative" | "approach"));
    is_command
        || is_key
        || is_option
        || starts(lower, "reply with, also available, type a number, pick one, choose one, select one")
}

fn is_temporary(lower: &str) -> bool {
    phrases(
        "temporary debug, debug logging added, added debug, add debug log, remove debug, removed the debug, \
    temporarily added, temporary logging, console.log statements, debug print, debug output added, for \
    debugging purposes",
    )
    .any(|phrase| lower.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Never>) {
        assert_eq!(never(text, SourceKind::Answer, Within::Earlier), expected, "{text}");
    }

    #[test]
    fn small_talk_and_offers_are_not_observations() {
        for text in
            ["Yes, sounds good!", "You're right about the cart.", "Good catch!", "ok", "Thanks, go ahead"]
        {
            check(text, Some(Never::Acknowledgement));
        }
        for text in [
            "Want me to round the total too?",
            "Let me know if it should be rounded.",
            "The cart is slow, should I cache it?",
            "Type `/reload` to see the new till in action",
            "Once it is deployed, you can test with a voucher of your own",
        ] {
            check(text, Some(Never::Offer));
        }
        for text in ["Let me look at the cart first.", "Here are the changes:", "I'll round it now."] {
            check(text, Some(Never::Announcement));
        }
        for text in ["Implemented.", "The implementation is complete.", "Everything works"] {
            check(text, Some(Never::Status));
        }
    }

    #[test]
    fn a_passing_state_is_not_an_observation() {
        for text in [
            "All code is committed and pushed.",
            "The working copy is clean",
            "No threads need a response.",
            "The rollout of the shop is still in progress.",
            "Nothing is left to do.",
            "The copy of the shop is up to date!",
        ] {
            check(text, Some(Never::Status));
        }
        for text in [
            "The cart is open until the order is paid.",
            "`main` is always green because merges wait for the suite.",
            "Drafts are committed and pushed only after a review.",
            "No refund needs a reply from the bank within a day of the order that it belongs to.",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn an_offer_may_be_an_observation_at_the_end_or_in_a_prompt() {
        let offer = "Want me to round the total too?";
        assert_eq!(never(offer, SourceKind::Answer, Within::End), None);
        assert_eq!(
            never(offer, SourceKind::Prompt, Within::Earlier),
            None,
            "the user asks, and offers nothing"
        );
    }

    #[test]
    fn test_counts_git_routine_and_file_lists_are_not_observations() {
        for text in ["All 98 tests pass, lint is clean.", "lint: 0 issues", "Tests: 1274 pass, 0 fail."] {
            check(text, Some(Never::TestCounts));
        }
        for text in [
            "Committed as f2c1bde.",
            "Pushed to main.",
            "PR created: https://github.com/a/b/pull/12",
            "Closes #12",
        ] {
            check(text, Some(Never::GitRoutine));
        }
        check("- `src/cart.rs` and `src/line.rs`", Some(Never::FileList));
        check("/clear to start over", Some(Never::Options));
        check("q to exit", Some(Never::Options));
        check("Added debug logging to the cart", Some(Never::TemporaryCode));
    }

    #[test]
    fn chores_asides_and_short_answers_are_not_observations() {
        for text in [
            "Added tests for refunds",
            "Added `TestCartRefund` to the suite",
            "- Updated the changelog",
            "Verdict: the cart is fine",
            "TestCartRefund - a refund of an empty cart",
        ] {
            check(text, Some(Never::Chore));
        }
        check("(as of the last release)", Some(Never::Aside));
        check("`src/cart.rs` — rounding of totals", Some(Never::FileList));
        for text in ["Yes, that is how the cart does it.", "Ah, the cart was empty.", "No, it does not."] {
            check(text, Some(Never::Acknowledgement));
        }
        for text in [
            "No migration is needed: nobody has old carts",
            "Yes — `Cart::total` rounds twice",
            "(a) The cart rounds (b) twice",
            "Added a cache of rates",
            "Added tests only for refunds because carts cannot be built",
            "`src/cart.rs` — keeps integer cents",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn notices_and_pasted_output_are_not_observations() {
        check("<system-reminder>The cart was opened</system-reminder>", Some(Never::Notice));
        check("<ide_opened_file>src/cart.rs</ide_opened_file>", Some(Never::Notice));
        check("::git-stage{cwd=\"/home/kim/shop\"} ::git-push{cwd=\"/home/kim/shop\"}", Some(Never::Notice));
        check("Base directory for this skill: /home/x", Some(Never::Boilerplate));
        check("2026-01-02T03:04:05Z ERROR cart is gone", Some(Never::Pasted));
        check("at total (cart.js:3:14)", Some(Never::Pasted));
        check("@@ -1,2 +1,3 @@", Some(Never::Status));
        check("────────────", Some(Never::Status));
    }

    #[test]
    fn statements_that_resemble_routine_may_be_observations() {
        for text in [
            "Tests pass only when the cart is empty, because the total is cached.",
            "The commit is not pushed, because the branch is protected.",
            "Committed without the lock file because it is generated",
            "The cart reports 0 items in tests although three were put in",
            "`src/cart.rs` — rounds once after summing",
            "Fixed the rounding of `Cart::total` for refunds",
            "Fixed the label of empty carts",
            "The clean check of a cart needs no lint",
            "No changes needed in `cart.rs`: the total is computed elsewhere",
        ] {
            check(text, None);
        }
    }
}
