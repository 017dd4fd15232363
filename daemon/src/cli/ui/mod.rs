//! `recall ui`: a terminal interface to the memory.
//!
//! `state.rs` decides, as a pure function from a state and an event to the next state and the requests to send.
//! `view.rs` draws a state. `worker.rs` asks the daemon on a thread of its own, so that a slow answer never delays a key.
//! This file connects the three to the terminal.

mod row;
mod state;
mod view;
mod web;
mod worker;

#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write};
use std::sync::mpsc;

use anyhow::Context;
use clap::Args;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event};
use ratatui::crossterm::execute;

use super::client::{Client, Start, this_folder};
use super::failure::Failure;
use crate::app::clock;
use state::{Next, Scope, Ui};
pub(in crate::cli) use view::age;
use worker::{Ask, Told};

#[derive(Debug, Args)]
pub struct UiArgs {
    /// Words to start with
    query: Vec<String>,
    /// Show all projects instead of the current one
    #[arg(long)]
    all: bool,
    /// Open the viewer in a browser
    #[arg(long, conflicts_with_all = ["query", "all"])]
    web: bool,
}

/// What the main thread waits for.
enum Arrival {
    Terminal(Event),
    Answer(Told),
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
    let client = Client::connect(Start::IfNeeded)?;
    let scope = if args.all { Scope::All } else { Scope::Project(this_folder()) };

    let (arrive, arrivals) = mpsc::channel();
    let (ask, asked) = mpsc::channel();
    let tell = arrive.clone();
    std::thread::spawn(move || {
        worker::serve(client, &asked, |told| tell.send(Arrival::Answer(told)).is_ok());
    });
    std::thread::spawn(move || {
        loop {
            let arrival = event::read().map_or_else(Arrival::Gone, Arrival::Terminal);
            let last = matches!(arrival, Arrival::Gone(_));
            if arrive.send(arrival).is_err() || last {
                return;
            }
        }
    });

    // Also restores the terminal when something panics.
    let mut terminal = ratatui::try_init().context("taking over the terminal")?;
    let outcome = execute!(std::io::stdout(), EnableMouseCapture)
        .context("switching the mouse on")
        .and_then(|()| serve(&mut terminal, Ui::new(scope, &args.query.join(" ")), &ask, &arrivals));
    let _ = execute!(std::io::stdout(), DisableMouseCapture);
    ratatui::restore();
    outcome
}

/// Draws, waits, and decides, until the user leaves.
fn serve(
    terminal: &mut ratatui::DefaultTerminal,
    mut ui: Ui,
    ask: &mpsc::Sender<Ask>,
    arrivals: &mpsc::Receiver<Arrival>,
) -> anyhow::Result<()> {
    for request in ui.first() {
        ask.send(request)?;
    }
    loop {
        terminal.draw(|frame| view::draw(frame, &mut ui, clock::now())).context("drawing")?;
        let mut arrival = arrivals.recv()?;
        // All that has arrived is decided before the next drawing: a fast wheel must not queue up.
        loop {
            let next = match arrival {
                Arrival::Terminal(event) => ui.on_event(&event),
                Arrival::Answer(told) => ui.on_told(told),
                Arrival::Gone(error) => return Err(error).context("reading the terminal"),
            };
            match next {
                Next::Leave => return Ok(()),
                Next::Ask(requests) => {
                    for request in requests {
                        ask.send(request)?;
                    }
                }
            }
            match arrivals.try_recv() {
                Ok(more) => arrival = more,
                Err(_) => break,
            }
        }
    }
}
