//! What a key or the mouse does.

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;
use recall_protocol::query::ReviewVerdict;
use tui_input::backend::crossterm::EventHandler;

use super::super::worker::{Ask, ManualChange, Source};
use super::{Dialog, Focus, Listing, Next, Places, ShownProjects, Tab, Ui};

/// The number of rows that one step of the mouse wheel moves.
const WHEEL: isize = 3;
impl Ui {
    pub(super) fn on_key(&mut self, event: &Event, key: KeyEvent) -> Next {
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
                return self.ask_first_page();
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

    pub(super) fn on_mouse(&mut self, mouse: MouseEvent) -> Vec<Ask> {
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
}

fn answer_dialog(dialog: Dialog, key: KeyCode) -> Vec<Ask> {
    match (dialog, key) {
        (Dialog::Forget { id, .. }, KeyCode::Char('y' | 'Y')) => vec![Ask::Forget { id }],
        _ => Vec::new(),
    }
}
