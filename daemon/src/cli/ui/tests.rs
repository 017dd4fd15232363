use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use recall_protocol::query::{self, ReviewVerdict};

use super::super::failure::Failure;
use super::row::{Row, Target, Validity};
use super::state::{Dialog, Focus, Next, ShownProjects, Tab, Ui};
use super::view;
use super::worker::{Ask, MOST_ROWS, ManualChange, Page, ROWS, Rest, Source, WorkerAnswer, newest};
use recall_app::answers::Moment;
use recall_domain::ids::Timestamp;

const NOW: Timestamp = Timestamp(1_790_000_000_000);
const HOUR: i64 = 3_600_000;

fn row(id: i64, hours: i64, kind: &str, title: &str, validity: Validity) -> Row {
    Row {
        target: Some(Target::Item(id.to_string())),
        id: format!("#{id}"),
        at: Moment(Timestamp(NOW.0 - hours * HOUR)),
        kind: kind.into(),
        title: title.into(),
        project: "shop".into(),
        validity,
        observation: Some(id),
    }
}

fn rows() -> Vec<Row> {
    vec![
        row(
            3,
            2,
            "bugfix",
            "Cart totals round once, after the discount is subtracted from the sum of all lines",
            Validity::Holds,
        ),
        row(2, 50, "decision", "Cart prices are integers in cents — 価格は整数", Validity::Past),
        row(1, 9000, "discovery", "The tax table is loaded at the first request", Validity::Holds),
    ]
}

fn session() -> Row {
    Row {
        target: Some(Target::Session("76fb-long".into())),
        id: String::new(),
        observation: None,
        ..row(0, 1, "completed", "Fix the discount", Validity::Holds)
    }
}

fn key(code: KeyCode) -> Event {
    Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[track_caller]
fn press(ui: &mut Ui, code: KeyCode) -> Vec<Ask> {
    match ui.on_event(&key(code)) {
        Next::Ask(requests) => requests,
        other => panic!("{other:?}"),
    }
}

fn type_text(ui: &mut Ui, text: &str) -> Vec<Ask> {
    text.chars().flat_map(|letter| press(ui, KeyCode::Char(letter))).collect()
}

/// Answers the last list request.
#[track_caller]
fn give(ui: &mut Ui, asked: &[Ask], rows: Vec<Row>) -> Vec<Ask> {
    give_part(ui, asked, rows, Rest::Nothing)
}

#[track_caller]
fn give_part(ui: &mut Ui, asked: &[Ask], rows: Vec<Row>, rest: Rest) -> Vec<Ask> {
    let ticket = asked.iter().find_map(|ask| match ask {
        Ask::List { ticket, .. } => Some(*ticket),
        _ => None,
    });
    ui.on_answer(WorkerAnswer::List { ticket: ticket.expect("no list was asked for"), rows, rest })
}

/// Returns the screen after a search for `cart`, with the list in focus.
fn found() -> Ui {
    let mut ui = Ui::new(ShownProjects::Project("/home/me/shop".into()), "");
    ui.first();
    let asked = type_text(&mut ui, "cart");
    give(&mut ui, asked.get(3..).unwrap(), rows());
    press(&mut ui, KeyCode::Enter);
    ui
}

fn screen(ui: &mut Ui, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, ui, NOW)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn every_letter_starts_a_search_and_only_the_last_result_is_shown() {
    let mut ui = Ui::new(ShownProjects::Project("/home/me/shop".into()), "");
    ui.first();
    let asked = type_text(&mut ui, "ca");
    let source = |words: &str| Source::Search(words.into());
    assert!(
        matches!(&asked[..], [Ask::List { source: first, .. }, Ask::List { source: second, project: Some(folder), .. }]
        if *first == source("c") && *second == source("ca") && folder == "/home/me/shop")
    );
    assert_eq!(give(&mut ui, &asked[..1], rows()), [], "an answer that came too late is not shown");
    assert!(ui.list().unwrap().rows.is_empty());
    let detail = give(&mut ui, &asked[1..], rows());
    assert!(matches!(&detail[..], [Ask::Detail { target: Target::Item(id), .. }] if id == "3"), "{detail:?}");
}

#[test]
fn outdated_list_and_detail_requests_are_dropped() {
    let list =
        |ticket| Ask::List { ticket, source: Source::Sessions, project: None, page: Page::First(ROWS) };
    let detail = |ticket| Ask::Detail { ticket, target: Target::Item("1".into()) };
    let mark = |id| Ask::Change(ManualChange::Mark { id, validity: query::Validity::Resolved });
    let waiting = vec![list(1), mark(1), detail(1), list(2), mark(2), detail(2)];
    assert_eq!(newest(waiting), [mark(1), list(2), mark(2), detail(2)]);
}

#[test]
fn moving_stops_at_both_ends_and_requests_the_selected_item() {
    let mut ui = found();
    assert_eq!(press(&mut ui, KeyCode::Up), []);
    for _ in 0..5 {
        press(&mut ui, KeyCode::Char('j'));
    }
    assert_eq!(ui.list().unwrap().selected, 2);
    let asked = press(&mut ui, KeyCode::Char('g'));
    assert!(matches!(&asked[..], [Ask::Detail { target: Target::Item(id), .. }] if id == "3"));
}

#[test]
fn a_session_opens_and_closes_again() {
    let mut ui = found();
    let asked = press(&mut ui, KeyCode::Tab);
    give(&mut ui, &asked, vec![session()]);
    let asked = press(&mut ui, KeyCode::Enter);
    assert!(matches!(&asked[..], [Ask::List { source: Source::Session(id), .. }] if id == "76fb-long"));
    give(&mut ui, &asked, rows());
    let asked = press(&mut ui, KeyCode::Char('t'));
    assert!(matches!(&asked[..], [Ask::List { source: Source::Around(id), .. }] if id == "3"));
    let mut around = rows();
    around.rotate_right(1);
    give(&mut ui, &asked, around);
    assert_eq!(ui.list().unwrap().selected, 1, "the timeline opens at its item");
    press(&mut ui, KeyCode::Esc);
    press(&mut ui, KeyCode::Esc);
    assert_eq!((ui.depth(), &ui.list().unwrap().source), (1, &Source::Sessions));
    press(&mut ui, KeyCode::Esc);
    assert_eq!(ui.depth(), 1, "the first list stays");
}

#[test]
fn the_r_key_resolves_active_observations_and_reopens_past_ones() {
    let mut ui = found();
    let mark = |id, validity| [Ask::Change(ManualChange::Mark { id, validity })];
    assert_eq!(press(&mut ui, KeyCode::Char('r')), mark(3, query::Validity::Resolved));
    press(&mut ui, KeyCode::Down);
    assert_eq!(press(&mut ui, KeyCode::Char('r')), mark(2, query::Validity::Active));
    ui.on_answer(WorkerAnswer::Changed { notice: "#2 is active".into(), of: Some((2, Validity::Holds)) });
    assert_eq!(ui.list().unwrap().rows[1].validity, Validity::Holds);
    assert_eq!(press(&mut ui, KeyCode::Char('r')), mark(2, query::Validity::Resolved));
}

#[test]
fn pinning_and_undoing_are_requested_at_once() {
    let mut ui = found();
    assert_eq!(press(&mut ui, KeyCode::Char('p')), [Ask::Change(ManualChange::Pin { id: 3 })]);
    assert_eq!(press(&mut ui, KeyCode::Char('u')), [Ask::Change(ManualChange::Undo)]);
    assert_eq!(press(&mut ui, KeyCode::Char('U')), [Ask::Change(ManualChange::UndoOf { id: 3 })]);
    // An undone change may be anywhere in the list.
    let answer = WorkerAnswer::Changed { notice: "Undone: pin of #3".into(), of: None };
    assert!(matches!(ui.on_answer(answer)[..], [Ask::List { .. }]));
    let asked = press(&mut ui, KeyCode::Tab);
    give(&mut ui, &asked, vec![session()]);
    assert_eq!(press(&mut ui, KeyCode::Char('p')), []);
    assert_eq!(ui.notice, "Only an observation can be pinned");
}

#[test]
fn a_thread_opens_from_its_list_and_from_an_observation() {
    let mut ui = found();
    let asked = press(&mut ui, KeyCode::Char('T'));
    assert!(matches!(asked[..], [Ask::List { source: Source::Thread(3), .. }]), "{asked:?}");
    press(&mut ui, KeyCode::Esc);
    press(&mut ui, KeyCode::Tab);
    let asked = press(&mut ui, KeyCode::Tab);
    assert!(matches!(asked[..], [Ask::List { source: Source::Threads, .. }]), "{asked:?}");
    let thread =
        Row { target: Some(Target::Thread(7)), ..row(7, 1, "decision", "Cents (3)", Validity::Holds) };
    give(&mut ui, &asked, vec![thread]);
    let asked = press(&mut ui, KeyCode::Enter);
    assert!(matches!(asked[..], [Ask::List { source: Source::Thread(7), .. }]), "{asked:?}");
    assert_eq!(ui.tab(), Tab::Threads);
    press(&mut ui, KeyCode::BackTab);
    assert_eq!(ui.tab(), Tab::Sessions);
}

#[test]
fn a_reviewed_observation_leaves_the_review_and_the_next_is_selected() {
    let mut ui = Ui::for_review(ShownProjects::Project("/home/me/shop".into()));
    let asked = ui.first();
    assert!(matches!(&asked[..], [Ask::List { source: Source::Review, .. }]), "{asked:?}");
    let mut waiting = rows();
    waiting[1].validity = Validity::Holds;
    give(&mut ui, &asked, waiting);
    insta::assert_snapshot!("review", screen(&mut ui, 100, 12));
    press(&mut ui, KeyCode::Down);
    let judge = |id, verdict| [Ask::Change(ManualChange::Judge { id, verdict })];
    assert_eq!(press(&mut ui, KeyCode::Char('x')), judge(2, ReviewVerdict::Rejected));
    let asked = ui
        .on_answer(WorkerAnswer::Changed { notice: "#2 is rejected".into(), of: Some((2, Validity::Past)) });
    assert!(matches!(&asked[..], [Ask::Detail { target: Target::Item(id), .. }] if id == "1"), "{asked:?}");
    assert_eq!(press(&mut ui, KeyCode::Char('y')), judge(1, ReviewVerdict::Kept));
    ui.on_answer(WorkerAnswer::Changed { notice: "#1 is kept".into(), of: Some((1, Validity::Holds)) });
    assert_eq!(press(&mut ui, KeyCode::Char('p')), [Ask::Change(ManualChange::Pin { id: 3 })]);
    ui.on_answer(WorkerAnswer::Changed { notice: "#3 is pinned".into(), of: Some((3, Validity::Holds)) });
    assert!(ui.list().unwrap().rows.is_empty());
    press(&mut ui, KeyCode::Char('g'));
    assert!(screen(&mut ui, 100, 12).contains("Nothing waits for a review here."));
    assert_eq!(press(&mut ui, KeyCode::Char('y')), []);
    assert_eq!(ui.notice, "Only an observation can be kept or rejected");
    // In another list the observation stays.
    let mut ui = found();
    assert_eq!(press(&mut ui, KeyCode::Char('x')), judge(3, ReviewVerdict::Rejected));
    ui.on_answer(WorkerAnswer::Changed { notice: "#3 is rejected".into(), of: Some((3, Validity::Past)) });
    assert_eq!(ui.list().unwrap().rows.len(), 3);
}

#[test]
fn a_long_review_loads_its_next_page_while_rows_are_removed() {
    let mut ui = Ui::for_review(ShownProjects::All);
    let asked = ui.first();
    give_part(&mut ui, &asked, many(1..=300), Rest::More);
    let until = |id: i64| NOW.0 - id * HOUR + 1;
    let mut more = Vec::new();
    for id in 1..=300 {
        let asked =
            ui.on_answer(WorkerAnswer::Changed { notice: String::new(), of: Some((id, Validity::Holds)) });
        if page(&asked).is_some() {
            more = asked;
        }
    }
    assert_eq!(page(&more), Some(Page::Next { until_ms: until(300), skip: 1 }));
    assert!(ui.list().unwrap().rows.is_empty());
    let asked = give(&mut ui, &more, many(301..=302));
    assert!(matches!(&asked[..], [Ask::Detail { target: Target::Item(id), .. }] if id == "301"), "{asked:?}");
}

fn many(ids: std::ops::RangeInclusive<i64>) -> Vec<Row> {
    ids.map(|id| row(id, id, "decision", "Cents", Validity::Holds)).collect()
}

fn page(asked: &[Ask]) -> Option<Page> {
    asked.iter().find_map(|ask| match ask {
        Ask::List { page, .. } => Some(*page),
        _ => None,
    })
}

#[test]
fn the_next_page_is_requested_before_the_last_row_is_reached() {
    let mut ui = Ui::new(ShownProjects::All, "");
    let asked = ui.first();
    let mut rows = many(1..=300);
    // Two rows at the end of the page have the same time.
    rows[298].at = rows[299].at;
    let until_ms = rows[299].at.0.0 + 1;
    give_part(&mut ui, &asked, rows, Rest::More);
    press(&mut ui, KeyCode::Enter);
    assert_eq!(page(&press(&mut ui, KeyCode::Down)), None);
    assert!(screen(&mut ui, 120, 20).contains(" 2/300+ "));
    let asked = (2..250).map(|_| press(&mut ui, KeyCode::Down)).find(|asked| page(asked).is_some()).unwrap();
    assert_eq!(page(&asked), Some(Page::Next { until_ms, skip: 2 }));
    assert!(ui.list().unwrap().selected < 250, "before it is reached");
    assert_eq!(page(&press(&mut ui, KeyCode::Down)), None, "it is asked for once");
    let selected = ui.list().unwrap().selected;
    assert_eq!(give_part(&mut ui, &asked, many(301..=600), Rest::More), []);
    let list = ui.list().unwrap();
    assert_eq!((list.rows.len(), list.selected), (600, selected), "the place in the list stays");
    let asked = press(&mut ui, KeyCode::Char('G'));
    give(&mut ui, &asked, many(601..=700));
    assert_eq!(page(&press(&mut ui, KeyCode::Char('G'))), None, "that was all");
    assert!(screen(&mut ui, 120, 20).contains(" 700/700 "));
    // A change reloads the current view at once.
    let asked = ui.on_answer(WorkerAnswer::Changed { notice: String::new(), of: None });
    assert_eq!(page(&asked), Some(Page::First(700)));
    assert_eq!(page(&press(&mut ui, KeyCode::Char('a'))), Some(Page::First(ROWS)));
}

#[test]
fn the_session_list_is_reloaded_with_growing_limits() {
    let mut ui = found();
    let mut asked = press(&mut ui, KeyCode::Tab);
    let mut limits = Vec::new();
    while let Some(Page::First(limit)) = page(&asked) {
        limits.push(limit);
        give_part(&mut ui, &asked, many(1..=i64::from(limit)), Rest::More);
        asked = press(&mut ui, KeyCode::Char('G'));
    }
    assert_eq!(limits, [300, 600, 1200, 2400, 4800, 9600, MOST_ROWS]);
}

#[test]
fn a_page_missed_while_another_list_was_open_is_requested_again() {
    let mut ui = Ui::new(ShownProjects::All, "");
    let asked = ui.first();
    give_part(&mut ui, &asked, many(1..=300), Rest::More);
    press(&mut ui, KeyCode::Enter);
    let overtaken = press(&mut ui, KeyCode::Char('G'));
    press(&mut ui, KeyCode::Char('t'));
    assert_eq!(give_part(&mut ui, &overtaken, many(301..=600), Rest::More), []);
    press(&mut ui, KeyCode::Esc);
    assert!(page(&press(&mut ui, KeyCode::Up)).is_some(), "it is asked for again");
}

#[test]
fn only_an_observation_can_be_edited() {
    let mut ui = found();
    assert_eq!(ui.on_event(&key(KeyCode::Char('e'))), Next::Edit(3));
    let asked = ui.on_edited(Ok("#3 is edited; u undoes it".into()));
    assert!(matches!(asked[..], [Ask::List { .. }]), "its title may be another: {asked:?}");
    let error = Failure::failed("Line 3: \"titel\" is not a key").hint("Your text is kept in /tmp/a.md.");
    ui.on_edited(Err(error.into()));
    assert_eq!(ui.notice, "Line 3: \"titel\" is not a key. Your text is kept in /tmp/a.md.");
    let asked = press(&mut ui, KeyCode::Tab);
    give(&mut ui, &asked, vec![session()]);
    assert_eq!(press(&mut ui, KeyCode::Char('e')), []);
    assert_eq!(ui.notice, "Only an observation can be edited");
}

#[test]
fn nothing_is_forgotten_without_a_yes() {
    let mut ui = found();
    assert_eq!(press(&mut ui, KeyCode::Char('f')), [Ask::PreviewForget { id: "3".into() }]);
    let preview =
        || WorkerAnswer::Preview { id: "3".into(), text: b"To be forgotten: 1 observation\n".to_vec() };
    for refusal in [KeyCode::Char('n'), KeyCode::Enter, KeyCode::Esc, KeyCode::Char('q')] {
        ui.on_answer(preview());
        assert!(matches!(ui.dialog, Some(Dialog::Forget { .. })));
        assert_eq!(press(&mut ui, refusal), []);
        assert!(ui.dialog.is_none());
    }
    ui.on_answer(preview());
    assert_eq!(press(&mut ui, KeyCode::Char('y')), [Ask::Forget { id: "3".into() }]);
    let asked = ui.on_answer(WorkerAnswer::Forgotten { id: "3".into(), counts: "1 observation".into() });
    assert!(matches!(&asked[..], [Ask::Detail { target: Target::Item(id), .. }] if id == "2"), "{asked:?}");
    assert_eq!(ui.list().unwrap().rows.len(), 2);
}

#[test]
fn the_mouse_selects_opens_and_scrolls() {
    let mut ui = found();
    screen(&mut ui, 120, 20);
    let at =
        |kind, column, row| Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE });
    let click = MouseEventKind::Down(MouseButton::Left);
    ui.on_event(&at(click, 10, 4));
    assert_eq!(ui.list().unwrap().selected, 2, "the list begins in the third line");
    ui.on_event(&at(click, 10, 15));
    assert_eq!(ui.list().unwrap().selected, 2, "there is nothing");
    ui.on_event(&at(click, 10, 4));
    assert_eq!(ui.focus, Focus::Detail, "a second click opens it");
    ui.on_event(&at(MouseEventKind::ScrollUp, 10, 4));
    assert_eq!(ui.list().unwrap().selected, 0);
    ui.on_event(&at(click, 5, 1));
    assert_eq!(ui.focus, Focus::Query);
    ui.on_event(&at(click, 25, 0));
    assert_eq!(ui.tab(), Tab::Sessions);
    press(&mut ui, KeyCode::Char('?'));
    ui.on_event(&at(click, 25, 0));
    assert!(ui.dialog.is_none());
}

#[test]
fn in_the_query_q_is_a_letter_and_ctrl_c_quits() {
    let control_c = Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    let mut ui = Ui::new(ShownProjects::All, "");
    type_text(&mut ui, "q");
    assert_eq!(ui.input.value(), "q");
    assert_eq!(ui.on_event(&control_c), Next::Leave);
    let mut ui = found();
    assert_eq!(ui.on_event(&key(KeyCode::Char('q'))), Next::Leave);
}

#[test]
fn screens_match_their_snapshots() {
    for (width, height) in [(80, 24), (120, 30), (200, 40)] {
        let mut ui = found();
        let text = b"\x1b[36m#3\x1b[0m \x1b[1mCart totals round once\x1b[0m\n\nThe discount was rounded per line.\n- src/cart.rs";
        ui.on_answer(WorkerAnswer::Detail { ticket: 1, text: text.to_vec() });
        insta::assert_snapshot!(format!("search_{width}"), screen(&mut ui, width, height));
        press(&mut ui, KeyCode::Char('?'));
        insta::assert_snapshot!(format!("help_{width}"), screen(&mut ui, width, height));
    }
    let mut ui = Ui::new(ShownProjects::Project("/home/me/shop".into()), "");
    let asked = ui.first();
    give(&mut ui, &asked, Vec::new());
    insta::assert_snapshot!("empty", screen(&mut ui, 80, 12));
    let mut ui = found();
    let asked = press(&mut ui, KeyCode::Tab);
    give(&mut ui, &asked, vec![session()]);
    press(&mut ui, KeyCode::Char('a'));
    insta::assert_snapshot!("sessions_of_all_projects", screen(&mut ui, 80, 12));
    ui.on_answer(WorkerAnswer::Preview {
        id: "3".into(),
        text: b"To be forgotten: 1 observation\n".to_vec(),
    });
    insta::assert_snapshot!("forget", screen(&mut ui, 80, 12));
}

#[test]
fn no_terminal_is_too_small_to_draw_on() {
    for (width, height) in [(1, 1), (3, 2), (10, 4), (20, 3)] {
        let mut ui = found();
        screen(&mut ui, width, height);
        press(&mut ui, KeyCode::Char('?'));
        screen(&mut ui, width, height);
    }
}

#[test]
fn ages_are_shown_as_now_or_as_a_number_with_a_unit() {
    let check = |minutes: i64, expected: &str| {
        assert_eq!(view::age(NOW, Timestamp(NOW.0 - minutes * 60_000)), expected)
    };
    check(-5, "now");
    check(0, "now");
    check(59, "59m");
    check(60, "1h");
    check(24 * 60, "1d");
    check(14 * 24 * 60, "2w");
    check(365 * 24 * 60, "1y");
}

#[test]
fn a_slash_begins_a_new_search_and_escape_clears_it() {
    let newest = |asked: &[Ask]| matches!(asked, [Ask::List { source, .. }] if *source == Source::Search(String::new()));
    let mut ui = found();
    let asked = press(&mut ui, KeyCode::Char('/'));
    assert!(newest(&asked), "{asked:?}");
    assert_eq!((ui.focus, ui.input.value()), (Focus::Query, ""));
    let asked = type_text(&mut ui, "tax");
    assert!(
        matches!(asked.last(), Some(Ask::List { source, .. }) if *source == Source::Search("tax".into()))
    );
    let asked = press(&mut ui, KeyCode::Esc);
    assert!(newest(&asked) && ui.input.value().is_empty() && ui.focus == Focus::Query, "{asked:?}");
    assert_eq!(press(&mut ui, KeyCode::Esc), []);
    assert_eq!(ui.focus, Focus::List);

    // Esc also clears the search from the list, but not while a dialog is open.
    let mut ui = found();
    let asked = press(&mut ui, KeyCode::Char('t'));
    give(&mut ui, &asked, rows());
    press(&mut ui, KeyCode::Esc);
    assert_eq!(ui.input.value(), "cart");
    let asked = press(&mut ui, KeyCode::Esc);
    assert!(newest(&asked) && ui.input.value().is_empty() && ui.focus == Focus::List, "{asked:?}");
}

#[test]
fn a_list_that_is_not_searched_shows_no_query() {
    let mut ui = found();
    assert!(screen(&mut ui, 80, 12).contains("/ cart"));
    for tab in [Tab::Sessions, Tab::Threads, Tab::Review] {
        let asked = press(&mut ui, KeyCode::Tab);
        give(&mut ui, &asked, Vec::new());
        assert_eq!(ui.tab(), tab);
        let shown = screen(&mut ui, 80, 12);
        assert!(!shown.contains("cart") && shown.contains("/ search"), "{shown}");
    }
    let asked = press(&mut ui, KeyCode::Tab);
    assert!(matches!(&asked[..], [Ask::List { source, .. }] if *source == Source::Search("cart".into())));
    assert!(screen(&mut ui, 80, 12).contains("/ cart"));
}
