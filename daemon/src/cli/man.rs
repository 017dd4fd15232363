//! `recall man`: writes the manual pages, for packages and the installer. Each command's page is generated from its
//! help.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::roff::{Roff, roman};

use recall_app::clock;
use recall_system::faults::VERSION;

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder, created if it is missing
    folder: PathBuf,
}

/// Replaces existing pages.
pub fn run(args: &ManArgs, _: &mut dyn Write) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("Cannot create {}", args.folder.display()))?;
    let mut command = super::command_line().disable_help_subcommand(true);
    command.build();
    write(&command, &args.folder)
}

/// Writes a command's page and those of its subcommands.
fn write(command: &Command, folder: &Path) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = folder.join(format!("{name}.1"));
    page(command)
        .and_then(|page| std::fs::write(&path, page))
        .with_context(|| format!("Cannot write {}", path.display()))?;
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    shown.into_iter().try_for_each(|inner| write(inner, folder))
}

fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_uppercase();
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let manual = clap_mangen::Man::new(command.clone())
        .title(name)
        .date(day())
        .source(format!("recall {VERSION}"))
        .manual("recall Manual");
    let mut page = Vec::new();
    manual.render_title(&mut page)?;
    manual.render_name_section(&mut page)?;
    manual.render_synopsis_section(&mut page)?;
    manual.render_description_section(&mut page)?;
    let mut options = Vec::new();
    manual.render_options_section(&mut options)?;
    // Formatters warn about a break beside an empty line.
    let options = String::from_utf8_lossy(&options).replace("\n.br\n\n", "\n").replace("\n\n.br\n", "\n");
    page.extend(options.into_bytes());
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        manual.render_subcommands_section(&mut page)?;
    }
    if !notes.is_empty() {
        as_it_is("EXAMPLES", notes.strip_prefix("Examples:").unwrap_or(&notes)).to_writer(&mut page)?;
    }
    Ok(page)
}

/// Returns today, or the day set for a reproducible build.
fn day() -> String {
    let source_date = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let now = source_date.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    let now = now.unwrap_or_else(|| jiff::Timestamp::from_millisecond(clock::now().0).unwrap_or_default());
    now.strftime("%Y-%m-%d").to_string()
}

/// A section with its lines unchanged.
fn as_it_is(heading: &str, text: &str) -> Roff {
    let mut section = Roff::new();
    section.control("SH", [heading]).control("nf", []);
    for line in text.trim_matches('\n').lines() {
        section.text([roman(line)]);
    }
    section.control("fi", []);
    section
}
