//! Hints: the user's own texts, injected with a prompt that contains one of their words.

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::text::pattern_fault;
use super::tokens::Measure;

/// The maximum number of hints.
const MOST_HINTS: usize = 100;
/// The number of bytes of a prompt that are searched.
const MOST_PROMPT: usize = 16 << 10;
/// The maximum compiled size of a pattern, in bytes.
const MOST_PATTERN: usize = 1 << 20;

/// A `[[hint]]` as configured.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hint {
    /// A word, or a regular expression that must match whole words. Case is ignored.
    pub pattern: String,
    /// The text for the model.
    pub text: String,
}

/// The user's hints, compiled.
#[derive(Clone, Debug, Default)]
pub struct Hints(Vec<(Regex, Hint)>);

impl Hints {
    /// # Errors
    /// A hint is empty, or its pattern is not valid; the message begins with the key.
    pub fn new(hints: &[Hint]) -> Result<Self, String> {
        if hints.len() > MOST_HINTS {
            return Err(format!("hint: at most {MOST_HINTS} hints are allowed"));
        }
        let compiled = hints.iter().map(|hint| Ok((compile(hint)?, hint.clone())));
        compiled.collect::<Result<_, String>>().map(Self)
    }

    /// Returns the hints for a prompt that fit into `tokens`, in the order of the file.
    pub fn for_prompt(&self, prompt: &str, tokens: u32) -> Option<Given> {
        let prompt = prompt.get(..prompt.floor_char_boundary(MOST_PROMPT)).unwrap_or(prompt);
        let mut given = Given { text: String::new(), tokens: 0, hints: 0 };
        for (pattern, hint) in &self.0 {
            if !pattern.is_match(prompt) {
                continue;
            }
            let line = format!("The user's hint for `{}`: {}\n", hint.pattern, hint.text.trim());
            let cost = Measure::of(&line).spent();
            if given.tokens + cost > tokens {
                continue;
            }
            given.text.push_str(&line);
            given.tokens += cost;
            given.hints += 1;
        }
        (given.hints > 0).then_some(given)
    }
}

/// The hints that match a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// One line per hint, or more if the hint has several lines.
    pub text: String,
    pub tokens: u32,
    pub hints: usize,
}

fn compile(Hint { pattern, text }: &Hint) -> Result<Regex, String> {
    if pattern.trim().is_empty() {
        return Err("hint.pattern is empty".to_owned());
    }
    if text.trim().is_empty() {
        return Err("hint.text is empty".to_owned());
    }
    let unusable = |error: &regex::Error| {
        format!("hint.pattern: `{pattern}` is not a valid pattern: {}", pattern_fault(error))
    };
    // Compiled on its own first: a stray parenthesis could otherwise close the group added below.
    let limited = |pattern: &str| {
        let mut built = RegexBuilder::new(pattern);
        built.case_insensitive(true).size_limit(MOST_PATTERN).build().map_err(|error| unusable(&error))
    };
    limited(pattern.trim())?;
    // `\b` would not match words such as `c++`.
    let anchored = format!(r"(?:^|[^\w]){}(?:$|[^\w])", format_args!("(?:{})", pattern.trim()));
    let regex = limited(&anchored)?;
    if regex.is_match("") {
        return Err(format!("hint.pattern: `{pattern}` matches everything"));
    }
    Ok(regex)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hints(pairs: &[(&str, &str)]) -> Result<Hints, String> {
        let hints: Vec<Hint> = pairs
            .iter()
            .map(|(pattern, text)| Hint { pattern: (*pattern).to_owned(), text: (*text).to_owned() })
            .collect();
        Hints::new(&hints)
    }

    #[test]
    fn a_pattern_matches_whole_words_in_any_case() {
        let hints = hints(&[("tdd", "Test first."), ("deep ?search|c\\+\\+", "Look everywhere.")]).unwrap();
        let given = |prompt: &str| hints.for_prompt(prompt, 500).map_or(0, |given| given.hints);
        for (prompt, expected) in [
            ("Use TDD here", 1),
            ("tdd", 1),
            ("(tdd)", 1),
            ("stddev of tddx", 0),
            ("do a deepsearch, with tdd", 2),
            ("port it to C++", 1),
            ("", 0),
        ] {
            assert_eq!(given(prompt), expected, "{prompt}");
        }
        let injected = hints.for_prompt("tdd", 500).unwrap();
        assert_eq!(injected.text, "The user's hint for `tdd`: Test first.\n");
    }

    #[test]
    fn hints_stay_within_the_budget() {
        let long = "word ".repeat(300);
        let hints = hints(&[("plan", &long), ("tdd", "Test first.")]).unwrap();
        let given = hints.for_prompt("plan tdd", 50).unwrap();
        assert_eq!(
            given.text, "The user's hint for `tdd`: Test first.\n",
            "what does not fit is left out whole"
        );
        assert!(given.tokens <= 50);
        assert_eq!(hints.for_prompt("plan tdd", 0), None);
    }

    #[test]
    fn an_invalid_hint_is_rejected_with_the_reason() {
        for (pattern, text, expected) in [
            (" ", "x", "hint.pattern is empty"),
            ("tdd", " ", "hint.text is empty"),
            ("(", "x", "hint.pattern: `(` is not a valid pattern: unclosed group"),
            ("a)(b", "x", "hint.pattern: `a)(b` is not a valid pattern: unopened group"),
            (".*", "x", "hint.pattern: `.*` matches everything"),
        ] {
            assert_eq!(hints(&[(pattern, text)]).unwrap_err(), expected);
        }
    }

    proptest! {
        #[test]
        fn hints_for_any_prompt_stay_within_the_token_limit(prompt in "\\PC{0,200}", tokens in 0_u32..200) {
            let hints = hints(&[("a|b", "x"), ("\\w+", "y")]).unwrap();
            let given = hints.for_prompt(&prompt, tokens);
            prop_assert!(given.is_none_or(|given| given.tokens <= tokens));
        }
    }
}
