//! Looks up context: reads the store and the index, and lets `domain/` choose. It never waits for a compressor.

mod notices;
mod notes;

use std::collections::BTreeMap;
use std::time::Duration;

use super::ancestry::{Ancestry, BranchContext};
use super::clock;
use super::continuity::continuity;
use super::freshness::Freshness;
use super::index_handle::IndexHandle;
use super::outlines::Outlines;
use super::repeated_notes::without_repeats;
use super::settings::Settings;
use super::subject_cache::SubjectCache;
use super::welcome::Welcome;
pub use notes::note;
use notes::{noted, own_state, summary_note, warnings_of_branch};
use notices::{ambient_line, notice, replaced_notice, trouble_notice};
use recall_agents::{Agents, Cap};
use recall_config::{Ambient, Code, Notice};
use recall_domain::context::{BLANK, Block, BlockLimits, Declaration, InjectionMoment, Material, assemble};
use recall_domain::document::DocumentKind;
use recall_domain::event::{Audience, StartSource};
use recall_domain::file_memory::InjectedSet;
use recall_domain::ids::{AgentName, SessionId, Timestamp};
use recall_domain::injection::prompt::Author;
use recall_domain::injection::{PromptDecision, asked};
use recall_domain::review::Injectable;
use recall_domain::session::ContextAsk;
use recall_domain::tokens::Measure;
use recall_domain::used::Occasion;
use recall_repository::refs::WorkLocation;
use recall_repository::work_tree::WorkTree;
use recall_store::{ObservationRow, ProjectInfo, Reader, Readers, StoreError, Turns};
use recall_system::faults::{self, Fault, Point, planted};

/// The number of newest, and of most important, observations that are candidates at a start.
const CANDIDATES: u32 = 60;
/// If the start's context comes with the first prompt, one in this many parts of the agent's limit is left for
/// passages about the prompt.
const FIRST_PROMPT: u64 = 3;
/// A session with an event within this time, in milliseconds, is continued. An older one is history.
const FRESH_MS: i64 = 24 * 3_600_000;
/// How long a start mentions another person's last session, in milliseconds.
const OTHERS_SESSION_MS: i64 = 14 * 24 * 3_600_000;
/// The time limit of a reply. A later one would miss the shim's deadline, and the agent would get none.
const ANSWER_WITHIN: Duration = Duration::from_millis(45);

/// Returns [`ANSWER_WITHIN`], or nine tenths of `RECALL_ANSWER_MS`, the time that the shim waits (10 to 10,000). Slow
/// machines need more time for both.
pub fn answer_within() -> Duration {
    let shim_waits = std::env::var("RECALL_ANSWER_MS").ok().and_then(|text| text.parse::<u64>().ok());
    shim_waits.map_or(ANSWER_WITHIN, |ms| Duration::from_millis(ms.clamp(10, 10_000) * 9 / 10))
}

/// The latest calls of a session that are searched for files that it has opened.
const MOST_CALLS: u32 = 500;
/// If models have failed for longer than this, in milliseconds, the user is told at a session's start.
const LASTING_TROUBLE_MS: i64 = 3600 * 1000;

/// Looks up the context that is injected into sessions. Cheap to clone.
#[derive(Clone)]
pub struct ContextLookup {
    pub agents: Agents,
    pub readers: Readers,
    pub index: IndexHandle,
    pub ancestry: Ancestry,
    pub welcome: Welcome,
    pub subjects: SubjectCache,
    pub outlines: Outlines,
    pub settings: Settings,
    pub answer_within: Duration,
}

/// How much to look up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Whole,
    /// Only what a few reads of the store provide: the last summary and the index of titles. Waits for nothing.
    Titles,
}

/// Who requests the context.
#[derive(Clone, Debug)]
pub struct ContextRequest {
    /// The agent's limit.
    pub cap: Cap,
    pub project: ProjectInfo,
    /// The session, whose own observations are not injected. `None` for a request without a session.
    pub session: Option<SessionId>,
    /// The session's agent.
    pub agent: Option<AgentName>,
    pub injected: InjectedSet,
    /// The time of the session's last event, used to find newer notes.
    pub last_event: Timestamp,
    /// Where the session works. Observations from another branch are marked.
    pub place: WorkLocation,
    /// The name of the project that was in this folder before, if a new one is there now.
    pub replaced: Option<String>,
}

/// The context, and what to record about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextReply {
    pub block: Block,
    /// `None` if no context was requested.
    pub moment: Option<InjectionMoment>,
    /// One line for the user.
    pub notice: Option<String>,
    /// The file that the context is about, relative to the project's folder.
    pub file: Option<String>,
    /// The decision whether to inject at a prompt or a task, with its reasons.
    pub decision: Option<PromptDecision>,
}

impl ContextLookup {
    /// Returns the context for an agent. Empty after an error or a timeout, because no context is better than late or
    /// wrong context.
    pub async fn answer(&self, ask: ContextAsk, context_request: ContextRequest) -> ContextReply {
        let this = self.clone();
        self.in_time(move || this.look_up(&ask, &context_request)).await
    }

    /// Runs a lookup on a thread that may block, for as long as the agent waits.
    pub async fn in_time(
        &self,
        work: impl FnOnce() -> Result<ContextReply, StoreError> + Send + 'static,
    ) -> ContextReply {
        let work = tokio::task::spawn_blocking(work);
        match tokio::time::timeout(self.answer_within, work).await {
            Ok(Ok(Ok(context_reply))) => context_reply,
            Ok(Ok(Err(error))) => {
                tracing::warn!(%error, "cannot look up context");
                ContextReply::default()
            }
            Ok(Err(_)) => {
                tracing::error!("a context lookup panicked");
                ContextReply::default()
            }
            Err(_) => {
                tracing::warn!("a context lookup took too long");
                ContextReply::default()
            }
        }
    }

    /// Looks up the context. Blocks, so it must run on a thread that may.
    pub fn look_up(
        &self,
        ask: &ContextAsk,
        context_request: &ContextRequest,
    ) -> Result<ContextReply, StoreError> {
        faults::reach(Point::Recall);
        match ask {
            ContextAsk::First(prompt) => self.look_up_first(prompt.as_ref(), context_request),
            ContextAsk::Start(..)
            | ContextAsk::Prompt(_)
            | ContextAsk::File(_)
            | ContextAsk::Call { .. }
            | ContextAsk::Task(_) => self.look_up_to(Depth::Whole, ask, context_request),
        }
    }

    /// Returns the context of a start, followed by passages about the first prompt that it does not contain. `None` if
    /// the prompt may not be used.
    fn look_up_first(
        &self,
        prompt: Option<&String>,
        context_request: &ContextRequest,
    ) -> Result<ContextReply, StoreError> {
        // Both lookups wait for git, each for half of the usual time.
        let this = Self { answer_within: self.answer_within / 2, ..self.clone() };
        let whole = context_request.cap.utf16_units;
        let cap = Cap { utf16_units: whole - whole / FIRST_PROMPT };
        let request = ContextRequest { cap, ..context_request.clone() };
        let start = ContextAsk::Start(StartSource::Startup, Audience::Nobody);
        let start = this.look_up_to(Depth::Whole, &start, &request)?.block;
        let answer = match prompt {
            None => ContextReply::default(),
            Some(prompt) => {
                let items = start.items.iter().filter_map(|item| Some((item.document()?, item.extent)));
                let mut injected = context_request.injected.clone();
                injected.add(InjectedSet::of_items(items, None));
                let taken = Measure::of(&start.text).and(Measure::of(BLANK)).utf16_units();
                let cap = Cap { utf16_units: whole.saturating_sub(taken) };
                let request = ContextRequest { cap, injected, ..context_request.clone() };
                this.look_up_to(Depth::Whole, &ContextAsk::Prompt(prompt.clone()), &request)?
            }
        };
        let block = start.followed_by(answer.block);
        Ok(ContextReply { block, moment: Some(InjectionMoment::Prompt), ..answer })
    }

    /// Returns the context of a start without waiting. Blocks only for a few reads of the store.
    pub fn look_up_titles(
        &self,
        ask: &ContextAsk,
        context_request: &ContextRequest,
    ) -> Result<ContextReply, StoreError> {
        self.look_up_to(Depth::Titles, ask, context_request)
    }

    fn look_up_to(
        &self,
        depth: Depth,
        ask: &ContextAsk,
        context_request: &ContextRequest,
    ) -> Result<ContextReply, StoreError> {
        let moment = match ask {
            ContextAsk::Start(StartSource::Startup | StartSource::Clear, _) => InjectionMoment::Start,
            ContextAsk::Start(StartSource::Resume | StartSource::Fork, _) => InjectionMoment::Resume,
            ContextAsk::Start(StartSource::Compact, _) => InjectionMoment::Compact,
            ContextAsk::Prompt(_) => InjectionMoment::Prompt,
            ContextAsk::Task(_) => InjectionMoment::Subagent,
            // `about_file`, `about_command` and `look_up_first` answer these.
            ContextAsk::File(_) | ContextAsk::Call { .. } | ContextAsk::First(_) => {
                return Ok(ContextReply::default());
            }
        };
        let budget = moment.budget(&self.settings.context().budgets);
        if budget == 0 {
            return Ok(ContextReply::default());
        }
        let now = clock::now();
        let beside = self.beside((ask, moment, depth), budget, context_request, now);
        let handed = match (moment, depth) {
            (InjectionMoment::Start, Depth::Whole) => self.handed_over(context_request, now)?,
            _ => Block::default(),
        };
        let measure = |text: &str| match text.is_empty() {
            true => Measure::default(),
            false => Measure::of(text).and(Measure::of(BLANK)),
        };
        let (measure, apart) = (measure(&beside), measure(&handed.text));
        let limits = BlockLimits {
            tokens: budget.saturating_sub(measure.spent()),
            utf16_units: (context_request.cap.utf16_units)
                .saturating_sub(measure.utf16_units() + apart.utf16_units()),
        };
        let (material, decision) = self.readers.read(|db| match ask {
            ContextAsk::Start(..) => {
                let state = self.besides_handed_over(db, moment, depth, context_request, &handed)?;
                Ok((state, None))
            }
            ContextAsk::Prompt(text) | ContextAsk::Task(text) => {
                self.what_bears_on(db, ask, text, context_request)
            }
            ContextAsk::File(_) | ContextAsk::Call { .. } | ContextAsk::First(_) => {
                Ok((Material::default(), None))
            }
        })?;
        let mut block = assemble(moment, &material, limits, now);
        if planted(Fault::NoEscaping) {
            block.text = block.text.replace('\u{2039}', "<");
        }
        if !beside.is_empty() {
            let beside = Block { text: beside, tokens: measure.spent(), items: Vec::new() };
            block = block.followed_by(beside);
        }
        let block = handed.followed_by(block);
        let is_read =
            matches!(ask, ContextAsk::Start(_, Audience::Person)) && moment == InjectionMoment::Start;
        let notice = match is_read && self.settings.context().notice == Notice::Shown {
            true => self.notices(&block, context_request, now)?,
            false => None,
        };
        Ok(ContextReply { block, moment: Some(moment), notice, file: None, decision })
    }

    /// Returns a project's start context, except what was handed over.
    fn besides_handed_over(
        &self,
        db: Reader<'_>,
        moment: InjectionMoment,
        depth: Depth,
        context_request: &ContextRequest,
        handed: &Block,
    ) -> Result<Material, StoreError> {
        let branch_context = match depth {
            Depth::Whole => self.branch_context(&context_request.place),
            Depth::Titles => self.ancestry.branch_context(&context_request.place, Duration::ZERO),
        };
        let injectable = self.settings.context().injectable;
        let mut state = self.project_state(db, moment, depth, context_request, &branch_context)?;
        // Both are machine-made, and nobody reviews them.
        if injectable == Injectable::Reviewed || handed.items.iter().any(|item| state.is_of(item.id)) {
            (state.summary, state.continuity) = (None, None);
        }
        if injectable == Injectable::Reviewed {
            state.others = None;
        }
        if depth == Depth::Whole {
            state.observations = without_repeats(db, &self.index.sentences, state.observations)?;
        }
        Ok(state)
    }

    /// Builds the context of a session that starts, is resumed or was compacted.
    fn project_state(
        &self,
        db: Reader<'_>,
        moment: InjectionMoment,
        depth: Depth,
        context_request: &ContextRequest,
        branch_context: &BranchContext,
    ) -> Result<Material, StoreError> {
        let (project, injectable) = (context_request.project.row, self.settings.context().injectable);
        let mut rows = db.candidates(project, CANDIDATES, injectable)?;
        let warnings = match (moment, depth) {
            (InjectionMoment::Start, Depth::Whole) => {
                warnings_of_branch(db, project, injectable, &rows, branch_context)?
            }
            _ => BTreeMap::new(),
        };
        let missing: Vec<_> =
            warnings.keys().copied().filter(|id| rows.iter().all(|row| row.id != *id)).collect();
        rows.extend(db.observations_by_id(&missing)?);
        let disfavour = db.disfavour()?;
        rows.retain_mut(|row| {
            let worth = disfavour.worth(row.id.into(), Occasion::Start, row.importance);
            row.importance = worth.unwrap_or(row.importance);
            worth.is_some()
        });
        let own = |row: &ObservationRow| {
            context_request.session.is_some() && row.session == context_request.session
        };
        let observations = rows.into_iter().filter(|row| match moment {
            InjectionMoment::Resume => {
                !own(row)
                    && !context_request.injected.observations.contains(&row.id)
                    && row.created_at > context_request.last_event
            }
            // The conversation was emptied, including everything that was injected and found.
            InjectionMoment::Start
            | InjectionMoment::Compact
            | InjectionMoment::Prompt
            | InjectionMoment::File
            | InjectionMoment::Subagent => true,
            InjectionMoment::Command | InjectionMoment::Failure => true,
        });
        let (summary, stands) = match (moment, &context_request.session) {
            (InjectionMoment::Resume, _) => (None, None),
            (InjectionMoment::Compact, Some(session)) => own_state(db, session)?,
            (_, session) => {
                let summary = db.latest_summary(project, session.as_ref())?;
                let last = summary.as_ref().and_then(|summary| summary.session_row);
                let last = last.map(|session| db.session_info(session)).transpose()?;
                let fresh = last.filter(|last| clock::now().since(last.last_event_at) < FRESH_MS);
                (summary, fresh)
            }
        };
        let others = match moment {
            InjectionMoment::Start => {
                db.latest_summary_of_others(project, Timestamp(clock::now().0 - OTHERS_SESSION_MS))?
            }
            _ => None,
        };
        let stands = stands.filter(|_| depth == Depth::Whole);
        let mut freshness = match depth {
            Depth::Whole => WorkTree::of(&context_request.place)
                .map(|tree| Freshness::new(db, self.agents, tree, self.answer_within)),
            Depth::Titles => None,
        };
        let observations = observations
            .map(|row| noted(row, &warnings, branch_context, freshness.as_mut()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Material {
            project: context_request.project.name.clone(),
            summary: summary.map(|row| summary_note(row, branch_context)),
            others: others.map(|row| summary_note(row, branch_context)),
            continuity: stands.map(|session| continuity(db, self.agents, &session)).transpose()?,
            observations: observations.into_iter().flatten().collect(),
            ..Material::default()
        })
    }

    /// Returns the passages that answer a prompt or a task, and the decision. `None` if only reviewed notes may be
    /// injected, because no model decides then.
    fn what_bears_on(
        &self,
        db: Reader<'_>,
        ask: &ContextAsk,
        text: &str,
        context_request: &ContextRequest,
    ) -> Result<(Material, Option<PromptDecision>), StoreError> {
        let (author, turns) = match (ask, &context_request.session) {
            (ContextAsk::Prompt(_), Some(session)) => (Author::Person, db.turns_before(session, text)?),
            // A subagent begins its own conversation.
            (ContextAsk::Task(_), _) => (Author::Agent, Turns::default()),
            _ => (Author::Person, Turns::default()),
        };
        let (mut material, decision) = match self.settings.context().injectable {
            Injectable::Everything => {
                let (material, decision) = self.answers(db, text, author, &turns, context_request)?;
                (material, Some(decision))
            }
            Injectable::Reviewed => Default::default(),
        };
        material.by_hand = self.notes_by_hand(db, text, context_request)?;
        let is_by_hand = |row| material.by_hand.iter().any(|note| note.id.0 == row);
        material.statements.retain(|one| {
            one.key.document.kind != DocumentKind::Observation || !is_by_hand(one.key.document.row)
        });
        material.places = self.code(db, text, context_request);
        Ok((material, decision))
    }

    /// Returns the declarations that a prompt or a task is about, if the user enabled this.
    fn code(&self, db: Reader<'_>, text: &str, context_request: &ContextRequest) -> Vec<Declaration> {
        if self.settings.context().code == Code::Off {
            self.outlines.clear();
            return Vec::new();
        }
        let tree = WorkTree::of(&context_request.place);
        let Some(folder) = tree.as_ref().and_then(WorkTree::of_repository) else { return Vec::new() };
        let (session, agent) = (context_request.session.as_ref(), context_request.agent.as_ref());
        let seen = || {
            let (Some(session), Some(agent)) = (session, agent) else { return Vec::new() };
            let tools = self.agents.spec(agent.as_str()).format.tools;
            let calls = db.calls_before(agent, session, MOST_CALLS).unwrap_or_default();
            calls.iter().filter_map(|(tool, input)| tools.file(tool, input)).collect()
        };
        self.outlines.about(folder, &asked::of(text), session, seen)
    }

    /// Returns the lines for the person who starts a session.
    fn notices(
        &self,
        block: &Block,
        context_request: &ContextRequest,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        let trouble = self.readers.read(|db| db.compression_trouble())?;
        let lasting = trouble.filter(|trouble| now.0.saturating_sub(trouble.since.0) > LASTING_TROUBLE_MS);
        let lines: Vec<String> = notice(block, &context_request.project.name)
            .into_iter()
            .chain(replaced_notice(context_request))
            .chain(self.welcome.take())
            .chain(lasting.map(|it| trouble_notice(&it)))
            .chain(self.settings.report().notice())
            .collect();
        Ok(Some(lines.join("\n")).filter(|lines| !lines.is_empty()))
    }

    /// Returns the user's hints for a prompt, or the ambient line of a start. They may use up the budget.
    fn beside(
        &self,
        (ask, moment, depth): (&ContextAsk, InjectionMoment, Depth),
        budget: u32,
        context_request: &ContextRequest,
        now: Timestamp,
    ) -> String {
        let text = match (ask, moment) {
            (ContextAsk::Prompt(prompt), _) => match self.settings.hints().for_prompt(prompt, budget) {
                Some(given) => {
                    tracing::info!(hints = given.hints, "injected hints at a prompt");
                    given.text
                }
                None => return String::new(),
            },
            (ContextAsk::Start(..), _) if self.settings.context().ambient == Ambient::On => {
                ambient_line(depth, context_request, now)
            }
            _ => return String::new(),
        };
        let text = text.trim_end();
        let measure = Measure::of(text);
        match measure.spent() <= budget && measure.utf16_units() < context_request.cap.utf16_units {
            true => text.to_owned(),
            false => String::new(),
        }
    }

    /// Returns the branch context of an agent that works there. Waits for git as long as the rest of the lookup
    /// allows.
    pub(crate) fn branch_context(&self, place: &WorkLocation) -> BranchContext {
        self.ancestry.branch_context(place, self.answer_within / 2)
    }
}
