//! The context for a prompt or a subagent's task: passages of other sessions that answer it, if any.

use super::context_lookup::{ContextLookup, ContextRequest};
use super::documents::passages;
use super::freshness::{Dated, Freshness, Since};
use recall_domain::changed::Statements;
use recall_domain::context::{InjectedExtent, Material, PassageNote};
use recall_domain::document::DocumentKey;
use recall_domain::ids::{BatchId, Timestamp};
use recall_domain::injection::choice::{self, StatementChoice, Words};
use recall_domain::injection::prompt::{Author, Situation};
use recall_domain::injection::spoken::Spoken;
use recall_domain::injection::{self, FLOORS, JudgedPassage, PromptDecision, asked, reason};
use recall_domain::passage::{Passage, PassageKey, PassageMatches};
use recall_domain::used::Occasion;
use recall_repository::work_tree::WorkTree;
use recall_store::{DocumentRow, Reader, StoreError, Turns, WorkOf};

/// The number of injected documents that are compared with the candidates.
const KNOWN: usize = 40;
/// The maximum number of rows read per prompt.
const READ: usize = 12;

impl ContextLookup {
    /// Returns what answers a prompt or a task, and the decision.
    pub(super) fn answers(
        &self,
        db: Reader<'_>,
        prompt: &str,
        author: Author,
        turns: &Turns,
        context_request: &ContextRequest,
    ) -> Result<(Material, PromptDecision), StoreError> {
        let Some(index) = self.index.index() else { return Ok(Default::default()) };
        let spoken = Spoken::of(turns.texts.iter().map(String::as_str));
        let situation = Situation {
            prompt,
            author,
            spoken: Some(&spoken),
            prompts_before: turns.prompts,
            answer_before: turns.answer.as_deref().unwrap_or_default(),
        };
        let weights = injection::built_in();
        if !injection::may_inject(&situation, weights, FLOORS) {
            return Ok((
                Material::default(),
                injection::decide(&situation, &PassageMatches::default(), weights, FLOORS),
            ));
        }
        let (project, session) = (&context_request.project.key, context_request.session.as_ref());
        let Some(mut found) = self.index.passages(&index, &asked::of(prompt), project, session) else {
            return Ok(Default::default());
        };
        found.leave_out_repeats();
        let disfavour = db.disfavour()?;
        found.matches.retain_mut(|one| {
            let worth = disfavour.worth(one.key.document, Occasion::Prompt, one.importance);
            one.importance = worth.unwrap_or(one.importance);
            worth.is_some()
        });
        let decision = injection::decide(&situation, &found, weights, FLOORS);
        let statements = self.statements(db, (&situation, turns), (&decision, &found), context_request)?;
        let project = context_request.project.name.clone();
        Ok((Material { project, statements, ..Material::default() }, decision))
    }

    /// Loads the chosen passages from the store.
    fn statements(
        &self,
        db: Reader<'_>,
        (situation, turns): (&Situation<'_>, &Turns),
        (decision, found): (&PromptDecision, &PassageMatches),
        context_request: &ContextRequest,
    ) -> Result<Vec<PassageNote>, StoreError> {
        if decision.chosen.is_empty() {
            return Ok(Vec::new());
        }
        let found_rows = self.found_rows(db, decision)?;
        let Read { known, given: mut newer } = self.read_already(db, situation, turns, context_request)?;
        newer.extend(
            found_rows.iter().map(|(_, row, passage)| (made_at(row), Statements::of(&passage.whole()))),
        );
        let is_changed = |at: Timestamp, passage: &Passage| {
            let statements = Statements::of(&passage.whole());
            newer.iter().any(|(then, later)| *then > at && statements.are_changed_by(later))
        };
        let mut chosen = StatementChoice::beside(known, choice::most(situation));
        let branch_context = self.branch_context(&context_request.place);
        let mut freshness = WorkTree::of(&context_request.place)
            .map(|tree| Freshness::new(db, self.agents, tree, self.answer_within));
        let mut considered_texts = Vec::new();
        for (judged, row, passage) in found_rows {
            if chosen.is_full() {
                break;
            }
            if context_request.injected.has(judged.key) {
                continue;
            }
            if !choice::is_statement(judged.key.document.kind, &passage.text)
                || asked::is_of_another_number(situation.prompt, &passage.whole())
            {
                continue;
            }
            let (kind, most) = (judged.key.document.kind, choice::tokens_of_each(situation));
            let Some(excerpt) = recall_compression::injected_line(&passage, kind, &found.terms, most) else {
                continue;
            };
            let words = words(&passage);
            considered_texts.push(passage.whole());
            if is_changed(made_at(&row), &excerpt) {
                continue;
            }
            // An outdated observation must not return through the text from which it was made.
            if outdated(db, &row)?.iter().any(|outdated| words.covers(outdated)) {
                continue;
            }
            let why = reason::of(situation, found, judged.key);
            let mut statement = statement(judged, excerpt, &row, decision, &why);
            statement.elsewhere = branch_context.mark(&db.made_where(judged.key.document)?);
            // Work on another branch is about other versions of the files.
            if let Some(freshness) = freshness.as_mut().filter(|_| statement.elsewhere.is_none()) {
                let since = since(freshness, &row, judged.key.document, &statement)?;
                if since.is_contradicted {
                    continue;
                }
                statement.changed = since.changed;
            }
            chosen.add(words, statement.at, statement);
        }
        if asked::names_what_is_unknown(situation.prompt, considered_texts.iter().map(String::as_str)) {
            return Ok(Vec::new());
        }
        Ok(chosen.into_best())
    }

    /// Loads the candidate passages from the store. The index may be a moment older.
    fn found_rows(
        &self,
        db: Reader<'_>,
        decision: &PromptDecision,
    ) -> Result<Vec<(JudgedPassage, DocumentRow, Passage)>, StoreError> {
        let mut rows = Vec::new();
        for judged in decision.chosen.iter().take(READ) {
            let Some(row) = db.load_document(judged.key.document)? else { continue };
            let Some(passage) = self.passage(judged.key, &row) else { continue };
            rows.push((*judged, row, passage));
        }
        Ok(rows)
    }

    /// Returns what the session has already read.
    fn read_already(
        &self,
        db: Reader<'_>,
        situation: &Situation<'_>,
        turns: &Turns,
        context_request: &ContextRequest,
    ) -> Result<Read, StoreError> {
        let mut known = vec![Words::of(situation.prompt)];
        known.extend(turns.texts.iter().map(|text| Words::of(text)));
        let mut given = Vec::new();
        for (document, extent) in context_request.injected.texts().into_iter().rev().take(KNOWN) {
            if let Some(row) = db.load_document(document)? {
                known.extend(self.given(document, &row, extent));
                let passages = passages(&row, self.agents);
                given.extend(passages.iter().map(|one| (made_at(&row), Statements::of(&one.whole()))));
            }
        }
        Ok(Read { known, given })
    }

    /// Returns what a reader knows from an injected document.
    fn given(&self, document: DocumentKey, row: &DocumentRow, extent: InjectedExtent) -> Vec<Words> {
        if let InjectedExtent::Passage(part) = extent {
            return self.passage(PassageKey { document, part }, row).iter().map(words).collect();
        }
        let mut given: Vec<Words> = passages(row, self.agents).iter().map(words).collect();
        if let DocumentRow::Summary { row, .. } = row {
            // An observation has some of these.
            let all = [&row.title, &row.request, &row.completed, &row.learned, &row.next_steps];
            given.push(Words::of(&row.request));
            given.push(Words::of(&all.map(String::as_str).join(" ")));
        }
        given
    }

    fn passage(&self, key: PassageKey, row: &DocumentRow) -> Option<Passage> {
        passages(row, self.agents).into_iter().nth(usize::try_from(key.part).ok()?)
    }
}

/// The statements that a session has read.
struct Read {
    /// The words of each text.
    known: Vec<Words>,
    /// The injected statements, and when they were made.
    given: Vec<(Timestamp, Statements)>,
}

fn statement(
    judged: JudgedPassage,
    passage: Passage,
    row: &DocumentRow,
    decision: &PromptDecision,
    why: &str,
) -> PassageNote {
    PassageNote {
        key: judged.key,
        label: label(row),
        heading: passage.heading,
        text: passage.text,
        at: made_at(row),
        probability: judged.probability,
        reason: format!(
            "shown: {why} ({:.0} % an answer, {})",
            judged.probability * 100.0,
            decided(decision)
        ),
        author: row.author_and_device().0.cloned(),
        elsewhere: None,
        changed: Vec::new(),
    }
}

/// Describes the probabilities that decided.
fn decided(decision: &PromptDecision) -> String {
    match &decision.need {
        Some(need) if need.probability >= FLOORS.need => {
            format!("{:.0} % worth saying here", need.probability * 100.0)
        }
        _ => format!(
            "{:.0} % known here, {:.0} % a prompt that other sessions can help with",
            decision.known.probability * 100.0,
            decision.prompt.probability * 100.0
        ),
    }
}

/// Returns what happened to the files that a statement is about.
fn since(
    freshness: &mut Freshness<'_>,
    row: &DocumentRow,
    document: DocumentKey,
    statement: &PassageNote,
) -> Result<Since, StoreError> {
    let (modified, work) = match row {
        DocumentRow::Observation { row, .. } => {
            (row.files_modified.as_slice(), Some(WorkOf::Events(&row.evidence)))
        }
        DocumentRow::Response { .. } => (&[][..], Some(WorkOf::Batch(BatchId(document.row)))),
        DocumentRow::Summary { row, .. } => (&[][..], row.session_row.map(WorkOf::Session)),
        _ => (&[][..], None),
    };
    freshness.of(&Dated { texts: [&statement.heading, &statement.text], at: statement.at, modified, work })
}

fn words(passage: &Passage) -> Words {
    Words::of(&format!("{} {}", passage.heading, passage.text))
}

/// Returns the superseded or resolved statements of observations from the row's session.
fn outdated(db: Reader<'_>, row: &DocumentRow) -> Result<Vec<Words>, StoreError> {
    let Some(session) = row.session_row() else { return Ok(Vec::new()) };
    let observations = db.outdated_observations(session)?;
    Ok(observations.iter().map(|(title, narrative)| Words::of(&format!("{title} {narrative}"))).collect())
}

/// Returns the label of the source for the reader.
fn label(row: &DocumentRow) -> &'static str {
    match row {
        DocumentRow::Observation { row, .. } => row.kind.as_str(),
        DocumentRow::Summary { .. } => "summary",
        DocumentRow::Plan { .. } => "plan",
        DocumentRow::Compaction { .. } => "compaction",
        DocumentRow::Response { .. } => "answer",
        DocumentRow::Prompt { .. } => "the user said",
        DocumentRow::Activity { .. } => "written by the agent",
        DocumentRow::ReceivedText { .. } => "said elsewhere",
    }
}

fn made_at(row: &DocumentRow) -> Timestamp {
    match row {
        DocumentRow::Observation { row, .. } => row.created_at,
        DocumentRow::Summary { row, .. } => row.created_at,
        DocumentRow::Plan { row, .. } => row.updated_at,
        DocumentRow::Compaction { row, .. } => row.at,
        DocumentRow::Response { at, .. } | DocumentRow::Prompt { at, .. } => *at,
        DocumentRow::Activity { row, .. } => row.at,
        DocumentRow::ReceivedText { row, .. } => row.created_at,
    }
}
