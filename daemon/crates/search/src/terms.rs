//! Selects the terms of a query and weights them.

use std::collections::HashMap;

use tantivy::{Searcher, Term};

use recall_domain::ranking::{Commonness, Frequency, information};

use super::long_text::both_ends;
use super::query::Query;
use super::schema::Fields;
use super::tokenizer::{CodeTokenizer, Form, Token};
use super::vocabulary::{commonness, is_ruling};

/// The maximum number of terms per search. Each has a bit in a `u32`, and more than two dozen terms of a long prompt
/// take time without improving the result.
pub(crate) const MOST_TERMS: usize = 24;

/// The number of distinct terms of a long text that are considered. They come from its beginning and end, where people
/// say what they want; the middle of a long prompt is mostly pasted.
const MOST_FIRST: usize = 128;
const MOST_LAST: usize = 48;

/// The number of bytes of a long text that are read at its beginning and end, for the same reason.
const LONGEST_HEAD: usize = 16_384;
const LONGEST_TAIL: usize = 8_192;

/// The weight of a compound's part. The compound is a term too.
const PART_SHARE: f32 = 0.5;

/// A term to search for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueryTerm {
    pub text: String,
    /// The word as it was written.
    pub typed: String,
    /// Its position in the query, counted as in documents.
    pub position: usize,
    /// The share of the term's information that it contributes, from 0 to 1.
    pub share: f32,
    pub commonness: Commonness,
    /// Whether its distance to the next word counts. Compounds overlap their parts.
    pub(crate) has_neighbours: Neighbours,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbours {
    Yes,
    No,
}

/// Returns the terms of a query without duplicates, in order. Function words are dropped unless there is nothing else.
pub(crate) fn query_terms(query: &Query) -> Vec<QueryTerm> {
    let wanted = query.wanted_text();
    let wanted = both_ends(&wanted, LONGEST_HEAD, LONGEST_TAIL);
    let tokens = CodeTokenizer::default().tokens(&wanted);
    let pairs: Vec<usize> =
        tokens.iter().filter(|token| token.form == Form::Pair).map(|token| token.position).collect();
    let mut by_text: HashMap<&str, usize> = HashMap::new();
    let mut terms: Vec<QueryTerm> = Vec::new();
    for token in &tokens {
        if token.form == Form::Character && is_paired(token.position, &pairs) {
            continue;
        }
        let share = share(token);
        match by_text.get(token.text.as_str()).and_then(|index| terms.get_mut(*index)) {
            Some(known) => known.share = known.share.max(share),
            None => {
                by_text.insert(&token.text, terms.len());
                terms.push(QueryTerm {
                    text: token.text.clone(),
                    typed: wanted.get(token.span.clone()).unwrap_or_default().to_owned(),
                    position: token.position,
                    share,
                    commonness: commonness(&token.text),
                    has_neighbours: match token.form {
                        Form::Word | Form::Part | Form::Character | Form::Pair => Neighbours::Yes,
                        Form::Compound | Form::ShortHash => Neighbours::No,
                    },
                });
            }
        }
    }
    if terms.iter().any(|term| term.commonness != Commonness::Function) {
        terms.retain(|term| term.commonness != Commonness::Function);
    }
    if terms.len() > MOST_FIRST + MOST_LAST {
        terms.drain(MOST_FIRST..terms.len() - MOST_LAST);
    }
    terms
}

/// Returns the subjects of a short text: its terms without grammar, instructions and words that mark a rule, each with
/// its share.
pub fn subjects(text: &str) -> Vec<(String, f32)> {
    let terms = query_terms(&Query::plain(text)).into_iter();
    let is_subject = |term: &QueryTerm| term.commonness == Commonness::Content && !is_ruling(&term.text);
    terms.filter(is_subject).map(|term| (term.text, term.share)).collect()
}

/// Whether the position belongs to a pair. `pairs` are in ascending order.
fn is_paired(position: usize, pairs: &[usize]) -> bool {
    let starts = |at: usize| pairs.binary_search(&at).is_ok();
    starts(position) || position.checked_sub(1).is_some_and(starts)
}

fn share(token: &Token) -> f32 {
    match token.form {
        Form::Part => PART_SHARE,
        Form::Word | Form::Compound | Form::ShortHash | Form::Character | Form::Pair => 1.0,
    }
}

/// Selects the most informative terms by their frequency in the whole index, keeping their order.
///
/// A term that the index lacks is the most informative and is kept, because its absence lowers the relevance of all
/// documents. Unknown terms take at most a third of the places, so that they do not displace known ones.
pub(crate) fn select(
    searcher: &Searcher,
    fields: &Fields,
    mut terms: Vec<QueryTerm>,
) -> tantivy::Result<Vec<QueryTerm>> {
    if terms.len() <= MOST_TERMS {
        return Ok(terms);
    }
    let population = u32::try_from(searcher.num_docs()).unwrap_or(u32::MAX);
    let mut known: Vec<(f32, usize)> = Vec::new();
    let mut unknown: Vec<usize> = Vec::new();
    for (index, term) in terms.iter().enumerate() {
        let documents = searcher.doc_freq(&Term::from_field_text(fields.text, &term.text))?;
        if documents == 0 {
            unknown.push(index);
            continue;
        }
        let frequency = Frequency { documents: u32::try_from(documents).unwrap_or(u32::MAX), population };
        known.push((information(frequency, term.commonness) * term.share, index));
    }
    known.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let places_for_unknown = unknown.len().min((MOST_TERMS / 3).max(MOST_TERMS.saturating_sub(known.len())));
    let mut keep = vec![false; terms.len()];
    let chosen = known.iter().map(|(_, index)| *index).take(MOST_TERMS - places_for_unknown);
    for index in chosen.chain(unknown.iter().copied().take(places_for_unknown)) {
        if let Some(place) = keep.get_mut(index) {
            *place = true;
        }
    }
    let mut place = keep.into_iter();
    terms.retain(|_| place.next().unwrap_or(false));
    Ok(terms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::parse;

    #[track_caller]
    fn check(query: &str, expected: &str) {
        let terms: Vec<String> = query_terms(&parse(query))
            .into_iter()
            .map(|term| format!("{}@{}", term.text, term.position))
            .collect();
        assert_eq!(terms.join(" "), expected, "for {query:?}");
    }

    #[test]
    fn function_words_are_dropped_unless_the_query_has_no_others() {
        check("why is the login slow", "login@3 slow@4");
        check("to be or not", "to@0 be@1 or@2 not@3");
        check("", "");
    }

    #[test]
    fn each_term_is_kept_once_at_its_first_position() {
        check("login Login logins", "login@0");
        check("getUserName", "getusername@0 user@1 name@2");
        check("登录慢 x 慢", "登录@0 录慢@1 x@3 慢@4");
    }

    #[test]
    fn a_long_query_keeps_its_first_and_last_terms() {
        let text: Vec<String> = (0..1_000).map(|n| format!("w{n}")).collect();
        let terms = query_terms(&Query::plain(&text.join(" ")));
        assert_eq!(terms.len(), MOST_FIRST + MOST_LAST);
        assert_eq!(terms.first().map(|term| term.text.as_str()), Some("w0"));
        assert_eq!(terms.last().map(|term| term.text.as_str()), Some("w999"));
    }
}
