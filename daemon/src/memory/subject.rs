//! Parses the subject of an observation, if it can be determined for sure.
//!
//! A newer statement supersedes an older one only if both have exactly the same subject: `max_retries` is 3, then 5.
//! Similar words prove nothing. So a key is parsed from a few plain sentence forms (a thing and its value, a rule, a
//! question and its answer, a check, a task), and the rest of the clause is part of the key. A sentence of any other
//! form has no key and is never superseded.

use std::fmt;

use super::observation::ObservationType;
use super::sameness::is_code;

/// Equal for two statements about the same subject. Contains words of the statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectKey(String);

impl SubjectKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The words that name a value, with its condition. `None` if the subject is not a value.
    pub(super) fn named_value(&self) -> Option<impl Iterator<Item = &str>> {
        let (_, named) = self.0.strip_prefix("value: ")?.split_once(": ")?;
        Some(named.split(' ').map(trim_punctuation).filter(|word| !word.is_empty()))
    }

    fn new(sort: &str, words: &str) -> Self {
        Self(format!("{sort}: {words}"))
    }
}

impl fmt::Display for SubjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Longer names and conditions are seldom worded the same twice.
const MOST_WORDS: usize = 6;

/// The subject of a title: a value, a user's rule, or a task. Rules and tasks carry the built-in compressor's
/// prefixes.
pub fn of_title(kind: ObservationType, title: &str) -> Option<SubjectKey> {
    if let Some(open) = title.strip_prefix("Open: ") {
        return of_task(open);
    }
    let said = title.strip_prefix("User: ").unwrap_or(title);
    let clause = Clause::first(said)?;
    let rule = || (kind == ObservationType::Decision).then(|| clause.rule()).flatten();
    rule().or_else(|| clause.value()).or_else(|| clause.new_value())
}

/// The words of a sentence in lower case, without punctuation.
pub(super) fn words(said: &str) -> Vec<String> {
    said.split_whitespace().map(|word| trim_punctuation(word).to_lowercase()).collect()
}

fn trim_punctuation(word: &str) -> &str {
    word.trim_matches(|edge: char| !edge.is_alphanumeric())
}

/// A question put to the user. Another answer to the same question is another choice.
pub fn of_choice(question: &str) -> Option<SubjectKey> {
    let words: Vec<String> = question.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect();
    (words.len() >= 2).then(|| SubjectKey::new("choice", &words.join(" ")))
}

/// A command that checks the work.
pub fn of_check(command: &str) -> SubjectKey {
    SubjectKey::new("check", command)
}

/// A task that is still open.
pub fn of_task(said: &str) -> Option<SubjectKey> {
    let clause = Clause::first(said)?;
    let at = clause.words.iter().position(|word| verb(&bare(word)).is_some())?;
    let verb = verb(&bare(clause.words.get(at)?))?;
    match clause.object(at) {
        Some(thing) => Some(SubjectKey::new("task", &format!("{} {thing}", verb.base))),
        None if clause.is_about_delivery(at) => of_delivery(verb.base),
        None => None,
    }
}

/// A task that is reported done: `Raised the limit of x`, `x is raised now`. Wishes, plans and denials do not count.
pub fn of_completed_task(said: &str) -> Option<SubjectKey> {
    const NOT_DONE: [&str; 14] = [
        "not", "never", "cannot", "should", "would", "could", "will", "must", "need", "needs", "if", "todo",
        "nicht", "yet",
    ];
    // `fix(scope): raise x`
    let said = said.split_once(": ").filter(|(label, _)| !label.contains(' ')).map_or(said, |(_, rest)| rest);
    let clause = Clause::first(said)?;
    let denies = |word: &String| {
        let word = bare(word);
        word.ends_with("n't") || NOT_DONE.contains(&word.as_str())
    };
    if clause.words.iter().any(denies) {
        return None;
    }
    let start = clause
        .words
        .iter()
        .take_while(|word| matches!(bare(word).as_str(), "i" | "i've" | "we" | "we've" | "now"));
    let first = start.count();
    let leads = verb(&bare(clause.words.get(first)?)).map(|verb| (verb, first));
    let (verb, at) = leads.or_else(|| clause.passive())?;
    clause.object(at).map(|thing| SubjectKey::new("task", &format!("{} {thing}", verb.base)))
}

/// A subject without a name of its own: the session's work was committed or pushed.
pub fn of_delivery(verb: &str) -> Option<SubjectKey> {
    matches!(verb, "push" | "commit").then(|| SubjectKey::new("delivery", verb))
}

/// A verb of work and its past participle.
struct Verb {
    base: &'static str,
    done: &'static str,
}

const VERBS: [(&str, &str); 30] = [
    ("add", "added"),
    ("bump", "bumped"),
    ("change", "changed"),
    ("close", "closed"),
    ("commit", "committed"),
    ("configure", "configured"),
    ("delete", "deleted"),
    ("deploy", "deployed"),
    ("disable", "disabled"),
    ("document", "documented"),
    ("enable", "enabled"),
    ("fix", "fixed"),
    ("implement", "implemented"),
    ("lower", "lowered"),
    ("merge", "merged"),
    ("migrate", "migrated"),
    ("move", "moved"),
    ("publish", "published"),
    ("push", "pushed"),
    ("raise", "raised"),
    ("regenerate", "regenerated"),
    ("release", "released"),
    ("remove", "removed"),
    ("rename", "renamed"),
    ("replace", "replaced"),
    ("revert", "reverted"),
    ("test", "tested"),
    ("update", "updated"),
    ("upgrade", "upgraded"),
    ("write", "written"),
];

fn verb(word: &str) -> Option<Verb> {
    let found = VERBS.iter().find(|(base, done)| *base == word || *done == word);
    found.map(|(base, done)| Verb { base, done })
}

/// The first clause of a sentence, word by word as written.
struct Clause {
    words: Vec<String>,
}

impl Clause {
    /// `None` if it is a question.
    fn first(said: &str) -> Option<Self> {
        const ENDS: [&str; 11] =
            [", ", "; ", ": ", " — ", " – ", " (", ". ", " because ", " since ", " so ", " but "];
        if said.trim_end().ends_with('?') {
            return None;
        }
        let end = ENDS.iter().filter_map(|end| said.find(end)).min().unwrap_or(said.len());
        let clause = said.get(..end).unwrap_or(said).trim_end_matches(['.', '!', ',', ';', ':']);
        Some(Self { words: clause.split_whitespace().map(str::to_owned).collect() })
    }

    fn bare(&self, at: usize) -> String {
        self.words.get(at).map(|word| bare(word)).unwrap_or_default()
    }

    fn rest(&self, from: usize) -> &[String] {
        self.words.get(from..).unwrap_or_default()
    }

    /// `always use tabs`, `never use tabs`, `use pnpm instead of npm`.
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
                let is_told = plain.first() == Some(&"use") && (1..=MOST_WORDS).contains(&replaced.len());
                return is_told.then(|| SubjectKey::new("instead of", &replaced.join(" ")));
            }
        };
        (2..=MOST_WORDS + 2).contains(&ruled.len()).then(|| SubjectKey::new("rule", &ruled.join(" ")))
    }

    /// `x is 5 s for y`, `x defaults to "a"`, `x is no longer supported`.
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

    /// `Raised x from 3 to 5`, `Disabled x`.
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

    /// The value at this word, and the position after it.
    fn value_at(&self, at: usize) -> Option<(ValueSort, usize)> {
        const UNITS: [&str; 20] = [
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

    /// The object of the verb at this position: after it, or before it in the passive.
    fn object(&self, at: usize) -> Option<String> {
        const AWAY: [&str; 12] =
            ["in", "for", "from", "with", "to", "of", "on", "by", "at", "into", "before", "after"];
        let follows =
            self.rest(at + 1).iter().take(4).take_while(|word| !AWAY.contains(&bare(word).as_str()));
        let named = follows.into_iter().find(|word| is_name(word)).map(|word| bare(word));
        named.or_else(|| {
            let is_done = verb(&self.bare(at)).is_some_and(|verb| verb.done == self.bare(at));
            let before = self.words.get(..at)?;
            let mut names = before.iter().filter(|word| is_name(word));
            let name = names.next().filter(|_| is_done && before.len() <= MOST_WORDS)?;
            names.next().is_none().then(|| bare(name))
        })
    }

    /// `x is raised now`: the verb behind a form of *to be*.
    fn passive(&self) -> Option<(Verb, usize)> {
        let is = self
            .words
            .iter()
            .position(|word| matches!(bare(word).as_str(), "is" | "was" | "been" | "are" | "were"))?;
        let at = (is + 1..self.words.len()).find(|at| self.bare(*at) != "now")?;
        verb(&self.bare(at)).filter(|verb| verb.done == self.bare(at)).map(|verb| (verb, at))
    }

    /// Matches `Not pushed yet`, which names nothing else.
    fn is_about_delivery(&self, at: usize) -> bool {
        let verbs = self.words.iter().filter(|word| verb(&bare(word)).is_some()).count();
        verbs == 1 && self.bare(at.wrapping_sub(1)) == "not" && !self.words.iter().any(|word| is_name(word))
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

/// The thing that has a value: a code name or a few words.
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
    let is_told = if named { 1 } else { 2 } <= words.len() && words.len() <= MOST_WORDS;
    (is_told && !points).then(|| words.join(" "))
}

fn is_courtesy(word: &str) -> bool {
    matches!(word, "please" | "no" | "and" | "but" | "so" | "bitte" | "nein")
}

/// A code name, a file or a ticket.
fn is_name(word: &str) -> bool {
    let trimmed = word.trim_matches(['"', '\'', ',', '(', ')', '*']);
    let is_number =
        trimmed.trim_matches('`').chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '%' | '-'));
    let is_ticket = trimmed.contains('#') && trimmed.bytes().any(|byte| byte.is_ascii_digit());
    !is_number && (is_ticket || (trimmed.len() > 2 && trimmed.starts_with('`')) || is_code(trimmed))
}

/// A word in lower case without the punctuation around it.
fn bare(word: &str) -> String {
    let is_edge =
        |edge: char| matches!(edge, '`' | '"' | '\'' | ',' | ';' | ':' | '!' | '?' | '(' | '*' | '“' | '”');
    word.trim_matches(is_edge).trim_end_matches(['.', ')']).to_lowercase().replace('’', "'")
}

#[cfg(test)]
mod tests;
