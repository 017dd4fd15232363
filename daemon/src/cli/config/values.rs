//! `recall config list`, `get`, `set`, `unset`: single keys.

use std::io::Write;

use clap::Args;
use recall_protocol::paths::Paths;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::candidates;
use crate::cli::failure::Failure;
use crate::cli::guard::print_unguarded_agents;
use crate::cli::terminal::{DIM, WARNING, table};
use crate::server::run::last_config;
use crate::service::environment::Environment;
use recall_config::Config;
use recall_config::change::{self, ChangeError, Origin, Setting};
use recall_config::keys::{Key, as_toml};

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only keys that the settings file sets
    #[arg(long)]
    changed: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct GetArgs {
    /// A key, such as context.start_tokens, or a table, such as context
    #[arg(add = candidates::keys())]
    key: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct SetArgs {
    /// A key, such as context.start_tokens
    #[arg(add = candidates::keys())]
    key: String,
    /// The new value; several for a list
    #[arg(required_unless_present = "unset", allow_negative_numbers = true)]
    value: Vec<String>,
    /// Remove the key from the file, as `recall config unset` does
    #[arg(long, conflicts_with = "value")]
    unset: bool,
}

#[derive(Debug, Args)]
pub struct UnsetArgs {
    /// A key, such as context.start_tokens
    #[arg(add = candidates::keys())]
    key: String,
}

#[derive(Debug, Args)]
pub struct PathArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A setting for scripts.
#[derive(Serialize)]
struct Listed<'a> {
    key: &'a str,
    value: &'a Value,
    default: Value,
    /// `default`, `file`, or `ignored` for an invalid value in the file.
    origin: &'static str,
    line: Option<usize>,
    allowed: String,
    meaning: &'a str,
}

impl<'a> Listed<'a> {
    fn of(setting: &'a Setting) -> Self {
        let (origin, line) = match setting.origin {
            Origin::Default => ("default", None),
            Origin::File(line) => ("file", Some(line)),
            Origin::Ignored(line) => ("ignored", Some(line)),
        };
        let Setting { key, value, .. } = setting;
        let (default, allowed) = (key.default_value(), key.allowed());
        Self { key: &key.name, value, default, origin, line, allowed, meaning: &key.meaning }
    }
}

pub(super) fn list(args: &ListArgs, paths: &Paths, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut settings = Config::settings(paths.config_file());
    if args.changed {
        settings.retain(|setting| setting.origin != Origin::Default);
    }
    if args.json {
        let listed: Vec<_> = settings.iter().map(Listed::of).collect();
        let file = paths.config_file().display().to_string();
        return Ok(writeln!(out, "{}", json!({"path": file, "settings": listed}))?);
    }
    let rows: Vec<Vec<String>> = settings
        .iter()
        .map(|Setting { key, value, origin }| {
            let default = || format_value(&key.default_value());
            let origin = match origin {
                Origin::Default => "default".to_owned(),
                Origin::File(line) => format!("line {line}, default {}", default()),
                Origin::Ignored(line) => format!("{WARNING}line {line} is not valid{WARNING:#}"),
            };
            vec![key.name.clone(), origin, format_value(value)]
        })
        .collect();
    if rows.is_empty() {
        writeln!(out, "The file sets nothing, so all defaults apply.")?;
    } else {
        table(out, &["KEY", "FROM", "VALUE"], &rows)?;
    }
    let file = paths.config_file();
    let missing = if file.exists() { "" } else { " (does not exist)" };
    writeln!(out, "{DIM}{}{missing}{DIM:#}", file.display())?;
    let loaded = Config::obeyed(file, &last_config(paths));
    for problem in &loaded.problems {
        writeln!(out, "{WARNING}{problem}{WARNING:#}")?;
    }
    if !loaded.problems.is_empty() {
        writeln!(out, "{WARNING}{}{WARNING:#}", loaded.consequence())?;
    }
    Ok(())
}

pub(super) fn path(args: &PathArgs, paths: &Paths, out: &mut dyn Write) -> anyhow::Result<()> {
    let file = paths.config_file();
    if args.json {
        let path = file.display().to_string();
        return Ok(writeln!(out, "{}", json!({"path": path, "exists": file.exists()}))?);
    }
    Ok(writeln!(out, "{}", file.display())?)
}

fn format_value(value: &Value) -> String {
    if value.is_null() { "(none)".to_owned() } else { as_toml(value) }
}

pub(super) fn get(args: &GetArgs, paths: &Paths, out: &mut dyn Write) -> anyhow::Result<()> {
    let settings = Config::settings(paths.config_file());
    let table = format!("{}.", args.key.trim_end_matches('.'));
    let of_table: Vec<&Setting> =
        settings.iter().filter(|setting| setting.key.name.starts_with(&table)).collect();
    if !of_table.is_empty() {
        return get_table(&of_table, args, out);
    }
    let key = known(&args.key)?;
    let value = settings.iter().find(|setting| setting.key.name == key.name);
    let value = value.map(|setting| setting.value.clone()).unwrap_or_default();
    match &value {
        value if args.json => writeln!(out, "{value}")?,
        // Unquoted, for scripts.
        Value::String(text) => writeln!(out, "{text}")?,
        value => writeln!(out, "{}", as_toml(value))?,
    }
    Ok(())
}

/// Prints all keys of a table.
fn get_table(settings: &[&Setting], args: &GetArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if args.json {
        let values: serde_json::Map<String, Value> =
            settings.iter().map(|setting| (setting.key.name.clone(), setting.value.clone())).collect();
        return Ok(writeln!(out, "{}", Value::Object(values))?);
    }
    for Setting { key, value, .. } in settings {
        writeln!(out, "{} = {}", key.name, format_value(value))?;
    }
    Ok(())
}

pub(super) fn set(args: &SetArgs, paths: &Paths, out: &mut dyn Write) -> anyhow::Result<()> {
    let key = known(&args.key)?;
    let (file, text) = super::file(paths)?;
    let text = text.unwrap_or_default();
    if args.unset {
        return unset(&UnsetArgs { key: args.key.clone() }, paths, out);
    }
    let changed = change::set(&text, &key, &args.value).map_err(|error| refused(error, &key))?;
    if changed != text {
        super::print_recipients(&text, &changed, out)?;
        if key.name.ends_with("base_url") {
            super::print_address(args.value.first().map_or("", String::as_str), &changed, out)?;
        }
        out.flush()?;
        file.write(&changed)?;
    }
    let setting =
        Config::settings(paths.config_file()).into_iter().find(|setting| setting.key.name == key.name);
    let value = setting.map(|setting| setting.value).unwrap_or_default();
    writeln!(out, "{} = {}", key.name, format_value(&value))?;
    Ok(print_effect_time(out, &key)?)
}

pub(super) fn unset(args: &UnsetArgs, paths: &Paths, out: &mut dyn Write) -> anyhow::Result<()> {
    let key = known(&args.key)?;
    let (file, text) = super::file(paths)?;
    let text = text.unwrap_or_default();
    let changed = change::unset(&text, &key).map_err(|error| refused(error, &key))?;
    if changed == text {
        return Ok(writeln!(out, "The file does not contain {}.", key.name)?);
    }
    super::print_recipients(&text, &changed, out)?;
    file.write(&changed)?;
    writeln!(out, "{} = {}", key.name, format_value(&key.default_value()))?;
    Ok(print_effect_time(out, &key)?)
}

/// Says when a change takes effect.
fn print_effect_time(out: &mut dyn Write, key: &Key) -> std::io::Result<()> {
    let when = match key.name.starts_with("mcp.") {
        true => "when an agent next starts `recall mcp`",
        false => "within two seconds",
    };
    writeln!(out, "{DIM}Takes effect {when}.{DIM:#}")?;
    if key.name.starts_with("guards.") {
        print_unguarded_agents(out, Environment::of_process().as_ref())?;
    }
    Ok(())
}

fn known(name: &str) -> anyhow::Result<Key> {
    if let Some(key) = Key::find(name) {
        return Ok(key);
    }
    let lists = [("subscribe", "commands"), ("hint", "texts"), ("remote", "places"), ("share", "projects")];
    let table = name.split('.').next().unwrap_or_default();
    if let Some((table, what)) = lists.into_iter().find(|(list, _)| *list == table) {
        let failure = Failure::usage(format!("[[{table}]] is a list of {what}, not a key"));
        return Err(failure.hint("Add one with `recall config edit`.").into());
    }
    let hint = match Key::nearest(name) {
        Some(nearest) => format!("Did you mean {nearest}?"),
        None => "`recall config list` shows all settings.".to_owned(),
    };
    Err(Failure::usage(format!("There is no setting {name:?}")).hint(hint).into())
}

fn refused(error: ChangeError, key: &Key) -> Failure {
    let hint = match &error {
        ChangeError::NotToml { .. } => "Fix it first with `recall config edit`.".to_owned(),
        ChangeError::Kind { .. } => format!("{}. The file was not changed.", key.meaning),
        ChangeError::Several { .. } | ChangeError::Refused { .. } => {
            format!("{}: {}. The file was not changed.", key.meaning, key.allowed())
        }
    };
    Failure::usage(error.to_string()).hint(hint)
}
