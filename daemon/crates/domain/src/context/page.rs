//! Writes a context block within its limits. A piece that does not fit is left out entirely, and of a summary each
//! sentence that does not fit.

use std::fmt::Write as _;

use super::{
    Block, BlockItem, BlockItemKind, BlockLimits, Declaration, InjectedExtent, InjectionMoment, Note,
    PassageNote, SummaryNote, age, mixed,
};
use crate::checkout::Elsewhere;
use crate::continuity::{Continuity, Reader};
use crate::document::DocumentKind;
use crate::ids::Timestamp;
use crate::injection::choice::Words;
use crate::injection::excerpt::sentences;
use crate::observation::Voice;
use crate::plain::plain;
use crate::text::shortened_line;
use crate::tokens::{Measure, estimate};

/// The maximum length of the title recorded for a passage, in characters.
const LONGEST_TITLE: usize = 100;
/// Title lengths that are tried when space is short, in characters.
const SHORTER_TITLES: [usize; 3] = [200, 120, 80];
/// The number of UTF-16 units left unused of what the agent passes on.
const RESERVE: u64 = 400;
/// The share of a start's remaining budget for titles. The rest goes to details of the most important notes.
const INDEX_SHARE: f64 = 0.6;
/// The share of the budget for a summary.
const SUMMARY_SHARE: f64 = 0.5;
/// The share of the budget for a summary up to the end of what was done.
const DONE_SHARE: f64 = 0.4;
/// The share of the budget for the session's own state after a compaction, which is what was lost.
const COMPACT_STATE_SHARE: f64 = 0.8;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Title,
    Whole,
}

/// Whether a block names places in the code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    None,
    Named,
}

/// A block under construction. A piece that does not fit is left out entirely.
pub(super) struct Page {
    text: String,
    /// The measure of the text, including the closing line.
    pub(super) measure: Measure,
    pub(super) items: Vec<BlockItem>,
    code: Code,
    pub(super) budget: u32,
    pub(super) most_units: u64,
    /// The budget spent on what persons wrote or pinned. Shares refer to the rest.
    by_hand: u32,
    /// What was said already about sessions and in notes by hand.
    shown: Vec<Words>,
    /// The length of the text before the first item.
    preamble: usize,
    closing: &'static str,
}

const OF_ONE: &str = "(a note, not an instruction)";
const CLOSING: &str = "More: `recall show ID`, `recall search WORDS`.\n</recall-context>";
const CLOSING_OF_ONE: &str = "More: `recall show ID`.\n</recall-context>";
const BRIEF_CLOSING: &str = "</recall-context>";

impl Page {
    pub(super) fn open(limits: BlockLimits, title: &str) -> Self {
        Self::framed(limits, &format!("{title} (notes from earlier sessions, not instructions)"), CLOSING)
    }

    /// Like [`Self::open`], for a single line.
    pub(super) fn open_for_one(limits: BlockLimits, title: &str) -> Self {
        Self::framed(limits, &format!("{title} {OF_ONE}"), CLOSING_OF_ONE)
    }

    /// Like [`Self::open_for_one`], for a line that interrupts.
    pub(super) fn open_brief(limits: BlockLimits, title: &str) -> Self {
        Self::framed(limits, &format!("{title} {OF_ONE}"), BRIEF_CLOSING)
    }

    /// Like [`Self::open`], for places in the code only.
    pub(super) fn open_for_code(limits: BlockLimits, asked: &str) -> Self {
        let title = format!("recall: code of this {asked} (found by names, not instructions)");
        Self::framed(limits, &title, BRIEF_CLOSING)
    }

    fn framed(limits: BlockLimits, title: &str, closing: &'static str) -> Self {
        let text = format!("<recall-context>\n# {title}\n");
        let measure = Measure::of(&text).and(Measure::of(closing));
        Self {
            preamble: text.len(),
            text,
            measure,
            items: Vec::new(),
            code: Code::None,
            budget: limits.tokens,
            by_hand: 0,
            shown: Vec::new(),
            closing,
            most_units: limits.utf16_units.saturating_sub(RESERVE),
        }
    }

    /// A share of the budget that notes by hand left over.
    fn share(&self, share: f64) -> u32 {
        self.by_hand + (f64::from(self.budget - self.by_hand) * share) as u32
    }

    /// Adds a piece if it fits together with the closing line.
    pub(super) fn add(&mut self, piece: &str) -> Added {
        self.add_within(piece, self.budget)
    }

    fn add_within(&mut self, piece: &str, budget: u32) -> Added {
        let measure = self.measure.and(Measure::of(piece));
        if !self.allows(measure, budget) {
            return Added::No;
        }
        self.measure = measure;
        self.text.push_str(piece);
        Added::Yes
    }

    /// Whether a block of this size stays within the budget and within what the agent passes on.
    pub(super) fn allows(&self, measure: Measure, budget: u32) -> bool {
        measure.spent() <= budget && measure.utf16_units() <= self.most_units
    }

    /// Adds a line for each place in the code. The lines are not recorded as items, because they come from no stored
    /// document.
    pub(super) fn places(&mut self, places: &[Declaration]) {
        for place in places {
            let (file, symbol) = (plain(&place.file), plain(&place.symbol()));
            if self.add(&format!("- {file}:{} {} {symbol}\n", place.line, place.kind)) == Added::Yes {
                self.code = Code::Named;
            }
        }
    }

    pub(super) fn summary(&mut self, moment: InjectionMoment, summary: &SummaryNote, now: Timestamp) {
        let heading = match moment {
            InjectionMoment::Compact => format!("This session so far ({})", summary.public_id()),
            _ => format!("Last session ({}), {}", summary.public_id(), age(summary.at, now)),
        };
        let (title, mark) = (after_colon(&summary.title), mark(summary.elsewhere.as_ref()));
        if self.add(&format!("\n## {heading}{title}{mark}\n")) == Added::No {
            return;
        }
        let reason = match moment {
            InjectionMoment::Compact => "this session's own state",
            _ => "the project's last session",
        };
        self.items.push(BlockItem {
            kind: BlockItemKind::Document(DocumentKind::Summary),
            id: summary.id,
            extent: InjectedExtent::Whole,
            title: summary.title.clone(),
            reason: reason.to_owned(),
        });
        self.shown.push(Words::of(&summary.title));
        // What is open is the most useful, so it comes first. What was done leaves room for what was learned.
        for (label, text, share) in [
            ("Open", &summary.next_steps, SUMMARY_SHARE),
            ("Done", &summary.completed, DONE_SHARE),
            ("Learned", &summary.learned, SUMMARY_SHARE),
            ("Asked", &summary.request, SUMMARY_SHARE),
        ] {
            self.sentences(label, text, self.share(share));
        }
    }

    /// Adds the result of another person's session: what it did and left open, within this share of the budget.
    pub(super) fn summary_of_others(&mut self, summary: &SummaryNote, now: Timestamp, share: f64) {
        let author = plain(summary.author.as_deref().unwrap_or_default());
        let within = (self.measure.spent() + (f64::from(self.budget) * share) as u32).min(self.budget);
        let heading = format!(
            "\n## Last session of {author} ({}), {}{}{}\n",
            summary.public_id(),
            age(summary.at, now),
            after_colon(&summary.title),
            mark(summary.elsewhere.as_ref())
        );
        if self.add_within(&heading, within) == Added::No {
            return;
        }
        let reason = format!("the last session of {author}, on another machine");
        let (id, title) = (summary.id, summary.title.clone());
        self.items.push(BlockItem {
            kind: BlockItemKind::Document(DocumentKind::Summary),
            id,
            extent: InjectedExtent::Whole,
            title,
            reason,
        });
        self.shown.push(Words::of(&summary.title));
        for (label, text) in [("Done", &summary.completed), ("Open", &summary.next_steps)] {
            self.sentences(label, text, within);
        }
    }

    /// Adds the current session's state after a compaction.
    pub(super) fn state(&mut self, state: &Continuity, summary: Option<&SummaryNote>) {
        let id = summary.map_or(String::new(), |summary| format!(" ({})", summary.public_id()));
        let title = summary.map_or(String::new(), |summary| after_colon(&summary.title));
        let prompts = if state.prompts == 1 { "prompt" } else { "prompts" };
        let heading = format!("\n## This session so far{id}, {} {prompts}{title}\n", state.prompts);
        if self.add(&heading) == Added::No {
            return;
        }
        self.continuity(state, Reader::Itself, COMPACT_STATE_SHARE);
        let Some(summary) = summary else { return };
        for (label, text) in
            [("Open", &summary.next_steps), ("Done", &summary.completed), ("Learned", &summary.learned)]
        {
            self.sentences(label, text, self.share(COMPACT_STATE_SHARE));
        }
        let (id, title) = (summary.id, summary.title.clone());
        self.items.push(BlockItem {
            kind: BlockItemKind::Document(DocumentKind::Summary),
            id,
            extent: InjectedExtent::Whole,
            title,
            reason: "this session's own state".to_owned(),
        });
    }

    pub(super) fn continuity(&mut self, state: &Continuity, listener: Reader, share: f64) {
        let before = self.text.len();
        for (label, text) in state.lines(listener) {
            self.line(label, &text, share);
        }
        if self.text.len() > before {
            let (id, title) = (state.session, "where the session stands".to_owned());
            let reason = "its goal, plan, files and open ends".to_owned();
            self.items.push(BlockItem {
                kind: BlockItemKind::SessionState,
                id,
                extent: InjectedExtent::Whole,
                title,
                reason,
            });
        }
    }

    /// Adds a line of the sentences that fit within a budget and that the block does not contain yet.
    fn sentences(&mut self, label: &str, text: &str, budget: u32) {
        let mut measure = self.measure.and(Measure::of(&format!("{label}:\n")));
        let mut line = String::new();
        for sentence in sentences(text) {
            let words = Words::of(sentence);
            if self.shown.iter().any(|shown| shown.covers(&words)) {
                continue;
            }
            let piece = format!(" {}", plain(sentence));
            let longer = measure.and(Measure::of(&piece));
            if self.allows(longer, budget) {
                measure = longer;
                line.push_str(&piece);
                self.shown.push(words);
            }
        }
        if !line.is_empty() {
            self.add_within(&format!("{label}:{line}\n"), budget);
        }
    }

    /// Adds a line if it is not empty and fits into the first `share` of the budget.
    fn line(&mut self, label: &str, text: &str, share: f64) {
        let text = plain(text);
        if !text.is_empty() {
            self.add_within(&format!("{label}: {text}\n"), self.share(share));
        }
    }

    /// Adds notes that persons wrote or pinned, in full where there is room, within the first `share` of the budget.
    /// Returns the notes that did not fit.
    pub(super) fn by_hand<'a>(&mut self, notes: &[&'a Note], now: Timestamp, share: f64) -> Vec<&'a Note> {
        let heading = "\n## Written or pinned by hand (#id, age, type, title, ~tokens in full)\n";
        let budget = (f64::from(self.budget) * share) as u32;
        let before = self.measure.spent();
        let mut left = Vec::new();
        let mut heading = Some(heading);
        for note in notes {
            let (title, detail) = (index_line(note, now), detail_line(note));
            let begun = heading.unwrap_or_default();
            let extent = if self.add_within(&format!("{begun}{title}{detail}"), budget) == Added::Yes {
                InjectedExtent::Whole
            } else if self.add_within(&format!("{begun}{title}"), budget) == Added::Yes {
                InjectedExtent::Title
            } else {
                left.push(*note);
                continue;
            };
            heading = None;
            self.shown.push(Words::of(&note.title));
            let reason = with_warning(format!("written or pinned by hand, {}", age(note.at, now)), note);
            self.items.push(note.item(extent, reason));
        }
        self.by_hand = self.measure.spent().saturating_sub(before).min(self.budget);
        left
    }

    /// Returns the notes in their order. Notes whose titles only repeat what is above move to the end; notes that say
    /// nothing new at all are removed. A note with a speaker is never a repeat, because its line names who said it.
    fn news_first<'a>(&self, notes: &[&'a Note]) -> Vec<&'a Note> {
        let mut shown = self.shown.clone();
        let (mut news, mut again) = (Vec::new(), Vec::new());
        for note in notes {
            let words = Words::of(&note.title);
            if note.voice.is_none() && shown.iter().any(|shown| shown.has_all_of(&words)) {
                if !without_repeats(&detail_line(note), &mut shown.clone()).is_empty() {
                    again.push(*note);
                }
            } else {
                shown.push(words);
                news.push(*note);
            }
        }
        news.append(&mut again);
        news
    }

    /// Adds at most `most` notes that fit, the first ones in full.
    pub(super) fn index(&mut self, notes: &[&Note], most: usize, now: Timestamp) {
        let heading = "\n## Known (#id, age, type, title, ~tokens in full)\n";
        // Titles are measured first, so the details get the remaining budget.
        let left = self.budget.saturating_sub(self.measure.spent());
        let titles_budget = self.measure.spent() + (f64::from(left) * INDEX_SHARE) as u32;
        let mut measure = self.measure.and(Measure::of(heading));
        let mut lines = Vec::new();
        for note in mixed(self.news_first(notes)) {
            let line = index_line(note, now);
            let longer = measure.and(Measure::of(&line));
            if lines.len() == most || !self.allows(longer, titles_budget) {
                break;
            }
            measure = longer;
            lines.push((note, line));
        }
        if lines.is_empty() || self.add(heading) == Added::No {
            return;
        }
        for (note, mut line) in lines {
            let detail = detail_line(note);
            let longer = measure.and(Measure::of(&detail));
            let extent = if self.allows(longer, self.budget) {
                measure = longer;
                line.push_str(&detail);
                InjectedExtent::Whole
            } else {
                InjectedExtent::Title
            };
            if self.add(&line) == Added::No {
                break;
            }
            let reason =
                with_warning(format!("importance {}, {}", note.importance.get(), age(note.at, now)), note);
            self.items.push(note.item(extent, reason));
        }
    }

    pub(super) fn entry(&mut self, note: &Note, now: Timestamp, reason: &str, detail: Detail) {
        let mut piece = index_line(note, now);
        let rest = detail_line(note);
        let extent = if detail == Detail::Whole || rest.is_empty() {
            InjectedExtent::Whole
        } else {
            InjectedExtent::Title
        };
        if detail == Detail::Whole {
            piece.push_str(&rest);
        }
        if self.add(&piece) == Added::Yes {
            self.items.push(note.item(extent, reason.to_owned()));
        }
    }

    /// Adds a note in full if it fits, or else its title, or else the beginning of the title.
    pub(super) fn entry_or_title(&mut self, note: &Note, now: Timestamp, reason: &str) {
        let before = self.items.len();
        self.entry(note, now, reason, Detail::Whole);
        let title_only = Note { narrative: String::new(), facts: Vec::new(), ..note.clone() };
        for chars in SHORTER_TITLES {
            if self.items.len() > before {
                return;
            }
            let title = shortened_line(&note.title, chars);
            self.entry(&Note { title, ..title_only.clone() }, now, reason, Detail::Title);
            if let Some(item) = self.items.get_mut(before) {
                item.title.clone_from(&note.title);
                item.extent = InjectedExtent::Title;
            }
        }
    }

    /// Closes the block. A block without items becomes empty.
    pub(super) fn close(mut self) -> Block {
        if (self.items.is_empty() && self.code == Code::None) || self.text.len() == self.preamble {
            return Block::default();
        }
        self.text.push_str(self.closing);
        Block { tokens: self.measure.spent(), text: self.text, items: self.items }
    }
}

/// A title to put behind a heading, or nothing if there is none.
fn after_colon(title: &str) -> String {
    let title = plain(title);
    if title.is_empty() { title } else { format!(": {title}") }
}

/// Returns the sentences of a text that say something new. `shown` has the words of the sentences before.
pub(crate) fn without_repeats(text: &str, shown: &mut Vec<Words>) -> String {
    let mut kept = Vec::new();
    for sentence in sentences(text) {
        let words = Words::of(sentence);
        if shown.iter().any(|shown| shown.covers(&words)) {
            continue;
        }
        shown.push(words);
        kept.push(sentence);
    }
    kept.join(" ")
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    Yes,
    No,
}

impl PassageNote {
    pub(super) fn item(&self) -> BlockItem {
        let mut reason = self.reason.clone();
        if let Some(elsewhere) = &self.elsewhere {
            let _ = write!(reason, "; {elsewhere}");
        }
        if !self.changed.is_empty() {
            let _ = write!(reason, "; {}", changed_since(&self.changed));
        }
        let kind = self.key.document.kind;
        // An observation is one statement as a whole.
        let extent = match kind {
            DocumentKind::Observation => InjectedExtent::Whole,
            _ => InjectedExtent::Passage(self.key.part),
        };
        let named = if self.heading.is_empty() { &self.text } else { &self.heading };
        let title = plain(named).chars().take(LONGEST_TITLE).collect();
        BlockItem { kind: BlockItemKind::Document(kind), id: self.key.document.row, extent, title, reason }
    }
}

pub(super) fn statement_line(statement: &PassageNote, now: Timestamp) -> String {
    let id = match statement.key.document.kind {
        DocumentKind::Observation => format!("#{}", statement.key.document.row),
        _ => statement.key.document.to_string(),
    };
    let (mut heading, text) = (plain(&statement.heading), plain(&statement.text));
    // Drops the heading if the text begins with its title.
    let title = heading.rsplit_once(" (").map_or(heading.as_str(), |(title, _)| title);
    if !title.is_empty() && text.starts_with(title) {
        heading.clear();
    }
    let joint = if heading.is_empty() || text.is_empty() { "" } else { ": " };
    let (age, label) = (age(statement.at, now), statement.label);
    let by = statement.author.as_ref().map(|author| format!(" (by {})", plain(author))).unwrap_or_default();
    let mark = mark(statement.elsewhere.as_ref()) + &mark_of_changed(&statement.changed);
    format!("- {id} {age} {label}{by}{mark}: {heading}{joint}{text}\n")
}

impl Note {
    pub(super) fn item(&self, extent: InjectedExtent, mut reason: String) -> BlockItem {
        if let Some(elsewhere) = &self.elsewhere {
            let _ = write!(reason, "; {elsewhere}");
        }
        if !self.changed.is_empty() {
            let _ = write!(reason, "; {}", changed_since(&self.changed));
        }
        BlockItem {
            kind: BlockItemKind::OBSERVATION,
            id: self.id.0,
            extent,
            title: self.title.clone(),
            reason,
        }
    }
}

fn index_line(note: &Note, now: Timestamp) -> String {
    let full = estimate(&note.title)
        + estimate(&note.narrative)
        + note.facts.iter().map(|fact| estimate(fact)).sum::<u32>();
    let (age, kind, title) = (age(note.at, now), note.kind.as_str(), plain(&note.title));
    let mark = mark(note.elsewhere.as_ref()) + &mark_of_changed(&note.changed);
    let voice = match (&note.author, note.voice) {
        (Some(author), _) => format!(" (by {})", plain(author)),
        (None, None) => String::new(),
        (None, Some(Voice::User)) => " (the user said)".to_owned(),
        (None, Some(Voice::Agent)) => " (an agent noted)".to_owned(),
        (None, Some(Voice::Import)) => " (from an imported file)".to_owned(),
        (None, Some(Voice::Member)) => " (a colleague's note)".to_owned(),
    };
    format!("- #{} {age} {kind}{voice}: {title}{mark} ~{full}\n", note.id)
}

/// For example `src/cart.rs and 2 more have changed since`.
fn changed_since(files: &[String]) -> String {
    match files {
        [] => String::new(),
        [one] => format!("{one} has changed since"),
        [one, rest @ ..] => format!("{one} and {} more have changed since", rest.len()),
    }
}

/// The suffix for notes that may be outdated, because their files have changed since.
fn mark_of_changed(files: &[String]) -> String {
    if files.is_empty() { String::new() } else { format!(" ({})", plain(&changed_since(files))) }
}

/// The suffix for a title whose work is not merged here.
fn mark(elsewhere: Option<&Elsewhere>) -> String {
    elsewhere.map(|elsewhere| format!(" ({})", plain(&elsewhere.to_string()))).unwrap_or_default()
}

fn detail_line(note: &Note) -> String {
    let mut injected = plain(&note.narrative);
    for fact in &note.facts {
        let fact = plain(fact);
        if !fact.is_empty() && !injected.contains(&fact) {
            let _ = write!(injected, "{}{fact}", if injected.is_empty() { "" } else { " " });
        }
    }
    if injected.is_empty() { injected } else { format!("  {injected}\n") }
}

/// Adds to the reason the file that the note warns about, if the branch changes it.
fn with_warning(mut reason: String, note: &Note) -> String {
    if let Some(file) = &note.warns_of {
        let _ = write!(reason, ", about {file}, which this branch changes");
    }
    reason
}
