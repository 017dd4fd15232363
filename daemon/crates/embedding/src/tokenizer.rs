//! The two ways in which models split a text into pieces.

use super::unigram::Unigram;
use super::wordpiece::WordPiece;

pub(super) enum Tokenizer {
    WordPiece(WordPiece),
    Unigram(Unigram),
}

impl Tokenizer {
    /// The numbers of a text's pieces, between the marks of begin and end, at most `most`. The rest is cut off.
    pub(super) fn ids(&self, text: &str, most: usize) -> Vec<u32> {
        match self {
            Self::WordPiece(tokenizer) => tokenizer.ids(text, most),
            Self::Unigram(tokenizer) => tokenizer.ids(text, most),
        }
    }
}
