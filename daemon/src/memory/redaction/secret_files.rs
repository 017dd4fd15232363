//! Files that are secret as a whole: `.env`, private keys, credential stores. Of a call that opens one, tool and
//! path stay and the content goes.
//!
//! Agents name their fields differently, so the decision rests on what all share: a field whose name speaks of a
//! path, or of a command, holding the name of such a file.

use std::borrow::Cow;

use super::json_text::{Replacement, Role, StringPlace, rewrite};

/// What stands in the place of a content.
const MARK: &str = "[redacted:file-content]";

/// How a call came to a secret file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// A field names it: all else in the call may be its content.
    ByPath,
    /// A command reads or writes it: the output, and a document inside the command, may be.
    ByCommand,
}

/// What may be a secret file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspect {
    /// All strings but paths.
    Everything,
    /// Fields that usually carry a content, in a payload that says other things too.
    ContentFields,
    /// Documents inside a shell command.
    HereDocuments,
}

const PATH_KEYS: [&str; 13] = [
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
];
const COMMAND_KEYS: [&str; 5] = ["command", "cmd", "script", "commandline", "args"];
const CONTENT_KEYS: [&str; 22] = [
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
];
/// Commands that show what is in a file.
const READERS: [&str; 26] = [
    "cat",
    "bat",
    "less",
    "more",
    "head",
    "tail",
    "grep",
    "egrep",
    "rg",
    "sed",
    "awk",
    "cut",
    "sort",
    "strings",
    "xxd",
    "hexdump",
    "od",
    "base64",
    "openssl",
    "tee",
    "diff",
    "nl",
    "tac",
    "type",
    "get-content",
    "show",
];

/// Whether a file of this name holds nothing but secrets. Both kinds of slashes separate folders.
pub(super) fn is_secret_file(path: &str) -> bool {
    let lower = path.trim_end_matches(['/', '\\']).to_ascii_lowercase();
    let mut parts = lower.rsplit(['/', '\\']);
    let name = parts.next().unwrap_or_default();
    let folder = parts.next().unwrap_or_default();
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let samples = ["example", "sample", "template", "dist", "defaults", "schema", "md"];
    if samples.contains(&extension) {
        return false;
    }
    let environment = name == ".env"
        || name == ".envrc"
        || name.starts_with(".env.")
        || (extension == "env" && !stem.starts_with("process") && !stem.starts_with("import"));
    let key = ["pem", "key", "p12", "pfx", "p8", "jks", "keystore", "kdbx", "ppk"].contains(&extension)
        || ((name.starts_with("id_"))
            && ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"].iter().any(|id| name.starts_with(id))
            && extension != "pub");
    let data = ["", "json", "yml", "yaml", "toml", "ini", "xml", "db", "properties"].contains(&extension);
    let stores = ["credentials", ".credentials", "secrets", ".secrets"];
    let credentials = data && (stores.contains(&stem) || stem.starts_with("service-account"));
    let known = [
        ".netrc",
        "_netrc",
        ".pgpass",
        ".pypirc",
        ".git-credentials",
        ".htpasswd",
        ".my.cnf",
        ".dockercfg",
        "kubeconfig",
        ".vault-token",
        "shadow-",
    ];
    environment
        || key
        || credentials
        || known.contains(&name)
        || matches!(
            (folder, name),
            (".kube", "config") | (".docker", "config.json") | ("etc", "shadow" | "gshadow")
        )
}

/// Whether this JSON, a call's input or a whole payload, opens a file whose content is not to be kept.
pub(super) fn access(json: &str, is_hidden: &dyn Fn(&str) -> bool) -> Option<Access> {
    let mut found = None;
    rewrite(json, |StringPlace { role, text }| {
        if let Role::Value { key } | Role::Element { key } = role {
            if is_one_of(key, &PATH_KEYS) && is_hidden(text) {
                found = Some(Access::ByPath);
            } else if found.is_none() && is_one_of(key, &COMMAND_KEYS) && command_opens(text, is_hidden) {
                found = Some(Access::ByCommand);
            }
        }
        Vec::new()
    });
    found
}

/// The JSON with every suspect string's text exchanged for a mark.
pub(super) fn without_contents(json: &str, suspect: Suspect) -> Cow<'_, str> {
    rewrite(json, |StringPlace { role, text }| {
        let key = match role {
            Role::Key => return Vec::new(),
            Role::Value { key } | Role::Element { key } => key,
        };
        let from = match suspect {
            Suspect::Everything if is_one_of(key, &PATH_KEYS) || key == "type" => None,
            Suspect::Everything => Some(0),
            Suspect::ContentFields if is_one_of(key, &CONTENT_KEYS) => Some(0),
            Suspect::ContentFields | Suspect::HereDocuments => {
                is_one_of(key, &COMMAND_KEYS).then(|| here_document(text)).flatten()
            }
        };
        let from = from.filter(|from| text.get(*from..).is_some_and(|rest| !rest.is_empty() && rest != MARK));
        let replace = |from| Replacement { range: from..text.len(), text: Cow::Borrowed(MARK) };
        from.map(replace).into_iter().collect()
    })
}

/// What is said instead of a text that may be a secret file's content.
pub(super) fn mark() -> String {
    MARK.to_owned()
}

/// Where the first document inside a command begins.
fn here_document(command: &str) -> Option<usize> {
    let sign = command.find("<<")?;
    let line = command.get(sign..)?.find('\n')?;
    Some(sign + line + 1)
}

fn command_opens(command: &str, is_hidden: &dyn Fn(&str) -> bool) -> bool {
    let words = || command.split(|c: char| c.is_whitespace() || "'\"`;|&<>=()".contains(c));
    let shows =
        || command.contains('>') || words().any(|word| READERS.contains(&word.to_ascii_lowercase().as_str()));
    words().any(is_hidden) && shows()
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
        ] {
            assert!(!is_secret_file(path), "{path}");
        }
    }

    #[test]
    fn calls_are_known_by_the_paths_in_their_fields() {
        for (json, expected) in [
            (r#"{"file_path":"/p/.env"}"#, Some(Access::ByPath)),
            (r#"{"filePath":"/p/.env","content":"x"}"#, Some(Access::ByPath)),
            (r#"{"paths":["a.rs","id_rsa"]}"#, Some(Access::ByPath)),
            (r#"{"tool_input":{"file_path":"/p/\u002eenv"}}"#, Some(Access::ByPath)),
            (r#"{"command":"cat ./.env | head"}"#, Some(Access::ByCommand)),
            (r#"{"command":"cat > .env <<EOF\nA=b\nEOF"}"#, Some(Access::ByCommand)),
            (r#"{"command":"ls -la .env"}"#, None),
            (r#"{"command":"cat src/env.rs"}"#, None),
            (r#"{"pattern":".env"}"#, None),
            ("not json", None),
        ] {
            assert_eq!(access(json, &is_secret_file), expected, "{json}");
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
                r#"{"command":"cat > .env <<EOF\nA=b\nEOF\n"}"#,
                Suspect::HereDocuments,
                r#"{"command":"cat > .env <<EOF\n[redacted:file-content]"}"#,
            ),
        ] {
            let once = without_contents(json, suspect);
            assert_eq!(once, expected);
            assert_eq!(without_contents(&once, suspect), expected);
        }
    }
}
