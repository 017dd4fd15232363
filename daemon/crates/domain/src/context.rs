//! Assembles the context block for an agent: selects notes within a token budget and renders them.
//!
//! A block is Markdown inside `<recall-context>`. It is marked as notes, not as instructions, because users, models
//! and tools wrote everything in it. Stored text cannot close the block or pose as the markup of a conversation, see
//! [`super::plain`]; everything else stays as it was written.

pub(crate) mod page;

use serde::{Deserialize, Serialize, Serializer};

use super::changed::Statements;
use super::checkout::Elsewhere;
use super::continuity::{Continuity, Reader};
use super::document::{DocumentKey, DocumentKind};
use super::ids::{ObservationId, Timestamp};
use super::injection::choice::{ENOUGH_TOKENS, Words, newer_first};
use super::observation::{Importance, Maker, ObservationType, Voice};
use super::passage::PassageKey;
use super::plain::plain;
use super::tokens::Measure;
use page::{Added, Detail, Page, statement_line};

/// The token budget of each moment. 0 disables the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    pub start: u32,
    pub compact: u32,
    pub resume: u32,
    pub prompt: u32,
    pub file: u32,
    pub subagent: u32,
    /// For a command that is about to run, or that failed.
    pub command: u32,
}

/// The occasion on which context is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectionMoment {
    Start,
    Resume,
    Compact,
    Prompt,
    /// A file is about to be read or changed.
    File,
    /// A subagent starts with its task.
    Subagent,
    /// A command is about to run.
    Command,
    /// A command has failed.
    Failure,
}

impl InjectionMoment {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Resume => "resume",
            Self::Compact => "compact",
            Self::Prompt => "prompt",
            Self::File => "file",
            Self::Subagent => "subagent",
            Self::Command => "command",
            Self::Failure => "failure",
        }
    }

    pub fn budget(self, budgets: &Budgets) -> u32 {
        match self {
            Self::Start => budgets.start,
            Self::Resume => budgets.resume,
            Self::Compact => budgets.compact,
            Self::Prompt => budgets.prompt,
            Self::File => budgets.file,
            Self::Subagent => budgets.subagent,
            Self::Command | Self::Failure => budgets.command,
        }
    }
}

/// The candidates for a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Material {
    pub project: String,
    /// At a start, the summary of the last session; at a compaction, this session's own.
    pub summary: Option<SummaryNote>,
    /// At a start, the last session summary of another person.
    pub others: Option<SummaryNote>,
    /// The state of the last session, while it is recent.
    pub continuity: Option<Continuity>,
    /// In any order, without superseded and resolved ones.
    pub observations: Vec<Note>,
    /// Notes that a person wrote or pinned and that concern the prompt, best first.
    pub by_hand: Vec<Note>,
    /// Passages that answer the prompt, best first.
    pub statements: Vec<PassageNote>,
    /// Declarations that the prompt is about, best first.
    pub places: Vec<Declaration>,
    /// The file about to be opened, relative to the project's folder; or the command, or the error. Empty at other
    /// moments.
    pub file: String,
}

impl Material {
    /// Whether the state injected at a start is this session's own.
    pub fn is_of(&self, session: i64) -> bool {
        self.continuity.as_ref().is_some_and(|state| state.session == session)
    }
}

/// Where a name is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Relative to the repository's folder.
    pub file: String,
    /// The line's number, counted from 1.
    pub line: u32,
    /// The keyword of the language: `struct`, `class`, `def`.
    pub kind: &'static str,
    /// The enclosing type, class or module, or empty.
    pub within: String,
    pub name: String,
}

impl Declaration {
    /// The name, qualified with its enclosing item.
    pub fn symbol(&self) -> String {
        match self.within.as_str() {
            "" => self.name.clone(),
            within => format!("{within}.{}", self.name),
        }
    }
}

/// A candidate summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryNote {
    pub id: i64,
    /// The person whose session it was, if it ran on another machine.
    pub author: Option<String>,
    pub title: String,
    pub request: String,
    pub completed: String,
    pub learned: String,
    pub next_steps: String,
    pub at: Timestamp,
    /// The branch of the session's work, if it is not merged here.
    pub elsewhere: Option<Elsewhere>,
}

impl SummaryNote {
    /// The id that `recall show` opens.
    fn public_id(&self) -> String {
        DocumentKey { kind: DocumentKind::Summary, row: self.id }.to_string()
    }
}

/// A passage that answers the prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct PassageNote {
    pub key: PassageKey,
    /// The kind of its source: the type of an observation, `answer`, `plan`.
    pub label: &'static str,
    pub heading: String,
    pub text: String,
    /// The person who wrote it, if on another machine.
    pub author: Option<String>,
    pub at: Timestamp,
    /// The probability that it answers the prompt.
    pub probability: f64,
    pub reason: String,
    /// The branch of its work, if it is not merged here.
    pub elsewhere: Option<Elsewhere>,
    /// Files that the statement is about and that have changed since.
    pub changed: Vec<String>,
}

/// A candidate observation.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub id: ObservationId,
    pub kind: ObservationType,
    pub title: String,
    pub narrative: String,
    pub facts: Vec<String>,
    pub importance: Importance,
    /// How understandable the title is on its own, in points. Used at a start.
    pub alone: i8,
    /// The speaker, if the note holds because somebody said it.
    pub voice: Option<Voice>,
    /// The person who wrote it, if on another machine.
    pub author: Option<String>,
    /// Whether that machine belongs to another person.
    pub is_of_others: bool,
    pub maker: Maker,
    /// Whether the user pinned it to the top.
    pub is_pinned: bool,
    /// The file that it warns about, if the reader's branch changes that file.
    pub warns_of: Option<String>,
    pub at: Timestamp,
    /// The branch of its work, if it is not merged here.
    pub elsewhere: Option<Elsewhere>,
    /// Files that the note is about and that have changed since.
    pub changed: Vec<String>,
}

impl Note {
    /// What a person did that makes the note worth injecting.
    fn accepted(&self) -> &'static str {
        match self.maker {
            Maker::Person => "written or pinned by hand",
            Maker::Machine => "kept in a review",
        }
    }
}

/// The rendered block, and the record of its contents.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Block {
    /// Empty if there is nothing to inject.
    pub text: String,
    pub tokens: u32,
    pub items: Vec<BlockItem>,
}

/// The separator between two blocks of one answer.
pub const BLANK: &str = "\n\n";

impl Block {
    /// Joins both blocks into one.
    #[must_use]
    pub fn followed_by(mut self, next: Self) -> Self {
        if !self.text.is_empty() && !next.text.is_empty() {
            self.text.push_str(BLANK);
        }
        self.text.push_str(&next.text);
        self.tokens += next.tokens;
        self.items.extend(next.items);
        self
    }
}

/// How much of a document was injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectedExtent {
    #[default]
    Whole,
    /// Only the title; the document has more to say.
    Title,
    /// The passage with this number.
    Passage(u32),
}

/// The kind of a block's item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockItemKind {
    Document(DocumentKind),
    /// The state of a session, which is derived from its prompts and what followed.
    SessionState,
    /// A session that was handed over to this one.
    Handover,
}

impl BlockItemKind {
    pub const OBSERVATION: Self = Self::Document(DocumentKind::Observation);

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Document(kind) => kind.as_str(),
            Self::SessionState => "session",
            Self::Handover => "handoff",
        }
    }
}

impl Serialize for BlockItemKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One item of a block, with the reason why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockItem {
    pub kind: BlockItemKind,
    /// The row of the document, or of the session.
    pub id: i64,
    pub extent: InjectedExtent,
    pub title: String,
    pub reason: String,
}

impl BlockItem {
    /// The document; `None` for the state of a session and for a handover.
    pub fn document(&self) -> Option<DocumentKey> {
        match self.kind {
            BlockItemKind::Document(kind) => Some(DocumentKey { kind, row: self.id }),
            BlockItemKind::SessionState | BlockItemKind::Handover => None,
        }
    }
}

/// The maximum length of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    pub tokens: u32,
    /// The maximum length that the agent passes on unshortened.
    pub utf16_units: u64,
}

/// Notes per file: only what must be known before opening it, not its history.
const MOST_FOR_FILE: usize = 3;
/// The share of a start's budget for notes that a person wrote or pinned.
const BY_HAND_SHARE: f64 = 0.5;
/// The share of the budget for the session's own state at a start. It is limited because the block is about the
/// project.
const START_STATE_SHARE: f64 = 0.6;
/// At most this many of `LINES` known lines come from other persons, as long as there are own ones.
const LINES: usize = 5;
const OF_OTHERS: usize = 2;
/// The share of a start's budget for another person's last session.
const OTHERS_SHARE: f64 = 0.15;
/// The maximum number of known lines at a start: later ones are rarely useful. Measured in `docs/retrieval.md`.
const MOST_AT_START: usize = 5;
/// Bonus points at a start for what the user said, if its title is understandable on its own.
const FROM_USER: f64 = 3.0;
/// Bonus points for a note that warns about a file which the branch changes.
const ABOUT_BRANCH: f64 = 2.0;
/// The amount of weight that is worth one point of understandability.
const OF_WEIGHT: f64 = 4.0;
/// The half-life in days of an observation's weight at a start.
const HALF_LIFE_DAYS: f64 = 21.0;
/// The half-life of open ends.
const OPEN_END_HALF_LIFE_DAYS: f64 = 7.0;

/// Selects and renders the block of a moment. The block is empty if nothing is worth injecting.
pub fn assemble(moment: InjectionMoment, material: &Material, limits: BlockLimits, now: Timestamp) -> Block {
    match moment {
        InjectionMoment::Start | InjectionMoment::Compact => survey(moment, material, limits, now),
        InjectionMoment::Resume => news(material, limits, now),
        InjectionMoment::Prompt => answer("prompt", material, limits, now),
        InjectionMoment::Subagent => answer("task", material, limits, now),
        InjectionMoment::File => about_file(material, limits, now),
        InjectionMoment::Command => {
            about_command("known of this command here", "about this command", material, limits, now)
        }
        InjectionMoment::Failure => {
            about_command("this error was met before", "about this error", material, limits, now)
        }
    }
}

/// Builds the block of a start or a compaction: notes by hand, the current state, and an index of notes.
fn survey(moment: InjectionMoment, material: &Material, limits: BlockLimits, now: Timestamp) -> Block {
    let mut page = Page::open(limits, &format!("recall: memory of {}", plain(&material.project)));
    let notes = by_weight(&material.observations, now);
    let (by_hand, mut others): (Vec<&Note>, Vec<&Note>) =
        notes.into_iter().partition(|note| note.maker == Maker::Person);
    others.sort_by(|a, b| points(b, now).total_cmp(&points(a, now)));
    let (by_hand, others) = (that_hold(by_hand), that_hold(others));
    let left = page.by_hand(&by_hand, now, BY_HAND_SHARE);
    if moment == InjectionMoment::Compact
        && let Some(state) = &material.continuity
    {
        page.state(state, material.summary.as_ref());
    } else if let Some(summary) = &material.summary {
        page.summary(moment, summary, now);
        if let Some(state) = &material.continuity {
            page.continuity(state, Reader::Successor, START_STATE_SHARE);
        }
    }
    if let (InjectionMoment::Start, Some(summary)) = (moment, &material.others) {
        page.summary_of_others(summary, now, OTHERS_SHARE);
    }
    let notes: Vec<&Note> = left.into_iter().chain(others).collect();
    let most = match moment {
        InjectionMoment::Start => MOST_AT_START,
        _ => usize::MAX,
    };
    page.index(&notes, most, now);
    page.close()
}

/// Builds the block of a resumed session. The session still has its conversation, so only newer notes are listed.
fn news(material: &Material, limits: BlockLimits, now: Timestamp) -> Block {
    let mut page =
        Page::open(limits, &format!("recall: new in {} since this session paused", plain(&material.project)));
    let mut notes: Vec<&Note> = material.observations.iter().collect();
    notes.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| b.id.cmp(&a.id)));
    for note in notes {
        page.entry(note, now, "came about since the session paused", Detail::Title);
    }
    page.close()
}

/// Builds the block of a prompt or a subagent's task: notes by hand about it, then the passages that answer it, newest
/// first.
fn answer(asked: &str, material: &Material, limits: BlockLimits, now: Timestamp) -> Block {
    let title = format!("recall: may bear on this {asked}");
    let mut page = match material.by_hand.len() + material.statements.len() {
        0 if !material.places.is_empty() => Page::open_for_code(limits, asked),
        1 => Page::open_for_one(limits, &title),
        _ => Page::open(limits, &title),
    };
    for note in &material.by_hand {
        page.entry(note, now, &format!("{}, and about this", note.accepted()), Detail::Whole);
    }
    // Leaves out the least probable statements if not all fit.
    let mut trial = page.measure;
    let mut chosen: Vec<(&PassageNote, String)> = Vec::new();
    for statement in &material.statements {
        if trial.spent() >= page.measure.spent() + ENOUGH_TOKENS {
            break;
        }
        let line = statement_line(statement, now);
        let longer = trial.and(Measure::of(&line));
        if page.allows(longer, page.budget) {
            trial = longer;
            chosen.push((statement, line));
        }
    }
    chosen.sort_by(|(a, _), (b, _)| b.at.cmp(&a.at).then_with(|| b.key.cmp(&a.key)));
    for (statement, line) in chosen {
        if page.add(&line) == Added::Yes {
            page.items.push(statement.item());
        }
    }
    page.places(&material.places);
    page.close()
}

/// Builds the block of a file: the most important notes about it in full.
fn about_file(material: &Material, limits: BlockLimits, now: Timestamp) -> Block {
    let file = plain(&material.file);
    let mut page = Page::open(limits, &format!("recall: known of {file}"));
    for note in by_weight(&material.observations, now).into_iter().take(MOST_FOR_FILE) {
        let reason = format!("{} about {}, which was about to be opened", note.kind.as_str(), material.file);
        page.entry(note, now, &reason, Detail::Whole);
    }
    page.close()
}

/// Builds the block of a command: the notes by hand about it or, without any, the best other note. A note that does
/// not fit in full is reduced to its title.
fn about_command(
    heading: &str,
    about: &str,
    material: &Material,
    limits: BlockLimits,
    now: Timestamp,
) -> Block {
    let mut page = Page::open_brief(limits, &format!("recall: {heading}"));
    for note in &material.by_hand {
        page.entry_or_title(note, now, &format!("{}, and {about}", note.accepted()));
    }
    for note in &material.observations {
        page.entry_or_title(note, now, &format!("{} {about}", note.kind.as_str()));
    }
    page.close()
}

/// Returns the notes in their order, with other persons' surplus notes moved to the end. A flood of theirs displaces
/// no own note, and a newcomer still sees what there is.
fn mixed(notes: Vec<&Note>) -> Vec<&Note> {
    let (mut ordered, mut waiting, mut of_others) = (Vec::new(), Vec::new(), 0);
    for note in notes {
        if note.is_of_others && of_others >= OF_OTHERS * (ordered.len() / LINES + 1) {
            waiting.push(note);
        } else {
            of_others += usize::from(note.is_of_others);
            ordered.push(note);
        }
    }
    ordered.append(&mut waiting);
    ordered
}

fn by_weight(notes: &[Note], now: Timestamp) -> Vec<&Note> {
    let mut notes: Vec<&Note> = notes.iter().collect();
    notes.sort_by(|a, b| {
        let by_hand = |note: &Note| (note.is_pinned, note.maker == Maker::Person);
        by_hand(b)
            .cmp(&by_hand(a))
            .then_with(|| weight(b, now).total_cmp(&weight(a, now)))
            .then_with(|| b.at.cmp(&a.at))
            .then_with(|| b.id.cmp(&a.id))
    });
    notes
}

/// Returns the notes without those that hold an old value or that a newer note changes; of two conflicting choices the
/// newer comes first. Only a person changes what a person wrote or pinned.
fn that_hold(notes: Vec<&Note>) -> Vec<&Note> {
    let parsed = notes.into_iter().map(|note| (Words::of(&note.title), Statements::of(&note.title), note));
    let parsed: Vec<(Words, Statements, &Note)> = parsed.collect();
    let is_over = |(words, statements, note): &(Words, Statements, &Note)| {
        let may_change = |newer: &Note| newer.maker == Maker::Person || note.maker == Maker::Machine;
        parsed.iter().filter(|(.., newer)| newer.at > note.at).any(|(other, later, newer)| {
            other.differs_in_a_value(words)
                || may_change(newer) && !note.is_pinned && statements.are_changed_by(later)
        })
    };
    let mut held: Vec<&(Words, Statements, &Note)> = parsed.iter().filter(|one| !is_over(one)).collect();
    newer_first(&mut held, |(first, _, older), (second, _, newer)| {
        newer.at > older.at && second.differs_in_a_word(first)
    });
    held.into_iter().map(|(.., note)| *note).collect()
}

/// Ranks a note among the known lines of a start: how understandable its title is on its own, then its weight. A
/// session that begins sees only the title, and importance alone does not tell which titles are understandable.
fn points(note: &Note, now: Timestamp) -> f64 {
    let stands_alone = note.alone > 0;
    let of_user = if stands_alone && note.voice == Some(Voice::User) { FROM_USER } else { 0.0 };
    let of_branch = if note.warns_of.is_some() { ABOUT_BRANCH } else { 0.0 };
    f64::from(note.alone) + of_user + of_branch + weight(note, now) / OF_WEIGHT
}

/// A note's weight, mainly its importance. It decays with age, but never to zero; open ends decay faster, while
/// standing wishes and warnings about the current work do not decay. What a person wrote or pinned holds until
/// somebody withdraws it. Age counts in whole hours, so the order of notes made together does not depend on
/// milliseconds.
fn weight(note: &Note, now: Timestamp) -> f64 {
    let stands = f64::from(note.importance.get());
    let half_life = match note.kind {
        kind if kind.is_standing() || note.warns_of.is_some() => return stands,
        ObservationType::NextStep => OPEN_END_HALF_LIFE_DAYS,
        _ if note.maker == Maker::Person => return stands,
        _ => HALF_LIFE_DAYS,
    };
    let days = (now.since(note.at) / 3_600_000) as f64 / 24.0;
    stands * (0.4 + 0.6 * (-days * std::f64::consts::LN_2 / half_life).exp())
}

/// The age in its largest unit, such as `3 days ago`.
pub fn age(at: Timestamp, now: Timestamp) -> String {
    let minutes = now.since(at) / 60_000;
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..1440 => format!("{} h ago", minutes / 60),
        1440..86_400 => format!("{} d ago", minutes / 1440),
        _ => format!("{} months ago", minutes / 43_200),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn within(tokens: u32) -> BlockLimits {
        BlockLimits { tokens, utf16_units: 10_000 }
    }

    const DAY: i64 = 86_400_000;
    const NOW: Timestamp = Timestamp(1_000 * DAY);

    fn note(id: i64, importance: i64, days_ago: i64, title: &str) -> Note {
        Note {
            maker: Maker::Machine,
            is_pinned: false,
            voice: None,
            author: None,
            is_of_others: false,
            warns_of: None,
            id: ObservationId(id),
            kind: ObservationType::Decision,
            title: title.to_owned(),
            narrative: format!("{title}, because the tests of the cart said so."),
            facts: vec!["It holds for every currency.".to_owned()],
            importance: Importance::clamped(importance),
            alone: 0,
            at: Timestamp(NOW.0 - days_ago * DAY),
            elsewhere: None,
            changed: Vec::new(),
        }
    }

    fn shop() -> Material {
        Material {
            places: Vec::new(),
            project: "shop".to_owned(),
            others: None,
            summary: Some(SummaryNote {
                author: None,
                id: 3,
                title: "Discounts for the cart".to_owned(),
                request: "Add a percentage discount.".to_owned(),
                completed: "total() takes discountPercent.".to_owned(),
                learned: "Rounding is to cents.".to_owned(),
                next_steps: "Show the discount on the receipt.".to_owned(),
                at: Timestamp(NOW.0 - 2 * 3_600_000),
                elsewhere: None,
            }),
            continuity: None,
            observations: vec![
                note(1, 9, 30, "Money is kept in integer cents"),
                note(2, 4, 0, "Receipt lacks the discount"),
                note(3, 7, 1, "Discounts round half-even"),
            ],
            by_hand: Vec::new(),
            statements: vec![
                statement(7, 0, 1, "Rounding", "Totals are rounded once,\nafter summing."),
                statement(7, 3, 1, "", "`<hook>` is kept as it is."),
                statement(9, 1, 30, "Currencies", "Every currency has its own number of digits."),
            ],
            file: "src/cart.rs".to_owned(),
        }
    }

    fn statement(row: i64, part: u32, days_ago: i64, heading: &str, text: &str) -> PassageNote {
        PassageNote {
            changed: Vec::new(),
            key: PassageKey { document: DocumentKey { kind: DocumentKind::Response, row }, part },
            label: "answer",
            heading: heading.to_owned(),
            text: text.to_owned(),
            author: None,
            at: Timestamp(NOW.0 - days_ago * DAY),
            probability: 0.5,
            reason: "50 % an answer".to_owned(),
            elsewhere: None,
        }
    }

    #[test]
    fn other_peoples_notes_get_two_of_five_lines_if_own_notes_fill_the_rest() {
        let of_mia = |id, title: &str| Note {
            author: Some("mia".to_owned()),
            is_of_others: true,
            ..note(id, 9, 0, title)
        };
        let others = [
            "Invoices are cancelled by Hedwig",
            "Exports run at midnight",
            "Logs rotate every week",
            "Backups lie in the attic",
        ];
        let own = ["Cents are integers", "Rounding happens once", "Discounts are percentages"];
        let others = || others.iter().zip(1..).map(|(title, id)| of_mia(id, title));
        let own = || own.iter().zip(11..).map(|(title, id)| note(id, 5, 0, title));
        let injected_ids = |notes: Vec<Note>| -> Vec<i64> {
            let material = Material { summary: None, observations: notes, ..shop() };
            let block = assemble(InjectionMoment::Start, &material, within(900), NOW);
            block.items.iter().map(|item| item.id).collect()
        };
        let ids = injected_ids(others().chain(own()).collect());
        assert_eq!((ids.len(), ids.iter().filter(|id| **id < 10).count()), (5, 2), "{ids:?}");
        assert_eq!(
            injected_ids(others().chain(own().take(1)).collect()).len(),
            5,
            "nothing else is left to tell"
        );
        assert_eq!(injected_ids(others().collect()).len(), 4, "a newcomer has none of their own");
    }

    #[test]
    fn another_persons_last_session_follows_the_users_own_at_a_session_start() {
        let others = SummaryNote {
            id: 9,
            author: Some("mia".to_owned()),
            title: "Invoices in two currencies".to_owned(),
            completed: "Exchange rates are fetched each night.".to_owned(),
            next_steps: "Test the rates on a holiday.".to_owned(),
            at: Timestamp(NOW.0 - DAY),
            ..SummaryNote::default()
        };
        let material = Material { others: Some(others), ..shop() };
        let text = assemble(InjectionMoment::Start, &material, within(600), NOW).text;
        let own = text.find("## Last session (s3)").unwrap();
        let others = text
            .find("## Last session of mia (s9), 1 d ago: Invoices in two currencies\nDone: Exchange rates");
        assert!(others.is_some_and(|others| others > own), "{text}");
        assert!(!assemble(InjectionMoment::Compact, &material, within(600), NOW).text.contains("mia"));
        // It takes little of a small budget, and nothing from the own session.
        let text = assemble(InjectionMoment::Start, &material, within(150), NOW).text;
        assert!(text.contains("Open: Show the discount") && !text.contains("holiday"), "{text}");
    }

    #[test]
    fn notes_by_a_person_come_first_and_leave_room_for_the_rest() {
        let mut material = shop();
        material.observations.extend((10..60).map(|id| Note {
            maker: Maker::Person,
            ..note(id, 5, 900, &format!("Rule {id} of the cart holds for every currency and every country"))
        }));
        let mut last = note(70, 4, 900, "Ask Hedwig");
        (last.maker, last.is_pinned) = (Maker::Person, true);
        material.observations.push(last);
        let text = assemble(InjectionMoment::Start, &material, within(900), NOW).text;
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(at("#70 ") < at("#59 ") && at("#59 ") < at("## Last session"), "{text}");
        assert!(at("\nOpen: Show the discount") < at("## Known"), "{text}");
        let own = Measure::of(&text[..at("\n## Last session")]).spent();
        assert!((300..=450).contains(&own), "{own} tokens: {text}");
        assert_eq!(text.matches("#59 ").count(), 1, "nothing is told twice: {text}");
        let compacted = assemble(InjectionMoment::Compact, &material, within(900), NOW).text;
        assert!(compacted.contains("Ask Hedwig"), "{compacted}");
    }

    #[test]
    fn a_long_session_state_leaves_room_for_titles_without_repetition() {
        let mut material = shop();
        let summary = material.summary.as_mut().unwrap();
        summary.completed = "Discounts for the cart. `total()` takes discountPercent. ".repeat(3);
        summary.learned = (0..60).map(|n| format!("Rule {n} is `rule_{n}` of the cart. ")).collect();
        summary.next_steps =
            "Show the discount on the receipt. The receipt is to show the discount.".to_owned();
        let block = assemble(InjectionMoment::Start, &material, within(400), NOW);
        assert!(block.text.contains("\nOpen: Show the discount on the receipt.\n"), "{}", block.text);
        assert!(block.text.contains("\nDone: `total()` takes discountPercent.\n"), "{}", block.text);
        material.continuity = Some(Continuity {
            changed_files: vec!["src/a-long-name.rs".repeat(8); 9],
            ..Continuity::default()
        });
        let block = assemble(InjectionMoment::Start, &material, within(400), NOW);
        assert!(block.text.contains("integer cents"), "{}", block.text);
        let block = assemble(InjectionMoment::Start, &material, within(60), NOW);
        assert!(!block.text.contains("## Known"), "a heading alone says nothing: {}", block.text);
    }

    #[test]
    fn a_long_summary_is_truncated_to_its_first_sentences() {
        let mut material = shop();
        let summary = material.summary.as_mut().unwrap();
        summary.completed =
            (1..=40).map(|n| format!("Shelf {n} of aisle {n} is counted at night. ")).collect();
        summary.learned = "Receipts are sorted by the day of their order.".to_owned();
        let text = assemble(InjectionMoment::Start, &material, within(600), NOW).text;
        let line = |label: &str| text.lines().find(|line| line.starts_with(label)).unwrap_or_default();
        assert!(
            line("Done: ").starts_with("Done: Shelf 1 of aisle 1 is counted at night. Shelf 2 "),
            "{text}"
        );
        assert!(line("Done: ").ends_with(" is counted at night."), "{text}");
        assert!(!text.contains("Shelf 40 "), "{text}");
        assert_eq!(line("Learned: "), "Learned: Receipts are sorted by the day of their order.");
    }

    #[test]
    fn a_session_start_lists_five_self_contained_titles_and_avoids_repeats() {
        let mut material = shop();
        let work = |id, alone, title: &str| Note { alone, ..note(id, 7, 1, title) };
        material.observations = vec![
            work(1, -1, "The job failed at step 2"),
            work(2, 1, "Discounts for the cart"),
            work(3, 2, "Totals in `cart.rs` must be rounded once"),
            work(4, 1, "Keep `POST /orders` without a body"),
            work(5, 1, "Keep `POST /orders` without a body"),
            Note { voice: Some(Voice::User), ..work(6, 1, "Prefer short answers") },
            Note { voice: Some(Voice::User), ..work(10, -2, "I meant the label of the tray") },
            work(7, 0, "Receipts are sorted by the day of their order"),
            work(8, 0, "Shelves are counted at night"),
            work(9, -1, "In the panel it now has its own colour"),
        ];
        let block = assemble(InjectionMoment::Start, &material, within(2000), NOW);
        let known = |block: &Block| -> Vec<i64> {
            block
                .items
                .iter()
                .filter(|item| item.kind == BlockItemKind::OBSERVATION)
                .map(|item| item.id)
                .collect()
        };
        // 2 is the title of the last session, and 4 and 5 say the same: such notes stand last.
        assert_eq!(known(&block), [6, 3, 5, 8, 7], "{}", block.text);
        let compacted =
            assemble(InjectionMoment::Compact, &Material { summary: None, ..material }, within(2000), NOW);
        assert_eq!(known(&compacted).len(), 10, "{}", compacted.text);
    }

    #[test]
    fn a_session_start_omits_notes_that_only_repeat_the_last_sessions_title() {
        let mut material = shop();
        let bare = |id, narrative: &str| Note {
            narrative: narrative.to_owned(),
            facts: Vec::new(),
            ..note(id, 7, 1, "Discounts for the cart")
        };
        material.observations =
            vec![bare(1, ""), bare(2, "Discounts for the cart."), bare(3, "Refunds have none.")];
        let block = assemble(InjectionMoment::Start, &material, within(2000), NOW);
        let known: Vec<i64> = block
            .items
            .iter()
            .filter(|item| item.kind == BlockItemKind::OBSERVATION)
            .map(|item| item.id)
            .collect();
        // The third says something beside its title.
        assert_eq!(known, [3], "{}", block.text);
    }

    #[test]
    fn a_warning_about_a_file_that_the_branch_changes_is_ranked_first() {
        let old = note(1, 6, 400, "The parser keeps its cursor");
        let newer = note(2, 5, 1, "Receipts are sorted");
        let first = |observations: Vec<Note>| {
            let material = Material { observations, ..Material::default() };
            assemble(InjectionMoment::Start, &material, within(2000), NOW).items.remove(0)
        };
        assert_eq!(first(vec![old.clone(), newer.clone()]).id, 2);
        let item = first(vec![Note { warns_of: Some("src/parser.rs".to_owned()), ..old }, newer]);
        assert_eq!(item.id, 1);
        assert!(item.reason.ends_with("about src/parser.rs, which this branch changes"), "{}", item.reason);
    }

    #[test]
    fn a_session_start_omits_old_values_and_puts_the_newest_choice_first() {
        for (old, new) in [
            ("The gateway gives up after 30 s", "The gateway gives up after 90 s"),
            ("Uploads are limited to 5 MB", "Uploads are limited to 20 MB"),
            ("Staging keeps 10 % of the traces", "Staging keeps 25 % of the traces"),
        ] {
            // The old one weighs more.
            let observations = vec![note(1, 9, 3, old), note(2, 5, 1, new)];
            let material = Material { observations, ..Material::default() };
            let block = assemble(InjectionMoment::Start, &material, within(2000), NOW);
            assert!(block.text.contains(new) && !block.text.contains(old), "{}", block.text);
        }
        for (old, new) in [
            ("We use SQLite", "We use Postgres"),
            ("Invoices are rendered by wkhtmltopdf", "Invoices are rendered by Typst"),
            ("Deploys go through Jenkins here", "Deploys go through Buildkite here"),
        ] {
            let observations = vec![note(1, 9, 3, old), note(2, 5, 1, new)];
            let material = Material { observations, ..Material::default() };
            let block = assemble(InjectionMoment::Start, &material, within(2000), NOW);
            let at = |what: &str| block.text.find(what).unwrap_or_else(|| panic!("{what}: {}", block.text));
            assert!(at(new) < at(old), "{}", block.text);
        }
    }

    #[test]
    fn a_session_start_shows_open_ends_and_an_index_of_notes() {
        insta::assert_snapshot!("started", assemble(InjectionMoment::Start, &shop(), within(2000), NOW).text);
    }

    #[test]
    fn a_standing_wish_does_not_fade_and_an_open_end_fades_sooner() {
        let of_kind = |id, kind, days| Note { kind, ..note(id, 6, days, &format!("Statement {id}")) };
        let notes = [
            of_kind(1, ObservationType::Preference, 400),
            of_kind(2, ObservationType::Discovery, 30),
            of_kind(3, ObservationType::NextStep, 30),
            of_kind(4, ObservationType::NextStep, 0),
            of_kind(5, ObservationType::Correction, 500),
        ];
        let order: Vec<i64> = by_weight(&notes, NOW).iter().map(|note| note.id.0).collect();
        assert_eq!(order, [4, 1, 5, 2, 3]);
    }

    #[test]
    fn notes_made_together_keep_one_order_at_any_later_time() {
        let of_kind =
            |id, kind, at: i64| Note { kind, at: Timestamp(NOW.0 + at), ..note(id, 9, 0, "It holds") };
        let notes = [
            of_kind(3, ObservationType::Decision, 0),
            of_kind(4, ObservationType::Gotcha, 700),
            of_kind(5, ObservationType::NextStep, 900),
            of_kind(6, ObservationType::NextStep, 900),
        ];
        for passed in [900, 950, 2_000, 60_000] {
            let asked = Timestamp(NOW.0 + passed);
            let order: Vec<i64> = by_weight(&notes, asked).iter().map(|note| note.id.0).collect();
            assert_eq!(order, [6, 5, 4, 3], "after {passed} ms");
        }
    }

    #[test]
    fn the_session_state_is_shown_after_a_compaction_and_at_a_start() {
        let mut material = shop();
        material.continuity = Some(Continuity {
            session: 7,
            prompts: 3,
            goal: "Add a percentage discount.".to_owned(),
            asked: Some("And show it on the receipt.".to_owned()),
            open_tasks: vec!["Test the receipt".to_owned()],
            changed_files: vec!["src/cart.rs".to_owned()],
            decided: vec!["Rounding happens once".to_owned()],
            ..Continuity::default()
        });
        insta::assert_snapshot!(
            "compacted",
            assemble(InjectionMoment::Compact, &material, within(1500), NOW).text
        );
        insta::assert_snapshot!(
            "started_fresh",
            assemble(InjectionMoment::Start, &material, within(2000), NOW).text
        );
    }

    #[test]
    fn a_prompt_gets_matching_passages_and_a_resume_gets_new_notes() {
        let material = shop();
        insta::assert_snapshot!(
            "prompted",
            assemble(InjectionMoment::Prompt, &material, within(120), NOW).text
        );
        let small = assemble(InjectionMoment::Prompt, &material, within(70), NOW);
        assert_eq!(
            small.items.iter().map(|item| (item.id, item.extent)).collect::<Vec<_>>(),
            [(7, InjectedExtent::Passage(0))]
        );
        insta::assert_snapshot!(
            "resumed",
            assemble(InjectionMoment::Resume, &material, within(300), NOW).text
        );
    }

    #[test]
    fn opening_a_file_injects_the_notes_about_it_in_full() {
        let block = assemble(InjectionMoment::File, &shop(), within(300), NOW);
        insta::assert_snapshot!("file", block.text);
        assert_eq!(block.items[0].reason, "decision about src/cart.rs, which was about to be opened");
    }

    #[test]
    fn no_material_or_no_budget_gives_an_empty_block() {
        for moment in [
            InjectionMoment::Start,
            InjectionMoment::Resume,
            InjectionMoment::Compact,
            InjectionMoment::Prompt,
            InjectionMoment::File,
            InjectionMoment::Subagent,
            InjectionMoment::Command,
        ] {
            assert_eq!(assemble(moment, &Material::default(), within(2000), NOW), Block::default());
            assert_eq!(assemble(moment, &shop(), within(0), NOW), Block::default());
        }
    }

    #[test]
    fn a_small_budget_keeps_the_most_important_notes() {
        let mut material = shop();
        material.summary = None;
        material.observations =
            (0..200).map(|id| note(id, 1 + id % 10, 5, &format!("Fact number {id}"))).collect();
        let block = assemble(InjectionMoment::Start, &material, within(400), NOW);
        assert!(block.tokens <= 400 && block.tokens > 200, "{}", block.tokens);
        assert_eq!(block.items.len(), MOST_AT_START);
        assert!(block.items.iter().all(|item| item.reason.starts_with("importance 10")));
    }

    proptest! {
        #[test]
        fn any_stored_text_is_rendered_in_one_fence_within_the_budget(
            title in ".{0,80}|(<|>|&|/|recall-context|\u{202e}|\n|a){0,40}",
            narrative in ".{0,300}",
            budget in 0u32..3000,
        ) {
            let mut material = shop();
            for note in &mut material.observations {
                note.title.clone_from(&title);
                note.narrative.clone_from(&narrative);
            }
            for statement in &mut material.statements {
                statement.heading.clone_from(&title);
                statement.text.clone_from(&narrative);
            }
            material.summary.as_mut().unwrap().next_steps.clone_from(&title);
            material.continuity =
                Some(Continuity { goal: narrative.clone(), open_tasks: vec![title.clone()], ..Continuity::default() });
            for moment in [InjectionMoment::Start, InjectionMoment::Resume, InjectionMoment::Compact, InjectionMoment::Prompt, InjectionMoment::File, InjectionMoment::Subagent, InjectionMoment::Command] {
                let block = assemble(moment, &material, within(budget), NOW);
                prop_assert!(block.tokens <= budget);
                prop_assert!(block.text.chars().count() <= budget as usize * 4);
                prop_assert!(block.text.encode_utf16().count() <= 10_000);
                if !block.text.is_empty() {
                    prop_assert_eq!(block.text.matches("<recall-context>").count(), 1);
                    prop_assert_eq!(block.text.matches("</recall-context>").count(), 1);
                    let turned = block.text.contains('\u{202e}');
                    prop_assert!(!turned);
                }
            }
        }
    }
}
