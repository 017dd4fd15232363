//! Spans of sessions, turns, tool calls, compression jobs and model calls.
//!
//! Names and attributes follow the semantic conventions for generative AI, if they have one
//! (<https://opentelemetry.io/docs/specs/semconv/gen-ai/>): a turn is `invoke_agent`, a tool call `execute_tool`, a
//! model call `chat` or `embeddings`. All spans of a session are one trace.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use sha2::{Digest, Sha256};

use super::{attribute, nanoseconds, number, text};
use recall_domain::budget::{Cost, ModelCall};
use recall_domain::guard::Rule;
use recall_domain::ids::{ActivityId, BatchId, CallId, EventId, JobId, SessionKey, Timestamp};
use recall_domain::lifecycle::Tally;
use recall_domain::session::{CallEnd, RunningCall, UnstoredCall};
use recall_store::{CallTimes, JobStatus, JobTimes, SessionTimes, TurnTimes};

/// The attribute for the rule of the guard that refused a call.
const GUARD: &str = "recall.guard.rule";

/// The span of a session, from its start or resumption to its end.
pub fn session_span(session: &SessionTimes, tally: Tally, ended: Timestamp, reason: &str) -> Span {
    let trace = Trace::of(session);
    Span {
        attributes: vec![
            text("gen_ai.agent.name", session.agent.as_str()),
            text("gen_ai.conversation.id", session.id.as_str()),
            text("recall.project", &session.project),
            number("recall.session.life", session.life),
            number("recall.session.messages", tally.message_count),
            text("recall.session.end_reason", reason),
        ],
        ..trace.span(
            Part::Life(session.life),
            None,
            format!("session {}", session.agent.as_str()),
            Timestamp(ended.0.saturating_sub(tally.life_ms)),
            ended,
        )
    }
}

/// A turn and its tool calls.
pub fn turn_spans(
    session: &SessionTimes,
    prompt_number: u32,
    turn: &TurnTimes,
    calls: &[CallTimes],
) -> Vec<Span> {
    let trace = Trace::of(session);
    let failed = calls.iter().filter(|call| call.failed).count();
    let invoked = Span {
        attributes: vec![
            text("gen_ai.operation.name", "invoke_agent"),
            text("gen_ai.agent.name", session.agent.as_str()),
            text("gen_ai.conversation.id", session.id.as_str()),
            number("recall.prompt.number", prompt_number),
            text("recall.prompt.source", turn.source.as_str()),
            text("recall.prompt.close_reason", turn.close_reason.as_deref().unwrap_or_default()),
            number("recall.prompt.tool_calls", calls.len()),
            number("recall.prompt.failed_tool_calls", failed),
        ],
        ..trace.span(
            Part::Turn(turn.batch),
            Some(Part::Life(turn.life)),
            format!("invoke_agent {}", session.agent.as_str()),
            turn.began,
            turn.ended,
        )
    };
    std::iter::once(invoked).chain(calls.iter().map(|call| call_span(&trace, turn.batch, call))).collect()
}

/// The span of a call that ended after its turn.
pub fn late_call_span(session: &SessionTimes, turn: BatchId, call: &CallTimes) -> Span {
    call_span(&Trace::of(session), turn, call)
}

/// The span of a call without a row in the store.
pub fn unstored_call_span(session: &SessionTimes, turn: BatchId, call: &UnstoredCall) -> Span {
    let mut attributes = about_call(&call.tool, call.id.as_ref());
    attributes.extend(call.duration_ms.map(|ran| number("recall.tool.duration_ms", ran)));
    attributes.extend(call.subagent.as_ref().map(|name| text("recall.subagent", name)));
    let (failure, rule) = match call.end {
        CallEnd::Done => (None, None),
        CallEnd::Failed => (Some("failed"), None),
        CallEnd::Refused(rule) => (Some("refused"), rule.map(Rule::name)),
    };
    attributes.extend(rule.map(|rule| text(GUARD, rule)));
    let part = call.id.as_ref().map_or(Part::Reported(call.event), Part::Call);
    let began = beginning(call.began, call.ended, call.duration_ms);
    let name = format!("execute_tool {}", call.tool);
    let span = Trace::of(session).span(part, Some(Part::Turn(turn)), name, began, call.ended);
    ended_with(Span { attributes, ..span }, failure)
}

/// The span of a call without a result. It ends with its turn or session, or at once if a guard refused it. `None` if
/// it must not be reported.
pub fn unfinished_call_span(
    session: &SessionTimes,
    turn: Option<BatchId>,
    call: &RunningCall,
    ended: Timestamp,
) -> Option<Span> {
    let tool = call.tool.as_ref()?;
    let parent = turn.map_or(Part::Life(session.life), Part::Turn);
    let mut attributes = about_call(tool, Some(&call.id));
    attributes.extend(call.refused_by.map(|rule| text(GUARD, rule.name())));
    let (ended, end) = match call.refused_by {
        Some(_) => (call.began, "refused"),
        None => (ended, "no_result"),
    };
    let span = Trace::of(session).span(
        Part::Call(&call.id),
        Some(parent),
        format!("execute_tool {tool}"),
        call.began,
        ended,
    );
    Some(ended_with(Span { attributes, ..span }, Some(end)))
}

fn about_call(tool: &str, id: Option<&CallId>) -> Vec<KeyValue> {
    let mut attributes = vec![
        text("gen_ai.operation.name", "execute_tool"),
        text("gen_ai.tool.name", tool),
        text("gen_ai.tool.type", "function"),
    ];
    attributes.extend(id.map(|id| text("gen_ai.tool.call.id", id.as_str())));
    attributes
}

/// The start of a call. If none was reported, it is the end minus the duration reported by the agent, if any.
fn beginning(began: Option<Timestamp>, ended: Timestamp, duration_ms: Option<i64>) -> Timestamp {
    began.unwrap_or(Timestamp(ended.0.saturating_sub(duration_ms.unwrap_or(0).max(0))))
}

fn call_span(trace: &Trace, turn: BatchId, call: &CallTimes) -> Span {
    let began = beginning(call.began, call.ended, call.duration_ms);
    let mut attributes = about_call(&call.tool, call.id.as_ref());
    attributes.extend(call.duration_ms.map(|ran| number("recall.tool.duration_ms", ran)));
    attributes.extend(call.subagent.as_ref().map(|name| text("recall.subagent", name)));
    attributes.extend(call.refused_by.as_ref().map(|rule| text(GUARD, rule)));
    let failure = match (call.failed, call.refused) {
        (false, _) => None,
        (true, true) => Some("refused"),
        (true, false) => Some("failed"),
    };
    let part = call.id.as_ref().map_or(Part::Unnamed(call.row), Part::Call);
    let span =
        trace.span(part, Some(Part::Turn(turn)), format!("execute_tool {}", call.tool), began, call.ended);
    ended_with(Span { attributes, ..span }, failure)
}

/// The span of a job, from when it was queued until its last result is stored.
pub fn job_span(session: &SessionTimes, job: &JobTimes) -> Span {
    let trace = Trace::of(session);
    let parent = job.batch.map_or(Part::Life(session.life), Part::Turn);
    let mut attributes = vec![
        text("recall.job.kind", job.kind.as_str()),
        number("recall.job.id", job.id.0),
        number("recall.job.attempts", job.attempts),
    ];
    attributes.extend(job.origin.as_ref().map(|origin| text("recall.job.origin", origin.as_str())));
    let span = trace.span(
        Part::Job(job.id),
        Some(parent),
        format!("compress {}", job.kind.as_str()),
        job.queued,
        job.ended.unwrap_or(job.queued),
    );
    ended_with(Span { attributes, ..span }, (job.status == JobStatus::Dead).then_some("gave_up"))
}

/// The span of a model call for a job. `job` is `None` if the call belongs to no session, as for computing vectors.
pub fn model_span(job: Option<(&JobTimes, &SessionTimes)>, call: &ModelCall) -> Span {
    let trace = job.map_or_else(|| Trace::alone(call), |(_, session)| Trace::of(session));
    let (provider, model) = call.backend.split_once(':').unwrap_or((&call.backend, ""));
    // The conventions require the vendor of the model, whatever program calls it.
    let provider = if provider == "claude-cli" { "anthropic" } else { provider };
    let operation = if job.is_some() { "chat" } else { "embeddings" };
    let mut attributes = vec![
        text("gen_ai.operation.name", operation),
        text("gen_ai.provider.name", provider),
        text("gen_ai.request.model", model),
    ];
    if let Cost::Known(usage) = call.cost {
        attributes.extend([
            number("gen_ai.usage.input_tokens", usage.tokens_in),
            number("gen_ai.usage.output_tokens", usage.tokens_out),
            dollars("recall.cost.usd", usage.micro_usd),
        ]);
    }
    let brought = matches!(call.cost, Cost::Known(usage) if usage.tokens() > 0);
    let parent = job.map(|(job, _)| Part::Job(job.id));
    let span = trace.span(
        Part::Model(call.reservation.0),
        parent,
        format!("{operation} {model}"),
        call.started,
        call.ended,
    );
    ended_with(Span { attributes, kind: SpanKind::Client.into(), ..span }, (!brought).then_some("no_answer"))
}

fn dollars(key: &str, micro_usd: u64) -> KeyValue {
    #[expect(clippy::cast_precision_loss, reason = "nobody spends nine billion dollars a call")]
    attribute(key, Value::DoubleValue(micro_usd as f64 / 1e6))
}

fn ended_with(mut span: Span, failure: Option<&str>) -> Span {
    if let Some(failure) = failure {
        span.attributes.push(text("error.type", failure));
        span.status = Some(Status { code: StatusCode::Error.into(), message: String::new() });
    }
    span
}

/// The operation that a span describes. Its hash is the span's id.
enum Part<'a> {
    Life(u32),
    Turn(BatchId),
    Call(&'a CallId),
    /// A call for which the agent reported no id, identified by its row.
    Unnamed(ActivityId),
    /// A call without an id and a row, identified by the event that reported its end.
    Reported(EventId),
    Job(JobId),
    Model(i64),
}

/// All spans of a session.
struct Trace(String);

impl Trace {
    fn of(session: &SessionTimes) -> Self {
        let key = SessionKey { agent: session.agent.clone(), id: session.id.clone() };
        Self(format!("session {} {}", key.agent.as_str(), key.id.as_str()))
    }

    fn alone(call: &ModelCall) -> Self {
        Self(format!("call {} {}", call.reservation.0, call.started.0))
    }

    fn span(
        &self,
        part: Part<'_>,
        parent: Option<Part<'_>>,
        name: String,
        began: Timestamp,
        ended: Timestamp,
    ) -> Span {
        Span {
            trace_id: hash(&self.0, 16),
            span_id: self.id(&part),
            parent_span_id: parent.map(|parent| self.id(&parent)).unwrap_or_default(),
            name,
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: nanoseconds(began.0.min(ended.0)),
            end_time_unix_nano: nanoseconds(ended.0),
            ..Span::default()
        }
    }

    fn id(&self, part: &Part<'_>) -> Vec<u8> {
        let part = match part {
            Part::Life(life) => format!("life {life}"),
            Part::Turn(batch) => format!("turn {batch}"),
            Part::Call(call) => format!("call {}", call.as_str()),
            Part::Unnamed(row) => format!("unnamed call {row}"),
            Part::Reported(event) => format!("call of {event}"),
            Part::Job(job) => format!("job {job}"),
            Part::Model(reservation) => format!("model {reservation}"),
        };
        hash(&format!("{} {part}", self.0), 8)
    }
}

fn hash(text: &str, bytes: usize) -> Vec<u8> {
    Sha256::digest(text).iter().take(bytes).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_domain::budget::{ReservationId, Usage};
    use recall_domain::ids::{AgentName, SessionId, SessionRow};
    use recall_domain::material::BatchSource;

    fn session(life: u32) -> SessionTimes {
        SessionTimes {
            row: SessionRow(1),
            agent: AgentName::from("an-agent"),
            id: SessionId("s".to_owned()),
            life,
            project: "shop".to_owned(),
        }
    }

    fn call(id: Option<&str>, duration_ms: Option<i64>) -> CallTimes {
        CallTimes {
            row: ActivityId(3),
            tool: "Bash".to_owned(),
            id: id.map(|id| CallId(id.to_owned())),
            subagent: None,
            failed: false,
            refused: false,
            refused_by: None,
            began: None,
            ended: Timestamp(5_000),
            duration_ms,
        }
    }

    fn running(tool: Option<&str>) -> RunningCall {
        RunningCall {
            id: CallId::from("c"),
            subagent: None,
            task: None,
            tool: tool.map(str::to_owned),
            began: Timestamp(3_000),
            refused_by: None,
        }
    }

    fn turn() -> TurnTimes {
        TurnTimes {
            batch: BatchId(7),
            source: BatchSource::User,
            began: Timestamp(1_000),
            ended: Timestamp(9_000),
            close_reason: None,
            life: 2,
        }
    }

    fn value_of<'a>(span: &'a Span, key: &str) -> Option<&'a Value> {
        let found = span.attributes.iter().find(|attribute| attribute.key == key);
        found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref())
    }

    #[test]
    fn a_child_span_names_its_parent_before_the_parent_span_exists() {
        let spans = turn_spans(&session(2), 3, &turn(), &[call(Some("c"), Some(20)), call(None, None)]);
        let tally = Tally { message_count: 2, life_ms: 8_500 };
        let life = session_span(&session(2), tally, Timestamp(9_500), "logout");
        let [turn, named, unnamed] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!(turn.parent_span_id, life.span_id);
        assert_eq!((&named.parent_span_id, &unnamed.parent_span_id), (&turn.span_id, &turn.span_id));
        assert_ne!(named.span_id, unnamed.span_id);
        assert!(life.parent_span_id.is_empty());
        let traces: Vec<_> = spans.iter().map(|span| &span.trace_id).collect();
        assert_eq!(traces, [&life.trace_id; 3]);
        assert_eq!((life.trace_id.len(), life.span_id.len()), (16, 8));
        assert_eq!(life.start_time_unix_nano, 1_000_000_000);
        assert_eq!(named.start_time_unix_nano, 4_980_000_000);
        assert_eq!(unnamed.start_time_unix_nano, unnamed.end_time_unix_nano);
    }

    #[test]
    fn a_tool_call_span_lasts_from_its_start_to_its_result() {
        let waited = CallTimes { began: Some(Timestamp(2_000)), ..call(Some("c"), Some(20)) };
        let spans = turn_spans(&session(2), 1, &turn(), &[waited]);
        assert_eq!(spans[1].start_time_unix_nano, 2_000_000_000);
        assert_eq!(spans[1].end_time_unix_nano, 5_000_000_000);
        assert_eq!(value_of(&spans[1], "recall.tool.duration_ms"), Some(&Value::IntValue(20)));
    }

    #[test]
    fn a_tool_call_without_a_result_ends_with_its_turn_as_an_error() {
        let spans = turn_spans(&session(2), 1, &turn(), &[call(Some("c"), None)]);
        let ended = Timestamp(9_000);
        let left =
            unfinished_call_span(&session(2), Some(BatchId(7)), &running(Some("Bash")), ended).unwrap();
        assert_eq!((&left.parent_span_id, &left.span_id), (&spans[0].span_id, &spans[1].span_id));
        assert_eq!((left.start_time_unix_nano, left.end_time_unix_nano), (3_000_000_000, 9_000_000_000));
        assert_eq!(value_of(&left, "error.type"), Some(&Value::StringValue("no_result".to_owned())));
        assert_eq!(unfinished_call_span(&session(2), Some(BatchId(7)), &running(None), ended), None);
    }

    #[test]
    fn a_refused_tool_call_has_another_error_type_than_a_failed_one() {
        let kind = |failed, refused| {
            let call = CallTimes { failed, refused, ..call(Some("c"), Some(-4)) };
            let spans = turn_spans(&session(2), 1, &turn(), &[call]);
            assert_eq!(spans[1].status.is_some(), failed);
            value_of(&spans[1], "error.type").cloned()
        };
        assert_eq!(kind(false, false), None);
        assert_eq!(kind(true, false), Some(Value::StringValue("failed".to_owned())));
        assert_eq!(kind(true, true), Some(Value::StringValue("refused".to_owned())));
    }

    #[test]
    fn a_model_call_span_states_its_cost_if_known() {
        let call = |cost| ModelCall {
            reservation: ReservationId(1),
            job: JobId(1),
            backend: "openai:a:b".to_owned(),
            started: Timestamp(10),
            ended: Timestamp(20),
            cost,
        };
        let usage = Usage { tokens_in: 300, tokens_out: 50, micro_usd: 1_500 };
        let known = model_span(None, &call(Cost::Known(usage)));
        assert_eq!(value_of(&known, "gen_ai.provider.name"), Some(&Value::StringValue("openai".to_owned())));
        assert_eq!(value_of(&known, "gen_ai.request.model"), Some(&Value::StringValue("a:b".to_owned())));
        assert_eq!(value_of(&known, "gen_ai.usage.input_tokens"), Some(&Value::IntValue(300)));
        assert_eq!(value_of(&known, "recall.cost.usd"), Some(&Value::DoubleValue(0.0015)));
        assert_eq!(known.status, None);
        let by_program = ModelCall { backend: "claude-cli:haiku".to_owned(), ..call(Cost::AtMost) };
        let by_program = model_span(None, &by_program);
        assert_eq!(
            value_of(&by_program, "gen_ai.provider.name"),
            Some(&Value::StringValue("anthropic".to_owned()))
        );
        let unknown = model_span(None, &call(Cost::AtMost));
        assert_eq!(value_of(&unknown, "gen_ai.usage.input_tokens"), None);
        assert!(unknown.status.is_some());
    }
}
