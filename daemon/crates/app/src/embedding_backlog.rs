//! Orders the texts that need vectors, those that may be injected soonest first.
//!
//! These are the observations, answers, summaries and prompts of the most recently active sessions, session by
//! session; the rest follows. The order affects only timing: progress is in the database, where each run reads it.

use std::collections::VecDeque;

use recall_domain::document::DocumentKey;
use recall_embedding::ModelHash;
use recall_store::{Readers, SessionPlace, StoreError};

/// Fewer texts than this are not ordered.
const FEW: u32 = 64;
/// The number of sessions whose texts are looked up at once.
const SESSIONS: u32 = 32;

/// The texts without vectors of one run.
#[derive(Default)]
pub(super) struct Backlog {
    keys: VecDeque<DocumentKey>,
    place: Searched,
}

/// How far the search for texts has progressed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Searched {
    #[default]
    Nowhere,
    /// Sessions up to this one in the order are done.
    At(Option<SessionPlace>),
    /// All sessions are done.
    Rest,
}

/// Whether newer texts than the known ones may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Yes,
    No,
}

impl Backlog {
    /// Returns up to this many texts. An empty result means that none are left.
    pub(super) fn next(
        &mut self,
        readers: &Readers,
        model: ModelHash,
        news: News,
        most: usize,
    ) -> Result<Vec<DocumentKey>, StoreError> {
        readers.read(|db| {
            if news == News::Yes && matches!(self.place, Searched::At(Some(_)) | Searched::Rest) {
                let (newest, _) = db.newest_without_vectors(&model.0, None, SESSIONS)?;
                self.keys.retain(|key| !newest.contains(key));
                newest.into_iter().rev().for_each(|key| self.keys.push_front(key));
            }
            while self.keys.len() < most {
                match self.place {
                    Searched::Nowhere => {
                        let few = db.documents_without_vectors(&model.0, FEW)?;
                        let is_few = few.len() < FEW as usize;
                        self.place = if is_few { Searched::Rest } else { Searched::At(None) };
                        self.keys.extend(few.into_iter().filter(|_| is_few));
                        if is_few {
                            break;
                        }
                    }
                    Searched::At(place) => {
                        let (keys, last) = db.newest_without_vectors(&model.0, place, SESSIONS)?;
                        self.keys.extend(keys);
                        self.place = last.map_or(Searched::Rest, |last| Searched::At(Some(last)));
                    }
                    Searched::Rest if self.keys.is_empty() => {
                        self.keys.extend(db.documents_without_vectors(&model.0, FEW)?);
                        break;
                    }
                    Searched::Rest => break,
                }
            }
            Ok(())
        })?;
        Ok(self.keys.drain(..most.min(self.keys.len())).collect())
    }

    /// Whether only the rest is left, which is searched repeatedly until nothing is found.
    pub(super) fn is_at_the_rest(&self) -> bool {
        self.place == Searched::Rest
    }
}
