//! How telling a word is before any document was counted.
//!
//! In a young project every word is rare, so counting alone would take "run the tests" for a topic. The lists give
//! each word the share of documents it is expected in anywhere; [`crate::memory::ranking`] mixes that expectation
//! with what was counted. No word is ever dropped: a query of nothing but function words still finds something.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::memory::ranking::Commonness;

use super::tokenizer::CodeTokenizer;

/// Words that hold sentences together.
const FUNCTION_WORDS: &str = "a about above after again all also am an and any are aren as at be because been \
    before being below between both but by can cannot could couldn d did didn do does doesn doing don down during \
    each either else ever every few for from further get gets got had hadn has hasn have haven having he her here \
    hers him his how i if in into is isn it its itself just let ll like m many may me might more most much must my \
    no nor not now of off on once one only or other our ours out over own per rather re s same shall she should \
    shouldn so some such t than that the their theirs them themselves then there these they this those though \
    through to too under until up upon us ve very via was wasn we were weren what when where whether which while \
    who whom whose why will with within without won would wouldn yet you your yours yourself";

/// Words that steer an agent and say nothing about the subject.
const COMMAND_WORDS: &str = "able actually add ahead already another ask back bit branch bug build call change \
    check clean code come commit complete continue correct create current cool debug delete different done edit \
    error everything exactly example exist existing explain fail feature file find fine finish first fix fixed \
    function give go good great happen hello help hey hi implement instead issue keep know last later line lint \
    list look main make maybe merge method missing move need new next nice nothing ok okay old open perfect please \
    possible problem proceed project pull push put question quick read ready really refactor remove rename \
    repository request rerun result review rewrite right run same save say see seem set show simple something \
    start started still stop summary support sure take task tell test thank thanks thing think time today try \
    type update use using verify wait want way well whole work working write wrong yeah yes";

static STEMMED_FUNCTION_WORDS: LazyLock<HashSet<String>> = LazyLock::new(|| stems(FUNCTION_WORDS));
static STEMMED_COMMAND_WORDS: LazyLock<HashSet<String>> = LazyLock::new(|| stems(COMMAND_WORDS));

fn stems(words: &str) -> HashSet<String> {
    CodeTokenizer::default().tokens(words).into_iter().map(|token| token.text).collect()
}

/// Places a term (as the tokenizer writes it).
pub fn commonness(term: &str) -> Commonness {
    if STEMMED_FUNCTION_WORDS.contains(term) {
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
    fn inflections_are_placed_with_their_word() {
        for (words, expected) in [
            ("the what don't", Commonness::Function),
            ("run running tests fixes thanks", Commonness::Command),
            ("login slow bcrypt 7660", Commonness::Content),
        ] {
            for token in CodeTokenizer::default().tokens(words) {
                assert_eq!(commonness(&token.text), expected, "{}", token.text);
            }
        }
    }
}
