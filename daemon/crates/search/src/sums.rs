//! Sums the terms of a query for each document of a segment, window by window.
//!
//! Posting lists are read in their stored blocks and summed in an array that fits a core's cache. An array for the
//! whole index would be rewritten for each term and allocated for each search.
//!
//! Once enough good documents are known, common terms alone cannot produce a better one. Their lists, the longest
//! ones, are then read only for documents that have a rarer term (MaxScore: Turtle and Flood, 1995). Sums and counts
//! stay exact.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::InvertedIndexReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{BitSet, DocId, DocSet, SegmentReader, TERMINATED, Term};

/// The number of documents in a window.
const WINDOW: u32 = 8_192;
/// The number of bits in a word of a document set.
const WORD: u32 = u64::BITS;

/// The BM25 parameters for a text, which depend on the field.
#[derive(Clone, Copy)]
pub(super) struct Weighing {
    /// Returns the number of occurrences at which a term reaches half of its weight, for this text length and the
    /// average length.
    pub(crate) saturation: fn(u32, f32) -> f32,
    /// The number of extra occurrences that a term in the title counts for.
    pub(crate) title_repeats: f32,
}

impl Weighing {
    /// The saturation for each length that an index can distinguish.
    pub(super) fn by_length(self, average_length: f32) -> Vec<f32> {
        let saturation = |id| (self.saturation)(FieldNormReader::id_to_fieldnorm(id), average_length);
        (0..=u8::MAX).map(saturation).collect()
    }
}

/// The texts of a segment, in which a query's terms are looked up.
pub(super) struct Texts {
    field: Field,
    index: Arc<InvertedIndexReader>,
    titles: Option<(Field, Arc<InvertedIndexReader>)>,
    lengths: FieldNormReader,
    /// The saturation for each length that the index can distinguish.
    saturation: Vec<f32>,
    title_repeats: f32,
    /// The documents to consider. `None` means all.
    documents: Option<Arc<BitSet>>,
    /// The documents to consider among those that have a term. Also `None` if all excluded documents lack this field.
    with_a_term: Option<Arc<BitSet>>,
    /// The excluded documents that have this field, in ascending order, if all of them are deleted ones.
    deleted: Option<Vec<DocId>>,
    population: usize,
    max_doc: DocId,
}

/// Returns the deleted documents with a text, if no others are excluded, which is when the numbers agree. Without
/// this, a single deleted document in a million made a search read its terms' lists to the end, only to count them.
fn only_deleted(lengths: &FieldNormReader, deleted: &[DocId], excluded: usize) -> Option<Vec<DocId>> {
    let with_text = deleted.iter().copied().filter(|doc| lengths.fieldnorm_id(*doc) > 0);
    (excluded <= deleted.len()).then(|| with_text.collect::<Vec<_>>()).filter(|found| found.len() == excluded)
}

/// Which documents to pass to the ranking.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// Documents that the ranking may want.
    Wanted,
    /// Also unwanted documents with a term, without their sums.
    WithATerm,
    /// All documents, with their sums.
    All,
}

/// Receives the summed documents.
pub(super) trait Ranking {
    /// Whether the ranking wants a document whose terms sum up to less than this.
    fn wants(&self, strength: f32) -> bool;
    fn visit(&mut self, doc: DocId, sum: Sum);
    /// Visits a document that has a term and is not wanted.
    fn pass(&mut self, doc: DocId);
}

/// The sum of a query's terms in one document.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sum {
    /// The sum over all terms of presence times information.
    pub strength: f32,
    /// One bit per term that the document has.
    pub found: u32,
}

/// A term to sum.
pub(super) struct Summand<'a> {
    pub text: &'a str,
    pub information: f32,
    /// The term's bit in [`Sum::found`].
    pub bit: u32,
}

/// Which documents of a segment to consider.
pub(super) struct Counted {
    /// `None` means all.
    pub documents: Option<Arc<BitSet>>,
    /// The deleted documents, in ascending order.
    pub deleted: Arc<[DocId]>,
}

impl Texts {
    /// `with_field` is the number of documents that have the field, including deleted ones.
    pub(super) fn open(
        reader: &SegmentReader,
        (field, title, with_field): (Field, Option<Field>, u32),
        Counted { documents, deleted }: Counted,
        (weighing, average_length): (Weighing, f32),
    ) -> tantivy::Result<Self> {
        let titles = match title {
            Some(title) => Some((title, reader.inverted_index(title)?)),
            None => None,
        };
        let lengths = reader.get_fieldnorms_reader(field)?;
        let counted = documents.as_ref().map_or(with_field as usize, |documents| documents.len());
        let excluded = (with_field as usize).saturating_sub(counted);
        Ok(Self {
            field,
            index: reader.inverted_index(field)?,
            titles,
            deleted: only_deleted(&lengths, &deleted, excluded),
            lengths,
            saturation: weighing.by_length(average_length),
            title_repeats: weighing.title_repeats,
            with_a_term: documents.clone().filter(|documents| documents.len() < with_field as usize),
            population: counted,
            documents,
            max_doc: reader.max_doc(),
        })
    }

    /// Returns the number of documents that have the term.
    pub(super) fn frequency(&self, term: &str) -> tantivy::Result<u32> {
        let term = Term::from_field_text(self.field, term);
        let Some(documents) = &self.with_a_term else { return Ok(self.index.doc_freq(&term)?) };
        if let Some(deleted) = &self.deleted {
            return Ok(self.index.doc_freq(&term)?.saturating_sub(self.among(&term, deleted)?));
        }
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

    /// Returns how many of these documents have the term. Reads only the blocks of its list that contain them.
    fn among(&self, term: &Term, documents: &[DocId]) -> tantivy::Result<u32> {
        let Some(mut postings) = self.index.read_postings(term, IndexRecordOption::Basic)? else {
            return Ok(0);
        };
        let mut found = 0;
        for doc in documents {
            if postings.doc() < *doc {
                postings.seek(*doc);
            }
            found += u32::from(postings.doc() == *doc);
        }
        Ok(found)
    }

    /// Passes the documents of a range to the ranking, in ascending order.
    pub(super) fn sum(
        &self,
        terms: &[Summand<'_>],
        range: Range<DocId>,
        passed: Passed,
        ranking: &mut impl Ranking,
    ) -> tantivy::Result<()> {
        let end = range.end.min(self.max_doc);
        let mut lists = self.open_lists(terms, range.start)?;
        let mut window = Window::new();
        let mut from = range.start;
        loop {
            let enough = match passed {
                Passed::All => lists.len(),
                Passed::Wanted | Passed::WithATerm => enough(&lists, ranking),
            };
            let (decisive, others) = lists.split_at_mut(enough);
            match passed {
                Passed::All => {}
                Passed::Wanted => from = first(decisive),
                Passed::WithATerm => from = first(decisive).min(first(others)),
            }
            if from >= end {
                return Ok(());
            }
            from -= from % WORD;
            let to = from.saturating_add(WINDOW).min(end);
            for list in decisive {
                list.add(self, from..to, &mut window);
            }
            for list in others {
                match passed {
                    Passed::Wanted => list.add_to_touched(self, from, &mut window),
                    Passed::WithATerm | Passed::All => {
                        list.add_to_touched_and_note(self, from..to, &mut window)
                    }
                }
            }
            if passed == Passed::All {
                (from.max(range.start)..to)
                    .filter(|doc| self.counts(*doc))
                    .for_each(|doc| window.touch(doc - from));
            }
            window.drain(from, ranking);
            from = to;
        }
    }

    /// Returns the sums of the terms in each of these documents, which must be in ascending order.
    pub(super) fn sums_of(&self, docs: &[DocId], terms: &[Summand<'_>]) -> tantivy::Result<Vec<Sum>> {
        let mut lists = self.open_lists(terms, docs.first().copied().unwrap_or_default())?;
        let sum_of = |doc: &DocId| {
            let mut sum = Sum::default();
            lists.iter_mut().for_each(|list| list.add_to(self, *doc, &mut sum));
            sum
        };
        Ok(docs.iter().map(sum_of).collect())
    }

    /// Opens the lists in a fixed order, so that documents with the same terms have the same sum.
    fn open_lists(&self, terms: &[Summand<'_>], from: DocId) -> tantivy::Result<Vec<List>> {
        let mut lists = Vec::with_capacity(terms.len());
        for term in terms {
            lists.extend(List::open(self, term, from)?);
        }
        lists.sort_by(|a, b| rarest_first(a.information, b.information));
        Ok(lists)
    }

    pub(super) fn counts(&self, doc: DocId) -> bool {
        self.documents.as_ref().is_none_or(|documents| documents.contains(doc))
    }

    pub(super) fn max_doc(&self) -> DocId {
        self.max_doc
    }

    /// The number of documents to consider.
    pub(super) fn population(&self) -> usize {
        self.population
    }
}

/// The order in which terms are summed.
pub(super) fn rarest_first(left: f32, right: f32) -> Ordering {
    right.total_cmp(&left)
}

/// Returns the smallest number of rarest lists such that every wanted document is in at least one of them.
fn enough(lists: &[List], ranking: &impl Ranking) -> usize {
    let mut most = 0.0;
    let mut enough = lists.len();
    for list in lists.iter().rev() {
        most += list.information;
        if ranking.wants(most) {
            break;
        }
        enough -= 1;
    }
    enough
}

/// Returns the first document in any of the lists.
fn first(lists: &[List]) -> DocId {
    lists.iter().map(|list| list.postings.doc).min().unwrap_or(TERMINATED)
}

/// The posting list of a term, and the list of titles that contain it.
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

    /// Adds the term to its documents in the window.
    fn add(&mut self, texts: &Texts, range: Range<DocId>, window: &mut Window) {
        let Self { postings, titles, information, bit } = self;
        let filter = texts.with_a_term.as_deref();
        postings.each_below(range.end, |doc, frequency| {
            if filter.is_none_or(|documents| documents.contains(doc)) {
                let strength = presence(texts, titles, doc, frequency) * *information;
                window.add(doc - range.start, strength, *bit);
            }
        });
    }

    /// Adds the term to documents of the window that have another term, and marks the rest.
    fn add_to_touched_and_note(&mut self, texts: &Texts, range: Range<DocId>, window: &mut Window) {
        let Self { postings, titles, information, bit } = self;
        let filter = texts.with_a_term.as_deref();
        postings.each_below(range.end, |doc, frequency| {
            let place = doc - range.start;
            if window.is_touched(place) {
                window.add(place, presence(texts, titles, doc, frequency) * *information, *bit);
            } else if filter.is_none_or(|documents| documents.contains(doc)) {
                window.note(place);
            }
        });
    }

    /// Adds the term to documents of the window that have another term.
    fn add_to_touched(&mut self, texts: &Texts, from: DocId, window: &mut Window) {
        window.each_touched(|place, sum| self.add_to(texts, from + place, sum));
    }

    /// Adds the term to a document if the document has it. Documents come in ascending order.
    fn add_to(&mut self, texts: &Texts, doc: DocId, sum: &mut Sum) {
        if self.postings.reaches(doc) {
            let presence = presence(texts, &mut self.titles, doc, self.postings.frequency());
            sum.add(presence * self.information, self.bit);
        }
    }
}

/// How much of a term's information a document has: BM25's factor, 0 to 1. Documents come in ascending order.
fn presence(texts: &Texts, titles: &mut Option<Position>, doc: DocId, frequency: u32) -> f32 {
    let mut frequency = frequency as f32;
    if titles.as_mut().is_some_and(|titles| titles.reaches(doc)) {
        frequency += texts.title_repeats;
    }
    let length = texts.lengths.fieldnorm_id(doc);
    presence_of(frequency, texts.saturation[usize::from(length)])
}

/// BM25's factor for a term with this frequency in a text.
pub(super) fn presence_of(frequency: f32, saturation: f32) -> f32 {
    frequency / (frequency + saturation)
}

/// A position in a posting list.
struct Position {
    postings: BlockSegmentPostings,
    /// The index within the block.
    next: usize,
    /// The document at this position.
    doc: DocId,
}

impl Position {
    /// Creates a position at the first document that is not before `from`.
    fn at(postings: BlockSegmentPostings, from: DocId) -> Self {
        let mut position = Self { postings, next: 0, doc: 0 };
        position.settle(0);
        position.reaches(from);
        position
    }

    /// Visits the documents before `end` with the term's frequency in each.
    fn each_below(&mut self, end: DocId, mut visit: impl FnMut(DocId, u32)) {
        while self.doc < end {
            let (docs, frequencies) = (self.postings.docs(), self.postings.freqs());
            let upto = match docs.last() {
                Some(last) if *last < end => docs.len(),
                _ => docs.partition_point(|doc| *doc < end),
            };
            let rest = docs.iter().zip(frequencies).take(upto).skip(self.next);
            rest.for_each(|(doc, frequency)| visit(*doc, *frequency));
            if upto == docs.len() {
                self.postings.advance();
                self.settle(0);
            } else {
                self.settle(upto);
            }
        }
    }

    /// Advances to `doc`, and returns whether the list contains it. Documents come in ascending order.
    fn reaches(&mut self, doc: DocId) -> bool {
        if self.doc < doc {
            let docs = self.postings.docs();
            let next = match docs.last() {
                Some(last) if *last >= doc => docs.partition_point(|other| *other < doc),
                _ => self.postings.seek(doc),
            };
            self.settle(next);
        }
        self.doc == doc
    }

    /// Returns the frequency of the term in the current document.
    fn frequency(&self) -> u32 {
        self.postings.freqs().get(self.next).copied().unwrap_or_default()
    }

    fn settle(&mut self, next: usize) {
        self.next = next;
        self.doc = self.postings.docs().get(next).copied().unwrap_or(TERMINATED);
    }
}

impl Sum {
    pub(super) fn add(&mut self, strength: f32, bit: u32) {
        self.strength += strength;
        self.found |= bit;
    }
}

/// The sums of a window's documents, by position.
struct Window {
    sums: Vec<Sum>,
    /// One bit for each document to visit.
    touched: Vec<u64>,
    /// One bit for each document with a term; some of them are touched as well.
    noted: Vec<u64>,
}

impl Window {
    fn new() -> Self {
        let bits = vec![0; (WINDOW / WORD) as usize];
        Self { sums: vec![Sum::default(); WINDOW as usize], touched: bits.clone(), noted: bits }
    }

    fn add(&mut self, place: u32, strength: f32, bit: u32) {
        self.sums[place as usize].add(strength, bit);
        self.touch(place);
    }

    fn touch(&mut self, place: u32) {
        self.touched[(place / WORD) as usize] |= 1 << (place % WORD);
    }

    fn is_touched(&self, place: u32) -> bool {
        self.touched[(place / WORD) as usize] >> (place % WORD) & 1 == 1
    }

    fn note(&mut self, place: u32) {
        self.noted[(place / WORD) as usize] |= 1 << (place % WORD);
    }

    fn each_touched(&mut self, mut visit: impl FnMut(u32, &mut Sum)) {
        for (first, bits) in (0..).step_by(WORD as usize).zip(&self.touched) {
            each_bit(*bits, |bit| visit(first + bit, &mut self.sums[(first + bit) as usize]));
        }
    }

    /// Passes all documents to the ranking in order, and clears the window.
    fn drain(&mut self, from: DocId, ranking: &mut impl Ranking) {
        let words = self.touched.iter_mut().zip(&mut self.noted);
        for (first, (touched, noted)) in (0..).step_by(WORD as usize).zip(words) {
            let (touched, noted) = (std::mem::take(touched), std::mem::take(noted));
            each_bit(touched, |bit| {
                let place = first + bit;
                ranking.visit(from + place, std::mem::take(&mut self.sums[place as usize]));
            });
            each_bit(noted & !touched, |bit| ranking.pass(from + first + bit));
        }
    }
}

fn each_bit(mut bits: u64, mut visit: impl FnMut(u32)) {
    while bits != 0 {
        visit(bits.trailing_zeros());
        bits &= bits - 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::index::{Index, Opened};
    use crate::request::Scope;
    use crate::segment_cache::{Population, SegmentCache};
    use crate::weights::WEIGHING;
    use recall_domain::document::{Document, DocumentKey, DocumentKind, Status};
    use recall_domain::ids::{AgentName, LogSeq, ProjectKey, SessionId, Timestamp};
    use recall_domain::observation::{Importance, Maker};

    /// Keeps the strongest few, as real rankings do.
    #[derive(Default)]
    struct Strongest {
        /// `None` wants all.
        most: Option<usize>,
        kept: Vec<(DocId, Sum)>,
        with_a_term: BTreeSet<DocId>,
    }

    impl Strongest {
        fn of(most: usize) -> Self {
            Self { most: Some(most), ..Self::default() }
        }

        fn sorted(mut self, most: usize) -> Vec<(DocId, Sum)> {
            self.kept.sort_by(|a, b| b.1.strength.total_cmp(&a.1.strength).then(a.0.cmp(&b.0)));
            self.kept.truncate(most);
            self.kept
        }
    }

    impl Ranking for Strongest {
        fn wants(&self, strength: f32) -> bool {
            self.most.is_none_or(|most| {
                self.kept.iter().filter(|(_, sum)| sum.strength >= strength).count() < most
            })
        }

        fn visit(&mut self, doc: DocId, sum: Sum) {
            assert!(self.with_a_term.insert(doc), "visited twice");
            self.kept.push((doc, sum));
        }

        fn pass(&mut self, doc: DocId) {
            assert!(self.with_a_term.insert(doc), "visited twice");
        }
    }

    /// Documents in which frequent words occur more often.
    fn documents(texts: &[Vec<u8>]) -> Vec<Document> {
        let spelled = |words: &[u8]| {
            let words = words.iter().map(|word| format!("w{}x", word.leading_zeros()));
            words.collect::<Vec<_>>().join(" ")
        };
        let document = |(row, words): (i64, &Vec<u8>)| Document {
            key: DocumentKey { kind: DocumentKind::Prompt, row },
            project: ProjectKey(if row % 3 == 0 { "other" } else { "own" }.to_owned()),
            project_name: String::new(),
            agent: AgentName::from("claude-code"),
            session: SessionId::from("s"),
            observation_type: None,
            status: Status::Active,
            importance: Importance::clamped(5),
            maker: Maker::Machine,
            at: Timestamp(0),
            files: Vec::new(),
            title: spelled(words.get(..words.len().min(2)).unwrap_or_default()),
            body: spelled(words),
            passages: Vec::new(),
        };
        (0..).zip(texts).map(document).collect()
    }

    #[test]
    fn document_frequency_without_deleted_documents_equals_a_full_count() {
        let folder = tempfile::tempdir().unwrap();
        let Opened { index, mut writer } = Index::open(folder.path()).unwrap();
        let made = documents(&(0..40_u8).map(|word| vec![word, 1, word / 3]).collect::<Vec<_>>());
        made.iter().for_each(|document| writer.put(document).unwrap());
        writer.commit(LogSeq(1)).unwrap();
        made.iter().step_by(7).for_each(|document| writer.delete(document.key));
        writer.commit(LogSeq(2)).unwrap();
        let searcher = index.searcher();
        let reader = searcher.segment_reader(0);
        assert!(reader.has_deletes());
        let (fields, cache) = (index.fields(), SegmentCache::default());
        for (scope, is_only_deleted) in
            [(Scope::Everything, true), (Scope::Project(ProjectKey::from("own")), false)]
        {
            let counted = |deleted| Counted {
                documents: cache.population(reader, fields, &Population::Documents(scope.clone())).unwrap(),
                deleted,
            };
            let open = |deleted| {
                let of_texts = (fields.text, Some(fields.title), reader.max_doc());
                Texts::open(reader, of_texts, counted(deleted), (WEIGHING, 4.0)).unwrap()
            };
            let (quick, plain) = (open(cache.deleted(reader)), open(Arc::default()));
            assert_eq!((quick.deleted.is_some(), plain.deleted.is_some()), (is_only_deleted, false));
            for rank in 0..9 {
                let word = format!("w{rank}x");
                assert_eq!(quick.frequency(&word).unwrap(), plain.frequency(&word).unwrap(), "{word}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn skipping_documents_changes_neither_the_best_results_nor_the_count(
            texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..6), 1..400),
            most in 1_usize..20,
            scoped in any::<bool>(),
        ) {
            // More documents than a window has.
            let texts: Vec<Vec<u8>> = texts.iter().cycle().take(WINDOW as usize + 900).cloned().collect();
            let index = Index::in_memory(&documents(&texts)).unwrap();
            let searcher = index.searcher();
            let reader = searcher.segment_reader(0);
            let mut own = BitSet::with_max_value(reader.max_doc());
            (0..reader.max_doc()).filter(|doc| doc % 3 != 0).for_each(|doc| {
                own.insert(doc);
            });
            let fields = (index.fields().text, Some(index.fields().title), reader.max_doc());
            let counted = Counted { documents: scoped.then(|| Arc::new(own)), deleted: Arc::default() };
            let texts = Texts::open(reader, fields, counted, (WEIGHING, 4.0)).unwrap();
            let words: Vec<String> = (0..9).map(|rank| format!("w{rank}x")).collect();
            let terms = words.iter().enumerate().map(|(place, text)| Summand {
                text, information: 0.1 + 0.3 * place as f32, bit: 1 << place,
            });
            let terms: Vec<_> = terms.collect();
            let all = 0..texts.max_doc();
            let (mut plain, mut counting, mut quick) =
                (Strongest::default(), Strongest::of(most), Strongest::of(most));
            texts.sum(&terms, all.clone(), Passed::WithATerm, &mut plain).unwrap();
            texts.sum(&terms, all.clone(), Passed::WithATerm, &mut counting).unwrap();
            texts.sum(&terms, all, Passed::Wanted, &mut quick).unwrap();
            prop_assert_eq!(&counting.with_a_term, &plain.with_a_term);
            prop_assert!(quick.with_a_term.len() <= plain.with_a_term.len());
            let (docs, sums): (Vec<DocId>, Vec<Sum>) = plain.kept.iter().copied().unzip();
            prop_assert_eq!(texts.sums_of(&docs, &terms).unwrap(), sums);
            let expected = plain.sorted(most);
            prop_assert_eq!(counting.sorted(most), expected.clone());
            prop_assert_eq!(quick.sorted(most), expected);
        }
    }
}
