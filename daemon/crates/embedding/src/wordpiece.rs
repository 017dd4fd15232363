//! Splits a text into the pieces of a BERT model's vocabulary: words in lower case without accents. An unknown word is
//! split into its longest known parts.

use std::collections::HashMap;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};
use serde::{Deserialize, Serialize};

/// A longer word is unknown as a whole.
const LONGEST_WORD: usize = 100;
/// Marks a piece that continues a word.
const CONTINUES: &str = "##";

/// The pieces that every vocabulary must have: a text's begin and end, and the unknown piece.
pub(super) const MARKS: [&str; 3] = ["[CLS]", "[SEP]", "[UNK]"];

/// Whether case and accents matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Case {
    Ignored,
    Kept,
}

pub(super) struct WordPiece {
    pieces: HashMap<String, u32>,
    case: Case,
    begin: u32,
    end: u32,
    unknown: u32,
}

/// A required piece that this vocabulary lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the vocabulary has no {0}")]
pub(super) struct MissingPiece(&'static str);

impl WordPiece {
    pub(super) fn new(pieces: HashMap<String, u32>, case: Case) -> Result<Self, MissingPiece> {
        let special = |name| pieces.get(name).copied().ok_or(MissingPiece(name));
        let [begin, end, unknown] = MARKS;
        let (begin, end, unknown) = (special(begin)?, special(end)?, special(unknown)?);
        Ok(Self { pieces, case, begin, end, unknown })
    }

    /// Returns the numbers of a text's pieces, between the begin and end marks, at most `most`. The rest of the text
    /// is ignored.
    pub(super) fn ids(&self, text: &str, most: usize) -> Vec<u32> {
        let most = most.saturating_sub(1);
        let mut ids = vec![self.begin];
        // Each piece has at least one character that is not white space.
        for part in text.split_whitespace() {
            if ids.len() >= most {
                break;
            }
            self.words(part, |word| self.add(word, &mut ids));
        }
        ids.truncate(most);
        ids.push(self.end);
        ids
    }

    /// Calls `add` for each word of a part without white space.
    fn words(&self, part: &str, mut add: impl FnMut(&str)) {
        let categories = CodePointMapData::<GeneralCategory>::new();
        let mut word = String::new();
        let mut take = |c: char| {
            let category = categories.get(c);
            if self.case == Case::Ignored && category == GeneralCategory::NonspacingMark {
                return;
            }
            let is_alone = c.is_ascii_punctuation()
                || is_ideograph(c)
                || GeneralCategoryGroup::Punctuation.contains(category);
            if (is_alone || c.is_whitespace()) && !word.is_empty() {
                add(&word);
                word.clear();
            }
            if is_alone {
                add(c.encode_utf8(&mut [0; 4]));
            } else if !c.is_whitespace() {
                word.push(c);
            }
        };
        let readable = part.chars().filter(|c| {
            let is_control = GeneralCategoryGroup::Other.contains(categories.get(*c));
            !is_control && *c != char::REPLACEMENT_CHARACTER
        });
        match self.case {
            Case::Kept => readable.for_each(&mut take),
            Case::Ignored if part.is_ascii() => readable.for_each(|c| take(c.to_ascii_lowercase())),
            Case::Ignored => {
                let nfd = const { DecomposingNormalizerBorrowed::new_nfd() };
                nfd.normalize_iter(readable).flat_map(char::to_lowercase).for_each(&mut take);
            }
        }
        if !word.is_empty() {
            add(&word);
        }
    }

    fn add(&self, word: &str, ids: &mut Vec<u32>) {
        let start = ids.len();
        if word.chars().count() > LONGEST_WORD {
            ids.push(self.unknown);
            return;
        }
        let mut rest = word;
        let mut piece = String::new();
        while !rest.is_empty() {
            let ends = rest.char_indices().rev().map(|(at, c)| at + c.len_utf8());
            let found = ends.into_iter().find_map(|end| {
                let (head, tail) = rest.split_at_checked(end)?;
                piece.clear();
                if ids.len() > start {
                    piece.push_str(CONTINUES);
                }
                piece.push_str(head);
                self.pieces.get(&piece).map(|id| (*id, tail))
            });
            let Some((id, tail)) = found else {
                ids.truncate(start);
                ids.push(self.unknown);
                return;
            };
            ids.push(id);
            rest = tail;
        }
    }
}

/// Whether a character is a word by itself: it is in one of the blocks of Chinese characters listed for BERT.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F | 0x2B740..=0x2B81F
        | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokenizer(case: Case) -> WordPiece {
        let known =
            "[PAD] [UNK] [CLS] [SEP] log ##in ##s slow cafe . - ( ) 本 日 ok Log é un ##a ##un ! ' t don";
        let pieces = known.split(' ').zip(0..).map(|(piece, id)| (piece.to_owned(), id)).collect();
        WordPiece::new(pieces, case).unwrap()
    }

    #[track_caller]
    fn check(text: &str, expected: &[u32]) {
        let ids = tokenizer(Case::Ignored).ids(text, 64);
        assert_eq!(ids.split_last().unwrap().1.split_first().unwrap().1, expected, "{text:?}");
    }

    #[test]
    fn words_are_split_into_their_longest_known_pieces() {
        check("login Logins", &[4, 5, 4, 5, 6]);
        check("slow\u{a0}slow\tslow\u{200b}.", &[7, 7, 7, 9]);
        check("Café cafe\u{301}", &[8, 8]);
        check("日本ok", &[14, 13, 15]);
        check("(log-in)", &[11, 4, 10, 1, 12]);
        check("don't!", &[24, 22, 23, 21]);
        // One unknown part makes the whole word unknown.
        check("loginx unaunun", &[1, 18, 19, 20, 20]);
    }

    #[test]
    fn blank_texts_have_no_pieces_and_overlong_words_are_unknown() {
        check("", &[]);
        check(" \u{0}\u{fffd}\u{7f} \u{200d}", &[]);
        check(&"x".repeat(101), &[1]);
    }

    #[test]
    fn capitals_and_accents_matter_when_case_is_kept() {
        assert_eq!(tokenizer(Case::Kept).ids("Log log é", 64), [2, 16, 4, 17, 3]);
    }

    #[test]
    fn a_vocabulary_without_the_mark_pieces_is_rejected() {
        let missing = WordPiece::new(HashMap::new(), Case::Kept).err();
        assert_eq!(missing, Some(MissingPiece("[CLS]")));
    }

    proptest! {
        #[test]
        fn the_number_of_wordpieces_is_bounded_for_any_text(text in "\\PC{0,80}|.{0,80}", most in 2usize..40) {
            let tokenizer = tokenizer(Case::Ignored);
            let ids = tokenizer.ids(&text, most);
            prop_assert!(ids.len() >= 2 && ids.len() <= most);
            prop_assert_eq!((ids[0], ids[ids.len() - 1]), (2, 3));
            // A longer limit only adds pieces.
            let more = tokenizer.ids(&text, most + 20);
            prop_assert_eq!(&more[..ids.len() - 1], &ids[..ids.len() - 1]);
        }
    }
}
