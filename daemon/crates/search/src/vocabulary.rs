//! How informative a word is before counting any documents.
//!
//! In a young project every word is rare, so counts alone would mistake "run the tests" for a topic. These lists give
//! each word an expected share of documents, which [`recall_domain::ranking`] combines with the counts. No word is
//! ever dropped: even a query of only function words finds something.

use std::collections::HashSet;
use std::sync::LazyLock;

use recall_domain::ranking::Commonness;

use super::tokenizer::CodeTokenizer;

/// Grammatical words.
const FUNCTION_WORDS: &str = "a about above after again all also am an and any are aren as at be because been \
    before being below between both but by can cannot could couldn d did didn do does doesn doing don down during \
    each either else ever every few for from further get gets got had hadn has hasn have haven having he her here \
    hers him his how i if in into is isn it its itself just let ll like m many may me might more most much must my \
    no nor not now of off on once one only or other our ours out over own per rather re s same shall she should \
    shouldn so some such t than that the their theirs them themselves then there these they this those though \
    through to too under until up upon us ve very via was wasn we were weren what when where whether which while \
    who whom whose why will with within without won would wouldn yet you your yours yourself";

/// Words that instruct an agent and say nothing about the subject.
const COMMAND_WORDS: &str = "able actually add ahead already another approach ask back better big bit branch bug build call case \
    cause change check clean code comment commit complete continue cool correct create current debug \
    delete describe detail different directory do done easy edit error everything exactly example exist \
    existing explain fail fast feature file find fine finish first fix fixed folder full function give \
    go good great happen hello help hey hi idea implement improve instead issue job keep kind know last \
    later left line lint list little long look main make maybe merge message method missing move name \
    need new next nice note nothing number ok okay old open option output part perfect place plan please \
    point possible pr problem proceed project pull push put question quick read readme ready really \
    reason refactor remove rename repo repository request rerun rest result review rewrite right run \
    same save say second see seem set ship short show simple slightly small something sort start started \
    state status step still stop style suggestion summary support sure take task tell test thank thanks \
    thing think third time today tomorrow tool try two type understand undo update use using verify \
    version wait want way well whole work working worth write wrong yeah yes yesterday";

/// Words that mark a text as a rule, whatever its subject.
const RULING_WORDS: &str = "always avoid careful ensure never prefer require";

static STEMMED_RULING_WORDS: LazyLock<HashSet<String>> = LazyLock::new(|| stems(RULING_WORDS));
static STEMMED_FUNCTION_WORDS: LazyLock<HashSet<String>> = LazyLock::new(|| stems(FUNCTION_WORDS));
static STEMMED_COMMAND_WORDS: LazyLock<HashSet<String>> = LazyLock::new(|| stems(COMMAND_WORDS));

fn stems(words: &str) -> HashSet<String> {
    CodeTokenizer::default().tokens(words).into_iter().map(|token| token.text).collect()
}

/// Numbers with at most this many digits are counts or choices; longer ones are names.
const SMALL_NUMBER_DIGITS: usize = 2;

/// Whether a term from the tokenizer marks a text as a rule.
pub(crate) fn is_ruling(term: &str) -> bool {
    STEMMED_RULING_WORDS.contains(term)
}

/// Classifies a term from the tokenizer.
pub fn commonness(term: &str) -> Commonness {
    if term.len() <= SMALL_NUMBER_DIGITS && term.bytes().all(|byte| byte.is_ascii_digit()) {
        Commonness::Command
    } else if STEMMED_FUNCTION_WORDS.contains(term) {
        Commonness::Function
    } else if STEMMED_COMMAND_WORDS.contains(term) {
        Commonness::Command
    } else {
        Commonness::Content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inflected_words_are_classified_like_their_base_word() {
        for (words, expected) in [
            ("the what don't", Commonness::Function),
            ("run running tests fixes thanks 2 14", Commonness::Command),
            ("login slow bcrypt 7660", Commonness::Content),
        ] {
            for token in CodeTokenizer::default().tokens(words) {
                assert_eq!(commonness(&token.text), expected, "{}", token.text);
            }
        }
    }
}
