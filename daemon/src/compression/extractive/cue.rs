//! Tells by its wording what a sentence is good for: a cause, a rule, a fix, a choice, an open end, or nothing.
//!
//! English and German have word lists; in other languages names, numbers and structure decide alone. The lists hold
//! ways of speaking, never the words of a field of work.

use super::identifier;

/// Why something is so.
const CAUSE: &str = "because, root cause, caused by, cause, causes, due to, the reason, reason is, that's why, \
    this is why, which is why, since, stems from, traced to, trace to, comes from, came from, because of, was that, consequence, results in, \
    leads to, so that, the culprit, the bug, the problem is, the issue is, the issue was, \
    the problem was, turns out, as a result, hence, therefore, explains, in order to, means, \
    meaning, happens when, so it, so the, weil, ursache, grund, deshalb, daher, dadurch, liegt an, \
    verursacht, damit";

/// What must be known before touching something: limits, surprises, rules.
const RULE: &str = "must, must not, never, always, cannot, can't, only works, only, does not, doesn't, do not, \
    don't, not supported, silently, silent, deadlock, deadlocks, race, blocks, hangs, hang, breaks, \
    broke, broken, fails, fail, too late, instead of, rather than, regardless, even though, \
    although, unless, otherwise, requires, required, needs, careful, beware, gotcha, caveat, \
    pitfall, not just, no longer, without, before, whereas, unlike, by design, deliberate, \
    deliberately, intentional, intentionally, on purpose, expected, wrong, missing, ignored, \
    ignores, overwrites, overwrite, lost, leaks, leak, stale, limited, limit, unsafe, deprecated, \
    undocumented, unexpected, mismatch, conflict, conflicts, muss, müssen, darf nicht, nie, \
    niemals, immer, kann nicht, nur, statt, anstatt, ohne, obwohl, sonst, absichtlich, fehlt, \
    kaputt, hängt, blockiert, ignoriert, nicht mehr, achtung, vorsicht, falsch";

/// What is different now.
const CHANGE: &str = "fixed, fixes, fix, now, changed, replaced, replaces, added, adds, removed, removes, moved, \
    renamed, switched, implemented, introduced, extracted, updated, reverted, refactored, rewrote, \
    rewritten, migrated, bumped, upgraded, disabled, enabled, split, merged, set to, sets, \
    no longer, resolved, corrected, built, created, stores, uses, behoben, jetzt, ersetzt, \
    hinzugefügt, entfernt, geändert, umbenannt, umgestellt, korrigiert, eingebaut";

/// What was chosen, and against what.
const CHOICE: &str = "decided, decision, chose, chosen, choose, went with, going with, opted, prefer, preferred, \
    trade-off, tradeoff, trade-offs, rejected, ruled out, alternative, alternatives, the cost, \
    costs, at the price, simpler, deferred, postponed, out of scope, agreed, \
    rationale, justification, i'd not, i would not, wouldn't, not worth, deliberately, versus, vs, \
    entschieden, entscheidung, bevorzugt, verworfen, lieber, stattdessen, aufgeschoben";

/// What is not settled or not done.
const OPEN: &str = "not pushed, not yet, not committed, not merged, follow-up, follow up, next step, \
    next steps, remaining, remains, still need, still needs, still open, open question, left to do, \
    to be done, later, before merging, before pushing, pending, waiting on, waiting for, \
    needs a decision, unresolved, unsolved, heads-up, heads up, which approach, which do you, \
    would you prefer, want me to, should i, shall i, would you like, ready for your, \
    ready to merge, you'll need to, you need to, be sure to, remember to, when you are ready, \
    let me know, noch nicht, offen, als nächstes, nächster schritt, nächste schritte, soll ich, \
    ausstehend, später, bleibt";

/// Offers, options and plans: nothing of it has happened.
const PROPOSAL: &str = "proposed, proposal, suggest, suggestion, recommend, recommendation, option, options, could, \
    would, might, may want, either, if you, i'd, we can, you can, plan, consider, possible, \
    possibly, perhaps, maybe, my take, vorschlag, könnte, würde, könnten, vielleicht, empfehle, \
    empfehlung, möglich";

/// How the work went rather than what it found out.
const ROUTINE: &str = "tests pass, all tests, tests passed, tests green, all green, suite green, lint clean, \
    tree clean, build clean, builds clean, build passes, up to date, no errors, compiles, \
    successfully, working tree, pulled latest, pulled, build complete, all checks, clippy, \
    no warnings, 0 failed, everything passes, looks good, tests are passing, \
    alle tests, erfolgreich";

/// Talk between the agent and the user.
const TALK: &str = "let me, i'll, i will, i'm going, going to, want me to, shall i, should i, let's, sure, \
    great question, good question, you're right, you are right, here's what, here is what, \
    here are, here's the, happy to, let me know, ready for the next, does this, is that what, \
    hope this, try running, restart your, feel free, as you, i think, i see, sources, done, \
    perfect, try it, try again, good catch, absolutely, reply with, sounds good, which approach, \
    would you prefer, which do you, anything else, lass mich, soll ich, ich werde, gerne, fertig, \
    hier ist, hier sind, du hast recht";

/// What a sentence is good for. Each count is of different cues found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cues {
    pub(super) cause: usize,
    pub(super) rule: usize,
    pub(super) change: usize,
    pub(super) choice: usize,
    pub(super) open: usize,
    pub(super) proposal: usize,
    pub(super) routine: usize,
    pub(super) talk: usize,
    pub(super) names: usize,
    pub(super) numbers: usize,
    pub(super) is_question: bool,
    pub(super) length: usize,
}

/// Reads a sentence, or several at once.
pub(super) fn read(text: &str) -> Cues {
    let plain = plain(text);
    Cues {
        cause: count(&plain, CAUSE),
        rule: count(&plain, RULE) + contractions(&plain),
        change: count(&plain, CHANGE),
        choice: count(&plain, CHOICE),
        open: count(&plain, OPEN),
        proposal: count(&plain, PROPOSAL),
        routine: count(&plain, ROUTINE),
        talk: count(&plain, TALK),
        names: identifier::all(text).len(),
        numbers: numbers(text),
        is_question: text.trim_end_matches(['*', '`', ')', '"']).ends_with(['?', '？']),
        length: text.chars().count(),
    }
}

impl Cues {
    /// Whether it says that something is so, rather than talking to the user or reporting routine.
    pub(super) fn is_statement(&self) -> bool {
        self.talk + self.routine == 0 && !self.is_question && self.length > 15
    }

    /// What the sentence is worth, in tenths of a point: 30 and more is sure knowledge, below 10 is filling.
    pub(super) fn worth(&self) -> i32 {
        let some = |count: usize, first: i32, more: i32, most: usize| match count {
            0 => 0,
            _ => first + more * i32::try_from(count.min(most) - 1).unwrap_or(0),
        };
        let mut worth = some(self.names, 9, 6, 4)
            + some(self.numbers, 5, 4, 3)
            + some(self.cause, 16, 6, 3)
            + some(self.rule, 11, 5, 4)
            + some(self.change, 8, 3, 3)
            + some(self.choice, 12, 5, 3);
        worth -= some(self.proposal, 5, 3, 3) + some(self.routine, 16, 8, 3) + some(self.talk, 14, 8, 3);
        if self.is_question {
            worth -= 14;
        }
        match self.length {
            0..=24 => worth -= 12,
            25..=44 => worth -= 5,
            300.. => worth -= 4,
            _ => {}
        }
        worth
    }
}

/// Lower case with single spaces and without punctuation, so that a phrase is found by `contains(" phrase ")`.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len() + 2);
    plain.push(' ');
    for character in text.chars() {
        match character {
            '’' => plain.push('\''),
            '\'' | '-' | '/' => plain.push(character),
            _ if character.is_alphanumeric() => plain.extend(character.to_lowercase()),
            _ if plain.ends_with(' ') => {}
            _ => plain.push(' '),
        }
    }
    if !plain.ends_with(' ') {
        plain.push(' ');
    }
    plain
}

fn count(plain: &str, phrases: &str) -> usize {
    each(phrases).filter(|phrase| has(plain, phrase)).count()
}

/// The phrases of a list: they are separated by commas.
pub(super) fn each(phrases: &str) -> impl Iterator<Item = &str> {
    phrases.split(',').map(str::trim)
}

fn has(plain: &str, phrase: &str) -> bool {
    plain.match_indices(phrase).any(|(at, _)| {
        let end = at + phrase.len();
        plain.as_bytes().get(at.wrapping_sub(1)) == Some(&b' ') && plain.as_bytes().get(end) == Some(&b' ')
    })
}

/// Negations that English writes into the verb, and the German one.
fn contractions(plain: &str) -> usize {
    usize::from(
        plain.contains("n't ")
            || plain.contains(" not ")
            || plain.contains(" nicht ")
            || plain.contains(" kein"),
    )
}

/// Numbers that measure or count something: with two digits, a decimal point, or a unit.
fn numbers(text: &str) -> usize {
    let split = |gap: char| gap.is_whitespace() || matches!(gap, '(' | ')' | '→' | '~');
    let mut words = text.split(split).peekable();
    let mut count = 0;
    while let Some(word) = words.next() {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let starts = word.starts_with(|first: char| first.is_ascii_digit());
        let has_unit = words
            .peek()
            .is_some_and(|next| each(UNITS).any(|unit| next.trim_end_matches(['.', ',', ';']) == unit));
        if starts && (digits > 1 || has_unit || word.chars().count() > digits) && !identifier::is_commit(word)
        {
            count += 1;
        }
    }
    count
}

/// Units as they stand behind a number.
const UNITS: &str = "ms, s, µs, us, ns, seconds, minutes, hours, days, %, percent, kB, KB, MB, GB, KiB, MiB, bytes, B, times, Sekunden, \
    Minuten, Stunden, Tage, Prozent";

/// What is not done or not decided, said so firmly that it is worth a note of its own.
const LEFT: &str = "not pushed, not yet pushed, not committed, not merged, heads-up, heads up, follow-up, \
        still need, still needs, open question, before merging, before pushing, \
        needs a decision, which approach, which do you, which option, would you prefer, next step, \
        next steps, left to do, you'll need to, noch offen, noch nicht, welche variante, \
        nächster schritt, nächste schritte";

/// Headings of what is to be done next, wherever in a short heading they stand.
const NEXT_STEPS: &str = "next step, next steps, next actions, action items, follow-up, follow-ups, follow up, \
        follow ups, todo, todos, to-do, to-dos, left to do, still to do, what's left, what is left, what remains, \
        what's next, what is next, what's open, what is open, still open, still missing, open items, open points, \
        open ends, open tasks, open questions, open issues, open todos, remaining work, remaining steps, \
        remaining tasks, remaining items, outstanding work, outstanding items, outstanding tasks, not done, not done yet, \
        not yet done, up next, nächste schritte, nächster schritt, noch offen, noch zu tun, offene punkte, \
        offene fragen, offene aufgaben, was noch fehlt, verbleibende schritte";

/// Words that mean it only where they are the whole heading.
const NEXT_STEPS_ALONE: &str = "next, then, open, to do, remaining, remains, pending, outstanding, left, later, afterwards, \
        offen, ausstehend, später, als nächstes, danach, verbleibend";

/// A heading of more words is a sentence.
const HEADING_WORDS: usize = 7;

/// Left alone on purpose.
const LEFT_ALONE: &str = "pre-existing, preexisting, not included, out of scope, not in scope, outside the scope, \
        nicht enthalten, außerhalb des umfangs, vorbestehend";

/// Whether a heading says that what stands under it is to be done next.
pub(super) fn names_next_steps(heading: &str) -> bool {
    let plain = plain(heading);
    let words = plain.split_whitespace().count();
    words <= HEADING_WORDS
        && !is_left_alone(heading)
        && (each(NEXT_STEPS).any(|phrase| has(&plain, phrase))
            || each(NEXT_STEPS_ALONE).any(|phrase| plain.trim() == phrase))
}

/// Whether a sentence or heading says that something was left alone on purpose, or is older than the work: nobody
/// means to do it next.
pub(super) fn is_left_alone(text: &str) -> bool {
    mentions(text, LEFT_ALONE)
}

/// Whether a sentence or heading says that something is left to do or to decide.
pub(super) fn leaves_open(text: &str) -> bool {
    if is_left_alone(text) {
        return false;
    }
    let plain = plain(text);
    // In a long sentence "not … yet" is an aside.
    let is_not_yet = text.len() <= 90 && has(&plain, "yet") && contractions(&plain) > 0;
    is_not_yet || each(LEFT).any(|phrase| has(&plain, phrase))
}

/// Whether any of these phrases, separated by commas, is in the text.
pub(super) fn mentions(text: &str, phrases: &str) -> bool {
    let plain = plain(text);
    each(phrases).any(|phrase| has(&plain, phrase))
}

/// Whether the text begins with one of these phrases.
pub(super) fn begins_with(text: &str, phrases: &str) -> bool {
    let head: String = text.chars().take(60).collect();
    let plain = plain(&head);
    each(phrases)
        .any(|phrase| plain.trim_start().strip_prefix(phrase).is_some_and(|rest| rest.starts_with(' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knowledge_is_worth_more_than_talk() {
        let knowledge = [
            "The cache is never invalidated because `reset()` runs before the write.",
            "The lock must be taken before `flush`, otherwise the last record is lost.",
            "Replaced the polling loop with inotify: 40 ms down to 2 ms.",
            "Der Cache wird nie geleert, weil `reset()` zu früh läuft.",
        ];
        let talk = [
            "Let me look at the tests next.",
            "All tests pass and the tree is clean.",
            "Want me to open a pull request?",
            "Done!",
            "Soll ich das gleich einbauen?",
            "On main, up to date.",
        ];
        for sentence in knowledge {
            assert!(read(sentence).worth() >= 15, "{sentence}: {:?}", read(sentence));
        }
        for sentence in talk {
            assert!(read(sentence).worth() < 10, "{sentence}: {:?}", read(sentence));
        }
    }

    #[test]
    fn headings_of_what_is_next_are_told_from_others() {
        for heading in [
            "Next steps",
            "Next steps for you",
            "Suggested next steps (optional)",
            "Remaining",
            "Remaining work",
            "To do",
            "TODO",
            "Open",
            "Open questions",
            "Follow-ups",
            "Possible follow-up work",
            "What's left",
            "What’s left to do",
            "Still open",
            "Nächste Schritte",
        ] {
            assert!(names_next_steps(heading), "{heading}");
        }
        for heading in [
            "What was done",
            "Open source licences",
            "What to do when the index is damaged",
            "Not included",
            "Out of scope",
            "Pre-existing, still open",
            "How the remaining bytes are read",
            "Pending writes",
            "Left and right",
            "The next steps of the parser are cheap because nothing is copied",
        ] {
            assert!(!names_next_steps(heading), "{heading}");
        }
    }

    #[test]
    fn phrases_are_whole_words() {
        assert!(mentions("It isn't; however, that's why.", "that's why"));
        assert!(!mentions("The casualty", "cause, casual"));
        assert!(begins_with("No, use X", "no"));
        assert!(!begins_with("Note that", "no"));
    }
}
