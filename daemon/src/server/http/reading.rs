//! Builds typed requests from calls. Field names are recall's own and those of other memory tools.

use recall_protocol::query::{
    Changes, Context, Days, Edit, Entries, EntryFilter, Explain, Filter, Forget, ForgetStep, Forgettable,
    Friction, InjectionVerdict, Jobs, Mark, Pin, PinUp, Projects, Query, Remember, Review, ReviewVerdict,
    Search, Session, SessionPage, Show, Stats, Status, SyncRound, SyncState, ThreadPage, Threads, Timeline,
    Undo, UndoOf, Unreadable, Unreviewed, Validity, WhichJobs, Why, Wrong,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::Refusal;
use super::call::Call;
use recall_app::clock;

type Reading = Result<Query, Refusal>;

/// The names of a file's field, the documented one first.
const FILE: &[&str] = &["filePath", "file", "path"];

/// The maximum number of results of a listing.
const MOST: u32 = 1_000;

pub(super) fn status(_: &Call) -> Reading {
    Ok(Status.into())
}

pub(super) fn sharing(_: &Call) -> Reading {
    Ok(SyncState { round: SyncRound::No }.into())
}

pub(super) fn sessions(call: &Call) -> Reading {
    Ok(SessionPage { filter: filter(call)?, skip: skip(call)? }.into())
}

pub(super) fn session(call: &Call) -> Reading {
    Ok(Session { id: id(call)? }.into())
}

pub(super) fn why(call: &Call) -> Reading {
    Ok(Why { id: id(call)? }.into())
}

pub(super) fn show(call: &Call) -> Reading {
    Ok(Show { id: id(call)?, folder: call.text(&["folder"]) }.into())
}

pub(super) fn search(call: &Call) -> Reading {
    search_with(call, "")
}

pub(super) fn observations(call: &Call) -> Reading {
    search_with(call, " kind:observation")
}

pub(super) fn summaries(call: &Call) -> Reading {
    search_with(call, " kind:summary")
}

pub(super) fn prompts(call: &Call) -> Reading {
    search_with(call, " kind:prompt")
}

pub(super) fn by_file(call: &Call) -> Reading {
    call.needed(FILE)?;
    search_with(call, " kind:observation")
}

pub(super) fn by_type(call: &Call) -> Reading {
    call.needed(&["type", "obs_type"])?;
    search_with(call, " kind:observation")
}

/// Searches concepts as words of an observation.
pub(super) fn by_concept(call: &Call) -> Reading {
    call.needed(&["concept"])?;
    search_with(call, " kind:observation")
}

pub(super) fn recent(call: &Call) -> Reading {
    search_with(call, " kind:observation")
}

fn search_with(call: &Call, kind: &str) -> Reading {
    let mut text = call.text(&["query", "q"]).unwrap_or_default();
    if let Some(concept) = call.text(&["concept"]) {
        text.push_str(&format!(" \"{}\"", concept.replace('"', " ")));
    }
    text.push_str(kind);
    for (key, names) in [("type", ["type", "obs_type"].as_slice()), ("file", FILE)] {
        if let Some(value) = call.text(names) {
            text.push_str(&format!(" {key}:\"{}\"", value.replace('"', "")));
        }
    }
    Ok(Search { text, filter: filter(call)?, explain: Explain::No, folder: call.text(&["folder"]) }.into())
}

pub(super) fn timeline(call: &Call) -> Reading {
    Ok(Timeline {
        id: call.needed(&["anchor", "id"])?,
        before: call.number(&["depth_before", "before"])?.unwrap_or(10).min(MOST),
        after: call.number(&["depth_after", "after"])?.unwrap_or(10).min(MOST),
        folder: call.text(&["folder"]),
    }
    .into())
}

/// Requests the context for a new session in a folder, or for a project's name.
pub(super) fn context(call: &Call) -> Reading {
    Ok(Context { cwd: call.needed(&["cwd", "project"])?, prompt: call.text(&["prompt"]) }.into())
}

pub(super) fn days(call: &Call) -> Reading {
    Ok(Days { of: entry_filter(call) }.into())
}

pub(super) fn entries(call: &Call) -> Reading {
    Ok(Entries {
        of: entry_filter(call),
        since_ms: time(call, &["since", "since_ms"])?,
        until_ms: time(call, &["until", "until_ms"])?,
        skip: skip(call)?,
        limit: call.number(&["limit"])?.unwrap_or(20).min(MOST),
    }
    .into())
}

fn time(call: &Call, names: &[&str]) -> Result<Option<i64>, Refusal> {
    call.text(names).map(|text| moment(&text)).transpose()
}

pub(super) fn unreviewed(call: &Call) -> Reading {
    let until_ms = time(call, &["until", "until_ms"])?;
    Ok(Unreviewed { filter: filter(call)?, until_ms, skip: skip(call)? }.into())
}

/// Of the last seven days, if nothing else is asked for.
pub(super) fn friction(call: &Call) -> Reading {
    const A_WEEK_MS: i64 = 7 * 86_400_000;
    let filter = filter(call)?;
    let since_ms = filter.since_ms.or_else(|| Some(clock::now().0.saturating_sub(A_WEEK_MS)));
    Ok(Friction { filter: Filter { since_ms, ..filter } }.into())
}

pub(super) fn projects(_: &Call) -> Reading {
    Ok(Projects.into())
}

pub(super) fn threads(call: &Call) -> Reading {
    let limit = call.number(&["limit"])?.unwrap_or(20).min(MOST);
    let project = call.text(&["project"]);
    Ok(match call.text(&["of"]) {
        Some(of) => Threads { project, of: Some(of), limit }.into(),
        None => ThreadPage { project, skip: skip(call)?, limit }.into(),
    })
}

/// The number of first results to skip.
fn skip(call: &Call) -> Result<u32, Refusal> {
    Ok(call.number(&["skip", "offset"])?.unwrap_or(0))
}

fn entry_filter(call: &Call) -> EntryFilter {
    let list = |name| {
        let names = call.text(&[name]).unwrap_or_default();
        names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    EntryFilter { project: call.text(&["project"]), kinds: list("kinds"), types: list("types") }
}

pub(super) fn stats(call: &Call) -> Reading {
    Ok(Stats { days: call.number(&["days"])?.unwrap_or(30) }.into())
}

pub(super) fn jobs(call: &Call) -> Reading {
    let which =
        if call.text(&["which"]).as_deref() == Some("dead") { WhichJobs::Dead } else { WhichJobs::All };
    Ok(Jobs { which, filter: filter(call)? }.into())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RememberBody {
    text: String,
    title: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    project: String,
    #[serde(default)]
    files: Vec<String>,
    importance: Option<u8>,
}

pub(super) fn remember(call: &Call) -> Reading {
    let RememberBody { text, title, kind, project, files, importance } = body(call)?;
    Ok(Remember { text, title, kind, project, files, importance }.into())
}

/// An id as programs write it, as a number or a text.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Id {
    Number(u64),
    Text(String),
}

fn text(id: Id) -> String {
    match id {
        Id::Number(number) => number.to_string(),
        Id::Text(text) => text,
    }
}

fn texts(ids: Vec<Id>) -> Vec<String> {
    ids.into_iter().map(text).collect()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkBody {
    ids: Vec<Id>,
    validity: WrittenValidity,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WrittenValidity {
    Active,
    Resolved,
}

pub(super) fn mark(call: &Call) -> Reading {
    let MarkBody { ids, validity } = body(call)?;
    let validity = match validity {
        WrittenValidity::Active => Validity::Active,
        WrittenValidity::Resolved => Validity::Resolved,
    };
    Ok(Mark { ids: texts(ids), validity }.into())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReviewBody {
    ids: Vec<Id>,
    verdict: WrittenVerdict,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WrittenVerdict {
    Kept,
    Rejected,
}

pub(super) fn review(call: &Call) -> Reading {
    let ReviewBody { ids, verdict } = body(call)?;
    let verdict = match verdict {
        WrittenVerdict::Kept => ReviewVerdict::Kept,
        WrittenVerdict::Rejected => ReviewVerdict::Rejected,
    };
    Ok(Review { ids: texts(ids), verdict }.into())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrongBody {
    ids: Vec<Id>,
    /// The session into which it was injected; if absent, the last one.
    #[serde(default)]
    session: Option<String>,
    /// `wrongly`, or `rightly`, which withdraws an earlier `wrongly`.
    #[serde(default)]
    told: WrittenInjectionVerdict,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WrittenInjectionVerdict {
    #[default]
    Wrongly,
    Rightly,
}

pub(super) fn wrong(call: &Call) -> Reading {
    let WrongBody { ids, session, told: written } = body(call)?;
    let verdict = match written {
        WrittenInjectionVerdict::Wrongly => InjectionVerdict::Wrongly,
        WrittenInjectionVerdict::Rightly => InjectionVerdict::Rightly,
    };
    Ok(Wrong { ids: texts(ids), session, told: verdict }.into())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditBody {
    id: Id,
    #[serde(rename = "type")]
    kind: String,
    title: String,
    narrative: String,
    #[serde(default)]
    facts: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
}

pub(super) fn edit(call: &Call) -> Reading {
    let EditBody { id, kind, title, narrative, facts, files } = body(call)?;
    Ok(Edit { id: text(id), kind, title, narrative, facts, files }.into())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PinBody {
    ids: Vec<Id>,
    pin: WrittenPin,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WrittenPin {
    On,
    Off,
}

pub(super) fn pin(call: &Call) -> Reading {
    let PinBody { ids, pin } = body(call)?;
    let pin = match pin {
        WrittenPin::On => Pin::On,
        WrittenPin::Off => Pin::Off,
    };
    Ok(PinUp { ids: texts(ids), pin }.into())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoBody {
    /// Whose newest change is reverted, whoever made it. Without it the newest change of this machine is.
    id: Option<Id>,
}

pub(super) fn undo(call: &Call) -> Reading {
    let UndoBody { id } = body(call)?;
    Ok(match id {
        Some(id) => UndoOf { id: text(id) }.into(),
        None => Undo.into(),
    })
}

pub(super) fn changes(call: &Call) -> Reading {
    Ok(Changes { limit: call.number(&["limit"])?.unwrap_or(20).min(MOST) }.into())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForgetBody {
    #[serde(default)]
    ids: Vec<Id>,
    session: Option<String>,
    project: Option<String>,
    /// Required with `since_ms`, `until_ms` or `words` if no project is named: applies to all projects.
    #[serde(default)]
    all: bool,
    since_ms: Option<i64>,
    until_ms: Option<i64>,
    #[serde(default)]
    words: Vec<String>,
    #[serde(default)]
    step: WrittenStep,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WrittenStep {
    #[default]
    Preview,
    Forget,
}

pub(super) fn forget(call: &Call) -> Reading {
    let ForgetBody { ids, session, project, all, since_ms, until_ms, words, step } = body(call)?;
    let filters = since_ms.is_some() || until_ms.is_some() || !words.is_empty();
    if filters && project.is_none() && !all {
        return Err(Refusal::invalid("No project is named")
            .hint("Name a project, or send `\"all\": true` for all projects."));
    }
    if all && project.is_some() {
        return Err(Refusal::invalid("`project` and `all` contradict each other"));
    }
    let step = match step {
        WrittenStep::Preview => ForgetStep::Preview,
        WrittenStep::Forget => ForgetStep::Forget,
    };
    let what = Forgettable { ids: texts(ids), session, project, since_ms, until_ms, words };
    Ok(Forget { what, unreadable: Unreadable::Stays, step }.into())
}

fn body<T: DeserializeOwned>(call: &Call) -> Result<T, Refusal> {
    serde_json::from_value(Value::Object(call.body.clone()))
        .map_err(|error| Refusal::invalid(format!("The body is invalid: {error}")))
}

fn id(call: &Call) -> Result<String, Refusal> {
    call.id.clone().ok_or_else(|| Refusal::invalid("The address lacks an id"))
}

/// Builds a filter. `since` is in milliseconds since 1970, or RFC 3339.
fn filter(call: &Call) -> Result<Filter, Refusal> {
    let since = call.text(&["since", "since_ms", "dateStart"]);
    let since_ms = since.map(|text| moment(&text)).transpose()?;
    let limit = Some(call.number(&["limit"])?.unwrap_or(20).min(MOST));
    Ok(Filter { project: call.text(&["project"]), since_ms, limit })
}

fn moment(text: &str) -> Result<i64, Refusal> {
    let written = text.parse::<jiff::Timestamp>().map(|time| time.as_millisecond());
    let days = text.strip_suffix('d').and_then(|days| days.parse::<i64>().ok());
    let back = days.map(|days| clock::now().0.saturating_sub(days.saturating_mul(86_400_000)));
    let found = text.parse().ok().or(back).or(written.ok());
    found.ok_or_else(|| {
        Refusal::invalid(format!("since is not a time: {text:?}"))
            .hint("For example 7d, or 2026-11-01T12:00:00Z.")
    })
}
