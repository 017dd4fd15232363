//! Which declared names a text is about.

use std::collections::{BTreeSet, HashMap};

use recall_domain::context::Declaration;

use super::{Outline, Spot, place};

/// The number of places from which a declared name is too common to point to one of them.
const MOST_ALIKE: usize = 3;
/// The number of names from which a word is too common to find any alone.
const TOO_COMMON: usize = 2_000;
/// The maximum number of other words between the words of a name.
const BETWEEN: usize = 1;
/// The minimum weight of a name's words that a text contains as words. A word that occurs in one name of a hundred
/// weighs 4.6.
const LEAST_WEIGHT: f64 = 12.0;
/// The maximum length of a text that is examined, in words. Longer texts are pasted.
const MOST_WORDS: usize = 400;

/// How strictly a text is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// For an unasked answer: only what the text certainly is about.
    Unasked,
    /// For somebody who searches for a name.
    Searching,
}

/// A word of a text, as it is written and as it is compared.
struct Token<'t> {
    text: &'t str,
    form: Form,
    /// The enclosing name, such as `Cart` in `Cart::total`.
    before: Option<&'t str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Written in a form that only code has: `snake_case`, `camelCase`, `call()`, `Type::name`, or in backticks.
    Code,
    Word,
}

impl Outline {
    /// The places that a text is about, the best first.
    pub fn related(&self, text: &str, asked: Asked, most: usize) -> Vec<Declaration> {
        let tokens = tokens(text);
        let mut scores: HashMap<Spot, f64> = HashMap::new();
        for token in tokens.iter().filter(|token| token.form == Form::Code || asked == Asked::Searching) {
            for (spot, score) in self.named(token, asked) {
                let best = scores.entry(spot).or_insert(score);
                *best = best.max(score);
            }
        }
        for (spot, score) in self.described(&tokens, asked) {
            scores.entry(spot).or_insert(score);
        }
        let mentions_test = tokens.iter().any(|token| token.text.to_lowercase().starts_with("test"));
        let mut found: Vec<(f64, Declaration)> = scores
            .into_iter()
            .filter_map(|(spot, score)| {
                let (file, declared) = self.at(spot)?;
                let is_test = !mentions_test && is_of_tests(&file.path, &declared.name);
                Some((if is_test { score / 2.0 } else { score }, place(file, declared)))
            })
            .collect();
        found.sort_by(|(a, one), (b, other)| {
            b.total_cmp(a).then_with(|| (&one.file, one.line).cmp(&(&other.file, other.line)))
        });
        found.into_iter().map(|(_, place)| place).take(most).collect()
    }

    /// The places of the name that equals a token.
    fn named(&self, token: &Token<'_>, asked: Asked) -> Vec<(Spot, f64)> {
        let Some(spots) = self.names.get(token.text) else { return Vec::new() };
        let of = |spot: &Spot| {
            let (_, declared) = self.at(*spot)?;
            (token.before == Some(&*declared.within)).then_some(*spot)
        };
        let of: Vec<Spot> = spots.iter().filter_map(of).collect();
        let spots = if of.is_empty() { spots } else { &of };
        if spots.len() > MOST_ALIKE && asked == Asked::Unasked {
            return Vec::new();
        }
        let score = 100.0 / spots.len() as f64;
        spots.iter().map(|spot| (*spot, score)).collect()
    }

    /// The places of names that are written as words: "the passage cache" is `PassageCache`.
    fn described(&self, tokens: &[Token<'_>], asked: Asked) -> Vec<(Spot, f64)> {
        let text: Vec<String> = tokens.iter().flat_map(|token| words(token.text)).collect();
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for word in text.iter().collect::<BTreeSet<_>>() {
            let Some(spots) = self.words.get(word.as_str()).filter(|spots| spots.len() <= TOO_COMMON) else {
                continue;
            };
            for spot in spots.iter().filter(|spot| seen.insert(**spot)) {
                let Some((_, declared)) = self.at(*spot) else { continue };
                let alike = self.names.get(&declared.name).map_or(0, Vec::len);
                let name = words_of_name(&declared.name);
                let weight: f64 = name.iter().map(|word| self.weight(word)).sum();
                let is_described = alike <= MOST_ALIKE && weight >= LEAST_WEIGHT && are_near(&text, &name);
                let is_found = asked == Asked::Searching && name.iter().all(|word| text.contains(word));
                if is_described || is_found {
                    found.push((*spot, weight / alike.max(1) as f64));
                }
            }
        }
        found
    }

    /// The weight of a word, which grows with its rarity.
    fn weight(&self, word: &str) -> f64 {
        let with = self.words.get(word).map_or(1, Vec::len).max(1);
        (self.declared as f64 / with as f64).ln().max(0.0)
    }
}

fn is_of_tests(path: &str, name: &str) -> bool {
    path.split(['/', '.', '_', '-']).any(|part| matches!(part, "test" | "tests" | "spec" | "e2e"))
        || name.starts_with("test_")
}

/// Whether a text contains all these words, with few others in between.
fn are_near(text: &[String], name: &BTreeSet<String>) -> bool {
    let within = (name.len() + BETWEEN).min(text.len());
    within >= name.len() && text.windows(within).any(|window| name.iter().all(|word| window.contains(word)))
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut end_before = 0;
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let mut rest = text.char_indices().peekable();
    while let Some((start, first)) = rest.next() {
        if !is_part(first) {
            continue;
        }
        let mut end = start + first.len_utf8();
        while let Some((at, c)) = rest.next_if(|(_, c)| is_part(*c)) {
            end = at + c.len_utf8();
        }
        let (word, gap) = (&text[start..end], &text[end_before..start]);
        let behind = &text[end..];
        let before = tokens.last().filter(|_| matches!(gap, "::" | "." | "#" | "->")).map(|it| it.text);
        let is_quoted = gap.ends_with('`') && behind.starts_with(['`', '(']);
        let is_code = is_quoted || behind.starts_with("()") || gap == "::" || is_mixed(word);
        let form = if is_code && word.len() > 2 { Form::Code } else { Form::Word };
        tokens.push(Token { text: word, form, before });
        end_before = end;
        if tokens.len() >= MOST_WORDS {
            break;
        }
    }
    tokens
}

/// Whether the text has an underscore inside, or a capital letter after a small one.
fn is_mixed(word: &str) -> bool {
    let inner = word.trim_matches('_');
    inner.contains('_')
        || inner.as_bytes().windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase())
}

/// The words of a name.
pub(crate) fn words_of_name(name: &str) -> BTreeSet<String> {
    words(name).into_iter().collect()
}

/// The words of a piece of text, in lower case and without plural endings.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let chars: Vec<char> = text.chars().collect();
    for (at, c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| chars.get(at));
        let after = chars.get(at + 1);
        let begins = c.is_uppercase()
            && (before.is_some_and(|before| before.is_lowercase() || before.is_numeric())
                || (before.is_some_and(|before| before.is_uppercase())
                    && after.is_some_and(|c| c.is_lowercase())));
        if begins || !c.is_alphanumeric() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
    }
    words.push(word);
    words.retain(|word| word.len() > 1);
    for word in &mut words {
        if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
            word.pop();
        }
    }
    words
}
