//! The fields of the index.

use sha2::{Digest, Sha256};
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, STRING, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::tokenizer::TextAnalyzer;
use tantivy::{TantivyDocument, Term};

use recall_domain::document::{Document, DocumentKey, DocumentKind, Status};
use recall_domain::observation::{Importance, Maker, ObservationType};
use recall_domain::passage::Passage;

use super::long_text::both_ends;
use super::tokenizer::{self, CodeTokenizer};

/// Must be increased whenever documents would be indexed differently: fields, tokenizer, meaning of a field. An index
/// with another version is rebuilt.
pub(crate) const SCHEMA_VERSION: u32 = 7;

/// The number of bytes of a body that are indexed, at its beginning and at its end. Longer bodies are program output,
/// whose middle would only dilute the statistics.
pub(super) const LONGEST_HEAD: usize = 49_152;
pub(super) const LONGEST_TAIL: usize = 16_384;

/// The fields. Columns are named by constants because tantivy opens them by name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    /// Kind letter and row, such as `o123`. Identifies the document to replace.
    pub key: Field,
    /// Title and body, with positions.
    pub text: Field,
    /// The title again, so that it can have its own weight.
    pub title: Field,
    /// Paths split into components, for `file:`.
    pub file: Field,
    row: Field,
    traits: Field,
    at: Field,
    project: Field,
    project_name: Field,
    agent: Field,
    session: Field,
    conversation: Field,
    /// The text of a passage with its heading. Other documents lack it, so searches for documents find no passages.
    pub passage: Field,
    /// The project of a passage, as a term: its posting list is the project's passages.
    pub(crate) passage_project: Field,
    part: Field,
}

pub(crate) const ROW: &str = "row";
pub(crate) const TRAITS: &str = "traits";
pub(crate) const AT: &str = "at";
pub(crate) const PROJECT: &str = "project";
pub(crate) const PROJECT_NAME: &str = "project_name";
pub(crate) const AGENT: &str = "agent";
pub(crate) const SESSION: &str = "session";
pub(crate) const CONVERSATION: &str = "conversation";
/// The column that only passages have.
pub(crate) const PART: &str = "part";

pub(crate) fn build() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let cut = |record| {
        let indexing = TextFieldIndexing::default().set_tokenizer(tokenizer::NAME).set_index_option(record);
        TextOptions::default().set_indexing_options(indexing)
    };
    let column = || TextOptions::from(FAST);
    let fields = Fields {
        key: schema.add_text_field("key", STRING),
        text: schema.add_text_field("text", cut(IndexRecordOption::WithFreqsAndPositions)),
        title: schema.add_text_field("title", cut(IndexRecordOption::Basic)),
        file: schema.add_text_field("file", cut(IndexRecordOption::WithFreqsAndPositions)),
        row: schema.add_i64_field(ROW, FAST),
        traits: schema.add_u64_field(TRAITS, FAST),
        at: schema.add_i64_field(AT, FAST | INDEXED),
        project: schema.add_text_field(PROJECT, column()),
        project_name: schema.add_text_field(PROJECT_NAME, column()),
        agent: schema.add_text_field(AGENT, column()),
        session: schema.add_text_field(SESSION, column()),
        conversation: schema.add_u64_field(CONVERSATION, FAST),
        passage: schema.add_text_field("passage", cut(IndexRecordOption::WithFreqs)),
        passage_project: schema.add_text_field("passage_project", STRING),
        part: schema.add_u64_field(PART, FAST),
    };
    (schema.build(), fields)
}

pub(crate) fn analyzer() -> TextAnalyzer {
    TextAnalyzer::from(CodeTokenizer::default())
}

impl Fields {
    pub(crate) fn key_term(&self, key: DocumentKey) -> Term {
        Term::from_field_text(self.key, &format!("{}{}", key.kind.letter(), key.row))
    }

    pub(crate) fn document(&self, document: &Document) -> TantivyDocument {
        let mut row = self.head(document);
        let body = both_ends(&document.body, LONGEST_HEAD, LONGEST_TAIL);
        row.add_text(self.text, format!("{}\n{body}", document.title));
        row.add_text(self.title, &document.title);
        for file in &document.files {
            row.add_text(self.file, file);
        }
        row.add_text(self.project, document.project.as_str());
        row.add_text(self.project_name, document.project_name.to_lowercase());
        row.add_text(self.agent, document.agent.as_str().to_lowercase());
        row
    }

    /// The document's passages. They share its key, so they are replaced and removed together with it.
    pub(crate) fn passages(&self, document: &Document) -> impl Iterator<Item = TantivyDocument> {
        document.passages.iter().zip(0..).map(|(passage, part)| {
            let mut row = self.head(document);
            row.add_text(self.passage, passage_text(passage));
            row.add_text(self.passage_project, document.project.as_str());
            row.add_u64(self.part, part);
            row
        })
    }

    /// The fields that documents and passages share.
    fn head(&self, document: &Document) -> TantivyDocument {
        let mut row = TantivyDocument::new();
        row.add_text(self.key, format!("{}{}", document.key.kind.letter(), document.key.row));
        row.add_i64(self.row, document.key.row);
        row.add_u64(self.traits, PackedTraits::of(document).0);
        row.add_i64(self.at, document.at.0);
        row.add_text(self.session, document.session.as_str());
        row.add_u64(self.conversation, conversation(document));
        row
    }
}

/// The text by which a passage is found.
pub(crate) fn passage_text(passage: &Passage) -> String {
    format!("{}\n{}", passage.heading, passage.text)
}

/// A number for the document's session. Column ordinals differ between segments; this number is the same in all
/// segments, on every machine and in every version.
pub(crate) fn conversation(document: &Document) -> u64 {
    let name = format!("{}/{}", document.agent, document.session);
    let digest: [u8; 32] = Sha256::digest(name.as_bytes()).into();
    let (first, _) = digest.split_first_chunk().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*first)
}

/// Kind, status, importance, type and maker packed into one column, because ranking needs them together for every
/// match.
///
/// Four bits each, from the lowest: kind, status, importance, type (0 for none, otherwise its index in
/// [`ObservationType::ALL`] plus one). Then one bit for documents that a person wrote or pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedTraits(pub(crate) u64);

impl PackedTraits {
    fn of(document: &Document) -> Self {
        let kind = kind_place(document.key.kind);
        let status =
            Status::ALL.iter().position(|(status, _)| *status == document.status).unwrap_or(0) as u64;
        let importance = u64::from(document.importance.get());
        let kind_of_knowledge = document.observation_type.map_or(0, |wanted| 1 + type_place(wanted));
        let maker = match document.maker {
            Maker::Machine => 0,
            Maker::Person => 1,
        };
        Self(kind | status << 4 | importance << 8 | kind_of_knowledge << 12 | maker << 16)
    }

    pub(crate) fn kind(self) -> DocumentKind {
        let place = usize::try_from(self.0 & 15).unwrap_or(0);
        DocumentKind::ALL.get(place).map_or(DocumentKind::Activity, |(kind, ..)| *kind)
    }

    pub(crate) fn status(self) -> Status {
        let place = usize::try_from(self.0 >> 4 & 15).unwrap_or(0);
        Status::ALL.get(place).map_or(Status::Active, |(status, _)| *status)
    }

    pub(crate) fn maker(self) -> Maker {
        if self.0 >> 16 & 1 == 1 { Maker::Person } else { Maker::Machine }
    }

    pub(crate) fn importance(self) -> Importance {
        Importance::clamped(i64::try_from(self.0 >> 8 & 15).unwrap_or(5))
    }

    /// Returns a set with only this document's kind, see [`kind_bit`].
    pub(crate) fn kind_set(self) -> u32 {
        1 << (self.0 & 15)
    }

    pub(crate) fn observation_type(self) -> Option<ObservationType> {
        let place = usize::try_from(self.0 >> 12 & 15).unwrap_or(0);
        ObservationType::ALL.get(place.checked_sub(1)?).map(|(kind, _)| *kind)
    }

    /// Returns a set with only this document's type, or an empty one, see [`type_bit`].
    pub(crate) fn type_set(self) -> u32 {
        match self.0 >> 12 & 15 {
            0 => 0,
            place => 1 << (place - 1),
        }
    }
}

fn kind_place(wanted: DocumentKind) -> u64 {
    DocumentKind::ALL.iter().position(|(kind, ..)| *kind == wanted).unwrap_or(0) as u64
}

fn type_place(wanted: ObservationType) -> u64 {
    ObservationType::ALL.iter().position(|(kind, _)| *kind == wanted).unwrap_or(0) as u64
}

/// The bit of a kind in a set of kinds.
pub(crate) fn kind_bit(kind: DocumentKind) -> u32 {
    1 << kind_place(kind)
}

/// The bit of a type in a set of types.
pub(crate) fn type_bit(kind: ObservationType) -> u32 {
    1 << type_place(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_traits_are_unpacked_as_they_were_packed() {
        let mut document = recall_domain::document::Document {
            key: DocumentKey { kind: DocumentKind::Activity, row: 1 },
            project: "p".into(),
            project_name: String::new(),
            agent: "a".into(),
            session: "s".into(),
            observation_type: None,
            status: Status::Superseded,
            importance: Importance::clamped(10),
            maker: Maker::Machine,
            at: recall_domain::ids::Timestamp(0),
            files: Vec::new(),
            title: String::new(),
            body: String::new(),
            passages: Vec::new(),
        };
        assert_eq!(PackedTraits::of(&document).type_set(), 0);
        for (kind, ..) in DocumentKind::ALL {
            for (kind_of_knowledge, _) in ObservationType::ALL {
                for ((status, _), maker) in
                    Status::ALL.iter().flat_map(|it| [(*it, Maker::Machine), (*it, Maker::Person)])
                {
                    document.maker = maker;
                    document.key.kind = kind;
                    document.status = status;
                    document.observation_type = Some(kind_of_knowledge);
                    let packed = PackedTraits::of(&document);
                    assert_eq!((packed.kind(), packed.status(), packed.maker()), (kind, status, maker));
                    assert_eq!(packed.importance(), document.importance);
                    assert_eq!(packed.kind_set(), kind_bit(kind));
                    assert_eq!(packed.type_set(), type_bit(kind_of_knowledge));
                }
            }
        }
    }
}
