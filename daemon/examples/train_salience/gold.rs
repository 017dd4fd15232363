//! Sentences that people marked as worth remembering, and the comparison of a text with them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::replay;

/// A text contains a fact if it has an alternative of every group; one of four or more groups may be missing.
pub(crate) struct Fact {
    pub(crate) kind: String,
    pub(crate) importance: f64,
    pub(crate) groups: Vec<Vec<String>>,
}

impl Fact {
    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.needs() <= groups_in(&self.groups, text)
    }

    /// The number of groups required.
    pub(crate) fn needs(&self) -> usize {
        self.groups.len() - usize::from(self.groups.len() >= 4)
    }
}

/// The number of groups with an alternative in a text.
pub(crate) fn groups_in(groups: &[Vec<String>], text: &str) -> usize {
    groups.iter().filter(|group| group.iter().any(|word| text.contains(word.as_str()))).count()
}

/// The gold of one session.
#[derive(Default)]
pub(crate) struct Gold {
    pub(crate) facts: Vec<Fact>,
    /// Term groups of each summary field.
    pub(crate) fields: BTreeMap<String, Vec<Vec<String>>>,
    pub(crate) noise_events: Vec<u64>,
    pub(crate) noise_batches: Vec<u64>,
}

/// The gold of a folder, by session.
pub(crate) fn load(folder: &Path) -> anyhow::Result<BTreeMap<String, Gold>> {
    let mut gold: BTreeMap<String, Gold> = BTreeMap::new();
    for line in lines(&folder.join("gold.jsonl"))? {
        gold.entry(text(&line, "session_id")).or_default().facts.push(Fact {
            kind: text(&line, "kind"),
            importance: line["importance"].as_f64().unwrap_or(0.0),
            groups: groups(&line["terms"]),
        });
    }
    for line in lines(&folder.join("summaries.jsonl"))? {
        let session = gold.entry(text(&line, "session_id")).or_default();
        for field in ["request", "completed", "learned", "next_steps"] {
            session.fields.insert(field.to_owned(), groups(&line[field]["terms"]));
        }
    }
    for line in lines(&folder.join("noise.jsonl"))? {
        let session = gold.entry(text(&line, "session_id")).or_default();
        let events = line["events"].as_array().into_iter().flatten();
        session.noise_events.extend(events.filter_map(Value::as_u64));
        session.noise_batches.extend(line["prompt_number"].as_u64().filter(|number| *number > 0));
    }
    Ok(gold)
}

pub(crate) fn lines(path: &Path) -> anyhow::Result<Vec<Value>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = replay::text(path)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}

pub(crate) fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn groups(terms: &Value) -> Vec<Vec<String>> {
    let words = |group: &Value| {
        group.as_array().into_iter().flatten().filter_map(Value::as_str).map(normal).collect()
    };
    terms.as_array().into_iter().flatten().map(words).collect()
}

/// Lower case, `/` for `\`, without bold and code marks, single spaces.
pub(crate) fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut gap = false;
    for letter in text.chars() {
        match letter {
            '*' | '`' => {}
            letter if letter.is_whitespace() => {
                if !gap {
                    normal.push(' ');
                }
                gap = true;
                continue;
            }
            '\\' => normal.push('/'),
            letter => normal.extend(letter.to_lowercase()),
        }
        if !matches!(letter, '*' | '`') {
            gap = false;
        }
    }
    normal
}
