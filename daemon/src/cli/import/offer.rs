//! `recall install` offers to import the sessions that the agents recorded.

use std::io::Write;

use super::{Counts, ImportArgs, Wanted, each_file, files, take_in};
use crate::cli::client::Client;
use crate::cli::consent::{Confirmation, Consent};
use crate::cli::terminal::counted;

/// The speed of an import, for an estimate. `docs/import.md` has the measurement.
const EVENTS_PER_SECOND: usize = 400;

/// Imports everything found if the user agrees. If nobody can be asked, prints how to import.
///
/// Fails as `recall import` does.
pub(crate) fn offer(consent: Consent<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let found = files::find(None, None)?;
    if found.is_empty() {
        return Ok(());
    }
    let sessions = counted(found.len(), "earlier session", "earlier sessions");
    match consent {
        Consent::Given => {}
        Consent::Ask(input) => {
            let nothing = || -> anyhow::Result<Option<Client>> { Ok(None) };
            let counts = each_file(found, &nothing, &Wanted { since_ms: None, project: None })?;
            if counts.sessions == 0 || ask(input, &counts, out)? == Confirmation::Leave {
                return Ok(());
            }
        }
        Consent::ShowOnly => return Ok(()),
        Consent::Unavailable => {
            return Ok(writeln!(out, "Found {sessions}; `recall import` imports them.")?);
        }
    }
    take_in(&ImportArgs::default(), out)?;
    Ok(())
}

fn ask(
    input: &mut dyn std::io::BufRead,
    counts: &Counts,
    out: &mut dyn Write,
) -> anyhow::Result<Confirmation> {
    let sessions = counted(counts.sessions, "session", "sessions");
    let projects = counted(counts.projects.len(), "project", "projects");
    let time = match counts.events.div_ceil(EVENTS_PER_SECOND) {
        0..45 => "less than a minute".to_owned(),
        seconds => format!("about {}", counted(seconds.div_ceil(60), "minute", "minutes")),
    };
    writeln!(out, "Found {sessions} of {projects} from before.")?;
    let answer = Confirmation::read(input, &format!("Import them ({time})?"), out)?;
    if answer == Confirmation::Leave {
        writeln!(out, "`recall import` does it later.")?;
    }
    Ok(answer)
}
