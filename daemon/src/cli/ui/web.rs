//! `recall ui --web`: the viewer in a browser.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use recall_protocol::paths::Paths;
use recall_protocol::query::{Glance, OpenGateway};
use recall_protocol::search_path;

use crate::cli::client::{Client, Start, this_folder};

#[cfg(target_os = "macos")]
const OPENER: &str = "open";
#[cfg(not(target_os = "macos"))]
const OPENER: &str = "xdg-open";

/// Opens a one-time link if there is a desktop session; otherwise prints it.
///
/// Every user of the machine can read a program's arguments. So the browser opens a page that only this user can read,
/// and the page redirects to the link.
pub(super) fn open(out: &mut dyn Write) -> anyhow::Result<()> {
    let mut client = Client::connect(Start::IfNeeded)?;
    let opened = client.ask(OpenGateway)?.read()?;
    let project = client.ask(Glance { folder: this_folder() })?.read()?.project.unwrap_or_default();
    let link = match project.as_str() {
        "" => opened.link.clone(),
        name => format!("{}/{}", opened.link, utf8_percent_encode(name, NON_ALPHANUMERIC)),
    };
    if !std::io::stdout().is_terminal() {
        writeln!(out, "{link}")?;
        return Ok(());
    }
    let page = Paths::from_env().context("Cannot find recall's folders")?.viewer_page();
    let started = write_page(&page, &link).and_then(|()| {
        let mut opener = Command::new(OPENER);
        opener.arg(&page).env("PATH", search_path::of_process());
        opener.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    });
    match started {
        Ok(_) => writeln!(out, "Your browser opens the viewer. If it does not, open {} in it", opened.url)?,
        Err(_) => writeln!(out, "Open {} in a browser", opened.url)?,
    }
    let key = opened.link.rsplit('/').next().unwrap_or_default();
    writeln!(out, "and enter this code, which works once, for five minutes:\n{key}")?;
    Ok(())
}

/// Replaces the whole page. Only the user may read it, because the link admits anyone who has it.
fn write_page(path: &Path, link: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><title>recall</title><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={link}\"><p><a href=\"{link}\">Open the viewer</a></p>"
    )?;
    file.persist(path)?;
    Ok(())
}
