//! `recall ctl events --follow`: what is said of sessions, as it is said.
//!
//! Who follows is a listener of the bus with a connection of its own. Nobody waits for one that reads slowly: it
//! misses events and is told how many happenings there were at most. It has no deadline, for nothing may happen for
//! days; so there are only a few places.

use std::sync::Arc;

use interprocess::local_socket::tokio::Stream;
use recall_protocol::frame::encode_frame;
use recall_protocol::wire::{ErrorKind, Reply};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::broadcast::error::RecvError;

use super::connection_context::ConnectionContext;
use crate::app::bus::BusEvent;
use crate::app::lifecycle_json::told;
use crate::memory::lifecycle::{LifecycleEvent, LifecycleKind};

/// What somebody wants to hear.
pub struct EventFilter {
    /// Only of sessions whose id begins so.
    pub session: Option<String>,
    /// Only events of these names; empty: all.
    pub kinds: Vec<String>,
}

impl EventFilter {
    fn takes(&self, said: &LifecycleEvent) -> bool {
        let kind = self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == said.what.name());
        let id = said.session.as_ref().map(|session| session.id.as_str());
        kind && self.session.as_ref().is_none_or(|begin| id.is_some_and(|id| id.starts_with(begin)))
    }

    fn refusal(&self) -> Option<Reply> {
        let unknown = self.kinds.iter().find(|kind| !LifecycleKind::NAMES.contains(&kind.as_str()))?;
        let hint = format!("There are {}.", LifecycleKind::NAMES.join(", "));
        let what = format!("There are no events named {unknown:?}");
        Some(Reply::Failed { kind: ErrorKind::Invalid, what, hint })
    }
}

/// Tells the client what it wants to hear until it goes or the daemon stops.
pub async fn serve(stream: &mut Stream, filter: &EventFilter, reception: &ConnectionContext) {
    let Ok(_place) = Arc::clone(&reception.followers).try_acquire_owned() else {
        let _ = say(stream, &Reply::Busy).await;
        return;
    };
    if let Some(refusal) = filter.refusal() {
        let _ = say(stream, &refusal).await;
        return;
    }
    let mut bus_events = reception.services.bus.listen();
    let mut next = Some(Reply::Json(json!({"event": "following"}).to_string().into_bytes()));
    loop {
        if let Some(reply) = next
            && (say(stream, &reply).await.is_err() || reply == Reply::ShuttingDown)
        {
            return;
        }
        let mut byte = [0];
        next = tokio::select! {
            bus_event = bus_events.recv() => heard(bus_event, filter),
            // It has nothing more to say: this is its end.
            _ = stream.read(&mut byte) => return,
        };
    }
}

fn heard(bus_event: Result<BusEvent, RecvError>, filter: &EventFilter) -> Option<Reply> {
    let line = |value: Value| Some(Reply::Json(value.to_string().into_bytes()));
    match bus_event {
        Ok(BusEvent::LifecycleEvent(said)) if filter.takes(&said) => line(told(&said)),
        Ok(BusEvent::Stopped) | Err(RecvError::Closed) => Some(Reply::ShuttingDown),
        Err(RecvError::Lagged(missed)) => line(json!({"event": "lagged", "lagged": missed})),
        Ok(_) => None,
    }
}

/// However long it takes: only this task waits.
async fn say(stream: &mut Stream, reply: &Reply) -> Result<(), ()> {
    let frame = encode_frame(reply).map_err(drop)?;
    stream.write_all(&frame).await.map_err(drop)
}
