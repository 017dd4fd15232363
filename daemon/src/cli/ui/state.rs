//! The state of the screen, and how keys, the mouse and answers change it.

mod input;
mod listing;

use ansi_to_tui::IntoText;
use ratatui::crossterm::event::{Event, KeyEventKind, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;
use ratatui::text::Text;
use recall_protocol::query::{self, ReviewVerdict};
use tui_input::Input;

use super::super::failure::Failure;
use super::row::{Row, Target, Validity};
use super::worker::{Ask, ManualChange, Page, ROWS, Rest, Source, WorkerAnswer};
pub(super) use listing::Listing;

/// More rows are requested this many rows before the end, so that they arrive in time.
const AHEAD: usize = 100;

/// Which projects are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShownProjects {
    /// The project of this folder.
    Project(String),
    All,
}

/// The content of the first list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Observations,
    Sessions,
    Threads,
    /// Observations that nobody has reviewed.
    Review,
}

impl Tab {
    pub(super) const ALL: [Self; 4] = [Self::Observations, Self::Sessions, Self::Threads, Self::Review];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Observations => "Observations",
            Self::Sessions => "Sessions",
            Self::Threads => "Threads",
            Self::Review => "Review",
        }
    }
}

/// The part of the screen that receives keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Query,
    List,
    Detail,
}

/// The dialog over the screen.
#[derive(Debug)]
pub(super) enum Dialog {
    Help,
    /// Asks before an item is forgotten.
    Forget {
        id: String,
        text: Text<'static>,
    },
}

/// Where the parts were last drawn, for the mouse.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub(super) tabs: [Rect; Tab::ALL.len()],
    pub(super) query: Rect,
    pub(super) list: Rect,
    pub(super) detail: Rect,
}

/// The result of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Ask(Vec<Ask>),
    /// Give the terminal to the editor until this observation is written.
    Edit(i64),
    Leave,
}

#[derive(Debug)]
pub(super) struct Ui {
    scope: ShownProjects,
    /// The scope to which `a` switches back.
    home: ShownProjects,
    pub(super) input: Input,
    pub(super) focus: Focus,
    /// The lists that were opened from one another; the last is shown.
    lists: Vec<Listing>,
    pub(super) detail: Text<'static>,
    pub(super) scroll: u16,
    pub(super) dialog: Option<Dialog>,
    /// One line about the last event.
    pub(super) notice: String,
    pub(super) places: Places,
    /// The numbers of the last requested list and of the last detail.
    list_ticket: u64,
    detail_ticket: u64,
}

impl Ui {
    pub(super) fn new(scope: ShownProjects, words: &str) -> Self {
        Self {
            home: scope.clone(),
            scope,
            input: Input::new(words.to_owned()),
            focus: Focus::Query,
            lists: vec![Listing::new(Source::Search(words.to_owned()))],
            detail: Text::default(),
            scroll: 0,
            dialog: None,
            notice: String::new(),
            places: Places::default(),
            list_ticket: 0,
            detail_ticket: 0,
        }
    }

    /// Creates the screen that opens on what awaits review.
    pub(super) fn for_review(scope: ShownProjects) -> Self {
        Self { focus: Focus::List, lists: vec![Listing::new(Source::Review)], ..Self::new(scope, "") }
    }

    /// Returns the requests of an empty screen.
    pub(super) fn first(&mut self) -> Vec<Ask> {
        vec![self.reload()]
    }

    pub(super) fn list(&self) -> Option<&Listing> {
        self.lists.last()
    }

    pub(super) fn list_mut(&mut self) -> Option<&mut Listing> {
        self.lists.last_mut()
    }

    pub(super) fn depth(&self) -> usize {
        self.lists.len()
    }

    pub(super) fn tab(&self) -> Tab {
        match self.lists.first().map(|list| &list.source) {
            Some(Source::Sessions) => Tab::Sessions,
            Some(Source::Threads) => Tab::Threads,
            Some(Source::Review) => Tab::Review,
            _ => Tab::Observations,
        }
    }

    /// Whether the shown list is the result of the query.
    fn is_search(&self) -> bool {
        matches!(self.list().map(|list| &list.source), Some(Source::Search(_)))
    }

    /// Returns the query of the shown list; empty for lists that are not a search.
    pub(super) fn query(&self) -> &str {
        if self.is_search() { self.input.value() } else { "" }
    }

    /// Starts an empty search, which lists the newest observations.
    fn new_search(&mut self) -> Vec<Ask> {
        self.input = Input::default();
        self.show(Tab::Observations)
    }

    pub(super) fn scope(&self) -> &ShownProjects {
        &self.scope
    }

    fn selected(&self) -> Option<&Row> {
        self.list().and_then(|list| list.rows.get(list.selected))
    }

    pub(super) fn on_event(&mut self, event: &Event) -> Next {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.on_key(event, *key),
            Event::Mouse(mouse) if self.dialog.is_none() => Next::Ask(self.on_mouse(*mouse)),
            // A click answers no question but closes its dialog.
            Event::Mouse(MouseEvent { kind: MouseEventKind::Down(_), .. }) => {
                self.dialog = None;
                Next::Ask(Vec::new())
            }
            _ => Next::Ask(Vec::new()),
        }
    }

    /// Requests the shown rows again; the old ones stay until the answer arrives.
    fn reload(&mut self) -> Ask {
        let page = self.list().map_or(Page::First(ROWS), Listing::again);
        self.ask_list(page)
    }

    /// Requests the first rows of the same list for another scope.
    fn ask_first_page(&mut self) -> Vec<Ask> {
        vec![self.ask_list(Page::First(ROWS))]
    }

    fn ask_list(&mut self, page: Page) -> Ask {
        self.list_ticket += 1;
        let project = match &self.scope {
            ShownProjects::Project(folder) => Some(folder.clone()),
            ShownProjects::All => None,
        };
        let ticket = self.list_ticket;
        let source = self.lists.last_mut().map_or(Source::Sessions, |list| {
            list.loading = true;
            list.page = page;
            list.source.clone()
        });
        Ask::List { ticket, source, project, page }
    }

    fn show(&mut self, tab: Tab) -> Vec<Ask> {
        let source = match tab {
            Tab::Observations => Source::Search(self.input.value().to_owned()),
            Tab::Sessions => Source::Sessions,
            Tab::Threads => Source::Threads,
            Tab::Review => Source::Review,
        };
        self.lists = vec![Listing::new(source)];
        vec![self.reload()]
    }

    fn next_tab(&mut self, by: usize) -> Vec<Ask> {
        let place = Tab::ALL.iter().position(|tab| *tab == self.tab()).unwrap_or_default() + by;
        let tab = Tab::ALL.into_iter().cycle().nth(place).unwrap_or(Tab::Observations);
        self.focus = Focus::List;
        self.show(tab)
    }

    fn back(&mut self) -> Vec<Ask> {
        if self.focus == Focus::Detail {
            self.focus = Focus::List;
            return Vec::new();
        }
        if self.lists.len() > 1 {
            self.lists.pop();
            // Answers still in transit are outdated.
            if let Some(list) = self.list_mut() {
                list.loading = false;
            }
            return self.ask_detail();
        }
        Vec::new()
    }

    fn open(&mut self) -> Vec<Ask> {
        match self.selected().and_then(|row| row.target.clone()) {
            Some(Target::Session(id)) => self.open_list(Source::Session(id)),
            Some(Target::Thread(id)) => self.open_list(Source::Thread(id)),
            Some(Target::Item(_)) => {
                self.focus = Focus::Detail;
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn open_list(&mut self, source: Source) -> Vec<Ask> {
        self.focus = Focus::List;
        self.lists.push(Listing::new(source));
        vec![self.reload()]
    }

    fn open_timeline(&mut self) -> Vec<Ask> {
        let Some(Target::Item(id)) = self.selected().and_then(|row| row.target.clone()) else {
            self.notice = "Select an item to see what happened around it".into();
            return Vec::new();
        };
        self.open_list(Source::Around(id))
    }

    fn open_thread(&mut self) -> Vec<Ask> {
        let Some(id) = self.selected().and_then(|row| row.observation) else {
            self.notice = "Select an observation to see its thread".into();
            return Vec::new();
        };
        self.open_list(Source::Thread(id))
    }

    fn pin(&mut self) -> Vec<Ask> {
        let Some(id) = self.selected().and_then(|row| row.observation) else {
            self.notice = "Only an observation can be pinned".into();
            return Vec::new();
        };
        vec![Ask::Change(ManualChange::Pin { id })]
    }

    fn undo_item(&mut self) -> Vec<Ask> {
        let Some(id) = self.selected().and_then(|row| row.observation) else {
            self.notice = "Select the observation whose last change to undo".into();
            return Vec::new();
        };
        vec![Ask::Change(ManualChange::UndoOf { id })]
    }

    fn judge(&mut self, verdict: ReviewVerdict) -> Vec<Ask> {
        let Some(id) = self.selected().and_then(|row| row.observation) else {
            self.notice = "Only an observation can be kept or rejected".into();
            return Vec::new();
        };
        vec![Ask::Change(ManualChange::Judge { id, verdict })]
    }

    fn edit(&mut self) -> Next {
        match self.selected().and_then(|row| row.observation) {
            Some(id) => Next::Edit(id),
            None => {
                self.notice = "Only an observation can be edited".into();
                Next::Ask(Vec::new())
            }
        }
    }

    /// Handles the end of the editor.
    pub(super) fn on_edited(&mut self, outcome: anyhow::Result<String>) -> Vec<Ask> {
        match outcome {
            Ok(notice) => self.notice = notice,
            Err(error) => self.notice = format_failure(&error),
        }
        vec![self.reload()]
    }

    fn mark(&mut self) -> Vec<Ask> {
        let marked = self.selected().and_then(|row| Some((row.observation?, row.validity)));
        let Some((id, validity)) = marked else {
            self.notice = "Only an observation can be resolved".into();
            return Vec::new();
        };
        let validity = match validity {
            Validity::Holds => query::Validity::Resolved,
            Validity::Past => query::Validity::Active,
        };
        vec![Ask::Change(ManualChange::Mark { id, validity })]
    }

    /// Marks an item as wrongly injected.
    fn wrong(&mut self) -> Vec<Ask> {
        match self.selected().and_then(|row| row.target.clone()) {
            Some(Target::Item(id)) => vec![Ask::Change(ManualChange::Wrong { id })],
            Some(Target::Thread(id)) => vec![Ask::Change(ManualChange::Wrong { id: id.to_string() })],
            _ => {
                self.notice = "Select the item that should not have been injected".into();
                Vec::new()
            }
        }
    }

    fn ask_to_forget(&mut self) -> Vec<Ask> {
        match self.selected().and_then(|row| row.target.clone()) {
            Some(Target::Item(id)) => vec![Ask::PreviewForget { id }],
            Some(Target::Thread(id)) => vec![Ask::PreviewForget { id: id.to_string() }],
            _ => {
                self.notice = "Open the session and select what to forget".into();
                Vec::new()
            }
        }
    }

    fn page(&self) -> isize {
        let place = if self.focus == Focus::Detail { self.places.detail } else { self.places.list };
        isize::try_from(place.height.max(2) - 1).unwrap_or(1)
    }

    fn go(&mut self, by: isize) -> Vec<Ask> {
        if self.focus == Focus::Detail { self.scroll_by(by) } else { self.select_by(by) }
    }

    fn scroll_by(&mut self, by: isize) -> Vec<Ask> {
        // Only drawing knows the length of the wrapped text, so it limits the scrolling.
        let scrolled =
            isize::try_from(self.scroll).unwrap_or(0).saturating_add(by).clamp(0, u16::MAX as isize);
        self.scroll = u16::try_from(scrolled).unwrap_or(u16::MAX);
        Vec::new()
    }

    fn select_by(&mut self, by: isize) -> Vec<Ask> {
        let Some(list) = self.list() else { return Vec::new() };
        self.select(list.selected.saturating_add_signed(by))
    }

    fn select(&mut self, row: usize) -> Vec<Ask> {
        let Some(list) = self.list_mut() else { return Vec::new() };
        let row = row.min(list.rows.len().saturating_sub(1));
        if row == list.selected {
            return Vec::new();
        }
        list.selected = row;
        let mut asked = self.ask_detail();
        asked.extend(self.ask_for_more());
        asked
    }

    /// Requests more rows near the end of a list that continues.
    fn ask_for_more(&mut self) -> Option<Ask> {
        let list = self.list().filter(|list| !list.loading && list.selected + AHEAD >= list.rows.len())?;
        let page = list.more()?;
        Some(self.ask_list(page))
    }

    fn ask_detail(&mut self) -> Vec<Ask> {
        self.detail_ticket += 1;
        self.scroll = 0;
        let ticket = self.detail_ticket;
        match self.selected().and_then(|row| row.target.clone()) {
            Some(target) => vec![Ask::Detail { ticket, target }],
            None => {
                self.detail = Text::default();
                Vec::new()
            }
        }
    }

    pub(super) fn on_answer(&mut self, answer: WorkerAnswer) -> Vec<Ask> {
        match answer {
            WorkerAnswer::List { ticket, rows, rest } if ticket == self.list_ticket => {
                self.take_rows(rows, rest)
            }
            WorkerAnswer::Detail { ticket, text } if ticket == self.detail_ticket => {
                self.detail = styled(&text);
                Vec::new()
            }
            // A newer request has replaced this one.
            WorkerAnswer::List { .. } | WorkerAnswer::Detail { .. } => Vec::new(),
            WorkerAnswer::Preview { id, text } => {
                self.dialog = Some(Dialog::Forget { id, text: styled(&text) });
                Vec::new()
            }
            WorkerAnswer::Changed { notice, of: Some((id, validity)) } => {
                self.notice = notice;
                let rows = self.lists.iter_mut().flat_map(|list| &mut list.rows);
                rows.filter(|row| row.observation == Some(id)).for_each(|row| row.validity = validity);
                // Either way, a person has reviewed it. The next one moves up.
                let reviewed = self.lists.iter_mut().filter(|list| list.source == Source::Review);
                reviewed.for_each(|list| list.remove(|row| row.observation == Some(id)));
                let mut asked = self.ask_detail();
                asked.extend(self.ask_for_more());
                asked
            }
            // The undone change may be anywhere.
            WorkerAnswer::Changed { notice, of: None } => {
                self.notice = notice;
                vec![self.reload()]
            }
            WorkerAnswer::Forgotten { id, counts } => {
                self.notice = format!("Forgotten: {counts}");
                let gone = Some(Target::Item(id));
                self.lists.iter_mut().for_each(|list| list.remove(|row| row.target == gone));
                self.ask_detail()
            }
            WorkerAnswer::Failed(what) => {
                self.notice = what;
                if let Some(list) = self.list_mut() {
                    list.loading = false;
                }
                Vec::new()
            }
        }
    }

    fn take_rows(&mut self, rows: Vec<Row>, rest: Rest) -> Vec<Ask> {
        let Some(list) = self.list_mut() else { return Vec::new() };
        list.loading = false;
        list.rest = rest;
        if let Page::Next { .. } = list.page {
            let was_empty = list.rows.is_empty();
            list.rows.extend(rows);
            return if was_empty { self.ask_detail() } else { Vec::new() };
        }
        // A timeline opens at its item.
        let start = match &list.source {
            Source::Around(id) if list.rows.is_empty() => {
                let is_it = |row: &Row| row.target == Some(Target::Item(id.clone()));
                rows.iter().position(is_it).unwrap_or(0)
            }
            _ => list.selected,
        };
        list.selected = start.min(rows.len().saturating_sub(1));
        list.rows = rows;
        self.ask_detail()
    }
}

/// Formats a failure in one line, with the next step.
fn format_failure(error: &anyhow::Error) -> String {
    let hint = error.downcast_ref::<Failure>().and_then(|failure| failure.hint.as_deref());
    match hint {
        Some(hint) => format!("{error:#}. {hint}"),
        None => format!("{error:#}"),
    }
}

/// Converts the text of an answer, with the command line's styles. Stored texts contain none, because the client
/// removes control characters.
fn styled(text: &[u8]) -> Text<'static> {
    text.into_text().unwrap_or_else(|_| Text::raw(String::from_utf8_lossy(text).into_owned()))
}
