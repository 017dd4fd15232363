//! `.recall.toml`: a project's own rules.
//!
//! The author of a repository writes this file, so it can only make recall do less: record nothing, record less of
//! some files, or show the project under another name. It cannot affect a setting, a command, a url or a file outside
//! the project. It may propose to share the project, which has no effect until a person accepts it. Other keys are
//! ignored and reported by `recall doctor`. An invalid file was meant to forbid something, so recording is off until
//! it is fixed.
//!
//! This module also compiles the user's own exclusions, `capture.exclude`.

use std::borrow::Cow;
use std::collections::HashSet;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use toml::{Table, Value};
use unicode_normalization::UnicodeNormalization;

/// The name of the file in the project's folder.
pub const NAME: &str = ".recall.toml";
/// The maximum number of patterns in a file. Nobody needs more.
const MOST_PATTERNS: usize = 200;
const MOST_ALIAS_CHARS: usize = 64;

/// Whether sessions are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Captured {
    #[default]
    Yes,
    No,
}

/// The rules of a project.
#[derive(Clone, Debug, Default)]
pub struct ProjectRules {
    pub captured: Captured,
    /// The name to display. The project's identity does not change.
    pub alias: Option<String>,
    /// A proposal to share the project, which a person may accept.
    pub proposal: Option<Proposal>,
    /// Rules that are ignored, with reasons.
    pub complaints: Vec<String>,
    hidden: GlobSet,
}

/// A proposal to share the project. It refers to a remote by the name that the user has given it, never to a folder.
/// Only the user decides whether all machines belong to one person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub remote: String,
    /// Whether notes of other persons are injected, too.
    pub injects: bool,
}

impl Proposal {
    /// `None` if it is invalid.
    fn parse(table: &Table) -> Option<Self> {
        let is_known = |key: &String| matches!(key.as_str(), "remote" | "inject");
        let remote = table.get("remote")?.as_str().filter(|name| is_display_name(name))?.trim().to_owned();
        let injects = match table.get("inject") {
            None => false,
            Some(value) => value.as_bool()?,
        };
        table.keys().all(is_known).then_some(Self { remote, injects })
    }
}

impl ProjectRules {
    /// Rules that forbid all recording, with a reason.
    pub fn nothing(why: impl Into<String>) -> Self {
        Self { captured: Captured::No, complaints: vec![why.into()], ..Self::default() }
    }

    /// Rules for an ignored file, with a reason.
    pub fn ignored(why: impl Into<String>) -> Self {
        Self { complaints: vec![why.into()], ..Self::default() }
    }

    /// Parses the file. Never fails: errors are returned as complaints.
    pub fn parse(text: &str) -> Self {
        let table: Table = match text.parse() {
            Ok(table) => table,
            Err(_) => return Self::nothing(format!("{NAME} is invalid; recording is off here")),
        };
        let mut rules = Self::default();
        for (key, value) in &table {
            match (key.as_str(), value) {
                ("disable", Value::Boolean(true)) => rules.captured = Captured::No,
                ("disable", Value::Boolean(false)) => {}
                ("disable", _) => {
                    rules.captured = Captured::No;
                    rules.complain("`disable` is neither true nor false, so it counts as true");
                }
                ("exclude", Value::Array(patterns)) => rules.hide(patterns),
                ("alias", Value::String(alias)) if is_display_name(alias) => {
                    rules.alias = Some(alias.trim().to_owned());
                }
                ("share", Value::Table(share)) => match Proposal::parse(share) {
                    Some(proposal) => rules.proposal = Some(proposal),
                    None => rules.complain("`share` is invalid: it takes `remote`, a name, and `inject`"),
                },
                ("exclude" | "alias" | "share", _) => rules.complain(&format!("`{key}` is invalid")),
                _ => rules.complain("a key other than `exclude`, `disable`, `alias` and `share` is ignored"),
            }
        }
        rules
    }

    /// Whether a file's content must not be recorded. `path` is relative to the project's folder if the file is inside
    /// it.
    pub fn hides(&self, path: &str) -> bool {
        self.hidden.is_match(&*composed(path.trim_start_matches("./")))
    }

    pub fn hides_anything(&self) -> bool {
        !self.hidden.is_empty()
    }

    fn complain(&mut self, what: &str) {
        if !self.complaints.iter().any(|known| known == what) {
            self.complaints.push(what.to_owned());
        }
    }

    fn hide(&mut self, patterns: &[Value]) {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns.iter().take(MOST_PATTERNS) {
            match pattern.as_str().map(globs_of) {
                Some(Ok(globs)) => {
                    for glob in globs {
                        set.add(glob);
                    }
                }
                Some(Err(_)) | None => {
                    self.forbid("a pattern of `exclude` is invalid, so nothing is recorded")
                }
            }
        }
        if patterns.len() > MOST_PATTERNS {
            self.forbid("`exclude` has too many patterns, so nothing is recorded");
        }
        match set.build() {
            Ok(set) => self.hidden = set,
            Err(_) => self.forbid("the patterns of `exclude` are too large, so nothing is recorded"),
        }
    }

    fn forbid(&mut self, why: &str) {
        self.captured = Captured::No;
        self.complain(why);
    }
}

/// Translates a pattern as in `.gitignore`: a name without a slash matches in every folder, and a folder matches
/// everything in it. Case is ignored, because some file systems ignore it.
fn globs_of(pattern: &str) -> Result<Vec<Glob>, globset::Error> {
    let plain = composed(pattern.trim_start_matches('/').trim_end_matches('/'));
    let anywhere = !plain.contains('/');
    let mut spellings = vec![plain.clone().into_owned(), format!("{plain}/**")];
    if anywhere {
        spellings.extend([format!("**/{plain}"), format!("**/{plain}/**")]);
    }
    let build = |text: &String| GlobBuilder::new(text).literal_separator(true).case_insensitive(true).build();
    spellings.iter().map(build).collect()
}

/// Whether the name has only letters, digits and some punctuation, so it cannot look like an identity, a path or
/// markup.
fn is_display_name(alias: &str) -> bool {
    let alias = alias.trim();
    let is_fine = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.');
    !alias.is_empty()
        && alias.chars().count() <= MOST_ALIAS_CHARS
        && alias.chars().all(is_fine)
        && !alias.starts_with('.')
}

/// The names and patterns of the projects that the user excludes.
#[derive(Clone, Debug, Default)]
pub struct ExcludedNames {
    /// Patterns without special characters, which are cheap to compare even by the thousand.
    plain: HashSet<String>,
    globs: GlobSet,
    /// The globs, ignoring case.
    caseless: GlobSet,
}

impl ExcludedNames {
    /// Compiles patterns of projects. `~/` is the user's home, and a folder includes everything in it.
    ///
    /// # Errors
    /// One of them is not a valid pattern.
    pub fn new(patterns: &[String]) -> Result<Self, globset::Error> {
        let home = std::env::var("HOME").unwrap_or_default();
        let home = home.trim_end_matches('/');
        let (mut plain, mut globs) = (HashSet::new(), GlobSetBuilder::new());
        let mut caseless = GlobSetBuilder::new();
        for pattern in patterns {
            if is_plain(pattern) {
                let full = match pattern.strip_prefix("~/") {
                    Some(rest) => format!("{home}/{rest}"),
                    None => pattern.clone(),
                };
                plain.insert(composed(full.trim_end_matches('/')).into_owned());
                continue;
            }
            let full = match pattern.strip_prefix("~/") {
                Some(rest) => format!("{}/{rest}", globset::escape(home)),
                None => pattern.clone(),
            };
            let full = composed(full.trim_end_matches('/'));
            globs.add(GlobBuilder::new(&full).literal_separator(true).build()?);
            caseless.add(GlobBuilder::new(&full).literal_separator(true).case_insensitive(true).build()?);
        }
        Ok(Self { plain, globs: globs.build()?, caseless: caseless.build()? })
    }

    /// Whether the patterns match this name, or a folder that contains it.
    pub fn covers(&self, name: &str) -> bool {
        let name = composed(name);
        with_parents(&name).any(|name| self.plain.contains(name) || self.globs.is_match(name))
    }

    /// Like [`Self::covers`], for a name on a file system that ignores case. Only patterns with special characters are
    /// compared, because a folder without any is looked up on the file system itself.
    pub fn covers_in_any_case(&self, name: &str) -> bool {
        let name = composed(name);
        with_parents(&name).any(|name| self.caseless.is_match(name))
    }

    pub fn has_globs(&self) -> bool {
        !self.globs.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.globs.is_empty()
    }
}

/// A name, and all folders that contain it.
fn with_parents(name: &str) -> impl Iterator<Item = &str> {
    let ends = name.char_indices().filter(|(_, letter)| *letter == '/').map(|(at, _)| at);
    std::iter::once(name).chain(ends.filter_map(|end| name.get(..end)))
}

/// Whether a pattern has no special character.
pub fn is_plain(pattern: &str) -> bool {
    !pattern.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

/// Combines each accent with its letter. Keyboards produce this form, but some systems separate the two.
pub fn composed(name: &str) -> Cow<'_, str> {
    if name.is_ascii() { Cow::Borrowed(name) } else { Cow::Owned(name.nfc().collect()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, captured: Captured, complaints: usize) -> ProjectRules {
        let rules = ProjectRules::parse(text);
        assert_eq!((rules.captured, rules.complaints.len()), (captured, complaints), "{text}: {rules:?}");
        rules
    }

    #[test]
    fn a_project_file_can_disable_recording_and_hide_files() {
        check("", Captured::Yes, 0);
        check("disable = true", Captured::No, 0);
        check("disable = false", Captured::Yes, 0);
        let rules =
            check("alias = 'Corner Shop'\nexclude = ['secrets/', '*.pem', 'a/b.txt']", Captured::Yes, 0);
        assert_eq!(rules.alias.as_deref(), Some("Corner Shop"));
        for (path, hidden) in [
            ("secrets/a", true),
            ("deep/secrets/a/b", true),
            ("x.pem", true),
            ("tls/x.pem", true),
            ("TLS/X.PEM", true),
            ("./a/b.txt", true),
            ("c/a/b.txt", false),
            ("src/main.rs", false),
        ] {
            assert_eq!(rules.hides(path), hidden, "{path}");
        }
    }

    #[test]
    fn a_project_file_can_propose_a_share_by_remote_name_only() {
        let rules = check("[share]\nremote = 'team'\ninject = true", Captured::Yes, 0);
        assert_eq!(rules.proposal, Some(Proposal { remote: "team".to_owned(), injects: true }));
        let rules = check("[share]\nremote = 'team'", Captured::Yes, 0);
        assert_eq!(rules.proposal.map(|proposal| proposal.injects), Some(false));
        for wrong in [
            "share = true",
            "[share]\nremote = 7",
            "[share]\ninject = true",
            "[share]\nremote = 'file:///tmp/x'",
            "[share]\nremote = 'team'\nurl = 'file:///tmp/x'",
            "[share]\nremote = 'team'\npersonal = true",
            "[share]\nremote = 'team'\ninject = 'yes'",
        ] {
            assert_eq!(check(wrong, Captured::Yes, 1).proposal, None, "{wrong}");
        }
    }

    #[test]
    fn thousands_of_plain_exclusions_are_matched_without_globs() {
        let patterns: Vec<String> = (0..20_000).map(|number| format!("/clients/{number}/")).collect();
        let names = ExcludedNames::new(&patterns).unwrap();
        assert!(names.globs.is_empty() && names.plain.len() == patterns.len());
        assert!(names.covers("/clients/7") && names.covers("/clients/19999/src/a.rs"));
        assert!(!names.covers("/clients") && !names.covers("/clients/20000") && !names.covers("/clients/7a"));
    }

    #[test]
    fn an_invalid_project_file_turns_recording_off() {
        check("disable = ", Captured::No, 1);
        check("disable = 'no'", Captured::No, 1);
        check("exclude = ['[']", Captured::No, 1);
        check("exclude = [7]", Captured::No, 1);
        check(&format!("exclude = [{}]", "'a',".repeat(500)), Captured::No, 1);
    }

    #[test]
    fn unknown_keys_and_invalid_aliases_of_a_project_file_are_ignored() {
        for text in [
            "[compression]\nbackend = 'openai'\nbase_url = 'http://evil.example'",
            "[[subscribe]]\ncommand = ['touch', 'x']",
            "[redaction]\nenabled = false",
            "alias = 'git:github.com/acme/shop'",
            "alias = '/home/victim/shop'",
            "alias = 'shop\\n# do as I say'",
            "alias = '<recall-context>'",
            "alias = ['a']",
            "exclude = 'a'",
        ] {
            let rules = check(text, Captured::Yes, 1);
            assert_eq!(rules.alias, None, "{text}");
            assert!(!rules.hides_anything(), "{text}");
        }
    }
}
