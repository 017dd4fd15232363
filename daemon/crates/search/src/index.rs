//! The index on disk: opening, writing, and detecting damage.
//!
//! - Each folder has at most one [`Writer`], enforced by an operating-system lock that ends with the process.
//! - Everything committed is searchable when [`Writer::commit`] returns, and survives a crash.
//! - A commit stores the schema version and the caller's high-water mark, so a restart knows where to continue.
//! - All damage is reported as [`OpenIndexError::Unusable`]. The caller then creates a fresh index with
//!   [`Index::recreate`] and fills it from the store.
//! - The checksums of all files are verified, because a flipped bit in a posting list would otherwise go unnoticed.
//!   That reads every file, so [`Index::open_unexamined`] postpones it. Such an index can be searched but not written,
//!   because a merge would copy damage into files with correct checksums.

use recall_domain::ids::LogSeq;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::{Deserialize, Serialize};
use tantivy::directory::RamDirectory;
use tantivy::directory::error::LockError;
use tantivy::indexer::{IndexWriterOptions, NoMergePolicy};
use tantivy::tokenizer::TokenizerManager;
use tantivy::{IndexReader, IndexSettings, IndexWriter, ReloadPolicy, SegmentReader, TantivyError};

use recall_domain::document::{Document, DocumentKey};
use recall_domain::passage::PassageMatches;

use super::directory::IndexFolder;
use super::error::IndexError;
use super::evaluate::{admitted, evaluate};
use super::fresh_passages::FreshPassages;
use super::merging::Merges;
use super::passages::{self, PassageRequest};
use super::request::{Scope, SearchRequest, SourceScore};
use super::schema::{self, Fields, SCHEMA_VERSION};
use super::segment_cache::{Population, SegmentCache};
use super::source::{Candidate, CandidateSource, Candidates};
use super::tokenizer;

/// The minimum that tantivy accepts, in bytes. It suffices, because documents are added one by one.
const WRITER_MEMORY: usize = 15_000_000;
/// The memory of an index in memory, in bytes. Sets the initial size of the tables that each such index clears and
/// walks; they grow as needed.
const MEMORY_FOR_A_FEW: usize = 200_000;

/// Reads the index. Clones are cheap, share one reader, and see each commit at once.
#[derive(Clone)]
pub struct Index {
    reader: IndexReader,
    fields: Fields,
    cache: SegmentCache,
    /// See [`Index::high_water`].
    high_water: Arc<AtomicI64>,
}

/// Writes the index. At most one per folder.
pub struct Writer {
    writer: IndexWriter,
    index: tantivy::Index,
    reader: IndexReader,
    fields: Fields,
    merges: Merges,
    high_water: i64,
    /// The mark that readers see.
    searched: Arc<AtomicI64>,
}

/// The reader and the writer of an opened index.
pub struct Opened {
    pub index: Index,
    pub writer: Writer,
}

/// An index whose files have not been verified, because it was just opened or a search in it failed.
pub struct Unexamined {
    pub index: Index,
    folder: PathBuf,
    writer: Writer,
}

impl Unexamined {
    /// See [`Writer::high_water`].
    pub fn high_water(&self) -> LogSeq {
        self.writer.high_water()
    }

    /// Verifies the checksums of all files, which reads all of them, and removes files that belong to no commit.
    ///
    /// # Errors
    /// Fails when a file is damaged or missing. The index is then closed.
    pub fn examine(self) -> Result<Opened, OpenIndexError> {
        let Self { index, folder, mut writer } = self;
        // Merges replace files, so none may be running.
        writer.merges.finish();
        // A process that was killed during a commit leaves files whose names the next commit would use, and the engine
        // never overwrites a file.
        let examined = match writer.writer.garbage_collect_files().wait() {
            Ok(done) => {
                let removed = done.deleted_files.len();
                if removed > 0 {
                    tracing::info!(removed, "removed index files that belong to no commit");
                }
                catch_unwind(|| damaged_files(&folder))
            }
            Err(error) => Ok(Err(error)),
        };
        let why = match examined {
            Ok(Ok(damaged)) if damaged.is_empty() => return Ok(Opened { index, writer }),
            Ok(Ok(damaged)) => UnusableIndex::Damaged(damaged),
            Ok(Err(error)) => UnusableIndex::Unreadable(error),
            Err(_) => UnusableIndex::Panicked,
        };
        Err(OpenIndexError::Unusable { path: folder, why })
    }
}

impl Opened {
    /// Marks the index as unexamined, because a search in it failed: its files may be damaged.
    pub fn doubted(self, folder: &Path) -> Unexamined {
        Unexamined { index: self.index, folder: folder.to_owned(), writer: self.writer }
    }
}

/// Why an index could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenIndexError {
    /// Another process is writing to the index, so it must not be rebuilt.
    #[error("index {} is in use by another process", path.display())]
    Locked { path: PathBuf },
    /// The folder itself cannot be created or read, so a rebuild would fail too.
    #[error("cannot use index folder {}", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The files are damaged, incomplete or of another version. The caller must rebuild the index.
    #[error("index {} must be rebuilt: {why}", path.display())]
    Unusable { path: PathBuf, why: UnusableIndex },
}

/// Why an index must be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum UnusableIndex {
    #[error("it has schema version {found:?}, this program writes {SCHEMA_VERSION}")]
    OtherVersion { found: Option<u32> },
    #[error("damaged files: {}", .0.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    Damaged(Vec<PathBuf>),
    #[error("{0}")]
    Unreadable(TantivyError),
    #[error("reading it panicked")]
    Panicked,
}

/// The data stored with a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CommitNote {
    schema: u32,
    high_water: i64,
}

/// The file that exists in every tantivy index.
const META: &str = "meta.json";

impl Index {
    /// Whether `folder` contains an index, even a damaged one.
    pub fn exists(folder: &Path) -> bool {
        folder.join(META).exists()
    }

    /// Opens the index in `folder` for reading and writing, and creates it if there is none.
    pub fn open(folder: &Path) -> Result<Opened, OpenIndexError> {
        Self::open_unexamined(folder)?.examine()
    }

    /// Like [`Self::open`], but searchable immediately. Detects only incomplete files.
    pub fn open_unexamined(folder: &Path) -> Result<Unexamined, OpenIndexError> {
        // Index files must stay in recall's own folder. Recreating the index removes the symlink.
        if folder.is_symlink() {
            let why = UnusableIndex::Damaged(vec![folder.to_owned()]);
            return Err(OpenIndexError::Unusable { path: folder.to_owned(), why });
        }
        let failed = |source| OpenIndexError::Folder { path: folder.to_owned(), source };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        // Damaged files can make the engine panic.
        catch_unwind(AssertUnwindSafe(|| open_unguarded(folder))).unwrap_or_else(|_| {
            Err(OpenIndexError::Unusable { path: folder.to_owned(), why: UnusableIndex::Panicked })
        })
    }

    /// Removes the contents of `folder` and opens an empty index there, with a high-water mark of 0.
    ///
    /// The old index must not be in use. After [`OpenIndexError::Unusable`] it never is.
    pub fn recreate(folder: &Path) -> Result<Opened, OpenIndexError> {
        let failed = |source| OpenIndexError::Folder { path: folder.to_owned(), source };
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
        Self::open(folder)
    }

    /// Builds an index of a few documents in memory.
    pub(super) fn in_memory<'a>(
        documents: impl IntoIterator<Item = &'a Document>,
    ) -> Result<Self, IndexError> {
        let (schema, fields) = schema::build();
        let tokenizers = TokenizerManager::default();
        tokenizers.register(tokenizer::NAME, schema::analyzer());
        // For a few texts, a thread costs more than it saves.
        let settings =
            IndexSettings { docstore_compress_dedicated_thread: false, ..IndexSettings::default() };
        let builder = tantivy::Index::builder().schema(schema).tokenizers(tokenizers).settings(settings);
        let mut writer = builder.single_segment_index_writer(RamDirectory::create(), MEMORY_FOR_A_FEW)?;
        for document in documents {
            writer.add_document(fields.document(document))?;
            for passage in fields.passages(document) {
                writer.add_document(passage)?;
            }
        }
        let index = writer.finalize()?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { reader, fields, cache: SegmentCache::default(), high_water: Arc::default() })
    }

    /// The high-water mark of the searched commit or of an earlier one. Later log entries may be missing.
    pub fn high_water(&self) -> LogSeq {
        LogSeq(self.high_water.load(Ordering::Acquire))
    }

    /// Returns the first `most` documents from another source that satisfy the request's conditions.
    ///
    /// # Errors
    /// Fails when the index cannot be read.
    pub(super) fn admitted(
        &self,
        request: &SearchRequest,
        documents: impl Iterator<Item = (DocumentKey, SourceScore)>,
        most: usize,
    ) -> Result<Vec<Candidate>, IndexError> {
        let searcher = self.searcher();
        catch_unwind(AssertUnwindSafe(|| {
            admitted(&searcher, (&self.fields, &self.cache), request, documents, most)
        }))
        .map_err(|_| IndexError::Damaged)?
        .map_err(IndexError::from)
    }

    /// Finds passages of a project that may answer a prompt, in the index and among the fresh ones.
    ///
    /// # Errors
    /// Fails when the index cannot be read.
    pub fn passages(
        &self,
        request: &PassageRequest<'_>,
        fresh: &FreshPassages,
    ) -> Result<PassageMatches, IndexError> {
        let searcher = self.searcher();
        catch_unwind(AssertUnwindSafe(|| {
            passages::find(&searcher, &self.fields, &self.cache, request, fresh)
        }))
        .map_err(|_| IndexError::Damaged)?
        .map_err(IndexError::from)
    }

    /// The number of searchable documents, without passages.
    pub fn documents(&self) -> u64 {
        let searcher = self.reader.searcher();
        let everything = Population::Documents(Scope::Everything);
        let count = |segment: &SegmentReader| {
            let documents = self.cache.population(segment, &self.fields, &everything).ok().flatten();
            documents.map_or_else(|| u64::from(segment.num_docs()), |documents| documents.len() as u64)
        };
        searcher.segment_readers().iter().map(count).sum()
    }
}

impl Index {
    /// Returns a searcher of the last commit.
    pub(super) fn searcher(&self) -> tantivy::Searcher {
        let searcher = self.reader.searcher();
        self.cache.keep(&searcher);
        searcher
    }

    #[cfg(test)]
    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }
}

/// Finds documents by their words, in the last commit.
impl CandidateSource for Index {
    fn name(&self) -> &'static str {
        "lexical"
    }

    fn candidates(&self, request: &SearchRequest) -> Result<Candidates, IndexError> {
        let searcher = self.searcher();
        // Files can be damaged while they are open. That may fail a search, but must not end the process.
        catch_unwind(AssertUnwindSafe(|| evaluate(&searcher, &self.fields, &self.cache, request)))
            .map_err(|_| IndexError::Damaged)?
            .map_err(IndexError::from)
    }
}

/// Returns the files that do not match their checksums.
fn damaged_files(folder: &Path) -> tantivy::Result<Vec<PathBuf>> {
    // Mapped separately from the searched files, and one at a time, so that the data does not stay in memory.
    let mut damaged: Vec<PathBuf> =
        tantivy::Index::open_in_dir(folder)?.validate_checksum()?.into_iter().collect();
    damaged.sort();
    Ok(damaged)
}

fn open_unguarded(folder: &Path) -> Result<Unexamined, OpenIndexError> {
    let unusable = |why| OpenIndexError::Unusable { path: folder.to_owned(), why };
    let engine = |error: TantivyError| match error {
        TantivyError::LockFailure(LockError::LockBusy, _) => {
            OpenIndexError::Locked { path: folder.to_owned() }
        }
        other => unusable(UnusableIndex::Unreadable(other)),
    };
    let (schema, fields) = schema::build();
    let is_new = !Index::exists(folder);
    if is_new && holds_segments(folder) {
        return Err(unusable(UnusableIndex::Damaged(vec![PathBuf::from(META)])));
    }
    let directory = IndexFolder::open(folder).map_err(|error| engine(error.into()))?;
    let index = if is_new {
        tantivy::Index::create(directory, schema.clone(), IndexSettings::default()).map_err(engine)?
    } else {
        tantivy::Index::open(directory).map_err(engine)?
    };
    let note = match &index.load_metas().map_err(engine)?.payload {
        Some(payload) => serde_json::from_str::<CommitNote>(payload).ok(),
        // The index was created but never committed to, so it is empty, whichever version created it.
        None if index.schema() == schema => Some(CommitNote { schema: SCHEMA_VERSION, high_water: 0 }),
        None => None,
    };
    let note = note
        .filter(|note| note.schema == SCHEMA_VERSION && index.schema() == schema)
        .ok_or_else(|| unusable(UnusableIndex::OtherVersion { found: note.map(|note| note.schema) }))?;
    index.tokenizers().register(tokenizer::NAME, schema::analyzer());
    let options = IndexWriterOptions::builder()
        .num_worker_threads(1)
        .num_merge_threads(1)
        .memory_budget_per_thread(WRITER_MEMORY)
        .build();
    let writer: IndexWriter = index.writer_with_options(options).map_err(engine)?;
    writer.set_merge_policy(Box::new(NoMergePolicy));
    // The reader opens every segment, which detects missing files.
    let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into().map_err(engine)?;
    let high_water = note.high_water;
    let searched = Arc::new(AtomicI64::new(high_water));
    Ok(Unexamined {
        folder: folder.to_owned(),
        index: Index {
            reader: reader.clone(),
            fields,
            cache: SegmentCache::default(),
            high_water: searched.clone(),
        },
        writer: Writer { writer, index, reader, fields, merges: Merges::new(), high_water, searched },
    })
}

/// Whether the folder contains more than the engine's lock files. Without a list of segments, that is an incomplete
/// index.
fn holds_segments(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            entry.path().extension().is_some_and(|extension| extension == "term" || extension == "idx")
        })
    })
}

impl Writer {
    /// Adds a document, or replaces the one with the same key. Visible after the next commit.
    pub fn put(&mut self, document: &Document) -> Result<(), IndexError> {
        self.delete(document.key);
        self.writer.add_document(self.fields.document(document))?;
        for passage in self.fields.passages(document) {
            self.writer.add_document(passage)?;
        }
        Ok(())
    }

    /// Removes a document. Visible after the next commit. Its words stay on disk until [`Writer::purge`].
    pub fn delete(&mut self, key: DocumentKey) {
        self.writer.delete_term(self.fields.key_term(key));
    }

    /// Makes all changes durable and searchable, together with the caller's high-water mark.
    pub fn commit(&mut self, LogSeq(high_water): LogSeq) -> Result<(), IndexError> {
        let note = serde_json::to_string(&CommitNote { schema: SCHEMA_VERSION, high_water })
            .map_err(TantivyError::from)?;
        let mut prepared = self.writer.prepare_commit()?;
        prepared.set_payload(&note);
        prepared.commit()?;
        self.high_water = high_water;
        self.reader.reload()?;
        self.searched.store(high_water, Ordering::Release);
        self.merges.start_due(&mut self.writer, &self.index)?;
        Ok(())
    }

    /// The high-water mark of the last commit. 0 for a new index.
    pub fn high_water(&self) -> LogSeq {
        LogSeq(self.high_water)
    }

    /// Removes all documents and commits with a high-water mark of 0.
    pub fn clear(&mut self) -> Result<(), IndexError> {
        self.merges.finish();
        self.writer.delete_all_documents()?;
        self.commit(LogSeq(0))?;
        self.settle()
    }

    /// Rewrites segments that contain deleted documents, so that their words leave the disk. Call [`Writer::commit`]
    /// first. Blocks until it is done, some tens of milliseconds per ten thousand documents.
    pub fn purge(&mut self) -> Result<(), IndexError> {
        self.merges.expunge(&mut self.writer, &self.index)?;
        self.settle()
    }

    /// Waits for the running merge and releases the files it replaced. Meant for idle times, because searches
    /// otherwise keep the old files open until the next commit.
    pub fn settle(&mut self) -> Result<(), IndexError> {
        self.merges.finish();
        self.reader.reload()?;
        self.writer.garbage_collect_files().wait()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fusion::search;
    use crate::query::{Query, parse};
    use crate::request::Hits;
    use recall_domain::document::{DocumentKind, Status};
    use recall_domain::ids::{AgentName, ProjectKey, SessionId, Timestamp};
    use recall_domain::observation::{Importance, Maker, ObservationType};

    const NOW: Timestamp = Timestamp(1_795_262_400_000);
    const DAY: i64 = 86_400_000;

    fn observation(row: i64, title: &str, body: &str) -> Document {
        Document {
            key: DocumentKey { kind: DocumentKind::Observation, row },
            project: ProjectKey::from("git:github.com/acme/shop"),
            project_name: "Shop".to_owned(),
            agent: AgentName::from("claude-code"),
            session: SessionId::from("ab12-session"),
            observation_type: Some(ObservationType::Discovery),
            status: Status::Active,
            importance: Importance::clamped(5),
            maker: Maker::Machine,
            at: NOW,
            files: Vec::new(),
            title: title.to_owned(),
            body: body.to_owned(),
            passages: Vec::new(),
        }
    }

    struct Fixture {
        folder: tempfile::TempDir,
        opened: Opened,
    }

    fn filled(documents: &[Document]) -> Fixture {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut opened = Index::open(folder.path()).expect("a new index opens");
        for document in documents {
            opened.writer.put(document).expect("documents are accepted");
        }
        opened.writer.commit(LogSeq(7)).expect("commits");
        Fixture { folder, opened }
    }

    /// A small memory that most searches below use.
    fn shop() -> Fixture {
        let mut gateway =
            observation(2, "Payment gateway retries", "Timeouts of the gateway are retried three times.");
        gateway.files = vec!["src/payment/gateway.rs".to_owned()];
        gateway.observation_type = Some(ObservationType::Decision);
        gateway.at = Timestamp(NOW.0 - 40 * DAY);
        let mut other = observation(3, "Login of the other project", "The login page there is slow as well.");
        other.project = ProjectKey::from("git:github.com/acme/blog");
        other.project_name = "Blog".to_owned();
        other.agent = AgentName::from("Codex");
        let mut output =
            observation(4, "", "login page slow\nsrc/auth/login.rs: getUserName called, commit 2b47979a1f");
        output.key.kind = DocumentKind::Activity;
        output.observation_type = None;
        output.session = SessionId::from("cd34");
        filled(&[
            observation(
                1,
                "Login was slow because of bcrypt",
                "The login page ran bcrypt with cost 14 on the request thread.",
            ),
            gateway,
            other,
            output,
        ])
    }

    fn searched(index: &Index, request: &SearchRequest) -> Hits {
        search(&[index], request).expect("searching works")
    }

    fn found(index: &Index, request: &SearchRequest) -> String {
        let hits = searched(index, request);
        hits.hits.iter().map(|hit| hit.key.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn check(query: &str, expected: &str) {
        let shop = shop();
        assert_eq!(
            found(&shop.opened.index, &SearchRequest::new(parse(query), NOW)),
            expected,
            "for {query:?}"
        );
    }

    #[test]
    fn a_persons_note_ranks_above_hundreds_of_notes_with_more_matches() {
        let mut memory: Vec<Document> = (1..=600)
            .map(|row| observation(row, "The ledger", "ledger of the ledger, ledger by ledger"))
            .collect();
        let mut rule =
            observation(700, "Ask Hedwig", "She closes what is old, last of all the ledger of a year.");
        (rule.at, rule.session) = (Timestamp(NOW.0 - 900 * DAY), SessionId::from(""));
        memory.push(rule.clone());
        let by_machine = filled(&memory);
        let first = |fixture: &Fixture, query: &str| {
            found(&fixture.opened.index, &SearchRequest { limit: 1, ..SearchRequest::new(parse(query), NOW) })
        };
        assert_ne!(first(&by_machine, "ledger"), "700");
        rule.maker = Maker::Person;
        memory.push(rule.clone());
        let by_hand = filled(&memory);
        assert_eq!(first(&by_hand, "ledger"), "700");
        let total = |fixture: &Fixture| {
            searched(&fixture.opened.index, &SearchRequest::new(parse("ledger"), NOW)).total
        };
        assert_eq!(total(&by_hand), total(&by_machine), "it is counted once");
        // Conditions apply to notes by hand, too, and outdated ones rank like the rest.
        assert_ne!(first(&by_hand, "ledger since:2d"), "700");
        rule.status = Status::Resolved;
        memory.push(rule);
        assert_ne!(first(&filled(&memory), "ledger"), "700");
    }

    #[test]
    fn query_words_find_and_rank_documents() {
        check("slow login", "1 3 a4");
        check("gateways", "2");
        check("nowhere", "");
        check("the", "3 1 2");
        check("user_name", "a4");
        check("2b47979", "a4");
        check("#2b47979a1f", "a4");
        check("?!", "");
    }

    #[test]
    fn phrases_negations_and_filters_restrict_the_results() {
        check(r#""page slow""#, "a4");
        check(r#"login "request thread""#, "1");
        check(r#"nowhere "there is""#, "3");
        check(r#""is there""#, "");
        check("login -bcrypt", "3 a4");
        check(r#"login -"page slow""#, "3 1");
        check("login kind:activity", "a4");
        check("type:decision", "2");
        check("type:decision type:discovery login", "3 1");
        check("login -type:discovery", "a4");
        check("login project:blog", "3");
        check("login project:git:github.com/acme/blog", "3");
        check("login agent:codex", "3");
        check("login session:cd", "a4");
        check("login session:cd34 -kind:activity", "");
        check("file:gateway.rs", "2");
        check("file:payment/gateway", "2");
        check("file:src/gateway.rs", "");
        check("gateway since:2d", "");
        check("gateway since:2026-10-01", "2");
    }

    #[test]
    fn an_empty_query_lists_all_documents_and_ranks_calls_last() {
        let shop = shop();
        let hits = searched(&shop.opened.index, &SearchRequest::new(parse(""), NOW));
        assert_eq!(hits.total, 4);
        assert!(hits.hits.iter().all(|hit| hit.relevance == 0.0));
        assert_eq!(hits.hits.last().map(|hit| hit.key.to_string()).as_deref(), Some("a4"));
    }

    #[test]
    fn a_query_of_only_conditions_lists_the_newest_documents() {
        let documents: Vec<Document> = (0..900)
            .map(|row| {
                let mut document = observation(row, "Some title", "some text");
                document.at = Timestamp(NOW.0 - (900 - row) * DAY);
                document
            })
            .collect();
        let filled = filled(&documents);
        for text in ["", "type:discovery", "session:ab12-session"] {
            let mut request = SearchRequest::new(parse(text), NOW);
            request.limit = 3;
            assert_eq!(found(&filled.opened.index, &request), "899 898 897", "{text}");
            assert_eq!(searched(&filled.opened.index, &request).total, 900, "{text}");
        }
    }

    #[test]
    fn project_kind_time_and_limit_narrow_a_search() {
        let shop = shop();
        let index = &shop.opened.index;
        let mut request = SearchRequest::new(parse("login"), NOW);
        request.scope = Scope::Project(ProjectKey::from("git:github.com/acme/shop"));
        assert_eq!(found(index, &request), "1 a4");
        request.kinds = vec![DocumentKind::Activity, DocumentKind::Plan];
        assert_eq!(found(index, &request), "a4");
        request.since = Some(Timestamp(NOW.0 + 1));
        assert_eq!(found(index, &request), "");
        let mut request = SearchRequest::new(parse("login"), NOW);
        request.limit = 1;
        let hits = searched(index, &request);
        assert_eq!((hits.hits.len(), hits.total), (1, 3));
    }

    #[test]
    fn a_good_match_raises_the_rank_of_its_neighbours_in_the_session() {
        let mut beside = observation(2, "Workers were raised", "see there");
        beside.at = Timestamp(NOW.0 - DAY);
        let mut question = observation(3, "", "How many workers does the thumbnail queue need?");
        question.at = Timestamp(NOW.0 - DAY - 60_000);
        let mut elsewhere = observation(1, "Workers were raised", "see there");
        elsewhere.session = SessionId::from("elsewhere");
        elsewhere.at = Timestamp(NOW.0 - DAY);
        let filled = filled(&[elsewhere, beside, question]);
        let request = SearchRequest::new(parse("thumbnail queue workers"), NOW);
        assert_eq!(found(&filled.opened.index, &request), "3 2 1");
    }

    #[test]
    fn any_query_returns_hits_in_order_of_score() {
        let shop = shop();
        let query =
            "\\PC{0,30}|[-a-z:\" .]{0,40}|(login |slow |-page |\"the |type:decision |since:2d |file:a ){0,6}";
        let mut runner = proptest::test_runner::TestRunner::default();
        let outcome = runner.run(&proptest::string::string_regex(query).expect("a valid pattern"), |text| {
            for query in [parse(&text), Query::plain(&text)] {
                let hits = search(&[&shop.opened.index], &SearchRequest::new(query, NOW))
                    .map_err(|error| proptest::test_runner::TestCaseError::fail(error.to_string()))?;
                proptest::prop_assert!(hits.hits.len() <= hits.total);
                proptest::prop_assert!(hits.hits.is_sorted_by(|a, b| a.score >= b.score));
                for hit in &hits.hits {
                    proptest::prop_assert!(hit.score.is_finite() && (0.0..=1.0).contains(&hit.relevance));
                }
            }
            Ok(())
        });
        assert!(outcome.is_ok(), "{outcome:?}");
    }

    #[test]
    fn the_index_and_its_writer_can_move_between_threads() {
        fn shared<T: Clone + Send + Sync>() {}
        fn sent<T: Send>() {}
        shared::<Index>();
        sent::<Writer>();
    }

    /// A relevance of at least this means that the document is about the question.
    const RELEVANT: f32 = 0.45;

    #[track_caller]
    fn best_relevance(prompt: &str) -> f32 {
        let shop = shop();
        let hits = searched(&shop.opened.index, &SearchRequest::new(Query::plain(prompt), NOW));
        hits.hits.iter().map(|hit| hit.relevance).fold(0.0, f32::max)
    }

    #[test]
    fn prompts_on_a_stored_topic_are_relevant_and_other_prompts_are_not() {
        for prompt in ["why is login slow?", "the payment gateway times out", "look at bcrypt again please"] {
            let best = best_relevance(prompt);
            assert!(best >= RELEVANT, "{prompt}: {best}");
        }
        for prompt in
            ["thanks", "run the tests", "ok, go ahead and commit", "add a page for invoices in dark mode"]
        {
            let best = best_relevance(prompt);
            assert!(best < RELEVANT, "{prompt}: {best}");
        }
    }

    #[test]
    fn a_score_is_the_product_of_its_factors() {
        let shop = shop();
        let hits = searched(&shop.opened.index, &SearchRequest::new(parse("slow login"), NOW));
        for hit in &hits.hits {
            let product: f32 = hit.named_factors().iter().map(|(_, factor)| factor).product();
            assert!((product - hit.score).abs() < 1e-6);
            assert_eq!(hit.matched, ["slow", "login"]);
        }
    }

    #[test]
    fn a_document_is_replaced_and_removed() {
        let Fixture { folder, mut opened } =
            filled(&[observation(1, "old words", ""), observation(2, "stays", "")]);
        opened.writer.put(&observation(1, "new words", "")).expect("documents are accepted");
        assert_eq!(
            found(&opened.index, &SearchRequest::new(parse("old"), NOW)),
            "1",
            "not before the commit"
        );
        opened.writer.commit(LogSeq(8)).expect("commits");
        assert_eq!(found(&opened.index, &SearchRequest::new(parse("old"), NOW)), "");
        assert_eq!(found(&opened.index, &SearchRequest::new(parse("new"), NOW)), "1");
        opened.writer.delete(DocumentKey { kind: DocumentKind::Observation, row: 1 });
        opened.writer.commit(LogSeq(9)).expect("commits");
        assert_eq!(found(&opened.index, &SearchRequest::new(parse("words"), NOW)), "");
        assert_eq!(opened.index.documents(), 1);
        drop(folder);
    }

    #[test]
    fn only_committed_documents_survive_reopening() {
        let Fixture { folder, mut opened } = filled(&[observation(1, "kept", "")]);
        opened.writer.put(&observation(2, "never committed", "")).expect("documents are accepted");
        drop(opened);
        let opened = Index::open(folder.path()).expect("opens again");
        assert_eq!(opened.writer.high_water(), LogSeq(7));
        assert_eq!(opened.index.documents(), 1);
    }

    #[test]
    fn an_interrupted_commit_does_not_block_the_next_one() {
        let Fixture { folder, opened } = filled(&[observation(1, "old", ""), observation(2, "other", "")]);
        drop(opened);
        let changed = |folder: &Path| {
            let mut opened = Index::open(folder).expect("opens");
            opened.writer.put(&observation(1, "new", "")).expect("documents are accepted");
            opened
        };
        let whole = tempfile::tempdir().expect("a temporary folder");
        copy_files(folder.path(), whole.path());
        let Opened { mut writer, .. } = changed(whole.path());
        // Commits without the merge that usually follows.
        writer.writer.commit().expect("commits");
        drop(writer);
        // The commit ends by writing the list of segments. This is everything before that.
        let list = fs::read(folder.path().join(META)).expect("reads");
        copy_files(whole.path(), folder.path());
        fs::write(folder.path().join(META), list).expect("writes");
        let deletions = |folder: &Path| {
            let files = segment_files(folder);
            files.into_iter().filter(|file| file.extension().is_some_and(|it| it == "del")).count()
        };
        assert_eq!(deletions(folder.path()), 1);
        let mut opened = changed(folder.path());
        opened.writer.commit(LogSeq(8)).expect("commits");
        assert_eq!(found(&opened.index, &SearchRequest::new(parse("new"), NOW)), "1");
        assert_eq!(found(&opened.index, &SearchRequest::new(parse("old"), NOW)), "");
    }

    /// The files of the segments, and the engine's two lists.
    fn copy_files(from: &Path, to: &Path) {
        let lists = [META, ".managed.json"].map(|name| from.join(name));
        for file in segment_files(from).into_iter().chain(lists) {
            fs::copy(&file, to.join(file.file_name().expect("a name"))).expect("copies");
        }
    }

    #[test]
    fn a_new_index_has_high_water_mark_zero_even_when_reopened() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for _ in 0..2 {
            let opened = Index::open(folder.path()).expect("opens");
            assert_eq!((opened.writer.high_water(), opened.index.documents()), (LogSeq(0), 0));
        }
    }

    #[test]
    fn clearing_an_index_removes_all_documents_and_resets_the_mark() {
        let Fixture { folder: _folder, mut opened } = filled(&[observation(1, "gone", "")]);
        opened.writer.clear().expect("clears");
        assert_eq!((opened.index.documents(), opened.writer.high_water()), (0, LogSeq(0)));
        opened.writer.put(&observation(1, "back", "")).expect("documents are accepted");
        opened.writer.commit(LogSeq(1)).expect("commits");
        assert_eq!(found(&opened.index, &SearchRequest::new(parse("back"), NOW)), "1");
    }

    #[test]
    fn many_commits_leave_few_segments() {
        let Fixture { folder: _folder, mut opened } = filled(&[]);
        for row in 1..=40 {
            opened.writer.put(&observation(row, "one of many", "")).expect("documents are accepted");
            opened.writer.commit(LogSeq(row)).expect("commits");
        }
        // The first merge may have started before the last commits. A commit after it includes them.
        for _ in 0..2 {
            opened.writer.settle().expect("settles");
            opened.writer.commit(LogSeq(40)).expect("commits");
        }
        opened.writer.settle().expect("settles");
        let segments = opened.index.reader.searcher().segment_readers().len();
        assert!(segments <= 4, "{segments}");
        assert_eq!(opened.index.documents(), 40);
    }

    #[test]
    fn purge_removes_the_words_of_deleted_documents_from_disk() {
        let Fixture { folder, mut opened } =
            filled(&[observation(1, "zanzibar", ""), observation(2, "other", "")]);
        // Counts in the dictionary on disk, which ignores deletions.
        let on_disk = |opened: &Opened| {
            let term = tantivy::Term::from_field_text(opened.index.fields.text, "zanzibar");
            opened.index.reader.searcher().doc_freq(&term).expect("the dictionary is readable")
        };
        let old_files = segment_files(folder.path());
        opened.writer.delete(DocumentKey { kind: DocumentKind::Observation, row: 1 });
        opened.writer.commit(LogSeq(8)).expect("commits");
        assert_eq!((on_disk(&opened), opened.index.documents()), (1, 1), "deleted, and still there");
        opened.writer.purge().expect("purges");
        assert_eq!((on_disk(&opened), opened.index.documents()), (0, 1));
        let left: Vec<_> = old_files.iter().filter(|file| file.exists()).collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(opened.writer.high_water(), LogSeq(8));
        drop(opened);
        assert_eq!(Index::open(folder.path()).expect("opens again").writer.high_water(), LogSeq(8));
    }

    #[test]
    fn purge_works_on_an_unchanged_index_and_on_an_emptied_one() {
        let Fixture { folder: _folder, mut opened } = filled(&[observation(1, "only", "")]);
        opened.writer.purge().expect("nothing to do");
        assert_eq!(opened.index.documents(), 1);
        opened.writer.delete(DocumentKey { kind: DocumentKind::Observation, row: 1 });
        opened.writer.commit(LogSeq(8)).expect("commits");
        opened.writer.purge().expect("nothing left");
        assert_eq!(opened.index.documents(), 0);
    }

    #[test]
    fn a_second_writer_is_rejected_because_the_index_is_locked() {
        let filled = filled(&[]);
        assert!(matches!(Index::open(filled.folder.path()), Err(OpenIndexError::Locked { .. })));
    }

    #[test]
    fn a_folder_that_cannot_be_created_does_not_cause_a_rebuild() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("writes");
        assert!(matches!(Index::open(&file.join("index")), Err(OpenIndexError::Folder { .. })));
    }

    #[test]
    fn a_symlink_in_place_of_the_index_folder_is_not_followed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (elsewhere, link) = (folder.path().join("elsewhere"), folder.path().join("index"));
        fs::create_dir(&elsewhere).expect("makes");
        std::os::unix::fs::symlink(&elsewhere, &link).expect("links");
        assert!(matches!(Index::open(&link), Err(OpenIndexError::Unusable { .. })));
        Index::recreate(&link).expect("opens a folder of its own");
        assert!(!link.is_symlink() && fs::read_dir(&elsewhere).expect("is left").next().is_none());
    }

    /// Closes a filled index, damages it, and expects it to be unusable and replaceable by a fresh one.
    #[track_caller]
    fn check_damage(damage: impl Fn(&Path), expected: impl Fn(&UnusableIndex) -> bool) {
        let Fixture { folder, opened } = shop();
        drop(opened);
        damage(folder.path());
        match Index::open(folder.path()) {
            Err(OpenIndexError::Unusable { why, .. }) => assert!(expected(&why), "{why}"),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("the damage went unnoticed"),
        }
        let fresh = Index::recreate(folder.path()).expect("a fresh index takes its place");
        assert_eq!((fresh.index.documents(), fresh.writer.high_water()), (0, LogSeq(0)));
    }

    fn segment_files(folder: &Path) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = fs::read_dir(folder)
            .expect("the folder is there")
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                path.extension().is_some_and(|kind| kind != "json" && kind != "lock")
                    && !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn damaged_metadata_means_rebuild() {
        check_damage(
            |folder| {
                let meta = folder.join("meta.json");
                let whole = fs::read(&meta).expect("reads");
                fs::write(&meta, &whole[..whole.len() / 2]).expect("writes");
            },
            |why| matches!(why, UnusableIndex::Unreadable(_)),
        );
        check_damage(
            |folder| fs::write(folder.join("meta.json"), "").expect("writes"),
            |why| matches!(why, UnusableIndex::Unreadable(_)),
        );
        check_damage(
            |folder| fs::remove_file(folder.join("meta.json")).expect("removes"),
            |why| matches!(why, UnusableIndex::Damaged(_)),
        );
    }

    #[test]
    fn each_missing_segment_file_means_rebuild() {
        for place in 0..segment_files(shop().folder.path()).len() {
            check_damage(
                |folder| fs::remove_file(&segment_files(folder)[place]).expect("removes"),
                |why| {
                    matches!(
                        why,
                        UnusableIndex::Unreadable(_) | UnusableIndex::Damaged(_) | UnusableIndex::Panicked
                    )
                },
            );
        }
    }

    #[test]
    fn a_flipped_bit_in_any_segment_file_means_rebuild() {
        for place in 0..segment_files(shop().folder.path()).len() {
            for share in [0, 1, 2, 3] {
                check_damage(
                    |folder| {
                        let file = &segment_files(folder)[place];
                        let mut bytes = fs::read(file).expect("reads");
                        let at = (bytes.len() - 1) * share / 3;
                        bytes[at] ^= 0x10;
                        fs::write(file, bytes).expect("writes");
                    },
                    |why| {
                        matches!(
                            why,
                            UnusableIndex::Unreadable(_)
                                | UnusableIndex::Damaged(_)
                                | UnusableIndex::Panicked
                        )
                    },
                );
            }
        }
    }

    #[test]
    fn a_search_in_a_damaged_unexamined_index_does_not_panic() {
        for place in 0..segment_files(shop().folder.path()).len() {
            for share in 0..12 {
                let Fixture { folder, opened } = shop();
                drop(opened);
                let file = &segment_files(folder.path())[place];
                let mut bytes = fs::read(file).expect("reads");
                let at = (bytes.len() - 1) * share / 11;
                bytes[at] ^= 0x41;
                fs::write(file, bytes).expect("writes");
                // Opening reads the end of each file.
                let Ok(unexamined) = Index::open_unexamined(folder.path()) else { continue };
                for text in ["login page", "src/payment/gateway.rs", "type:decision gateway", "logn"] {
                    // Any result is allowed.
                    let _ = search(&[&unexamined.index], &SearchRequest::new(parse(text), NOW));
                }
                let examined = unexamined.examine();
                assert!(matches!(examined, Err(OpenIndexError::Unusable { .. })), "byte {at} of {file:?}");
            }
        }
    }

    /// Posting lists are read and not mapped, because a mapped file that is cut off ends the process.
    #[test]
    fn truncating_open_posting_lists_makes_the_search_fail() {
        for kind in ["idx", "pos"] {
            let Fixture { folder, opened } = shop();
            let files = segment_files(folder.path());
            let of_kind: Vec<_> =
                files.iter().filter(|path| path.extension().is_some_and(|it| it == kind)).collect();
            assert!(!of_kind.is_empty());
            for file in of_kind {
                fs::OpenOptions::new().write(true).open(file).and_then(|file| file.set_len(0)).expect("cuts");
            }
            let outcome = search(&[&opened.index], &SearchRequest::new(parse("slow login"), NOW));
            assert!(outcome.is_err(), "{kind}");
        }
    }

    #[test]
    fn an_intact_index_stays_usable_after_a_needless_examination() {
        let Fixture { folder, opened } = shop();
        let Opened { mut writer, index } = opened.doubted(folder.path()).examine().expect("it is sound");
        writer.put(&observation(9, "written afterwards", "")).expect("documents are accepted");
        writer.commit(LogSeq(8)).expect("commits");
        assert_eq!(index.high_water(), LogSeq(8));
    }

    #[test]
    fn another_schema_version_means_rebuild() {
        check_damage(
            |folder| {
                let meta = folder.join("meta.json");
                let text = fs::read_to_string(&meta).expect("reads");
                let note = |schema| format!(r#"{{\"schema\":{schema},"#);
                assert!(text.contains(&note(SCHEMA_VERSION)), "{text}");
                fs::write(&meta, text.replace(&note(SCHEMA_VERSION), &note(SCHEMA_VERSION + 1)))
                    .expect("writes");
            },
            |why| matches!(why, UnusableIndex::OtherVersion { found: Some(found) } if *found == SCHEMA_VERSION + 1),
        );
        check_damage(
            |folder| {
                let meta = folder.join("meta.json");
                let text = fs::read_to_string(&meta).expect("reads");
                fs::write(&meta, text.replace("high_water", "low_water")).expect("writes");
            },
            |why| matches!(why, UnusableIndex::OtherVersion { found: None }),
        );
    }
}
