//! `recall config list`, `get`, `set`, `edit` and `path`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use recall_protocol::paths::Paths;
use serde_json::json;
use toml_edit::{DocumentMut, Item, Table, Value};

use crate::cli::edit::open;
use crate::cli::failure::Failure;
use crate::cli::terminal::{DIM, GOOD, table};
use crate::config::template::{KnownKey, TEMPLATE, keys};
use crate::config::{Config, Problem};
use crate::search::edit_distance::edits;

/// Typos of a key that are understood.
const MOST_EDITS: usize = 3;

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct GetArgs {
    /// For example context.start_tokens
    key: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  recall config set context.start_tokens 600
  recall config set capture.exclude '[\"~/clients/*\"]'
  recall config set durability.sync --unset      back to the default")]
pub struct SetArgs {
    /// For example context.start_tokens
    key: String,
    /// A number, true or false, a text, or a list in brackets
    #[arg(required_unless_present = "unset", allow_hyphen_values = true)]
    value: Option<String>,
    /// Take the key out of the file
    #[arg(long, conflicts_with = "value")]
    unset: bool,
}

#[derive(Debug, Args)]
pub struct EditArgs {}

#[derive(Debug, Args)]
pub struct PathArgs {}

pub(super) fn path(out: &mut dyn Write) -> anyhow::Result<()> {
    Ok(writeln!(out, "{}", file()?.display())?)
}

pub(super) fn list(args: &ListArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let file = file()?;
    let document = parsed(&file, &read(&file)?)?;
    let settings = keys().into_iter().map(|known| (known, written(&document, known)));
    if args.json {
        let settings: Vec<_> = settings
            .map(|(known, value)| {
                let origin = if value.is_some() { "file" } else { "default" };
                let value = value.unwrap_or_else(|| known.default.to_owned());
                json!({"key": name(known), "value": value, "default": known.default, "origin": origin})
            })
            .collect();
        return Ok(writeln!(out, "{}", json!({"path": file.display().to_string(), "settings": settings}))?);
    }
    let rows: Vec<Vec<String>> = settings
        .map(|(known, value)| {
            let origin = if value.is_some() { "file" } else { "default" };
            vec![name(known), value.unwrap_or_else(|| known.default.to_owned()), origin.to_owned()]
        })
        .collect();
    table(out, &["key", "value", "from"], &rows)?;
    Ok(writeln!(out, "{DIM}{}{DIM:#}", file.display())?)
}

pub(super) fn get(args: &GetArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let known = known(&args.key)?;
    let file = file()?;
    let value = written(&parsed(&file, &read(&file)?)?, known).unwrap_or_else(|| known.default.to_owned());
    // A script wants the text and not its quotes.
    let bare = value.parse::<Value>().ok().and_then(|value| value.as_str().map(str::to_owned));
    Ok(writeln!(out, "{}", bare.unwrap_or(value))?)
}

/// Writes nothing that the daemon would not accept.
pub(super) fn set(args: &SetArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let known = known(&args.key)?;
    let file = file()?;
    let before = read(&file)?;
    let mut document = parsed(&file, &before)?;
    match &args.value {
        Some(value) => {
            let section = document.entry(known.section).or_insert_with(|| Item::Table(Table::new()));
            let keys = section.as_table_like_mut().ok_or_else(|| {
                Failure::failed(format!("{} is no table in {}", known.section, file.display()))
                    .hint("Mend it with `recall config edit`.")
            })?;
            let value = meant(value);
            match keys.get_mut(known.key).and_then(Item::as_value_mut) {
                // The comment behind it stays.
                Some(place) => {
                    let decor = place.decor().clone();
                    *place = value;
                    *place.decor_mut() = decor;
                }
                None => drop(keys.insert(known.key, Item::Value(value))),
            }
        }
        None => {
            if let Some(keys) = document.get_mut(known.section).and_then(Item::as_table_like_mut) {
                keys.remove(known.key);
            }
        }
    }
    let after = document.to_string();
    let old = Config::parse(&before).problems;
    let is_new = |problem: &&Problem| !old.iter().any(|known| known.what == problem.what);
    if let Some(problem) = Config::parse(&after).problems.iter().find(is_new) {
        return Err(Failure::usage(format!("This value is not accepted: {}", problem.what))
            .hint("Nothing was changed. `recall config list` shows the defaults.")
            .into());
    }
    replace(&file, &after)?;
    let value = written(&document, known).unwrap_or_else(|| known.default.to_owned());
    writeln!(out, "{} = {value}", name(known))?;
    tell_when(known, out)
}

/// What the user does next, if the daemon does not take the change by itself.
fn tell_when(known: KnownKey, out: &mut dyn Write) -> anyhow::Result<()> {
    let is_live = known.section == "redaction" || name(known) == "capture.exclude";
    let when = match is_live {
        true => "A running daemon takes it up within two seconds.",
        false => "It counts from the daemon's next start: `recall ctl stop`, then go on.",
    };
    Ok(writeln!(out, "{when}")?)
}

pub(super) fn edit(EditArgs {}: &EditArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let file = file()?;
    if !file.exists() {
        replace(&file, TEMPLATE)?;
    }
    open(&file)?;
    let problems = Config::load(&file).problems;
    if problems.is_empty() {
        return Ok(writeln!(
            out,
            "{GOOD}The settings are valid.{GOOD:#} `recall ctl status` says what waits for a restart."
        )?);
    }
    let named: Vec<_> = problems.iter().map(|problem| format!("{}, {problem}", file.display())).collect();
    Err(Failure::failed(format!("The configuration has errors: {}", named.join("; ")))
        .hint("Mend them with `recall config edit`. Until then these keys have their defaults.")
        .into())
}

fn file() -> anyhow::Result<PathBuf> {
    Ok(Paths::from_env().context("finding recall's folders")?.config_file().to_owned())
}

/// An absent file is empty.
fn read(file: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Failure::failed(format!("Cannot read {}: {error}", file.display()))
            .hint("Make it a text file that you may read.")
            .into()),
    }
}

fn parsed(file: &Path, text: &str) -> anyhow::Result<DocumentMut> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let place = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
        Failure::failed(format!("{}, line {place}: {}", file.display(), error.message()))
            .hint("Mend it with `recall config edit`.")
            .into()
    })
}

/// Keeps the permissions of the file that was there.
fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    // A link stays one.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().context("the file has no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut draft =
        tempfile::NamedTempFile::new_in(folder).with_context(|| format!("writing {}", folder.display()))?;
    draft.write_all(text.as_bytes())?;
    if let Ok(known) = fs::metadata(&file) {
        draft.as_file().set_permissions(known.permissions())?;
    }
    draft.persist(&file).with_context(|| format!("writing {}", file.display()))?;
    Ok(())
}

fn name(known: KnownKey) -> String {
    format!("{}.{}", known.section, known.key)
}

fn known(typed: &str) -> anyhow::Result<KnownKey> {
    let keys = keys();
    if let Some(known) = keys.iter().find(|known| name(**known) == typed) {
        return Ok(*known);
    }
    let near = |known: &KnownKey| match typed.contains('.') {
        true => edits(typed, &name(*known)),
        false => edits(typed, known.key),
    };
    let nearest = keys.iter().copied().min_by_key(near).filter(|known| near(known) <= MOST_EDITS);
    let failure = Failure::usage(format!("There is no setting {typed:?}"));
    Err(match nearest {
        Some(nearest) => failure.hint(format!("Did you mean {}?", name(nearest))),
        None => failure.hint("`recall config list` shows them all. [[subscribe]] is edited by hand."),
    }
    .into())
}

/// As it stands in the file; `None` if it does not.
fn written(document: &DocumentMut, known: KnownKey) -> Option<String> {
    let value = document.get(known.section)?.as_table_like()?.get(known.key)?.as_value()?;
    let mut bare = value.clone();
    bare.decor_mut().clear();
    Some(bare.to_string())
}

/// What is no TOML is a text: nobody quotes twice at a shell.
fn meant(typed: &str) -> Value {
    typed.parse().unwrap_or_else(|_| Value::from(typed))
}
