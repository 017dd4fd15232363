//! Reads `config.toml` piece by piece, so that an error affects only its own key, and all errors are reported at once.
//!
//! Some parts are accepted only as a whole: `[compression]` and `[embedding]`, where a missing key could send notes to
//! a different url or exceed a limit; each `[[subscribe]]`, which runs a command; and each `[[hint]]`. If the file is
//! not valid TOML, these parts and all keys that weaken redaction are ignored, because the recovered text may differ
//! from what was meant.

use std::collections::HashMap;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use super::Written;
use super::keys;
use super::table::{Acceptance, KeyKind, TableFacts};
use super::tables::TABLES;
use recall_repository::project_file::ExcludedNames;
use recall_search::edit_distance::nearest_name;

/// An error in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Counted from 1. 0 if the whole file is concerned.
    pub line: usize,
    /// In characters, counted from 1. 0 if the whole file is concerned.
    pub column: usize,
    pub what: String,
}

impl Problem {
    fn is_of_unknown_key(&self) -> bool {
        ["unknown key", "unknown table"].iter().any(|known| self.what.starts_with(known))
            || self.what.contains("is outside of a table")
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.what),
            line => write!(f, "line {line}, column {}: {}", self.column, self.what),
        }
    }
}

/// Whether all of `capture.exclude` was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Understood {
    Whole,
    /// Something is excluded, but it is not known what.
    Partly,
}

/// The result of reading a text.
pub(super) struct Reading {
    pub written: Written,
    pub problems: Vec<Problem>,
    pub exclusions: Understood,
}

pub(super) fn read(text: &str) -> Reading {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader {
        text,
        kept: DeTable::new(),
        problems: Vec::new(),
        exclusions: Understood::Whole,
        unknown_key_patterns: Vec::new(),
    };
    for error in &errors {
        reader.problem(error.span().map_or(0, |span| span.start), error.message());
    }
    let table = table.into_inner();
    let is_toml = errors.is_empty();
    if !is_toml && !exclusions_are_whole(text, &table) {
        reader.exclusions = Understood::Partly;
    }
    for (section, value) in table {
        let table = TABLES.iter().find(|table| table.name == section.get_ref().as_ref());
        match (table, section.get_ref().as_ref()) {
            (Some(table), _) if table.acceptance == Acceptance::ByKey => {
                reader.by_key(&section, value, table);
            }
            (Some(_), name) | (None, name @ ("subscribe" | "hint" | "remote" | "share")) if !is_toml => {
                let what = format!("[{name}] is ignored while the file is not valid TOML");
                reader.problem(section.span().start, &what);
            }
            (Some(_), _) => {
                reader.take(DeTable::from_iter([(section.clone(), value)]), section.span().start, "");
            }
            (None, "subscribe" | "hint" | "remote" | "share") => reader.by_entry(&section, value),
            (None, _) => reader.unknown(section, value),
        }
    }
    let Reader { kept, mut problems, mut exclusions, unknown_key_patterns, .. } = reader;
    if !is_toml {
        let torn: Vec<usize> = errors
            .iter()
            .filter_map(|error| error.span())
            .map(|span| line_of(text, span.start))
            .filter(|line| is_header(text, *line))
            .collect();
        problems.retain(|problem| {
            !problem.is_of_unknown_key() || !torn.contains(&header_above(text, problem.line))
        });
    }
    let mut written = match Written::deserialize(Deserializer::from(Spanned::new(0..text.len(), kept))) {
        Ok(written) => written,
        Err(error) => {
            problems.push(Problem { line: 0, column: 0, what: error.message().to_owned() });
            exclusions = Understood::Partly;
            Written::default()
        }
    };
    written.capture.exclude.extend(unknown_key_patterns);
    let unsettled = super::sharing::settle(&mut written.remote, &mut written.share);
    problems.extend(unsettled.into_iter().map(|what| Problem { line: 0, column: 0, what }));
    if !is_toml {
        written.redaction.enabled = true;
        written.redaction.allow.clear();
        written.guards.allow.clear();
    }
    problems.sort();
    problems.dedup();
    Reading { written, problems, exclusions }
}

struct Reader<'i> {
    text: &'i str,
    /// The valid parts.
    kept: DeTable<'i>,
    problems: Vec<Problem>,
    exclusions: Understood,
    /// The patterns of an unknown key that was most likely meant to exclude.
    unknown_key_patterns: Vec<String>,
}

type Key<'i> = Spanned<std::borrow::Cow<'i, str>>;

impl<'i> Reader<'i> {
    fn problem(&mut self, offset: usize, what: &str) {
        let what = recall_domain::text::one_line(what);
        let (line, column) = (line_of(self.text, offset), column_of(self.text, offset));
        self.problems.push(Problem { line, column, what });
    }

    /// Reads a section whose keys are independent of each other.
    fn by_key(&mut self, section: &Key<'i>, value: Spanned<DeValue<'i>>, table: &TableFacts) {
        let name = section.get_ref().clone();
        let DeValue::Table(keys) = value.get_ref() else {
            self.problem(section.span().start, &format!("{name} must be a table: [{name}]"));
            if name == "capture" {
                self.exclusions = Understood::Partly;
            }
            return;
        };
        for (key, item) in keys.clone() {
            let dotted = format!("{name}.{}", key.get_ref());
            let known = table.keys.iter().find(|known| known.name == dotted);
            // The elements of a list are checked one by one.
            let is_list = known.is_some_and(|known| known.kind == KeyKind::Texts);
            let (at, excludes) = (key.span().start, dotted == "capture.exclude");
            let pieces = match item.get_ref() {
                DeValue::Array(list) if is_list && !list.is_empty() => {
                    list.iter().map(|one| (one.span().start, array(one.clone()))).collect()
                }
                _ => vec![(at, item.clone())],
            };
            for (at, piece) in pieces {
                let keys = DeTable::from_iter([(key.clone(), piece)]);
                let piece = DeTable::from_iter([(section.clone(), Spanned::new(0..0, DeValue::Table(keys)))]);
                if !self.take(piece, at, &dotted) && excludes {
                    self.exclusions = Understood::Partly;
                }
            }
            if name == "capture" && known.is_none() {
                self.keep_pattern(&item);
            }
        }
    }

    fn by_entry(&mut self, section: &Key<'i>, value: Spanned<DeValue<'i>>) {
        let DeValue::Array(entries) = value.get_ref() else {
            let what = format!("{name} must be a list: [[{name}]]", name = section.get_ref());
            return self.problem(section.span().start, &what);
        };
        for entry in entries.iter() {
            let piece = DeTable::from_iter([(section.clone(), array(entry.clone()))]);
            self.take(piece, entry.span().start, section.get_ref());
        }
    }

    /// Reports an unknown section.
    fn unknown(&mut self, section: Key<'i>, value: Spanned<DeValue<'i>>) {
        let meant = match value.get_ref() {
            DeValue::Array(_) if section.get_ref() == "exclude" => Some(value.clone()),
            DeValue::Table(keys) => keys.get("exclude").cloned(),
            _ => None,
        };
        if let Some(meant) = meant {
            self.keep_pattern(&meant);
        }
        let at = section.span().start;
        if !matches!(value.get_ref(), DeValue::Table(_)) {
            let name = section.get_ref();
            let meant = keys::Key::nearest(name).and_then(|key| key.rsplit_once('.'));
            let meant = meant.map(|(table, key)| format!("; did you mean `{key}` in [{table}]?"));
            return self.problem(at, &format!("`{name}` is outside of a table{}", meant.unwrap_or_default()));
        }
        self.take(DeTable::from_iter([(section, value)]), at, "");
    }

    fn keep_pattern(&mut self, value: &Spanned<DeValue<'i>>) {
        let DeValue::Array(list) = value.get_ref() else { return };
        for pattern in list.iter().filter_map(|one| one.get_ref().as_str()) {
            match ExcludedNames::new(&[pattern.to_owned()]) {
                Ok(_) => self.unknown_key_patterns.push(pattern.to_owned()),
                Err(_) => self.exclusions = Understood::Partly,
            }
        }
    }

    /// Keeps a piece if it is valid.
    fn take(&mut self, piece: DeTable<'i>, at: usize, dotted: &str) -> bool {
        let read = Written::deserialize(Deserializer::from(Spanned::new(0..0, piece.clone())));
        let problems = match read {
            Ok(written) => {
                let found = written.problems();
                found.into_iter().map(|what| (offset_of(&piece, &what).max(at), what)).collect()
            }
            Err(error) => {
                let offset = offset_in(&error).unwrap_or(at);
                let known = if dotted.is_empty() { key_at(&piece, offset) } else { dotted.to_owned() };
                let mut problems = vec![(offset, in_words(error.message(), &known))];
                problems.extend(further_problems(&piece, &error, at));
                problems
            }
        };
        let is_right = problems.is_empty();
        for (offset, what) in problems {
            self.problem(offset, &what);
        }
        if is_right {
            merge(&mut self.kept, piece);
        }
        is_right
    }
}

fn offset_in(error: &toml::de::Error) -> Option<usize> {
    error.span().filter(|span| span.end > 0).map(|span| span.start)
}

/// Finds further problems of a part that is rejected as a whole, by checking it without the keys reported so far.
fn further_problems(piece: &DeTable<'_>, first: &toml::de::Error, at: usize) -> Vec<(usize, String)> {
    let (mut left, mut problems) = (piece.clone(), Vec::new());
    let mut known = key_at(piece, offset_in(first).unwrap_or(at));
    while remove(&mut left, &known) {
        match Written::deserialize(Deserializer::from(Spanned::new(0..0, left.clone()))) {
            Ok(written) => {
                let found = written.problems().into_iter();
                problems.extend(found.map(|what| (offset_of(&left, &what).max(at), what)));
                break;
            }
            Err(error) => {
                let offset = offset_in(&error).unwrap_or(at);
                known = key_at(&left, offset);
                problems.push((offset, in_words(error.message(), &known)));
            }
        }
    }
    problems
}

/// Removes a key from this table or a nested one. Returns false if there is no such key.
fn remove(table: &mut DeTable<'_>, dotted: &str) -> bool {
    let Some((name, rest)) = dotted.split_once('.') else { return false };
    let Some(inner) = table.get_mut(name).and_then(|value| match value.get_mut() {
        DeValue::Table(inner) => Some(inner),
        _ => None,
    }) else {
        return false;
    };
    match rest.contains('.') {
        true => remove(inner, rest),
        false => inner.remove(rest).is_some(),
    }
}

fn array<'i>(one: Spanned<DeValue<'i>>) -> Spanned<DeValue<'i>> {
    let mut list = DeArray::new();
    let span = one.span();
    list.push(one);
    Spanned::new(span, DeValue::Array(list))
}

fn merge<'i>(into: &mut DeTable<'i>, piece: DeTable<'i>) {
    for (key, value) in piece {
        match (into.get_mut(&key).map(Spanned::get_mut), value.into_inner()) {
            (Some(DeValue::Table(there)), DeValue::Table(more)) => merge(there, more),
            (Some(DeValue::Array(there)), DeValue::Array(more)) => {
                for one in more.iter() {
                    there.push(one.clone());
                }
            }
            (_, value) => {
                into.insert(key, Spanned::new(0..0, value));
            }
        }
    }
}

/// The offset of the key with which a message begins, or else of the closest table around it; 0 if there is neither.
fn offset_of(table: &DeTable<'_>, what: &str) -> usize {
    let dotted = what.split([' ', ':']).next().unwrap_or_default();
    let (mut here, mut offset) = (table, 0);
    for name in dotted.split('.') {
        let Some((key, value)) = here.get_key_value(name) else { break };
        offset = offset.max(key.span().start);
        let DeValue::Table(next) = value.get_ref() else { break };
        here = next;
    }
    offset
}

/// Whether the exclusions in an invalid TOML text are known for certain: their own lines must be valid TOML, and the
/// key must not occur elsewhere.
fn exclusions_are_whole(text: &str, table: &DeTable<'_>) -> bool {
    let capture = table.get("capture").map(Spanned::get_ref).and_then(DeValue::as_table);
    let found = capture.and_then(|keys| keys.get_key_value("exclude"));
    let (from, to) = found.map_or((0, 0), |(key, value)| (key.span().start, value.span().end));
    let from = text.get(..from).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let to =
        to + text.get(to..).and_then(|after| after.find('\n')).unwrap_or(text.len() - to.min(text.len()));
    if found.is_none() {
        return !names_exclusions(text);
    }
    let (before, own, after) = (text.get(..from), text.get(from..to), text.get(to..));
    own.is_some_and(|own| DeTable::parse(own).is_ok())
        && !before.is_some_and(names_exclusions)
        && !after.is_some_and(names_exclusions)
}

fn names_exclusions(text: &str) -> bool {
    text.lines().any(|line| line.split('#').next().is_some_and(|code| code.contains("exclude")))
}

/// Whether a line, counted from 1, begins a table.
fn is_header(text: &str, line: usize) -> bool {
    text.lines().nth(line.saturating_sub(1)).is_some_and(|line| line.trim_start().starts_with('['))
}

/// The line of the closest header above a line; 0 if there is none.
fn header_above(text: &str, line: usize) -> usize {
    (1..line).rev().find(|line| is_header(text, *line)).unwrap_or(0)
}

/// The key at this offset of a part: the last one that begins before it.
fn key_at(piece: &DeTable<'_>, offset: usize) -> String {
    let (mut here, mut dotted) = (piece, Vec::new());
    loop {
        let before = here.iter().filter(|(key, _)| key.span().start <= offset);
        let Some((key, value)) = before.max_by_key(|(key, _)| key.span().start) else { break };
        dotted.push(key.get_ref().to_string());
        let DeValue::Table(next) = value.get_ref() else { break };
        here = next;
    }
    dotted.join(".")
}

/// Rewords a message of the parser: what is wrong, and what was meant or is allowed. `dotted` is the key.
fn in_words(message: &str, dotted: &str) -> String {
    if let Some(known) = message.strip_prefix("unknown field ") {
        let mut names = known.split('`').skip(1).step_by(2);
        let typed = names.next().unwrap_or_default();
        let names: Vec<&str> = names.collect();
        let table = dotted.rsplit_once('.').map(|(table, _)| table);
        let what = match table {
            Some(table) => format!("unknown key `{typed}` in [{table}]"),
            None => format!("unknown table [{typed}]"),
        };
        let quoted = |name: &str| if table.is_some() { format!("`{name}`") } else { format!("[{name}]") };
        return match nearest_name(typed, names.iter().copied()) {
            Some(nearest) => format!("{what}; did you mean {}?", quoted(nearest)),
            None => {
                let known: Vec<_> = names.into_iter().map(quoted).collect();
                format!("{what}; it must be one of {}", known.join(", "))
            }
        };
    }
    let place = |message: &str| match dotted {
        "" => message.to_owned(),
        dotted => format!("{dotted}: {message}"),
    };
    let Some(key) = keys::Key::find(dotted) else { return place(message) };
    let Some(value) = value_in(message) else { return place(message) };
    let meant = key.choices().and_then(|names| nearest_name(value.trim_matches('"'), names.iter().copied()));
    let allowed = key.allowed();
    match meant {
        Some(name) => format!("{dotted} is {value}; did you mean \"{name}\"? It must be {allowed}"),
        None => format!("{dotted} is {value}; it must be {allowed}"),
    }
}

/// The value that the parser refuses, in the notation of the file.
fn value_in(message: &str) -> Option<String> {
    if let Some(variant) = message.strip_prefix("unknown variant ") {
        return variant.split('`').nth(1).map(|name| format!("\"{name}\""));
    }
    let unexpected = message.strip_prefix("invalid ")?.split_once(": ")?.1;
    let unexpected = unexpected.split(", expected").next().unwrap_or(unexpected);
    if let Some(text) = unexpected.strip_prefix("string ") {
        return Some(text.to_owned());
    }
    Some(match (unexpected.split('`').nth(1), unexpected) {
        (Some(value), _) => value.to_owned(),
        (None, "sequence") => "a list".to_owned(),
        (None, "map") => "a table".to_owned(),
        (None, unexpected) => unexpected.to_owned(),
    })
}

/// The keys of a text with their lines and values; empty for invalid TOML.
pub(super) fn lines_of_keys(text: &str) -> HashMap<String, (usize, serde_json::Value)> {
    let mut found = HashMap::new();
    let (table, _) = DeTable::parse_recoverable(text);
    let values: serde_json::Value = toml::from_str(text).unwrap_or_default();
    note_keys(text, table.get_ref(), &values, "", &mut found);
    found
}

fn note_keys(
    text: &str,
    table: &DeTable<'_>,
    values: &serde_json::Value,
    prefix: &str,
    found: &mut HashMap<String, (usize, serde_json::Value)>,
) {
    for (key, item) in table {
        let name = key.get_ref().as_ref();
        let value = values.get(name).cloned().unwrap_or_default();
        match item.get_ref() {
            DeValue::Table(inner) => note_keys(text, inner, &value, &format!("{prefix}{name}."), found),
            _ => {
                found.insert(format!("{prefix}{name}"), (line_of(text, key.span().start), value));
            }
        }
    }
}

/// The line and column of an offset, as text.
pub(super) fn place(text: &str, offset: usize) -> String {
    format!("line {}, column {}: ", line_of(text, offset), column_of(text, offset))
}

fn column_of(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or_default();
    1 + before.rsplit('\n').next().unwrap_or_default().chars().count()
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
