//! Splits a text into the most likely pieces of a Unigram vocabulary, as used by multilingual models. Words begin with
//! ▁, and unknown parts are split into characters.
//!
//! The pieces are not copied; they are looked up in the vocabulary's sorted text.

use icu_normalizer::ComposingNormalizerBorrowed;
use tantivy::directory::OwnedBytes;

/// Replaces the white space before a word.
const SPACE: char = '\u{2581}';
/// How much less likely an unknown character is than the least likely piece, as a logarithm.
const UNKNOWN: f32 = 10.0;
/// The maximum number of characters of a word that are split at once, because the time grows with the length.
const LONGEST_WORD: usize = 200;

pub(super) struct Unigram {
    /// All pieces in the order of their numbers, each followed by a line feed.
    text: OwnedBytes,
    /// The offset of each piece, and one more entry for the end.
    starts: Vec<u32>,
    /// The numbers of the pieces, sorted by the pieces' bytes.
    order: Vec<u32>,
    scores: Vec<f32>,
    marks: UnigramMarks,
    least: f32,
}

/// The numbers of the pieces that mark a text's begin and end and unknown text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct UnigramMarks {
    pub begin: u32,
    pub end: u32,
    pub unknown: u32,
}

/// The best way to split the beginning of a word.
#[derive(Clone, Copy)]
struct Way {
    score: f32,
    /// The offset of its last piece.
    from: usize,
    piece: u32,
}

impl Unigram {
    /// `None` if the parts do not fit together.
    pub(super) fn new(
        text: OwnedBytes,
        order: Vec<u32>,
        scores: Vec<f32>,
        marks: UnigramMarks,
    ) -> Option<Self> {
        let mut starts = vec![0];
        for (at, byte) in text.iter().enumerate() {
            if *byte == b'\n' {
                starts.push(u32::try_from(at + 1).ok()?);
            }
        }
        let count = starts.len() - 1;
        let is_piece = |id: &u32| (*id as usize) < count;
        let are_pieces =
            order.iter().all(is_piece) && [marks.begin, marks.end, marks.unknown].iter().all(is_piece);
        let fit = order.len() <= count && scores.len() == count && are_pieces;
        let least = scores.iter().copied().fold(0.0, f32::min);
        (fit && std::str::from_utf8(&text).is_ok()).then_some(Self {
            text,
            starts,
            order,
            scores,
            marks,
            least,
        })
    }

    /// Returns the numbers of the pieces in lookup order. Marks are left out because they do not occur in texts.
    pub(super) fn order_of(pieces: &[String], marks: UnigramMarks) -> Vec<u32> {
        let of_text = pieces
            .iter()
            .zip(0u32..)
            .filter(|(piece, id)| !piece.is_empty() && ![marks.begin, marks.end, marks.unknown].contains(id));
        let mut order: Vec<(&[u8], u32)> = of_text.map(|(piece, id)| (piece.as_bytes(), id)).collect();
        order.sort();
        order.dedup_by_key(|(piece, _)| *piece);
        order.into_iter().map(|(_, id)| id).collect()
    }

    fn piece(&self, id: u32) -> &[u8] {
        let (Some(start), Some(end)) = (self.starts.get(id as usize), self.starts.get(id as usize + 1))
        else {
            return &[];
        };
        self.text.get(*start as usize..(*end as usize).saturating_sub(1)).unwrap_or_default()
    }

    /// Returns the numbers of a text's pieces, between the begin and end marks, at most `most`. The rest of the text
    /// is ignored.
    pub(super) fn ids(&self, text: &str, most: usize) -> Vec<u32> {
        let most = most.saturating_sub(1);
        let mut ids = vec![self.marks.begin];
        let readable = text.chars().map(|c| if is_space(c) { ' ' } else { c });
        let readable = readable.filter(|c| !c.is_control() && *c != char::REPLACEMENT_CHARACTER);
        let nfkc = const { ComposingNormalizerBorrowed::new_nfkc() };
        let text: String = nfkc.normalize_iter(readable).collect();
        for word in text.split_whitespace() {
            if ids.len() >= most {
                break;
            }
            let space = (!word.starts_with(SPACE)).then_some(SPACE);
            let mut word: Vec<char> = space.into_iter().chain(word.chars()).collect();
            while !word.is_empty() {
                let rest = word.split_off(word.len().min(LONGEST_WORD));
                self.add(&word.iter().collect::<String>(), &mut ids);
                word = rest;
            }
        }
        ids.truncate(most);
        ids.push(self.marks.end);
        ids
    }

    /// Adds the most likely pieces of a word.
    fn add(&self, word: &str, ids: &mut Vec<u32>) {
        let mut ways: Vec<Option<Way>> = vec![None; word.len() + 1];
        for (at, c) in word.char_indices() {
            let before = match ways.get(at) {
                Some(Some(way)) => way.score,
                _ if at == 0 => 0.0,
                _ => continue,
            };
            let first = c.len_utf8();
            let mut is_known = false;
            self.each_piece(word.get(at..).unwrap_or_default(), |length, id| {
                is_known |= length == first;
                let score = before + self.scores.get(id as usize).copied().unwrap_or(self.least);
                better(&mut ways, at + length, Way { score, from: at, piece: id });
            });
            if !is_known {
                let score = before + self.least - UNKNOWN;
                better(&mut ways, at + first, Way { score, from: at, piece: self.marks.unknown });
            }
        }
        let (start, mut end) = (ids.len(), word.len());
        while end > 0 {
            let Some(Some(way)) = ways.get(end) else { break };
            // Adjacent unknown characters are merged.
            if way.piece != self.marks.unknown || ids.len() == start || ids.last() != Some(&way.piece) {
                ids.push(way.piece);
            }
            end = way.from;
        }
        ids.get_mut(start..).unwrap_or_default().reverse();
    }

    /// Calls `found` for each piece with which a text begins, shortest first.
    fn each_piece(&self, text: &str, mut found: impl FnMut(usize, u32)) {
        let mut range = self.order.as_slice();
        for (at, c) in text.char_indices() {
            let length = at + c.len_utf8();
            let head = text.as_bytes().get(..length).unwrap_or_default();
            let start = range.partition_point(|id| self.piece(*id) < head);
            range = range.get(start..).unwrap_or_default();
            let end = range.partition_point(|id| self.piece(*id).starts_with(head));
            range = range.get(..end).unwrap_or_default();
            match range.first() {
                None => return,
                Some(id) if self.piece(*id).len() == length => found(length, *id),
                Some(_) => {}
            }
        }
    }
}

fn better(ways: &mut [Option<Way>], end: usize, way: Way) {
    if let Some(place) = ways.get_mut(end)
        && place.is_none_or(|known| way.score > known.score)
    {
        *place = Some(way);
    }
}

/// Whether the reference tokenizer treats the character as white space although Unicode does not.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
}

#[cfg(test)]
#[path = "unigram_tests.rs"]
mod tests;
