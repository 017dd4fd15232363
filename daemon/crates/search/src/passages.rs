//! Finds passages of a project that may answer a prompt.
//!
//! Passages are documents of the index with their own fields. A search reads only the posting lists of the prompt's
//! terms and the list of the project's passages.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocId, DocSet, Searcher, SegmentReader, TERMINATED};

use recall_domain::document::{DocumentKey, Status};
use recall_domain::ids::{ProjectKey, SessionId, Timestamp};
use recall_domain::passage::{PassageKey, PassageMatch, PassageMatches, PassageTerm};
use recall_domain::ranking::{Frequency, information};

use super::columns::Columns;
use super::fresh_passages::{FreshPassages, Weighed};
use super::query::Query;
use super::schema::{Fields, PackedTraits};
use super::segment_cache::{Population, SegmentCache};
use super::sums::{Counted, Passed, Ranking, Sum, Summand, Texts, rarest_first};
use super::terms::{self, QueryTerm};
use super::weights::WEIGHING_OF_PASSAGES;

/// A search for passages.
#[derive(Clone, Copy, Debug)]
pub struct PassageRequest<'a> {
    pub prompt: &'a str,
    pub project: &'a ProjectKey,
    /// The session whose passages are excluded.
    pub except: Option<&'a SessionId>,
    /// The maximum number of passages found by words.
    pub limit: usize,
    /// Passages that are returned in any case, whatever their words.
    pub near: &'a [PassageKey],
}

/// Searches the index and the fresh passages together. The index decides which words of a long prompt are rare.
pub(crate) fn find(
    searcher: &Searcher,
    fields: &Fields,
    cache: &SegmentCache,
    request: &PassageRequest<'_>,
    fresh: &FreshPassages,
) -> tantivy::Result<PassageMatches> {
    let wanted = terms::select(searcher, fields, terms::query_terms(&Query::plain(request.prompt)))?;
    let parts = Part::open_all(searcher, fields, cache, request, fresh)?;
    let population = parts.iter().map(Part::population).sum::<usize>();
    let mut matches = PassageMatches {
        population: u32::try_from(population).unwrap_or(u32::MAX),
        ..PassageMatches::default()
    };
    if wanted.is_empty() || population == 0 {
        return Ok(PassageMatches::default());
    }
    for term in wanted.iter().take(terms::MOST_TERMS) {
        matches.terms.push(count(&parts, term, matches.population)?);
    }
    let near = near(fields, &parts, request.near)?;
    let best = best(&parts, &matches.terms, request.limit, near)?;
    let whole: f32 = matches.terms.iter().map(|term| term.information).sum();
    for found in best {
        matches.matches.extend(found.passage(fields, &parts, whole)?);
    }
    // Segment numbers change; keys do not.
    matches.matches.sort_by(|a, b| b.strength.total_cmp(&a.strength).then_with(|| a.key.cmp(&b.key)));
    Ok(matches)
}

/// A segment that contains passages of the project.
struct Segment<'a> {
    reader: &'a SegmentReader,
    columns: Arc<Columns>,
    texts: Texts,
}

/// Where passages are: in a segment, or fresh.
enum Part<'a> {
    Indexed(Segment<'a>),
    Fresh(Weighed<'a>),
}

impl<'a> Part<'a> {
    /// Opens the segments, then the fresh passages.
    fn open_all(
        searcher: &'a Searcher,
        fields: &Fields,
        cache: &SegmentCache,
        request: &PassageRequest<'_>,
        fresh: &'a FreshPassages,
    ) -> tantivy::Result<Vec<Self>> {
        let (mut tokens, mut passages) = fresh.size();
        let mut opened = Vec::new();
        for reader in searcher.segment_readers() {
            let columns = cache.columns(reader)?;
            // The average covers all segments, because which of them contain the project depends on how they were
            // merged.
            tokens += reader.inverted_index(fields.passage)?.total_num_tokens();
            passages += columns.passages();
            let known = cache.population(
                reader,
                fields,
                &Population::Passages(request.project.clone(), request.except.cloned()),
            )?;
            let Some(documents) = known.filter(|documents| documents.len() > 0) else { continue };
            opened.push((reader, columns, without(reader, fields, documents, &fresh.keys)?));
        }
        let average_length = if passages == 0 { 0.0 } else { tokens as f32 / passages as f32 };
        let open = |(reader, columns, documents): (_, Arc<Columns>, _)| {
            let weighing = (WEIGHING_OF_PASSAGES, average_length);
            let of_passages = (fields.passage, None, columns.passages());
            let counted = Counted { documents: Some(documents), deleted: cache.deleted(reader) };
            let texts = Texts::open(reader, of_passages, counted, weighing)?;
            Ok(Self::Indexed(Segment { reader, columns, texts }))
        };
        let newest = Self::Fresh(fresh.weighed(WEIGHING_OF_PASSAGES.by_length(average_length)));
        opened.into_iter().map(open).chain([Ok(newest)]).collect()
    }

    fn population(&self) -> usize {
        match self {
            Self::Indexed(segment) => segment.texts.population(),
            Self::Fresh(passages) => passages.population(),
        }
    }

    fn frequency(&self, term: &str) -> tantivy::Result<u32> {
        match self {
            Self::Indexed(segment) => segment.texts.frequency(term),
            Self::Fresh(passages) => Ok(passages.frequency(term)),
        }
    }
}

/// Removes the passages of some documents from a set.
fn without(
    reader: &SegmentReader,
    fields: &Fields,
    mut passages: Arc<BitSet>,
    keys: &HashSet<DocumentKey>,
) -> tantivy::Result<Arc<BitSet>> {
    let index = reader.inverted_index(fields.key)?;
    for key in keys {
        let Some(mut postings) = index.read_postings(&fields.key_term(*key), IndexRecordOption::Basic)?
        else {
            continue;
        };
        while postings.doc() != TERMINATED {
            Arc::make_mut(&mut passages).remove(postings.doc());
            postings.advance();
        }
    }
    Ok(passages)
}

/// Returns a term with its information among the passages.
fn count(parts: &[Part<'_>], term: &QueryTerm, population: u32) -> tantivy::Result<PassageTerm> {
    let mut passages: u32 = 0;
    for part in parts {
        passages = passages.saturating_add(part.frequency(&term.text)?);
    }
    let information = information(Frequency { documents: passages, population }, term.commonness);
    Ok(PassageTerm {
        text: term.text.clone(),
        information: information * term.share,
        passages,
        commonness: term.commonness,
    })
}

/// Returns the passages with these keys, by part.
fn near(
    fields: &Fields,
    parts: &[Part<'_>],
    keys: &[PassageKey],
) -> tantivy::Result<HashSet<(usize, DocId)>> {
    let mut near = HashSet::new();
    for (number, part) in parts.iter().enumerate() {
        let segment = match part {
            Part::Indexed(segment) => segment,
            Part::Fresh(passages) => {
                near.extend(passages.near(keys).map(|doc| (number, doc)));
                continue;
            }
        };
        let index = segment.reader.inverted_index(fields.key)?;
        for key in keys {
            let Some(mut postings) =
                index.read_postings(&fields.key_term(key.document), IndexRecordOption::Basic)?
            else {
                continue;
            };
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                if segment.texts.counts(doc) && segment.columns.part.first(doc) == Some(u64::from(key.part)) {
                    near.insert((number, doc));
                }
                postings.advance();
            }
        }
    }
    Ok(near)
}

/// Returns the strongest passages, and the requested ones.
fn best(
    parts: &[Part<'_>],
    terms: &[PassageTerm],
    limit: usize,
    mut near: HashSet<(usize, DocId)>,
) -> tantivy::Result<Vec<FoundPassage>> {
    let summands = terms.iter().zip(0..).map(|(term, place)| Summand {
        text: &term.text,
        information: term.information,
        bit: 1_u32.checked_shl(place).unwrap_or(0),
    });
    let mut summands: Vec<Summand<'_>> = summands.collect();
    summands.sort_by(|a, b| rarest_first(a.information, b.information));
    let mut strongest = Strongest { limit, heap: BinaryHeap::with_capacity(limit + 1), floor: None };
    for (number, part) in parts.iter().enumerate().filter(|_| limit > 0) {
        let mut ranking = PartRanking { strongest: &mut strongest, part: number };
        match part {
            Part::Indexed(Segment { texts, .. }) => {
                texts.sum(&summands, 0..texts.max_doc(), Passed::Wanted, &mut ranking)?;
            }
            Part::Fresh(passages) => {
                let with_a_term = passages.sums(&summands).filter(|(_, sum)| sum.found != 0);
                with_a_term.for_each(|(doc, sum)| ranking.visit(doc, sum));
            }
        }
    }
    let mut best: Vec<FoundPassage> = strongest.heap.into_iter().map(|Reverse(found)| found).collect();
    for found in &best {
        near.remove(&found.place);
    }
    for (number, part) in parts.iter().enumerate() {
        let mut docs: Vec<DocId> =
            near.iter().filter(|(other, _)| *other == number).map(|(_, doc)| *doc).collect();
        docs.sort_unstable();
        let found = |(doc, sum)| FoundPassage { place: (number, doc), sum };
        match part {
            Part::Indexed(segment) => {
                let sums = segment.texts.sums_of(&docs, &summands)?;
                best.extend(docs.into_iter().zip(sums).map(found));
            }
            Part::Fresh(passages) => {
                best.extend(passages.sums(&summands).filter(|(doc, _)| docs.contains(doc)).map(found));
            }
        }
    }
    Ok(best)
}

/// The strongest passages so far.
struct Strongest {
    limit: usize,
    heap: BinaryHeap<Reverse<FoundPassage>>,
    /// The lowest strength in the list once it is full.
    floor: Option<f32>,
}

struct PartRanking<'a> {
    strongest: &'a mut Strongest,
    part: usize,
}

impl Ranking for PartRanking<'_> {
    fn wants(&self, strength: f32) -> bool {
        self.strongest.floor.is_none_or(|floor| strength > floor)
    }

    fn visit(&mut self, doc: DocId, sum: Sum) {
        if !self.wants(sum.strength) {
            return;
        }
        let Strongest { limit, heap, floor } = self.strongest;
        heap.push(Reverse(FoundPassage { place: (self.part, doc), sum }));
        if heap.len() > *limit {
            heap.pop();
            *floor = heap.peek().map(|Reverse(weakest)| weakest.sum.strength);
        }
    }

    fn pass(&mut self, _doc: DocId) {}
}

/// A found passage: its part and document, and the sum of its terms.
#[derive(Clone, Copy)]
struct FoundPassage {
    place: (usize, DocId),
    sum: Sum,
}

impl FoundPassage {
    /// Returns the match. `None` for a passage that was superseded or resolved: it can be searched for, but is never
    /// injected.
    fn passage(
        self,
        fields: &Fields,
        parts: &[Part<'_>],
        whole: f32,
    ) -> tantivy::Result<Option<PassageMatch>> {
        let Self { place: (part, doc), sum } = self;
        let (reader, columns) = match parts.get(part) {
            Some(Part::Indexed(Segment { reader, columns, .. })) => (reader, columns),
            Some(Part::Fresh(passages)) => return Ok(passages.matched(doc, sum, whole)),
            None => return Ok(None),
        };
        let traits = PackedTraits(columns.traits.first(doc).unwrap_or_default());
        if traits.status() != Status::Active {
            return Ok(None);
        }
        let row = columns.row.first(doc).unwrap_or_default();
        let part = columns.part.first(doc).unwrap_or_default();
        let lengths = reader.get_fieldnorms_reader(fields.passage)?;
        Ok(Some(PassageMatch {
            key: PassageKey {
                document: DocumentKey { kind: traits.kind(), row },
                part: u32::try_from(part).unwrap_or_default(),
            },
            at: Timestamp(columns.at.first(doc).unwrap_or_default()),
            conversation: columns.conversation.first(doc).unwrap_or_default(),
            importance: traits.importance(),
            observation_type: traits.observation_type(),
            length: FieldNormReader::id_to_fieldnorm(lengths.fieldnorm_id(doc)),
            strength: sum.strength / whole.max(f32::MIN_POSITIVE),
            found: sum.found,
            cosine: None,
        }))
    }
}

impl Ord for FoundPassage {
    /// Compares by strength. On a tie the later document is less, so that the order is deterministic.
    fn cmp(&self, other: &Self) -> Ordering {
        self.sum.strength.total_cmp(&other.sum.strength).then_with(|| other.place.cmp(&self.place))
    }
}

impl PartialOrd for FoundPassage {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for FoundPassage {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for FoundPassage {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::parse;
    use crate::{FreshDocument, Index, Opened, SearchRequest, search};
    use recall_domain::document::{Document, DocumentKind};
    use recall_domain::ids::{AgentName, LogSeq};
    use recall_domain::observation::{Importance, Maker};
    use recall_domain::passage;

    fn answer(row: i64, session: &str, text: &str) -> Document {
        Document {
            key: DocumentKey { kind: DocumentKind::Response, row },
            project: ProjectKey::from("shop"),
            project_name: "Shop".to_owned(),
            agent: AgentName::from("claude-code"),
            session: SessionId::from(session),
            observation_type: None,
            status: Status::Active,
            importance: Importance::clamped(5),
            maker: Maker::Machine,
            at: Timestamp(row),
            files: Vec::new(),
            title: String::new(),
            body: text.to_owned(),
            passages: passage::cut(text),
        }
    }

    fn filled(documents: &[Document]) -> (tempfile::TempDir, Opened) {
        let folder = tempfile::tempdir().unwrap();
        let mut opened = Index::open(folder.path()).unwrap();
        for document in documents {
            opened.writer.put(document).unwrap();
            // Several segments.
            opened.writer.commit(LogSeq(1)).unwrap();
        }
        (folder, opened)
    }

    fn found(index: &Index, prompt: &str, except: Option<&str>) -> Vec<String> {
        let (project, except) = (ProjectKey::from("shop"), except.map(SessionId::from));
        let request =
            PassageRequest { prompt, project: &project, except: except.as_ref(), limit: 10, near: &[] };
        let found = index.passages(&request, &FreshPassages::default()).unwrap();
        found.matches.iter().map(|one| format!("{}.{}", one.key.document, one.key.part)).collect()
    }

    fn two_sections() -> String {
        let filler = "This sentence makes the section long enough to stand alone. ".repeat(4);
        format!(
            "## Login\n\nThe login runs bcrypt. {filler}\n\n## Cart\n\nThe cart rounds totals once. {filler}"
        )
    }

    #[test]
    fn only_the_matching_passage_of_a_document_is_found() {
        let mut elsewhere = answer(3, "c", "The cart of the blog rounds nothing at all.");
        elsewhere.project = ProjectKey::from("blog");
        let mut replaced = answer(4, "d", "The cart once rounded totals for each row.");
        replaced.status = Status::Superseded;
        let (_folder, opened) = filled(&[
            answer(1, "a", &two_sections()),
            answer(2, "b", "The cart is a list of rows."),
            elsewhere,
            replaced,
        ]);
        assert_eq!(found(&opened.index, "how does the cart round totals?", None), ["r1.1", "r2.0"]);
        assert_eq!(found(&opened.index, "how does the cart round totals?", Some("a")), ["r2.0"]);
        assert_eq!(found(&opened.index, "bcrypt", None), ["r1.0"]);
    }

    #[test]
    fn passages_change_with_their_document_and_do_not_count_as_documents() {
        let (_folder, mut opened) =
            filled(&[answer(1, "a", &two_sections()), answer(2, "b", "The cart is a list of rows.")]);
        assert_eq!(opened.index.documents(), 2);
        let hits = search(&[&opened.index], &SearchRequest::new(parse("cart"), Timestamp(9))).unwrap();
        assert_eq!((hits.total, hits.hits.len()), (2, 2));
        opened.writer.put(&answer(1, "a", "The login runs argon2 now.")).unwrap();
        opened.writer.commit(LogSeq(2)).unwrap();
        assert_eq!(found(&opened.index, "cart", None), ["r2.0"]);
        assert_eq!(found(&opened.index, "login argon2", None), ["r1.0"]);
        opened.writer.delete(DocumentKey { kind: DocumentKind::Response, row: 2 });
        opened.writer.commit(LogSeq(3)).unwrap();
        assert_eq!(found(&opened.index, "cart", None), Vec::<String>::new());
        assert_eq!(opened.index.documents(), 1);
    }

    #[test]
    fn requested_near_passages_are_returned_without_a_common_word() {
        let (_folder, opened) =
            filled(&[answer(1, "a", &two_sections()), answer(2, "b", "The cart is a list of rows.")]);
        let (project, except) = (ProjectKey::from("shop"), SessionId::from("b"));
        let key =
            |row, part| PassageKey { document: DocumentKey { kind: DocumentKind::Response, row }, part };
        let near = [key(1, 0), key(2, 0), key(9, 0), key(1, 7)];
        let request = PassageRequest {
            prompt: "totals",
            project: &project,
            except: Some(&except),
            limit: 10,
            near: &near,
        };
        let found = opened.index.passages(&request, &FreshPassages::default()).unwrap();
        let found: Vec<_> = found.matches.iter().map(|one| (one.key, one.found)).collect();
        assert_eq!(found, [(key(1, 1), 1), (key(1, 0), 0)], "what is near, unless it is the session's own");
    }

    #[test]
    fn passages_of_unindexed_documents_are_found_with_their_current_text() {
        let (_folder, opened) =
            filled(&[answer(1, "a", &two_sections()), answer(2, "b", "The cart is a list of rows.")]);
        let written = [answer(1, "a", "The cart is drawn by a robot."), answer(3, "c", "A cart has wheels.")];
        let removed = DocumentKey { kind: DocumentKind::Response, row: 2 };
        let keys = written.iter().map(|document| document.key).chain([removed]).collect();
        let documents = written.iter().map(|document| Arc::new(FreshDocument::of(document))).collect();
        let fresh = FreshPassages { keys, documents };
        let found = |prompt: &str| {
            let project = ProjectKey::from("shop");
            let request = PassageRequest { prompt, project: &project, except: None, limit: 10, near: &[] };
            let found = opened.index.passages(&request, &fresh).unwrap();
            let mut rows: Vec<_> = found.matches.iter().map(|one| one.key.document.row).collect();
            rows.sort_unstable();
            (rows, found.population)
        };
        assert_eq!(found("cart"), (vec![1, 3], 2));
        assert_eq!(found("bcrypt"), (vec![], 2));
    }

    #[test]
    fn a_passage_matches_equally_before_and_after_it_is_indexed() {
        let old = answer(1, "a", &two_sections());
        let mut newest =
            answer(2, "b", "The cart rounds the totals of the cart, and getUserName reads `cart.rs`.");
        newest.observation_type = Some(recall_domain::observation::ObservationType::Bugfix);
        newest.importance = Importance::clamped(8);
        let mut replaced = answer(3, "c", "The cart once rounded totals for each row.");
        replaced.status = Status::Superseded;
        let project = ProjectKey::from("shop");
        let key =
            |row, part| PassageKey { document: DocumentKey { kind: DocumentKind::Response, row }, part };
        let near = [key(2, 0), key(1, 0)];
        for prompt in ["how does the cart round totals?", "user name", "bcrypt", "nothing of it"] {
            for limit in [1, 10] {
                let request = PassageRequest { prompt, project: &project, except: None, limit, near: &near };
                let (_folder, before) = filled(std::slice::from_ref(&old));
                let documents = [&newest, &replaced].map(|document| Arc::new(FreshDocument::of(document)));
                let keys = HashSet::from([newest.key, replaced.key]);
                let fresh = FreshPassages { keys, documents: documents.to_vec() };
                let (_other, after) = filled(&[old.clone(), newest.clone(), replaced.clone()]);
                assert_eq!(
                    before.index.passages(&request, &fresh).unwrap(),
                    after.index.passages(&request, &FreshPassages::default()).unwrap(),
                    "{prompt}"
                );
            }
        }
    }

    #[test]
    fn a_passages_strength_does_not_depend_on_the_index_segments() {
        let mut long =
            answer(2, "b", &"An answer of another project is much longer than the one here. ".repeat(9));
        long.project = ProjectKey::from("farm");
        let documents = [answer(1, "a", "The login page is slow"), long];
        let (_divided_folder, divided) = filled(&documents);
        let folder = tempfile::tempdir().unwrap();
        let mut one = Index::open(folder.path()).unwrap();
        for document in &documents {
            one.writer.put(document).unwrap();
        }
        one.writer.commit(LogSeq(1)).unwrap();
        let project = ProjectKey::from("shop");
        let request =
            PassageRequest { prompt: "slow login", project: &project, except: None, limit: 9, near: &[] };
        let found = |index: &Index| index.passages(&request, &FreshPassages::default()).unwrap();
        assert_eq!(found(&divided.index), found(&one.index));
    }
}
