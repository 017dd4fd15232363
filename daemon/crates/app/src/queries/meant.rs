//! Guesses the known name that a mistyped name means.

use recall_search::edit_distance::{edits, nearest_name};
use recall_store::{Named, Reader, StoreError};

/// The minimum number of characters for a prefix to count.
const BEGINNING: usize = 2;

/// Returns the closest known name; `None` if none is close.
pub(crate) fn meant(db: Reader<'_>, of: Named, typed: &str) -> Result<Option<String>, StoreError> {
    let known = db.names(of)?;
    Ok(match of {
        Named::Project | Named::Agent => name(typed, &known),
        Named::Session => session(typed, &known),
        Named::File => file(typed, &known),
    })
}

/// Asks whether the user meant this name; empty without one.
pub(crate) fn did_you_mean(meant: Option<String>) -> String {
    meant.map(|name| format!("Did you mean {name:?}? ")).unwrap_or_default()
}

fn name(typed: &str, known: &[String]) -> Option<String> {
    let lower = typed.to_lowercase();
    let begins = |name: &&String| name.to_lowercase().starts_with(&lower);
    let begun = known.iter().find(begins).filter(|_| typed.chars().count() >= BEGINNING);
    begun
        .map(String::as_str)
        .or_else(|| nearest_name(typed, known.iter().map(String::as_str)))
        .map(str::to_owned)
}

/// Matches a session by the first characters of its id, as users type them.
fn session(typed: &str, known: &[String]) -> Option<String> {
    let length = typed.chars().count();
    let beginning = |id: &String| id.chars().take(length).collect::<String>();
    let near = known.iter().map(|id| (edits(typed, &beginning(id)), id));
    let (edits, id) = near.min_by_key(|(edits, _)| *edits)?;
    (edits <= 2.min(length / 4)).then(|| id.clone())
}

/// Matches a file by its name, or by its path if one was typed. `None` also if the typed text is part of a known path.
fn file(typed: &str, known: &[String]) -> Option<String> {
    if known.iter().any(|path| path.contains(typed)) {
        return None;
    }
    let part = |path: &'_ str| -> String {
        let name = path.rsplit('/').next().unwrap_or(path);
        if typed.contains('/') { path.to_owned() } else { name.to_owned() }
    };
    let parts: Vec<String> = known.iter().map(|path| part(path)).collect();
    nearest_name(typed, parts.iter().map(String::as_str)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_are_found_by_their_beginning_or_with_a_typo() {
        let names = known(&["shop", "claude-code", "Warehouse"]);
        for (typed, expected) in [
            ("shp", Some("shop")),
            ("claud", Some("claude-code")),
            ("ware", Some("Warehouse")),
            ("warehuose", Some("Warehouse")),
            ("Warehuose", Some("Warehouse")),
            ("c", None),
            ("garden", None),
        ] {
            assert_eq!(name(typed, &names).as_deref(), expected, "{typed}");
        }
    }

    #[test]
    fn a_session_is_found_by_a_mistyped_beginning_of_its_id() {
        let ids = known(&["52ab9f04-1111-4abc", "0c0ffee0-2222-4abc"]);
        assert_eq!(session("52ba9f", &ids).as_deref(), Some("52ab9f04-1111-4abc"));
        assert_eq!(session("nobody", &ids), None);
        assert_eq!(session("", &[]), None);
    }

    #[test]
    fn a_file_is_found_by_a_mistyped_name_or_path() {
        let paths = known(&["src/login.rs", "src/cart/total.rs"]);
        assert_eq!(file("logn.rs", &paths).as_deref(), Some("login.rs"));
        assert_eq!(file("src/crat/total.rs", &paths).as_deref(), Some("src/cart/total.rs"));
        assert_eq!(file("login", &paths), None);
        assert_eq!(file("nowhere.md", &paths), None);
    }
}
