//! Chooses types: a few clear rules first, then the signs of a text together with a learned score.

use super::check::is_of_testing;
use super::clause::{Opening, opening};
use super::commit::Conventional;
use super::plain::plain;
use super::typed::{is_report, typed_words};
use super::word::{bare, content, has, is_base_verb, is_english, is_identifier, lowered, phrases};
use super::{Piece, Progress, SourceKind};
use recall_domain::material::{BatchMaterial, CallOutcome, Step};
use recall_domain::observation::ObservationType;

/// The type of an observation made of these pieces. `learned` has a score for each type, in the order of
/// [`ObservationType::ALL`]; a type that it does not know has 0.
///
/// A standing rule counts only if the user typed it, because a page that was read contains wishes, too. `subject` is
/// that of the commit that contains the text.
pub(crate) fn kind(
    pieces: &[Piece<'_>],
    learned: Option<&[f32]>,
    typed: Typed,
    subject: Option<&str>,
) -> ObservationType {
    let Some(first) = pieces.first() else { return ObservationType::Change };
    // What is left to do beneath another title makes no next step of it.
    let is_left = |piece: &&Piece<'_>| piece.progress == Progress::Left;
    let relevant = pieces.iter().filter(|piece| is_left(&first) || !is_left(piece));
    let text = relevant.map(|piece| plain(piece.text)).collect::<Vec<_>>().join(" ");
    let heading = first.heading.map(|heading| lowered(&plain(heading))).unwrap_or_default();
    let titled = super::title(pieces).and_then(|title| pieces.get(title.piece));
    let titled = titled.map_or_else(|| text.clone(), |piece| plain(piece.text));
    let signs = Signs {
        titled: lowered(&titled),
        text: lowered(&text),
        heading,
        opening: opening(&titled),
        source: first.source,
        progress: first.progress,
    };
    let believed = |kind: &ObservationType| {
        !kind.is_standing()
            || typed == Typed::ByUser && first.source == SourceKind::Prompt && !is_report(&text)
    };
    if let Some(certain) = signs.certain(&text).filter(believed) {
        return certain;
    }
    let likely = signs.likely(learned);
    // A commit's text also has reasons and traps; of its work its author knows best.
    let named = subject.and_then(Conventional::of).and_then(|subject| subject.kind());
    named.filter(|_| sort(likely) == Sort::Work).unwrap_or(likely)
}

/// Whether the user typed the words in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    ByUser,
    No,
}

/// The type that a model gave an observation of a batch. It rejects a wish that nobody typed: the title must repeat a
/// sentence of the user, or that sentence must be a wish, or be in a language whose words are not known here.
pub(crate) fn standing_kind(given: ObservationType, title: &str, batch: &BatchMaterial) -> ObservationType {
    if !given.is_standing() {
        return given;
    }
    let is_rejection = |step: &Step| matches!(&step.outcome, CallOutcome::Rejected { reason: Some(comment) } if !comment.trim().is_empty());
    if given == ObservationType::Correction && batch.steps.iter().any(is_rejection) {
        return given;
    }
    let prompt = batch.prompt.as_ref().filter(|_| batch.source.is_asked_openly());
    let typed = prompt.map(|prompt| typed_words(&prompt.text)).unwrap_or_default();
    let named = content(title);
    let backs = |sentence: &str| {
        let is_assertion =
            !sentence.ends_with('?') && sentence.split_whitespace().count() > 2 && !is_report(sentence);
        let repeats = || {
            let words = content(sentence);
            let shared = named.iter().filter(|word| words.contains(word)).count();
            shared > 1 && shared * 2 > named.len()
        };
        is_assertion
            && (holds_beyond(sentence).is_some_and(ObservationType::is_standing)
                || !is_english(sentence)
                || repeats())
    };
    let mut sentences = typed.lines().flat_map(|line| line.split_inclusive(['.', '!', '?'])).map(str::trim);
    match sentences.any(backs) {
        true => given,
        false => ObservationType::Discovery,
    }
}

/// The type of a prompt's sentence that holds beyond its task: a wish, a correction, a decision, a person, something
/// postponed. `None` for a task, a question, or an answer to something else.
pub(crate) fn holds_beyond(sentence: &str) -> Option<ObservationType> {
    let text = plain(sentence);
    let signs = Signs {
        titled: lowered(&text),
        text: lowered(&text),
        heading: String::new(),
        opening: opening(&text),
        source: SourceKind::Prompt,
        progress: Progress::Unstated,
    };
    use ObservationType::{Contact, Correction, Decision, NextStep, Preference};
    let holds = |kind: &ObservationType| match kind {
        Contact | Correction | Decision | Preference => true,
        NextStep => signs.is_postponed(),
        _ => false,
    };
    signs.certain(&text).filter(|kind| holds(kind) && !text.ends_with('?'))
}

/// Whether a text gives a reason or a warning, like a comment that is worth reading outside the code.
pub(crate) fn says_why(sentence: &str) -> bool {
    const WHY: &str = "because, otherwise, or else, so that, unless, never, must, must not, cannot, can't, since, instead of, \
        even if, even when, even though, only if, only when, would, to avoid, on purpose, deliberately";
    let text = lowered(&plain(sentence));
    phrases(WHY).any(|why| has(&text, why))
}

/// Whether a plan's entry is a step: an imperative below a heading of tasks, or anything about how the result is
/// tested.
pub(crate) fn is_step(entry: &str, headings: &[&str]) -> bool {
    let text = plain(entry);
    let (_, statement) = super::subject::labelled(&text);
    let orders = opening(&text) == Opening::Imperative || opening(statement) == Opening::Imperative;
    let is_of_steps = |heading: &&str| phrases(STEPS).any(|step| has(&lowered(&plain(heading)), step));
    headings.iter().any(|heading| is_of_testing(heading)) || orders && headings.iter().any(is_of_steps)
}

/// The type that a model gave, corrected if a rule is certain of another.
pub(crate) fn valid_kind(given: ObservationType, title: &str, narrative: &str) -> ObservationType {
    use ObservationType::{Bugfix, Change, Decision, Discovery};
    let signs = Signs {
        titled: lowered(title),
        text: lowered(&format!("{title}. {narrative}")),
        heading: String::new(),
        opening: opening(title),
        source: SourceKind::Answer,
        progress: Progress::Unstated,
    };
    match given {
        // A fix says what was wrong.
        Bugfix if is_english(narrative) && !signs.has_any(WRONG) => Change,
        // A choice has an object.
        Decision if title.split_whitespace().count() < 3 => Discovery,
        other => other,
    }
}

struct Signs {
    /// The sentence of the title.
    titled: String,
    text: String,
    heading: String,
    opening: Opening,
    source: SourceKind,
    progress: Progress,
}

/// Words for what was wrong before a fix.
const WRONG: &str = "because, bug, broke, broken, wrong, wrongly, incorrect, incorrectly, missing, crash, crashed, panic, \
    panicked, hang, hung, hanging, fail, failed, fails, failing, error, lost, leaked, race, duplicate, \
    duplicated, overwrote, overwriting, overwritten, ignored, stale, instead of, never, regression, was \
    not, were not, did not, didn't, no longer, caused, hard-coded, hardcoded, clobbered, corrupted";

const OPEN: &str = "not pushed, unpushed, uncommitted, not committed, not yet, not been pushed, still open, left open, \
    left as-is, left unfixed, to be done, remains to, still needs, still need, needs to be, need to be, \
    to do, todo, todos, follow-up, follow-ups, next step, next steps, before merging, not implemented \
    yet, not started, pending, still unanswered, awaiting, not verified, unverified, still to, noted for \
    later";

/// Words for what holds from now on, at any place.
const WISHES: &str = "from now on, in the future, in future, prefer, prefers, i'd rather, would rather, stick to, stop using, \
    don't ever, do not ever, should always, must always, should never, must never, we use, the user's rule, whenever";

/// Words before `always` and `never` that make them a wish. `It never ends` is not a wish.
const WISHING: &str = "please, you, we, i, and, but, or, to, so, also, just, will, ok, okay, then";

const AGAINST: &str = "no, nope, wrong, that's wrong, that is wrong, this is wrong, that's not, that is not, this is not, \
    not what i, i said, i told you, i meant, you misunderstood, that's incorrect, that is incorrect, \
    nein, das ist falsch, das stimmt nicht, actually no";

/// Words for what is true only for the moment and the task.
const OF_NOW: &str = "yet, now, today, tomorrow, here, this time, this one, for the moment, until, the server, the app, \
    the process, the build";

/// Words after `that's not` that correct nothing.
const NO_MATTER: &str = "an issue, a problem, a concern, a big deal, a blocker, needed, necessary, required, important, \
    urgent, relevant, bad, so bad, your fault, our problem";

const CHOSEN: &str = "decided, decision, ruling, decided against, chose, chosen, we chose, go with, going with, went with, opted, \
    opt for, rejected, rather than, by design, on purpose, intentionally, deliberately, deferred, out of \
    scope, no migration needed, for now, instead of, is settled, agreed, declined, drop";

/// Headings of tasks. Their entries are steps, not decisions.
const STEPS: &str = "step, steps, files, file, verification, verify, changes, change, tests, testing, implementation, task, tasks, \
    order, phase";

/// How often each type is right, in the order of [`ObservationType::ALL`]. A learned score counts only beyond this.
const SHARES: [f32; 13] = [0.11, 0.07, 0.02, 0.08, 0.19, 0.2, 0.17, 0.02, 0.01, 0.04, 0.02, 0.07, 0.0];

/// The weight of a learned score compared with the signs.
const WEIGHT: f32 = 0.5;

impl Signs {
    fn has(&self, phrase: &str) -> bool {
        has(&self.text, phrase)
    }

    fn has_any(&self, list: &str) -> bool {
        phrases(list).any(|phrase| self.has(phrase))
    }

    fn headed(&self, list: &str) -> bool {
        phrases(list).any(|phrase| has(&self.heading, phrase))
    }

    fn begins(&self, list: &str) -> bool {
        phrases(list).any(|phrase| {
            self.text.trim_start().strip_prefix(phrase).is_some_and(|rest| rest.starts_with(' '))
        })
    }

    /// Whether it holds beyond the task: `always`, `never`, `from now on`, `prefer`.
    fn is_wish(&self) -> bool {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        let is_ruled = words.iter().enumerate().any(|(at, word)| {
            let before = at.checked_sub(1).and_then(|before| words.get(before));
            matches!(*word, "always" | "never")
                && before.is_none_or(|before| phrases(WISHING).any(|wishing| wishing == *before))
        });
        is_ruled || self.has_any(WISHES)
    }

    /// `Actually, use tabs`, `stop mocking the clock`: something should be done in another way. Not `stop the server`.
    fn turns_around(&self) -> bool {
        let mut words = self.text.split_whitespace();
        let second = match words.next() {
            Some("actually" | "stop") => words.next().unwrap_or_default(),
            _ => return false,
        };
        let orders = is_base_verb(second) || matches!(second, "don't" | "never" | "always");
        let is_of_now = self.has_any(OF_NOW);
        !is_of_now
            && match self.begins("stop") {
                true => second.len() > 5 && second.ends_with("ing"),
                false => orders,
            }
    }

    /// `Return a Result, don't unwrap: panics kill the press`: what to avoid and why, beyond this task.
    fn forbids_with_reason(&self, text: &str) -> bool {
        let forbids = self.begins("don't, do not, never, avoid")
            || [", don't ", ", do not ", ", never ", "; don't ", " and don't "]
                .iter()
                .any(|no| text.contains(no));
        let gives_reason = self.has_any("because, since, otherwise, or else")
            || text.split_once(": ").is_some_and(|(rule, why)| {
                rule.split_whitespace().count() > 2 && why.split_whitespace().count() > 2
            });
        forbids && gives_reason && !self.has_any(OF_NOW)
    }

    /// A question, even without a question mark.
    fn asks(&self) -> bool {
        self.begins(
            "which, what, why, how, where, who, whose, should we, should i, do we, does, did, is, are",
        )
    }

    /// Whether it begins by postponing something.
    fn is_postponed(&self) -> bool {
        self.begins("remind me, please remind me, can you remind me, don't forget, do not forget, don't let me forget, \
            remember to, later, todo, next time, for later")
    }

    fn is_by_user(&self) -> bool {
        matches!(self.source, SourceKind::Prompt | SourceKind::Ask)
    }

    /// The type of which a rule is certain.
    fn certain(&self, text: &str) -> Option<ObservationType> {
        use ObservationType::{Bugfix, Contact, Correction, Decision, NextStep, Preference, Security};
        if self.source == SourceKind::Task {
            return Some(NextStep);
        }
        if self.is_by_user() && is_contact(text) {
            return Some(Contact);
        }
        if self.source == SourceKind::Prompt {
            if self.is_postponed() {
                return Some(NextStep);
            }
            if self.has_any(
                "we decided, i decided, decided to, let's go with, go with, for now, no migration needed",
            ) {
                return Some(Decision);
            }
            if (turns_against(text) || self.turns_around()) && self.text.split_whitespace().count() > 3 {
                return Some(Correction);
            }
            if (self.is_wish() || self.forbids_with_reason(text)) && !self.asks() {
                return Some(Preference);
            }
        }
        if self.has_any("the user's rule, the user wants, the user prefers, the user expects, per your rule")
        {
            return Some(Preference);
        }
        if self.has_any("the user corrected, corrected by the user") {
            return Some(Correction);
        }
        if self.source == SourceKind::Ask {
            return Some(Decision);
        }
        if self.progress == Progress::Left
            || phrases("not pushed, unpushed, uncommitted, not committed, left unfixed, noted for later, to be done later").any(|p| has(&self.titled, p))
        {
            return Some(NextStep);
        }
        if self.has_any("vulnerability, vulnerable, sql injection, command injection, code injection, shell injection, script injection, prompt injection, exploit, hijack, hijacking, unredacted, privilege escalation")
        {
            return Some(Security);
        }
        let fixes = self.begins("fix, fixed, fixes, bugfix, hotfix")
            || self.headed("bug fix, bug fixes, the fix, fixed");
        let lint = self.has_any("warning, warnings, typo, typos, lint, comment, comments");
        (fixes && self.has_any(WRONG) && !lint).then_some(Bugfix)
    }

    /// The type by the signs and the learned scores together.
    fn likely(&self, learned: Option<&[f32]>) -> ObservationType {
        let (choice, knowledge, work) = self.leanings();
        let mut best = (f32::MIN, ObservationType::Change);
        for (at, (kind, _)) in ObservationType::ALL.iter().enumerate() {
            let leaning = match sort(*kind) {
                Sort::Choice => choice,
                Sort::Knowledge => knowledge,
                Sort::Work => work,
                Sort::Other => continue,
            };
            let own = self.own(*kind);
            let learned = learned
                .and_then(|scores| scores.get(at))
                .map_or(0.0, |score| score - SHARES.get(at).copied().unwrap_or_default());
            let score = leaning + own + WEIGHT * learned;
            if score > best.0 {
                best = (score, *kind);
            }
        }
        best.1
    }

    /// The evidence for a choice, for knowledge, and for finished work.
    fn leanings(&self) -> (f32, f32, f32) {
        let (mut choice, mut knowledge, mut work) = match self.source {
            SourceKind::Answer => (0.25, 0.4, 0.35),
            SourceKind::Subagent => (0.25, 0.7, 0.1),
            SourceKind::Plan => (0.6, 0.2, 0.2),
            SourceKind::PlanPrompt => (0.45, 0.25, 0.35),
            SourceKind::Document => (0.2, 0.7, 0.1),
            SourceKind::Comment => (0.15, 0.4, 0.45),
            SourceKind::Failure | SourceKind::Cure => (0.0, 0.9, 0.1),
            SourceKind::Commit | SourceKind::PullRequest => (0.25, 0.2, 0.65),
            SourceKind::Prompt | SourceKind::Ask => (0.8, 0.1, 0.1),
            SourceKind::Task => (0.3, 0.3, 0.3),
        };
        let count = |list: &str| phrases(list).filter(|phrase| self.has(phrase)).count().min(3) as f32;
        choice += 0.3 * count(CHOSEN);
        choice += 0.15
            * count("should, would, keep, must, only, not, no, each, per, both, v1, later, future").min(2.0);
        knowledge += 0.25
            * count(
                "cannot, can't, fails, failed, does not, doesn't, already, is already, root cause, the problem, \
    error, silently, runs, works, empty, even though, had",
            );
        work += 0.25
            * count(
                "now, no longer, added, removed, renamed, replaced, moved, updated, extracted, fixed, previously, \
    new, rewrote, tests",
            );
        match self.opening {
            Opening::Done => work += 0.5,
            Opening::Imperative => match self.source {
                SourceKind::Commit | SourceKind::PullRequest => work += 0.3,
                SourceKind::Plan | SourceKind::PlanPrompt if self.headed(STEPS) => {
                    choice -= 0.6;
                    work += 0.3;
                }
                SourceKind::Plan | SourceKind::PlanPrompt => choice += 0.1,
                _ => {}
            },
            Opening::Subject => knowledge += 0.15,
            Opening::Fragment => choice += 0.1,
            Opening::Lacking | Opening::Pronoun => {}
        }
        // `High (valid): the cap breaks uploads`: a finding of a review.
        if self.begins("critical, high, medium, low, major, minor, blocker, nit") {
            knowledge += 0.4;
        }
        if self.headed("decision, decisions, design, alternatives, rejected, approach, boundaries, behavior, trade-offs, \
    non-goals, recommendation") {
            choice += 0.6;
        }
        if self.headed(
            "root cause, cause, finding, findings, problem, how it works, limitation, limitations, analysis, \
    background, scenario, details, gotcha, gotchas, blockers, why, location, references",
        ) {
            knowledge += 0.4;
        }
        if self.headed("changes, changed, implemented, fixed, fix, what changed, added, renames, committed, created, new") {
            work += 0.4;
        }
        (choice, knowledge, work)
    }

    /// The evidence for one type among those of its group.
    fn own(&self, kind: ObservationType) -> f32 {
        use ObservationType::{
            Bugfix, Change, Decision, Discovery, Feature, Gotcha, NextStep, Refactor, TradeOff,
        };
        let if_any = |list: &str, worth: f32| if self.has_any(list) { worth } else { 0.0 };
        match kind {
            Decision | Discovery | Change => 0.15,
            TradeOff => if_any(
                "trade-off, tradeoff, at the cost of, the price, cost of, limitation, accepted, out of scope",
                0.2,
            ),
            NextStep => {
                if phrases(OPEN).any(|phrase| has(&self.titled, phrase)) {
                    0.45
                } else {
                    0.0
                }
            }
            Gotcha => if_any(
                "must, cannot, can't, careful, only if, only when, silently, never, even though, despite, not enough, \
    fails, race, otherwise, trap, no-op, misleading, unless",
                0.25,
            ),
            Bugfix => if_any("fix, fixed, fixes", 0.25) + if_any(WRONG, 0.2) - 0.05,
            Feature => {
                let first = self.begins(
                    "add, added, adds, new, introduce, introduced, implement, implemented, feat, support",
                );
                if first { 0.25 } else { 0.0 }
            }
            Refactor => if_any(
                "rename, renamed, renames, refactor, refactored, extracted, moved, deduplicated, dead code, cleanup",
                0.25,
            ),
            _ => -0.3,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Choice,
    Knowledge,
    Work,
    Other,
}

fn sort(kind: ObservationType) -> Sort {
    use ObservationType as T;
    match kind {
        T::Decision | T::TradeOff | T::NextStep => Sort::Choice,
        T::Discovery | T::Gotcha => Sort::Knowledge,
        T::Bugfix | T::Feature | T::Refactor | T::Change => Sort::Work,
        // Only rules give these.
        T::Security | T::Preference | T::Correction | T::Contact => Sort::Other,
    }
}

/// Whether a prompt begins by contradicting what was said or done. A bare `no` counts only if punctuation follows it.
fn turns_against(text: &str) -> bool {
    let lower = text.trim_start().to_lowercase().replace('\u{2019}', "'");
    phrases(AGAINST).any(|opening| {
        lower.strip_prefix(opening).is_some_and(|rest| match opening {
            "that's not" | "that is not" | "this is not" => {
                rest.starts_with(' ') && !phrases(NO_MATTER).any(|no| has(&lowered(rest), no))
            }
            "no" | "nope" | "nein" | "wrong" => {
                rest.starts_with([',', '.', '!', ';', ':']) || rest.starts_with(" -")
            }
            _ => !rest.starts_with(|c: char| c.is_alphanumeric()),
        })
    })
}

/// `Anna owns billing`, `ask Ben about the gateway`: a person's name, and the topic.
fn is_contact(text: &str) -> bool {
    // Not what is said of programs as well: `Cargo runs the tests`.
    const DOES: &str = "owns, maintains, leads, reviews, approves, knows, is responsible, is in charge";
    const ASKED: &str = "ask, contact, ping, talk to, speak to, check with, cc, tell";
    const NOT_PEOPLE: &str = "the, a, an, this, that, it, he, she, they, we, i, you, who, what, which, git, github, \
    docker, linux, windows, postgres, rust, python, one, each";
    let is_name = |word: &str| {
        let inner = word.trim_matches(|edge: char| !edge.is_alphanumeric());
        let inner = inner.strip_suffix("'s").unwrap_or(inner);
        inner.chars().count() > 1
            && inner.starts_with(|c: char| c.is_uppercase())
            && inner.chars().skip(1).all(|c| c.is_lowercase() || c == '-')
            && !is_identifier(word)
            && !phrases(NOT_PEOPLE).any(|other| other == inner.to_lowercase())
    };
    text.split(['.', '!', '\n', ';']).any(|sentence| {
        let words: Vec<&str> = sentence.split_whitespace().collect();
        let lower = lowered(sentence);
        let named = words.first().is_some_and(|first| is_name(first)) && words.len() > 2;
        // One name, or first and last name.
        let after_name: Vec<String> =
            words.iter().skip(1).skip_while(|word| is_name(word)).take(3).map(|word| bare(word)).collect();
        let does = phrases(DOES).any(|does| after_name.join(" ").starts_with(does)) && !after_name.is_empty();
        let asked = phrases(ASKED).any(|ask| {
            lower.trim_start().starts_with(&format!("{ask} ")) || lower.contains(&format!(" please {ask} "))
        });
        let asks_somebody = asked
            && words.iter().skip(1).take(3).any(|word| is_name(word))
            && (has(&lower, "about") || has(&lower, "for") || has(&lower, "before") || has(&lower, "if"));
        named && does || asks_somebody
    })
}

#[cfg(test)]
mod tests;
