//! `recall ui --web`: the viewer in a browser.

use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};

use recall_protocol::query::OpenGateway;
use recall_protocol::search_path;

use crate::cli::client::{Client, Start};

#[cfg(target_os = "macos")]
const OPENER: &str = "open";
#[cfg(not(target_os = "macos"))]
const OPENER: &str = "xdg-open";

/// Prints a link that works once. Opens it too, if somebody sits there.
pub(super) fn open(out: &mut dyn Write) -> anyhow::Result<()> {
    let opened = Client::connect(Start::IfNeeded)?.ask(OpenGateway)?.read()?;
    writeln!(out, "{}", opened.link)?;
    out.flush()?;
    if !std::io::stdout().is_terminal() {
        return Ok(());
    }
    let mut opener = Command::new(OPENER);
    opener.arg(&opened.link).env("PATH", search_path::of_process());
    let started = opener.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let told = match started {
        Ok(_) => "Your browser shows the viewer. The link works once, for five minutes.",
        Err(_) => "Open this link in a browser. It works once, for five minutes.",
    };
    writeln!(out, "{told}")?;
    Ok(())
}
