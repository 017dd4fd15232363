//! Splits text into terms for indexing and searching.
//!
//! Prose becomes stemmed words. Code keeps every form that somebody may search for: `src/auth/getUserName.ts` yields
//! the path, the file name, `getusername` and each of `src auth get user name ts`. Parts have consecutive positions,
//! so a phrase of parts finds an identifier in any spelling, and joined spellings (`max_size`, `maxSize`, `max-size`)
//! share one compound term. Only plain words and parts are stemmed, not compounds, hashes or anything with a digit.
//!
//! Runs of Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer are indexed as single characters and as overlapping
//! pairs. Accents are removed, British spellings are Americanised, and the first seven digits of a hexadecimal hash
//! are a separate term, because people cite commits that way.

use std::ops::Range;

use tantivy::tokenizer::{
    AsciiFoldingFilter, RawTokenizer, TextAnalyzer, Token as IndexToken, TokenStream, Tokenizer,
};

/// The name of this tokenizer in the index.
pub(crate) const NAME: &str = "recall_code";

/// The maximum length of a word in bytes. Longer ones are encoded data, not language, and are dropped.
const MAX_WORD: usize = 64;
/// The maximum length of a compound in bytes. Longer ones are dropped, but their parts stay.
const MAX_COMPOUND: usize = 120;
/// The number of digits of a hash that git shows by default.
const SHORT_HASH: usize = 7;

/// The form of a term in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A separate word.
    Word,
    /// A word inside a compound.
    Part,
    /// Several parts written as one: a path, a file name, an identifier.
    Compound,
    /// The short form of a hash, which is a separate term.
    ShortHash,
    /// A single character of a script written without spaces.
    Character,
    /// Two neighbouring characters of such a script.
    Pair,
}

/// A term and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub form: Form,
    /// The position, counted in parts. A compound has the position of its first part.
    pub position: usize,
    /// The byte range in the original text.
    pub span: Range<usize>,
}

/// Splits text into terms. Cheap to clone. Documents and queries use the same analyzer.
#[derive(Clone)]
pub struct CodeTokenizer {
    folding: TextAnalyzer,
}

impl Default for CodeTokenizer {
    fn default() -> Self {
        let folding = TextAnalyzer::builder(RawTokenizer::default()).filter(AsciiFoldingFilter).build();
        Self { folding }
    }
}

impl CodeTokenizer {
    /// Returns all terms of the text, ordered by position, a compound before its parts.
    pub fn tokens(&mut self, text: &str) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut position = 0;
        let stemmer = frostem::Stemmer::new(frostem::Algorithm::English);
        for run in Runs::over(text) {
            let Some(run_text) = text.get(run.span.clone()) else { continue };
            match run.script {
                Script::Spaced => {
                    let mut cut = Cut {
                        folding: &mut self.folding,
                        stemmer: &stemmer,
                        tokens: &mut tokens,
                        position,
                        offset: run.span.start,
                    };
                    cut.compound(run_text);
                    position = cut.position;
                }
                Script::Unspaced => position = cut_unspaced(run_text, &run, position, &mut tokens),
            }
        }
        tokens
    }
}

/// How a run of text is divided into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    Spaced,
    Unspaced,
}

struct Run {
    span: Range<usize>,
    script: Script,
}

/// Iterates over maximal runs of word characters and the joiners between them.
struct Runs<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Runs<'a> {
    fn over(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self, from: usize) -> &'a str {
        self.text.get(from..).unwrap_or_default()
    }

    /// Returns the end of a spaced run that starts at `start`.
    fn spaced_end(&self, start: usize) -> usize {
        let mut end = start;
        loop {
            let rest = self.rest(end);
            let word: usize =
                rest.chars().take_while(|c| is_word(*c) && !is_unspaced(*c)).map(char::len_utf8).sum();
            end += word;
            let rest = self.rest(end);
            let joiner = joiner_len(rest);
            let follows = rest.get(joiner..).and_then(|after| after.chars().next());
            if joiner == 0 || !follows.is_some_and(|c| is_word(c) && !is_unspaced(c)) {
                return end;
            }
            end += joiner;
        }
    }

    /// Skips the ending of a contraction or possessive (`'s`, `'t`, `'ll`) that follows at `end`.
    fn skip_contraction(&self, end: usize) -> usize {
        let mut rest = self.rest(end).chars();
        let Some(quote @ ('\'' | '\u{2019}')) = rest.next() else { return end };
        let letters = rest.clone().take_while(|c| c.is_alphabetic()).count();
        let next = rest.clone().nth(letters);
        if !(1..=2).contains(&letters) || next.is_some_and(is_word) {
            return end;
        }
        end + quote.len_utf8() + rest.take(letters).map(char::len_utf8).sum::<usize>()
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let skipped: usize =
            self.rest(self.at).chars().take_while(|c| !is_word(*c)).map(char::len_utf8).sum();
        let start = self.at + skipped;
        let first = self.rest(start).chars().next()?;
        if is_unspaced(first) {
            let len: usize =
                self.rest(start).chars().take_while(|c| is_unspaced(*c)).map(char::len_utf8).sum();
            self.at = start + len;
            return Some(Run { span: start..self.at, script: Script::Unspaced });
        }
        let end = self.spaced_end(start);
        self.at = self.skip_contraction(end);
        Some(Run { span: start..end, script: Script::Spaced })
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || is_combining(c)
}

/// Accents that follow their letter instead of being part of it.
fn is_combining(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

/// Whether the script is written without spaces between words, by Unicode block.
fn is_unspaced(c: char) -> bool {
    is_unspaced_abugida(c)
        || matches!(c,
            '\u{3040}'..='\u{30ff}'     // Hiragana, Katakana
            | '\u{3400}'..='\u{4dbf}'   // Han, extension A
            | '\u{4e00}'..='\u{9fff}'   // Han
            | '\u{ac00}'..='\u{d7af}'   // Hangul
            | '\u{f900}'..='\u{faff}'   // Han, compatibility
            | '\u{20000}'..='\u{3134f}' // Han, extensions B to G
        ) && c.is_alphanumeric()
}

/// Whether the character is a letter, vowel sign or tone mark of such a script; digits and punctuation are not.
fn is_unspaced_abugida(c: char) -> bool {
    matches!(c,
        '\u{e01}'..='\u{e3a}' | '\u{e40}'..='\u{e4e}'         // Thai
        | '\u{e81}'..='\u{ebd}' | '\u{ec0}'..='\u{ecd}'       // Lao
        | '\u{1000}'..='\u{103f}' | '\u{1050}'..='\u{109d}'   // Burmese
        | '\u{1780}'..='\u{17d3}'                             // Khmer
    )
}

/// Returns the length in bytes of the joiner at the start of `rest`: a dot, a dash, or up to three path characters as
/// in `::` and `://`.
fn joiner_len(rest: &str) -> usize {
    let path = rest.bytes().take(3).take_while(|byte| PATH_JOINERS.contains(byte)).count();
    if path > 0 {
        return path;
    }
    usize::from(rest.starts_with(['.', '-']))
}

const PATH_JOINERS: &[u8] = b"/\\:@";

/// Splits one spaced run.
struct Cut<'a> {
    folding: &'a mut TextAnalyzer,
    stemmer: &'a frostem::Stemmer,
    tokens: &'a mut Vec<Token>,
    position: usize,
    /// The offset at which the run starts in the text.
    offset: usize,
}

impl Cut<'_> {
    /// Splits paths and qualified names: `a/b.c`, `std::io`, `https://host/path`.
    fn compound(&mut self, run: &str) {
        let mut pieces = split_spans(run, |c| u8::try_from(c).is_ok_and(|byte| PATH_JOINERS.contains(&byte)));
        if let [_] = pieces.as_slice() {
            return self.dotted(run, 0, Form::Word);
        }
        self.push_compound(run.replace('\\', "/"), 0..run.len());
        for piece in pieces.drain(..) {
            let text = run.get(piece.clone()).unwrap_or_default();
            self.dotted(text, piece.start, Form::Part);
        }
    }

    /// Splits file names and fields: `login.rs`, `terminal.ParentColors`.
    fn dotted(&mut self, text: &str, start: usize, alone: Form) {
        let pieces = split_spans(text, |c| c == '.');
        if let [_] = pieces.as_slice() {
            return self.identifier(text, start, alone);
        }
        self.push_compound(text.to_owned(), start..start + text.len());
        for piece in pieces {
            let part = text.get(piece.clone()).unwrap_or_default();
            self.identifier(part, start + piece.start, Form::Part);
        }
    }

    /// Splits names of several words in any spelling: `maxSize`, `max_size`, `max-size`.
    fn identifier(&mut self, text: &str, start: usize, alone: Form) {
        let words: Vec<Range<usize>> = split_spans(text, |c| c == '_' || c == '-')
            .into_iter()
            .flat_map(|piece| {
                let word = text.get(piece.clone()).unwrap_or_default();
                camel_spans(word)
                    .into_iter()
                    .map(move |span| piece.start + span.start..piece.start + span.end)
            })
            .collect();
        let form = if words.len() > 1 { Form::Part } else { alone };
        if words.len() > 1 {
            let joined: String = text.chars().filter(|c| !matches!(c, '_' | '-')).collect();
            self.push_compound(joined, start..start + text.len());
        }
        for word in words {
            let span = start + word.start..start + word.end;
            self.push_word(text.get(word).unwrap_or_default(), span, form);
        }
    }

    fn push_compound(&mut self, text: String, span: Range<usize>) {
        if text.len() <= MAX_COMPOUND {
            let text = fold(self.folding, &text);
            self.push(text, Form::Compound, span);
        }
    }

    fn push_word(&mut self, word: &str, span: Range<usize>, form: Form) {
        if word.len() <= MAX_WORD {
            let folded = fold(self.folding, word);
            if is_hash(&folded)
                && let Some(short) = folded.get(..SHORT_HASH)
            {
                let short = short.to_owned();
                self.push(short, Form::ShortHash, span.clone());
            }
            let stemmed = stem(self.stemmer, folded);
            self.push(stemmed, form, span);
        }
        self.position += 1;
    }

    fn push(&mut self, text: String, form: Form, span: Range<usize>) {
        if !text.is_empty() {
            let span = self.offset + span.start..self.offset + span.end;
            self.tokens.push(Token { text, form, position: self.position, span });
        }
    }
}

/// Returns the non-empty pieces between separators.
fn split_spans(text: &str, is_separator: impl Fn(char) -> bool) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices() {
        if is_separator(c) {
            if at > start {
                spans.push(start..at);
            }
            start = at + c.len_utf8();
        }
    }
    if text.len() > start {
        spans.push(start..text.len());
    }
    spans
}

/// Splits a name in mixed case into words: `parseHTTPRequest` becomes `parse`, `HTTP`, `Request`. Digits stay with the
/// letters before them (`utf8`, `sha256`).
fn camel_spans(word: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut start = 0;
    let mut before: Option<char> = None;
    let mut chars = word.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let follows_lower = before.is_some_and(|b| b.is_lowercase() || b.is_numeric());
        let ends_acronym = before.is_some_and(char::is_uppercase)
            && chars.peek().is_some_and(|(_, next)| next.is_lowercase());
        // A hash that contains capitals is not a name, so digits before a capital split only after a lower-case letter
        // of this word.
        if c.is_uppercase() && at > start && (follows_lower || ends_acronym) && has_lowercase(word) {
            spans.push(start..at);
            start = at;
        }
        before = Some(c);
    }
    if word.len() > start {
        spans.push(start..word.len());
    }
    spans
}

fn has_lowercase(word: &str) -> bool {
    word.chars().any(char::is_lowercase)
}

fn cut_unspaced(run_text: &str, run: &Run, first: usize, tokens: &mut Vec<Token>) -> usize {
    let chars: Vec<(usize, char)> = run_text.char_indices().collect();
    for (index, (at, c)) in chars.iter().enumerate() {
        let position = first + index;
        let start = run.span.start + at;
        let end = start + c.len_utf8();
        tokens.push(Token { text: c.to_string(), form: Form::Character, position, span: start..end });
        if let Some((_, next)) = chars.get(index + 1) {
            let pair = String::from_iter([*c, *next]);
            tokens.push(Token { text: pair, form: Form::Pair, position, span: start..end + next.len_utf8() });
        }
    }
    first + chars.len()
}

/// Converts to lower case without accents.
fn fold(folding: &mut TextAnalyzer, text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let lower: String = text.chars().flat_map(char::to_lowercase).filter(|c| !is_combining(*c)).collect();
    let mut stream = folding.token_stream(&lower);
    if stream.advance() { std::mem::take(&mut stream.token_mut().text) } else { String::new() }
}

/// Whether the word is hexadecimal with letters and digits, and long enough to have a short form.
fn is_hash(word: &str) -> bool {
    word.len() > SHORT_HASH
        && word.bytes().all(|b| b.is_ascii_hexdigit())
        && word.bytes().any(|b| b.is_ascii_digit())
        && word.bytes().any(|b| b.is_ascii_alphabetic())
}

/// Returns the stem of an English word, and anything else unchanged.
fn stem(stemmer: &frostem::Stemmer, word: String) -> String {
    if word.len() < 3 || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return word;
    }
    let stemmed = stemmer.stem(&americanised(&word)).into_owned();
    // Applied to the stem, which covers colours, coloured and colouring.
    match stemmed.strip_suffix("our") {
        Some(head) if head.len() >= 3 => format!("{head}or"),
        _ => stemmed,
    }
}

/// Converts `-ise` and `-yse` with their inflections to z. Words that only look alike (`promise`) change in both
/// documents and queries, so they still match.
fn americanised(word: &str) -> String {
    const ENDINGS: [(&str, &str); 12] = [
        ("isations", "izations"),
        ("isation", "ization"),
        ("ising", "izing"),
        ("ised", "ized"),
        ("ises", "izes"),
        ("iser", "izer"),
        ("isers", "izers"),
        ("ise", "ize"),
        ("ysing", "yzing"),
        ("ysed", "yzed"),
        ("yses", "yzes"),
        ("yse", "yze"),
    ];
    ENDINGS
        .iter()
        .find_map(|(british, american)| {
            word.strip_suffix(british).filter(|head| head.len() >= 3).map(|head| format!("{head}{american}"))
        })
        .unwrap_or_else(|| word.to_owned())
}

impl Tokenizer for CodeTokenizer {
    type TokenStream<'a> = TokenList;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> TokenList {
        TokenList { tokens: self.tokens(text).into_iter(), current: IndexToken::default() }
    }
}

/// The terms of one text in the form that tantivy reads.
pub struct TokenList {
    tokens: std::vec::IntoIter<Token>,
    current: IndexToken,
}

impl TokenStream for TokenList {
    fn advance(&mut self) -> bool {
        let Some(token) = self.tokens.next() else { return false };
        self.current = IndexToken {
            offset_from: token.span.start,
            offset_to: token.span.end,
            position: token.position,
            text: token.text,
            position_length: 1,
        };
        true
    }

    fn token(&self) -> &IndexToken {
        &self.current
    }

    fn token_mut(&mut self) -> &mut IndexToken {
        &mut self.current
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let tokens = CodeTokenizer::default().tokens(text);
        let terms: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
        assert_eq!(terms.join(" "), expected, "for {text:?}");
    }

    #[test]
    fn prose_is_stemmed_and_folded() {
        check("Connections were failing", "connect were fail");
        check("Café NAÏVE straße", "cafe naiv strass");
        check("cafe\u{301}", "cafe");
        check("colours behaviour hour", "color behavior hour");
        check("serialise serialize serialisation", "serial serial serial");
        check("the user's cache doesn\u{2019}t", "the user cach doesn");
        check("O'Brien", "o brien");
    }

    #[test]
    fn identifiers_are_indexed_whole_and_in_parts() {
        check("getUserName", "getusername get user name");
        check("max_doc_size", "maxdocsize max doc size");
        check("no-cache", "nocache no cach");
        check("parseHTTPRequest", "parsehttprequest pars http request");
        check("MAX_SIZE", "maxsize max size");
        check("utf8 sha256 HTTPServer2", "utf8 sha256 httpserver2 http server2");
        check("__init__", "init");
    }

    #[test]
    fn paths_and_qualified_names_are_indexed_whole_and_in_parts() {
        check("src/auth/login.rs", "src/auth/login.rs src auth login.rs login rs");
        check(r"C:\Temp\a.txt", "c:/temp/a.txt c temp a.txt a txt");
        check("std::io::Read", "std::io::read std io read");
        check("terminal.ParentColors", "terminal.parentcolors termin parentcolors parent color");
        check("see login.rs.", "see login.rs login rs");
        check("https://a.io/b", "https://a.io/b https a.io a io b");
    }

    #[test]
    fn numbers_stay_whole_and_hashes_also_yield_seven_digits() {
        check("#7660", "7660");
        check("2b47979a", "2b47979 2b47979a");
        check("2B47979A", "2b47979 2b47979a");
        check("20260821 v1.2.3 -1", "20260821 v1.2.3 v1 2 3 1");
    }

    #[test]
    fn scripts_without_spaces_yield_characters_and_pairs() {
        check("登录慢", "登 登录 录 录慢 慢");
        check("用户login慢", "用 用户 户 login 慢");
        check("Привет МИР", "привет мир");
        check("ส่งไป 12", "ส ส่ \u{e48} \u{e48}ง ง งไ ไ ไป ป 12");
        check("ສະບາຍ", "ສ ສະ ະ ະບ ບ ບາ າ າຍ ຍ");
    }

    #[test]
    fn empty_text_punctuation_and_overlong_words_yield_no_terms() {
        check("", "");
        check("--- ... ?!", "");
        check(&"x".repeat(1000), "");
    }

    #[test]
    fn spellings_of_one_name_share_a_term_and_positions() {
        for spelling in ["maxDocSize", "max_doc_size", "max-doc-size", "MaxDocSize"] {
            let tokens = CodeTokenizer::default().tokens(spelling);
            let places: Vec<(&str, usize)> = tokens.iter().map(|t| (t.text.as_str(), t.position)).collect();
            assert_eq!(places, [("maxdocsize", 0), ("max", 0), ("doc", 1), ("size", 2)], "{spelling}");
        }
    }

    proptest! {
        #[test]
        fn any_text_yields_ordered_terms_inside_the_text(text in "\\PC{0,80}|[a-zA-Z0-9_./:'登录é\u{301}-]{0,60}") {
            let tokens = CodeTokenizer::default().tokens(&text);
            for pair in tokens.windows(2) {
                prop_assert!(pair[0].position <= pair[1].position);
            }
            for token in &tokens {
                prop_assert!(text.get(token.span.clone()).is_some());
                prop_assert!(!token.text.is_empty());
            }
        }
    }
}
