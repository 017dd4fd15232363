//! Can other sessions help with this prompt? Computes the features of a prompt at its position in a session.

use std::collections::HashSet;

use super::asked;
use super::spoken::{Spoken, stem};
use crate::linear::Features;
use crate::sameness::is_code;

/// A prompt, and what came before it in its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Situation<'a> {
    pub prompt: &'a str,
    /// The number of prompts before it.
    pub prompts_before: u32,
    /// The answer before it, or empty.
    pub answer_before: &'a str,
    /// The words that the session has read. `None` for nothing, or no more than the answer before.
    pub spoken: Option<&'a Spoken>,
    pub author: Author,
}

/// Who wrote a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Author {
    #[default]
    Person,
    /// An agent that gives a task to a subagent. Tasks are usually long.
    Agent,
}

impl Situation<'_> {
    /// Whether the session mentioned a word before.
    pub(crate) fn has_read(&self, word: &str) -> bool {
        self.spoken.is_some_and(|spoken| spoken.has(word))
    }
}

/// Words that refer to something outside of the conversation.
const OUTWARD: &[&str] = &[
    "already",
    "still",
    "recently",
    "previously",
    "earlier",
    "before",
    "ago",
    "last",
    "remember",
    "history",
    "used",
    "we",
    "our",
    "existing",
    "currently",
    "usually",
    "always",
    "never",
    "did",
    "was",
    "were",
];
/// Words that refer to what was just said.
const INWARD: &[&str] = &[
    "this", "that", "these", "those", "it", "them", "again", "same", "above", "now", "also", "both",
    "instead", "too", "here", "then", "just",
];
/// Words that agree, choose or go on.
const ASSENT: &[&str] = &[
    "yes", "yeah", "yep", "ok", "okay", "sure", "no", "nope", "good", "great", "perfect", "cool", "nice",
    "thanks", "thank", "agree", "agreed", "go", "ahead", "continue", "proceed", "option", "sounds", "let's",
    "lets", "do", "done", "right",
];
/// Words of routine requests.
const ROUTINE: &[&str] = &[
    "commit", "push", "pr", "merge", "rebase", "test", "tests", "lint", "format", "run", "rerun", "review",
    "branch", "ci", "build", "release", "changes", "diff", "restart", "squash", "stash", "revert",
];
/// Words that begin a question.
const ASKING: &[&str] = &[
    "what", "why", "how", "where", "which", "when", "who", "does", "do", "is", "are", "can", "did", "was",
    "should", "could",
];

/// The number of bytes of a text that are examined.
const LONGEST: usize = 8 * 1024;

/// The maximum length that a person types, in characters; a longer prompt is mostly pasted.
const TYPED_CHARACTERS: usize = 900;
const TYPED_LINES: usize = 13;

/// Whether a prompt is mostly a pasted plan, review or message, which itself says what its reader needs. Program
/// output does not count, because an error may have occurred before.
pub fn is_pasted(situation: &Situation<'_>) -> bool {
    let text = asked::of(situation.prompt.trim());
    let is_long = text.chars().count() > TYPED_CHARACTERS || text.lines().count() > TYPED_LINES;
    is_long && situation.author == Author::Person
}

/// Returns the words of a prompt as written, without punctuation around them.
pub(crate) fn words_as_written(prompt: &str) -> Vec<&str> {
    let words = head(prompt).split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    words.filter(|word| !word.is_empty()).collect()
}

/// Whether a prompt asks something.
pub fn asks(prompt: &str) -> bool {
    let first = prompt.split_whitespace().next().unwrap_or_default().to_lowercase();
    has_question_mark(prompt) || ASKING.contains(&first.as_str())
}

/// Whether a prompt is a question that opens a session. A subagent's task opens one as well.
pub fn opens_with_a_question(situation: &Situation<'_>) -> bool {
    situation.author == Author::Agent || situation.prompts_before == 0 && asks(situation.prompt)
}

fn has_question_mark(prompt: &str) -> bool {
    prompt.trim_end().ends_with(['?', '\u{ff1f}']) || prompt.contains("? ")
}

/// Computes the features of a prompt.
pub fn features(situation: &Situation<'_>) -> Features {
    let prompt = head(situation.prompt.trim());
    let written: Vec<&str> = prompt.split_whitespace().collect();
    let words: Vec<String> = written
        .iter()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    let before = before(situation.answer_before);
    let is_known = |word: &str| before.contains(&stem(word));
    let long: Vec<&String> = words.iter().filter(|word| word.chars().count() > 3).collect();
    let known = long.iter().filter(|word| is_known(word)).count();
    let names: Vec<&str> = written.iter().copied().filter(|word| is_name(word)).collect();
    let new_names = names
        .iter()
        .filter(|name| !is_known(&name.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()))
        .count();
    let share = |list: &[&str]| {
        let found = words.iter().filter(|word| list.contains(&word.as_str())).count();
        found as f64 / words.len().max(1) as f64
    };
    let first = words.first().map_or("", String::as_str);
    let lines: Vec<&str> = prompt.lines().filter(|line| !line.trim().is_empty()).collect();
    let is_first = situation.prompts_before == 0;
    // Some scripts have no spaces: two characters count as one word.
    let length = words.len() + prompt.chars().filter(|c| is_unspaced(*c)).count() / 2;
    let is_short = length <= 6;
    let mut features = Features::default();
    features.add("first of its session", is_first);
    features.add("second of its session", situation.prompts_before == 1);
    features.add("place", f64::from(1 + situation.prompts_before.min(30)).ln());
    features.add("words", (1.0 + length as f64).ln());
    features.add("short and later", is_short && !is_first);
    features.add("very short", length <= 3);
    features.add("long", length > 60);
    features.add("asks", has_question_mark(prompt));
    features.add("begins as a question", ASKING.contains(&first));
    features.add("is a command of the agent", prompt.starts_with('/'));
    features.count("names", names.len(), 6);
    features.count("names that the answer lacks", if is_first { 0 } else { new_names }, 6);
    features.add("share known from the answer", known as f64 / long.len().max(1) as f64);
    features.add("answer asked", situation.answer_before.trim_end().ends_with('?'));
    features.add("answer asked near its end", tail(situation.answer_before).contains('?'));
    features.count("lines", lines.len(), 20);
    features.add(
        "has code",
        prompt.contains("```") || lines.iter().any(|line| line.starts_with(['+', '-', '@', '$', '>'])),
    );
    features.add("has a link", prompt.contains("://"));
    features.add("outward", share(OUTWARD));
    features.add("inward", share(INWARD));
    features.add("assent", share(ASSENT));
    features.add("begins with assent", ASSENT.contains(&first));
    features.add("routine", share(ROUTINE));
    features.count("long words", long.len(), 30);
    features
}

/// Whether a script is written without spaces: kana, Chinese characters, Thai.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{0e00}'..='\u{0e7f}')
}

/// Whether a word names something: an identifier, a path, a word with an inner capital, or a capitalised word inside a
/// sentence.
fn is_name(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '#');
    is_code(bare) || bare.starts_with('#') || bare.chars().skip(1).any(char::is_uppercase)
}

fn head(text: &str) -> &str {
    (0..=LONGEST.min(text.len())).rev().find_map(|at| text.get(..at)).unwrap_or_default()
}

/// The last words of an answer.
fn tail(text: &str) -> &str {
    let text = text.trim_end();
    (text.len().saturating_sub(300)..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}

fn before(answer: &str) -> HashSet<String> {
    head(answer)
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.chars().count() > 2)
        .map(|word| stem(&word.to_lowercase()))
        .collect()
}
