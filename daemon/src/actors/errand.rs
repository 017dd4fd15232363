//! What a session's event still needs once it is queued: its commit is waited for, what bears on it is recalled beside
//! that or after it, the agent is answered. The session goes on meanwhile.

use std::sync::Arc;

use ractor::{ActorRef, RpcReplyPort};
use recall_protocol::wire::Reply;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinHandle;

use super::clock;
use super::file_recollection::FileAsker;
use super::hearing::{Answers, Heard, Hearing, Listener, Pending};
use super::recollection::{Asker, Recalled};
use super::session::{Home, SessionContext, SessionMessage, Settled, SettledAs};
use super::writer::WriteFailed;
use crate::agents::{self, Answer};
use crate::memory::file_memory::Told;
use crate::memory::ids::{EventId, ObservationId, ProjectRow, SessionId, SessionKey, Timestamp};
use crate::memory::material::beneath;
use crate::memory::session::Ask;
use crate::repository::refs::Workplace;
use crate::store::{self, Injection, ProjectInfo, Write, Written};

/// What is left to do for an event once it is queued: wait for the commit, recall, answer, and report back.
pub(super) struct Errand {
    pub(super) me: ActorRef<SessionMessage>,
    pub(super) key: SessionKey,
    pub(super) context: SessionContext,
    /// Locked while something is recalled: of two calls at once only one tells.
    pub(super) told: Arc<Mutex<Told>>,
    /// Where the agent works.
    pub(super) place: Workplace,
    pub(super) last_event: Timestamp,
    pub(super) event_name: String,
    pub(super) reply: RpcReplyPort<Reply>,
}

/// What the agent waits to be told.
pub(super) struct Asked {
    pub(super) ask: Ask,
    /// The event that asks.
    pub(super) event: EventId,
    pub(super) look: Look,
    pub(super) hearing: Hearing,
    pub(super) pending: Pending,
}

/// When an answer is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// While the event is being committed: nothing of it can be in the answer.
    BesideTheCommit,
    /// A start is told how things stand, also those that it ends; and the store may not know yet where a session works.
    AfterTheCommit,
}

impl Asked {
    /// What nobody hears is not looked for, and does not count as told.
    pub(super) fn of(
        ask: Option<Ask>,
        listener: Listener,
        event: EventId,
        (home, answers): (&Home, &Answers),
    ) -> Option<Self> {
        let (ask, hearing) = match (ask, listener) {
            (Some(ask), Listener::Agent(hearing)) => (ask, hearing),
            (None, _) | (_, Listener::Nobody) => return None,
        };
        let look = match (&ask, home) {
            (Ask::Prompt(_) | Ask::File(_) | Ask::Task(_), Home::Stored(_)) => Look::BesideTheCommit,
            (Ask::Start(..), _) | (_, Home::Unknown | Home::Found(..)) => Look::AfterTheCommit,
        };
        Some(Self { ask, event, look, hearing, pending: answers.begin() })
    }
}

/// What was found for somebody who asks; as long as this is held, nobody else of the session is told anything.
struct Looked {
    told: OwnedMutexGuard<Told>,
    recalled: Recalled,
}

/// What counts as told since it was given, and the writing down of it.
struct Given {
    news: Told,
    recorded: JoinHandle<()>,
}

impl Errand {
    pub(super) async fn run(
        self,
        asked: Option<Asked>,
        stored: impl Future<Output = Result<Written, WriteFailed>>,
    ) {
        let (mut given, mut looked) = (None, None);
        let stored = match &asked {
            Some(asked) if asked.look == Look::BesideTheCommit => {
                let (stored, found) = tokio::join!(stored, self.look(asked));
                looked = Some(found);
                stored
            }
            _ => stored.await,
        };
        let (outcome, reply) = match stored {
            Ok(Written::Event(_)) => {
                let mut recalled = Recalled::default();
                if let Some(asked) = &asked {
                    let looked = match looked {
                        Some(looked) => looked,
                        None => self.look(asked).await,
                    };
                    (recalled, given) = self.give(asked, looked);
                }
                let answer = Answer {
                    event_name: self.event_name.clone(),
                    context: Some(recalled.block.text).filter(|text| !text.is_empty()),
                    notice: recalled.notice,
                };
                let stdout = (agents::spec(self.key.agent.as_str()).answer)(&answer);
                (SettledAs::Stored, Reply::Ack { stdout })
            }
            Ok(Written::Duplicate) => (SettledAs::NotStored, Reply::Duplicate { stdout: Vec::new() }),
            // Its session was forgotten after it was taken: there is nothing more to do about it.
            Ok(Written::Dropped) => (SettledAs::NotStored, Reply::Ack { stdout: Vec::new() }),
            // The answer to something else.
            Ok(
                Written::Leased(_)
                | Written::Reserved(_)
                | Written::Retried(_)
                | Written::Forgotten(_)
                | Written::Remembered(_)
                | Written::Done,
            ) => (SettledAs::NotStored, Reply::Busy),
            Err(error) => {
                tracing::warn!(%error, "an event could not be stored");
                (SettledAs::NotStored, Reply::Busy)
            }
        };
        let _ = self.me.send_message(SessionMessage::Settled(Settled { outcome }));
        let passed_on = self.reply.send(reply);
        let Some((Given { news, recorded }, asked)) = given.zip(asked) else { return };
        let Asked { event, hearing, pending, .. } = asked;
        let heard = match passed_on {
            Ok(()) => hearing.verdict().await,
            // It took so long that nobody waits for it any more.
            Err(_) => Heard::No,
        };
        let _ = recorded.await;
        if heard == Heard::No {
            self.told.lock().await.take_back(&news);
            let unheard = Write::Unheard { session: self.key, event };
            if let Err(error) = self.context.writer.write(unheard).await {
                tracing::warn!(%error, "an injection that nobody heard stays recorded");
            }
        }
        drop(pending);
    }

    /// What the agent could be given.
    async fn look(&self, asked: &Asked) -> Looked {
        let told = Arc::clone(&self.told).lock_owned().await;
        let recalled = match self.project().await {
            None => Recalled::default(),
            Some(project) => match asked.ask.clone() {
                Ask::File(path) => self.recall_file(&path, project.row, &told).await,
                // A subagent has read nothing of what its caller was told and has found out.
                ask @ Ask::Task(_) => self.recall_project(ask, project, None, Told::default()).await,
                ask => self.recall_project(ask, project, Some(self.key.id.clone()), told.clone()).await,
            },
        };
        Looked { told, recalled }
    }

    /// Gives it: it counts as told from here on, unless nobody hears it.
    fn give(&self, asked: &Asked, Looked { mut told, recalled }: Looked) -> (Recalled, Option<Given>) {
        let given = self.record(&recalled, asked.event).map(|recorded| {
            let items = recalled.block.items.iter().filter(|item| item.kind == "observation");
            let ids = items.map(|item| ObservationId(item.id)).collect();
            let news = match asked.ask {
                Ask::Task(_) => Told::default(),
                Ask::Start(..) | Ask::Prompt(_) | Ask::File(_) => told.add(ids, recalled.file.clone()),
            };
            Given { news, recorded }
        });
        (recalled, given)
    }

    /// Where the session works, as far as the store knows.
    async fn project(&self) -> Option<ProjectInfo> {
        let (readers, key) = (self.context.recollection.readers.clone(), self.key.clone());
        let found = tokio::task::spawn_blocking(move || readers.read(|db| store::project_of(db, &key))).await;
        match found {
            Ok(Ok(project)) => project,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot tell whose memory is asked for");
                None
            }
            Err(_) => None,
        }
    }

    async fn recall_file(&self, path: &str, project: ProjectRow, told: &Told) -> Recalled {
        let Some(file) = beneath(path, self.place.root.as_deref()) else { return Recalled::default() };
        let asker = FileAsker { file, project, session: self.key.id.clone(), place: self.place.clone() };
        self.context.recollection.about_file(asker, told).await
    }

    async fn recall_project(
        &self,
        ask: Ask,
        project: ProjectInfo,
        session: Option<SessionId>,
        told: Told,
    ) -> Recalled {
        let place = self.place.clone();
        let asker = Asker { project, session, told, last_event: self.last_event, place };
        self.context.recollection.answer(ask, asker).await
    }

    /// Writes down what is given, if anything is.
    fn record(&self, recalled: &Recalled, event: EventId) -> Option<JoinHandle<()>> {
        let moment = recalled.moment.filter(|_| !recalled.block.items.is_empty())?;
        let items = serde_json::to_string(&recalled.block.items).unwrap_or_else(|_| "[]".to_owned());
        let injection = Injection {
            session: self.key.clone(),
            event,
            at: clock::now(),
            moment: moment.as_str().to_owned(),
            tokens: recalled.block.tokens,
            items,
            file: recalled.file.clone(),
        };
        let queued = self.context.writer.queue(Write::Injected(Box::new(injection)));
        Some(tokio::spawn(async move {
            if let Err(error) = queued.await {
                tracing::warn!(%error, "an injection could not be recorded");
            }
        }))
    }
}
