//! Values that a shell offers for completion: current ids, sessions, projects and models.
//!
//! A person waits for them, so this starts nothing, never fails, and gives up quickly.

use std::ffi::OsStr;

use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use recall_protocol::paths::Paths;
use recall_protocol::query::{Glance, Sql};
use serde_json::Value;

use super::client::{Soon, this_folder};
use recall_agents::AGENTS;
use recall_config::keys::Key;
use recall_domain::document::DocumentKind;
use recall_domain::observation::ObservationType;
use recall_embedding::InstalledModels;

/// The maximum number of values of one kind. More than a screenful is no help.
const MOST: u32 = 40;
/// The length of a title in a menu, in characters.
const TITLE: usize = 60;

/// The letter of an id, its view, and the column that describes it.
type Item = (&'static str, &'static str, &'static str);

const ITEMS: [Item; 6] = [
    ("", "observations", "title"),
    ("p", "user_prompts", "prompt_text"),
    ("r", "prompts", "answer"),
    ("s", "session_summaries", "title"),
    ("l", "plans", "title"),
    ("a", "calls", "tool_name"),
];

/// Completes ids of observations: the newest of this project, or those that begin with the typed text.
pub(in crate::cli) fn observations() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        typed.to_str().map(|typed| numbered(typed, &ITEMS[..1])).unwrap_or_default()
    })
}

/// Completes ids of everything that can be shown.
pub(in crate::cli) fn items() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        typed.to_str().map(|typed| numbered(typed, &ITEMS)).unwrap_or_default()
    })
}

/// Completes ids of sessions, newest first.
pub(in crate::cli) fn sessions() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| typed.to_str().map(sessions_from).unwrap_or_default())
}

/// Completes ids of sessions and of everything that can be shown.
pub(in crate::cli) fn items_and_sessions() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let Some(typed) = typed.to_str() else { return Vec::new() };
        let mut found = numbered(typed, &ITEMS);
        found.extend(sessions_from(typed));
        found
    })
}

/// Completes names of projects, those with the newest sessions first.
pub(in crate::cli) fn projects() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| typed.to_str().map(projects_from).unwrap_or_default())
}

/// Completes the names of people who wrote something that came from another machine.
pub(in crate::cli) fn authors() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| typed.to_str().map(authors_from).unwrap_or_default())
}

/// Completes the types of observations.
pub(in crate::cli) fn types() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        ObservationType::ALL.into_iter().map(|(_, name)| CompletionCandidate::new(name)).collect()
    })
}

/// Completes the filters of a search, and the known values of one: `type:` becomes `type:bugfix`.
pub(in crate::cli) fn filters() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let Some(typed) = typed.to_str() else { return Vec::new() };
        if let Some((key, value)) = typed.split_once(':') {
            let of_key = filter_values(key, value).into_iter();
            return of_key.map(|value| CompletionCandidate::new(format!("{key}:{value}"))).collect();
        }
        let keys = FILTERS.iter().filter(|key| key.starts_with(typed));
        keys.map(|key| CompletionCandidate::new(format!("{key}:"))).collect()
    })
}

/// The keys of a search's filters.
const FILTERS: [&str; 8] = ["type", "kind", "file", "project", "agent", "session", "by", "since"];

/// Returns the values of a filter that begin with the typed text.
pub(super) fn filter_values(key: &str, typed: &str) -> Vec<String> {
    let known = |names: &mut dyn Iterator<Item = &'static str>| -> Vec<String> {
        names.filter(|name| name.starts_with(typed)).map(str::to_owned).collect()
    };
    let values = |candidates: Vec<CompletionCandidate>| -> Vec<String> {
        candidates.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
    };
    match key.trim_start_matches('-') {
        "type" => known(&mut ObservationType::ALL.into_iter().map(|(_, name)| name)),
        "kind" => known(&mut DocumentKind::ALL.into_iter().map(|(_, name, _)| name)),
        "agent" => known(&mut AGENTS.iter().map(|spec| spec.name)),
        "since" => known(&mut ["today", "yesterday", "2h", "7d", "30d"].into_iter()),
        "project" => values(projects_from(typed)),
        "session" => values(sessions_from(typed)),
        "by" => values(authors_from(typed)),
        _ => Vec::new(),
    }
}

/// Completes the keys of the settings.
pub(in crate::cli) fn keys() -> ArgValueCandidates {
    ArgValueCandidates::new(|| Key::all().map(|key| CompletionCandidate::new(key.name)).collect())
}

/// Completes the installed sentence models.
pub(in crate::cli) fn models() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Ok(paths) = Paths::from_env() else { return Vec::new() };
        let models = InstalledModels::new(paths.models_dir()).list().into_iter().map(|model| model.name);
        models.filter(|name| is_plain(name)).map(CompletionCandidate::new).collect()
    })
}

/// Whether a value needs no quotes in a command line. Names come from repositories, which anybody may have written,
/// and bash inserts completions unquoted.
fn is_plain(text: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || "._-/@+".contains(character);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)
}

/// Splits an id, or the beginning of one, into its letter's entry and its digits. Returns `None` for other text.
fn split_id<'a>(typed: &'a str, items: &[Item]) -> Option<(Item, &'a str)> {
    let typed = typed.strip_prefix('#').unwrap_or(typed);
    let digits = typed.trim_start_matches(|character: char| character.is_ascii_alphabetic());
    let letter = typed.strip_suffix(digits)?;
    let item = items.iter().find(|(known, ..)| *known == letter)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then_some((*item, digits))
}

/// Returns the items of these views whose id begins with the typed text. Without typed text: the newest observations
/// of this project, or of all projects if it has none.
fn numbered(typed: &str, items: &[Item]) -> Vec<CompletionCandidate> {
    let Some(((letter, view, column), digits)) = split_id(typed, items) else { return Vec::new() };
    let Ok(mut soon) = Soon::connect() else { return Vec::new() };
    let query = |condition: &str| {
        // Long texts are truncated before they are sent.
        format!("SELECT id, substr({column}, 1, 200) FROM {view} WHERE {condition} ORDER BY id DESC")
    };
    let mut rows = Vec::new();
    if digits.is_empty() {
        let here = soon.ask(Glance { folder: this_folder() }).and_then(|glance| glance.project);
        if let Some(project) = here {
            rows = ask(&mut soon, query(&format!("project = '{}'", project.replace('\'', "''"))));
        }
    }
    if rows.is_empty() {
        rows = ask(&mut soon, query(&format!("id GLOB '{digits}*'")));
    }
    let candidate = |(id, title): (String, String)| candidate(&format!("{letter}{id}"), &title);
    rows.into_iter().map(candidate).collect()
}

fn sessions_from(typed: &str) -> Vec<CompletionCandidate> {
    if !typed.is_empty() && !is_plain(typed) {
        return Vec::new();
    }
    let Ok(mut soon) = Soon::connect() else { return Vec::new() };
    let query = format!(
        "SELECT content_session_id, project || coalesce(': ' || title, '') FROM sdk_sessions
         WHERE substr(content_session_id, 1, {}) = '{typed}' ORDER BY started_at_epoch DESC",
        typed.chars().count()
    );
    let rows = ask(&mut soon, query);
    rows.into_iter()
        .filter(|(id, _)| is_plain(id))
        .map(|(id, description)| candidate(&id, &description))
        .collect()
}

fn projects_from(typed: &str) -> Vec<CompletionCandidate> {
    let Ok(mut soon) = Soon::connect() else { return Vec::new() };
    let query =
        "SELECT p.name, count(s.id) FROM main.projects p LEFT JOIN main.sessions s ON s.project = p.id
                 GROUP BY p.name ORDER BY max(s.started_at) DESC";
    let rows = ask(&mut soon, query.to_owned()).into_iter();
    let rows = rows.filter(|(name, _)| name.starts_with(typed) && is_plain(name));
    rows.map(|(name, count)| candidate(&name, &format!("sessions: {count}"))).collect()
}

fn authors_from(typed: &str) -> Vec<CompletionCandidate> {
    let Ok(mut soon) = Soon::connect() else { return Vec::new() };
    let query = "SELECT author, count(*) FROM main.observations WHERE author IS NOT NULL GROUP BY author ORDER BY 2 DESC";
    let rows = ask(&mut soon, query.to_owned()).into_iter();
    let rows = rows.filter(|(name, _)| name.starts_with(typed) && is_plain(name));
    rows.map(|(name, count)| candidate(&name, &format!("notes: {count}"))).collect()
}

/// Returns two columns of each row, as text.
fn ask(soon: &mut Soon, text: String) -> Vec<(String, String)> {
    let Some(answer) = soon.ask(Sql { text, limit: MOST }) else { return Vec::new() };
    let cell = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    answer.rows.iter().map(|row| (cell(row.first()), cell(row.get(1)))).collect()
}

/// A candidate with a one-line description, which zsh and fish show.
fn candidate(value: &str, description: &str) -> CompletionCandidate {
    let line = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(TITLE).collect();
    CompletionCandidate::new(value).help((!short.is_empty()).then(|| short.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_that_need_no_quotes_are_offered() {
        for plain in ["shop", "my-project_2", "org/repo", "日本", "52ab9f04-1"] {
            assert!(is_plain(plain), "{plain}");
        }
        for odd in ["", "-rf", "a b", "$(reboot)", "a;b", "`x`", "a'b", "*", "a:b", "~", "a\nb"] {
            assert!(!is_plain(odd), "{odd}");
        }
    }

    #[test]
    fn text_that_is_no_id_yields_no_candidates() {
        for typed in ["x1", "1x", "p1' OR 1", "ab", "p-"] {
            assert_eq!(split_id(typed, &ITEMS), None, "{typed}");
            assert!(numbered(typed, &ITEMS).is_empty(), "{typed}");
        }
        for typed in ["", "#", "12", "#12", "p", "s7"] {
            assert!(split_id(typed, &ITEMS).is_some(), "{typed}");
        }
        assert_eq!(split_id("p1", &ITEMS[..1]), None);
    }

    #[test]
    fn filters_are_completed() {
        assert_eq!(filter_values("type", "bug"), ["bugfix"]);
        assert_eq!(filter_values("-type", "pref"), ["preference"]);
        assert_eq!(filter_values("since", "y"), ["yesterday"]);
        assert!(filter_values("kind", "").contains(&"observation".to_owned()));
        assert!(filter_values("http", "").is_empty());
    }

    #[test]
    fn a_description_is_one_line() {
        let help = candidate("1", &format!("two\nlines\t{}", "x".repeat(90))).get_help().unwrap().to_string();
        assert!(help.starts_with("two lines x") && help.chars().count() == TITLE, "{help}");
    }
}
