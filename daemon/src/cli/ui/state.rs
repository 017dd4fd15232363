//! The state of the screen, and how keys, the mouse and answers change it.

use ansi_to_tui::IntoText;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::{Position, Rect};
use ratatui::text::Text;
use recall_protocol::query::{self, ReviewVerdict};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use super::super::failure::Failure;
use super::row::{Row, Target, Validity};
use super::worker::{Ask, MOST_ROWS, ManualChange, Page, ROWS, Rest, Source, WorkerAnswer};

/// The number of rows that one step of the mouse wheel moves.
const WHEEL: isize = 3;
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

/// A list and its selected row.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) source: Source,
    pub(super) rows: Vec<Row>,
    pub(super) selected: usize,
    /// The first row on the screen. Drawing keeps the selected row visible.
    pub(super) top: usize,
    /// The page requested last.
    page: Page,
    pub(super) rest: Rest,
    pub(super) loading: bool,
}

impl Listing {
    fn new(source: Source) -> Self {
        Self {
            source,
            rows: Vec::new(),
            selected: 0,
            top: 0,
            page: Page::First(ROWS),
            rest: Rest::Nothing,
            loading: true,
        }
    }

    fn remove(&mut self, is_gone: impl Fn(&Row) -> bool) {
        self.rows.retain(|row| !is_gone(row));
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
    }

    /// Returns the page that reloads the shown rows.
    fn again(&self) -> Page {
        let shown = u32::try_from(self.rows.len()).unwrap_or(MOST_ROWS);
        match self.page {
            Page::First(limit) => Page::First(limit),
            Page::Next { .. } => Page::First(shown.clamp(ROWS, MOST_ROWS)),
        }
    }

    /// Returns the page after the shown rows; `None` if there is none.
    fn more(&self) -> Option<Page> {
        let last = self.rows.last().filter(|_| self.rest == Rest::More)?;
        if self.source.is_by_time() {
            // Several rows may have the same time.
            let of_it = self.rows.iter().rev().take_while(|row| row.at.0 == last.at.0).count();
            let skip = u32::try_from(of_it).unwrap_or(u32::MAX);
            return Some(Page::Next { until_ms: last.at.0.0 + 1, skip });
        }
        let Page::First(limit) = self.page else { return None };
        (limit < MOST_ROWS).then(|| Page::First((limit * 2).min(MOST_ROWS)))
    }
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

    fn on_key(&mut self, event: &Event, key: KeyEvent) -> Next {
        self.notice.clear();
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Next::Leave;
        }
        if let Some(dialog) = self.dialog.take() {
            return Next::Ask(answer_dialog(dialog, key.code));
        }
        if self.focus == Focus::Query {
            return Next::Ask(self.edit_query(event, key.code));
        }
        if key.code == KeyCode::Char('q') {
            return Next::Leave;
        }
        if key.code == KeyCode::Char('e') {
            return self.edit();
        }
        Next::Ask(self.on_command(key.code))
    }

    fn edit_query(&mut self, event: &Event, key: KeyCode) -> Vec<Ask> {
        match key {
            KeyCode::Esc if !self.input.value().is_empty() => self.new_search(),
            KeyCode::Enter | KeyCode::Down | KeyCode::Esc => {
                self.focus = Focus::List;
                Vec::new()
            }
            KeyCode::Tab => self.next_tab(1),
            KeyCode::BackTab => self.next_tab(Tab::ALL.len() - 1),
            _ => {
                let before = self.input.value().to_owned();
                self.input.handle_event(event);
                if self.input.value() == before {
                    return Vec::new();
                }
                self.lists = vec![Listing::new(Source::Search(self.input.value().to_owned()))];
                vec![self.reload()]
            }
        }
    }

    fn on_command(&mut self, key: KeyCode) -> Vec<Ask> {
        match key {
            KeyCode::Char('?') => self.dialog = Some(Dialog::Help),
            KeyCode::Char('/') => {
                self.focus = Focus::Query;
                return self.new_search();
            }
            KeyCode::Tab => return self.next_tab(1),
            KeyCode::BackTab => return self.next_tab(Tab::ALL.len() - 1),
            KeyCode::Char('a') => {
                self.scope =
                    if self.scope == ShownProjects::All { self.home.clone() } else { ShownProjects::All };
                return self.start_anew();
            }
            KeyCode::Esc if self.focus == Focus::List && self.depth() == 1 && !self.query().is_empty() => {
                return self.new_search();
            }
            KeyCode::Esc | KeyCode::Left | KeyCode::Char('h') => return self.back(),
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => return self.open(),
            KeyCode::Char('t') => return self.open_timeline(),
            KeyCode::Char('T') => return self.open_thread(),
            KeyCode::Char('r') => return self.mark(),
            KeyCode::Char('p') => return self.pin(),
            KeyCode::Char('w') => return self.wrong(),
            KeyCode::Char('y') => return self.judge(ReviewVerdict::Kept),
            KeyCode::Char('x') => return self.judge(ReviewVerdict::Rejected),
            KeyCode::Char('u') => return vec![Ask::Change(ManualChange::Undo)],
            KeyCode::Char('U') => return self.undo_item(),
            KeyCode::Char('f') | KeyCode::Delete => return self.ask_to_forget(),
            KeyCode::Up | KeyCode::Char('k') => return self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => return self.go(1),
            KeyCode::PageUp => return self.go(-self.page()),
            KeyCode::PageDown | KeyCode::Char(' ') => return self.go(self.page()),
            KeyCode::Home | KeyCode::Char('g') => return self.go(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => return self.go(isize::MAX),
            _ => {}
        }
        Vec::new()
    }

    fn on_mouse(&mut self, mouse: MouseEvent) -> Vec<Ask> {
        let place = Position::new(mouse.column, mouse.row);
        let Places { tabs, query, list, detail } = self.places;
        let tab = Tab::ALL.into_iter().zip(tabs).find(|(_, drawn)| drawn.contains(place));
        match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) if tab.is_some() => {
                self.focus = Focus::List;
                tab.map(|(tab, _)| self.show(tab)).unwrap_or_default()
            }
            MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
                let by = if mouse.kind == MouseEventKind::ScrollUp { -WHEEL } else { WHEEL };
                if detail.contains(place) { self.scroll_by(by) } else { self.select_by(by) }
            }
            MouseEventKind::Down(MouseButton::Left) if query.contains(place) => {
                self.focus = Focus::Query;
                if self.is_search() {
                    return Vec::new();
                }
                self.show(Tab::Observations)
            }
            MouseEventKind::Down(MouseButton::Left) if detail.contains(place) => {
                self.focus = Focus::Detail;
                Vec::new()
            }
            MouseEventKind::Down(MouseButton::Left) if list.contains(place) => {
                self.focus = Focus::List;
                let Some(listing) = self.list() else { return Vec::new() };
                let row = listing.top + usize::from(mouse.row - list.y);
                if row >= listing.rows.len() {
                    return Vec::new();
                }
                // A second click on the same row opens it.
                if row == listing.selected { self.open() } else { self.select(row) }
            }
            _ => Vec::new(),
        }
    }

    /// Requests the shown rows again; the old ones stay until the answer arrives.
    fn reload(&mut self) -> Ask {
        let page = self.list().map_or(Page::First(ROWS), Listing::again);
        self.ask_list(page)
    }

    /// Requests the first rows of the same list for another scope.
    fn start_anew(&mut self) -> Vec<Ask> {
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
            Err(error) => self.notice = told(&error),
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

    pub(super) fn on_told(&mut self, told: WorkerAnswer) -> Vec<Ask> {
        match told {
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
fn told(error: &anyhow::Error) -> String {
    let hint = error.downcast_ref::<Failure>().and_then(|failure| failure.hint.as_deref());
    match hint {
        Some(hint) => format!("{error:#}. {hint}"),
        None => format!("{error:#}"),
    }
}

fn answer_dialog(dialog: Dialog, key: KeyCode) -> Vec<Ask> {
    match (dialog, key) {
        (Dialog::Forget { id, .. }, KeyCode::Char('y' | 'Y')) => vec![Ask::Forget { id }],
        _ => Vec::new(),
    }
}

/// Converts the text of an answer, with the command line's styles. Stored texts contain none, because the client
/// removes control characters.
fn styled(text: &[u8]) -> Text<'static> {
    text.into_text().unwrap_or_else(|_| Text::raw(String::from_utf8_lossy(text).into_owned()))
}
