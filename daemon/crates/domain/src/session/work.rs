//! Handles events within a turn: calls, subagents, plans and compactions.

use super::transition::Transition;
use super::{
    ActivityContent, Batch, BatchState, CallEnd, CloseReason, ContextAsk, Effect, NewActivity, RunningCall,
    Seq, Session, SessionStatus, UnstoredCall,
};
use crate::event::{HookEvent, StartSource, Subagent, ToolCall, ToolResult, ToolStart};
use crate::ids::CallId;
use crate::material::BatchSource;
use crate::plan::{PlanChange, PlanState, is_plan_file};

/// The maximum number of running calls per session. Bounds memory if an agent never reports ends.
const MOST_RUNNING: usize = 256;

impl Session {
    /// Removes running calls and returns them.
    fn take_calls(&mut self, over: impl Fn(&RunningCall) -> bool) -> Vec<RunningCall> {
        let (ended, left) = std::mem::take(&mut self.calls).into_iter().partition(over);
        self.calls = left;
        ended
    }

    /// Ends running calls without a result.
    pub(super) fn abandon_calls(&mut self, over: impl Fn(&RunningCall) -> bool) -> Option<Effect> {
        let calls = self.take_calls(over);
        (!calls.is_empty()).then_some(Effect::AbandonCalls { calls })
    }
}

impl Transition<'_> {
    pub(super) fn abandon_calls(&mut self, over: impl Fn(&RunningCall) -> bool) {
        self.effects.extend(self.session.abandon_calls(over));
    }

    /// Ends running calls with known results. Returns them.
    fn end_calls(&mut self, over: impl Fn(&RunningCall) -> bool) -> Vec<RunningCall> {
        let ended = self.session.take_calls(over);
        let calls: Vec<CallId> = ended.iter().map(|call| call.id.clone()).collect();
        if !calls.is_empty() {
            self.effects.push(Effect::EndCalls { calls });
        }
        ended
    }

    pub(super) fn call_begins(&mut self, event: &HookEvent, call: &ToolStart) {
        let Some(id) = call.use_id.clone() else { return self.refused_without_id(event, call) };
        if self.is_late() {
            // The call may have ended already.
            return self.effects.push(Effect::SetCallStart { id });
        }
        if self.session.status == SessionStatus::Completed
            || self.session.calls.iter().any(|call| call.id == id)
        {
            return;
        }
        let subagent = event.subagent.as_ref().map(|subagent| subagent.id.clone());
        let is_private = self.is_in_private(event);
        let task = call.task.clone().filter(|_| !is_private);
        let tool = (!is_private).then(|| call.name.clone());
        let refused_by = call.refused_by;
        let call = RunningCall { id, subagent, task, tool, began: self.capture.at, refused_by };
        if self.session.calls.len() >= MOST_RUNNING {
            // Starts are reported in order, so the first has waited longest.
            let longest = self.session.calls.iter().min_by_key(|call| call.began).map(|call| call.id.clone());
            self.abandon_calls(|call| Some(&call.id) == longest.as_ref());
        }
        self.session.calls.push(call.clone());
        self.effects.push(Effect::BeginCall { call });
    }

    /// Publishes everything about the call now, because later reports cannot be matched to it.
    fn refused_without_id(&mut self, event: &HookEvent, call: &ToolStart) {
        let Some(rule) = call.refused_by.filter(|_| !self.is_late() && !self.is_in_private(event)) else {
            return;
        };
        let batches = &self.session.batches;
        let is_of_turn = |batch: &&Batch| event.prompt.is_some() && batch.prompt == event.prompt;
        let own = batches.iter().rev().find(is_of_turn);
        let running = || batches.iter().rev().find(|batch| batch.state == BatchState::Open);
        let Some(seq) = own.or_else(running).map(|batch| batch.seq) else { return };
        let call = UnstoredCall {
            began: Some(self.capture.at),
            ..self.unstored(event, seq, &call.name, CallEnd::Refused(Some(rule)))
        };
        self.effects.push(Effect::PublishCall { call });
    }

    /// Builds the facts of a call without a row that ended now.
    fn unstored(&self, event: &HookEvent, seq: Seq, tool: &str, end: CallEnd) -> UnstoredCall {
        UnstoredCall {
            event: self.capture.event,
            seq,
            tool: tool.to_owned(),
            id: None,
            subagent: event.subagent.as_ref().and_then(|subagent| subagent.kind.clone()),
            began: None,
            ended: self.capture.at,
            duration_ms: None,
            end,
        }
    }

    /// Returns the file that the main agent is about to open, or the call that it is about to make. `None` for
    /// subagents, which have separate conversations, and for private turns, because injections are recorded.
    pub(super) fn in_view(&self, event: &HookEvent, call: &ToolStart) -> Option<ContextAsk> {
        if self.is_in_private(event) || self.is_late() || event.subagent.is_some() {
            return None;
        }
        let (tool, input) = (&call.name, &call.input);
        Some(match &call.file {
            Some(file) => ContextAsk::File(file.clone()),
            None => ContextAsk::Call { tool: tool.clone(), input: input.clone(), failure: None },
        })
    }

    /// Like [`Self::in_view`], for a call that failed.
    pub(super) fn failure_in_view(&self, event: &HookEvent, call: &ToolCall) -> Option<ContextAsk> {
        let ToolResult::Failed(output) = &call.result else { return None };
        if self.is_in_private(event) || self.is_late() || event.subagent.is_some() {
            return None;
        }
        let (tool, input) = (call.name.clone(), call.input.clone());
        Some(ContextAsk::Call { tool, input, failure: Some(output.clone()) })
    }

    fn is_in_private(&self, event: &HookEvent) -> bool {
        let batches = &self.session.batches;
        let is_of_turn = |batch: &&Batch| event.prompt.is_some() && batch.prompt == event.prompt;
        match batches.iter().rev().find(is_of_turn) {
            Some(batch) => batch.source == BatchSource::Private,
            None => batches
                .iter()
                .any(|batch| batch.state != BatchState::Closed && batch.source == BatchSource::Private),
        }
    }

    /// Returns the task of a starting subagent. The start event does not name the tool call, so any of several
    /// concurrent calls for the same type may be meant.
    fn task_of(&self, subagent: &Subagent) -> Option<String> {
        let kind = subagent.kind.as_deref()?;
        let tasks = self.session.calls.iter().filter_map(|call| call.task.as_ref());
        let mut texts: Vec<&str> =
            tasks.filter(|task| task.kind == kind).map(|task| task.text.as_str()).collect();
        texts.sort_unstable();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    pub(super) fn tool(&mut self, event: &HookEvent, call: &ToolCall) {
        let ended = self.end_calls(|running| call.use_id.as_ref() == Some(&running.id));
        let began = ended.first().map(|running| running.began);
        let skipped = self.policy.skip_tools.contains(&call.name);
        let at = match self.batch_of(event.prompt.as_ref()) {
            Some(0) if !skipped && self.is_before_first_prompt(event) => self.add_early_call(event),
            Some(at) => at,
            None if skipped => return self.plan_changes(None, event, call),
            None => self.open_recovery(event),
        };
        if at == 0 && self.is_late() {
            self.find_early_answer();
        }
        let Some(batch) = self.session.batches.get(at) else { return };
        let private = batch.is_private_in(event.prompt.as_ref());
        let (seq, closed) = (batch.seq, batch.state == BatchState::Closed);
        let event_id = self.capture.event;
        if !skipped {
            self.remember_early(event, at);
        }
        let effect = match (private, skipped) {
            (true, true) => return,
            (false, true) => {
                let end = if call.is_failed() { CallEnd::Failed } else { CallEnd::Done };
                let over = UnstoredCall {
                    id: call.use_id.clone(),
                    began,
                    duration_ms: call.duration_ms,
                    ..self.unstored(event, seq, &call.name, end)
                };
                self.effects.push(Effect::PublishCall { call: over });
                let prompt = event.prompt.clone();
                Effect::AddAside { seq, event: event_id, prompt, call: call.clone() }
            }
            (_, false) => {
                let content = if private { hidden(call) } else { ActivityContent::Tool(call.clone()) };
                let activity = NewActivity { began, ..self.activity(event, content) };
                Effect::AddActivity { seq: Some(seq), activity }
            }
        };
        self.effects.push(effect);
        if closed && !private && !skipped {
            self.effects.push(Effect::PublishLateCall { event: event_id });
        }
        if !private {
            self.plan_changes(Some(seq), event, call);
        }
        if let (Some(subagent), Some(use_id)) = (&call.launched, &call.use_id) {
            self.effects.push(Effect::LinkSubagent { subagent: subagent.clone(), call: use_id.clone() });
        }
        if closed && !private {
            // Background work continues after the turn's end, so the batch is recompressed.
            self.effects.extend([Effect::CompressBatch { seq }, Effect::Summarize]);
        }
        if !private {
            self.grow(at, call);
        }
    }

    /// Whether the event happened before the first known prompt, and outside its turns.
    fn is_before_first_prompt(&mut self, event: &HookEvent) -> bool {
        let Some(first) = self.session.batches.first_mut() else { return true };
        let is_earlier = self.capture.order.is_before(&first.opened);
        let is_own = event.prompt.is_some() && event.prompt == first.prompt;
        if is_earlier && first.source == BatchSource::Recovery {
            // The batch takes the time and the turn of its first call.
            first.opened = self.capture.order;
            if first.prompt != event.prompt {
                first.prompt.clone_from(&event.prompt);
                self.effects.push(Effect::SetTurn { seq: first.seq, turn: event.prompt.clone() });
            }
        }
        is_earlier && !is_own && first.source != BatchSource::Recovery
    }

    /// Handles a call from before the first prompt that arrives after that prompt.
    fn add_early_call(&mut self, event: &HookEvent) -> usize {
        self.remember_early(event, self.session.place_of_early());
        self.separate_early();
        self.session.place_of_early()
    }

    fn open_recovery(&mut self, event: &HookEvent) -> usize {
        let at = self.push_batch(BatchSource::Recovery, BatchState::Open, event.prompt.clone(), None);
        if self.session.status == SessionStatus::Completed {
            self.effects.extend(self.session.close_unfinished(CloseReason::SessionEnd));
        }
        at
    }

    fn activity(&self, event: &HookEvent, content: ActivityContent) -> NewActivity {
        NewActivity {
            event: self.capture.event,
            prompt: event.prompt.clone(),
            subagent: event.subagent.clone(),
            began: None,
            refused_by: None,
            content,
        }
    }

    /// Compresses a long batch in steps, so that a crash loses little of it.
    fn grow(&mut self, at: usize, call: &ToolCall) {
        let chunk = self.policy.chunk;
        let Some(batch) = self.session.batches.get_mut(at) else { return };
        batch.growth.add(call.size());
        if batch.state != BatchState::Closed && batch.growth.is_due(chunk) {
            batch.growth.compress();
            self.effects.push(Effect::FlushChunk { seq: batch.seq });
        }
    }

    /// Handles calls that were settled together. Those with a row are already known.
    pub(super) fn settled_calls(&mut self, event: &HookEvent, calls: &[ToolCall]) {
        let ended =
            self.end_calls(|running| calls.iter().any(|call| call.use_id.as_ref() == Some(&running.id)));
        let running = |call: &ToolCall| {
            let same = |running: &&RunningCall| call.use_id.as_ref() == Some(&running.id);
            ended.iter().find(same).map(|running| (running.began, running.refused_by)).unzip()
        };
        let batch = self.batch_of(event.prompt.as_ref()).and_then(|at| self.session.batches.get(at));
        let seq = batch.map(|batch| batch.seq);
        let private = batch.is_some_and(|batch| batch.is_private_in(event.prompt.as_ref()));
        let refused = calls.iter().filter(|call| call.use_id.is_some());
        let (skipped, kept): (Vec<_>, Vec<_>) =
            refused.partition(|call| self.policy.skip_tools.contains(&call.name));
        let activities: Vec<_> = kept
            .into_iter()
            .map(|call| {
                let (began, refused_by) = running(call);
                let refused_by = refused_by.flatten();
                let content = if private { hidden(call) } else { ActivityContent::Tool(call.clone()) };
                NewActivity { began, refused_by, ..self.activity(event, content) }
            })
            .collect();
        // Running calls have ended before.
        for call in skipped {
            let (Some(began), refused_by) = running(call) else { continue };
            let Some(seq) = seq.filter(|_| !private) else { continue };
            let call = UnstoredCall {
                id: call.use_id.clone(),
                began: Some(began),
                ..self.unstored(event, seq, &call.name, CallEnd::Refused(refused_by.flatten()))
            };
            self.effects.push(Effect::PublishCall { call });
        }
        if !activities.is_empty() {
            self.effects.push(Effect::AddRefused { seq, activities });
        }
    }

    pub(super) fn subagent_begins(&mut self, event: &HookEvent) -> Option<ContextAsk> {
        self.activate();
        let subagent = event.subagent.clone()?;
        let task = if self.is_late() { None } else { self.task_of(&subagent) };
        let seq = self.seq_of(event);
        self.effects.push(Effect::BeginSubagent { seq, prompt: event.prompt.clone(), subagent });
        task.map(ContextAsk::Task)
    }

    pub(super) fn subagent_ends(&mut self, event: &HookEvent, message: Option<&str>) {
        self.activate();
        let Some(subagent) = event.subagent.clone() else { return };
        self.abandon_calls(|call| call.subagent.as_ref() == Some(&subagent.id));
        let batch = self.batch_of(event.prompt.as_ref()).and_then(|at| self.session.batches.get(at));
        let seq = batch.map(|batch| batch.seq);
        let private = batch.is_some_and(|batch| batch.is_private_in(event.prompt.as_ref()));
        let again =
            batch.filter(|batch| batch.state == BatchState::Closed && !private).map(|batch| batch.seq);
        let message = message.filter(|text| !private && !text.trim().is_empty()).map(str::to_owned);
        self.effects.push(Effect::EndSubagent { seq, prompt: event.prompt.clone(), subagent, message });
        if let Some(seq) = again {
            self.effects.extend([Effect::CompressBatch { seq }, Effect::Summarize]);
        }
    }

    /// Handles the beginning of a compaction. Open batches are compressed now, because this may be the last chance.
    pub(super) fn compaction_begins(&mut self, event: &HookEvent, trigger: &str) {
        self.begin(StartSource::Resume);
        let seq = self.seq_of(event);
        let message_count = self.session.messages();
        let (prompt, trigger) = (event.prompt.clone(), trigger.to_owned());
        let since_last = message_count.saturating_sub(self.session.compacted);
        self.effects.push(Effect::BeginCompaction { seq, prompt, trigger, message_count, since_last });
        self.flush_open();
    }

    /// Requests compression of open batches and the session's summary.
    pub(super) fn flush_open(&mut self) {
        let open = self.session.batches.iter_mut();
        for batch in
            open.filter(|batch| batch.state == BatchState::Open && batch.source != BatchSource::Private)
        {
            batch.growth.compress();
            self.effects.push(Effect::FlushChunk { seq: batch.seq });
        }
        if !self.session.batches.is_empty() {
            self.effects.push(Effect::Summarize);
        }
    }

    pub(super) fn compaction_ends(&mut self, event: &HookEvent, trigger: &str, summary: Option<&str>) {
        self.begin(StartSource::Resume);
        let seq = self.seq_of(event);
        let message_count = self.session.messages();
        let since_last = message_count.saturating_sub(self.session.compacted);
        self.session.compacted = message_count;
        // The agent's summary may also describe earlier private prompts.
        let is_earlier_private = |batch: &Batch| {
            batch.source == BatchSource::Private && !self.capture.order.is_before(&batch.opened)
        };
        let private = self.session.batches.iter().any(is_earlier_private);
        let summary = summary.filter(|text| !private && !text.trim().is_empty()).map(str::to_owned);
        let (prompt, trigger) = (event.prompt.clone(), trigger.to_owned());
        self.effects.push(Effect::EndCompaction { seq, prompt, trigger, message_count, since_last, summary });
    }

    fn seq_of(&mut self, event: &HookEvent) -> Option<Seq> {
        let at = self.batch_of(event.prompt.as_ref())?;
        self.session.batches.get(at).map(|batch| batch.seq)
    }

    fn plan_changes(&mut self, seq: Option<Seq>, event: &HookEvent, call: &ToolCall) {
        let Some(change) = &call.plan else { return };
        let (path, text, state) = match change {
            PlanChange::Tasks(change) => {
                let (prompt, change) = (event.prompt.clone(), change.clone());
                return self.effects.push(Effect::KeepTasks { seq, prompt, change });
            }
            PlanChange::File { path, text } => {
                if !is_plan_file(path, &self.policy.plan_folders) {
                    return;
                }
                (Some(path.clone()), Some(text.clone()), PlanState::Draft)
            }
            PlanChange::Approved { path, text } => (path.clone(), text.clone(), PlanState::Approved),
            PlanChange::ApprovedEarlier { path, now } => {
                (Some(path.clone()), Some(now.clone()), PlanState::ApprovedEarlier)
            }
        };
        self.effects.push(Effect::KeepPlan { seq, prompt: event.prompt.clone(), path, text, state });
        let batch = self.session.batches.iter_mut().find(|batch| Some(batch.seq) == seq);
        // Set even if the batch already works on a plan, because that call may have moved to another batch since.
        if let Some(batch) = batch.filter(|it| matches!(it.source, BatchSource::User | BatchSource::Plan)) {
            batch.source = BatchSource::Plan;
            self.effects.push(Effect::SetSource { seq: batch.seq, source: BatchSource::Plan });
        }
    }
}

impl ToolCall {
    /// The size of the call's text, in bytes.
    fn size(&self) -> u64 {
        let (ToolResult::Done(result) | ToolResult::Failed(result)) = &self.result;
        (self.input.len() + result.len()) as u64
    }
}

/// Reduces a call in a private turn to its name.
fn hidden(call: &ToolCall) -> ActivityContent {
    ActivityContent::Hidden { name: call.name.clone() }
}
