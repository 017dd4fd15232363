//! `recall sync`: what is shared with other machines, and how far every one of them is.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{SyncRound, SyncState};

use super::client::{Client, ROUND_WITHIN, Start};
use super::failure::Failure;
use super::terminal::{self, BOLD, DIM, ERROR, GOOD, WARNING, counted};
use recall_app::answers::sharing::{DeviceAnswer, ForgottenAnswer, ShareAnswer};

#[derive(Debug, Args)]
pub struct SyncArgs {
    /// Sync with every remote first, and report the result
    #[arg(long)]
    now: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// A round was requested and failed.
pub fn run(args: &SyncArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let round = if args.now { SyncRound::Now } else { SyncRound::No };
    let answer = Client::connect(Start::IfNeeded)?.ask_within(SyncState { round }, ROUND_WITHIN)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        writeln!(out)?;
    }
    let answer = answer.read()?;
    if !args.json {
        if answer.shares.is_empty() {
            writeln!(out, "Nothing is shared. In a project's folder: `recall share --with REMOTE`.")?;
        }
        if let Some(device) = &answer.device {
            let device = device.get(..8).unwrap_or(device);
            writeln!(
                out,
                "This machine is {}, {} {DIM}({device}){DIM:#}.",
                answer.author, answer.device_name
            )?;
        }
        for notice in &answer.notices {
            writeln!(out, "{WARNING}{notice}{WARNING:#}")?;
        }
        answer.shares.iter().try_for_each(|share| print(share, out))?;
    }
    let failed = answer.shares.iter().filter(|share| share.error.is_some()).count();
    if args.now && failed > 0 {
        let what = counted(failed, "project was not synced", "projects were not synced");
        return Err(Failure::failed(what)
            .hint("New changes stay here, and are sent once this is fixed.")
            .into());
    }
    Ok(())
}

/// One project with one remote.
pub(super) fn print(share: &ShareAnswer, out: &mut dyn Write) -> anyhow::Result<()> {
    let ShareAnswer { project, remote, logged, sent, received, .. } = share;
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let open = if share.encrypted { "" } else { ", not encrypted" };
    writeln!(out, "{BOLD}{project}{BOLD:#} through {remote} {DIM}{}{DIM:#}{open}", share.url)?;
    let changes = counted(count(*logged), "change", "changes");
    let sent = match (*logged, logged.saturating_sub(*sent)) {
        (0, _) => "nothing yet".to_owned(),
        (_, 0) => format!("{changes}, all sent"),
        (_, waiting) => format!("{changes}, {waiting} waiting"),
    };
    writeln!(out, "  from here: {sent}; from others: {}", counted(count(*received), "item", "items"))?;
    if let Some(error) = &share.error {
        let next =
            share.next_try.map(|at| format!("; next try at {}", terminal::time(at))).unwrap_or_default();
        writeln!(out, "  {ERROR}{error}{ERROR:#}{next}")?;
    } else if let Some(at) = share.synced_at {
        let last = match (share.sent_last, share.read_last) {
            (0, 0) => ", nothing new".to_owned(),
            (sent, read) => format!(", {sent} sent and {read} read"),
        };
        writeln!(out, "  {GOOD}in sync{GOOD:#} {}{last}", terminal::ago(at))?;
    }
    for device in &share.devices {
        print_device(device, out)?;
    }
    print_forgotten(share, out)?;
    for note in &share.held {
        let (id, title) = (
            note.id.map(|id| format!("{} ", terminal::id(id))).unwrap_or_default(),
            note.title.as_deref().unwrap_or_default(),
        );
        writeln!(out, "  {WARNING}held back{WARNING:#} {id}{title}: {}", note.why)?;
    }
    if share.parked > 0 {
        let parked = counted(count(share.parked), "change waits", "changes wait");
        writeln!(out, "  {WARNING}{parked} for a newer version of recall{WARNING:#}")?;
    }
    if share.quarantined > 0 {
        let apart = counted(count(share.quarantined), "item reads", "items read");
        writeln!(
            out,
            "  {WARNING}{apart} like instructions to a model{WARNING:#}: `recall review` shows them"
        )?;
    }
    Ok(())
}

/// Prints how far deletions have reached other machines.
fn print_forgotten(share: &ShareAnswer, out: &mut dyn Write) -> std::io::Result<()> {
    let ForgottenAnswer { total, machines, waiting, .. } = &share.forgotten;
    if *total == 0 {
        return Ok(());
    }
    let what = counted(usize::try_from(*total).unwrap_or(usize::MAX), "item", "items");
    let machines = counted(usize::try_from(*machines).unwrap_or(usize::MAX), "machine", "machines");
    match waiting.first() {
        _ if share.forgotten.machines == 0 => {
            writeln!(out, "  forgotten: {what}; no other machine has confirmed it")
        }
        None => writeln!(out, "  forgotten: {what}, confirmed by {machines}"),
        Some(last) => writeln!(
            out,
            "  forgotten: {what}, {WARNING}the last confirmed by {} of {machines}{WARNING:#}, not yet by {}",
            last.confirmed,
            last.missing.join("; ")
        ),
    }
}

fn print_device(device: &DeviceAnswer, out: &mut dyn Write) -> anyhow::Result<()> {
    let name = device.title();
    let state = match device.to_come() {
        0 => String::new(),
        behind if device.deferred => format!(", {WARNING}{behind} to come in the next rounds{WARNING:#}"),
        behind => format!(", {behind} to come"),
    };
    let seen = device.at.map(|at| format!(", last {}", terminal::ago(at))).unwrap_or_default();
    let refused = match device.refused {
        0 => String::new(),
        refused => format!(", {refused} could not be used"),
    };
    writeln!(out, "  {name}: {} read{state}{seen}{refused}", device.seq)?;
    if let Some(ahead) = device.clock_ahead_ms {
        let way = if ahead > 0 { "ahead of" } else { "behind" };
        let by = match ahead.unsigned_abs() / 1000 {
            seconds @ 0..172_800 => terminal::span(seconds),
            seconds => format!("{} days", seconds / 86_400),
        };
        writeln!(out, "    {WARNING}its clock is {by} or more {way} this machine's{WARNING:#}")?;
    }
    match &device.error {
        Some(error) => Ok(writeln!(out, "    {ERROR}{error}{ERROR:#}")?),
        None => Ok(()),
    }
}
