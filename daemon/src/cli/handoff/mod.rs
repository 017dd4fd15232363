//! `recall handoff`: what another agent or a person needs to continue a session.

mod html;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use recall_protocol::query::{HandOver, Handoff};

use super::candidates;
use super::client::{Client, Start, this_folder};
use super::failure::Failure;
use super::filter;
use super::terminal::{self, counted};

#[derive(Debug, Args)]
pub struct HandoffArgs {
    /// Session ID, or its first characters [default: this project's latest session]
    #[arg(add = candidates::sessions())]
    session: Option<String>,
    /// Inject it into this agent's next session in the project, e.g. `codex`
    #[arg(long, value_name = "AGENT")]
    to: Option<String>,
    /// Write it to a new .md or .html file
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath, conflicts_with = "to")]
    file: Option<PathBuf>,
    /// Copy it to the terminal's clipboard (OSC 52)
    #[arg(long, conflicts_with_all = ["to", "file", "json"])]
    clipboard: bool,
    /// Use the latest session of this project: a name or a folder
    #[arg(long, conflicts_with = "session", add = candidates::projects())]
    project: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// Fails when the daemon does not respond, the session does not exist, or a file cannot be written.
pub fn run(args: &HandoffArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let format = args.file.as_deref().map(Format::of).transpose()?;
    let project = args.project.as_deref().map_or_else(|| Ok(this_folder()), filter::project)?;
    let session = args.session.clone();
    let mut client = Client::connect(Start::IfNeeded)?;
    if let Some(agent) = args.to.clone() {
        return hand_over(&mut client, HandOver { session, project, agent }, args, out);
    }
    let answer = client.ask(Handoff { session, project })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let handoff = answer.read()?;
    match (&args.file, format) {
        (Some(path), Some(format)) => {
            let text = match format {
                Format::Markdown => handoff.text,
                Format::Html => html::page(&handoff.text),
            };
            write_new(path, &text)?;
            let session = terminal::session(&handoff.session_id);
            Ok(writeln!(
                out,
                "Wrote the handoff of session {session} to {}. Read it before you share it.",
                path.display()
            )?)
        }
        _ if args.clipboard => {
            to_clipboard(&handoff.text)?;
            let length = handoff.text.chars().count();
            Ok(writeln!(
                out,
                "Sent {} to the terminal's clipboard. If they do not arrive, your terminal forbids this: use `--file`.",
                counted(length, "character", "characters")
            )?)
        }
        _ => Ok(out.write_all(handoff.text.as_bytes())?),
    }
}

fn hand_over(
    client: &mut Client,
    request: HandOver,
    args: &HandoffArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let answer = client.ask(request)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let handed = answer.read()?;
    let session = terminal::session(&handed.session_id);
    writeln!(
        out,
        "The next session of {} in {} receives the handoff of session {session}, if it starts within 7 days.",
        handed.agent_title, handed.project
    )?;
    Ok(writeln!(out, "`recall handoff {session}` shows the text.")?)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Markdown,
    Html,
}

impl Format {
    fn of(path: &Path) -> anyhow::Result<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("md" | "markdown") => Ok(Self::Markdown),
            Some("html" | "htm") => Ok(Self::Html),
            _ => Err(Failure::usage(format!("{} ends with neither .md nor .html", path.display()))
                .hint("The extension chooses the format, e.g. `--file handoff.html`.")
                .into()),
        }
    }
}

/// Writes a new file that only the user can read: they decide who else may.
fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(|error| {
        Failure::failed(format!("Cannot create {}: {error}", path.display()))
            .hint("Name a new file in an existing folder.")
    })?;
    file.write_all(text.as_bytes()).with_context(|| format!("Cannot write {}", path.display()))
}

/// Sends the text to the terminal's clipboard, even if stdout is a pipe.
fn to_clipboard(text: &str) -> anyhow::Result<()> {
    let mut terminal = OpenOptions::new().write(true).open("/dev/tty").map_err(|error| {
        Failure::failed(format!("There is no terminal with a clipboard: {error}"))
            .hint("Pipe the text to a program that has one: `recall handoff | wl-copy`.")
    })?;
    terminal
        .write_all(format!("\u{1b}]52;c;{}\u{1b}\\", base64(text.as_bytes())).as_bytes())
        .context("Cannot write to the terminal")
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = (bits >> (18 - 6 * at)) as usize & 63;
            let digit = DIGITS.get(digit).copied().map_or('=', char::from);
            text.push(if at <= three.len() { digit } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_base64() {
        let encoded = ["", "f", "fo", "foo", "foob", "é\n"].map(|text| base64(text.as_bytes()));
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "w6kK"]);
    }

    #[test]
    fn the_file_extension_determines_the_format() {
        let of = |name: &str| Format::of(Path::new(name)).ok();
        assert_eq!(of("a.md"), Some(Format::Markdown));
        assert_eq!(of("a.b.html"), Some(Format::Html));
        assert_eq!((of("a.pdf"), of("html")), (None, None));
    }
}
