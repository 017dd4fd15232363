//! Checks the daemon and its database.

use recall_protocol::client::{ConnectError, Connection};
use recall_protocol::frame::Deadline;
use recall_protocol::paths::Paths;
use recall_protocol::query::{Ping, Status};

use super::{ANSWER_WITHIN, Area, Finding};
use crate::cli::client::{Client, Start};
use crate::cli::ctl::pause;
use crate::cli::ctl::status::no_deletion;
use crate::cli::in_the_way::{InTheWay, in_the_way};
use crate::cli::terminal::{ago, counted};
use crate::cli::{keeping, terminal};
use crate::server::run::repair_note;
use recall_app::answers::sharing::RemoteState;
use recall_app::answers::status::{
    EmbeddingState, PingAnswer, RepairAnswer, StatusAnswer, SubscriberCounters,
};
use recall_app::clock;
use recall_store::recent_repairs;

pub(super) fn daemon(paths: &Paths, findings: &mut Vec<Finding>) {
    let mut area = Area { name: "daemon", findings };
    match Connection::open(paths, Deadline::after(ANSWER_WITHIN)) {
        Ok(_) => match Client::connect_at(paths, Start::Never).and_then(|mut client| status(&mut client)) {
            Ok((PingAnswer { version, pid }, status)) => {
                area.good(format!("running, version {version}, pid {pid}"));
                if version != env!("CARGO_PKG_VERSION") {
                    area.note(
                        format!("its version differs from this program's ({})", env!("CARGO_PKG_VERSION")),
                        "Run `recall ctl stop`; the next hook starts the new version.",
                    );
                }
                if let Some(status) = status {
                    trouble(&mut area, &status);
                }
            }
            Err(error) => {
                area.bad(format!("{error:#}"), "See the daemon's log, or restart it with `recall ctl stop`.")
            }
        },
        // The checks of the folders and the spool report why it cannot start.
        Err(ConnectError::NothingListens) if keeping::obstacle(paths).is_some() => {}
        Err(ConnectError::NothingListens) => match in_the_way(paths) {
            None => area.note("not running", "The next hook starts it; events wait in the spool."),
            Some(InTheWay { what, hint, .. }) => {
                area.bad(format!("no daemon can be reached: {what}"), &hint);
            }
        },
        Err(ConnectError::Forbidden) => area.note(
            "the sandbox around this command forbids the connection to it",
            "Run `recall doctor` outside of the sandbox. Agents run hooks outside of it as well.",
        ),
        Err(ConnectError::Io(error)) => {
            area.bad(format!("cannot be reached: {error}"), "See the daemon's log, or restart it.");
        }
        Err(error) => area
            .bad(format!("cannot be reached: {error}"), "Check whether the socket belongs to another user."),
    }
}

/// Returns the daemon's identity and status; no status if a daemon of another version uses another format.
fn status(client: &mut Client) -> anyhow::Result<(PingAnswer, Option<StatusAnswer>)> {
    let ping = client.ask_within(Ping, ANSWER_WITHIN)?.read()?;
    match client.ask_within(Status, ANSWER_WITHIN)?.read() {
        Ok(status) => Ok((ping, Some(status))),
        Err(_) if ping.version != env!("CARGO_PKG_VERSION") => Ok((ping, None)),
        Err(error) => Err(error),
    }
}

/// Reports problems that a running daemon reports.
fn trouble(area: &mut Area<'_>, status: &StatusAnswer) {
    if status.paused.is_some() {
        area.note(pause::sentence(status.paused.as_ref()), "Run `recall resume` to continue.");
    }
    if let Some(jump) = &status.clock_jump {
        area.note(no_deletion(jump), "Set the clock if it is wrong.");
    }
    let dead = status.jobs.dead;
    if dead > 0 {
        area.note(format!("{dead} compression jobs failed"), "Run `recall ctl jobs --dead` for details.");
    }
    if let Some(last) = &status.events.unreadable {
        let (count, from) = (counted(status.events.unparsed, "event", "events"), &last.agent);
        let event = if last.event.is_empty() { String::new() } else { format!(" ({})", last.event) };
        area.note(
            format!("{count} could not be parsed; the last came from {from}{event} {}: {}", ago(last.at), last.why),
            "They are stored as received: `recall sql \"SELECT parse_error, CAST(payload AS TEXT) FROM unparsed\"`. \
             `recall forget --unreadable` removes them.",
        );
    }
    let twice = status.events.told_twice;
    if twice > 0 {
        area.note(
            format!("{twice} events were reported by two hooks; each was stored once"),
            "recall's hooks are registered twice, in the user's and a project's settings or in those of two agents. Remove \
             one of them.",
        );
    }
    if status.traces_left {
        area.bad(
            "traces of forgotten items may remain, because recall cannot remove something",
            "The daemon's log says what. recall retries every minute until it succeeds.",
        );
    }
    embedding(area, &status.embedding);
    subscriptions(area, &status.subscribe);
    sharing(area, &status.sharing);
    if let Some(failure) = &status.gateway.failure {
        area.bad(
            format!("the gateway is closed: {failure}"),
            "Choose another `gateway.port`, or 0 for any free one, with `recall config edit`.",
        );
    }
}

/// What is shared with other machines.
fn sharing(area: &mut Area<'_>, remotes: &[RemoteState]) {
    for state in remotes {
        let RemoteState { projects, waiting, held, parked, quarantined, stopped, clocks_off, error, .. } =
            state;
        let remote = state.title();
        match error {
            Some(error) => area.bad(
                format!("sharing through {remote} has failed, and {waiting} changes wait: {error}"),
                "New changes stay here until sharing works again. `recall sync --now` retries at once.",
            ),
            None => {
                let projects = counted(*projects, "project", "projects");
                area.good(format!("sharing through {remote}: {projects}, {waiting} changes wait"));
            }
        }
        if *held > 0 {
            area.note(
                format!("{held} items are not shared through {remote}, because they look like secrets"),
                "`recall sync` lists them; `recall edit` changes a note.",
            );
        }
        if *parked > 0 {
            area.note(
                format!("{parked} changes through {remote} were made by a newer version of recall"),
                "Update recall on this machine to apply them.",
            );
        }
        if *quarantined > 0 {
            let items = counted(*quarantined, "shared item reads", "shared items read");
            area.note(
                format!("through {remote}: {items} like instructions to a model, so recall quarantined them"),
                "`recall review` shows them; keep or reject each.",
            );
        }
        if *stopped > 0 {
            let machines = counted(*stopped, "machine is", "machines are");
            area.note(format!("{machines} not read through {remote}"), "`recall sync` says which and why.");
        }
        if *clocks_off > 0 {
            let machines = counted(*clocks_off, "machine has", "machines have");
            area.note(
                format!("{machines} a clock that is off, through {remote}"),
                "`recall sync` says which. Their notes have wrong times; nothing else depends on it.",
            );
        }
    }
}

/// Reports on the sentence model, if one is configured.
fn embedding(area: &mut Area<'_>, embedding: &EmbeddingState) {
    let EmbeddingState { backend, model, state, why, waiting, .. } = embedding;
    match (state.as_ref(), why) {
        ("ready", _) if *waiting == 0 => {
            area.good(format!("search by meaning: {backend}, {model}"));
        }
        ("ready", Some(why)) => area.note(
            format!("search by meaning: {backend}, {model}; {waiting} documents have no vectors: {why}"),
            "The daemon retries; `recall config test` asks the model now.",
        ),
        ("ready", None) => area.note(
            format!("search by meaning: {backend}, {model}; {waiting} documents have no vectors yet"),
            "They are computed in the background; `recall ctl flush` waits for them.",
        ),
        ("unusable", Some(why)) => {
            area.bad(format!("the sentence model {model} cannot be used; searches use words only"), why);
        }
        _ => {}
    }
}

/// Reports failing commands of `[[subscribe]]`.
fn subscriptions(area: &mut Area<'_>, subscribe: &SubscriberCounters) {
    let SubscriberCounters { runs, failures, dropped, .. } = *subscribe;
    if failures > 0 {
        let last = subscribe.last_failure.as_deref().unwrap_or_default();
        area.note(
            format!("{failures} of {runs} subscribed commands failed: {last}"),
            "See [[subscribe]] in config.toml.",
        );
    }
    if dropped > 0 {
        area.note(
            format!("{dropped} events were dropped: a subscribed command is too slow"),
            "Subscribe to fewer events, or make the command faster.",
        );
    }
}

/// Reports repairs that the daemon recorded; needs no running daemon.
pub(super) fn database(paths: &Paths, findings: &mut Vec<Finding>) {
    let repairs = recent_repairs(&repair_note(paths), clock::now());
    if repairs.is_empty() && !paths.database().exists() {
        return;
    }
    let mut area = Area { name: "database", findings };
    if repairs.is_empty() {
        area.good(format!("{}, no damage found", paths.database().display()));
    }
    for repair in repairs {
        area.note(
            terminal::repair(&RepairAnswer::from(repair)),
            "Anything newer is only in the damaged file; `sqlite3 FILE .recover` may recover some of it.",
        );
    }
}
