//! Finds the passages of a project that may answer a prompt.
//!
//! Passages are documents of the index with fields of their own. Only the posting lists of the prompt's terms and the
//! list of the project's passages are read.

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocId, DocSet, Searcher, SegmentReader, TERMINATED, Term};

use std::collections::HashSet;

use crate::memory::document::{DocumentKey, Status};
use crate::memory::ids::{ProjectKey, SessionId, Timestamp};
use crate::memory::passage::{PassageKey, PassageMatch, PassageMatches, PassageTerm};
use crate::memory::ranking::{Frequency, TermField, information, presence};

use super::filter::equals;
use super::query::Query;
use super::schema::{self, Fields, PackedTraits};
use super::terms::{self, QueryTerm};

/// What is searched for.
#[derive(Clone, Copy, Debug)]
pub struct PassageRequest<'a> {
    pub prompt: &'a str,
    pub project: &'a ProjectKey,
    /// Its passages are not found.
    pub except: Option<&'a SessionId>,
    /// So many are found by their words.
    pub limit: usize,
    /// These are found, too, whatever words they have.
    pub near: &'a [PassageKey],
}

/// An index, without some of its documents.
pub(crate) struct PassagePart<'a> {
    pub searcher: &'a Searcher,
    pub without: &'a HashSet<DocumentKey>,
}

/// The sums for one passage.
#[derive(Clone, Copy, Default)]
struct Sum {
    strength: f32,
    found: u32,
}

/// Searches the parts as one index. The first says which words of a long prompt are rare.
pub(crate) fn find(
    parts: &[PassagePart<'_>],
    fields: &Fields,
    request: &PassageRequest<'_>,
) -> tantivy::Result<PassageMatches> {
    let Some(first) = parts.first() else { return Ok(PassageMatches::default()) };
    let wanted = terms::select(first.searcher, fields, terms::query_terms(&Query::plain(request.prompt)))?;
    let mut segments = Vec::new();
    for part in parts {
        Segment::open_all(part, fields, request, &mut segments)?;
    }
    let population = segments.iter().map(|segment| segment.passages.len()).sum::<usize>();
    if wanted.is_empty() || population == 0 {
        return Ok(PassageMatches::default());
    }
    let mut tally = Tally {
        population: u32::try_from(population).unwrap_or(u32::MAX),
        average_length: average_length(&segments, fields)?,
        sums: segments.iter().map(|one| vec![Sum::default(); one.reader.max_doc() as usize]).collect(),
        terms: Vec::new(),
        whole: 0.0,
    };
    for term in wanted.iter().take(terms::MOST_TERMS) {
        tally.count(fields, &segments, term)?;
    }
    let near = near(fields, &segments, request.near)?;
    tally.best(fields, &segments, request.limit, near)
}

/// The passages of these keys, as the segments have them.
fn near(
    fields: &Fields,
    segments: &[Segment<'_>],
    keys: &[PassageKey],
) -> tantivy::Result<HashSet<(usize, DocId)>> {
    let mut near = HashSet::new();
    for (number, segment) in segments.iter().enumerate() {
        let index = segment.reader.inverted_index(fields.key)?;
        let parts = segment.reader.fast_fields().u64(schema::PART)?;
        for key in keys {
            let Some(mut postings) =
                index.read_postings(&fields.key_term(key.document), IndexRecordOption::Basic)?
            else {
                continue;
            };
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                if segment.passages.contains(doc) && parts.first(doc) == Some(u64::from(key.part)) {
                    near.insert((number, doc));
                }
                postings.advance();
            }
        }
    }
    Ok(near)
}

/// A segment with the project's passages.
struct Segment<'a> {
    reader: &'a SegmentReader,
    passages: BitSet,
}

impl<'a> Segment<'a> {
    fn open_all(
        part: &PassagePart<'a>,
        fields: &Fields,
        request: &PassageRequest<'_>,
        segments: &mut Vec<Self>,
    ) -> tantivy::Result<()> {
        let project = Term::from_field_text(fields.passage_project, request.project.as_str());
        for reader in part.searcher.segment_readers() {
            let index = reader.inverted_index(fields.passage_project)?;
            let Some(mut postings) = index.read_postings(&project, IndexRecordOption::Basic)? else {
                continue;
            };
            let own = match request.except {
                Some(session) => Some(equals(reader, schema::SESSION, &[session.as_str()])?),
                None => None,
            };
            let mut passages = BitSet::with_max_value(reader.max_doc());
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                let is_own = own.as_ref().is_some_and(|own| own.admits(doc));
                if !is_own && reader.alive_bitset().is_none_or(|alive| alive.is_alive(doc)) {
                    passages.insert(doc);
                }
                postings.advance();
            }
            for key in part.without {
                let replaced = reader.inverted_index(fields.key)?;
                let Some(mut postings) =
                    replaced.read_postings(&fields.key_term(*key), IndexRecordOption::Basic)?
                else {
                    continue;
                };
                while postings.doc() != TERMINATED {
                    passages.remove(postings.doc());
                    postings.advance();
                }
            }
            segments.push(Self { reader, passages });
        }
        Ok(())
    }
}

/// The average length of a passage in the segments, in terms.
fn average_length(segments: &[Segment<'_>], fields: &Fields) -> tantivy::Result<f32> {
    let (mut tokens, mut passages) = (0, 0);
    for segment in segments {
        tokens += segment.reader.inverted_index(fields.passage)?.total_num_tokens();
        passages += super::filter::passage_count(segment.reader)?;
    }
    Ok(if passages == 0 { 0.0 } else { tokens as f32 / passages as f32 })
}

struct Tally {
    population: u32,
    average_length: f32,
    /// For each segment, by document.
    sums: Vec<Vec<Sum>>,
    terms: Vec<PassageTerm>,
    /// The sum of a passage that has every term.
    whole: f32,
}

impl Tally {
    fn count(&mut self, fields: &Fields, segments: &[Segment<'_>], term: &QueryTerm) -> tantivy::Result<()> {
        let mut matches: Vec<((usize, DocId), f32)> = Vec::new();
        for (number, segment) in segments.iter().enumerate() {
            let index = segment.reader.inverted_index(fields.passage)?;
            let lookup = Term::from_field_text(fields.passage, &term.text);
            let Some(mut postings) = index.read_postings(&lookup, IndexRecordOption::WithFreqs)? else {
                continue;
            };
            let lengths = segment.reader.get_fieldnorms_reader(fields.passage)?;
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                if segment.passages.contains(doc) {
                    let length = FieldNormReader::id_to_fieldnorm(lengths.fieldnorm_id(doc));
                    let presence =
                        presence(postings.term_freq(), TermField::Text, length, self.average_length);
                    matches.push(((number, doc), presence));
                }
                postings.advance();
            }
        }
        let passages = u32::try_from(matches.len()).unwrap_or(u32::MAX);
        let frequency = Frequency { documents: passages, population: self.population };
        let information = information(frequency, term.commonness) * term.share;
        let bit = 1_u32.checked_shl(u32::try_from(self.terms.len()).unwrap_or(u32::MAX)).unwrap_or(0);
        for ((segment, doc), presence) in matches {
            let sums = self.sums.get_mut(segment);
            if let Some(sum) = sums.and_then(|sums| sums.get_mut(doc as usize)) {
                sum.strength += presence * information;
                sum.found |= bit;
            }
        }
        self.whole += information;
        self.terms.push(PassageTerm {
            text: term.text.clone(),
            information,
            passages,
            commonness: term.commonness,
        });
        Ok(())
    }

    fn best(
        self,
        fields: &Fields,
        segments: &[Segment<'_>],
        limit: usize,
        near: HashSet<(usize, DocId)>,
    ) -> tantivy::Result<PassageMatches> {
        let found = self.sums.iter().enumerate().flat_map(|(segment, sums)| {
            let sums = sums.iter().zip(0..).filter(|(sum, _)| sum.found != 0);
            sums.map(move |(sum, doc): (&Sum, DocId)| ((segment, doc), *sum))
        });
        let mut ranked: Vec<((usize, DocId), Sum)> = found.collect();
        let most = limit.min(ranked.len());
        let order = |a: &((usize, DocId), Sum), b: &((usize, DocId), Sum)| {
            b.1.strength.total_cmp(&a.1.strength).then(a.0.cmp(&b.0))
        };
        if most > 0 && most < ranked.len() {
            ranked.select_nth_unstable_by(most - 1, order);
            ranked.truncate(most);
        }
        let known: HashSet<(usize, DocId)> = ranked.iter().map(|(place, _)| *place).collect();
        ranked.extend(near.into_iter().filter(|place| !known.contains(place)).map(|place| {
            let sum = self.sums.get(place.0).and_then(|sums| sums.get(place.1 as usize));
            (place, sum.copied().unwrap_or_default())
        }));
        let mut matches = Vec::with_capacity(ranked.len());
        for (number, segment) in segments.iter().enumerate() {
            let columns = segment.reader.fast_fields();
            let (row, part) = (columns.i64(schema::ROW)?, columns.u64(schema::PART)?);
            let (at, traits) = (columns.i64(schema::AT)?, columns.u64(schema::TRAITS)?);
            let conversation = columns.u64(schema::CONVERSATION)?;
            let lengths = segment.reader.get_fieldnorms_reader(fields.passage)?;
            for ((_, doc), sum) in ranked.iter().filter(|((of, _), _)| *of == number) {
                let traits = PackedTraits(traits.first(*doc).unwrap_or_default());
                // What was replaced or resolved can be searched for, and is never told.
                if traits.status() != Status::Active {
                    continue;
                }
                let document = DocumentKey { kind: traits.kind(), row: row.first(*doc).unwrap_or_default() };
                let part = part.first(*doc).and_then(|part| u32::try_from(part).ok()).unwrap_or_default();
                matches.push(PassageMatch {
                    key: PassageKey { document, part },
                    at: Timestamp(at.first(*doc).unwrap_or_default()),
                    conversation: conversation.first(*doc).unwrap_or_default(),
                    importance: traits.importance(),
                    observation_type: traits.observation_type(),
                    length: FieldNormReader::id_to_fieldnorm(lengths.fieldnorm_id(*doc)),
                    strength: sum.strength / self.whole.max(f32::MIN_POSITIVE),
                    found: sum.found,
                    cosine: None,
                });
            }
        }
        // The numbers of segments change; keys do not.
        matches.sort_by(|a, b| b.strength.total_cmp(&a.strength).then_with(|| a.key.cmp(&b.key)));
        Ok(PassageMatches { terms: self.terms, population: self.population, matches, background: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::document::{Document, DocumentKind};
    use crate::memory::ids::AgentName;
    use crate::memory::observation::Importance;
    use crate::memory::passage;
    use crate::search::query::parse;
    use crate::search::{Current, Fresh, Index, Opened, Request, search};

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
            opened.writer.commit(1).unwrap();
        }
        (folder, opened)
    }

    fn found(index: &Index, prompt: &str, except: Option<&str>) -> Vec<String> {
        let (project, except) = (ProjectKey::from("shop"), except.map(SessionId::from));
        let request =
            PassageRequest { prompt, project: &project, except: except.as_ref(), limit: 10, near: &[] };
        let found = Current { index, fresh: &Fresh::default() }.passages(&request).unwrap();
        found.matches.iter().map(|one| format!("{}.{}", one.key.document, one.key.part)).collect()
    }

    fn two_sections() -> String {
        let filler = "This sentence makes the section long enough to stand alone. ".repeat(4);
        format!(
            "## Login\n\nThe login runs bcrypt. {filler}\n\n## Cart\n\nThe cart rounds totals once. {filler}"
        )
    }

    #[test]
    fn the_passage_is_found_and_not_the_whole() {
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
    fn passages_come_and_go_with_their_document_and_are_no_documents() {
        let (_folder, mut opened) =
            filled(&[answer(1, "a", &two_sections()), answer(2, "b", "The cart is a list of rows.")]);
        assert_eq!(opened.index.documents(), 2);
        let hits = search(&[&opened.index], &Request::new(parse("cart"), Timestamp(9))).unwrap();
        assert_eq!((hits.total, hits.hits.len()), (2, 2));
        opened.writer.put(&answer(1, "a", "The login runs argon2 now.")).unwrap();
        opened.writer.commit(2).unwrap();
        assert_eq!(found(&opened.index, "cart", None), ["r2.0"]);
        assert_eq!(found(&opened.index, "login argon2", None), ["r1.0"]);
        opened.writer.delete(DocumentKey { kind: DocumentKind::Response, row: 2 });
        opened.writer.commit(3).unwrap();
        assert_eq!(found(&opened.index, "cart", None), Vec::<String>::new());
        assert_eq!(opened.index.documents(), 1);
    }

    #[test]
    fn what_is_near_is_found_without_a_common_word() {
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
        let found = Current { index: &opened.index, fresh: &Fresh::default() }.passages(&request).unwrap();
        let found: Vec<_> = found.matches.iter().map(|one| (one.key, one.found)).collect();
        assert_eq!(found, [(key(1, 1), 1), (key(1, 0), 0)], "what is near, unless it is the session's own");
    }

    #[test]
    fn what_the_index_has_not_taken_is_found_as_it_is() {
        let (_folder, opened) =
            filled(&[answer(1, "a", &two_sections()), answer(2, "b", "The cart is a list of rows.")]);
        let written = [answer(1, "a", "The cart is drawn by a robot."), answer(3, "c", "A cart has wheels.")];
        let removed = DocumentKey { kind: DocumentKind::Response, row: 2 };
        let keys = written.iter().map(|document| document.key).chain([removed]).collect();
        let fresh = Fresh::new(keys, &written).unwrap();
        let found = |prompt: &str| {
            let project = ProjectKey::from("shop");
            let request = PassageRequest { prompt, project: &project, except: None, limit: 10, near: &[] };
            let found = Current { index: &opened.index, fresh: &fresh }.passages(&request).unwrap();
            let mut rows: Vec<_> = found.matches.iter().map(|one| one.key.document.row).collect();
            rows.sort_unstable();
            (rows, found.population)
        };
        assert_eq!(found("cart"), (vec![1, 3], 2));
        assert_eq!(found("bcrypt"), (vec![], 2));
    }
}
