//! The sentence model of `recall install`. A user at a terminal is asked once; without a terminal the model is
//! installed.
//!
//! If it cannot be downloaded, the installation still succeeds.

use std::io::{BufRead, Write};

use anyhow::Context;
use recall_protocol::paths::Paths;

use super::get::{Asked, Decided, Getting, USUAL};
use crate::cli::install::settings_file::SettingsFile;
use crate::cli::terminal::{WARNING, bytes};
use recall_config::change;
use recall_config::keys::Key;
use recall_embedding::Published;

/// How to decide whether to download the model.
pub(in crate::cli) enum Offer<'a> {
    /// Print what would be done.
    Show,
    Ask(&'a mut dyn BufRead),
    /// There is no terminal to ask at, so get it.
    Get,
}

impl Offer<'_> {
    pub(in crate::cli) fn make(self, paths: &Paths, out: &mut dyn Write) -> anyhow::Result<()> {
        let Some(model) = Published::named(USUAL) else { return Ok(()) };
        let getting = Getting::new(&model, paths, Asked::InPassing);
        match Decided::read(paths.config_file(), &model) {
            Decided::ForAnother => return Ok(()),
            Decided::Against => {
                writeln!(out, "Search by meaning is off in your settings; `recall model get` turns it on.")?;
                return Ok(());
            }
            Decided::ForIt if getting.is_installed() => return Ok(()),
            Decided::ForIt | Decided::Nothing => {}
        }
        let Published { title, page, .. } = &model;
        let (size, stays) = (bytes(model.bytes()), bytes(model.installed_bytes));
        match self {
            Self::Show => {
                writeln!(
                    out,
                    "Sentence model: {title} would come from {page} ({size}); --no-model leaves it out."
                )?;
                return Ok(());
            }
            Self::Ask(input) => {
                writeln!(
                    out,
                    "A sentence model lets searches find text by its meaning: {title}, a download of {size} from {page}, then {stays} on disk. It runs on this machine and sends nothing anywhere."
                )?;
                if !agrees(input, out)? {
                    decline(paths)?;
                    writeln!(out, "Searches use words only. `recall model get` downloads the model later.")?;
                    return Ok(());
                }
            }
            Self::Get => {}
        }
        if let Err(error) = getting.run(None, out) {
            writeln!(
                out,
                "{WARNING}Searches use words only: {error}.{WARNING:#} `recall model get` downloads the model later."
            )?;
        }
        Ok(())
    }
}

/// Anything except a clear no means yes.
fn agrees(input: &mut dyn BufRead, out: &mut dyn Write) -> anyhow::Result<bool> {
    write!(out, "Download it? [Y/n] ")?;
    out.flush()?;
    let mut answer = String::new();
    let length = input.read_line(&mut answer)?;
    Ok(length > 0 && !answer.trim().to_lowercase().starts_with('n'))
}

/// Writes the answer to the settings, so the user is not asked again.
fn decline(paths: &Paths) -> anyhow::Result<()> {
    let file = SettingsFile::at(paths.config_file())?;
    let text = file.read()?.unwrap_or_default();
    let key = Key::find("embedding.backend").context("Cannot find a setting")?;
    file.write(&change::set(&text, &key, &["none".to_owned()])?)?;
    Ok(())
}
