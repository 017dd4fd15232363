//! Redacts the contents of files that are secret as a whole: `.env`, private keys, credential stores. Of a call that
//! opens one, tool and path are kept and the content is removed.
//!
//! Agents name their fields differently. So the decision rests on what they share: a field for a path or a command
//! that contains the name of such a file.

use std::borrow::Cow;
use std::ops::Range;

use super::json_text::{Replacement, Role, StringPlace, rewrite};

/// Replaces a content.
const MARK: &str = "[redacted:file-content]";
const MARK_BETWEEN: &str = " [redacted:file-content] ";
const MARK_BEHIND: &str = " [redacted:file-content]";

/// Which strings may hold the content of a secret file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspect {
    /// All strings except paths. Of commands all except the program and the file's name.
    Everything,
    /// Fields that usually hold content, in a payload with other data, too.
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
const COPIES: [&str; 8] = [".bak", ".backup", ".orig", ".old", ".save", ".swp", ".tmp", ".copy"];

/// Whether a file with this name contains only secrets. Slashes and backslashes both separate folders.
pub(super) fn is_secret_file(path: &str) -> bool {
    let lower = path.trim_end_matches(['/', '\\']).to_ascii_lowercase();
    let lower = lower.trim_end_matches(['~', '*']);
    let lower = COPIES.iter().find_map(|copy| lower.strip_suffix(copy)).unwrap_or(lower);
    let mut parts = lower.rsplit(['/', '\\']);
    let name = parts.next().unwrap_or_default().trim_start_matches('#').trim_end_matches('#');
    let folder = parts.next().unwrap_or_default();
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let samples = ["example", "sample", "template", "dist", "defaults", "schema", "md"];
    if samples.contains(&extension) {
        return false;
    }
    let of_environment = |rest: &str| rest.is_empty() || rest.starts_with(['.', '-', '_', '*']);
    let environment = name == ".envrc"
        || name.strip_prefix(".env").is_some_and(of_environment)
        || name.strip_prefix(".dev.vars").is_some_and(of_environment)
        || (extension == "env" && !stem.starts_with("process") && !stem.starts_with("import"));
    let key = (!stem.is_empty()
        && ["pem", "key", "p12", "pfx", "p8", "jks", "keystore", "kdbx", "ppk"].contains(&extension))
        || ((name.starts_with("id_"))
            && ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"].iter().any(|id| name.starts_with(id))
            && extension != "pub");
    let data = ["", "json", "yml", "yaml", "toml", "ini", "xml", "db", "properties"].contains(&extension);
    let stores = ["credentials", ".credentials", "secrets", ".secrets", "application_default_credentials"];
    let credentials = data && (stores.contains(&stem) || stem.starts_with("service-account"));
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
    ];
    environment
        || key
        || credentials
        || known.contains(&name)
        || ["tfstate", "kubeconfig"].contains(&extension)
        || matches!(
            (folder, name),
            (".kube", "config")
                | (".docker", "config.json")
                | ("gh", "hosts.yml")
                | ("glab-cli", "config.yml")
                | (".codex" | ".composer" | "opencode", "auth.json")
                | ("etc", "shadow" | "gshadow")
        )
        || is_mounted(lower)
}

/// Whether it is a secret mounted into a container.
fn is_mounted(path: &str) -> bool {
    let inside = path.find("/run/secrets/").map(|at| at + "/run/secrets/".len());
    inside.is_some_and(|at| path.len() > at)
}

/// Whether this JSON, a call's input or a whole payload, names a hidden file in a field for paths or in a command.
pub(super) fn is_named(json: &str, is_hidden: &dyn Fn(&str) -> bool) -> bool {
    let mut found = false;
    rewrite(json, |StringPlace { role, text }| {
        if let Role::Value { key } | Role::Element { key } = role
            && !found
        {
            found = (is_one_of(key, &PATH_KEYS) && is_hidden(text))
                || (is_one_of(key, &COMMAND_KEYS) && !names(text, is_hidden).is_empty());
        }
        Vec::new()
    });
    found
}

/// The JSON with the text of every suspect string replaced by a mark. Of a command the program and the file names are
/// kept.
pub(super) fn without_contents<'a>(
    json: &'a str,
    suspect: Suspect,
    is_hidden: &dyn Fn(&str) -> bool,
) -> Cow<'a, str> {
    // Whether the next element of a command is its first, the program.
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
        let is_kept = text.is_empty() || text == MARK;
        if is_one_of(key, &COMMAND_KEYS) {
            let is_first = std::mem::replace(&mut begins, false);
            let files = names(text, is_hidden);
            return match role {
                _ if !files.is_empty() => without_input(text, &files),
                _ if is_kept || suspect == Suspect::ContentFields => Vec::new(),
                Role::Element { .. } if is_first && is_program(text) => Vec::new(),
                _ => whole(),
            };
        }
        match suspect {
            Suspect::Everything if is_kept || is_one_of(key, &PATH_KEYS) || key == "type" => Vec::new(),
            Suspect::ContentFields if is_kept || !is_one_of(key, &CONTENT_KEYS) => Vec::new(),
            Suspect::Everything | Suspect::ContentFields => whole(),
        }
    })
}

/// Replaces a text that may be the content of a secret file.
pub(super) fn mark() -> String {
    MARK.to_owned()
}

/// File names that are kept of one command.
const MOST_NAMES: usize = 8;

/// The ranges of hidden file names in a command.
fn names(command: &str, is_hidden: &dyn Fn(&str) -> bool) -> Vec<Range<usize>> {
    let parts = |c: char| c.is_whitespace() || "'\"`;|&<>=(){}[],:@".contains(c);
    let mut found = Vec::new();
    let mut at = 0;
    for word in command.split(parts) {
        let range = at..at + word.len();
        at = range.end
            + command.get(range.end..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        if !word.is_empty() && is_hidden(word) && !is_member(command, &range) && found.len() < MOST_NAMES {
            found.push(range);
        }
    }
    found
}

/// `item.key`, `.data.key`, `c.env`: a member access in inline code, not a file.
fn is_member(command: &str, word: &Range<usize>) -> bool {
    let name = command.get(word.clone()).unwrap_or_default();
    let Some((stem, "key" | "env")) = name.rsplit_once('.') else { return false };
    let bytes = command.as_bytes();
    let beside = [word.start.checked_sub(1).and_then(|at| bytes.get(at)), bytes.get(word.end)];
    let in_code = beside.into_iter().flatten().any(|byte| b"(){}[],".contains(byte));
    !stem.is_empty() && !name.contains(['/', '\\']) && (stem.starts_with('.') || in_code)
}

/// Removes everything from a command except its program and the file names.
fn without_input(command: &str, files: &[Range<usize>]) -> Vec<Replacement> {
    let first = files.first().map_or(0, |file| file.start);
    let program = program(command, first);
    let kept = program.into_iter().chain(files.iter().cloned());
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

/// The program of the simple command that contains `file`: its first word that is not an assignment.
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

/// Compares a field's name in any spelling: `filePath`, `file_path`, `file-path`.
fn is_one_of(key: &str, names: &[&str]) -> bool {
    let plain = || key.bytes().filter(|byte| !b"_-".contains(byte)).map(|byte| byte.to_ascii_lowercase());
    names.iter().any(|name| plain().eq(name.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_files_are_known_by_their_names() {
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
            ".env.template",
            ".environment",
            ".key",
            "gh/config.yml",
        ] {
            assert!(!is_secret_file(path), "{path}");
        }
    }

    #[test]
    fn calls_are_known_by_the_files_that_their_fields_and_commands_name() {
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
    fn contents_go_and_paths_stay() {
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
    fn of_a_command_the_program_and_the_name_stay() {
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
