//! Parses the subject of an observation, if it can be determined reliably.
//!
//! A newer statement supersedes an older one only if both have exactly the same subject: `max_retries` is 3, then 5.
//! Similar words prove nothing. So a key is parsed only from a few plain sentence forms (a thing and its value, a
//! rule, a check), and the rest of the clause is part of the key. Sentences of other forms have no key.

mod key;

pub use self::key::SubjectKey;
use self::key::trim_punctuation;
use super::observation::ObservationType;
use super::sameness::is_code;

/// Longer names and conditions are rarely phrased the same twice.
const MOST_WORDS: usize = 6;

/// Units that may follow a number.
pub(super) const UNITS: [&str; 20] = [
    "ms",
    "s",
    "us",
    "µs",
    "seconds",
    "minutes",
    "hours",
    "days",
    "%",
    "percent",
    "kb",
    "mb",
    "gb",
    "kib",
    "mib",
    "gib",
    "bytes",
    "times",
    "tokens",
    "characters",
];

/// Returns the subject of a title: a value, or a user's rule.
pub fn of_title(kind: ObservationType, title: &str) -> Option<SubjectKey> {
    let statement = title.strip_prefix("User: ").unwrap_or(title);
    let clause = Clause::first(statement)?;
    let rule = || kind.is_settled_by_user().then(|| clause.rule()).flatten();
    rule().or_else(|| clause.value()).or_else(|| clause.new_value())
}

/// The words of a sentence in lower case, without punctuation.
pub(super) fn words(sentence: &str) -> Vec<String> {
    sentence.split_whitespace().map(|word| trim_punctuation(word).to_lowercase()).collect()
}

/// Returns the subject of a command that checks the work.
pub fn of_check(command: &str) -> SubjectKey {
    SubjectKey::new("check", command)
}

/// The first clause of a sentence, word by word as written.
struct Clause {
    words: Vec<String>,
}

impl Clause {
    /// Returns the first clause, or `None` if it is a question.
    fn first(sentence: &str) -> Option<Self> {
        const ENDS: [&str; 11] =
            [", ", "; ", ": ", " — ", " – ", " (", ". ", " because ", " since ", " so ", " but "];
        if sentence.trim_end().ends_with('?') {
            return None;
        }
        let end = ENDS.iter().filter_map(|end| sentence.find(end)).min().unwrap_or(sentence.len());
        let clause = sentence.get(..end).unwrap_or(sentence).trim_end_matches(['.', '!', ',', ';', ':']);
        Some(Self { words: clause.split_whitespace().map(str::to_owned).collect() })
    }

    fn bare(&self, at: usize) -> String {
        self.words.get(at).map(|word| bare(word)).unwrap_or_default()
    }

    fn rest(&self, from: usize) -> &[String] {
        self.words.get(from..).unwrap_or_default()
    }

    /// Parses `always use tabs`, `never use tabs`, `use pnpm instead of npm`.
    fn rule(&self) -> Option<SubjectKey> {
        let plain: Vec<String> =
            self.words.iter().map(|word| bare(word)).skip_while(|word| is_courtesy(word)).collect();
        let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
        let ruled = match plain.as_slice() {
            ["always" | "never" | "don't" | "immer" | "nie" | "niemals", rest @ ..]
            | ["do", "not", rest @ ..] => rest,
            _ => {
                let at = plain
                    .windows(2)
                    .position(|pair| pair == ["instead", "of"] || pair == ["rather", "than"])?;
                let replaced = plain.get(at + 2..)?;
                let is_replacement =
                    plain.first() == Some(&"use") && (1..=MOST_WORDS).contains(&replaced.len());
                return is_replacement.then(|| SubjectKey::new("instead of", &replaced.join(" ")));
            }
        };
        (2..=MOST_WORDS + 2).contains(&ruled.len()).then(|| SubjectKey::new("rule", &ruled.join(" ")))
    }

    /// Parses `x is 5 s for y`, `x defaults to "a"`, `x is no longer supported`.
    fn value(&self) -> Option<SubjectKey> {
        const FILLERS: [&str; 12] = [
            "now",
            "only",
            "currently",
            "still",
            "set",
            "to",
            "at",
            "most",
            "limited",
            "no",
            "longer",
            "not",
        ];
        (1..self.words.len()).find_map(|at| {
            let (relation, mut next) = match (self.bare(at).as_str(), self.bare(at + 1).as_str()) {
                ("is" | "are" | "ist" | "beträgt", _) => ("is", at + 1),
                ("defaults", "to") => ("defaults", at + 2),
                ("listens" | "runs", "on") => ("runs", at + 2),
                ("uses", _) => ("uses", at + 1),
                ("now", "uses") => ("uses", at + 2),
                _ => return None,
            };
            while FILLERS.contains(&self.bare(next).as_str()) {
                next += 1;
            }
            let (value, after) = self.value_at(next)?;
            // `x uses 5 threads` does not state the value of x.
            if relation == "uses" && value != ValueSort::Name {
                return None;
            }
            let thing = thing(self.words.get(..at)?)?;
            self.key(relation, value, &thing, after)
        })
    }

    /// Parses `Raised x from 3 to 5`, `Disabled x`.
    fn new_value(&self) -> Option<SubjectKey> {
        const SETTING: [&str; 9] = [
            "raised",
            "lowered",
            "set",
            "changed",
            "increased",
            "decreased",
            "reduced",
            "bumped",
            "switched",
        ];
        const SWITCHING: [&str; 2] = ["enabled", "disabled"];
        let (first, words) = (self.bare(0), self.rest(1));
        if SWITCHING.contains(&first.as_str()) {
            let named = words.iter().any(|word| is_name(word));
            return self.key("is", ValueSort::Switch, &thing(words).filter(|_| named)?, self.words.len());
        }
        if !SETTING.contains(&first.as_str()) {
            return None;
        }
        let to = words.iter().position(|word| bare(word) == "to")? + 1;
        let end =
            words.iter().position(|word| matches!(bare(word).as_str(), "from" | "to")).map(|at| at + 1)?;
        let (value, after) = self.value_at(to + 1)?;
        self.key("is", value, &thing(self.words.get(1..end)?)?, after)
    }

    fn key(&self, relation: &str, value: ValueSort, thing: &str, after: usize) -> Option<SubjectKey> {
        let condition: Vec<String> = self
            .rest(after)
            .iter()
            .map(|word| bare(word))
            .filter(|word| !word.is_empty() && word != "now")
            .collect();
        let key = format!("{relation} {}: {thing} | {}", value.as_str(), condition.join(" "));
        (condition.len() <= MOST_WORDS).then(|| SubjectKey::new("value", &key))
    }

    /// Parses the value at this word, and returns the position after it.
    fn value_at(&self, at: usize) -> Option<(ValueSort, usize)> {
        const SWITCHES: [&str; 12] = [
            "enabled",
            "disabled",
            "on",
            "off",
            "true",
            "false",
            "required",
            "optional",
            "supported",
            "deprecated",
            "allowed",
            "forbidden",
        ];
        let word = self.words.get(at)?;
        let plain = bare(word);
        if plain.starts_with(|first: char| first.is_ascii_digit()) {
            let has_unit = UNITS.contains(&self.bare(at + 1).as_str());
            return Some((ValueSort::Number, at + 1 + usize::from(has_unit)));
        }
        if SWITCHES.contains(&plain.as_str()) {
            return Some((ValueSort::Switch, at + 1));
        }
        let is_whole = |mark: char| word.len() > 2 && word.starts_with(mark) && word.ends_with(mark);
        (is_whole('`') || is_whole('"')).then_some((ValueSort::Name, at + 1))
    }
}

/// The type of a value. A number does not contradict a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueSort {
    Number,
    Name,
    Switch,
}

impl ValueSort {
    fn as_str(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Name => "name",
            Self::Switch => "switch",
        }
    }
}

/// Parses the thing that has a value: a code name or a few words.
fn thing(words: &[String]) -> Option<String> {
    const POINTING: [&str; 14] = [
        "it",
        "this",
        "that",
        "these",
        "those",
        "they",
        "there",
        "which",
        "what",
        "here",
        "he",
        "everything",
        "es",
        "das",
    ];
    const ARTICLES: [&str; 10] =
        ["the", "a", "an", "our", "its", "der", "die", "now", "currently", "default"];
    let named = words.iter().any(|word| is_name(word));
    let words: Vec<String> = words
        .iter()
        .map(|word| bare(word))
        .filter(|word| !word.is_empty() && (word == "default" || !ARTICLES.contains(&word.as_str())))
        .collect();
    let points = words.first().is_none_or(|first| POINTING.contains(&first.as_str()));
    let has_fitting_length = if named { 1 } else { 2 } <= words.len() && words.len() <= MOST_WORDS;
    (has_fitting_length && !points).then(|| words.join(" "))
}

fn is_courtesy(word: &str) -> bool {
    matches!(word, "please" | "no" | "and" | "but" | "so" | "bitte" | "nein")
}

/// Whether the word is a code name, a file or a ticket.
fn is_name(word: &str) -> bool {
    let trimmed = word.trim_matches(['"', '\'', ',', '(', ')', '*']);
    let is_number =
        trimmed.trim_matches('`').chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '%' | '-'));
    let is_ticket = trimmed.contains('#') && trimmed.bytes().any(|byte| byte.is_ascii_digit());
    !is_number && (is_ticket || (trimmed.len() > 2 && trimmed.starts_with('`')) || is_code(trimmed))
}

/// Returns a word in lower case without the punctuation around it.
fn bare(word: &str) -> String {
    let is_edge =
        |edge: char| matches!(edge, '`' | '"' | '\'' | ',' | ';' | ':' | '!' | '?' | '(' | '*' | '“' | '”');
    word.trim_matches(is_edge).trim_end_matches(['.', ')']).to_lowercase().replace('’', "'")
}

#[cfg(test)]
mod tests;
