//! Conditions on documents, compiled for one segment.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::ops::{Bound, RangeBounds};

use tantivy::columnar::Column;
use tantivy::query::{EnableScoring, PhraseQuery, Query as _, TermQuery};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{BitSet, DocId, DocSet, Searcher, SegmentReader, TERMINATED, Term};

use recall_domain::document::{DocumentKey, Whose};
use recall_domain::ids::{ProjectKey, SessionId};
use recall_domain::observation::Maker;

use super::columns::Columns;
use super::query::Filter;
use super::request::{Scope, SearchRequest};
use super::schema::{self, Fields, PackedTraits};
use super::tokenizer::{CodeTokenizer, Form};

/// A condition on a document. Conditions of one kind are alternatives.
pub(crate) enum Condition {
    Kinds(Column<u64>, u32),
    Types(Column<u64>, u32),
    Since(Column<i64>, i64),
    /// Texts of a column, by ordinal. Each range is one text, or all texts with a common prefix.
    Texts(Column<u64>, Vec<(Bound<u64>, Bound<u64>)>),
    Among(BitSet),
    Whose(Column<u64>, Column<i64>, Whose),
    Either(Vec<Condition>),
}

impl Condition {
    pub(crate) fn admits(&self, doc: DocId) -> bool {
        match self {
            Self::Kinds(traits, set) => {
                traits.first(doc).is_some_and(|packed| PackedTraits(packed).kind_set() & set != 0)
            }
            Self::Types(traits, set) => {
                traits.first(doc).is_some_and(|packed| PackedTraits(packed).type_set() & set != 0)
            }
            Self::Since(at, earliest) => at.first(doc).is_some_and(|at| at >= *earliest),
            Self::Texts(numbers, ranges) => {
                numbers.first(doc).is_some_and(|number| ranges.iter().any(|range| range.contains(&number)))
            }
            Self::Among(docs) => docs.contains(doc),
            Self::Whose(traits, rows, whose) => {
                traits.first(doc).zip(rows.first(doc)).is_some_and(|(packed, row)| {
                    whose.has(DocumentKey { kind: PackedTraits(packed).kind(), row })
                })
            }
            Self::Either(conditions) => conditions.iter().any(|condition| condition.admits(doc)),
        }
    }
}

/// All conditions of a request for one segment.
#[derive(Default)]
pub(crate) struct Conditions {
    required: Vec<Condition>,
    excluded: Vec<Condition>,
}

impl Conditions {
    pub(crate) fn admits(&self, doc: DocId) -> bool {
        self.required.iter().all(|condition| condition.admits(doc))
            && !self.excluded.iter().any(|condition| condition.admits(doc))
    }
}

/// Compiles the conditions of a request, segment by segment.
pub(crate) struct ConditionBuilder<'a> {
    pub(crate) searcher: &'a Searcher,
    pub fields: &'a Fields,
    pub request: &'a SearchRequest,
}

impl ConditionBuilder<'_> {
    /// Compiles everything except the scope.
    pub(crate) fn build(&self, segment: &SegmentReader) -> tantivy::Result<Conditions> {
        let query = &self.request.query;
        let mut conditions = Conditions::default();
        let required = &mut conditions.required;
        if !self.request.kinds.is_empty() {
            let set = self.request.kinds.iter().fold(0, |set, kind| set | schema::kind_bit(*kind));
            required.push(Condition::Kinds(traits(segment)?, set));
        }
        if let Some(earliest) = self.request.since {
            required.push(Condition::Since(segment.fast_fields().i64(schema::AT)?, earliest.0));
        }
        let mut by_key: HashMap<Discriminant<Filter>, Vec<Condition>> = HashMap::new();
        for filter in &query.filters {
            by_key.entry(discriminant(filter)).or_default().push(self.filter(segment, filter)?);
        }
        required.extend(by_key.into_values().map(Condition::Either));
        for phrase in &query.phrases {
            required.extend(self.text(segment, self.fields.text, phrase)?);
        }
        for text in &query.without.texts {
            conditions.excluded.extend(self.text(segment, self.fields.text, text)?);
        }
        for filter in &query.without.filters {
            conditions.excluded.push(self.filter(segment, filter)?);
        }
        Ok(conditions)
    }

    fn filter(&self, segment: &SegmentReader, filter: &Filter) -> tantivy::Result<Condition> {
        Ok(match filter {
            Filter::Type(kind) => Condition::Types(traits(segment)?, schema::type_bit(*kind)),
            Filter::Kind(kind) => Condition::Kinds(traits(segment)?, schema::kind_bit(*kind)),
            Filter::File(path) => self
                .text(segment, self.fields.file, path)?
                .unwrap_or_else(|| Condition::Among(BitSet::with_max_value(segment.max_doc()))),
            Filter::Project(name) => Condition::Either(vec![
                equals(segment, schema::PROJECT, &[name])?,
                equals(segment, schema::PROJECT_NAME, &[name.to_lowercase().as_str()])?,
            ]),
            Filter::Agent(name) => equals(segment, schema::AGENT, &[name])?,
            Filter::Session(start) => starts_with(segment, schema::SESSION, start)?,
            Filter::By(author) => match self.request.whose.get(author) {
                Some(whose) => {
                    Condition::Whose(traits(segment)?, segment.fast_fields().i64(schema::ROW)?, whose.clone())
                }
                None => Condition::Either(Vec::new()),
            },
            Filter::Since(since) => {
                // A time before the calendar's range excludes nothing.
                let earliest =
                    since.resolve(self.request.now, &self.request.zone).map_or(i64::MIN, |at| at.0);
                Condition::Since(segment.fast_fields().i64(schema::AT)?, earliest)
            }
        })
    }

    /// Matches documents that contain these words in this order. `None` if the text has no words.
    fn text(&self, segment: &SegmentReader, field: Field, text: &str) -> tantivy::Result<Option<Condition>> {
        let terms = phrase_terms(field, text);
        let query: Box<dyn tantivy::query::Query> = match terms.as_slice() {
            [] => return Ok(None),
            [(_, term)] => Box::new(TermQuery::new(term.clone(), IndexRecordOption::Basic)),
            _ => Box::new(PhraseQuery::new_with_offset(terms)),
        };
        let weight = query.weight(EnableScoring::disabled_from_searcher(self.searcher))?;
        let mut docs = BitSet::with_max_value(segment.max_doc());
        let mut scorer = weight.scorer(segment, 1.0)?;
        while scorer.doc() != TERMINATED {
            docs.insert(scorer.doc());
            scorer.advance();
        }
        Ok(Some(Condition::Among(docs)))
    }
}

/// Returns the terms of a phrase: only the smallest ones, because compounds overlap their parts, and pairs their
/// single characters.
fn phrase_terms(field: Field, text: &str) -> Vec<(usize, Term)> {
    let tokens = CodeTokenizer::default().tokens(text);
    let has_pairs = tokens.iter().any(|token| token.form == Form::Pair);
    tokens
        .into_iter()
        .filter(|token| match token.form {
            Form::Word | Form::Part | Form::Pair => true,
            Form::Character => !has_pairs,
            Form::Compound | Form::ShortHash => false,
        })
        .map(|token| (token.position, Term::from_field_text(field, &token.text)))
        .collect()
}

fn traits(segment: &SegmentReader) -> tantivy::Result<Column<u64>> {
    segment.fast_fields().u64(schema::TRAITS)
}

/// Matches documents whose column has one of the texts.
pub(crate) fn equals(segment: &SegmentReader, column: &str, texts: &[&str]) -> tantivy::Result<Condition> {
    let Some(column) = segment.fast_fields().str(column)? else { return Ok(Condition::Either(Vec::new())) };
    let mut ranges = Vec::new();
    for text in texts {
        if let Some(number) = column.dictionary().term_ord(text.as_bytes())? {
            ranges.push((Bound::Included(number), Bound::Included(number)));
        }
    }
    Ok(Condition::Texts(column.ords().clone(), ranges))
}

/// Matches documents whose column has any text.
fn has(segment: &SegmentReader, column: &str) -> tantivy::Result<Condition> {
    let Some(column) = segment.fast_fields().str(column)? else { return Ok(Condition::Either(Vec::new())) };
    Ok(Condition::Texts(column.ords().clone(), vec![(Bound::Unbounded, Bound::Unbounded)]))
}

fn starts_with(segment: &SegmentReader, column: &str, start: &str) -> tantivy::Result<Condition> {
    let Some(column) = segment.fast_fields().str(column)? else { return Ok(Condition::Either(Vec::new())) };
    // 0xFF never occurs in UTF-8, so this sorts after every text with that prefix.
    let mut behind = start.as_bytes().to_vec();
    behind.push(0xff);
    let range = column
        .dictionary()
        .term_bounds_to_ord(Bound::Included(start.as_bytes().to_vec()), Bound::Excluded(behind))?;
    Ok(Condition::Texts(column.ords().clone(), vec![range]))
}

/// Returns the documents of one segment that are in scope and not deleted. `None` means all.
pub(crate) fn documents(
    segment: &SegmentReader,
    columns: &Columns,
    scope: &Scope,
) -> tantivy::Result<Option<BitSet>> {
    let condition = match scope {
        Scope::Everything if !segment.has_deletes() && columns.passages() == 0 => return Ok(None),
        // Passages have no project in this column.
        Scope::Everything => Some(has(segment, schema::PROJECT)?),
        Scope::Project(key) => Some(equals(segment, schema::PROJECT, &[key.as_str()])?),
    };
    let mut docs = BitSet::with_max_value(segment.max_doc());
    for doc in segment.doc_ids_alive() {
        if condition.as_ref().is_none_or(|condition| condition.admits(doc)) {
            docs.insert(doc);
        }
    }
    Ok(Some(docs))
}

/// Returns documents that a person wrote or pinned, in ascending order, including deleted ones.
pub(crate) fn by_hand(segment: &SegmentReader, columns: &Columns) -> Vec<DocId> {
    let maker = |doc| PackedTraits(columns.traits.first(doc).unwrap_or_default()).maker();
    (0..segment.max_doc()).filter(|doc| maker(*doc) == Maker::Person).collect()
}

/// Returns the passages of a project that are not deleted.
pub(crate) fn passages(
    segment: &SegmentReader,
    fields: &Fields,
    project: &ProjectKey,
) -> tantivy::Result<BitSet> {
    let mut docs = BitSet::with_max_value(segment.max_doc());
    let term = Term::from_field_text(fields.passage_project, project.as_str());
    let index = segment.inverted_index(fields.passage_project)?;
    let Some(mut postings) = index.read_postings(&term, IndexRecordOption::Basic)? else { return Ok(docs) };
    while postings.doc() != TERMINATED {
        if segment.alive_bitset().is_none_or(|alive| alive.is_alive(postings.doc())) {
            docs.insert(postings.doc());
        }
        postings.advance();
    }
    Ok(docs)
}

/// Matches documents of a session. `None` if the segment has none.
pub(crate) fn of_session(columns: &Columns, session: &SessionId) -> tantivy::Result<Option<Condition>> {
    let Some(column) = &columns.session else { return Ok(None) };
    let number = column.dictionary().term_ord(session.as_str().as_bytes())?;
    Ok(number.map(|number| {
        Condition::Texts(column.ords().clone(), vec![(Bound::Included(number), Bound::Included(number))])
    }))
}
