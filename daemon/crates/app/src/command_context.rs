//! Finds notes about a command that is about to run, and fixes for an error that a command has just produced.
//! Requested at every command, so cheap checks come first, and doubtful notes are not injected.
//!
//! Notes by hand come first, and are injected even if the session received them at its start, because the command is
//! when they matter. Each is injected once per command form or error.

use super::clock;
use super::context_lookup::{ContextLookup, ContextReply, note};
use super::documents;
use super::notes_by_hand::touch;
use recall_agents::{AgentSpec, Cap};
use recall_domain::command_form::CommandForm;
use recall_domain::context::{BlockLimits, InjectionMoment, Material, Note, assemble};
use recall_domain::document::{DocumentKey, DocumentKind, Status};
use recall_domain::file_memory::{FileNote, InjectedSet};
use recall_domain::ids::{ObservationId, SessionId};
use recall_domain::injection::by_hand::Touch;
use recall_domain::known_error;
use recall_domain::material::Action;
use recall_domain::observation::{Maker, ObservationType};
use recall_domain::passage::PassageMatches;
use recall_domain::review::Injectable;
use recall_domain::session::ContextAsk;
use recall_domain::used::{Disfavour, Occasion};
use recall_repository::refs::WorkLocation;
use recall_search::index::Index;
use recall_store::{ObservationRow, ProjectInfo, Reader, StoreError};

/// The number of most important notes by hand that are considered.
const BY_HAND: u32 = 60;
/// The number of passages with the command's or the error's words that are considered.
const FOUND: usize = 24;
/// The number of machine-made notes read per command.
const READ: usize = 6;
/// The maximum number of notes. A single line is enough; only notes by hand may have a second.
const MOST_BY_HAND: usize = 2;
/// The minimum importance for interrupting a command.
const LEAST_IMPORTANCE: u8 = 6;
/// The minimum importance of a fix. Lower, because a fix helps anyone who hits the error again.
const LEAST_IMPORTANCE_OF_CURES: u8 = 4;
/// Types of machine-made notes that are injected before a command.
const OF_COMMANDS: [ObservationType; 5] = [
    ObservationType::Gotcha,
    ObservationType::Correction,
    ObservationType::Preference,
    ObservationType::Security,
    ObservationType::Decision,
];
/// Types of notes that may contain a fix.
const CURES: [ObservationType; 5] = [
    ObservationType::Bugfix,
    ObservationType::Gotcha,
    ObservationType::Correction,
    ObservationType::Discovery,
    ObservationType::Decision,
];
/// The number of characters that identify an error within a session.
const ERROR_KEY: usize = 120;

/// The subject of the lookup: a command, or the error with which it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Command(Vec<CommandForm>),
    /// The line that states the error.
    Error(String),
}

impl Subject {
    /// Returns the subject. `None` if the call is not a shell command, or nothing can be known about it.
    pub fn of(spec: &AgentSpec, ask: &ContextAsk) -> Option<Self> {
        let ContextAsk::Call { tool, input, failure } = ask else { return None };
        let Action::Command { command, .. } = spec.action(tool, input, None) else { return None };
        match failure {
            Some(output) => known_error::error_line(output).map(Self::Error),
            None => {
                let forms = CommandForm::all(&command);
                (!forms.is_empty()).then_some(Self::Command(forms))
            }
        }
    }

    fn moment(&self) -> InjectionMoment {
        match self {
            Self::Command(_) => InjectionMoment::Command,
            Self::Error(_) => InjectionMoment::Failure,
        }
    }

    /// Returns the subject without the forms that were already injected into this session. `None` if nothing is left.
    fn new_to(self, injected: &InjectedSet) -> Option<Self> {
        match self {
            Self::Command(mut forms) => {
                forms.retain(|form| !injected.files.contains(&key_of_form(form)));
                (!forms.is_empty()).then_some(Self::Command(forms))
            }
            Self::Error(line) => {
                (!injected.files.contains(&key_of_error(&line))).then_some(Self::Error(line))
            }
        }
    }

    fn key(&self) -> String {
        match self {
            Self::Command(forms) => forms.first().map(key_of_form).unwrap_or_default(),
            Self::Error(line) => key_of_error(line),
        }
    }

    /// The words by which notes are searched.
    fn words(&self) -> String {
        match self {
            Self::Command(forms) => forms.iter().map(CommandForm::subjects).collect::<Vec<_>>().join(" "),
            Self::Error(line) => line.clone(),
        }
    }

    /// Whether a note certainly is about the subject.
    fn is_named_in(&self, text: &str) -> bool {
        match self {
            Self::Command(forms) => forms.iter().any(|form| form.is_named_in(text)),
            Self::Error(line) => known_error::is_about(text, line),
        }
    }

    /// Whether a machine-made note is about the subject. For a command, its title must say so, because the title may
    /// be all that is injected; a fix may be in the text.
    fn is_of(&self, row: &ObservationRow) -> bool {
        match self {
            Self::Command(_) => self.is_named_in(&row.title),
            Self::Error(_) => self.is_named_in(&text_of(row)),
        }
    }

    /// Moves the form that a note names to the front.
    fn with_named_first(self, text: &str) -> Self {
        match self {
            Self::Command(mut forms) => {
                forms.sort_by_key(|form| !form.is_named_in(text));
                Self::Command(forms)
            }
            error => error,
        }
    }
}

fn key_of_form(form: &CommandForm) -> String {
    format!("$ {}", form.text())
}

fn key_of_error(line: &str) -> String {
    format!("! {}", line.chars().take(ERROR_KEY).collect::<String>())
}

/// The subject, and who receives the notes.
#[derive(Clone, Debug)]
pub struct CommandContextRequest {
    /// The agent's limit.
    pub cap: Cap,
    pub subject: Subject,
    pub project: ProjectInfo,
    pub session: SessionId,
    pub place: WorkLocation,
}

impl ContextLookup {
    /// Looks up notes about the command or its error. Empty after an error or a timeout.
    pub async fn about_command(
        &self,
        mut context_request: CommandContextRequest,
        injected: &InjectedSet,
    ) -> ContextReply {
        let budget = InjectionMoment::Command.budget(&self.settings.context().budgets);
        let Some(subject) = context_request.subject.clone().new_to(injected).filter(|_| budget > 0) else {
            return ContextReply::default();
        };
        context_request.subject = subject;
        let (this, injected) = (self.clone(), injected.clone());
        self.in_time(move || this.command_context(context_request, &injected)).await
    }

    fn command_context(
        &self,
        context_request: CommandContextRequest,
        injected: &InjectedSet,
    ) -> Result<ContextReply, StoreError> {
        let subject = &context_request.subject;
        let moment = subject.moment();
        let material = self.readers.read(|db| {
            let disfavour = db.disfavour()?;
            let by_hand = self.hand_made(db, &context_request, &disfavour)?;
            let may_tell = self.settings.context().injectable == Injectable::Everything;
            let made = match by_hand.is_empty() && may_tell {
                true => self.made(db, &context_request, injected, &disfavour)?,
                false => Vec::new(),
            };
            let branch_context = self.branch_context(&context_request.place);
            let notes = |rows: Vec<ObservationRow>| -> Vec<Note> {
                rows.into_iter().map(|row| note(row, &branch_context)).collect()
            };
            Ok(Material { by_hand: notes(by_hand), observations: notes(made), ..Material::default() })
        })?;
        let Some(first) = material.by_hand.first().or(material.observations.first()) else {
            return Ok(ContextReply::default());
        };
        let key = subject.clone().with_named_first(&format!("{} {}", first.title, first.narrative)).key();
        let limits = BlockLimits {
            tokens: moment.budget(&self.settings.context().budgets),
            utf16_units: context_request.cap.utf16_units,
        };
        let material = Material { file: key.clone(), ..material };
        let block = assemble(moment, &material, limits, clock::now());
        Ok(ContextReply { block, moment: Some(moment), file: Some(key), ..ContextReply::default() })
    }

    /// Returns the notes about the subject that persons wrote or pinned, best first.
    fn hand_made(
        &self,
        db: Reader<'_>,
        context_request: &CommandContextRequest,
        disfavour: &Disfavour,
    ) -> Result<Vec<ObservationRow>, StoreError> {
        let CommandContextRequest { subject, project, .. } = context_request;
        let mut rows = db.kept_by_hand(project.row, BY_HAND, self.settings.context().injectable)?;
        rows.retain(|row| disfavour.worth(row.id.into(), Occasion::Command, row.importance).is_some());
        let index = self.index.index().filter(|_| !rows.is_empty());
        let words = match (&index, subject) {
            // An error's words may come from any program.
            (Some(index), Subject::Command(_)) => {
                self.index.words_of(index, &subject.words(), &project.key).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        let mut by_closeness: Vec<(f32, ObservationRow)> = Vec::new();
        for row in rows {
            let closeness = if subject.is_named_in(&text_of(&row)) {
                Some(f32::MAX)
            } else {
                let passages = documents::of_observation(&row.title, &row.narrative, &row.facts);
                let touches =
                    passages.iter().map(|passage| touch(&words, &self.subjects.subjects(&passage.whole())));
                touches.filter(Touch::is_about).map(|touch| touch.closeness()).reduce(f32::max)
            };
            by_closeness.extend(closeness.map(|closeness| (closeness, row)));
        }
        by_closeness.sort_by(|(a, a_row), (b, b_row)| b.total_cmp(a).then_with(|| b_row.id.cmp(&a_row.id)));
        by_closeness.truncate(MOST_BY_HAND);
        Ok(by_closeness.into_iter().map(|(_, row)| row).collect())
    }

    /// Returns the most important machine-made note that names the command or the error.
    fn made(
        &self,
        db: Reader<'_>,
        context_request: &CommandContextRequest,
        injected: &InjectedSet,
        disfavour: &Disfavour,
    ) -> Result<Vec<ObservationRow>, StoreError> {
        let CommandContextRequest { subject, session, .. } = context_request;
        let Some(index) = self.index.index() else { return Ok(Vec::new()) };
        let Some(found) = self.found_for(&index, context_request) else { return Ok(Vec::new()) };
        let (kinds, least) = match subject {
            Subject::Command(_) => (&OF_COMMANDS, LEAST_IMPORTANCE),
            Subject::Error(_) => (&CURES, LEAST_IMPORTANCE_OF_CURES),
        };
        let mut seen: Vec<DocumentKey> = Vec::new();
        let mut best: Option<ObservationRow> = None;
        for one in &found.matches {
            let key = one.key.document;
            let is_kind = one.observation_type.is_some_and(|kind| kinds.contains(&kind));
            if key.kind != DocumentKind::Observation || !is_kind || seen.contains(&key) {
                continue;
            }
            let worth = disfavour.worth(key, Occasion::Command, one.importance);
            if worth.is_none_or(|worth| worth.get() < least) || seen.len() >= READ {
                continue;
            }
            seen.push(key);
            let id = ObservationId(key.row);
            let Some(row) = db.observation(id)? else { continue };
            let candidate =
                FileNote { id, session: row.session.as_ref(), at: row.created_at, rewritten: None };
            let is_injectable = row.maker() == Maker::Machine
                && row.status == Status::Active
                && candidate.is_new_to(session, injected)
                && subject.is_of(&row);
            if is_injectable && best.as_ref().is_none_or(|best| row.importance > best.importance) {
                best = Some(row);
            }
        }
        Ok(best.into_iter().collect())
    }

    fn found_for(&self, index: &Index, context_request: &CommandContextRequest) -> Option<PassageMatches> {
        let CommandContextRequest { subject, project, session, .. } = context_request;
        self.index.passages_by_words(index, &subject.words(), &project.key, session, FOUND)
    }
}

fn text_of(row: &ObservationRow) -> String {
    let texts = [&row.title, &row.narrative].into_iter().chain(&row.facts);
    texts.map(String::as_str).collect::<Vec<_>>().join(" \n")
}
