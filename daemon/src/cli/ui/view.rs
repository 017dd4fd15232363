//! Draws the screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use super::row::{Row, Validity};
use super::state::{Dialog, Focus, Listing, Places, ShownProjects, Tab, Ui};
use super::worker::{Rest, Source};
use recall_domain::ids::Timestamp;

/// From this width on, the detail is beside the list instead of below it.
const BESIDE_FROM: u16 = 110;
/// From this width on, the help has two columns.
const TWO_COLUMNS_FROM: u16 = 80;
const ID_WIDTH: usize = 7;
const AGE_WIDTH: usize = 4;
const KIND_WIDTH: usize = 11;
/// The text before the tabs, and the text between them.
const NAME: &str = " recall  ";
const GAP: &str = "  ";

/// The keys, in two columns if they fit.
const KEYS: [[(&str, &str); 10]; 2] = [
    [
        ("/", "a new search"),
        ("↑ ↓ j k", "move"),
        ("Enter →", "open, or read the detail"),
        ("Esc ←", "back, or clear the search"),
        ("g G", "first, last"),
        ("Space", "a page down"),
        ("Tab", "the next tab"),
        ("a", "this project or all"),
        ("u U", "undo yours, this item's"),
        ("q", "leave"),
    ],
    [
        ("t", "timeline around the item"),
        ("T", "thread of the observation"),
        ("y", "keep: mark as reviewed"),
        ("x", "reject: never inject it"),
        ("r", "resolve or reopen"),
        ("p", "pin or unpin"),
        ("w", "mark as wrongly injected"),
        ("e", "edit in $EDITOR"),
        ("f", "forget"),
        ("?", "this help"),
    ],
];
const QUERY_HELP: &str = "A search takes \"phrases\", -without, type: kind: file: project: since:";

fn help(width: u16) -> String {
    let [first, second] = KEYS;
    let line = |(key, what): (&str, &str)| format!("{key:<9}{what}");
    let lines: Vec<String> = if width >= TWO_COLUMNS_FROM {
        first
            .into_iter()
            .zip(second)
            .map(|(left, right)| format!("{:<37}{}", line(left), line(right)))
            .collect()
    } else {
        first.into_iter().chain(second).filter(|(key, _)| !key.is_empty()).map(line).collect()
    };
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    format!("{}\n\n{QUERY_HELP}", lines.join("\n"))
}

pub(super) fn draw(frame: &mut Frame, ui: &mut Ui, now: Timestamp) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(3), Constraint::Length(1)])
            .areas(frame.area());
    let beside = body.width >= BESIDE_FROM;
    let [list, detail] = if beside {
        Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(body)
    } else {
        Layout::vertical([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(body)
    };
    let border = Block::new().borders(if beside { Borders::LEFT } else { Borders::TOP }).border_style(
        if ui.focus == Focus::Detail { Style::new().fg(Color::Cyan) } else { Style::new().dim() },
    );
    let inside = border.inner(detail);
    ui.places = Places { tabs: tabs(head), query: head, list, detail: inside };

    draw_head(frame, ui, head);
    draw_list(frame, ui, list, now);
    frame.render_widget(border, detail);
    draw_detail(frame, ui, inside);
    draw_foot(frame, ui, foot);
    match &ui.dialog {
        Some(Dialog::Help) => draw_dialog(frame, "Keys", Text::raw(help(frame.area().width))),
        Some(Dialog::Forget { text, .. }) => {
            let mut text = text.clone();
            text.push_line(Line::raw(""));
            text.push_line(Line::from("Forget this permanently? y: yes, any other key: no").bold());
            draw_dialog(frame, "Forget", text);
        }
        None => {}
    }
}

/// Returns the positions of the tabs, for the mouse.
fn tabs(head: Rect) -> [Rect; Tab::ALL.len()] {
    let mut left = head.x + width_of(NAME);
    Tab::ALL.map(|tab| {
        let (start, width) = (left, width_of(tab.name()));
        left += width + width_of(GAP);
        Rect { x: start, y: head.y, width, height: 1 }.intersection(head)
    })
}

fn width_of(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

fn draw_head(frame: &mut Frame, ui: &Ui, area: Rect) {
    let [tabs, query] = Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(area);
    let scope = match ui.scope() {
        ShownProjects::All => "all projects".to_owned(),
        ShownProjects::Project(folder) => folder.rsplit('/').next().unwrap_or(folder).to_owned(),
    };
    let place = match ui.list().map(|list| &list.source) {
        Some(Source::Around(id)) => format!("  timeline around {id}"),
        Some(Source::Session(id)) => format!("  session {}", id.get(..8).unwrap_or(id)),
        Some(Source::Thread(id)) => format!("  thread of #{id}"),
        _ => String::new(),
    };
    let mut title = vec![Span::from(NAME).bold().cyan()];
    for tab in Tab::ALL {
        let name = Span::from(tab.name());
        title.push(if tab == ui.tab() { name.bold().underlined() } else { name.dim() });
        title.push(Span::from(GAP));
    }
    title.push(Span::from(place).cyan());
    let title = Line::from(title);
    let taken = title.width();
    frame.render_widget(title, tabs);
    let scope = format!("{scope} ");
    // If both do not fit, the scope is more useful.
    if taken + scope.width() < usize::from(tabs.width) {
        frame.render_widget(Line::from(scope).dim().right_aligned(), tabs);
    }

    let prompt = "  / ";
    let room = usize::from(query.width).saturating_sub(prompt.len() + 1);
    let scroll = ui.input.visual_scroll(room);
    let words = Paragraph::new(ui.query()).scroll((0, u16::try_from(scroll).unwrap_or(0)));
    let [mark, text] =
        Layout::horizontal([Constraint::Length(prompt.len() as u16), Constraint::Min(1)]).areas(query);
    let active = ui.focus == Focus::Query;
    frame.render_widget(
        Span::from(prompt).style(if active { Style::new().cyan().bold() } else { Style::new().dim() }),
        mark,
    );
    if ui.query().is_empty() {
        frame.render_widget(Span::from("search").dim(), text);
    } else {
        frame.render_widget(words, text);
    }
    if active && ui.dialog.is_none() {
        let column = ui.input.visual_cursor().saturating_sub(scroll);
        frame.set_cursor_position(Position::new(text.x + u16::try_from(column).unwrap_or(0), text.y));
    }
}

fn draw_list(frame: &mut Frame, ui: &mut Ui, area: Rect, now: Timestamp) {
    let words: Vec<String> = marked_words(ui.query());
    let (scope, focused) = (ui.scope().clone(), ui.focus != Focus::Detail);
    let Some(list) = ui.list_mut() else { return };
    let height = usize::from(area.height);
    list.top = list.top.clamp((list.selected + 1).saturating_sub(height), list.selected);
    if list.rows.is_empty() {
        frame.render_widget(Paragraph::new(nothing(list)).dim().wrap(Wrap { trim: true }), area);
        return;
    }
    let width = usize::from(area.width);
    let selected = list.selected;
    let shown = list.rows.iter().enumerate().skip(list.top).take(height);
    let lines = shown.map(|(place, row)| {
        let line = row_line(row, width, now, &words, &scope);
        match (place == selected, focused) {
            (true, true) => line.style(Style::new().add_modifier(Modifier::REVERSED)),
            (true, false) => line.style(Style::new().add_modifier(Modifier::BOLD)),
            (false, _) => line,
        }
    });
    frame.render_widget(Text::from_iter(lines), area);
}

fn nothing(list: &Listing) -> &'static str {
    match (&list.source, list.loading) {
        (_, true) => "  …",
        (Source::Search(words), false) if words.trim().is_empty() => {
            "  Nothing is stored here yet. Work with a connected agent (`recall install`), or press a for all projects."
        }
        (Source::Search(_), false) => "  Nothing found. Press a to search all projects.",
        (Source::Review, false) => "  Nothing waits for a review here. Press a for all projects.",
        (Source::Threads, false) => {
            "  No threads yet. They appear when a later session says something new on a subject."
        }
        (_, false) => "  Nothing here yet. Press a for all projects.",
    }
}

fn row_line(
    row: &Row,
    width: usize,
    now: Timestamp,
    words: &[String],
    scope: &ShownProjects,
) -> Line<'static> {
    let mut spans = vec![
        Span::from(format!("{:>AGE_WIDTH$} ", age(now, row.at.0))).dim(),
        Span::from(format!("{:<KIND_WIDTH$.KIND_WIDTH$} ", row.kind)).style(kind_style(&row.kind)),
    ];
    if !row.id.is_empty() {
        spans.insert(0, Span::from(format!("{:>ID_WIDTH$} ", row.id)).cyan());
    }
    if *scope == ShownProjects::All && !row.project.is_empty() {
        spans.push(Span::from(format!("{}: ", row.project)).dim());
    }
    let taken: usize = spans.iter().map(Span::width).sum();
    let title = clipped(&row.title, width.saturating_sub(taken));
    match row.validity {
        Validity::Past => spans.push(Span::from(title).dim().crossed_out()),
        Validity::Holds => spans.extend(with_marks(&title, words)),
    }
    Line::from(spans)
}

fn kind_style(kind: &str) -> Style {
    match kind {
        "bugfix" | "gotcha" | "security" => Style::new().fg(Color::Red),
        "decision" | "trade_off" | "preference" | "correction" => Style::new().fg(Color::Yellow),
        "feature" | "refactor" | "change" | "completed" => Style::new().fg(Color::Green),
        "active" | "next_step" => Style::new().fg(Color::Magenta),
        _ => Style::new().fg(Color::Blue),
    }
}

/// Returns the plain words of a query, in lower case, as a title may contain them.
fn marked_words(query: &str) -> Vec<String> {
    let plain = |word: &&str| word.len() > 1 && !word.starts_with('-') && !word.contains(':');
    query.split(|c: char| c.is_whitespace() || c == '"').filter(plain).map(str::to_lowercase).collect()
}

/// Returns the title in spans, with the words of the query emphasised.
fn with_marks(title: &str, words: &[String]) -> Vec<Span<'static>> {
    let lower = title.to_lowercase();
    // If lower case changes the length, positions in the two texts differ.
    if words.is_empty() || lower.len() != title.len() {
        return vec![Span::from(title.to_owned())];
    }
    let mut spans = Vec::new();
    let mut rest = 0;
    while let Some((start, end)) = next_mark(&lower, rest, words) {
        let (Some(before), Some(mark)) = (title.get(rest..start), title.get(start..end)) else { break };
        spans.push(Span::from(before.to_owned()));
        spans.push(Span::from(mark.to_owned()).bold().yellow());
        rest = end;
    }
    spans.extend(title.get(rest..).map(|tail| Span::from(tail.to_owned())));
    spans
}

/// Returns the first occurrence of a word at or after `from`.
fn next_mark(lower: &str, from: usize, words: &[String]) -> Option<(usize, usize)> {
    let tail = lower.get(from..)?;
    let found = words.iter().filter_map(|word| tail.find(word.as_str()).map(|at| (from + at, word.len())));
    found.min_by_key(|(at, length)| (*at, usize::MAX - length)).map(|(at, length)| (at, at + length))
}

/// Returns at most `width` columns; a shortened text ends with an ellipsis.
fn clipped(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    for character in text.chars() {
        short.push(character);
        if short.width() >= width {
            short.pop();
            break;
        }
    }
    short.push('…');
    short
}

/// Formats the age as one number and one letter.
pub(in crate::cli) fn age(now: Timestamp, at: Timestamp) -> String {
    let minutes = now.0.saturating_sub(at.0).max(0) / 60_000;
    match minutes {
        0 => "now".into(),
        1..60 => format!("{minutes}m"),
        60..1440 => format!("{}h", minutes / 60),
        1440..20_160 => format!("{}d", minutes / 1440),
        20_160..525_600 => format!("{}w", minutes / 10_080),
        _ => format!("{}y", minutes / 525_600),
    }
}

fn draw_detail(frame: &mut Frame, ui: &mut Ui, area: Rect) {
    let text = Paragraph::new(ui.detail.clone()).wrap(Wrap { trim: false });
    let lines: usize =
        ui.detail.lines.iter().map(|line| line.width().div_ceil(usize::from(area.width.max(1))).max(1)).sum();
    let most = lines.saturating_sub(usize::from(area.height).min(lines));
    ui.scroll = ui.scroll.min(u16::try_from(most).unwrap_or(u16::MAX));
    frame.render_widget(text.scroll((ui.scroll, 0)), area);
}

fn draw_foot(frame: &mut Frame, ui: &Ui, area: Rect) {
    if !ui.notice.is_empty() {
        frame.render_widget(Line::from(format!(" {}", ui.notice)).yellow(), area);
        return;
    }
    let count = ui.list().filter(|list| !list.rows.is_empty());
    let count = count.map(|list| {
        let more = if list.rest == Rest::More { "+" } else { "" };
        format!(" {}/{}{more} ", list.selected + 1, list.rows.len())
    });
    let count = count.unwrap_or_default();
    let keys = match ui.focus {
        Focus::Query => " type to search  Esc clear  ↓ list  Tab switch  Ctrl-C leave",
        Focus::List if ui.depth() == 1 && ui.tab() == Tab::Review => {
            " y keep  x reject  e edit  p pin  u undo  Enter open  ? help  q leave"
        }
        Focus::Detail if ui.depth() == 1 && ui.tab() == Tab::Review => {
            " ↑↓ scroll  Esc back  y keep  x reject  e edit  p pin  ? help  q leave"
        }
        Focus::List if ui.depth() > 1 => " Enter open  Esc back  T thread  r resolve  p pin  ? help  q leave",
        Focus::List => " / search  Enter open  Tab switch  a all  t timeline  ? help  q leave",
        Focus::Detail => " ↑↓ scroll  Esc back  t timeline  r resolve  p pin  ? help  q leave",
    };
    let [left, right] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(u16::try_from(count.len()).unwrap_or(0))])
            .areas(area);
    frame.render_widget(Line::from(clipped(keys, usize::from(left.width))).dim(), left);
    frame.render_widget(Line::from(count).dim(), right);
}

fn draw_dialog(frame: &mut Frame, title: &'static str, text: Text<'static>) {
    let area = frame.area();
    let width = u16::try_from(text.width() + 4).unwrap_or(u16::MAX).min(area.width.saturating_sub(4)).max(20);
    let inside = usize::from(width.saturating_sub(4)).max(1);
    let lines: usize = text.lines.iter().map(|line| line.width().div_ceil(inside).max(1)).sum();
    let height = u16::try_from(lines + 2).unwrap_or(u16::MAX).min(area.height);
    let place = area.centered(Constraint::Length(width), Constraint::Length(height));
    let block = Block::bordered().title(title).padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }).block(block), place);
}
