//! `recall remember`, `recall resolve`, `recall pause` and `resume`.

use std::path::Path;
use std::time::Duration;

use recall_protocol::privacy::strip_text;
use recall_protocol::query::{AgentRemark, Mark, Remember, Validity};
use recall_protocol::wire::ErrorKind;

use super::CommandContext;
use crate::answers::TextAnswer;
use crate::answers::by_hand::QUARANTINED;
use crate::answers::found::{ObservationAnswer, RememberedAnswer};
use crate::answers::status::{CaptureAnswer, PauseAnswer};
use crate::clock;
use crate::context_lookup::{ContextLookup, ContextRequest};
use crate::identity::{Identity, identify};
use crate::ports::{Ports, Writer};
use crate::queries::meant::{did_you_mean, meant};
use crate::queries::show::{load, parse_id};
use crate::queries::{Answer, Refused, blocking, read};
use recall_domain::context::BlockItemKind;
use recall_domain::document::{DocumentKind, Status};
use recall_domain::event::{Audience, StartSource};
use recall_domain::file_memory::InjectedSet;
use recall_domain::ids::{ObservationId, ProjectKey, Timestamp};
use recall_domain::observation::{Importance, ObservationDraft, ObservationType};
use recall_domain::session::ContextAsk;
use recall_domain::subject;
use recall_domain::text::shortened_line;
use recall_domain::tokens::estimate;
use recall_repository::refs::WorkLocation;
use recall_search::edit_distance::nearest_name;
use recall_store::{MarkObservations, Named, ObservationRow, ProjectInfo, Reader, RemarkAuthor, Remembered};

/// The importance of the user's remarks.
const IMPORTANCE: u8 = 9;
const TITLE_CHARS: usize = 100;
/// How long a remark's answer waits for the index.
const INDEXED_WITHIN: Duration = Duration::from_secs(2);
/// The maximum length of a remark in characters. A remark is a note, not a document.
const MOST_CHARS: usize = 8_000;

pub async fn remember(context: &CommandContext<impl Ports>, remark: Remember) -> Answer<RememberedAnswer> {
    let answer = keep(context, remark, RemarkAuthor::User).await?;
    let lookup = context.context_lookup.clone();
    let id = answer.items.first().map(|item| ObservationId(item.id));
    let found = tokio::task::spawn_blocking(move || id.map(|id| find_at_start(&lookup, id)).transpose());
    let (project, place_at_start) = found.await.map_err(|_| unanswered())??.unwrap_or_default();
    Ok(RememberedAnswer { said: answer, project, place_at_start })
}

/// Returns the project of a note, and the note's position among those that a session receives there at its start.
fn find_at_start(lookup: &ContextLookup, id: ObservationId) -> Result<(String, Option<usize>), Refused> {
    let project = read(lookup, |db| {
        let row = db.observation(id)?;
        Ok(row.map(|row| db.project(row.project)).transpose()?)
    })?;
    let Some(project) = project else { return Ok(Default::default()) };
    let name = project.name.clone();
    let context_request = ContextRequest {
        cap: lookup.agents.cap(),
        project,
        session: None,
        agent: None,
        injected: InjectedSet::default(),
        last_event: Timestamp(0),
        place: WorkLocation::default(),
        replaced: None,
    };
    let start = ContextAsk::Start(StartSource::Startup, Audience::Nobody);
    let items = lookup.look_up_titles(&start, &context_request)?.block.items.into_iter();
    let mut notes = items.filter(|item| item.kind == BlockItemKind::OBSERVATION);
    Ok((name, notes.position(|item| item.id == id.0).map(|place| place + 1)))
}

/// Stores what an agent's model says, which does not count as the user's word.
pub async fn remember_for_agent(
    context: &CommandContext<impl Ports>,
    AgentRemark { remark }: AgentRemark,
) -> Answer<TextAnswer<ObservationAnswer>> {
    keep(context, remark, RemarkAuthor::Agent).await
}

async fn keep(
    context: &CommandContext<impl Ports>,
    remark: Remember,
    author: RemarkAuthor,
) -> Answer<TextAnswer<ObservationAnswer>> {
    let asked = context.clone();
    let note = tokio::task::spawn_blocking(move || remembered(&asked, remark, author));
    let note = note.await.map_err(|_| unanswered())??;
    let id = context.ports.writer().write(note).await.map_err(not_written)?;
    // The user may search for it next. If the index takes longer it is being rebuilt, and searches then read the
    // store.
    if context.ports.flush_index(INDEXED_WITHIN).await.is_err() {
        tracing::info!("a remark is stored but not indexed yet");
    }
    show(context, vec![id]).await
}

pub async fn mark(
    context: &CommandContext<impl Ports>,
    request: Mark,
) -> Answer<TextAnswer<ObservationAnswer>> {
    let Mark { ids, validity } = request;
    let asked = context.clone();
    let found = tokio::task::spawn_blocking(move || {
        read(&asked.context_lookup, |db| {
            ids.iter().map(|id| markable(db, id, validity)).collect::<Result<Vec<_>, _>>()
        })
    });
    let ids = found.await.map_err(|_| unanswered())??;
    let validity = match validity {
        Validity::Active => recall_store::Validity::Holds,
        Validity::Resolved => recall_store::Validity::Resolved,
    };
    context
        .ports
        .writer()
        .write(MarkObservations { ids: ids.clone(), validity, at: clock::now() })
        .await
        .map_err(not_written)?;
    show(context, ids).await
}

pub(super) fn unanswered() -> Refused {
    Refused::new(ErrorKind::Internal, "The daemon could not answer", "See the daemon's log.")
}

pub(crate) fn not_written(error: impl std::fmt::Display) -> Refused {
    Refused::new(
        ErrorKind::Internal,
        format!("Nothing was changed: {error}"),
        "Try again in a moment, or see the daemon's log.",
    )
}

/// Returns an observation that can be resolved or reopened. A superseded one can be reopened too.
fn markable(db: Reader<'_>, id: &str, validity: Validity) -> Result<ObservationId, Refused> {
    let key = parse_id(id)?;
    if key.kind != DocumentKind::Observation {
        return Err(Refused::new(
            ErrorKind::Invalid,
            format!("{key} is not an observation"),
            "Only observations can be resolved: 12 or #12.",
        ));
    }
    load(db, key)?;
    let row = db.observation(ObservationId(key.row))?;
    let by = row.and_then(|row| row.superseded_by.filter(|_| row.status == Status::Superseded));
    match by.filter(|_| validity == Validity::Resolved) {
        Some(by) => Err(Refused::new(
            ErrorKind::Conflict,
            format!("Observation {key} was superseded by {by}"),
            format!(
                "Resolve that one: `recall resolve {by}`. If {key} holds: `recall resolve --reopen {key}`."
            ),
        )),
        None => Ok(ObservationId(key.row)),
    }
}

/// Returns the observations in their current state.
pub(super) async fn show(
    context: &CommandContext<impl Ports>,
    ids: Vec<ObservationId>,
) -> Answer<TextAnswer<ObservationAnswer>> {
    let context = context.clone();
    let rows: Vec<ObservationRow> = tokio::task::spawn_blocking(move || {
        read(&context.context_lookup, |db| Ok(db.observations_by_id(&ids)?))
    })
    .await
    .map_err(|_| unanswered())??;
    let text = rows.iter().map(|row| format!("#{} {}", row.id, row.title)).collect::<Vec<_>>().join("\n");
    let items: Vec<ObservationAnswer> = rows.into_iter().map(Into::into).collect();
    Ok(TextAnswer { tokens: estimate(&text), text, items })
}

/// Returns the title of a text that has none: its first line.
pub fn title_of(text: &str) -> String {
    shortened_line(text.trim().lines().next().unwrap_or_default(), TITLE_CHARS)
}

fn remembered(
    context: &CommandContext<impl Ports>,
    remark: Remember,
    author: RemarkAuthor,
) -> Result<Remembered, Refused> {
    let redactor = context.ingest.redactor.get();
    let redact = |text: &str| redactor.redact_text(&strip_text(text).text).trim().to_owned();
    let text = redact(&remark.text);
    if text.is_empty() && !remark.text.trim().is_empty() {
        return Err(Refused::new(
            ErrorKind::Invalid,
            "The whole text is private, so nothing was stored",
            "Put text that may be stored outside of <private>.",
        ));
    }
    if text.is_empty() {
        return Err(Refused::new(
            ErrorKind::Invalid,
            "There is no text to remember",
            "Write one or a few sentences.",
        ));
    }
    let length = text.chars().count();
    if length > MOST_CHARS {
        let what = format!("The text has {length} characters; a note has at most {MOST_CHARS}");
        return Err(Refused::new(ErrorKind::Invalid, what, "Write one or a few sentences."));
    }
    let kind = match remark.kind.as_deref() {
        None => ObservationType::Discovery,
        Some(name) => ObservationType::parse(name).ok_or_else(|| {
            let known = ObservationType::ALL.map(|(_, name)| name).join(", ");
            let nearest = nearest_name(name, ObservationType::ALL.map(|(_, name)| name));
            let meant = nearest.map(|name| format!("Did you mean {name}? ")).unwrap_or_default();
            let hint = format!("{meant}The types are {known}.");
            Refused::new(ErrorKind::Invalid, format!("{name:?} is not a type"), hint)
        })?,
    };
    let title = match remark.title.as_deref().map(redact).filter(|title| !title.is_empty()) {
        Some(title) => shortened_line(&title, TITLE_CHARS),
        None => title_of(&text),
    };
    let at_home = RemarkProject::of(context, &remark.project)?;
    let files = remark.files.iter().map(|file| at_home.relative(&redact(file)));
    let files = files.filter(|file| !file.is_empty()).collect();
    let draft = ObservationDraft {
        kind,
        subject: subject::of_title(kind, &title),
        subtitle: None,
        narrative: if text == title { String::new() } else { text },
        title,
        facts: Vec::new(),
        concepts: Vec::new(),
        files_read: files,
        files_modified: Vec::new(),
        importance: Importance::clamped(remark.importance.unwrap_or(IMPORTANCE).into()),
        evidence: Vec::new(),
    };
    let RemarkProject { project, project_name, .. } = at_home;
    Ok(Remembered { project, project_name, draft, author, at: clock::now() })
}

/// The project of a remark.
pub(super) struct RemarkProject {
    pub(super) project: Vec<ProjectKey>,
    pub(super) project_name: String,
    /// The project's folder, if a folder was named.
    folder: Option<String>,
}

impl RemarkProject {
    /// Finds the project. A folder's project may be new; a named one must be known.
    pub(super) fn of(context: &CommandContext<impl Ports>, named: &str) -> Result<Self, Refused> {
        if Path::new(named).is_absolute() {
            let facts = recall_repository::facts(Path::new(named));
            let Identity { keys, name, .. } = read(&context.context_lookup, |db| Ok(identify(db, &facts)?))?;
            return Ok(Self { project: keys, project_name: name, folder: Some(facts.folder) });
        }
        let mut found: Vec<ProjectInfo> = read(&context.context_lookup, |db| Ok(db.projects_named(named)?))?;
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(Self { project: vec![only.key], project_name: only.name, folder: None }),
            (Some(_), false) => Err(Refused::new(
                ErrorKind::Conflict,
                format!("Several projects are called {named:?}"),
                "Name the folder: --project /path/to/it.",
            )),
            (None, _) => {
                let meant = read(&context.context_lookup, |db| Ok(meant(db, Named::Project, named)?))?;
                Err(Refused::new(
                    ErrorKind::NotFound,
                    format!("recall knows no project {named:?}"),
                    format!("{}Name its folder, or run this in it.", did_you_mean(meant)),
                ))
            }
        }
    }

    /// Converts a path to the form used in observations: relative to the project's folder if inside it.
    fn relative(&self, file: &str) -> String {
        let folder = self.folder.as_deref().unwrap_or_default();
        let beneath = Path::new(file).strip_prefix(folder).ok().filter(|_| !folder.is_empty());
        beneath.map_or_else(|| file.to_owned(), |path| path.to_string_lossy().into_owned())
    }
}

/// `recall pause` and `resume`.
pub async fn switch_capture(context: &CommandContext<impl Ports>, switch: Switch) -> Answer<CaptureAnswer> {
    let context = context.clone();
    blocking(move || {
        let pauses = &context.ingest.pauses;
        let switched = match switch {
            Switch::Pause { until } => pauses.pause(&clock::moment(), until),
            Switch::Resume => pauses.resume(&clock::moment()),
        };
        switched.map_err(|error| {
            Refused::new(
                ErrorKind::Internal,
                format!("Recording was not changed: {error}"),
                "Check the permissions and free space of the state folder.",
            )
        })?;
        Ok(CaptureAnswer { paused: PauseAnswer::now(pauses) })
    })
    .await
}

/// Whether to pause or to resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    Pause { until: Option<Timestamp> },
    Resume,
}

/// The number in `q3`.
pub(super) fn quarantined(id: &str) -> Result<i64, Refused> {
    id.trim().strip_prefix(QUARANTINED).and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        Refused::new(
            ErrorKind::Invalid,
            format!("{id:?} is not an item of this list"),
            "`recall review --list` shows what waits: 12, or q3.",
        )
    })
}
