//! Sums the terms of a query for each document of a segment, one window of documents after the other.
//!
//! Posting lists are read in the blocks in which they are stored, and summed in an array that stays in a core's cache.
//! An array for the whole index would be written all over for each term, and made anew for each search.

use std::ops::Range;
use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::InvertedIndexReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{BitSet, DocId, SegmentReader, TERMINATED, Term};

/// Documents of a window.
const WINDOW: u32 = 8_192;
/// A set of documents is kept in words of so many bits.
const WORD: u32 = u64::BITS;

/// How BM25 weighs a text, which depends on the field.
#[derive(Clone, Copy)]
pub(super) struct Weighing {
    /// The occurrences at which a term reaches half of its weight, in a text of this length and the average length.
    pub saturation: fn(u32, f32) -> f32,
    /// Occurrences that a term in the title counts for.
    pub title_repeats: f32,
}

/// The texts of a segment in which a query's terms are looked up.
pub(super) struct Texts {
    field: Field,
    index: Arc<InvertedIndexReader>,
    titles: Option<(Field, Arc<InvertedIndexReader>)>,
    lengths: FieldNormReader,
    /// For each length that the index can tell apart.
    saturation: Vec<f32>,
    title_repeats: f32,
    /// The documents that count. `None` means all.
    documents: Option<Arc<BitSet>>,
    max_doc: DocId,
}

/// Which documents are visited.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Visited {
    WithATerm,
    All,
}

/// What the terms of a query come to in one document.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sum {
    /// The presence of each term times its information.
    pub strength: f32,
    /// One bit for each term that the document has.
    pub found: u32,
}

/// A term to be summed.
pub(super) struct Summand<'a> {
    pub text: &'a str,
    pub information: f32,
    /// Its bit in [`Sum::found`].
    pub bit: u32,
}

impl Texts {
    pub(super) fn open(
        reader: &SegmentReader,
        (field, title): (Field, Option<Field>),
        documents: Option<Arc<BitSet>>,
        (weighing, average_length): (Weighing, f32),
    ) -> tantivy::Result<Self> {
        let titles = match title {
            Some(title) => Some((title, reader.inverted_index(title)?)),
            None => None,
        };
        let saturation = (0..=u8::MAX).map(|id| {
            let length = FieldNormReader::id_to_fieldnorm(id);
            (weighing.saturation)(length, average_length)
        });
        Ok(Self {
            field,
            index: reader.inverted_index(field)?,
            titles,
            lengths: reader.get_fieldnorms_reader(field)?,
            saturation: saturation.collect(),
            title_repeats: weighing.title_repeats,
            documents,
            max_doc: reader.max_doc(),
        })
    }

    /// The number of documents that have the term.
    pub(super) fn frequency(&self, term: &str) -> tantivy::Result<u32> {
        let term = Term::from_field_text(self.field, term);
        let Some(documents) = &self.documents else { return Ok(self.index.doc_freq(&term)?) };
        let Some(mut postings) = self.index.read_block_postings(&term, IndexRecordOption::Basic)? else {
            return Ok(0);
        };
        let mut frequency = 0;
        while !postings.docs().is_empty() {
            frequency += postings.docs().iter().map(|doc| u32::from(documents.contains(*doc))).sum::<u32>();
            postings.advance();
        }
        Ok(frequency)
    }

    /// Visits the documents of a range in ascending order.
    pub(super) fn sum(
        &self,
        terms: &[Summand<'_>],
        (range, visited): (Range<DocId>, Visited),
        mut visit: impl FnMut(DocId, Sum),
    ) -> tantivy::Result<()> {
        let end = range.end.min(self.max_doc);
        let mut lists = Vec::with_capacity(terms.len());
        for term in terms {
            lists.extend(List::open(self, term, range.start)?);
        }
        let mut window = Window::new();
        let mut from = range.start;
        loop {
            if visited == Visited::WithATerm {
                from = lists.iter().map(|list| list.postings.doc()).min().unwrap_or(TERMINATED);
            }
            if from >= end {
                return Ok(());
            }
            from -= from % WORD;
            let to = from.saturating_add(WINDOW).min(end);
            for list in &mut lists {
                list.add(self, from..to, &mut window);
            }
            if visited == Visited::All {
                (from.max(range.start)..to)
                    .filter(|doc| self.counts(*doc))
                    .for_each(|doc| window.touch(doc - from));
            }
            window.drain(|place, sum| visit(from + place, sum));
            from = to;
        }
    }

    pub(super) fn counts(&self, doc: DocId) -> bool {
        self.documents.as_ref().is_none_or(|documents| documents.contains(doc))
    }

    pub(super) fn max_doc(&self) -> DocId {
        self.max_doc
    }

    /// The number of the documents that count.
    pub(super) fn population(&self) -> usize {
        self.documents.as_ref().map_or(self.max_doc as usize, |documents| documents.len())
    }
}

/// The posting list of a term, and that of the titles with it.
struct List {
    postings: Position,
    titles: Option<Position>,
    information: f32,
    bit: u32,
}

impl List {
    /// `None` if no document has the term.
    fn open(texts: &Texts, term: &Summand<'_>, from: DocId) -> tantivy::Result<Option<Self>> {
        let lookup = Term::from_field_text(texts.field, term.text);
        let Some(postings) = texts.index.read_block_postings(&lookup, IndexRecordOption::WithFreqs)? else {
            return Ok(None);
        };
        let titles = match &texts.titles {
            Some((field, index)) => index
                .read_block_postings(&Term::from_field_text(*field, term.text), IndexRecordOption::Basic)?,
            None => None,
        };
        Ok(Some(Self {
            postings: Position::at(postings, from),
            titles: titles.map(|titles| Position::at(titles, from)),
            information: term.information,
            bit: term.bit,
        }))
    }

    /// Adds the term to the documents of the window.
    fn add(&mut self, texts: &Texts, range: Range<DocId>, window: &mut Window) {
        let Self { postings, titles, information, bit } = self;
        postings.each_below(range.end, |doc, frequency| {
            if !texts.counts(doc) {
                return;
            }
            let mut frequency = frequency as f32;
            if titles.as_mut().is_some_and(|titles| titles.reaches(doc)) {
                frequency += texts.title_repeats;
            }
            let length = texts.lengths.fieldnorm_id(doc);
            let presence = frequency / (frequency + texts.saturation[usize::from(length)]);
            window.add(doc - range.start, presence * *information, *bit);
        });
    }
}

/// A place in a posting list.
struct Position {
    postings: BlockSegmentPostings,
    /// The place in the block.
    next: usize,
}

impl Position {
    /// At the first document that is not before `from`.
    fn at(mut postings: BlockSegmentPostings, from: DocId) -> Self {
        let next = if from == 0 { 0 } else { postings.seek(from) };
        Self { postings, next }
    }

    fn doc(&self) -> DocId {
        self.postings.docs().get(self.next).copied().unwrap_or(TERMINATED)
    }

    /// Visits the documents before `end` with the term's frequency in each.
    fn each_below(&mut self, end: DocId, mut visit: impl FnMut(DocId, u32)) {
        loop {
            let docs = self.postings.docs();
            let rest = docs.iter().zip(self.postings.freqs()).skip(self.next);
            let mut seen = 0;
            for (doc, frequency) in rest.take_while(|(doc, _)| **doc < end) {
                visit(*doc, *frequency);
                seen += 1;
            }
            self.next += seen;
            if self.next < docs.len() || docs.is_empty() {
                return;
            }
            self.advance();
        }
    }

    /// Goes on to `doc`, and says whether the list has it. Documents are asked for in ascending order.
    fn reaches(&mut self, doc: DocId) -> bool {
        loop {
            let docs = self.postings.docs();
            match docs.get(self.next) {
                Some(next) if *next < doc => self.next += 1,
                Some(next) => return *next == doc,
                None if docs.is_empty() => return false,
                None => self.advance(),
            }
        }
    }

    fn advance(&mut self) {
        self.postings.advance();
        self.next = 0;
    }
}

/// The sums of the documents of a window, by their place in it.
struct Window {
    sums: Vec<Sum>,
    /// One bit for each document to visit.
    touched: Vec<u64>,
}

impl Window {
    fn new() -> Self {
        Self { sums: vec![Sum::default(); WINDOW as usize], touched: vec![0; (WINDOW / WORD) as usize] }
    }

    fn add(&mut self, place: u32, strength: f32, bit: u32) {
        let sum = &mut self.sums[place as usize];
        sum.strength += strength;
        sum.found |= bit;
        self.touch(place);
    }

    fn touch(&mut self, place: u32) {
        self.touched[(place / WORD) as usize] |= 1 << (place % WORD);
    }

    /// Visits all sums in order, and clears them.
    fn drain(&mut self, mut visit: impl FnMut(u32, Sum)) {
        for (first, bits) in (0..).step_by(WORD as usize).zip(&mut self.touched) {
            let mut left = std::mem::take(bits);
            while left != 0 {
                let place = first + left.trailing_zeros();
                left &= left - 1;
                visit(place, std::mem::take(&mut self.sums[place as usize]));
            }
        }
    }
}
