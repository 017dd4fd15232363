//! `recall ui`: a terminal interface to the memory.
//!
//! `state.rs` is a pure function from a state and an event to the next state and the requests to send. `view.rs` draws
//! a state. `worker.rs` queries the daemon on its own thread, so a slow answer never delays a key. This file connects
//! the three to the terminal.

mod row;
mod state;
mod view;
mod web;
mod worker;

#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, enable_raw_mode};

use super::client::{Client, Start, this_folder};
use super::edit;
use super::failure::Failure;
use recall_app::clock;
use state::{Next, ShownProjects, Ui};
pub(in crate::cli) use view::age;
use worker::{Ask, WorkerAnswer};

#[derive(Debug, Args)]
pub struct UiArgs {
    /// Words to search for at the start
    query: Vec<String>,
    /// Show all projects instead of the current one
    #[arg(long)]
    all: bool,
    /// Open the viewer in a browser
    #[arg(long, conflicts_with_all = ["query", "all"])]
    web: bool,
}

/// The events that the main thread waits for.
enum Arrival {
    /// Everything that arrived from the terminal since the last reading.
    Terminal(Vec<Event>),
    Answer(WorkerAnswer),
    /// The terminal cannot be read any more.
    Gone(std::io::Error),
}

pub fn run(args: &UiArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    out.flush()?;
    if args.web {
        return web::open(out);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage("`recall ui` needs a terminal")
            .hint("`recall search` and `recall timeline` write to a pipe.")
            .into());
    }
    let scope = if args.all { ShownProjects::All } else { ShownProjects::Project(this_folder()) };
    show(Ui::new(scope, &args.query.join(" ")))
}

/// Opens the interface on what awaits review, for one project or all.
///
/// # Errors
/// Fails when the daemon does not respond, or the terminal cannot be used.
pub(in crate::cli) fn review(project: Option<String>) -> anyhow::Result<()> {
    show(Ui::for_review(project.map_or(ShownProjects::All, ShownProjects::Project)))
}

fn show(ui: Ui) -> anyhow::Result<()> {
    let client = Client::connect(Start::IfNeeded)?;
    let (arrive, arrivals) = mpsc::channel();
    let (ask, asked) = mpsc::channel();
    let answers = arrive.clone();
    std::thread::spawn(move || {
        worker::serve(client, &asked, |answer| answers.send(Arrival::Answer(answer)).is_ok());
    });
    // The keyboard is read only on request, because an editor needs it for itself.
    let (want_keys, keys_wanted) = mpsc::channel();
    std::thread::spawn(move || {
        while keys_wanted.recv().is_ok() {
            let arrival = events().map_or_else(Arrival::Gone, Arrival::Terminal);
            if arrive.send(arrival).is_err() {
                return;
            }
        }
    });

    // Also restores the terminal after a panic.
    let mut terminal = ratatui::try_init().context("Cannot initialise the terminal")?;
    let outcome = execute!(std::io::stdout(), EnableMouseCapture)
        .context("Cannot switch the mouse on")
        .and_then(|()| {
            let ends = Ends { ask, arrivals, want_keys };
            serve(&mut terminal, ui, &ends)
        });
    let _ = execute!(std::io::stdout(), DisableMouseCapture);
    ratatui::restore();
    outcome
}

/// The channels between the main thread and the others.
struct Ends {
    ask: mpsc::Sender<Ask>,
    arrivals: mpsc::Receiver<Arrival>,
    want_keys: mpsc::Sender<()>,
}

impl Ends {
    fn ask(&self, requests: Vec<Ask>) -> anyhow::Result<()> {
        requests.into_iter().try_for_each(|request| Ok(self.ask.send(request)?))
    }
}

/// Waits for the terminal, and returns everything that has arrived.
fn events() -> std::io::Result<Vec<Event>> {
    let mut events = vec![event::read()?];
    while event::poll(Duration::ZERO)? {
        events.push(event::read()?);
    }
    Ok(events)
}

/// Draws, waits and handles events until the user leaves.
fn serve(terminal: &mut ratatui::DefaultTerminal, mut ui: Ui, ends: &Ends) -> anyhow::Result<()> {
    ends.ask(ui.first())?;
    ends.want_keys.send(())?;
    loop {
        terminal.draw(|frame| view::draw(frame, &mut ui, clock::now())).context("Cannot draw")?;
        let mut arrival = ends.arrivals.recv()?;
        // Everything that has arrived is handled before the next drawing, so a fast wheel does not queue up.
        loop {
            match arrival {
                Arrival::Terminal(events) => {
                    for event in events {
                        match ui.on_event(&event) {
                            Next::Leave => return Ok(()),
                            Next::Ask(requests) => ends.ask(requests)?,
                            Next::Edit(id) => {
                                let outcome = edit_alone(terminal, id)?;
                                ends.ask(ui.on_edited(outcome))?;
                                // Keys typed after this were meant for the editor.
                                break;
                            }
                        }
                    }
                    ends.want_keys.send(())?;
                }
                Arrival::Answer(answer) => ends.ask(ui.on_answer(answer))?,
                Arrival::Gone(error) => return Err(error).context("Cannot read the terminal"),
            }
            match ends.arrivals.try_recv() {
                Ok(more) => arrival = more,
                Err(_) => break,
            }
        }
    }
}

/// Gives the terminal to the editor and takes it back. Fails only if that is impossible.
fn edit_alone(terminal: &mut ratatui::DefaultTerminal, id: i64) -> anyhow::Result<anyhow::Result<String>> {
    execute!(std::io::stdout(), DisableMouseCapture).context("Cannot switch the mouse off")?;
    ratatui::try_restore().context("Cannot restore the terminal")?;
    let outcome = edited(id);
    *terminal = enable_raw_mode()
        .and_then(|()| {
            execute!(std::io::stdout(), EnterAlternateScreen, Clear(ClearType::All), EnableMouseCapture)
        })
        // A new terminal, because the old drawing is no longer on the screen.
        .and_then(|()| Terminal::new(CrosstermBackend::new(std::io::stdout())))
        .context("Cannot use the terminal")?;
    Ok(outcome)
}

/// Lets the user rewrite an observation, like `recall edit`, and returns the result.
fn edited(id: i64) -> anyhow::Result<String> {
    let mut client = Client::connect(Start::IfNeeded)?;
    Ok(match edit::rewrite(&mut client, &id.to_string())? {
        Some(answer) => {
            answer.read()?;
            format!("#{id} is edited; u undoes it")
        }
        None => edit::NOTHING.to_owned(),
    })
}
