//! Warns if the hooks of an agent that used to report are gone: recall hears nothing of it from then on.

use std::io::Write;

use super::client::{Soon, this_folder};
use super::install::inspection::{has_connected, vanished};
use super::terminal::{WARNING, ago};
use recall_agents::AGENTS;
use recall_protocol::query::Glance;

/// Prints a warning on stderr for each agent whose hooks are gone.
pub fn warn() {
    if !has_connected(AGENTS) {
        return;
    }
    // Without a daemon nothing is known of when they reported.
    let Ok(mut soon) = Soon::connect() else { return };
    let Some(glance) = soon.ask(Glance { folder: this_folder() }) else { return };
    let mut err = anstream::AutoStream::auto(std::io::stderr().lock());
    for (spec, last) in vanished(AGENTS, &glance.reported) {
        let (title, name) = (spec.title, spec.name);
        let _ = writeln!(
            err,
            "{WARNING}warning:{WARNING:#} the hooks of {title} are gone; it last reported {}.\n  hint: Run `recall \
             install --agent {name}`, or `recall uninstall --agent {name}` if they are to stay away.",
            ago(last)
        );
    }
}
