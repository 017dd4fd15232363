//! What a session's hooks leave out and the agent's transcript has: answers of turns, and the text of an approved plan.

use std::time::Duration;

use ractor::ActorRef;
use recall_app::transcript_replies::Unanswered;
use recall_domain::event::{HookEvent, HookEventKind};
use recall_domain::plan::PlanChange;
use recall_domain::session::{Effect, Seq, Session};
use recall_protocol::wire::Deliver;

use super::{SessionMessage, SessionState, Transcript};
use crate::actors::pending_reply::waited;

/// An approval captured longer ago is late, because it waited in the spool.
const RECENT_APPROVAL: Duration = Duration::from_secs(5);

/// The delays after which a transcript is read again, because it may be written only after the hook of a turn's end.
/// After these, it is read at the session's next events, its end and housekeeping.
const LOOKS_AGAIN: [Duration; 4] =
    [Duration::from_millis(60), Duration::from_millis(300), Duration::from_secs(2), Duration::from_secs(6)];

/// The maximum number of turns that are searched for at once. Older ones wait for an import.
pub(super) const MOST_AWAITED: usize = 8;

impl SessionState {
    /// Returns the missing answers of turns that this event leaves without one, or that ended without one before. A
    /// Stop without a message gets its own turn's answer.
    pub(super) async fn missing_replies(
        &mut self,
        me: &ActorRef<SessionMessage>,
        event: &mut HookEvent,
        deliver: &Deliver,
    ) -> Vec<(Seq, String)> {
        let Some(loaded) = &mut self.loaded else { return Vec::new() };
        let Transcript { path, config_dir } = &mut loaded.transcript;
        config_dir.clone_from(&deliver.context.config_dir);
        if event.transcript_path.is_some() {
            path.clone_from(&event.transcript_path);
        }
        let left = loaded.session.unanswered_batch_before(event);
        let own = left.filter(|batch| !batch.is_of_other_turn(event.prompt.as_ref())).map(|batch| batch.seq);
        let left = left.map(|batch| batch.seq);
        // Other events are handled while no hook waits.
        let is_end = matches!(event.what, HookEventKind::SessionEnd { .. });
        let earlier = if is_end { loaded.awaited.clone() } else { Vec::new() };
        let is_awaiting = !loaded.awaited.is_empty() || left.is_some();
        let mut found = self.look_up(earlier.into_iter().chain(left).collect()).await;
        let Some(loaded) = &mut self.loaded else { return found };
        loaded.awaited.extend(left);
        loaded.awaited.retain(|seq| found.iter().all(|(known, _)| known != seq));
        loaded.awaited.drain(..loaded.awaited.len().saturating_sub(MOST_AWAITED));
        let begins = matches!(event.what, HookEventKind::Prompt { .. } | HookEventKind::SessionStart { .. });
        if is_awaiting && !loaded.awaited.is_empty() && (begins || is_end || left.is_some()) {
            look_later(me, 0);
        }
        if let HookEventKind::Stop { message } = &mut event.what
            && let Some(at) = found.iter().position(|(seq, _)| own == Some(*seq))
        {
            *message = Some(found.remove(at).1);
        }
        found
    }

    /// Reads the transcript again for missing answers.
    pub(super) async fn look_again(&mut self, me: &ActorRef<SessionMessage>) -> Awaited {
        let awaited = match &self.loaded {
            // Events in flight decide whether answers are still missing.
            Some(_) if self.in_flight > 0 => return Awaited::Some,
            Some(loaded) => loaded.awaited.clone(),
            None => return Awaited::Nothing,
        };
        if awaited.is_empty() {
            return Awaited::Nothing;
        }
        let found = self.look_up(awaited).await;
        let Some(loaded) = &mut self.loaded else { return Awaited::Nothing };
        let (next, effects) = with_replies(loaded.session.clone(), &found);
        let is_missing = |seq: &Seq| next.unanswered_batch(*seq).is_some();
        loaded.awaited.retain(is_missing);
        let left = if loaded.awaited.is_empty() { Awaited::Nothing } else { Awaited::Some };
        if !effects.is_empty() {
            loaded.session = next;
            let at = loaded.session.last_event;
            self.store_quietly(me, effects, at);
        }
        left
    }

    /// Adds the text to an approval that names only the plan's file. If the approval was captured some time ago, the
    /// file may have changed; its text then counts only if no write to it is known.
    pub(super) async fn read_plan(&self, event: &mut HookEvent, deliver: &Deliver) {
        let HookEventKind::Tool(call) = &mut event.what else { return };
        let Some(PlanChange::Approved { path: Some(path), text: None }) = &call.plan else { return };
        let root = self.loaded.as_ref().and_then(|loaded| loaded.root.clone());
        let (named, config_dir) = (path.clone(), deliver.context.config_dir.clone());
        let folders = self.context.capture.plan_folders.clone();
        let replies = &self.context.transcript_replies;
        let found = replies.plan(&self.key.agent, named, config_dir, root, folders).await;
        let path = path.clone();
        let is_recent = waited(deliver).is_some_and(|waited| waited < RECENT_APPROVAL);
        call.plan = Some(match found {
            Some(now) if !is_recent => PlanChange::ApprovedEarlier { path, now },
            text => PlanChange::Approved { path: Some(path), text },
        });
    }

    pub(super) async fn look_up(&self, wanted: Vec<Seq>) -> Vec<(Seq, String)> {
        let Some(loaded) = &self.loaded else { return Vec::new() };
        let Transcript { path: Some(path), config_dir } = &loaded.transcript else { return Vec::new() };
        let last = loaded.session.batches.last().map(|batch| batch.seq);
        let missing = wanted.into_iter().filter_map(|seq| loaded.session.unanswered_batch(seq));
        // Without turn ids, a transcript may show only the last turn's answer.
        let history = self.context.agents.spec(self.key.agent.as_str()).history;
        let has_turn_ids = history.is_some_and(|history| history.tail.is_some());
        let missing =
            missing.filter(|batch| has_turn_ids || batch.prompt.is_some() || Some(batch.seq) == last);
        let turns: Vec<_> = missing.map(|batch| (batch.seq, batch.prompt.clone())).collect();
        if turns.is_empty() {
            return Vec::new();
        }
        let asked = Unanswered { transcript: path.clone(), config_dir: config_dir.clone(), turns };
        self.context.transcript_replies.look_up(&self.key, asked).await
    }
}

/// Whether answers are missing that a transcript may still supply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    Nothing,
    Some,
}

/// Schedules another reading of the transcript, unless that was done often enough.
pub(super) fn look_later(me: &ActorRef<SessionMessage>, times: usize) {
    if let Some(after) = LOOKS_AGAIN.get(times) {
        me.send_after(*after, move || SessionMessage::LookAgain(times));
    }
}

pub(super) fn with_replies(mut session: Session, found: &[(Seq, String)]) -> (Session, Vec<Effect>) {
    let mut effects = Vec::new();
    for (seq, text) in found {
        let more;
        (session, more) = session.with_reply(*seq, text);
        effects.extend(more);
    }
    (session, effects)
}
