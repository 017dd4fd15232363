//! Words what was selected: titles that stand alone, bodies without repetition, types, summaries.
//!
//! These are pure functions over sentences of the session's own texts. Nothing is invented: a title is a sentence,
//! the beginning of one, or either of them with the name of its subject. The selection of the built-in compressor and
//! the answer of a model pass through the same checks.

mod word;
mod plain;
mod clause;
mod commit;
mod subject;
mod check;
mod faults;
mod title;
mod body;
mod never;
mod prompt;
mod answered;
mod kind;
mod open;
mod summary;
mod injected_line;
mod alone;
mod typed;

pub use alone::alone;
pub(crate) use answered::answered;
pub(crate) use body::body;
pub(crate) use commit::committed_kind;
pub(crate) use faults::{manner, stands_alone, title_faults};
pub use injected_line::injected_line;
pub(crate) use kind::{Typed, holds_beyond, is_step, kind, says_why, standing_kind, valid_kind};
pub(crate) use never::{Never, Within, never};
pub(crate) use open::{
    Progress, is_left, is_open_row, is_settled, names_what_is_done, names_what_is_left, ticked,
};
pub(crate) use plain::plain;
pub(crate) use prompt::{own_words, statement};
pub(crate) use summary::{is_chore, session_title, without_repeats};
pub(crate) use title::{LONGEST_TITLE, clean_title, title};
pub(crate) use typed::{is_report, is_typed, typed_words};
pub(crate) use word::{begins_with_deed, phrases};

/// The source of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceKind {
    /// The agent's final answer of a turn.
    Answer,
    Commit,
    /// The text of a pull request, an issue, a release or a comment on one.
    PullRequest,
    Plan,
    /// A written document that is not a plan.
    Document,
    Prompt,
    /// A plan that was given as a prompt.
    PlanPrompt,
    /// A question of the agent with the user's answer.
    Ask,
    /// A subagent's report.
    Subagent,
    /// A comment newly added to code.
    Comment,
    /// A command that failed.
    Failure,
    /// A command that failed, and the form in which it worked.
    Cure,
    /// A task that was postponed, or is for somebody else.
    Task,
}

/// The maximum length of a fact, in characters. A longer entry becomes a sentence of the narrative.
const LONGEST_FACT: usize = 140;

/// A selected sentence or list entry, in the order of its text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece<'a> {
    pub text: &'a str,
    /// The nearest heading above it.
    pub heading: Option<&'a str>,
    /// The line that introduces its list, or the entry above it.
    pub lead: Option<&'a str>,
    /// Its importance, from about 0 to 2.
    pub salience: f32,
    pub source: SourceKind,
    /// Whether it is open work.
    pub progress: Progress,
}

impl<'a> Piece<'a> {
    /// Its subject according to the text above it: a name, not a sentence and not a single word such as `Use`.
    fn about(&self) -> Option<&'a str> {
        let names = |lead: &&str| {
            lead.split_whitespace().any(word::is_identifier)
                || lead.contains(' ') && clause::opening(lead) == clause::Opening::Fragment
        };
        self.lead.filter(names).or(self.heading)
    }
}
