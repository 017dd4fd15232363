//! The tools. Each answers with text: from a structured answer, Claude Code passes the structure to its model instead
//! of the text, which costs about three times as many tokens.

use std::path::Path;

use recall_protocol::query::{
    AgentRemark, Blame, Explain, Filter, Fix, Friction, How, Mark, Outline, Remember, Search, Session,
    Timeline, Validity,
};
use serde::Deserialize;
use serde_json::Value;

use super::notes::{fenced, item, quoted};
use super::tools::Offer;
use super::{ask, is_not_found, shown};
use crate::cli::ctl::session as session_text;
use crate::cli::filter;
use crate::cli::friction;
use crate::cli::show;
use crate::cli::terminal;
use crate::cli::ui::age;
use recall_app::answers::TextAnswer;
use recall_app::answers::found::{ObservationAnswer, SearchResult, TimelineItem};
use recall_app::clock;
use recall_app::requests::Request;
use recall_config::{Code, McpWriting};
use recall_domain::plain::plain;

/// The maximum number of results of a search.
const MOST: u32 = 100;
const NEWEST: &str = "kind:observation";
const NOTHING: &str = "Nothing found.";
const NEW: &str = "recall has no notes on this project yet. With all = true, search covers all projects.";

/// An id as models write it: a number or a text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Id {
    Number(u64),
    Text(String),
}

impl Id {
    fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// One name or several, as models write them. If there are several, only the first is used.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Names {
    One(String),
    Several(Vec<String>),
}

impl Names {
    fn first(&self) -> Option<&str> {
        match self {
            Self::One(name) => Some(name),
            Self::Several(names) => names.first().map(String::as_str),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchCall {
    query: String,
    limit: Option<u32>,
    #[serde(rename = "type", alias = "obs_type")]
    kind: Option<String>,
    #[serde(alias = "files")]
    file: Option<Names>,
    #[serde(alias = "dateStart")]
    since: Option<String>,
    by: Option<String>,
    project: Option<String>,
    all: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct TimelineCall {
    #[serde(alias = "anchor")]
    id: Option<Id>,
    query: Option<String>,
    #[serde(alias = "depth_before")]
    before: Option<u32>,
    #[serde(alias = "depth_after")]
    after: Option<u32>,
}

#[derive(Debug, Deserialize)]
pub(super) struct IdsCall {
    ids: Vec<Id>,
    #[serde(default)]
    reopen: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecentCall {
    limit: Option<u32>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FileCall {
    path: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct HowCall {
    command: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct FixCall {
    error: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct FrictionCall {
    #[serde(alias = "dateStart")]
    since: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct BlameCall {
    path: String,
    line: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RememberCall {
    text: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    files: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OutlineCall {
    asked: String,
}

/// A tool call with its arguments.
#[derive(Debug)]
pub(super) enum Call {
    Search(SearchCall),
    Timeline(TimelineCall),
    GetObservations(IdsCall),
    RecentContext(RecentCall),
    FileHistory(FileCall),
    How(HowCall),
    Fix(FixCall),
    Blame(BlameCall),
    Friction(FrictionCall),
    CodeOutline(OutlineCall),
    Remember(RememberCall),
    Resolve(IdsCall),
}

impl Call {
    /// Parses a call. `None` if there is no such tool, or the user does not allow it.
    pub(super) fn parse(name: &str, arguments: Value, offer: Offer) -> Option<serde_json::Result<Self>> {
        use serde_json::from_value;
        let writes = offer.writing == McpWriting::On;
        Some(match name {
            "search" => from_value(arguments).map(Self::Search),
            "timeline" => from_value(arguments).map(Self::Timeline),
            "get_observations" => from_value(arguments).map(Self::GetObservations),
            "recent_context" => from_value(arguments).map(Self::RecentContext),
            "file_history" => from_value(arguments).map(Self::FileHistory),
            "how" => from_value(arguments).map(Self::How),
            "fix" => from_value(arguments).map(Self::Fix),
            "blame" => from_value(arguments).map(Self::Blame),
            "friction" => from_value(arguments).map(Self::Friction),
            "code_outline" if offer.code == Code::On => from_value(arguments).map(Self::CodeOutline),
            "remember" if writes => from_value(arguments).map(Self::Remember),
            "resolve" if writes => from_value(arguments).map(Self::Resolve),
            _ => return None,
        })
    }

    pub(super) fn search(query: String) -> Self {
        Self::Search(SearchCall { query, ..SearchCall::default() })
    }

    /// Runs the call in the project of `folder`.
    pub(super) fn run(self, folder: &str) -> anyhow::Result<String> {
        match self {
            Self::Search(call) => search(call, folder),
            Self::Timeline(call) => timeline(call, folder),
            Self::GetObservations(call) => get(call, folder),
            Self::RecentContext(call) => {
                let limit = call.limit.or(Some(10));
                search(SearchCall { query: NEWEST.to_owned(), limit, ..SearchCall::default() }, folder)
            }
            Self::FileHistory(call) => {
                let file = Some(Names::One(call.path));
                search(SearchCall { query: NEWEST.to_owned(), file, ..SearchCall::default() }, folder)
            }
            Self::How(HowCall { command }) => answer_lines(folder, How { command, filter: here(folder) }),
            Self::Fix(FixCall { error }) => answer_lines(folder, Fix { error, filter: here(folder) }),
            Self::Blame(BlameCall { path, line }) => {
                let file = Path::new(folder).join(path).to_string_lossy().into_owned();
                answer_lines(folder, Blame { file, line, limit: None })
            }
            Self::Friction(call) => friction(&call, folder),
            Self::CodeOutline(OutlineCall { asked }) => outline(asked, folder),
            Self::Remember(call) => remember(call, folder),
            Self::Resolve(call) => resolve(call),
        }
    }
}

fn search(call: SearchCall, folder: &str) -> anyhow::Result<String> {
    let mut text = call.query;
    let kind = call.kind.as_deref().map(|name| match name {
        // Other memory tools use this name for the kind.
        "observations" => ("kind", "observation"),
        "sessions" => ("kind", "summary"),
        "prompts" => ("kind", "prompt"),
        name => ("type", name),
    });
    let file = call.file.as_ref().and_then(Names::first).map(|name| ("file", name));
    let by = call.by.as_deref().map(|name| ("by", name));
    for (key, value) in kind.into_iter().chain(file).chain(by) {
        text.push_str(&format!(" {key}:\"{}\"", value.replace('"', "")));
    }
    let project = match (call.all, call.project) {
        (true, _) => None,
        (false, Some(name)) => Some(name),
        (false, None) => Some(folder.to_owned()),
    };
    let since_ms = call.since.as_deref().map(filter::since).transpose()?;
    let limit = Some(call.limit.unwrap_or(20).min(MOST));
    let filter = Filter { project, since_ms, limit };
    let is_here = filter.project.as_deref() == Some(folder);
    let found = match ask(Search { text, filter, explain: Explain::No, folder: Some(folder.to_owned()) }) {
        Err(_) if is_here && is_new(folder) => return Ok(NEW.to_owned()),
        found => found?,
    };
    let lines: Vec<String> = found.results.iter().map(result_line).collect();
    Ok(if lines.is_empty() { NOTHING.to_owned() } else { fenced(&lines.join("\n")) })
}

fn here(folder: &str) -> Filter {
    Filter { project: Some(folder.to_owned()), since_ms: None, limit: None }
}

/// Returns the lines that answer a question about the calls of earlier sessions.
fn answer_lines<T, R: Request<Response = TextAnswer<T>>>(
    folder: &str,
    question: R,
) -> anyhow::Result<String> {
    let answer = match ask(question) {
        Err(_) if is_new(folder) => return Ok(NEW.to_owned()),
        answer => answer?,
    };
    let lines: Vec<String> = answer.text.lines().map(plain).collect();
    Ok(if answer.items.is_empty() { NOTHING.to_owned() } else { fenced(&lines.join("\n")) })
}

fn friction(call: &FrictionCall, folder: &str) -> anyhow::Result<String> {
    let since = call.since.as_deref().map(filter::since).transpose()?;
    let since_ms = since.or_else(|| Some(friction::a_week_ago()));
    answer_lines(folder, Friction { filter: Filter { since_ms, ..here(folder) } })
}

fn outline(asked: String, folder: &str) -> anyhow::Result<String> {
    let found = ask(Outline { folder: folder.to_owned(), asked, limit: None })?;
    let lines: Vec<String> = found.text.lines().map(plain).collect();
    Ok(if found.items.is_empty() { NOTHING.to_owned() } else { fenced(&lines.join("\n")) })
}

/// Whether the project is still unknown, which is not the model's mistake.
fn is_new(folder: &str) -> bool {
    let filter = Filter { project: Some(folder.to_owned()), since_ms: None, limit: Some(1) };
    let newest = Search { text: NEWEST.to_owned(), filter, explain: Explain::No, folder: None };
    ask(newest).is_err_and(|error| is_not_found(&error))
}

fn result_line(found: &SearchResult) -> String {
    let (kind, tokens) = (found.observation_type.as_ref().unwrap_or(&found.kind), found.tokens);
    let status = found.status.as_deref().filter(|status| *status != "active");
    let status = status.map(|status| format!(" ({status})")).unwrap_or_default();
    let (id, age) = (terminal::id(found.id), age(clock::now(), found.created_at.0));
    let by = found.author.as_ref().map(|author| format!(" (by {})", plain(author))).unwrap_or_default();
    format!("{id} {age} {kind}{by}: {}{status} ~{tokens}", plain(&found.title))
}

fn timeline(call: TimelineCall, folder: &str) -> anyhow::Result<String> {
    let id = match (call.id, call.query) {
        (Some(id), _) => id.text(),
        (None, Some(query)) => {
            let filter = Filter { project: Some(folder.to_owned()), since_ms: None, limit: Some(1) };
            let found = match ask(Search { text: query, filter, explain: Explain::No, folder: None }) {
                Err(_) if is_new(folder) => return Ok(NEW.to_owned()),
                found => found?,
            };
            match found.results.first() {
                Some(best) => best.id.0.to_string(),
                None => return Ok(NOTHING.to_owned()),
            }
        }
        (None, None) => anyhow::bail!("timeline needs an id or a query"),
    };
    let (before, after) = (call.before.unwrap_or(5).min(MOST), call.after.unwrap_or(5).min(MOST));
    let around = ask(Timeline { id, before, after, folder: Some(folder.to_owned()) })?;
    let line = |item: &TimelineItem| {
        let kind = item.observation_type.as_ref().unwrap_or(&item.kind);
        let id = terminal::id(item.id);
        let by = item.author.as_ref().map(|author| format!(" (by {})", plain(author))).unwrap_or_default();
        format!("{} {id} {kind}{by}: {}", terminal::time(item.created_at), plain(&item.title))
    };
    Ok(fenced(&around.items.iter().map(line).collect::<Vec<_>>().join("\n")))
}

fn get(call: IdsCall, folder: &str) -> anyhow::Result<String> {
    let (mut items, mut missing) = (Vec::new(), Vec::new());
    for id in call.ids.into_iter().take(MOST as usize) {
        match shown(&id.text(), folder) {
            Ok(found) => items.extend(found),
            Err(error) => missing.push(error),
        }
    }
    // One wrong id must not prevent the other results.
    if items.is_empty() {
        return Err(missing
            .into_iter()
            .next()
            .unwrap_or_else(|| anyhow::anyhow!("get_observations needs ids")));
    }
    let mut blocks = Vec::new();
    for found in items {
        let mut text = Vec::new();
        show::print(&mut text, vec![found])?;
        blocks.push(item(&unstyled(&text)));
    }
    let notes: String = missing.iter().map(|error| format!("\n{}.", plain(&error.to_string()))).collect();
    Ok(fenced(&blocks.join("\n\n")) + &notes)
}

/// Returns an overview of a session.
pub(super) fn session(id: &str) -> anyhow::Result<String> {
    let mut text = Vec::new();
    session_text::print(&mut text, &ask(Session { id: id.to_owned() })?)?;
    Ok(fenced(&quoted(&format!("session {id}"), &unstyled(&text))))
}

/// Removes the terminal's styles.
fn unstyled(text: &[u8]) -> String {
    String::from_utf8_lossy(&anstream::adapter::strip_bytes(text).into_vec()).into_owned()
}

fn remember(call: RememberCall, folder: &str) -> anyhow::Result<String> {
    let request = Remember {
        text: call.text,
        kind: call.kind,
        project: folder.to_owned(),
        files: call.files,
        ..Remember::default()
    };
    let kept = ask(AgentRemark { remark: request })?;
    let lines = kept.items.iter().map(|item| format!("Remembered as #{}: {}", item.id, plain(&item.title)));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

fn resolve(call: IdsCall) -> anyhow::Result<String> {
    let validity = if call.reopen { Validity::Active } else { Validity::Resolved };
    let marked = ask(Mark { ids: call.ids.into_iter().map(Id::text).collect(), validity })?;
    let line = |item: &ObservationAnswer| format!("#{} is {}: {}", item.id, item.status, plain(&item.title));
    let lines = marked.items.iter().map(line);
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
