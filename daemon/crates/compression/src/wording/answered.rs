//! Joins a question of the agent and the user's answer into one statement.

use super::clause::{Opening, opening, trimmed};
use super::plain::{capitalized, is_balanced, plain};
use super::prompt::statement;
use super::title::LONGEST_TITLE;
use super::word::{bare, content};

/// A question with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// One statement that names the topic and the choice, suitable as a title.
    pub statement: String,
    /// The rest of the question and of the chosen option, without the statement.
    pub rest: String,
}

/// The statement that a question and its answer make together: `Should drafts be public?` and `No` make `Drafts should
/// not be public`; `Which database do we use?` and `Postgres` make `Database: Postgres`. `header` is a short name of
/// the question, `description` the description of the chosen option. `None` if the answer decides nothing.
pub(crate) fn answered(
    header: Option<&str>,
    question: &str,
    answer: &str,
    description: Option<&str>,
) -> Option<Settled> {
    let question = plain(question);
    let chosen = plain(answer).replace(" (Recommended)", "").replace("(Recommended)", "");
    let chosen = trimmed(chosen.trim()).to_owned();
    if chosen.is_empty() || is_asked_back(&chosen) {
        return None;
    }
    let asked = question.rsplit_once(". ").map_or(question.as_str(), |(_, last)| last);
    let asked = asked.split_inclusive('?').next().unwrap_or(asked);
    let asked = trimmed(asked.trim_end_matches('?')).to_owned();
    let mut left = Vec::new();
    let text = match assent(&chosen) {
        Some((assent, more)) => {
            if !more.is_empty() {
                left.push(more);
            }
            match declared(&asked, assent) {
                Some(sentence) => sentence,
                None => format!("{}: {}", topic(header, &asked)?, assent.word()),
            }
        }
        None => match topic(header, &asked) {
            Some(topic) if adds_to_answer(&topic, &chosen) => format!("{topic}: {}", statement(&chosen)),
            _ => statement(&chosen),
        },
    };
    let text = with_question(&text, &asked);
    let (text, rest) = fit(&text);
    left.extend(rest);
    let description = description.map(plain).unwrap_or_default();
    if !description.is_empty() {
        left.push(description);
    }
    Some(Settled { statement: capitalized(&text), rest: left.join(" ") })
}

/// Whether the answer is a question, or asks for a discussion.
fn is_asked_back(answer: &str) -> bool {
    let lower = answer.to_lowercase();
    answer.ends_with('?')
        || lower.starts_with("chat about")
        || lower.starts_with("let's discuss")
        || lower == "other"
        || lower == "skip"
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Assent {
    Yes,
    No,
}

impl Assent {
    fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
        }
    }
}

/// Yes or no, and the words that came with it.
fn assent(answer: &str) -> Option<(Assent, String)> {
    const YES: [&str; 12] =
        ["yes", "y", "yeah", "yep", "sure", "ok", "okay", "agreed", "please do", "go ahead", "do it", "ja"];
    const NO: [&str; 5] = ["no", "nope", "don't", "nein", "not now"];
    let lower = answer.to_lowercase();
    let found = |words: &[&str]| {
        words
            .iter()
            .filter(|word| {
                lower.strip_prefix(**word).is_some_and(|rest| {
                    rest.is_empty() || rest.starts_with([',', '.', '!', ' ', ';', '-', '—', ':'])
                })
            })
            .map(|word| word.len())
            .max()
    };
    let (assent, length) = match (found(&YES), found(&NO)) {
        (Some(length), _) => (Assent::Yes, length),
        (None, Some(length)) => (Assent::No, length),
        _ => return None,
    };
    let more = answer
        .get(length..)
        .unwrap_or_default()
        .trim_matches(|edge: char| !edge.is_alphanumeric() && edge != '`');
    // `no migration needed` is a statement of its own.
    let is_set_off = answer.get(length..).is_some_and(|rest| !rest.starts_with(' '));
    (more.is_empty() || is_set_off || assent == Assent::Yes).then(|| (assent, capitalized(more)))
}

/// Turns `Should drafts be public` into a statement.
fn declared(asked: &str, assent: Assent) -> Option<String> {
    let words: Vec<&str> = asked.split_whitespace().collect();
    let aux = bare(words.first()?);
    let not = if assent == Assent::Yes { "" } else { " not" };
    match aux.as_str() {
        "do" | "would" if words.get(1).is_some_and(|you| bare(you) == "you") => {
            let wish = words.get(3..)?.join(" ");
            let wants = words.get(2).map(|verb| bare(verb))?;
            matches!(wants.as_str(), "want" | "like" | "need").then(|| {
                let wish = wish
                    .strip_prefix("me to ")
                    .or_else(|| wish.strip_prefix("to "))
                    .map_or(wish.clone(), |deed| format!("to {deed}"));
                match assent {
                    Assent::Yes => format!("The user wants {wish}"),
                    Assent::No => format!("The user does not want {wish}"),
                }
            })
        }
        "should" | "can" | "may" | "must" | "will" | "is" | "are" | "shall" => {
            let first = bare(words.get(1)?);
            if matches!(first.as_str(), "i" | "we" | "you") {
                let deed = words.get(2..)?.join(" ");
                let decision = if assent == Assent::Yes { "Agreed" } else { "Declined" };
                return (words.len() > 3).then(|| format!("{decision}: {deed}"));
            }
            // The subject ends before the verb that the auxiliary stood in front of.
            let rest = words.get(1..)?;
            let verb = rest.iter().enumerate().skip(1).find(|(_, word)| {
                let word = bare(word);
                super::word::is_base_verb(&word)
                    || matches!(word.as_str(), "be" | "also" | "only" | "still" | "always")
                    || (aux == "is" || aux == "are") && super::word::is_past(&word)
            })?;
            let subject = rest.get(..verb.0)?.join(" ");
            let tail = rest.get(verb.0..)?.join(" ");
            Some(format!("{subject} {aux}{not} {tail}"))
        }
        _ => None,
    }
}

/// The topic of a question: its header, or the noun after `which` or `what`.
fn topic(header: Option<&str>, asked: &str) -> Option<String> {
    let header = header.map(plain).filter(|header| header.chars().count() > 2);
    let words: Vec<&str> = asked.split_whitespace().collect();
    let first = words.first().map(|word| bare(word)).unwrap_or_default();
    let noun = matches!(first.as_str(), "which" | "what")
        .then(|| {
            let auxiliary = |word: &str| {
                matches!(
                    bare(word).as_str(),
                    "should"
                        | "do"
                        | "does"
                        | "would"
                        | "is"
                        | "are"
                        | "can"
                        | "will"
                        | "shall"
                        | "to"
                        | "must"
                        | "did"
                        | "has"
                        | "have"
                        | "you"
                )
            };
            let end = words.iter().skip(1).position(|word| auxiliary(word))? + 1;
            let noun = words.get(1..end)?.join(" ");
            let of = words
                .iter()
                .skip(end)
                .position(|word| matches!(bare(word).as_str(), "for" | "of" | "in" | "on"));
            let tail = of
                .and_then(|at| words.get(end + at..))
                .map(|tail| tail.join(" "))
                .filter(|tail| tail.len() < 40);
            let noun = if matches!(bare(&noun).as_str(), "option" | "approach" | "one" | "way" | "")
                && tail.is_none()
            {
                String::new()
            } else {
                noun
            };
            (!noun.is_empty()).then(|| match tail {
                Some(tail) => format!("{noun} {tail}"),
                None => noun,
            })
        })
        .flatten();
    let named = match (header, noun) {
        (Some(header), _) if header.split_whitespace().count() > 1 => header,
        (_, Some(noun)) => noun,
        (Some(header), None) => header,
        (None, None) => return None,
    };
    Some(capitalized(&named))
}

/// Whether a topic in front of the answer adds something to it.
fn adds_to_answer(topic: &str, answer: &str) -> bool {
    let known = content(answer);
    content(topic).iter().any(|word| !known.contains(word))
}

/// Adds the question after the statement, if there is room and it says more.
fn with_question(text: &str, asked: &str) -> String {
    let known = content(text);
    let words: Vec<&str> = asked.split_whitespace().collect();
    let first = words.first().map(|word| bare(word)).unwrap_or_default();
    let second = words.get(1).map(|word| bare(word)).unwrap_or_default();
    let asks = matches!(first.as_str(), "how" | "where" | "when" | "why" | "who" | "what");
    // `how do users choose it` is told as `how users choose it`; other auxiliaries would have to move.
    let is_do_question = matches!(second.as_str(), "do" | "does" | "did");
    let new = content(asked).iter().filter(|word| !known.contains(word)).count();
    let tail = format!("{first} {}", words.get(2..).unwrap_or_default().join(" "));
    let whole = format!("{text} (asked {tail})");
    if asks
        && is_do_question
        && new > 0
        && opening(text) != Opening::Pronoun
        && whole.chars().count() <= LONGEST_TITLE
        && is_balanced(&whole)
    {
        whole
    } else {
        text.to_owned()
    }
}

/// The statement shortened to a title, and what was left out.
fn fit(text: &str) -> (String, Option<String>) {
    match super::title::clean_title(text) {
        Some(title) => {
            let rest = (!title.rest.is_empty()).then(|| title.rest.clone());
            (title.text, rest)
        }
        None => (text.chars().take(LONGEST_TITLE).collect(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: Option<&str>, question: &str, answer: &str, expected: &str) {
        let found = answered(header, question, answer, None).map(|answer| answer.statement);
        assert_eq!(found.as_deref().unwrap_or_default(), expected);
    }

    #[test]
    fn a_question_and_its_answer_become_one_statement() {
        check(None, "Should drafts be public?", "No", "Drafts should not be public");
        check(None, "Should drafts be public?", "Yes, but only to the team", "Drafts should be public");
        check(
            None,
            "Which database should we use for carts?",
            "Postgres (Recommended)",
            "Database for carts: Postgres",
        );
        check(
            Some("Default visibility"),
            "How do users choose it?",
            "Unlisted",
            "Default visibility: Unlisted (asked how users choose it)",
        );
        check(
            None,
            "Do you want me to keep the old cart?",
            "no",
            "The user does not want to keep the old cart",
        );
        check(
            Some("Rounding"),
            "Where is the total rounded?",
            "Once, after summing",
            "Rounding: Once, after summing",
        );
        check(None, "Which one do you mean?", "What are they?", "");
        check(None, "", "", "");
    }
}
