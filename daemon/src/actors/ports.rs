//! Implements the use cases' ports with the actors.

use std::time::Duration;

use recall_protocol::wire::Reply;

use super::compression::{CompressionHandle, CompressionMessage};
use super::housekeeper_message::{HousekeeperHandle, HousekeeperMessage};
use super::indexer::{IndexerHandle, IndexerMessage};
use super::session_message::IncomingEvent;
use super::sessions::{SessionsHandle, SessionsMessage};
use super::writer::WriterHandle;
use recall_app::ports::{AcceptedEvent, Drained, NoAnswer, Ports};
use recall_domain::ids::SessionKey;

#[derive(Clone, Default)]
pub struct ActorPorts {
    pub writer: WriterHandle,
    pub sessions: SessionsHandle,
    pub indexer: IndexerHandle,
    pub housekeeper: HousekeeperHandle,
    pub compression: CompressionHandle,
}

impl Ports for ActorPorts {
    type Writer = WriterHandle;

    fn writer(&self) -> &WriterHandle {
        &self.writer
    }

    async fn deliver(
        &self,
        session: SessionKey,
        event: AcceptedEvent,
        within: Duration,
    ) -> Result<Reply, NoAnswer> {
        let message = |reply| {
            let incoming = Box::new(IncomingEvent { accepted: event, reply });
            SessionsMessage::Deliver { key: session, incoming }
        };
        self.sessions.ask(message, within).await
    }

    fn reload(&self, sessions: Vec<SessionKey>) {
        // A restarting supervisor has no session actors with outdated state.
        let _ = self.sessions.send(SessionsMessage::Reload(sessions));
    }

    async fn flush_index(&self, within: Duration) -> Result<(), NoAnswer> {
        self.indexer.ask(IndexerMessage::Flush, within).await.map(drop)
    }

    fn reconsider_providers(&self) {
        // A restarting supervisor has no open circuits.
        let _ = self.compression.send(CompressionMessage::Reconsider);
    }

    async fn purge_index(&self, within: Duration) -> Result<(), NoAnswer> {
        self.indexer.ask(IndexerMessage::Purge, within).await
    }

    async fn drain_spool(&self, within: Duration) -> Result<Drained, NoAnswer> {
        self.housekeeper.ask(HousekeeperMessage::Drain, within).await
    }
}
