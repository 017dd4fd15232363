//! The two ways in which models split a text into pieces.

use super::unigram::Unigram;
use super::wordpiece::WordPiece;

pub(super) enum Tokenizer {
    WordPiece(WordPiece),
    Unigram(Unigram),
}

impl Tokenizer {
    /// Returns the numbers of a text's pieces, between the begin and end marks, at most `most`. The rest of the text
    /// is ignored.
    pub(super) fn ids(&self, text: &str, most: usize) -> Vec<u32> {
        match self {
            Self::WordPiece(tokenizer) => tokenizer.ids(text, most),
            Self::Unigram(tokenizer) => tokenizer.ids(text, most),
        }
    }
}
