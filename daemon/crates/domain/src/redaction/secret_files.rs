//! Redacts the contents of files that are secret as a whole: `.env`, private keys, credential stores. If a call opens
//! one, the tool and the path are kept and the content is removed.
//!
//! Agents name their fields differently. So the decision depends on what they share: a field for a path or a command
//! that contains the name of such a file.

use std::borrow::Cow;
use std::ops::Range;

use super::json_text::{Replacement, Role, StringPlace, rewrite};
use super::shell_words;

/// The replacement of a file's content.
const MARK: &str = "[redacted:file-content]";
const MARK_BETWEEN: &str = " [redacted:file-content] ";
const MARK_BEHIND: &str = " [redacted:file-content]";

/// Which strings may hold the content of a secret file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspect {
    /// All strings except paths. Of a command, everything except the program and the file's name.
    Everything,
    /// Fields that usually hold content, even in a payload with other data.
    ContentFields,
}

const PATH_KEYS: [&str; 18] = [
    "path",
    "paths",
    "file",
    "files",
    "filepath",
    "filename",
    "notebookpath",
    "targetfile",
    "absolutepath",
    "relativepath",
    "uri",
    "source",
    "destination",
    // A search pattern for file names.
    "glob",
    "globs",
    "include",
    "includes",
    "includepattern",
];
const COMMAND_KEYS: [&str; 5] = ["command", "cmd", "script", "commandline", "args"];
/// Fields for program code. A name counts there only as a string literal of the program.
const CODE_KEYS: [&str; 4] = ["code", "expression", "function", "program"];
/// Fields for search terms or messages, which may contain the name of a file without opening one.
const MENTION_KEYS: [&str; 9] =
    ["pattern", "query", "regex", "search", "prompt", "message", "title", "question", "type"];
const CONTENT_KEYS: [&str; 24] = [
    "content",
    "contents",
    "newstring",
    "oldstring",
    "newstr",
    "oldstr",
    "newtext",
    "oldtext",
    "text",
    "filetext",
    "output",
    "stdout",
    "stderr",
    "originalfile",
    "patch",
    "diff",
    "lines",
    "data",
    "body",
    "toolresponse",
    "toolresult",
    "error",
    "description",
    "explanation",
];
/// Suffixes of copies made by editors and people.
const COPIES: [&str; 10] =
    [".bak", ".backup", ".orig", ".old", ".save", ".swp", ".tmp", ".copy", ".gpg", ".asc"];

/// Hidden names of secret files. They are tested against a glob, to detect one that matches such files.
const HIDDEN: [&str; 12] = [
    ".env",
    ".env.local",
    ".envrc",
    ".npmrc",
    ".netrc",
    ".pgpass",
    "id_rsa",
    "id_ed25519",
    "qqqq.env",
    "qqqq.pem",
    "qqqq.key",
    "qqqq.tfvars",
];
const ORDINARY: [&str; 5] = ["qqqq", "qqqq.qqqq", ".qqqq", "iqqq", "idqq"];
const LONGEST_PATTERN: usize = 64;

/// Environments in file names without a leading dot, such as `env.production`.
const ENVIRONMENTS: [&str; 8] =
    ["production", "prod", "staging", "development", "dev", "local", "test", "live"];

/// Whether a file of this name contains only secrets. Both slashes and backslashes separate folders.
pub fn is_secret_file(path: &str) -> bool {
    let lower = path.trim_end_matches(['/', '\\']).to_ascii_lowercase();
    let lower = lower.trim_end_matches(['~', '*']);
    let lower = COPIES.iter().find_map(|copy| lower.strip_suffix(copy)).unwrap_or(lower);
    let mut parts = lower.rsplit(['/', '\\']);
    let name = parts.next().unwrap_or_default().trim_start_matches('#').trim_end_matches('#');
    let folder = parts.next().unwrap_or_default();
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let samples = ["dist", "default", "defaults", "schema", "tpl", "tmpl", "md"];
    if samples.contains(&extension) || ["example", "sample", "template"].iter().any(|it| name.contains(it)) {
        return false;
    }
    let of_environment = |rest: &str| rest.is_empty() || rest.starts_with(['.', '-', '_', '*']);
    let environment = [".envrc", ".flaskenv"].contains(&name)
        || name.strip_prefix(".env").is_some_and(of_environment)
        || name.strip_prefix(".dev.vars").is_some_and(of_environment)
        || (extension == "env" && !stem.starts_with("process") && !stem.starts_with("import"))
        || name.strip_prefix("env.").is_some_and(|kind| ENVIRONMENTS.contains(&kind));
    let key = (!stem.is_empty()
        && ["pem", "key", "p12", "pfx", "p8", "jks", "keystore", "kdbx", "ppk"].contains(&extension))
        || ((name.starts_with("id_"))
            && ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"].iter().any(|id| name.starts_with(id))
            && extension != "pub");
    let data = ["", "json", "yml", "yaml", "toml", "ini", "xml", "db", "properties"].contains(&extension);
    let stores = ["credentials", ".credentials", "secrets", ".secrets", "application_default_credentials"];
    let begins = ["service-account", "service_account", "serviceaccount", "gcp-key", "gcp_key", "gcloud-key"];
    let credentials = data
        && (stores.contains(&stem)
            || begins.iter().any(|begin| stem.starts_with(begin))
            || ["-adminsdk", "_adminsdk", "client_secret"].iter().any(|part| stem.contains(part)));
    // A file in a folder for secrets, unless it is a program or a text about them.
    let of_secrets = ["secrets", ".secrets"].contains(&folder)
        && (data || ["txt", "env", "conf", "cfg", "enc", "token", "b64"].contains(&extension))
        && !["readme", "license", "index", "mod"].contains(&stem)
        && !["readme", "license", "makefile", "dockerfile"].contains(&name);
    let known = [
        ".netrc",
        "_netrc",
        ".pgpass",
        "pgpass.conf",
        ".npmrc",
        ".pypirc",
        ".git-credentials",
        ".htpasswd",
        ".my.cnf",
        ".mylogin.cnf",
        ".dockercfg",
        ".dockerconfigjson",
        "kubeconfig",
        ".vault-token",
        ".vault_pass",
        ".terraformrc",
        "credentials.tfrc.json",
        ".s3cfg",
        ".boto",
        ".databrickscfg",
        "rclone.conf",
        "shadow-",
        ".yarnrc.yml",
        ".claude.json",
        "local.settings.json",
        "wp-config.php",
    ];
    let has_suffix = |names: &[&str]| names.iter().any(|suffix| name.ends_with(suffix));
    let of_application = name
        .strip_prefix("appsettings.")
        .is_some_and(|rest| rest.ends_with(".json") && !rest.starts_with("development"));
    let of_ssh = folder == ".ssh"
        && !["known_hosts", "known_hosts.old", "authorized_keys"].contains(&name)
        && extension != "pub";
    environment
        || key
        || credentials
        || of_secrets
        || known.contains(&name)
        || ["tfstate", "kubeconfig"].contains(&extension)
        || has_suffix(&[".tfvars", ".tfvars.json"])
        || (name.starts_with('.') && has_suffix(&["_history"]))
        || of_application
        || of_ssh
        || (folder == ".azure" && extension == "json")
        || matches!(
            (folder, name),
            (".kube", "config")
                | (".docker", "config.json")
                | ("gh", "hosts.yml")
                | ("glab-cli", "config.yml")
                | (".codex" | ".composer" | "opencode", "auth.json")
                | ("etc", "shadow" | "gshadow")
                | (".m2", "settings.xml")
                | (".gradle", "gradle.properties")
                | (".config", "hub")
                | ("op", "config")
        )
        || folder == ".gnupg"
        || (name == "environ" && lower.starts_with("/proc/"))
        || is_mounted(lower)
}

/// Whether the path is a secret mounted into a container.
fn is_mounted(path: &str) -> bool {
    let inside = path.find("/run/secrets/").map(|at| at + "/run/secrets/".len());
    inside.is_some_and(|at| path.len() > at)
}

/// A string of a call's input that may name files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedIn {
    Path(String),
    Command(String),
}

/// Returns the strings of this JSON in fields for a path or a command, and other strings that can only be a name.
pub fn named_in(json: &str) -> Vec<NamedIn> {
    let mut found = Vec::new();
    rewrite(json, |StringPlace { role, text }| {
        if let Role::Value { key } | Role::Element { key } = role {
            if is_one_of(key, &COMMAND_KEYS) {
                found.push(NamedIn::Command(text.to_owned()));
            } else if is_file(key, text, &|_| true) {
                found.push(NamedIn::Path(text.to_owned()));
            }
        }
        Vec::new()
    });
    found
}

/// Whether this JSON, a call's input or a whole payload, names a hidden file in a field or a command.
pub(super) fn is_named(json: &str, is_hidden: &dyn Fn(&str) -> bool) -> bool {
    let mut found = false;
    rewrite(json, |StringPlace { role, text }| {
        found = found
            || match role {
                Role::Key => is_name(text) && is_hidden(text),
                Role::Value { key } | Role::Element { key } => {
                    is_file(key, text, is_hidden) || !names(key, text, is_hidden).is_empty()
                }
            };
        Vec::new()
    });
    found
}

/// Whether a field contains the name of a hidden file, or a pattern that matches such a name.
fn is_file(key: &str, text: &str, is_hidden: &dyn Fn(&str) -> bool) -> bool {
    if is_one_of(key, &PATH_KEYS) {
        return !text.starts_with('!') && (is_hidden(text) || matches_hidden(text, is_hidden));
    }
    let is_text =
        [&COMMAND_KEYS[..], &CODE_KEYS, &MENTION_KEYS, &CONTENT_KEYS].iter().any(|keys| is_one_of(key, keys));
    !is_text && is_name(text) && is_hidden(text)
}

/// Whether a text can only be a name: without blanks, and not an address.
fn is_name(text: &str) -> bool {
    const LONGEST: usize = 1024;
    text.len() <= LONGEST
        && text.contains(['.', '/'])
        && !text.starts_with("http")
        && !text.contains(char::is_whitespace)
}

/// Whether a pattern of names matches hidden files among few others.
fn matches_hidden(pattern: &str, is_hidden: &dyn Fn(&str) -> bool) -> bool {
    let pattern = pattern.rsplit('/').next().unwrap_or_default();
    if !pattern.contains(['*', '?', '[', '{']) || pattern.len() > LONGEST_PATTERN {
        return false;
    }
    let Ok(glob) = globset::Glob::new(pattern) else { return false };
    let glob = glob.compile_matcher();
    HIDDEN.iter().any(|name| glob.is_match(name) && is_hidden(name))
        && !ORDINARY.iter().any(|name| glob.is_match(name))
}

/// Returns the JSON with every suspect string replaced by a mark. Of a command, the program and the file names are
/// kept.
pub(super) fn without_contents<'a>(
    json: &'a str,
    suspect: Suspect,
    is_hidden: &dyn Fn(&str) -> bool,
) -> Cow<'a, str> {
    // Whether the next element of a command is its program.
    let mut begins = true;
    rewrite(json, |StringPlace { role, text }| {
        let key = match role {
            Role::Key => {
                begins = true;
                return Vec::new();
            }
            Role::Value { key } | Role::Element { key } => key,
        };
        let whole = || vec![Replacement { range: 0..text.len(), text: Cow::Borrowed(MARK) }];
        let is_kept = text.is_empty() || text.trim() == MARK;
        let files = names(key, text, is_hidden);
        if !files.is_empty() {
            begins = false;
            return without_input(text, &files);
        }
        if is_one_of(key, &COMMAND_KEYS) {
            let is_first = std::mem::replace(&mut begins, false);
            return match role {
                _ if is_kept || suspect == Suspect::ContentFields => Vec::new(),
                _ if text.strip_suffix(MARK_BEHIND).is_some_and(is_program) => Vec::new(),
                Role::Element { .. } if is_first && is_program(text) => Vec::new(),
                _ => whole(),
            };
        }
        match suspect {
            Suspect::Everything if is_kept || is_one_of(key, &PATH_KEYS) || key == "type" => Vec::new(),
            Suspect::Everything if is_file(key, text, is_hidden) => Vec::new(),
            Suspect::ContentFields if is_kept || !is_one_of(key, &CONTENT_KEYS) => Vec::new(),
            Suspect::Everything | Suspect::ContentFields => whole(),
        }
    })
}

/// The replacement of a text that may be the content of a secret file.
pub(super) fn mark() -> String {
    MARK.to_owned()
}

/// The maximum number of file names kept per command, and of name patterns that are tested.
const MOST_NAMES: usize = 8;
const MOST_PATTERNS: usize = 32;

/// The mention of a hidden file in a command.
struct Mention {
    range: Range<usize>,
    /// Whether the range contains the name and nothing else.
    is_plain: bool,
}

/// Returns the hidden files that a command or program names. Other fields name none.
fn names(key: &str, text: &str, is_hidden: &dyn Fn(&str) -> bool) -> Vec<Mention> {
    let plain = |range| Mention { range, is_plain: true };
    if is_one_of(key, &CODE_KEYS) {
        let is_quoted = |range: &Range<usize>| {
            let before = range.start.checked_sub(1).and_then(|at| text.as_bytes().get(at));
            before.is_some_and(|byte| b"'\"`}".contains(byte))
        };
        return plain_names(text, is_hidden).into_iter().filter(is_quoted).map(plain).collect();
    }
    if !is_one_of(key, &COMMAND_KEYS) {
        return Vec::new();
    }
    let mut found: Vec<_> = plain_names(text, is_hidden).into_iter().map(plain).collect();
    let mut patterns = 0;
    let mut is_one = |name: &String| {
        if !is_name(name) || is_member(name, &(0..name.len())) {
            return false;
        }
        let is_pattern = name.contains(['*', '?', '[', '{']);
        patterns += usize::from(is_pattern);
        is_hidden(name) || (is_pattern && patterns <= MOST_PATTERNS && matches_hidden(name, is_hidden))
    };
    for word in shell_words::read(text) {
        // The command of `sh -c`. In other languages, a name without a folder may be a member.
        let is_path = |name: &String| name.starts_with('.') || name.contains('/');
        let inner: Vec<_> = match word.names.first() {
            Some(name) if name.contains(' ') => {
                let words = shell_words::read(name);
                words.into_iter().flat_map(|word| word.names).filter(is_path).collect()
            }
            _ => Vec::new(),
        };
        let is_new =
            found.iter().all(|it| it.range.end <= word.range.start || word.range.end <= it.range.start);
        if is_new && found.len() < MOST_NAMES {
            let is_plain = word.is_path && word.names.first().is_some_and(&mut is_one);
            if is_plain || word.names.iter().chain(&inner).any(&mut is_one) {
                found.push(Mention { range: word.range, is_plain });
            }
        }
    }
    found.sort_by_key(|mention| mention.range.start);
    found
}

/// Returns the ranges of hidden file names that occur verbatim in a text.
fn plain_names(text: &str, is_hidden: &dyn Fn(&str) -> bool) -> Vec<Range<usize>> {
    let parts = |c: char| c.is_whitespace() || "'\"`;|&<>=(){}[],:@".contains(c);
    let mut found = Vec::new();
    let mut at = 0;
    for word in text.split(parts) {
        let range = at..at + word.len();
        at = range.end + text.get(range.end..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        if !word.is_empty() && is_hidden(word) && !is_member(text, &range) && found.len() < MOST_NAMES {
            found.push(range);
        }
    }
    found
}

/// Whether the word is a member access in inline code, not a file: `item.key`, `.data.key`, `c.env`.
fn is_member(command: &str, word: &Range<usize>) -> bool {
    let name = command.get(word.clone()).unwrap_or_default();
    let Some((stem, "key" | "env")) = name.rsplit_once('.') else { return false };
    let bytes = command.as_bytes();
    let beside = [word.start.checked_sub(1).and_then(|at| bytes.get(at)), bytes.get(word.end)];
    let in_code = beside.into_iter().flatten().any(|byte| b"(){}[],".contains(byte));
    !stem.is_empty() && !name.contains(['/', '\\']) && (stem.starts_with('.') || in_code)
}

/// Removes everything from a command except its program and the file names.
fn without_input(command: &str, files: &[Mention]) -> Vec<Replacement> {
    let first = files.first().map_or(0, |file| file.range.start);
    let is_any_plain = files.iter().any(|file| file.is_plain);
    let program =
        program(command, first).or_else(|| (!is_any_plain).then(|| program(command, command.len()))?);
    let plain = files.iter().filter(|file| file.is_plain).map(|file| file.range.clone());
    let kept = program.into_iter().chain(plain);
    let mut replacements = Vec::new();
    let mut at = 0;
    for part in kept {
        let gap = command.get(at..part.start).unwrap_or_default();
        let is_blank = |gap: &str| gap.chars().all(|c| c.is_whitespace() || "<>".contains(c));
        if at == 0 && part.start > 0 && !gap.trim().is_empty() && gap.trim() != MARK {
            replacements.push(Replacement { range: 0..part.start, text: Cow::Borrowed("") });
        } else if at > 0 && !is_blank(gap) && gap.trim() != MARK {
            replacements.push(Replacement { range: at..part.start, text: Cow::Borrowed(MARK_BETWEEN) });
        }
        at = part.end;
    }
    let rest = command.get(at..).unwrap_or_default();
    if !rest.trim().is_empty() && rest.trim() != MARK {
        replacements.push(Replacement { range: at..command.len(), text: Cow::Borrowed(MARK_BEHIND) });
    }
    replacements
}

/// Returns the program of the simple command that contains `file`: its first word that is not an assignment.
fn program(command: &str, file: usize) -> Option<Range<usize>> {
    let (mut start, mut quote, mut in_document) = (0, None, false);
    let mut characters = command.get(..file)?.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '\\') => {
                characters.next();
            }
            (None, '"' | '\'') => quote = Some(character),
            (None, '<') => in_document |= characters.peek().is_some_and(|(_, next)| *next == '<'),
            (None, ';' | '|' | '&' | '\n') if !in_document => start = at + 1,
            (None, _) => {}
        }
    }
    let mut at = start;
    for word in command.get(start..file)?.split([' ', '\t']) {
        let range = at..at + word.len();
        at = range.end + 1;
        let is_variable = word.split_once('=').is_some_and(|(name, _)| !name.is_empty());
        if !word.is_empty() && !is_variable {
            return is_program(word).then_some(range);
        }
    }
    None
}

/// Whether the word can only be the name of a program.
fn is_program(word: &str) -> bool {
    const LONGEST: usize = 48;
    !word.is_empty()
        && word.len() <= LONGEST
        && !word.starts_with('-')
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte))
        && word.bytes().filter(u8::is_ascii_digit).count() <= 3
}

/// Returns the JSON without the parts of its strings that show hidden files: see [`shown`].
pub(super) fn without_shown<'a>(json: &'a str, is_hidden: &dyn Fn(&str) -> bool) -> Cow<'a, str> {
    rewrite(json, |StringPlace { role, text }| match role {
        Role::Key => Vec::new(),
        Role::Value { .. } | Role::Element { .. } => shown(text, is_hidden)
            .into_iter()
            .map(|range| Replacement { range, text: Cow::Borrowed(MARK) })
            .collect(),
    })
}

/// Like [`without_shown`], for plain text.
pub(super) fn without_shown_text(text: &str, is_hidden: &dyn Fn(&str) -> bool) -> String {
    let mut out = text.to_owned();
    for range in shown(text, is_hidden).into_iter().rev() {
        out.replace_range(range, MARK);
    }
    out
}

/// Returns the parts of a text that show hidden files: their sections in a patch or a listing, and their lines in
/// search results.
fn shown(text: &str, is_hidden: &dyn Fn(&str) -> bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut at, mut section) = (0, None);
    // Consecutive lines of search results usually belong to the same file.
    let mut known = "";
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let line = line.trim_end();
        if let Some(path) = heading(line) {
            found.extend(
                section.take().map(|from| from..start - 1).filter(|range: &Range<usize>| !range.is_empty()),
            );
            section = is_hidden(path).then_some(at).filter(|at| *at < text.len());
        } else if section.is_none()
            && let Some((path, content)) = found_line(line).filter(|(path, _)| *path != known)
        {
            if is_hidden(path) && content < line.len() {
                found.push(start + content..start + line.len());
            } else {
                known = path;
            }
        }
    }
    found.extend(section.map(|from| from..text.trim_end().len()).filter(|range| !range.is_empty()));
    found
}

/// Returns the file whose section of a patch or listing begins with this line. Empty where a section ends.
fn heading(line: &str) -> Option<&str> {
    if line == "*** End Patch" {
        return Some("");
    }
    let prefixes = ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "File: "];
    if let Some(path) = prefixes.iter().find_map(|prefix| line.strip_prefix(prefix)) {
        return Some(path);
    }
    if let Some(paths) = line.strip_prefix("diff --git ") {
        return paths.rsplit(' ').next();
    }
    if let Some(path) = line.strip_prefix("==> ") {
        return path.strip_suffix(" <==");
    }
    line.strip_suffix(':').filter(|path| path.starts_with('/') && !path.contains(char::is_whitespace))
}

/// Parses `path:12:content`, `path-12-content` or `path:content` into the file and the beginning of the content.
fn found_line(line: &str) -> Option<(&str, usize)> {
    let word = line.get(..memchr::memchr2(b' ', b'\t', line.as_bytes()).unwrap_or(line.len()))?;
    let number = |sign: char| {
        word.match_indices(sign).find_map(|(at, _)| {
            let rest = word.get(at + 1..)?;
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            (digits > 0 && rest.get(digits..)?.starts_with(sign)).then_some((at, at + digits + 2))
        })
    };
    let is_path = |path: &&str| path.starts_with(['.', '/']) || path.contains('/');
    let plain = || {
        let (path, rest) = word.split_once(':').filter(|(path, rest)| is_path(path) && !rest.is_empty())?;
        (!is_member(path, &(0..path.len()))).then_some((path.len(), word.len() - rest.len()))
    };
    let (path, content) = number('-').or_else(|| number(':')).or_else(plain)?;
    Some((word.get(..path).filter(|path| !path.is_empty())?, content))
}

/// Whether a field contains a command.
pub(super) fn is_command(key: &str) -> bool {
    is_one_of(key, &COMMAND_KEYS)
}

/// Compares a field's name ignoring its spelling: `filePath`, `file_path`, `file-path`.
fn is_one_of(key: &str, names: &[&str]) -> bool {
    let plain = || key.bytes().filter(|byte| !b"_-".contains(byte)).map(|byte| byte.to_ascii_lowercase());
    names.iter().any(|name| plain().eq(name.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_files_are_recognised_by_their_paths() {
        for path in [
            "/p/.env",
            ".env",
            ".env.production",
            "config/prod.env",
            "C:\\p\\.env",
            "/home/a/.ssh/id_rsa",
            "id_ed25519_work",
            "server.pem",
            "tls/server.key",
            "/home/a/.aws/credentials",
            "credentials.json",
            "config/secrets.yml",
            ".netrc",
            "/home/a/.kube/config",
            "/home/a/.claude/.credentials.json",
            "service-account-prod.json",
            "/etc/shadow",
            ".env~",
            ".env.bak",
            ".env_prod",
            ".env*",
            "**/.env",
            ".dev.vars",
            "/home/a/.npmrc",
            "terraform.tfstate",
            "terraform.tfstate.backup",
            "/run/secrets/db_password",
            "/home/a/.config/gh/hosts.yml",
            "/home/a/.docker/config.json",
            "prod.kubeconfig",
            ".flaskenv",
            "prod.tfvars",
            "prod.auto.tfvars.json",
            ".yarnrc.yml",
            "/home/a/.m2/settings.xml",
            "/home/a/.gradle/gradle.properties",
            "/home/a/.azure/msal_token_cache.json",
            "/home/a/.config/hub",
            "/home/a/.config/op/config",
            "/home/a/.claude.json",
            "/home/a/.gnupg/secring.gpg",
            "/home/a/.gnupg/private-keys-v1.d/A.key",
            "/home/a/.ssh/work",
            "/home/a/.ssh/config",
            "gcp-key.json",
            "deploy/gcp-key-prod.json",
            "firebase-adminsdk.json",
            "shop-firebase-adminsdk-a1b2c-0123456789.json",
            "client_secret_1234.apps.googleusercontent.com.json",
            "service_account.json",
            "env.production",
            "deploy/env.prod",
            "secrets/db.txt",
            "/p/secrets/db_password",
            "k8s/secrets/app.yaml",
            ".secrets/token",
            "~/.ssh/*",
            "appsettings.Production.json",
            "local.settings.json",
            "wp-config.php",
            "/home/a/.netrc.gpg",
            "/proc/1/environ",
            "/proc/self/environ",
            "/home/a/.bash_history",
            "/home/a/.zsh_history",
            "/home/a/.psql_history",
        ] {
            assert!(is_secret_file(path), "{path}");
        }
        for path in [
            ".env.example",
            ".env.sample",
            "src/env.rs",
            "id_rsa.pub",
            "src/credentials.rs",
            "docs/secrets.md",
            "config.json",
            "keys.rs",
            "process.env",
            "environment.ts",
            "",
            "/",
            "known_hosts",
            "monkey",
            "secrets/readme.txt",
            "secrets/README.md",
            "src/secrets/mod.rs",
            "src/secrets/index.ts",
            "app/secrets/page.tsx",
            "env.ts",
            "env.js",
            "env.d.ts",
            "env.rs",
            "src/env.test.ts",
            ".env.template",
            ".environment",
            ".key",
            "gh/config.yml",
            ".env.example.local",
            ".env-example",
            "example.env",
            ".env.tpl",
            ".env.defaults",
            "example.tfvars",
            "wp-config-sample.php",
            "settings.xml",
            "gradle.properties",
            "appsettings.json",
            "appsettings.Development.json",
            "/home/a/.ssh",
            "/home/a/.ssh/",
            "/home/a/.ssh/known_hosts",
            "/home/a/.ssh/authorized_keys",
            "/home/a/.ssh/work.pub",
            "environ",
            "src/chat_history",
            ".config/op.yml",
        ] {
            assert!(!is_secret_file(path), "{path}");
        }
    }

    #[test]
    fn calls_that_name_a_secret_file_in_a_field_or_command_are_recognised() {
        for (json, expected) in [
            (r#"{"file_path":"/p/.env"}"#, true),
            (r#"{"filePath":"/p/.env","content":"x"}"#, true),
            (r#"{"paths":["a.rs","id_rsa"]}"#, true),
            (r#"{"tool_input":{"file_path":"/p/\u002eenv"}}"#, true),
            (r#"{"pattern":"KEY","glob":".env"}"#, true),
            (r#"{"pattern":"KEY","glob":"**/.env*"}"#, true),
            (r#"{"command":"cat ./.env | head"}"#, true),
            (r#"{"command":"cat > .env <<EOF\nA=b\nEOF"}"#, true),
            (r#"{"command":"git show HEAD:.env"}"#, true),
            (r#"{"command":["bash","-lc","cat .env"]}"#, true),
            (r#"{"command":"cat '.e''nv'"}"#, true),
            (r#"{"command":"cat ./.\"env\""}"#, true),
            (r#"{"command":"cat .e\\nv"}"#, true),
            (r#"{"command":"cat .e?v"}"#, true),
            (r#"{"command":"cat .en*"}"#, true),
            (r#"{"command":"cat .{e,}nv"}"#, true),
            (r#"{"command":"cat .[e]nv"}"#, true),
            (r#"{"command":"F=.e; cat ${F}nv"}"#, true),
            (r#"{"command":"cd ~/.ssh && cat work"}"#, true),
            (r#"{"command":"bash -c \"cat '.e''nv'\""}"#, true),
            (r#"{"pattern":"KEY","glob":"*.{env,js}"}"#, true),
            (r#"{"pattern":"KEY","glob":"**/.e*"}"#, true),
            (r#"{"target":".env","text":"A=b"}"#, true),
            (r#"{"files":{".env":"A=b"}}"#, true),
            (r#"{"code":"print(open('.env').read())"}"#, true),
            (r#"{"code":"fs.readFileSync(\"/p/config/.env\")"}"#, true),
            (r#"{"code":"if (event.key == 'x') f(process.env)"}"#, false),
            (r#"{"command":"ls *"}"#, false),
            (r#"{"command":"ls .* *.* s* .??*"}"#, false),
            (r#"{"command":"cat *.json i*"}"#, false),
            (r#"{"pattern":"KEY","glob":"*.{ts,json}"}"#, false),
            (r#"{"pattern":"KEY","glob":"!.env"}"#, false),
            (r#"{"query":".env"}"#, false),
            (r#"{"url":"https://h.test/ca.pem"}"#, false),
            (r#"{"command":"cat .env.example .env.sample .env.template"}"#, false),
            (r#"{"command":"cat src/env.rs"}"#, false),
            (r#"{"command":"cp .env.example x"}"#, false),
            (r#"{"command":"jq '.data.key' a.json"}"#, false),
            (r#"{"command":"node -e 'map(e => f(e.key))'"}"#, false),
            (r#"{"pattern":".env"}"#, false),
            ("not json", false),
        ] {
            assert_eq!(is_named(json, &is_secret_file), expected, "{json}");
        }
    }

    #[test]
    fn file_contents_are_redacted_and_paths_are_kept() {
        for (json, suspect, expected) in [
            (
                r#"{"file_path":"/p/.env","edits":[{"old_string":"A=b"}],"n":1}"#,
                Suspect::Everything,
                r#"{"file_path":"/p/.env","edits":[{"old_string":"[redacted:file-content]"}],"n":1}"#,
            ),
            (r#""A=b""#, Suspect::Everything, r#""[redacted:file-content]""#),
            (
                r#"{"session_id":"s","tool_input":{"path":"a.pem","content":"A\"b"}}"#,
                Suspect::ContentFields,
                r#"{"session_id":"s","tool_input":{"path":"a.pem","content":"[redacted:file-content]"}}"#,
            ),
            (
                r#"{"command":["bash","-lc","echo A=b > .env"],"description":"A is b"}"#,
                Suspect::Everything,
                r#"{"command":["bash","[redacted:file-content]","echo [redacted:file-content] .env"],"description":"[redacted:file-content]"}"#,
            ),
        ] {
            let once = without_contents(json, suspect, &is_secret_file);
            assert_eq!(once, expected);
            assert_eq!(without_contents(&once, suspect, &is_secret_file), expected);
        }
    }

    #[test]
    fn the_part_of_a_listing_or_patch_that_shows_a_secret_file_is_redacted() {
        const M: &str = "[redacted:file-content]";
        for (text, expected) in [
            ("src/a.rs:1:x\n.env:1:KEY=heron\nb:2:y", format!("src/a.rs:1:x\n.env:1:{M}\nb:2:y")),
            ("./a/.env:KEY=heron", format!("./a/.env:{M}")),
            (".env-3-KEY=heron:x\n.env:4:heron", format!(".env-3-{M}\n.env:4:{M}")),
            ("C:\\p\\.env:1:heron", format!("C:\\p\\.env:1:{M}")),
            (".env.example:1:KEY=x", ".env.example:1:KEY=x".to_owned()),
            ("cat: .env: No such file", "cat: .env: No such file".to_owned()),
            ("ssl.key: a\nnode.env: b", "ssl.key: a\nnode.env: b".to_owned()),
            (
                "*** Begin Patch\n*** Update File: .env\n@@\n-A=heron\n+B=heron\n*** Update File: a.rs\n+x\n*** End Patch",
                format!(
                    "*** Begin Patch\n*** Update File: .env\n{M}\n*** Update File: a.rs\n+x\n*** End Patch"
                ),
            ),
            (
                "*** Add File: /p/.env\n+A=heron\n*** End Patch\n",
                format!("*** Add File: /p/.env\n{M}\n*** End Patch\n"),
            ),
            (
                "diff --git a/.env b/.env\nindex 1..2\n--- a/.env\n+++ b/.env\n+A=heron\ndiff --git a/x b/x\n+y\n",
                format!("diff --git a/.env b/.env\n{M}\ndiff --git a/x b/x\n+y\n"),
            ),
            ("==> .env <==\nA=heron\n\n==> b <==\ny", format!("==> .env <==\n{M}\n==> b <==\ny")),
            (
                "---\nFile: .env\nL1: heron\n---\nFile: a.rs\nL1: x",
                format!("---\nFile: .env\n{M}\nFile: a.rs\nL1: x"),
            ),
            (
                "/p/.env:\n  Line 1: heron\n\n/p/a.rs:\n  Line 1: x",
                format!("/p/.env:\n{M}\n/p/a.rs:\n  Line 1: x"),
            ),
        ] {
            let once = without_shown_text(text, &is_secret_file);
            assert_eq!(once, expected);
            assert_eq!(without_shown_text(&once, &is_secret_file), expected);
            let json = |text: &str| serde_json::json!({ "stdout": [text] }).to_string();
            assert_eq!(without_shown(&json(text), &is_secret_file), json(&expected));
        }
    }

    #[test]
    fn a_command_on_a_secret_file_keeps_only_program_and_file_names() {
        const M: &str = "[redacted:file-content]";
        for (command, expected) in [
            ("cat .env", "cat .env".to_owned()),
            ("cat .env | head", format!("cat .env {M}")),
            ("ls -la .env", format!("ls {M} .env")),
            ("echo KEY=swordfish > .env", format!("echo {M} .env")),
            ("echo 'a; KEY swordfish' >> .env", format!("echo {M} .env")),
            ("cat > .env <<EOF\nKEY=swordfish\nEOF\n", format!("cat > .env {M}")),
            ("sed -i 's/a/swordfish/' .env", format!("sed {M} .env")),
            ("python -c \"open('.env').write('swordfish')\"", format!("python {M} .env {M}")),
            ("python3 <<'EOF'\nx = 'swordfish'; open('.env')\nEOF", format!("python3 {M} .env {M}")),
            ("dd if=.env of=swordfish", format!("dd {M} .env {M}")),
            ("paste .env swordfish", format!("paste .env {M}")),
            ("jq . ~/.docker/config.json", format!("jq {M} ~/.docker/config.json")),
            ("cd a && KEY=swordfish x/run.sh --env-file=.env", format!("x/run.sh {M} .env")),
            ("swordfish1234=1 .env", ".env".to_owned()),
            ("cp .env .env.bak && echo swordfish", format!("cp .env .env.bak {M}")),
            ("cat '.e''nv' swordfish", format!("cat '.e''nv' {M}")),
            ("cat ./.\"env\"", "cat ./.\"env\"".to_owned()),
            ("cat .e?v | swordfish", format!("cat .e?v {M}")),
            ("cat .e\\nv swordfish", format!("cat {M}")),
            ("cd ~/.ssh && cat swordfish", format!("cat {M}")),
        ] {
            let kept = |command: &str| {
                let json = serde_json::json!({ "command": command }).to_string();
                let json = without_contents(&json, Suspect::Everything, &is_secret_file).into_owned();
                let value: serde_json::Value = serde_json::from_str(&json).unwrap();
                value["command"].as_str().unwrap().to_owned()
            };
            assert_eq!(kept(command), expected, "{command}");
            assert_eq!(kept(&expected), expected);
            let json = serde_json::json!({ "command": command }).to_string();
            assert!(is_named(&json, &is_secret_file), "{command}");
        }
    }
}
