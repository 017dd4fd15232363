//! Documents that are stored but not yet indexed. Their passages are in [`super::fresh_passages`].
//!
//! They are indexed in memory for one search, so the same code finds, filters and weights them.

use std::borrow::Cow;
use std::collections::HashSet;

use recall_domain::document::{Document, DocumentKey};

use super::error::IndexError;
use super::index::Index;
use super::request::{SearchRequest, Spelling};
use super::source::{Candidate, CandidateSource, Candidates};

/// The documents written after the index's high-water mark.
#[derive(Default)]
pub struct Fresh {
    /// The documents whose index entries are outdated.
    pub(super) keys: HashSet<DocumentKey>,
    pub(super) index: Option<Index>,
}

impl Fresh {
    /// `keys` are all changed documents. A key without a document was removed.
    ///
    /// # Errors
    /// Fails when the documents cannot be indexed.
    pub fn new<'a>(
        keys: HashSet<DocumentKey>,
        documents: impl IntoIterator<Item = &'a Document>,
    ) -> Result<Self, IndexError> {
        let mut documents = documents.into_iter().peekable();
        let index = if documents.peek().is_none() { None } else { Some(Index::in_memory(documents)?) };
        Ok(Self { keys, index })
    }
}

/// The index together with the documents that it does not contain yet.
pub struct Current<'a> {
    pub index: &'a Index,
    pub fresh: &'a Fresh,
}

impl CandidateSource for Current<'_> {
    fn name(&self) -> &'static str {
        self.index.name()
    }

    fn candidates(&self, request: &SearchRequest) -> Result<Candidates, IndexError> {
        let mut found = self.index.candidates(request)?;
        if self.fresh.keys.is_empty() {
            return Ok(found);
        }
        let mut request = Cow::Borrowed(request);
        if !found.read_as.is_empty() && self.has_what_was_corrected(&found, &request)? {
            request.to_mut().spelling = Spelling::AsWritten;
            found = self.index.candidates(&request)?;
        }
        let before = found.candidates.len();
        found.candidates.retain(|candidate| !self.fresh.keys.contains(&candidate.key));
        found.total -= before - found.candidates.len();
        if let Some(index) = &self.fresh.index {
            found.append(index.candidates(&request)?);
        }
        Ok(found)
    }
}

impl Current<'_> {
    /// Whether the new documents contain a word that the index lacks and therefore replaced by another.
    fn has_what_was_corrected(
        &self,
        found: &Candidates,
        request: &SearchRequest,
    ) -> Result<bool, IndexError> {
        let Some(index) = &self.fresh.index else { return Ok(false) };
        let fresh = index.candidates(&SearchRequest { spelling: Spelling::AsWritten, ..request.clone() })?;
        let matched = fresh.candidates.iter().fold(0, |all, candidate| all | candidate.part.matched);
        let mut terms = fresh.terms.iter().enumerate();
        Ok(terms.any(|(at, term)| matched >> at & 1 != 0 && !found.terms.contains(term)))
    }
}

impl Candidates {
    /// Adds other results, whose terms may be in a different order.
    fn append(&mut self, other: Self) {
        let mut places = Vec::with_capacity(other.terms.len());
        for term in &other.terms {
            let place = self.terms.iter().position(|known| known == term).unwrap_or_else(|| {
                self.terms.push(term.clone());
                self.terms.len() - 1
            });
            places.push(u32::try_from(place).unwrap_or(u32::MAX));
        }
        let moved = |matched: u32| {
            let bits = places.iter().enumerate().filter(|(from, _)| matched >> from & 1 != 0);
            bits.fold(0, |set, (_, to)| set | 1_u32.checked_shl(*to).unwrap_or(0))
        };
        self.candidates.extend(other.candidates.into_iter().map(|candidate| Candidate {
            part: super::request::SourceScore { matched: moved(candidate.part.matched), ..candidate.part },
            ..candidate
        }));
        self.total += other.total;
        for read_as in other.read_as {
            if !self.read_as.contains(&read_as) {
                self.read_as.push(read_as);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fusion::search;
    use crate::index::Opened;
    use crate::query::parse;
    use crate::request::Scope;
    use recall_domain::document::{DocumentKind, Status};
    use recall_domain::ids::{LogSeq, ProjectKey, Timestamp};
    use recall_domain::observation::{Importance, Maker};

    fn observation(row: i64, body: &str) -> Document {
        Document {
            key: DocumentKey { kind: DocumentKind::Observation, row },
            project: ProjectKey::from(if row % 2 == 0 { "even" } else { "odd" }),
            project_name: String::new(),
            agent: "a".into(),
            session: "s".into(),
            observation_type: None,
            status: Status::Active,
            importance: Importance::clamped(5),
            maker: Maker::Machine,
            at: Timestamp(row),
            files: Vec::new(),
            title: String::new(),
            body: body.to_owned(),
            passages: Vec::new(),
        }
    }

    #[test]
    fn a_query_word_that_only_unindexed_documents_contain_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let Opened { index, mut writer } = Index::open(folder.path()).unwrap();
        writer.put(&observation(1, "the heron flies")).unwrap();
        writer.commit(LogSeq(1)).unwrap();
        let newest = observation(2, "the heros sleep");
        let fresh = Fresh::new(HashSet::from([newest.key]), std::slice::from_ref(&newest)).unwrap();
        let current = Current { index: &index, fresh: &fresh };
        let ask = |text: &str| {
            let request = SearchRequest {
                spelling: Spelling::Forgiving,
                ..SearchRequest::new(parse(text), Timestamp(9))
            };
            search(&[&current], &request).unwrap()
        };
        let hits = ask("heros");
        assert!(hits.read_as.is_empty(), "{hits:?}");
        assert_eq!(hits.hits.iter().map(|hit| hit.key).collect::<Vec<_>>(), [newest.key]);
        assert!(!ask("herom").read_as.is_empty());
    }

    #[test]
    fn unindexed_documents_are_found_once_and_with_their_current_text() {
        let folder = tempfile::tempdir().unwrap();
        let Opened { index, mut writer } = Index::open(folder.path()).unwrap();
        for document in [observation(1, "the login is slow"), observation(2, "the login page is gone")] {
            writer.put(&document).unwrap();
        }
        writer.commit(LogSeq(7)).unwrap();
        assert_eq!(index.high_water(), LogSeq(7));
        let written = [observation(1, "the logout is slow"), observation(3, "a login cookie")];
        let removed = DocumentKey { kind: DocumentKind::Observation, row: 2 };
        let keys = written.iter().map(|document| document.key).chain([removed]).collect();
        let fresh = Fresh::new(keys, &written).unwrap();
        let found = |query: &str, scope: Scope| {
            let source = Current { index: &index, fresh: &fresh };
            let hits = search(
                &[&source],
                &SearchRequest { scope, ..SearchRequest::new(parse(query), Timestamp(9)) },
            )
            .unwrap();
            assert_eq!(hits.total, hits.hits.len(), "{query}");
            let mut rows: Vec<i64> = hits.hits.iter().map(|hit| hit.key.row).collect();
            rows.sort_unstable();
            rows
        };
        assert_eq!(found("login", Scope::Everything), [3]);
        assert_eq!(found("logout", Scope::Everything), [1]);
        assert_eq!(found("page", Scope::Everything), [0; 0]);
        assert_eq!(found("\"login cookie\" -page", Scope::Everything), [3]);
        assert_eq!(found("cookie", Scope::Project(ProjectKey::from("odd"))), [3]);
        assert_eq!(found("cookie", Scope::Project(ProjectKey::from("even"))), [0; 0]);
    }

    #[test]
    fn appending_results_with_reordered_terms_keeps_their_matched_terms() {
        let named = |terms: &[&str]| Candidates {
            terms: terms.iter().map(|term| (*term).to_owned()).collect(),
            ..Candidates::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let Opened { index, mut writer } = Index::open(folder.path()).unwrap();
        writer.put(&observation(1, "login cookie")).unwrap();
        writer.commit(LogSeq(1)).unwrap();
        let more = index.candidates(&SearchRequest::new(parse("cookie login"), Timestamp(0))).unwrap();
        let mut found = named(&["login", "page"]);
        found.append(more);
        assert_eq!(found.terms, ["login", "page", "cooki"]);
        assert_eq!(found.matched(found.candidates[0].part).collect::<Vec<_>>(), ["login", "cooki"]);
    }
}
